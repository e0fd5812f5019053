//! A census in progress: the core, with the threads, the lock and the store that it needs.
//!
//! The [`Core`] decides what is done next and is behind one lock. That lock is never held during a
//! computation or an access to a disk or a network: what the core wants done, its effects, is done
//! by whoever handed in the event that caused it, after the lock is given back, and the outcome is
//! handed in as another event ([`effects`]). What has to be durable in the order in which it was
//! accepted goes to a thread of its own, the [`committer`]. [`examination`] finds out what is
//! wrong, [`orders`] opens and closes orders, and [`reading`] is for those who compute.

mod committer;
mod comparer;
mod counting;
mod effects;
mod examination;
mod names;
mod news;
mod orders;
mod parts;
mod reading;
mod status;
mod trials;

pub use self::{
    committer::{GATHER, GATHER_AWAITED},
    counting::LEAST_BYTES as LEAST_COUNTED_BYTES,
    orders::contents_of_parents,
    trials::Tried,
};
pub use crate::core::{
    Accepted, Assignment, DisputeVerdict, Fault, Progress, Refusal, Work, Worker, WorkerId,
};

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc,
        mpsc::{Sender, SyncSender, channel, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use trailtrap_shared::{
    class::Class,
    game::GameName,
    partition::BlockName,
    plan::{Goal, Plan, PlanOptions, Unit},
    protocol::{messages::Described, shelves::Shelves},
};

use trailtrap_worker::{
    counting::parts::KnownRanges,
    supply::{
        kept::{KeptDepot, Mark},
        shelf::others::OtherShelves,
    },
};

use self::{
    committer::Task,
    comparer::Comparer,
    counting::Counting,
    names::Names,
    news::Teller,
    trials::{Trials, Turns},
};
use crate::{
    core::{ArrivalId, Core, Settings, Start, parents::Parents, secret::Secret},
    records::{Author, Delivery, OrderResult, alarm::Alarm},
    store::{Store, StoreError, shelves::ShelfRoom},
};

/// What to keep of a finished order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The outcome of every position of every graph
    All,
    /// P1-win graphs and statistics, and the graphs of the last order, from which the next one is
    /// generated; outcomes go when all graphs with two edges more are done
    /// ([`crate::core::order::SIZES_KEPT`]), but those from which an order is carried further stay
    Graphs,
    /// P1-win graphs and statistics; of the last order, graphs go with the outcomes, as soon as no
    /// unfinished shard needs them, all of them
    Minimal,
}

/// What a census is to do.
#[derive(Clone, Copy, Debug)]
pub struct CensusOptions {
    /// The game, if it is not to be what the store says; Trail Trap in a new one.
    pub game: Option<GameName>,
    /// The class of the graphs, likewise; all of them in a new one.
    pub class: Option<Class>,
    /// All orders up to the last one, or graphs of them with few edges.
    pub goal: Goal,
    /// What stays in the store when an order is done.
    pub keep: Keep,
    /// Whether finished orders may be solved again whose graphs were not kept and are needed.
    pub solves_again: bool,
    /// For orders that are not begun yet.
    pub plan: PlanOptions,
    /// Whether they are split further if workers are there that have too little memory for it.
    pub fits_workers: bool,
    /// Bytes that the solver in this process takes, if there is one: what waits for the disk takes
    /// an eighth of that, between 32 and 256 MiB, or a 64th where that is more.
    pub memory: Option<u64>,
    /// Leases of workers in other processes last this long.
    pub lease_term: Duration,
    /// At which rate records are derived again by nauty before results are accepted, 0 to 1 (all):
    /// see `trust::trial::Odds`.
    pub trial_rate: f64,
    /// The share of all units that two different workers have to solve with the same results, 0 to
    /// 1.
    pub compared_share: f64,
    /// Results are made durable together that come within this time, in a run that has lasted for
    /// a while.
    pub gather: Duration,
    /// Says what time it is: `Instant::now`, but in a simulation.
    pub clock: fn() -> Instant,
}

impl CensusOptions {
    /// For all graphs that this asks for, in a store of whatever game and class: everything is kept,
    /// made durable at once, and nothing of it tried or compared.
    pub fn new(goal: Goal) -> Self {
        CensusOptions {
            game: None,
            class: None,
            goal,
            keep: Keep::All,
            solves_again: false,
            plan: PlanOptions::default(),
            fits_workers: false,
            memory: None,
            lease_term: Duration::from_secs(60),
            trial_rate: 0.0,
            compared_share: 0.0,
            gather: Duration::ZERO,
            clock: Instant::now,
        }
    }
}

/// Where a census is to keep its larger blocks.
pub enum KeptIn<'a> {
    /// Where it did before; in a new one, in its database.
    TheSame,
    /// In a depot: this directory, or the part of an object store at this address.
    Depot(&'a Path),
    /// On the shelves of its workers.
    Shelves {
        /// How this process reaches them.
        reader: OtherShelves,
        /// A worker that was heard of is waited for so long, if nobody else has what it has.
        patience: Duration,
    },
}

/// Why a census cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CensusError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The results are not to be trusted, or cannot be had.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// An order is generated from graphs that are not there, or carried further from outcomes that
    /// are not.
    #[error(
        "order {n} needs graphs or outcomes of order {last} that were not kept (`--keep`), or that a \
         salvage did not reach: use --force to solve orders {first} to {last} again, whose \
         results, and those of all later orders, are withdrawn until then, or choose another \
         directory with --data"
    )]
    GraphsNotKept {
        /// The order that was asked for.
        n: usize,
        /// The first order to be solved again.
        first: usize,
        /// The last one.
        last: usize,
    },
    /// Without them, which records are tried could be foreseen, and a worker's number guessed.
    #[error("the system has no random numbers to give")]
    Random(#[from] getrandom::Error),
}

/// The core, and who waits for it.
struct CensusState {
    core: Core,
    /// What the driver could not do.
    error: Option<CensusError>,
    /// The order that is opened when the first worker is there, and in which edition.
    unopened: Option<(usize, u32)>,
    /// Those who have delivered and wait for an answer.
    waiting: HashMap<ArrivalId, SyncSender<Result<Accepted, Refusal>>>,
}

/// Says what time it is.
type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// A census in progress. Shared by everything that works on it.
pub struct Census {
    options: CensusOptions,
    store: Store,
    /// Decides which units are compared, and which records are tried.
    secret: Secret,
    parents: Parents,
    names: Names,
    /// The plan of the order below the one in work.
    parent_plan: Mutex<Option<Arc<Plan>>>,
    trials: Trials,
    /// Of those who examine what they have to read from the depot: a unit at a time each.
    readings: Turns,
    /// How often blocks of a unit that was delivered by name were lacking.
    lackings: Mutex<HashMap<Unit, u32>>,
    /// Judgements take long, and take their turns.
    judgements: Mutex<()>,
    /// Which parents the parts of shards that were examined lately are generated from.
    part_ranges: Mutex<KnownRanges>,
    clock: Clock,
    started: Instant,
    state: Mutex<CensusState>,
    changed: Condvar,
    /// Woken like `changed`, for tasks.
    pub wakeup: tokio::sync::Notify,
    queue: Mutex<Option<Sender<Task>>>,
    committer: Mutex<Option<JoinHandle<()>>>,
    comparer: Comparer,
    counting: Counting,
    news: Teller,
}

/// Deliveries are held back while more bytes than this wait for the disk: of the memory of the solver
/// in this process an eighth, within bounds, or a 64th where that is more, as what is delivered
/// together grows with it; or 256 MiB, if there is no solver.
pub fn pending_bytes(memory: Option<u64>) -> u64 {
    const LEAST: u64 = 32 << 20;
    const USUAL: u64 = 256 << 20;
    memory.map_or(USUAL, |memory| (memory / 8).clamp(LEAST, USUAL).max(memory / 64))
}

/// Names of blocks that are remembered: more than those of the partitions that are read at a time.
const NAMES: NonZeroUsize = NonZeroUsize::new(1 << 17).expect("not zero");

impl Census {
    /// Opens the store in `directory` and takes up the census where it was left.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or what it holds contradicts theory.
    pub fn open(directory: &Path, options: CensusOptions) -> Result<Arc<Self>, CensusError> {
        Self::open_with(directory, KeptIn::TheSame, options)
    }

    /// The same; larger blocks are kept where it is said.
    ///
    /// # Errors
    ///
    /// Those of [`Census::open`]; the depot cannot be used, or is not that of the store; or blocks
    /// lie elsewhere already.
    pub fn open_with(
        directory: &Path,
        kept: KeptIn,
        options: CensusOptions,
    ) -> Result<Arc<Self>, CensusError> {
        if let KeptIn::Depot(depot) = &kept
            && !directory.try_exists().map_err(StoreError::from)?
        {
            // Before a store is made, which would stay, with its game and class.
            KeptDepot::check_free(depot)
                .map_err(|cause| StoreError::Depot { path: depot.to_path_buf(), cause })?;
        }
        let mut store = Store::open(directory, options.game, options.class)?;
        let goal = options.goal.of_class(store.class());
        Self::keep(&mut store, kept, goal)?;
        Self::on(store, CensusOptions { goal, ..options }, Box::new(options.clock))
    }

    /// Has a store that is to come as far as this keep larger blocks where it is said.
    fn keep(store: &mut Store, kept: KeptIn, goal: Goal) -> Result<(), CensusError> {
        let new = || Ok::<_, getrandom::Error>(Mark(getrandom::u64()?.max(1)));
        let is_done = |store: &Store| -> Result<bool, StoreError> {
            Ok(store.has_results(goal)? && store.pending(&store.alarms()?)?.is_none())
        };
        match kept {
            KeptIn::Depot(depot) if store.depot().is_none() && is_done(store)? => {
                tracing::warn!(
                    depot = %depot.display(),
                    "all of this is done: nothing is kept in the depot"
                );
                store.take_depot()?;
            }
            KeptIn::Depot(depot) => store.keep_in(depot, new()?)?,
            KeptIn::Shelves { reader, patience } => {
                store.keep_on_shelves(new()?, reader, patience)?;
            }
            KeptIn::TheSame => match store.take_depot() {
                // Nothing more comes there, and nothing is there to be read or removed.
                Err(StoreError::DepotAway { path, .. })
                    if is_done(store)? && !store.refers_elsewhere()? =>
                {
                    let depot = path.display();
                    tracing::warn!(%depot, "the depot is not there, and nothing of this lay in it");
                }
                taken => taken?,
            },
        }
        Ok(())
    }

    /// Begins a rehearsal of a census of all graphs in a new store in `directory`, which no census
    /// is ever opened on: everything is as in a census, but results are invented, so nothing is
    /// found wrong with them, and `clock` says what time it is.
    ///
    /// # Errors
    ///
    /// The directory is there already, or the store cannot be written.
    pub fn rehearse(
        directory: &Path,
        options: CensusOptions,
        clock: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> Result<Arc<Self>, CensusError> {
        let store = Store::of_rehearsal(directory, options.game.unwrap_or_default())?;
        Self::on(store, options, Box::new(clock))
    }

    /// Takes up the census of a store.
    fn on(store: Store, options: CensusOptions, clock: Clock) -> Result<Arc<Self>, CensusError> {
        let epoch = store.next_epoch()?;
        let secret = Secret::of(store.salt(getrandom::u64()?)?);
        // What was accepted and not durable when the run before ended is not to be used by those
        // who have read it.
        let edition = store.edition()? + 1;
        store.put_edition(edition)?;
        let doubted = examination::doubted(&store)?;
        let alarms = store.alarms()?.into_iter().collect();
        let start = Start { epoch, edition, alarms, doubted };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let settings = Settings {
            target: options.goal.order,
            lease_term: options.lease_term,
            pending_bytes: pending_bytes(options.memory) as usize,
            unix_seconds: since_1970.map_or(0, |since| since.as_secs()),
        };
        let (sender, receiver) = channel();
        let counting = Counting::new(epoch);
        let core = Core::new(settings, start);
        let census = Arc::new(Census {
            options,
            parents: Parents::enumerate(store.layout()),
            store,
            secret,
            names: Names::new(NAMES),
            parent_plan: Mutex::default(),
            trials: Trials::default(),
            readings: Turns::default(),
            lackings: Mutex::default(),
            judgements: Mutex::default(),
            part_ranges: Mutex::default(),
            started: clock(),
            clock,
            state: Mutex::new(CensusState {
                core,
                error: None,
                unopened: None,
                waiting: HashMap::new(),
            }),
            changed: Condvar::new(),
            wakeup: tokio::sync::Notify::new(),
            queue: Mutex::new(Some(sender)),
            committer: Mutex::new(None),
            comparer: Comparer::default(),
            counting,
            news: Teller::start(),
        });
        // What the core wants first.
        census.event(|_| ());
        if matches!(census.state().core.ended(), Some(Err(_))) {
            census.close()?;
        }
        *census.committer.lock() = Some(committer::spawn(&census, receiver));
        census.comparer.start(&census);
        Ok(census)
    }

    /// The game that it is a census of.
    pub fn game(&self) -> GameName {
        self.store.game()
    }

    /// The class of the graphs that it is about.
    pub fn class(&self) -> Class {
        self.store.class()
    }

    /// The number of the census if its larger blocks are kept in a depot: its mark is there.
    pub fn depot_mark(&self) -> Option<Mark> {
        self.store.depot().map(KeptDepot::mark)
    }

    /// Whether something that lies on shelves is needed, or perhaps is: when all is done, for who does
    /// more later.
    pub fn needs_shelves(&self) -> bool {
        self.store.needs_shelves().unwrap_or(true)
    }

    /// The shelves on which its larger blocks are kept, if workers have them.
    pub fn shelves(&self) -> Option<&ShelfRoom> {
        self.store.shelves()
    }

    /// Whether what is read from shelves is not waited for any more: nothing follows from what could
    /// not be read.
    fn is_cut_off(&self) -> bool {
        self.shelves().is_some_and(ShelfRoom::is_closed)
    }

    /// Whether blocks may be delivered by their names. In a rehearsal they are invented.
    pub fn takes_names(&self) -> bool {
        let is_kept_elsewhere = self.store.depot().is_some() || self.shelves().is_some();
        is_kept_elsewhere || self.store.is_rehearsal()
    }

    /// A block that is kept elsewhere, for those who read it there.
    fn named(&self, name: BlockName) -> Described {
        Described::Named(name, self.shelves().map_or_else(Shelves::default, |all| all.of(&name)))
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CensusOptions {
        &self.options
    }

    /// Time since it was opened.
    pub fn now(&self) -> Duration {
        (self.clock)().saturating_duration_since(self.started)
    }

    /// The state, at this time.
    fn state(&self) -> MutexGuard<'_, CensusState> {
        let now = self.now();
        let mut state = self.state.lock();
        state.core.set_now(now);
        state
    }

    /// Adds a worker, unless results of it were wrong before. It may take so many bytes of memory,
    /// if it says so.
    ///
    /// # Errors
    ///
    /// [`Refusal::Distrusted`]; and [`Refusal::Ended`] if the system has no random numbers, so
    /// that its number could be guessed.
    pub fn register(
        &self,
        name: &str,
        threads: usize,
        kernel: &str,
        memory: Option<u64>,
    ) -> Result<WorkerId, Refusal> {
        let author = Author::new(name, kernel);
        let number = getrandom::u64().map_err(|error| {
            tracing::error!(%error, "no worker can be registered");
            Refusal::Ended
        })?;
        let worker = self.event_with_waiter(|state| {
            let worker = state.core.register(author, threads, memory, number)?;
            if let Some((order, edition)) = state.unopened.take() {
                self.enqueue(Task::OpenOrder(order, edition));
            }
            Ok(worker)
        })?;
        let author = self.author(worker);
        let (name, kernel) = (author.name(), author.kernel());
        tracing::info!(name, threads, kernel, "worker registered");
        Ok(worker)
    }

    /// Notes a sign of life; false if the worker is not known.
    pub fn hear(&self, worker: WorkerId) -> bool {
        if let Some(shelves) = self.shelves() {
            shelves.hear(worker);
        }
        self.event(|core| core.hear(worker))
    }

    /// Renews leases.
    pub fn renew(&self, worker: WorkerId, leases: &[u64]) {
        self.event(|core| core.renew(worker, leases));
    }

    /// What a worker holds under a lease, or held until it expired: units of the plan in work.
    pub fn leased(&self, worker: WorkerId, lease: u64) -> Option<(Arc<Plan>, Vec<Unit>)> {
        self.state().core.leased(worker, lease)
    }

    /// Work for a worker that has room for so many graphs, if there is any. Leases of an embedded
    /// worker do not expire.
    pub fn assign(&self, worker: WorkerId, room: u64, embedded: bool) -> Assignment {
        self.event(|core| core.assign(worker, room, embedded))
    }

    /// Work for an embedded worker; waits up to `timeout` for some.
    pub fn assign_blocking(&self, worker: WorkerId, room: u64, timeout: Duration) -> Assignment {
        let deadline = Instant::now() + timeout;
        loop {
            match self.assign(worker, room, true) {
                Assignment::Wait => {}
                other => return other,
            }
            let mut state = self.state();
            // Something may have become ready between the two locks.
            let core = &state.core;
            if core.has_work_for(worker) || core.ended().is_some() || core.is_closing() {
                continue;
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return Assignment::Wait;
            }
        }
    }

    /// A worker gives leased units back unsolved. `failure` says why they could not be solved, if
    /// that was tried.
    pub fn give_back(&self, worker: WorkerId, lease: u64, failure: Option<&str>) {
        self.event(|core| core.give_back(worker, lease, failure));
    }

    /// The plan of the order in work.
    pub fn plan_in_work(&self) -> Option<Arc<Plan>> {
        self.state().core.plan().cloned()
    }

    /// Accepts the results of a lease. With `durable` it returns when they are on disk, otherwise
    /// when they are accepted and there is room for more. Returns the shards that nothing will
    /// read any more.
    ///
    /// # Errors
    ///
    /// Why they are not accepted.
    pub fn accept(
        &self,
        worker: WorkerId,
        lease: u64,
        deliveries: Vec<Delivery>,
        durable: bool,
    ) -> Result<Vec<u32>, Refusal> {
        self.answer(|core| core.deliver(worker, lease, deliveries, durable))
            .map(|accepted| accepted.retired)
    }

    /// A worker has delivered under a lease what cannot be read, for this reason: it is not
    /// believed any more. Returns what it is to be told.
    pub fn refuse(&self, worker: WorkerId, lease: u64, why: String) -> Refusal {
        let answer = self.answer(|core| core.deliver_unreadable(worker, lease, why));
        answer.expect_err("it is not accepted")
    }

    /// Hands something that arrives to the core, and waits for the answer.
    fn answer(&self, arrive: impl FnOnce(&mut Core) -> ArrivalId) -> Result<Accepted, Refusal> {
        let (sender, answer) = sync_channel(1);
        self.event_with_waiter(|state| {
            let arrival = arrive(&mut state.core);
            state.waiting.insert(arrival, sender);
        });
        // Those who could answer hang up without a word when they cannot go on.
        answer.recv().unwrap_or(Err(Refusal::Ended))
    }

    /// Whether it is over, well or not.
    pub fn has_ended(&self) -> bool {
        self.state().core.ended().is_some()
    }

    /// Whether everything is done.
    pub fn is_complete(&self) -> bool {
        matches!(self.state().core.ended(), Some(Ok(())))
    }

    /// Stops handing out work and accepting results, and makes durable what was accepted. Results
    /// of the finished orders if everything is done, `None` if there is more to do.
    ///
    /// # Errors
    ///
    /// Why the census could not go on; said once.
    pub fn close(&self) -> Result<Option<Vec<OrderResult>>, CensusError> {
        self.event(Core::close);
        self.counting.close();
        if let Some(shelves) = self.shelves() {
            shelves.close();
        }
        let comparer = self.comparer.stop();
        // The committer works its queue off and returns when the last sender is gone.
        drop(self.queue.lock().take());
        let committer = self.committer.lock().take();
        // The comparer may wait for an answer until the committer has ended.
        for thread in committer.into_iter().chain(comparer) {
            let _ = thread.join();
        }
        self.news.finish();
        let mut state = self.state();
        match state.core.take_ended() {
            Some(Ok(())) => Ok(Some(state.core.results().to_vec())),
            Some(Err(fault)) => Err(state.error.take().unwrap_or(CensusError::Fault(fault))),
            None => Ok(None),
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.state().core.progress()
    }

    /// A worker as records name it.
    pub fn author(&self, worker: WorkerId) -> Author {
        self.state().core.author(worker)
    }

    /// All alarms, by number.
    pub fn alarms(&self) -> Vec<(u32, Arc<Alarm>)> {
        self.state().core.alarms().clone().into_iter().collect()
    }

    /// The workers, and the number of units each of them holds.
    pub fn workers(&self) -> Vec<(WorkerId, Worker, usize)> {
        let state = self.state();
        let workers = state.core.workers();
        workers.map(|(id, worker, units)| (id, worker.clone(), units)).collect()
    }

    /// Orders that are done.
    pub fn results(&self) -> Vec<OrderResult> {
        self.state().core.results().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trailtrap_shared::plan::{Goal, PlanOptions};
    use trailtrap_worker::memory;

    use super::{Census, CensusOptions, pending_bytes};
    use crate::core::Assignment;

    /// Orders are split for the worker that has least, unless somebody has said how; who has ample
    /// memory, or does not say, changes nothing.
    #[test]
    fn orders_are_split_for_the_workers_that_are_there() {
        let opened = |fits_workers| {
            let directory = tempfile::tempdir().unwrap();
            let options = CensusOptions { fits_workers, ..CensusOptions::new(Goal::new(3, None)) };
            let census = Census::open(&directory.path().join("store"), options).unwrap();
            (directory, census)
        };
        let (_directory, census) = opened(true);
        for memory in [None, Some(64 << 30)] {
            census.register("Ann", 1, "kernel", memory).unwrap();
            assert_eq!(census.splitting(), PlanOptions::default());
        }
        census.register("Bea", 1, "kernel", Some(256 << 20)).unwrap();
        let split = census.splitting();
        assert_eq!(split, memory::splitting_for_workers(256 << 20));
        assert!(split.part_graphs * memory::GRAPH_BYTES <= 128 << 20);
        drop(census);
        let (_other, census) = opened(false);
        census.register("Bea", 1, "kernel", Some(256 << 20)).unwrap();
        assert_eq!(census.splitting(), PlanOptions::default());
    }

    /// Who goes on with the next order has no worker yet when it begins.
    #[test]
    fn an_order_is_not_begun_before_there_is_a_worker() {
        let directory = tempfile::tempdir().unwrap();
        let options =
            CensusOptions { fits_workers: true, ..CensusOptions::new(Goal::new(2, None)) };
        let census = Census::open(&directory.path().join("store"), options).unwrap();
        assert!(census.plan_in_work().is_none());
        let worker = census.register("Bea", 1, "kernel", Some(256 << 20)).unwrap();
        let plan = loop {
            match census.assign_blocking(worker, 1, Duration::from_secs(1)) {
                Assignment::Work(work) => break work.plan,
                Assignment::Wait => {}
                _ => panic!("there is work"),
            }
        };
        assert_eq!(plan.options, memory::splitting_for_workers(256 << 20));
    }

    /// A census with little memory does not keep much of it for what waits; one without a solver
    /// of its own, or with a few gigabytes, keeps as much as ever, and one with more keeps more.
    #[test]
    fn what_waits_for_the_disk_follows_memory() {
        let of = |memory: u64| pending_bytes(Some(memory << 20)) >> 20;
        assert_eq!(
            [1, 256, 1024, 2048, 16 << 10, 64 << 10].map(of),
            [32, 32, 128, 256, 256, 1024]
        );
        assert_eq!(pending_bytes(None) >> 20, 256);
    }
}
