//! What pieces of work take on this machine.

use std::{hint::black_box, sync::atomic::AtomicBool};

use rayon::{ThreadPool, ThreadPoolBuilder};
use rustix::time::ClockId;
use serde::Serialize;
use trailtrap_census::core::random::Random;
use trailtrap_shared::{
    game::{Game, GameName, TrailTrap},
    graph::degree::DegreeSequence,
    labelling::batch::{Kernel, LANES},
    partition::{Asked, Block, BucketBlocks, BucketTable, Content, KeyedOutcomes, slot_bits},
    plan::{Plan, PlanOptions, Unit},
};
use trailtrap_worker::{
    counting::recount::recount,
    kernel::{PredecessorReading, SolveError, SolvedUnit, Solver},
    link::memory,
};

use crate::machine::core_seconds;

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
    /// To load an entry of a table that is not in the cache, and to check it: of buckets that were
    /// written in one part, and in 16, which are merged.
    pub load: [f64; LOADED_PARTS.len()],
    /// The same where only every fourth entry is asked for.
    pub load_asked: [f64; LOADED_PARTS.len()],
    /// To look up in tables of 2^15, 2^18, 2^21 and 2^24 entries, of which the processor's caches
    /// hold the fewer the more there are; beside what it takes in the smallest of them, which is
    /// in the time for a pair.
    pub look_up: [f64; LOOKED_UP.len()],
    /// To keep a request and to answer it later, beside what a pair takes that is looked up at once
    /// in the smallest of these tables. The processor's caches hold all requests here.
    pub request: f64,
}

impl Calibration {
    /// Solves with so many nanoseconds for a pair, whatever it looks up in.
    pub fn with_pair(self, nanoseconds: u32) -> Self {
        let look_up = Default::default();
        Calibration { pair: f64::from(nanoseconds) * 1e-9, look_up, request: 0.0, ..self }
    }

    /// Seconds for a pair, the mean of all edges of graphs that read their predecessors so, of which
    /// `entries` tells the number of graphs. Those that are looked up in at once are held together,
    /// but no more than `held_entries`.
    pub fn pair_of(
        &self,
        readings: &[PredecessorReading],
        held_entries: f64,
        entries: impl Fn(u32) -> f64,
    ) -> f64 {
        let (mut edges, mut more) = (0.0, 0.0);
        let (mut edges_at_once, mut entries_at_once) = (0.0, 0.0);
        for reading in readings {
            edges += reading.expected_edges;
            if let Some(piece) = reading.piece {
                let among = piece * entries(reading.shard);
                more += reading.expected_edges * (self.request + self.look_up_among(among));
            } else {
                edges_at_once += reading.expected_edges;
                entries_at_once += entries(reading.shard);
            }
        }
        more += edges_at_once * self.look_up_among(entries_at_once.min(held_entries));
        self.pair + if edges > 0.0 { more / edges } else { 0.0 }
    }

    /// Seconds to load an entry of a bucket in so many parts; if only some are asked for, on average
    /// over all.
    pub fn load_of(&self, parts: u32, is_asked: bool) -> f64 {
        let load = if is_asked { self.load_asked } else { self.load };
        load[usize::from(parts > 1)]
    }

    /// Seconds for a look-up in tables of so many entries, all of them together, beside what it takes
    /// in the smallest.
    fn look_up_among(&self, entries: f64) -> f64 {
        let steps = LOOKED_UP.windows(2).zip(self.look_up.windows(2));
        let bits = entries.max(1.0).log2();
        steps.fold(0.0, |more, (bounds, times)| {
            let [from, to] = [bounds[0], bounds[1]].map(f64::from);
            more + (times[1] - times[0]) * ((bits - from) / (to - from)).clamp(0.0, 1.0)
        })
    }
}

/// Numbers of bits of the entries of tables in which the calibration looks up.
const LOOKED_UP: [u32; 4] = [15, 18, 21, 24];
/// How often each thread looks up there at a time, …
const LOOK_UPS: u64 = 1 << 19;
/// … and how many times. The least of these counts.
const LOOKED_UP_AGAIN: u64 = 3;

/// Order that the calibration solves; about two seconds of a core, and three more for requests.
const ORDER: usize = 9;
/// Graphs of a large shard of that order.
const LARGE: f64 = 500.0;
/// How often each of these is solved again with look-ups at once, and with requests, in turns.
const SOLVED_AGAIN: usize = 3;

/// Parts of the buckets that the calibration loads, …
const LOADED_PARTS: [usize; 2] = [1, 16];
/// … graphs in all parts of each, …
const LOADED_GRAPHS: u64 = 400_000;
/// … and how often it loads that.
const LOADS: usize = 3;

/// What pieces of work take each of so many threads that do the same at the same time, as threads
/// of one machine share more than its memory; with look-ups among at most so many entries, which
/// take memory, and with requests. Both are left out where there are no entries.
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
    let request = if most_entries > 0.0 {
        let of_all = pool.broadcast(|_| calibrate_requests(game, kernel));
        of_all.into_iter().sum::<Result<f64, _>>()? / threads as f64
    } else {
        0.0
    };
    Ok(Calibration {
        pair: mean(|one| one.pair),
        unit: mean(|one| one.unit),
        make: mean(|one| one.make),
        make_unit: mean(|one| one.make_unit),
        recount: mean(|one| one.recount),
        recount_unit: mean(|one| one.recount_unit),
        load: [mean(|one| one.load[0]), mean(|one| one.load[1])],
        load_asked: [mean(|one| one.load_asked[0]), mean(|one| one.load_asked[1])],
        look_up: look_ups(&pool, most_entries),
        request,
    })
}

fn pool_of(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started")
}

/// Solves a small order on one thread, and splits what it takes into a part for each pair or graph
/// and one for each unit.
fn calibrate_thread(game: GameName, kernel: Kernel) -> Result<Calibration, SolveError> {
    let (options, stop) = (PlanOptions::default(), &AtomicBool::new(false));
    let solver = Solver { game, kernel, allowance_bytes: usize::MAX, stop };
    let (mut solving, mut making, mut counting) = (Vec::new(), Vec::new(), Vec::new());
    pool_of(1).install(|| {
        let (mut watch, mut order) = (Stopwatch::start(), 0);
        memory::census_with(ORDER, options, &solver, &mut |plan, solved| {
            let taken = watch.lap();
            // In the time of the first unit of an order is that for its plan.
            if std::mem::replace(&mut order, plan.order) < ORDER {
                return;
            }
            let graphs = solved.graphs() as f64;
            solving.push((pairs_of(plan, solved), taken));
            // The largest shards tell what a graph takes, and one in eight of the others what a
            // unit does.
            if graphs > LARGE || solved.unit.shard % 8 == 0 {
                let blocks = solved.blocks();
                Content::of_unit(&blocks);
                making.push((graphs, watch.lap()));
                // The content of a delivery is taken, too.
                Content::of_unit(&blocks);
                recount(game, plan, &blocks).expect("what was just solved is sound");
                counting.push((graphs, watch.lap()));
            }
        })?;
        let (pair, unit) = fit(&solving);
        let (make, make_unit) = fit(&making);
        let (recount, recount_unit) = fit(&counting);
        let [load, load_asked] =
            [false, true].map(|is_asked| LOADED_PARTS.map(|parts| load(parts, is_asked)));
        let (look_up, request) = (Default::default(), 0.0);
        Ok(Calibration {
            pair,
            unit,
            make,
            make_unit,
            recount,
            recount_unit,
            load,
            load_asked,
            look_up,
            request,
        })
    })
}

/// Solves large shards of the order on one thread, with look-ups at once and by request, in turns:
/// how much longer requests take for a pair.
fn calibrate_requests(game: GameName, kernel: Kernel) -> Result<f64, SolveError> {
    let (options, stop) = (PlanOptions::default(), &AtomicBool::new(false));
    let solvers =
        [usize::MAX, 0].map(|allowance_bytes| Solver { game, kernel, allowance_bytes, stop });
    pool_of(1).install(|| {
        let (_, memory) = memory::census(ORDER, options, &solvers[0])?;
        let plan = Plan::new(game.layout(), ORDER, options);
        let large = (0..).zip(&plan.shards).filter(|(_, shard)| shard.estimate as f64 > LARGE);
        let mut longer = Vec::new();
        for (shard, _) in large {
            let unit = Unit { order: ORDER as u8, shard, part: 0 };
            let (mut least, mut pairs) = ([f64::INFINITY; 2], 0.0);
            for _ in 0..SOLVED_AGAIN {
                for (solver, least) in solvers.iter().zip(&mut least) {
                    let mut watch = Stopwatch::start();
                    let solved = solver.solve(&plan, unit, &memory)?;
                    *least = least.min(watch.lap());
                    pairs = pairs_of(&plan, &solved);
                }
            }
            longer.push((pairs, least[1] - least[0]));
        }
        Ok(fit(&longer).0)
    })
}

fn pairs_of(plan: &Plan, solved: &SolvedUnit) -> f64 {
    (solved.graphs() * plan.shard_of(solved.unit).size as u64) as f64
}

/// What one of many things takes, and what a unit of them takes beside, from numbers of things in
/// units and the times that these took: by least squares, and not less than nothing.
fn fit(units: &[(f64, f64)]) -> (f64, f64) {
    let count = units.len() as f64;
    let sum = |f: fn(&(f64, f64)) -> f64| units.iter().map(f).sum::<f64>();
    let (x, y, xx, xy) = (sum(|s| s.0), sum(|s| s.1), sum(|s| s.0 * s.0), sum(|s| s.0 * s.1));
    let one = (count * xy - x * y) / (count * xx - x * x);
    match (y - one * x) / count {
        unit if unit < 0.0 => ((xy / xx).max(0.0), 0.0),
        unit => (one.max(0.0), unit),
    }
}

/// The slot of the i-th of many graphs, as if at random: multiples of one number would be spread too
/// evenly.
fn some_slot(i: u64) -> u64 {
    Random(i).draw() >> (64 - slot_bits(TABLE_ORDER))
}

/// The order of tables that are loaded and looked up in.
const TABLE_ORDER: usize = 11;

/// A table with the slots of these graphs, of which few are equal.
fn some_table(graphs: impl Iterator<Item = u64>) -> BucketTable {
    let mut slots: Vec<u64> = graphs.map(some_slot).collect();
    slots.sort_unstable();
    slots.dedup();
    let record = |i: usize, record: &mut [u8]| record.fill(i as u8 & 1);
    let sequence = DegreeSequence::new([4; TABLE_ORDER]);
    BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, slots.into_iter(), record)
}

/// Seconds of a look-up in tables of several sizes, beside the smallest, on all threads at once: the
/// least of some times, and no less than in a smaller table. Those that are larger than the most take
/// as long as the one before.
fn look_ups(pool: &ThreadPool, most_entries: f64) -> [f64; LOOKED_UP.len()] {
    let threads = pool.current_num_threads() as u64;
    let mut last: f64 = 0.0;
    let times = LOOKED_UP.map(|bits| {
        if bits > LOOKED_UP[0] && f64::from(1u32 << bits) > most_entries {
            return last;
        }
        let table = some_table(0..1 << bits);
        // Each time elsewhere in the table, as a large one is not in the cache from the last time.
        let time = |round: u64| {
            let first = |thread: usize| (round * threads + thread as u64) * LOOK_UPS;
            let times = pool.broadcast(|thread| look_up(&table, bits, first(thread.index())));
            times.iter().sum::<f64>() / times.len() as f64
        };
        last = (0..LOOKED_UP_AGAIN).map(time).fold(f64::INFINITY, f64::min).max(last);
        last
    });
    times.map(|time| time - times[0])
}

/// Seconds of a look-up in a table of 2^`bits` graphs, of which a batch is asked for ahead: those
/// with these numbers and after them.
fn look_up(table: &BucketTable, bits: u32, first: u64) -> f64 {
    let mut watch = Stopwatch::start();
    let mut sum = 0;
    for batch in 0..LOOK_UPS / LANES as u64 {
        let slots: [u64; LANES] = std::array::from_fn(|lane| {
            let i = (first + batch * LANES as u64 + lane as u64 + 1)
                .wrapping_mul(0xd134_2543_de82_ef95);
            some_slot(i >> (u64::BITS - bits))
        });
        slots.iter().for_each(|&slot| table.prefetch(slot));
        let places = slots.map(|slot| table.locate(slot));
        for (slot, place) in slots.into_iter().zip(places) {
            let record = table.look_up(slot, place);
            sum += record.map_or(0, |record| usize::from(record[0]));
        }
    }
    black_box(sum);
    watch.lap() / LOOK_UPS as f64
}

/// Seconds to load an entry of a bucket in so many parts, of which all are kept or every fourth is
/// asked for: the least of some times, which differ more than anything else here.
fn load(parts: usize, is_asked: bool) -> f64 {
    let bytes = |part: usize| {
        let table = some_table((0..LOADED_GRAPHS).skip(part).step_by(parts));
        let BucketBlocks { keys, outcomes, .. } = table.to_blocks(part as u32);
        [keys, outcomes].map(Block::into_bytes)
    };
    let bytes: Vec<[Vec<u8>; 2]> = (0..parts).map(bytes).collect();
    let mut asked = Asked::new(TABLE_ORDER, 0, LOADED_GRAPHS as usize / 4);
    let one_in_four = (0..LOADED_GRAPHS).map(some_slot).filter(|slot| slot % 4 == 0);
    one_in_four.for_each(|slot| asked.ask(slot));
    let layout = TrailTrap::LAYOUT;
    let parse = |bytes| Block::parse(layout, bytes).expect("what was just made is sound");
    let time = |bytes: Vec<[Vec<u8>; 2]>| {
        let mut watch = Stopwatch::start();
        let blocks = bytes.into_iter().map(|bytes| {
            let [keys, outcomes] = bytes.map(parse);
            KeyedOutcomes { keys, outcomes }
        });
        let blocks: Vec<KeyedOutcomes> = blocks.collect();
        let table = match is_asked {
            true => BucketTable::of_asked(&blocks, &asked),
            false => BucketTable::from_blocks(&blocks),
        };
        black_box(table.expect("parts of one bucket belong together"));
        watch.lap() / LOADED_GRAPHS as f64
    };
    (0..LOADS).map(|_| time(bytes.clone())).fold(f64::INFINITY, f64::min)
}

/// Tells what the thread that it is started on has worked, whatever else the machine does.
struct Stopwatch {
    since: f64,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch { since: core_seconds(ClockId::ThreadCPUTime) }
    }

    /// Seconds since this was asked last, or since the start.
    fn lap(&mut self) -> f64 {
        let now = core_seconds(ClockId::ThreadCPUTime);
        now - std::mem::replace(&mut self.since, now)
    }
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
        assert_eq!(fit(&[(1.0, -2.0), (2.0, -2.0)]), (0.0, 0.0), "nor less than nothing together");
    }

    const CALIBRATION: Calibration = Calibration {
        pair: 100.0,
        unit: 0.0,
        make: 0.0,
        make_unit: 0.0,
        recount: 0.0,
        recount_unit: 0.0,
        load: [10.0, 18.0],
        load_asked: [6.0, 9.0],
        look_up: [0.0, 3.0, 6.0, 18.0],
        request: 20.0,
    };

    fn reading(shard: u32, expected_edges: f64, piece: Option<f64>) -> PredecessorReading {
        PredecessorReading { shard, rounds: 1, expected_edges, piece, is_asked: false }
    }

    #[track_caller]
    fn check(readings: &[PredecessorReading], held: f64, expected: f64) {
        let entries = |shard| f64::from(1u32 << shard);
        let found = CALIBRATION.pair_of(readings, held, entries);
        assert!((found - expected).abs() < 1e-9, "{readings:?}: {found}, not {expected}");
        let told = CALIBRATION.with_pair(90);
        assert_eq!(told.pair_of(readings, held, entries), told.pair);
    }

    #[test]
    fn what_comes_in_parts_takes_longer_to_load() {
        let loads = [0, 1, 2, 16].map(|parts| CALIBRATION.load_of(parts, false));
        assert_eq!(loads, [10.0, 10.0, 18.0, 18.0]);
        assert_eq!([1, 2].map(|parts| CALIBRATION.load_of(parts, true)), [6.0, 9.0]);
    }

    #[test]
    fn look_ups_among_more_take_longer() {
        check(&[], 1e9, 100.0);
        for (bits, expected) in [
            (0, 100.0),
            (15, 100.0),
            (16, 101.0),
            (18, 103.0),
            (21, 106.0),
            (22, 110.0),
            (30, 118.0),
        ] {
            check(&[reading(bits, 2.0, None)], f64::INFINITY, expected);
        }
        // Both are held together, as far as there is room.
        let readings = [reading(20, 2.0, None), reading(20, 1.0, None)];
        check(&readings, 1e9, 106.0);
        check(&readings, f64::from(1u32 << 18), 103.0);
    }

    #[test]
    fn requests_take_longer_but_are_answered_by_pieces() {
        let by_request = |edges| reading(24, edges, Some(1.0 / 64.0));
        check(&[by_request(2.0)], 1.0, 123.0);
        check(&[by_request(1.0), reading(21, 1.0, None)], 1e9, 100.0 + (23.0 + 6.0) / 2.0);
        check(&[by_request(1.0), reading(15, 3.0, None)], 1e9, 100.0 + 23.0 / 4.0);
    }
}
