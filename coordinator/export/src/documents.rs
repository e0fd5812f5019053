//! What a bundle says of itself: README, citation, metadata for Zenodo.

use trailtrap_shared::game::{About, GameName};

use crate::{
    formats,
    manifest::{ListEntry, OrderEntry, Program, Trust},
    shards,
    table::{PERCENT_ROUNDING, SHARE_ROUNDING},
};

/// The largest order of which forward search solves most graphs in a moment.
const SEARCHED_ORDER: usize = 8;

/// Title of the data.
pub fn title(about: &About) -> String {
    format!("Exact census of the game {} over all graphs of small order", about.title)
}

fn summary(about: &About) -> String {
    format!(
        "Who wins the game {} on every graph with up to a given number of vertices: exact counts \
         by number of edges, degree sequence and other properties, lists of the graphs that the \
         first player wins, and digests of the outcome of every position.",
        about.title
    )
}

/// `CITATION.cff`.
pub fn citation(about: &About, program: &Program) -> String {
    let (title, summary) = (title(about), summary(about));
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
pub fn zenodo(about: &About, last: usize, program: &Program) -> String {
    let (title, summary) = (title(about), summary(about));
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

/// `README.md`; `table` is that of the orders.
pub fn readme(about: &About, orders: &[OrderEntry], table: &str) -> String {
    let lists = orders.iter().map(|entry| {
        let ListEntry { graphs, bytes, sha256, file } = &entry.p1_win_list;
        let file =
            file.as_deref().map_or_else(|| "not included".to_owned(), |file| format!("`{file}`"));
        format!("| {} | {graphs} | {bytes} | `{sha256}` | {file} |\n", entry.order)
    });
    let trust = orders.iter().map(|OrderEntry { order, units, trust, .. }| {
        let Trust { replication, units_confirmed, records_tried, alarms_settled } = trust;
        format!(
            "| {order} | {replication} | {units_confirmed} of {units} | {records_tried} | \
                 {alarms_settled} |\n"
        )
    });
    let columns = shards::describe(about)
        .into_iter()
        .map(|(name, meaning)| format!("| `{name}` | {} |\n", formats::escaped(&meaning)));
    let last = orders.len();
    // The flag that names the game, where it is not the one that commands take by default.
    let is_default = about.name == GameName::default().about().name;
    let flag = if is_default { String::new() } else { format!(" --game {}", about.name) };
    [
        ("{title}", title(about)),
        ("{rules}", about.rules.to_owned()),
        ("{flag}", flag),
        ("{last}", last.to_string()),
        ("{table}", table.to_owned()),
        ("{share_rounding}", SHARE_ROUNDING.to_owned()),
        ("{percent_rounding}", PERCENT_ROUNDING.to_owned()),
        ("{lists}", lists.collect()),
        ("{trust}", trust.collect()),
        ("{sample}", format!("{:02}", last.min(SEARCHED_ORDER))),
        ("{columns}", columns.collect()),
    ]
    .into_iter()
    .fold(include_str!("bundle.md").to_owned(), |text, (name, value)| text.replace(name, &value))
}
