//! Automorphisms, found by trying: for graphs whose groups are small, or few of whose vertices are
//! alike. [`crate::graph::nauty`] is the judge.

use super::{Colours, degree_colours, hashed};
use crate::graph::{Graph, MAX_ORDER, VertexSet, all_vertices, pairs, vertices};

/// An automorphism, as the image of every vertex.
pub type Automorphism = [u8; MAX_ORDER];

/// Automorphisms that generate the group of a graph of order at least 1: for each vertex v, in the
/// order of [`connected_order`], those that leave all vertices before v where they are and move v
/// to another one, one for each.
pub fn generators(graph: &Graph) -> Vec<Automorphism> {
    let n = graph.order();
    let mut colours = degree_colours(n, graph.rows());
    hashed::refine(n, graph.rows(), &mut colours);
    let order = connected_order(graph);
    let mut found = Vec::new();
    let mut image: Automorphism = std::array::from_fn(|v| v as u8);
    let mut before = 0;
    for (place, &v) in order.iter().enumerate() {
        let rest = &order[place + 1..];
        for &w in rest {
            if colours[w] == colours[v] && is_kept(graph, &image, before, v, w) {
                image[v] = w as u8;
                if extend(graph, &colours, &mut image, rest, before | 1 << v, before | 1 << w) {
                    found.push(image);
                }
                image = std::array::from_fn(|v| v as u8);
            }
        }
        before |= 1 << v;
    }
    found
}

/// The vertices, each joined to as many before it as can be; of several, one of large degree comes
/// first. So images that lead nowhere are given up soon. In order of degree the ends of four stars
/// would all be mapped before their centres show which of them belong together. A dense graph has
/// the automorphisms of its complement, and its vertices come in that one's order.
fn connected_order(graph: &Graph) -> Vec<usize> {
    let all = all_vertices(graph.order());
    let is_dense = 2 * graph.size() > pairs(graph.order());
    let neighbours = |v: usize| match is_dense {
        true => all & !graph.neighbours(v) & !(1 << v),
        false => graph.neighbours(v),
    };
    let (mut order, mut placed) = (Vec::new(), 0);
    while let Some(v) = vertices(all & !placed)
        .max_by_key(|&v| ((neighbours(v) & placed).count_ones(), neighbours(v).count_ones()))
    {
        order.push(v);
        placed |= 1 << v;
    }
    order
}

/// Maps the vertices of `rest`, those `before` being mapped onto `used`; whether that can be done.
fn extend(
    graph: &Graph,
    colours: &Colours,
    image: &mut Automorphism,
    rest: &[usize],
    before: VertexSet,
    used: VertexSet,
) -> bool {
    let Some((&v, rest)) = rest.split_first() else { return true };
    vertices(all_vertices(graph.order()) & !used).any(|w| {
        if colours[w] != colours[v] || !is_kept(graph, image, before, v, w) {
            return false;
        }
        image[v] = w as u8;
        extend(graph, colours, image, rest, before | 1 << v, used | 1 << w)
    })
}

/// Whether `w` is joined to the images of those vertices `before` that `v` is joined to, and to no
/// others of these images.
fn is_kept(graph: &Graph, image: &Automorphism, before: VertexSet, v: usize, w: usize) -> bool {
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
        let (vertices, mut order) = (connected_order(graph), 1);
        for (place, &v) in vertices.iter().enumerate() {
            let stays = |image: &Automorphism, x: usize| usize::from(image[x]) == x;
            let is_first = |image: &&Automorphism| {
                vertices[..place].iter().all(|&x| stays(image, x)) && !stays(image, v)
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
        // Stars whose ends come first, and paths whose ends do; and their complements.
        let check_both = |n: usize, edges: &[(usize, usize)]| {
            let is_missing = |edge: &(usize, usize)| !edges.contains(edge);
            let pairs = (1..n).flat_map(|w| (0..w).map(move |v| (v, w)));
            check(&Graph::from_edges(n, edges.iter().copied()));
            check(&Graph::from_edges(n, pairs.filter(is_missing)));
        };
        for n in [12, 16] {
            let ends = n / 4 * 3;
            check_both(n, &(0..ends).map(|v| (v, ends + v / 3)).collect::<Vec<_>>());
            let path = |i: usize| {
                let [a, b] = [n / 2 + 2 * i, n / 2 + 2 * i + 1];
                [(2 * i, a), (a, b), (2 * i + 1, b)]
            };
            check_both(n, &(0..n / 4).flat_map(path).collect::<Vec<_>>());
        }
        let cube = (0..8usize).flat_map(|v| [1, 2, 4].map(|bit| (v, v ^ bit)));
        check(&Graph::from_edges(8, cube.filter(|(v, w)| v < w)));
    }
}
