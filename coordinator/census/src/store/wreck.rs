//! What can be read of a damaged store, by whatever way: its database as it is, or one made again
//! of its tables and logs; its journal; and blocks that stand anywhere in its blob files, for they
//! say themselves what they are. Nothing of the store is changed.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rocksdb::{DB, IteratorMode, WriteBatch};
use serde::{Serialize, de::DeserializeOwned};
use trailtrap_shared::{
    class::Class,
    game::{GameName, Layout},
    partition::{Block, BlockId, Checksum, HEADER_BYTES, MAGIC, Section},
    plan::Unit,
};
use trailtrap_worker::supply::kept::{KeptDepot, Mark};

use super::{
    StoreError,
    blocks::mended,
    database::{self, RECORDS, section_name, unlogged},
    depot::{DepotRecord, is_bad_file, of_depot, referred},
    files::numbered,
    format::{StoreFormat, check_format},
    journal::{self, JournalContents, Records},
    keys::{
        DEPOT, EDITION, EPOCH, FORMAT, SALT, SHELVES, WRITTEN, ahead_key, alarm_of_key, block_key,
        decode, dropped_key, limit_key, masses_key, order_key, unit_key, unit_of_key,
        withdrawn_key,
    },
    logs, plan,
};
use crate::{
    records::{Beside, OrderRecord, UnitRecord, ahead::Ahead, alarm::Alarm},
    watch::Watcher,
};

/// So many bytes of a blob file are looked through at a time.
const PIECE_BYTES: usize = 8 << 20;
/// What a write in a log begins with: its number, and how many changes it has.
const WRITE_HEAD_BYTES: usize = 12;

/// A damaged store.
pub(super) struct Wreck {
    game: GameName,
    class: Class,
    depot: Option<KeptDepot>,
    shelf_mark: Option<Mark>,
    records: Records,
    /// Of the records in all copies: that of the last start, and the last edition.
    epoch: u32,
    edition: u32,
    /// The database as it is; if it does not open, one made of its logs.
    database: Option<DB>,
    is_rebuilt: bool,
    path: PathBuf,
    room: PathBuf,
    /// A database made of its tables, without asking which of them belong to it. When it is
    /// needed.
    tables: OnceLock<Option<DB>>,
    blobs: OnceLock<Blobs>,
}

impl Wreck {
    /// Opens what can be opened of the store in `path`; in `room`, a directory that is not there
    /// yet, a database can be made again.
    pub fn open(path: &Path, room: &Path, watcher: &dyn Watcher) -> Result<Self, StoreError> {
        let told = journal::read(path, |record| record).map_err(StoreError::Journal);
        let told = unless_short(told)?.unwrap_or_else(|error| {
            watcher.say(&format!("the journal of the store cannot be read: {error}"));
            JournalContents::default()
        });
        let names: Vec<String> =
            database::families().iter().map(|family| family.name().to_owned()).collect();
        // RocksDB reads some damaged manifests for ever.
        let is_sound = told.manifest.is_in(path).map_err(StoreError::Journal);
        let opened = match unless_short(is_sound)? {
            Ok(true) => database::open_damaged(path, &names),
            Ok(false) => Err(StoreError::Manifest),
            Err(error) => Err(error),
        };
        let (database, is_rebuilt) = match unless_short(opened)? {
            Ok(db) => (Some(db), false),
            Err(error) => {
                watcher.say(&format!(
                    "the database is not opened ({error}); what is in its tables and logs is \
                     looked for"
                ));
                let logs = unless_short(of_logs(path, &room.join("logs")))?
                    .inspect_err(|error| watcher.say(&format!("its logs: {error}")));
                (logs.ok(), true)
            }
        };
        let mut wreck = Wreck {
            game: GameName::default(),
            class: Class::default(),
            depot: None,
            shelf_mark: None,
            records: Records::new(),
            epoch: 0,
            edition: 0,
            database,
            is_rebuilt,
            path: path.to_owned(),
            room: room.to_owned(),
            tables: OnceLock::new(),
            blobs: OnceLock::new(),
        };
        let (read, has_all) =
            wreck.database.as_ref().map(records).transpose()?.unwrap_or_default();
        let mut found = Records::new();
        if is_rebuilt {
            let (in_tables, _) = wreck.tables()?.map(records).transpose()?.unwrap_or_default();
            found.extend(in_tables);
        }
        // What is in the logs is younger.
        found.extend(read);
        let mut elsewhere = Records::new();
        let is_partly_read = !has_all && !is_rebuilt;
        if let Some(db) = wreck.database.as_ref().filter(|_| is_partly_read) {
            let latest;
            (latest, elsewhere) = wreck.records_elsewhere(db, watcher)?;
            found.extend(latest);
        }
        // Where the number is among what cannot be read, the journal may be behind.
        let unknown = if is_partly_read { u64::MAX } else { 0 };
        let written = found.get(WRITTEN).and_then(|value| decode(WRITTEN, value).ok());
        let written = written.unwrap_or(unknown);
        let number = |records: &Records, key: &[u8]| -> u32 {
            records.get(key).and_then(|value| decode(key, value).ok()).unwrap_or(0)
        };
        let copies = [&elsewhere, &found, &told.records];
        let latest =
            |key: &[u8]| copies.map(|records| number(records, key)).into_iter().fold(0, u32::max);
        (wreck.epoch, wreck.edition) = (latest(EPOCH), latest(EDITION));
        if !is_complete(&told, written) {
            wreck.records = elsewhere;
        }
        wreck.records.extend(merge(told, found, written));
        if wreck.records.is_empty() {
            return Err(StoreError::Wrecked);
        }
        (wreck.game, wreck.class) = wreck.find_game()?;
        wreck.depot = wreck.get::<DepotRecord>(DEPOT)?.map(|record| record.depot());
        wreck.shelf_mark = wreck.get::<u64>(SHELVES)?.map(Mark);
        Ok(wreck)
    }

    /// Of a database of which not all records can be read: what it tells when it is asked for each
    /// that its other tables and its logs tell; and what only these tell, which may be old.
    fn records_elsewhere(
        &self,
        db: &DB,
        watcher: &dyn Watcher,
    ) -> Result<(Records, Records), StoreError> {
        watcher.say(
            "some records of the database cannot be read; what is in its other tables and in its \
             logs is looked for",
        );
        let logs = unless_short(of_logs(&self.path, &self.room.join("logs")))?.ok();
        let (mut latest, mut elsewhere) = (Records::new(), Records::new());
        for copy in [self.tables()?, logs.as_ref()].into_iter().flatten() {
            elsewhere.extend(records(copy)?.0);
        }
        let Some(family) = db.cf_handle(RECORDS) else { return Ok((latest, elsewhere)) };
        for key in elsewhere.keys().cloned().collect::<Vec<_>>() {
            if let Ok(known) = unless_short(db.get_cf(family, &key).map_err(StoreError::from))? {
                elsewhere.remove(&key);
                latest.extend(known.map(|value| (key, value)));
            }
        }
        Ok((latest, elsewhere))
    }

    fn find_game(&self) -> Result<(GameName, Class), StoreError> {
        match self.get::<StoreFormat>(FORMAT) {
            Ok(Some(format)) => check_format(&format, None, None),
            // Without it, plans tell whose they are.
            _ => {
                let mut orders = 1..=self.last_order();
                let first = orders.find_map(|order| Some((order, self.order(order).ok()??)));
                let is_of = |(game, class): &(GameName, Class)| {
                    let layout = game.layout().on(*class);
                    let first = first.as_ref();
                    first.is_some_and(|(order, first)| {
                        *order <= class.largest_order() && plan(layout, *order, first).is_ok()
                    })
                };
                let mut all =
                    Class::every().flat_map(|class| GameName::ALL.map(|game| (game, class)));
                Ok(all.find(is_of).unwrap_or_default())
            }
        }
    }

    /// The game that it is a census of.
    pub fn game(&self) -> GameName {
        self.game
    }

    /// The class of the graphs that it is about.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Of the records of that game, and with that class.
    pub fn layout(&self) -> Layout {
        self.game.layout().on(self.class)
    }

    /// The number of the last start.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The number of the last edition.
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// The mark of the shelves on which its larger blocks are.
    pub fn shelf_mark(&self) -> Option<Mark> {
        self.shelf_mark
    }

    /// The last order, if blocks of it lie on shelves: it is in work, or another is to be made from
    /// them.
    pub fn order_on_shelves(&self) -> Option<usize> {
        let last = self.last_order();
        // The next order reads the graphs of all but the last one of a census.
        let is_last = |record: OrderRecord| {
            record.result.is_some() && record.graphs_dropped && !self.goes_beyond(last, &record)
        };
        let is_done = || self.order(last).is_ok_and(|record| record.is_some_and(is_last));
        (self.shelf_mark.is_some() && last > 0 && !is_done()).then_some(last)
    }

    /// Whether there are units of an order with more edges than its result: it was being carried
    /// further.
    fn goes_beyond(&self, order: usize, record: &OrderRecord) -> bool {
        let Ok(plan) = plan(self.layout(), order, record) else { return false };
        let mut units = self.records.keys().filter_map(|key| unit_of_key(key));
        units.any(|unit| usize::from(unit.order) == order && plan.leaves_out(unit))
    }

    /// The depot in which its larger blocks are.
    pub fn depot(&self) -> Option<&KeptDepot> {
        self.depot.as_ref()
    }

    /// Whether the database refers to a block, which then lies in the depot.
    pub fn refers_to(&self, block: &Block) -> bool {
        let refers = |db: &DB| {
            let family = db.cf_handle(section_name(block.id.section))?;
            let value = db.get_cf(family, block_key(&block.id)).ok()??;
            Some(referred(&value)? == block.name())
        };
        let is_found = |db: &DB| refers(db) == Some(true);
        self.database.as_ref().is_some_and(is_found)
            || self.tables.get().and_then(Option::as_ref).is_some_and(is_found)
    }

    /// Whether it is known that no block lies in the depot: all of the database can be read, and it
    /// refers to none.
    ///
    /// # Errors
    ///
    /// The system lacks something.
    pub fn has_all_here(&self) -> Result<bool, StoreError> {
        let Some(db) = self.database.as_ref().filter(|_| !self.is_rebuilt) else {
            return Ok(false);
        };
        for section in [Section::Keys, Section::Outcomes] {
            let Some(family) = db.cf_handle(section_name(section)) else { return Ok(false) };
            for item in db.iterator_cf(family, IteratorMode::Start) {
                match unless_short(item.map_err(StoreError::from))? {
                    Ok((_, value)) if referred(&value).is_none() => {}
                    _ => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// The number that what is drawn in secret follows from.
    pub fn salt(&self) -> Option<u64> {
        self.get(SALT).ok().flatten()
    }

    /// The record of an order.
    pub fn order(&self, order: usize) -> Result<Option<OrderRecord>, StoreError> {
        let record = self.get::<OrderRecord>(&order_key(order))?;
        let is_set = |key: [u8; 2]| self.get(&key).unwrap_or(None).unwrap_or(false);
        let beside = Beside {
            limit: self.get(&limit_key(order)).unwrap_or(None),
            graphs_dropped: is_set(dropped_key(order)),
            withdrawn: is_set(withdrawn_key(order)),
        };
        Ok(record.map(|record| record.with(order, beside)))
    }

    /// The record of a unit.
    pub fn unit(&self, unit: Unit) -> Result<Option<UnitRecord>, StoreError> {
        self.get(&unit_key(unit))
    }

    /// What a unit tells about graphs with one edge more: all of it, or nothing if a part is lost.
    /// It is counted again then.
    ///
    /// # Errors
    ///
    /// It is damaged.
    pub fn ahead(&self, unit: Unit) -> Result<Option<Ahead>, StoreError> {
        let Some(ahead) = self.get::<Ahead>(&ahead_key(unit))? else { return Ok(None) };
        if self.class.is_by_degrees() {
            return Ok(Some(ahead));
        }
        Ok(self.get(&masses_key(unit))?.map(|masses| Ahead { masses, ..ahead }))
    }

    /// The last order of which there is a record, or one of a unit of it.
    pub fn last_order(&self) -> usize {
        let of_key = |key: &Vec<u8>| match key[..] {
            [b'o', order] => usize::from(order),
            _ => unit_of_key(key).map_or(0, |unit| usize::from(unit.order)),
        };
        self.records.keys().map(of_key).max().unwrap_or(0)
    }

    /// Of how many units of an order there is a record, sound or not.
    pub fn unit_count(&self, order: usize) -> u64 {
        let units = self.records.keys().filter_map(|key| unit_of_key(key));
        units.filter(|unit| usize::from(unit.order) == order).count() as u64
    }

    /// The alarms that can be read, by number.
    pub fn alarms(&self) -> impl Iterator<Item = (u32, Result<Alarm, StoreError>)> {
        self.records
            .iter()
            .filter_map(|(key, value)| Some((alarm_of_key(key)?, decode(key, value))))
    }

    /// The last lease of which a result, or an alarm, is recorded.
    pub fn last_instance(&self) -> u64 {
        let units = self.records.iter().filter(|(key, _)| unit_of_key(key).is_some());
        let units = units.filter_map(|(key, value)| decode::<UnitRecord>(key, value).ok());
        let alarms = self.alarms().filter_map(|(_, alarm)| alarm.ok());
        units
            .map(|record| record.instance)
            .chain(alarms.map(|alarm| alarm.last_instance))
            .max()
            .unwrap_or(0)
    }

    /// Whether blocks that are not in the database may be elsewhere all the same.
    pub fn is_rebuilt(&self) -> bool {
        self.is_rebuilt
    }

    /// The block of this place in the database, or what is wrong with it.
    pub fn block(&self, id: &BlockId) -> Result<Block, StoreError> {
        let found = self.database.as_ref().map(|db| self.in_database(db, id)).transpose()?;
        found.flatten().ok_or(StoreError::MissingBlock(*id))
    }

    /// All sound blocks of this place, wherever they are, each once.
    ///
    /// # Errors
    ///
    /// The system lacks something.
    pub fn blocks(&self, id: &BlockId) -> Result<Vec<(Checksum, Block)>, StoreError> {
        let mut found = Vec::new();
        for db in self.database.iter().chain(self.tables()?) {
            found.extend(unless_short(self.in_database(db, id))?.ok().flatten());
        }
        found.extend(self.blobs()?.of(id, self.layout())?);
        let mut blocks: Vec<(Checksum, Block)> = Vec::new();
        for block in found {
            let content = block.content();
            if !blocks.iter().any(|(known, _)| *known == content) {
                blocks.push((content, block));
            }
        }
        Ok(blocks)
    }

    /// Whether there was a block of this place, sound or not, when the store was damaged.
    ///
    /// # Errors
    ///
    /// The system lacks something.
    pub fn has_traces(&self, id: &BlockId) -> Result<bool, StoreError> {
        Ok(!matches!(unless_short(self.block(id))?, Err(StoreError::MissingBlock(_)))
            || self.blobs()?.places.contains_key(id))
    }

    fn tables(&self) -> Result<Option<&DB>, StoreError> {
        let made = || {
            let made = unless_short(of_tables(&self.path, &self.room.join("tables")))?;
            Ok(made
                .inspect_err(|error| tracing::warn!("the tables of the database: {error}"))
                .ok())
        };
        made_once(&self.tables, made).map(Option::as_ref)
    }

    fn in_database(&self, db: &DB, id: &BlockId) -> Result<Option<Block>, StoreError> {
        let Some(family) = db.cf_handle(section_name(id.section)) else { return Ok(None) };
        let read = db.get_cf(family, block_key(id));
        let read = read.map_err(|source| StoreError::UnreadableBlock { id: *id, source });
        let parse = |value: Vec<u8>| {
            let parsed = match (referred(&value), self.depot()) {
                // It lies on a shelf.
                (Some(_), None) => return Err(StoreError::MissingBlock(*id)),
                (Some(name), Some(depot)) => {
                    let bytes = match depot.read(&name) {
                        // One file is bad, and not the depot.
                        Err(error) if is_bad_file(&error) && depot.check().is_ok() => Vec::new(),
                        read => read
                            .map_err(|error| of_depot(depot, error))?
                            .ok_or(StoreError::MissingBlock(*id))?,
                    };
                    Block::parse_named(self.layout(), bytes, &name)
                }
                (None, _) => Block::parse(self.layout(), value),
            };
            parsed.map_err(|source| StoreError::Block { id: *id, source })
        };
        match read.and_then(|bytes| bytes.map(parse).transpose()) {
            Ok(block) => Ok(block.filter(|block| block.id == *id)),
            Err(error) => mended(db, self.layout(), id, &error)?.map(Some).ok_or(error),
        }
    }

    fn blobs(&self) -> Result<&Blobs, StoreError> {
        made_once(&self.blobs, || Blobs::of_files(&self.path, self.layout()))
    }

    fn get<T: Serialize + DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        self.records.get(key).map(|value| decode(key, value)).transpose()
    }
}

/// What went wrong, if it is the data that is to blame.
///
/// # Errors
///
/// The system lacks something: nothing is known about the data.
pub(super) fn unless_short<T>(
    result: Result<T, StoreError>,
) -> Result<Result<T, StoreError>, StoreError> {
    match result {
        Err(error) if error.is_shortage() => Err(error),
        result => Ok(result),
    }
}

/// What is in the cell, made when it is first wanted, and again if that fails.
fn made_once<T>(
    cell: &OnceLock<T>,
    make: impl FnOnce() -> Result<T, StoreError>,
) -> Result<&T, StoreError> {
    match cell.get() {
        Some(made) => Ok(made),
        None => make().map(|made| cell.get_or_init(|| made)),
    }
}

/// The records of a damaged store: those of its journal if it is whole and not behind, and all
/// alarms. Otherwise what one of both lacks is taken from the other; of what both have, that of
/// the later. It does no harm if a unit comes along that was taken back: the census looks at what
/// it was computed from, and at whether an alarm doubts it.
fn merge(told: JournalContents, found: Records, written: u64) -> Records {
    let is_complete = is_complete(&told, written);
    let (mut older, newer) = match told.written >= written {
        true => (found, told.records),
        false => (told.records, found),
    };
    if is_complete {
        older.retain(|key, _| alarm_of_key(key).is_some());
    }
    older.extend(newer);
    older
}

/// Whether a journal has all records of a database whose last write has this number.
fn is_complete(told: &JournalContents, written: u64) -> bool {
    told.written >= written && told.is_whole && !told.records.is_empty()
}

/// The records that can be read, and whether these are all. What is damaged in the middle does not
/// hide what comes after it.
///
/// # Errors
///
/// The system lacks something.
fn records(db: &DB) -> Result<(Records, bool), StoreError> {
    let (mut records, mut is_all) = (Records::new(), true);
    let Some(family) = db.cf_handle(RECORDS) else { return Ok((records, false)) };
    for mode in [IteratorMode::Start, IteratorMode::End] {
        for item in db.iterator_cf(family, mode) {
            match unless_short(item.map_err(StoreError::from))? {
                Ok((key, value)) => drop(records.insert(key.into_vec(), value.into_vec())),
                Err(_) => {
                    is_all = false;
                    break;
                }
            }
        }
    }
    Ok((records, is_all))
}

/// A database made of the tables of another one, without its manifest. Of blocks in blob files it
/// only knows that they are there.
fn of_tables(path: &Path, room: &Path) -> Result<DB, StoreError> {
    fs::create_dir_all(room)?;
    for (number, table) in numbered(path, "sst")? {
        let link = room.join(format!("{number:06}.sst"));
        // Tables are never written to; a file system that has no links gets copies.
        if fs::hard_link(&table, &link).is_err() {
            fs::copy(&table, &link)?;
        }
    }
    DB::repair(&database::options(), room)?;
    let names = DB::list_cf(&database::options(), room)?;
    database::open_damaged(room, &names)
}

/// A database made of the writes in the logs of another one of which nothing is damaged, in order.
fn of_logs(path: &Path, room: &Path) -> Result<DB, StoreError> {
    fs::create_dir_all(room)?;
    // Families are numbered as they were made, which is always in the same order.
    let db = database::create(room)?;
    // What is of a family that is not there says nothing of the others.
    let mut options = unlogged();
    options.set_ignore_missing_column_families(true);
    for log in numbered(path, "log")?.into_values() {
        let warn = |error: StoreError| tracing::warn!("{}: {error}", log.display());
        let write = |write: &[u8]| {
            if write.len() >= WRITE_HEAD_BYTES {
                let written = db.write_opt(WriteBatch::from_data(write), &options);
                unless_short(written.map_err(StoreError::from))?.unwrap_or_else(warn);
            }
            Ok(())
        };
        let read = File::open(&log).map_err(StoreError::Io);
        let read = read.and_then(|bytes| logs::each_record(bytes, write));
        unless_short(read)?.unwrap_or_else(warn);
    }
    Ok(db)
}

/// Where blocks stand in blob files, as far as their heads say.
struct Blobs {
    /// There may be more of them than a process can have open.
    files: Vec<PathBuf>,
    places: HashMap<BlockId, Vec<BlobPlace>>,
}

#[derive(Clone, Copy)]
struct BlobPlace {
    file: usize,
    at: u64,
    length: u64,
}

impl Blobs {
    /// Looks through all blob files. What cannot be read is left out.
    ///
    /// # Errors
    ///
    /// The system lacks something.
    fn of_files(path: &Path, layout: Layout) -> Result<Self, StoreError> {
        let mut blobs = Blobs { files: Vec::new(), places: HashMap::new() };
        let found = numbered(path, "blob").map_err(StoreError::Io);
        for path in unless_short(found)?.unwrap_or_default().into_values() {
            let looked = File::open(&path).and_then(|file| blobs.look_through(&file, layout));
            if let Err(error) = unless_short(looked.map_err(StoreError::Io))? {
                tracing::warn!("{}: {error}", path.display());
            }
            blobs.files.push(path);
        }
        Ok(blobs)
    }

    fn look_through(&mut self, file: &File, layout: Layout) -> io::Result<()> {
        let (mut start, mut bytes) = (0, Vec::new());
        while file.take(PIECE_BYTES as u64).read_to_end(&mut bytes)? > 0 {
            let mut from = 0;
            while let Some(found) =
                bytes[from..].windows(MAGIC.len()).position(|window| window == MAGIC)
            {
                let at = from + found;
                from = at + 1;
                if let Some((id, length)) = Block::announced(layout, &bytes[at..]) {
                    let place =
                        BlobPlace { file: self.files.len(), at: start + at as u64, length };
                    self.places.entry(id).or_default().push(place);
                }
            }
            // A head may begin in one piece and end in the next.
            let done = bytes.len().saturating_sub(HEADER_BYTES - 1);
            start += done as u64;
            bytes.drain(..done);
        }
        Ok(())
    }

    /// The sound blocks of a place, the last written first.
    ///
    /// # Errors
    ///
    /// The system lacks something.
    fn of(&self, id: &BlockId, layout: Layout) -> Result<Vec<Block>, StoreError> {
        let places = self.places.get(id).map_or(&[][..], Vec::as_slice);
        let mut blocks = Vec::new();
        for place in places.iter().rev() {
            let bytes = self.bytes(place).map_err(StoreError::Io);
            let bytes = unless_short(bytes)?.unwrap_or_default();
            blocks.extend(Block::parse(layout, bytes).ok().filter(|block| block.id == *id));
        }
        Ok(blocks)
    }

    fn bytes(&self, place: &BlobPlace) -> io::Result<Vec<u8>> {
        let file = File::open(&self.files[place.file])?;
        // What a damaged head says may be anything.
        let length = file.metadata()?.len().saturating_sub(place.at).min(place.length);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, place.at)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use trailtrap_shared::{
        count::summary::Summary,
        graph::degree::DegreeSequence,
        plan::{Plan, PlanOptions},
    };

    use super::*;
    use crate::{
        records::{Author, Delivery, delivery},
        store::{Store, files::manifest_in, logs::tests::store_with_log},
        tests::Silent,
    };

    /// Of a record that both database and journal have, the one of the later counts, and what one of
    /// them lacks comes from the other; but a journal that is whole, and not behind, knows of all
    /// but alarms.
    #[test]
    fn of_two_versions_of_a_record_the_later_is_taken() {
        const ALARM: &str = "a\0\0\0\u{1}";
        let records = |entries: &[(&str, u8)]| -> Records {
            let entry = |&(key, value): &(&str, u8)| (key.as_bytes().to_vec(), vec![value]);
            entries.iter().map(entry).collect()
        };
        let merged = |written: u64, is_whole: bool, entries: &[(&str, u8)]| {
            let mut told: JournalContents = JournalContents::default();
            (told.records, told.written, told.is_whole) = (records(entries), written, is_whole);
            merge(told, records(&[("both", 1), ("database", 1), (ALARM, 1)]), 5)
        };
        let told = [("both", 2), ("journal", 2)];
        let of_journal = records(&[("both", 2), ("journal", 2), (ALARM, 1)]);
        let mut of_both = records(&[("both", 2), ("database", 1), ("journal", 2), (ALARM, 1)]);
        for written in [5, 6] {
            assert_eq!(merged(written, true, &told), of_journal);
            assert_eq!(merged(written, false, &told), of_both);
        }
        of_both.extend(records(&[("both", 1)]));
        for is_whole in [true, false] {
            assert_eq!(merged(4, is_whole, &told), of_both, "the journal is behind");
        }
        let alone = records(&[("both", 1), ("database", 1), (ALARM, 1)]);
        assert_eq!(merged(5, true, &[]), alone, "there is no journal");
    }

    /// The record of a unit that was solved again stands in a table, and in the log as it is now. If
    /// there is neither manifest nor journal, the one in the log counts all the same.
    #[test]
    fn what_is_in_the_logs_is_later_than_what_is_in_the_tables() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (unit, sequence) = (Unit { order: 7, shard: 3, part: 0 }, DegreeSequence::new([0; 7]));
        let record = |instance: u64| {
            let (worker, summary) = (Author::new("Ann", "portable"), Summary::default());
            let solved = delivery(unit, sequence, Vec::new(), summary, Duration::ZERO, worker);
            UnitRecord { instance, ..solved.record }
        };
        let [earlier, later] = [1, 2].map(record);
        for record in [&earlier, &later] {
            // What is still in the log is moved to a table when a store is opened.
            let store = Store::open(&path, None, None).unwrap();
            let solved = Delivery::of_statement(unit, sequence, record.clone());
            store.commit(&[Arc::new(solved)], u64::MAX).unwrap();
        }
        for name in ["CURRENT", "JOURNAL"] {
            fs::remove_file(path.join(name)).unwrap();
        }
        let wreck = Wreck::open(&path, &directory.path().join("room"), &Silent).unwrap();
        assert!(wreck.is_rebuilt());
        let (in_tables, _) = records(wreck.tables().unwrap().unwrap()).unwrap();
        let in_tables: UnitRecord = decode(b"unit", &in_tables[&unit_key(unit)]).unwrap();
        assert_eq!(in_tables, earlier);
        assert_eq!(wreck.unit(unit).unwrap(), Some(later));
    }

    /// Without the record that says it, each order that is still known tells what it is a census of.
    #[test]
    fn any_order_tells_game_and_class() {
        let directory = tempfile::tempdir().unwrap();
        let (path, room) = ["store", "room"].map(|name| directory.path().join(name)).into();
        let of = (GameName::EdgeGeography, Class::Planar);
        let store = Store::open(&path, Some(of.0), Some(of.1)).unwrap();
        for order in 1..=6 {
            let plan = Plan::new(store.layout(), order, PlanOptions::default());
            store.put_order(order, &OrderRecord::begun(&plan)).unwrap();
        }
        drop(store);
        let mut wreck = Wreck::open(&path, &room, &Silent).unwrap();
        wreck.records.remove(FORMAT).unwrap();
        for order in 1..=6 {
            assert_eq!(wreck.find_game().unwrap(), of, "from order {order} on");
            wreck.records.remove(&order_key(order)[..]).unwrap();
        }
        assert_eq!(wreck.find_game().unwrap(), Default::default(), "nothing tells");
    }

    /// The numbers of those writes of [`store_with_log`] that are lost.
    fn lost(path: &Path, room: &Path) -> Vec<u8> {
        let wreck = Wreck::open(path, room, &Silent).unwrap();
        let is_there = |number: &u8| match wreck.get::<Vec<u8>>(&[b'x', *number]).unwrap() {
            Some(found) => found == vec![*number; 5000],
            None => false,
        };
        let lost = (0..30).filter(|number| !is_there(number)).collect();
        drop(wreck);
        fs::remove_dir_all(room).unwrap();
        lost
    }

    /// A damaged byte of a log costs the write that it is of, and no other: not if that was written in
    /// several pieces, either.
    #[test]
    fn a_damaged_byte_of_a_log_costs_one_write() {
        let directory = tempfile::tempdir().unwrap();
        let (path, room) = ["store", "room"].map(|name| directory.path().join(name)).into();
        let (log, bytes) = store_with_log(&path);
        for number in (1..30).step_by(2) {
            let mut damaged = bytes.clone();
            let at = bytes.windows(100).position(|part| part == [number; 100]).unwrap();
            damaged[at + 50] ^= 4;
            fs::write(&log, damaged).unwrap();
            assert_eq!(lost(&path, &room), [number]);
        }
    }

    /// What RocksDB would read for ever, in a log or in the manifest, is not handed to it: salvage ends,
    /// and what is sound before and after it is kept.
    #[test]
    fn what_is_never_read_to_its_end_costs_one_write() {
        let directory = tempfile::tempdir().unwrap();
        let (path, room) = ["store", "room"].map(|name| directory.path().join(name)).into();
        let (log, bytes) = store_with_log(&path);
        let (_, manifest) = manifest_in(&path).unwrap().unwrap();
        let edits = fs::read(&manifest).unwrap();
        for (file, bytes, most_lost) in [(log, bytes, 1), (manifest, edits, 0)] {
            // Where the third piece begins.
            let length =
                |at: usize| 7 + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
            let third = length(0) + length(length(0));
            for kind in [5, 8, 131] {
                let mut damaged = bytes.clone();
                damaged[third + 6] = kind;
                fs::write(&file, damaged).unwrap();
                let lost = lost(&path, &room);
                assert!(lost.len() <= most_lost, "{kind} in {}: {lost:?}", file.display());
            }
            fs::write(&file, bytes).unwrap();
        }
    }

    /// If the journal is lost, or behind, a damaged table of records costs what is neither in another
    /// one nor in a log; of what was written twice the later counts; and what was removed does not come
    /// back, unless the journal has it.
    #[test]
    fn a_damaged_table_of_records_costs_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let (path, room) = ["store", "room"].map(|name| directory.path().join(name)).into();
        let unit = |shard: u32| Unit { order: 7, shard, part: 0 };
        let write = |store: &Store, name: &str, shards: &[u32]| {
            for &shard in shards {
                let (worker, summary) = (Author::new(name, "portable"), Summary::default());
                let sequence = DegreeSequence::new([0; 7]);
                let (none, at_once) = (Vec::new(), Duration::ZERO);
                let solved = delivery(unit(shard), sequence, none, summary, at_once, worker);
                store.commit(&[Arc::new(solved)], u64::MAX).unwrap();
            }
        };
        // What is still in the log is moved to a table when a store is opened.
        let open = || Store::open(&path, None, None).unwrap();
        write(&open(), "Ann", &[0, 1]);
        write(&open(), "Ann", &[2]);
        let (store, kept) = (open(), path.join("JOURNAL"));
        write(&store, "Ann", &[4]);
        let behind = fs::read(&kept).unwrap();
        write(&store, "Bob", &[3, 4]);
        store.take_back(&[unit(0)]).unwrap();
        drop(store);
        let mut opened = [0, 0];
        for table in numbered(&path, "sst").unwrap().into_values() {
            let bytes = fs::read(&table).unwrap();
            for at in (0..bytes.len()).step_by(bytes.len() / 16) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                fs::write(&table, damaged).unwrap();
                for (is_behind, opened) in [false, true].into_iter().zip(&mut opened) {
                    match is_behind {
                        true => fs::write(&kept, &behind).unwrap(),
                        false => drop(fs::remove_file(&kept)),
                    }
                    let wreck = Wreck::open(&path, &room, &Silent).unwrap();
                    let place = format!("byte {at} of {}, {is_behind}", table.display());
                    let record = |shard: u32| wreck.unit(unit(shard)).unwrap();
                    let by = |shard: u32| record(shard).expect(&place).worker.to_string();
                    assert!(by(3).starts_with("Bob") && by(4).starts_with("Bob"), "{place}");
                    let lost = [1, 2].into_iter().filter(|&shard| record(shard).is_none()).count();
                    assert!(lost <= usize::from(!is_behind), "{place}");
                    assert!(wreck.is_rebuilt() || is_behind || record(0).is_none(), "{place}");
                    *opened += u32::from(!wreck.is_rebuilt());
                    drop(wreck);
                    let _ = fs::remove_dir_all(&room);
                }
            }
            fs::write(&table, bytes).unwrap();
        }
        assert!(opened.iter().all(|&times| times > 0), "{opened:?}");
    }
}
