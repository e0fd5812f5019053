//! Tables for LaTeX: booktabs and siunitx, to be read by `\input` or, with a frame around them, on
//! their own.

use crate::table::{PERCENT_ROUNDING, Table, Value};

/// Tables with more rows than this go over several pages.
const ROWS_OF_A_PAGE: usize = 45;

/// Ten columns of large numbers have to fit on a page.
const FONT: &str = "\\footnotesize\\setlength{\\tabcolsep}{4pt}";

/// What a document needs before `\begin{document}`.
const PREAMBLE: &str = "\\usepackage[margin=18mm]{geometry}\n\\usepackage{booktabs}\n\
                        \\usepackage{longtable}\n\\usepackage{siunitx}\n";

/// A document with this body.
pub fn document(body: &str) -> String {
    format!(
        "\\documentclass[a4paper]{{article}}\n\
         {PREAMBLE}\\begin{{document}}\n{body}\\end{{document}}\n"
    )
}

/// The command that reads a table.
pub fn input(path: &str) -> String {
    format!("\\input{{{path}}}\n")
}

/// A table for `\input`.
pub fn fragment(table: &Table) -> String {
    let shown = table.shown();
    let specification: String = shown.iter().map(|&i| column_type(table, i)).collect();
    let caption = format!(
        "\\caption{{{} Percentages are {PERCENT_ROUNDING}.}}\\label{{tab:trailtrap-{}}}",
        escape(&table.caption),
        table.name
    );
    let head = format!("\\toprule\n{}\\midrule\n", head(table, &shown));
    let line = |row: &Vec<Value>| {
        let cells = shown.iter().map(|&i| cell(table, i, &row[i]));
        cells.collect::<Vec<_>>().join(" & ") + " \\\\\n"
    };
    let mut body: String = table.rows.iter().map(line).collect();
    if let Some(total) = &table.total {
        body += &format!("\\midrule\n{}", line(total));
    }
    match table.rows.len() > ROWS_OF_A_PAGE {
        false => format!(
            "% Needs \\usepackage{{booktabs,siunitx}}.\n\
             \\begin{{table}}\n\\centering{FONT}\n{caption}\n\
             \\begin{{tabular}}{{{specification}}}\n{head}{body}\
             \\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
        ),
        true => format!(
            "% Needs \\usepackage{{booktabs,siunitx,longtable}}.\n\
             {{{FONT}\n\\begin{{longtable}}{{{specification}}}\n\
             {caption}\\\\\n{head}\\endfirsthead\n{head}\\endhead\n\
             \\bottomrule\n\\endfoot\n{body}\\end{{longtable}}\n}}\n"
        ),
    }
}

/// The groups of columns, and their headings.
fn head(table: &Table, shown: &[usize]) -> String {
    let mut spans: Vec<(&str, usize, usize)> = Vec::new();
    for (position, &i) in shown.iter().enumerate() {
        let group = table.columns[i].group;
        match spans.last_mut() {
            Some((last, _, end)) if *last == group => *end = position,
            _ => spans.push((group, position, position)),
        }
    }
    let groups: Vec<String> = spans
        .iter()
        .map(|(group, start, end)| match *group {
            "" => " & ".repeat(end - start),
            group => format!("\\multicolumn{{{}}}{{c}}{{{}}}", end - start + 1, escape(group)),
        })
        .collect();
    let rules = spans.iter().filter(|(group, ..)| !group.is_empty());
    let rules: String = rules
        .map(|(_, start, end)| format!("\\cmidrule(lr){{{}-{}}}", start + 1, end + 1))
        .collect();
    let headings = shown
        .iter()
        .map(|&i| format!("{{{}}}", heading(table.columns[i].heading.unwrap_or_default())));
    let headings = headings.collect::<Vec<_>>().join(" & ");
    match rules.is_empty() {
        true => format!("{headings} \\\\\n"),
        false => format!("{} \\\\\n{rules}\n{headings} \\\\\n", groups.join(" & ")),
    }
}

fn heading(text: &str) -> String {
    match text {
        "n" | "m" => format!("${text}$"),
        "|Aut|" => "$|\\mathrm{Aut}|$".to_owned(),
        other => escape(other),
    }
}

/// An `S` column as wide as its widest number, or a column of text.
fn column_type(table: &Table, i: usize) -> String {
    let cells = || table.rows.iter().chain(&table.total).map(|row| &row[i]);
    if !table.rows.iter().all(|row| row[i].is_numeric()) {
        return "l".to_owned();
    }
    let parts = cells().filter(|cell| cell.is_numeric()).filter_map(Value::readable);
    let (mut integer, mut fraction) = (1, 0);
    for text in parts {
        let (before, after) = text.split_once('.').unwrap_or((&text, ""));
        (integer, fraction) = (integer.max(before.len()), fraction.max(after.len()));
    }
    match fraction {
        0 => format!("S[table-format={integer}]"),
        _ => format!("S[table-format={integer}.{fraction}]"),
    }
}

fn cell(table: &Table, i: usize, value: &Value) -> String {
    let text = value.readable();
    match (text, value.is_numeric()) {
        (Some(text), true) => text,
        (None, _) => "{--}".to_owned(),
        // Text in a column of numbers is kept from siunitx by braces.
        (Some(text), false) if table.rows.iter().all(|row| row[i].is_numeric()) => {
            format!("{{{}}}", escape(&text))
        }
        (Some(text), false) => escape(&text),
    }
}

fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        match c {
            '%' | '&' | '#' | '_' | '{' | '}' | '$' => escaped.extend(['\\', c]),
            '|' => escaped += "$|$",
            other => escaped.push(other),
        }
        escaped
    })
}
