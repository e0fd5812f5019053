//! Blocks that are not needed any more are dropped, by ranges of their keys.

use parking_lot::Mutex;
use rocksdb::WriteBatch;
use trailtrap_shared::{partition::Section, plan::Plan};

use super::{
    Store, StoreError,
    database::{family, section_name, synced},
    keys::{DROPPING, KeyRange, keys_between, keys_up_to},
};

impl Store {
    /// Drops one section of all partitions of an order with at most `size` edges, and frees their
    /// space.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn drop_section(
        &self,
        section: Section,
        order: usize,
        size: usize,
    ) -> Result<(), StoreError> {
        self.drop_ranges(section, &[keys_up_to(order, size)])
    }

    /// The same, but what the database refers to stays in the depot.
    pub(super) fn forget_section(
        &self,
        section: Section,
        order: usize,
        size: usize,
    ) -> Result<(), StoreError> {
        self.delete_ranges(section, &[keys_up_to(order, size)])
    }

    /// Drops these sections of the partitions of some shards of a plan, one after the other, and
    /// frees their space, as far as nothing else is in the same files. Whoever finds that nothing of
    /// a section has gone finds all of those behind it.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn drop_shards(
        &self,
        plan: &Plan,
        shards: &[u32],
        sections: &[Section],
    ) -> Result<(), StoreError> {
        let mut shards = shards.to_vec();
        shards.sort_unstable();
        shards.dedup();
        let sequence = |shard: u32| &plan.shards[shard as usize].sequence;
        // The keys of blocks are in the order of the plan.
        let runs: Vec<KeyRange> = shards
            .chunk_by(|shard, next| shard + 1 == *next)
            .map(|run| keys_between(sequence(run[0]), sequence(run[run.len() - 1])))
            .collect();
        sections.iter().try_for_each(|&section| self.drop_ranges(section, &runs))
    }

    /// Drops ranges of keys, which increase, of a section: what they refer to elsewhere, and then
    /// what is here. That this is being done is on record until it is done, since what is half gone
    /// would count as being there.
    fn drop_ranges(&self, section: Section, ranges: &[KeyRange]) -> Result<(), StoreError> {
        if self.has_all_here() || ranges.is_empty() {
            return self.delete_ranges(section, ranges);
        }
        self.put(DROPPING, &(section as u8, ranges.to_vec()))?;
        self.drop_noted(section, ranges)
    }

    /// Drops what is noted to be dropped, and the note.
    fn drop_noted(&self, section: Section, ranges: &[KeyRange]) -> Result<(), StoreError> {
        ranges.iter().try_for_each(|(from, to)| self.remove_elsewhere(section, from, to))?;
        self.delete_ranges(section, ranges)?;
        self.change(vec![(DROPPING.to_vec(), None)])
    }

    /// Drops what a run before was dropping when it ended.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds is damaged.
    pub(super) fn finish_dropping(&self) -> Result<(), StoreError> {
        let Some((number, ranges)) = self.get::<(u8, Vec<KeyRange>)>(DROPPING)? else {
            return Ok(());
        };
        match Section::ALL.into_iter().find(|&known| known as u8 == number) {
            Some(section) => self.drop_noted(section, &ranges),
            None => self.change(vec![(DROPPING.to_vec(), None)]),
        }
    }

    /// Deletes ranges of keys, which increase, from a section, and frees their space.
    fn delete_ranges(&self, section: Section, ranges: &[KeyRange]) -> Result<(), StoreError> {
        let (Some((from, _)), Some((_, to))) = (ranges.first(), ranges.last()) else {
            return Ok(());
        };
        let alone = self.journal.as_ref().map(Mutex::lock);
        self.database.run(|db| {
            let (mut batch, blocks) = (WriteBatch::default(), family(db, section_name(section)));
            ranges.iter().for_each(|(from, to)| batch.delete_range_cf(blocks, from, to));
            Ok(db.write_opt(batch, &synced())?)
        })?;
        drop(alone);
        self.database.run(|db| {
            // This rewrites where blocks are, and small blocks; files with nothing left in them go.
            db.compact_range_cf(family(db, section_name(section)), Some(from), Some(to));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        plan::Unit,
    };
    use trailtrap_worker::supply::kept::Mark;

    use super::*;
    use crate::tests::{blocks, solved_by_ann};

    /// A run was killed when it had removed blocks from the depot, and not yet the references to
    /// them: the next one takes them for dropped, and drops them once.
    #[test]
    fn what_was_being_dropped_is_dropped_to_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let [path, place] = ["store", "depot"].map(|name| directory.path().join(name));
        std::fs::create_dir(&place).unwrap();
        let (unit, sequence) = (Unit { order: 9, shard: 0, part: 0 }, DegreeSequence::new([4; 9]));
        let blocks = blocks(TrailTrap::LAYOUT, sequence, 0, 0);
        let commit = |store: &Store| {
            let solved = solved_by_ann(unit, sequence, blocks.clone());
            store.commit(&[Arc::new(solved)], u64::MAX).unwrap();
        };
        let are_there = |store: &Store| -> Vec<bool> {
            blocks.iter().map(|block| store.has(&block.id).unwrap()).collect()
        };
        let mut store = Store::open(&path, None, None).unwrap();
        store.keep_in(&place, Mark(7)).unwrap();
        commit(&store);
        let range = keys_up_to(9, 36);
        store.put(DROPPING, &(Section::Outcomes as u8, vec![range.clone()])).unwrap();
        store.remove_elsewhere(Section::Outcomes, &range.0, &range.1).unwrap();
        drop(store);

        let mut store = Store::open(&path, None, None).unwrap();
        assert_eq!(are_there(&store), [true; 3], "references are there");
        store.take_depot().unwrap();
        assert_eq!(are_there(&store), [true, false, true]);
        commit(&store);
        drop(store);
        let mut store = Store::open(&path, None, None).unwrap();
        store.take_depot().unwrap();
        assert_eq!(are_there(&store), [true; 3]);
        blocks.iter().for_each(|block| assert_eq!(store.read(&block.id).unwrap(), *block));
    }
}
