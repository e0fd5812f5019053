//! Work without a network: units go out, and results come back, as files of a directory, which may be shared or carried.
//!
//! Where there is a network, a *courier* leases units, writes each lease and all that it reads into a file `NUMBER.task`, and
//! delivers the `NUMBER.result` that comes back. Where there is none, a worker takes a task by renaming it to `NUMBER.taken`,
//! solves it and leaves the result. Every file appears complete, by a rename. What the files hold are messages of the protocol,
//! each after its length, and they are checked like messages.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use prost::Message;
use trailtrap_shared::{game::TrailTrap, partition::Block, plan::Plan, wire};

use crate::{
    cache::{Fetch, Wanted},
    client::{GrpcLink, PlanKeeper},
    engine::{Delivered, Ended, Grant, Lease, Link, LinkError, Unsolved},
    messages,
    solve::{Solved, SourceError},
};

/// How often files are looked for.
const PAUSE: Duration = Duration::from_millis(100);
/// A task that was taken, and whose taker has not touched it for so long, is put out again.
const SILENCE: Duration = Duration::from_secs(120);
/// Left when there will be no more tasks.
const FINISHED: &str = "finished";

/// Why files are of no use.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    #[error("cannot use {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{0} is in use by another courier")]
    InUse(PathBuf),
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
}

impl From<OfflineError> for LinkError {
    fn from(error: OfflineError) -> Self {
        LinkError::Refused(error.to_string())
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> OfflineError {
    move |source| OfflineError::Io { path: path.to_owned(), source }
}

/// Writes a file that nobody sees before it is complete.
fn write(path: &Path, bytes: &[u8]) -> Result<(), OfflineError> {
    let new = path.with_extension("new");
    fs::write(&new, bytes).and_then(|()| fs::rename(&new, path)).map_err(at(path))
}

/// The next message of `bytes`; `None` at their end.
fn next<M: Message + Default>(path: &Path, bytes: &mut &[u8]) -> Result<Option<M>, OfflineError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let damaged = |error: prost::DecodeError| OfflineError::Damaged { path: path.to_owned(), what: error.to_string() };
    M::decode_length_delimited(bytes).map(Some).map_err(damaged)
}

/// The files of a directory with this extension, by number.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, OfflineError> {
    let mut found: Vec<(u64, PathBuf)> = fs::read_dir(directory)
        .map_err(at(directory))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.parse().ok()?, path)))
        .collect();
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Carries leases to a directory, and their results back, until everything is done or `stop` is set. Up to `slots` tasks lie
/// there at a time.
pub fn carry(link: &GrpcLink, directory: &Path, slots: usize, stop: &AtomicBool) -> Result<Ended, LinkError> {
    fs::create_dir_all(directory).map_err(at(directory))?;
    let place = directory.join("courier");
    let lock = File::options().create(true).truncate(false).write(true).open(&place).map_err(at(&place))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OfflineError::InUse(directory.to_owned()).into()),
        Err(TryLockError::Error(source)) => return Err(at(&place)(source).into()),
    }
    // What an earlier courier left is not leased any more.
    for extension in ["task", "taken", "result"] {
        files(directory, extension)?.iter().for_each(|path| drop(fs::remove_file(path)));
    }
    let _ = fs::remove_file(directory.join(FINISHED));
    let finished = AtomicBool::new(false);
    let slot = || -> Result<(), LinkError> {
        while !stop.load(Ordering::Relaxed) {
            match link.lease()? {
                Grant::Finished => {
                    finished.store(true, Ordering::Relaxed);
                    stop.store(true, Ordering::Relaxed);
                }
                Grant::Wait => {}
                Grant::Work(lease) => carry_lease(link, directory, &lease, stop)?,
            }
        }
        Ok(())
    };
    // As in the engine: the others stop too, and an error after a wanted stop is none.
    let slot = || slot().or_else(|error| if stop.swap(true, Ordering::Relaxed) { Ok(()) } else { Err(error) });
    std::thread::scope(|scope| {
        let slots: Vec<_> = (0..slots).map(|_| scope.spawn(slot)).collect();
        slots.into_iter().try_for_each(|slot| slot.join().expect("slots do not panic"))
    })?;
    if !finished.load(Ordering::Relaxed) {
        return Ok(Ended::Stopped);
    }
    write(&directory.join(FINISHED), b"")?;
    Ok(Ended::Finished)
}

fn carry_lease(link: &GrpcLink, directory: &Path, lease: &Lease, stop: &AtomicBool) -> Result<(), LinkError> {
    let [task, taken, result] =
        ["task", "taken", "result"].map(|extension| directory.join(format!("{}.{extension}", lease.number)));
    match pack(link, lease) {
        Ok(bytes) => write(&task, &bytes)?,
        Err(error) => {
            link.give_back(lease, Unsolved::Failed(&error.to_string()));
            return match error.downcast::<LinkError>() {
                Ok(lost) => Err(*lost),
                Err(error) => Err(LinkError::Refused(error.to_string())),
            };
        }
    }
    let clean = || [&task, &taken, &result].map(|path| drop(fs::remove_file(path)));
    while !stop.load(Ordering::Relaxed) {
        if let Ok(bytes) = fs::read(&result) {
            let delivered = unpack_result(&result, &bytes, lease).map_err(LinkError::from);
            clean();
            link.deliver(lease, delivered?)?;
            return Ok(());
        }
        let silent = |file: fs::Metadata| file.modified().ok()?.elapsed().ok().map(|elapsed| elapsed > SILENCE);
        if fs::metadata(&taken).ok().and_then(silent) == Some(true) {
            tracing::warn!(lease = lease.number, "nothing was heard of a task that was taken; it is put out again");
            let _ = fs::rename(&taken, &task);
        }
        std::thread::sleep(PAUSE);
    }
    clean();
    link.give_back(lease, Unsolved::Leaving("the courier was asked to stop"));
    Ok(())
}

/// The lease, and all that its units read.
fn pack(link: &GrpcLink, lease: &Lease) -> Result<Vec<u8>, SourceError> {
    let plan = &lease.plan;
    let mut bytes = messages::grant(lease.number, plan, &lease.units, lease.edition).encode_length_delimited_to_vec();
    let mut seen = HashSet::new();
    let mut add = |wanted: Wanted| -> Result<(), SourceError> {
        if seen.insert(wanted) {
            let blocks = link.fetch(&[wanted])?.concat().into_iter().map(Block::into_bytes).collect();
            let input = wire::Input { request: Some(messages::request(0, &wanted, &[])), blocks };
            bytes.extend(input.encode_length_delimited_to_vec());
        }
        Ok(())
    };
    for unit in &lease.units {
        let shard = &plan.shards[unit.shard as usize];
        shard.sequence.parents().iter().try_for_each(|parent| add(Wanted::Parents(parent.sequence)))?;
        for &predecessor in &shard.predecessors {
            let predecessor = &plan.shards[predecessor as usize];
            let mut buckets = 0..1u32 << predecessor.bucket_bits;
            buckets.try_for_each(|bucket| add(Wanted::Bucket(predecessor.sequence, bucket)))?;
        }
    }
    Ok(bytes)
}

/// The messages of a result, which have to be those of the lease.
fn unpack_result(path: &Path, mut bytes: &[u8], lease: &Lease) -> Result<Vec<wire::CompleteRequest>, OfflineError> {
    use wire::complete_request::Part;
    let mut messages: Vec<wire::CompleteRequest> = Vec::new();
    while let Some(message) = next(path, &mut bytes)? {
        messages.push(message);
    }
    match messages.first_mut().and_then(|message| message.part.as_mut()) {
        // The courier may be known by another number by now.
        Some(Part::Start(start)) if start.lease == lease.number => start.worker = lease.worker,
        _ => {
            return Err(OfflineError::Damaged { path: path.to_owned(), what: "it belongs to another task".to_owned() });
        }
    }
    Ok(messages)
}

/// What a task reads.
type Inputs = HashMap<Wanted, Vec<Block>>;

/// The link of a worker without network.
pub struct FileLink {
    directory: PathBuf,
    plans: PlanKeeper,
    /// The tasks in work.
    tasks: Mutex<HashMap<u64, Arc<Inputs>>>,
}

impl FileLink {
    /// A link to the directory of a courier.
    pub fn new(directory: PathBuf) -> Self {
        FileLink { directory, plans: PlanKeeper::default(), tasks: Mutex::default() }
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Inputs>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, number: u64, extension: &str) -> PathBuf {
        self.directory.join(format!("{number}.{extension}"))
    }

    fn open(&self, path: &Path) -> Result<(Lease, Inputs), LinkError> {
        let damaged = |what: String| OfflineError::Damaged { path: path.to_owned(), what };
        let bytes = fs::read(path).map_err(at(path))?;
        let mut rest = &bytes[..];
        let grant: wire::Grant = next(path, &mut rest)?.ok_or_else(|| damaged("it is empty".to_owned()))?;
        if path.file_stem().and_then(|stem| stem.to_str()) != Some(grant.lease.to_string().as_str()) {
            return Err(damaged("it is another task than its name says".to_owned()).into());
        }
        let plan: Arc<Plan> = self.plans.agree(&grant)?;
        let mut inputs = Inputs::new();
        while let Some(input) = next::<wire::Input>(path, &mut rest)? {
            let wanted = messages::wanted(&input.request.unwrap_or_default());
            let wanted = wanted.map_err(|error| damaged(error.to_string()))?;
            let blocks: Result<Vec<Block>, _> = input.blocks.into_iter().map(Block::parse::<TrailTrap>).collect();
            inputs.insert(wanted, blocks.map_err(|error| damaged(error.to_string()))?);
        }
        Ok((
            Lease { number: grant.lease, worker: 0, plan, units: messages::units(&grant), edition: grant.edition },
            inputs,
        ))
    }

    /// Shows that the tasks in work are in work, for as long as the link exists; to be spawned on a runtime.
    pub fn heartbeats(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let weak = Arc::downgrade(self);
        async move {
            while let Some(link) = weak.upgrade() {
                for number in link.tasks().keys() {
                    if let Ok(file) = File::options().append(true).open(link.path(*number, "taken")) {
                        let _ = file.set_modified(std::time::SystemTime::now());
                    }
                }
                drop(link);
                tokio::time::sleep(SILENCE / 6).await;
            }
        }
    }

    fn blocks(&self, wanted: &Wanted) -> Result<Vec<Block>, SourceError> {
        let tasks: Vec<Arc<Inputs>> = self.tasks().values().cloned().collect();
        let found = tasks.iter().find_map(|inputs| inputs.get(wanted));
        Ok(found.ok_or_else(|| format!("no task in work holds partition {}", wanted.sequence()))?.clone())
    }
}

impl Link for FileLink {
    fn lease(&self) -> Result<Grant, LinkError> {
        for task in files(&self.directory, "task")? {
            let taken = task.with_extension("taken");
            // Somebody else may be quicker.
            if fs::rename(&task, &taken).is_ok() {
                let (lease, inputs) = self.open(&taken)?;
                self.tasks().insert(lease.number, Arc::new(inputs));
                return Ok(Grant::Work(lease));
            }
        }
        if self.directory.join(FINISHED).exists() {
            return Ok(Grant::Finished);
        }
        std::thread::sleep(PAUSE);
        Ok(Grant::Wait)
    }

    fn complete(&self, lease: &Lease, results: &[Solved]) -> Result<Delivered, LinkError> {
        let mut bytes = Vec::new();
        let blocks = results.iter().map(Solved::blocks::<TrailTrap>).collect();
        for message in messages::delivery(lease, results, blocks) {
            bytes.extend(message.encode_length_delimited_to_vec());
        }
        self.tasks().remove(&lease.number);
        let taken = self.path(lease.number, "taken");
        if !taken.exists() {
            return Ok(Delivered::Void);
        }
        write(&self.path(lease.number, "result"), &bytes)?;
        Ok(Delivered::Accepted { retired: Vec::new() })
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn pipeline(&self) -> usize {
        1
    }

    fn give_back(&self, lease: &Lease, reason: Unsolved) {
        self.tasks().remove(&lease.number);
        tracing::info!(task = lease.number, %reason, "put a task back");
        let _ = fs::rename(self.path(lease.number, "taken"), self.path(lease.number, "task"));
    }
}

impl Fetch for FileLink {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        wanted.iter().map(|wanted| self.blocks(wanted)).collect()
    }
}
