//! What tells the data of one computation from that of another: digests of what came of it,
//! whatever form its blocks have, and of what was read.

use crate::partition::{Block, Checksum};
use serde::{Deserialize, Serialize};

/// Half a BLAKE3 hash: of the blocks of a unit, of the units of a partition, or of the partitions
/// that a unit reads. Equal contents are equal data, in the labelling of the census.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Content(pub [u8; 16]);

impl Content {
    /// The content of a unit, whatever form its blocks have.
    pub fn of_unit(blocks: &[Block]) -> Self {
        Self::of_blocks(blocks.iter().map(Block::content))
    }

    /// The same from the contents of the blocks.
    pub fn of_blocks(contents: impl Iterator<Item = Checksum>) -> Self {
        Self::hash(contents.map(|content| content.0))
    }

    /// The content of several things in a fixed order.
    pub fn of_all<'a>(contents: impl IntoIterator<Item = &'a Content>) -> Self {
        Self::hash(contents.into_iter().map(|content| content.0))
    }

    fn hash(pieces: impl Iterator<Item = [u8; 16]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        pieces.for_each(|piece| {
            hasher.update(&piece);
        });
        let mut half = [0; 16];
        hasher.finalize_xof().fill(&mut half);
        Content(half)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
    };

    use super::*;

    /// A unit that was stored with plain slots has the content of the same unit with dense ones,
    /// and that of no other.
    #[test]
    fn the_form_of_blocks_is_no_part_of_the_content() {
        let blocks = |first: u64| -> Vec<Block> {
            let slots = (first..first + 100).map(|i| i << 20);
            let table = BucketTable::new(
                TrailTrap::LAYOUT,
                DegreeSequence::new([4; 11]),
                0,
                0,
                slots.collect::<Vec<_>>().into_iter(),
                |_, record| record.fill(0),
            );
            table.to_blocks(0).into_iter().collect()
        };
        let dense = blocks(7);
        let plain: Vec<Block> = dense.iter().map(Block::to_plain).collect();
        assert_ne!(plain, dense);
        let content = Content::of_unit(&dense);
        assert_eq!(Content::of_unit(&plain), content);
        assert_eq!(Content::hash(plain.iter().map(|block| block.name().checksum.0)), content);
        assert_ne!(Content::of_unit(&blocks(8)), content);
        // Recorded in stores.
        assert_eq!(hex::encode(content.0), "c13b1df9e83ec7d393bf74762be937c1");
    }
}
