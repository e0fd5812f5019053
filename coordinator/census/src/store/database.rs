//! The database of a store, and how it is opened: for the process that has the data directory, and
//! for those who look on while files come and go.
//!
//! Whoever looks on opens it again when a file is gone by the time it is read. Whoever writes
//! opens it again when the system fails, for RocksDB writes no more after that; and waits, for a
//! while, until the system does what it is asked.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::RwLock;
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, IteratorMode,
    LiveFile, Options, WriteOptions,
};
use rustix::process::{Resource, getrlimit};
use trailtrap_shared::{partition::Section, protocol::codec};

use super::{
    error::{Lost, StoreError},
    files,
    journal::{self, JournalContents, ManifestState, Records, Trace},
    keys::{self, EDITION, EPOCH, TAKEN_BACK, WRITTEN},
    logs,
};

/// The column family of records.
pub(super) const RECORDS: &str = "records";

/// How often the system is asked again, and how long it is waited before each time: half a minute
/// in all.
pub(super) const PAUSES: [Duration; 10] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(4),
    Duration::from_secs(4),
    Duration::from_secs(5),
    Duration::from_secs(5),
    Duration::from_secs(5),
];
/// A reader opens a store that changes again so often, for one thing to be read.
const OPENED_AGAIN: usize = 30;
/// Files that are open at a time: blob files come by the thousand at order 11, and processes may
/// often open a thousand files. Never more than a quarter of those that this process may open.
const OPEN_FILES: u64 = 400;

/// What a process may do with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessMode {
    /// Whoever looks on, while another process may write.
    Read,
    /// One process at a time.
    Write,
}

/// An open database.
pub(super) struct Database {
    path: PathBuf,
    access: AccessMode,
    opened: RwLock<Opened>,
    /// The system failed for so long that nobody waits for it any more.
    given_up: AtomicBool,
}

struct Opened {
    /// `None` if it was not possible to open it again.
    db: Option<DB>,
    /// What stood in its manifest just before: another one tells that files have come or gone.
    manifest: ManifestState,
    /// How often it was opened.
    times: u64,
}

/// What a database and its journal were found to hold when the database was opened.
pub(super) struct Findings {
    /// What the journal tells.
    pub told: JournalContents<Trace>,
    /// The records of the database.
    pub records: Records<Trace>,
    /// The number of its last write.
    pub written: u64,
}

impl Opened {
    fn new(path: &Path, access: AccessMode, times: u64) -> Result<(Self, Findings), StoreError> {
        for _ in 1..OPENED_AGAIN {
            // Older ones go first, and none before a manifest says that its records are in tables.
            let logs = files::numbered(path, "log").unwrap_or_default();
            let manifest = ManifestState::of(path);
            match open(path, access) {
                // Whoever writes meanwhile may have let a log go after this manifest was read, and
                // before logs were: then what stood in it is missing, though what came later is there.
                Ok(_) if access == AccessMode::Read && logs.values().any(|log| !log.exists()) => {}
                Ok((db, found)) => {
                    return Ok((Opened { db: Some(db), manifest, times }, found));
                }
                Err(error)
                    if access != AccessMode::Read
                        || !error.is_of_missing_files()
                        || ManifestState::of(path) == manifest =>
                {
                    return Err(error);
                }
                // Somebody writes to it, and files went before they were opened.
                Err(_) => {}
            }
        }
        let manifest = ManifestState::of(path);
        let (db, found) = open(path, access)?;
        Ok((Opened { db: Some(db), manifest, times }, found))
    }
}

/// Opens a database that has everything that its journal says was written.
fn open(path: &Path, access: AccessMode) -> Result<(DB, Findings), StoreError> {
    let (db, found) = open_checked(path, access)?;
    if access == AccessMode::Read {
        return Ok((db, found));
    }
    // Opened for writing, a damaged one would have been changed: what cannot be read of its logs
    // would go.
    drop(db);
    Ok((DB::open_cf_descriptors(&options(), path, families())?, found))
}

/// Opens a database to read it, and checks it for whoever is to have such access.
fn open_checked(path: &Path, access: AccessMode) -> Result<(DB, Findings), StoreError> {
    // What the journal has, the database had before.
    let told = journal::read(path, |record| Trace::of(&record)).map_err(StoreError::Journal)?;
    if !told.manifest.is_in(path).map_err(StoreError::Journal)? {
        return Err(StoreError::Manifest);
    }
    logs::check(path)?;
    let db = DB::open_cf_descriptors_read_only(&options(), path, families(), false)?;
    check_tables(&db)?;
    let (written, records) = (written(&db)?, traces(&db)?);
    // A journal that is behind, or damaged, knows of records that have changed since, and of units
    // that were taken back since.
    let is_last = told.is_whole && written <= told.written;
    let is_behind = written > told.written && access == AccessMode::Read;
    let lost = match (is_last, is_behind) {
        (true, _) => compare(&told.records, &records, |before, after| after == Some(before)),
        (false, false) => compare(&told.records, &records, |_, after| after.is_some()),
        (false, true) => Lost::default(),
    };
    // These numbers only grow. Programs that kept no journal have counted their starts as well;
    // units are taken back when an edition begins, and within editions.
    let is_later = |key: &[u8]| {
        let number = |records: &Records<Trace>| {
            let record = records.get(key).and_then(Trace::record);
            record.and_then(|record| codec::decode::<u32>(record).ok()).unwrap_or(0)
        };
        number(&records) > number(&told.records)
    };
    let is_explained = is_later(EPOCH) || !is_last && (is_later(EDITION) || is_later(TAKEN_BACK));
    if written < told.written || lost != Lost::default() && !is_explained {
        return Err(StoreError::RolledBack { lost });
    }
    Ok((db, Findings { told, records, written }))
}

/// Whether all tables have the lengths that they should have. RocksDB looks at the first few when
/// it is told how many files may be open. Of a database that is open for writing, compactions
/// would replace tables meanwhile.
fn check_tables(db: &DB) -> Result<(), StoreError> {
    for LiveFile { name, size, .. } in db.live_files()? {
        let file = name.trim_start_matches('/').to_owned();
        match std::fs::metadata(db.path().join(&file)) {
            Ok(metadata) if metadata.len() == size as u64 => {}
            // Perhaps it can be read later; if not, RocksDB says so.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => return Err(StoreError::Table { file, bytes: size as u64 }),
        }
    }
    Ok(())
}

impl Database {
    /// Makes an empty one.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let db = create(path)?;
        let opened = Opened { db: Some(db), manifest: ManifestState::of(path), times: 0 };
        Ok(Self::of(path, AccessMode::Write, opened))
    }

    /// Opens one that is there.
    pub fn open(path: &Path, access: AccessMode) -> Result<(Self, Findings), StoreError> {
        let (opened, found) =
            Opened::new(path, access, 0).map_err(|error| match error.may_pass() {
                true => StoreError::Failing { path: path.to_owned(), cause: error.to_string() },
                false => error,
            })?;
        Ok((Self::of(path, access, opened), found))
    }

    fn of(path: &Path, access: AccessMode, opened: Opened) -> Self {
        Database {
            path: path.to_owned(),
            access,
            opened: RwLock::new(opened),
            given_up: AtomicBool::new(false),
        }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does something with the database, again if need be: what is done twice must come to the
    /// same as if it was done once.
    pub fn run<T>(&self, work: impl Fn(&DB) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let (mut pauses, mut again) = (PAUSES.into_iter(), 0);
        let mut cause = String::new();
        loop {
            let (times, manifest, error) = {
                let opened = self.opened.read();
                let error = match opened.db.as_ref().map(&work) {
                    Some(Ok(done)) => return Ok(done),
                    Some(Err(error)) => Some(error),
                    None => None,
                };
                (opened.times, opened.manifest, error)
            };
            if let Some(error) = &error {
                cause = error.to_string();
            }
            match (self.access, error) {
                // A reader takes the tables as they were when it began to open them, and the logs as
                // they are a moment later: records may tell of blocks whose tables came in between.
                // Opened once more, it has these, too.
                (AccessMode::Read, Some(error))
                    if (error.is_of_missing_files() && again < OPENED_AGAIN
                        || matches!(error, StoreError::MissingBlock(_)) && again == 0)
                        && ManifestState::of(&self.path) != manifest =>
                {
                    again += 1;
                    self.open_again(times)?;
                }
                (AccessMode::Write, error) if error.as_ref().is_none_or(StoreError::may_pass) => {
                    let pause = pauses.next().filter(|_| !self.given_up.load(Ordering::Relaxed));
                    let Some(pause) = pause else {
                        self.given_up.store(true, Ordering::Relaxed);
                        return Err(StoreError::Failing { path: self.path.clone(), cause });
                    };
                    tracing::warn!(
                        "the disk of {} fails ({cause}); trying again in {} s",
                        self.path.display(),
                        pause.as_secs_f32()
                    );
                    std::thread::sleep(pause);
                    match self.open_again(times) {
                        Ok(()) => {}
                        Err(error) if error.may_pass() => cause = error.to_string(),
                        Err(error) => return Err(error),
                    }
                }
                (_, Some(error)) => return Err(error),
                (_, None) => {
                    return Err(StoreError::Failing { path: self.path.clone(), cause });
                }
            }
        }
    }

    /// Opens it again, if nobody else has done so since it was opened for this time.
    fn open_again(&self, times: u64) -> Result<(), StoreError> {
        let mut opened = self.opened.write();
        if opened.times != times {
            return Ok(());
        }
        if self.access == AccessMode::Write {
            // It cannot be open twice.
            opened.db = None;
        }
        (*opened, _) = Opened::new(&self.path, self.access, times + 1)?;
        Ok(())
    }
}

pub(super) fn options() -> Options {
    let mut options = Options::default();
    options.set_keep_log_file_num(2);
    // A quarter of them flush: two sections at once.
    options.set_max_background_jobs(8);
    // For each of the families threads are begun, which takes longer than to open a few tables.
    options.set_max_file_opening_threads(2);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    options.set_max_open_files((limit / 4).min(OPEN_FILES) as i32);
    // Each shard of the cache of open files holds one at least.
    options.set_table_cache_num_shard_bits(2);
    // A few large column families would otherwise keep logs of several gigabytes.
    options.set_max_total_wal_size(64 << 20);
    // Logs that are lost are missed by the journal. RocksDB could note them in the manifest
    // (`track_and_verify_wals_in_manifest`): but for the one in use, and so that whoever reads
    // without that option crashes.
    options
}

/// Makes an empty one.
pub(super) fn create(path: &Path) -> Result<DB, StoreError> {
    let mut options = options();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    Ok(DB::open_cf_descriptors(&options, path, families())?)
}

/// Opens what can be opened of a damaged database, to read: these of its families.
pub(super) fn open_damaged(path: &Path, names: &[String]) -> Result<DB, StoreError> {
    logs::check_texts(path)?;
    let mut options = options();
    options.set_paranoid_checks(false);
    options.set_wal_recovery_mode(DBRecoveryMode::SkipAnyCorruptedRecord);
    let families =
        families().into_iter().filter(|family| names.iter().any(|n| n == family.name()));
    Ok(DB::open_cf_descriptors_read_only(&options, path, families, false)?)
}

/// Values of so many bytes lie in files of their own.
pub(super) const BLOB_BYTES: u64 = 4 << 10;

/// The column families, always in the same order.
pub(super) fn families() -> Vec<ColumnFamilyDescriptor> {
    let mut bulk = Options::default();
    bulk.set_enable_blob_files(true);
    bulk.set_min_blob_size(BLOB_BYTES);
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

/// A column family by its name.
pub(super) fn family<'db>(db: &'db DB, name: &str) -> &'db ColumnFamily {
    db.cf_handle(name).expect("opened with every column family")
}

pub(super) fn section_name(section: Section) -> &'static str {
    match section {
        Section::Keys => "keys",
        Section::Outcomes => "outcomes",
        Section::Wins => "wins",
    }
}

/// Not for what must outlast a crash, unless it is flushed.
pub(super) fn unlogged() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

/// For what is durable when it is written.
pub(super) fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

/// The number of the last write of records; 0 in a store that is older than these numbers.
pub(super) fn written(db: &DB) -> Result<u64, StoreError> {
    let value = db.get_cf(family(db, RECORDS), WRITTEN)?;
    let number = value.map(|value| codec::decode(&value)).transpose();
    number.map(Option::unwrap_or_default).map_err(|source| keys::damaged(WRITTEN, source))
}

/// All records but the number of the last write, which the journal has in its own way.
pub(super) fn each_record(
    db: &DB,
) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> {
    let all = db.iterator_cf(family(db, RECORDS), IteratorMode::Start);
    let all = all.map(|item| {
        let (key, value) = item?;
        Ok((key.into_vec(), value.into_vec()))
    });
    all.filter(|record| !matches!(record, Ok((key, _)) if key == WRITTEN))
}

/// What tells these records from others.
pub(super) fn traces(db: &DB) -> Result<Records<Trace>, StoreError> {
    each_record(db).map(|record| record.map(|(key, value)| (key, Trace::of(&value)))).collect()
}

/// How many records of `before` are not as they should be in `after`.
fn compare(
    before: &Records<Trace>,
    after: &Records<Trace>,
    is_right: impl Fn(&Trace, Option<&Trace>) -> bool,
) -> Lost {
    let mut lost = Lost::default();
    for (key, _) in before.iter().filter(|(key, value)| !is_right(value, after.get(*key))) {
        match key.first() {
            Some(b'u') => lost.units += 1,
            Some(b'o') => lost.orders += 1,
            Some(b'a') => lost.alarms += 1,
            _ => {}
        }
    }
    lost
}
