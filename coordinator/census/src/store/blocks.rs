//! Blocks of a store: where each has its place, and how they are put, read, mended by their parity,
//! or found missing.

use std::{borrow::Cow, sync::atomic::Ordering, time::Duration};

use parking_lot::Mutex;
use rocksdb::{DB, FlushOptions, IteratorMode, ReadOptions, WriteBatch};
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockId, BlockName, Section},
    plan::{Plan, Shard, Unit},
};

use super::{
    Store, StoreError,
    database::{BLOB_BYTES, family, section_name, unlogged},
    depot::{reference, referred},
    keys::{block_key, parity_key},
    parity, plan,
};

impl Store {
    /// One section of one bucket of a finished shard, the blocks of its parts in order.
    ///
    /// # Errors
    ///
    /// A block is missing or damaged.
    pub fn blocks(
        &self,
        shard: &Shard,
        bucket: u32,
        section: Section,
    ) -> Result<Vec<Block>, StoreError> {
        (0..shard.parts).map(|part| self.block(shard, part, bucket, section)).collect()
    }

    /// One block of a finished unit.
    ///
    /// # Errors
    ///
    /// It is missing or damaged.
    pub fn block(
        &self,
        shard: &Shard,
        part: u32,
        bucket: u32,
        section: Section,
    ) -> Result<Block, StoreError> {
        self.read(&block_id(shard, part, bucket, section))
    }

    /// Whether there is something in the place of a block, which may be damaged. Its parity, which is
    /// small, tells, if it has one.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn has(&self, id: &BlockId) -> Result<bool, StoreError> {
        let section = section_name(id.section);
        let read = self.database.run(|db| {
            let family = family(db, section);
            let is_there = db.get_pinned_cf(family, parity_key(id))?.is_some()
                || db.get_pinned_cf(family, block_key(id))?.is_some();
            if is_there { Ok(()) } else { Err(StoreError::MissingBlock(*id)) }
        });
        match read {
            Ok(()) | Err(StoreError::Damaged(_)) => Ok(true),
            Err(StoreError::MissingBlock(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the outcomes of a shard, or of a part of it, were there and have been dropped.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn has_gone(&self, plan: &Plan, index: u32) -> Result<bool, StoreError> {
        self.has_any_gone(plan, plan.parts_of(index), Section::Outcomes)
    }

    /// Whether this section of one of these units was there and has been dropped.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn has_any_gone(
        &self,
        plan: &Plan,
        units: impl Iterator<Item = Unit>,
        section: Section,
    ) -> Result<bool, StoreError> {
        for unit in units {
            let block = block_id(plan.shard_of(unit), unit.part, 0, section);
            if self.unit(unit)?.is_some() && !self.has(&block)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One block of a finished unit. A damaged one is mended, if its parity can do that.
    ///
    /// # Errors
    ///
    /// It is missing, or damaged beyond that.
    pub fn read(&self, id: &BlockId) -> Result<Block, StoreError> {
        match self.read_as_it_is(id) {
            Err(error @ (StoreError::UnreadableBlock { .. } | StoreError::Block { .. })) => {
                self.mend(id, &error)?.ok_or(error)
            }
            read => read,
        }
    }

    /// A damaged block as it was; `None` if that cannot be found out. If the store may be written,
    /// it is as before there, too.
    fn mend(&self, id: &BlockId, error: &StoreError) -> Result<Option<Block>, StoreError> {
        // What lies in a depot has no parity, but that of what lay in the database before it. To read it
        // again may take long, and is done without keeping others from writing.
        let lies_elsewhere = matches!(self.name_elsewhere(id), Ok(Some(_)));
        if lies_elsewhere || self.database.run(|db| parity_of(db, id))?.is_none() {
            return Ok(self.read_as_it_is(id).ok());
        }
        // Nobody is to write or drop it meanwhile, or to mend it as well.
        let alone = self.journal.as_ref().map(Mutex::lock);
        let again = match alone.is_some().then(|| self.read_as_it_is(id)) {
            Some(Ok(block)) => return Ok(Some(block)),
            Some(Err(error)) => Some(error),
            None => None,
        };
        let error = again.as_ref().unwrap_or(error);
        let mended = self.database.run(|db| mended(db, self.layout(), id, error))?;
        let Some(block) = mended else { return Ok(None) };
        tracing::warn!(
            "order {}, shard {}, part {}: a damaged block ({}) has been mended",
            id.sequence.order(),
            id.sequence,
            id.part,
            section_name(id.section)
        );
        self.mended.fetch_add(1, Ordering::Relaxed);
        if alone.is_some() {
            let written = self.database.run(|db| {
                let section = family(db, section_name(id.section));
                for (key, value) in entries(id, Cow::Borrowed(block.bytes())) {
                    db.put_cf_opt(section, key, value, &unlogged())?;
                }
                Ok(db.flush_cf(section)?)
            });
            if let Err(error) = written {
                tracing::warn!("it stays damaged on its disk: {error}");
            }
        }
        Ok(Some(block))
    }

    /// How often a block was damaged when it was read, and was mended, since the store was opened.
    pub fn mended(&self) -> u64 {
        self.mended.load(Ordering::Relaxed)
    }

    fn read_as_it_is(&self, id: &BlockId) -> Result<Block, StoreError> {
        let id = *id;
        let section = section_name(id.section);
        let value = self
            .database
            .run(|db| {
                let value = db.get_cf(family(db, section), block_key(&id))?;
                value.ok_or(StoreError::MissingBlock(id))
            })
            .map_err(|error| match error {
                StoreError::Damaged(source) => StoreError::UnreadableBlock { id, source },
                error => error,
            })?;
        if let Some(name) = referred(&value) {
            return self.read_named(&id, &name);
        }
        let block = Block::parse(self.layout(), value)
            .map_err(|source| StoreError::Block { id, source })?;
        if block.id == id { Ok(block) } else { Err(StoreError::MissingBlock(id)) }
    }

    /// One block of a unit, which lies in the depot under this name.
    ///
    /// # Errors
    ///
    /// It is missing or damaged there, or the depot cannot be read.
    pub fn read_named(&self, id: &BlockId, name: &BlockName) -> Result<Block, StoreError> {
        let found = self.elsewhere(name, Duration::MAX)?.ok_or(StoreError::MissingBlock(*id))?;
        let block = found.map_err(|source| StoreError::Block { id: *id, source })?;
        if block.id == *id { Ok(block) } else { Err(StoreError::MissingBlock(*id)) }
    }

    /// What is stored of a block in the database: a reference if it lies in the depot.
    pub(super) fn value<'b>(&self, block: &'b Block) -> (BlockId, Cow<'b, [u8]>) {
        let value = match self.is_for_depot(block) {
            true => Cow::Owned(reference(&block.name())),
            false => Cow::Borrowed(block.bytes()),
        };
        (block.id, value)
    }

    /// Whether there are graphs of an order, and they are not those of one whose graphs go.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn has_graphs(&self, order: usize) -> Result<bool, StoreError> {
        if self.order(order)?.is_some_and(|record| record.graphs_dropped) {
            return Ok(false);
        }
        let prefix = [order as u8];
        self.database.run(|db| {
            let mode = IteratorMode::From(&prefix, rocksdb::Direction::Forward);
            let keys = family(db, section_name(Section::Keys));
            let first = db.iterator_cf(keys, mode).next().transpose()?;
            Ok(first.is_some_and(|(key, _)| key.starts_with(&prefix)))
        })
    }

    /// Whether all graphs of an order are there that are on record, as [`Store::has_graphs`] does.
    /// When all of the next order is done they go, all at once, before that is recorded. While it
    /// has no result, be it withdrawn, or the run killed just then, those that were made again
    /// since may be all that is there.
    ///
    /// # Errors
    ///
    /// As there; or the record is of another plan than this program makes.
    pub fn has_all_graphs(&self, order: usize) -> Result<bool, StoreError> {
        if !self.has_graphs(order)? {
            return Ok(false);
        }
        let may_have_served = self.order(order + 1)?.is_some_and(|next| next.result.is_none());
        let Some(record) = self.order(order)?.filter(|_| may_have_served) else {
            return Ok(true);
        };
        let plan = plan(self.layout(), order, &record)?;
        Ok(!self.has_any_gone(&plan, plan.units(), Section::Keys)?)
    }
}

/// The place of a block of a shard.
pub fn block_id(shard: &Shard, part: u32, bucket: u32, section: Section) -> BlockId {
    BlockId { sequence: shard.sequence, part, bucket_bits: shard.bucket_bits, bucket, section }
}

/// The places of all blocks of a part of a shard, in the order in which they are delivered.
pub fn block_ids(shard: &Shard, part: u32) -> impl Iterator<Item = BlockId> {
    shard
        .buckets()
        .flat_map(move |bucket| Section::ALL.map(|section| block_id(shard, part, bucket, section)))
}

/// Bytes of the parity that is stored with a block of so many bytes: none, if it does not lie in a
/// file of large values.
pub fn parity_bytes(block_bytes: usize) -> usize {
    if has_parity(block_bytes) { parity::bytes(block_bytes) } else { 0 }
}

fn has_parity(block_bytes: usize) -> bool {
    block_bytes >= BLOB_BYTES as usize
}

/// What is stored of a block, with the keys: its value, and its parity if it has one.
fn entries<'b>(
    id: &BlockId,
    value: Cow<'b, [u8]>,
) -> impl Iterator<Item = (Vec<u8>, Cow<'b, [u8]>)> + use<'b> {
    let parity = has_parity(value.len()).then(|| (parity_key(id), Cow::Owned(parity::of(&value))));
    std::iter::once((block_key(id), value)).chain(parity)
}

/// Puts blocks, which are few bytes, into the log, in the same write as their records.
pub(super) fn put_logged<'b>(
    db: &DB,
    batch: &mut WriteBatch,
    values: impl Iterator<Item = (BlockId, Cow<'b, [u8]>)>,
) {
    for (id, value) in values {
        let section = family(db, section_name(id.section));
        for (key, value) in entries(&id, value) {
            batch.put_cf(section, key, value);
        }
    }
}

/// Puts blocks into files, without the log; they are there when this returns. The values have so
/// many bytes in all, of which copies of about `flushed_bytes` at most are in memory at a time: one
/// half is flushed while the other is written.
pub(super) fn put_flushed<'b>(
    db: &DB,
    values: impl Iterator<Item = (BlockId, Cow<'b, [u8]>)>,
    bytes: u64,
    flushed_bytes: u64,
) -> Result<(), StoreError> {
    let sections = Section::ALL.map(|section| family(db, section_name(section)));
    let flush = |wait| {
        let mut options = FlushOptions::default();
        options.set_wait(wait);
        // It waits in any case while what was written before is still being flushed.
        db.flush_cfs_opt(&sections, &options)
    };
    // Whether flushes can be begun just now is of no concern if they can be waited for.
    let begin_flush = || flush(false).or_else(|_| flush(true));
    // All pieces are of one length, so that none is small.
    let half = (flushed_bytes / 2).max(1);
    let pieces = ((bytes + half / 2) / half).max(1);
    let piece_bytes = bytes.div_ceil(pieces);
    let (unlogged, mut put_bytes) = (unlogged(), 0);
    for (id, value) in values {
        let section = family(db, section_name(id.section));
        for (key, value) in entries(&id, value) {
            put_bytes += value.len() as u64;
            db.put_cf_opt(section, key, value, &unlogged)?;
        }
        if put_bytes >= piece_bytes {
            begin_flush()?;
            put_bytes = 0;
        }
    }
    // All sections at once, and then all of them are waited for.
    begin_flush()?;
    Ok(flush(true)?)
}

/// A block that cannot be read as it is, for this reason, from what is there of it, and its parity.
/// Where it lies is told by what has its own checksums: if these are wrong, nothing may be read
/// unchecked, as RocksDB would follow whatever it finds there.
///
/// # Errors
///
/// The system lacks something: damage is none.
pub(super) fn mended(
    db: &DB,
    layout: Layout,
    id: &BlockId,
    error: &StoreError,
) -> Result<Option<Block>, StoreError> {
    let Some(section) = db.cf_handle(section_name(id.section)) else { return Ok(None) };
    // What is not checked is nothing for those who read after it.
    let mut reading = ReadOptions::default();
    reading.set_verify_checksums(!error.is_within_value());
    reading.fill_cache(false);
    let damaged = undamaged(db.get_cf_opt(section, block_key(id), &reading))?;
    let parity = parity_of(db, id)?;
    let block = damaged.zip(parity).and_then(|(damaged, parity)| {
        Block::parse(layout, parity::mended(&damaged, &parity)?).ok()
    });
    Ok(block.filter(|block| block.id == *id))
}

/// The parity of a block, if it has one that is not damaged.
///
/// # Errors
///
/// The system lacks something.
fn parity_of(db: &DB, id: &BlockId) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(section) = db.cf_handle(section_name(id.section)) else { return Ok(None) };
    undamaged(db.get_cf(section, parity_key(id)))
}

/// What was read, or nothing where it is damaged.
fn undamaged<T>(read: Result<Option<T>, rocksdb::Error>) -> Result<Option<T>, StoreError> {
    match read.map_err(StoreError::from) {
        Err(StoreError::Damaged(_)) => Ok(None),
        read => read,
    }
}
