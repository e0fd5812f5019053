//! What the classes are defined by, written down without any cleverness, and without the code by
//! which graphs are told apart in a census. For small graphs.

use std::collections::HashSet;

use super::Class;
use crate::graph::Graph;

/// Whether a graph belongs to a class.
pub(super) fn contains(class: Class, graph: &Graph) -> bool {
    let n = graph.order();
    let degree = |v: usize| (0..n).filter(|&w| graph.has_edge(v, w)).count();
    match class {
        Class::All => true,
        Class::MaxDegree(most) => (0..n).all(|v| degree(v) <= most.into()),
        Class::Girth(least) => (3..usize::from(least)).all(|length| !has_cycle(graph, length)),
        Class::SquareFree => !has_cycle(graph, 4),
        Class::Bipartite => {
            (0..1u32 << n).any(|side| graph.edges().all(|(u, w)| side >> u & 1 != side >> w & 1))
        }
        // Wagner 1937.
        Class::Planar => !has_minor(graph, &[complete(5), complete_bipartite(3, 3)]),
        // Chartrand and Harary 1967.
        Class::Outerplanar => !has_minor(graph, &[complete(4), complete_bipartite(2, 3)]),
        Class::Forest => (3..=n).all(|length| !has_cycle(graph, length)),
        Class::LinearForest => contains(Class::Forest, graph) && (0..n).all(|v| degree(v) <= 2),
    }
}

/// Whether there is a cycle of this length.
fn has_cycle(graph: &Graph, length: usize) -> bool {
    fn goes_on(graph: &Graph, length: usize, way: &mut Vec<usize>) -> bool {
        let (first, last) = (way[0], way[way.len() - 1]);
        if way.len() == length {
            return graph.has_edge(last, first);
        }
        (0..graph.order()).any(|v| {
            let is_next = graph.has_edge(last, v) && !way.contains(&v);
            is_next && {
                way.push(v);
                let found = goes_on(graph, length, way);
                way.pop();
                found
            }
        })
    }
    (0..graph.order()).any(|v| goes_on(graph, length, &mut vec![v]))
}

fn complete(n: usize) -> Graph {
    Graph::from_edges(n, (0..n).flat_map(|w| (0..w).map(move |u| (u, w))))
}

fn complete_bipartite(a: usize, b: usize) -> Graph {
    Graph::from_edges(a + b, (0..a).flat_map(|u| (a..a + b).map(move |w| (u, w))))
}

/// Whether one of these graphs without isolated vertices can be had by contracting edges, and then
/// leaving out edges and vertices.
fn has_minor(graph: &Graph, minors: &[Graph]) -> bool {
    let mut seen = HashSet::from([*graph]);
    let mut waiting = vec![*graph];
    while let Some(graph) = waiting.pop() {
        if minors.iter().any(|minor| has_subgraph(&graph, minor, &mut Vec::new())) {
            return true;
        }
        for (u, w) in graph.edges() {
            let contracted = contracted(&graph, u, w);
            if seen.insert(contracted) {
                waiting.push(contracted);
            }
        }
    }
    false
}

/// The graph in which two joined vertices have become one.
fn contracted(graph: &Graph, u: usize, w: usize) -> Graph {
    let mut joined = *graph;
    for v in 0..graph.order() {
        if v != u && graph.has_edge(w, v) {
            joined.add_edge(u, v);
        }
    }
    joined.without_vertex(w)
}

/// Whether the vertices of a smaller graph can be placed on distinct vertices, the first ones on
/// these, such that joined vertices come to stand on joined ones.
fn has_subgraph(graph: &Graph, smaller: &Graph, placed: &mut Vec<usize>) -> bool {
    let next = placed.len();
    if next == smaller.order() {
        return true;
    }
    (0..graph.order()).any(|v| {
        let fits = !placed.contains(&v)
            && (0..next).all(|u| !smaller.has_edge(u, next) || graph.has_edge(placed[u], v));
        fits && {
            placed.push(v);
            let found = has_subgraph(graph, smaller, placed);
            placed.pop();
            found
        }
    })
}
