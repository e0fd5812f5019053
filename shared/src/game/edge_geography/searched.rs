//! Edge geography once more, solved graph by graph. No command offers it: it is here so that the
//! tests can compare the two methods, graph for graph, in the same kernel.

use super::{EdgeGeography, RootedSearch, Roots};
use crate::{
    game::{About, ByGraphs, Game, GraphByGraph, Layout, Positions, Search, Tally},
    graph::{Graph, MAX_ORDER},
};

/// The game, solved by forward search, and again on the graph with its vertices in reverse. Its
/// outcomes are those of [`EdgeGeography`], but its records are not taken for them.
#[derive(Clone, Copy, Debug)]
pub struct SearchedEdgeGeography;

impl Game for SearchedEdgeGeography {
    const LAYOUT: Layout =
        Layout { game: 0xfffe, reads_predecessors: false, ..EdgeGeography::LAYOUT };

    const ABOUT: About =
        About { name: "searched-edge-geography", digest_tag: "test-only", ..EdgeGeography::ABOUT };

    type Outcome = Roots;

    type Narrow = Self;

    type Method = ByGraphs;

    type Search = RootedSearch;

    fn encode(n: usize, outcome: &Roots, record: &mut [u8]) {
        EdgeGeography::encode(n, outcome, record);
    }

    fn decode(n: usize, record: &[u8]) -> Roots {
        EdgeGeography::decode(n, record)
    }

    fn relabelled(n: usize, outcome: &Roots, label: &[u8]) -> Roots {
        EdgeGeography::relabelled(n, outcome, label)
    }

    fn tally(graph: &Graph, automorphisms: u64, outcome: &Roots) -> Tally {
        EdgeGeography::tally(graph, automorphisms, outcome)
    }

    fn positions(n: usize, outcome: &Roots) -> Vec<Positions> {
        EdgeGeography::positions(n, outcome)
    }
}

impl GraphByGraph for SearchedEdgeGeography {
    type Scratch = Option<RootedSearch>;

    fn solve(graph: &Graph, scratch: &mut Self::Scratch) -> Roots {
        let search = scratch.get_or_insert_with(|| RootedSearch::new(usize::MAX));
        search.roots(graph).expect("there is no limit")
    }

    fn solve_again(graph: &Graph) -> Roots {
        let n = graph.order();
        let reversed: [u8; MAX_ORDER] = std::array::from_fn(|v| (n - 1).saturating_sub(v) as u8);
        let roots = Self::solve(&graph.relabelled(&reversed), &mut None);
        Self::relabelled(n, &roots, &reversed)
    }
}
