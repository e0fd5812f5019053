//! The kernels one by one: `cargo bench --workspace --bench kernels`. Whole runs are timed by
//! `scripts/bench`.

use std::{
    hint::black_box,
    sync::{LazyLock, atomic::AtomicBool},
};

use divan::{Bencher, counter::ItemsCount};
use trailtrap_shared::{
    count::digest::Digest,
    game::{Game, GameName, TrailTrap},
    graph::{Graph, degree::DegreeSequence, nauty},
    labelling::{
        Colours,
        batch::{Batch, Kernel, LANES, first_lanes, lanes_of},
        forest::Forest,
        hashed, reference,
    },
    partition::{Asked, Block, BucketTable, KeyedOutcomes, Mismatch, graph_of_slot, slot_bits},
    plan::{Plan, PlanOptions, Unit},
};
use trailtrap_worker::{
    kernel::Solver,
    link::memory::{self, Memory},
};

fn main() {
    divan::main();
}

static NEVER: AtomicBool = AtomicBool::new(false);
static SOLVER: LazyLock<Solver> = LazyLock::new(|| Solver {
    game: GameName::TrailTrap,
    kernel: Kernel::best(),
    allowance_bytes: usize::MAX,
    stop: &NEVER,
});

/// A census of order 8, and the largest shard of it.
static CENSUS: LazyLock<(Memory, Plan, Unit)> = LazyLock::new(|| {
    let options = PlanOptions::default();
    let (_, memory) = memory::census(8, options, &SOLVER).expect("a small census");
    let plan = Plan::new(TrailTrap::LAYOUT, 8, options);
    let largest = (0..plan.shards.len() as u32)
        .max_by_key(|&i| plan.shards[i as usize].mass)
        .expect("shards");
    (memory, plan, Unit { order: 8, shard: largest, part: 0 })
});

/// Numbers whose upper bits are as if at random, always the same.
fn random() -> impl Iterator<Item = u128> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u128;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
        state
    })
}

/// The slots of so many graphs of [`TABLE_ORDER`], in increasing order.
fn slots(count: usize) -> Vec<u64> {
    let mut slots: Vec<u64> = random()
        .take(count)
        .map(|number| (number >> (u128::BITS - slot_bits(TABLE_ORDER) as u32)) as u64)
        .collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Random graphs, with edge probability 1/2 (`symmetric` false), or with twins: two vertices
/// joined to the same ones.
fn graphs(n: usize, symmetric: bool) -> Vec<Graph> {
    random()
        .take(1024)
        .map(|number| {
            if !symmetric {
                return Graph::from_code(n, number >> 8);
            }
            let smaller = Graph::from_code(n - 1, number >> 8);
            smaller.with_vertex(smaller.neighbours(0))
        })
        .collect()
}

fn degree_colour(graph: &Graph, v: usize) -> u16 {
    (0..graph.order()).filter(|&w| graph.degree(w) < graph.degree(v)).count() as u16
}

fn bench_batches(bencher: Bencher, kernel: Kernel, n: usize, symmetric: bool) {
    if !kernel.is_available() {
        return;
    }
    let graphs = graphs(n, symmetric);
    let colour = |g: &Graph, v: usize| if v < n { degree_colour(g, v) } else { 0 };
    let colours: Vec<Colours> =
        graphs.iter().map(|g| std::array::from_fn(|v| colour(g, v))).collect();
    let mut batch = Batch::new(n, kernel);
    let mut forest = Forest::new(Batch::new(n, kernel));
    bencher.counter(ItemsCount::new(graphs.len())).bench_local(|| {
        for (graphs, colours) in graphs.chunks(LANES).zip(colours.chunks(LANES)) {
            for (lane, (graph, colours)) in graphs.iter().zip(colours).enumerate() {
                batch.set(lane, graph.rows(), colours);
            }
            let decided = batch.label(graphs.len());
            for lane in lanes_of(first_lanes(graphs.len()) & !decided) {
                forest.push(batch.undecided(lane), ());
            }
            black_box(batch.key(0));
            if forest.is_full() {
                forest.search();
            }
        }
    });
}

#[divan::bench(args = [8, 9, 10, 11, 12])]
fn label_batch_avx512(bencher: Bencher, n: usize) {
    bench_batches(bencher, Kernel::Avx512, n, false);
}

#[divan::bench(args = [8, 9, 10, 11, 12])]
fn label_batch_avx2(bencher: Bencher, n: usize) {
    bench_batches(bencher, Kernel::Avx2, n, false);
}

#[divan::bench(args = [8, 9, 10, 11, 12])]
fn label_batch_portable(bencher: Bencher, n: usize) {
    bench_batches(bencher, Kernel::Portable, n, false);
}

#[divan::bench(args = [10, 11])]
fn label_batch_with_twins(bencher: Bencher, n: usize) {
    bench_batches(bencher, Kernel::best(), n, true);
}

/// One graph at a time, for comparison: the census's labelling, the reference, nauty.
#[divan::bench(args = ["hashed", "reference", "nauty"])]
fn label_one_of_order_10(bencher: Bencher, which: &str) {
    let graphs = graphs(10, false);
    let label = |graph: &Graph| match which {
        "hashed" => hashed::label(graph).automorphisms,
        "reference" => reference::label(graph).automorphisms,
        _ => nauty::label(graph).automorphisms,
    };
    bencher
        .counter(ItemsCount::new(graphs.len()))
        .bench_local(|| graphs.iter().map(label).sum::<u64>());
}

#[divan::bench(args = ["Petersen", "5 K2", "cycle"])]
fn label_symmetric_of_order_10(bencher: Bencher, which: &str) {
    let edges: Vec<(usize, usize)> = match which {
        "Petersen" => {
            (0..5).flat_map(|v| [(v, (v + 1) % 5), (v, v + 5), (v + 5, (v + 2) % 5 + 5)]).collect()
        }
        "5 K2" => (0..5).map(|v| (2 * v, 2 * v + 1)).collect(),
        _ => (0..10).map(|v| (v, (v + 1) % 10)).collect(),
    };
    let graph = Graph::from_edges(10, edges);
    bencher.bench_local(|| hashed::label(black_box(&graph)).key);
}

/// Generator, deletions, look-ups, fold, statistics and digest of the largest shard of order 8;
/// items are (graph, edge) pairs.
#[divan::bench]
fn solve_unit_of_order_8(bencher: Bencher) {
    let (memory, plan, unit) = &*CENSUS;
    let pairs = |solved: &trailtrap_worker::kernel::SolvedUnit| {
        solved.graphs() as usize * plan.shard_of(*unit).size
    };
    let solved = SOLVER.solve(plan, *unit, memory).expect("solved before");
    bencher
        .counter(ItemsCount::new(pairs(&solved)))
        .bench_local(|| SOLVER.solve(plan, *unit, memory).expect("solved before").summary);
}

/// The order of tables that are loaded and looked up in.
const TABLE_ORDER: usize = 11;

/// Look-ups in tables of 2.5 MB, 50 MB, and 3.6 GB, the last of which takes 6 GB to make: at random,
/// and piece by piece, as the kernel answers what it has asked of a table of more than 4 MB, where a
/// unit asks for as much as the table has. As there, entries of the directory and then records are
/// asked for a batch ahead.
#[divan::bench(args = [100_000, 2_000_000, 148_000_000], consts = [false, true])]
fn look_up<const BY_PIECE: bool>(bencher: Bencher, entries: usize) {
    /// As many pieces as a large table has.
    const PIECE_BITS: usize = 10;

    let sequence = DegreeSequence::new([4; TABLE_ORDER]);
    let slots = slots(entries);
    let table =
        BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, slots.iter().copied(), |_, record| {
            record.fill(1)
        });
    let count = if BY_PIECE { slots.len() } else { 1 << 20 };
    let mut wanted: Vec<u64> = (0..count).map(|i| slots[i * 7_919_001 % slots.len()]).collect();
    if BY_PIECE {
        wanted.sort_by_key(|slot| slot >> (slot_bits(TABLE_ORDER) - PIECE_BITS));
    }
    drop(slots);
    bencher.counter(ItemsCount::new(wanted.len())).bench_local(|| {
        let mut sum = 0;
        let (mut located, mut before): (&[u64], &[u64]) = (&[], &[]);
        let mut places = [[0; LANES]; 2];
        for asked in wanted.chunks(LANES).chain([&[][..]; 2]) {
            asked.iter().for_each(|&slot| table.prefetch(slot));
            for (&slot, place) in before.iter().zip(&mut places[1]) {
                *place = table.locate(slot);
            }
            for (&slot, &place) in located.iter().zip(&places[0]) {
                let record = table.look_up(slot, place);
                sum += record.map_or(0, |record| usize::from(record[0]));
            }
            places.swap(0, 1);
            (located, before) = (before, asked);
        }
        sum
    });
}

/// A record into its bytes and back.
#[divan::bench]
fn record_codec(bencher: Bencher) {
    let (memory, ..) = &*CENSUS;
    let table = memory.tables(8).into_iter().max_by_key(|table| table.len()).expect("tables");
    let mut record = vec![0; TrailTrap::LAYOUT.record_bytes(8)];
    bencher.counter(ItemsCount::new(table.len())).bench_local(|| {
        for i in 0..table.len() {
            let outcome = TrailTrap::decode(8, table.record(i));
            TrailTrap::encode(8, &outcome, &mut record);
            black_box(&record);
        }
    });
}

/// Blocks of a table, and a table of blocks, checksums included.
#[divan::bench]
fn block_codec(bencher: Bencher) {
    let (memory, ..) = &*CENSUS;
    let table = memory.tables(8).into_iter().max_by_key(|table| table.len()).expect("tables");
    bencher.counter(ItemsCount::new(table.len())).bench_local(|| {
        let blocks = table.to_blocks(0);
        let parse =
            |block: Block| Block::parse(TrailTrap::LAYOUT, block.into_bytes()).expect("just made");
        let [keys, outcomes] = [blocks.keys, blocks.outcomes].map(parse);
        BucketTable::from_blocks(&[KeyedOutcomes { keys, outcomes }])
            .expect("belong together")
            .len()
    });
}

/// A table of the bytes of a bucket of 16 MB, order 11, that was written in so many parts;
/// checksums included. Items are entries.
#[divan::bench(args = [1, 2, 4, 10, 100])]
fn load_bucket(bencher: Bencher, parts: usize) {
    load(bencher, parts, BucketTable::from_blocks);
}

/// The same of a quarter of its entries that is asked for.
#[divan::bench(args = [1, 2, 4, 10, 100])]
fn load_asked(bencher: Bencher, parts: usize) {
    let asked: Vec<u64> = slots(BUCKET_GRAPHS).into_iter().filter(|slot| slot % 4 == 3).collect();
    let mut sought = Asked::new(TABLE_ORDER, 0, asked.len());
    asked.into_iter().for_each(|slot| sought.ask(slot));
    load(bencher, parts, |blocks| BucketTable::of_asked(blocks, &sought));
}

/// Graphs of the buckets that are loaded.
const BUCKET_GRAPHS: usize = 600_000;

fn load(
    bencher: Bencher,
    parts: usize,
    table: impl Fn(&[KeyedOutcomes]) -> Result<BucketTable, Mismatch>,
) {
    let sequence = DegreeSequence::new([4; TABLE_ORDER]);
    let slots = slots(BUCKET_GRAPHS);
    // Each part has about as many of the slots, as if at random.
    let of_part = |part| {
        let is_mine = |slot: &u64| (slot >> 5) as usize % parts == part;
        let slots: Vec<u64> = slots.iter().copied().filter(is_mine).collect();
        let table =
            BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, slots.into_iter(), |i, record| {
                record.fill(i as u8 & 1)
            });
        let blocks = table.to_blocks(part as u32);
        [blocks.keys, blocks.outcomes].map(Block::into_bytes)
    };
    let bytes: Vec<[Vec<u8>; 2]> = (0..parts).map(of_part).collect();
    let parse = |bytes| Block::parse(TrailTrap::LAYOUT, bytes).expect("just made");
    bencher
        .counter(ItemsCount::new(slots.len()))
        .with_inputs(|| bytes.clone())
        .bench_local_values(|bytes| {
            let blocks: Vec<KeyedOutcomes> = bytes
                .into_iter()
                .map(|bytes| {
                    let [keys, outcomes] = bytes.map(parse);
                    KeyedOutcomes { keys, outcomes }
                })
                .collect();
            table(&blocks).expect("belong together").len()
        });
}

#[divan::bench]
fn public_digest(bencher: Bencher) {
    let (memory, ..) = &*CENSUS;
    let table = memory.tables(8).into_iter().max_by_key(|table| table.len()).expect("tables");
    bencher.counter(ItemsCount::new(table.len())).bench_local(|| {
        let mut digest = Digest::default();
        for i in 0..table.len() {
            let graph = graph_of_slot(table.sequence(), table.slot(i)).expect("a graph");
            digest.add::<TrailTrap>(&graph, &TrailTrap::decode(8, table.record(i)));
        }
        digest
    });
}
