//! What joins a worker and its coordinator: who has work, where blocks come from, and who takes
//! the results. Over gRPC, through files, or within one process.

pub mod files;
pub mod grpc;
pub mod memory;
mod plans;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use trailtrap_shared::{
    partition::Block,
    plan::{Plan, Unit},
    protocol::{messages, wire},
};

use crate::{cache::Fetch, kernel::SolvedUnit, process::log};

/// A worker in the coordinator's process has so many leases beside those that its threads solve.
pub const LEASES_ALONE: usize = 1;

/// A worker with so many threads, behind a network or files, has so many leases beside those that
/// they solve: a delivery is answered when the coordinator has gathered results and synced its disk.
pub fn leases_under_way(threads: usize) -> usize {
    threads.max(4)
}

/// Why a link cannot go on. Failures that may pass, such as a coordinator that restarts, are not
/// errors: the link itself tries again for a while.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The coordinator stayed out of reach for as long as the link tried again.
    #[error("{0}")]
    Lost(String),
    /// The coordinator, or the census, refuses this worker or its results for good.
    #[error("{0}")]
    Refused(String),
}

impl LinkError {
    /// The refusal for which this error is the reason.
    pub fn refused(error: impl Into<anyhow::Error>) -> Self {
        LinkError::Refused(log::explained(&error.into()))
    }
}

/// What a thread does that cannot go on: all that share `stop` stop, too, and the error is
/// reported, unless it came after `stop` was cancelled, and is a consequence of that.
pub(crate) fn abandon(stop: &CancellationToken, error: LinkError) -> Result<(), LinkError> {
    if stop.is_cancelled() {
        return Ok(());
    }
    stop.cancel();
    Err(error)
}

/// Units to solve together.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The number by which the coordinator knows the lease.
    pub number: u64,
    /// The number under which the coordinator knew this worker when it granted the lease.
    pub worker: u64,
    /// The plan of the units' order; every unit belongs to it.
    pub plan: Arc<Plan>,
    /// The units to solve.
    pub units: Vec<Unit>,
    /// The number of the coordinator's state of partitions. Blocks that were read under another
    /// edition may differ from those of this one, and must not be mixed with them.
    pub edition: u32,
}

/// The answer to a request for work.
#[derive(Clone, Debug)]
pub enum Grant {
    /// Units to solve.
    Work(Lease),
    /// Nothing was ready for a while; ask again.
    Wait,
    /// All is done.
    Finished,
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The results were accepted.
    Accepted {
        /// Indices of shards that no unit will read any more, as far as the link knows.
        retired: Vec<u32>,
    },
    /// They lie where they will be found, and whether they will be accepted is not known.
    Left,
    /// The lease had ended, and the results were dropped.
    Void,
}

/// Why a lease is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsolved<'a> {
    /// The worker leaves, for this reason.
    Leaving(&'a str),
    /// It could not be solved here.
    Failed(&'a str),
}

impl std::fmt::Display for Unsolved<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unsolved::Leaving(why) | Unsolved::Failed(why) => f.write_str(why),
        }
    }
}

/// Why a worker stopped working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All is done.
    Finished,
    /// It was asked to, or its time was up; there is more to do.
    Stopped,
}

/// A worker's side of the conversation with its coordinator. Calls block.
pub trait Link: Fetch {
    /// Asks for work, waiting a few seconds for some. Parts of one shard may come together that
    /// have about `room` graphs.
    ///
    /// # Errors
    /// If the coordinator is lost, or refuses this worker.
    fn lease(&self, room: u64) -> Result<Grant, LinkError>;

    /// Delivers the results of a lease. When this returns without an error, they are stored
    /// durably, in the census or on their way to it, or were dropped.
    ///
    /// # Errors
    /// If the coordinator is lost, or refuses the results.
    fn complete(&self, lease: &Lease, results: &[SolvedUnit]) -> Result<Delivered, LinkError>;

    /// Whether there is no other worker, since this one is in the process of the census: then it is
    /// worth waiting for all parts of a shard, and nobody can have delivered other results of the same
    /// units.
    fn is_alone(&self) -> bool;

    /// How many leases more than there are threads are held, so that some can wait for an answer
    /// while others are solved.
    fn pipeline(&self) -> usize;

    /// Gives a lease back unsolved. If that fails, the lease expires after a while.
    fn give_back(&self, lease: &Lease, reason: Unsolved);
}

impl<L: Link> Link for Arc<L> {
    fn lease(&self, room: u64) -> Result<Grant, LinkError> {
        (**self).lease(room)
    }

    fn complete(&self, lease: &Lease, results: &[SolvedUnit]) -> Result<Delivered, LinkError> {
        (**self).complete(lease, results)
    }

    fn is_alone(&self) -> bool {
        (**self).is_alone()
    }

    fn pipeline(&self) -> usize {
        (**self).pipeline()
    }

    fn give_back(&self, lease: &Lease, reason: Unsolved) {
        (**self).give_back(lease, reason);
    }
}

/// The messages that deliver the results of a lease, and their blocks.
pub fn delivery(
    lease: &Lease,
    results: &[SolvedUnit],
    blocks: impl IntoIterator<Item = Vec<Block>>,
) -> Vec<wire::CompleteRequest> {
    let results = results.iter().map(result).zip(blocks);
    messages::delivery(lease.worker, lease.number, results)
}

/// What is said of a unit beside its blocks.
fn result(solved: &SolvedUnit) -> wire::UnitResult {
    messages::result(&solved.unit, &solved.summary, solved.elapsed)
}
