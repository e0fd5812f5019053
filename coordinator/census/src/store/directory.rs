//! A data directory: the store, a lock that keeps a second process out, and a snapshot of the
//! status for those who look on.

use std::{
    borrow::Cow,
    fmt,
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use trailtrap_shared::{class::Class, game::GameName, plan::Goal};
use trailtrap_worker::process::{
    open,
    replace::{self, sync_directory},
};

use super::{Store, StoreError, journal};

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process has it.
    #[error(
        "data directory {path} is in use by process {process}; wait for it, choose another \
         --data, or look on with `trailtrap status --data {quoted}`",
        quoted = quoted(.path)
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The number of the process; `?` if it is not known.
        process: String,
    },
    /// It is not empty and was never a data directory.
    #[error("{path} holds other files and no census; choose an empty or new directory for --data")]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// It has neither lock nor store, so there never was a census.
    #[error("there is no census in {path}")]
    Nothing {
        /// The directory.
        path: PathBuf,
    },
    /// The system does not let it be used.
    #[error("cannot use data directory {path}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The data directory, if none is named.
pub const USUAL_DATA: &str = "trailtrap-data";

/// A path as a shell reads it, for a command that is recommended.
pub fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    shlex::try_quote(&path).map_or_else(|_| path.to_string(), Cow::into_owned)
}

/// Names another data directory than [`USUAL_DATA`].
pub const DATA_VARIABLE: &str = "TRAILTRAP_DATA";

/// The flag that names a data directory in a command that is recommended, with a space before it;
/// nothing for the usual one, if no other is named by [`DATA_VARIABLE`].
#[derive(Debug)]
pub struct DataFlag(PathBuf);

impl DataFlag {
    /// That of the directory in which this store is.
    pub fn of(store: &Store) -> Self {
        DataFlag(store.path().parent().unwrap_or(store.path()).to_owned())
    }

    /// Where [`DATA_VARIABLE`] names a directory, or not.
    fn text(&self, is_named: bool) -> String {
        match !is_named && self.0 == Path::new(USUAL_DATA) {
            true => String::new(),
            false => format!(" --data {}", quoted(&self.0)),
        }
    }
}

impl fmt::Display for DataFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(std::env::var_os(DATA_VARIABLE).is_some()))
    }
}

/// What is known of a census before it is taken up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The game that it is about.
    pub game: GameName,
    /// The class of the graphs that it is about.
    pub class: Class,
    /// Where it has kept its larger blocks.
    pub kept: Kept,
    /// Whether something lies on shelves, or is in work and may come to lie there.
    pub needs_shelves: bool,
    /// Whether all is done that it is to do.
    pub is_done: bool,
}

/// Where a census keeps its larger blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In its data directory.
    Here,
    /// In this depot.
    InDepot(PathBuf),
    /// On the shelves of its workers.
    OnShelves,
}

/// Locked by who has the directory. Whoever may open it could keep others out, so only those may
/// who may write it.
pub const LOCK: &str = "LOCK";
/// The snapshot that a run leaves for onlookers.
pub const STATUS: &str = "status.json";
/// The access file for workers.
pub const ACCESS: &str = "access.json";
/// The access file for those who only look on.
pub const VIEWER: &str = "viewer.json";
/// What neither of them may know.
pub const SECRETS: &str = "secrets.json";
/// The database.
pub const STORE: &str = "store";
const SALVAGED: &str = "store.salvaged";
/// How long to wait for a lock that may only be an onlooker's.
const PATIENCE: Duration = Duration::from_secs(2);

/// A data directory that this process has for itself.
pub struct DataDirectory {
    path: PathBuf,
    /// Locked for as long as it is open; goes with the process, however that ends.
    _lock: File,
}

impl DataDirectory {
    /// Takes a directory, made if need be.
    ///
    /// # Errors
    ///
    /// Another process has it, it holds something else, or it cannot be written.
    pub fn take(path: &Path) -> Result<Self, DirectoryError> {
        let io = |source| DirectoryError::Io { path: path.to_owned(), source };
        open::make_directory(path).map_err(io)?;
        // A copy may lack the lock, which only its owner can read.
        let is_there = |path: PathBuf| match path.try_exists() {
            // Something else has the name of a directory that it would lie in.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            found => found.map_err(io),
        };
        let is_in_store = |name: &str| is_there(store_in(path).join(name));
        let is_known =
            is_there(path.join(LOCK))? || is_in_store("CURRENT")? || is_in_store(journal::NAME)?;
        let is_empty = || Ok(fs::read_dir(path).map_err(io)?.next().is_none());
        // A database by itself has a lock of that name, too.
        if is_there(path.join("CURRENT"))? || !is_known && !is_empty()? {
            return Err(DirectoryError::Foreign { path: path.to_owned() });
        }
        let directory = DataDirectory { path: path.to_owned(), _lock: lock(path)? };
        // The snapshot of an earlier run, and what that run left if it was killed writing a file.
        let _ = fs::remove_file(path.join(STATUS));
        for name in [STATUS, SECRETS, ACCESS, VIEWER] {
            let _ = replace::sweep(&path.join(name));
        }
        directory.keep_others_out();
        let (store, salvaged) = (directory.store(), directory.salvaged());
        if is_there(salvaged.clone())? {
            // Without a store, an empty one would take the place of what was salvaged. Beside a
            // store, which may have changed since, it is one more remainder.
            let place = match is_there(store.clone())? {
                true => store.with_extension("salvaging"),
                false => store,
            };
            if is_there(place.clone())? {
                fs::remove_dir_all(&place).map_err(io)?;
            }
            directory.rename(&salvaged, &place).map_err(io)?;
        }
        // What a salvage left that was interrupted: the next one begins anew.
        for remains in
            ["salvaging", "rebuilt", "new"].map(|of| directory.store().with_extension(of))
        {
            if is_there(remains.clone())? {
                fs::remove_dir_all(remains).map_err(io)?;
            }
        }
        Ok(directory)
    }

    /// What is known of the census that is here, which is to do this; `None` if none is begun.
    ///
    /// # Errors
    ///
    /// The store cannot be opened or read.
    pub fn begun(&self, goal: Goal) -> Result<Option<Begun>, StoreError> {
        if !self.store().try_exists()? {
            return Ok(None);
        }
        let store = Store::open_read_only(&self.store())?;
        let kept = match store.depot() {
            Some(depot) => Kept::InDepot(depot.place().to_owned()),
            None if store.is_on_shelves() => Kept::OnShelves,
            None => Kept::Here,
        };
        // What lies there is looked for last: that may take a while.
        let needs_shelves =
            store.is_on_shelves() && (store.has_order_in_work()? || store.needs_shelves()?);
        let (game, class) = (store.game(), store.class());
        let is_done = store.has_results(goal.of_class(class))?;
        Ok(Some(Begun { game, class, kept, needs_shelves, is_done }))
    }

    /// Where the database is.
    pub fn store(&self) -> PathBuf {
        self.path.join(STORE)
    }

    /// Sees to it that the database's own lock, too, is only for those who may write it.
    pub fn keep_others_out(&self) {
        let _ = open::locked_only_for_writers(&self.store().join(LOCK));
    }

    /// Where a database that `trailtrap salvage` has completed is until it takes the place of the
    /// damaged one.
    pub fn salvaged(&self) -> PathBuf {
        self.path.join(SALVAGED)
    }

    /// Gives something in the directory another name; one that outlasts a loss of power.
    ///
    /// # Errors
    ///
    /// What the system says. The name may have changed all the same, if it could not be synced.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_directory(&self.path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The lock of a directory, which this process has from now on, with its number in it.
fn lock(path: &Path) -> Result<File, DirectoryError> {
    let io = |source| DirectoryError::Io { path: path.to_owned(), source };
    let mut lock = open::lock_file(&path.join(LOCK)).map_err(io)?;
    let start = Instant::now();
    let locked = loop {
        match lock.try_lock() {
            // Perhaps somebody just looks on, which takes a moment.
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                std::thread::sleep(PATIENCE / 20)
            }
            other => break other,
        }
    };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            lock.read_to_string(&mut process).map_err(io)?;
            let process =
                if process.trim().is_empty() { "?".to_owned() } else { process.trim().to_owned() };
            return Err(DirectoryError::InUse { path: path.to_owned(), process });
        }
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    let written = lock
        .set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| writeln!(lock, "{}", std::process::id()));
    // On a full disk the lock holds all the same, just without a name.
    if let Err(error) = written {
        tracing::debug!(%error, "cannot note the process in the lock");
    }
    Ok(lock)
}

/// Where the database of a directory is, to read from: under another name if a salvage was
/// interrupted when it was complete.
pub fn store_in(path: &Path) -> PathBuf {
    let (store, salvaged) = (path.join(STORE), path.join(SALVAGED));
    if !store.exists() && salvaged.exists() { salvaged } else { store }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    /// The database has a lock of its own, where that of the directory does not reach.
    #[test]
    fn the_lock_of_the_database_outlasts_its_change_of_permissions() {
        let data = tempfile::tempdir().unwrap();
        let directory = DataDirectory::take(data.path()).unwrap();
        let _store = Store::open(&directory.store(), None, None).unwrap();
        let lock = directory.store().join(LOCK);
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
        directory.keep_others_out();
        let metadata = fs::metadata(&lock).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let inode = format!(":{} ", metadata.ino());
        let is_held = |line: &str| line.contains("POSIX") && line.contains(&inode);
        assert!(locks.lines().any(is_held), "{locks}");
    }

    /// A command that is recommended can be copied into a shell.
    #[test]
    fn a_directory_is_named_as_a_shell_reads_it() {
        assert_eq!(quoted(Path::new("/data/eleven-2")), "/data/eleven-2");
        assert_eq!(DataFlag("my runs".into()).text(false), " --data 'my runs'");
        assert_eq!(DataFlag(USUAL_DATA.into()).text(false), "");
        assert_eq!(DataFlag(USUAL_DATA.into()).text(true), " --data trailtrap-data");
        for path in ["a b", "a'b", "$HOME", "a\"b", "*", "it's \"11\""] {
            assert_eq!(shlex::split(&quoted(Path::new(path))), Some(vec![path.to_owned()]));
        }
    }
}
