//! Properties of a graph that its degrees do not tell: girth, bipartiteness, connectivity. All are
//! computed on adjacency sets, in some tens of nanoseconds for most graphs.

use crate::graph::{Graph, MAX_ORDER, VertexSet, all_vertices, has_two, vertices};

/// The length of a shortest cycle; 0 for forests.
pub fn girth(graph: &Graph) -> u8 {
    let n = graph.order();
    // Most graphs have triangles, and those are found at once.
    if graph.edges().any(|(u, w)| graph.neighbours(u) & graph.neighbours(w) != 0) {
        return 3;
    }
    // A shortest cycle is seen in its full length from each of its vertices; from elsewhere no
    // shorter one is.
    let shortest = (0..n).filter_map(|root| shortest_closed_walk(graph, root)).min();
    shortest.unwrap_or(0)
}

/// The length of the first cycle that breadth-first search from `root` closes.
fn shortest_closed_walk(graph: &Graph, root: usize) -> Option<u8> {
    let (mut reached, mut level): (VertexSet, VertexSet) = (1 << root, 1 << root);
    let mut distance = 0;
    while level != 0 {
        let (mut next, mut met_twice): (VertexSet, VertexSet) = (0, 0);
        for v in vertices(level) {
            if graph.neighbours(v) & level != 0 {
                return Some(2 * distance + 1);
            }
            met_twice |= graph.neighbours(v) & !reached & next;
            next |= graph.neighbours(v) & !reached;
        }
        if met_twice != 0 {
            return Some(2 * distance + 2);
        }
        reached |= next;
        level = next;
        distance += 1;
    }
    None
}

/// Whether there is no cycle of odd length.
pub fn is_bipartite(graph: &Graph) -> bool {
    let mut unseen = all_vertices(graph.order());
    let mut sides: [VertexSet; 2] = [0; 2];
    while unseen != 0 {
        let mut level: VertexSet = 1 << unseen.trailing_zeros();
        let mut side = 0;
        while level != 0 {
            sides[side] |= level;
            unseen &= !level;
            let next = vertices(level).fold(0, |set, v| set | graph.neighbours(v));
            if next & sides[side] != 0 {
                return false;
            }
            level = next & unseen;
            side = 1 - side;
        }
    }
    true
}

/// How well a graph holds together: 0 if it is disconnected, 1 if it is connected but not
/// 2-connected, 2 if it is 2-connected, that is, has at least three vertices and stays connected
/// when any one of them is removed.
pub fn connectivity(graph: &Graph) -> u8 {
    let (n, all) = (graph.order(), all_vertices(graph.order()));
    let Some(root) = n.checked_sub(1) else { return 1 };
    let around = graph.neighbours(root) | 1 << root;
    // If two neighbours join every farther vertex to the root, no other vertex can cut one off. So
    // it is with most graphs whose last vertex has a large degree.
    let well_joined =
        vertices(all & !around).all(|v| has_two(graph.neighbours(v) & graph.neighbours(root)));
    if well_joined {
        return 1 + u8::from(n >= 3 && is_connected_within(graph, all & !(1 << root)));
    }
    // The neighbour of a vertex without another one cuts it off.
    if (0..n).all(|v| has_two(graph.neighbours(v))) && is_two_connected(graph) {
        return 2;
    }
    u8::from(is_connected_within(graph, all))
}

/// Whether a graph with three vertices or more stays connected when any one of them is removed.
fn is_two_connected(graph: &Graph) -> bool {
    // For graphs of few vertices fewer lanes are enough.
    match graph.order() {
        ..=12 => is_two_connected_in::<12>(graph),
        _ => is_two_connected_in::<MAX_ORDER>(graph),
    }
}

/// The same of a graph with `N` vertices at most.
fn is_two_connected_in<const N: usize>(graph: &Graph) -> bool {
    let all = all_vertices(graph.order());
    // In each lane, what can be reached without one of the vertices.
    let left: [VertexSet; N] = std::array::from_fn(|removed| all & !(1 << removed));
    let mut reached = left.map(|left| left & left.wrapping_neg());
    loop {
        let before = reached;
        for v in 0..graph.order() {
            let (one_hot, neighbours) = (1 << v, graph.neighbours(v));
            for (reached, left) in reached.iter_mut().zip(left) {
                *reached |= if *reached & one_hot != 0 { neighbours & left } else { 0 };
            }
        }
        if reached == left {
            return true;
        }
        if reached == before {
            return false;
        }
    }
}

/// Whether the vertices of a set are joined by paths inside the set.
fn is_connected_within(graph: &Graph, set: VertexSet) -> bool {
    let mut reached = set & set.wrapping_neg();
    let mut level = reached;
    while level != 0 {
        let next = vertices(level).fold(0, |next, v| next | graph.neighbours(v)) & set;
        level = next & !reached;
        reached |= level;
        if reached == set {
            return true;
        }
    }
    reached == set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::nauty;

    /// OEIS A033995, A006785, A005195, A002218 (which counts K2) and A001349, orders 1 to 8.
    #[test]
    fn known_sequences() {
        let orders = nauty::enumerate(8);
        let count = |property: &dyn Fn(&Graph) -> bool| -> Vec<usize> {
            orders
                .iter()
                .map(|graphs| graphs.iter().filter(|graph| property(graph)).count())
                .collect()
        };
        assert_eq!(count(&|g| is_bipartite(g)), [1, 2, 3, 7, 13, 35, 88, 303]);
        assert_eq!(count(&|g| girth(g) != 3), [1, 2, 3, 7, 14, 38, 107, 410]);
        assert_eq!(count(&|g| girth(g) == 0), [1, 2, 3, 6, 10, 20, 37, 76]);
        assert_eq!(count(&|g| connectivity(g) == 2), [0, 0, 1, 3, 10, 56, 468, 7123]);
        assert_eq!(count(&|g| connectivity(g) > 0), [1, 1, 2, 6, 21, 112, 853, 11117]);
        // Triangle-free graphs without cycles of length 4 either: OEIS A006787.
        assert_eq!(count(&|g| girth(g) == 0 || girth(g) > 4), [1, 2, 3, 6, 11, 23, 48, 114]);
    }

    /// Dense and sparse graphs of all orders, by the definition.
    #[test]
    fn connectivity_is_what_it_is_called() {
        let mut state = 1u128;
        // Sets with one vertex in two, in four, or in eight.
        let mut draw = |thinned: usize| -> VertexSet {
            (0..=thinned).fold(VertexSet::MAX, |set, _| {
                const FACTOR: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
                state = state.wrapping_mul(FACTOR).wrapping_add(1);
                set & (state >> 96) as VertexSet
            })
        };
        let mut found = [[0; 3]; MAX_ORDER + 1];
        for round in 0..20_000 {
            let n = 1 + round % MAX_ORDER;
            for thinned in 0..3 {
                let graph = (0..n).fold(Graph::edgeless(0), |graph, v| {
                    graph.with_vertex(draw(thinned) & all_vertices(v))
                });
                let all = all_vertices(n);
                let without = |v: usize| is_connected_within(&graph, all & !(1 << v));
                let expected = match is_connected_within(&graph, all) {
                    false => 0,
                    true => 1 + u8::from(n >= 3 && (0..n).all(without)),
                };
                assert_eq!(connectivity(&graph), expected, "{graph:?}");
                found[n][usize::from(expected)] += 1;
            }
        }
        assert!(found[3..].iter().flatten().all(|&graphs| graphs > 20), "{found:?}");
    }

    #[test]
    fn cycles_and_cages() {
        for n in 3..=MAX_ORDER {
            let cycle = Graph::from_edges(n, (0..n).map(|v| (v, (v + 1) % n)));
            assert_eq!(
                (girth(&cycle), is_bipartite(&cycle), connectivity(&cycle)),
                (n as u8, n % 2 == 0, 2)
            );
        }
        let petersen = Graph::from_edges(
            10,
            (0..5).flat_map(|v| [(v, (v + 1) % 5), (v, v + 5), (v + 5, (v + 2) % 5 + 5)]),
        );
        assert_eq!(
            (girth(&petersen), is_bipartite(&petersen), connectivity(&petersen)),
            (5, false, 2)
        );
    }
}
