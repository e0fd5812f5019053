//! What pieces of work take on this machine.

use std::sync::atomic::AtomicBool;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use trailtrap_census::{core::content::Content, trust::recount::recount};
use trailtrap_shared::{game::GameName, labelling::batch::Kernel, plan::PlanOptions};
use trailtrap_worker::{
    kernel::{SolveError, Solver},
    link::memory,
};

/// Seconds of a core that pieces of work take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// To solve one (graph, edge) pair.
    pub pair: f64,
    /// To solve one unit, beside its pairs.
    pub unit: f64,
    /// To count a delivered graph again, as the coordinator does.
    pub recount: f64,
}

/// Order that the calibration solves; about two seconds of a core.
const ORDER: usize = 9;

/// Solves a small order on one thread, and splits the time of its shards into a part for each pair
/// and one for each unit, by least squares.
///
/// # Errors
/// As [`Solver::solve`].
pub fn calibrate(game: GameName, kernel: Kernel) -> Result<Calibration, SolveError> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one thread");
    let mut samples: Vec<(f64, f64)> = Vec::new();
    let (mut graphs, mut counting) = (0.0, 0.0);
    pool.install(|| {
        let options = PlanOptions::default();
        let solver =
            Solver { game, kernel, allowance_bytes: usize::MAX, stop: &AtomicBool::new(false) };
        memory::census_with(ORDER, options, &solver, &mut |plan, solved| {
            if plan.order < ORDER {
                return;
            }
            let shard = &plan.shards[solved.unit.shard as usize];
            let count = solved.summary.statistics.classes.all.graphs as f64;
            samples.push((count * shard.size as f64, solved.elapsed.as_secs_f64()));
            // One shard in eight says enough of this.
            if solved.unit.shard % 8 == 0 {
                let blocks = solved.blocks();
                let start = thread_seconds();
                // The content of a delivery is taken, too.
                Content::of_unit(&blocks);
                recount(game, plan, &blocks).expect("what was just solved is sound");
                counting += thread_seconds() - start;
                graphs += count;
            }
        })
    })?;
    let count = samples.len() as f64;
    let sum = |f: fn(&(f64, f64)) -> f64| samples.iter().map(f).sum::<f64>();
    let (x, y, xx, xy) = (sum(|s| s.0), sum(|s| s.1), sum(|s| s.0 * s.0), sum(|s| s.0 * s.1));
    let pair = (count * xy - x * y) / (count * xx - x * x);
    Ok(Calibration { pair, unit: ((y - pair * x) / count).max(0.0), recount: counting / graphs })
}

/// Seconds that this thread has worked, whatever else the machine does.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
