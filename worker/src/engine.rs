//! The loop of a worker: lease, solve, deliver. The same loop runs embedded in the coordinator's
//! process and, over gRPC, in a process of its own; they differ in their [`Link`].

use std::{
    collections::BTreeSet,
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::channel,
    },
    task::{Context, Wake, Waker},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rayon::prelude::*;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use trailtrap_shared::{
    game::GameName,
    graph::degree::DegreeSequence,
    labelling::batch::Kernel,
    partition::{Block, entry_bytes},
    plan::{Plan, Unit},
    protocol::messages::Wanted,
};

use crate::{
    cache::{Fetch, PartitionCache, Readers},
    counting::parts::CensusState,
    kernel::{BucketKey, LookedUp, SolveError, SolvedUnit, Solver, SourceError},
    link::{Delivered, Grant, Lease, Link, LinkError, RunEnd, Unsolved, abandon},
    memory::{self, Room},
    process::{arenas, limits::Size},
};

/// A worker: its threads, its cache, and its link to a coordinator.
pub struct Engine<L: Link> {
    game: GameName,
    pool: rayon::ThreadPool,
    threads: usize,
    kernel: Kernel,
    memory_bytes: usize,
    link: Arc<L>,
    /// The cache of the last lease's edition.
    cache: Mutex<EditionCache<L>>,
    stop: CancellationToken,
    interrupt: Interrupt,
    /// Whether the link has said that all is done.
    finished: AtomicBool,
    /// A lease that is expected to end after this moment is given back, not begun.
    deadline: Option<Instant>,
    pace: Pace,
    effort: Arc<Effort>,
    room: SharedRoom,
    /// Held by the thread that asks for work. What waits for an answer names the room that there
    /// was when it asked; so only one does.
    asking: Mutex<()>,
}

/// The room of a worker, which its leases share.
struct SharedRoom {
    room: Mutex<Room>,
    returned: Condvar,
}

impl SharedRoom {
    fn new(room: Room) -> Self {
        SharedRoom { room: Mutex::new(room), returned: Condvar::new() }
    }

    /// The budget of the cache beside the graphs that are in work.
    fn cache_bytes(&self) -> usize {
        self.room.lock().cache_bytes()
    }

    /// What a unit of a lease may hold of tables that has so many graphs if it is of one shard.
    fn allowance_bytes(&self, threads: usize, of_one_shard: u64) -> usize {
        self.room.lock().allowance_bytes(threads, of_one_shard)
    }

    /// Room for whoever asks for work now, when there is enough.
    fn take(&self) -> TakenRoom<'_> {
        let mut room = self.room.lock();
        loop {
            if let Some(graphs) = room.offer() {
                let bytes = room.take(graphs);
                return TakenRoom { shared: self, graphs, bytes };
            }
            self.returned.wait(&mut room);
        }
    }
}

/// A part of the room, until this is dropped.
struct TakenRoom<'a> {
    shared: &'a SharedRoom,
    /// That it was offered for.
    graphs: u64,
    bytes: u64,
}

impl TakenRoom<'_> {
    /// Makes it the room that the graphs of a lease take, which looks up in this if it is no bundle.
    fn hold(&mut self, graphs: u64, looked_up: Option<LookedUp>) {
        self.bytes = self.shared.room.lock().lease(self.bytes, graphs, looked_up);
        self.shared.returned.notify_all();
    }

    /// The graphs of the lease have been solved, and wait for their delivery.
    fn solved(&mut self) {
        self.bytes = self.shared.room.lock().solved(self.bytes);
        self.shared.returned.notify_all();
    }
}

impl Drop for TakenRoom<'_> {
    fn drop(&mut self) {
        self.shared.room.lock().give_back(self.bytes);
        self.shared.returned.notify_all();
    }
}

/// What a worker has done in this run, for people who want to know what it took.
#[derive(Default)]
pub struct Effort {
    graphs: AtomicU64,
    /// (graph, edge) pairs.
    pairs: AtomicU64,
    /// How often a deletion was labelled.
    labellings: AtomicU64,
    /// Of blocks that were not in memory.
    bytes_read: AtomicU64,
    /// Of blocks that were made.
    bytes_made: AtomicU64,
}

impl Effort {
    /// Whether nothing was solved.
    pub fn is_none(&self) -> bool {
        self.graphs.load(Ordering::Relaxed) == 0
    }

    fn add(&self, plan: &Plan, solved: &SolvedUnit) {
        let graphs = solved.graphs();
        let size = plan.shard_of(solved.unit).size as u64;
        self.graphs.fetch_add(graphs, Ordering::Relaxed);
        self.pairs.fetch_add(graphs * size, Ordering::Relaxed);
        self.labellings.fetch_add(solved.labellings, Ordering::Relaxed);
        self.bytes_made.fetch_add(solved.stored_bytes(), Ordering::Relaxed);
    }
}

/// Such as `12005168 graphs; labellings for each (graph, edge) pair: 1.000; …`.
impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [graphs, pairs, labellings, read, made] =
            [&self.graphs, &self.pairs, &self.labellings, &self.bytes_read, &self.bytes_made]
                .map(|number| number.load(Ordering::Relaxed));
        let each = |number: u64, of: u64| number as f64 / of.max(1) as f64;
        write!(
            f,
            "{graphs} graphs; labellings for each (graph, edge) pair: {:.3}; bytes read for each \
             byte of keys and outcomes made: {:.3} ({} of {})",
            each(labellings, pairs),
            each(read, made),
            Size(read),
            Size(made)
        )
    }
}

/// A link that counts what is fetched.
struct Counting<L> {
    link: Arc<L>,
    effort: Arc<Effort>,
}

impl<L: Link> Fetch for Counting<L> {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        let fetched = self.link.fetch(wanted)?;
        let bytes = fetched.iter().flatten().map(|block| block.bytes().len() as u64).sum();
        self.effort.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        Ok(fetched)
    }

    fn drawn(&self, unit: Unit, graphs: u64) -> Vec<u64> {
        self.link.drawn(unit, graphs)
    }
}

type Cache<L> = PartitionCache<Counting<L>>;

/// Partitions that were read and solved under one edition.
struct EditionCache<L: Link> {
    /// That of its leases.
    of: CensusState,
    cache: Arc<Cache<L>>,
    /// That of the last lease, which the room knows of.
    plan: Option<Arc<Plan>>,
}

impl<L: Link> EditionCache<L> {
    fn new(of: CensusState, budget_bytes: usize, link: &Arc<L>, effort: &Arc<Effort>) -> Self {
        let counting = Counting { link: link.clone(), effort: effort.clone() };
        let cache = Arc::new(PartitionCache::new(budget_bytes, counting));
        EditionCache { of, cache, plan: None }
    }
}

/// A plain flag, cheap enough for the kernel to look at often, that is raised when a token is
/// cancelled.
struct Interrupt {
    flag: Arc<Flag>,
    /// The token wakes the flag only as long as this future exists.
    _cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Interrupt {
    fn by(token: &CancellationToken) -> Self {
        let flag = Arc::<Flag>::default();
        let mut cancelled = Box::pin(token.clone().cancelled_owned());
        let waker = Waker::from(flag.clone());
        if cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
        Interrupt { flag, _cancelled: cancelled }
    }
}

/// What the leases solved so far tell about how long a lease takes.
#[derive(Default)]
struct Pace {
    pairs: AtomicU64,
    microseconds: AtomicU64,
}

impl Pace {
    /// The rate that is assumed at first: a tenth of what one thread of an old machine does.
    const PAIRS_PER_SECOND: u64 = 500_000;
    /// What a lease takes beside its pairs: two calls to the coordinator.
    const OVERHEAD: Duration = Duration::from_secs(1);

    fn add(&self, pairs: u64, time: Duration) {
        self.pairs.fetch_add(pairs, Ordering::Relaxed);
        self.microseconds.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// Twice what a lease of so many pairs has taken on average, since shards differ.
    fn expect(&self, pairs: u64) -> Duration {
        // The average begins with one second of work at the assumed rate.
        let known = self.pairs.load(Ordering::Relaxed) + Self::PAIRS_PER_SECOND;
        let seconds = 1.0 + self.microseconds.load(Ordering::Relaxed) as f64 / 1e6;
        Self::OVERHEAD
            + Duration::try_from_secs_f64(2.0 * seconds * pairs as f64 / known as f64)
                .unwrap_or(Duration::MAX)
    }
}

/// Of the stack of a solving thread. While it waits for others of its lease it may begin another one,
/// and in that the next. With 64 threads, and order 10, the usual two megabytes were enough.
const STACK_BYTES: usize = 16 << 20;
/// So many bytes of tables are fetched with one request.
const BYTES_TOGETHER: usize = 8 << 20;

/// The worker stops with the error when so many leases of one edition in a row could not be
/// solved.
const ATTEMPTS: u32 = 3;
/// Why it gives leases back when it stops.
const STOPPED: &str = "the worker was asked to stop";

/// Leases that failed in a row, and were of one edition: a damaged block makes many fail, and a new
/// edition begins when the coordinator has found it.
#[derive(Default)]
struct Failures {
    edition: u32,
    count: u32,
}

impl Failures {
    /// Counts one more, of this edition. Returns how many there are.
    fn add(&mut self, edition: u32) -> u32 {
        self.count = if self.edition == edition { self.count + 1 } else { 1 };
        self.edition = edition;
        self.count
    }
}

/// The estimated number of (graph, edge) pairs of a lease.
fn pairs(lease: &Lease) -> u64 {
    lease.units.iter().map(|&unit| lease.plan.pairs(unit)).sum()
}

/// The units of a lease, those of a shard together: they follow each other.
fn parts(lease: &Lease) -> impl Iterator<Item = &[Unit]> {
    lease.units.chunk_by(|one, other| one.shard == other.shard)
}

impl<L: Link> Engine<L> {
    /// An engine of `threads` solving threads that takes about `memory_bytes` for partitions and
    /// graphs in work. When `stop` is cancelled, it gives its leases back and returns; it cancels
    /// `stop` itself when it hears that all is done.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(
        link: L,
        game: GameName,
        threads: usize,
        kernel: Kernel,
        memory_bytes: usize,
        stop: CancellationToken,
    ) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .stack_size(STACK_BYTES)
            .thread_name(|i| format!("solver-{i}"))
            .build()?;
        let room = Room::new(memory_bytes, threads + link.pipeline(), link.is_alone());
        let (link, cache_bytes) = (Arc::new(link), memory::cache_bytes(memory_bytes));
        let effort = Arc::<Effort>::default();
        Ok(Engine {
            game,
            pool,
            threads,
            kernel,
            cache: Mutex::new(EditionCache::new((0, 0), cache_bytes, &link, &effort)),
            memory_bytes,
            link,
            interrupt: Interrupt::by(&stop),
            stop,
            finished: AtomicBool::new(false),
            deadline: None,
            pace: Pace::default(),
            effort,
            room: SharedRoom::new(room),
            asking: Mutex::default(),
        })
    }

    /// The same engine, which begins no lease that it does not expect to finish before `deadline`.
    pub fn until(self, deadline: Option<Instant>) -> Self {
        Engine { deadline, ..self }
    }

    /// What was done so far.
    pub fn effort(&self) -> &Effort {
        &self.effort
    }

    /// The link to the coordinator.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// The cache of a lease's edition, which makes room for its plan. A new edition, or a new
    /// registration, begins with an empty one; threads that still work on leases of before keep the
    /// old cache until they are done.
    fn cache(&self, lease: &Lease) -> Arc<Cache<L>> {
        let mut last = self.cache.lock();
        let of = (lease.worker, lease.edition);
        if last.of != of {
            let cache_bytes = memory::cache_bytes(self.memory_bytes);
            // The old one keeps nothing beside it.
            last.cache.set_budget(0);
            *last = EditionCache::new(of, cache_bytes, &self.link, &self.effort);
        }
        // Who is alone has the coordinator's plan, of whose memory the budget says nothing.
        let is_known = last.plan.as_ref().is_some_and(|plan| Arc::ptr_eq(plan, &lease.plan));
        if !is_known && !self.link.is_alone() {
            self.room.room.lock().plan(Readers::bytes_with(&lease.plan));
            last.plan = Some(lease.plan.clone());
        }
        last.cache.clone()
    }

    /// Works until everything is done, `stop` is cancelled or time is up. A few leases more than
    /// there are threads are held at a time, so that fetching and delivering overlap with solving.
    ///
    /// # Errors
    /// If the link is lost or refuses this worker, or if several leases in a row cannot be solved
    /// here.
    pub fn run(&self) -> Result<RunEnd, LinkError> {
        arenas::suit(self.memory_bytes);
        std::thread::scope(|scope| {
            let (work, working) = channel();
            let (memory_bytes, beside_bytes) =
                (self.memory_bytes, memory::beside(self.link.is_alone()));
            scope.spawn(move || arenas::trim_until(&working, memory_bytes, beside_bytes));
            let slots: Vec<_> = (0..self.threads + self.link().pipeline())
                .map(|_| scope.spawn(|| self.work()))
                .collect();
            let done =
                slots.into_iter().try_for_each(|slot| slot.join().expect("slots do not panic"));
            drop(work);
            done
        })?;
        Ok(if self.finished.load(Ordering::Relaxed) { RunEnd::Finished } else { RunEnd::Stopped })
    }

    /// Whether there is time for a lease.
    fn fits(&self, lease: &Lease) -> bool {
        self.deadline
            .is_none_or(|deadline| Instant::now() + self.pace.expect(pairs(lease)) <= deadline)
    }

    /// Has leases and solves them, one after the other, as long as there are some.
    fn work(&self) -> Result<(), LinkError> {
        let mut failures = Failures::default();
        // Whether units are asked for one by one, since several would not be done in time.
        let mut one_by_one = false;
        while !self.stop.is_cancelled() {
            let asking = self.asking.lock();
            let mut room = self.room.take();
            if self.stop.is_cancelled() {
                break;
            }
            let lease = match self.link().lease(if one_by_one { 0 } else { room.graphs }) {
                Ok(Grant::Work(lease)) => lease,
                Ok(Grant::Wait) => continue,
                Ok(Grant::Finished) => {
                    self.finished.store(true, Ordering::Relaxed);
                    // The other threads stop too: what they would deliver is not wanted, and the
                    // coordinator will soon be gone.
                    self.stop.cancel();
                    break;
                }
                Err(error) => return abandon(&self.stop, error),
            };
            if !self.fits(&lease) {
                drop(asking);
                self.link().give_back(&lease, Unsolved::Leaving("it would not be done in time"));
                if one_by_one || lease.units.len() == 1 {
                    break;
                }
                one_by_one = true;
                continue;
            }
            let (cache, allowance_bytes) = self.make_room(&lease, &mut room);
            drop(asking);
            let start = Instant::now();
            let done = match self.solve(&lease, &cache, allowance_bytes) {
                Ok(results) => {
                    failures = Failures::default();
                    room.solved();
                    self.pace.add(pairs(&lease), start.elapsed());
                    results.iter().for_each(|solved| self.effort.add(&lease.plan, solved));
                    self.deliver(&lease, &results, &cache).inspect_err(|error| {
                        if self.stop.is_cancelled() {
                            tracing::warn!(lease = lease.number, %error, "results are lost");
                            self.link().give_back(&lease, Unsolved::Leaving(STOPPED));
                        }
                    })
                }
                // Whatever fails then may have been interrupted.
                Err(_) if self.stop.is_cancelled() => {
                    self.link().give_back(&lease, Unsolved::Leaving(STOPPED));
                    break;
                }
                Err(error) => self.fail(&lease, &cache, error, &mut failures),
            };
            if let Err(error) = done {
                return abandon(&self.stop, error);
            }
        }
        Ok(())
    }

    /// Makes room for a lease: in the room that was taken for it, and in the cache. Returns this
    /// cache, and how many bytes of tables each of its units may hold at a time.
    fn make_room(&self, lease: &Lease, room: &mut TakenRoom) -> (Arc<Cache<L>>, usize) {
        let graphs = lease.units.iter().map(|&unit| lease.plan.graphs(unit)).sum();
        let cache = self.cache(lease);
        let of_one_shard = memory::graphs_of_one_shard(&lease.plan, &lease.units);
        let allowance_bytes = self.room.allowance_bytes(self.threads, of_one_shard);
        room.hold(graphs, LookedUp::of(&lease.plan, &lease.units, allowance_bytes));
        {
            // What these units read stays, and what they have read before goes.
            let _in_work = parts(lease).next().map(|parts| cache.begin(&lease.plan, parts));
            cache.set_budget(self.room.cache_bytes());
        }
        (cache, allowance_bytes)
    }

    /// Gives a lease back that could not be solved for this reason, and rests for a moment.
    ///
    /// # Errors
    /// If this worker is not to go on: the link is lost, or too many leases have failed.
    fn fail(
        &self,
        lease: &Lease,
        cache: &Cache<L>,
        error: SolveError,
        failures: &mut Failures,
    ) -> Result<(), LinkError> {
        if let SolveError::Source(source) = &error
            && let Some(LinkError::Lost(_)) = source.downcast_ref()
        {
            return Err(LinkError::Lost(source.to_string()));
        }
        let failures = failures.add(lease.edition);
        cache.forget_cause(&lease.plan, &error);
        let error = format!("{:#}", anyhow::Error::new(error));
        tracing::warn!(lease = lease.number, error, failures, "lease failed");
        self.link().give_back(lease, Unsolved::Failed(&error));
        if failures == ATTEMPTS {
            return Err(LinkError::Refused(error));
        }
        std::thread::sleep(Duration::from_millis(100 << failures));
        Ok(())
    }

    /// Delivers the results of a lease, and keeps their tables for the units that read them.
    ///
    /// A worker that is alone keeps them beforehand, since such units may be leased as soon as the
    /// results are accepted. Otherwise somebody else may have delivered other results of the same
    /// units, which are believed until it is found out who is right; whatever is solved meanwhile
    /// has to follow from those.
    fn deliver(
        &self,
        lease: &Lease,
        results: &[SolvedUnit],
        cache: &Cache<L>,
    ) -> Result<(), LinkError> {
        let is_alone = self.link().is_alone();
        let shard_of = |solved: &SolvedUnit| lease.plan.shard_of(solved.unit);
        let mine = || results.iter().filter(|solved| is_alone || shard_of(solved).parts == 1);
        let keep = || {
            mine()
                .try_for_each(|solved| cache.keep(&lease.plan, solved))
                .map_err(|error| LinkError::Refused(error.to_string()))
        };
        if is_alone {
            keep()?;
        }
        match self.link().complete(lease, results)? {
            Delivered::Accepted { retired } => {
                if !is_alone {
                    keep()?;
                }
                for shard in retired {
                    cache.retire(&lease.plan.shards[shard as usize]);
                }
            }
            Delivered::Void if is_alone => {
                mine().for_each(|solved| cache.retire(shard_of(solved)))
            }
            Delivered::Left | Delivered::Void => {}
        }
        Ok(())
    }

    /// Solves a lease whose units each hold at most so many bytes of tables at a time, or one table.
    fn solve(
        &self,
        lease: &Lease,
        cache: &Cache<L>,
        allowance_bytes: usize,
    ) -> Result<Vec<SolvedUnit>, SolveError> {
        let solver = Solver {
            game: self.game,
            kernel: self.kernel,
            allowance_bytes,
            stop: &self.interrupt.flag.0,
        };
        let plan = &*lease.plan;
        let together: Vec<&[Unit]> = parts(lease).collect();
        {
            // What is fetched ahead is read by these.
            let _in_work = together.first().map(|parts| cache.begin(&lease.plan, parts));
            self.warm(lease, cache)?;
        }
        let solve = |parts: &&[Unit]| {
            let _in_work = cache.begin(&lease.plan, parts);
            solver.solve_together(plan, parts, cache)
        };
        let solved: Result<Vec<Vec<SolvedUnit>>, _> =
            self.pool.install(|| together.par_iter().map(solve).collect());
        Ok(solved?.into_iter().flatten().collect())
    }

    /// Fetches what the lease reads, as far as it fits into what a unit of a bundle may hold, so that
    /// the solving threads do not wait for a disk or a network. What large shards read beyond that they
    /// read ahead.
    fn warm(&self, lease: &Lease, cache: &Cache<L>) -> Result<(), SolveError> {
        let plan = &*lease.plan;
        let shards = || lease.units.iter().map(|&unit| plan.shard_of(unit));
        let parents: BTreeSet<DegreeSequence> = shards()
            .flat_map(|shard| shard.sequence.parents())
            .map(|parent| parent.sequence)
            .collect();
        let parents: Vec<DegreeSequence> = parents.into_iter().collect();
        cache.warm_parents(&parents)?;
        let predecessors: BTreeSet<u32> =
            shards().flat_map(|shard| shard.predecessors.iter().copied()).collect();
        let mut left = self.room.allowance_bytes(self.threads, 0);
        let (mut together, mut bytes_together) = (Vec::new(), 0);
        'all: for &predecessor in &predecessors {
            let predecessor = &plan.shards[predecessor as usize];
            let bytes = (predecessor.estimate as usize * entry_bytes(plan.layout, plan.order))
                >> predecessor.bucket_bits;
            for bucket in predecessor.buckets() {
                let Some(rest) = left.checked_sub(bytes) else { break 'all };
                left = rest;
                if bytes_together + bytes > BYTES_TOGETHER {
                    cache.warm_tables(&std::mem::take(&mut together))?;
                    bytes_together = 0;
                }
                together.push(BucketKey::of(predecessor, bucket));
                bytes_together += bytes;
            }
        }
        Ok(cache.warm_tables(&together)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use trailtrap_shared::{
        game::{Game, TrailTrap},
        partition::{BucketBlocks, BucketTable},
        plan::PlanOptions,
    };

    use super::*;
    use crate::{link::memory as solved_here, memory::GRAPH_BYTES};

    /// Leases of these editions, none of which can be solved.
    struct Damaged(Mutex<Vec<u32>>);

    impl Fetch for Damaged {
        fn fetch(&self, _: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
            Err("a block is damaged".into())
        }
    }

    impl Link for Damaged {
        fn lease(&self, _: u64) -> Result<Grant, LinkError> {
            let Some(edition) = self.0.lock().pop() else { return Ok(Grant::Finished) };
            let plan = Arc::new(Plan::new(TrailTrap::LAYOUT, 3, PlanOptions::default()));
            let units = (0..plan.shards.len() as u32)
                .map(|shard| Unit { order: 3, shard, part: 0 })
                .collect();
            Ok(Grant::Work(Lease { number: 1, worker: 1, plan, units, edition }))
        }

        fn complete(&self, _: &Lease, _: &[SolvedUnit]) -> Result<Delivered, LinkError> {
            Ok(Delivered::Void)
        }

        fn is_alone(&self) -> bool {
            false
        }

        fn pipeline(&self) -> usize {
            0
        }

        fn give_back(&self, _: &Lease, _: Unsolved) {}
    }

    /// Nothing that was read in another edition is used, nor what another coordinator has said, which
    /// knows this worker by another number.
    #[test]
    fn tables_are_of_one_census_and_edition() {
        let link = Damaged(Mutex::default());
        let (kernel, stop) = (Kernel::Portable, CancellationToken::new());
        let engine = Engine::new(link, GameName::TrailTrap, 1, kernel, 1 << 20, stop).unwrap();
        let plan = Arc::new(Plan::new(TrailTrap::LAYOUT, 3, PlanOptions::default()));
        let cache = |worker, edition| {
            let (plan, units) = (plan.clone(), Vec::new());
            engine.cache(&Lease { number: 1, worker, plan, units, edition })
        };
        let mut last = cache(1, 1);
        assert!(Arc::ptr_eq(&last, &cache(1, 1)));
        for (worker, edition) in [(1, 2), (2, 2), (2, 1), (1, 1)] {
            let next = cache(worker, edition);
            assert!(!Arc::ptr_eq(&last, &next), "{worker}, {edition}");
            last = next;
        }
    }

    /// Has nothing to do for the first few who ask, and counts who asks at the same time.
    #[derive(Default)]
    struct Idle {
        asking: AtomicU64,
        most: AtomicU64,
        asked: AtomicU64,
    }

    impl Fetch for Idle {
        fn fetch(&self, _: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
            Err("nothing is leased".into())
        }
    }

    impl Link for Idle {
        fn lease(&self, _: u64) -> Result<Grant, LinkError> {
            let asking = 1 + self.asking.fetch_add(1, Ordering::SeqCst);
            self.most.fetch_max(asking, Ordering::SeqCst);
            // Others have the chance to come.
            (0..100).for_each(|_| std::thread::yield_now());
            self.asking.fetch_sub(1, Ordering::SeqCst);
            match self.asked.fetch_add(1, Ordering::SeqCst) {
                ..100 => Ok(Grant::Wait),
                _ => Ok(Grant::Finished),
            }
        }

        fn complete(&self, _: &Lease, _: &[SolvedUnit]) -> Result<Delivered, LinkError> {
            Ok(Delivered::Void)
        }

        fn is_alone(&self) -> bool {
            false
        }

        fn pipeline(&self) -> usize {
            4
        }

        fn give_back(&self, _: &Lease, _: Unsolved) {}
    }

    /// Many requests that wait would all name the room that there was when leases were small, and
    /// later get one part of a large shard each, not what fits.
    #[test]
    fn one_thread_asks_for_work_at_a_time() {
        let (game, stop) = (GameName::TrailTrap, CancellationToken::new());
        let engine =
            Engine::new(Idle::default(), game, 4, Kernel::Portable, 1 << 20, stop).unwrap();
        assert_eq!(engine.run().unwrap(), RunEnd::Finished);
        assert_eq!(engine.link().most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn failures_count_within_an_edition() {
        let run = |editions: &[u32]| {
            let link = Damaged(Mutex::new(editions.iter().rev().copied().collect()));
            engine_of(link).run()
        };
        assert_eq!(run(&[0, 0, 1, 2, 2, 3]).unwrap(), RunEnd::Finished);
        assert!(matches!(
            run(&[0, 4, 4, 4, 5]),
            Err(LinkError::Refused(why)) if why.contains("damaged")
        ));
    }

    /// The plan of an order, and the blocks of each of its shards and of those below it.
    fn solved(order: usize) -> (Arc<Plan>, HashMap<DegreeSequence, Vec<Block>>) {
        let (options, stop) = (PlanOptions::default(), AtomicBool::new(false));
        let (game, kernel) = (GameName::TrailTrap, Kernel::Portable);
        let solver = Solver { game, kernel, allowance_bytes: 1 << 20, stop: &stop };
        let mut blocks = HashMap::new();
        solved_here::census_with(order, options, &solver, &mut |_, solved| {
            blocks.insert(solved.sequence, solved.blocks());
        })
        .unwrap();
        (Arc::new(Plan::new(TrailTrap::LAYOUT, order, options)), blocks)
    }

    /// Of one thread, with a megabyte.
    fn engine_of<L: Link>(link: L) -> Engine<L> {
        let (game, kernel, stop) =
            (GameName::TrailTrap, Kernel::Portable, CancellationToken::new());
        Engine::new(link, game, 1, kernel, 1 << 20, stop).unwrap()
    }

    /// Gives two units of order 2, of which the second reads the first, and answers the delivery
    /// of the first when the second is delivered.
    struct Hesitant {
        plan: Arc<Plan>,
        blocks: HashMap<DegreeSequence, Vec<Block>>,
        state: Mutex<HesitantState>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct HesitantState {
        leases: u64,
        deliveries: u64,
        read: Vec<DegreeSequence>,
    }

    impl Fetch for Hesitant {
        fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
            let answer = |wanted: &Wanted| {
                let blocks = &self.blocks[wanted.sequence()];
                match wanted {
                    Wanted::Parents(_) => blocks[..1].to_vec(),
                    Wanted::Bucket(sequence, _) => {
                        self.state.lock().read.push(*sequence);
                        blocks[..2].to_vec()
                    }
                }
            };
            Ok(wanted.iter().map(answer).collect())
        }
    }

    impl Link for Hesitant {
        fn lease(&self, _: u64) -> Result<Grant, LinkError> {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| state.deliveries < state.leases);
            let shard = state.leases as u32;
            if shard as usize == self.plan.shards.len() {
                return Ok(Grant::Finished);
            }
            state.leases += 1;
            let units = vec![Unit { order: 2, shard, part: 0 }];
            let (number, plan) = (state.leases, self.plan.clone());
            Ok(Grant::Work(Lease { number, worker: 1, plan, units, edition: 1 }))
        }

        fn complete(&self, _: &Lease, _: &[SolvedUnit]) -> Result<Delivered, LinkError> {
            let mut state = self.state.lock();
            state.deliveries += 1;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |state| state.deliveries < 2);
            Ok(Delivered::Accepted { retired: Vec::new() })
        }

        fn is_alone(&self) -> bool {
            false
        }

        fn pipeline(&self) -> usize {
            1
        }

        fn give_back(&self, _: &Lease, reason: Unsolved) {
            panic!("{reason}");
        }
    }

    /// What was delivered and not yet accepted may be doubted: whatever reads it is solved from
    /// what the coordinator has.
    #[test]
    fn results_are_read_by_others_once_they_are_accepted() {
        let (plan, blocks) = solved(2);
        let (state, changed) = (Mutex::default(), Condvar::new());
        let engine = engine_of(Hesitant { plan, blocks, state, changed });
        assert_eq!(engine.run().unwrap(), RunEnd::Finished);
        assert_eq!(engine.link().state.lock().read, [DegreeSequence::new([0; 2])]);
    }

    /// Has a table read in which something is missing, once, and gives every unit again until it is
    /// delivered.
    struct Spoilt {
        plan: Arc<Plan>,
        blocks: HashMap<DegreeSequence, Vec<Block>>,
        state: Mutex<SpoiltState>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct SpoiltState {
        next: u32,
        /// Whether somebody has the next one.
        is_leased: bool,
        is_spoilt: bool,
        given_back: u32,
    }

    impl Spoilt {
        fn end_lease(&self, change: impl FnOnce(&mut SpoiltState)) {
            let mut state = self.state.lock();
            change(&mut state);
            state.is_leased = false;
            self.changed.notify_all();
        }
    }

    impl Fetch for Spoilt {
        fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
            let answer = |wanted: &Wanted| {
                let blocks = &self.blocks[wanted.sequence()];
                match wanted {
                    Wanted::Parents(_) => blocks[..1].to_vec(),
                    Wanted::Bucket(sequence, _) => {
                        let is_spoilt = std::mem::replace(&mut self.state.lock().is_spoilt, true);
                        let empty = || {
                            let layout = TrailTrap::LAYOUT;
                            BucketTable::new(layout, *sequence, 0, 0, [].into_iter(), |_, _| ())
                        };
                        if is_spoilt {
                            return blocks[..2].to_vec();
                        }
                        let BucketBlocks { keys, outcomes, .. } = empty().to_blocks(0);
                        vec![keys, outcomes]
                    }
                }
            };
            Ok(wanted.iter().map(answer).collect())
        }
    }

    impl Link for Spoilt {
        fn lease(&self, _: u64) -> Result<Grant, LinkError> {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| state.is_leased);
            let shard = state.next;
            if shard as usize == self.plan.shards.len() {
                return Ok(Grant::Finished);
            }
            state.is_leased = true;
            let units = vec![Unit { order: 3, shard, part: 0 }];
            Ok(Grant::Work(Lease {
                number: 1,
                worker: 1,
                plan: self.plan.clone(),
                units,
                edition: 1,
            }))
        }

        fn complete(&self, _: &Lease, _: &[SolvedUnit]) -> Result<Delivered, LinkError> {
            self.end_lease(|state| state.next += 1);
            // So that nothing is kept, and all that is read is fetched.
            Ok(Delivered::Left)
        }

        fn is_alone(&self) -> bool {
            false
        }

        fn pipeline(&self) -> usize {
            1
        }

        fn give_back(&self, _: &Lease, reason: Unsolved) {
            assert!(reason.to_string().contains("lacks the graph"), "{reason}");
            self.end_lease(|state| state.given_back += 1);
        }
    }

    /// A bit that was flipped in memory stays there, and would make the unit fail again and again.
    #[test]
    fn what_cannot_be_right_is_read_again() {
        let (plan, blocks) = solved(3);
        let (state, changed) = (Mutex::default(), Condvar::new());
        let engine = engine_of(Spoilt { plan, blocks, state, changed });
        assert_eq!(engine.run().unwrap(), RunEnd::Finished);
        assert_eq!(engine.link().state.lock().given_back, 1);
    }

    #[test]
    fn a_token_raises_the_flag_whenever_it_is_cancelled() {
        let raised = |interrupt: &Interrupt| interrupt.flag.0.load(Ordering::Relaxed);
        let parent = CancellationToken::new();
        let interrupt = Interrupt::by(&parent.child_token());
        assert!(!raised(&interrupt));
        parent.cancel();
        assert!(raised(&interrupt));
        assert!(raised(&Interrupt::by(&parent)), "cancelled before");
    }

    #[test]
    fn who_asks_has_the_room_that_is_left() {
        const LITTLE: Option<LookedUp> = Some(LookedUp { bytes: 0, by_request: true });
        let room = SharedRoom::new(Room::new(1_000_000 * 8 * GRAPH_BYTES as usize, 0, true));
        // As long as leases are small, there is room for several that ask.
        let small = [room.take(), room.take()];
        assert_eq!(small.each_ref().map(|taken| taken.graphs), [200_000; 2]);
        drop(small);
        let mut one = room.take();
        one.hold(300_000, LITTLE);
        let mut two = room.take();
        assert_eq!(two.graphs, 700_000);
        // A unit that does not fit is solved all the same, and others wait for it.
        two.hold(800_000, LITTLE);
        std::thread::scope(|scope| {
            let three = scope.spawn(|| room.take().graphs);
            drop(two);
            assert_eq!(three.join().unwrap(), 700_000);
        });
        // There is some room, but too little.
        let mut four = room.take();
        four.hold(300_000, LITTLE);
        std::thread::scope(|scope| {
            let five = scope.spawn(|| room.take().graphs);
            drop(four);
            assert_eq!(five.join().unwrap(), 700_000);
        });
        drop(one);
        assert_eq!(room.room.lock().taken_bytes(), 0);
    }

    /// Also of an order that begins in the same edition.
    #[test]
    fn the_cache_makes_room_for_the_plan_in_work() {
        let (game, memory_bytes, stop) = (GameName::TrailTrap, 1 << 30, CancellationToken::new());
        let engine =
            Engine::new(Idle::default(), game, 1, Kernel::Portable, memory_bytes, stop).unwrap();
        // This worker is not in the process of the census.
        let all = Room::new(memory_bytes, 1, false).cache_bytes();
        assert!(all < Room::new(memory_bytes, 1, true).cache_bytes());
        for order in [3, 6, 4] {
            let plan = Arc::new(Plan::new(TrailTrap::LAYOUT, order, PlanOptions::default()));
            let left = all - Readers::bytes_with(&plan);
            engine.cache(&Lease { number: 1, worker: 1, plan, units: Vec::new(), edition: 1 });
            assert_eq!(engine.room.cache_bytes(), left, "order {order}");
        }
    }

    #[test]
    fn a_pace_starts_careful_and_learns() {
        let pace = Pace::default();
        let before = pace.expect(10_000_000);
        assert!(before > Duration::from_secs(40));
        pace.add(50_000_000, Duration::from_secs(50));
        let after = pace.expect(10_000_000);
        assert!((15..25).contains(&after.as_secs()), "twice ten seconds: {after:?}");
        assert!(pace.expect(0) >= Pace::OVERHEAD);
        assert!(pace.expect(u64::MAX) > Duration::from_secs(1 << 30));
    }
}
