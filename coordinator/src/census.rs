//! The census itself: one order after the other, units leased to workers, results checked, made durable and added up.
//!
//! All state that changes with every call is behind one lock that is never held during a computation or an access to a
//! disk or a network. A thread of its own, the committer, writes deliveries to the store in the order in which they were
//! accepted; so whatever is durable, everything it was computed from is durable too.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use trailtrap_shared::{
    degree::DegreeSequence,
    digest::Digest,
    game::TrailTrap,
    graph::pairs,
    partition::{Block, BlockId, Section},
    plan::{Plan, PlanOptions, Unit},
    polya,
    statistics::Statistics,
};

use trailtrap_worker::{
    cache::Wanted,
    supply::{Described, is_shared},
};

use crate::{
    checks::{self, Contradiction},
    lease::{LeaseTable, WorkerId},
    names::Names,
    parents::{ENUMERATED_ORDER, Parents},
    schedule::Schedule,
    store::{Delivery, OrderRecord, Store, StoreError, UnitRecord, block_id},
};

/// What to keep of a finished order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Keep {
    /// The outcome of every position of every graph
    All,
    /// P1-win graphs and statistics, and the graphs of the last order; outcomes go when no unfinished shard needs them
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
}

/// Why a census cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CensusError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the results contradict theory and are not reported; a machine that worked on them is faulty, or the program is"
    )]
    Contradiction(#[from] Contradiction),
    #[error(
        "two computations of the shard {sequence} differ, by {first} and by {second}: one of these machines is faulty, and the results are not to be trusted"
    )]
    Disagreement { sequence: DegreeSequence, first: String, second: String },
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
    #[error("the census has ended")]
    Ended,
}

/// The results of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderResult {
    pub order: usize,
    /// Statistics and digest for each number of edges.
    pub by_size: Vec<(Statistics, Digest)>,
}

/// What a worker is told when it asks for work.
pub enum Assignment {
    Work {
        lease: u64,
        plan: Arc<Plan>,
        units: Vec<Unit>,
    },
    Wait,
    /// Everything is done.
    Finished,
    /// The coordinator stops before that.
    Stopping,
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
}

struct Order {
    schedule: Schedule,
    /// Units without a durable record.
    units_to_commit: usize,
    /// Shards of which some part is done and some is not.
    partial: HashMap<u32, Partial>,
    /// Outcomes with up to this many edges have been dropped.
    dropped_size: Option<usize>,
    graphs: u64,
    graphs_done: u64,
    pairs: u64,
    pairs_done: u64,
}

/// What the finished parts of a shard add up to.
#[derive(Clone, Copy, Default)]
struct Partial {
    /// Σ n!/|Aut|.
    mass: u128,
    graphs: u64,
}

impl Partial {
    fn add(&mut self, record: &UnitRecord) {
        self.mass += record.statistics.labelled.all.graphs;
        self.graphs += record.statistics.classes.all.graphs as u64;
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
    /// Set at the end, good or bad; taken by the one who waits for it.
    ended: Option<Result<(), CensusError>>,
    closing: bool,
}

/// An entry of the committer's queue.
struct Queued {
    deliveries: Vec<Arc<Delivery>>,
    /// Units whose records are to go, because they turned out wrong.
    forget: Vec<Unit>,
    /// When this entry is durable, no unfinished shard needs outcomes with up to this many edges.
    retired_size: Option<usize>,
    /// Nothing will come for a while: do not wait for more.
    urgent: bool,
    /// Whom to tell when it is durable.
    waiter: Option<SyncSender<()>>,
}

/// A census in progress. Shared by everything that works on it.
pub struct Census {
    options: CensusOptions,
    store: Store,
    parents: Parents,
    names: Names,
    /// The plan of the order below the one in work.
    parent_plan: Mutex<Option<Arc<Plan>>>,
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
    /// Woken like `changed`, for tasks.
    pub wakeup: tokio::sync::Notify,
    queue: Mutex<Option<Sender<Queued>>>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

/// Names of blocks that are remembered: more than those of the partitions that are read at a time.
const NAMES: usize = 1 << 17;
/// A description holds so many bytes of blocks at most.
const DESCRIPTION_BYTES: u64 = 1 << 20;
/// Deliveries are held back while more bytes than this wait for the disk.
const PENDING_BYTES: usize = 256 << 20;
/// The committer gathers deliveries for this part of the time that a run has lasted, and no longer than a second, when
/// nobody waits for them: a crash costs little of what was done, and long runs write few files …
const GATHER: (u32, Duration) = (20, Duration::from_secs(1));
/// … half as long as a lease of much work takes when a worker waits, …
const GATHER_AWAITED: Duration = Duration::from_millis(100);
/// … and no more than this many bytes.
const GATHER_BYTES: usize = 64 << 20;

impl Census {
    /// Opens the store in `directory` and takes up the census where it was left.
    pub fn open(directory: &Path, options: CensusOptions) -> Result<Arc<Self>, CensusError> {
        let store = Store::open(directory)?;
        let epoch = store.next_epoch()?;
        let (sender, receiver) = channel();
        let census = Arc::new(Census {
            options,
            store,
            parents: Parents::enumerate(),
            names: Names::new(NAMES),
            parent_plan: Mutex::default(),
            started: Instant::now(),
            state: Mutex::new(State {
                results: Vec::new(),
                order: None,
                leases: LeaseTable::new(epoch, options.lease_term),
                workers: BTreeMap::new(),
                next_worker: u64::from(epoch) << 32,
                pending: HashMap::new(),
                pending_bytes: 0,
                pairs_this_run: 0,
                ended: None,
                closing: false,
            }),
            changed: Condvar::new(),
            wakeup: tokio::sync::Notify::new(),
            queue: Mutex::new(Some(sender)),
            committer: Mutex::new(None),
        });
        census.advance()?;
        let weak = Arc::downgrade(&census);
        let committer = std::thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || {
                let started = Instant::now();
                while let Some(group) = gather(&receiver, (started.elapsed() / GATHER.0).min(GATHER.1)) {
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
        self.started.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn announce(&self) {
        self.changed.notify_all();
        self.wakeup.notify_waiters();
    }

    /// Adds a worker.
    pub fn register(&self, name: &str, threads: usize, kernel: &str) -> WorkerId {
        let mut state = self.state();
        // Workers that are long gone need not be remembered.
        let (now, term) = (self.now(), self.options.lease_term);
        let State { leases, workers, .. } = &mut *state;
        workers.retain(|&id, worker| leases.units(Some(id)) > 0 || now.saturating_sub(worker.seen) < 10 * term);
        state.next_worker += 1;
        let worker = Worker {
            name: name.to_owned(),
            threads,
            kernel: kernel.to_owned(),
            seen: self.now(),
            units: 0,
            pairs: 0,
            dismissed: false,
        };
        let number = state.next_worker;
        state.workers.insert(number, worker);
        tracing::info!(worker = number, name, threads, kernel, "worker registered");
        number
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
        for (lease, worker, units) in state.leases.expire(now) {
            tracing::warn!(lease, worker, units = units.len(), "lease expired, its units go to others");
            if let Some(order) = &mut state.order {
                order.schedule.put_back(units);
            }
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
        let alive = |worker: &&Worker| !worker.dismissed && now.saturating_sub(worker.seen) < self.options.lease_term;
        let threads = state.workers.values().filter(alive).map(|worker| worker.threads).sum();
        let Some(order) = &mut state.order else { return Assignment::Wait };
        let units = order.schedule.take(threads);
        if units.is_empty() {
            return Assignment::Wait;
        }
        let lease = match embedded {
            true => state.leases.grant_embedded(worker, units.clone()),
            false => state.leases.grant(worker, units.clone(), now),
        };
        Assignment::Work { lease, plan: order.schedule.plan().clone(), units }
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

    /// Takes leased units back unsolved.
    pub fn give_back(&self, worker: WorkerId, lease: u64) {
        let mut state = self.state();
        if let Some(units) = state.leases.end(worker, lease)
            && let Some(order) = &mut state.order
        {
            order.schedule.put_back(units);
        }
        drop(state);
        self.announce();
    }

    /// The plan of the order in work.
    pub fn leased_plan(&self) -> Option<Arc<Plan>> {
        self.state().order.as_ref().map(|order| order.schedule.plan().clone())
    }

    /// Takes the results of a lease in. With `durable` it returns when they are on disk, otherwise when they are accepted
    /// and there is room for more. Returns the shards that nothing will read any more.
    pub fn accept(
        &self,
        worker: WorkerId,
        lease: u64,
        deliveries: Vec<Delivery>,
        durable: bool,
    ) -> Result<Vec<u32>, Refusal> {
        let deliveries: Vec<Arc<Delivery>> = deliveries.into_iter().map(Arc::new).collect();
        let verdict = self
            .leased_plan()
            .ok_or(Refusal::Void)
            .and_then(|plan| deliveries.iter().try_for_each(|delivery| self.examine(&plan, delivery)));
        let mut retired = Vec::new();
        let receipt = {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.ended.is_some() || state.closing {
                return Err(Refusal::Ended);
            }
            let Some(units) = state.leases.end(worker, lease) else {
                drop(guard);
                if verdict.is_ok() {
                    self.compare(&deliveries);
                }
                return Err(Refusal::Void);
            };
            let order = state.order.as_mut().ok_or(Refusal::Void)?;
            let delivered = deliveries.iter().map(|delivery| delivery.unit);
            let verdict = verdict.and_then(|()| match delivered.eq(units.iter().copied()) {
                true => self.weigh(order, &deliveries),
                false => Err(Refusal::Wrong { unit: units[0], why: "these are not the leased units".to_owned() }),
            });
            if let Err(refusal) = verdict {
                order.schedule.put_back(units);
                self.announce();
                return Err(refusal);
            }
            for delivery in &deliveries {
                let size = order.schedule.plan().shards[delivery.unit.shard as usize].size;
                retired.extend(order.schedule.finish(delivery.unit).retired);
                let graphs = delivery.record.statistics.classes.all.graphs as u64;
                let pairs = graphs * size as u64;
                order.graphs_done += graphs;
                order.pairs_done += pairs;
                state.pairs_this_run += pairs;
                if let Some(worker) = state.workers.get_mut(&worker) {
                    worker.units += 1;
                    worker.pairs += pairs;
                }
                self.note_names(delivery);
                state.pending.insert((delivery.sequence, delivery.unit.part), delivery.clone());
                state.pending_bytes += delivery.record.bytes as usize;
            }
            let (waiter, receipt) = if durable { Some(sync_channel(1)).unzip() } else { (None, None) };
            let retired_size = order.schedule.retired_size();
            let urgent = order.schedule.is_done();
            // Within the lock, so that the queue is in the order of acceptance.
            self.enqueue(Queued { deliveries, forget: Vec::new(), retired_size, urgent, waiter });
            receipt
        };
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

    /// Compares late results with what was accepted in their place. They have to be equal.
    fn compare(&self, late: &[Arc<Delivery>]) {
        for delivery in late {
            let pending = self.state().pending.get(&(delivery.sequence, delivery.unit.part)).cloned();
            let accepted = match pending {
                Some(accepted) => Some(accepted.record.clone()),
                None => self.store.unit(delivery.unit).unwrap_or_default(),
            };
            let differs = |accepted: &UnitRecord| {
                accepted.digest != delivery.record.digest || accepted.statistics != delivery.record.statistics
            };
            if let Some(accepted) = accepted.filter(differs) {
                let (first, second) = (accepted.worker, delivery.record.worker.clone());
                self.end(Err(CensusError::Disagreement { sequence: delivery.sequence, first, second }));
            }
        }
    }

    /// Remembers what blocks will be asked for by name. Those of a unit that is solved again take the place of the former.
    fn note_names(&self, delivery: &Delivery) {
        delivery.blocks.iter().filter(|block| is_shared(block)).for_each(|block| self.names.note(block));
    }

    fn enqueue(&self, queued: Queued) {
        if let Some(queue) = &*lock(&self.queue) {
            // The committer is there for as long as the queue is.
            let _ = queue.send(queued);
        }
    }

    /// Compares Σ n!/|Aut| of the shards that these deliveries finish with the number of labelled graphs. If the parts of a
    /// shard do not add up, any of them may be the wrong one: all are taken back.
    fn weigh(&self, order: &mut Order, deliveries: &[Arc<Delivery>]) -> Result<(), Refusal> {
        let mut sums: HashMap<u32, (Partial, u32)> = HashMap::new();
        for delivery in deliveries {
            let before = || (order.partial.get(&delivery.unit.shard).copied().unwrap_or_default(), 0);
            let (sum, parts) = sums.entry(delivery.unit.shard).or_insert_with(before);
            sum.add(&delivery.record);
            *parts += 1;
        }
        for delivery in deliveries {
            let (Partial { mass, .. }, parts) = sums[&delivery.unit.shard];
            let shard = &order.schedule.plan().shards[delivery.unit.shard as usize];
            let complete = order.schedule.unfinished_parts(delivery.unit.shard) == parts;
            if mass > shard.mass || complete && mass != shard.mass {
                let why = format!("Σ n!/|Aut| of {} is {mass}, not {}", shard.sequence, shard.mass);
                let size = shard.size as u64;
                let before = order.partial.remove(&delivery.unit.shard).unwrap_or_default();
                order.graphs_done -= before.graphs;
                order.pairs_done -= before.graphs * size;
                let sequence = shard.sequence;
                let forget = order.schedule.reopen(delivery.unit.shard);
                if forget.is_empty() {
                    return Err(Refusal::Wrong { unit: delivery.unit, why });
                }
                // Any of the parts may be the wrong one.
                let retired_size = None;
                self.enqueue(Queued { deliveries: Vec::new(), forget, retired_size, urgent: false, waiter: None });
                return Err(Refusal::Reopened { sequence, why });
            }
        }
        for (shard, (sum, parts)) in sums {
            if order.schedule.unfinished_parts(shard) == parts {
                order.partial.remove(&shard);
            } else {
                order.partial.insert(shard, sum);
            }
        }
        Ok(())
    }

    /// Whether a delivery is what it says it is, as far as can be told without solving it again.
    fn examine(&self, plan: &Plan, delivery: &Delivery) -> Result<(), Refusal> {
        let wrong = |why: &str| Refusal::Wrong { unit: delivery.unit, why: why.to_owned() };
        let shard = plan
            .shards
            .get(delivery.unit.shard as usize)
            .filter(|shard| delivery.unit.part < shard.parts && plan.order == delivery.unit.order as usize)
            .ok_or_else(|| wrong("there is no such unit"))?;
        let expected = (0..1u32 << shard.bucket_bits)
            .flat_map(|bucket| Section::ALL.map(|section| block_id(shard, delivery.unit.part, bucket, section)));
        if !delivery.blocks.iter().map(|block| block.id).eq(expected) {
            return Err(wrong("its blocks are not those of the unit"));
        }
        let count = |section: Section| -> u128 {
            delivery.blocks.iter().filter(|block| block.id.section == section).map(|block| block.count as u128).sum()
        };
        let counted = delivery.record.statistics.classes.all;
        if counted.graphs != count(Section::Keys)
            || counted.graphs != count(Section::Outcomes)
            || counted.p1_wins != count(Section::Wins)
        {
            return Err(wrong("its counts are not those of its blocks"));
        }
        if !delivery.record.statistics.is_consistent() {
            return Err(wrong("its counts are impossible"));
        }
        let keys = delivery.blocks.iter().filter(|block| block.id.section == Section::Keys);
        if plan.order <= ENUMERATED_ORDER && !self.parents.know(&shard.sequence, keys.flat_map(Block::slots)) {
            return Err(wrong("it lists graphs that nauty does not"));
        }
        Ok(())
    }

    /// The plan by which an earlier order was split.
    fn parent_plan(&self, order: usize) -> Result<Arc<Plan>, CensusError> {
        let mut cached = lock(&self.parent_plan);
        match &*cached {
            Some(plan) if plan.order == order => Ok(plan.clone()),
            _ => {
                let options = self.store.order(order)?.map_or(self.options.plan, |record| record.options);
                let plan = Arc::new(Plan::new::<TrailTrap>(order, options));
                *cached = Some(plan.clone());
                Ok(plan)
            }
        }
    }

    /// What a worker wants to read; `None` if there is no such thing.
    pub fn wanted_blocks(&self, wanted: &Wanted) -> Result<Option<Vec<Block>>, CensusError> {
        self.each_wanted(wanted, |id, at_hand| at_hand.map_or_else(|| self.store.read(id), |block| Ok(block.clone())))
    }

    /// What a worker wants to read, described; `None` if there is no such thing.
    pub fn described_blocks(&self, wanted: &Wanted) -> Result<Option<Vec<Described>>, CensusError> {
        let mut room = DESCRIPTION_BYTES;
        let mut describe = |block: &Block| {
            let name = block.name();
            if is_shared(block) || name.length > room {
                self.names.note(block);
                return Described::Named(name);
            }
            room -= name.length;
            Described::Here(block.clone())
        };
        self.each_wanted(wanted, |id, at_hand| match (at_hand, self.names.get(id)) {
            (Some(block), _) => Ok(describe(block)),
            (None, Some(name)) => Ok(Described::Named(name)),
            (None, None) => Ok(describe(&self.store.read(id)?)),
        })
    }

    /// Calls `take` for each block that a worker wants to read: keys and outcomes of a bucket of a finished shard of the
    /// order in work, or the keys of a finished order. The block comes along if it is not to be read from the store. `None` if
    /// there is no such thing.
    fn each_wanted<T>(
        &self,
        wanted: &Wanted,
        mut take: impl FnMut(&BlockId, Option<&Block>) -> Result<T, StoreError>,
    ) -> Result<Option<Vec<T>>, CensusError> {
        let mut taken = Vec::new();
        match wanted {
            Wanted::Parents(sequence) => {
                if let Some(block) = self.parents.block(sequence) {
                    return Ok(Some(vec![take(&block.id, Some(&block))?]));
                }
                let plan = self.parent_plan(sequence.order())?;
                let Some(index) = plan.find(sequence) else { return Ok(Some(taken)) };
                let shard = &plan.shards[index as usize];
                for bucket in 0..1u32 << shard.bucket_bits {
                    for part in 0..shard.parts {
                        taken.push(take(&block_id(shard, part, bucket, Section::Keys), None)?);
                    }
                }
            }
            &Wanted::Bucket(sequence, bucket) => {
                let Some(plan) = self.leased_plan() else { return Ok(None) };
                let Some(shard) = plan.find(&sequence).map(|index| &plan.shards[index as usize]) else {
                    return Ok(None);
                };
                if bucket >> shard.bucket_bits != 0 {
                    return Ok(None);
                }
                for part in 0..shard.parts {
                    let pending = self.state().pending.get(&(sequence, part)).cloned();
                    for section in [Section::Keys, Section::Outcomes] {
                        let at_hand =
                            pending.as_ref().map(|unit| &unit.blocks[3 * bucket as usize + section as usize - 1]);
                        match take(&block_id(shard, part, bucket, section), at_hand) {
                            Err(StoreError::MissingBlock(_)) => return Ok(None),
                            block => taken.push(block?),
                        }
                    }
                }
            }
        }
        Ok(Some(taken))
    }

    /// Makes a group of deliveries durable.
    fn commit(&self, group: Vec<Queued>) {
        let deliveries: Vec<Arc<Delivery>> =
            group.iter().flat_map(|queued| queued.deliveries.iter().cloned()).collect();
        if self.state().ended.is_some() {
            return;
        }
        let forget: Vec<Unit> = group.iter().flat_map(|queued| queued.forget.iter().copied()).collect();
        let committed = self.store.commit(&deliveries).and_then(|()| self.store.forget(forget.iter().copied()));
        if let Err(error) = committed {
            self.end(Err(error.into()));
            return;
        }
        let retired_size = group.iter().filter_map(|queued| queued.retired_size).max();
        let order_done = {
            let mut state = self.state();
            for delivery in &deliveries {
                let key = (delivery.sequence, delivery.unit.part);
                // A later delivery of the same unit may have taken its place.
                if state.pending.get(&key).is_some_and(|pending| Arc::ptr_eq(pending, delivery)) {
                    state.pending.remove(&key);
                }
                state.pending_bytes -= delivery.record.bytes as usize;
            }
            let order = state.order.as_mut().expect("deliveries belong to the order in work");
            order.units_to_commit = order.units_to_commit + forget.len() - deliveries.len();
            order.units_to_commit == 0 && order.schedule.is_done()
        };
        for waiter in group.into_iter().filter_map(|queued| queued.waiter) {
            let _ = waiter.send(());
        }
        let next =
            self.drop_retired_outcomes(retired_size).and_then(|()| if order_done { self.advance() } else { Ok(()) });
        if let Err(error) = next {
            self.end(Err(error));
        }
        self.announce();
    }

    /// With `--keep minimal`, drops the outcomes with up to `size` edges every few sizes.
    fn drop_retired_outcomes(&self, size: Option<usize>) -> Result<(), CensusError> {
        if self.options.keep == Keep::All {
            return Ok(());
        }
        let (n, size) = {
            let mut state = self.state();
            let Some(order) = &mut state.order else { return Ok(()) };
            let next = order.dropped_size.map_or(0, |dropped| dropped + 4);
            let Some(size) = size.filter(|&size| size >= next) else { return Ok(()) };
            order.dropped_size = Some(size);
            (order.schedule.plan().order, size)
        };
        Ok(self.store.drop_section(Section::Outcomes, n, size)?)
    }

    /// Ends the order in work, if any, and begins the next that is not done; or ends the census.
    fn advance(&self) -> Result<(), CensusError> {
        // Not in the condition, whose lock would last through the body.
        let finished = self.state().order.take();
        if let Some(order) = finished {
            self.close_order(order)?;
        }
        loop {
            let n = self.state().results.len() + 1;
            if n > self.options.order {
                self.end(Ok(()));
                return Ok(());
            }
            let begun = self.store.order(n)?;
            if let Some(by_size) = begun.as_ref().and_then(|record| record.result.clone()) {
                let by_size = by_size.into_iter().map(|(s, digest)| (s, Digest::from_le_bytes(digest))).collect();
                self.state().results.push(OrderResult { order: n, by_size });
                continue;
            }
            let order = self.open_order(n, begun)?;
            if !order.schedule.is_done() {
                self.state().order = Some(order);
                self.announce();
                return Ok(());
            }
            // Everything was durable but the result.
            self.close_order(order)?;
        }
    }

    /// The state of an order from what the store knows of it.
    fn open_order(&self, n: usize, begun: Option<OrderRecord>) -> Result<Order, CensusError> {
        let options = begun.as_ref().map_or(self.options.plan, |record| record.options);
        let plan = Arc::new(Plan::new::<TrailTrap>(n, options));
        let plan_fingerprint = plan.fingerprint;
        if begun.as_ref().is_some_and(|record| record.plan_fingerprint != plan_fingerprint) {
            return Err(StoreError::Plan(n).into());
        }
        // Before any outcome is dropped.
        let outcomes_kept = begun.as_ref().is_none_or(|record| record.outcomes_kept) && self.options.keep == Keep::All;
        let record = OrderRecord { options, plan_fingerprint, result: None, outcomes_kept };
        if begun.as_ref() != Some(&record) {
            self.store.put_order(n, &record)?;
        }
        let (graphs, work) = totals(n);
        let mut order = Order {
            units_to_commit: plan.shards.iter().map(|shard| shard.parts as usize).sum(),
            partial: HashMap::new(),
            dropped_size: None,
            graphs,
            graphs_done: 0,
            pairs: work,
            pairs_done: 0,
            schedule: Schedule::new(plan.clone()),
        };
        for (unit, record) in self.store.units(n)? {
            let Some(shard) = plan.shards.get(unit.shard as usize).filter(|shard| unit.part < shard.parts) else {
                continue;
            };
            let graphs = record.statistics.classes.all.graphs as u64;
            order.partial.entry(unit.shard).or_default().add(&record);
            if order.schedule.finish(unit).shard_done {
                order.partial.remove(&unit.shard);
            }
            order.graphs_done += graphs;
            order.pairs_done += graphs * shard.size as u64;
            order.units_to_commit -= 1;
        }
        Ok(order)
    }

    /// Adds up what the store holds of a finished order, checks it, and records the result.
    fn close_order(&self, order: Order) -> Result<(), CensusError> {
        let plan = order.schedule.plan();
        let n = plan.order;
        let mut by_size = vec![(Statistics::default(), Digest::default()); pairs(n) + 1];
        for (unit, record) in self.store.units(n)? {
            let (statistics, digest) = &mut by_size[plan.shards[unit.shard as usize].size];
            *statistics += &record.statistics;
            *digest += record.digest();
        }
        checks::check_order(n, by_size.iter().map(|(statistics, _)| statistics))?;
        let begun = self.store.order(n)?.expect("written when the order was begun");
        if !begun.outcomes_kept {
            self.store.drop_section(Section::Outcomes, n, pairs(n))?;
        }
        // Keys without outcomes have served when the next order is done.
        if n > 1 && self.store.order(n - 1)?.is_some_and(|record| !record.outcomes_kept) {
            self.store.drop_section(Section::Keys, n - 1, pairs(n - 1))?;
        }
        let result = by_size.iter().map(|(statistics, digest)| (statistics.clone(), digest.to_le_bytes())).collect();
        self.store.put_order(n, &OrderRecord { result: Some(result), ..begun })?;
        self.state().results.push(OrderResult { order: n, by_size });
        Ok(())
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

    /// Stops handing out work and accepting results, and makes durable what was accepted. Results of the finished orders
    /// if everything is done, `None` if there is more to do.
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
            progress.order = order.schedule.plan().order;
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
        let state = self.state();
        state.workers.get(&worker).map_or_else(String::new, |worker| format!("{}, {}", worker.name, worker.kernel))
    }

    /// The workers, and the number of units each of them holds.
    pub fn workers(&self) -> Vec<(WorkerId, Worker, usize)> {
        let state = self.state();
        state.workers.iter().map(|(&id, worker)| (id, worker.clone(), state.leases.units(Some(id)))).collect()
    }

    /// Orders that are done.
    pub fn results(&self) -> Vec<OrderResult> {
        self.state().results.clone()
    }
}

/// Graphs of an order 1 ≤ n ≤ 12 for each number of edges, by Pólya's theorem.
pub fn graphs_by_size(order: usize) -> Vec<u64> {
    let sizes = polya::unlabelled(order).pop().expect("orders start at 1").all;
    sizes.iter().map(|count| count.try_into().unwrap_or(u64::MAX)).collect()
}

/// Graphs of an order, and (graph, edge) pairs, by Pólya's theorem.
pub fn totals(order: usize) -> (u64, u64) {
    let sizes = graphs_by_size(order);
    (sizes.iter().sum(), sizes.iter().enumerate().map(|(size, &count)| size as u64 * count).sum())
}

/// Waits for deliveries, then gathers what comes along, until it is urgent, or time or room is up. `None` when
/// no more can come.
fn gather(queue: &Receiver<Queued>, patience: Duration) -> Option<Vec<Queued>> {
    let mut group = vec![queue.recv().ok()?];
    let start = Instant::now();
    loop {
        let bytes: u64 = group.iter().flat_map(|queued| &queued.deliveries).map(|delivery| delivery.record.bytes).sum();
        let forgets = group.last().is_some_and(|queued| !queued.forget.is_empty());
        // What comes after a unit is forgotten may be that unit again.
        if bytes as usize > GATHER_BYTES || forgets {
            return Some(group);
        }
        let patience = match () {
            () if group.iter().any(|queued| queued.urgent) => Duration::ZERO,
            () if group.iter().any(|queued| queued.waiter.is_some()) => patience.min(GATHER_AWAITED),
            () => patience,
        };
        let pause = patience.saturating_sub(start.elapsed());
        match queue.recv_timeout(pause) {
            Ok(queued) => group.push(queued),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Some(group),
        }
    }
}

/// The unit record and blocks of a solved unit.
pub fn delivery(
    unit: Unit,
    sequence: DegreeSequence,
    blocks: Vec<Block>,
    statistics: Statistics,
    digest: Digest,
    elapsed: Duration,
    worker: String,
) -> Delivery {
    let bytes = blocks.iter().map(|block| block.bytes().len() as u64).sum();
    let record = UnitRecord {
        statistics,
        digest: digest.to_le_bytes(),
        bytes,
        microseconds: elapsed.as_micros() as u64,
        worker,
    };
    Delivery { unit, sequence, blocks, record }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // State is changed in steps that do not panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
