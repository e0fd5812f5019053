//! Partitions: all records of one degree sequence, as they stand in memory ([`Table`]) and in
//! blocks of bytes ([`Block`]) that are stored and sent.
//!
//! Within a partition a graph is known by its *slot*, a scrambled key: partitions are sorted by
//! slot, so that equal ranges of slots (*buckets*) hold about equally many graphs and a look-up
//! needs one step into a directory.
//!
//! A block holds one section (keys, outcomes, or keys of P1-wins) of one bucket of one part of a
//! partition:
//!
//! | bytes | meaning (integers little-endian) |
//! |---|---|
//! | 4 | magic `TTBK` |
//! | 2, 2, 2 | block format 1, labelling ([`LABELLING`]), game ([`Game::ID`]) |
//! | 1, 1 | section (1 keys, 2 outcomes, 3 wins), order n |
//! | 16 | degrees in increasing order, then zeros |
//! | 4, 1, 4 | part, bucket bits, bucket |
//! | 8 | number of entries |
//! | 8 | number of graphs of the part in this bucket (differs from the entries for wins) |
//! | entries × width | slots of ⌈C(n − 1, 2)/8⌉ bytes, strictly increasing, or records in the order of the slots |
//! | 16 | the first half of the BLAKE3 hash of everything before |

use std::fmt;

use crate::{
    degree::DegreeSequence,
    game::{Game, record_bytes},
    graph::Graph,
    labelling::{LABELLING, batch::MAX_BATCH_ORDER, graph_of_key, hashed, key_bits},
};

const MAGIC: &[u8; 4] = b"TTBK";
/// Version of the block format.
pub const BLOCK_FORMAT: u16 = 1;
const HEADER_BYTES: usize = 53;
/// Bytes of the checksum of a block.
pub const CHECKSUM_BYTES: usize = 16;
/// Any odd number does.
const SCRAMBLE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The slot of a key of order `n` ≤ 12: a bijection of the numbers below 2^C(n−1,2).
#[inline]
pub fn slot_of_key(n: usize, key: u64) -> u64 {
    let bits = key_bits(n);
    (key ^ (key >> bits.div_ceil(2).max(1))).wrapping_mul(SCRAMBLE) & mask(bits)
}

/// Where a graph of order ≤ 12 stands, by the labelling of stored data: its own slot in the
/// partition of its degree sequence.
pub fn slot_of(graph: &Graph) -> u64 {
    slot_of_key(graph.order(), hashed::label(graph).key as u64)
}

/// The inverse of [`slot_of_key`].
#[inline]
pub fn key_of_slot(n: usize, slot: u64) -> u64 {
    let bits = key_bits(n);
    let product = slot.wrapping_mul(inverse(SCRAMBLE)) & mask(bits);
    // Shifting by at least half the width, the step undoes itself.
    product ^ (product >> bits.div_ceil(2).max(1))
}

/// The graph, in canonical labels, at this slot of the partition of `sequence`; `None` if there is
/// none.
pub fn graph_of_slot(sequence: &DegreeSequence, slot: u64) -> Option<Graph> {
    graph_of_key(u128::from(key_of_slot(sequence.order(), slot)), sequence.bytes())
}

const fn mask(bits: usize) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut bits = 3;
    while bits < 64 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

/// Bytes of a slot of order `n`.
pub fn slot_bytes(n: usize) -> usize {
    key_bits(n).div_ceil(8)
}

/// Bytes of a slot and the record of its graph, of order `n`.
pub fn entry_bytes<G: Game>(n: usize) -> usize {
    slot_bytes(n) + record_bytes::<G>(n)
}

/// The bucket of a slot when there are 2^`bucket_bits` buckets.
#[inline(always)]
pub fn bucket_of_slot(n: usize, slot: u64, bucket_bits: u8) -> usize {
    (slot >> (key_bits(n) - bucket_bits as usize)) as usize
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Section {
    /// The slots of all graphs.
    Keys = 1,
    /// The records of all graphs.
    Outcomes = 2,
    /// The slots of the graphs that P1 wins.
    Wins = 3,
}

impl Section {
    pub const ALL: [Section; 3] = [Section::Keys, Section::Outcomes, Section::Wins];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|section| *section as u8 == byte)
    }
}

/// Where a block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockId {
    pub sequence: DegreeSequence,
    pub part: u32,
    pub bucket_bits: u8,
    pub bucket: u32,
    pub section: Section,
}

/// The checksum at the end of a block, by which it is known wherever blocks are kept: there is no
/// other block with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum(pub [u8; CHECKSUM_BYTES]);

/// 32 hexadecimal digits.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What there is to know of a block before one has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockName {
    pub checksum: Checksum,
    /// Bytes of the block.
    pub length: u64,
}

/// A checked block: the bytes are well-formed, carry the right checksum and, if slots, increase
/// strictly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub id: BlockId,
    /// Number of entries.
    pub count: usize,
    /// Number of graphs of the part that fall into the bucket.
    pub graphs: usize,
    /// The whole block.
    bytes: Vec<u8>,
}

/// What is wrong with the bytes of a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    #[error("block of {0} bytes is too short")]
    Short(usize),
    #[error("not a partition block (bad magic)")]
    Magic,
    #[error("{what} {found} where this program has {expected}")]
    Version { what: &'static str, found: u16, expected: u16 },
    #[error("checksum mismatch: the block is damaged")]
    Checksum,
    #[error("malformed block: {0}")]
    Malformed(&'static str),
    #[error("it is another block than its name says")]
    Name,
}

impl Block {
    fn build<G: Game>(
        id: BlockId,
        graphs: usize,
        count: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let mut bytes = Vec::with_capacity(
            HEADER_BYTES + CHECKSUM_BYTES + count * width::<G>(id.section, &id.sequence),
        );
        bytes.extend_from_slice(MAGIC);
        for word in [BLOCK_FORMAT, LABELLING, G::ID] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[id.section as u8, id.sequence.order() as u8]);
        let mut degrees = [0; 16];
        degrees[..id.sequence.order()].copy_from_slice(id.sequence.bytes());
        bytes.extend_from_slice(&degrees);
        bytes.extend_from_slice(&id.part.to_le_bytes());
        bytes.push(id.bucket_bits);
        bytes.extend_from_slice(&id.bucket.to_le_bytes());
        bytes.extend_from_slice(&(count as u64).to_le_bytes());
        bytes.extend_from_slice(&(graphs as u64).to_le_bytes());
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        write(&mut bytes);
        let checksum = blake3::hash(&bytes);
        bytes.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
        Block { id, count, graphs, bytes }
    }

    /// Checks bytes from a disk or a network and takes them in. Never panics.
    pub fn parse<G: Game>(bytes: Vec<u8>) -> Result<Self, BlockError> {
        if bytes.len() < HEADER_BYTES + CHECKSUM_BYTES {
            return Err(BlockError::Short(bytes.len()));
        }
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if &body[..4] != MAGIC {
            return Err(BlockError::Magic);
        }
        if blake3::hash(body).as_bytes()[..CHECKSUM_BYTES] != *checksum {
            return Err(BlockError::Checksum);
        }
        let word = |at: usize| u16::from_le_bytes([body[at], body[at + 1]]);
        let versions =
            [("block format", 4, BLOCK_FORMAT), ("labelling", 6, LABELLING), ("game", 8, G::ID)];
        for (what, at, expected) in versions {
            if word(at) != expected {
                return Err(BlockError::Version { what, found: word(at), expected });
            }
        }
        let number = |at: usize, bytes: usize| {
            body[at..at + bytes].iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b))
        };
        let section =
            Section::from_byte(body[10]).ok_or(BlockError::Malformed("unknown section"))?;
        let n = body[11] as usize;
        if !(1..=MAX_BATCH_ORDER).contains(&n) {
            return Err(BlockError::Malformed("order out of range"));
        }
        if body[12 + n..28].iter().any(|&b| b != 0) {
            return Err(BlockError::Malformed("degrees beyond the order"));
        }
        let sequence = DegreeSequence::from_bytes(&body[12..12 + n])
            .ok_or(BlockError::Malformed("not a degree sequence"))?;
        let (bucket_bits, bucket) = (body[32], number(33, 4) as u32);
        if bucket_bits as usize > key_bits(n).min(24) || bucket >> bucket_bits != 0 {
            return Err(BlockError::Malformed("bucket out of range"));
        }
        let id = BlockId { sequence, part: number(28, 4) as u32, bucket_bits, bucket, section };
        let (count, graphs) = (number(37, 8), number(45, 8));
        if count > graphs || section != Section::Wins && count != graphs {
            return Err(BlockError::Malformed("more entries than graphs"));
        }
        let payload = (body.len() - HEADER_BYTES) as u64;
        let width = width::<G>(section, &sequence) as u64;
        // A slot of no bytes (n ≤ 2) can stand only once.
        if count.checked_mul(width) != Some(payload) || width == 0 && count > 1 {
            return Err(BlockError::Malformed("length does not match the number of entries"));
        }
        let block = Block { id, count: count as usize, graphs: graphs as usize, bytes };
        if section != Section::Outcomes {
            let mut last = None;
            for slot in block.slots() {
                if last.is_some_and(|last| last >= slot) {
                    return Err(BlockError::Malformed("slots do not increase"));
                }
                if slot > mask(key_bits(n))
                    || bucket_of_slot(n, slot, bucket_bits) != bucket as usize
                {
                    return Err(BlockError::Malformed("slot outside its bucket"));
                }
                last = Some(slot);
            }
        }
        Ok(block)
    }

    /// Takes in bytes that should be the block of this name.
    pub fn parse_named<G: Game>(bytes: Vec<u8>, name: &BlockName) -> Result<Self, BlockError> {
        let block = Self::parse::<G>(bytes)?;
        if block.name() == *name { Ok(block) } else { Err(BlockError::Name) }
    }

    /// The name of the block.
    pub fn name(&self) -> BlockName {
        let checksum = self.bytes.last_chunk().expect("a block ends with its checksum");
        BlockName { checksum: Checksum(*checksum), length: self.bytes.len() as u64 }
    }

    /// The bytes that [`Block::parse`] reads.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes themselves.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..self.bytes.len() - CHECKSUM_BYTES]
    }

    /// The slots of a keys or wins block.
    pub fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.count).map(|i| self.slot(i))
    }

    /// The i-th slot of a keys or wins block.
    pub fn slot(&self, i: usize) -> u64 {
        let width = slot_bytes(self.id.sequence.order());
        read_slot(&self.payload()[i * width..(i + 1) * width])
    }

    /// Where a slot stands in a keys or wins block, in O(log count).
    pub fn find(&self, slot: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.slot(middle).cmp(&slot) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// The i-th record of an outcomes block.
    pub fn record<G: Game>(&self, i: usize) -> &[u8] {
        let width = record_bytes::<G>(self.id.sequence.order());
        &self.payload()[i * width..(i + 1) * width]
    }
}

fn width<G: Game>(section: Section, sequence: &DegreeSequence) -> usize {
    match section {
        Section::Keys | Section::Wins => slot_bytes(sequence.order()),
        Section::Outcomes => record_bytes::<G>(sequence.order()),
    }
}

#[inline(always)]
fn read_slot(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |slot, &byte| slot << 8 | u64::from(byte))
}

/// One bucket of a partition in memory: slots and records side by side, sorted by slot, with a
/// directory. Look-ups are O(1): one step into the directory, then on average two neighbouring
/// entries.
pub struct Table {
    sequence: DegreeSequence,
    bucket_bits: u8,
    bucket: u32,
    count: usize,
    /// Bytes of an entry: its slot, then its record.
    stride: usize,
    slot_bytes: usize,
    slot_mask: u64,
    entries: Vec<u8>,
    /// `directory[i]` is the first entry whose slot, shifted right, is at least i (relative to the
    /// bucket).
    directory: Vec<u32>,
    shift: u32,
    /// What the slots of the bucket have in common, shifted likewise.
    base: u64,
}

/// Entries are read in words of 8 bytes and records in words of 4, which may reach this far past
/// the last entry.
const SLACK: usize = 8;
/// So many entries are looked through at once.
const LOOK: usize = 4;

/// A partition's keys and outcomes do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys and outcomes of partition {0} do not belong together")]
pub struct Mismatch(pub DegreeSequence);

impl Table {
    /// A table from strictly increasing slots; `record` writes the record of the i-th.
    pub fn new<G: Game>(
        sequence: DegreeSequence,
        bucket_bits: u8,
        bucket: u32,
        slots: impl ExactSizeIterator<Item = u64>,
        mut record: impl FnMut(usize, &mut [u8]),
    ) -> Self {
        let n = sequence.order();
        let count = slots.len();
        let slot_bytes = slot_bytes(n);
        let stride = entry_bytes::<G>(n);
        // One or two entries for each place of the directory.
        let directory_bits = count.max(1).ilog2().min((key_bits(n) - bucket_bits as usize) as u32);
        let shift = key_bits(n) as u32 - u32::from(bucket_bits) - directory_bits;
        let base = u64::from(bucket) << directory_bits;
        let mut entries = vec![0; (count + LOOK) * stride + SLACK];
        let mut directory = vec![0u32; (1 << directory_bits) + 1];
        let mut filled = 0;
        for (i, slot) in slots.enumerate() {
            let entry = &mut entries[i * stride..(i + 1) * stride];
            entry[..slot_bytes].copy_from_slice(&slot.to_le_bytes()[..slot_bytes]);
            record(i, &mut entry[slot_bytes..]);
            let place = ((slot >> shift) - base) as usize;
            while filled <= place {
                directory[filled] = i as u32;
                filled += 1;
            }
        }
        directory[filled..].fill(count as u32);
        Table {
            sequence,
            bucket_bits,
            bucket,
            count,
            stride,
            slot_bytes,
            slot_mask: mask(8 * slot_bytes),
            entries,
            directory,
            shift,
            base,
        }
    }

    /// The table of a bucket from the keys and outcomes of its parts, in corresponding order.
    pub fn from_blocks<G: Game>(parts: &[(Block, Block)]) -> Result<Self, Mismatch> {
        let first = parts[0].0.id;
        let fits = |(keys, outcomes): &(Block, Block)| {
            keys.id == BlockId { part: keys.id.part, ..first }
                && outcomes.id == BlockId { section: Section::Outcomes, ..keys.id }
                && keys.id.section == Section::Keys
                && keys.count == outcomes.count
        };
        if !parts.iter().all(fits) {
            return Err(Mismatch(first.sequence));
        }
        let mut order: Vec<(u64, u32, u32)> =
            Vec::with_capacity(parts.iter().map(|(keys, _)| keys.count).sum());
        for (part, (keys, _)) in parts.iter().enumerate() {
            order.extend(keys.slots().enumerate().map(|(i, slot)| (slot, part as u32, i as u32)));
        }
        if parts.len() > 1 {
            order.sort_unstable();
            if order.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return Err(Mismatch(first.sequence));
            }
        }
        let width = record_bytes::<G>(first.sequence.order());
        let slots = order.iter().map(|&(slot, _, _)| slot);
        Ok(Self::new::<G>(
            first.sequence,
            first.bucket_bits,
            first.bucket,
            slots,
            |entry, record| {
                let (_, part, i) = order[entry];
                record.copy_from_slice(
                    &parts[part as usize].1.payload()
                        [i as usize * width..(i as usize + 1) * width],
                );
            },
        ))
    }

    /// The blocks of this table as part `part` of its partition: keys, outcomes, wins.
    pub fn to_blocks<G: Game>(&self, part: u32) -> [Block; 3] {
        let n = self.sequence.order();
        let wins: Vec<usize> =
            (0..self.count).filter(|&i| G::p1_wins(n, self.record(i))).collect();
        Section::ALL.map(|section| {
            let id = BlockId {
                sequence: self.sequence,
                part,
                bucket_bits: self.bucket_bits,
                bucket: self.bucket,
                section,
            };
            let count = if section == Section::Wins { wins.len() } else { self.count };
            Block::build::<G>(id, self.count, count, |bytes| match section {
                Section::Keys => (0..self.count)
                    .for_each(|i| bytes.extend_from_slice(&self.entry(i)[..self.slot_bytes])),
                Section::Outcomes => {
                    (0..self.count)
                        .for_each(|i| bytes.extend_from_slice(&self.entry(i)[self.slot_bytes..]));
                }
                Section::Wins => wins
                    .iter()
                    .for_each(|&i| bytes.extend_from_slice(&self.entry(i)[..self.slot_bytes])),
            })
        })
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

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.entries.capacity() + 4 * self.directory.capacity() + size_of::<Self>()
    }

    fn entry(&self, i: usize) -> &[u8] {
        &self.entries[i * self.stride..(i + 1) * self.stride]
    }

    /// The slot of the i-th graph.
    #[inline(always)]
    pub fn slot(&self, i: usize) -> u64 {
        let at = i * self.stride;
        u64::from_le_bytes(self.entries[at..at + 8].try_into().expect("eight bytes"))
            & self.slot_mask
    }

    /// The record of the i-th graph, followed by a few bytes that do not belong to it.
    #[inline(always)]
    pub fn record(&self, i: usize) -> &[u8] {
        &self.entries[i * self.stride + self.slot_bytes..(i + 1) * self.stride + 4]
    }

    /// Asks for the directory entry of a slot ahead of [`Table::locate`].
    #[inline(always)]
    pub fn prefetch(&self, slot: u64) {
        prefetch(&self.directory, self.place(slot));
    }

    /// The first entry that can be that of a slot; asks for it ahead of [`Table::find`].
    #[inline(always)]
    pub fn locate(&self, slot: u64) -> u32 {
        let first = self.directory[self.place(slot)];
        prefetch(&self.entries, first as usize * self.stride);
        prefetch(&self.entries, first as usize * self.stride + 64);
        first
    }

    /// The entry of a slot, given what [`Table::locate`] said.
    #[inline(always)]
    pub fn find(&self, slot: u64, first: u32) -> Option<usize> {
        let first = first as usize;
        // Nearly always it is one of the first few. Comparing with all of these, without branches,
        // spares the processor a wrong guess at each look-up.
        let mut found = usize::MAX;
        for i in (first..first + LOOK).rev() {
            found = if self.slot(i) == slot { i } else { found };
        }
        if found < self.count {
            return Some(found);
        }
        (first + LOOK..self.count)
            .take_while(|&i| self.slot(i) <= slot)
            .find(|&i| self.slot(i) == slot)
    }

    #[inline(always)]
    fn place(&self, slot: u64) -> usize {
        (slot >> self.shift).wrapping_sub(self.base) as usize
    }
}

/// Hints that `items[index]` will be read; does nothing where there is no such instruction or no
/// such item.
#[inline(always)]
fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        // SAFETY: a prefetch only needs an address, and this one is valid.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                std::ptr::from_ref(item).cast(),
            )
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::game::TrailTrap;

    type Blocks = [Block; 3];

    fn regular_partition(
        slots: &[u64],
        bucket_bits: u8,
        bucket: u32,
        part: u32,
    ) -> (Table, Blocks) {
        let sequence = DegreeSequence::new([4; 11]);
        let table = Table::new::<TrailTrap>(
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
        let blocks = table.to_blocks::<TrailTrap>(part);
        (table, blocks)
    }

    fn slots() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::btree_set(0u64..1 << 45, 0..300)
            .prop_map(|set| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn slots_are_scrambled_keys(n in 1usize..=12, key: u64) {
            let key = key & mask(key_bits(n));
            prop_assert_eq!(key_of_slot(n, slot_of_key(n, key)), key);
            prop_assert!(slot_of_key(n, key) <= mask(key_bits(n)));
        }

        #[test]
        fn tables_find_what_they_hold(slots in slots(), other in 0u64..1 << 45) {
            let (table, _) = regular_partition(&slots, 0, 0, 0);
            for (i, &slot) in slots.iter().enumerate() {
                prop_assert_eq!(table.find(slot, table.locate(slot)), Some(i));
                prop_assert_eq!(table.slot(i), slot);
                prop_assert_eq!(table.record(i)[0], slot as u8);
            }
            prop_assert_eq!(table.find(other, table.locate(other)), slots.iter().position(|&slot| slot == other));
        }

        #[test]
        fn blocks_round_trip(slots in slots()) {
            let (table, blocks) = regular_partition(&slots, 0, 0, 3);
            for block in &blocks {
                prop_assert_eq!(&Block::parse::<TrailTrap>(block.bytes().to_vec()).unwrap(), block);
                let named = |name: &BlockName| Block::parse_named::<TrailTrap>(block.bytes().to_vec(), name);
                prop_assert_eq!(&named(&block.name()).unwrap(), block);
                let length = block.name().length + 1;
                prop_assert_eq!(named(&BlockName { length, ..block.name() }), Err(BlockError::Name));
            }
            prop_assert_eq!(
                Block::parse_named::<TrailTrap>(blocks[0].bytes().to_vec(), &blocks[1].name()),
                Err(BlockError::Name)
            );
            prop_assert_eq!(blocks[2].slots().collect::<Vec<_>>(), slots.iter().copied().filter(|s| s & 1 == 1).collect::<Vec<_>>());
            let [keys, outcomes, _] = blocks;
            let again = Table::from_blocks::<TrailTrap>(&[(keys, outcomes)]).unwrap();
            prop_assert_eq!(&again.entries, &table.entries);
            prop_assert_eq!(&again.directory, &table.directory);
        }

        #[test]
        fn parts_and_buckets_come_together(slots in slots(), pick: u64) {
            let (whole, _) = regular_partition(&slots, 0, 0, 0);
            for bucket in 0..4u32 {
                let of_part = |part: u64| -> Vec<u64> {
                    slots.iter().enumerate()
                        .filter(|(i, slot)| bucket_of_slot(11, **slot, 2) == bucket as usize && pick.rotate_left(*i as u32) & 1 == part)
                        .map(|(_, &slot)| slot).collect()
                };
                let parts = [0, 1].map(|part| {
                    let (_, [keys, outcomes, _]) = regular_partition(&of_part(part), 2, bucket, part as u32);
                    (keys, outcomes)
                });
                let table = Table::from_blocks::<TrailTrap>(&parts).unwrap();
                for i in 0..table.len() {
                    let j = whole.find(table.slot(i), whole.locate(table.slot(i))).unwrap();
                    prop_assert_eq!(table.entry(i), whole.entry(j));
                    prop_assert_eq!(table.find(table.slot(i), table.locate(table.slot(i))), Some(i));
                }
            }
        }

        #[test]
        fn damage_is_noticed(slots in slots(), at: prop::sample::Index, flip in 1u8..) {
            let (_, blocks) = regular_partition(&slots, 0, 0, 0);
            for block in blocks {
                let mut bytes = block.into_bytes();
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
                prop_assert!(Block::parse::<TrailTrap>(bytes.clone()).is_err());
                bytes.truncate(at);
                prop_assert!(Block::parse::<TrailTrap>(bytes).is_err());
            }
        }

        /// Well-sealed nonsense, as a hostile worker could send it.
        #[test]
        fn parsing_never_panics(mut header in proptest::collection::vec(any::<u8>(), HEADER_BYTES), body in proptest::collection::vec(any::<u8>(), 0..64), n in 0u8..18) {
            header[..4].copy_from_slice(MAGIC);
            for (at, word) in [(4, BLOCK_FORMAT), (6, LABELLING), (8, TrailTrap::ID)] {
                header[at..at + 2].copy_from_slice(&word.to_le_bytes());
            }
            header[11] = n;
            header[12..28].fill(0);
            header.extend(body);
            let checksum = blake3::hash(&header);
            header.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
            let _ = Block::parse::<TrailTrap>(header);
        }
    }

    #[test]
    fn unsorted_slots_are_refused() {
        let (_, [keys, ..]) = regular_partition(&[5, 3], 0, 0, 0);
        assert_eq!(
            Block::parse::<TrailTrap>(keys.into_bytes()),
            Err(BlockError::Malformed("slots do not increase"))
        );
    }
}
