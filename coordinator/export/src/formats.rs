//! Tables as CSV, JSON and Markdown, and what else they can be written as.

use std::path::Path;

use comfy_table::{Cell, CellAlignment, presets};
use serde_json::{Number, json};

use crate::{
    ExportError,
    choice::choices,
    columnar, latex,
    table::{PERCENT_ROUNDING, SHARE_ROUNDING, Table, Value},
};

choices! {
    /// Formats of tables.
    pub enum TableFormat {
        Latex = "latex": "For \\input; needs booktabs, siunitx, and for long tables longtable",
        LatexDocument = "latex-document": "A document of its own",
        Csv = "csv": "",
        Json = "json": "",
        Markdown = "markdown": "",
        Parquet = "parquet": "",
    }
}

impl TableFormat {
    /// The format that the name of a file asks for.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "tex" => Some(TableFormat::Latex),
            "csv" => Some(TableFormat::Csv),
            "json" => Some(TableFormat::Json),
            "md" | "txt" => Some(TableFormat::Markdown),
            "parquet" => Some(TableFormat::Parquet),
            _ => None,
        }
    }
}

/// The bytes of a table, text but for Parquet.
///
/// # Errors
/// If a number does not fit into a column of Parquet.
pub fn render(table: &Table, format: TableFormat) -> Result<Vec<u8>, ExportError> {
    let text = match format {
        TableFormat::Latex => latex::fragment(table),
        TableFormat::LatexDocument => latex::document(&latex::fragment(table)),
        TableFormat::Csv => csv(table),
        TableFormat::Json => json(table),
        TableFormat::Markdown => markdown(table),
        TableFormat::Parquet => return columnar::table(table),
    };
    Ok(text.into_bytes())
}

/// Exact integers, one header line, LF. Fields that need it are quoted as RFC 4180 says.
pub fn csv(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(Value::plain).collect());
    for line in std::iter::once(header).chain(rows) {
        writer
            .write_record(line)
            .expect("memory can be written to, and lines have equally many fields");
    }
    let bytes = writer.into_inner().expect("memory can be written to");
    String::from_utf8(bytes).expect("fields are text")
}

/// One object: what the columns mean, and the rows, one a line. Counts of labelled graphs are
/// strings, because they may be larger than what readers of JSON take for a number.
pub fn json(table: &Table) -> String {
    let value = |value: &Value| match value {
        Value::Number(number) => json!(number),
        Value::Named(number, _) => json!(number),
        Value::Large(number) => json!(number.to_string()),
        Value::Text(text) => json!(text),
        Value::Estimate(number) => json!(number),
        Value::Nothing => json!(null),
        // The shortest digits that read as this number are those of its rounding.
        Value::Share { .. } => {
            json!(value.plain().parse::<f64>().ok().and_then(Number::from_f64))
        }
    };
    let columns: Vec<_> = table
        .columns
        .iter()
        .map(|column| json!({"name": column.name, "meaning": column.meaning}))
        .collect();
    let rows: Vec<String> = table
        .rows
        .iter()
        .map(|row| {
            let names = table.columns.iter().map(|column| &column.name);
            let fields =
                names.zip(row).map(|(name, cell)| format!("{}:{}", json!(name), value(cell)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        })
        .collect();
    let is_share = |value: &Value| matches!(value, Value::Share { .. });
    let rounding = match table.rows.iter().flatten().any(is_share) {
        true => format!("\"rounding\":{},\n", json!(format!("shares are {SHARE_ROUNDING}"))),
        // Estimates are not rounded for programs.
        false => String::new(),
    };
    format!(
        "{{\"table\":{},\n\"caption\":{},\n{rounding}\"columns\":{},\n\
         \"rows\":[\n{}\n]}}\n",
        json!(table.name),
        json!(table.caption),
        json!(columns),
        rows.join(",\n")
    )
}

/// A table as GitHub, pandoc and others read it.
pub fn markdown(table: &Table) -> String {
    let shown = table.shown();
    let mut text = comfy_table::Table::new();
    text.load_style(presets::ASCII_MARKDOWN);
    text.set_header(shown.iter().map(|&i| {
        let column = &table.columns[i];
        match column.group {
            "" => escaped(column.heading.unwrap_or_default()),
            group => escaped(&format!("{group}: {}", column.heading.unwrap_or_default())),
        }
    }));
    let total = table.total.iter();
    for row in table.rows.iter().chain(total) {
        text.add_row(shown.iter().map(|&i| {
            let right =
                if row[i].is_numeric() { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(escaped(&row[i].readable().unwrap_or_default())).set_alignment(right)
        }));
    }
    for (column, &i) in text.column_iter_mut().zip(&shown) {
        if table.rows.iter().all(|row| row[i].is_numeric()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{} Percentages are {PERCENT_ROUNDING}.\n\n{text}\n", table.caption)
}

/// Text for a cell of Markdown, in which bars separate cells.
pub fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
