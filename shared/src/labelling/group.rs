//! Automorphisms, found by trying: for graphs whose groups are small, or few of whose vertices are
//! alike. [`crate::graph::nauty`] is the judge.

use super::{Colours, degree_colours, hashed};
use crate::graph::{Graph, MAX_ORDER, VertexSet, vertices};

/// An automorphism, as the image of every vertex.
pub type Automorphism = [u8; MAX_ORDER];

/// Automorphisms that generate the group of a graph of order at least 1: for each vertex v, those
/// that leave all vertices before v where they are and move v to another one, one for each.
pub fn generators(graph: &Graph) -> Vec<Automorphism> {
    let n = graph.order();
    let mut colours = degree_colours(n, graph.rows());
    hashed::refine(n, graph.rows(), &mut colours);
    let mut found = Vec::new();
    let mut image: Automorphism = std::array::from_fn(|v| v as u8);
    for v in 0..n {
        for w in v + 1..n {
            let used = ((1 << v) - 1) | (1 << w);
            if colours[w] == colours[v] && is_kept(graph, &image, v, w) {
                image[v] = w as u8;
                if extend(graph, &colours, &mut image, v + 1, used) {
                    found.push(image);
                }
                image = std::array::from_fn(|v| v as u8);
            }
        }
    }
    found
}

/// Maps the vertices from `v` on, those before being mapped onto `used`; whether that can be done.
fn extend(
    graph: &Graph,
    colours: &Colours,
    image: &mut Automorphism,
    v: usize,
    used: VertexSet,
) -> bool {
    let n = graph.order();
    if v == n {
        return true;
    }
    (0..n).any(|w| {
        if used >> w & 1 == 1 || colours[w] != colours[v] || !is_kept(graph, image, v, w) {
            return false;
        }
        image[v] = w as u8;
        extend(graph, colours, image, v + 1, used | 1 << w)
    })
}

/// Whether `w` is joined to the images of those vertices before `v` that `v` is joined to.
fn is_kept(graph: &Graph, image: &Automorphism, v: usize, w: usize) -> bool {
    let before = (1 << v) - 1;
    let mapped = |set: VertexSet| vertices(set).fold(0, |set, x| set | 1 << image[x]);
    let images: VertexSet = mapped(before);
    let joined: VertexSet = mapped(graph.neighbours(v) & before);
    graph.neighbours(w) & images == joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::nauty;

    /// They are automorphisms, and the orbits that they show multiply to the order of the group.
    fn check(graph: &Graph) {
        let found = generators(graph);
        let mut order = 1;
        for v in 0..graph.order() {
            let is_first = |image: &&Automorphism| {
                (0..v).all(|x| usize::from(image[x]) == x) && usize::from(image[v]) != v
            };
            order *= 1 + found.iter().filter(is_first).count() as u64;
        }
        assert_eq!(order, nauty::label(graph).automorphisms, "{graph:?}");
        assert!(found.iter().all(|image| graph.relabelled(image) == *graph), "{graph:?}");
    }

    #[test]
    fn groups_are_those_of_nauty() {
        nauty::enumerate(7).iter().flatten().for_each(check);
        for n in [10, 11, 12] {
            check(&Graph::from_edges(n, (0..n).map(|v| (v, (v + 1) % n))));
        }
        check(&Graph::from_edges(12, (0..6).map(|i| (2 * i, 2 * i + 1))));
        let cube = (0..8usize).flat_map(|v| [1, 2, 4].map(|bit| (v, v ^ bit)));
        check(&Graph::from_edges(8, cube.filter(|(v, w)| v < w)));
    }
}
