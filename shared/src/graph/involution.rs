//! Automorphisms that are their own inverses.

use super::{Graph, MAX_ORDER, VertexSet, all_vertices, are_twins, vertices};

/// What the involutions among the automorphisms of a graph are like. The identity is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Involutions {
    /// The most vertices that one of them moves; 0 if there is none.
    pub largest_support: usize,
    /// Whether one of them maps no edge to itself, be it with its ends exchanged.
    pub fixes_no_edge: bool,
}

/// Looks at all of them.
pub fn involutions(graph: &Graph) -> Involutions {
    search(graph, false)
}

/// Whether one of them maps no edge to itself, as [`Involutions::fixes_no_edge`]; looks at no more
/// than it takes to say so.
pub fn has_free_involution(graph: &Graph) -> bool {
    search(graph, true).fixes_no_edge
}

fn search(graph: &Graph, is_for_free: bool) -> Involutions {
    let found = Involutions::default();
    let mut search = Search { graph, is_for_free, image: [0; MAX_ORDER], found };
    search.extend(0, 0, true);
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    /// Whether it is for one that maps no edge to itself, and ends with it.
    is_for_free: bool,
    image: [usize; MAX_ORDER],
    found: Involutions,
}

impl Search<'_> {
    /// Tries all images of the vertices that have none, and keeps what the others are like: which
    /// they are, how many of them move, and whether no edge among them is mapped to itself. A vertex
    /// of largest degree comes first, as the fewest images fit it; and of twins that have no image
    /// only the first is one: with another it is the same but for their names.
    fn extend(&mut self, known: VertexSet, support: usize, free: bool) {
        if self.is_for_free && (!free || self.found.fixes_no_edge) {
            return;
        }
        let rest = all_vertices(self.graph.order()) & !known;
        let Some(v) = vertices(rest).max_by_key(|&v| self.graph.degree(v)) else {
            if support > 0 {
                self.found.largest_support = self.found.largest_support.max(support);
                self.found.fixes_no_edge |= free;
            }
            return;
        };
        for w in vertices(rest) {
            let (graph, image) = (self.graph, &self.image);
            let fits = graph.degree(v) == graph.degree(w)
                && vertices(known).all(|x| graph.has_edge(v, x) == graph.has_edge(w, image[x]));
            let is_first = || {
                let mut earlier = vertices(rest & all_vertices(w) & !(1 << v));
                v == w || !earlier.any(|u| are_twins(graph.rows(), u, w))
            };
            if fits && is_first() {
                let is_fixed = |x: usize| image[x] == x;
                let keeps_edge = match v == w {
                    true => vertices(known & graph.neighbours(v)).any(is_fixed),
                    false => graph.has_edge(v, w),
                };
                (self.image[v], self.image[w]) = (w, v);
                let moved = if v == w { 0 } else { 2 };
                self.extend(known | 1 << v | 1 << w, support + moved, free && !keeps_edge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::nauty;

    /// By trying all permutations.
    fn tried(graph: &Graph) -> Involutions {
        let n = graph.order();
        let mut found = Involutions::default();
        let mut permutations: Vec<Vec<usize>> = vec![Vec::new()];
        for v in 0..n {
            let longer = |start: Vec<usize>| {
                (0..=v).map(move |place| {
                    let mut longer = start.clone();
                    longer.insert(place, v);
                    longer
                })
            };
            permutations = permutations.into_iter().flat_map(longer).collect();
        }
        for image in permutations {
            let is_own_inverse = (0..n).all(|v| image[image[v]] == v);
            let keeps = |(u, w): (usize, usize)| graph.has_edge(image[u], image[w]);
            let support = (0..n).filter(|&v| image[v] != v).count();
            if is_own_inverse && support > 0 && graph.edges().all(keeps) {
                found.largest_support = found.largest_support.max(support);
                found.fixes_no_edge |= graph.edges().all(|(u, w)| {
                    (image[u], image[w]) != (u, w) && (image[u], image[w]) != (w, u)
                });
            }
        }
        found
    }

    #[test]
    fn all_involutions_are_looked_at() {
        for graph in nauty::enumerate(6).into_iter().flatten() {
            let found = involutions(&graph);
            assert_eq!(found, tried(&graph), "{:?}", graph.rows());
            assert_eq!(has_free_involution(&graph), found.fixes_no_edge, "{:?}", graph.rows());
        }
    }
}
