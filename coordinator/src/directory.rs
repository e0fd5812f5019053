//! A data directory: the store, a lock that keeps a second process out, and a snapshot of the
//! status for those who look on.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    census::CensusError,
    status::{OrderStatus, Status},
    store::Store,
};

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error(
        "data directory {path} is in use by process {process}; wait for it, choose another \
         --data, or look on with `trailtrap status --data {path}`"
    )]
    InUse { path: PathBuf, process: String },
    #[error("{path} holds other files and no census; choose an empty or new directory for --data")]
    Foreign { path: PathBuf },
    #[error("there is no census in {path}")]
    Nothing { path: PathBuf },
    #[error("cannot use data directory {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

const STORE: &str = "store";
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
    pub fn take(path: &Path) -> Result<Self, DirectoryError> {
        let io = |source| DirectoryError::Io { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(io)?;
        let foreign =
            !path.join("LOCK").exists() && fs::read_dir(path).map_err(io)?.next().is_some();
        if foreign {
            return Err(DirectoryError::Foreign { path: path.to_owned() });
        }
        let mut lock = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join("LOCK"))
            .map_err(io)?;
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
                let process = if process.trim().is_empty() {
                    "?".to_owned()
                } else {
                    process.trim().to_owned()
                };
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
        // The snapshot of an earlier run.
        let _ = fs::remove_file(path.join("status.json"));
        let directory = DataDirectory { path: path.to_owned(), _lock: lock };
        if !directory.store().exists() && directory.salvaged().exists() {
            // Otherwise an empty store would take the place of what was salvaged.
            directory.rename(&directory.salvaged(), &directory.store()).map_err(io)?;
        }
        Ok(directory)
    }

    /// Whether all orders up to this one are done.
    pub fn has_results(&self, order: usize) -> Result<bool, CensusError> {
        if !self.store().exists() {
            return Ok(false);
        }
        let store = Store::open_read_only(&self.store())?;
        for n in 1..=order {
            if store.order(n)?.is_none_or(|record| record.result.is_none()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where the database is.
    pub fn store(&self) -> PathBuf {
        self.path.join(STORE)
    }

    /// Where a database that `trailtrap salvage` has completed is until it takes the place of the
    /// damaged one.
    pub fn salvaged(&self) -> PathBuf {
        self.path.join(SALVAGED)
    }

    /// Gives something in the directory another name; one that outlasts a loss of power.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        File::open(&self.path)?.sync_all()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves a snapshot for onlookers.
    pub fn publish(&self, status: &Status) {
        if let Err(error) = status.write(&self.path.join("status.json")) {
            tracing::debug!(%error, "cannot write the status");
        }
    }
}

/// Where the database of a directory is, to read from: under another name if a salvage was
/// interrupted when it was complete.
pub fn store_in(path: &Path) -> PathBuf {
    let (store, salvaged) = (path.join(STORE), path.join(SALVAGED));
    if !store.exists() && salvaged.exists() { salvaged } else { store }
}

/// Looks at a directory, in use or not, without disturbing it.
pub fn look(path: &Path) -> Result<Status, anyhow::Error> {
    let io = |source| DirectoryError::Io { path: path.to_owned(), source };
    let lock = match File::open(path.join("LOCK")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DirectoryError::Nothing { path: path.to_owned() }.into());
        }
        Err(error) => return Err(io(error).into()),
    };
    let in_use = matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock));
    let snapshot = fs::read(path.join("status.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Status>(&bytes).ok());
    if in_use {
        return Ok(snapshot.unwrap_or(Status { running: true, ..Status::default() }));
    }
    let store = store_in(path);
    if !store.exists() {
        return Ok(Status::default());
    }
    // Nobody writes: the store itself knows best.
    let store = Store::open_read_only(&store).map_err(CensusError::from)?;
    let mut status = Status {
        target_order: snapshot.map_or(0, |s| s.target_order),
        alarms: store.alarms().map_err(CensusError::from)?,
        ..Status::default()
    };
    for order in 1.. {
        match store.order(order).map_err(CensusError::from)? {
            None => break,
            Some(record) if record.result.is_some() => status.orders_done.push(order),
            Some(record) => status.order = Some(order_status(&store, order, record.options)?),
        }
        status.target_order = status.target_order.max(order);
    }
    Ok(status)
}

fn order_status(
    store: &Store,
    order: usize,
    options: trailtrap_shared::plan::PlanOptions,
) -> Result<OrderStatus, CensusError> {
    let plan =
        trailtrap_shared::plan::Plan::new::<trailtrap_shared::game::TrailTrap>(order, options);
    let (graphs, pairs) = crate::census::totals(order);
    let mut status =
        OrderStatus { order, shards: plan.shards.len(), graphs, pairs, ..OrderStatus::default() };
    let mut parts_done = vec![0; plan.shards.len()];
    for (unit, record) in store.units(order)? {
        let Some(shard) = plan.shards.get(unit.shard as usize) else { continue };
        let graphs = record.statistics.classes.all.graphs as u64;
        status.graphs_done += graphs;
        status.pairs_done += graphs * shard.size as u64;
        parts_done[unit.shard as usize] += 1;
        status.shards_done += usize::from(parts_done[unit.shard as usize] == shard.parts);
    }
    Ok(status)
}
