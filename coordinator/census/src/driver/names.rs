//! The names of blocks that came or were read lately, so that a block need not be read only to be
//! named.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;
use trailtrap_shared::partition::{Block, BlockId, BlockName};
use trailtrap_worker::supply::is_shared;

use crate::records::Delivery;

/// Names by place, the last so many of them.
pub struct Names {
    known: Mutex<LruCache<BlockId, BlockName>>,
}

impl Names {
    /// Remembers up to `most` names, of some hundred bytes each.
    pub fn new(most: NonZeroUsize) -> Self {
        Names { known: Mutex::new(LruCache::new(most)) }
    }

    /// The name of the block at this place, if it is remembered.
    pub fn get(&self, id: &BlockId) -> Option<BlockName> {
        self.known.lock().get(id).copied()
    }

    /// Remembers the name of a block, which takes the place of any other.
    pub fn note(&self, block: &Block) {
        self.known.lock().put(block.id, block.name());
    }

    /// Remembers what blocks of a unit will be asked for by name.
    pub fn note_all(&self, delivery: &Delivery) {
        delivery.blocks.iter().filter(|block| is_shared(block)).for_each(|block| self.note(block));
        for (id, name) in &delivery.named {
            self.known.lock().put(*id, *name);
        }
    }

    /// Forgets all: units may be solved again.
    pub fn clear(&self) {
        self.known.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
    };

    use super::*;

    fn keys(part: u32, slots: &[u64]) -> Block {
        let sequence = DegreeSequence::new([4; 11]);
        let table = BucketTable::new(
            TrailTrap::LAYOUT,
            sequence,
            0,
            0,
            slots.iter().copied(),
            |_, record| record.fill(0),
        );
        table.to_blocks(part).keys
    }

    #[test]
    fn the_last_names_are_remembered() {
        let names = Names::new(NonZeroUsize::new(2).unwrap());
        let [a, b, c] = [0, 1, 2].map(|part| keys(part, &[7]));
        names.note(&a);
        names.note(&b);
        assert_eq!(names.get(&a.id), Some(a.name()));
        names.note(&c);
        assert_eq!(names.get(&b.id), None, "the one not used for longest");
        assert_eq!((names.get(&a.id), names.get(&c.id)), (Some(a.name()), Some(c.name())));
        let again = keys(0, &[8]);
        names.note(&again);
        assert_eq!(names.get(&a.id), Some(again.name()), "what was solved again");
        assert_ne!(a.name(), again.name());
        names.clear();
        assert_eq!(names.get(&a.id), None);
    }
}
