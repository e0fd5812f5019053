//! The link of a worker in the coordinator's own process: no network, results and partitions
//! shared in memory.

use std::{sync::Arc, time::Duration};

use rayon::prelude::*;
use trailtrap_census::{
    core::lease::WorkerId,
    driver::{Assignment, Census, Refusal, Work},
    records::{Author, Delivery, delivery},
};
use trailtrap_shared::{partition::Block, plan::Unit, protocol::messages::Wanted};
use trailtrap_worker::{
    cache::Fetch,
    kernel::{SolvedUnit, SourceError},
    link::{Delivered, Grant, LEASES_ALONE, Lease, Link, LinkError, Unsolved},
};

const FAULTY: &str = "this machine, or this program, is faulty";

/// A worker that calls the census directly.
pub struct EmbeddedLink {
    census: Arc<Census>,
    worker: WorkerId,
    author: Author,
}

impl EmbeddedLink {
    /// Registers a worker with `threads` threads.
    ///
    /// # Errors
    /// If the census does not take the worker.
    pub fn new(
        census: Arc<Census>,
        name: String,
        threads: usize,
        kernel: &str,
    ) -> Result<Self, Refusal> {
        let worker = census.register(&name, threads, kernel, None)?;
        let author = census.author(worker);
        Ok(EmbeddedLink { census, worker, author })
    }
}

impl Link for EmbeddedLink {
    fn lease(&self, room: u64) -> Result<Grant, LinkError> {
        self.census.hear(self.worker);
        let timeout = Duration::from_millis(200);
        Ok(match self.census.assign_blocking(self.worker, room, timeout) {
            Assignment::Work(Work { lease, plan, units, edition }) => {
                Grant::Work(Lease { number: lease, worker: self.worker, plan, units, edition })
            }
            Assignment::Distrusted => return Err(LinkError::Refused(FAULTY.to_owned())),
            Assignment::Wait => Grant::Wait,
            Assignment::Finished | Assignment::Stopping => Grant::Finished,
        })
    }

    fn complete(&self, lease: &Lease, results: &[SolvedUnit]) -> Result<Delivered, LinkError> {
        let deliver = |solved: &SolvedUnit| {
            let blocks = solved.blocks();
            let SolvedUnit { unit, sequence, summary, elapsed, evidence, .. } = solved;
            let author = self.author.clone();
            let solved = delivery(*unit, *sequence, blocks, summary.clone(), *elapsed, author);
            Delivery { own: Some(evidence.clone()), ..solved }
        };
        match self.census.accept(
            self.worker,
            lease.number,
            results.par_iter().map(deliver).collect(),
            false,
        ) {
            Ok(retired) => Ok(Delivered::Accepted { retired }),
            // The census says itself why it ended, and what it has solved again.
            Err(Refusal::Ended | Refusal::Void | Refusal::TakenBack { .. }) => Ok(Delivered::Void),
            Err(refusal) => Err(LinkError::Refused(format!("{refusal}: {FAULTY}"))),
        }
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn pipeline(&self) -> usize {
        LEASES_ALONE
    }

    fn give_back(&self, lease: &Lease, reason: Unsolved) {
        tracing::debug!(lease = lease.number, %reason, "lease given back");
        let failure = match reason {
            Unsolved::Leaving(_) => None,
            Unsolved::Failed(why) => Some(why),
        };
        self.census.give_back(self.worker, lease.number, failure);
    }
}

impl Fetch for EmbeddedLink {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        wanted
            .iter()
            .map(|wanted| {
                let blocks = self.census.wanted_blocks(wanted)?;
                Ok(blocks
                    .ok_or_else(|| format!("partition {} is not finished", wanted.sequence()))?)
            })
            .collect()
    }

    fn drawn(&self, unit: Unit, graphs: u64) -> Vec<u64> {
        self.census.drawn_at_hand(unit, graphs)
    }
}
