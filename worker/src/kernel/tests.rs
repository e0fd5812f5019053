//! The kernel against forward search and against itself in other cuts.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use rayon::prelude::*;
use trailtrap_shared::{
    class::Class,
    count::summary::Summary,
    game::{
        EdgeGeography, Game, GameName, Layout, Search, Solution, TrailTrap,
        edge_geography::{
            ROOTED_GRAPHS, RootedSearch, Roots, WON_ROOTS, met_by_the_kernel,
            searched::SearchedEdgeGeography,
        },
        trail_trap::{ForwardSearch, Outcome},
    },
    graph::{
        Graph, VertexSet, all_vertices, degree::DegreeSequence, factorial, invariants, nauty,
    },
    labelling::batch::Kernel,
    partition::{
        Asked, Block, BucketBlocks, BucketTable, bucket_of_slot, entry_bytes, graph_of_slot,
        slot_of,
    },
    plan::{Plan, PlanOptions, Unit},
    protocol::messages::Wanted,
};

use super::{BucketKey, Evidence, LookedUp, SolveError, Solver, Source, SourceError, readings};
use crate::{
    cache::{Fetch, PartitionCache},
    link::memory::{self, Memory},
};

fn census(
    order: usize,
    options: PlanOptions,
    kernel: Kernel,
    allowance_bytes: usize,
) -> (Vec<Summary>, Memory) {
    let stop = &AtomicBool::new(false);
    let solver = Solver { game: GameName::TrailTrap, kernel, allowance_bytes, stop };
    memory::census(order, options, &solver).unwrap()
}

#[test]
fn the_mass_of_every_shard_is_right() {
    let (_, memory) = census(7, PlanOptions::default(), Kernel::best(), usize::MAX);
    for order in 1..=7 {
        let plan = Plan::new(TrailTrap::LAYOUT, order, PlanOptions::default());
        for table in memory.tables(order) {
            let graphs =
                (0..table.len()).map(|i| graph_of_slot(table.sequence(), table.slot(i)).unwrap());
            // By nauty's group orders.
            let mass: u64 =
                graphs.map(|graph| factorial(order) / nauty::label(&graph).automorphisms).sum();
            let shard = &plan.shards[plan.find(table.sequence()).unwrap() as usize];
            assert_eq!(u128::from(mass), shard.mass, "{}", shard.sequence);
        }
    }
}

#[test]
fn table_1_of_the_paper() {
    let (results, _) = census(7, PlanOptions::default(), Kernel::best(), usize::MAX);
    let connected: Vec<_> = results
        .iter()
        .map(|Summary { statistics: s, .. }| {
            (s.classes.connected.graphs, s.classes.connected.others())
        })
        .collect();
    assert_eq!(connected[2..], [(2, 2), (6, 4), (21, 17), (112, 88), (853, 734)]);
    let all: Vec<_> = results
        .iter()
        .map(|Summary { statistics: s, .. }| (s.classes.all.listed, s.classes.all.others()))
        .collect();
    assert_eq!(all[1..6], [(1, 1), (1, 3), (3, 8), (7, 27), (33, 123)]);
}

/// Where a graph is, and what its record says.
type Place = (DegreeSequence, u64, Vec<u8>);

/// What is in memory of an order, in order.
fn places(memory: &Memory, layout: Layout, order: usize) -> Vec<Place> {
    let mut places = Vec::new();
    for table in memory.tables(order) {
        let record = |i: usize| table.record(i)[..layout.record_bytes(order)].to_vec();
        places.extend((0..table.len()).map(|i| (*table.sequence(), table.slot(i), record(i))));
    }
    places.sort();
    places
}

/// The census of a class has the graphs that belong to it by definition, with the outcomes that
/// they have in the census of all.
#[test]
fn a_class_is_a_part_of_the_whole() {
    const LAST: usize = 7;
    let cut = PlanOptions { part_graphs: 3, bucket_bytes: 200 };
    for game in GameName::ALL {
        let stop = &AtomicBool::new(false);
        let kernel = Kernel::best();
        let solver = Solver { game, kernel, allowance_bytes: 1000, stop };
        let (_, memory) = memory::census(LAST, PlanOptions::default(), &solver).unwrap();
        let all = (1..=LAST).map(|n| places(&memory, game.layout(), n));
        let all: Vec<Vec<Place>> = all.collect();
        for class in Class::every() {
            let mut units = 0;
            let of_class = memory::census_of(class, LAST, cut, &solver, &mut |plan, solved| {
                assert_eq!(plan.layout.class, class);
                units += solved.unit.part.min(1);
            });
            let of_class = of_class.unwrap();
            for (n, all) in (1..).zip(&all) {
                let found = places(&of_class, game.layout(), n);
                let mut expected = all.clone();
                expected.retain(|(sequence, slot, _)| {
                    class.contains_by_definition(&graph_of_slot(sequence, *slot).unwrap())
                });
                assert_eq!(found, expected, "{game}, {class}, order {n}");
            }
            // Shards of classes that degrees do not tell are never split.
            let has_parts = class.is_by_degrees() && !matches!(class, Class::MaxDegree(1 | 2));
            assert_eq!(units > 0, has_parts, "{class}");
        }
    }
}

#[test]
fn cuts_and_kernels_change_nothing() {
    let (expected, _) = census(8, PlanOptions::default(), Kernel::best(), usize::MAX);
    let cut = PlanOptions { part_graphs: 40, bucket_bytes: 500 };
    assert_eq!(census(8, cut, Kernel::best(), usize::MAX).0, expected, "in parts and buckets");
    for allowance_bytes in [1000, 1] {
        let found = census(8, cut, Kernel::best(), allowance_bytes).0;
        assert_eq!(found, expected, "some predecessors at a time, or one bucket of one");
    }
    for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_available()) {
        assert_eq!(
            census(8, PlanOptions::default(), kernel, usize::MAX).0,
            expected,
            "{}",
            kernel.name()
        );
    }
}

/// Of few graphs, in orders that tests do no census of all graphs of, and beyond those that have
/// plain keys, too.
#[test]
fn cuts_change_nothing_in_large_orders() {
    let cut = PlanOptions { part_graphs: 40, bucket_bytes: 200 };
    for (class, order) in
        [(Class::MaxDegree(3), 9), (Class::MaxDegree(2), 12), (Class::Forest, 13)]
    {
        for game in GameName::ALL {
            let places_by = |options, allowance_bytes| {
                let (stop, kernel) = (&AtomicBool::new(false), Kernel::best());
                let solver = Solver { game, kernel, allowance_bytes, stop };
                let memory = memory::census_of(class, order, options, &solver, &mut |_, _| ());
                let memory = memory.unwrap();
                let of_order = |n| places(&memory, game.layout(), n);
                (9..=order).flat_map(of_order).collect::<Vec<_>>()
            };
            let expected = places_by(PlanOptions::default(), usize::MAX);
            assert!(expected.len() > 100, "{class}");
            for allowance_bytes in [usize::MAX, 1000, 1] {
                let found = places_by(cut, allowance_bytes);
                assert!(found == expected, "{game}, {class}, {allowance_bytes}");
            }
        }
    }
}

/// A source of which one table lacks a graph.
struct Lacking<'a> {
    memory: &'a Memory,
    sequence: DegreeSequence,
    slot: u64,
}

impl Source for Lacking<'_> {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        self.memory.parents(sequence)
    }

    fn table(&self, key: &BucketKey) -> Result<Arc<BucketTable>, SourceError> {
        let table = self.memory.table(key)?;
        let BucketKey { sequence, bucket_bits, bucket } = *key;
        if sequence != self.sequence {
            return Ok(table);
        }
        let others: Vec<usize> =
            (0..table.len()).filter(|&i| table.slot(i) != self.slot).collect();
        let slots = others.iter().map(|&i| table.slot(i));
        let bytes = TrailTrap::LAYOUT.record_bytes(sequence.order());
        let record = |i: usize, record: &mut [u8]| {
            record.copy_from_slice(&table.record(others[i])[..bytes]);
        };
        let layout = TrailTrap::LAYOUT;
        Ok(Arc::new(BucketTable::new(layout, sequence, bucket_bits, bucket, slots, record)))
    }
}

/// A graph that is not where it should be is named, and nothing is taken in its place.
#[test]
fn a_missing_predecessor_is_named() {
    for bucket_bytes in [u64::MAX, 100] {
        let cut = PlanOptions { part_graphs: u64::MAX, bucket_bytes };
        let (_, memory) = census(7, cut, Kernel::best(), usize::MAX);
        let plan = Plan::new(TrailTrap::LAYOUT, 7, cut);
        let mut compared = 0;
        for table in memory.tables(7).iter().step_by(5) {
            let graph = graph_of_slot(table.sequence(), table.slot(table.len() / 2)).unwrap();
            let Some((u, w)) = graph.edges().last() else { continue };
            let rest = graph.without_edge(u, w);
            let (sequence, slot) = (DegreeSequence::of(&rest), slot_of(&rest));
            let source = Lacking { memory: &memory, sequence, slot };
            let shard = plan.find(table.sequence()).unwrap();
            for allowance_bytes in [usize::MAX, 1] {
                let (stop, kernel) = (&AtomicBool::new(false), Kernel::best());
                let solver = Solver { game: GameName::TrailTrap, kernel, allowance_bytes, stop };
                let solved = solver.solve(&plan, Unit { order: 7, shard, part: 0 }, &source);
                let missing = match solved {
                    Err(SolveError::MissingPredecessor { sequence, slot }) => (sequence, slot),
                    other => panic!("{:?}", other.err()),
                };
                assert_eq!(missing, (sequence, slot));
                compared += 1;
            }
        }
        assert!(compared > 100, "{compared}");
    }
}

/// Units in parts, of predecessors in many buckets: held as a whole, some of them, none of them.
#[test]
fn each_deletion_is_labelled_once_however_little_is_held() {
    let (expected, _) = census(8, PlanOptions::default(), Kernel::best(), usize::MAX);
    let cut = PlanOptions { part_graphs: 40, bucket_bytes: 300 };
    for allowance_bytes in [usize::MAX, 1000, 1] {
        let stop = &AtomicBool::new(false);
        let kernel = Kernel::best();
        let solver = Solver { game: GameName::TrailTrap, kernel, allowance_bytes, stop };
        let mut results = vec![Summary::default(); 8];
        memory::census_with(8, cut, &solver, &mut |plan, solved| {
            let size = plan.shard_of(solved.unit).size as u64;
            assert_eq!(solved.labellings, solved.graphs() * size, "{:?}", solved.unit);
            results[plan.order - 1] += &solved.summary;
        })
        .unwrap();
        assert_eq!(results, expected, "{allowance_bytes}");
    }
}

/// A source that counts the tables that are read, and the entries that nobody asked for, and has some
/// graphs drawn.
struct Watched<'a> {
    memory: &'a Memory,
    tables_read: AtomicUsize,
    left_out: AtomicUsize,
    draw: fn(Unit, u64) -> Vec<u64>,
    /// One that keeps nothing.
    cache: PartitionCache<Fetched<'a>>,
}

/// What is in memory, in blocks.
struct Fetched<'a>(&'a Memory);

impl Fetch for Fetched<'_> {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        let blocks = |wanted: &Wanted| {
            let Wanted::Bucket(sequence, bucket) = wanted else { panic!("tables are wanted") };
            let parts = self.0.parts(sequence, *bucket).ok_or("it is not solved")?;
            let of_part = |(part, table): (u32, &Arc<BucketTable>)| {
                let BucketBlocks { keys, outcomes, .. } = table.to_blocks(part);
                [keys, outcomes]
            };
            Ok((0..).zip(&parts).flat_map(of_part).collect())
        };
        wanted.iter().map(blocks).collect()
    }
}

impl<'a> Watched<'a> {
    fn new(memory: &'a Memory, draw: fn(Unit, u64) -> Vec<u64>) -> Self {
        let cache = PartitionCache::new(0, Fetched(memory));
        let (tables_read, left_out) = Default::default();
        Watched { memory, tables_read, left_out, draw, cache }
    }
}

impl Source for Watched<'_> {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        self.memory.parents(sequence)
    }

    fn table(&self, key: &BucketKey) -> Result<Arc<BucketTable>, SourceError> {
        self.tables_read.fetch_add(1, Ordering::Relaxed);
        self.memory.table(key)
    }

    fn keeps(&self, bytes: usize) -> bool {
        self.cache.keeps(bytes)
    }

    fn asked_table(
        &self,
        key: &BucketKey,
        asked: &Asked,
    ) -> Result<Arc<BucketTable>, SourceError> {
        let whole = self.table(key)?;
        let table = self.cache.asked_table(key, asked)?;
        self.left_out.fetch_add(whole.len() - table.len(), Ordering::Relaxed);
        Ok(table)
    }

    fn drawn(&self, unit: Unit, graphs: u64) -> Vec<u64> {
        (self.draw)(unit, graphs)
    }
}

/// Parts of a shard that are solved together, as they are one by one, and what they read is read
/// once.
#[test]
fn parts_together_are_the_parts() {
    let cut = PlanOptions { part_graphs: 40, bucket_bytes: 300 };
    let (stop, kernel) = (&AtomicBool::new(false), Kernel::best());
    let (_, memory) = census(8, cut, kernel, usize::MAX);
    let plan = Plan::new(TrailTrap::LAYOUT, 8, cut);
    let (mut most_parts, mut left_out) = (0, 0);
    for allowance_bytes in [usize::MAX, 1000, 1] {
        let solver = Solver { game: GameName::TrailTrap, kernel, allowance_bytes, stop };
        for (index, shard) in (0..).zip(&plan.shards).filter(|(_, shard)| shard.parts > 1) {
            let units: Vec<Unit> = plan.parts_of(index).collect();
            let [alone, together] = [(), ()].map(|()| Watched::new(&memory, |_, _| Vec::new()));
            let solved = solver.solve_together(&plan, &units, &together).unwrap();
            assert_eq!(solved.len(), units.len());
            for (unit, solved) in units.iter().zip(&solved) {
                let expected = solver.solve(&plan, *unit, &alone).unwrap();
                assert_eq!(solved.unit, *unit);
                assert_eq!(solved.summary, expected.summary);
                assert_eq!(solved.blocks(), expected.blocks());
            }
            let graphs: u64 = solved.iter().map(|solved| solved.graphs()).sum();
            let labellings: u64 = solved.iter().map(|solved| solved.labellings).sum();
            assert_eq!(labellings, graphs * shard.size as u64);
            left_out += alone.left_out.load(Ordering::Relaxed);
            let read = together.tables_read.into_inner();
            if allowance_bytes == usize::MAX {
                let alone = alone.tables_read.into_inner();
                assert_eq!(read * units.len(), alone, "{}", shard.sequence);
            }
            // However little is held, as often as is said beforehand.
            let graphs: usize = solved.iter().flat_map(|s| &s.tables).map(|t| t.len()).sum();
            let said = readings(&plan, shard, graphs, allowance_bytes, 1).into_iter();
            let buckets = |p: u32| 1 << plan.shards[p as usize].bucket_bits;
            assert_eq!(read, said.map(|p| p.rounds * buckets(p.shard)).sum::<usize>());
            most_parts = most_parts.max(units.len());
        }
    }
    assert!(most_parts > 3 && left_out > 1000, "{most_parts} {left_out}");
}

/// It is what the predecessors of the shard hold, by requests if some are large, or larger than what
/// is held.
#[test]
fn what_units_look_up_in_is_told_of_one_shard() {
    let cut = PlanOptions { part_graphs: 40, bucket_bytes: 300 };
    let plan = Plan::new(TrailTrap::LAYOUT, 8, cut);
    let unit = |shard| Unit { order: 8, shard, part: 0 };
    let of = |units: &[Unit], allowance_bytes| LookedUp::of(&plan, units, allowance_bytes);
    assert_eq!(of(&[], 1), None);
    let mut by_request = [0; 2];
    for (index, shard) in (0..).zip(&plan.shards).skip(1) {
        assert_eq!(of(&[unit(index), unit(index - 1)], 1), None);
        let read = || shard.predecessors.iter().map(|&p| &plan.shards[p as usize]);
        let [ample, little] = [usize::MAX, 1].map(|bytes| of(&[unit(index)], bytes).unwrap());
        let graphs: u64 = read().map(|shard| shard.estimate).sum();
        assert!(ample.bytes as u64 > graphs * entry_bytes(plan.layout, 8) as u64);
        assert_eq!(ample.bytes, little.bytes);
        // Sixty-nine entries of 13 bytes and their directory take more than 1000.
        assert_eq!(ample.by_request, read().any(|shard| shard.estimate >= 69));
        assert!(little.by_request);
        let some = of(&[unit(index)], 500).unwrap();
        assert!(some.by_request || !ample.by_request);
        by_request[0] += usize::from(ample.by_request);
        by_request[1] += usize::from(some.by_request);
    }
    let [ample, some] = by_request;
    assert!(20 < ample && ample + 20 < some && some + 50 < plan.shards.len(), "{by_request:?}");
}

/// However little is held, and however many parts are solved together, evidence is what the drawn
/// graphs of each part lead to, as the tables have it.
#[test]
fn evidence_is_what_drawn_graphs_lead_to() {
    let draw = |unit: Unit, graphs: u64| {
        if unit.part % 3 == 1 { Vec::new() } else { (0..graphs).step_by(3).collect() }
    };
    let cut = PlanOptions { part_graphs: 10, bucket_bytes: 50 };
    let (stop, kernel) = (&AtomicBool::new(false), Kernel::best());
    let (_, memory) = census(7, cut, kernel, usize::MAX);
    let plan = Plan::new(TrailTrap::LAYOUT, 7, cut);
    let record = |graph: &Graph| {
        let (sequence, slot) = (DegreeSequence::of(graph), slot_of(graph));
        let shard = &plan.shards[plan.find(&sequence).unwrap() as usize];
        let bucket = bucket_of_slot(7, slot, shard.bucket_bits) as u32;
        let table = memory.table(&BucketKey::of(shard, bucket)).unwrap();
        let record = table.look_up(slot, table.locate(slot)).unwrap();
        let record = record[..plan.layout.record_bytes(7)].to_vec();
        ((sequence, slot), record)
    };
    for (allowance_bytes, together) in
        [(usize::MAX, usize::MAX), (1000, usize::MAX), (1, usize::MAX), (1, 1)]
    {
        let solver = Solver { game: GameName::TrailTrap, kernel, allowance_bytes, stop };
        let (source, mut taken) = (Watched::new(&memory, draw), 0);
        for (index, shard) in (0..).zip(&plan.shards) {
            let units: Vec<Unit> = plan.parts_of(index).collect();
            let solve = |units| solver.solve_together(&plan, units, &source).unwrap();
            for solved in units.chunks(together).flat_map(solve) {
                let tables = solved.tables.iter();
                let slots: Vec<u64> =
                    tables.flat_map(|t| (0..t.len()).map(|i| t.slot(i))).collect();
                let places = draw(solved.unit, slots.len() as u64);
                let mut records = HashMap::new();
                for &place in &places {
                    let graph = graph_of_slot(&shard.sequence, slots[place as usize]).unwrap();
                    records.extend(graph.edges().map(|(u, w)| record(&graph.without_edge(u, w))));
                }
                taken += records.len();
                assert_eq!(solved.evidence, Evidence { places, records });
            }
        }
        assert!(taken > 1000, "{taken}");
        let left_out = source.left_out.into_inner();
        assert!(left_out > 500 || together > 1, "{left_out}");
    }
}

/// Calls `check` for every graph of an order in canonical labels, with its outcome, in parallel.
fn for_each_record(memory: &Memory, order: usize, check: impl Fn(usize, Graph, Outcome) + Sync) {
    for_each_record_of::<TrailTrap>(memory, order, check);
}

fn for_each_record_of<G: Game>(
    memory: &Memory,
    order: usize,
    check: impl Fn(usize, Graph, G::Outcome) + Sync,
) {
    memory.tables(order).par_iter().for_each(|table| {
        for i in 0..table.len() {
            let graph = graph_of_slot(table.sequence(), table.slot(i)).unwrap();
            check(i, graph, G::decode(order, table.record(i)));
        }
    });
}

#[test]
fn forward_search_agrees_on_every_graph_up_to_order_7() {
    let (_, memory) = census(7, PlanOptions::default(), Kernel::best(), usize::MAX);
    let compared = AtomicUsize::new(0);
    for order in 1..=7 {
        for_each_record(&memory, order, |_, graph, outcome| {
            let forward = ForwardSearch::new(usize::MAX).solve(&graph).unwrap();
            assert_eq!(
                matches!(forward, Solution::P1 { .. }),
                outcome.first_moves > 0,
                "{graph:?}"
            );
            compared.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(compared.into_inner(), 1 + 2 + 4 + 11 + 34 + 156 + 1044);
}

#[test]
fn forward_search_agrees_on_every_position_up_to_order_5_and_on_samples_of_orders_8_and_9() {
    let (_, memory) = census(9, PlanOptions::default(), Kernel::best(), usize::MAX);
    for order in 1..=5 {
        for_each_record(&memory, order, |_, graph, outcome| {
            compare_positions(&graph, &outcome, order * order)
        });
    }
    let compared = AtomicUsize::new(0);
    for (order, every) in [(8, 23), (9, 997)] {
        for_each_record(&memory, order, |i, graph, outcome| {
            // Spread over all shards; forward search of larger graphs takes too long here.
            if (i + graph.size() * 7 + graph.degree(0)) % every == 0 && graph.size() <= 19 {
                compare_positions(&graph, &outcome, 5);
                let forward = ForwardSearch::new(usize::MAX).solve(&graph).unwrap();
                assert_eq!(
                    matches!(forward, Solution::P1 { .. }),
                    outcome.first_moves > 0,
                    "{graph:?}"
                );
                compared.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    assert!(compared.into_inner() > 300);
}

/// Compares W and R at `count` positions (H; a, b), those of small graphs all.
fn compare_positions(graph: &Graph, outcome: &Outcome, count: usize) {
    let n = graph.order();
    let mut search = ForwardSearch::new(usize::MAX);
    for pick in 0..count {
        // 7 is prime to n² for the orders in question, so all pairs are met.
        let (a, b) = ((pick * 7 + graph.size()) % (n * n) / n, (pick * 7 + graph.size()) % n);
        let wins = search.mover_wins(graph, a, b).unwrap();
        assert_eq!(wins, outcome.wins[a] >> b & 1 == 1, "W({graph:?}; {a}, {b})");
        let refuted = search.answer(graph, a).unwrap().is_some();
        assert_eq!(refuted, outcome.refuted >> a & 1 == 1, "R({graph:?}; {a})");
    }
}

/// Any record follows from its predecessors by the recurrence; here nauty finds them, and no code
/// of the kernel is used.
#[test]
fn records_follow_from_their_predecessors_by_nauty() {
    let (_, memory) = census(6, PlanOptions::default(), Kernel::best(), usize::MAX);
    for order in 2..=6 {
        let known = Mutex::new(HashMap::new());
        for_each_record(&memory, order, |_, graph, outcome| {
            known.lock().unwrap().insert(nauty::label(&graph).canonical, (graph, outcome));
        });
        let known = known.into_inner().unwrap();
        for (graph, outcome) in known.values() {
            let mut derived: Outcome = Outcome::default();
            for (u, w) in graph.edges() {
                let smaller = graph.without_edge(u, w);
                let (there, before) = &known[&nauty::label(&smaller).canonical];
                // An isomorphism from the smaller graph to the one in the table, through nauty's
                // labels of both.
                let (to, from) = (nauty::label(&smaller).label, nauty::label(there).label);
                let image = |v: usize| (0..order).find(|&x| from[x] == to[v]).unwrap();
                for (end, other) in [(u, w), (w, u)] {
                    for b in 0..order {
                        let opponent_wins = before.wins[image(b)] >> image(other) & 1 == 1;
                        derived.wins[end] |= VertexSet::from(!opponent_wins) << b;
                        derived.refuted |= VertexSet::from(!opponent_wins) << b;
                    }
                    derived.first_moves |= u16::from(before.refuted >> image(end) & 1 == 0);
                }
            }
            assert_eq!(derived, *outcome, "{graph:?}");
        }
    }
}

/// Solves units of edge geography.
fn geographer(allowance_bytes: usize) -> Solver<'static> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    Solver { game: GameName::EdgeGeography, kernel: Kernel::best(), allowance_bytes, stop: &NEVER }
}

/// Edge geography by the kernel, in one piece and in parts and buckets.
fn edge_geography(order: usize) -> (Vec<Summary>, Memory) {
    let census = |options, allowance_bytes| {
        memory::census(order, options, &geographer(allowance_bytes)).unwrap()
    };
    let whole = census(PlanOptions::default(), usize::MAX);
    for allowance_bytes in [1000, 1] {
        let cut = census(PlanOptions { part_graphs: 40, bucket_bytes: 500 }, allowance_bytes);
        assert_eq!(whole.0, cut.0);
    }
    whole
}

/// Forward search from every vertex of every graph; and the numbers of rooted graphs, OEIS
/// A000666, which no orbit was counted for.
#[test]
fn edge_geography_is_what_forward_search_says_up_to_order_7() {
    const ROOTED: [u128; 7] = [1, 2, 6, 20, 90, 544, 5096];
    let (results, memory) = edge_geography(7);
    for (order, Summary { statistics, .. }) in (1..).zip(&results) {
        let sums = statistics.classes.sums.0;
        assert_eq!(sums[ROOTED_GRAPHS], ROOTED[order - 1]);
        let (won, listed) = (Mutex::new(0), AtomicUsize::new(0));
        for_each_record_of::<EdgeGeography>(&memory, order, |_, graph, outcome: Roots| {
            let forward = RootedSearch::new(usize::MAX).roots(&graph).unwrap();
            assert_eq!(outcome, forward, "{graph:?}");
            *won.lock().unwrap() += u128::from(forward.won.count_ones());
            let is_listed = forward.won != all_vertices(order);
            listed.fetch_add(usize::from(is_listed), Ordering::Relaxed);
        });
        assert_eq!(won.into_inner().unwrap(), sums[WON_ROOTS]);
        assert_eq!(listed.into_inner() as u128, statistics.classes.all.listed);
    }
}

/// The theorem of Fraenkel, Scheinerman and Ullman, on all bipartite graphs up to order 9.
#[test]
fn edge_geography_of_bipartite_graphs_is_linear_algebra() {
    let options = PlanOptions::default();
    let (_, memory) = memory::census(9, options, &geographer(usize::MAX)).unwrap();
    let compared = AtomicUsize::new(0);
    for order in 1..=9 {
        for_each_record_of::<EdgeGeography>(&memory, order, |_, graph, outcome: Roots| {
            if invariants::is_bipartite(&graph) {
                let lost = all_vertices(order) & !outcome.won;
                assert_eq!(lost, met_by_the_kernel(&graph), "{graph:?}");
                compared.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    assert_eq!(compared.into_inner(), 1 + 2 + 3 + 7 + 13 + 35 + 88 + 303 + 1119);
}

/// A game that is solved graph by graph goes through the same kernel, reads no predecessors, and
/// comes to the same counts as the retrograde one. Its digests are under another tag.
#[test]
fn both_methods_come_to_the_same() {
    let options = PlanOptions { part_graphs: 40, bucket_bytes: 500 };
    assert!(
        Plan::new(SearchedEdgeGeography::LAYOUT, 5, options)
            .shards
            .iter()
            .all(|shard| shard.predecessors.is_empty())
    );
    let (searched, _) =
        memory::census_as::<SearchedEdgeGeography>(6, options, &geographer(1)).unwrap();
    let (folded, _) = edge_geography(6);
    for (searched, folded) in searched.iter().zip(&folded) {
        assert_eq!(searched.statistics, folded.statistics);
        assert_ne!(searched.digest, folded.digest);
    }
}
