//! What is counted about a set of graphs. Statistics of disjoint sets add up.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::{
    game::Tally,
    graph::{Graph, factorial},
};

/// Graphs, and those of them that P1 wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub graphs: u128,
    pub p1_wins: u128,
}

impl Counts {
    /// The graphs that P2 wins: there are no draws.
    pub fn p2_wins(&self) -> u128 {
        self.graphs - self.p1_wins
    }

    fn add(&mut self, weight: u128, p1_wins: bool) {
        self.graphs += weight;
        self.p1_wins += if p1_wins { weight } else { 0 };
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.graphs += other.graphs;
        self.p1_wins += other.p1_wins;
    }
}

/// Sums over all positions, independent of any labelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Σ|W|: rooted positions won by the player to move.
    pub won_positions: u128,
    /// Σ|R|: ends of P1's first move that P2 beats.
    pub refuted_ends: u128,
    /// First moves that win for P1.
    pub winning_first_moves: u128,
}

impl Sums {
    fn add(&mut self, weight: u128, tally: &Tally) {
        self.won_positions += weight * u128::from(tally.won_positions);
        self.refuted_ends += weight * u128::from(tally.refuted_ends);
        self.winning_first_moves += weight * u128::from(tally.winning_first_moves);
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.won_positions += other.won_positions;
        self.refuted_ends += other.refuted_ends;
        self.winning_first_moves += other.winning_first_moves;
    }
}

/// The same counts with each class once, or with weight n!/|Aut|, which counts labelled graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weighing {
    pub all: Counts,
    pub connected: Counts,
    pub sums: Sums,
}

impl Weighing {
    fn add(&mut self, weight: u128, connected: bool, tally: &Tally) {
        self.all.add(weight, tally.p1_wins);
        if connected {
            self.connected.add(weight, tally.p1_wins);
        }
        self.sums.add(weight, tally);
    }
}

impl AddAssign for Weighing {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.connected += other.connected;
        self.sums += other.sums;
    }
}

/// Everything counted about a set of graphs of one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Each isomorphism class once.
    pub classes: Weighing,
    /// Each labelled graph once.
    pub labelled: Weighing,
}

impl Statistics {
    /// Counts one more graph.
    pub fn add(&mut self, graph: &Graph, automorphisms: u64, tally: &Tally) {
        let connected = graph.is_connected();
        self.classes.add(1, connected, tally);
        self.labelled.add(u128::from(factorial(graph.order()) / automorphisms), connected, tally);
    }
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, other: Self) {
        self.classes += other.classes;
        self.labelled += other.labelled;
    }
}
