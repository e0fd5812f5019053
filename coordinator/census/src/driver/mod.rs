//! The census itself: one order after the other, units leased to workers, results checked, made
//! durable and added up.
//!
//! All state that changes with every call is behind one lock that is never held during a
//! computation or an access to a disk or a network. A thread of its own, the committer, writes
//! deliveries to the store in the order in which they were accepted; so whatever is durable,
//! everything it was computed from is durable too.
//!
//! Finished units can turn out wrong or damaged. Then they are taken back: a new *edition* begins,
//! in which all leases are void, and the schedule is made anew of what the store still holds
//! ([`commit`]).

mod commit;
mod names;
mod orders;
mod status;
mod trust;

pub use self::orders::contents_of_parents;

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Sender, channel, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use trailtrap_shared::{
    count::statistics::Statistics,
    graph::degree::DegreeSequence,
    plan::{Plan, PlanOptions, Unit},
};
use trailtrap_worker::supply::is_shared;

use self::commit::{GATHER, Queued, gather};
use crate::{
    core::{
        comparison::Comparisons,
        lease::{Ended, LeaseTable, Purpose, WorkerId},
        parents::Parents,
        random::Random,
        schedule::Schedule,
    },
    driver::names::Names,
    records::{Delivery, OrderResult, UnitRecord, alarm::Alarm},
    store::{Store, StoreError},
    trust::checks::Contradiction,
};

/// What to keep of a finished order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The outcome of every position of every graph
    All,
    /// P1-win graphs and statistics, and the graphs of the last order; outcomes go when no
    /// unfinished shard needs them
    Minimal,
}

/// What a census is to do.
#[derive(Clone, Copy, Debug)]
pub struct CensusOptions {
    /// All orders up to this one.
    pub order: usize,
    pub keep: Keep,
    /// For orders that are not begun yet.
    pub plan: PlanOptions,
    /// Leases of workers in other processes last this long.
    pub lease_term: Duration,
    /// The share of all records that is derived again by nauty before results are let in, 0 to 1.
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

/// Why a census cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CensusError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the results contradict theory and are not reported; a machine that worked on them is \
         faulty, or the program is"
    )]
    Contradiction(#[from] Contradiction),
    #[error("{0}: a machine that worked on it, or this program, is faulty")]
    Faulty(String),
    #[error(
        "{count} units failed again and again and were set aside, the first of them part {part} \
         of {sequence}: {failures}; everything else that could be done is done and kept. The \
         same command tries again"
    )]
    SetAside { count: usize, sequence: DegreeSequence, part: u32, failures: String },
    #[error("the system has no random numbers to give: {0}")]
    Random(#[from] getrandom::Error),
}

/// Why a delivery was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the lease is void")]
    Void,
    #[error("the results of unit {unit:?} are wrong: {why}")]
    Wrong { unit: Unit, why: String },
    #[error("the parts of {sequence} do not add up and are all to be solved again: {why}")]
    Reopened { sequence: DegreeSequence, why: String },
    #[error("this worker is not trusted any more: {0}")]
    Distrusted(String),
    #[error("the census has ended")]
    Ended,
}

/// What a worker is told when it asks for work.
pub enum Assignment {
    Work(Work),
    Wait,
    /// Results of this worker were wrong: it gets none.
    Distrusted,
    /// Everything is done.
    Finished,
    /// The coordinator stops before that.
    Stopping,
}

/// Units leased to a worker.
pub struct Work {
    pub lease: u64,
    pub plan: Arc<Plan>,
    pub units: Vec<Unit>,
    /// Partitions read under another edition may be others.
    pub edition: u32,
}

/// A worker as the coordinator sees it.
#[derive(Clone, Debug)]
pub struct Worker {
    pub name: String,
    pub threads: usize,
    pub kernel: String,
    /// Last time it was heard of, since the start of the census.
    pub seen: Duration,
    /// Units and (graph, edge) pairs it has solved.
    pub units: u64,
    pub pairs: u64,
    /// Told that everything is done.
    pub dismissed: bool,
    /// Results of it were wrong.
    pub distrusted: bool,
}

impl Worker {
    /// As records name it.
    pub fn title(&self) -> String {
        format!("{}, {}", self.name, self.kernel)
    }
}

/// The name in a title.
fn name_of(title: &str) -> &str {
    title.rsplit_once(", ").map_or(title, |(name, _)| name)
}

/// How far the census is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The order in work, and the last one to do.
    pub order: usize,
    pub target: usize,
    pub shards_done: usize,
    pub shards: usize,
    pub units_ready: usize,
    pub units_leased: usize,
    pub graphs_done: u64,
    /// Exact, by Pólya's theorem.
    pub graphs: u64,
    pub pairs_done: u64,
    /// (graph, edge) pairs of the order; exact.
    pub pairs: u64,
    /// (graph, edge) pairs solved in this run, and how long it has been running.
    pub pairs_this_run: u64,
    pub elapsed: Duration,
    /// Units that wait for a second computation by another worker.
    pub units_to_compare: usize,
    /// Units that failed again and again, and why.
    pub set_aside: Vec<(Unit, DegreeSequence, Vec<String>)>,
}

struct Order {
    schedule: Schedule,
    comparisons: Comparisons,
    /// Units without a durable record that counts, and confirmations on their way there.
    to_commit: usize,
    /// What the store held of it when it was taken up.
    found: HashMap<Unit, Found>,
    /// Shards of which some part is done and some is not.
    partial: HashMap<u32, Partial>,
    outcomes_kept: bool,
    /// Outcomes with up to this many edges have been dropped.
    dropped_size: Option<usize>,
    graphs: u64,
    graphs_done: u64,
    pairs: u64,
    pairs_done: u64,
}

/// What the finished parts of a shard add up to, or a unit.
#[derive(Clone, Copy, Default)]
struct Partial {
    /// Σ n!/|Aut|.
    mass: u128,
    graphs: u64,
}

impl Partial {
    fn of(record: &UnitRecord) -> Self {
        let Statistics { classes, labelled, .. } = &record.statistics;
        Partial { mass: labelled.all.graphs, graphs: classes.all.graphs as u64 }
    }

    fn add(&mut self, other: Partial) {
        // What a worker says may be anything.
        self.mass = self.mass.saturating_add(other.mass);
        self.graphs = self.graphs.saturating_add(other.graphs);
    }
}

/// A unit that the store holds.
struct Found {
    sums: Partial,
    /// Who solved it, if another worker has to solve it again.
    to_compare: Option<String>,
}

impl Order {
    /// Units that failed again and again, in solving or in comparing, and why.
    fn set_aside(&self) -> impl Iterator<Item = (Unit, &[String])> {
        self.schedule.set_aside().chain(self.comparisons.set_aside())
    }

    /// Whether nothing is left to do but to make it durable.
    fn is_solved(&self) -> bool {
        self.schedule.is_done() && self.comparisons.open() == 0
    }

    /// The largest number of edges such that nothing that is left to do reads a shard with that
    /// many or fewer.
    fn retired_size(&self) -> Option<usize> {
        let retired = self.schedule.retired_size()?;
        match self.comparisons.first() {
            Some(unit) => self.schedule.plan().shards[unit.shard as usize]
                .size
                .checked_sub(2)
                .map(|size| size.min(retired)),
            None => Some(retired),
        }
    }

    /// That it is durable to this extent, with the order.
    fn retired(&self) -> Option<(usize, usize)> {
        Some((self.schedule.plan().order, self.retired_size()?))
    }

    fn count(&mut self, unit: Unit, sums: Partial) -> u64 {
        let pairs = sums.graphs * self.schedule.plan().shards[unit.shard as usize].size as u64;
        self.graphs_done += sums.graphs;
        self.pairs_done += pairs;
        pairs
    }
}

struct State {
    results: Vec<OrderResult>,
    order: Option<Order>,
    leases: LeaseTable,
    workers: BTreeMap<WorkerId, Worker>,
    next_worker: WorkerId,
    /// Accepted and not durable yet.
    pending: HashMap<(DegreeSequence, u32), Arc<Delivery>>,
    pending_bytes: usize,
    pairs_this_run: u64,
    /// Changes with every start, and whenever finished units are taken back.
    edition: u32,
    /// Results that are being examined. What they bring to light has to be known before an order
    /// is done.
    scrutinies: usize,
    alarms: BTreeMap<u32, Alarm>,
    /// Set at the end, good or bad; taken by the one who waits for it.
    ended: Option<Result<(), CensusError>>,
    closing: bool,
}

impl State {
    /// Whether the order in work is done and durable, and nothing is being found out about it.
    fn is_order_done(&self) -> bool {
        let is_done = |order: &Order| order.to_commit == 0 && order.is_solved();
        self.scrutinies == 0 && self.order.as_ref().is_some_and(is_done)
    }
}

/// Results are being examined for as long as this exists.
struct Scrutiny<'a>(&'a Census);

impl Drop for Scrutiny<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.scrutinies -= 1;
        if state.is_order_done() {
            // The committer has waited for this.
            self.0.enqueue(Queued { urgent: true, ..Queued::of(state.edition) });
        }
    }
}

/// A census in progress. Shared by everything that works on it.
pub struct Census {
    options: CensusOptions,
    store: Store,
    /// Decides which units are compared.
    salt: u64,
    parents: Parents,
    names: Names,
    /// The plan of the order below the one in work.
    parent_plan: Mutex<Option<Arc<Plan>>>,
    /// Trials read much, and take their turns; so do judgements, which take long.
    trials: Mutex<()>,
    judgements: Mutex<()>,
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
    /// Woken like `changed`, for tasks.
    pub wakeup: tokio::sync::Notify,
    queue: Mutex<Option<Sender<Queued>>>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

/// Deliveries are held back while more bytes than this wait for the disk.
const PENDING_BYTES: usize = 256 << 20;
/// Names of blocks that are remembered: more than those of the partitions that are read at a time.
const NAMES: NonZeroUsize = NonZeroUsize::new(1 << 17).expect("not zero");

impl Census {
    /// Opens the store in `directory` and takes up the census where it was left.
    pub fn open(directory: &Path, options: CensusOptions) -> Result<Arc<Self>, CensusError> {
        let store = Store::open(directory)?;
        let epoch = store.next_epoch()?;
        let salt = store.salt(Random::unforeseeable()?.0)?;
        let alarms = store.alarms()?.into_iter().collect();
        // What was accepted and not durable when the run before ended is not to be used by those
        // who have read it.
        let edition = store.edition()? + 1;
        store.put_edition(edition)?;
        let (sender, receiver) = channel();
        let census = Arc::new(Census {
            options,
            store,
            salt,
            parents: Parents::enumerate(),
            names: Names::new(NAMES),
            parent_plan: Mutex::default(),
            trials: Mutex::default(),
            judgements: Mutex::default(),
            started: (options.clock)(),
            state: Mutex::new(State {
                results: Vec::new(),
                order: None,
                leases: LeaseTable::new(epoch, options.lease_term),
                workers: BTreeMap::new(),
                next_worker: u64::from(epoch) << 32,
                pending: HashMap::new(),
                pending_bytes: 0,
                pairs_this_run: 0,
                edition,
                scrutinies: 0,
                alarms,
                ended: None,
                closing: false,
            }),
            changed: Condvar::new(),
            wakeup: tokio::sync::Notify::new(),
            queue: Mutex::new(Some(sender)),
            committer: Mutex::new(None),
        });
        match trust::doubted(&census.store)? {
            // An earlier run was stopped before it took these back.
            units if !units.is_empty() => census.take_back(&mut census.state(), units),
            _ => census.advance(None)?,
        }
        let weak = Arc::downgrade(&census);
        let committer = std::thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || {
                let started = Instant::now();
                while let Some(group) =
                    gather(&receiver, (started.elapsed() / GATHER).min(options.gather))
                {
                    let Some(census) = weak.upgrade() else { return };
                    census.commit(group);
                }
            })
            .expect("threads can be spawned");
        *lock(&census.committer) = Some(committer);
        Ok(census)
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CensusOptions {
        &self.options
    }

    /// Time since it was opened.
    pub fn now(&self) -> Duration {
        (self.options.clock)().saturating_duration_since(self.started)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn announce(&self) {
        self.changed.notify_all();
        self.wakeup.notify_waiters();
    }

    /// Adds a worker, unless results of it were wrong before.
    pub fn register(&self, name: &str, threads: usize, kernel: &str) -> Result<WorkerId, Refusal> {
        let mut state = self.state();
        let is_blamed = |alarm: &Alarm| alarm.blamed.iter().any(|title| name_of(title) == name);
        if state.alarms.values().any(|alarm| alarm.settled.is_none() && is_blamed(alarm)) {
            return Err(Refusal::Distrusted(name.to_owned()));
        }
        // Workers that are long gone need not be remembered.
        let (now, term) = (self.now(), self.options.lease_term);
        let State { leases, workers, .. } = &mut *state;
        workers.retain(|&id, worker| {
            worker.distrusted
                || now.saturating_sub(worker.seen) < 10 * term
                || leases.units(Some(id)) > 0
        });
        state.next_worker += 1;
        let worker = Worker {
            name: name.to_owned(),
            threads,
            kernel: kernel.to_owned(),
            seen: self.now(),
            units: 0,
            pairs: 0,
            dismissed: false,
            distrusted: false,
        };
        let number = state.next_worker;
        state.workers.insert(number, worker);
        tracing::info!(worker = number, name, threads, kernel, "worker registered");
        Ok(number)
    }

    /// Notes a sign of life; false if the worker is not known.
    pub fn hear(&self, worker: WorkerId) -> bool {
        let now = self.now();
        self.state().workers.get_mut(&worker).map(|worker| worker.seen = now).is_some()
    }

    /// Renews leases.
    pub fn renew(&self, worker: WorkerId, leases: &[u64]) {
        let now = self.now();
        self.state().leases.renew(worker, leases, now);
    }

    /// What a worker holds under a lease, or held until it expired: units of the plan in work.
    pub fn leased(&self, worker: WorkerId, lease: u64) -> Option<(Arc<Plan>, Vec<Unit>)> {
        let state = self.state();
        let plan = state.order.as_ref()?.schedule.plan().clone();
        let units = state.leases.get(worker, lease)?;
        units.iter().all(|unit| unit.order as usize == plan.order).then(|| (plan, units.to_vec()))
    }

    /// Work for a worker, if there is any. Leases of an embedded worker do not expire.
    pub fn assign(&self, worker: WorkerId, embedded: bool) -> Assignment {
        let now = self.now();
        let mut state = self.state();
        let state = &mut *state;
        for ended in state.leases.expire(now) {
            let (lease, units) = (ended.number, ended.units.len());
            tracing::warn!(
                lease,
                worker = ended.worker,
                units,
                "lease expired, its units go to others"
            );
            let name = state.workers.get(&ended.worker).map_or_else(String::new, Worker::title);
            self.release(state, ended, Some(&format!("{name} fell silent")));
        }
        if state.workers.get(&worker).is_some_and(|worker| worker.distrusted) {
            return Assignment::Distrusted;
        }
        match &state.ended {
            Some(Ok(())) => {
                if let Some(worker) = state.workers.get_mut(&worker) {
                    worker.dismissed = true;
                }
                return Assignment::Finished;
            }
            Some(Err(_)) => return Assignment::Stopping,
            None if state.closing => return Assignment::Stopping,
            None => {}
        }
        let alive = |worker: &&Worker| {
            !worker.dismissed && now.saturating_sub(worker.seen) < self.options.lease_term
        };
        let threads = state.workers.values().filter(alive).map(|worker| worker.threads).sum();
        let Some(order) = &mut state.order else { return Assignment::Wait };
        let plan = order.schedule.plan().clone();
        let name = state.workers.get(&worker).map_or_else(String::new, Worker::title);
        // Comparisons first: what is wrong should be known before much is built upon it.
        let compared = order.comparisons.take(&name, |unit| plan.pairs(unit));
        let (purpose, units) = match compared.is_empty() {
            true => (Purpose::Solve, order.schedule.take(threads)),
            false => (Purpose::Compare, compared),
        };
        if units.is_empty() {
            self.end_if_stuck(state);
            return Assignment::Wait;
        }
        let lease = match embedded {
            true => state.leases.grant_embedded(worker, units.clone()),
            false => state.leases.grant(worker, purpose, units.clone(), now),
        };
        Assignment::Work(Work { lease, plan, units, edition: state.edition })
    }

    /// Work for an embedded worker; waits up to `timeout` for some.
    pub fn assign_blocking(&self, worker: WorkerId, timeout: Duration) -> Assignment {
        let deadline = Instant::now() + timeout;
        loop {
            match self.assign(worker, true) {
                Assignment::Wait => {}
                other => return other,
            }
            let state = self.state();
            // Something may have become ready between the two locks.
            let ready = state.order.as_ref().is_some_and(|order| order.schedule.ready() > 0);
            if ready || state.ended.is_some() || state.closing {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Assignment::Wait;
            }
            drop(self.changed.wait_timeout(state, left));
        }
    }

    /// Takes leased units back unsolved. `failure` says why they could not be solved, if that was
    /// tried.
    pub fn give_back(&self, worker: WorkerId, lease: u64, failure: Option<&str>) {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(ended) = state.leases.end(worker, lease) {
            let name = state.workers.get(&worker).map_or_else(String::new, Worker::title);
            self.release(state, ended, failure.map(|why| format!("{name}: {why}")).as_deref());
        }
        drop(guard);
        self.announce();
    }

    /// Makes the units of a lease that has ended available again.
    fn release(&self, state: &mut State, ended: Ended, failure: Option<&str>) {
        let Some(order) = &mut state.order else { return };
        let set_aside = match (ended.purpose, failure) {
            (Purpose::Solve, None) => return order.schedule.put_back(ended.units),
            (Purpose::Compare, None) => return order.comparisons.put_back(&ended.units),
            (Purpose::Solve, Some(failure)) => order.schedule.fail(ended.units, failure),
            (Purpose::Compare, Some(failure)) => order.comparisons.fail(&ended.units, failure),
        };
        for unit in set_aside {
            tracing::error!(?unit, failure, "a unit failed again and again and is set aside");
        }
    }

    /// Ends the census if there is nothing left to do but what was set aside.
    fn end_if_stuck(&self, state: &mut State) {
        let Some(order) = &state.order else { return };
        let idle = state.pending.is_empty()
            && order.schedule.ready() == 0
            && order.comparisons.waiting() == 0
            && state.leases.units(None) == 0;
        let Some((unit, failures)) = order.set_aside().next().filter(|_| idle) else { return };
        let (count, sequence) = (
            order.set_aside().count(),
            order.schedule.plan().shards[unit.shard as usize].sequence,
        );
        let failures = failures.join("; ");
        state.ended.get_or_insert(Err(CensusError::SetAside {
            count,
            sequence,
            part: unit.part,
            failures,
        }));
    }

    /// The plan of the order in work.
    pub fn leased_plan(&self) -> Option<Arc<Plan>> {
        self.state().order.as_ref().map(|order| order.schedule.plan().clone())
    }

    /// Takes the results of a lease in. With `durable` it returns when they are on disk, otherwise
    /// when they are accepted and there is room for more. Returns the shards that nothing will
    /// read any more.
    pub fn accept(
        &self,
        worker: WorkerId,
        lease: u64,
        mut deliveries: Vec<Delivery>,
        durable: bool,
    ) -> Result<Vec<u32>, Refusal> {
        let edition = {
            let mut state = self.state();
            state.scrutinies += 1;
            state.edition
        };
        let scrutiny = Scrutiny(self);
        let Some((plan, units)) = self.leased(worker, lease) else {
            let ended = self.state().ended.is_some();
            return Err(if ended { Refusal::Ended } else { Refusal::Void });
        };
        let verdict =
            match deliveries.iter().map(|delivery| delivery.unit).eq(units.iter().copied()) {
                true => deliveries
                    .iter_mut()
                    .try_for_each(|delivery| self.examine(&plan, delivery, edition)),
                false => Err(Refusal::Wrong {
                    unit: units[0],
                    why: "these are not the leased units".to_owned(),
                }),
            };
        let mut retired = Vec::new();
        let receipt = {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.ended.is_some() || state.closing {
                return Err(Refusal::Ended);
            }
            let ended = state.leases.end(worker, lease);
            if let Some(Purpose::Compare) | None = ended.as_ref().map(|ended| ended.purpose) {
                drop(guard);
                let compared =
                    verdict.and_then(|()| self.compare(&plan, worker, &deliveries, edition));
                if let Some(ended) = ended {
                    // Those that were compared are not there any more.
                    let failure = compared.as_ref().err().map(ToString::to_string);
                    let mut state = self.state();
                    if state.edition == edition {
                        self.release(&mut state, ended, failure.as_deref());
                    }
                    drop(state);
                    self.announce();
                    return compared.map(|()| Vec::new());
                }
                return compared.and(Err(Refusal::Void));
            }
            let order = state.order.as_mut().ok_or(Refusal::Void)?;
            if let Err(refusal) = verdict.and_then(|()| self.weigh(order, &deliveries)) {
                if let Refusal::Reopened { sequence, why } = &refusal {
                    let pending =
                        state.pending.values().filter(|delivery| delivery.sequence == *sequence);
                    let mut records: Vec<UnitRecord> =
                        pending.map(|delivery| delivery.record.clone()).collect();
                    records.extend(deliveries.into_iter().map(|delivery| delivery.record));
                    self.void(state);
                    drop(guard);
                    self.reopen(&plan, sequence, why, records);
                } else {
                    ended
                        .into_iter()
                        .for_each(|ended| self.release(state, ended, Some(&refusal.to_string())));
                    drop(guard);
                }
                self.announce();
                return Err(refusal);
            }
            let name = state.workers.get(&worker).map_or_else(String::new, Worker::title);
            for delivery in &mut deliveries {
                delivery.record.instance = lease;
                delivery.record.inputs = order.schedule.inputs(delivery.unit.shard);
            }
            let deliveries: Vec<Arc<Delivery>> = deliveries.into_iter().map(Arc::new).collect();
            for delivery in &deliveries {
                let Delivery { unit, record, .. } = &**delivery;
                if order.comparisons.want(*unit) {
                    order.comparisons.add(*unit, &name);
                }
                retired.extend(order.schedule.finish(*unit, record.content).retired);
                let pairs = order.count(*unit, Partial::of(record));
                state.pairs_this_run += pairs;
                if let Some(worker) = state.workers.get_mut(&worker) {
                    worker.units += 1;
                    worker.pairs += pairs;
                }
                self.note_names(delivery);
                state.pending.insert((delivery.sequence, unit.part), delivery.clone());
                state.pending_bytes += record.bytes as usize;
            }
            let stale = self.settle(order);
            let (waiter, receipt) =
                if durable { Some(sync_channel(1)).unzip() } else { (None, None) };
            let (retired_size, urgent) = (order.retired(), order.is_solved());
            // Within the lock, so that the queue is in the order of acceptance.
            self.enqueue(Queued {
                deliveries,
                stale,
                retired_size,
                urgent,
                waiter,
                ..Queued::of(state.edition)
            });
            receipt
        };
        drop(scrutiny);
        self.announce();
        match receipt {
            // The committer hangs up without a word when it fails.
            Some(receipt) => receipt.recv().map_err(|_| Refusal::Ended)?,
            None => {
                let mut state = self.state();
                while state.pending_bytes > PENDING_BYTES && state.ended.is_none() {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        Ok(retired)
    }

    /// Remembers what blocks will be asked for by name. Those of a unit that is solved again take
    /// the place of the former.
    fn note_names(&self, delivery: &Delivery) {
        delivery
            .blocks
            .iter()
            .filter(|block| is_shared(block))
            .for_each(|block| self.names.note(block));
    }

    /// Counts what recalled units have become; those that have to be forgotten.
    fn settle(&self, order: &mut Order) -> Vec<Unit> {
        let settled = order.schedule.settled();
        for unit in settled.affirmed {
            let Some(found) = order.found.remove(&unit) else { continue };
            order.count(unit, found.sums);
            order.to_commit -= 1;
            if order.schedule.unfinished_parts(unit.shard) > 0 {
                order.partial.entry(unit.shard).or_default().add(found.sums);
            } else {
                order.partial.remove(&unit.shard);
            }
            if let Some(by) = found.to_compare {
                order.comparisons.add(unit, &by);
            }
        }
        settled.stale
    }

    fn end(&self, result: Result<(), CensusError>) {
        let mut state = self.state();
        // The first end counts.
        if state.ended.is_none() {
            state.ended = Some(result);
        }
        drop(state);
        self.announce();
    }

    /// Whether it is over, well or not.
    pub fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Whether everything is done.
    pub fn is_complete(&self) -> bool {
        matches!(self.state().ended, Some(Ok(())))
    }

    /// Stops handing out work and accepting results, and makes durable what was accepted. Results
    /// of the finished orders if everything is done, `None` if there is more to do.
    pub fn close(&self) -> Result<Option<Vec<OrderResult>>, CensusError> {
        self.state().closing = true;
        // The committer works its queue off and returns when the last sender is gone.
        drop(lock(&self.queue).take());
        if let Some(committer) = lock(&self.committer).take() {
            let _ = committer.join();
        }
        let mut state = self.state();
        match state.ended.take() {
            Some(Ok(())) => Ok(Some(state.results.clone())),
            Some(Err(error)) => Err(error),
            None => Ok(None),
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let state = self.state();
        let mut progress = Progress {
            order: state.results.len(),
            target: self.options.order,
            pairs_this_run: state.pairs_this_run,
            elapsed: self.now(),
            units_leased: state.leases.units(None),
            ..Progress::default()
        };
        if let Some(order) = &state.order {
            let plan = order.schedule.plan();
            progress.order = plan.order;
            progress.units_to_compare = order.comparisons.open();
            progress.set_aside = order
                .set_aside()
                .map(|(unit, failures)| {
                    (unit, plan.shards[unit.shard as usize].sequence, failures.to_vec())
                })
                .collect();
            (progress.shards_done, progress.shards) = order.schedule.shards_done();
            progress.units_ready = order.schedule.ready();
            progress.graphs_done = order.graphs_done;
            progress.graphs = order.graphs;
            progress.pairs_done = order.pairs_done;
            progress.pairs = order.pairs;
        }
        progress
    }

    /// What a worker calls itself.
    pub fn worker_name(&self, worker: WorkerId) -> String {
        self.state().workers.get(&worker).map_or_else(String::new, Worker::title)
    }

    /// All alarms, by number.
    pub fn alarms(&self) -> Vec<(u32, Alarm)> {
        self.state().alarms.clone().into_iter().collect()
    }

    /// The workers, and the number of units each of them holds.
    pub fn workers(&self) -> Vec<(WorkerId, Worker, usize)> {
        let state = self.state();
        state
            .workers
            .iter()
            .map(|(&id, worker)| (id, worker.clone(), state.leases.units(Some(id))))
            .collect()
    }

    /// Orders that are done.
    pub fn results(&self) -> Vec<OrderResult> {
        self.state().results.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // State is changed in steps that do not panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
