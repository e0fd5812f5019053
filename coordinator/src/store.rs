//! The store: everything a census has found out, in RocksDB, behind the few operations the census needs.
//!
//! Blocks lie as large values in blob files, one column family for each section, so that a section can be dropped. They are
//! written once: without a log, flushed before anything refers to them, and never compacted (only the small files that say
//! where they are). A unit *becomes visible* by its record, one small write to the log, synced after the flush. What has no
//! record does not exist. Only when all blocks of a group are small do they go into the log together with their records:
//! one sync instead of a dozen, for bytes that are written twice but are few.

use std::{path::Path, sync::Arc};

use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, FlushOptions, IteratorMode, Options, WriteBatch,
    WriteOptions,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use trailtrap_shared::{
    codec::{self, CodecError},
    degree::DegreeSequence,
    digest::Digest,
    game::{Game, TrailTrap},
    labelling::LABELLING,
    partition::{BLOCK_FORMAT, Block, BlockError, BlockId, Section},
    plan::{PlanOptions, Shard, Unit},
    statistics::Statistics,
};

/// Version of the layout of keys and records below.
const STORE_FORMAT: u16 = 2;
const RECORDS: &str = "records";
/// Groups with fewer bytes of blocks go through the log.
const LOGGED_BYTES: u64 = 64 << 10;

/// What is wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Database(#[from] rocksdb::Error),
    #[error("cannot make the store")]
    Make(#[from] std::io::Error),
    #[error(
        "it was written with {what} {found}, this program has {expected}: use the program version that wrote it, or another directory"
    )]
    Version { what: &'static str, found: u16, expected: u16 },
    #[error("record {key} is damaged")]
    Record { key: String, source: CodecError },
    #[error("block {id:?} is damaged")]
    Block { id: BlockId, source: BlockError },
    #[error("block {0:?} is missing")]
    MissingBlock(BlockId),
    #[error("order {0} was split by another version of this program: use that version, or another directory")]
    Plan(usize),
}

impl StoreError {
    /// Whether the disk was full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Database(error) => error.to_string().contains("No space left"),
            StoreError::Make(error) => error.kind() == std::io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Format {
    store: u16,
    block: u16,
    labelling: u16,
    game: u16,
}

/// What is kept about a finished unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    pub statistics: Statistics,
    pub digest: [u8; 32],
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Time it took its worker.
    pub microseconds: u64,
    /// Who solved it.
    pub worker: String,
}

impl UnitRecord {
    /// The public digest of the unit's records.
    pub fn digest(&self) -> Digest {
        Digest::from_le_bytes(self.digest)
    }
}

/// What is kept about an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    pub options: PlanOptions,
    /// Of the plan that shard numbers refer to.
    pub plan_fingerprint: u64,
    /// Statistics and digest for each number of edges, once all units are done and all checks have passed.
    pub result: Option<Vec<(Statistics, [u8; 32])>>,
    /// Whether the outcomes of all positions are (still) there.
    pub outcomes_kept: bool,
}

/// A finished unit on its way into the store.
pub struct Delivery {
    pub unit: Unit,
    pub sequence: DegreeSequence,
    /// Keys, outcomes, wins of each bucket.
    pub blocks: Vec<Block>,
    pub record: UnitRecord,
}

/// An open store. One process at a time can write to it.
pub struct Store {
    db: DB,
}

impl Store {
    /// Opens the store in `path`, or makes an empty one there. The making is all or nothing: it happens beside `path`.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            let new = path.with_extension("new");
            if new.exists() {
                // An earlier run was interrupted here.
                std::fs::remove_dir_all(&new)?;
            }
            drop(Self::open_or_create(&new)?);
            std::fs::rename(&new, path)?;
            if let Some(parent) = path.parent() {
                // The new name has to outlast a loss of power before anything in the store does.
                std::fs::File::open(parent)?.sync_all()?;
            }
        }
        Self::open_or_create(path)
    }

    fn open_or_create(path: &Path) -> Result<Self, StoreError> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_keep_log_file_num(2);
        options.set_max_background_jobs(2);
        // Blob files come by the thousand at order 11, and processes may often open a thousand files.
        options.set_max_open_files(400);
        // A few large column families would otherwise keep logs of several gigabytes.
        options.set_max_total_wal_size(64 << 20);
        let store = Store { db: DB::open_cf_descriptors(&options, path, families())? };
        match store.get::<Format>(b"format")? {
            None => store.put(b"format", &current_format())?,
            Some(format) => check_format(&format)?,
        }
        Ok(store)
    }

    /// Opens the store to look at, without any right to write. What an unfinished run commits later is not seen.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let store = Store { db: DB::open_cf_descriptors_read_only(&Options::default(), path, families(), false)? };
        if let Some(format) = store.get::<Format>(b"format")? {
            check_format(&format)?;
        }
        Ok(store)
    }

    /// A number that grows with every call, over restarts too.
    pub fn next_epoch(&self) -> Result<u32, StoreError> {
        let epoch = self.get::<u32>(b"epoch")?.unwrap_or(0) + 1;
        self.put(b"epoch", &epoch)?;
        Ok(epoch)
    }

    /// The record of an order, if it was begun.
    pub fn order(&self, order: usize) -> Result<Option<OrderRecord>, StoreError> {
        self.get(&order_key(order))
    }

    /// Writes the record of an order; durable when this returns.
    pub fn put_order(&self, order: usize, record: &OrderRecord) -> Result<(), StoreError> {
        self.put(&order_key(order), record)
    }

    /// The record of a finished unit.
    pub fn unit(&self, unit: Unit) -> Result<Option<UnitRecord>, StoreError> {
        self.get(&unit_key(unit))
    }

    /// The records of all finished units of an order.
    pub fn units(&self, order: usize) -> Result<Vec<(Unit, UnitRecord)>, StoreError> {
        let prefix = [b'u', order as u8];
        let mode = IteratorMode::From(&prefix, rocksdb::Direction::Forward);
        let mut units = Vec::new();
        for item in self.db.iterator_cf(self.family(RECORDS), mode) {
            let (key, value) = item?;
            if !key.starts_with(&prefix) || key.len() != 10 {
                break;
            }
            let number = |at: usize| u32::from_be_bytes(key[at..at + 4].try_into().expect("four bytes"));
            let unit = Unit { order: order as u8, shard: number(2), part: number(6) };
            units.push((unit, decode(&key, &value)?));
        }
        Ok(units)
    }

    /// Makes deliveries durable: first all their blocks, then, in one atomic write, their records.
    pub fn commit(&self, deliveries: &[Arc<Delivery>]) -> Result<(), StoreError> {
        let bytes: u64 = deliveries.iter().map(|delivery| delivery.record.bytes).sum();
        let logged = bytes < LOGGED_BYTES;
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        let mut records = WriteBatch::default();
        for delivery in deliveries {
            for block in &delivery.blocks {
                let (family, key) = (self.section(block.id.section), block_key(&block.id));
                match logged {
                    true => records.put_cf(family, key, block.bytes()),
                    false => self.db.put_cf_opt(family, key, block.bytes(), &unlogged)?,
                }
            }
            records.put_cf(self.family(RECORDS), unit_key(delivery.unit), codec::encode(&delivery.record));
        }
        if !logged {
            let sections = Section::ALL.map(|section| self.section(section));
            self.db.flush_cfs_opt(&sections, &FlushOptions::default())?;
        }
        self.db.write_opt(records, &synced())?;
        Ok(())
    }

    /// Takes units back, so that they count as not done.
    pub fn forget(&self, units: impl Iterator<Item = Unit>) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        units.for_each(|unit| batch.delete_cf(self.family(RECORDS), unit_key(unit)));
        Ok(self.db.write_opt(batch, &synced())?)
    }

    /// One section of one bucket of a finished shard, the blocks of its parts in order.
    pub fn blocks(&self, shard: &Shard, bucket: u32, section: Section) -> Result<Vec<Block>, StoreError> {
        (0..shard.parts).map(|part| self.block(shard, part, bucket, section)).collect()
    }

    /// One block of a finished unit.
    pub fn block(&self, shard: &Shard, part: u32, bucket: u32, section: Section) -> Result<Block, StoreError> {
        self.read(&block_id(shard, part, bucket, section))
    }

    /// One block of a finished unit.
    pub fn read(&self, id: &BlockId) -> Result<Block, StoreError> {
        let id = *id;
        let bytes = self.db.get_cf(self.section(id.section), block_key(&id))?.ok_or(StoreError::MissingBlock(id))?;
        let block = Block::parse::<TrailTrap>(bytes).map_err(|source| StoreError::Block { id, source })?;
        if block.id == id { Ok(block) } else { Err(StoreError::MissingBlock(id)) }
    }

    /// Drops one section of all partitions of an order with at most `size` edges, and frees their space.
    pub fn drop_section(&self, section: Section, order: usize, size: usize) -> Result<(), StoreError> {
        let (from, to) = ([order as u8, 0], [order as u8, size as u8 + 1]);
        let family = self.section(section);
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(family, from, to);
        self.db.write_opt(batch, &synced())?;
        // This rewrites where blocks are, not the blocks; files with nothing left in them go.
        self.db.compact_range_cf(family, Some(from), Some(to));
        Ok(())
    }

    fn get<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        let value = self.db.get_cf(self.family(RECORDS), key)?;
        value.map(|value| decode(key, &value)).transpose()
    }

    fn put<T: Serialize>(&self, key: &[u8], value: &T) -> Result<(), StoreError> {
        Ok(self.db.put_cf_opt(self.family(RECORDS), key, codec::encode(value), &synced())?)
    }

    fn family(&self, name: &str) -> &ColumnFamily {
        self.db.cf_handle(name).expect("opened with every column family")
    }

    fn section(&self, section: Section) -> &ColumnFamily {
        self.family(section_name(section))
    }
}

/// The place of a block of a shard.
pub fn block_id(shard: &Shard, part: u32, bucket: u32, section: Section) -> BlockId {
    BlockId { sequence: shard.sequence, part, bucket_bits: shard.bucket_bits, bucket, section }
}

fn section_name(section: Section) -> &'static str {
    match section {
        Section::Keys => "keys",
        Section::Outcomes => "outcomes",
        Section::Wins => "wins",
    }
}

fn families() -> Vec<ColumnFamilyDescriptor> {
    let mut bulk = Options::default();
    bulk.set_enable_blob_files(true);
    bulk.set_min_blob_size(4 << 10);
    bulk.set_blob_file_size(1 << 30);
    bulk.set_enable_blob_gc(false);
    bulk.set_write_buffer_size(1 << 30);
    bulk.set_compression_type(DBCompressionType::Lz4);
    // What is compacted are small partitions and the places of large ones: little, and not often.
    bulk.set_level_zero_file_num_compaction_trigger(16);
    let sections = Section::ALL.map(|section| ColumnFamilyDescriptor::new(section_name(section), bulk.clone()));
    let small = ["default", RECORDS].map(|name| ColumnFamilyDescriptor::new(name, Options::default()));
    small.into_iter().chain(sections).collect()
}

fn current_format() -> Format {
    Format { store: STORE_FORMAT, block: BLOCK_FORMAT, labelling: LABELLING, game: TrailTrap::ID }
}

fn check_format(found: &Format) -> Result<(), StoreError> {
    let expected = current_format();
    let pairs = [
        ("store format", found.store, expected.store),
        ("block format", found.block, expected.block),
        ("labelling", found.labelling, expected.labelling),
        ("game", found.game, expected.game),
    ];
    match pairs.into_iter().find(|(_, found, expected)| found != expected) {
        Some((what, found, expected)) => Err(StoreError::Version { what, found, expected }),
        None => Ok(()),
    }
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

fn order_key(order: usize) -> [u8; 2] {
    [b'o', order as u8]
}

fn unit_key(unit: Unit) -> Vec<u8> {
    let mut key = vec![b'u', unit.order];
    key.extend_from_slice(&unit.shard.to_be_bytes());
    key.extend_from_slice(&unit.part.to_be_bytes());
    key
}

/// Order, size, degrees, part, bucket: partitions of one number of edges stand together.
fn block_key(id: &BlockId) -> Vec<u8> {
    let mut key = vec![id.sequence.order() as u8, id.sequence.size() as u8];
    key.extend_from_slice(id.sequence.bytes());
    key.extend_from_slice(&id.part.to_be_bytes());
    key.extend_from_slice(&id.bucket.to_be_bytes());
    key
}

fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, StoreError> {
    codec::decode(value).map_err(|source| StoreError::Record { key: key.escape_ascii().to_string(), source })
}
