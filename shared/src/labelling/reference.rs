//! The reference labelling, version 1: the labelling in which public digests are taken. FROZEN. ARCHITECTURE.md
//! specifies it; the test vectors in `shared/src/digest.rs` pin it.
//!
//! Refinement is exact. With colours c(v) = number of vertices of smaller colour, the signature of v is
//! s(v) = Σ 16^c(w) over the neighbours w of v, whose hexadecimal digits count the neighbours of each colour; the new
//! colour of v is the number of vertices w with (c(w), s(w)) < (c(v), s(v)). Repeat until no colour changes.

use super::{Colours, Labelling, search};
use crate::graph::{Graph, MAX_ORDER, Rows, vertices};

/// The reference labelling of a graph of order at least 1.
pub fn label(graph: &Graph) -> Labelling {
    search::label(graph.order(), graph.rows(), &refine)
}

fn refine(n: usize, rows: &Rows, colours: &mut Colours) {
    loop {
        let mut ranked = [(0u16, 0u64); MAX_ORDER];
        for v in 0..n {
            // At most 15 neighbours, so no hexadecimal digit overflows.
            let signature = vertices(rows[v]).map(|w| 1u64 << (4 * colours[w])).sum();
            ranked[v] = (colours[v], signature);
        }
        let mut next = *colours;
        for v in 0..n {
            next[v] = ranked[..n].iter().filter(|&other| *other < ranked[v]).count() as u16;
        }
        if next[..n] == colours[..n] {
            return;
        }
        *colours = next;
    }
}
