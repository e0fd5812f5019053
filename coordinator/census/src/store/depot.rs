//! Blocks that lie in a depot, and what the database has in their place: a *reference*, the name
//! of the block.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use trailtrap_shared::partition::{BlockName, Checksum};
use trailtrap_worker::supply::kept::{KeptDepot, Mark};

/// The key of the record that says where blocks are kept, if that is a depot.
pub(super) const DEPOT: &[u8] = b"depot";

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
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
        || error.kind() == io::ErrorKind::InvalidInput
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
