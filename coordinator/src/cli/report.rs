//! Results as people and scripts read them. Equal results give the same bytes.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use trailtrap_census::records::OrderResult;
use trailtrap_shared::count::{
    digest::Digest,
    statistics::{Counts, Statistics, Weighing},
};

/// What `trailtrap census --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CensusReport {
    pub orders: Vec<OrderReport>,
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrderReport {
    pub order: usize,
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

/// Sums over positions that do not depend on any labelling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SumsReport<T> {
    /// Rooted positions that the player to move wins.
    pub won_positions: T,
    /// Ends of P1's first move that P2 beats.
    pub refuted_ends: T,
    /// First moves that win for P1.
    pub winning_first_moves: T,
}

impl CensusReport {
    /// The report of these orders.
    pub fn new(results: &[OrderResult]) -> Self {
        let orders = results.iter().map(|result| {
            let (sum, digest) = result.total();
            OrderReport {
                order: result.order,
                counts: CountsReport::new(&sum),
                digest,
                by_size: result
                    .by_size
                    .iter()
                    .enumerate()
                    .map(|(size, (statistics, digest))| SizeReport {
                        size,
                        counts: CountsReport::new(statistics),
                        digest: *digest,
                    })
                    .collect(),
            }
        });
        CensusReport { orders: orders.collect() }
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("reports are plain data")
    }

    /// The paper's Table 1, continued, and the same for all graphs. Percentages are rounded to two
    /// digits after the point.
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let header = [
            "order",
            "connected",
            "P1-win",
            "P2-win",
            "% P2-win",
            "all graphs",
            "P1-win",
            "P2-win",
            "% P2-win",
        ];
        table.set_header(header);
        for OrderReport { order, counts, .. } in &self.orders {
            let connected = &counts.connected;
            table.add_row(
                [
                    order.to_string(),
                    connected.graphs.to_string(),
                    connected.p1_wins.to_string(),
                    connected.p2_wins.to_string(),
                    percentage(connected.p2_wins, connected.graphs),
                    counts.graphs.to_string(),
                    counts.p1_wins.to_string(),
                    counts.p2_wins.to_string(),
                    percentage(counts.p2_wins, counts.graphs),
                ]
                .map(|text| Cell::new(text).set_alignment(CellAlignment::Right)),
            );
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.to_string()
    }
}

impl CountsReport {
    fn new(statistics: &Statistics) -> Self {
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
                    sums: sums(labelled, |n| n.to_string()),
                }
            },
            sums: sums(classes, |n| n as u64),
        }
    }
}

fn winners<T>(counts: &Counts, number: impl Fn(u128) -> T) -> Winners<T> {
    Winners {
        graphs: number(counts.graphs),
        p1_wins: number(counts.p1_wins),
        p2_wins: number(counts.p2_wins()),
    }
}

fn sums<T>(weighing: &Weighing, number: impl Fn(u128) -> T) -> SumsReport<T> {
    SumsReport {
        won_positions: number(weighing.sums.won_positions),
        refuted_ends: number(weighing.sums.refuted_ends),
        winning_first_moves: number(weighing.sums.winning_first_moves),
    }
}

/// `part` of `whole` in percent, rounded half up to two digits.
fn percentage(part: u64, whole: u64) -> String {
    let hundredths =
        (u128::from(part) * 20_000 + u128::from(whole)) / (2 * u128::from(whole.max(1)));
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
        assert_eq!(percentage(1, 32), "3.13");
        assert_eq!(percentage(u64::MAX - 1, u64::MAX), "100.00");
    }
}
