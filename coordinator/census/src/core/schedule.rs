//! Which units of an order are ready, and what becomes ready when one is done. A pure state
//! machine.
//!
//! A shard is ready when all shards with one edge less that it reads are done; there is no barrier
//! over a number of edges. Ready units are handed out in the order of their [`Plan::turn`]s,
//! neighbours together, so that they read the same partitions. Of each number of edges, a worker
//! has a [`Share`] of neighbouring shards, which read much of the same; only who finds nothing
//! there takes something of another's.
//!
//! Units that were solved before, in an earlier run or before something they may have read was
//! found wrong, are *recalled*: they count as done as soon as what they read is done and is what
//! it was then. Otherwise they are solved again. So recomputation stops where it makes no
//! difference.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use trailtrap_shared::{
    partition::Content,
    plan::{LEAST_TOGETHER, Plan, Turn, Unit},
};

use super::setbacks::{Setback, Setbacks};
use crate::records::Author;

/// A bundle is not made smaller than this many (graph, edge) pairs, as long as there are ready
/// units to add …
const LEAST_WORK: u64 = 50_000;
/// … nor larger than this, unless by one large unit: about a fifth of a second of a core.
pub(super) const MOST_WORK: u64 = 2_000_000;
/// Of a class whose graphs degrees do not tell, units mostly have no more graphs than this.
const MOST_OF_CLASS: u64 = 5_000;
/// What a unit costs beside its pairs, in pairs.
const UNIT_WORK: u64 = 500;

/// What a unit adds to a bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Its work, in pairs.
    pub(super) work: u64,
    /// About how many graphs it has, or may have where degrees do not tell.
    pub(super) graphs: u64,
}

impl Load {
    pub(super) fn of(plan: &Plan, unit: Unit) -> Self {
        let graphs = match plan.layout.class.is_by_degrees() {
            true => plan.graphs(unit),
            false => plan.most_graphs(unit).min(MOST_OF_CLASS),
        };
        Load { work: work(plan, unit), graphs }
    }
}

/// What a worker asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// How many threads work, of all workers.
    pub threads: usize,
    /// The worker's share.
    pub share: Share,
    /// How many graphs it can solve together, [`LEAST_TOGETHER`] at least. Parts of one shard go
    /// together as far as they fit, since they read the same.
    pub room: u64,
}

/// The part of the shards of each number of edges that a worker comes first for: in the order of
/// their turns, those between index/of and (index + 1)/of of their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The place of the worker among those who work, below `of`.
    pub index: usize,
    /// How many work.
    pub of: usize,
}

impl Share {
    /// Of somebody who works alone.
    pub const WHOLE: Share = Share { index: 0, of: 1 };
}

/// A unit in the order in which units are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Of its shard.
    turn: Turn,
    part: u32,
}

/// A unit that was solved before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnRecord {
    /// Of what it read then.
    pub inputs: Content,
    /// Of its blocks.
    pub content: Content,
}

/// The state of an order.
pub struct Schedule {
    plan: Arc<Plan>,
    successors: Vec<Vec<u32>>,
    /// For each shard the content of the lists of parents that it is generated from.
    parents: Vec<Content>,
    /// For each finished shard its content.
    contents: Vec<Option<Content>>,
    /// For each shard the number of unfinished shards it reads.
    unfinished_predecessors: Vec<u32>,
    /// For each shard the number of unfinished shards that read it.
    unfinished_successors: Vec<u32>,
    /// The finished parts of shards that have unfinished ones too.
    partly: HashMap<u32, BTreeMap<u32, Content>>,
    on_record: HashMap<Unit, OnRecord>,
    recall: Recall,
    ready: BTreeSet<Place>,
    ready_work: u64,
    /// Those that too many have tried in vain: nobody is given them.
    set_aside: BTreeSet<Place>,
    /// For each turn the work of those before it that have as many edges.
    work_before: Vec<u64>,
    /// By number of edges: shards that are not done.
    unfinished_of_size: Vec<u32>,
    /// Who has tried units in vain that are not finished.
    setbacks: BTreeMap<Unit, Setbacks>,
}

/// What became of units on record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// They read what is there now, and are done.
    pub recalled: Vec<Unit>,
    /// They read something else, and are solved again.
    pub stale: Vec<Unit>,
}

impl Schedule {
    /// A schedule in which nothing is done but what can be recalled. `parents` holds for each
    /// shard the content of its parents.
    pub fn new(
        plan: Arc<Plan>,
        parents: Vec<Content>,
        on_record: HashMap<Unit, OnRecord>,
    ) -> Self {
        assert_eq!(parents.len(), plan.shards.len(), "parents of every shard");
        let successors = plan.successors();
        let mut work_before = Vec::with_capacity(plan.shards.len());
        for size in 0..=plan.max_size {
            let mut sum = 0;
            for turn in plan.layer(size) {
                work_before.push(sum);
                let shard = plan.shard_of_turn(turn);
                let part = Unit { order: plan.order as u8, shard, part: 0 };
                sum += work(&plan, part) * u64::from(plan.shards[shard as usize].parts);
            }
        }
        let mut schedule = Schedule {
            contents: vec![None; plan.shards.len()],
            unfinished_predecessors: plan
                .shards
                .iter()
                .map(|shard| shard.predecessors.len() as u32)
                .collect(),
            unfinished_successors: successors.iter().map(|list| list.len() as u32).collect(),
            partly: HashMap::new(),
            recall: Recall::default(),
            ready: BTreeSet::new(),
            ready_work: 0,
            set_aside: BTreeSet::new(),
            work_before,
            unfinished_of_size: (0..=plan.max_size)
                .map(|size| plan.layer(size).len() as u32)
                .collect(),
            setbacks: BTreeMap::new(),
            successors,
            parents,
            on_record,
            plan,
        };
        for shard in 0..schedule.plan.shards.len() as u32 {
            // Those that read others become ready by them.
            if schedule.plan.shards[shard as usize].predecessors.is_empty() {
                schedule.make_ready(shard, &mut Vec::new());
            }
        }
        schedule
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether every unit is done.
    pub fn is_done(&self) -> bool {
        self.first_unfinished_size().is_none()
    }

    /// Units that could be handed out.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The number of shards that are done, and of all.
    pub fn shards_done(&self) -> (usize, usize) {
        let unfinished: u32 = self.unfinished_of_size.iter().sum();
        (self.plan.shards.len() - unfinished as usize, self.plan.shards.len())
    }

    /// The fewest edges of a shard that is not done; `None` if all are.
    pub fn first_unfinished_size(&self) -> Option<usize> {
        self.unfinished_of_size.iter().position(|&unfinished| unfinished > 0)
    }

    /// The finished shards that no unfinished shard reads.
    pub fn retired(&self) -> Vec<u32> {
        (0..self.plan.shards.len() as u32).filter(|&shard| self.is_retired(shard)).collect()
    }

    /// Whether a shard is finished, and no unfinished shard reads it.
    pub fn is_retired(&self, shard: u32) -> bool {
        self.contents[shard as usize].is_some() && self.unfinished_successors[shard as usize] == 0
    }

    /// Whether a unit that is ready, or leased, reads this shard.
    pub fn is_read_now(&self, shard: u32) -> bool {
        let size = self.plan.shards[shard as usize].size + 1;
        let readers = (size <= self.plan.max_size).then(|| self.plan.layer(size));
        readers.into_iter().flatten().any(|reader| {
            let index = reader as usize;
            self.contents[index].is_none()
                && self.unfinished_predecessors[index] == 0
                && self.plan.shards[index].predecessors.contains(&shard)
        })
    }

    /// The content of all that a shard reads: its parents, and its predecessors, which have to be
    /// done.
    pub fn inputs(&self, shard: u32) -> Content {
        let predecessors = self.plan.shards[shard as usize].predecessors.iter();
        let predecessors = predecessors
            .map(|&p| self.contents[p as usize].as_ref().expect("predecessors are done"));
        Content::of_all(std::iter::once(&self.parents[shard as usize]).chain(predecessors))
    }

    /// What became of units on record since this was last asked.
    pub fn recall(&mut self) -> Recall {
        std::mem::take(&mut self.recall)
    }

    /// Takes a bundle of ready units for a worker, beside these `others` that want work; empty if
    /// nothing is ready for it. It comes from the worker's share of the smallest number of edges
    /// that has something there, or else from somebody's who has much left. The bundle shrinks
    /// when there is little to share. A unit that was tried in vain goes to somebody else if
    /// possible, and alone if it may be what it was in vain for ([`Setbacks::goes_alone`]).
    pub fn lease(&mut self, asked: Asked, author: &Author, others: &[Author]) -> Vec<Unit> {
        // What is solved together is solved by all threads of a worker.
        let fair = |sharers: usize| self.ready_work / sharers.max(1) as u64;
        let aim = (fair(asked.threads) / 2).clamp(LEAST_WORK, MOST_WORK);
        let most = fair(asked.share.of).max(MOST_WORK);
        let admits = |unit: Unit| self.admits(unit, author, others);
        let Some(found) = self.find(asked.share, admits) else { return Vec::new() };
        // Little work at the end of a share goes together with the beginning of the next.
        let up_to = first_part(self.layer_of(found.start).end);
        let mut bundle: Vec<Unit> = Vec::new();
        let (mut work, mut graphs) = (0, 0);
        for place in self.ready_in(&(found.start..up_to), admits) {
            let unit = self.unit(place);
            if place >= found.end && work >= LEAST_WORK {
                break;
            }
            let more = Load::of(&self.plan, unit);
            graphs += more.graphs;
            let alone = self.setbacks.get(&unit).is_some_and(Setbacks::goes_alone);
            let is_bundle = work + more.work <= aim && graphs <= asked.room.max(LEAST_TOGETHER);
            let fits = match bundle.first() {
                None => true,
                Some(_) if alone => false,
                Some(first) if first.shard == unit.shard => {
                    is_bundle || graphs <= asked.room && work + more.work <= most
                }
                Some(_) => is_bundle,
            };
            if !fits {
                break;
            }
            work += more.work;
            bundle.push(unit);
            if alone {
                break;
            }
        }
        bundle.iter().for_each(|&unit| self.take_out(unit));
        bundle
    }

    /// Whether somebody who has had these units before can have them again: all of them are of this
    /// order, and ready or set aside.
    pub fn are_free(&self, units: &[Unit]) -> bool {
        let is_at = |place: Place| self.ready.contains(&place) || self.set_aside.contains(&place);
        let is_of_order = |unit: Unit| usize::from(unit.order) == self.plan.order;
        units.iter().all(|&unit| is_of_order(unit) && is_at(self.place(unit)))
    }

    /// Takes these units for such a one, if they are free.
    pub fn take(&mut self, units: &[Unit]) -> bool {
        let are_free = self.are_free(units);
        if are_free {
            units.iter().for_each(|&unit| self.take_out(unit));
        }
        are_free
    }

    fn place(&self, unit: Unit) -> Place {
        Place { turn: self.plan.turn(unit.shard), part: unit.part }
    }

    fn unit(&self, Place { turn, part }: Place) -> Unit {
        Unit { order: self.plan.order as u8, shard: self.plan.shard_of_turn(turn), part }
    }

    /// The shards with as many edges as that of a unit, and their turns.
    fn layer_of(&self, place: Place) -> Range<u32> {
        // The shard with the number of a turn has as many edges as the one that has the turn.
        self.plan.layer(self.plan.shards[place.turn as usize].size)
    }

    /// Where the ready units lie that a worker takes next.
    fn find(&self, share: Share, admits: impl Fn(Unit) -> bool) -> Option<Range<Place>> {
        let mut layers = self.layers_in_work();
        let own = layers.find_map(|layer| {
            let range = self.places_of(&layer, share);
            let first = self.ready_in(&range, &admits).next()?;
            Some(first..range.end)
        });
        own.or_else(|| {
            self.layers_in_work().find_map(|layer| self.find_to_take(&layer, share, &admits))
        })
    }

    /// Half of what is ready of the share that has most ready units.
    fn find_to_take(
        &self,
        layer: &Range<u32>,
        share: Share,
        admits: impl Fn(Unit) -> bool,
    ) -> Option<Range<Place>> {
        let ready_of = |index| {
            let range = self.places_of(layer, Share { index, ..share });
            (self.ready_in(&range, &admits).count(), range)
        };
        let (count, range) = (0..share.of).map(ready_of).max_by_key(|(count, _)| *count)?;
        let half = self.ready_in(&range, &admits).nth(count / 2)?;
        Some(half..range.end)
    }

    /// Ready units that are admitted.
    fn ready_in(
        &self,
        range: &Range<Place>,
        admits: impl Fn(Unit) -> bool,
    ) -> impl Iterator<Item = Place> {
        let ready = self.ready.range(range.clone()).copied();
        ready.filter(move |&place| admits(self.unit(place)))
    }

    /// The shards of each number of edges that has ready units.
    fn layers_in_work(&self) -> impl Iterator<Item = Range<u32>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let place = self.ready.range(first_part(from)..).next()?;
            let layer = self.layer_of(*place);
            from = layer.end;
            Some(layer)
        })
    }

    /// The units of a share of shards of the same number of edges.
    fn places_of(&self, layer: &Range<u32>, Share { index, of }: Share) -> Range<Place> {
        let before = &self.work_before[layer.start as usize..layer.end as usize];
        let last = self.unit(first_part(layer.end - 1));
        let parts = u64::from(self.plan.shard_of(last).parts);
        let total = before[before.len() - 1] + self.work(last) * parts;
        let bound = |index: usize| {
            let start = u128::from(total) * index as u128;
            let turn = before.partition_point(|&work| u128::from(work) * (of as u128) < start);
            first_part(layer.start + turn as Turn)
        };
        bound(index)..bound(index + 1)
    }

    fn admits(&self, unit: Unit, author: &Author, others: &[Author]) -> bool {
        self.setbacks.get(&unit).is_none_or(|setbacks| setbacks.admit(author, others))
    }

    /// Whether something is ready for this worker, beside these others.
    pub fn has_work_for(&self, author: &Author, others: &[Author]) -> bool {
        self.ready.iter().any(|&place| self.admits(self.unit(place), author, others))
    }

    /// Makes leased units ready again that this worker has not solved. Those that too many have
    /// tried in vain are set aside and returned.
    pub fn give_back(&mut self, units: &[Unit], author: &Author, setback: Setback) -> Vec<Unit> {
        let mut set_aside = Vec::new();
        for &unit in units {
            if setback != Setback::None {
                self.setbacks.entry(unit).or_default().note(author, setback);
            }
            if self.setbacks.get(&unit).is_some_and(Setbacks::is_set_aside) {
                self.set_aside.insert(self.place(unit));
                set_aside.push(unit);
            } else {
                self.put_out(unit);
            }
        }
        set_aside
    }

    fn put_out(&mut self, unit: Unit) {
        if self.ready.insert(self.place(unit)) {
            self.ready_work += self.work(unit);
        }
    }

    fn take_out(&mut self, unit: Unit) {
        let place = self.place(unit);
        if self.ready.remove(&place) {
            self.ready_work -= self.work(unit);
        }
        self.set_aside.remove(&place);
    }

    /// The units that were tried in vain, and by whom.
    pub fn setbacks(&self) -> impl Iterator<Item = (Unit, &Setbacks)> {
        self.setbacks.iter().map(|(&unit, setbacks)| (unit, setbacks))
    }

    /// Marks a leased unit done, which each unit is once. Returns the shards that no unfinished
    /// shard reads any more.
    pub fn finish(&mut self, unit: Unit, content: Content) -> Vec<u32> {
        let mut retired = Vec::new();
        self.finish_into(unit, content, &mut retired);
        retired
    }

    fn finish_into(&mut self, unit: Unit, content: Content, retired: &mut Vec<u32>) {
        let index = unit.shard as usize;
        let plan = self.plan.clone();
        self.setbacks.remove(&unit);
        let parts = self.partly.entry(unit.shard).or_default();
        let before = parts.insert(unit.part, content);
        debug_assert!(before.is_none(), "{unit:?} finished twice");
        if parts.len() < plan.shards[index].parts as usize {
            return;
        }
        let parts = self.partly.remove(&unit.shard).expect("just looked at");
        self.contents[index] = Some(Content::of_all(parts.values()));
        self.unfinished_of_size[plan.shards[index].size] -= 1;
        if self.unfinished_successors[index] == 0 {
            retired.push(unit.shard);
        }
        for &predecessor in &plan.shards[index].predecessors {
            self.unfinished_successors[predecessor as usize] -= 1;
            if self.unfinished_successors[predecessor as usize] == 0 {
                retired.push(predecessor);
            }
        }
        for successor in std::mem::take(&mut self.successors[index]) {
            self.unfinished_predecessors[successor as usize] -= 1;
            if self.unfinished_predecessors[successor as usize] == 0 {
                self.make_ready(successor, retired);
            }
        }
    }

    /// The number of unfinished parts of a shard.
    pub fn unfinished_parts(&self, shard: u32) -> u32 {
        match self.contents[shard as usize] {
            Some(_) => 0,
            None => {
                self.plan.shards[shard as usize].parts
                    - self.partly.get(&shard).map_or(0, |parts| parts.len() as u32)
            }
        }
    }

    /// Whether a unit is done.
    pub fn is_finished(&self, unit: Unit) -> bool {
        let is_partly =
            || self.partly.get(&unit.shard).is_some_and(|parts| parts.contains_key(&unit.part));
        self.contents.get(unit.shard as usize).is_some_and(Option::is_some) || is_partly()
    }

    /// Makes the parts of a shard ready whose predecessors are done, or done if they were before.
    fn make_ready(&mut self, shard: u32, retired: &mut Vec<u32>) {
        let inputs = self.inputs(shard);
        for unit in self.plan.parts_of(shard) {
            match self.on_record.remove(&unit) {
                Some(record) if record.inputs == inputs => {
                    self.recall.recalled.push(unit);
                    self.finish_into(unit, record.content, retired);
                }
                known => {
                    if known.is_some() {
                        self.recall.stale.push(unit);
                    }
                    self.put_out(unit);
                }
            }
        }
    }

    fn work(&self, unit: Unit) -> u64 {
        work(&self.plan, unit)
    }
}

/// Of the shard that has a turn.
fn first_part(turn: Turn) -> Place {
    Place { turn, part: 0 }
}

/// The work of a unit, in pairs.
fn work(plan: &Plan, unit: Unit) -> u64 {
    plan.pairs(unit) + UNIT_WORK
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use trailtrap_shared::{
        class::Class,
        game::{Game, TrailTrap},
        plan::PlanOptions,
    };

    use super::{super::setbacks::WORKERS, *};

    fn plan(order: usize) -> Arc<Plan> {
        Arc::new(Plan::new(
            TrailTrap::LAYOUT,
            order,
            PlanOptions { part_graphs: 4, bucket_bytes: 1 << 20 },
        ))
    }

    fn resumed(order: usize, on_record: HashMap<Unit, OnRecord>) -> Schedule {
        let plan = plan(order);
        Schedule::new(plan.clone(), vec![Content::default(); plan.shards.len()], on_record)
    }

    const ALONE: Asked = Asked { threads: 1, share: Share::WHOLE, room: 0 };

    fn schedule(order: usize) -> Schedule {
        resumed(order, HashMap::new())
    }

    /// Of order 6, of which both shards of two edges can be solved.
    fn with_two_edges_ready() -> Schedule {
        let mut schedule = schedule(6);
        for _ in 0..2 {
            let first = schedule.lease(ALONE, &worker("a"), &[]);
            let content = computed(&schedule, first[0], 0).content;
            schedule.finish(first[0], content);
        }
        schedule
    }

    fn worker(name: &str) -> Author {
        Author::new(name, "portable")
    }

    /// What a computation of this unit gives: it depends on the inputs, and on nothing else but
    /// `salt`.
    fn computed(schedule: &Schedule, unit: Unit, salt: u8) -> OnRecord {
        let inputs = schedule.inputs(unit.shard);
        let part = Content::of_all(&vec![
            Content::default();
            unit.part as usize + usize::from(salt) * 1000
        ]);
        OnRecord { inputs, content: Content::of_all([&inputs, &part]) }
    }

    /// Works everything off; what was computed on the way.
    fn run(schedule: &mut Schedule, wrong: &HashSet<Unit>) -> HashMap<Unit, OnRecord> {
        let mut done = HashMap::new();
        while let [unit, rest @ ..] = &schedule.lease(ALONE, &worker("a"), &[])[..] {
            let unit = *unit;
            schedule.give_back(rest, &worker("a"), Setback::None);
            let result = computed(schedule, unit, u8::from(wrong.contains(&unit)));
            assert!(!schedule.is_finished(unit));
            schedule.finish(unit, result.content);
            assert!(schedule.is_finished(unit));
            assert!(done.insert(unit, result).is_none());
        }
        done
    }

    #[test]
    fn each_worker_has_its_share_of_neighbours() {
        // A share of most numbers of edges is more work than a bundle.
        let mut schedule = schedule(8);
        let plan = schedule.plan().clone();
        for layer in (0..=plan.max_size).map(|size| plan.layer(size)) {
            let end = (0..3).fold(layer.start, |start, index| {
                let places = schedule.places_of(&layer, Share { index, of: 3 });
                assert_eq!(places.start.turn, start, "shares follow each other");
                places.end.turn
            });
            assert_eq!(end, layer.end);
        }
        let (mut own, mut taken) = (0, 0);
        let shares = (0..3).map(|index| Share { index, of: 3 });
        for share in shares.cycle() {
            let asked = Asked { threads: 1000, share, room: 0 };
            for unit in schedule.lease(asked, &worker("a"), &[]) {
                let layer = plan.layer(plan.shard_of(unit).size);
                match schedule.places_of(&layer, share).contains(&schedule.place(unit)) {
                    true => own += 1,
                    false => taken += 1,
                }
                let content = computed(&schedule, unit, 0).content;
                schedule.finish(unit, content);
            }
            if schedule.is_done() {
                break;
            }
        }
        assert!(own > 3 * taken, "{own} of their own, {taken} of others");
    }

    /// As many as there is room for, though they are more work than a bundle of small units.
    #[test]
    fn parts_of_a_shard_come_together() {
        let options = PlanOptions { part_graphs: 40, bucket_bytes: 1 << 20 };
        let plan = Arc::new(Plan::new(TrailTrap::LAYOUT, 10, options));
        let most = plan.shards.iter().map(|shard| shard.parts).max().unwrap();
        let parents = vec![Content::default(); plan.shards.len()];
        let mut schedule = Schedule::new(plan.clone(), parents, HashMap::new());
        let asked = Asked { threads: 1000, share: Share::WHOLE, room: 4000 };
        let mut largest = false;
        while !schedule.is_done() {
            let units = schedule.lease(asked, &worker("a"), &[]);
            let shard = &plan.shards[units[0].shard as usize];
            if shard.parts == most && units[0].part + 120 < most {
                let graphs: u64 = units.iter().map(|&unit| plan.graphs(unit)).sum();
                assert!(units.iter().all(|unit| unit.shard == units[0].shard));
                assert!((3960..=4000).contains(&graphs), "{graphs} of {}", shard.estimate);
                largest = true;
            }
            for unit in units {
                schedule.finish(unit, Content::default());
            }
        }
        assert!(largest);
    }

    /// Also where degrees do not tell how many graphs of the class there are.
    #[test]
    fn bundles_of_graphs_of_a_class_are_no_larger() {
        let layout = TrailTrap::LAYOUT.on(Class::Planar);
        let plan = Arc::new(Plan::new(layout, 10, PlanOptions::default()));
        let parents = vec![Content::default(); plan.shards.len()];
        let mut schedule = Schedule::new(plan.clone(), parents, HashMap::new());
        let asked = Asked { threads: 1, share: Share::WHOLE, room: 0 };
        let mut full = 0;
        while !schedule.is_done() {
            let units = schedule.lease(asked, &worker("a"), &[]);
            let of_unit = |&unit: &Unit| plan.most_graphs(unit).min(MOST_OF_CLASS);
            let most: u64 = units.iter().map(of_unit).sum();
            assert!(most <= LEAST_TOGETHER, "{most} graphs");
            full += u32::from(most + MOST_OF_CLASS > LEAST_TOGETHER);
            units.into_iter().for_each(|unit| drop(schedule.finish(unit, Content::default())));
        }
        assert!(full > 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Whatever is taken, given back, failed and finished in whatever order: everything gets
        /// done once, nothing before what it reads, and a shard is retired exactly when nothing
        /// will read it.
        #[test]
        fn every_order_of_events_gets_everything_done(seed: u64, order in 4usize..=7) {
            let mut schedule = schedule(order);
            let plan = schedule.plan().clone();
            let mut random = seed | 1;
            let mut next = |n: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random as usize % n
            };
            let (mut taken, mut done, mut retired) = (Vec::new(), HashSet::new(), HashSet::new());
            while !schedule.is_done() {
                if taken.is_empty() || next(3) > 0 {
                    let share = Share { index: next(3), of: 3 };
                    let asked = Asked { threads: 1 + next(4), share, room: next(20) as u64 };
                    taken.extend(schedule.lease(asked, &worker("a"), &[]));
                }
                prop_assert!(!taken.is_empty(), "stuck");
                let unit = taken.swap_remove(next(taken.len()));
                match next(10) {
                    0 | 1 => {
                        schedule.give_back(&[unit], &worker("a"), Setback::None);
                        continue;
                    }
                    2 if !schedule.setbacks.contains_key(&unit) => {
                        schedule.give_back(&[unit], &worker("a"), Setback::Failed("test"));
                        continue;
                    }
                    _ => {}
                }
                prop_assert!(done.insert(unit), "{unit:?} twice");
                for predecessor in &plan.shard_of(unit).predecessors {
                    prop_assert!(
                        schedule.unfinished_parts(*predecessor) == 0
                            && !retired.contains(predecessor)
                            && schedule.is_read_now(*predecessor)
                    );
                }
                let content = computed(&schedule, unit, 0).content;
                for shard in schedule.finish(unit, content) {
                    prop_assert!(retired.insert(shard) && !schedule.is_read_now(shard));
                }
            }
            prop_assert_eq!(done.len() as u64, plan.unit_count());
            prop_assert_eq!(retired.len(), plan.shards.len());
            prop_assert_eq!(schedule.ready(), 0);
        }

        /// A run that is resumed with any set of units done: it hands out the rest, and ends in
        /// the same contents.
        #[test]
        fn resuming_hands_out_the_rest(seed: u64, share in 0u64..=10) {
            let mut first = schedule(7);
            let all = run(&mut first, &HashSet::new());
            let mut random = seed | 1;
            let mut next = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % 10
            };
            let kept: HashMap<Unit, OnRecord> =
                all.iter().filter(|_| next() < share).map(|(&u, &r)| (u, r)).collect();
            let mut second = resumed(7, kept.clone());
            let rest = run(&mut second, &HashSet::new());
            let recall = second.recall();
            prop_assert!(second.is_done() && recall.stale.is_empty());
            prop_assert_eq!(recall.recalled.len() + rest.len(), all.len());
            prop_assert!(
                rest.iter().all(|(unit, result)| !kept.contains_key(unit) && all[unit] == *result)
            );
        }

        /// Units that were wrong, and all that was computed from them, are computed again, and
        /// nothing else is.
        #[test]
        fn what_was_computed_from_wrong_data_is_computed_again(
            picks in proptest::collection::vec(0usize..1000, 1..4),
        ) {
            let right = run(&mut schedule(6), &HashSet::new());
            let mut units: Vec<Unit> = right.keys().copied().collect();
            units.sort();
            let wrong: HashSet<Unit> =
                picks.iter().map(|pick| units[pick % units.len()]).collect();
            let mut stored = run(&mut schedule(6), &wrong);
            let tainted = stored.iter().filter(|(unit, result)| right[unit] != **result).count();
            stored.retain(|unit, _| !wrong.contains(unit));
            let mut mended = resumed(6, stored.clone());
            let again = run(&mut mended, &HashSet::new());
            let recall = mended.recall();
            prop_assert_eq!(again.len(), tainted);
            prop_assert_eq!(recall.stale.len() + wrong.len(), tainted);
            prop_assert!(again.iter().all(|(unit, result)| right[unit] == *result));
        }
    }

    #[test]
    fn a_unit_that_was_wrong_without_consequences_is_all_that_is_computed_again() {
        let mut stored = run(&mut schedule(6), &HashSet::new());
        let lost = *stored.keys().min().unwrap();
        stored.remove(&lost);
        let mut mended = resumed(6, stored.clone());
        assert_eq!(mended.recall().recalled.len(), 0, "everything hangs on the edgeless graph");
        let again = run(&mut mended, &HashSet::new());
        assert_eq!(again.into_keys().collect::<Vec<_>>(), [lost]);
        assert_eq!(mended.recall().recalled.len(), stored.len());
        assert!(mended.is_done());
    }

    /// What a worker had that went away is leased together once more: parts of a shard read the
    /// same. If that is what such workers die of, each goes alone after that.
    #[test]
    fn what_was_late_once_goes_together_again() {
        let mut schedule = with_two_edges_ready();
        for (name, is_together) in [("a", true), ("b", true), ("c", false)] {
            let bundle = schedule.lease(ALONE, &worker(name), &[]);
            assert_eq!(bundle.len() > 1, is_together, "two shards of two edges");
            schedule.give_back(&bundle, &worker(name), Setback::Late);
        }
    }

    #[test]
    fn what_fails_goes_alone_to_others_and_is_set_aside_in_the_end() {
        let mut schedule = with_two_edges_ready();
        let bundle = schedule.lease(ALONE, &worker("a"), &[]);
        assert!(bundle.len() > 1, "two shards of two edges");
        let names: Vec<Author> = (0..WORKERS).map(|i| worker(&format!("w{i}"))).collect();
        for (i, name) in names.iter().enumerate() {
            let failed = if i == 0 { &bundle[..] } else { &bundle[..1] };
            let set_aside = schedule.give_back(failed, name, Setback::Failed("it vanished"));
            assert_eq!(set_aside.len(), usize::from(i + 1 == WORKERS));
            let is_next = i + 1 < WORKERS;
            if is_next {
                let others = [&names[..i], &names[i + 1..]].concat();
                let theirs = schedule.lease(ALONE, name, &others);
                assert!(!theirs.contains(&bundle[0]), "others come first");
                schedule.give_back(&theirs, name, Setback::None);
                assert_eq!(schedule.lease(ALONE, &names[i + 1], &names), [bundle[0]]);
            }
        }
        let (unit, setbacks) = schedule.setbacks().next().unwrap();
        assert_eq!((unit, setbacks.failures().count()), (bundle[0], WORKERS));
        // The rest goes on.
        let rest = run(&mut schedule, &HashSet::new());
        assert!(rest.contains_key(&bundle[1]) && !schedule.is_done());
        // One who has had it may have it again, and only one; what is given back then is set aside.
        assert!(!schedule.take(&bundle), "one is done");
        for _ in 0..2 {
            assert!(schedule.take(&bundle[..1]) && !schedule.take(&bundle[..1]));
            let set_aside = schedule.give_back(&bundle[..1], &names[0], Setback::None);
            assert_eq!((&set_aside[..], schedule.ready()), (&bundle[..1], 0));
        }
        assert!(schedule.take(&bundle[..1]));
        let content = computed(&schedule, bundle[0], 0).content;
        schedule.finish(bundle[0], content);
        assert!(!schedule.take(&bundle[..1]), "it is done");
        run(&mut schedule, &HashSet::new());
        assert!(schedule.is_done());
    }
}
