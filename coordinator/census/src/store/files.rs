//! The files of a database, as RocksDB names them.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// Files of a directory whose names end like this, by the numbers that they are named after.
///
/// # Errors
///
/// The directory cannot be read.
pub(super) fn numbered(path: &Path, extension: &str) -> io::Result<BTreeMap<u64, PathBuf>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|e| e == extension)) {
            files.insert(number, path);
        }
    }
    Ok(files)
}

/// The number and the path of the manifest that is in use, if it says so.
///
/// # Errors
///
/// It cannot be read which one that is.
pub(super) fn manifest_in(directory: &Path) -> io::Result<Option<(u64, PathBuf)>> {
    let name = match std::fs::read(directory.join("CURRENT")) {
        Ok(name) => String::from_utf8(name).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = name.trim_end();
    let number = name.strip_prefix("MANIFEST-").and_then(|number| number.parse().ok());
    Ok(number.map(|number| (number, directory.join(name))))
}
