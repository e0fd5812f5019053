//! Deletions of edges: which edges of the graphs of a shard lead to which partition.

use std::sync::Arc;

use trailtrap_shared::{
    graph::{
        Code,
        degree::{self, DegreeSequence},
        pairs,
    },
    labelling::Colours,
    partition::{BucketTable, bucket_of_slot},
};

/// A partition one edge deletion away: which edges lead there, and its tables, of all buckets or
/// of some.
pub(super) struct Predecessor {
    pub(super) sequence: DegreeSequence,
    /// The pairs of vertices whose edge leads there, as in [`Graph::code`]: vertices are in order
    /// of degree, so of u < w u has the lower degree.
    pub(super) edges: Code,
    /// The colours that labelling starts from, but for the ends of the deleted edge …
    pub(super) colours: Colours,
    /// … which have these.
    pub(super) low_colour: u16,
    pub(super) high_colour: u16,
    pub(super) bucket_bits: u8,
    /// The tables of successive buckets …
    pub(super) tables: Vec<Arc<BucketTable>>,
    /// … from this one on.
    pub(super) first_bucket: usize,
}

impl Predecessor {
    pub(super) fn new(
        from: &DegreeSequence,
        deletion: &degree::Deletion,
        bucket_bits: u8,
    ) -> Self {
        let leads_there = |u, w| from.degree(u) == deletion.low && from.degree(w) == deletion.high;
        let mut edges = Code::default();
        for (u, w) in ends(from.order()).into_iter().filter(|&(u, w)| leads_there(u, w)) {
            edges.add_column(w, 1 << u);
        }
        let ranks = deletion.sequence.ranks();
        Predecessor {
            sequence: deletion.sequence,
            edges,
            colours: std::array::from_fn(
                |v| if v < from.order() { ranks[from.degree(v)] } else { 0 },
            ),
            low_colour: ranks[deletion.low - 1],
            high_colour: ranks[deletion.high - 1],
            bucket_bits,
            tables: Vec::new(),
            first_bucket: 0,
        }
    }

    /// Bytes of the tables that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.memory_bytes()).sum()
    }

    /// The table that a slot belongs to.
    #[inline(always)]
    pub(super) fn table_of(&self, n: usize, slot: u64) -> &BucketTable {
        let bucket =
            if self.bucket_bits == 0 { 0 } else { bucket_of_slot(n, slot, self.bucket_bits) };
        &self.tables[bucket - self.first_bucket]
    }
}

/// The ends of the edge that has each bit of [`Graph::code`], those of the lower bits first.
pub(super) fn ends(n: usize) -> Vec<(usize, usize)> {
    (1..n).flat_map(|w| (0..w).map(move |u| (u, w))).collect()
}

/// The bit of [`Graph::code`] that the edge between u < w has.
#[inline(always)]
pub(super) fn edge(u: usize, w: usize) -> usize {
    pairs(w) + u
}

/// One edge of one graph, to be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletedEdge {
    /// Index of the graph in the chunk.
    pub(super) graph: u32,
    pub(super) u: u8,
    pub(super) w: u8,
}
