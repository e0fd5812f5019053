//! Blocks that lie in a depot, and what the database has in their place: a *reference*, the name
//! of the block. How a store begins with a depot or takes it again, puts blocks there, reads them
//! and removes them; what follows references does so for blocks on shelves, too.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rocksdb::{IteratorMode, ReadOptions};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use trailtrap_shared::{
    partition::{Block, BlockError, BlockId, BlockName, Checksum, Section},
    protocol::codec,
};
use trailtrap_worker::{
    process::{open, together::together},
    supply::{
        is_shared,
        kept::{self, KeptDepot, Mark},
    },
};

use super::{
    Store, StoreError,
    database::{PAUSES, family, section_name},
    format::DEPOT_FORMAT,
    keys::{DEPOT, FORMAT, MARK, block_key},
};
use crate::records::Delivery;

/// So many threads put blocks into a depot, look for some, or remove some, at a time.
const TOGETHER: usize = 8;

/// Where blocks are kept, on record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DepotRecord {
    path: Vec<u8>,
    mark: u64,
}

impl DepotRecord {
    pub fn of(depot: &KeptDepot) -> Self {
        DepotRecord { path: depot.place().as_os_str().as_bytes().to_vec(), mark: depot.mark().0 }
    }

    /// The directory, or the address of the object store.
    pub fn place(&self) -> PathBuf {
        Path::new(OsStr::from_bytes(&self.path)).to_owned()
    }

    /// The number of the census.
    pub fn mark(&self) -> Mark {
        Mark(self.mark)
    }

    /// The depot, which need not be there now.
    pub fn depot(&self) -> KeptDepot {
        KeptDepot::at(&self.place(), self.mark())
    }
}

/// Whether what cannot be read may be a single file, and not its depot, if that is there: its place
/// on the disk is bad, or it is no file at all.
pub(super) fn is_bad_file(error: &io::Error) -> bool {
    open::is_bad_place(error) || error.kind() == io::ErrorKind::InvalidInput
}

/// References begin like this, and blocks do not.
const REFERENCE_MAGIC: &[u8; 4] = b"TTBN";
/// What stands in the database in place of the block of this name.
pub(super) fn reference(name: &BlockName) -> Vec<u8> {
    [&REFERENCE_MAGIC[..], &name.checksum.0, &name.length.to_le_bytes()].concat()
}

/// The name of the block that is meant, if this is a reference.
pub(super) fn referred(value: &[u8]) -> Option<BlockName> {
    let value = value.strip_prefix(REFERENCE_MAGIC)?;
    let (checksum, length) = value.split_first_chunk()?;
    let length = u64::from_le_bytes(length.try_into().ok()?);
    Some(BlockName { checksum: Checksum(*checksum), length })
}

impl Store {
    /// Keeps larger blocks in this directory, or object store, from now on: it is marked as the
    /// depot of this census. A store that has a depot keeps it as long as something of it lies there:
    /// then it has to be that one, wherever it is now. A new one gets the mark `new`.
    ///
    /// # Errors
    ///
    /// The depot cannot be used, is not the one that the store has, is that of another census, or
    /// another process is at work on this one; or the store cannot be written.
    pub fn keep_in(&mut self, place: &Path, new: Mark) -> Result<(), StoreError> {
        let unusable = |cause| StoreError::Depot { path: place.to_owned(), cause };
        let place = kept::canonical(place).map_err(unusable)?;
        let mut depot = match &self.depot {
            Some(depot) => {
                let moved = KeptDepot::at(&place, depot.mark());
                match moved.check() {
                    Ok(()) => moved,
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(unusable(error));
                    }
                    Err(_) if self.refers_elsewhere()? => {
                        return Err(StoreError::OtherDepot {
                            mark: depot.mark(),
                            kept: depot.place().to_owned(),
                            asked: place.clone(),
                        });
                    }
                    // With another mark: the one before may be on a disk that is away, and come back
                    // in the same place. What is interrupted after this begins again with it.
                    Err(_) => {
                        let mark = self.own_mark(new)?;
                        let mark = if mark == depot.mark() { new } else { mark };
                        self.put(MARK, &mark.0)?;
                        KeptDepot::begin(&place, mark).map_err(unusable)?
                    }
                }
            }
            None => {
                self.leave_shelves()?;
                KeptDepot::begin(&place, self.own_mark(new)?).map_err(unusable)?
            }
        };
        depot.take().map_err(|error| of_depot(&depot, error))?;
        self.adopt(depot)?;
        self.finish_dropping()
    }

    /// The mark of this census: the one kept, or this one from now on. First of all, so that what
    /// is interrupted after this begins again with the same mark.
    pub(super) fn own_mark(&self, new: Mark) -> Result<Mark, StoreError> {
        match self.get::<u64>(MARK)? {
            Some(mark) => Ok(Mark(mark)),
            None => self.put(MARK, &new.0).map(|()| new),
        }
    }

    /// Keeps larger blocks in this depot from now on, which has its mark already and is taken for
    /// this process.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub(super) fn adopt(&mut self, depot: KeptDepot) -> Result<(), StoreError> {
        let record = codec::encode(&DepotRecord::of(&depot));
        self.depot = Some(depot);
        let format = codec::encode(&self.format(DEPOT_FORMAT));
        self.change(vec![(DEPOT.to_vec(), Some(record)), (FORMAT.to_vec(), Some(format))])
    }

    /// Takes the depot, if there is one, for this process, and ends what a run before was dropping.
    ///
    /// # Errors
    ///
    /// It is not where it should be, or another process has it; or blocks lie on shelves, or the
    /// store cannot be written.
    pub fn take_depot(&mut self) -> Result<(), StoreError> {
        self.leave_shelves()?;
        if let Some(depot) = &mut self.depot {
            depot.take().map_err(|error| of_depot(depot, error))?;
        }
        self.finish_dropping()
    }

    /// The depot in which larger blocks are kept.
    pub fn depot(&self) -> Option<&KeptDepot> {
        self.depot.as_ref()
    }

    /// Whether the depot, if there is one, is where it should be.
    pub fn has_depot(&self) -> bool {
        self.depot.as_ref().is_none_or(|depot| depot.check().is_ok())
    }

    /// Does something with the depot, if there is one; again, with pauses of half a minute in all,
    /// if this is what writes to the store and the system may do later what it refuses now.
    fn with_depot<T>(
        &self,
        work: impl Fn(&KeptDepot) -> io::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let Some(depot) = &self.depot else { return Ok(None) };
        let mut pauses = PAUSES.into_iter().filter(|_| self.journal.is_some());
        loop {
            let error = match work(depot) {
                Ok(done) => return Ok(Some(done)),
                Err(error) => error,
            };
            let pause = pauses.next().filter(|_| may_return(&error));
            let Some(pause) = pause else { return Err(of_depot(depot, error)) };
            let (depot, seconds) = (depot.place().display(), pause.as_secs_f32());
            tracing::warn!("the depot {depot} fails ({error}); trying again in {seconds} s");
            std::thread::sleep(pause);
        }
    }

    /// The block of this name in the depot, or on shelves, which are waited for so long at most; `None`
    /// if it is not there.
    ///
    /// # Errors
    ///
    /// The depot cannot be read, or this process knows of no shelves.
    pub fn elsewhere(
        &self,
        name: &BlockName,
        patience: Duration,
    ) -> Result<Option<Result<Block, BlockError>>, StoreError> {
        match &self.shelves {
            Some(shelves) => return Ok(shelves.read(self.layout(), name, patience)?.map(Ok)),
            None if self.shelf_mark.is_some() => return Err(StoreError::OnShelves),
            None => {}
        }
        let bytes = match self.with_depot(|depot| depot.read(name)) {
            // Bytes that are those of no block.
            Err(StoreError::Depot { cause, .. }) if is_bad_file(&cause) && self.has_depot() => {
                Some(Vec::new())
            }
            read => read?.flatten(),
        };
        Ok(bytes.map(|bytes| Block::parse_named(self.layout(), bytes, name)))
    }

    /// Whether this process may read these blocks, if they are to be in the depot; without reading
    /// them.
    ///
    /// # Errors
    ///
    /// The depot does not say.
    pub fn may_read(&self, names: &[BlockName]) -> Result<bool, StoreError> {
        let may = |name: &BlockName| {
            let may = self.with_depot(|depot| depot.may_read(name));
            may.map(|may| may.unwrap_or(true))
        };
        match &self.depot {
            // Each answer takes its time.
            Some(KeptDepot::Bucket(_)) => {
                let all = AtomicBool::new(true);
                together(names, TOGETHER, |name| {
                    all.fetch_and(may(name)?, Ordering::Relaxed);
                    Ok::<_, StoreError>(())
                })?;
                Ok(all.into_inner())
            }
            _ => names.iter().try_fold(true, |all, name| Ok(all && may(name)?)),
        }
    }

    /// The name of a block of a finished unit, if it lies in the depot or on shelves: so it need not
    /// be read to be named.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn name_elsewhere(&self, id: &BlockId) -> Result<Option<BlockName>, StoreError> {
        if self.has_all_here() {
            return Ok(None);
        }
        let section = section_name(id.section);
        self.database.run(|db| {
            let value = db.get_pinned_cf(family(db, section), block_key(id))?;
            Ok(value.and_then(|value| referred(&value)))
        })
    }

    /// Whether a block lies in the depot, or is to lie there when it is written.
    pub(super) fn is_for_depot(&self, block: &Block) -> bool {
        self.depot.is_some() && is_shared(block)
    }

    /// Keeps those blocks of deliveries in the depot that were sent.
    pub(super) fn put_into_depot(&self, deliveries: &[Arc<Delivery>]) -> Result<(), StoreError> {
        let sent = deliveries.iter().flat_map(|delivery| &delivery.blocks);
        let blocks: Vec<&Block> = sent.filter(|block| self.is_for_depot(block)).collect();
        if !blocks.is_empty() {
            self.with_depot(KeptDepot::check)?;
        }
        together(&blocks, TOGETHER, |block| self.with_depot(|depot| depot.write(block)).map(drop))
    }

    /// Removes from the depot, or from shelves, what the database refers to in a range of keys of a
    /// section. If the database cannot be read there, it is left.
    pub(super) fn remove_elsewhere(
        &self,
        section: Section,
        from: &[u8],
        to: &[u8],
    ) -> Result<(), StoreError> {
        if self.depot.is_none() && self.shelves.is_none() {
            return Ok(());
        }
        let names = match self.references(section, from, to) {
            Err(StoreError::Damaged(error)) => {
                tracing::warn!("some blocks may stay where they lie for ever: {error}");
                return Ok(());
            }
            names => names?,
        };
        if let Some(shelves) = &self.shelves {
            shelves.let_go(&names);
            return Ok(());
        }
        if names.is_empty() {
            return Ok(());
        }
        match self.with_depot(KeptDepot::check) {
            Err(error @ StoreError::Depot { .. }) => {
                tracing::warn!("{} blocks stay in the depot: {error}", names.len());
                return Ok(());
            }
            checked => checked?,
        };
        together(&names, TOGETHER, |name| match self.with_depot(|depot| depot.remove(name)) {
            Err(error @ StoreError::Depot { .. }) => {
                tracing::warn!("block {} stays in the depot: {error}", name.checksum);
                Ok(())
            }
            removed => removed.map(drop),
        })
    }

    /// What the database refers to in a range of keys of a section.
    ///
    /// # Errors
    ///
    /// The database cannot be read, or is damaged there.
    pub(super) fn references(
        &self,
        section: Section,
        from: &[u8],
        to: &[u8],
    ) -> Result<Vec<BlockName>, StoreError> {
        self.database.run(|db| {
            let mut range = ReadOptions::default();
            range.set_iterate_range(from.to_vec()..to.to_vec());
            range.fill_cache(false);
            let blocks = family(db, section_name(section));
            let mut names = Vec::new();
            for item in db.iterator_cf_opt(blocks, range, IteratorMode::Start) {
                names.extend(referred(&item?.1));
            }
            Ok(names)
        })
    }
}

/// Whether a depot that fails like this may be back in a moment.
fn may_return(error: &io::Error) -> bool {
    use io::ErrorKind::{
        HostUnreachable, NetworkDown, NetworkUnreachable, NotConnected, NotFound,
        StaleNetworkFileHandle, TimedOut,
    };
    let passing = [Errno::IO, Errno::MFILE].map(|errno| Some(errno.raw_os_error()));
    passing.contains(&error.raw_os_error())
        || matches!(
            error.kind(),
            HostUnreachable
                | NetworkDown
                | NetworkUnreachable
                | NotConnected
                | NotFound
                | StaleNetworkFileHandle
                | TimedOut
        )
}

/// What keeps a depot from being used.
pub(super) fn of_depot(depot: &KeptDepot, error: io::Error) -> StoreError {
    let path = depot.place().to_owned();
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::DepotAway { path, mark: depot.mark() },
        _ => StoreError::Depot { path, cause: error },
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::partition::{CHECKSUM_BYTES, MAGIC};

    use super::*;

    #[test]
    fn references_are_told_from_blocks() {
        let name = BlockName { checksum: Checksum([7; CHECKSUM_BYTES]), length: 1 << 33 };
        let value = reference(&name);
        assert_eq!(referred(&value), Some(name));
        for other in [&value[1..], &value[..value.len() - 1], &[&value[..], b"x"].concat(), b""] {
            assert_eq!(referred(other), None);
        }
        assert_ne!(MAGIC, REFERENCE_MAGIC);
        assert!(referred(&[&MAGIC[..], &value[4..]].concat()).is_none());
    }
}
