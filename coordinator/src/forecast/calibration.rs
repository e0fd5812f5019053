//! What pieces of work take on this machine.

use std::{hint::black_box, sync::atomic::AtomicBool};

use rayon::{ThreadPool, ThreadPoolBuilder};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use trailtrap_census::core::random::Random;
use trailtrap_shared::{
    game::{Game, GameName, TrailTrap},
    graph::degree::DegreeSequence,
    labelling::batch::{Kernel, LANES},
    partition::{Block, BucketBlocks, BucketTable, Content, KeyedOutcomes},
    plan::PlanOptions,
};
use trailtrap_worker::counting::recount::recount;
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
    /// To make the blocks of a graph, and to take their content.
    pub make: f64,
    /// To make those of a unit, beside its graphs.
    pub make_unit: f64,
    /// To count a delivered graph again, as the coordinator does.
    pub recount: f64,
    /// To count a unit again, beside its graphs.
    pub recount_unit: f64,
    /// To load an entry of a table that is not in the cache: checked, and merged from parts.
    pub load: f64,
    /// To look up in tables of 2^15, 2^18, 2^21 and 2^24 entries, of which the processor's caches
    /// hold the fewer the more there are; beside what it takes in the smallest of them, which is
    /// in the time for a pair.
    pub look_up: [f64; LOOKED_UP.len()],
}

impl Calibration {
    /// Solves with so many nanoseconds for a pair, whatever it looks up in.
    pub fn with_pair(self, nanoseconds: u32) -> Self {
        Calibration { pair: f64::from(nanoseconds) * 1e-9, look_up: Default::default(), ..self }
    }

    /// Seconds for a pair that looks up in tables of so many entries, all of them together.
    pub fn pair_among(&self, entries: f64) -> f64 {
        let steps = LOOKED_UP.windows(2).zip(self.look_up.windows(2));
        let bits = entries.max(1.0).log2();
        let more = steps.fold(0.0, |more, (bounds, times)| {
            let [from, to] = [bounds[0], bounds[1]].map(f64::from);
            more + (times[1] - times[0]) * ((bits - from) / (to - from)).clamp(0.0, 1.0)
        });
        self.pair + more
    }
}

/// Numbers of bits of the entries of tables in which the calibration looks up.
const LOOKED_UP: [u32; 4] = [15, 18, 21, 24];
/// How often each thread looks up there.
const LOOK_UPS: u64 = 1 << 19;

/// Order that the calibration solves; about two seconds of a core.
const ORDER: usize = 9;
/// Graphs of a large shard of that order.
const LARGE: f64 = 500.0;

/// Parts, and graphs in all of them, of the bucket that the calibration loads.
const LOADED: (usize, u64) = (16, 400_000);
/// How often it loads that.
const LOADS: usize = 3;

/// What pieces of work take each of so many threads that do the same at the same time, as threads
/// of one machine share more than its memory; with look-ups among at most so many entries, which
/// take memory.
///
/// # Errors
/// As [`Solver::solve`].
pub fn calibrate(
    game: GameName,
    kernel: Kernel,
    threads: usize,
    most_entries: f64,
) -> Result<Calibration, SolveError> {
    let pool = pool_of(threads);
    let of_all = pool.broadcast(|_| calibrate_thread(game, kernel));
    let of_all: Vec<Calibration> = of_all.into_iter().collect::<Result<_, _>>()?;
    let mean = |of: fn(&Calibration) -> f64| of_all.iter().map(of).sum::<f64>() / threads as f64;
    Ok(Calibration {
        pair: mean(|one| one.pair),
        unit: mean(|one| one.unit),
        make: mean(|one| one.make),
        make_unit: mean(|one| one.make_unit),
        recount: mean(|one| one.recount),
        recount_unit: mean(|one| one.recount_unit),
        load: mean(|one| one.load),
        look_up: look_ups(&pool, most_entries),
    })
}

fn pool_of(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started")
}

/// Solves a small order on one thread, and splits what it takes into a part for each pair or graph
/// and one for each unit.
fn calibrate_thread(game: GameName, kernel: Kernel) -> Result<Calibration, SolveError> {
    let pool = pool_of(1);
    let (mut solving, mut making, mut counting) = (Vec::new(), Vec::new(), Vec::new());
    pool.install(|| {
        let (mut since, mut order) = (thread_seconds(), 0);
        let mut lap = move || {
            let now = thread_seconds();
            now - std::mem::replace(&mut since, now)
        };
        let options = PlanOptions::default();
        let solver =
            Solver { game, kernel, allowance_bytes: usize::MAX, stop: &AtomicBool::new(false) };
        memory::census_with(ORDER, options, &solver, &mut |plan, solved| {
            let taken = lap();
            // In the time of the first unit of an order is that for its plan.
            if std::mem::replace(&mut order, plan.order) < ORDER {
                return;
            }
            let shard = &plan.shards[solved.unit.shard as usize];
            let graphs = solved.summary.statistics.classes.all.graphs as f64;
            solving.push((graphs * shard.size as f64, taken));
            // The largest shards tell what a graph takes, and one in eight of the others what a
            // unit does.
            if graphs > LARGE || solved.unit.shard % 8 == 0 {
                let blocks = solved.blocks();
                Content::of_unit(&blocks);
                making.push((graphs, lap()));
                // The content of a delivery is taken, too.
                Content::of_unit(&blocks);
                recount(game, plan, &blocks).expect("what was just solved is sound");
                counting.push((graphs, lap()));
            }
        })
    })?;
    let (pair, unit) = fit(&solving);
    let (make, make_unit) = fit(&making);
    let (recount, recount_unit) = fit(&counting);
    let look_up = Default::default();
    Ok(Calibration { pair, unit, make, make_unit, recount, recount_unit, load: load(), look_up })
}

/// What one of many things takes, and what a unit of them takes beside, from numbers of things in
/// units and the times that these took: by least squares, and not less than nothing.
fn fit(units: &[(f64, f64)]) -> (f64, f64) {
    let count = units.len() as f64;
    let sum = |f: fn(&(f64, f64)) -> f64| units.iter().map(f).sum::<f64>();
    let (x, y, xx, xy) = (sum(|s| s.0), sum(|s| s.1), sum(|s| s.0 * s.0), sum(|s| s.0 * s.1));
    let one = (count * xy - x * y) / (count * xx - x * x);
    match (y - one * x) / count {
        unit if unit < 0.0 => (xy / xx, 0.0),
        unit => (one.max(0.0), unit),
    }
}

/// The slot of the i-th of many graphs, as if at random: multiples of one number would be spread too
/// evenly.
fn some_slot(i: u64) -> u64 {
    Random(i).draw() >> 19
}

/// A table with the slots of these graphs, of which few are equal.
fn some_table(graphs: impl Iterator<Item = u64>) -> BucketTable {
    let mut slots: Vec<u64> = graphs.map(some_slot).collect();
    slots.sort_unstable();
    slots.dedup();
    let record = |i: usize, record: &mut [u8]| record.fill(i as u8 & 1);
    let sequence = DegreeSequence::new([4; 11]);
    BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, slots.into_iter(), record)
}

/// Seconds of a look-up in tables of several sizes, beside the smallest, on all threads at once.
/// Those that are larger than the most take as long as the one before.
fn look_ups(pool: &ThreadPool, most_entries: f64) -> [f64; LOOKED_UP.len()] {
    let mut last = 0.0;
    let times = LOOKED_UP.map(|bits| {
        if bits > LOOKED_UP[0] && f64::from(1u32 << bits) > most_entries {
            return last;
        }
        let table = some_table(0..1 << bits);
        let times = pool.broadcast(|thread| look_up(&table, bits, thread.index() as u64));
        last = times.iter().sum::<f64>() / times.len() as f64;
        last
    });
    times.map(|time| (time - times[0]).max(0.0))
}

/// Seconds of a look-up in a table of 2^`bits` graphs, of which a batch is asked for ahead.
fn look_up(table: &BucketTable, bits: u32, thread: u64) -> f64 {
    let start = thread_seconds();
    let mut sum = 0;
    for batch in 0..LOOK_UPS / LANES as u64 {
        let slots: [u64; LANES] = std::array::from_fn(|lane| {
            let i = (thread * LOOK_UPS + batch * LANES as u64 + lane as u64 + 1)
                .wrapping_mul(0xd134_2543_de82_ef95);
            some_slot(i >> (u64::BITS - bits))
        });
        slots.iter().for_each(|&slot| table.prefetch(slot));
        let places = slots.map(|slot| table.locate(slot));
        for (slot, place) in slots.into_iter().zip(places) {
            sum += table.find(slot, place).map_or(0, |i| usize::from(table.record(i)[0]));
        }
    }
    black_box(sum);
    (thread_seconds() - start) / LOOK_UPS as f64
}

/// Seconds to load an entry: the least of some times, which differ more than anything else here.
fn load() -> f64 {
    let (parts, graphs) = LOADED;
    let bytes = |part: usize| {
        let table = some_table((0..graphs).skip(part).step_by(parts));
        let BucketBlocks { keys, outcomes, .. } = table.to_blocks(part as u32);
        [keys, outcomes].map(Block::into_bytes)
    };
    let bytes: Vec<[Vec<u8>; 2]> = (0..parts).map(bytes).collect();
    let layout = TrailTrap::LAYOUT;
    let parse = |bytes| Block::parse(layout, bytes).expect("what was just made is sound");
    let time = |bytes: Vec<[Vec<u8>; 2]>| {
        let start = thread_seconds();
        let blocks = bytes.into_iter().map(|bytes| {
            let [keys, outcomes] = bytes.map(parse);
            KeyedOutcomes { keys, outcomes }
        });
        let table = BucketTable::from_blocks(&blocks.collect::<Vec<_>>());
        let loaded = table.expect("parts of one bucket belong together").len();
        (thread_seconds() - start) / loaded as f64
    };
    (0..LOADS).map(|_| time(bytes.clone())).fold(f64::INFINITY, f64::min)
}

/// Seconds that this thread has worked, whatever else the machine does.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_finds_what_things_and_units_take() {
        let units = [1.0, 5.0, 700.0].map(|things| (things, 3.0 + 0.5 * things));
        let (one, unit) = fit(&units);
        assert!((one - 0.5).abs() < 1e-9 && (unit - 3.0).abs() < 1e-9, "{one}, {unit}");
        assert_eq!(fit(&[(1.0, 2.0), (2.0, 1.0)]).0, 0.0, "no thing takes less than nothing");
        assert_eq!(fit(&[(1.0, 1.0), (2.0, 3.0)]), (1.4, 0.0), "nor does a unit");
    }

    #[test]
    fn look_ups_among_more_take_longer() {
        let calibration = Calibration {
            pair: 100.0,
            unit: 0.0,
            make: 0.0,
            make_unit: 0.0,
            recount: 0.0,
            recount_unit: 0.0,
            load: 0.0,
            look_up: [0.0, 3.0, 6.0, 18.0],
        };
        let among = [0.0, 1.0, 32_768.0, 65_536.0, 262_144.0, 2_097_152.0, 4_194_304.0, 1e9];
        let expected = [100.0, 100.0, 100.0, 101.0, 103.0, 106.0, 110.0, 118.0];
        for (entries, expected) in among.into_iter().zip(expected) {
            let found = calibration.pair_among(entries);
            assert!((found - expected).abs() < 1e-9, "{entries}: {found}, not {expected}");
        }
        let told = calibration.with_pair(90);
        assert_eq!([0.0, 1e9].map(|entries| told.pair_among(entries)), [told.pair; 2]);
    }
}
