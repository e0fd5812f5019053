//! Deletions of edges: which edges of the graphs of a shard lead to which partition.

use std::sync::Arc;

use trailtrap_shared::{
    graph::{
        degree::{self, DegreeSequence},
        pairs,
    },
    partition::{BucketTable, bucket_of_slot},
};

/// A partition one edge deletion away: which edges lead there, and its tables as far as they are
/// at hand.
pub(super) struct Predecessor {
    pub(super) sequence: DegreeSequence,
    /// The pairs of vertices whose edge leads there, as in [`Graph::code`]: vertices are in order
    /// of degree, so of u < w u has the lower degree.
    pub(super) edges: u128,
    /// The colours that labelling starts from, but for the ends of the deleted edge …
    pub(super) colours: [u16; 16],
    /// … which have these.
    pub(super) low_colour: u16,
    pub(super) high_colour: u16,
    pub(super) bucket_bits: u8,
    pub(super) tables: Vec<Option<Arc<BucketTable>>>,
}

impl Predecessor {
    pub(super) fn new(
        from: &DegreeSequence,
        deletion: &degree::Deletion,
        bucket_bits: u8,
    ) -> Self {
        let leads_there = |u, w| from.degree(u) == deletion.low && from.degree(w) == deletion.high;
        let edges = (1..from.order())
            .flat_map(|w| (0..w).map(move |u| (u, w)))
            .filter(|&(u, w)| leads_there(u, w));
        let ranks = deletion.sequence.ranks();
        Predecessor {
            sequence: deletion.sequence,
            edges: edges.fold(0, |set, (u, w)| set | 1 << (pairs(w) + u)),
            colours: std::array::from_fn(
                |v| if v < from.order() { ranks[from.degree(v)] } else { 0 },
            ),
            low_colour: ranks[deletion.low - 1],
            high_colour: ranks[deletion.high - 1],
            bucket_bits,
            tables: vec![None; 1 << bucket_bits],
        }
    }

    /// Takes the tables at hand along and leaves the predecessor without any.
    pub(super) fn split_off(&mut self) -> Self {
        let tables = std::mem::replace(&mut self.tables, vec![None; 1 << self.bucket_bits]);
        Predecessor { tables, ..*self }
    }

    /// The table that a slot belongs to. Buckets that are not at hand have their turn with another
    /// group.
    #[inline(always)]
    pub(super) fn table_of(&self, n: usize, slot: u64) -> Option<&BucketTable> {
        let bucket =
            if self.bucket_bits == 0 { 0 } else { bucket_of_slot(n, slot, self.bucket_bits) };
        self.tables[bucket].as_deref()
    }
}

/// One edge of one graph, to be deleted.
#[derive(Clone, Copy, Default)]
pub(super) struct DeletedEdge {
    /// Index of the graph in the chunk.
    pub(super) graph: u32,
    pub(super) u: u8,
    pub(super) w: u8,
}
