//! nauty, the judge of what isomorphic means: McKay and Piperno, *Practical graph isomorphism, II*
//! (2014), through `nauty-pet`, and `nauty-Traces-sys` where that is too slow. Shares no code with
//! the labellings of the census.

use std::os::raw::c_int;

use nauty_Traces_sys::{TRUE, bit, densenauty, optionblk, setword, statsblk};
use nauty_pet::canon::IntoCanonLabellingNautyDense;
use petgraph::graph::UnGraph;

use crate::graph::{Graph, MAX_ORDER, VertexSet, factorial, vertices};

/// The version of nauty that is built in.
pub fn version() -> String {
    // 10000 times the version; the last two digits are an option.
    let id = nauty_Traces_sys::NAUTYVERSIONID;
    format!("{}.{}.{}", id / 10_000, id / 1000 % 10, id / 100 % 10)
}

/// What nauty finds out about a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NautyLabelling {
    /// nauty's canonical label of each vertex.
    pub label: [u8; MAX_ORDER],
    /// The graph under that labelling. Isomorphic graphs, and only those, have equal ones.
    pub canonical: Graph,
    /// |Aut|, which is exact.
    pub automorphisms: u64,
    /// For each vertex the set of vertices in its orbit.
    pub orbits: [VertexSet; MAX_ORDER],
}

impl NautyLabelling {
    /// For each canonical label the vertex that has it: what is known in canonical labels,
    /// relabelled by this, is told of the graph that was labelled.
    pub fn inverse(&self) -> [u8; MAX_ORDER] {
        let mut vertex = [0; MAX_ORDER];
        for v in 0..self.canonical.order() {
            vertex[usize::from(self.label[v])] = v as u8;
        }
        vertex
    }
}

/// Labels a graph with dense nauty, in about a microsecond at order 10.
pub fn label(graph: &Graph) -> NautyLabelling {
    labelling(graph, called)
}

/// What dense nauty returns of a graph.
struct Found {
    /// The canonical label of each vertex.
    label: [u8; MAX_ORDER],
    /// A vertex of the orbit of each vertex, the same for all of them.
    representatives: [usize; MAX_ORDER],
    /// The size of the group is base · 10^exponent.
    base: f64,
    exponent: i32,
}

/// A labelling from what nauty finds when it is called in one of the two ways.
fn labelling(graph: &Graph, find: impl FnOnce(&Graph) -> Found) -> NautyLabelling {
    let n = graph.order();
    if n == 0 {
        // nauty refuses it, and gives a group of no elements.
        return NautyLabelling {
            label: [0; MAX_ORDER],
            canonical: *graph,
            automorphisms: 1,
            orbits: [0; MAX_ORDER],
        };
    }
    let Found { label, representatives: of, base, exponent } = find(graph);
    let orbits = std::array::from_fn(|v| {
        (0..n).filter(|&w| v < n && of[w] == of[v]).fold(0, |set, w| set | 1 << w)
    });
    let automorphisms = divisor_near(base * 10f64.powi(exponent), factorial(n));
    NautyLabelling { label, canonical: graph.relabelled(&label), automorphisms, orbits }
}

/// Calls nauty itself, without the lists and maps that `nauty-pet` goes through, which take three
/// times as long as nauty does. The graph has a vertex at least.
fn called(graph: &Graph) -> Found {
    let n = graph.order();
    let row = |v: usize| vertices(graph.neighbours(v)).fold(0, |row, w| row | bit[w]);
    let mut rows: [setword; MAX_ORDER] = std::array::from_fn(|v| if v < n { row(v) } else { 0 });
    let mut canonical: [setword; MAX_ORDER] = [0; MAX_ORDER];
    let [mut lab, mut ptn, mut orbits]: [[c_int; MAX_ORDER]; 3] = [[0; MAX_ORDER]; 3];
    let mut options = optionblk { getcanon: TRUE, ..optionblk::default() };
    let mut stats = statsblk::default();
    // SAFETY: all arrays have an element for each vertex, and a set of vertices fits into one word,
    // as the 1 says; nauty's own memory belongs to the thread.
    unsafe {
        densenauty(
            rows.as_mut_ptr(),
            lab.as_mut_ptr(),
            ptn.as_mut_ptr(),
            orbits.as_mut_ptr(),
            &mut options,
            &mut stats,
            1,
            n as c_int,
            canonical.as_mut_ptr(),
        );
    }
    assert_eq!(stats.errstatus, 0, "nauty refuses only what is too large for it");
    let mut label = [0; MAX_ORDER];
    for (position, &v) in lab[..n].iter().enumerate() {
        label[v as usize] = position as u8;
    }
    let representatives = orbits.map(|v| v as usize);
    Found { label, representatives, base: stats.grpsize1, exponent: stats.grpsize2 }
}

/// Calls nauty by way of `nauty-pet`.
fn called_by_pet(graph: &Graph) -> Found {
    let n = graph.order();
    let mut input = UnGraph::<(), ()>::with_capacity(n, graph.size());
    let nodes: Vec<_> = (0..n).map(|_| input.add_node(())).collect();
    for (u, w) in graph.edges() {
        input.add_edge(nodes[u], nodes[w], ());
    }
    let found = input.into_canon_labelling_nauty_dense();
    let (mut label, mut representatives) = ([0; MAX_ORDER], [0; MAX_ORDER]);
    for v in 0..n {
        label[v] = found.labelling[v] as u8;
        representatives[v] = found.automorphisms.orbits[v];
    }
    let stats = &found.automorphisms.stats;
    let (base, exponent) = (stats.grpsize_base, stats.grpsize_exp as i32);
    Found { label, representatives, base, exponent }
}

/// The order of a group of permutations, which divides `of`, the number of all permutations, from
/// what floating point numbers know of it.
fn divisor_near(about: f64, of: u64) -> u64 {
    /// The divisor of `of` times `factor` that is nearest, with primes from `prime` on.
    fn nearest(about: f64, of: u64, factor: u64, prime: u64) -> u64 {
        let distance = |found: &u64| (*found as f64 - about).abs();
        if of == 1 {
            return factor;
        }
        let (mut rest, mut powers) = (of, vec![factor]);
        while rest.is_multiple_of(prime) {
            rest /= prime;
            powers.push(powers[powers.len() - 1] * prime);
        }
        let found = powers.into_iter().map(|power| nearest(about, rest, power, prime + 1));
        found.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(factor)
    }
    // nauty divides by 10^10 what is larger. No two divisors of 20! are so close
    // to each other that rounding could exchange them.
    if about < 1e10 { about.round() as u64 } else { nearest(about, of, 1, 2) }
}

/// All graphs of orders 1, …, `n`, one of each isomorphism class in nauty's labels, sorted by
/// code: every graph arises from a smaller one by a new vertex, and nauty tells which are the
/// same. For small n; order 7 takes a second.
pub fn enumerate(n: usize) -> Vec<Vec<Graph>> {
    let mut orders = vec![vec![Graph::edgeless(1)]];
    while orders.len() < n {
        let parents = orders.last().expect("starts with order 1");
        let extended = |parent: &Graph, set: u32| {
            labelling(&parent.with_vertex(set as VertexSet), called_by_pet).canonical
        };
        let mut found: Vec<Graph> = parents
            .iter()
            .flat_map(|parent| (0..1u32 << parent.order()).map(|set| extended(parent, set)))
            .collect();
        found.sort_by_key(Graph::code);
        found.dedup();
        orders.push(found);
    }
    orders.truncate(n);
    orders
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::Code;

    proptest! {
        /// Called by itself and by way of `nauty-pet`, nauty says the same.
        #[test]
        fn both_ways_lead_to_the_same_labels(
            n in 1..=MAX_ORDER,
            codes: [[u128; 2]; 3],
            thinned in 0usize..3,
        ) {
            let [first, beyond] = [0, 1].map(|i| {
                codes[..=thinned].iter().fold(u128::MAX, |kept, code| kept & code[i])
            });
            let graph = Graph::from_code(n, Code::new(first, beyond));
            let [one, other] = [label(&graph), labelling(&graph, called_by_pet)];
            let told = |of: NautyLabelling| (of.canonical, of.automorphisms, of.orbits);
            prop_assert_eq!(told(one), told(other));
        }
    }

    #[test]
    fn enumerates_all_small_graphs() {
        // OEIS A000088.
        assert_eq!(enumerate(6).iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 4, 11, 34, 156]);
    }

    #[test]
    fn large_groups_are_exact() {
        for n in 1..=MAX_ORDER {
            assert_eq!(label(&Graph::edgeless(n)).automorphisms, factorial(n));
            let star = Graph::from_edges(n, (1..n).map(|v| (0, v)));
            assert_eq!(label(&star).automorphisms, if n == 2 { 2 } else { factorial(n - 1) });
        }
    }

    /// So what floating point numbers say, with fifteen digits, decides between them.
    #[test]
    fn divisors_of_20_factorial_are_far_from_each_other() {
        let mut divisors = vec![1u64];
        for (prime, exponent) in
            [(2, 18), (3, 8), (5, 4), (7, 2), (11, 1), (13, 1), (17, 1), (19, 1u32)]
        {
            let smaller = divisors.clone();
            for power in (1..=exponent).map(|e| u64::pow(prime, e)) {
                divisors.extend(smaller.iter().map(|divisor| divisor * power));
            }
        }
        divisors.sort_unstable();
        assert_eq!(divisors.last(), Some(&factorial(20)));
        assert!(
            divisors.windows(2).all(|pair| (pair[1] - pair[0]) as f64 > 1e-12 * pair[1] as f64)
        );
    }

    #[test]
    fn the_graph_without_vertices_has_one_automorphism() {
        let nothing = Graph::edgeless(0);
        let labelling = label(&nothing);
        assert_eq!((labelling.automorphisms, labelling.canonical), (1, nothing));
    }

    #[test]
    fn group_and_orbits_of_a_star() {
        let star = label(&Graph::from_edges(5, [(0, 1), (0, 2), (0, 3), (0, 4)]));
        assert_eq!(star.automorphisms, 24);
        assert_eq!(star.orbits[0], 0b00001);
        assert_eq!(star.orbits[3], 0b11110);
    }
}
