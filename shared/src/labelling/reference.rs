//! The reference labelling, version 1: the labelling in which public digests are taken. FROZEN.
//! ARCHITECTURE.md specifies it; the test vectors in `shared/src/count/digest.rs` pin it.
//!
//! Refinement is exact. With colours c(v) = number of vertices of smaller colour, the signature of
//! v is s(v) = Σ 16^c(w) over the neighbours w of v, whose hexadecimal digits count the neighbours
//! of each colour; the new colour of v is the number of vertices w with (c(w), s(w)) < (c(v),
//! s(v)). Repeat until no colour changes.

use super::{Colours, Labelling, search};
use crate::graph::{AdjacencyRows, Graph, MAX_ORDER};

/// The reference labelling of a graph of order at least 1.
pub fn label(graph: &Graph) -> Labelling {
    search::label(graph.order(), graph.rows(), &refine)
}

fn refine(n: usize, rows: &AdjacencyRows, colours: &mut Colours) {
    loop {
        let mut signatures = [0u64; MAX_ORDER];
        for w in 0..n {
            // At most 15 neighbours, so no hexadecimal digit overflows.
            let digit = 1 << (4 * colours[w]);
            for v in 0..n {
                signatures[v] += if rows[w] & (1 << v) != 0 { digit } else { 0 };
            }
        }
        // Colour and signature in one number. Below order 16 a signature has at most 15 digits,
        // and 64 bits do.
        let next = if n < 16 {
            ranks(n, |v| u64::from(colours[v]) << 60 | signatures[v])
        } else {
            ranks(n, |v| u128::from(colours[v]) << 64 | u128::from(signatures[v]))
        };
        if next[..n] == colours[..n] {
            return;
        }
        *colours = next;
    }
}

/// For each vertex the number of vertices with smaller words.
fn ranks<T: Copy + Default + PartialOrd>(n: usize, word: impl Fn(usize) -> T) -> Colours {
    let mut words = [T::default(); MAX_ORDER];
    for v in 0..n {
        words[v] = word(v);
    }
    let mut ranks = [0; MAX_ORDER];
    for w in 0..n {
        for v in 0..n {
            ranks[v] += u16::from(words[w] < words[v]);
        }
    }
    ranks
}
