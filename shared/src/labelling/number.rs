//! Keys beyond order 12: a graph in canonical labels as a number among those with its degrees.
//!
//! From the last vertex down to vertex 1, each chooses its neighbours among those before it. How
//! many it still has to choose follows from its degree and from the choices so far, and so does
//! among whom: among those that still have to be chosen themselves. A choice of r out of a is its
//! rank, 0 ≤ rank < C(a, r), in colexicographic order; the choices are the digits of the number,
//! the first one the lowest.

use crate::graph::{
    Graph, MAX_ORDER, VertexSet, all_vertices, degree::DegreeSequence, pairs, vertices,
};

/// Numbers are below 2^63, and so are slots.
pub const NUMBER_BITS: usize = 63;

/// Stands for all numbers that are too large. No census has such graphs, see [`fits`].
const TOO_LARGE: u64 = u64::MAX >> (64 - NUMBER_BITS);

/// C(a, r) for 0 ≤ a, r < 20.
const BINOMIALS: [[u32; MAX_ORDER]; MAX_ORDER] = {
    let mut rows = [[0; MAX_ORDER]; MAX_ORDER];
    let mut a = 0;
    while a < MAX_ORDER {
        rows[a][0] = 1;
        let mut r = 1;
        while r <= a {
            rows[a][r] = rows[a - 1][r - 1] + rows[a - 1][r];
            r += 1;
        }
        a += 1;
    }
    rows
};

/// The number of a graph in canonical labels, of order at least 1. One that is too large, of a
/// graph that no census has, is the largest that there is.
pub fn number_of_graph(graph: &Graph) -> u64 {
    let n = graph.order();
    let mut lacking: [u32; MAX_ORDER] = std::array::from_fn(|v| graph.degree(v.min(n - 1)) as u32);
    // Up to order 16 the product of all C(a, r) is no more than the number of labelled graphs, 2^120.
    // Beyond it what is too large for these numbers is too large anyway.
    let (mut number, mut scale) = (0u128, 1u128);
    for v in (1..n).rev() {
        let open = open_before(v, &lacking);
        let chosen = graph.neighbours(v) & all_vertices(v);
        for w in vertices(chosen) {
            lacking[w] -= 1;
        }
        let radix = BINOMIALS[open.count_ones() as usize][chosen.count_ones() as usize];
        number = number.saturating_add(scale.saturating_mul(rank(chosen, open).into()));
        scale = scale.saturating_mul(radix.into());
    }
    u64::try_from(number).map_or(TOO_LARGE, |number| number.min(TOO_LARGE))
}

/// The graph with this number and this degree sequence, or `None` if there is none.
pub fn graph_of_number(mut number: u64, sequence: &DegreeSequence) -> Option<Graph> {
    let n = sequence.order();
    let mut graph = Graph::edgeless(n);
    let mut lacking: [u32; MAX_ORDER] = [0; MAX_ORDER];
    (0..n).for_each(|v| lacking[v] = sequence.degree(v) as u32);
    for v in (1..n).rev() {
        let (open, r) = (open_before(v, &lacking), lacking[v] as usize);
        let radix = match open.count_ones() as usize {
            a if r <= a => u64::from(BINOMIALS[a][r]),
            _ => return None,
        };
        for w in vertices(set_of_rank((number % radix) as u32, r, open)) {
            graph.add_edge(w, v);
            lacking[w] -= 1;
        }
        number /= radix;
    }
    (number == 0 && n > 0 && lacking[0] == 0).then_some(graph)
}

/// The vertices before v that lack neighbours.
fn open_before(v: usize, lacking: &[u32; MAX_ORDER]) -> VertexSet {
    (0..v).filter(|&w| lacking[w] > 0).fold(0, |open, w| open | 1 << w)
}

/// The rank of a set among those of its size within `open`.
fn rank(chosen: VertexSet, open: VertexSet) -> u32 {
    let places = vertices(chosen).map(|w| (open & all_vertices(w)).count_ones() as usize);
    (1..).zip(places).map(|(k, place): (usize, usize)| BINOMIALS[place][k]).sum()
}

/// The set of this rank, below C(a, r), among those of r of the a vertices of `open`.
fn set_of_rank(mut rank: u32, r: usize, mut open: VertexSet) -> VertexSet {
    let mut set = 0;
    for k in (1..=r).rev() {
        while open != 0 {
            let w = open.ilog2();
            open ^= 1 << w;
            let before = BINOMIALS[open.count_ones() as usize][k];
            if before <= rank {
                rank -= before;
                set |= 1 << w;
                break;
            }
        }
    }
    set
}

/// Whether all graphs of order `n` ≤ 20 with at most so many edges, and so many at a vertex, have
/// numbers below 2^63. What is looked at is the largest product of the C(a, r). When the vertices
/// 0, …, v have still to choose, and e edges are left, their degrees lack 2e in all: so e is at
/// most C(v + 1, 2), and half of v + 1 times the degree; and of the v vertices before v no more
/// than 2e − r are open, since each of these lacks one at least.
pub fn fits(n: usize, most_degree: usize, most_edges: usize) -> bool {
    // For v: the largest product of all that is still to come, by the number of edges left.
    let mut products = vec![1u128];
    for v in 1..n {
        let most = pairs(v + 1).min(most_degree * (v + 1) / 2).min(most_edges);
        let of_edges = |left: usize| {
            let choices = (0..=most_degree.min(v).min(left)).filter_map(|r| {
                let open = v.min(2 * left - r);
                Some(products.get(left - r)?.saturating_mul(BINOMIALS[open][r].into()))
            });
            choices.max().unwrap_or(0)
        };
        products = (0..=most).map(of_edges).collect();
    }
    products.iter().all(|&product| product < 1 << NUMBER_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        graph::{Code, nauty},
        labelling::tests::by_degree,
    };

    /// Random ones of half of all edges.
    fn codes() -> impl Strategy<Value = Code> {
        (any::<u128>(), any::<u128>()).prop_map(|(first, beyond)| Code::new(first, beyond))
    }

    proptest! {
        /// Dense and sparse graphs. All graphs of order 13 have numbers.
        #[test]
        fn numbers_lead_back_to_graphs(n in 1..=MAX_ORDER, code in codes(), thin in codes()) {
            let graph = by_degree(&Graph::from_code(n, code));
            let thinner = by_degree(&Graph::from_rows(
                n,
                std::array::from_fn(|v| graph.neighbours(v) & Graph::from_code(n, thin).neighbours(v)),
            ));
            for graph in [graph, thinner] {
                let number = number_of_graph(&graph);
                if n <= 13 || number < TOO_LARGE {
                    let sequence = DegreeSequence::of(&graph);
                    prop_assert_eq!(graph_of_number(number, &sequence), Some(graph));
                }
            }
        }

        /// Any number is that of one graph at most, with these degrees.
        #[test]
        fn any_number_is_read(n in 1..=MAX_ORDER, code in codes(), number: u64) {
            let sequence = DegreeSequence::of(&by_degree(&Graph::from_code(n, code)));
            for number in [number, number % 1000] {
                if let Some(graph) = graph_of_number(number, &sequence) {
                    prop_assert_eq!(DegreeSequence::of(&graph), sequence);
                    prop_assert_eq!(number_of_graph(&graph), number.min(TOO_LARGE));
                }
            }
        }

        /// Trees have numbers, whatever their degrees.
        #[test]
        fn all_trees_have_numbers(n in 2..=MAX_ORDER, parents: [u8; MAX_ORDER]) {
            let edges = (1..n).map(|v| (usize::from(parents[v]) % v, v));
            let tree = by_degree(&Graph::from_edges(n, edges));
            let number = number_of_graph(&tree);
            prop_assert!(number < TOO_LARGE);
            prop_assert_eq!(graph_of_number(number, &DegreeSequence::of(&tree)), Some(tree));
        }
    }

    /// All labelled graphs of some degrees have different numbers, and there are no others.
    #[test]
    fn graphs_of_one_degree_sequence_are_numbered() {
        let mut numbers: HashMap<DegreeSequence, Vec<u64>> = HashMap::new();
        for code in 0..1 << pairs(6) {
            let graph = Graph::from_code(6, code);
            if (1..6).all(|v| graph.degree(v - 1) <= graph.degree(v)) {
                let sequence = DegreeSequence::of(&graph);
                numbers.entry(sequence).or_default().push(number_of_graph(&graph));
            }
        }
        for (sequence, mut numbers) in numbers {
            numbers.sort_unstable();
            let last = *numbers.last().unwrap();
            let found: Vec<u64> =
                (0..=last + 100).filter(|&i| graph_of_number(i, &sequence).is_some()).collect();
            assert_eq!(found, numbers, "{sequence}");
        }
    }

    #[test]
    fn what_fits_is_below_the_bound() {
        assert!(fits(13, 12, pairs(13)) && !fits(14, 13, pairs(14)));
        assert!(fits(16, 3, 24) && fits(16, 15, 15) && !fits(16, 15, 40));
        assert!(fits(20, 19, 19) && !fits(20, 19, 30));
        for graph in nauty::enumerate(7).concat() {
            let (n, graph) = (graph.order(), by_degree(&graph));
            let most = (0..n).map(|v| graph.degree(v)).max().unwrap_or(0);
            assert!(fits(n, most, graph.size()));
            assert!(number_of_graph(&graph) < TOO_LARGE);
        }
    }
}
