//! Work without a network: units go out, and results come back, as files of a directory, which may
//! be shared or carried.
//!
//! Where there is a network, a *courier* leases units, writes each lease and all that it reads into
//! a file `NUMBER.task`, and delivers the `NUMBER.result` that comes back. Where there is none, a
//! worker takes a task by renaming it to `NUMBER.taken`, solves it and leaves the result. Every
//! file appears complete, by a rename. What the files hold are messages of the protocol, each after
//! its length, and they are checked like messages; each of a task is followed by its checksum, and
//! all of a result together, so that nobody is blamed for a file that was damaged on its way. A
//! task that is of no use is set aside as `NUMBER.damaged`, and the courier gives its lease back;
//! one that the system does not let a worker read is left to others, unless it could read others.
//! Others may put anything into the directory: what is no regular file, or is too large, is not
//! read, and a directory that is in the way is renamed. No time that one machine says is compared
//! with that of another. What a unit reads may be much larger than a machine's memory: neither the
//! courier nor the worker holds more of a task at a time than a bucket or a list of parents.

mod courier;
mod directory;
mod format;

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Instant, SystemTime},
};

use parking_lot::Mutex;
use trailtrap_shared::{
    game::Layout,
    graph::degree::LabelledCounts,
    partition::Block,
    plan::Plan,
    protocol::{
        messages::{self, Wanted},
        wire,
    },
};

pub use self::{
    courier::carry,
    directory::{OfflineError, Patience},
};
use self::{
    directory::{
        COURIER, FINISHED, HEARTBEAT, PAUSE, SILENCE, THE_END, Watch, at, damaged, files,
        make_room, reading, write,
    },
    format::{Messages, decode_checked, pack_result},
};
use crate::{
    cache::Fetch,
    kernel::{SolvedUnit, SourceError},
    link::{Delivered, Grant, Lease, Link, LinkError, Unsolved, delivery, plans::PlanKeeper},
    process::open,
};

/// No lease, without what its units read, takes more bytes.
const GRANT_BYTES: u64 = 1 << 20;

/// What the units of a task read: where it is in the file of the task.
struct Inputs {
    path: PathBuf,
    file: File,
    layout: Layout,
    places: HashMap<Wanted, Range<u64>>,
}

impl Inputs {
    /// The blocks of what is wanted; `None` if the task does not have them.
    fn get(&self, wanted: &Wanted) -> Result<Option<Vec<Block>>, OfflineError> {
        let Some(place) = self.places.get(wanted) else { return Ok(None) };
        let mut bytes = vec![0; (place.end - place.start) as usize];
        self.file.read_exact_at(&mut bytes, place.start).map_err(reading(&self.path))?;
        let damaged = |what: String| damaged(&self.path, what);
        let input = decode_checked(&bytes).map_err(damaged)?;
        drop(bytes);
        blocks_of(self.layout, input).map(Some).map_err(damaged)
    }
}

/// The blocks of a message, if they are sound.
fn blocks_of(layout: Layout, input: wire::Input) -> Result<Vec<Block>, String> {
    let blocks = input.blocks.into_iter().map(|bytes| Block::parse(layout, bytes));
    blocks.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The link of a worker without network.
pub struct FileLink {
    directory: PathBuf,
    /// The layout of the game whose tasks it takes.
    layout: Layout,
    patience: Patience,
    plans: PlanKeeper,
    /// What tells how much a task may hold.
    counts: Mutex<LabelledCounts>,
    tasks: Mutex<Tasks>,
    /// Tells whether there is a courier.
    courier: Mutex<Watch>,
}

/// Tasks in work.
#[derive(Default)]
struct Tasks {
    /// The number of the courier that has carried them: the one whose task was opened last.
    courier: u64,
    /// By the numbers of their leases: later leases have larger numbers. `None` while they are being
    /// looked through.
    inputs: BTreeMap<u64, Option<Arc<Inputs>>>,
    /// Whether the system has let this worker read one, and has refused none since.
    are_read: bool,
    /// The first that it refused before: others may read it, and it is tried last.
    refused: Option<PathBuf>,
}

/// What to do about a task that this worker cannot use.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// It is of no use: others could be read.
    SetAside,
    /// It is left to others, and another one tried.
    PutBack,
    /// It is left to others by a worker that can read none.
    Leave,
}

impl Tasks {
    /// The system refuses to let a task be read.
    fn refuse(&mut self, task: PathBuf) -> Refused {
        match (std::mem::take(&mut self.are_read), &self.refused) {
            (true, _) => Refused::SetAside,
            (false, None) => {
                self.refused = Some(task);
                Refused::PutBack
            }
            (false, Some(_)) => Refused::Leave,
        }
    }

    /// A task has been opened. What another courier has carried is of no use any more, and may be of
    /// another census.
    fn begin(&mut self, lease: &Lease, inputs: Inputs) {
        if self.courier != lease.worker {
            self.inputs.retain(|_, inputs| inputs.is_none());
            self.courier = lease.worker;
        }
        self.are_read = true;
        self.inputs.insert(lease.number, Some(Arc::new(inputs)));
    }

    /// A task is not in work any more. Whether it was, and the files with its number are its own:
    /// another courier may have put out another task.
    fn end(&mut self, lease: &Lease) -> bool {
        self.courier == lease.worker && self.inputs.remove(&lease.number).is_some()
    }
}

impl FileLink {
    /// A link to the directory of a courier that carries tasks of a game.
    pub fn new(directory: PathBuf, layout: Layout, patience: Patience) -> Self {
        let plans = PlanKeeper::new(layout);
        let counts = Mutex::default();
        let (tasks, courier) = Default::default();
        FileLink { directory, layout, patience, plans, counts, tasks, courier }
    }

    fn path(&self, number: u64, extension: &str) -> PathBuf {
        self.directory.join(format!("{number}.{extension}"))
    }

    /// Takes the task of the smallest number by renaming it, and returns its new path.
    fn take(&self) -> Result<Option<PathBuf>, OfflineError> {
        let mut failed = None;
        let mut tasks = files(&self.directory, "task")?;
        let refused = self.tasks.lock().refused.clone();
        tasks.sort_by_key(|task| refused.as_ref() == Some(task));
        for task in tasks {
            let taken = task.with_extension("taken");
            let renamed = make_room(&taken).and_then(|()| fs::rename(&task, &taken));
            match renamed.map_err(at(&task)) {
                Ok(()) => return Ok(Some(taken)),
                Err(error) if error.is_missing() => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    fn open(&self, path: &Path) -> Result<(Lease, Inputs), OfflineError> {
        let (file, metadata) = open::regular(path).map_err(reading(path))?;
        let file_bytes = metadata.len();
        let mut messages = Messages::of(path, &file, file_bytes);
        let (grant, _): (wire::Grant, _) =
            messages.next(GRANT_BYTES)?.ok_or_else(|| damaged(path, "it is empty"))?;
        if path.file_stem().and_then(|stem| stem.to_str())
            != Some(grant.lease.to_string().as_str())
        {
            return Err(damaged(path, "it is another task than its name says"));
        }
        let plan: Arc<Plan> = self.plans.agree(&grant).map_err(OfflineError::Differ)?;
        let units = messages::units(&grant);
        let most = plan.most_input_bytes(&units, &mut self.counts.lock());
        if file_bytes > messages.place().saturating_add(most) {
            let what = format!("it has more bytes than it should, {most} at most");
            return Err(damaged(path, what));
        }
        let mut places = HashMap::new();
        // Each is looked at before any work is done, and let go.
        while let Some((input, place)) = messages.next::<wire::Input>(most)? {
            let wanted = messages::wanted(&input.request.clone().unwrap_or_default());
            let wanted = wanted.map_err(|error| damaged(path, error))?;
            blocks_of(self.layout, input).map_err(|what| damaged(path, what))?;
            places.insert(wanted, place);
        }
        let inputs = Inputs { path: path.to_owned(), file, layout: self.layout, places };
        let wire::Grant { lease: number, worker, edition, .. } = grant;
        Ok((Lease { number, worker, plan, units, edition }, inputs))
    }

    /// What there is to do when there is no task to take.
    fn without_task(&self) -> Result<Grant, LinkError> {
        let end = self.directory.join(FINISHED);
        let says = open::read(&end, THE_END.len() as u64);
        if says.is_ok_and(|text| text == THE_END) {
            tracing::info!(
                "the census is done, says {}; for another one start its courier first, which \
                 removes that file",
                end.display()
            );
            return Ok(Grant::Finished);
        }
        if self.tasks.lock().inputs.is_empty() && self.is_left_alone() {
            let place = self.directory.display();
            return Err(LinkError::Lost(format!("nothing is heard of a courier in {place}")));
        }
        std::thread::sleep(PAUSE);
        Ok(Grant::Wait)
    }

    /// Puts a task back that was taken and cannot be used for this reason, or sets it aside; an error
    /// if this worker can use none.
    fn do_without(&self, taken: &Path, error: OfflineError) -> Result<(), LinkError> {
        let task = taken.with_extension("task");
        let refused = match error {
            // For a worker of the right version.
            OfflineError::Differ(_) => Refused::Leave,
            // It may be sound: there was no time to find out.
            OfflineError::Io { .. } if self.patience.stop.is_cancelled() => Refused::PutBack,
            OfflineError::Io { .. } => self.tasks.lock().refuse(task.clone()),
            _ => Refused::SetAside,
        };
        if refused == Refused::SetAside {
            set_aside(taken, &error);
            return Ok(());
        }
        let _ = fs::rename(taken, task);
        if refused == Refused::Leave { Err(error.into()) } else { Ok(()) }
    }

    /// Shows that the tasks in work are in work, for as long as the link exists; to be spawned on
    /// a runtime.
    pub fn heartbeats(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let weak = Arc::downgrade(self);
        let is_told = Arc::new(AtomicBool::new(false));
        async move {
            while let Some(link) = weak.upgrade() {
                let numbers: Vec<u64> = link.tasks.lock().inputs.keys().copied().collect();
                // A file system may keep them waiting, and signals have to be heard meanwhile.
                let is_told = is_told.clone();
                let touch = move || {
                    for number in numbers {
                        let taken = link.path(number, "taken");
                        if let Err(error) = open::touch(&taken)
                            && error.kind() == io::ErrorKind::PermissionDenied
                            && !is_told.swap(true, Ordering::Relaxed)
                        {
                            tracing::warn!(
                                task = %taken.display(),
                                %error,
                                "a task in work cannot be touched, and may be given to others too: \
                                 let this user own or write the courier's files"
                            );
                        }
                    }
                };
                let _ = tokio::task::spawn_blocking(touch).await;
                tokio::time::sleep(HEARTBEAT).await;
            }
        }
    }

    /// What is wanted, from the task with the largest number that has it. Tasks of an older
    /// edition may hold other blocks; a unit of the newest edition finds its blocks in its own
    /// task, or in a later one of the same edition.
    fn blocks(&self, wanted: &Wanted) -> Result<Vec<Block>, SourceError> {
        let tasks: Vec<Arc<Inputs>> =
            self.tasks.lock().inputs.values().rev().flatten().cloned().collect();
        for inputs in tasks {
            if let Some(blocks) = self.patience.persist(|| inputs.get(wanted))? {
                return Ok(blocks);
            }
        }
        Err(format!("no task in work holds partition {}", wanted.sequence()).into())
    }

    /// Whether the courier has not been heard of for as long as it is waited for.
    fn is_left_alone(&self) -> bool {
        let touched = fs::symlink_metadata(self.directory.join(COURIER));
        let modified = touched.and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let silence = self.patience.lasts.max(SILENCE);
        self.courier.lock().is_silent(Some(modified), Instant::now(), silence)
    }
}

/// Renames a task that was taken to `NUMBER.damaged`, for people and the courier to look at,
/// because other workers could not use it either.
fn set_aside(taken: &Path, why: &dyn std::fmt::Display) {
    tracing::warn!(task = %taken.display(), %why, "set a task aside");
    let _ = fs::rename(taken, taken.with_extension("damaged"));
}

impl Link for FileLink {
    fn lease(&self, _: u64) -> Result<Grant, LinkError> {
        let Some(taken) = self.patience.persist(|| self.take())? else {
            return self.without_task();
        };
        let number = taken.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number {
            self.tasks.lock().inputs.entry(number).or_insert(None);
        }
        let error = match self.patience.read(|| self.open(&taken)) {
            Ok(Some((lease, inputs))) => {
                self.tasks.lock().begin(&lease, inputs);
                return Ok(Grant::Work(lease));
            }
            // The courier has taken it back.
            Ok(None) => None,
            Err(error) => Some(error),
        };
        self.tasks.lock().inputs.retain(|&task, inputs| Some(task) != number || inputs.is_some());
        error.map_or(Ok(()), |error| self.do_without(&taken, error))?;
        Ok(Grant::Wait)
    }

    fn complete(&self, lease: &Lease, results: &[SolvedUnit]) -> Result<Delivered, LinkError> {
        let bytes = pack_result(delivery(lease, results, results.iter().map(SolvedUnit::blocks)));
        let [task, taken, result] =
            ["task", "taken", "result"].map(|extension| self.path(lease.number, extension));
        let is_own = || self.tasks.lock().courier == lease.worker;
        let is_there = |path: &Path| path.try_exists().map_err(at(path));
        let delivered = self.patience.persist(|| {
            // The courier may have put it out again meanwhile, and still wants its result.
            if !is_own() || !is_there(&taken)? && !is_there(&task)? {
                tracing::warn!(lease = lease.number, "its task is gone; the results are dropped");
                return Ok(Delivered::Void);
            }
            write(&result, &bytes)?;
            Ok(Delivered::Left)
        });
        let is_own = self.tasks.lock().end(lease);
        delivered.inspect_err(|_| {
            if is_own {
                let _ = fs::rename(&taken, &task);
            }
        })
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn pipeline(&self) -> usize {
        1
    }

    fn give_back(&self, lease: &Lease, reason: Unsolved) {
        if !self.tasks.lock().end(lease) {
            return;
        }
        let taken = self.path(lease.number, "taken");
        match reason {
            Unsolved::Failed(why) => set_aside(&taken, &why),
            Unsolved::Leaving(why) => {
                tracing::info!(task = lease.number, why, "put a task back");
                let _ = fs::rename(&taken, taken.with_extension("task"));
            }
        }
    }
}

impl Fetch for FileLink {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        wanted.iter().map(|wanted| self.blocks(wanted)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, time::Duration};

    use prost::Message;
    use tokio_util::sync::CancellationToken;
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
        plan::{PlanOptions, Unit},
    };

    use super::{
        format::{unpack_result, write_checked},
        *,
    };

    fn link(directory: &Path) -> FileLink {
        FileLink::new(
            directory.to_owned(),
            TrailTrap::LAYOUT,
            Patience { lasts: Duration::ZERO, stop: CancellationToken::new() },
        )
    }

    fn make_fifo(path: &Path) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    /// The names of the files in a directory, sorted.
    fn names(directory: &Path) -> Vec<String> {
        let name =
            |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(directory).unwrap().map(name).collect();
        names.sort();
        names
    }

    /// A task without inputs.
    fn task(number: u64) -> Vec<u8> {
        let plan = Plan::new(TrailTrap::LAYOUT, 3, PlanOptions::default());
        let units = [Unit { order: 3, shard: 0, part: 0 }];
        with_checksum(&messages::grant(number, &plan, &units, 0))
    }

    fn with_checksum(message: &impl Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_checked(message, &mut bytes).unwrap();
        bytes
    }

    /// A list of parents with one graph, the one of order 3 with an edge.
    fn input() -> wire::Input {
        let sequence = DegreeSequence::new([1, 1, 0]);
        let table =
            BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, [1].into_iter(), |_, record| {
                record.fill(0)
            });
        wire::Input {
            request: Some(messages::request(0, &Wanted::Parents(sequence), &[])),
            blocks: vec![table.to_blocks(0).keys.into_bytes()],
        }
    }

    #[test]
    fn the_latest_task_says_what_a_partition_holds() {
        let directory = tempfile::tempdir().unwrap();
        let link = link(directory.path());
        let sequence = DegreeSequence::new([1, 1, 0]);
        let keys = |slot: u64| {
            BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, [slot].into_iter(), |_, record| {
                record.fill(0)
            })
            .to_blocks(0)
            .keys
        };
        let wanted = Wanted::Parents(sequence);
        let put_out = |number: u64, inputs: &[(Wanted, Block)]| {
            let mut bytes = task(number);
            for (wanted, block) in inputs {
                let input = wire::Input {
                    request: Some(messages::request(0, wanted, &[])),
                    blocks: vec![block.clone().into_bytes()],
                };
                bytes.extend(with_checksum(&input));
            }
            fs::write(directory.path().join(format!("{number}.task")), bytes).unwrap();
            let granted = link.lease(0).unwrap();
            assert!(matches!(granted, Grant::Work(lease) if lease.number == number));
        };
        for number in [3, 9, 1, 7] {
            put_out(number, &[(wanted, keys(number % 2))]);
        }
        put_out(11, &[]);
        for expected in [9, 7, 3, 1] {
            assert_eq!(link.fetch(&[wanted]).unwrap(), [[keys(expected % 2)]]);
            link.tasks.lock().inputs.remove(&expected);
        }
        assert!(link.fetch(&[wanted]).is_err());
    }

    /// Another census may have had a lease of the same number, and what it reads may be another thing.
    #[test]
    fn a_result_is_of_the_task_that_its_courier_has_put_out() {
        let plan = Arc::new(Plan::new(TrailTrap::LAYOUT, 3, PlanOptions::default()));
        let lease = |worker, number| {
            let (plan, units) = (plan.clone(), vec![Unit { order: 3, shard: 0, part: 0 }]);
            Lease { number, worker, plan, units, edition: 1 }
        };
        let path = Path::new("5.result");
        let unpacked = |worker, number| {
            let result = pack_result(delivery(&lease(worker, number), &[], Vec::new()));
            unpack_result(path, &result, &lease(9, 5)).map(|messages| messages.is_some())
        };
        assert!(matches!(unpacked(9, 5), Ok(true)));
        assert!(matches!(unpacked(8, 5), Ok(false)));
        assert!(unpacked(9, 6).is_err() && unpacked(0, 5).is_err());
        let inputs = |path: &str| Inputs {
            path: path.into(),
            file: tempfile::tempfile().unwrap(),
            layout: TrailTrap::LAYOUT,
            places: HashMap::new(),
        };
        let mut tasks = Tasks::default();
        tasks.begin(&lease(9, 5), inputs("5"));
        tasks.begin(&lease(9, 7), inputs("7"));
        tasks.begin(&lease(3, 5), inputs("another 5"));
        assert!(!tasks.end(&lease(9, 5)));
        assert_eq!(tasks.inputs.keys().collect::<Vec<_>>(), [&5]);
        assert!(tasks.end(&lease(3, 5)));
        assert!(tasks.inputs.is_empty());
    }

    /// What a task says is looked at before it is worked on, wherever it is cut short.
    #[test]
    fn a_task_that_is_cut_short_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let link = link(directory.path());
        let begun = task(5);
        let whole = [&begun[..], &with_checksum(&input())].concat();
        let path = directory.path().join("5.taken");
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let is_whole = length == begun.len() || length == whole.len();
            match link.open(&path) {
                Ok((lease, _)) => assert!(is_whole && lease.number == 5, "{length}"),
                Err(OfflineError::Damaged { .. }) => assert!(!is_whole, "{length}"),
                Err(other) => panic!("{length}: {other}"),
            }
        }
    }

    /// A byte that changes on the way of a task, or of a result, is neither a task of another version
    /// nor a result that its worker has got wrong.
    #[test]
    fn files_that_have_changed_are_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let link = link(directory.path());
        let path = directory.path().join("5.taken");
        let sound = [task(5), with_checksum(&input())].concat();
        let open = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            link.open(&path)
        };
        let (lease, _) = open(&sound).unwrap();
        let result = pack_result(messages::delivery(0, 5, std::iter::empty()));
        assert!(unpack_result(&path, &result, &lease).is_ok());
        let changed = |bytes: &[u8], place: usize| {
            let mut changed = bytes.to_vec();
            changed[place] ^= 1;
            changed
        };
        for place in 0..sound.len() {
            let opened = open(&changed(&sound, place));
            assert!(matches!(opened, Err(OfflineError::Damaged { .. })), "{place}");
        }
        for place in 0..result.len() {
            let unpacked = unpack_result(&path, &changed(&result, place), &lease);
            assert!(matches!(unpacked, Err(OfflineError::Damaged { .. })), "{place}");
        }
    }

    /// Whoever waits for tasks goes when there is no courier any more.
    #[test]
    fn a_courier_that_is_gone_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let link = link(directory.path());
        let courier = directory.path().join(COURIER);
        fs::write(&courier, "").unwrap();
        assert!(matches!(link.lease(0), Ok(Grant::Wait)));
        let Some((modified, since)) = link.courier.lock().seen else { panic!("it is there") };
        // It was seen to change long ago, or there would have been time for that.
        let long_ago = since.checked_sub(SILENCE + HEARTBEAT).expect("a time before the system's");
        link.courier.lock().seen = Some((modified, long_ago));
        let gone = link.lease(0);
        assert!(matches!(&gone, Err(LinkError::Lost(why)) if why.contains("courier")), "{gone:?}");
        // It is at work again.
        let later = SystemTime::now() + Duration::from_secs(1);
        File::options().append(true).open(&courier).unwrap().set_modified(later).unwrap();
        assert!(matches!(link.lease(0), Ok(Grant::Wait)));
    }

    #[test]
    fn one_bad_task_is_set_aside_and_others_are_solved() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("1.task"), b"\xff").unwrap();
        fs::write(path("2.task"), task(3)).unwrap();
        // These cannot even be read, or not to their end.
        fs::create_dir(path("4.task")).unwrap();
        make_fifo(&path("5.task"));
        symlink("/dev/zero", path("6.task")).unwrap();
        fs::write(path("7.task"), task(7)).unwrap();
        File::options().write(true).open(path("7.task")).unwrap().set_len(1 << 40).unwrap();
        fs::write(path("8.task"), task(8)).unwrap();
        // It stands in the way.
        fs::create_dir(path("8.taken")).unwrap();
        let link = link(directory.path());
        for _ in 0..6 {
            assert!(matches!(link.lease(0), Ok(Grant::Wait)));
        }
        let Ok(Grant::Work(lease)) = link.lease(0) else { panic!("there is a sound task") };
        let damaged = [1, 2, 4, 5, 6, 7].map(|number| format!("{number}.damaged"));
        let with = |more: &[&str]| {
            [&damaged[..], &more.iter().map(ToString::to_string).collect::<Vec<_>>()].concat()
        };
        assert_eq!(names(directory.path()), with(&["8.taken", "8.taken.aside"]));
        link.give_back(&lease, Unsolved::Leaving("a walk"));
        assert!(path("8.task").exists());
        let Ok(Grant::Work(lease)) = link.lease(0) else { panic!("it is there again") };
        link.give_back(&lease, Unsolved::Failed("nothing fits"));
        assert_eq!(names(directory.path()), with(&["8.damaged", "8.taken.aside"]));
    }

    /// A worker that may not read, or has no descriptors left, does not set aside what others can
    /// solve; a task that it cannot read among others that it can is of no use.
    #[test]
    fn refused_tasks_are_set_aside_only_by_who_can_read_others() {
        let directory = tempfile::tempdir().unwrap();
        let link = link(directory.path());
        let path = |number: u64| directory.path().join(format!("{number}.task"));
        let refuse = |number| link.tasks.lock().refuse(path(number));
        assert_eq!(refuse(5), Refused::PutBack);
        // It tries another one first, whatever its number.
        for number in [5, 7] {
            fs::write(path(number), task(number)).unwrap();
        }
        for number in [7, 5] {
            let granted = link.lease(0).unwrap();
            assert!(matches!(granted, Grant::Work(lease) if lease.number == number));
        }
        assert_eq!(refuse(9), Refused::SetAside);
        assert_eq!(refuse(11), Refused::Leave);
    }

    #[test]
    fn a_task_of_another_version_is_left_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let grant = wire::Grant::decode_length_delimited(&task(7)[..]).unwrap();
        for other in [
            wire::Grant { plan_fingerprint: grant.plan_fingerprint ^ 1, ..grant.clone() },
            wire::Grant { block_format: grant.block_format - 1, ..grant.clone() },
            wire::Grant { max_size: Some(4), ..grant.clone() },
        ] {
            fs::write(directory.path().join("7.task"), with_checksum(&other)).unwrap();
            assert!(matches!(
                link(directory.path()).lease(0),
                Err(LinkError::Refused(why)) if why.contains("versions")
            ));
            assert_eq!(names(directory.path()), ["7.task"]);
        }
    }

    #[test]
    fn a_directory_may_be_there_another_time() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(
            matches!(link(&missing).lease(0), Err(LinkError::Lost(why)) if why.contains("missing"))
        );
        let patient = Patience { lasts: Duration::MAX, stop: CancellationToken::new() };
        let link = FileLink::new(missing.clone(), TrailTrap::LAYOUT, patient);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| link.lease(0));
            fs::create_dir(&missing).unwrap();
            assert!(matches!(waiting.join().unwrap(), Ok(Grant::Wait)));
        });
    }

    #[test]
    fn a_result_that_cannot_be_written_is_not_lost_for_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let link = link(directory.path());
        let take = || {
            fs::write(path("5.task"), task(5)).unwrap();
            match link.lease(0) {
                Ok(Grant::Work(lease)) => lease,
                other => panic!("{other:?}"),
            }
        };
        let lease = take();
        // Even root cannot put a file where a directory is that cannot be renamed.
        fs::create_dir(path("5.result")).unwrap();
        fs::create_dir_all(path("5.result.aside/thesis")).unwrap();
        assert!(matches!(link.complete(&lease, &[]), Err(LinkError::Lost(_))));
        assert_eq!(names(directory.path()), ["5.result", "5.result.aside", "5.task"]);
        fs::remove_dir(path("5.result.aside/thesis")).unwrap();
        assert_eq!(link.complete(&take(), &[]).unwrap(), Delivered::Left);
        assert_eq!(names(directory.path()), ["5.result", "5.result.aside", "5.taken"]);
        fs::remove_dir(path("5.result.aside")).unwrap();
        // The courier has put the task out again, and takes its result from whoever has it.
        fs::rename(path("5.taken"), path("5.task")).unwrap();
        assert_eq!(link.complete(&lease, &[]).unwrap(), Delivered::Left);
        // The courier has cleared up.
        fs::remove_file(path("5.task")).unwrap();
        assert_eq!(link.complete(&lease, &[]).unwrap(), Delivered::Void);
    }
}
