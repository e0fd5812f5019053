//! A directory in which a census keeps its blocks.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use trailtrap_shared::partition::{Block, BlockName, Checksum};

use super::{MARK_TEXT, Mark, is_mark, no_other};
use crate::{
    process::{
        open,
        replace::{Replacement, is_unfinished, sync_directory},
    },
    supply::files::{checksum_of_object, directories, object_name, read, write},
};

/// The name of the file that the process of the census locks.
const LOCK: &str = "LOCK";

/// Makes the directories that blocks need, as far as they are not there.
fn make_directories(path: &Path) -> io::Result<()> {
    for directory in directories() {
        match fs::create_dir(path.join(directory)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The names of the marks in a directory.
///
/// # Errors
/// What the system says.
pub(in crate::supply) fn marks(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.extend(entry?.file_name().into_string().ok().filter(|name| is_mark(name)));
    }
    Ok(names)
}

/// What writers that were killed have left is removed when it is older than this.
const LEFTOVER: Duration = Duration::from_secs(24 * 3600);

/// The directory in which a census keeps its blocks.
#[derive(Debug)]
pub struct KeptDirectory {
    path: PathBuf,
    mark: Mark,
    /// Held by the process of the census.
    lock: Option<File>,
}

impl KeptDirectory {
    /// That of a census, which need not be there now.
    pub fn at(path: &Path, mark: Mark) -> Self {
        KeptDirectory { path: path.to_owned(), mark, lock: None }
    }

    /// Begins to keep blocks in a directory: marks it, for good, and makes all the directories in
    /// it that blocks need, so that nobody has to sync them.
    ///
    /// # Errors
    /// If it is no directory, cannot be written, or is that of another census: what one census
    /// removes, the other may need, since equal blocks have equal names.
    pub fn begin(path: &Path, mark: Mark) -> io::Result<Self> {
        let depot = Self::at(path, mark);
        let file = path.join(mark.file_name());
        depot.look_for_others()?;
        make_directories(path)?;
        // This syncs them, too.
        Replacement::of(&file).write(MARK_TEXT.as_bytes())?;
        // Another may have begun at the same moment: then each gives way.
        depot.look_for_others().inspect_err(|_| drop(fs::remove_file(&file)))?;
        Ok(depot)
    }

    /// Whether there is no mark of another census.
    pub(super) fn look_for_others(&self) -> io::Result<()> {
        no_other(self.mark, marks(&self.path)?)
    }

    /// The directory.
    pub fn place(&self) -> &Path {
        &self.path
    }

    /// The number of the census.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Whether the directory is here, and the one of this census.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if it is not.
    pub fn check(&self) -> io::Result<()> {
        fs::metadata(self.path.join(self.mark.file_name())).map(drop)
    }

    /// Takes the depot for this process, which alone removes blocks from it, and sweeps what
    /// writers that were killed a day ago have left. Where the file system has no locks, that is
    /// said and nothing else.
    ///
    /// # Errors
    /// If it is not here, or another process has it: that of a copy of the data directory.
    pub fn take(&mut self) -> io::Result<()> {
        self.check()?;
        let file = open::lock_file(&self.path.join(LOCK))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let why = "another process is at work with it: on this census, or a copy of it; \
                           or, if it is a shelf, another worker, which needs one of its own";
                return Err(io::Error::other(why));
            }
            Err(TryLockError::Error(error)) => {
                let depot = self.path.display();
                tracing::warn!(
                    "the depot {depot} cannot be locked ({error}): see to it that no \
                    copy of the data directory is at work as well"
                );
            }
            Ok(()) => self.lock = Some(file),
        }
        for directory in directories() {
            let Ok(entries) = fs::read_dir(self.path.join(directory)) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                let modified = || fs::metadata(&path)?.modified();
                let is_old = |modified: std::time::SystemTime| {
                    modified.elapsed().is_ok_and(|age| age > LEFTOVER)
                };
                if is_unfinished(&path) && modified().is_ok_and(is_old) {
                    let _ = fs::remove_file(path);
                }
            }
        }
        Ok(())
    }

    /// The bytes of the block of this name, which nobody has looked at yet; none at all if they
    /// have another length. `None` if there is no such block here.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if the depot itself is not here.
    pub fn read(&self, name: &BlockName) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(object_name(&name.checksum));
        self.found(|| read(&path, name.length).map(Option::unwrap_or_default))
    }

    /// What is read of a file, if it is here.
    fn found<T>(&self, read: impl Fn() -> io::Result<T>) -> io::Result<Option<T>> {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match read() {
            Err(error) if is_missing(&error) => {
                self.check()?;
                // The depot may have been away a moment ago, and all that is in it.
                match read() {
                    Err(error) if is_missing(&error) => Ok(None),
                    again => again.map(Some),
                }
            }
            read => read.map(Some),
        }
    }

    /// Whether the file of this block is here, with its length, and this process may read it.
    pub fn may_read(&self, name: &BlockName) -> bool {
        let opened = open::regular(&self.path.join(object_name(&name.checksum)));
        opened.is_ok_and(|(_, metadata)| metadata.len() == name.length)
    }

    /// The bytes of the block with this checksum, which nobody has looked at yet, if there are no
    /// more than `most`.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if the depot itself is not here.
    pub fn read_any(&self, checksum: &Checksum, most: u64) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(object_name(checksum));
        self.found(|| open::read(&path, most))
    }

    /// Keeps a block; it outlasts a loss of power when this returns.
    ///
    /// # Errors
    /// If it cannot be written; [`io::ErrorKind::NotFound`] if the depot itself is not here.
    pub fn write(&self, block: &Block) -> io::Result<()> {
        let path = self.path.join(object_name(&block.name().checksum));
        match write(&path, block.bytes(), true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Whoever copies a depot may leave out directories with nothing in them.
                self.check()?;
                make_directories(&self.path)?;
                sync_directory(&self.path)?;
                write(&path, block.bytes(), true)
            }
            written => written,
        }
    }

    /// The checksums in the names of all blocks that are here.
    ///
    /// # Errors
    /// What the system says.
    pub fn checksums(&self) -> io::Result<Vec<Checksum>> {
        let mut found = Vec::new();
        for directory in directories() {
            let entries = match fs::read_dir(self.path.join(directory)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                found.extend(entry?.file_name().to_str().and_then(checksum_of_object));
            }
        }
        Ok(found)
    }

    /// Ends to keep blocks here: the directory may become that of another census.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self) -> io::Result<()> {
        fs::remove_file(self.path.join(self.mark.file_name()))
    }

    /// Removes the block of this name, if it is there.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if the depot itself is not here.
    pub fn remove(&self, name: &BlockName) -> io::Result<()> {
        match fs::remove_file(self.path.join(object_name(&name.checksum))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.check(),
            removed => removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::supply::kept::some_block;

    #[test]
    fn what_is_missing_is_told_from_a_depot_that_is_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("depot");
        let away = |result: io::Result<_>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::NotFound);
        };
        away(KeptDirectory::begin(&path, Mark(7)).map(drop));
        fs::create_dir(&path).unwrap();
        let depot = KeptDirectory::begin(&path, Mark(7)).unwrap();
        let block = some_block();
        let name = block.name();
        assert_eq!(depot.read(&name).unwrap(), None);
        depot.write(&block).unwrap();
        assert_eq!(depot.read(&name).unwrap().as_deref(), Some(block.bytes()));
        let longer = BlockName { length: name.length + 1, ..name };
        assert_eq!(depot.read(&longer).unwrap(), Some(Vec::new()));
        depot.remove(&name).unwrap();
        depot.remove(&name).unwrap();
        assert_eq!(depot.read(&name).unwrap(), None);
        depot.check().unwrap();
        // The depot was away for the moment of the first attempt.
        let attempts = Cell::new(0);
        let read = || match attempts.replace(1) {
            0 => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(7),
        };
        assert_eq!(depot.found(read).unwrap(), Some(7));
        // Of another census, whose directory this is not, or not mounted.
        away(KeptDirectory::at(&path, Mark(8)).read(&name).map(drop));
        let refused = KeptDirectory::begin(&path, Mark(8)).unwrap_err().to_string();
        assert!(refused.contains("another census"), "{refused}");
        // A process was killed while it wrote this.
        fs::write(path.join("census-0000000000000008.txt.abc.new"), "").unwrap();
        KeptDirectory::begin(&path, Mark(7)).unwrap();
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
        away(depot.read(&name).map(drop));
        away(depot.write(&block));
        away(depot.remove(&name));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn one_process_takes_a_depot_and_sweeps_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut depot = KeptDirectory::begin(directory.path(), Mark(7)).unwrap();
        let [old, new, block] = ["00/a.x.new", "00/b.x.new", "00/c"].map(|name| {
            let path = directory.path().join(name);
            fs::write(&path, "").unwrap();
            path
        });
        let long_ago = std::time::SystemTime::now() - 2 * LEFTOVER;
        for path in [&old, &block] {
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        depot.take().unwrap();
        assert!(!old.exists() && new.exists() && block.exists());
        let mut copy = KeptDirectory::at(directory.path(), Mark(7));
        assert!(copy.take().unwrap_err().to_string().contains("another process"));
        drop(depot);
        copy.take().unwrap();
    }
}
