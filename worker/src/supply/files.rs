//! Objects as files of a directory: where each is, and how it is read and written.

use std::{fs, io, path::Path};

use trailtrap_shared::partition::Checksum;

use crate::process::{open, replace::Replacement};

/// The directories in which the objects are.
pub(super) fn directories() -> impl Iterator<Item = String> {
    (0..=u8::MAX).map(|first| format!("{first:02x}"))
}

/// Where the block with this checksum is.
pub(super) fn object_name(checksum: &Checksum) -> String {
    let name = checksum.to_string();
    format!("{}/{name}", &name[..2])
}

/// The checksum of the block whose file has this name.
pub(super) fn checksum_of_object(name: &str) -> Option<Checksum> {
    let number = u128::from_str_radix(name, 16).ok()?;
    let checksum = Checksum(number.to_be_bytes());
    (checksum.to_string() == name).then_some(checksum)
}

/// The object in a file; `None` if it has another length: it is not what was looked for then, and
/// may be too large to read.
pub(super) fn read(path: &Path, length: u64) -> io::Result<Option<Vec<u8>>> {
    match open::regular(path) {
        Ok((file, metadata)) if metadata.len() == length => {
            open::read_on(&file, length, length).map(Some)
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes an object as a whole; if it is to be durable, it outlasts a loss of power then.
pub(super) fn write(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    if durable {
        // Where a census keeps its blocks the directory is there, unless the depot is away.
        return Replacement::of(path).write(bytes);
    }
    // Only the last directory is made: if the depot itself is gone, it may be about to return.
    match path.parent().map(fs::create_dir) {
        Some(Err(error)) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    Replacement::of(path).fleeting().write(bytes)
}
