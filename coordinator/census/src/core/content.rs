//! What tells the data of one computation from that of another: digests of what was written, and
//! of what was read.

use serde::{Deserialize, Serialize};
use trailtrap_shared::partition::Block;

/// Half a BLAKE3 hash: of the blocks of a unit, of the units of a partition, or of the partitions
/// that a unit reads. Equal contents are equal data, in the labelling of the census.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Content([u8; 16]);

impl Content {
    /// The content of a unit, from the checksums of its blocks.
    pub fn of_unit(blocks: &[Block]) -> Self {
        Self::hash(blocks.iter().map(|block| block.name().checksum.0))
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

    /// As text.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}
