//! Integer sequences as b-files, the form in which the OEIS takes them.

use std::fmt::Write;

use trailtrap_census::read::OrderResult;
use trailtrap_shared::{
    class::Class,
    count::statistics::{Counts, Statistics},
    game::About,
};

use crate::{
    choice::{Choice as _, choices},
    columns::sizes,
};

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

    fn meaning(self, class: Class) -> String {
        let (is_connected, is_labelled, winner) = match self {
            Sequence::P1Wins => (false, false, "first"),
            Sequence::P2Wins => (false, false, "second"),
            Sequence::ConnectedP1Wins => (true, false, "first"),
            Sequence::ConnectedP2Wins => (true, false, "second"),
            Sequence::LabelledP1Wins => (false, true, "first"),
            Sequence::LabelledP2Wins => (false, true, "second"),
            Sequence::LabelledConnectedP1Wins => (true, true, "first"),
            Sequence::LabelledConnectedP2Wins => (true, true, "second"),
        };
        let connected = if is_connected { "connected " } else { "" };
        let labels = if is_labelled { "labeled" } else { "unlabeled" };
        format!("{connected}{} on n {labels} nodes that the {winner} player wins", class.title())
    }
}

/// The b-file of a sequence: one term for each order from 1 on, or, `by_size`, the rows of the
/// triangle T(n, m), 0 ≤ m ≤ n(n − 1)/2, one after the other; of a class, as far as its graphs of
/// an order have edges. The first term has index `offset`. Orders have to begin with 1.
pub fn b_file(
    about: &About,
    class: Class,
    sequence: Sequence,
    by_size: bool,
    offset: i64,
    results: &[OrderResult],
) -> String {
    let most = match class {
        Class::All => "n(n-1)/2",
        _ => "the largest number of edges that there is",
    };
    let shape = match by_size {
        true => {
            format!("T(n, m), n >= 1, 0 <= m <= {most}, read by rows, m being the number of edges")
        }
        false => "a(n)".to_owned(),
    };
    let terms: Vec<u128> = match by_size {
        true => results
            .iter()
            .flat_map(|result| sizes(class, result))
            .map(|row| sequence.term(&row.statistics))
            .collect(),
        false => results.iter().map(|result| sequence.term(&result.total().statistics)).collect(),
    };
    let mut text = format!(
        "# {shape}: number of {} in the game {} ({}).\n",
        sequence.meaning(class),
        about.title,
        about.reference
    );
    for (index, term) in (offset..).zip(terms) {
        writeln!(text, "{index} {term}").expect("strings can be written to");
    }
    text
}
