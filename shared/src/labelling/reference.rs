//! The reference labelling, version 1: the labelling in which public digests are taken. FROZEN.
//! ARCHITECTURE.md specifies it; the test vectors in `shared/src/count/digest.rs` pin it.
//!
//! Refinement is exact. With colours c(v) = number of vertices of smaller colour, the signature of
//! v is s(v) = Σ 16^c(w) over the neighbours w of v, whose hexadecimal digits count the neighbours
//! of each colour; the new colour of v is the number of vertices w with (c(w), s(w)) < (c(v),
//! s(v)). Repeat until no colour changes.

use super::{Colours, Labelling, search};
use crate::graph::{AdjacencyRows, Graph, MAX_ORDER, vertices};

/// The reference labelling of a graph of order at least 1.
pub fn label(graph: &Graph) -> Labelling {
    search::label(graph.order(), graph.rows(), &refine)
}

pub(super) fn refine(n: usize, rows: &AdjacencyRows, colours: &mut Colours) {
    // Below order 16 a signature has at most 15 digits, and none of them overflows: colour and
    // signature are one number of 64 bits. Beyond it 16 neighbours or more may have one colour; then
    // no vertex has one of the 15 colours above, so that the carry makes no two signatures equal.
    if n < 16 {
        refine_by(
            n,
            rows,
            colours,
            |colour| 1u64 << (4 * colour),
            |colour, signature| u64::from(colour) << 60 | signature,
        );
    } else {
        refine_by(
            n,
            rows,
            colours,
            |colour| 1u128 << (4 * colour),
            |colour, signature| u128::from(colour) << 100 | signature,
        );
    }
}

fn refine_by<T: Copy + Default + PartialOrd + std::ops::AddAssign>(
    n: usize,
    rows: &AdjacencyRows,
    colours: &mut Colours,
    digit: impl Fn(u16) -> T,
    word: impl Fn(u16, T) -> T,
) {
    loop {
        let mut signatures = [T::default(); MAX_ORDER];
        for w in 0..n {
            let digit = digit(colours[w]);
            for v in vertices(rows[w]) {
                signatures[v] += digit;
            }
        }
        let next = ranks(n, |v| word(colours[v], signatures[v]));
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
