//! Partitions in memory, for look-ups.

use std::sync::Arc;

use super::{
    asked::Asked,
    block::{Block, BlockId, Records, Section},
    pages::zeros,
    slot::{mask, read_word, slot_bits, slot_bytes},
    sorted::sorted_slots_bytes,
};
use crate::{game::Layout, graph::degree::DegreeSequence};

/// Bytes of a slot and the record of its graph, of order `n`.
pub fn entry_bytes(layout: Layout, n: usize) -> usize {
    slot_bytes(n) + layout.record_bytes(n)
}

/// Bytes of the directory of a table of so many entries.
pub fn directory_bytes(count: usize) -> usize {
    let places = places(count);
    places.saturating_add(size_of::<u32>() * places.div_ceil(BLOCK))
}

/// How many places the directory of a table of so many entries has: three for every two, so that
/// nineteen entries of twenty are among the first two of their place, which a look-up compares.
fn places(count: usize) -> usize {
    count.saturating_add(count / 2).max(1)
}

/// So many places of a directory have one number in common. They have about 85 entries, which 8 bits
/// count.
const BLOCK: usize = 128;

/// One bucket of a partition in memory: slots and records side by side, sorted by slot, with a
/// directory. Look-ups are O(1): one step into the directory, then one or two neighbouring entries.
pub struct BucketTable {
    layout: Layout,
    sequence: DegreeSequence,
    bucket_bits: u8,
    bucket: u32,
    count: usize,
    /// Bytes of an entry: its slot, then its record.
    stride: usize,
    slot_bytes: usize,
    slot_mask: u64,
    entries: Vec<u8>,
    /// Where the entries of every [`BLOCK`] places of the directory begin. Slots are scrambled, so
    /// that equal ranges of them, the places, have about equally many.
    blocks: Vec<u32>,
    /// By how many entries those of each place, or of the next one that has any, begin after those
    /// of its block. Where 8 bits are too few to count, both numbers are less, and what is looked for
    /// lies further on.
    after: Vec<u8>,
    /// The number of high bits of 64 that are zeros in a slot, or say its bucket. If these are all,
    /// there is one slot, and one place.
    shift: u32,
}

/// The blocks of one bucket of one part of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketBlocks {
    /// The slots of all graphs.
    pub keys: Block,
    /// The records of all graphs.
    pub outcomes: Block,
    /// The slots of the graphs of the listed verdict.
    pub wins: Block,
}

impl BucketBlocks {
    /// Keys and outcomes with the list of wins that follows from them.
    ///
    /// # Errors
    /// If they do not belong together.
    pub fn with_wins(layout: Layout, keys: Block, outcomes: Block) -> Result<Self, Mismatch> {
        let n = keys.id.sequence.order();
        let is_pair = keys.id.section == Section::Keys
            && outcomes.id == BlockId { section: Section::Outcomes, ..keys.id }
            && keys.count == outcomes.count;
        if !is_pair {
            return Err(Mismatch(keys.id.sequence));
        }
        let is_win = |&(i, _): &(usize, u64)| layout.is_listed(n, outcomes.record(i));
        let slots: Vec<u64> =
            keys.slots().enumerate().filter(is_win).map(|(_, slot)| slot).collect();
        let id = BlockId { section: Section::Wins, ..keys.id };
        let wins = Block::of_slots(layout, id, keys.count, slots.into_iter());
        Ok(BucketBlocks { keys, outcomes, wins })
    }
}

/// Keys, outcomes and wins: the order in which blocks are delivered and stored.
impl IntoIterator for BucketBlocks {
    type Item = Block;
    type IntoIter = std::array::IntoIter<Block, 3>;

    fn into_iter(self) -> Self::IntoIter {
        [self.keys, self.outcomes, self.wins].into_iter()
    }
}

/// What a look-up in one bucket of one part of a partition needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedOutcomes {
    /// The slots of all graphs.
    pub keys: Block,
    /// The records of the same graphs, in the same order.
    pub outcomes: Block,
}

impl From<BucketBlocks> for KeyedOutcomes {
    fn from(BucketBlocks { keys, outcomes, .. }: BucketBlocks) -> Self {
        KeyedOutcomes { keys, outcomes }
    }
}

/// Entries are read and slots written in words of 8 bytes, and records read in words of 4, which may
/// reach this far past the last entry.
const SLACK: usize = 8;
/// A look-up has so many entries at hand.
const LOOK: usize = 2;

// Between two it chooses without a branch.
const _: () = assert!(LOOK == 2);

/// The keys and outcomes of the partition of this degree sequence do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys and outcomes of partition {0} do not belong together")]
pub struct Mismatch(pub DegreeSequence);

impl BucketTable {
    /// A table from strictly increasing slots; `record` writes the record of the i-th.
    pub fn new(
        layout: Layout,
        sequence: DegreeSequence,
        bucket_bits: u8,
        bucket: u32,
        slots: impl ExactSizeIterator<Item = u64>,
        mut record: impl FnMut(usize, &mut [u8]),
    ) -> Self {
        let mut builder = Builder::new(layout, sequence, bucket_bits, bucket, slots.len());
        for (i, to) in builder.push(slots).enumerate() {
            record(i, to);
        }
        builder.finish()
    }

    /// The table of a bucket from the keys and outcomes of its parts, at least one; merges them if
    /// there are several, in a few nanoseconds for each entry, however many parts there are.
    ///
    /// # Errors
    /// [`Mismatch`] if the blocks are not keys and outcomes of parts of one bucket, each with as
    /// many outcomes as keys, if two parts hold the same slot, or if all of them have more graphs
    /// than a table can number.
    pub fn from_blocks(parts: &[KeyedOutcomes]) -> Result<Self, Mismatch> {
        let count = Self::count_of(parts)?;
        let BlockId { sequence, bucket_bits, bucket, .. } = parts[0].keys.id;
        let mut builder = Builder::new(parts[0].keys.layout, sequence, bucket_bits, bucket, count);
        if let [KeyedOutcomes { keys, outcomes }] = parts {
            let records = outcomes.records();
            for (i, to) in builder.push(keys.slots()).enumerate() {
                copy_record(records.get(i), to);
            }
            return Ok(builder.finish());
        }
        let parts = parts.iter().map(|part| (part.keys.slots().zip(0..), part.outcomes.records()));
        Merge::new(parts).into_table(builder)
    }

    /// The same from tables of the parts, at least one.
    ///
    /// # Errors
    /// [`Mismatch`] if the tables are not of one bucket, if two of them hold the same slot, or if
    /// all of them have more graphs than a table can number.
    pub fn from_parts(parts: &[Arc<BucketTable>]) -> Result<Self, Mismatch> {
        let BucketTable { layout, sequence, bucket_bits, bucket, .. } = *parts[0];
        let count: usize = parts.iter().map(|part| part.count).sum();
        let fits = |part: &Arc<BucketTable>| {
            (part.layout, part.sequence) == (layout, sequence)
                && (part.bucket_bits, part.bucket) == (bucket_bits, bucket)
        };
        if !parts.iter().all(fits) || u32::try_from(count).is_err() {
            return Err(Mismatch(sequence));
        }
        let builder = Builder::new(layout, sequence, bucket_bits, bucket, count);
        let parts = parts.iter().map(|part| (part.slots().zip(0..), part.records()));
        Merge::new(parts).into_table(builder)
    }

    /// What is asked for of the table that [`BucketTable::from_blocks`] makes, and few entries more:
    /// each slot of `asked` is found, or not, as it is there. Takes much less time where little is
    /// asked for.
    ///
    /// # Errors
    /// As [`BucketTable::from_blocks`], but that slots of two parts are only seen to be the same if
    /// they are kept.
    pub fn of_asked(parts: &[KeyedOutcomes], asked: &Asked) -> Result<Self, Mismatch> {
        Self::count_of(parts)?;
        let kept: Vec<Vec<PartEntry>> =
            parts.iter().map(|part| asked.among(part.keys.slots())).collect();
        let count = kept.iter().map(Vec::len).sum();
        let BlockId { sequence, bucket_bits, bucket, .. } = parts[0].keys.id;
        let builder = Builder::new(parts[0].keys.layout, sequence, bucket_bits, bucket, count);
        let records = parts.iter().map(|part| part.outcomes.records());
        let kept = kept.iter().map(|kept| kept.iter().copied());
        Merge::new(kept.zip(records)).into_table(builder)
    }

    /// How many graphs parts of a bucket have together.
    fn count_of(parts: &[KeyedOutcomes]) -> Result<usize, Mismatch> {
        let Block { id: first, layout, .. } = parts[0].keys;
        let fits = |KeyedOutcomes { keys, outcomes }: &KeyedOutcomes| {
            keys.id == BlockId { part: keys.id.part, ..first }
                && outcomes.id == BlockId { section: Section::Outcomes, ..keys.id }
                && keys.id.section == Section::Keys
                && keys.count == outcomes.count
                && [keys.layout, outcomes.layout] == [layout; 2]
        };
        let count: usize = parts.iter().map(|part| part.keys.count).sum();
        match parts.iter().all(fits) && u32::try_from(count).is_ok() {
            true => Ok(count),
            false => Err(Mismatch(first.sequence)),
        }
    }

    /// The blocks of this table as part `part` of its partition.
    pub fn to_blocks(&self, part: u32) -> BucketBlocks {
        let n = self.sequence.order();
        let wins: Vec<usize> =
            (0..self.count).filter(|&i| self.layout.is_listed(n, self.record(i))).collect();
        let id = |section| BlockId {
            sequence: self.sequence,
            part,
            bucket_bits: self.bucket_bits,
            bucket: self.bucket,
            section,
        };
        let records = self.records();
        let records = (0..self.count).map(|i| records.get(i));
        let wins = wins.iter().map(|&i| self.slot(i));
        BucketBlocks {
            keys: Block::of_slots(self.layout, id(Section::Keys), self.count, self.slots()),
            outcomes: Block::of_records(self.layout, id(Section::Outcomes), records),
            wins: Block::of_slots(self.layout, id(Section::Wins), self.count, wins),
        }
    }

    /// The degree sequence of the partition.
    pub fn sequence(&self) -> &DegreeSequence {
        &self.sequence
    }

    /// Which bucket this is.
    pub fn bucket(&self) -> u32 {
        self.bucket
    }

    /// Number of graphs.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no graph.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the slots and of the records in the blocks of this table, if it is a part of its
    /// partition; without their heads.
    pub fn stored_bytes(&self) -> u64 {
        let (n, count) = (self.sequence.order(), self.count as u64);
        sorted_slots_bytes(n, self.bucket_bits, count) + count * self.layout.record_bytes(n) as u64
    }

    /// Bytes of memory held by the table.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() + directory_bytes(self.count) + size_of::<Self>()
    }

    /// In increasing order.
    fn slots(&self) -> impl ExactSizeIterator<Item = u64> + Clone {
        (0..self.count).map(|i| self.slot(i))
    }

    fn records(&self) -> Records<'_> {
        let Self { stride, slot_bytes, .. } = *self;
        Records { bytes: &self.entries[slot_bytes..], stride, width: stride - slot_bytes }
    }

    /// The slot of the i-th graph.
    #[inline(always)]
    pub fn slot(&self, i: usize) -> u64 {
        read_word(&self.entries, i * self.stride) & self.slot_mask
    }

    /// The record of the i-th graph, followed by 4 bytes that do not belong to it, so that records
    /// can be read in words of 4 bytes.
    #[inline(always)]
    pub fn record(&self, i: usize) -> &[u8] {
        &self.entries[i * self.stride + self.slot_bytes..(i + 1) * self.stride + 4]
    }

    /// Starts loading the directory entry of a slot into the processor's cache, for a later
    /// [`BucketTable::locate`].
    #[inline(always)]
    pub fn prefetch(&self, slot: u64) {
        let place = self.place(slot);
        prefetch(&self.after, place);
        prefetch(&self.blocks, place / BLOCK);
    }

    /// The index of the first entry that can be that of a slot of this bucket. Starts loading that
    /// entry into the processor's cache, for a later [`BucketTable::look_up`].
    #[inline(always)]
    pub fn locate(&self, slot: u64) -> u32 {
        let first = self.first(self.place(slot));
        // Up to order 13 no two of these bytes have a whole line between them, so that all lines of
        // the entries that a look-up compares are asked for.
        for byte in [0, LOOK * self.stride - 1] {
            prefetch(&self.entries, first * self.stride + byte);
        }
        first as u32
    }

    /// The record of a slot, as [`BucketTable::record`] has it, if the table has it; `first` is what
    /// [`BucketTable::locate`] returned for this slot.
    #[inline(always)]
    pub fn look_up(&self, slot: u64, first: u32) -> Option<&[u8]> {
        let Self { stride, slot_bytes, slot_mask, .. } = *self;
        let is_slot = |entry: &[u8]| read_word(entry, 0) & slot_mask == slot;
        // Nearly always it is one of the first two. Choosing between these without a branch spares the
        // processor a wrong guess at each look-up.
        let begin = first as usize * stride;
        let two = &self.entries[begin..][..LOOK * stride + SLACK];
        let second = usize::from(!is_slot(two));
        let mut entry = &two[second * stride..][..stride + SLACK];
        if !is_slot(entry) || first as usize + second >= self.count {
            let further = self.find(slot, first + LOOK as u32)?;
            entry = &self.entries[further * stride..][..stride + SLACK];
        }
        Some(&entry[slot_bytes..stride + 4])
    }

    /// The index of the entry of a slot, if the table has it; `first` is what
    /// [`BucketTable::locate`] returned for this slot, or any entry from there on that is not after it.
    #[inline(never)]
    pub fn find(&self, slot: u64, first: u32) -> Option<usize> {
        (first as usize..self.count)
            .take_while(|&i| self.slot(i) <= slot)
            .find(|&i| self.slot(i) == slot)
    }

    /// The place of a slot of this bucket in the directory.
    #[inline(always)]
    fn place(&self, slot: u64) -> usize {
        self.places().of(slot)
    }

    #[inline(always)]
    fn places(&self) -> Places {
        Places { count: self.after.len(), shift: self.shift }
    }

    /// Where the entries of a place begin.
    #[inline(always)]
    fn first(&self, place: usize) -> usize {
        self.blocks[place / BLOCK] as usize + usize::from(self.after[place])
    }
}

/// The places of a directory.
#[derive(Clone, Copy)]
struct Places {
    count: usize,
    /// As [`BucketTable`] has it.
    shift: u32,
}

impl Places {
    /// That of a slot.
    #[inline(always)]
    fn of(self, slot: u64) -> usize {
        // The other bits of the slot are a fraction of 2^64, and the place the same of all places.
        let fraction = slot.wrapping_shl(self.shift);
        ((u128::from(fraction) * self.count as u128) >> 64) as usize
    }
}

/// A table that is being filled.
struct Builder {
    table: BucketTable,
    /// Entries that are there. Until the last one is, the directory holds how many each place has,
    /// or the most that it can hold.
    entries: usize,
}

impl Builder {
    /// A table that will have `count` entries.
    fn new(
        layout: Layout,
        sequence: DegreeSequence,
        bucket_bits: u8,
        bucket: u32,
        count: usize,
    ) -> Self {
        let n = sequence.order();
        let stride = entry_bytes(layout, n);
        let places = places(count);
        let table = BucketTable {
            layout,
            sequence,
            bucket_bits,
            bucket,
            count,
            stride,
            slot_bytes: slot_bytes(n),
            slot_mask: mask(8 * slot_bytes(n)),
            entries: zeros((count + LOOK) * stride + SLACK),
            blocks: zeros(places.div_ceil(BLOCK)),
            after: zeros(places),
            shift: (64 - slot_bits(n) + usize::from(bucket_bits)) as u32,
        };
        Builder { table, entries: 0 }
    }

    /// Adds slots, each larger than the one before. What is returned is the room for their records,
    /// all of which are to be written. Where records come in their order, it takes less time to write
    /// many slots and then their records than both in turn.
    #[inline(always)]
    fn push(&mut self, slots: impl Iterator<Item = u64>) -> impl Iterator<Item = &mut [u8]> {
        let places = self.table.places();
        let BucketTable { stride, slot_bytes, after, entries, .. } = &mut self.table;
        let (stride, slot_bytes) = (*stride, *slot_bytes);
        let (after, entries) = (&mut after[..], &mut entries[self.entries * stride..]);
        let (mut count, mut end) = (0, 0);
        for slot in slots {
            let held = &mut after[places.of(slot)];
            *held = held.saturating_add(1);
            // What is written past the slot is overwritten by its record, or by the next slot.
            entries[end..end + SLACK].copy_from_slice(&slot.to_le_bytes());
            count += 1;
            end += stride;
        }
        self.entries += count;
        entries[..end].chunks_exact_mut(stride).map(move |entry| &mut entry[slot_bytes..])
    }

    /// Adds a slot, larger than those before, that the directory counts already, and returns the room
    /// for its record, which is to be written.
    #[inline(always)]
    fn write(&mut self, slot: u64) -> &mut [u8] {
        let BucketTable { stride, slot_bytes, entries, .. } = &mut self.table;
        let entry = &mut entries[self.entries * *stride..];
        entry[..SLACK].copy_from_slice(&slot.to_le_bytes());
        self.entries += 1;
        &mut entry[*slot_bytes..*stride]
    }

    fn finish(mut self) -> BucketTable {
        self.table.entries[self.entries * self.table.stride..].fill(0);
        let BucketTable { blocks, after, .. } = &mut self.table;
        let mut begin = 0;
        for (block, places) in blocks.iter_mut().zip(after.chunks_mut(BLOCK)) {
            *block = begin;
            for held in places {
                let before = (begin - *block).min(u8::MAX.into()) as u8;
                begin += u32::from(std::mem::replace(held, before));
            }
        }
        self.table
    }
}

/// So many cells are merged at a time, while what is read and written is in the processor's cache.
const MERGED_CELLS: usize = if cfg!(test) { 8 } else { 1 << 12 };
/// So many slots of a part are read, and then counted: both take less time than slot by slot.
const READ_TOGETHER: usize = if cfg!(test) { 2 } else { 64 };

/// Goes through the entries of several parts of a bucket in increasing order of slots. Slots are
/// scrambled, so that equal ranges of them hold about equally many: each *cell*, the slots of one
/// place of the table's directory, mostly has one or none, and a slot need only find its way within
/// its cell. Whatever the slots are, the order is right.
struct Merge<'a, I> {
    parts: Vec<MergedPart<'a, I>>,
    /// The first cell that is not merged yet.
    first: usize,
    /// How many slots the cells in work have, or where in the order the next of each goes.
    ends: Vec<u32>,
    /// The entries of the cells in work, part by part, …
    coming: Vec<PartEntry>,
    /// … and their slots in increasing order, …
    slots: Vec<u64>,
    /// … with the part that each comes from, and its index there.
    origins: Vec<(u32, u32)>,
}

/// An entry of a part: its slot and its index there.
type PartEntry = (u64, u32);

/// A part that is being merged.
struct MergedPart<'a, I> {
    /// The first entry that has not come yet, and those after it, in increasing order of slots.
    next: Option<PartEntry>,
    after: I,
    /// How many of those that are coming are its own.
    coming: usize,
    /// Of all entries that it has.
    records: Records<'a>,
}

impl<'a, I: Iterator<Item = PartEntry> + Clone> MergedPart<'a, I> {
    fn new((mut entries, records): (I, Records<'a>)) -> Self {
        let next = entries.next();
        MergedPart { next, after: entries, coming: 0, records }
    }

    /// Reads on while slots are among so many cells, but not more entries than there is room for, and
    /// says how many were read.
    #[inline(always)]
    fn read(&mut self, cells: usize, cell: impl Fn(u64) -> usize, to: &mut [PartEntry]) -> usize {
        // In variables of their own, which the processor's registers hold.
        let (mut next, mut after, mut count) = (self.next, self.after.clone(), 0);
        while let Some(entry) = next
            && cell(entry.0) < cells
            && let Some(to) = to.get_mut(count)
        {
            *to = entry;
            count += 1;
            next = after.next();
        }
        (self.next, self.after) = (next, after);
        count
    }
}

impl<'a, I: Iterator<Item = PartEntry> + Clone> Merge<'a, I> {
    /// Of these entries of each part, in increasing order of slots, and of its records.
    fn new(parts: impl Iterator<Item = (I, Records<'a>)>) -> Self {
        Merge {
            parts: parts.map(MergedPart::new).collect(),
            first: 0,
            ends: Vec::new(),
            coming: Vec::new(),
            slots: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// The table of all entries, in increasing order of slots, of which the builder knows the number.
    ///
    /// # Errors
    /// [`Mismatch`] if two slots are equal. Those of a part increase, as [`Block::parse`] has seen.
    fn into_table(mut self, mut builder: Builder) -> Result<BucketTable, Mismatch> {
        let (mut increase, mut last) = (true, None);
        while self.next_cells(&mut builder.table) {
            for (&slot, &(part, index)) in self.slots.iter().zip(&self.origins) {
                increase &= last < Some(slot);
                last = Some(slot);
                let records = self.parts[part as usize].records;
                copy_record(records.get(index as usize), builder.write(slot));
            }
        }
        match increase && builder.entries == builder.table.count {
            true => Ok(builder.finish()),
            false => Err(Mismatch(builder.table.sequence)),
        }
    }

    /// Goes on with the next cells, if there are any: their slots, in increasing order, are the
    /// merged ones then, and the directory counts them.
    fn next_cells(&mut self, table: &mut BucketTable) -> bool {
        let Merge { parts, first, ends, coming, slots, origins } = self;
        let places = table.places();
        let last = places.count.min(*first + MERGED_CELLS);
        if *first == last {
            return false;
        }
        let (cells, before_these) = (last - *first, *first);
        let cell = |slot: u64| places.of(slot) - before_these;
        ends.clear();
        ends.resize(cells, 0);
        coming.clear();
        for part in &mut *parts {
            let before = coming.len();
            let mut read = [(0, 0); READ_TOGETHER];
            loop {
                let count = part.read(cells, cell, &mut read);
                read[..count].iter().for_each(|&(slot, _)| ends[cell(slot)] += 1);
                coming.extend_from_slice(&read[..count]);
                if count < READ_TOGETHER {
                    break;
                }
            }
            part.coming = coming.len() - before;
        }
        let mut before = 0;
        for (end, held) in ends.iter_mut().zip(&mut table.after[before_these..last]) {
            *held = (*end).min(u8::MAX.into()) as u8;
            before += std::mem::replace(end, before);
        }
        slots.clear();
        slots.resize(coming.len(), 0);
        origins.resize(coming.len(), (0, 0));
        let mut coming = &coming[..];
        for (origin, part) in (0..).zip(&*parts) {
            for &(slot, index) in coming.split_off(..part.coming).expect("as many as came") {
                let end = &mut ends[cell(slot)];
                let mut at = *end as usize;
                *end += 1;
                // Those of the cells before are smaller, or not there yet, which is zero.
                while at > 0 && slots[at - 1] > slot {
                    (slots[at], origins[at]) = (slots[at - 1], origins[at - 1]);
                    at -= 1;
                }
                (slots[at], origins[at]) = (slot, (origin, index));
            }
        }
        *first = last;
        true
    }
}

/// Copies a record. Where most graphs are, it has 16 to 32 bytes, and two words of 16 that may overlap
/// take less time than a call.
#[inline(always)]
fn copy_record(from: &[u8], to: &mut [u8]) {
    match (from.first_chunk::<16>(), from.last_chunk::<16>()) {
        (Some(first), Some(last)) if from.len() <= 32 => {
            let end = to.len();
            to[..16].copy_from_slice(first);
            to[end - 16..].copy_from_slice(last);
        }
        _ => copy_other_record(from, to),
    }
}

/// Copies a record of any length. If it were inlined, the compiler would make one call of this copy
/// and that of the last word, for records of 16 to 32 bytes too.
#[inline(never)]
fn copy_other_record(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Hints that `items[index]`, of at most 64 bytes, will be read or written; does nothing where there
/// is no such instruction or no such item.
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        let first: *const i8 = std::ptr::from_ref(item).cast();
        // SAFETY: a prefetch only needs an address, and this one is valid.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first) };
        // What is longer than it is aligned may end in the next line.
        if size_of::<T>() > align_of::<T>() {
            // SAFETY: the same, of the last byte of the item.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(size_of::<T>() - 1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            block::{BlockError, BlockName},
            samples::{regular_partition, slots},
            slot::bucket_of_slot,
        },
        *,
    };
    use crate::{
        class::Class,
        game::{EdgeGeography, Game, TrailTrap},
        graph::MAX_ORDER,
    };

    fn entry(table: &BucketTable, i: usize) -> &[u8] {
        &table.entries[i * table.stride..(i + 1) * table.stride]
    }

    /// The index of the entry of a slot, if the table has it; a look-up finds the same.
    fn find(table: &BucketTable, slot: u64) -> Option<usize> {
        let first = table.locate(slot);
        let found = table.find(slot, first);
        let record = table.look_up(slot, first);
        assert_eq!(record, found.map(|i| table.record(i)));
        found
    }

    proptest! {
        #[test]
        fn tables_find_what_they_hold(slots in slots(), other in 0u64..1 << 45) {
            let (table, _) = regular_partition(&slots, 0, 0, 0);
            for (i, &slot) in slots.iter().enumerate() {
                prop_assert_eq!(find(&table, slot), Some(i));
                prop_assert_eq!(table.slot(i), slot);
                let begin = slots.iter().position(|&other| table.place(other) == table.place(slot));
                prop_assert_eq!(Some(table.locate(slot) as usize), begin);
                prop_assert_eq!(table.record(i)[0], slot as u8);
            }
            prop_assert_eq!(
                find(&table, other),
                slots.iter().position(|&slot| slot == other)
            );
        }

        #[test]
        fn blocks_round_trip(slots in slots()) {
            let (table, blocks) = regular_partition(&slots, 0, 0, 3);
            let [keys, outcomes, wins] = [&blocks.keys, &blocks.outcomes, &blocks.wins];
            for block in [keys, outcomes, wins] {
                prop_assert_eq!(block.content(), block.to_plain().name().checksum);
                let bytes = || block.bytes().to_vec();
                prop_assert_eq!(&Block::parse(TrailTrap::LAYOUT, bytes()).unwrap(), block);
                let named =
                    |name: &BlockName| Block::parse_named(TrailTrap::LAYOUT, bytes(), name);
                prop_assert_eq!(&named(&block.name()).unwrap(), block);
                let length = block.name().length + 1;
                prop_assert_eq!(
                    named(&BlockName { length, ..block.name() }),
                    Err(BlockError::Name)
                );
            }
            prop_assert_eq!(
                Block::parse_named(
                    TrailTrap::LAYOUT,
                    keys.bytes().to_vec(),
                    &outcomes.name()
                ),
                Err(BlockError::Name)
            );
            prop_assert_eq!(
                wins.slots().collect::<Vec<_>>(),
                slots.iter().copied().filter(|s| s & 1 == 1).collect::<Vec<_>>()
            );
            let again = BucketTable::from_blocks(&[blocks.into()]).unwrap();
            prop_assert_eq!(&again.entries, &table.entries);
            prop_assert_eq!((&again.blocks, &again.after), (&table.blocks, &table.after));
        }

        #[test]
        fn parts_and_buckets_come_together(slots in slots(), pick: u64, count in 1u64..=5) {
            let (whole, _) = regular_partition(&slots, 0, 0, 0);
            let mut found = 0;
            for bucket in 0..4u32 {
                let is_there = |slot: &u64| bucket_of_slot(11, *slot, 2) == bucket as usize;
                let all: Vec<u64> = slots.iter().copied().filter(is_there).collect();
                let of_part = |part: u64| -> Vec<u64> {
                    let is_mine = |i: usize| pick.rotate_left(i as u32) % count == part;
                    (0..all.len()).filter(|&i| is_mine(i)).map(|i| all[i]).collect()
                };
                let part = |part| {
                    let (_, blocks) =
                        regular_partition(&of_part(part), 2, bucket, part as u32);
                    blocks.into()
                };
                let parts: Vec<KeyedOutcomes> = (0..count).map(part).collect();
                let table = BucketTable::from_blocks(&parts).unwrap();
                assert_same(&table, &regular_partition(&all, 2, bucket, 0).0);
                let table_of = |part| Arc::new(regular_partition(&of_part(part), 2, bucket, 0).0);
                let tables: Vec<Arc<BucketTable>> = (0..count).map(table_of).collect();
                assert_same(&BucketTable::from_parts(&tables).unwrap(), &table);
                found += table.len();
                for i in 0..table.len() {
                    let j = find(&whole, table.slot(i)).unwrap();
                    prop_assert_eq!(entry(&table, i), entry(&whole, j));
                    prop_assert_eq!(
                        find(&table, table.slot(i)),
                        Some(i)
                    );
                }
                // Whatever is asked for, there or not, is found as it is there.
                let is_asked = |slot: &u64| pick.rotate_right(*slot as u32) % 3 == 0;
                let others = all.iter().map(|slot| slot ^ 1);
                let asked: Vec<u64> = all.iter().copied().chain(others).filter(is_asked).collect();
                let mut sought = Asked::new(11, 2, asked.len());
                asked.iter().for_each(|&slot| sought.ask(slot));
                let some = BucketTable::of_asked(&parts, &sought).unwrap();
                for slot in asked {
                    let found = |table: &BucketTable| {
                        let found = find(table, slot);
                        found.map(|i| entry(table, i).to_vec())
                    };
                    prop_assert_eq!(found(&some), found(&table));
                }
                prop_assert!((0..some.len()).all(|i| sought.may_have(some.slot(i))));
            }
            prop_assert_eq!(found, slots.len());
        }
    }

    fn assert_same(one: &BucketTable, other: &BucketTable) {
        assert_eq!((one.count, one.bucket), (other.count, other.bucket));
        assert!(one.entries == other.entries, "entries differ");
        assert_eq!((&one.blocks, &one.after), (&other.blocks, &other.after));
    }

    /// So many slots of order 11: the lowest, the highest, and as many others evenly spread between.
    fn low_high_and_spread(many: u64) -> [Vec<u64>; 3] {
        let highest = mask(slot_bits(11)) - many;
        let spread = (1..=many).map(|i| i * (highest / (many + 1)));
        [(0..many).collect(), (highest..highest + many).collect(), spread.collect()]
    }

    /// Also where more entries than 8 bits can count lie in one place of the directory, and where
    /// that has several blocks.
    #[test]
    fn parts_become_the_table_of_all_wherever_slots_lie() {
        let [low, high, spread] = low_high_and_spread(1000);
        let of_all = [&low[..], &spread, &high].concat();
        let cases = [[&low[..], &spread].concat(), of_all, spread];
        for slots in cases {
            let (whole, _) = regular_partition(&slots, 0, 0, 0);
            assert!(whole.blocks.len() > 8);
            for count in [2, 3, 7] {
                // Each part has slots of all places, the last has none.
                let of_part = |part: usize| -> Vec<u64> {
                    slots.iter().copied().skip(part).step_by(count - 1).collect()
                };
                let part = |part| {
                    let of_part = if part + 1 < count { of_part(part) } else { Vec::new() };
                    regular_partition(&of_part, 0, 0, part as u32).1.into()
                };
                let parts: Vec<KeyedOutcomes> = (0..count).map(part).collect();
                assert_same(&BucketTable::from_blocks(&parts).unwrap(), &whole);
            }
        }
    }

    /// Also where more entries than 8 bits can count lie in one place of the directory.
    #[test]
    fn tables_find_what_they_hold_wherever_it_lies() {
        const MANY: u64 = 140_000;
        let [low, high, spread] = low_high_and_spread(MANY);
        let missing = high[0] - 1;
        let of_both = [&low[..], &high].concat();
        let cases = [of_both, [&low[..], &spread].concat(), low, high];
        for slots in cases {
            let (table, _) = regular_partition(&slots, 0, 0, 0);
            let last = slots[slots.len() - 1];
            assert!(table.locate(last) as usize + usize::from(u8::MAX) < slots.len());
            let after_low = (MANY as usize..slots.len()).take(200);
            for i in (0..slots.len()).step_by(9_973).chain(after_low).chain([slots.len() - 1]) {
                assert_eq!(find(&table, slots[i]), Some(i));
            }
            assert_eq!(find(&table, missing), None);
        }
    }

    /// Also of no graph or few, and where the bucket says all bits of a slot.
    #[test]
    fn small_tables_find_what_they_hold() {
        // Entries have a byte or two at least.
        let layouts = [TrailTrap::LAYOUT, EdgeGeography::LAYOUT];
        for (n, layout) in (1..=6).flat_map(|n| layouts.map(|layout| (n, layout))) {
            let sequence = DegreeSequence::new(std::iter::repeat_n(0, n));
            let bits = slot_bits(n);
            for bucket_bits in [0, bits / 2, bits] {
                for bucket in 0..1u32 << bucket_bits {
                    let all = (0..1 << bits).filter(|&slot| {
                        bucket_of_slot(n, slot, bucket_bits as u8) == bucket as usize
                    });
                    let all: Vec<u64> = all.collect();
                    for count in 0..=all.len().min(3) {
                        let held = &all[all.len() - count..];
                        let table = BucketTable::new(
                            layout,
                            sequence,
                            bucket_bits as u8,
                            bucket,
                            held.iter().copied(),
                            |_, record| record.fill(1),
                        );
                        for slot in &all {
                            let found = find(&table, *slot);
                            assert_eq!(found, held.iter().position(|held| held == slot));
                        }
                    }
                }
            }
        }
    }

    /// Parts that have a graph in common, or are of several partitions, are refused, whatever else they
    /// hold; and records of all orders come together, the longest of them too.
    #[test]
    fn parts_do_not_overlap() {
        for n in [5, 11, 14, MAX_ORDER] {
            let layout =
                if n > 12 { TrailTrap::LAYOUT.on(Class::Forest) } else { TrailTrap::LAYOUT };
            let sequence = DegreeSequence::new(std::iter::repeat_n(2, n));
            let table = |sequence, slots: &[u64]| {
                let fill = |i: usize, record: &mut [u8]| record.fill(slots[i] as u8);
                BucketTable::new(layout, sequence, 0, 0, slots.iter().copied(), fill)
            };
            let part = |part: u32, slots: &[u64]| -> KeyedOutcomes {
                table(sequence, slots).to_blocks(part).into()
            };
            let [first, second] = [[1, 3, 6], [0, 4, 5]];
            let blocks = [part(0, &first), part(1, &second)];
            let tables = [first, second].map(|slots| Arc::new(table(sequence, &slots)));
            let from_blocks = BucketTable::from_blocks(&blocks).unwrap();
            for together in [from_blocks, BucketTable::from_parts(&tables).unwrap()] {
                assert!(together.slots().eq([0, 1, 3, 4, 5, 6]));
                for i in 0..6 {
                    let record = &together.record(i)[..layout.record_bytes(n)];
                    assert!(record.iter().all(|&byte| byte == together.slot(i) as u8));
                }
            }
            let [one, _] = blocks;
            let [first, _] = tables;
            let other = Arc::new(table(DegreeSequence::new(std::iter::repeat_n(1, n)), &second));
            let apart = BucketTable::from_parts(&[first.clone(), other]);
            assert_eq!(apart.err(), Some(Mismatch(sequence)));
            for shared in [[1, 4], [2, 3], [6, 7]] {
                let tables = [first.clone(), Arc::new(table(sequence, &shared))];
                assert_eq!(BucketTable::from_parts(&tables).err(), Some(Mismatch(sequence)));
                let both = [one.clone(), part(1, &shared)];
                assert_eq!(BucketTable::from_blocks(&both).err(), Some(Mismatch(sequence)));
                let mut asked = Asked::new(n, 0, 8);
                (0..8).for_each(|slot| asked.ask(slot));
                assert_eq!(BucketTable::of_asked(&both, &asked).err(), Some(Mismatch(sequence)));
            }
        }
    }
}
