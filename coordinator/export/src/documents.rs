//! What a bundle says of itself: README, citation, metadata for Zenodo.

use trailtrap_shared::{
    class::Class,
    game::{About, GameName},
};

use crate::{
    formats,
    manifest::{ListEntry, OrderEntry, Program, Trust},
    shards,
    table::{PERCENT_ROUNDING, SHARE_ROUNDING},
};

/// The largest order of which forward search solves most graphs in a moment.
const SEARCHED_ORDER: usize = 8;

/// Title of the data.
pub fn title(about: &About, class: Class) -> String {
    let graphs = class.title();
    format!("Exact census of the game {} over all {graphs} of small order", about.title)
}

/// The game, and where it is defined.
pub fn game(about: &About) -> String {
    format!("{} ({})", about.title, about.reference)
}

fn summary(about: &About, class: Class) -> String {
    let graphs = match class {
        Class::All => "every graph".to_owned(),
        _ => format!("all {}", class.title()),
    };
    format!(
        "Who wins the game {} on {graphs} with up to a given number of vertices: exact counts by \
         number of edges, degree sequence and other properties, lists of the graphs that the \
         first player wins, and digests of the outcome of every position.",
        about.title
    )
}

/// What every order passed before it was reported.
pub fn checks(class: Class) -> String {
    const BY_DEGREES: &str =
        "sums of n!/|Aut| by degree sequence against numbers of labelled graphs";
    match class {
        Class::All => format!(
            "numbers of graphs by size, all and connected, against Polya counting; {BY_DEGREES}"
        ),
        class if class.is_by_degrees() => BY_DEGREES.to_owned(),
        class => {
            let known = class.known().iter().map(|known| format!("; numbers of {}", known.what));
            format!(
                "sums of n!/|Aut| by degree sequence against those with one edge less, by the ways \
                 to add an edge within the class{}",
                known.collect::<String>()
            )
        }
    }
}

/// Whether it is the game that commands take if none is named.
fn is_default(about: &About) -> bool {
    about.name == GameName::default().about().name
}

/// The title of a picture: with the game, where it is not the one that commands take if none is
/// named.
pub fn title_of_picture(about: &About, title: String) -> String {
    match is_default(about) {
        true => title,
        false => format!("{}: {title}", about.title),
    }
}

/// The list of P1-win graphs in a bundle. Its name says of which game and which graphs they are: the
/// file may be passed on alone.
pub fn list_file(about: &About, class: Class, order: usize) -> String {
    let game = match is_default(about) {
        true => String::new(),
        false => format!("{}.", about.name),
    };
    let class = match class {
        Class::All => String::new(),
        _ => format!("{}.", class.file_stem()),
    };
    format!("graphs/trailtrap.{game}{class}n{order:02}.p1.g6.gz")
}

/// `CITATION.cff`.
pub fn citation(about: &About, class: Class, program: &Program) -> String {
    let (title, summary) = (title(about, class), summary(about, class));
    format!(
        "cff-version: 1.2.0
message: If you use these results, please cite them and the paper that defines the game.
type: dataset
title: \"{title}\"
abstract: \"{summary}\"
authors:
  - name: The trailtrap authors
version: {}
commit: \"{}\"
license: MIT
references:
{}",
        program.version, program.commit, about.citation,
    )
}

/// `.zenodo.json` of orders up to `last`.
pub fn zenodo(about: &About, class: Class, last: usize, program: &Program) -> String {
    let (title, summary) = (title(about, class), summary(about, class));
    let related: Vec<serde_json::Value> = about
        .identifier
        .iter()
        .map(|identifier| {
            serde_json::json!({
                "identifier": identifier,
                "relation": "references",
                "resource_type": "publication-article",
            })
        })
        .collect();
    let metadata = serde_json::json!({
        "title": title,
        "upload_type": "dataset",
        "description": format!("{summary} Orders 1 to {last}."),
        "creators": [{"name": "The trailtrap authors"}],
        "license": "MIT",
        "version": program.version,
        "keywords": [
            "combinatorial games",
            about.title,
            "graph enumeration",
            "exhaustive computation",
        ],
        "related_identifiers": related,
    });
    serde_json::to_string_pretty(&metadata).expect("plain data") + "\n"
}

/// How a reader checks the list of an order.
fn list_check(about: &About, class: Class, order: usize, flag: &str) -> String {
    let file = list_file(about, class, order);
    format!(
        "A list is canonical, sorted, and without repetition (the digest is the one above), and its \
         graphs are P1-wins, by forward\nsearch, which shares nothing with the census but the \
         rules:\n\n    zcat {file} | nauty-labelg -q | LC_ALL=C sort -u | sha256sum\n    zcat {file} | \
         shuf -n 20 | trailtrap solve{flag}\n\n"
    )
}

/// The table of the lists of P1-win graphs in `README.md`.
pub fn lists(orders: &[OrderEntry]) -> String {
    let rows = orders.iter().map(|entry| {
        let ListEntry { graphs, bytes, sha256, file } = &entry.p1_win_list;
        let file =
            file.as_deref().map_or_else(|| "not included".to_owned(), |file| format!("`{file}`"));
        format!("| {} | {graphs} | {bytes} | `{sha256}` | {file} |\n", entry.order)
    });
    let heading = "| order | graphs | bytes | SHA-256 | file |\n|---|---|---|---|---|\n";
    heading.to_owned() + &rows.collect::<String>()
}

/// The table of what was done against wrong results in `README.md`.
pub fn trust(orders: &[OrderEntry]) -> String {
    let rows = orders.iter().map(|OrderEntry { order, units, trust, .. }| {
        let Trust { replication, units_confirmed, records_tried, alarms_settled } = trust;
        format!(
            "| {order} | {replication} | {units_confirmed} of {units} | {records_tried} | \
                 {alarms_settled} |\n"
        )
    });
    let heading = "| order | replication | units solved again by another worker | records derived \
                   again | alarms, settled |\n|---|---|---|---|---|\n";
    heading.to_owned() + &rows.collect::<String>()
}

/// `README.md`; `table` is that of the orders.
pub fn readme(about: &About, class: Class, orders: &[OrderEntry], table: &str) -> String {
    let columns = shards::describe(about, class)
        .into_iter()
        .map(|(name, meaning)| format!("| `{name}` | {} |\n", formats::escaped(&meaning)));
    let last = orders.len();
    // The last of those that forward search is quick enough for.
    let mut included = orders.iter().filter(|entry| entry.order <= SEARCHED_ORDER);
    let sample = included.rfind(|entry| entry.p1_win_list.file.is_some()).map(|entry| entry.order);
    // The flag that names the game, where it is not the one that commands take by default.
    let flag = if is_default(about) { String::new() } else { format!(" --game {}", about.name) };
    let class_flag = match class {
        Class::All => String::new(),
        _ => format!(" --class {class}"),
    };
    let shares = match class {
        Class::All => "probabilities in G(n, 1/2)",
        _ => "of labelled graphs of the class",
    };
    [
        ("{title}", title(about, class)),
        ("{rules}", about.rules.to_owned()),
        ("{flag}", flag.clone()),
        ("{class_flag}", class_flag),
        ("{shares}", shares.to_owned()),
        ("{checks}", checks(class)),
        ("{last}", last.to_string()),
        ("{table}", table.to_owned()),
        ("{share_rounding}", SHARE_ROUNDING.to_owned()),
        ("{percent_rounding}", PERCENT_ROUNDING.to_owned()),
        ("{lists}", lists(orders)),
        ("{trust}", trust(orders)),
        (
            "{list_check}",
            sample.map_or_else(String::new, |order| list_check(about, class, order, &flag)),
        ),
        ("{columns}", columns.collect()),
    ]
    .into_iter()
    .fold(include_str!("bundle.md").to_owned(), |text, (name, value)| text.replace(name, &value))
}
