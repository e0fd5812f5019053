//! Canonical labelling of graphs of order at most 20, vertices in order of degree.
//!
//! A labelling starts from the degrees, refines vertex colours until nothing changes, and where
//! equal colours are left that are not merely twins, individualizes each candidate in turn and
//! keeps the leaf with the largest key ([`search`]). Two refinements exist:
//!
//! * [`reference`](mod@reference) is exact, simple and frozen: the public digests are defined by
//!   it.
//! * [`hashed`] is the one the census works in: 12-bit hashes, so that many graphs fit a register
//!   ([`batch`], [`forest`]). A hash collision costs time, never correctness.
//!
//! nauty is the judge of both in the tests.

pub mod batch;
mod decode;
pub mod forest;
pub mod group;
pub mod hashed;
mod lanes;
pub mod many;
pub(crate) mod number;
pub mod reference;
mod rounds;
mod search;

pub use decode::graph_of_key;

use crate::graph::{
    AdjacencyRows, Code, Graph, MAX_ORDER, NARROW_ORDER, Rows, VertexSet, all_vertices,
    degree::DegreeSequence, pairs,
};

/// Names the labelling that stored keys and columns are in; stores and workers of different
/// labellings do not mix.
pub const LABELLING: u16 = 1;

/// Up to this order all graphs can be in a census, and its keys are the bits of graphs,
/// C(11, 2) = 55 of them. Beyond it keys are numbers, see [`number`].
pub const MAX_PLAIN_ORDER: usize = 12;

/// A colour per vertex: the number of vertices of smaller colour. Entries from the order on are
/// ignored.
pub type Colours = [u16; MAX_ORDER];

/// For each vertex w of order at most 16 the first whose colour may be that of w: those before it
/// have smaller colours than w and all after w. Zeros say nothing.
pub type Alike = [u8; NARROW_ORDER];

/// What is known of vertices of which each has a colour between the lowest and the highest here.
pub fn alike(lowest: &[u16], highest: &[u16]) -> Alike {
    let mut alike = [0; NARROW_ORDER];
    let mut least = u16::MAX;
    for w in (0..lowest.len().min(NARROW_ORDER)).rev() {
        least = least.min(lowest[w]);
        let before = highest[..w].iter().take_while(|&&colour| colour < least).count();
        alike[w] = before as u8;
    }
    alike
}

/// What a canonical labelling tells about a graph H.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labelling {
    /// Canonical label of each vertex; labels grow with degree.
    pub label: [u8; MAX_ORDER],
    /// The edges among the canonical labels 0, …, n − 2. With the degree sequence it determines H
    /// up to isomorphism: the last row follows from the degrees.
    pub key: Code,
    /// |Aut H|.
    pub automorphisms: u64,
    /// The orbit under Aut H of the vertex labelled n − 1.
    pub last_orbit: VertexSet,
}

impl Labelling {
    /// The short key of `graph`, whose labelling this is.
    pub fn short_key(&self, graph: &Graph) -> u64 {
        short_key(graph.order(), graph.relabelled(&self.label).code())
    }
}

/// A graph whose colours did not decide its labels.
#[derive(Clone, Copy, Default)]
pub struct Undecided {
    /// The graph.
    pub rows: AdjacencyRows,
    /// The colours that its vertices have so far.
    pub colours: Colours,
    /// Whether refining the colours again would change nothing.
    pub stable: bool,
}

/// The best leaf of a search tree: a canonical labelling.
#[derive(Clone, Copy, Default)]
pub struct Leaf {
    /// [`crate::graph::Graph::code`] of the relabelled graph; without its last row it is the key.
    pub code: Code,
    /// Canonical label of each vertex.
    pub label: [u8; MAX_ORDER],
    /// |Aut|.
    pub automorphisms: u64,
    /// The orbit of the vertex with the last label; empty where nobody asks for it.
    pub last_orbit: VertexSet,
}

impl Leaf {
    /// The short key of a graph of order `n`.
    pub fn key(&self, n: usize) -> u64 {
        short_key(n, self.code)
    }
}

/// What graphs of an order 1 ≤ `n` ≤ 20 are known by within their degree sequence: the key of a
/// graph with this [`crate::graph::Graph::code`] in canonical labels, or, beyond order 12, its
/// number.
#[inline]
pub fn short_key(n: usize, code: Code) -> u64 {
    match n <= MAX_PLAIN_ORDER {
        true => code.narrow() as u64 & ((1 << key_bits(n)) - 1),
        false => number::number_of_graph(&Graph::from_code(n, code)),
    }
}

/// Number of bits of a key of order `n`: C(n − 1, 2).
#[inline]
pub const fn key_bits(n: usize) -> usize {
    pairs(n.saturating_sub(1))
}

/// The colours refinement starts from: for each vertex the number of vertices of smaller degree.
fn degree_colours(n: usize, rows: &AdjacencyRows) -> Colours {
    let degrees: [u16; MAX_ORDER] = std::array::from_fn(|v| rows[v].count_ones() as u16);
    let mut colours = [0; MAX_ORDER];
    for w in 0..n {
        for v in 0..MAX_ORDER {
            colours[v] += u16::from(degrees[w] < degrees[v]);
        }
    }
    colours
}

/// The same for graphs of this degree sequence whose vertices are in order of degree, and which of
/// these are alike.
pub(crate) fn shard_colours(sequence: &DegreeSequence) -> (Colours, Alike) {
    let (n, ranks) = (sequence.order(), sequence.ranks());
    let colours: Colours =
        std::array::from_fn(|v| if v < n { ranks[sequence.degree(v)] } else { 0 });
    (colours, alike(&colours[..n], &colours[..n]))
}

/// The key of the graph under `label`.
fn key_under(n: usize, rows: &AdjacencyRows, label: &[u8; MAX_ORDER]) -> Code {
    let image = rows.transposed_under(n, label);
    let mut key = Code::default();
    for j in 0..n - 1 {
        key.add_column(j, image[j] & all_vertices(j));
    }
    key
}

#[cfg(test)]
mod tests;
