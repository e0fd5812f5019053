//! The loop of a worker: lease, solve, deliver. The same loop runs embedded in the coordinator's process and, over gRPC, in
//! a process of its own; they differ in their [`Link`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rayon::prelude::*;
use trailtrap_shared::{
    game::Game,
    labelling::batch::Kernel,
    plan::{Plan, Unit},
};

use crate::{
    cache::{Fetch, PartitionCache},
    solve::{SolveError, Solved, Solver, Source},
};

/// Why a link cannot go on. Passing trouble (a coordinator that restarts, say) is for the link itself to sit out.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Waiting was no use: the coordinator stayed away.
    #[error("{0}")]
    Lost(String),
    /// The coordinator, or the census, refuses this worker or its results for good.
    #[error("{0}")]
    Refused(String),
}

/// Units to solve together.
#[derive(Clone, Debug)]
pub struct Lease {
    pub number: u64,
    /// Who holds it, as the coordinator knows this worker at the time.
    pub worker: u64,
    /// The plan of the units' order; every unit is one of its.
    pub plan: Arc<Plan>,
    pub units: Vec<Unit>,
}

/// The answer to a request for work.
#[derive(Clone, Debug)]
pub enum Grant {
    Work(Lease),
    /// Nothing was ready for a while; ask again.
    Wait,
    /// All is done.
    Finished,
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Accepted; these shards will not be read by any unit any more, as far as the link knows.
    Accepted { retired: Vec<u32> },
    /// The lease was void, and the results were dropped.
    Void,
}

/// A worker's side of the conversation with its coordinator. Calls block.
pub trait Link: Fetch {
    /// Asks for work, waiting a few seconds for some.
    fn lease(&self) -> Result<Grant, LinkError>;

    /// Delivers the results of a lease. They are safe, or known not to be wanted, when this returns.
    fn complete(&self, lease: &Lease, results: &[Solved]) -> Result<Delivered, LinkError>;

    /// Whether no other worker solves parts of the same shards, so that it is worth waiting for all parts of one.
    fn is_alone(&self) -> bool;

    /// How many leases may wait for an answer while others are solved.
    fn pipeline(&self) -> usize;

    /// Gives a lease back unsolved. Best effort: it would expire in any case.
    fn give_back(&self, lease: &Lease, reason: &str);
}

impl<L: Link> Link for Arc<L> {
    fn lease(&self) -> Result<Grant, LinkError> {
        (**self).lease()
    }

    fn complete(&self, lease: &Lease, results: &[Solved]) -> Result<Delivered, LinkError> {
        (**self).complete(lease, results)
    }

    fn is_alone(&self) -> bool {
        (**self).is_alone()
    }

    fn pipeline(&self) -> usize {
        (**self).pipeline()
    }

    fn give_back(&self, lease: &Lease, reason: &str) {
        (**self).give_back(lease, reason);
    }
}

/// What a worker runs with.
pub struct Engine<G: Game, L: Link> {
    pool: rayon::ThreadPool,
    threads: usize,
    kernel: Kernel,
    allowance: usize,
    cache: PartitionCache<G, L>,
    stop: Arc<AtomicBool>,
}

/// Attempts at a unit on this machine before the worker stops with the error.
const ATTEMPTS: u32 = 3;

impl<G: Game, L: Link> Engine<G, L> {
    /// An engine of `threads` threads that holds up to about `memory` bytes of partitions. Setting `stop` makes it give back
    /// what it is doing and return.
    pub fn new(
        link: L,
        threads: usize,
        kernel: Kernel,
        memory: usize,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("solver-{i}")).build()?;
        Ok(Engine {
            pool,
            threads,
            kernel,
            // Of the memory, three quarters are for the cache, and an eighth for what units hold beside it, of which there
            // is one for each thread. The rest is for graphs in work.
            allowance: memory / 8 / threads,
            cache: PartitionCache::new(memory / 4 * 3, link),
            stop,
        })
    }

    /// The link.
    pub fn link(&self) -> &L {
        self.cache.source()
    }

    /// Works until everything is done or `stop` is set. A few leases more than there are threads are held at a time, so that
    /// fetching and delivering overlap with solving.
    pub fn run(&self) -> Result<(), LinkError> {
        std::thread::scope(|scope| {
            let slots: Vec<_> =
                (0..self.threads + self.link().pipeline()).map(|_| scope.spawn(|| self.work())).collect();
            slots.into_iter().try_for_each(|slot| slot.join().expect("slots do not panic"))
        })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn work(&self) -> Result<(), LinkError> {
        let mut failures = 0;
        while !self.stopped() {
            let lease = match self.link().lease() {
                Ok(Grant::Work(lease)) => lease,
                Ok(Grant::Wait) => continue,
                Ok(Grant::Finished) => {
                    // For all slots: what they still deliver is not wanted, and the coordinator will soon be gone.
                    self.stop.store(true, Ordering::Relaxed);
                    break;
                }
                Err(error) => return self.abandon(error),
            };
            match self.solve(&lease) {
                Ok(results) => {
                    failures = 0;
                    // Kept before delivery, so that the units that follow find them.
                    let shard_of = |solved: &Solved| &lease.plan.shards[solved.unit.shard as usize];
                    let mine = results.iter().filter(|solved| shard_of(solved).parts == 1 || self.link().is_alone());
                    let kept = mine.clone().try_for_each(|solved| self.cache.keep(shard_of(solved), solved));
                    let delivered = match kept {
                        Ok(()) => self.link().complete(&lease, &results),
                        Err(error) => Err(LinkError::Refused(error.to_string())),
                    };
                    match delivered {
                        Ok(Delivered::Accepted { retired }) => {
                            retired.iter().for_each(|&shard| self.cache.retire(&lease.plan.shards[shard as usize]));
                        }
                        Ok(Delivered::Void) => mine.for_each(|solved| self.cache.retire(shard_of(solved))),
                        Err(error) => return self.abandon(error),
                    }
                }
                Err(SolveError::Interrupted) => {
                    self.link().give_back(&lease, "the worker was asked to stop");
                    break;
                }
                Err(error) => {
                    failures += 1;
                    let error = format!("{:#}", anyhow::Error::new(error));
                    tracing::warn!(lease = lease.number, error, failures, "lease failed");
                    self.link().give_back(&lease, &error);
                    if failures == ATTEMPTS {
                        return self.abandon(LinkError::Refused(error));
                    }
                    std::thread::sleep(Duration::from_millis(100 << failures));
                }
            }
        }
        Ok(())
    }

    /// Makes the other slots stop too; an error after a wanted stop is none.
    fn abandon(&self, error: LinkError) -> Result<(), LinkError> {
        if self.stop.swap(true, Ordering::Relaxed) { Ok(()) } else { Err(error) }
    }

    fn solve(&self, lease: &Lease) -> Result<Vec<Solved>, SolveError> {
        let solver = Solver { kernel: self.kernel, allowance: self.allowance, stop: &self.stop };
        let plan = &*lease.plan;
        self.warm(lease)?;
        self.pool.install(|| lease.units.par_iter().map(|&unit| solver.solve::<G>(plan, unit, &self.cache)).collect())
    }

    /// Fetches what the lease reads, as far as it fits, so that the solving threads do not wait for a disk or a network.
    fn warm(&self, lease: &Lease) -> Result<(), SolveError> {
        let plan = &*lease.plan;
        let mut left = self.allowance;
        for unit in &lease.units {
            let shard = &plan.shards[unit.shard as usize];
            for parent in shard.sequence.parents() {
                self.cache.parents(&parent.sequence)?;
            }
            for &predecessor in &shard.predecessors {
                let predecessor = &plan.shards[predecessor as usize];
                for bucket in 0..1u32 << predecessor.bucket_bits {
                    let table = self.cache.table(&predecessor.sequence, predecessor.bucket_bits, bucket)?;
                    match left.checked_sub(table.memory()) {
                        Some(rest) => left = rest,
                        None => return Ok(()),
                    }
                }
            }
        }
        Ok(())
    }
}
