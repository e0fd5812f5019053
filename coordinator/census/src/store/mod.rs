//! The store: everything a census has found out, in RocksDB, behind the few operations the census
//! needs.
//!
//! Blocks lie as large values in blob files, one column family for each section, so that a section
//! can be dropped. They are written once: without a log, flushed before anything refers to them,
//! and never compacted (only the small files that say where they are). A unit *becomes visible* by
//! its record, one small write to the log, synced after the flush. What has no record does not
//! exist. Only when all blocks of a group are small do they go into the log together with their
//! records: one sync instead of a dozen, for bytes that are written twice but are few.

pub mod directory;
pub mod salvage;

use std::{path::Path, sync::Arc};

use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, FlushOptions, IteratorMode,
    Options, WriteBatch, WriteOptions,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use trailtrap_shared::{
    game::{GameName, Layout},
    labelling::{LABELLING, MAX_BATCH_ORDER},
    partition::{BLOCK_FORMAT, Block, BlockError, BlockId, Section},
    plan::{Plan, Shard, Unit},
    protocol::codec::{self, CodecError},
};
use trailtrap_worker::process::replace::sync_directory;

use crate::records::{Author, Delivery, OrderRecord, UnitRecord, ahead::Ahead, alarm::Alarm};

/// Version of the layout of keys and records below.
const STORE_FORMAT: u16 = 3;
const RECORDS: &str = "records";
/// Groups with fewer bytes of blocks go through the log.
const LOGGED_BYTES: u64 = 64 << 10;

/// What is wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// RocksDB refuses, for another reason than damage.
    #[error(transparent)]
    Database(rocksdb::Error),
    /// RocksDB finds its files damaged or missing.
    #[error(
        "the database is damaged ({0}); `trailtrap salvage` with the same --data keeps what is \
         undamaged, and a census solves the rest again"
    )]
    Damaged(rocksdb::Error),
    /// The blocks of a unit are sound, and not those that its record names.
    #[error("its blocks are not those that were recorded")]
    Content,
    /// The place for a new store cannot be had.
    #[error("cannot make the store")]
    Make(#[from] std::io::Error),
    /// It has another format than this program reads.
    #[error(
        "it was written with {what} {found}, this program has {expected}: use the program \
         version that wrote it, or another directory"
    )]
    Version {
        /// Of what there are versions.
        what: &'static str,
        /// The version in the store.
        found: u16,
        /// The version of this program.
        expected: u16,
    },
    /// It is of a game with this number.
    #[error(
        "it is of game number {0}, which this program does not know: use the program version \
         that wrote it, or another directory"
    )]
    UnknownGame(u16),
    /// It is of another game than was asked for.
    #[error(
        "it is a census of the game {found}: go on with that one by `--game {found}`, or choose \
         another directory for {asked}"
    )]
    OtherGame {
        /// The game of the store.
        found: GameName,
        /// The game that was asked for.
        asked: GameName,
    },
    /// The bytes of a record cannot be read.
    #[error("record {key} is damaged")]
    Record {
        /// Its key in the database.
        key: String,
        /// What is wrong with them.
        source: CodecError,
    },
    /// The bytes of a block cannot be read.
    #[error("block {id:?} is damaged")]
    Block {
        /// Which block.
        id: BlockId,
        /// What is wrong with them.
        source: BlockError,
    },
    /// There is no such block.
    #[error("block {0:?} is missing")]
    MissingBlock(BlockId),
    /// RocksDB cannot read a block.
    #[error("block {id:?} cannot be read")]
    UnreadableBlock {
        /// Which block.
        id: BlockId,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// The plan of this order has another fingerprint than the record of the order.
    #[error(
        "order {0} was split by another version of this program: use that version, or another \
         directory"
    )]
    Plan(usize),
}

impl From<rocksdb::Error> for StoreError {
    fn from(error: rocksdb::Error) -> Self {
        // A file that is missing comes as an error of the system, under its name.
        let missing = error.to_string().contains("No such file");
        match error.kind() {
            rocksdb::ErrorKind::Corruption => StoreError::Damaged(error),
            _ if missing => StoreError::Damaged(error),
            _ => StoreError::Database(error),
        }
    }
}

impl StoreError {
    /// The block that is damaged or missing, if that is what is wrong.
    pub fn bad_block(&self) -> Option<&BlockId> {
        match self {
            StoreError::Block { id, .. }
            | StoreError::MissingBlock(id)
            | StoreError::UnreadableBlock { id, .. } => Some(id),
            _ => None,
        }
    }

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
struct StoreFormat {
    store: u16,
    block: u16,
    labelling: u16,
    game: u16,
}

/// An open store. One process at a time can write to it.
pub struct Store {
    db: DB,
    game: GameName,
}

impl Store {
    /// Opens the store in `path`, or makes an empty one there. The making is all or nothing: it
    /// happens beside `path`.
    ///
    /// # Errors
    ///
    /// It cannot be made, opened or read, or is of another format or game.
    pub fn open(path: &Path, game: Option<GameName>) -> Result<Self, StoreError> {
        if !path.exists() {
            let new = path.with_extension("new");
            if new.exists() {
                // An earlier run was interrupted here.
                std::fs::remove_dir_all(&new)?;
            }
            drop(Self::open_or_create(&new, game)?);
            std::fs::rename(&new, path)?;
            if let Some(parent) = path.parent() {
                // The new name has to outlast a loss of power before anything in the store does.
                sync_directory(parent)?;
            }
        }
        Self::open_or_create(path, game)
    }

    fn open_or_create(path: &Path, game: Option<GameName>) -> Result<Self, StoreError> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_keep_log_file_num(2);
        options.set_max_background_jobs(2);
        // Blob files come by the thousand at order 11, and processes may often open a thousand
        // files.
        options.set_max_open_files(400);
        // A few large column families would otherwise keep logs of several gigabytes.
        options.set_max_total_wal_size(64 << 20);
        let db = DB::open_cf_descriptors(&options, path, families())?;
        let store = Store { db, game: game.unwrap_or_default() };
        match store.get::<StoreFormat>(b"format")? {
            None => {
                store.put(b"format", &current_format(store.game))?;
                Ok(store)
            }
            Some(format) => Ok(Store { game: check_format(&format, game)?, ..store }),
        }
    }

    /// Opens the store to look at, without any right to write. What an unfinished run commits
    /// later is not seen.
    ///
    /// # Errors
    ///
    /// It cannot be opened or read, or is of another format.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let db = DB::open_cf_descriptors_read_only(&Options::default(), path, families(), false)?;
        let store = Store { db, game: GameName::default() };
        match store.get::<StoreFormat>(b"format")? {
            Some(format) => Ok(Store { game: check_format(&format, None)?, ..store }),
            None => Ok(store),
        }
    }

    /// Opens a store to read what can be read of it.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is of another format.
    pub fn open_damaged(path: &Path) -> Result<Self, StoreError> {
        let mut options = Options::default();
        options.set_paranoid_checks(false);
        // Files are opened when they are read.
        options.set_max_open_files(400);
        let db = DB::open_cf_descriptors_read_only(&options, path, families(), false)?;
        let store = Store { db, game: GameName::default() };
        let game = match store.get::<StoreFormat>(b"format") {
            Ok(Some(format)) => check_format(&format, None)?,
            // Without it, plans tell whose they are.
            _ => {
                let first = store.order(1).ok().flatten();
                let is_of = |game: &GameName| {
                    first.as_ref().is_some_and(|first| plan(game.layout(), 1, first).is_ok())
                };
                GameName::ALL.into_iter().find(is_of).unwrap_or_default()
            }
        };
        Ok(Store { game, ..store })
    }

    /// The game that it is a census of.
    pub fn game(&self) -> GameName {
        self.game
    }

    /// Of the records of that game.
    pub fn layout(&self) -> Layout {
        self.game.layout()
    }

    /// The directory of the database.
    pub fn path(&self) -> &Path {
        self.db.path()
    }

    /// Takes over what concerns the whole census from another store, as far as it can be read, and
    /// begins a new edition.
    ///
    /// # Errors
    ///
    /// It is of another game, or this store cannot be written. What cannot be read of the other is
    /// left out.
    pub fn take_over(&self, other: &Store) -> Result<(), StoreError> {
        match other.get::<StoreFormat>(b"format") {
            Ok(Some(format)) => drop(check_format(&format, Some(self.game))?),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the format of the store is lost"),
        }
        let kept = |number: Result<Option<u32>, StoreError>| number.ok().flatten().unwrap_or(0);
        self.put_edition(kept(other.get(b"edition")).saturating_add(1))?;
        if let Ok(Some(salt)) = other.get::<u64>(b"salt") {
            self.put(b"salt", &salt)?;
        }
        let alarms = other.alarms().unwrap_or_else(|error| {
            tracing::warn!(%error, "the alarms of the store are lost");
            Vec::new()
        });
        alarms.iter().try_for_each(|(number, alarm)| self.put_alarm(*number, alarm))?;
        // Numbers of leases begin with their epoch, and tell which of two computations came later:
        // they may not repeat, even if the epoch itself is lost.
        let lease = alarms
            .iter()
            .map(|(_, alarm)| alarm.last_instance)
            .fold(other.last_instance(), u64::max);
        let epoch = kept(other.get(b"epoch")).max((lease >> 32) as u32);
        self.put(b"epoch", &epoch.saturating_add(1))
    }

    /// The last lease of which a result is recorded, among the records that can be read.
    fn last_instance(&self) -> u64 {
        let of_order = |order: u8| {
            // One after the other: an unreadable record ends its order, not those above.
            let prefix = [b'u', order];
            let mode = IteratorMode::From(&prefix, rocksdb::Direction::Forward);
            let records = self.db.iterator_cf(self.family(RECORDS), mode).map_while(Result::ok);
            let records =
                records.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, value)| value);
            records
                .filter_map(|value| codec::decode::<UnitRecord>(&value).ok())
                .map(|record| record.instance)
                .max()
        };
        (1..=MAX_BATCH_ORDER as u8).filter_map(of_order).max().unwrap_or(0)
    }

    /// A number that grows with every call, over restarts too.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds is damaged.
    pub fn next_epoch(&self) -> Result<u32, StoreError> {
        let epoch = self.get::<u32>(b"epoch")?.unwrap_or(0) + 1;
        self.put(b"epoch", &epoch)?;
        Ok(epoch)
    }

    /// The record of an order, if it was begun.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn order(&self, order: usize) -> Result<Option<OrderRecord>, StoreError> {
        self.get(&order_key(order))
    }

    /// Writes the record of an order; durable when this returns.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_order(&self, order: usize, record: &OrderRecord) -> Result<(), StoreError> {
        self.put(&order_key(order), record)
    }

    /// The record of a finished unit.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn unit(&self, unit: Unit) -> Result<Option<UnitRecord>, StoreError> {
        self.get(&unit_key(unit))
    }

    /// The records of all finished units of an order.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn units(&self, order: usize) -> Result<Vec<(Unit, UnitRecord)>, StoreError> {
        let prefix = [b'u', order as u8];
        let mode = IteratorMode::From(&prefix, rocksdb::Direction::Forward);
        let mut units = Vec::new();
        for item in self.db.iterator_cf(self.family(RECORDS), mode) {
            let (key, value) = item?;
            if !key.starts_with(&prefix) || key.len() != 10 {
                break;
            }
            let number =
                |at: usize| u32::from_be_bytes(key[at..at + 4].try_into().expect("four bytes"));
            let unit = Unit { order: order as u8, shard: number(2), part: number(6) };
            units.push((unit, decode(&key, &value)?));
        }
        Ok(units)
    }

    /// What a unit tells about graphs with one edge more, if that was counted. It is of the unit's
    /// blocks if their content is the one that it names.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn ahead(&self, unit: Unit) -> Result<Option<Ahead>, StoreError> {
        self.get(&ahead_key(unit))
    }

    /// Writes what a unit tells about graphs with one edge more.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_ahead(&self, unit: Unit, ahead: &Ahead) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        batch.put_cf(self.family(RECORDS), ahead_key(unit), codec::encode(ahead));
        Ok(self.db.write(batch)?)
    }

    /// Makes deliveries durable: first all their blocks, then, in one atomic write, their records.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
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
            records.put_cf(
                self.family(RECORDS),
                unit_key(delivery.unit),
                codec::encode(&delivery.record),
            );
            if let Some(ahead) = &delivery.ahead {
                let key = ahead_key(delivery.unit);
                records.put_cf(self.family(RECORDS), key, codec::encode(ahead));
            }
        }
        if !logged {
            let sections = Section::ALL.map(|section| self.section(section));
            self.db.flush_cfs_opt(&sections, &FlushOptions::default())?;
        }
        self.db.write_opt(records, &synced())?;
        Ok(())
    }

    /// Takes units back, so that they count as not done.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn take_back(&self, units: &[Unit]) -> Result<(), StoreError> {
        if units.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        units.iter().for_each(|&unit| batch.delete_cf(self.family(RECORDS), unit_key(unit)));
        Ok(self.db.write_opt(batch, &synced())?)
    }

    /// Takes units back, changes the records of orders accordingly, and begins an edition: all of
    /// it or nothing.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn begin_edition(
        &self,
        edition: u32,
        units: &[Unit],
        orders: &[(usize, OrderRecord)],
    ) -> Result<(), StoreError> {
        let records = self.family(RECORDS);
        let mut batch = WriteBatch::default();
        units.iter().for_each(|&unit| batch.delete_cf(records, unit_key(unit)));
        orders.iter().for_each(|(order, record)| {
            batch.put_cf(records, order_key(*order), codec::encode(record))
        });
        batch.put_cf(records, b"edition", codec::encode(&edition));
        Ok(self.db.write_opt(batch, &synced())?)
    }

    /// Notes that other workers solved units again and came to the same.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds is damaged.
    pub fn confirm(&self, units: &[(Unit, Author)]) -> Result<(), StoreError> {
        if units.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        for (unit, worker) in units {
            if let Some(mut record) = self.unit(*unit)? {
                record.confirmed.push(worker.clone());
                batch.put_cf(self.family(RECORDS), unit_key(*unit), codec::encode(&record));
            }
        }
        Ok(self.db.write_opt(batch, &synced())?)
    }

    /// A number that grows with every start, and whenever finished units are taken back; 0 at
    /// first.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn edition(&self) -> Result<u32, StoreError> {
        Ok(self.get(b"edition")?.unwrap_or(0))
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_edition(&self, edition: u32) -> Result<(), StoreError> {
        self.put(b"edition", &edition)
    }

    /// The number that decides which units are compared: the one kept, or this one from now on.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds is damaged.
    pub fn salt(&self, new: u64) -> Result<u64, StoreError> {
        match self.get(b"salt")? {
            Some(salt) => Ok(salt),
            None => self.put(b"salt", &new).map(|()| new),
        }
    }

    /// All alarms, by number.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn alarms(&self) -> Result<Vec<(u32, Alarm)>, StoreError> {
        let mut alarms = Vec::new();
        for item in self.db.iterator_cf(
            self.family(RECORDS),
            IteratorMode::From(b"a", rocksdb::Direction::Forward),
        ) {
            let (key, value) = item?;
            let Some(number) = key.strip_prefix(b"a").and_then(|rest| rest.try_into().ok()) else {
                break;
            };
            alarms.push((u32::from_be_bytes(number), decode(&key, &value)?));
        }
        Ok(alarms)
    }

    /// Writes an alarm, new or changed.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_alarm(&self, number: u32, alarm: &Alarm) -> Result<(), StoreError> {
        let mut key = b"a".to_vec();
        key.extend_from_slice(&number.to_be_bytes());
        self.put(&key, alarm)
    }

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

    /// One block of a finished unit.
    ///
    /// # Errors
    ///
    /// It is missing or damaged.
    pub fn read(&self, id: &BlockId) -> Result<Block, StoreError> {
        let id = *id;
        let read =
            self.db.get_cf(self.section(id.section), block_key(&id)).map_err(
                |source| match source.kind() {
                    rocksdb::ErrorKind::Corruption => StoreError::UnreadableBlock { id, source },
                    _ => StoreError::from(source),
                },
            );
        let bytes = read?.ok_or(StoreError::MissingBlock(id))?;
        let block = Block::parse(self.layout(), bytes)
            .map_err(|source| StoreError::Block { id, source })?;
        if block.id == id { Ok(block) } else { Err(StoreError::MissingBlock(id)) }
    }

    /// Whether there are keys of an order.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn has_keys(&self, order: usize) -> Result<bool, StoreError> {
        let prefix = [order as u8];
        let mode = IteratorMode::From(&prefix, rocksdb::Direction::Forward);
        let first = self.db.iterator_cf(self.section(Section::Keys), mode).next().transpose()?;
        Ok(first.is_some_and(|(key, _)| key.starts_with(&prefix)))
    }

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
        let (from, to) = ([order as u8, 0], [order as u8, size as u8 + 1]);
        let family = self.section(section);
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(family, from, to);
        self.db.write_opt(batch, &synced())?;
        // This rewrites where blocks are, not the blocks; files with nothing left in them go.
        self.db.compact_range_cf(family, Some(from), Some(to));
        Ok(())
    }

    fn get<T: Serialize + DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
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

/// The plan by which an order was split.
///
/// # Errors
///
/// [`StoreError::Plan`]: the record is of another plan than this program makes.
pub fn plan(layout: Layout, order: usize, record: &OrderRecord) -> Result<Plan, StoreError> {
    let plan = Plan::new(layout, order, record.options);
    if plan.fingerprint == record.plan_fingerprint {
        Ok(plan)
    } else {
        Err(StoreError::Plan(order))
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
    let sections = Section::ALL
        .map(|section| ColumnFamilyDescriptor::new(section_name(section), bulk.clone()));
    let small =
        ["default", RECORDS].map(|name| ColumnFamilyDescriptor::new(name, Options::default()));
    small.into_iter().chain(sections).collect()
}

fn current_format(game: GameName) -> StoreFormat {
    StoreFormat {
        store: STORE_FORMAT,
        block: BLOCK_FORMAT,
        labelling: LABELLING,
        game: game.layout().game,
    }
}

/// The game that the store is of, which has to be the one that is asked for.
fn check_format(found: &StoreFormat, asked: Option<GameName>) -> Result<GameName, StoreError> {
    let game = GameName::of_number(found.game).ok_or(StoreError::UnknownGame(found.game))?;
    let expected = current_format(game);
    let pairs = [
        ("store format", found.store, expected.store),
        ("block format", found.block, expected.block),
        ("labelling", found.labelling, expected.labelling),
    ];
    match pairs.into_iter().find(|(_, found, expected)| found != expected) {
        Some((what, found, expected)) => Err(StoreError::Version { what, found, expected }),
        None => match asked {
            Some(asked) if asked != game => Err(StoreError::OtherGame { found: game, asked }),
            _ => Ok(game),
        },
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

fn ahead_key(unit: Unit) -> Vec<u8> {
    let mut key = unit_key(unit);
    key[0] = b'n';
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

fn decode<T: Serialize + DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, StoreError> {
    codec::decode(value)
        .map_err(|source| StoreError::Record { key: key.escape_ascii().to_string(), source })
}
