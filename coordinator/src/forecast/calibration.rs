//! What pieces of work take on this machine.

use std::{sync::atomic::AtomicBool, thread::ScopedJoinHandle};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use trailtrap_census::{core::content::Content, trust::recount::recount};
use trailtrap_shared::{
    game::{Game, GameName, TrailTrap},
    graph::degree::DegreeSequence,
    labelling::batch::Kernel,
    partition::{Block, BucketBlocks, BucketTable, KeyedOutcomes},
    plan::PlanOptions,
};
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
    /// To load an entry of a table that is not in the cache: checked, and merged from parts.
    pub load: f64,
}

/// Order that the calibration solves; about two seconds of a core.
const ORDER: usize = 9;

/// Parts, and graphs in all of them, of the bucket that the calibration loads.
const LOADED: (usize, u64) = (16, 400_000);

/// What pieces of work take each of so many threads that do the same at the same time, as threads
/// of one machine share more than its memory.
///
/// # Errors
/// As [`Solver::solve`].
pub fn calibrate(
    game: GameName,
    kernel: Kernel,
    threads: usize,
) -> Result<Calibration, SolveError> {
    let of_all: Vec<Calibration> = std::thread::scope(|scope| {
        let one = || calibrate_thread(game, kernel);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect::<Result<_, SolveError>>()
    })?;
    let mean = |of: fn(&Calibration) -> f64| of_all.iter().map(of).sum::<f64>() / threads as f64;
    Ok(Calibration {
        pair: mean(|one| one.pair),
        unit: mean(|one| one.unit),
        recount: mean(|one| one.recount),
        load: mean(|one| one.load),
    })
}

/// Solves a small order on one thread, and splits the time of its shards into a part for each pair
/// and one for each unit, by least squares.
fn calibrate_thread(game: GameName, kernel: Kernel) -> Result<Calibration, SolveError> {
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
    let unit = ((y - pair * x) / count).max(0.0);
    Ok(Calibration { pair, unit, recount: counting / graphs, load: load() })
}

/// Seconds to load an entry.
fn load() -> f64 {
    let (parts, graphs) = LOADED;
    let (layout, sequence) = (TrailTrap::LAYOUT, DegreeSequence::new([4; 11]));
    let bytes = |part: usize| {
        // Slots are as if at random, and different.
        let slots = (0..graphs).filter(|i| *i as usize % parts == part);
        let mut slots: Vec<u64> =
            slots.map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 19).collect();
        slots.sort_unstable();
        let record = |i: usize, record: &mut [u8]| record.fill(i as u8 & 1);
        let table = BucketTable::new(layout, sequence, 0, 0, slots.into_iter(), record);
        let BucketBlocks { keys, outcomes, .. } = table.to_blocks(part as u32);
        [keys, outcomes].map(Block::into_bytes)
    };
    let bytes: Vec<[Vec<u8>; 2]> = (0..parts).map(bytes).collect();
    let start = thread_seconds();
    let parse = |bytes| Block::parse(layout, bytes).expect("what was just made is sound");
    let blocks = bytes.into_iter().map(|bytes| {
        let [keys, outcomes] = bytes.map(parse);
        KeyedOutcomes { keys, outcomes }
    });
    let table = BucketTable::from_blocks(&blocks.collect::<Vec<_>>());
    let loaded = table.expect("parts of one bucket belong together").len();
    (thread_seconds() - start) / loaded as f64
}

/// Seconds that this thread has worked, whatever else the machine does.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
