//! What is counted about a set of graphs. Statistics of disjoint sets add up.

use std::{collections::BTreeMap, ops::AddAssign};

use serde::{Deserialize, Serialize};

use crate::{
    count::ahead::Share,
    game::{About, SUMS, Scope, Tally},
    graph::{Graph, MAX_ORDER, NARROW_ORDER, factorial, invariants, pairs},
};

/// Graphs, and those of them that have the listed verdict of the game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of graphs, or the sum of their weights.
    pub graphs: u128,
    /// The same of those with the listed verdict.
    pub listed: u128,
}

impl Counts {
    /// The graphs that have the other verdict: there is no third.
    pub fn others(&self) -> u128 {
        self.graphs - self.listed
    }

    fn add(&mut self, weight: u128, listed: bool) {
        self.graphs += weight;
        self.listed += if listed { weight } else { 0 };
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.graphs += other.graphs;
        self.listed += other.listed;
    }
}

/// The sums of a game, in the order of [`About::sums`]; those that it does not have are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums(pub [u128; SUMS]);

impl Sums {
    fn add(&mut self, weight: u128, tally: &Tally) {
        for (sum, more) in self.0.iter_mut().zip(tally.sums) {
            *sum += weight * u128::from(more);
        }
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// The same counts with each class once, or with weight n!/|Aut|, which counts labelled graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weighing {
    /// All graphs.
    pub all: Counts,
    /// The connected graphs among them; the graph of order 1 is connected.
    pub connected: Counts,
    /// The sums of the game over all graphs.
    pub sums: Sums,
}

impl Weighing {
    fn add(&mut self, weight: u128, connected: bool, tally: &Tally) {
        self.all.add(weight, tally.listed);
        if connected {
            self.connected.add(weight, tally.listed);
        }
        self.sums.add(weight, tally);
    }

    /// Whether graphs of this order with at most `size` edges can be counted like this in a game:
    /// no part is larger than the whole, and each sum is within its bounds.
    pub fn is_possible(&self, about: &About, order: usize, size: usize) -> bool {
        let Weighing { all, connected, sums } = self;
        let others =
            (all.graphs.checked_sub(connected.graphs), all.listed.checked_sub(connected.listed));
        let scope = Scope {
            order: order as u128,
            size: size as u128,
            graphs: all.graphs,
            listed: all.listed,
        };
        let named = about.sums.iter().map(Some).chain(std::iter::repeat(None));
        all.graphs < TOO_LARGE.min(1 + (1 << pairs(order.min(NARROW_ORDER))))
            && all.listed <= all.graphs
            && connected.listed <= connected.graphs
            && matches!(others, (Some(graphs), Some(listed)) if listed <= graphs)
            && sums.0.iter().zip(named).all(|(sum, named)| match named {
                Some(named) => (named.bounds)(&scope).contains(sum),
                None => *sum == 0,
            })
    }
}

impl AddAssign for Weighing {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.connected += other.connected;
        self.sums += other.sums;
    }
}

/// No count of a census is so large, so that sums of those that are read cannot overflow: there are
/// 2^78 labelled graphs of order 13, with up to 13² positions, and 2^79 labelled forests of order
/// 20, with up to 20²; no class has more of its largest order.
pub const TOO_LARGE: u128 = 1 << 100;

/// Graphs with one value of a property, each class once and with weight n!/|Aut|.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Each isomorphism class counted once.
    pub classes: Counts,
    /// Each isomorphism class counted n!/|Aut| times.
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

/// Counts by properties that do not follow from the degree sequence.
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
        listed: bool,
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
            cell.classes.add(1, listed);
            cell.labelled.add(weight, listed);
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
    /// Graphs by girth, bipartiteness, connectivity and |Aut|.
    pub structure: Structure,
}

impl Statistics {
    /// The sum of this place as graphs with one edge less tell it, of graphs of an order. Statistics
    /// that somebody states may be anything.
    pub fn told(&self, place: usize, order: usize) -> Share {
        Share {
            classes: self.classes.sums.0[place].saturating_mul(factorial(order).into()),
            labelled: self.labelled.sums.0[place],
        }
    }

    /// The part that follows from graphs and their records: without the sum that only the outcomes
    /// of graphs with one edge less tell, if the game has such a sum.
    pub fn without_told(&self, about: &About) -> Self {
        let mut statistics = self.clone();
        if let Some(told) = about.told_by_outcome() {
            statistics.classes.sums.0[told] = 0;
            statistics.labelled.sums.0[told] = 0;
        }
        statistics
    }

    /// Counts one more graph.
    pub fn add(&mut self, graph: &Graph, automorphisms: u64, tally: &Tally) {
        let connectivity = invariants::connectivity(graph);
        let weight = u128::from(factorial(graph.order()) / automorphisms);
        self.classes.add(1, connectivity > 0, tally);
        self.labelled.add(weight, connectivity > 0, tally);
        self.structure.add(graph, connectivity, automorphisms, weight, tally.listed);
    }

    /// Whether graphs of this order with at most `size` edges can be counted like this, apart from
    /// their structure.
    pub fn is_possible(&self, about: &About, order: usize, size: usize) -> bool {
        let weighings = [&self.classes, &self.labelled];
        weighings.iter().all(|weighing| weighing.is_possible(about, order, size))
    }

    /// Whether the counts are possible for some order and fit together: the cells of each
    /// breakdown add up to the counts of all graphs, and those of connectivity 1 and 2 to the
    /// counts of connected graphs. Never overflows, whatever the numbers.
    pub fn is_consistent(&self, about: &About) -> bool {
        // Sums of hostile numbers may not overflow.
        let add = |sum: Option<u128>, more: u128| sum.and_then(|sum| sum.checked_add(more));
        let adds_up = |cells: &mut dyn Iterator<Item = &Cell>, whole: [&Counts; 2]| {
            let mut sums = [Some(0); 4];
            for cell in cells {
                let counts = [
                    cell.classes.graphs,
                    cell.classes.listed,
                    cell.labelled.graphs,
                    cell.labelled.listed,
                ];
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = add(*sum, count));
            }
            sums == [whole[0].graphs, whole[0].listed, whole[1].graphs, whole[1].listed].map(Some)
        };
        let all = [&self.classes.all, &self.labelled.all];
        let connected = [&self.classes.connected, &self.labelled.connected];
        self.is_possible(about, MAX_ORDER, pairs(MAX_ORDER))
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
    use crate::game::{Game, TrailTrap, trail_trap};

    #[test]
    fn parts_that_do_not_add_up_are_noticed() {
        use trail_trap::{REFUTED_ENDS, WINNING_FIRST_MOVES, WON_POSITIONS};
        let about = &TrailTrap::ABOUT;
        let tally = Tally { listed: true, sums: [4, 1, 2] };
        let mut statistics = Statistics::default();
        statistics.add(&Graph::from_edges(3, [(0, 1), (1, 2)]), 2, &tally);
        statistics.add(&Graph::from_edges(3, [(0, 1)]), 2, &Tally::default());
        assert!(statistics.is_consistent(about));
        assert!(
            statistics.is_possible(about, 3, 2)
                && !statistics.is_possible(about, 1, 2)
                && !statistics.is_possible(about, 3, 0)
        );
        let mut twice = statistics.clone();
        twice += &statistics;
        assert!(twice.is_consistent(about));
        assert_eq!(twice.structure.connectivity[&1].labelled, Counts { graphs: 6, listed: 6 });
        let spoil: [fn(&mut Statistics); 10] = [
            |s| s.structure.girth.get_mut(&0).unwrap().classes.graphs += 1,
            |s| s.classes.connected.listed = 0,
            |s| s.labelled.all.listed = u128::MAX,
            |s| s.structure.automorphisms.get_mut(&2).unwrap().labelled.graphs = u128::MAX,
            |s| s.classes.sums.0[WINNING_FIRST_MOVES] = 0,
            |s| s.classes.sums.0[WINNING_FIRST_MOVES] = 381,
            |s| s.labelled.sums.0[WINNING_FIRST_MOVES] = u128::MAX,
            |s| s.labelled.sums.0[WON_POSITIONS] = u128::MAX,
            |s| s.labelled.sums.0[REFUTED_ENDS] = u128::MAX,
            |s| s.labelled.all.graphs = u128::MAX,
        ];
        for spoil in spoil {
            let mut spoiled = statistics.clone();
            spoil(&mut spoiled);
            assert!(!spoiled.is_consistent(about));
        }
    }
}
