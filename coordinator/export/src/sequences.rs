//! Integer sequences as b-files, the form in which the OEIS takes them.

use std::fmt::Write;

use trailtrap_census::read::OrderResult;
use trailtrap_shared::{
    count::statistics::{Counts, Statistics},
    game::About,
};

use crate::choice::{Choice as _, choices};

choices! {
    /// The sequences there are; each by order, or by order and size.
    pub enum Sequence {
        P1Wins = "p1-wins": "Graphs that P1 wins",
        P2Wins = "p2-wins": "Graphs that P2 wins",
        ConnectedP1Wins = "connected-p1-wins": "Connected graphs that P1 wins",
        ConnectedP2Wins = "connected-p2-wins": "Connected graphs that P2 wins",
        LabelledP1Wins = "labelled-p1-wins": "Labelled graphs that P1 wins",
        LabelledP2Wins = "labelled-p2-wins": "Labelled graphs that P2 wins",
        LabelledConnectedP1Wins = "labelled-connected-p1-wins":
            "Connected labelled graphs that P1 wins",
        LabelledConnectedP2Wins = "labelled-connected-p2-wins":
            "Connected labelled graphs that P2 wins",
    }
}

impl Sequence {
    /// The file of the sequence in a bundle.
    pub fn file_name(self, by_size: bool) -> String {
        format!("{}{}.txt", self.name(), if by_size { "-by-size" } else { "" })
    }

    fn counts(self, statistics: &Statistics) -> &Counts {
        match self {
            Sequence::P1Wins | Sequence::P2Wins => &statistics.classes.all,
            Sequence::ConnectedP1Wins | Sequence::ConnectedP2Wins => &statistics.classes.connected,
            Sequence::LabelledP1Wins | Sequence::LabelledP2Wins => &statistics.labelled.all,
            Sequence::LabelledConnectedP1Wins | Sequence::LabelledConnectedP2Wins => {
                &statistics.labelled.connected
            }
        }
    }

    fn term(self, statistics: &Statistics) -> u128 {
        let counts = self.counts(statistics);
        match self {
            Sequence::P1Wins
            | Sequence::ConnectedP1Wins
            | Sequence::LabelledP1Wins
            | Sequence::LabelledConnectedP1Wins => counts.listed,
            _ => counts.others(),
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Sequence::P1Wins => "graphs on n unlabeled nodes that the first player wins",
            Sequence::P2Wins => "graphs on n unlabeled nodes that the second player wins",
            Sequence::ConnectedP1Wins => {
                "connected graphs on n unlabeled nodes that the first player wins"
            }
            Sequence::ConnectedP2Wins => {
                "connected graphs on n unlabeled nodes that the second player wins"
            }
            Sequence::LabelledP1Wins => "graphs on n labeled nodes that the first player wins",
            Sequence::LabelledP2Wins => "graphs on n labeled nodes that the second player wins",
            Sequence::LabelledConnectedP1Wins => {
                "connected graphs on n labeled nodes that the first player wins"
            }
            Sequence::LabelledConnectedP2Wins => {
                "connected graphs on n labeled nodes that the second player wins"
            }
        }
    }
}

/// The b-file of a sequence: one term for each order from 1 on, or, `by_size`, the rows of the
/// triangle T(n, m), 0 ≤ m ≤ n(n − 1)/2, one after the other. The first term has index `offset`.
/// Orders have to begin with 1.
pub fn b_file(
    about: &About,
    sequence: Sequence,
    by_size: bool,
    offset: i64,
    results: &[OrderResult],
) -> String {
    let shape = match by_size {
        true => {
            "T(n, m), n >= 1, 0 <= m <= n(n-1)/2, read by rows, m being the number of edges: \
             number of "
        }
        false => "a(n): number of ",
    };
    let terms: Vec<u128> = match by_size {
        true => results
            .iter()
            .flat_map(|result| result.by_size.iter().map(|size| sequence.term(&size.statistics)))
            .collect(),
        false => results.iter().map(|result| sequence.term(&result.total().statistics)).collect(),
    };
    let mut text = format!(
        "# {shape}{} in the game {} ({}).\n",
        sequence.meaning(),
        about.title,
        about.reference
    );
    for (index, term) in (offset..).zip(terms) {
        writeln!(text, "{index} {term}").expect("strings can be written to");
    }
    text
}
