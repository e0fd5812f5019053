//! nauty, the judge of what isomorphic means: McKay and Piperno, *Practical graph isomorphism, II*
//! (2014), through `nauty-pet`. Shares no code with the labellings of the census.

use nauty_pet::canon::IntoCanonLabellingNautyDense;
use petgraph::graph::UnGraph;

use crate::graph::{Graph, MAX_ORDER, VertexSet};

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
    /// |Aut|, which is exact: at most 16! and so below 2^53.
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

/// Labels a graph with dense nauty.
pub fn label(graph: &Graph) -> NautyLabelling {
    let n = graph.order();
    if n == 0 {
        // nauty refuses it, and gives a group of no elements.
        let label = [0; MAX_ORDER];
        return NautyLabelling {
            label,
            canonical: *graph,
            automorphisms: 1,
            orbits: [0; MAX_ORDER],
        };
    }
    let mut input = UnGraph::<(), ()>::with_capacity(n, graph.size());
    let nodes: Vec<_> = (0..n).map(|_| input.add_node(())).collect();
    for (u, w) in graph.edges() {
        input.add_edge(nodes[u], nodes[w], ());
    }
    let found = input.into_canon_labelling_nauty_dense();
    let mut label = [0; MAX_ORDER];
    for (v, &position) in found.labelling.iter().enumerate() {
        label[v] = position as u8;
    }
    let stats = &found.automorphisms.stats;
    // nauty returns the group size as base · 10^exponent; orders of groups of 16 points have no
    // exponent.
    let automorphisms = (stats.grpsize_base * 10f64.powi(stats.grpsize_exp as i32)).round() as u64;
    let representative = &found.automorphisms.orbits;
    let orbits = std::array::from_fn(|v| {
        (0..n)
            .filter(|&w| v < n && representative[w] == representative[v])
            .fold(0, |set, w| set | 1 << w)
    });
    NautyLabelling { label, canonical: graph.relabelled(&label), automorphisms, orbits }
}

/// All graphs of orders 1, …, `n`, one of each isomorphism class in nauty's labels, sorted by
/// code: every graph arises from a smaller one by a new vertex, and nauty tells which are the
/// same. For small n; order 7 takes a second.
pub fn enumerate(n: usize) -> Vec<Vec<Graph>> {
    let mut orders = vec![vec![Graph::edgeless(1)]];
    while orders.len() < n {
        let parents = orders.last().expect("starts with order 1");
        let mut found: Vec<Graph> = parents
            .iter()
            .flat_map(|parent| {
                (0..1u32 << parent.order())
                    .map(|set| label(&parent.with_vertex(set as VertexSet)).canonical)
            })
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
    use super::*;

    #[test]
    fn enumerates_all_small_graphs() {
        // OEIS A000088.
        assert_eq!(enumerate(6).iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 4, 11, 34, 156]);
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
