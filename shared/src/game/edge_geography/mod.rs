//! Undirected Edge Geography (Fraenkel, Scheinerman, Ullman 1993), rooted: one token stands on a
//! vertex; who is to move takes it along an edge, which is then gone; who cannot move loses.
//!
//! A position is (H; v): H the unused edges, v the vertex of the token.
//!
//! * U(H; v), the player to move wins: ∃ w ∈ N(v): ¬ U(H − vw; w).
//! * A graph without a root is played like this: P1 puts the token on a vertex, and P2 moves
//!   first. P1 wins H: ∃ v: ¬ U(H; v).
//!
//! On bipartite graphs linear algebra tells U without play: ¬ U(H; v) if and only if some x in
//! the kernel of the adjacency matrix over GF(2) has x(v) = 1. The tests compare.

mod forward;
pub mod searched;

use std::ops::RangeInclusive;

pub use forward::RootedSearch;

use super::{
    About, ByEdges, FIRST_OR_SECOND, Game, Layout, Positions, PredecessorAnswer, Retrograde,
    Scope, SumName, Tally, Theorem, Told, bits,
};
use crate::{
    class::Class,
    graph::{Graph, MAX_ORDER, VertexSet, all_vertices, renamed, vertices},
    labelling::hashed,
};

/// Rooted Undirected Edge Geography.
#[derive(Clone, Copy, Debug)]
pub struct EdgeGeography;

/// From which vertices of a graph H the player to move wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// { v : U(H; v) }.
    pub won: VertexSet,
}

/// Place among the sums of Σ|U|, the vertices from which the player to move wins.
pub const WON_ROOTS: usize = 0;
/// Place among the sums of the number of rooted graphs (H; v), up to isomorphism, with U(H; v).
pub const WON_ROOTED_GRAPHS: usize = 1;
/// Place among the sums of the number of all rooted graphs up to isomorphism.
pub const ROOTED_GRAPHS: usize = 2;

const RULES: &str = concat!(
    "P1 puts a token on a vertex. From P2 on they\n",
    "take turns, each moving the token along an unused edge to its other end. An edge is ",
    "used once; who\n",
    "cannot move loses. *P1-win* means that P1 wins with best play, that is, that some ",
    "vertex is lost by\n",
    "the player who is to move from it; *P2-win* that P2 does. A rooted graph, one with ",
    "the token in\n",
    "place, is an *N-position* if the player to move wins. Rooted graphs are counted up ",
    "to isomorphism,\n",
    "that is, by orbits of vertices. The game is Undirected Edge Geography of Fraenkel, ",
    "Scheinerman and\n",
    "Ullman, *Undirected edge geography*, Theoretical Computer Science 112 (1993).",
);

const CITATION: &str = concat!(
    "  - type: article\n",
    "    title: \"Undirected edge geography\"\n",
    "    authors:\n",
    "      - family-names: Fraenkel\n",
    "      - family-names: Scheinerman\n",
    "      - family-names: Ullman\n",
    "    journal: Theoretical Computer Science\n",
    "    volume: 112\n",
    "    year: 1993\n",
);

const SUM_NAMES: [SumName; 3] = [
    SumName {
        key: "won_roots",
        symbol: "|U|",
        heading: None,
        meaning: "sum of |U|: vertices from which the player to move wins",
        meaning_in_shards: "sum of |U|: vertices from which the player to move wins",
        told: Told::ByRecord,
        bounds: won_roots,
    },
    SumName {
        key: "won_rooted_graphs",
        symbol: "orbits in U",
        heading: Some("rooted, N"),
        meaning: "rooted graphs (orbits of vertices) that the player to move wins",
        meaning_in_shards: "rooted graphs (orbits of vertices) that the player to move wins",
        told: Told::ByRecord,
        bounds: won_roots,
    },
    SumName {
        key: "rooted_graphs",
        symbol: "orbits",
        heading: Some("rooted"),
        meaning: "rooted graphs: orbits of vertices under the automorphisms of their graphs",
        meaning_in_shards: "rooted graphs: orbits of vertices under the automorphisms of their \
                            graphs",
        told: Told::ByRecord,
        bounds: rooted_graphs,
    },
];

/// All vertices of a graph that P2 wins are won by the player to move; of one that P1 wins, not
/// all. The same holds for orbits of vertices, of which each graph has one at least.
fn won_roots(scope: &Scope) -> RangeInclusive<u128> {
    let others = scope.graphs.saturating_sub(scope.listed);
    let vertices = scope.order.saturating_mul(scope.graphs);
    others..=vertices.saturating_sub(scope.listed)
}

fn rooted_graphs(scope: &Scope) -> RangeInclusive<u128> {
    scope.graphs..=scope.order.saturating_mul(scope.graphs)
}

/// A record holds the set { v : U(H; v) } of n bits, and one bit that is set if P1 wins, that is,
/// if the set lacks a vertex. Left-over bits of the last byte are zero.
impl Game for EdgeGeography {
    const LAYOUT: Layout = {
        let mut bits = [0; MAX_ORDER + 1];
        let mut n = 0;
        while n <= MAX_ORDER {
            bits[n] = n as u16 + 1;
            n += 1;
        }
        Layout::new(2, true, bits)
    };

    const ABOUT: About = About {
        name: "edge-geography",
        title: "Undirected Edge Geography",
        reference: "Fraenkel, Scheinerman, Ullman 1993",
        rules: RULES,
        citation: CITATION,
        identifier: None,
        digest_tag: "EG1",
        theorem: Some(Theorem {
            class: Class::Bipartite,
            source: "the theorem of Fraenkel, Scheinerman and Ullman",
            is_listed: |graph| met_by_the_kernel(graph) != 0,
        }),
        verdicts: FIRST_OR_SECOND,
        sums: &SUM_NAMES,
        position_keys: &["won"],
        listed_one_in: 1,
        known: &[],
    };

    type Outcome = Roots;

    type Narrow = Self;

    type Method = ByEdges;

    type Search = RootedSearch;

    fn encode(n: usize, outcome: &Roots, record: &mut [u8]) {
        let listed = u32::from(outcome.won != all_vertices(n));
        let word = outcome.won | listed << n;
        record.copy_from_slice(&word.to_le_bytes()[..record.len()]);
    }

    fn decode(n: usize, record: &[u8]) -> Roots {
        Roots { won: bits(record, 0, n) }
    }

    fn relabelled(n: usize, outcome: &Roots, label: &[u8]) -> Roots {
        Roots { won: renamed(n, outcome.won, label) }
    }

    fn tally(graph: &Graph, automorphisms: u64, outcome: &Roots) -> Tally {
        let n = graph.order();
        let won = outcome.won.count_ones();
        let [won_rooted, rooted] = match automorphisms {
            1 => [won, n as u32],
            // A set that automorphisms keep consists of whole orbits, each with one first vertex.
            _ => {
                let firsts = hashed::first_of_orbits(graph);
                [(firsts & outcome.won).count_ones(), firsts.count_ones()]
            }
        };
        Tally { listed: outcome.won != all_vertices(n), sums: [won, won_rooted, rooted] }
    }

    fn positions(_n: usize, outcome: &Roots) -> Vec<Positions> {
        vec![Positions::Whole { says: "the player to move wins from", set: outcome.won }]
    }
}

impl Retrograde for EdgeGeography {
    #[inline(always)]
    fn ask(n: usize, record: &[u8], u: usize, w: usize) -> PredecessorAnswer {
        let won = bits(record, 0, n);
        PredecessorAnswer { sets: [0; 2], flags: (won >> u & 1 | (won >> w & 1) << 1) as u16 }
    }

    #[inline(always)]
    fn fold(_n: usize, outcome: &mut Roots, u: usize, w: usize, answer: &PredecessorAnswer) {
        // A move from u to w wins if who is then to move, from w, loses H − uw.
        let flags = VertexSet::from(answer.flags);
        outcome.won |= (!(flags >> 1) & 1) << u | (!flags & 1) << w;
    }

    fn derive<E>(
        graph: &Graph,
        mut find: impl FnMut(&Graph) -> Result<Roots, E>,
    ) -> Result<Roots, E> {
        let mut outcome = Roots::default();
        for v in 0..graph.order() {
            // U(H; v) = ∃ w ∈ N(v): ¬ U(H − vw; w).
            for w in vertices(graph.neighbours(v)) {
                let found = find(&graph.without_edge(v, w))?;
                if found.won >> w & 1 == 0 {
                    outcome.won |= 1 << v;
                    break;
                }
            }
        }
        Ok(outcome)
    }
}

/// The vertices v for which some kernel vector of the adjacency matrix over GF(2) has x(v) = 1:
/// those whose unit vector is not in the row space. In bipartite graphs these are the vertices
/// from which the player to move loses (Fraenkel, Scheinerman, Ullman).
pub fn met_by_the_kernel(graph: &Graph) -> VertexSet {
    // Rows in echelon form, by their lowest bit.
    let mut basis = [0 as VertexSet; MAX_ORDER];
    let reduce = |basis: &[VertexSet; MAX_ORDER], mut row: VertexSet| {
        for pivot in 0..MAX_ORDER {
            if row >> pivot & 1 == 1 && basis[pivot] != 0 {
                row ^= basis[pivot];
            }
        }
        row
    };
    for v in 0..graph.order() {
        let row = reduce(&basis, graph.neighbours(v));
        if row != 0 {
            basis[row.trailing_zeros() as usize] = row;
        }
    }
    vertices(all_vertices(graph.order()))
        .filter(|v| reduce(&basis, 1 << v) != 0)
        .fold(0, |met, v| met | 1 << v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        game::{FirstMove, Search, Solution},
        graph::{families::grid, invariants, nauty},
    };

    fn roots(graph: &Graph) -> Roots {
        RootedSearch::new(usize::MAX).roots(graph).unwrap()
    }

    /// Even kernels decide bipartite graphs.
    #[test]
    fn linear_algebra_decides_bipartite_graphs() {
        let mut bipartite = 0;
        for graph in nauty::enumerate(7).iter().flatten().filter(|g| invariants::is_bipartite(g)) {
            let lost = all_vertices(graph.order()) & !roots(graph).won;
            assert_eq!(lost, met_by_the_kernel(graph), "{graph:?}");
            bipartite += 1;
        }
        assert_eq!(bipartite, 1 + 2 + 3 + 7 + 13 + 35 + 88);
    }

    /// An independent set S of vertices is an even kernel if each vertex outside has an even number
    /// of neighbours in S. From those in S the player to move loses, on any graph; that there is one
    /// for each vertex from which that player loses holds for bipartite graphs.
    #[test]
    fn even_kernels_suffice_on_all_graphs() {
        let mut unexplained = 0;
        for graph in nauty::enumerate(5).iter().flatten() {
            let n = graph.order();
            let is_even_kernel = |&set: &VertexSet| {
                (0..n).all(|v| {
                    let met = (graph.neighbours(v) & set).count_ones();
                    if set >> v & 1 == 1 { met == 0 } else { met.is_multiple_of(2) }
                })
            };
            let kernels = (0..=all_vertices(n)).filter(is_even_kernel);
            let explained = kernels.fold(0, |explained, kernel| explained | kernel);
            let lost = all_vertices(n) & !roots(graph).won;
            assert_eq!(explained & !lost, 0, "{graph:?}");
            assert!(!invariants::is_bipartite(graph) || explained == lost, "{graph:?}");
            unexplained += (lost & !explained).count_ones();
        }
        assert!(unexplained > 0);
    }

    /// The theorem for grids: (a, b) is lost if and only if gcd(m + 1, n + 1) divides neither.
    #[test]
    fn grids_go_by_a_divisor() {
        let divisor = |mut a: usize, mut b: usize| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let is_small = |&(m, n): &(usize, usize)| m * n <= MAX_ORDER;
        let sides = (1..=MAX_ORDER).flat_map(|m| (m..=MAX_ORDER).map(move |n| (m, n)));
        for (m, n) in sides.filter(is_small) {
            let graph = grid(m, n);
            let (by_kernel, d) = (met_by_the_kernel(&graph), divisor(m + 1, n + 1));
            if graph.size() <= 22 {
                let lost = all_vertices(m * n) & !roots(&graph).won;
                assert_eq!(by_kernel, lost, "{m} × {n} grid");
            }
            for (a, b) in (1..=m).flat_map(|a| (1..=n).map(move |b| (a, b))) {
                let lost = a % d != 0 && b % d != 0;
                let at = (a - 1) * n + b - 1;
                assert_eq!(by_kernel >> at & 1 == 1, lost, "({a}, {b}) of the {m} × {n} grid");
            }
        }
    }

    #[test]
    fn small_graphs() {
        let mut search = RootedSearch::new(100);
        let start = |v| Ok(Solution::P1 { opening: FirstMove::At(v) });
        assert_eq!(search.solve(&Graph::edgeless(3)), start(0));
        assert_eq!(search.solve(&Graph::from_edges(3, [(0, 1)])), start(2));
        let edge = search.solve(&Graph::from_edges(2, [(0, 1)]));
        let answers = vec![(FirstMove::At(0), (0, 1)), (FirstMove::At(1), (1, 0))];
        assert_eq!(edge, Ok(Solution::P2 { answers }));
        // From K_n the player to move wins, for n = 2, …, 6.
        for n in 2..=6 {
            assert_eq!(roots(&Graph::from_code(n, u128::MAX)).won, all_vertices(n), "K{n}");
        }
    }
}
