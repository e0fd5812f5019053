//! The store: everything a census has found out, in RocksDB, behind the few operations the census
//! needs.
//!
//! Blocks lie as large values in blob files, one column family for each section, so that a section
//! can be dropped. They are written once: without a log, flushed before anything refers to them,
//! and never compacted (only the small files that say where they are). A unit *becomes visible* by
//! its record, one small write to the log, synced after the flush. What has no record does not
//! exist. Beside each block in a blob file lies its [`parity`]. Only when all blocks of a group are
//! small do they go into the log together with their records: one sync instead of a dozen, for
//! bytes that are written twice but are few.
//!
//! A store may keep its larger blocks in a [`depot`] instead, or have workers keep them on their
//! [`shelves`], and has a reference in the place of each. They are there for good before anything
//! refers to them, written by the worker that solved them or when they are committed.

mod blocks;
mod database;
pub(crate) mod depot;
pub mod directory;
mod dropping;
mod error;
mod files;
mod format;
mod journal;
mod keys;
mod logs;
mod parity;
pub mod salvage;
pub mod shelves;
mod wreck;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use parking_lot::Mutex;
use rocksdb::{DB, IteratorMode, WriteBatch};
use serde::{Serialize, de::DeserializeOwned};
use trailtrap_shared::{
    class::Class,
    game::{GameName, Layout},
    graph::{MAX_ORDER, pairs},
    labelling::LABELLING,
    partition::{BLOCK_FORMAT, BlockId, BlockName},
    plan::{Goal, Plan, Unit},
    protocol::codec::{self, CodecError},
};
use trailtrap_worker::{
    process::replace::sync_directory,
    supply::kept::{KeptDepot, Mark},
};

pub use self::blocks::{block_id, block_ids, parity_bytes};
pub(crate) use self::error::REMEDY;
pub use self::error::{Lost, StoreError};
pub use self::format::check_asked;
use self::{
    blocks::{put_flushed, put_logged},
    database::{AccessMode, Database, Findings, RECORDS, family, synced},
    depot::{DepotRecord, reference},
    format::{LATER_FORMAT, REHEARSAL_FORMAT, STORE_FORMAT, StoreFormat, check_format},
    journal::{Change, Journal, JournalContents},
    keys::{
        DEPOT, EDITION, EPOCH, FORMAT, SALT, SHELVES, TAKEN_BACK, WRITTEN, ahead_key, alarm_key,
        alarm_of_key, damaged, decode, dropped_key, limit_key, masses_key, order_key, unit_key,
        unit_of_key, withdrawn_key,
    },
    shelves::ShelfRoom,
};
use crate::records::{
    Author, Beside, Delivery, OrderRecord, UnitRecord, ahead::Ahead, alarm::Alarm,
};

/// So many unit records are read together.
const UNITS_AT_A_TIME: usize = 256;
/// Groups with fewer bytes of blocks go through the log.
const LOGGED_BYTES: usize = 64 << 10;

/// An open store. One process at a time can write to it.
pub struct Store {
    database: Database,
    game: GameName,
    class: Class,
    is_rehearsal: bool,
    /// Where larger blocks are kept, unless that is in the database or on shelves.
    depot: Option<KeptDepot>,
    /// The mark of the shelves on which they are kept, …
    shelf_mark: Option<Mark>,
    /// … and these, if this process reaches them.
    shelves: Option<ShelfRoom>,
    /// Blocks that were damaged when they were read, and have been mended.
    mended: AtomicU64,
    /// Of a store that is open for writing. Dropped after the database.
    journal: Option<Mutex<Journaled>>,
}

/// The journal, and the number of the last write that the database has.
struct Journaled {
    journal: Journal,
    written: u64,
}

impl Store {
    /// Opens the store in `path`, or makes an empty one there, of Trail Trap on all graphs if
    /// nothing else is asked for. The making is all or nothing: it happens beside `path`.
    ///
    /// # Errors
    ///
    /// It cannot be made, opened or read, is damaged, or is of another format, game or class.
    pub fn open(
        path: &Path,
        game: Option<GameName>,
        class: Option<Class>,
    ) -> Result<Self, StoreError> {
        if !path.try_exists()? {
            let new = path.with_extension("new");
            if new.try_exists()? {
                // An earlier run was interrupted here.
                std::fs::remove_dir_all(&new)?;
            }
            let (game, class) = (game.unwrap_or_default(), class.unwrap_or_default());
            drop(Self::create(&new, game, class, false)?);
            std::fs::rename(&new, path)?;
            if let Some(parent) = path.parent() {
                // The new name has to outlast a loss of power before anything in the store does.
                sync_directory(parent)?;
            }
        }
        let (database, Findings { told, records, written }) =
            Database::open(path, AccessMode::Write)?;
        let store = Self::of(database, game, class)?;
        // The journal is made the copy of the records that it should be.
        let journal = store.database.run(|db| {
            let all = database::each_record(db).map(|record| record.map_err(io::Error::other));
            // What the database cannot read is no fault of the journal.
            Journal::of(path, &told, &records, written, all)
                .map_err(|error| error.downcast().unwrap_or_else(StoreError::Journal))
        })?;
        let journal = Some(Mutex::new(Journaled { journal, written }));
        let store = Store { journal, ..store };
        store.write_newest_blocks()?;
        Ok(store)
    }

    /// Keeps programs away that do not know the blocks which this one writes.
    fn write_newest_blocks(&self) -> Result<(), StoreError> {
        match self.get::<StoreFormat>(FORMAT)? {
            Some(format) if format.block < BLOCK_FORMAT => {
                self.put(FORMAT, &StoreFormat { block: BLOCK_FORMAT, ..format })
            }
            _ => Ok(()),
        }
    }

    /// Makes an empty store for a rehearsal of a census of all graphs, which is refused wherever
    /// a store is opened: what is in it is invented.
    ///
    /// # Errors
    ///
    /// There is something in `path`, or it cannot be made there.
    pub fn of_rehearsal(path: &Path, game: GameName) -> Result<Self, StoreError> {
        if path.try_exists()? {
            return Err(StoreError::Io(io::ErrorKind::AlreadyExists.into()));
        }
        Self::create(path, game, Class::All, true)
    }

    /// Makes an empty store.
    fn create(
        path: &Path,
        game: GameName,
        class: Class,
        is_rehearsal: bool,
    ) -> Result<Self, StoreError> {
        let database = Database::create(path)?;
        let (told, none) = (JournalContents::default(), journal::Records::new());
        let journal =
            Journal::of(path, &told, &none, 0, std::iter::empty()).map_err(StoreError::Journal)?;
        let journal = Some(Mutex::new(Journaled { journal, written: 0 }));
        let store = Store { journal, is_rehearsal, ..Self::bare(database, game, class) };
        store.put(FORMAT, &store.format(STORE_FORMAT))?;
        Ok(store)
    }

    /// Opens the store to look at, without any right to write. What an unfinished run commits
    /// later may be seen or not.
    ///
    /// # Errors
    ///
    /// It cannot be opened or read, is damaged, or is of another format.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        Self::of(Database::open(path, AccessMode::Read)?.0, None, None)
    }

    /// A store that keeps its blocks in its database, to look at.
    fn bare(database: Database, game: GameName, class: Class) -> Self {
        Store {
            database,
            game,
            class,
            is_rehearsal: false,
            depot: None,
            shelf_mark: None,
            shelves: None,
            mended: AtomicU64::new(0),
            journal: None,
        }
    }

    /// A store that is there, of the game and the class that are asked for.
    fn of(
        database: Database,
        asked_game: Option<GameName>,
        asked_class: Option<Class>,
    ) -> Result<Self, StoreError> {
        let store = Self::bare(database, GameName::default(), Class::default());
        let format = store.get::<StoreFormat>(FORMAT)?;
        // Stores have been made with their format in them from the beginning.
        let format = format.ok_or_else(|| damaged(FORMAT, CodecError::Empty))?;
        let (game, class) = check_format(&format, asked_game, asked_class)?;
        let depot = store.get::<DepotRecord>(DEPOT)?.map(|record| record.depot());
        let shelf_mark = store.get::<u64>(SHELVES)?.map(Mark);
        Ok(Store { game, class, depot, shelf_mark, ..store })
    }

    /// Whether its blocks are all in the database: neither in a depot nor on shelves.
    fn has_all_here(&self) -> bool {
        self.depot.is_none() && self.shelf_mark.is_none()
    }

    /// The game that it is a census of.
    pub fn game(&self) -> GameName {
        self.game
    }

    /// The class of the graphs that it is about.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether everything in it is invented.
    pub fn is_rehearsal(&self) -> bool {
        self.is_rehearsal
    }

    /// Its format, which is this version unless it is a rehearsal's.
    fn format(&self, version: u16) -> StoreFormat {
        let store = if self.is_rehearsal { REHEARSAL_FORMAT } else { version };
        let game = self.layout().number();
        StoreFormat { store, block: BLOCK_FORMAT, labelling: LABELLING, game }
    }

    /// Of the records of that game, and with that class.
    pub fn layout(&self) -> Layout {
        self.game.layout().on(self.class)
    }

    /// The directory of the database.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// A number that grows with every call, over restarts too.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds is damaged.
    pub fn next_epoch(&self) -> Result<u32, StoreError> {
        let epoch = self.get::<u32>(EPOCH)?.unwrap_or(0) + 1;
        self.put(EPOCH, &epoch)?;
        Ok(epoch)
    }

    /// Writes the number of the last start.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_epoch(&self, epoch: u32) -> Result<(), StoreError> {
        self.put(EPOCH, &epoch)
    }

    /// Whether this is done.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn has_results(&self, goal: Goal) -> Result<bool, StoreError> {
        for n in 1..=goal.order {
            let result = self.order(n)?.and_then(|record| record.result);
            if result.is_none_or(|by_size| by_size.len() <= goal.max_size(n)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an order was begun that has no result.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn has_order_in_work(&self) -> Result<bool, StoreError> {
        for n in 1..=MAX_ORDER {
            if self.order(n)?.is_some_and(|record| record.result.is_none()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The record of an order, if it was begun.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn order(&self, order: usize) -> Result<Option<OrderRecord>, StoreError> {
        let record = self.get::<OrderRecord>(&order_key(order))?;
        let beside = Beside {
            limit: self.get(&limit_key(order))?,
            graphs_dropped: self.get(&dropped_key(order))?.unwrap_or(false),
            withdrawn: self.get(&withdrawn_key(order))?.unwrap_or(false),
        };
        Ok(record.map(|record| record.with(order, beside)))
    }

    /// Writes the record of an order; durable when this returns.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_order(&self, order: usize, record: &OrderRecord) -> Result<(), StoreError> {
        self.change(self.order_changes(order, record))
    }

    /// What writing the record of an order changes.
    fn order_changes(&self, order: usize, record: &OrderRecord) -> Vec<Change> {
        let written = (order_key(order).to_vec(), Some(codec::encode(record)));
        let limit = record.max_size.map(|max_size| codec::encode(&(max_size as u16)));
        let dropped = record.graphs_dropped.then(|| codec::encode(&true));
        let withdrawn = record.withdrawn.then(|| codec::encode(&true));
        let is_later = limit.is_some() || dropped.is_some();
        let mut changes = vec![
            written,
            (limit_key(order).to_vec(), limit),
            (dropped_key(order).to_vec(), dropped),
            (withdrawn_key(order).to_vec(), withdrawn),
        ];
        if is_later && self.has_all_here() {
            let format = codec::encode(&self.format(LATER_FORMAT));
            changes.push((FORMAT.to_vec(), Some(format)));
        }
        changes
    }

    /// The record of a finished unit.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn unit(&self, unit: Unit) -> Result<Option<UnitRecord>, StoreError> {
        self.get(&unit_key(unit))
    }

    /// The records of all finished units of an order, in order. Some hundreds are in memory at a
    /// time, and they take kilobytes each.
    ///
    /// An item is an error, and the last, if the store cannot be read, or what it holds is damaged.
    pub fn each_unit(
        &self,
        order: usize,
    ) -> impl Iterator<Item = Result<(Unit, UnitRecord), StoreError>> {
        let mut next = Some(vec![b'u', order as u8]);
        let groups = std::iter::from_fn(move || {
            let from = next.take()?;
            let group = self.units_from(&from);
            next = match &group {
                Ok(units) if units.len() == UNITS_AT_A_TIME => units.last().map(|(unit, _)| {
                    // The first key after it.
                    [unit_key(*unit), vec![0]].concat()
                }),
                _ => None,
            };
            Some(group.map_or_else(
                |error| vec![Err(error)],
                |units| units.into_iter().map(Ok).collect::<Vec<_>>(),
            ))
        });
        groups.flatten()
    }

    /// The next units of an order whose records have keys from this one on.
    fn units_from(&self, from: &[u8]) -> Result<Vec<(Unit, UnitRecord)>, StoreError> {
        let order = &from[..2];
        self.database.run(|db| {
            let mode = IteratorMode::From(from, rocksdb::Direction::Forward);
            let mut units = Vec::new();
            for item in db.iterator_cf(family(db, RECORDS), mode).take(UNITS_AT_A_TIME) {
                let (key, value) = item?;
                let Some(unit) = unit_of_key(&key).filter(|_| key.starts_with(order)) else {
                    break;
                };
                units.push((unit, decode(&key, &value)?));
            }
            Ok(units)
        })
    }

    /// The records of all finished units of an order, in order, all in memory.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn units(&self, order: usize) -> Result<Vec<(Unit, UnitRecord)>, StoreError> {
        self.each_unit(order).collect()
    }

    /// Those of them that are of a plan of the order, as [`Store::each_unit`] does: a run that was
    /// to do more may have left units of more edges.
    pub fn each_unit_of<'s>(
        &'s self,
        plan: &'s Plan,
    ) -> impl Iterator<Item = Result<(Unit, UnitRecord), StoreError>> + 's {
        let is_of = |(unit, _): &(Unit, UnitRecord)| !plan.leaves_out(*unit);
        self.each_unit(plan.order).filter(move |item| item.as_ref().map_or(true, is_of))
    }

    /// What a unit tells about graphs with one edge more, if that was counted. It is of the unit's
    /// blocks if their content is the one that it names.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn ahead(&self, unit: Unit) -> Result<Option<Ahead>, StoreError> {
        let Some(ahead) = self.get::<Ahead>(&ahead_key(unit))? else { return Ok(None) };
        let masses = match self.class.is_by_degrees() {
            true => None,
            false => self.get(&masses_key(unit))?,
        };
        Ok(Some(Ahead { masses: masses.unwrap_or_default(), ..ahead }))
    }

    /// Writes what a unit tells about graphs with one edge more.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_ahead(&self, unit: Unit, ahead: &Ahead) -> Result<(), StoreError> {
        self.change(self.ahead_changes(unit, ahead).collect())
    }

    /// What writing that which a unit tells changes.
    fn ahead_changes(&self, unit: Unit, ahead: &Ahead) -> impl Iterator<Item = Change> + use<> {
        // They are written where it tells none, too: else it could not be told that they are lost.
        let masses = (!self.class.is_by_degrees())
            .then(|| (masses_key(unit), Some(codec::encode(&ahead.masses))));
        std::iter::once((ahead_key(unit), Some(codec::encode(ahead)))).chain(masses)
    }

    /// Makes deliveries durable: first all their blocks, then, in one atomic write, their records.
    /// What is written has a copy in memory until it is flushed, which takes about `flushed_bytes` at
    /// most: one half is flushed while the other is written.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn commit(
        &self,
        deliveries: &[Arc<Delivery>],
        flushed_bytes: u64,
    ) -> Result<(), StoreError> {
        if deliveries.is_empty() {
            return Ok(());
        }
        self.put_into_depot(deliveries)?;
        if let Some(shelves) = &self.shelves {
            let named = deliveries.iter().flat_map(|delivery| &delivery.named);
            shelves.keep(named.map(|(_, name)| name));
        }
        let values = || {
            deliveries.iter().flat_map(|delivery| {
                let Delivery { blocks, named, .. } = &**delivery;
                let refer = |(id, name): &(BlockId, BlockName)| (*id, Cow::Owned(reference(name)));
                blocks.iter().map(|block| self.value(block)).chain(named.iter().map(refer))
            })
        };
        let bytes: usize = values().map(|(_, value)| value.len()).sum();
        let put_blocks = |db: &DB, batch: &mut WriteBatch| match bytes < LOGGED_BYTES {
            true => {
                put_logged(db, batch, values());
                Ok(())
            }
            false => put_flushed(db, values(), bytes as u64, flushed_bytes),
        };
        let changes = deliveries.iter().flat_map(|delivery| {
            let record = (unit_key(delivery.unit), Some(codec::encode(&delivery.record)));
            let ahead = delivery.ahead.as_ref();
            let ahead = ahead.map(|ahead| self.ahead_changes(delivery.unit, ahead));
            std::iter::once(record).chain(ahead.into_iter().flatten())
        });
        self.write(&changes.collect::<Vec<Change>>(), put_blocks)
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
        let times = self.get::<u32>(TAKEN_BACK)?.unwrap_or(0).wrapping_add(1);
        let units = units.iter().map(|&unit| (unit_key(unit), None));
        let times = (TAKEN_BACK.to_vec(), Some(codec::encode(&times)));
        self.change(units.chain([times]).collect())
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
        let units = units.iter().map(|&unit| (unit_key(unit), None));
        let orders = orders.iter().flat_map(|(order, record)| self.order_changes(*order, record));
        let edition = (EDITION.to_vec(), Some(codec::encode(&edition)));
        self.change(units.chain(orders).chain([edition]).collect())
    }

    /// Notes that other workers solved units again and came to the same.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds is damaged.
    pub fn confirm(&self, units: &[(Unit, Author)]) -> Result<(), StoreError> {
        let mut confirmed: BTreeMap<Unit, UnitRecord> = BTreeMap::new();
        for (unit, worker) in units {
            // Several may have solved one of them.
            let record = match confirmed.remove(unit) {
                Some(record) => Some(record),
                None => self.unit(*unit)?,
            };
            if let Some(mut record) = record {
                record.confirmed.push(worker.clone());
                confirmed.insert(*unit, record);
            }
        }
        let changes = confirmed.iter();
        self.change(
            changes.map(|(&unit, record)| (unit_key(unit), Some(codec::encode(record)))).collect(),
        )
    }

    /// A number that grows with every start, and whenever finished units are taken back; 0 at
    /// first.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn edition(&self) -> Result<u32, StoreError> {
        Ok(self.get(EDITION)?.unwrap_or(0))
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_edition(&self, edition: u32) -> Result<(), StoreError> {
        self.put(EDITION, &edition)
    }

    /// The number that what is drawn in secret follows from: the one kept, or this one from now on.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds is damaged.
    pub fn salt(&self, new: u64) -> Result<u64, StoreError> {
        match self.get(SALT)? {
            Some(salt) => Ok(salt),
            None => self.put(SALT, &new).map(|()| new),
        }
    }

    /// All alarms, by number.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn alarms(&self) -> Result<Vec<(u32, Alarm)>, StoreError> {
        self.database.run(|db| {
            let mode = IteratorMode::From(b"a", rocksdb::Direction::Forward);
            let mut alarms = Vec::new();
            for item in db.iterator_cf(family(db, RECORDS), mode) {
                let (key, value) = item?;
                let Some(number) = alarm_of_key(&key) else { break };
                alarms.push((number, decode(&key, &value)?));
            }
            Ok(alarms)
        })
    }

    /// Whether a unit that an alarm doubts has not been solved again since.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn is_doubted(&self, unit: Unit, alarm: &Alarm) -> Result<bool, StoreError> {
        Ok(self.unit(unit)?.is_some_and(|record| record.instance <= alarm.last_instance))
    }

    /// The lowest order with units that one of these alarms, settled or not, doubts, and that have
    /// not been solved again since; and the number of that alarm. As long as it is not known what an
    /// alarm doubts, that may be order 1.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn pending(&self, alarms: &[(u32, Alarm)]) -> Result<Option<(usize, u32)>, StoreError> {
        let mut pending: Option<(usize, u32)> = None;
        for (number, alarm) in alarms {
            if alarm.is_untraced() {
                return Ok(Some((1, *number)));
            }
            for &unit in &alarm.doubted {
                let found = (usize::from(unit.order), *number);
                if pending.is_none_or(|least| found < least) && self.is_doubted(unit, alarm)? {
                    pending = Some(found);
                }
            }
        }
        Ok(pending)
    }

    /// How many of the units that an alarm doubts have not been solved again since: they are as they
    /// were, or taken back.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn unsolved(&self, alarm: &Alarm) -> Result<usize, StoreError> {
        let mut unsolved = 0;
        for &unit in &alarm.doubted {
            let is_solved = |record: UnitRecord| record.instance > alarm.last_instance;
            unsolved += usize::from(!self.unit(unit)?.is_some_and(is_solved));
        }
        Ok(unsolved)
    }

    /// Writes an alarm, new or changed, with [`Alarm::MOST_QUARANTINED`] results at most.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn put_alarm(&self, number: u32, alarm: &Alarm) -> Result<(), StoreError> {
        let key = alarm_key(number);
        if alarm.quarantined.len() <= Alarm::MOST_QUARANTINED {
            return self.put(&key, alarm);
        }
        let quarantined = alarm.quarantined[..Alarm::MOST_QUARANTINED].to_vec();
        self.put(&key, &Alarm { quarantined, ..alarm.clone() })
    }

    fn get<T: Serialize + DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        let value = self.database.run(|db| Ok(db.get_cf(family(db, RECORDS), key)?))?;
        value.map(|value| decode(key, &value)).transpose()
    }

    fn put<T: Serialize>(&self, key: &[u8], value: &T) -> Result<(), StoreError> {
        self.change(vec![(key.to_vec(), Some(codec::encode(value)))])
    }

    /// Changes records: all of them or none.
    fn change(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.write(&changes, |_, _| Ok(()))
    }

    /// Changes records, all of them or none, with what `more` adds to the same write or does
    /// before; then they go into the journal.
    fn write(
        &self,
        changes: &[Change],
        more: impl Fn(&DB, &mut WriteBatch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let journal = self.journal.as_ref().ok_or(StoreError::ReadOnly)?;
        // Held until both have it, so that both have it in the same order.
        let mut copied = journal.lock();
        let written = copied.written + 1;
        self.database.run(|db| {
            let mut batch = WriteBatch::default();
            more(db, &mut batch)?;
            let records = family(db, RECORDS);
            for (key, value) in changes {
                match value {
                    Some(value) => batch.put_cf(records, key, value),
                    None => batch.delete_cf(records, key),
                }
            }
            batch.put_cf(records, WRITTEN, codec::encode(&written));
            Ok(db.write_opt(batch, &synced())?)
        })?;
        copied.written = written;
        let journal = RefCell::new(&mut copied.journal);
        let add = || journal.borrow_mut().add(written, changes);
        self.database.run(|_| add().map_err(StoreError::Journal))
    }
}

/// The plan by which an order was split, as far as it is done.
///
/// # Errors
///
/// [`StoreError::Plan`]: the record is of another plan than this program makes.
pub fn plan(layout: Layout, order: usize, record: &OrderRecord) -> Result<Plan, StoreError> {
    plan_up_to(layout, order, record, record.max_size.unwrap_or_else(|| pairs(order)))
}

/// The same up to so many edges, however far it is done.
///
/// # Errors
///
/// As [`plan`].
pub fn plan_up_to(
    layout: Layout,
    order: usize,
    record: &OrderRecord,
    max_size: usize,
) -> Result<Plan, StoreError> {
    let plan = Plan::up_to(layout, order, record.options, max_size);
    match plan.fingerprint == record.plan_fingerprint {
        true => Ok(plan),
        false => Err(StoreError::Plan(order)),
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::OLDEST_BLOCK_FORMAT,
    };

    use super::{format::SHELVES_FORMAT, *};
    use crate::{
        records::Author,
        tests::{blocks, solved_by_ann},
    };

    /// Whoever opens a store to look on lists its tables, and is told of units in its logs a moment
    /// later, whose blocks may have come in between.
    #[test]
    fn a_reader_finds_blocks_that_came_after_it_was_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = Store::open(&path, None, None).unwrap();
        let (unit, sequence) = (Unit { order: 9, shard: 0, part: 0 }, DegreeSequence::new([4; 9]));
        let blocks = blocks(TrailTrap::LAYOUT, sequence, 0, 0);
        assert!(blocks.iter().map(|block| block.bytes().len()).sum::<usize>() >= LOGGED_BYTES);
        let readers = [(); 2].map(|()| Store::open_read_only(&path).unwrap());
        assert!(!readers[0].has(&blocks[0].id).unwrap());
        let solved = solved_by_ann(unit, sequence, blocks.clone());
        store.commit(&[Arc::new(solved)], u64::MAX).unwrap();
        assert!(readers[0].has(&blocks[0].id).unwrap());
        for block in blocks {
            assert_eq!(readers[1].read(&block.id).unwrap(), block);
        }
    }

    /// Of several who solve a unit again, each is noted.
    #[test]
    fn all_who_confirm_a_unit_are_noted() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("store"), None, None).unwrap();
        let (unit, sequence) = (Unit { order: 3, shard: 0, part: 0 }, DegreeSequence::new([0; 3]));
        let [bob, eve] = ["Bob", "Eve"].map(|name| Author::new(name, "portable"));
        let solved = solved_by_ann(unit, sequence, Vec::new());
        store.commit(&[Arc::new(solved)], u64::MAX).unwrap();
        store.confirm(&[(unit, bob.clone()), (unit, eve.clone())]).unwrap();
        assert_eq!(store.unit(unit).unwrap().unwrap().confirmed, [bob, eve]);
    }

    /// A store with blocks of the oldest format only is read as it is, and whoever writes to it
    /// says first that there may be others. Formats that are not known are refused.
    #[test]
    fn older_stores_are_read_and_go_on_with_newer_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = Store::open(&path, None, None).unwrap();
        let newest = store.format(LATER_FORMAT);
        assert_eq!(newest.block, BLOCK_FORMAT);
        store.put(FORMAT, &StoreFormat { block: OLDEST_BLOCK_FORMAT, ..newest.clone() }).unwrap();
        drop(store);

        let found = |store: Store| store.get::<StoreFormat>(FORMAT).unwrap().unwrap();
        let looked_at = found(Store::open_read_only(&path).unwrap());
        assert_eq!(looked_at, StoreFormat { block: OLDEST_BLOCK_FORMAT, ..newest.clone() });
        assert_eq!(found(Store::open(&path, None, None).unwrap()), newest);
        assert_eq!(found(Store::open_read_only(&path).unwrap()), newest);

        let of_blocks = |block| StoreFormat { block, ..newest.clone() };
        let of_store = |store| StoreFormat { store, ..newest.clone() };
        for (format, what) in [
            (of_blocks(OLDEST_BLOCK_FORMAT - 1), "block format"),
            (of_blocks(BLOCK_FORMAT + 1), "block format"),
            (of_store(STORE_FORMAT - 1), "store format"),
            (of_store(SHELVES_FORMAT + 1), "store format"),
            // Slots would be those of other graphs.
            (StoreFormat { labelling: LABELLING + 1, ..newest.clone() }, "labelling"),
        ] {
            let store = Store::open(&path, None, None).unwrap();
            store.put(FORMAT, &format).unwrap();
            drop(store);
            for refused in [Store::open_read_only(&path), Store::open(&path, None, None)] {
                let refused = refused.err().expect("it is not known");
                let told =
                    matches!(refused, StoreError::Version { what: told, .. } if told == what);
                assert!(told, "{format:?}: {refused}");
            }
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}
