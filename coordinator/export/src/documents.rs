//! What a bundle says of itself: README, citation, metadata for Zenodo.

use crate::{
    formats,
    manifest::{ListEntry, OrderEntry, Program, Trust},
    shards,
    table::{PERCENT_ROUNDING, SHARE_ROUNDING},
};

/// The largest order of which forward search solves most graphs in a moment.
const SEARCHED_ORDER: usize = 8;

/// Title of the data.
pub const TITLE: &str = "Exact census of the game Trail Trap over all graphs of small order";
const ABSTRACT: &str = "Who wins the game Trail Trap on every graph with up to a given number of \
                        vertices: exact counts by \
                        number of edges, degree sequence and other properties, lists of the \
                        graphs that the first player \
                        wins, and digests of the outcome of every position.";

/// `CITATION.cff`.
pub fn citation(program: &Program) -> String {
    format!(
        "cff-version: 1.2.0
message: If you use these results, please cite them and the paper that defines the game.
type: dataset
title: \"{TITLE}\"
abstract: \"{ABSTRACT}\"
authors:
  - name: The trailtrap authors
version: {}
commit: \"{}\"
license: MIT
references:
  - type: article
    title: \"Trail Trap: a variant of Partizan Edge Geography\"
    authors:
      - family-names: Buchanan
      - family-names: Carr
      - family-names: Clifton
      - family-names: Hartke
      - family-names: Iršič
      - family-names: Sieger
      - family-names: Whitman
    url: https://arxiv.org/abs/2405.05195
",
        program.version, program.commit,
    )
}

/// `.zenodo.json` of orders up to `last`.
pub fn zenodo(last: usize, program: &Program) -> String {
    let metadata = serde_json::json!({
        "title": TITLE,
        "upload_type": "dataset",
        "description": format!("{ABSTRACT} Orders 1 to {last}."),
        "creators": [{"name": "The trailtrap authors"}],
        "license": "MIT",
        "version": program.version,
        "keywords": [
            "combinatorial games",
            "Trail Trap",
            "graph enumeration",
            "exhaustive computation",
        ],
        "related_identifiers": [
            {
                "identifier": "arXiv:2405.05195",
                "relation": "references",
                "resource_type": "publication-article",
            }
        ],
    });
    serde_json::to_string_pretty(&metadata).expect("plain data") + "\n"
}

/// `README.md`; `table` is that of the orders.
pub fn readme(orders: &[OrderEntry], table: &str) -> String {
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
    let columns = shards::describe()
        .into_iter()
        .map(|(name, meaning)| format!("| `{name}` | {} |\n", formats::escaped(meaning)));
    let last = orders.len();
    [
        ("{title}", TITLE.to_owned()),
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
