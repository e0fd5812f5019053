//! The order in work: its schedule, its second computations, and what the store holds of it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use trailtrap_shared::{
    count::{ahead::Share, statistics::Statistics},
    graph::factorial,
    partition::Content,
    plan::{Plan, Unit},
};

use super::{
    comparison::Comparisons,
    effect::Refusal,
    schedule::{OnRecord, Schedule},
    setbacks::Setbacks,
};
use crate::records::{Author, Delivery, UnitRecord, ahead::Ahead};

/// Where disk is not to be as little as possible, so many whole numbers of edges keep their
/// outcomes before those in work. A unit of the last of them, which what is in work reads, can be
/// solved again from the one before.
pub const SIZES_KEPT: usize = 2;

/// What is known of an order when it is taken up.
pub struct OrderOpening {
    /// The plan of the order.
    pub plan: Arc<Plan>,
    /// For each shard the content of the parents that it is generated from.
    pub parents: Vec<Content>,
    /// What the store holds; what is not of the plan is left out.
    pub records: Vec<Recorded>,
    /// What these units tell about graphs with one edge more, as far as it is known.
    pub ahead: HashMap<Unit, Ahead>,
    /// The place of the sum that follows from that, if the game has one.
    pub told: Option<usize>,
    /// Whether the outcomes of all positions are (still) there, and will be.
    pub outcomes_kept: bool,
    /// Whether the graphs go with the outcomes.
    pub graphs_dropped: bool,
    /// How many numbers of edges before the first that is not done keep their outcomes, though
    /// nothing reads them: so that what is found wrong can be solved again without the rest.
    pub sizes_kept: usize,
    /// Shards are dropped that have so many graphs together, at least.
    pub dropped_together: u64,
    /// Graphs of the order, by theory.
    pub graphs: u64,
    /// (graph, edge) pairs of the order, by theory.
    pub pairs: u64,
    /// Which units are to be solved twice.
    pub comparisons: Comparisons,
    /// Where outcomes go: the units on record that are to be solved a second time, and whose inputs
    /// have not gone.
    pub comparable: HashSet<Unit>,
}

/// What is needed of the record of a unit when an order is taken up.
pub struct Recorded {
    /// The unit.
    pub unit: Unit,
    /// What tells its results from others.
    pub content: Content,
    inputs: Content,
    sums: Partial,
    worker: Author,
    is_confirmed: bool,
}

impl Recorded {
    /// Whether it is still to be solved a second time: also if that was done, and a run ended before
    /// what it decided was kept.
    pub fn is_to_compare(&self, comparisons: &Comparisons) -> bool {
        comparisons.can_decide(self.unit, &self.inputs)
            || !self.is_confirmed && comparisons.want(self.unit)
    }

    /// That of this record, of an order of a game that tells the sum in this place, if it has one;
    /// and with what these did not confirm, who were blamed.
    pub fn of(unit: Unit, record: UnitRecord, told: Option<usize>, blamed: &[Author]) -> Self {
        let sums = Partial::of(&record, usize::from(unit.order), told);
        let is_confirmed = record.is_confirmed(blamed);
        let UnitRecord { content, inputs, worker, .. } = record;
        Recorded { unit, content, inputs, sums, worker, is_confirmed }
    }
}

/// An order in work.
pub struct Order {
    pub(super) schedule: Schedule,
    pub(super) comparisons: Comparisons,
    /// Units without a durable record that counts, and confirmations on their way there.
    pub(super) to_commit: usize,
    /// What the store held of it when it was taken up.
    found: HashMap<Unit, Found>,
    /// Shards of which some part is done and some is not.
    partial: HashMap<u32, Partial>,
    told: Option<usize>,
    /// What finished units tell about shards that are not finished.
    ahead: HashMap<u32, Share>,
    /// The same for their masses times numbers of edges, in a class of graphs.
    masses_ahead: HashMap<u32, u128>,
    /// Shards with finished units of which it is not known what they tell.
    silent: HashSet<u32>,
    pub(super) outcomes_kept: bool,
    graphs_dropped: bool,
    sizes_kept: usize,
    /// By number of edges: shards that no unfinished shard reads and whose outcomes are not kept.
    retired: BTreeMap<usize, Vec<u32>>,
    /// Those of them that nothing else reads either, and whose successors are durable; but for what
    /// is in dispute.
    droppable: Vec<u32>,
    /// Graphs of these shards, …
    droppable_graphs: u64,
    /// … and all that are on disk with their outcomes.
    kept_graphs: u64,
    /// Graphs of each shard, as far as it is done.
    graphs_of_shards: Vec<u64>,
    dropped_together: u64,
    pub(super) graphs: u64,
    pub(super) graphs_done: u64,
    pub(super) pairs: u64,
    pub(super) pairs_done: u64,
    /// Units on record that are to be solved again.
    pub(super) stale: Vec<Unit>,
    /// Units that should have been solved a second time, and were not.
    pub waived: usize,
}

/// What the finished parts of a shard add up to, or a unit.
#[derive(Clone, Copy, Default)]
pub(super) struct Partial {
    /// Σ n!/|Aut|.
    mass: u128,
    graphs: u64,
    /// The sum that records do not keep.
    told: Share,
}

impl Partial {
    fn of(record: &UnitRecord, order: usize, told: Option<usize>) -> Self {
        let Statistics { classes, labelled, .. } = &record.statistics;
        let told = told.map(|told| record.statistics.told(told, order)).unwrap_or_default();
        Partial { mass: labelled.all.graphs, graphs: classes.all.graphs as u64, told }
    }

    fn add(&mut self, other: Partial) {
        // What a worker says may be anything.
        self.mass = self.mass.saturating_add(other.mass);
        self.graphs = self.graphs.saturating_add(other.graphs);
        self.told.classes = self.told.classes.saturating_add(other.told.classes);
        self.told.labelled = self.told.labelled.saturating_add(other.told.labelled);
    }
}

/// A unit that the store holds.
struct Found {
    sums: Partial,
    ahead: Option<Ahead>,
    /// Who solved it, if another worker has to solve it again.
    to_compare: Option<Author>,
}

impl Order {
    /// The state of an order from what the store knows of it. Takes a second for the largest
    /// orders, so it is made outside any lock.
    pub fn open(opening: OrderOpening) -> Self {
        let OrderOpening { plan, parents, records, outcomes_kept, graphs, pairs, .. } = opening;
        let OrderOpening { mut ahead, told, comparisons, comparable, .. } = opening;
        let OrderOpening { graphs_dropped, sizes_kept, dropped_together, .. } = opening;
        let (mut on_record, mut found, mut waived) = (HashMap::new(), HashMap::new(), 0);
        for record in records {
            let is_wanted = record.is_to_compare(&comparisons);
            let Recorded { unit, content, inputs, sums, worker, .. } = record;
            if !plan.has(unit) {
                continue;
            }
            let can_be_compared = outcomes_kept || comparable.contains(&unit);
            waived += usize::from(is_wanted && !can_be_compared);
            let to_compare = (is_wanted && can_be_compared).then_some(worker);
            on_record.insert(unit, OnRecord { inputs, content });
            found.insert(unit, Found { sums, ahead: ahead.remove(&unit), to_compare });
        }
        let mut order = Order {
            to_commit: plan.unit_count() as usize,
            found,
            partial: HashMap::new(),
            told,
            ahead: HashMap::new(),
            masses_ahead: HashMap::new(),
            silent: HashSet::new(),
            outcomes_kept,
            graphs_dropped,
            sizes_kept,
            retired: BTreeMap::new(),
            droppable: Vec::new(),
            droppable_graphs: 0,
            kept_graphs: 0,
            graphs_of_shards: vec![0; plan.shards.len()],
            dropped_together,
            graphs,
            graphs_done: 0,
            pairs,
            pairs_done: 0,
            comparisons,
            schedule: Schedule::new(plan, parents, on_record),
            stale: Vec::new(),
            waived,
        };
        order.stale = order.recall();
        // An earlier run may have been stopped before it dropped them.
        order.retire(&order.schedule.retired());
        let retired = order.retired();
        order.add_droppable(retired);
        order
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        self.schedule.plan()
    }

    /// Whether all parts of a shard are accepted.
    pub fn is_shard_finished(&self, shard: u32) -> bool {
        self.schedule.unfinished_parts(shard) == 0
    }

    /// Whether the outcomes of all positions are (still) there, and will be.
    pub fn outcomes_kept(&self) -> bool {
        self.outcomes_kept
    }

    /// Units that were tried in vain, in solving or in comparing, and by whom.
    pub(super) fn setbacks(&self) -> impl Iterator<Item = (Unit, &Setbacks)> {
        self.schedule.setbacks().chain(self.comparisons.setbacks())
    }

    /// Units that nobody is asked for any more: none of these workers, if there are any, is to solve
    /// them, or none of these comparers can compare them.
    pub(super) fn given_up(
        &self,
        workers: &[Author],
        comparers: &[Author],
    ) -> impl Iterator<Item = (Unit, &Setbacks)> {
        let is_refused = |setbacks: &Setbacks| {
            !workers.is_empty() && workers.iter().all(|worker| setbacks.is_refused_to(worker))
        };
        let to_solve = self.schedule.setbacks();
        let to_solve =
            to_solve.filter(move |(_, setbacks)| setbacks.is_set_aside() || is_refused(setbacks));
        to_solve.chain(self.comparisons.stuck(comparers))
    }

    /// Whether nothing is left to do but to make it durable.
    pub(super) fn is_solved(&self) -> bool {
        self.schedule.is_done() && self.comparisons.open() == 0
    }

    /// Whether the graphs go with the outcomes.
    pub fn graphs_dropped(&self) -> bool {
        self.graphs_dropped
    }

    /// Takes note of shards that no unfinished shard reads.
    pub(super) fn retire(&mut self, shards: &[u32]) {
        if self.outcomes_kept {
            return;
        }
        let Some(last) = self.plan().retired_size(self.graphs_dropped) else { return };
        for &shard in shards {
            let size = self.plan().shards[shard as usize].size;
            if size <= last {
                self.retired.entry(size).or_default().push(shard);
            }
        }
    }

    /// The retired shards that nothing that is left to do needs, each of them once.
    pub(super) fn retired(&mut self) -> Vec<u32> {
        let later = match self.first_needed() {
            Some(size) => self.retired.split_off(&size),
            None => BTreeMap::new(),
        };
        std::mem::replace(&mut self.retired, later).into_values().flatten().collect()
    }

    /// The fewest edges of graphs that comparing reads: with one edge less than what is compared,
    /// which may also be judged by its own blocks.
    fn first_compared(&self) -> Option<usize> {
        let unit = self.comparisons.units().next()?;
        Some(self.plan().shard_of(unit).size.saturating_sub(1))
    }

    /// The fewest edges of graphs whose outcomes stay though they are retired: comparing reads them,
    /// or they are kept for the case that something has to be solved again.
    fn first_needed(&self) -> Option<usize> {
        let read = self.first_compared();
        let in_work = self.schedule.first_unfinished_size().into_iter();
        let in_work = in_work.chain(read.map(|size| size + 1)).min();
        let kept = in_work.filter(|_| self.sizes_kept > 0);
        read.into_iter().chain(kept.map(|size| size.saturating_sub(self.sizes_kept))).min()
    }

    /// Whether what a unit in work reads can be solved again, and not only with the whole order.
    pub(super) fn keeps_inputs(&self) -> bool {
        self.outcomes_kept || self.sizes_kept > 0
    }

    /// Whether a finished shard may have been dropped: nothing that can be done now reads it. What is
    /// kept in case that something has to be solved again may have gone before that was; and so may
    /// what would stay now, as what is compared since then has as few edges. A late result may be
    /// judged when what that would read has gone already, so judging does not count.
    pub fn may_be_dropped(&self, shard: u32) -> bool {
        let size = self.plan().shards[shard as usize].size;
        let is_read_to_compare = || {
            self.comparisons.units().any(|unit| {
                unit.shard == shard || self.plan().shard_of(unit).predecessors.contains(&shard)
            })
        };
        !self.outcomes_kept
            && self.plan().retired_size(self.graphs_dropped) >= Some(size)
            && !is_read_to_compare()
            && !self.schedule.is_read_now(shard)
    }

    /// Whether everything is done but to add it up: no graphs of the order below are needed.
    pub fn is_recalled(&self) -> bool {
        self.schedule.is_done()
    }

    /// Takes note that what is computed from these shards is durable.
    pub(super) fn add_droppable(&mut self, shards: Vec<u32>) {
        let graphs = |&shard: &u32| self.graphs_of_shards[shard as usize].max(1);
        self.droppable_graphs += shards.iter().map(graphs).sum::<u64>();
        self.droppable.extend(shards);
    }

    /// The shards to be dropped now: those that can be, when they are many beside what is there. Units
    /// of so many edges as `disputed`, or more, may be solved again: what that needs stays.
    pub(super) fn take_droppable(&mut self, disputed: Option<usize>) -> Option<Vec<u32>> {
        if self.droppable_graphs < self.dropped_together.max(self.kept_graphs / 8) {
            return None;
        }
        let first_needed = disputed.map(|size| size.saturating_sub(self.sizes_kept.max(1)));
        let plan = self.plan().clone();
        let is_free = |&shard: &u32| {
            first_needed.is_none_or(|first| plan.shards[shard as usize].size < first)
        };
        let droppable = std::mem::take(&mut self.droppable);
        let (dropped, needed): (Vec<u32>, _) = droppable.into_iter().partition(is_free);
        let before = std::mem::take(&mut self.droppable_graphs);
        self.add_droppable(needed);
        self.kept_graphs = self.kept_graphs.saturating_sub(before - self.droppable_graphs);
        (!dropped.is_empty()).then_some(dropped)
    }

    /// Counts a unit as done; its (graph, edge) pairs.
    pub(super) fn count(&mut self, unit: Unit, record: &UnitRecord, ahead: Option<&Ahead>) -> u64 {
        self.count_as(unit, Partial::of(record, self.plan().order, self.told), ahead)
    }

    fn count_as(&mut self, unit: Unit, sums: Partial, ahead: Option<&Ahead>) -> u64 {
        if self.told.is_some() || !self.plan().layout.class.is_by_degrees() {
            match ahead {
                Some(ahead) => {
                    for &(shard, share) in &ahead.shares {
                        *self.ahead.entry(shard).or_default() += share;
                    }
                    for &(shard, mass) in &ahead.masses {
                        *self.masses_ahead.entry(shard).or_default() += mass;
                    }
                }
                None => drop(self.silent.insert(unit.shard)),
            }
        }
        let pairs = sums.graphs * self.plan().shard_of(unit).size as u64;
        self.kept_graphs += sums.graphs;
        self.graphs_of_shards[unit.shard as usize] += sums.graphs;
        self.graphs_done += sums.graphs;
        self.pairs_done += pairs;
        pairs
    }

    /// Counts the units that were recalled since this was last asked; those that are stale.
    pub(super) fn recall(&mut self) -> Vec<Unit> {
        let recall = self.schedule.recall();
        for unit in recall.recalled {
            let Some(found) = self.found.remove(&unit) else { continue };
            self.count_as(unit, found.sums, found.ahead.as_ref());
            self.to_commit -= 1;
            if self.schedule.unfinished_parts(unit.shard) > 0 {
                self.partial.entry(unit.shard).or_default().add(found.sums);
            } else {
                self.forget(unit.shard);
            }
            if let Some(by) = found.to_compare {
                self.comparisons.add(unit, by);
            }
        }
        recall.stale
    }

    /// What is only needed until a shard is finished.
    fn forget(&mut self, shard: u32) {
        self.partial.remove(&shard);
        self.ahead.remove(&shard);
        self.masses_ahead.remove(&shard);
    }

    /// Whether it is known what all predecessors of a shard tell of it.
    fn hears_all(&self, shard: u32) -> bool {
        let mut predecessors = self.plan().shards[shard as usize].predecessors.iter();
        predecessors.all(|predecessor| !self.silent.contains(predecessor))
    }

    /// What the sum of a shard is that records do not keep, if that is known.
    fn expected(&self, shard: u32) -> Option<Share> {
        self.told?;
        self.hears_all(shard).then(|| self.ahead.get(&shard).copied().unwrap_or_default())
    }

    /// Σ n!/|Aut| of a whole shard, times its number of edges, if that is known: from its degrees,
    /// or from its predecessors, where these are done before.
    fn expected_mass(&self, index: u32) -> Option<u128> {
        let Plan { layout, shards, .. } = &**self.plan();
        let shard = &shards[index as usize];
        if shard.size == 0 || layout.class.is_by_degrees() {
            return Some(shard.mass * shard.size as u128);
        }
        let is_known = layout.reads_predecessors && self.hears_all(index);
        is_known.then(|| self.masses_ahead.get(&index).copied().unwrap_or_default())
    }

    /// Compares Σ n!/|Aut| of the shards that these deliveries finish with the number of labelled
    /// graphs, which in a class the predecessors tell, and the sum that records do not keep with
    /// what the predecessors tell of it. If the parts of a shard do not add up, any of them may be
    /// the wrong one: all are to be taken back.
    ///
    /// # Errors
    ///
    /// What does not add up.
    pub(super) fn weigh(&mut self, deliveries: &[Delivery]) -> Result<(), Refusal> {
        let mut sums: HashMap<u32, (Partial, u32)> = HashMap::new();
        for Delivery { unit, record, .. } in deliveries {
            let before = || (self.partial.get(&unit.shard).copied().unwrap_or_default(), 0);
            let (sum, parts) = sums.entry(unit.shard).or_insert_with(before);
            sum.add(Partial::of(record, self.plan().order, self.told));
            *parts += 1;
        }
        for Delivery { unit, .. } in deliveries {
            let (Partial { mass, told, .. }, parts) = sums[&unit.shard];
            let shard = self.plan().shard_of(*unit);
            let is_complete = self.schedule.unfinished_parts(unit.shard) == parts;
            let expected = self.expected(unit.shard).filter(|_| is_complete);
            let wrong_sum = expected.filter(|expected| *expected != told);
            let size = shard.size as u128;
            let expected_mass = self.expected_mass(unit.shard).filter(|_| is_complete);
            let is_heavy = mass > shard.mass
                || expected_mass.is_some_and(|expected| mass.saturating_mul(size) != expected)
                // There is one graph without edges.
                || is_complete && size == 0 && mass != shard.mass;
            if is_heavy || wrong_sum.is_some() {
                let sequence = shard.sequence;
                let why = match wrong_sum {
                    Some(expected) if !is_heavy => format!(
                        "a sum of {sequence} is {}, {} weighted, and by its predecessors {}, {}",
                        told.classes / u128::from(factorial(sequence.order())),
                        told.labelled,
                        expected.classes / u128::from(factorial(sequence.order())),
                        expected.labelled
                    ),
                    _ => {
                        let expected = expected_mass.filter(|_| size > 0);
                        let expected =
                            expected.map_or(shard.mass, |expected| expected / size.max(1));
                        format!("Σ n!/|Aut| of {sequence} is {mass}, not {expected}")
                    }
                };
                return Err(match shard.parts {
                    1 => Refusal::Wrong { unit: *unit, why },
                    _ => Refusal::TakenBack { sequence, why },
                });
            }
        }
        for (shard, (sum, parts)) in sums {
            if self.schedule.unfinished_parts(shard) == parts {
                self.forget(shard);
            } else {
                self.partial.insert(shard, sum);
            }
        }
        Ok(())
    }
}
