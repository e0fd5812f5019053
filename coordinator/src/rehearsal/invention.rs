//! What workers of a rehearsal deliver: results of the size and the form of real ones, with nothing
//! in them that is true.

use std::{sync::atomic::AtomicBool, time::Duration};

use trailtrap_shared::{
    count::{
        digest::Digest,
        statistics::{Statistics, Sums},
        summary::Summary,
    },
    game::GameName,
    labelling::batch::Kernel,
    partition::{Block, BucketTable},
    plan::{Plan, PlanOptions, Unit},
    protocol::{messages, wire},
};
use trailtrap_worker::{
    kernel::{SolveError, Solver},
    link::memory,
};

/// Statistics are those of a shard of this order, with other numbers of graphs: they have about as
/// many bytes as those of larger orders.
const ORDER: usize = 8;

/// Invents results.
pub struct Invention {
    statistics: Statistics,
}

impl Invention {
    /// Solves a small order, whose largest shard is what statistics are made of: milliseconds.
    ///
    /// # Errors
    /// As [`Solver::solve`].
    pub fn new(game: GameName, kernel: Kernel) -> Result<Self, SolveError> {
        let stop = AtomicBool::new(false);
        let solver = Solver { game, kernel, allowance_bytes: usize::MAX, stop: &stop };
        let mut largest = Statistics::default();
        memory::census_with(ORDER, PlanOptions::default(), &solver, &mut |_, solved| {
            let statistics = &solved.summary.statistics;
            if statistics.classes.all.graphs > largest.classes.all.graphs {
                largest = statistics.clone();
            }
        })?;
        // What units tell ahead is left out, and sums that they tell would have to agree with that.
        (largest.classes.sums, largest.labelled.sums) = (Sums::default(), Sums::default());
        Ok(Invention { statistics: largest })
    }

    /// A result of a unit of a plan whose shard has so many graphs: the parts of a shard add up to
    /// its mass, and the blocks are empty.
    pub fn result(
        &self,
        plan: &Plan,
        unit: Unit,
        graphs: f64,
        elapsed: Duration,
    ) -> (wire::UnitResult, Vec<Block>) {
        let shard = plan.shard_of(unit);
        let parts = u128::from(shard.parts);
        let mut statistics = self.statistics.clone();
        statistics.classes.all.graphs = (graphs / f64::from(shard.parts)) as u128;
        let rest = if unit.part == 0 { shard.mass % parts } else { 0 };
        statistics.labelled.all.graphs = shard.mass / parts + rest;
        let summary = Summary { statistics, digest: Digest::default() };
        let blocks = shard.buckets().flat_map(|bucket| {
            let none = std::iter::empty();
            let (sequence, bits) = (shard.sequence, shard.bucket_bits);
            let table = BucketTable::new(plan.layout, sequence, bits, bucket, none, |_, _| ());
            table.to_blocks(unit.part)
        });
        (messages::result(&unit, &summary, elapsed), blocks.collect())
    }
}
