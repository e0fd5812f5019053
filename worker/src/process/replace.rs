//! Files that are replaced as a whole: whoever reads one finds the old or the new, never half.
//!
//! What is written lies beside the place, as `NAME.RANDOM.new`, and moves there when it is
//! complete. A symbolic link in the place is replaced; it is never written through.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// What the name of a file that is being written ends with.
pub const EXTENSION: &str = "new";

/// A file about to be replaced.
pub struct Replacement {
    path: PathBuf,
    mode: u32,
    durable: bool,
    replaces: bool,
}

impl Replacement {
    /// A replacement of the file at `path`, which need not exist. Its permissions are those of the
    /// old file, or follow the umask, and it outlasts a loss of power.
    pub fn of(path: &Path) -> Self {
        Replacement { path: path.to_owned(), mode: 0o666, durable: true, replaces: true }
    }

    /// Only its owner may use the file.
    pub fn private(self) -> Self {
        Replacement { mode: 0o600, ..self }
    }

    fn is_private(&self) -> bool {
        self.mode & 0o077 == 0
    }

    /// Does not wait for the disk: a loss of power may damage the file or undo the replacement.
    pub fn fleeting(self) -> Self {
        Replacement { durable: false, ..self }
    }

    /// Replaces nothing: if there is a file already, that is an error, and the file stays.
    pub fn unless_there(self) -> Self {
        Replacement { replaces: false, ..self }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written: the old file is unchanged then, and nothing is left beside it. Or
    /// if the new file is in place and the disk does not say that it will outlast a loss of power.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        self.fill(|out| out.write_all(bytes))
    }

    /// Writes the file as `fill` does.
    ///
    /// # Errors
    /// Those of `fill`, and those of [`Replacement::write`].
    pub fn fill<E: From<io::Error>>(
        self,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let directory = directory_of(&self.path);
        // Errors of making and of writing it are those of the system. Those of `tempfile` name the
        // file, of which nobody has heard.
        let create =
            |path: &Path| File::options().write(true).create_new(true).mode(self.mode).open(path);
        let file = tempfile::Builder::new()
            .prefix(&prefix(&self.path))
            .suffix(&format!(".{EXTENSION}"))
            .make_in(directory, create)?;
        if let Ok(old) = fs::symlink_metadata(&self.path)
            && old.is_file()
            && !self.is_private()
        {
            // Of another owner's file they may be more than this process may give.
            let _ = file.as_file().set_permissions(old.permissions());
        }
        let mut out = BufWriter::new(file.as_file());
        fill(&mut out)?;
        out.flush()?;
        drop(out);
        Ok(self.place(file, directory)?)
    }

    fn place(&self, file: NamedTempFile, directory: &Path) -> io::Result<()> {
        if self.durable {
            file.as_file().sync_all()?;
        }
        match self.replaces {
            true => file.persist(&self.path),
            false => file.persist_noclobber(&self.path),
        }
        .map_err(|error| error.error)?;
        if self.durable { sync_directory(directory) } else { Ok(()) }
    }
}

/// Whether this is the name of a file that is being written, or that its writer has left
/// unfinished.
pub fn is_unfinished(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == EXTENSION)
}

/// Removes unfinished replacements of this file, which processes that were killed have left.
///
/// # Errors
/// If the directory cannot be read.
pub fn sweep(path: &Path) -> io::Result<()> {
    let prefix = prefix(path);
    for entry in fs::read_dir(directory_of(path))?.flatten() {
        let name = entry.file_name();
        let ours = name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
        if ours && is_unfinished(Path::new(&name)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Makes the names in a directory outlast a loss of power: files created, renamed or removed
/// before this returns stay so. Waits for the disk.
///
/// # Errors
/// If the directory cannot be opened, or the disk reports an error.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // Some file systems, mostly network ones, cannot sync a directory, and need not.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// The directory that something lies in.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn prefix(path: &Path) -> OsString {
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    prefix
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status.json");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        Replacement::of(&path).write(b"old").unwrap();
        assert_eq!(mode(&path) & 0o600, 0o600);
        Replacement::of(&path).private().write(b"secret").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"secret".to_vec(), 0o600));
        Replacement::of(&path).write(b"secret").unwrap();
        assert_eq!(mode(&path), 0o600, "nobody has asked for more readers");
        let failed: io::Result<()> = Replacement::of(&path).fill(|out| {
            out.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        assert_eq!(names(directory.path()), ["status.json"]);
        // What the system says, as it says it.
        let nowhere = Replacement::of(&directory.path().join("nowhere/x")).write(b"");
        assert_eq!(nowhere.unwrap_err().raw_os_error(), Some(2));
    }

    #[test]
    fn a_link_is_replaced_and_not_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let [path, precious, dangling] =
            ["access.json", "precious", "nowhere"].map(|name| directory.path().join(name));
        fs::write(&precious, "precious").unwrap();
        for target in [&precious, &dangling] {
            let _ = fs::remove_file(&path);
            symlink(target, &path).unwrap();
            Replacement::of(&path).private().write(b"new").unwrap();
            assert!(path.symlink_metadata().unwrap().is_file());
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(!dangling.exists());
    }

    #[test]
    fn what_killed_writers_left_is_swept() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["status.json.a1.new", "status.json", "status.json.old", "other.json.a1.new"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        sweep(&directory.path().join("status.json")).unwrap();
        assert_eq!(
            names(directory.path()),
            ["other.json.a1.new", "status.json", "status.json.old"]
        );
    }
}
