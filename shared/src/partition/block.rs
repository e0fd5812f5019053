//! Blocks: the bytes of partitions that are stored and sent.
//!
//! A block holds one section (keys, outcomes, or keys of wins) of one bucket of one part of a
//! partition:
//!
//! | bytes | meaning (integers little-endian) |
//! |---|---|
//! | 4 | magic `TTBK` |
//! | 2, 2, 2 | format of the block: 2 if its slots are dense, else 1; labelling ([`LABELLING`]), game and class ([`Layout::number`]) |
//! | 1, 1 | section (1 keys, 2 outcomes, 3 wins), order n |
//! | 16 | degrees in increasing order, then zeros; of orders beyond 16, the first 16 |
//! | 4, 1, 4 | part, bucket bits, bucket; of orders beyond 16, which have one bucket, more degrees |
//! | 8 | number of entries |
//! | 8 | number of graphs of the part in this bucket (differs from the entries for wins) |
//! | as they take | slots, increasing, in the form that [`super::sorted`] describes, or records in their order |
//! | 16 | the first half of the BLAKE3 hash of everything before |

use std::{fmt, ops::Range, sync::Arc};

use super::{
    slot::{bucket_of_slot, mask, most_bucket_bits, slot_bits},
    sorted::{Form, Slots},
};
use crate::{
    game::Layout,
    graph::{MAX_ORDER, degree::DegreeSequence},
    labelling::LABELLING,
};

/// The first bytes of every block. Frozen: blocks that begin otherwise are refused.
pub const MAGIC: &[u8; 4] = b"TTBK";
/// The newest format of blocks; the header of a block says which one it has. A larger number here
/// means that workers of other versions are refused, and that a store which this program has opened
/// to write is not opened by those before it.
pub const BLOCK_FORMAT: u16 = DENSE;
/// The oldest format of blocks that is read.
pub const OLDEST_BLOCK_FORMAT: u16 = PLAIN;
/// The format of blocks of outcomes, and of slots that are written plainly.
const PLAIN: u16 = 1;
/// The format of blocks of dense slots.
const DENSE: u16 = 2;
/// The bytes of a block that tell its format.
const FORMAT: Range<usize> = 4..6;
/// So many degrees stand before the part in a header, the others after it.
const FIRST_DEGREES: usize = 16;
const _: () = assert!(MAX_ORDER - FIRST_DEGREES == size_of::<u32>());
// No partition of so many vertices has several buckets.
const _: () = assert!(most_bucket_bits(FIRST_DEGREES + 1) == 0);
/// Bytes before the entries of a block; frozen with [`BLOCK_FORMAT`].
pub const HEADER_BYTES: usize = 53;
/// Bytes of the checksum of a block; frozen with [`BLOCK_FORMAT`].
pub const CHECKSUM_BYTES: usize = 16;

/// So many slots are written plainly at a time, to be hashed.
const HASHED_SLOTS: usize = if cfg!(test) { 8 } else { 1 << 12 };

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Section {
    /// The slots of all graphs.
    Keys = 1,
    /// The records of all graphs.
    Outcomes = 2,
    /// The slots of the graphs of the listed verdict.
    Wins = 3,
}

impl Section {
    /// All sections, in the order in which the blocks of a bucket are delivered.
    pub const ALL: [Section; 3] = [Section::Keys, Section::Outcomes, Section::Wins];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|section| *section as u8 == byte)
    }
}

/// Where a block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The degree sequence of the partition.
    pub sequence: DegreeSequence,
    /// The part of the partition, counted from 0.
    pub part: u32,
    /// The partition is split into 2^`bucket_bits` buckets.
    pub bucket_bits: u8,
    /// The bucket of the partition, below 2^`bucket_bits`.
    pub bucket: u32,
    /// What the block says of its graphs.
    pub section: Section,
}

/// Such as `keys of 3,2,2,2,1, part 0, bucket 0 of 1`.
impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockId { sequence, part, bucket_bits, bucket, section } = self;
        let section = match section {
            Section::Keys => "keys",
            Section::Outcomes => "outcomes",
            Section::Wins => "wins",
        };
        let buckets = 1u64 << bucket_bits;
        write!(f, "{section} of {sequence}, part {part}, bucket {bucket} of {buckets}")
    }
}

/// The checksum at the end of a block: the first 16 bytes of a BLAKE3 hash. Caches and depots keep
/// blocks under it, since no two different blocks are known to share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum(pub [u8; CHECKSUM_BYTES]);

impl Checksum {
    /// That of any bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Checksum::of(blake3::hash(bytes))
    }

    fn of(hash: blake3::Hash) -> Self {
        Checksum(*hash.as_bytes().first_chunk().expect("a hash is longer"))
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What identifies a block and tells its length, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockName {
    /// The checksum at the end of the block.
    pub checksum: Checksum,
    /// Bytes of the block.
    pub length: u64,
}

/// A checked block: the bytes are well-formed, carry the right checksum and, if slots, increase
/// strictly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where the block belongs.
    pub id: BlockId,
    /// The layout of the census whose block it is.
    pub layout: Layout,
    /// Number of entries.
    pub count: usize,
    /// Number of graphs of the part that fall into the bucket.
    pub graphs: usize,
    /// The whole block. Clones share it.
    bytes: Arc<Vec<u8>>,
}

/// What is wrong with the bytes of a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// There are fewer bytes than header and checksum take.
    #[error("block of {0} bytes is too short")]
    Short(usize),
    /// The bytes do not begin as a block does.
    #[error("not a partition block (bad magic)")]
    Magic,
    /// The block has another format, labelling, game or class.
    #[error("{what} {found} where this program has {expected}")]
    Version {
        /// What differs: block format, labelling or game, with its class.
        what: &'static str,
        /// The number in the block.
        found: u16,
        /// The nearest number that this program reads.
        expected: u16,
    },
    /// The checksum is not that of the bytes before it.
    #[error("checksum mismatch: the block is damaged")]
    Checksum,
    /// The checksum is right, but the content is none that this program writes.
    #[error("malformed block: {0}")]
    Malformed(&'static str),
    /// A sound block, but not the one that was asked for.
    #[error("it is another block than its name says")]
    Name,
}

impl Block {
    /// A block of keys or wins: slots of a part that has so many graphs in this bucket.
    pub(super) fn of_slots(
        layout: Layout,
        id: BlockId,
        graphs: usize,
        slots: impl ExactSizeIterator<Item = u64>,
    ) -> Self {
        let count = slots.len();
        let form = Form::shorter(id.sequence.order(), id.bucket_bits, count as u64);
        Self::build(format_of(form), layout, id, graphs, count, |bytes| form.write(slots, bytes))
    }

    /// A block of outcomes, of records in the order of their slots.
    pub(super) fn of_records<'r>(
        layout: Layout,
        id: BlockId,
        records: impl ExactSizeIterator<Item = &'r [u8]>,
    ) -> Self {
        let count = records.len();
        Self::build(PLAIN, layout, id, count, count, |bytes| {
            records.for_each(|record| bytes.extend_from_slice(record));
        })
    }

    fn build(
        format: u16,
        layout: Layout,
        id: BlockId,
        graphs: usize,
        count: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let head = Head { format, id, count: count as u64, graphs: graphs as u64 };
        let length = head.length(layout).expect("so many graphs fit into memory");
        let mut bytes = Vec::with_capacity(length as usize);
        bytes.extend_from_slice(MAGIC);
        for word in [format, LABELLING, layout.number()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[id.section as u8, id.sequence.order() as u8]);
        let mut degrees = [0; MAX_ORDER];
        degrees[..id.sequence.order()].copy_from_slice(id.sequence.bytes());
        let (first, more) = degrees.split_at(FIRST_DEGREES);
        assert!(id.sequence.order() <= FIRST_DEGREES || id.bucket == 0);
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(&id.part.to_le_bytes());
        bytes.push(id.bucket_bits);
        match id.sequence.order() > FIRST_DEGREES {
            true => bytes.extend_from_slice(more),
            false => bytes.extend_from_slice(&id.bucket.to_le_bytes()),
        }
        bytes.extend_from_slice(&(count as u64).to_le_bytes());
        bytes.extend_from_slice(&(graphs as u64).to_le_bytes());
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        write(&mut bytes);
        let Checksum(checksum) = Checksum::of(blake3::hash(&bytes));
        bytes.extend_from_slice(&checksum);
        debug_assert_eq!(bytes.len() as u64, length);
        Block { id, layout, count, graphs, bytes: Arc::new(bytes) }
    }

    /// Checks bytes from a disk or a network and takes them in, in one pass over the bytes. Never
    /// panics.
    ///
    /// # Errors
    /// [`BlockError`] says what is wrong with the bytes; all but [`BlockError::Name`] can occur.
    pub fn parse(layout: Layout, bytes: Vec<u8>) -> Result<Self, BlockError> {
        if bytes.len() < HEADER_BYTES + CHECKSUM_BYTES {
            return Err(BlockError::Short(bytes.len()));
        }
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if &body[..4] != MAGIC {
            return Err(BlockError::Magic);
        }
        if Checksum::of(blake3::hash(body)).0 != *checksum {
            return Err(BlockError::Checksum);
        }
        let head = Head::parse(layout, body)?;
        let Head { id, count, graphs, .. } = head;
        let n = id.sequence.order();
        // Plain slots that take no bytes (n ≤ 2) can stand only once.
        let is_empty = bytes.len() == HEADER_BYTES + CHECKSUM_BYTES;
        if head.length(layout) != Some(bytes.len() as u64) || is_empty && count > 1 {
            return Err(BlockError::Malformed("length does not match the number of entries"));
        }
        let (count, graphs, bytes) = (count as usize, graphs as usize, Arc::new(bytes));
        let block = Block { id, layout, count, graphs, bytes };
        if id.section != Section::Outcomes {
            let mut slots = block.slots();
            if !slots.can_be_read() {
                return Err(BlockError::Malformed("not as many slots as entries"));
            }
            if !slots.increase() {
                return Err(BlockError::Malformed("slots do not increase"));
            }
            if let (Some(first), Some(last)) = (slots.next(), slots.end()) {
                // Where the first and the last one belong, those between them do.
                let is_outside = |slot: u64| {
                    slot > mask(slot_bits(n))
                        || bucket_of_slot(n, slot, id.bucket_bits) != id.bucket as usize
                };
                if is_outside(first) || is_outside(last) {
                    return Err(BlockError::Malformed("slot outside its bucket"));
                }
            }
        }
        Ok(block)
    }

    /// Where the block belongs whose first [`HEADER_BYTES`] bytes these are, and how many bytes it
    /// has: what the head says, before anything is checked. `None` if no block begins like this.
    pub fn announced(layout: Layout, bytes: &[u8]) -> Option<(BlockId, u64)> {
        let bytes = bytes.get(..HEADER_BYTES).filter(|bytes| bytes.starts_with(MAGIC))?;
        let head = Head::parse(layout, bytes).ok()?;
        Some((head.id, head.length(layout)?))
    }

    /// Takes in bytes that should be the block of this name.
    ///
    /// # Errors
    /// Those of [`Block::parse`], and [`BlockError::Name`] if they are a block of another name.
    pub fn parse_named(
        layout: Layout,
        bytes: Vec<u8>,
        name: &BlockName,
    ) -> Result<Self, BlockError> {
        let block = Self::parse(layout, bytes)?;
        if block.name() == *name { Ok(block) } else { Err(BlockError::Name) }
    }

    /// The same with plain slots: a block as programs that know only the oldest format write it.
    #[must_use]
    pub fn to_plain(&self) -> Self {
        let Block { id, layout, count, graphs, .. } = *self;
        match id.section {
            Section::Outcomes => self.clone(),
            Section::Keys | Section::Wins => {
                let plain = Form::plain(id.sequence.order());
                Self::build(PLAIN, layout, id, graphs, count, |bytes| {
                    plain.write(self.slots(), bytes);
                })
            }
        }
    }

    /// What the block holds and where it belongs, in whatever form: the checksum that it has or
    /// would have with plain slots. Takes some nanoseconds for each entry, and little memory.
    pub fn content(&self) -> Checksum {
        if self.format() != DENSE {
            return self.name().checksum;
        }
        let mut hasher = blake3::Hasher::new();
        let mut header = self.bytes[..HEADER_BYTES].to_vec();
        header[FORMAT].copy_from_slice(&PLAIN.to_le_bytes());
        hasher.update(&header);
        let plain = Form::plain(self.id.sequence.order());
        let mut slots = self.slots();
        let mut bytes = Vec::new();
        while slots.len() > 0 {
            bytes.clear();
            plain.write(slots.by_ref().take(HASHED_SLOTS), &mut bytes);
            hasher.update(&bytes);
        }
        Checksum::of(hasher.finalize())
    }

    fn format(&self) -> u16 {
        u16::from_le_bytes(self.bytes[FORMAT].try_into().expect("two bytes"))
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

    /// The same, without a copy, for as long as they are needed.
    pub fn shared_bytes(&self) -> Arc<Vec<u8>> {
        self.bytes.clone()
    }

    /// The bytes that [`Block::parse`] reads, without a copy if nothing else shares them.
    pub fn into_bytes(self) -> Vec<u8> {
        Arc::unwrap_or_clone(self.bytes)
    }

    /// The slots of several keys blocks, in increasing order.
    pub fn sorted_slots(blocks: &[Block]) -> Vec<u64> {
        let mut slots = Vec::with_capacity(blocks.iter().map(|block| block.count).sum());
        slots.extend(blocks.iter().flat_map(Block::slots));
        slots.sort_unstable();
        slots
    }

    /// The slots of a keys or wins block, in increasing order.
    #[inline]
    pub fn slots(&self) -> Slots<'_> {
        let form = form(self.format(), &self.id, self.count as u64);
        Slots::new(form, self.id.bucket, self.count, &self.bytes[HEADER_BYTES..])
    }

    /// Those of these slots, in increasing order, that a keys or wins block has, and where it has
    /// them; a nanosecond or two for each entry up to the last of them.
    pub fn places(
        &self,
        wanted: impl IntoIterator<Item = u64>,
    ) -> impl Iterator<Item = (u64, usize)> {
        let mut entries = self.slots().zip(0..).peekable();
        wanted.into_iter().filter_map(move |slot| {
            while entries.next_if(|&(before, _)| before < slot).is_some() {}
            entries.next_if(|&(found, _)| found == slot)
        })
    }

    /// The i-th record of an outcomes block.
    #[inline]
    pub fn record(&self, i: usize) -> &[u8] {
        self.records().get(i)
    }

    /// The records of an outcomes block, to be read quickly.
    #[inline]
    pub(super) fn records(&self) -> Records<'_> {
        let width = self.layout.record_bytes(self.id.sequence.order());
        let bytes = &self.bytes[HEADER_BYTES..self.bytes.len() - CHECKSUM_BYTES];
        Records { bytes, stride: width, width }
    }
}

/// The records of a block or of a table.
#[derive(Clone, Copy)]
pub(super) struct Records<'a> {
    /// From the first record on.
    pub bytes: &'a [u8],
    /// So many bytes after each of them begins the next one.
    pub stride: usize,
    /// Bytes of a record: one at least, for the verdict.
    pub width: usize,
}

impl<'a> Records<'a> {
    /// The i-th record.
    #[inline(always)]
    pub(super) fn get(self, i: usize) -> &'a [u8] {
        &self.bytes[i * self.stride..][..self.width]
    }
}

/// The format of blocks of slots of this form.
fn format_of(form: Form) -> u16 {
    match form {
        Form::Plain { .. } => PLAIN,
        Form::Dense { .. } => DENSE,
    }
}

/// How a block of this format, of keys or of wins, holds so many slots.
fn form(format: u16, id: &BlockId, count: u64) -> Form {
    match format {
        DENSE => Form::shorter(id.sequence.order(), id.bucket_bits, count),
        _ => Form::plain(id.sequence.order()),
    }
}

/// What a block says of itself before its entries.
struct Head {
    format: u16,
    id: BlockId,
    count: u64,
    graphs: u64,
}

impl Head {
    /// Reads it from at least [`HEADER_BYTES`] bytes that begin with [`MAGIC`].
    fn parse(layout: Layout, body: &[u8]) -> Result<Self, BlockError> {
        let word = |at: usize| u16::from_le_bytes([body[at], body[at + 1]]);
        let format = word(4);
        let versions = [
            ("block format", 4, format.clamp(OLDEST_BLOCK_FORMAT, BLOCK_FORMAT)),
            ("labelling", 6, LABELLING),
            ("game", 8, layout.number()),
        ];
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
        if !(1..=MAX_ORDER).contains(&n) {
            return Err(BlockError::Malformed("order out of range"));
        }
        let is_long = n > FIRST_DEGREES;
        let degrees = [&body[12..28], if is_long { &body[33..37] } else { &[] }].concat();
        let (degrees, beyond) = degrees.split_at(n);
        if beyond.iter().any(|&b| b != 0) {
            return Err(BlockError::Malformed("degrees beyond the order"));
        }
        let sequence = DegreeSequence::from_bytes(degrees)
            .ok_or(BlockError::Malformed("not a degree sequence"))?;
        let (bucket_bits, bucket) = (body[32], if is_long { 0 } else { number(33, 4) as u32 });
        if bucket_bits > most_bucket_bits(n) || bucket >> bucket_bits != 0 {
            return Err(BlockError::Malformed("bucket out of range"));
        }
        let id = BlockId { sequence, part: number(28, 4) as u32, bucket_bits, bucket, section };
        let (count, graphs) = (number(37, 8), number(45, 8));
        if count > graphs || section != Section::Wins && count != graphs {
            return Err(BlockError::Malformed("more entries than graphs"));
        }
        // Each format has one way to write a block: dense slots stand only where they are shorter.
        if format == DENSE
            && (section == Section::Outcomes || format_of(form(format, &id, count)) != DENSE)
        {
            return Err(BlockError::Malformed("of another format than its entries"));
        }
        Ok(Head { format, id, count, graphs })
    }

    /// Bytes of the whole block.
    fn length(&self, layout: Layout) -> Option<u64> {
        let entries = match self.id.section {
            Section::Keys | Section::Wins => {
                form(self.format, &self.id, self.count).bytes(self.count)
            }
            Section::Outcomes => {
                let width = layout.record_bytes(self.id.sequence.order());
                u128::from(self.count) * width as u128
            }
        };
        u64::try_from(entries).ok()?.checked_add((HEADER_BYTES + CHECKSUM_BYTES) as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            BucketBlocks, BucketTable, KeyedOutcomes,
            samples::{regular_partition, slots},
        },
        *,
    };
    use crate::{
        class::Class,
        game::{EdgeGeography, Game, TrailTrap},
    };

    proptest! {
        #[test]
        fn damage_is_noticed(slots in slots(), at: prop::sample::Index, flip in 1u8..) {
            let (_, blocks) = regular_partition(&slots, 0, 0, 0);
            for block in blocks {
                let mut bytes = block.into_bytes();
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
                prop_assert!(Block::parse(TrailTrap::LAYOUT, bytes.clone()).is_err());
                bytes.truncate(at);
                prop_assert!(Block::parse(TrailTrap::LAYOUT, bytes).is_err());
            }
        }

        /// Well-sealed nonsense, as a hostile worker could send it.
        #[test]
        fn parsing_never_panics(
            mut header in proptest::collection::vec(any::<u8>(), HEADER_BYTES),
            body in proptest::collection::vec(any::<u8>(), 0..64),
            n in 0u8..22,
            format in 0u16..4,
        ) {
            header[..4].copy_from_slice(MAGIC);
            for (at, word) in [(4, format), (6, LABELLING), (8, TrailTrap::LAYOUT.game)] {
                header[at..at + 2].copy_from_slice(&word.to_le_bytes());
            }
            header[11] = n;
            header[12..28].fill(0);
            if n > 16 {
                header[32] = 0;
                header[33..37].iter_mut().for_each(|degree| *degree %= 3);
            }
            header.extend(body);
            let checksum = blake3::hash(&header);
            header.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
            let _ = Block::parse(TrailTrap::LAYOUT, header);
        }
    }

    #[test]
    fn a_block_says_how_long_it_is() {
        let (_, blocks) = regular_partition(&[3, 5], 0, 0, 0);
        for block in blocks {
            let announced = |bytes: &[u8]| Block::announced(TrailTrap::LAYOUT, bytes);
            let said = Some((block.id, block.bytes().len() as u64));
            assert_eq!(announced(block.bytes()), said);
            assert_eq!(announced(&block.bytes()[..HEADER_BYTES]), said);
            assert_eq!(announced(&block.bytes()[..HEADER_BYTES - 1]), None);
            assert_eq!(announced(&block.bytes()[1..]), None);
        }
    }

    /// All degrees of the largest orders come back, and stand where they have always stood.
    #[test]
    fn long_sequences_stand_in_headers() {
        let layout = TrailTrap::LAYOUT.on(Class::Forest);
        let keys = |n: usize| {
            let star = DegreeSequence::new((1..n).map(|_| 1).chain([n - 1]));
            let table = BucketTable::new(layout, star, 0, 0, [7].into_iter(), |_, to| to.fill(0));
            let blocks = table.to_blocks(3);
            for block in blocks.clone() {
                let parsed = Block::parse(layout, block.bytes().to_vec()).unwrap();
                assert_eq!((parsed.id, block.id.sequence), (block.id, star));
            }
            blocks.keys.into_bytes()
        };
        for n in 15..=MAX_ORDER {
            keys(n);
        }
        let degrees = [1; 16];
        assert_eq!(keys(20)[11..28], [&[20], &degrees[..]].concat());
        assert_eq!(keys(20)[28..37], [3, 0, 0, 0, 0, 1, 1, 1, 19]);
        assert_eq!(keys(17)[28..37], [3, 0, 0, 0, 0, 16, 0, 0, 0]);
    }

    /// Keys as format 1 has them are read like those of format 2, which are written now; and no
    /// block says another format than that of its entries.
    #[test]
    fn plain_keys_are_read() {
        let slots: Vec<u64> = (0..100).map(|i| (i * i) << 30).collect();
        let (_, BucketBlocks { keys, outcomes, wins }) = regular_partition(&slots, 0, 0, 0);
        let layout = TrailTrap::LAYOUT;
        let build = |format, form: Form| {
            Block::build(format, layout, keys.id, 100, 100, |bytes| {
                form.write(slots.iter().copied(), bytes);
            })
        };
        let (plain, dense) = (Form::plain(11), Form::shorter(11, 0, 100));
        assert_eq!(build(DENSE, dense), keys);
        let written = build(PLAIN, plain);
        assert_eq!(written, keys.to_plain());
        assert_eq!(written.content(), keys.content());
        assert_eq!(written.content(), written.name().checksum);
        assert_ne!(written.content(), wins.content());
        assert_eq!(written.bytes().len(), HEADER_BYTES + 600 + CHECKSUM_BYTES);
        // 38 low bits, and two of the high ones.
        assert_eq!(keys.bytes().len(), HEADER_BYTES + 475 + 32 + CHECKSUM_BYTES);
        let read = Block::parse(layout, written.bytes().to_vec()).unwrap();
        assert_eq!(read, written);
        assert!(read.slots().eq(keys.slots()));
        for block in [&read, &keys] {
            let places = block.places([0, 9, 10, 16, 99 * 99, 10_000].map(|slot| slot << 30));
            let slots = [(0, 0), (9, 3), (16, 4), (99 * 99, 99)];
            assert!(places.eq(slots.map(|(slot, i)| (slot << 30, i))));
        }
        let parts = [KeyedOutcomes { keys: read, outcomes: outcomes.clone() }];
        let again = BucketTable::from_blocks(&parts).unwrap().to_blocks(0);
        assert_eq!(again, BucketBlocks { keys, outcomes: outcomes.clone(), wins });

        let mut wrong = outcomes.into_bytes();
        wrong.truncate(wrong.len() - CHECKSUM_BYTES);
        wrong[4] = DENSE as u8;
        let checksum = blake3::hash(&wrong);
        wrong.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
        assert_eq!(
            Block::parse(layout, wrong),
            Err(BlockError::Malformed("of another format than its entries"))
        );
    }

    #[test]
    fn unsorted_slots_are_refused() {
        let (_, blocks) = regular_partition(&[5, 3], 0, 0, 0);
        assert_eq!(
            Block::parse(TrailTrap::LAYOUT, blocks.keys.into_bytes()),
            Err(BlockError::Malformed("slots do not increase"))
        );
    }

    /// A block says whose it is, and no other game takes it.
    #[test]
    fn blocks_of_another_game_are_refused() {
        let (_, blocks) = regular_partition(&[3, 5], 0, 0, 0);
        let [found, expected] = [TrailTrap::LAYOUT.game, EdgeGeography::LAYOUT.game];
        for block in blocks {
            assert_eq!(
                Block::parse(EdgeGeography::LAYOUT, block.into_bytes()),
                Err(BlockError::Version { what: "game", found, expected })
            );
        }
    }

    /// So it is with classes.
    #[test]
    fn blocks_of_another_class_are_refused() {
        let (_, blocks) = regular_partition(&[3, 5], 0, 0, 0);
        let layout = TrailTrap::LAYOUT.on(Class::Bipartite);
        let [found, expected] = [TrailTrap::LAYOUT.number(), layout.number()];
        assert_ne!(found, expected);
        for block in blocks {
            assert_eq!(
                Block::parse(layout, block.into_bytes()),
                Err(BlockError::Version { what: "game", found, expected })
            );
        }
    }
}
