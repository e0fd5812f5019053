//! The labelling of the census: colours refined by 12-bit hashes. One graph at a time;
//! [`super::batch`] does 32.
//!
//! The new colour of v is its rank among the words (c(v), h(v)): the old colour in the upper
//! bits, and in the lower 12 the upper bits of a 16-bit sum over the neighbours w of a scrambled
//! c(w). Old colours come first, so classes only ever split; when two different neighbourhoods
//! collide the class stays whole, and the search tree separates it.

use super::{Colours, Labelling, search};
use crate::graph::{AdjacencyRows, Graph, MAX_ORDER, VertexSet, vertices};

/// The labelling of a graph of order at least 1.
pub fn label(graph: &Graph) -> Labelling {
    label_with::<{ u16::MAX }>(graph)
}

/// The least vertex of each orbit under the automorphisms of a graph of order at least 1.
pub fn first_of_orbits(graph: &Graph) -> VertexSet {
    search::first_of_orbits(graph.order(), graph.rows(), &refine)
}

/// The labelling with hashes masked by `MASK`. Keys of different masks are not comparable; narrow
/// masks exist to test that collisions are harmless.
pub(super) fn label_with<const MASK: u16>(graph: &Graph) -> Labelling {
    search::label(graph.order(), graph.rows(), &refine_by::<MASK>)
}

/// Refines colours until nothing changes.
pub(super) fn refine(n: usize, rows: &AdjacencyRows, colours: &mut Colours) {
    refine_by::<{ u16::MAX }>(n, rows, colours);
}

/// Scrambles a colour (0 ≤ c < 20): what each neighbour of that colour adds to a vertex's sum.
pub(super) const fn scramble(colour: u16) -> u16 {
    let x = colour.wrapping_mul(SCRAMBLE[0]).wrapping_add(SCRAMBLE[1]);
    (x ^ (x >> 7)).wrapping_mul(SCRAMBLE[2])
}

/// Any odd multipliers do.
pub(super) const SCRAMBLE: [u16; 3] = [0x9e37, 0x79b9, 0xa2d5];

fn refine_by<const MASK: u16>(n: usize, rows: &AdjacencyRows, colours: &mut Colours) {
    loop {
        let mut sums = [0u16; MAX_ORDER];
        for w in 0..n {
            let scrambled = scramble(colours[w]);
            for v in vertices(rows[w]) {
                sums[v] = sums[v].wrapping_add(scrambled);
            }
        }
        let words: [u32; MAX_ORDER] = std::array::from_fn(|v| {
            u32::from(colours[v]) << 12 | u32::from((sums[v] >> 4) & MASK)
        });
        // Loops over all vertices are what compilers turn into a few vector instructions.
        let mut next = [0u16; MAX_ORDER];
        for w in 0..n {
            for v in 0..MAX_ORDER {
                next[v] += u16::from(words[w] < words[v]);
            }
        }
        if next[..n] == colours[..n] {
            return;
        }
        *colours = next;
    }
}
