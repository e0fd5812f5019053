//! The plan of an order: its shards, one for each degree sequence, what each of them reads, and
//! how large ones are split. A plan follows from the order and the options alone, so coordinator
//! and workers build equal ones.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
};

use serde::{Deserialize, Serialize};

use crate::{
    class::Class,
    game::Layout,
    graph::{
        degree::{DegreeSequence, LabelledCounts},
        factorial, pairs, polya,
    },
    partition::{entry_bytes, most_bucket_bits, slot_bytes},
    protocol::codec,
};

/// The limits by which shards are split. A store keeps them with its data, so that a resumed
/// census splits as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOptions {
    /// A shard that is estimated to hold more graphs is computed in parts, by ranges of parents.
    pub part_graphs: u64,
    /// A partition that is estimated to take more bytes is kept in buckets, by ranges of slots.
    pub bucket_bytes: u64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions { part_graphs: 4 << 20, bucket_bytes: 64 << 20 }
    }
}

/// All graphs of one degree sequence, or those of them that belong to the class of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The degree sequence.
    pub sequence: DegreeSequence,
    /// Number of edges.
    pub size: usize,
    /// Σ n!/|Aut| over all graphs of the degree sequence: (n!/∏ cnt_j!) · L(d). Over the shard it
    /// must be this if the class has them all, see [`Class::is_by_degrees`], and is no more
    /// otherwise.
    pub mass: u128,
    /// About how many graphs there are: mass/n!, which they are at least, as whole graphs and one
    /// more; near the truth for large shards. One if the class has only some of them: then they are
    /// few, and nothing is known of their number.
    pub estimate: u64,
    /// Number of parts the work is split into.
    pub parts: u32,
    /// The data is split into 2^`bucket_bits` buckets.
    pub bucket_bits: u8,
    /// The shards that hold the graphs with one edge less, by index.
    pub predecessors: Vec<u32>,
}

impl Shard {
    /// The shard of a degree sequence, without predecessors.
    fn of(
        layout: Layout,
        sequence: DegreeSequence,
        options: PlanOptions,
        counts: &mut LabelledCounts,
    ) -> Self {
        let order = sequence.order();
        let mass = mass(&sequence, counts);
        // Of other classes nothing is known beforehand.
        let estimate = match layout.class.is_by_degrees() {
            true => expected_graphs(mass, order),
            false => 1,
        };
        let buckets = (estimate * entry_bytes(layout, order) as u64)
            .div_ceil(options.bucket_bytes.max(1))
            .next_power_of_two();
        Shard {
            sequence,
            size: sequence.size(),
            mass,
            estimate,
            parts: estimate.div_ceil(options.part_graphs.max(1)).min(1 << 20) as u32,
            bucket_bits: buckets.ilog2().min(most_bucket_bits(order).into()).min(16) as u8,
            predecessors: Vec::new(),
        }
    }

    /// The buckets of its partition.
    pub fn buckets(&self) -> Range<u32> {
        0..1 << self.bucket_bits
    }
}

/// The shards of one order, or those of its graphs with few edges, by number of edges and then by
/// degrees.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The layout of the records of the order's partitions, and the class of its graphs.
    pub layout: Layout,
    /// Number of vertices, 1 to 20.
    pub order: usize,
    /// What decides how shards are split.
    pub options: PlanOptions,
    /// The largest number of edges of a shard: that of the complete graph, unless the plan was
    /// limited.
    pub max_size: usize,
    /// The shards; other places name a shard by its index here.
    pub shards: Vec<Shard>,
    /// 64 bits of a hash over order, options, all shards of the order, game and class, by which
    /// two sides check that they have equal plans. Frozen: stores keep it, and are refused when it
    /// is computed otherwise.
    pub fingerprint: u64,
    /// For each number of edges, its shards.
    layers: Vec<Range<u32>>,
    /// The numbers of all shards of the order.
    numbers: HashMap<DegreeSequence, u32>,
}

impl Plan {
    /// The plan of an order that [`Class::largest_order`] allows. Order 11 has 59 348 shards and
    /// takes about a second.
    pub fn new(layout: Layout, order: usize, options: PlanOptions) -> Self {
        Self::up_to(layout, order, options, pairs(order))
    }

    /// The same without the shards of graphs with more than `max_size` edges. The others have the
    /// same numbers, and the plan the same fingerprint. It takes as long, and of the shards that it
    /// leaves out it holds the numbers alone.
    pub fn up_to(layout: Layout, order: usize, options: PlanOptions, max_size: usize) -> Self {
        let class = layout.class;
        let mut sequences =
            DegreeSequence::within(order, class.most_degree(order), class.most_edges(order));
        sequences.retain(|sequence| class.may_have(sequence));
        let numbers: HashMap<_, _> =
            sequences.iter().enumerate().map(|(i, sequence)| (*sequence, i as u32)).collect();
        let max_size = max_size.min(pairs(order));
        let within = sequences.partition_point(|sequence| sequence.size() <= max_size);
        let mut fingerprint = Fingerprint::of(order, options, sequences.len());
        let mut counts = LabelledCounts::default();
        let mut shards = Vec::with_capacity(within);
        for sequence in sequences {
            let shard = Shard::of(layout, sequence, options, &mut counts);
            fingerprint.add(&shard);
            if shards.len() < within {
                let predecessors = match layout.reads_predecessors {
                    true => sequence
                        .deletions()
                        .iter()
                        .map(|deletion| numbers[&deletion.sequence])
                        .collect(),
                    false => Vec::new(),
                };
                shards.push(Shard { predecessors, ..shard });
            }
        }
        let (fingerprint, layers) = (fingerprint.of_layout(layout), layers(&shards, max_size));
        Plan { layout, order, options, max_size, shards, fingerprint, layers, numbers }
    }

    /// The shards of graphs with so many edges, no more than the plan goes up to, and their turns.
    pub fn layer(&self, size: usize) -> Range<u32> {
        self.layers[size].clone()
    }

    /// When a shard has its turn. Numbers of edges come one after the other, and the shards of odd
    /// ones from the last to the first: what was solved last, and is still in caches, is read first.
    pub fn turn(&self, shard: u32) -> Turn {
        let size = self.shards[shard as usize].size;
        let layer = &self.layers[size];
        if size.is_multiple_of(2) { shard } else { layer.start + layer.end - 1 - shard }
    }

    /// The shard that has a turn.
    pub fn shard_of_turn(&self, turn: Turn) -> u32 {
        // Both directions are the same: the shards of a layer have the turns of the layer.
        self.turn(turn)
    }

    /// The shard of a unit that the plan has.
    pub fn shard_of(&self, unit: Unit) -> &Shard {
        &self.shards[unit.shard as usize]
    }

    /// Whether a unit of the order is one of the plan.
    pub fn has(&self, unit: Unit) -> bool {
        self.shards.get(unit.shard as usize).is_some_and(|shard| unit.part < shard.parts)
    }

    /// The units of a shard.
    pub fn parts_of(&self, shard: u32) -> impl Iterator<Item = Unit> + use<> {
        let order = self.order as u8;
        (0..self.shards[shard as usize].parts).map(move |part| Unit { order, shard, part })
    }

    /// All units, shard by shard.
    pub fn units(&self) -> impl Iterator<Item = Unit> {
        (0..self.shards.len() as u32).flat_map(|shard| self.parts_of(shard))
    }

    /// The number of units.
    pub fn unit_count(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.parts)).sum()
    }

    /// Whether it has all shards of the order.
    pub fn is_complete(&self) -> bool {
        self.max_size == pairs(self.order)
    }

    /// The largest number of edges of a shard, if the plan does not have all of the order.
    pub fn limit(&self) -> Option<usize> {
        (!self.is_complete()).then_some(self.max_size)
    }

    /// The order, for people, and up to how many edges, and in which class, if that is not all.
    pub fn name(&self) -> String {
        let name = order_name(self.order, self.limit());
        match self.layout.class {
            Class::All => name,
            class => format!("{name}, class {class}"),
        }
    }

    /// The index of the shard of a degree sequence of this order; `None` if the plan does not go
    /// so far.
    pub fn find(&self, sequence: &DegreeSequence) -> Option<u32> {
        self.number(sequence).filter(|&index| (index as usize) < self.shards.len())
    }

    /// The number of the shard of a degree sequence of this order, whether the plan goes so far or
    /// not.
    pub fn number(&self, sequence: &DegreeSequence) -> Option<u32> {
        self.numbers.get(sequence).copied()
    }

    /// Whether a unit is of the order, and has more edges than the plan goes up to.
    pub fn leaves_out(&self, unit: Unit) -> bool {
        (self.shards.len()..self.numbers.len()).contains(&(unit.shard as usize))
    }

    /// The largest number of edges of graphs whose outcomes nothing reads once the plan is carried
    /// out. If it is to be carried further, those with most edges are read then. `None` if there is
    /// no such number.
    pub fn retired_size(&self, is_the_end: bool) -> Option<usize> {
        match is_the_end || self.is_complete() {
            true => Some(self.max_size),
            false => self.max_size.checked_sub(1),
        }
    }

    /// Graphs and (graph, edge) pairs of the plan, if theory tells them: those of all graphs.
    pub fn totals(&self) -> Option<(u64, u64)> {
        (self.layout.class == Class::All).then(|| polya::totals(self.order, self.max_size))
    }

    /// The estimated number of (graph, edge) pairs of a unit, which is the measure of its work.
    pub fn pairs(&self, unit: Unit) -> u64 {
        let shard = self.shard_of(unit);
        shard.estimate * shard.size as u64 / u64::from(shard.parts)
    }

    /// The estimated number of graphs of a unit, one at least.
    pub fn graphs(&self, unit: Unit) -> u64 {
        let shard = self.shard_of(unit);
        shard.estimate.div_ceil(u64::from(shard.parts)).max(1)
    }

    /// The same, if nothing is known of it as few graphs of the class may have the degree sequence:
    /// what it would be if all had.
    pub fn most_graphs(&self, unit: Unit) -> u64 {
        let shard = self.shard_of(unit);
        expected_graphs(shard.mass, self.order).div_ceil(u64::from(shard.parts))
    }

    /// Roughly the bytes of the blocks of these units: of a lower bound for their graphs, near the
    /// truth where it is large, with the most that a slot takes.
    pub fn bytes(&self, units: &[Unit]) -> u64 {
        let entry = entry_bytes(self.layout, self.order) as u64;
        let of_unit = |&unit: &Unit| {
            let shard = self.shard_of(unit);
            shard.estimate / u64::from(shard.parts) * entry
        };
        units.iter().map(of_unit).sum()
    }

    /// The blocks of these units have no more bytes than this, in whatever class.
    pub fn most_bytes(&self, units: &[Unit]) -> u64 {
        let entry = entry_bytes(self.layout, self.order) as u64;
        let of_unit = |&unit: &Unit| {
            let shard = self.shard_of(unit);
            (expected_graphs(shard.mass, self.order) / u64::from(shard.parts))
                .saturating_mul(entry)
        };
        most_bytes(units.iter().map(of_unit))
    }

    /// The blocks that these units read, parents and the partitions in which they look up, have no
    /// more bytes than this, in whatever class.
    pub fn most_input_bytes(&self, units: &[Unit], counts: &mut LabelledCounts) -> u64 {
        let shards = || units.iter().map(|&unit| self.shard_of(unit));
        let predecessors: BTreeSet<u32> =
            shards().flat_map(|shard| shard.predecessors.iter().copied()).collect();
        let parents: HashSet<DegreeSequence> = shards()
            .flat_map(|shard| shard.sequence.parents())
            .map(|parent| parent.sequence)
            .collect();
        let entry = entry_bytes(self.layout, self.order) as u64;
        let looked_up = predecessors.iter().map(|&predecessor| {
            expected_graphs(self.shards[predecessor as usize].mass, self.order)
                .saturating_mul(entry)
        });
        let order = self.order - 1;
        let slot = slot_bytes(order) as u64;
        let listed = parents
            .iter()
            .map(|parent| expected_graphs(mass(parent, counts), order).saturating_mul(slot));
        most_bytes(looked_up.chain(listed))
    }

    /// Bytes of memory that the plan takes, about.
    pub fn memory_bytes(&self) -> usize {
        let Plan { shards, numbers, .. } = self;
        let of_lists: usize = shards.iter().map(|shard| list_bytes(&shard.predecessors)).sum();
        // A map has a byte for each place beside it.
        let of_numbers = numbers.capacity() * (size_of::<(DegreeSequence, u32)>() + 1);
        size_of_val(&shards[..]) + of_lists + of_numbers
    }

    /// The shards that read each shard.
    pub fn successors(&self) -> Vec<Vec<u32>> {
        let mut successors = vec![Vec::new(); self.shards.len()];
        for (i, shard) in self.shards.iter().enumerate() {
            for &predecessor in &shard.predecessors {
                successors[predecessor as usize].push(i as u32);
            }
        }
        successors
    }
}

/// A hash over order, options and shards, game and class, as a plan has it. Frozen.
struct Fingerprint(blake3::Hasher);

impl Fingerprint {
    /// Of an order and options, with as many shards to be added.
    fn of(order: usize, options: PlanOptions, shards: usize) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&codec::encode(&(order as u64, options, shards as u64)));
        Fingerprint(hasher)
    }

    fn add(&mut self, shard: &Shard) {
        let mut described = [0; 21];
        described[..16].copy_from_slice(&shard.mass.to_le_bytes());
        described[16..20].copy_from_slice(&shard.parts.to_le_bytes());
        described[20] = shard.bucket_bits;
        self.0.update(&described);
    }

    /// After the last shard.
    fn of_layout(mut self, layout: Layout) -> u64 {
        // Fingerprints of game 1 on all graphs are in stores that were written when there was
        // nothing else.
        if layout.number() != 1 {
            self.0.update(&layout.number().to_le_bytes());
        }
        let hash = self.0.finalize();
        u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer"))
    }
}

/// The place of a shard in the order in which shards are solved.
pub type Turn = u32;

/// For each number of edges up to `max_size` its shards, which are in the order of their sizes.
fn layers(shards: &[Shard], max_size: usize) -> Vec<Range<u32>> {
    let up_to = |size: usize| shards.partition_point(|shard| shard.size < size) as u32;
    (0..=max_size).map(|size| up_to(size)..up_to(size + 1)).collect()
}

/// Bytes of an allocated list, with what the allocator needs beside it.
fn list_bytes(list: &[u32]) -> usize {
    size_of_val(list) + 16
}

/// What a census is to do: the graphs of an order, all or those with few edges, and of the orders
/// before it those that these are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The last order.
    pub order: usize,
    /// The most edges of its graphs.
    max_size: usize,
}

impl Goal {
    /// All graphs of an order with at most `max_size` edges, `None` for any number.
    pub fn new(order: usize, max_size: Option<usize>) -> Self {
        Goal { order, max_size: max_size.unwrap_or(usize::MAX).min(pairs(order)) }
    }

    /// The same in a class: if it has no graphs with more edges, nothing is left out.
    pub fn of_class(self, class: Class) -> Self {
        match self.max_size >= class.most_edges(self.order) {
            true => Goal::new(self.order, None),
            false => self,
        }
    }

    /// The most edges of graphs of an order ≤ the last one. A graph with m edges is generated from
    /// one that lacks a vertex of maximum degree, and this is at least the mean, 2m/n.
    pub fn max_size(self, order: usize) -> usize {
        let of_parents = |size: usize, n: usize| size - (2 * size).div_ceil(n);
        (order + 1..=self.order).rev().fold(self.max_size, of_parents)
    }
}

/// An order for people: `order 12`, or `order 12 up to 20 edges`.
pub fn order_name(order: usize, max_size: Option<usize>) -> String {
    let limit = max_size.map_or_else(String::new, |max_size| format!(" up to {max_size} edges"));
    format!("order {order}{limit}")
}

/// Σ n!/|Aut| over all graphs of a degree sequence.
fn mass(sequence: &DegreeSequence, counts: &mut LabelledCounts) -> u128 {
    sequence.arrangements() * counts.count(sequence)
}

/// About how many graphs of this mass there are: mass/n!, which they are at least, as whole graphs
/// and one more; near the truth where that is large.
fn expected_graphs(mass: u128, order: usize) -> u64 {
    u64::try_from(mass / u128::from(factorial(order))).unwrap_or(u64::MAX).saturating_add(1)
}

/// Blocks that are expected to have so many bytes if all graphs are in their class have no more
/// bytes than this: symmetric graphs are more than their mass says, by less than this factor where
/// there are many, and by less than 64 MiB where there are few. It bounds what is believed of others.
fn most_bytes(expected: impl Iterator<Item = u64>) -> u64 {
    expected.fold(0, u64::saturating_add).saturating_mul(4).saturating_add(64 << 20)
}

/// The smallest piece of work: one part of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unit {
    /// Number of vertices, 1 to 20.
    pub order: u8,
    /// Index of the shard in its plan.
    pub shard: u32,
    /// Below the number of parts of the shard.
    pub part: u32,
}

/// Units that have no more than so many graphs together may be leased together, however little room
/// a worker has: each lease takes two calls to the coordinator.
pub const LEAST_TOGETHER: u64 = 25_000;

/// The indices of those of `count` parents of one degree sequence that part `part` of `parts`
/// extends. The ranges of all parts are consecutive and differ in length by one at most.
pub fn parent_range(count: usize, part: u32, parts: u32) -> Range<usize> {
    let bound = |p: u32| (count as u128 * u128::from(p) / u128::from(parts)) as usize;
    bound(part)..bound(part + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        game::{EdgeGeography, Game, TrailTrap},
        graph::pairs,
    };

    fn plan_up_to(order: usize, max_size: usize) -> Plan {
        Plan::up_to(TrailTrap::LAYOUT, order, PlanOptions::default(), max_size)
    }

    #[test]
    fn shards_come_after_what_they_read() {
        for order in 1..=8 {
            let plan = Plan::new(TrailTrap::LAYOUT, order, PlanOptions::default());
            for (i, shard) in plan.shards.iter().enumerate() {
                assert_eq!(plan.find(&shard.sequence), Some(i as u32));
                assert!(
                    shard
                        .predecessors
                        .iter()
                        .all(|&p| plan.shards[p as usize].size + 1 == shard.size)
                );
                assert!(shard.size == 0 || !shard.predecessors.is_empty());
            }
            assert_eq!(
                plan.shards.iter().map(|shard| shard.mass).sum::<u128>(),
                1 << pairs(order)
            );
        }
    }

    /// Whatever the class, as many bytes may come as of all graphs: honest results are never too
    /// many. Of all graphs that is what it was, and more units may have more.
    #[test]
    fn no_class_has_more_bytes_than_all_graphs() {
        let plan = |class| Plan::new(TrailTrap::LAYOUT.on(class), 9, PlanOptions::default());
        let (all, planar) = (plan(Class::All), plan(Class::Planar));
        let unit = |shard| Unit { order: 9, shard, part: 0 };
        let mut counts = LabelledCounts::default();
        for (index, shard) in (0..).zip(&planar.shards) {
            let same = all.find(&shard.sequence).expect("all graphs have it");
            let (units, of_all) = ([unit(index)], [unit(same)]);
            assert_eq!(all.most_bytes(&of_all), 4 * all.bytes(&of_all) + (64 << 20));
            assert_eq!(planar.most_bytes(&units), all.most_bytes(&of_all));
            let inputs = planar.most_input_bytes(&units, &mut counts);
            assert!(inputs <= all.most_input_bytes(&of_all, &mut counts));
        }
        let [few, many] = [10, 500].map(|count| (0..count).map(unit).collect::<Vec<_>>());
        assert!(planar.most_bytes(&few) < planar.most_bytes(&many));
    }

    /// The plan of a class has the shards that graphs of the class are in and lead to, and is no
    /// other class's.
    #[test]
    fn a_class_has_a_plan_of_its_own() {
        let plans: Vec<Plan> = Class::every()
            .map(|class| Plan::new(TrailTrap::LAYOUT.on(class), 8, PlanOptions::default()))
            .collect();
        let fingerprints: HashSet<u64> = plans.iter().map(|plan| plan.fingerprint).collect();
        assert_eq!(fingerprints.len(), plans.len());
        for plan in &plans {
            assert!(plan.is_complete());
            assert!(plan.shards.iter().all(|shard| {
                shard.predecessors.len() == shard.sequence.deletions().len()
                    && plan.layout.class.may_have(&shard.sequence)
            }));
        }
    }

    #[test]
    fn parts_cover_the_parents() {
        for count in [0, 1, 7, 1000] {
            let ranges: Vec<_> = (0..7).map(|part| parent_range(count, part, 7)).collect();
            assert_eq!(ranges[0].start, 0);
            assert_eq!(ranges[6].end, count);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    /// What the parents of all shards with few edges need, and no more.
    #[test]
    fn parents_of_few_edges_have_fewer() {
        for order in 2..=8 {
            for max_size in 0..=pairs(order) {
                let limited = plan_up_to(order, max_size);
                let most = limited.shards.iter().flat_map(|shard| shard.sequence.parents());
                let most = most.map(|parent| parent.sequence.size()).max().unwrap();
                let goal = Goal::new(order, Some(max_size));
                assert_eq!(goal.max_size(order), max_size);
                assert_eq!(goal.max_size(order - 1), most, "{order}, {max_size}");
            }
        }
        for goal in [Goal::new(12, None), Goal::new(12, Some(100))] {
            assert!((1..=12).all(|order| goal.max_size(order) == pairs(order)));
        }
    }

    /// Even numbers of edges go forwards, odd ones backwards, whatever the plan leaves out.
    #[test]
    fn turns_alternate() {
        let forests = TrailTrap::LAYOUT.on(Class::Forest);
        for (layout, max_size) in [(TrailTrap::LAYOUT, 21), (TrailTrap::LAYOUT, 8), (forests, 21)]
        {
            let plan = Plan::up_to(layout, 7, PlanOptions::default(), max_size);
            let layers = (0..=max_size).map(|size| plan.layer(size));
            let expected = layers.enumerate().flat_map(|(size, layer)| match size % 2 {
                0 => layer.collect::<Vec<u32>>(),
                _ => layer.rev().collect(),
            });
            let turns = 0..plan.shards.len() as Turn;
            assert!(turns.clone().map(|turn| plan.shard_of_turn(turn)).eq(expected));
            assert!(turns.clone().all(|shard| plan.shard_of_turn(plan.turn(shard)) == shard));
        }
    }

    #[test]
    fn a_limited_plan_is_the_beginning_of_the_whole() {
        let whole = Plan::new(TrailTrap::LAYOUT, 6, PlanOptions::default());
        assert!(whole.is_complete());
        for max_size in 0..=16 {
            let limited = plan_up_to(6, max_size);
            assert_eq!(limited.fingerprint, whole.fingerprint);
            assert_eq!(limited.shards, whole.shards[..limited.shards.len()]);
            assert_eq!(limited.is_complete(), max_size >= 15);
            assert_eq!(limited.limit(), (max_size < 15).then_some(max_size));
            for (index, shard) in whole.shards.iter().enumerate() {
                let index = index as u32;
                assert_eq!(limited.number(&shard.sequence), Some(index));
                let found = (shard.size <= max_size).then_some(index);
                assert_eq!(limited.find(&shard.sequence), found);
                let unit = Unit { order: 6, shard: index, part: 0 };
                assert_eq!(limited.leaves_out(unit), found.is_none());
            }
        }
    }

    #[test]
    fn small_limits_split() {
        let options = PlanOptions { part_graphs: 5, bucket_bytes: 100 };
        let plan = Plan::new(TrailTrap::LAYOUT, 8, options);
        assert!(plan.shards.iter().any(|shard| shard.parts > 2 && shard.bucket_bits > 1));
        assert_ne!(
            plan.fingerprint,
            Plan::new(TrailTrap::LAYOUT, 8, PlanOptions::default()).fingerprint
        );
    }

    /// The numbers of plans stand in stores. Other games have other ones, even where they split alike.
    #[test]
    fn fingerprints_are_what_they_were() {
        let whole = PlanOptions { part_graphs: 1 << 40, bucket_bytes: 1 << 40 };
        let split = PlanOptions { part_graphs: 5, bucket_bytes: 100 };
        let (first, second) = (TrailTrap::LAYOUT, EdgeGeography::LAYOUT);
        let plans = [(first, 5, whole), (second, 5, whole), (first, 8, split)];
        let fingerprints =
            plans.map(|(layout, order, options)| Plan::new(layout, order, options).fingerprint);
        assert_eq!(
            fingerprints,
            [14_492_676_898_013_858_146, 8_894_171_907_221_027_174, 17_005_516_911_002_449_858]
        );
    }
}
