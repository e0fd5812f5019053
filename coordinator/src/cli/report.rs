//! Results as people and scripts read them. Equal results give the same bytes.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Serialize, Serializer};
use trailtrap_census::{read::status::class_name, records::OrderResult};
use trailtrap_shared::{
    class::Class,
    count::{
        digest::Digest,
        statistics::{Counts, Statistics, Weighing},
    },
    game::{About, GameName},
};

/// A line of what `plan` and `plan sample` tell.
pub fn line(what: &str, number: String) -> String {
    format!("  {what:26}{number}\n")
}

/// Seconds of a core, for people.
pub fn core_hours(seconds: f64) -> String {
    format!("{:.3} core-hours", seconds / 3600.0)
}

/// What `trailtrap census --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct CensusReport {
    /// The name of the game, if it is another one than the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub game: Option<&'static str>,
    /// The name of the class of graphs, if it is not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    about: &'static About,
    pub orders: Vec<OrderReport>,
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrderReport {
    pub order: usize,
    /// Graphs with more edges were left out, if not all were done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<usize>,
    #[serde(flatten)]
    pub counts: CountsReport,
    pub digest: Digest,
    pub by_size: Vec<SizeReport>,
}

/// The graphs of one order and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeReport {
    pub size: usize,
    #[serde(flatten)]
    pub counts: CountsReport,
    pub digest: Digest,
}

/// Counts of a set of graphs: isomorphism classes as numbers, labelled graphs as strings, because
/// they may be larger than what readers of JSON take for a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountsReport {
    pub graphs: u64,
    pub p1_wins: u64,
    pub p2_wins: u64,
    pub connected: Winners<u64>,
    pub labelled: LabelledReport,
    pub sums: SumsReport<u64>,
}

/// Labelled graphs, that is classes weighted by n!/|Aut|.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelledReport {
    pub graphs: String,
    pub p1_wins: String,
    pub p2_wins: String,
    pub connected: Winners<String>,
    pub sums: SumsReport<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Winners<T> {
    pub graphs: T,
    pub p1_wins: T,
    pub p2_wins: T,
}

/// The sums of the game, under their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumsReport<T>(Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for SumsReport<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, sum)| (key, sum)))
    }
}

impl CensusReport {
    /// The report of these orders.
    pub fn new(game: GameName, class: Class, results: &[OrderResult]) -> Self {
        let about = game.about();
        let orders = results.iter().map(|result| {
            let total = result.total();
            OrderReport {
                order: result.order,
                max_size: result.limit(),
                counts: CountsReport::new(about, &total.statistics),
                digest: total.digest,
                by_size: result
                    .by_size
                    .iter()
                    .enumerate()
                    .map(|(size, summary)| SizeReport {
                        size,
                        counts: CountsReport::new(about, &summary.statistics),
                        digest: summary.digest,
                    })
                    .collect(),
            }
        });
        CensusReport {
            game: (game != GameName::default()).then_some(about.name),
            class: class_name(class),
            title: format!("all {}", class.title()),
            about,
            orders: orders.collect(),
        }
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("reports are plain data")
    }

    /// The paper's Table 1, continued, and the same for all graphs of the class. Percentages are
    /// rounded to two digits after the point.
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let [listed, other] = &self.about.verdicts;
        let share = format!("% {}", other.heading);
        let verdicts = [listed.heading, other.heading, &share];
        let shown: Vec<(usize, &str)> = self
            .about
            .sums
            .iter()
            .enumerate()
            .filter_map(|(i, sum)| sum.heading.map(|heading| (i, heading)))
            .collect();
        let header =
            ["order", "connected"].into_iter().chain(verdicts).chain([self.title.as_str()]);
        let sums = shown.iter().map(|(_, heading)| *heading);
        table.set_header(header.chain(verdicts).chain(sums));
        for OrderReport { order, max_size, counts, .. } in &self.orders {
            let connected = &counts.connected;
            let cells = [
                match max_size {
                    Some(max_size) => format!("{order}, up to {max_size} edges"),
                    None => order.to_string(),
                },
                connected.graphs.to_string(),
                connected.p1_wins.to_string(),
                connected.p2_wins.to_string(),
                percentage(connected.p2_wins, connected.graphs),
                counts.graphs.to_string(),
                counts.p1_wins.to_string(),
                counts.p2_wins.to_string(),
                percentage(counts.p2_wins, counts.graphs),
            ];
            let sums = shown.iter().map(|&(i, _)| counts.sums.0[i].1.to_string());
            let cells = cells.into_iter().chain(sums);
            table.add_row(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.to_string()
    }
}

impl CountsReport {
    fn new(about: &About, statistics: &Statistics) -> Self {
        let Statistics { classes, labelled, .. } = statistics;
        let all = winners(&classes.all, |n| n as u64);
        CountsReport {
            graphs: all.graphs,
            p1_wins: all.p1_wins,
            p2_wins: all.p2_wins,
            connected: winners(&classes.connected, |n| n as u64),
            labelled: {
                let all = winners(&labelled.all, |n| n.to_string());
                LabelledReport {
                    graphs: all.graphs,
                    p1_wins: all.p1_wins,
                    p2_wins: all.p2_wins,
                    connected: winners(&labelled.connected, |n| n.to_string()),
                    sums: sums(about, labelled, |n| n.to_string()),
                }
            },
            sums: sums(about, classes, |n| n as u64),
        }
    }
}

fn winners<T>(counts: &Counts, number: impl Fn(u128) -> T) -> Winners<T> {
    Winners {
        graphs: number(counts.graphs),
        p1_wins: number(counts.listed),
        p2_wins: number(counts.others()),
    }
}

fn sums<T>(about: &About, weighing: &Weighing, number: impl Fn(u128) -> T) -> SumsReport<T> {
    let sums = about.sums.iter().zip(weighing.sums.0);
    SumsReport(sums.map(|(name, sum)| (name.key, number(sum))).collect())
}

/// `part` of `whole` in percent, rounded half up to two digits; nothing of nothing.
fn percentage(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    let hundredths = (u128::from(part) * 20_000 + u128::from(whole)) / (2 * u128::from(whole));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_half_up() {
        assert_eq!(percentage(734, 853), "86.05");
        assert_eq!(percentage(1, 1), "100.00");
        assert_eq!(percentage(0, 7), "0.00");
        assert_eq!(percentage(0, 0), "");
        assert_eq!(percentage(1, 32), "3.13");
        assert_eq!(percentage(u64::MAX - 1, u64::MAX), "100.00");
    }
}
