//! Partitions: all records of one degree sequence, as they stand in memory ([`BucketTable`]) and
//! in blocks of bytes ([`Block`]) that are stored and sent.
//!
//! Within a partition a graph is known by its *slot*, a scrambled key: partitions are sorted by
//! slot, so that equal ranges of slots (*buckets*) hold about equally many graphs and a look-up
//! needs one step into a directory.

mod asked;
mod block;
mod content;
mod pages;
mod slot;
mod sorted;
mod table;

pub use asked::Asked;
pub use block::{
    BLOCK_FORMAT, Block, BlockError, BlockId, BlockName, CHECKSUM_BYTES, Checksum, HEADER_BYTES,
    MAGIC, OLDEST_BLOCK_FORMAT, Section,
};
pub use content::Content;
pub use pages::LARGE_BYTES;
pub use slot::{
    bucket_of_slot, graph_of_slot, key_of_slot, most_bucket_bits, places_without_an_edge,
    slot_bits, slot_bytes, slot_of, slot_of_key, slot_of_labelled,
};
pub use sorted::{Slots, sorted_slots_bytes};
pub use table::{
    BucketBlocks, BucketTable, KeyedOutcomes, Mismatch, directory_bytes, entry_bytes, prefetch,
};

/// What the tests of blocks and tables take for partitions.
#[cfg(test)]
mod samples {
    use proptest::prelude::*;

    use super::{BucketBlocks, BucketTable};
    use crate::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
    };

    pub(super) fn regular_partition(
        slots: &[u64],
        bucket_bits: u8,
        bucket: u32,
        part: u32,
    ) -> (BucketTable, BucketBlocks) {
        let sequence = DegreeSequence::new([4; 11]);
        let table = BucketTable::new(
            TrailTrap::LAYOUT,
            sequence,
            bucket_bits,
            bucket,
            slots.iter().copied(),
            |i, record| {
                record.fill(slots[i] as u8);
                // The verdict is bit 132, in the last byte.
                record[16] = (slots[i] as u8 & 1) << 4;
            },
        );
        let blocks = table.to_blocks(part);
        (table, blocks)
    }

    pub(super) fn slots() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::btree_set(0u64..1 << 45, 0..300)
            .prop_map(|set| set.into_iter().collect())
    }
}
