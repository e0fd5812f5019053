//! A depot that is no cache: the directory in which a census keeps its blocks. The database of the
//! census has no more of them than their names.
//!
//! Such a directory has the [`Mark`] of the census, a file. Whoever finds it sees the same
//! directory as the coordinator; where it is not, nothing is missing, but the directory is another
//! one, or its file system is away.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use trailtrap_shared::partition::{Block, BlockName};

use super::depot::{directories, object_name, read, write};
use crate::process::replace::Replacement;

/// The number of a census that keeps its blocks in a depot. Not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

impl Mark {
    /// The name of the file that marks the depot.
    pub fn file_name(self) -> String {
        format!("census-{:016x}.txt", self.0)
    }
}

/// What somebody who comes across such a depot should know.
pub const MARK_TEXT: &str = "\
    A census by trailtrap keeps its graphs and outcomes in this directory, and has them nowhere \
    else. Delete it together with the data directory of the census, not before.\n";

/// The directory in which a census keeps its blocks.
#[derive(Debug)]
pub struct KeptDepot {
    path: PathBuf,
    mark: Mark,
}

impl KeptDepot {
    /// The depot of a census in a directory, which need not be there now.
    pub fn at(path: &Path, mark: Mark) -> Self {
        KeptDepot { path: path.to_owned(), mark }
    }

    /// Begins to keep blocks in a directory: marks it, for good, and makes all the directories in
    /// it that blocks need, so that nobody has to sync them.
    ///
    /// # Errors
    /// If it is no directory, or cannot be written.
    pub fn begin(path: &Path, mark: Mark) -> io::Result<Self> {
        let depot = Self::at(path, mark);
        for directory in directories() {
            match fs::create_dir(path.join(directory)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // This syncs them, too.
        Replacement::of(&path.join(mark.file_name())).write(MARK_TEXT.as_bytes())?;
        Ok(depot)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
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

    /// The bytes of the block of this name, which nobody has looked at yet; none at all if they
    /// have another length. `None` if there is no such block here.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if the depot itself is not here.
    pub fn read(&self, name: &BlockName) -> io::Result<Option<Vec<u8>>> {
        match read(&self.path.join(object_name(&name.checksum)), name.length) {
            Ok(bytes) => Ok(Some(bytes.unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.check().map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a block; it outlasts a loss of power when this returns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, block: &Block) -> io::Result<()> {
        write(&self.path.join(object_name(&block.name().checksum)), block.bytes(), true)
    }

    /// Removes the block of this name, if it is there.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &BlockName) -> io::Result<()> {
        match fs::remove_file(self.path.join(object_name(&name.checksum))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
    };

    use super::*;

    #[test]
    fn what_is_missing_is_told_from_a_depot_that_is_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("depot");
        let away = |result: io::Result<_>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::NotFound);
        };
        away(KeptDepot::begin(&path, Mark(7)).map(drop));
        fs::create_dir(&path).unwrap();
        let depot = KeptDepot::begin(&path, Mark(7)).unwrap();
        let sequence = DegreeSequence::new([4; 11]);
        let slots = Vec::from_iter(0..1000).into_iter();
        let table =
            BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, slots, |_, bytes| bytes.fill(1));
        let block = table.to_blocks(0).keys;
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
        // Of another census, or not mounted.
        away(KeptDepot::at(&path, Mark(8)).read(&name).map(drop));
        fs::remove_dir_all(&path).unwrap();
        away(depot.read(&name).map(drop));
    }
}
