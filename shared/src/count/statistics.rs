//! What is counted about a set of graphs. Statistics of disjoint sets add up.

use std::{collections::BTreeMap, ops::AddAssign};

use serde::{Deserialize, Serialize};

use crate::{
    game::Tally,
    graph::{Graph, factorial, invariants, pairs},
    labelling::MAX_BATCH_ORDER,
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

    /// Whether graphs of this order with at most `size` edges can be counted like this: no part is
    /// larger than the whole, and no sum is larger than the number of positions, or of first moves
    /// in graphs that P1 wins.
    pub fn is_possible(&self, order: usize, size: usize) -> bool {
        let Weighing { all, connected, sums } = self;
        let others =
            (all.graphs.checked_sub(connected.graphs), all.p1_wins.checked_sub(connected.p1_wins));
        let n = order as u128;
        all.graphs <= 1 << pairs(order)
            && all.p1_wins <= all.graphs
            && connected.p1_wins <= connected.graphs
            && matches!(others, (Some(graphs), Some(p1_wins)) if p1_wins <= graphs)
            && sums.won_positions <= (n * n).saturating_mul(all.graphs)
            && sums.refuted_ends <= n.saturating_mul(all.graphs)
            && sums.winning_first_moves >= all.p1_wins
            && sums.winning_first_moves <= (2 * size as u128).saturating_mul(all.p1_wins)
    }
}

impl AddAssign for Weighing {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.connected += other.connected;
        self.sums += other.sums;
    }
}

/// Graphs with one value of a property, each class once and with weight n!/|Aut|.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    pub classes: Counts,
    pub labelled: Counts,
}

impl AddAssign for Cell {
    fn add_assign(&mut self, other: Self) {
        self.classes += other.classes;
        self.labelled += other.labelled;
    }
}

/// Graphs by the values of a property.
pub type Breakdown = BTreeMap<u64, Cell>;

/// Counts by properties that degrees do not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    /// By [`invariants::girth`]; 0 stands for forests.
    pub girth: Breakdown,
    /// 1 for bipartite graphs, 0 for others.
    pub bipartite: Breakdown,
    /// By [`invariants::connectivity`].
    pub connectivity: Breakdown,
    /// By |Aut|.
    pub automorphisms: Breakdown,
}

impl Structure {
    fn add(
        &mut self,
        graph: &Graph,
        connectivity: u8,
        automorphisms: u64,
        weight: u128,
        p1_wins: bool,
    ) {
        let girth = invariants::girth(graph);
        // A triangle is an odd cycle, a forest has none.
        let bipartite = girth.is_multiple_of(2) && (girth == 0 || invariants::is_bipartite(graph));
        let values = [
            (&mut self.girth, girth.into()),
            (&mut self.bipartite, bipartite.into()),
            (&mut self.connectivity, connectivity.into()),
            (&mut self.automorphisms, automorphisms),
        ];
        for (breakdown, value) in values {
            let cell = breakdown.entry(value).or_default();
            cell.classes.add(1, p1_wins);
            cell.labelled.add(weight, p1_wins);
        }
    }

    fn breakdowns(&self) -> [&Breakdown; 4] {
        [&self.girth, &self.bipartite, &self.connectivity, &self.automorphisms]
    }
}

impl AddAssign<&Structure> for Structure {
    fn add_assign(&mut self, other: &Structure) {
        let pairs = [
            (&mut self.girth, &other.girth),
            (&mut self.bipartite, &other.bipartite),
            (&mut self.connectivity, &other.connectivity),
            (&mut self.automorphisms, &other.automorphisms),
        ];
        for (sum, more) in pairs {
            more.iter().for_each(|(&value, &cell)| *sum.entry(value).or_default() += cell);
        }
    }
}

/// Everything counted about a set of graphs of one order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Each isomorphism class once.
    pub classes: Weighing,
    /// Each labelled graph once.
    pub labelled: Weighing,
    pub structure: Structure,
}

impl Statistics {
    /// Counts one more graph.
    pub fn add(&mut self, graph: &Graph, automorphisms: u64, tally: &Tally) {
        let connectivity = invariants::connectivity(graph);
        let weight = u128::from(factorial(graph.order()) / automorphisms);
        self.classes.add(1, connectivity > 0, tally);
        self.labelled.add(weight, connectivity > 0, tally);
        self.structure.add(graph, connectivity, automorphisms, weight, tally.p1_wins);
    }

    /// Whether graphs of this order with at most `size` edges can be counted like this, apart from
    /// their structure.
    pub fn is_possible(&self, order: usize, size: usize) -> bool {
        [&self.classes, &self.labelled].iter().all(|weighing| weighing.is_possible(order, size))
    }

    /// Whether the counts are possible, in some order that a census can have, and fit together:
    /// each breakdown adds up.
    pub fn is_consistent(&self) -> bool {
        // Sums of hostile numbers may not overflow.
        let add = |sum: Option<u128>, more: u128| sum.and_then(|sum| sum.checked_add(more));
        let adds_up = |cells: &mut dyn Iterator<Item = &Cell>, whole: [&Counts; 2]| {
            let mut sums = [Some(0); 4];
            for cell in cells {
                let counts = [
                    cell.classes.graphs,
                    cell.classes.p1_wins,
                    cell.labelled.graphs,
                    cell.labelled.p1_wins,
                ];
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = add(*sum, count));
            }
            sums == [whole[0].graphs, whole[0].p1_wins, whole[1].graphs, whole[1].p1_wins]
                .map(Some)
        };
        let all = [&self.classes.all, &self.labelled.all];
        let connected = [&self.classes.connected, &self.labelled.connected];
        self.is_possible(MAX_BATCH_ORDER, pairs(MAX_BATCH_ORDER))
            && self
                .structure
                .breakdowns()
                .iter()
                .all(|breakdown| adds_up(&mut breakdown.values(), all))
            && adds_up(
                &mut self.structure.connectivity.range(1..).map(|(_, cell)| cell),
                connected,
            )
    }
}

impl AddAssign<&Statistics> for Statistics {
    fn add_assign(&mut self, other: &Statistics) {
        self.classes += other.classes;
        self.labelled += other.labelled;
        self.structure += &other.structure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_add_up_are_noticed() {
        let tally =
            Tally { p1_wins: true, won_positions: 4, refuted_ends: 1, winning_first_moves: 2 };
        let mut statistics = Statistics::default();
        statistics.add(&Graph::from_edges(3, [(0, 1), (1, 2)]), 2, &tally);
        statistics.add(&Graph::from_edges(3, [(0, 1)]), 2, &Tally::default());
        assert!(statistics.is_consistent());
        assert!(
            statistics.is_possible(3, 2)
                && !statistics.is_possible(1, 2)
                && !statistics.is_possible(3, 0)
        );
        let mut twice = statistics.clone();
        twice += &statistics;
        assert!(twice.is_consistent());
        assert_eq!(twice.structure.connectivity[&1].labelled, Counts { graphs: 6, p1_wins: 6 });
        let spoil: [fn(&mut Statistics); 10] = [
            |s| s.structure.girth.get_mut(&0).unwrap().classes.graphs += 1,
            |s| s.classes.connected.p1_wins = 0,
            |s| s.labelled.all.p1_wins = u128::MAX,
            |s| s.structure.automorphisms.get_mut(&2).unwrap().labelled.graphs = u128::MAX,
            |s| s.classes.sums.winning_first_moves = 0,
            |s| s.classes.sums.winning_first_moves = 133,
            |s| s.labelled.sums.winning_first_moves = u128::MAX,
            |s| s.labelled.sums.won_positions = u128::MAX,
            |s| s.labelled.sums.refuted_ends = u128::MAX,
            |s| s.labelled.all.graphs = u128::MAX,
        ];
        for spoil in spoil {
            let mut spoiled = statistics.clone();
            spoil(&mut spoiled);
            assert!(!spoiled.is_consistent());
        }
    }
}
