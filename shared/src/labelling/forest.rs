//! Search trees 32 nodes at a time: labels the graphs that [`super::batch`] leaves over, with the same keys as
//! [`super::hashed`]. Only keys and labels; who needs |Aut| searches one graph at a time.

use super::{
    Colours,
    batch::{Batch, Kernel, LANES, MAX_BATCH_ORDER},
    search,
};
use crate::graph::{Rows, vertices};

/// A graph whose colours did not decide its labels.
#[derive(Clone, Copy)]
pub struct Undecided {
    pub rows: Rows,
    pub colours: Colours,
    /// Whether refining the colours again would change nothing.
    pub stable: bool,
}

/// The best leaf of a search tree.
#[derive(Clone, Copy, Default)]
pub struct Leaf {
    pub key: u64,
    pub label: [u8; MAX_BATCH_ORDER],
}

/// Labels groups of graphs of one order. Reused from group to group.
pub struct Forest {
    batch: Box<Batch>,
    /// Nodes whose colours are to be refined, with the number of their graph.
    nodes: Vec<(usize, Colours)>,
}

impl Forest {
    /// A forest for graphs of order 1 ≤ n ≤ 12.
    pub fn new(n: usize, kernel: Kernel) -> Self {
        Forest { batch: Batch::new(n, kernel), nodes: Vec::new() }
    }

    /// Labels these graphs; `leaves` gets one leaf for each.
    pub fn label(&mut self, graphs: &[Undecided], leaves: &mut Vec<Leaf>) {
        leaves.clear();
        leaves.resize(graphs.len(), Leaf::default());
        let mut found = vec![false; graphs.len()];
        for (number, graph) in graphs.iter().enumerate() {
            self.grow(number, graph, &graph.colours, graph.stable);
        }
        while !self.nodes.is_empty() {
            let first = self.nodes.len().saturating_sub(LANES);
            let count = self.nodes.len() - first;
            let mut numbers = [0; LANES];
            for (lane, (number, colours)) in self.nodes.drain(first..).enumerate() {
                numbers[lane] = number;
                for v in 0..self.batch.order() {
                    self.batch.set(lane, v, graphs[number].rows[v], colours[v]);
                }
            }
            let decided = self.batch.label_decided(count);
            for (lane, &number) in numbers[..count].iter().enumerate() {
                if decided >> lane & 1 == 0 {
                    let undecided = self.batch.undecided(lane);
                    self.grow(number, &graphs[number], &undecided.colours, undecided.stable);
                } else if !found[number] || self.batch.key(lane) > leaves[number].key {
                    found[number] = true;
                    leaves[number].key = self.batch.key(lane);
                    for v in 0..self.batch.order() {
                        leaves[number].label[v] = self.batch.label_of(lane, v) as u8;
                    }
                }
            }
        }
    }

    /// Adds the children of a node, or the node itself if its colours are still changing.
    fn grow(&mut self, number: usize, graph: &Undecided, colours: &Colours, stable: bool) {
        let target = if stable { search::target(self.batch.order(), &graph.rows, colours) } else { None };
        let Some(target) = target else {
            self.nodes.push((number, *colours));
            return;
        };
        let mut left = target;
        while left != 0 {
            let v = left.trailing_zeros() as usize;
            left &= !search::twins_in(&graph.rows, v, left);
            let mut child = *colours;
            for w in vertices(target & !(1 << v)) {
                child[w] += 1;
            }
            self.nodes.push((number, child));
        }
    }
}
