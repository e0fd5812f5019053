//! A depot that is no cache: the directory, or the part of an object store, in which a census keeps
//! its blocks. The database of the census has no more of them than their names.
//!
//! Such a depot has the [`Mark`] of the census, a file or an object. Whoever finds it sees the same
//! depot as the coordinator; where it is not, nothing is missing, but the depot is another one, or
//! its file system is away.

mod bucket;
mod directory;

use std::{
    io,
    path::{Path, PathBuf},
};

use trailtrap_shared::partition::{Block, BlockName};

pub use bucket::KeptBucket;
pub use directory::KeptDirectory;
pub(super) use directory::marks;

/// The number of a census that keeps its blocks in a depot. Not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

/// What names of marks begin with.
const MARK_PREFIX: &str = "census-";
/// What they end with.
const MARK_SUFFIX: &str = ".txt";

impl Mark {
    /// The name of the file, or the object, that marks the depot.
    pub fn file_name(self) -> String {
        format!("{MARK_PREFIX}{:016x}{MARK_SUFFIX}", self.0)
    }
}

/// What somebody who comes across such a depot should know.
pub const MARK_TEXT: &str = "\
    A census by trailtrap keeps graphs and outcomes here. Delete all of this when the census is \
    done, or together with its data directory, not before.\n";

/// Whether a file, or an object, of this name is the mark of some census.
fn is_mark(name: &str) -> bool {
    name.starts_with(MARK_PREFIX) && name.ends_with(MARK_SUFFIX)
}

/// Whether there is no mark of another census among these names.
fn no_other(mark: Mark, names: Vec<String>) -> io::Result<()> {
    let own = mark.file_name();
    match names.into_iter().find(|name| is_mark(name) && *name != own) {
        Some(other) => Err(io::Error::other(format!(
            "another census keeps its blocks there ({other}), and a place is for one: name another, \
             or, if that census is done, delete all that is there"
        ))),
        None => Ok(()),
    }
}

/// The depot in which a census keeps its blocks.
#[derive(Debug)]
pub enum KeptDepot {
    /// A directory.
    Directory(KeptDirectory),
    /// What has a certain prefix in a bucket of an object store.
    Bucket(KeptBucket),
}

/// Evaluates an expression for whichever depot it is.
macro_rules! either {
    ($depot:expr, $kept:ident => $value:expr) => {
        match $depot {
            KeptDepot::Directory($kept) => $value,
            KeptDepot::Bucket($kept) => $value,
        }
    };
}

impl KeptDepot {
    /// The depot of a census at this place, a directory or `s3://BUCKET/PREFIX`, which need not be
    /// there now.
    pub fn at(place: &Path, mark: Mark) -> Self {
        match address(place) {
            Some(address) => KeptDepot::Bucket(KeptBucket::at(address, mark)),
            None => KeptDepot::Directory(KeptDirectory::at(place, mark)),
        }
    }

    /// Whether a new census may keep its blocks at this place: no other does.
    ///
    /// # Errors
    /// If one does, or the place cannot be looked at.
    pub fn check_free(place: &Path) -> io::Result<()> {
        // No census has this mark.
        either!(Self::at(place, Mark(0)), kept => kept.look_for_others())
    }

    /// Begins to keep blocks at this place, and marks it, for good.
    ///
    /// # Errors
    /// If it is not there, cannot be written, or is that of another census: what one census
    /// removes, the other may need, since equal blocks have equal names.
    pub fn begin(place: &Path, mark: Mark) -> io::Result<Self> {
        match address(place) {
            Some(address) => KeptBucket::begin(address, mark).map(KeptDepot::Bucket),
            None => KeptDirectory::begin(place, mark).map(KeptDepot::Directory),
        }
    }

    /// The directory, or the address of the object store.
    pub fn place(&self) -> &Path {
        either!(self, kept => kept.place())
    }

    /// The number of the census.
    pub fn mark(&self) -> Mark {
        either!(self, kept => kept.mark())
    }

    /// Whether the depot is here, and the one of this census.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if it is not.
    pub fn check(&self) -> io::Result<()> {
        either!(self, kept => kept.check())
    }

    /// Takes the depot for this process, which alone removes blocks from it, and sweeps what
    /// writers that were killed a day ago have left. Where there are no locks, as in object stores,
    /// that is said and nothing else.
    ///
    /// # Errors
    /// If it is not here, or another process has it: that of a copy of the data directory.
    pub fn take(&mut self) -> io::Result<()> {
        either!(self, kept => kept.take())
    }

    /// The bytes of the block of this name, which nobody has looked at yet; none at all if they
    /// have another length. `None` if there is no such block here.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if the depot itself is not here.
    pub fn read(&self, name: &BlockName) -> io::Result<Option<Vec<u8>>> {
        either!(self, kept => kept.read(name))
    }

    /// Whether this block is here, with its length, and this process may read it.
    ///
    /// # Errors
    /// If an object store does not say; [`io::ErrorKind::NotFound`] if the depot is not there.
    pub fn may_read(&self, name: &BlockName) -> io::Result<bool> {
        match self {
            KeptDepot::Directory(kept) => Ok(kept.may_read(name)),
            KeptDepot::Bucket(kept) => kept.may_read(name),
        }
    }

    /// Keeps a block; it outlasts a loss of power when this returns.
    ///
    /// # Errors
    /// If it cannot be written; [`io::ErrorKind::NotFound`] if the depot itself is not here, as far as
    /// that is noticed: an object store takes what is put without its mark.
    pub fn write(&self, block: &Block) -> io::Result<()> {
        either!(self, kept => kept.write(block))
    }

    /// Removes the block of this name, if it is there.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if the depot itself is not here, as far as
    /// that is noticed: an object store may not say so.
    pub fn remove(&self, name: &BlockName) -> io::Result<()> {
        either!(self, kept => kept.remove(name))
    }
}

/// The address of an object store, if the place is one and no directory.
fn address(place: &Path) -> Option<&str> {
    place.to_str().filter(|place| place.contains("://"))
}

/// Whether the depot at this place is in an object store, and not on a disk.
pub fn is_in_object_store(place: &Path) -> bool {
    address(place).is_some()
}

/// The name under which a place is remembered, whatever the current directory is.
///
/// # Errors
/// If it is a directory that is not there.
pub fn canonical(place: &Path) -> io::Result<PathBuf> {
    match address(place) {
        Some(_) => Ok(place.to_owned()),
        None => place.canonicalize(),
    }
}

/// Large enough to be kept.
#[cfg(test)]
fn some_block() -> Block {
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
    };

    let sequence = DegreeSequence::new([4; 11]);
    let slots = Vec::from_iter(0..1000).into_iter();
    let table =
        BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, slots, |_, bytes| bytes.fill(1));
    table.to_blocks(0).keys
}
