//! What graphs tell about those with one edge more: sums over classes and over labelled graphs.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// A sum over graphs, each class once and with weight n!/|Aut|.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// n! times the sum over the classes; what single graphs with one edge less tell is a
    /// fraction.
    pub classes: u128,
    /// The weighted sum.
    pub labelled: u128,
}

impl AddAssign for Share {
    fn add_assign(&mut self, other: Self) {
        self.classes += other.classes;
        self.labelled += other.labelled;
    }
}

/// What was told of each shard with one edge more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldAhead {
    /// By the number of the shard, in increasing order, whether the plan goes so far or not.
    pub shares: Vec<(u32, Share)>,
    /// The same for Σ n!/|Aut| times the number of edges, in a class of graphs of which degree
    /// sequences do not tell all.
    pub masses: Vec<(u32, u128)>,
}
