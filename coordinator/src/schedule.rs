//! Which units of an order are ready, and what becomes ready when one is done. A pure state machine.
//!
//! A shard is ready when all shards with one edge less that it reads are done; there is no barrier over a number of edges.
//! Ready units are handed out in the order of the plan, neighbours together, so that they read the same partitions.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use trailtrap_shared::plan::{Plan, Unit};

/// A bundle is not made smaller than this many (graph, edge) pairs, as long as there are ready units to add …
const LEAST_WORK: u64 = 50_000;
/// … nor larger than this, unless by one large unit: about a fifth of a second of a core.
const MOST_WORK: u64 = 2_000_000;
/// What a unit costs beside its pairs, in pairs.
const UNIT_WORK: u64 = 500;

/// The state of an order.
pub struct Schedule {
    plan: Arc<Plan>,
    successors: Vec<Vec<u32>>,
    /// For each shard the number of unfinished shards it reads.
    unfinished_predecessors: Vec<u32>,
    /// For each shard the number of unfinished shards that read it.
    unfinished_successors: Vec<u32>,
    /// For each shard the number of its unfinished parts.
    unfinished_parts: Vec<u32>,
    /// The finished units of shards that have unfinished ones too.
    partly: HashSet<Unit>,
    ready: BTreeSet<Unit>,
    ready_work: u64,
    unfinished_shards: usize,
    /// For each number of edges the number of unfinished shards.
    unfinished_by_size: Vec<usize>,
}

/// What finishing a unit brought about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// The last part of its shard.
    pub shard_done: bool,
    /// Shards that no unfinished shard reads any more.
    pub retired: Vec<u32>,
}

impl Schedule {
    /// A schedule with nothing done.
    pub fn new(plan: Arc<Plan>) -> Self {
        let successors = plan.successors();
        let mut unfinished_by_size = Vec::new();
        for shard in &plan.shards {
            unfinished_by_size.resize(shard.size + 1, 0);
            unfinished_by_size[shard.size] += 1;
        }
        let mut schedule = Schedule {
            unfinished_predecessors: plan.shards.iter().map(|shard| shard.predecessors.len() as u32).collect(),
            unfinished_successors: successors.iter().map(|list| list.len() as u32).collect(),
            unfinished_parts: plan.shards.iter().map(|shard| shard.parts).collect(),
            partly: HashSet::new(),
            ready: BTreeSet::new(),
            ready_work: 0,
            unfinished_shards: plan.shards.len(),
            unfinished_by_size,
            successors,
            plan,
        };
        for shard in 0..schedule.plan.shards.len() as u32 {
            schedule.release(shard);
        }
        schedule
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether every unit is done.
    pub fn is_done(&self) -> bool {
        self.unfinished_shards == 0
    }

    /// Units that could be handed out.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The number of shards that are done, and of all.
    pub fn shards_done(&self) -> (usize, usize) {
        (self.plan.shards.len() - self.unfinished_shards, self.plan.shards.len())
    }

    /// The largest number of edges such that no unfinished shard reads a shard with that many or fewer; `None` if there is
    /// no such number.
    pub fn retired_size(&self) -> Option<usize> {
        let unfinished = self.unfinished_by_size.iter().position(|&count| count > 0);
        match unfinished {
            Some(size) => size.checked_sub(2),
            None => self.unfinished_by_size.len().checked_sub(1),
        }
    }

    /// Takes a bundle of ready units for one of `sharers` that want work; empty if nothing is ready. The bundle shrinks
    /// when there is little to share.
    pub fn take(&mut self, sharers: usize) -> Vec<Unit> {
        let aim = (self.ready_work / (2 * sharers.max(1) as u64)).clamp(LEAST_WORK, MOST_WORK);
        let mut bundle = Vec::new();
        let mut work = 0;
        while let Some(&unit) = self.ready.first() {
            let more = self.work(unit.shard);
            if !bundle.is_empty() && work + more > aim {
                break;
            }
            self.ready.remove(&unit);
            self.ready_work -= more;
            work += more;
            bundle.push(unit);
        }
        bundle
    }

    /// Makes units ready again that were taken and not solved.
    pub fn put_back(&mut self, units: impl IntoIterator<Item = Unit>) {
        for unit in units {
            if self.ready.insert(unit) {
                self.ready_work += self.work(unit.shard);
            }
        }
    }

    /// Marks a unit done, whether it was taken or is known from an earlier run. Each unit may be finished once.
    pub fn finish(&mut self, unit: Unit) -> Finished {
        let shard = unit.shard as usize;
        if self.ready.remove(&unit) {
            self.ready_work -= self.work(unit.shard);
        }
        self.unfinished_parts[shard] -= 1;
        let mut finished = Finished::default();
        if self.unfinished_parts[shard] > 0 {
            self.partly.insert(unit);
            return finished;
        }
        self.partly.retain(|other| other.shard != unit.shard);
        finished.shard_done = true;
        self.unfinished_shards -= 1;
        self.unfinished_by_size[self.plan.shards[shard].size] -= 1;
        for successor in std::mem::take(&mut self.successors[shard]) {
            self.unfinished_predecessors[successor as usize] -= 1;
            self.release(successor);
        }
        if self.unfinished_successors[shard] == 0 {
            finished.retired.push(unit.shard);
        }
        let plan = self.plan.clone();
        for &predecessor in &plan.shards[shard].predecessors {
            self.unfinished_successors[predecessor as usize] -= 1;
            if self.unfinished_successors[predecessor as usize] == 0 {
                finished.retired.push(predecessor);
            }
        }
        finished
    }

    /// The number of unfinished parts of a shard.
    pub fn unfinished_parts(&self, shard: u32) -> u32 {
        self.unfinished_parts[shard as usize]
    }

    /// Takes back the finished parts of a shard that is not done, because together they turned out wrong.
    pub fn reopen(&mut self, shard: u32) -> Vec<Unit> {
        let finished: Vec<Unit> = self.partly.iter().copied().filter(|unit| unit.shard == shard).collect();
        for unit in &finished {
            self.partly.remove(unit);
            self.unfinished_parts[shard as usize] += 1;
        }
        self.put_back(finished.iter().copied());
        finished
    }

    /// Makes the unfinished parts of a shard ready if nothing holds it back.
    fn release(&mut self, shard: u32) {
        if self.unfinished_predecessors[shard as usize] == 0 && self.unfinished_parts[shard as usize] > 0 {
            let parts = self.plan.shards[shard as usize].parts;
            let order = self.plan.order as u8;
            let units: Vec<Unit> = (0..parts).map(|part| Unit { order, shard, part }).collect();
            let open: Vec<Unit> = units.into_iter().filter(|unit| !self.partly.contains(unit)).collect();
            self.put_back(open);
        }
    }

    /// The work of one part of a shard.
    fn work(&self, shard: u32) -> u64 {
        let shard = &self.plan.shards[shard as usize];
        shard.estimate * shard.size as u64 / u64::from(shard.parts) + UNIT_WORK
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trailtrap_shared::{game::TrailTrap, plan::PlanOptions};

    use super::*;

    fn schedule(order: usize) -> Schedule {
        Schedule::new(Arc::new(Plan::new::<TrailTrap>(order, PlanOptions { part_graphs: 4, bucket_bytes: 1 << 20 })))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Whatever is taken, given back and finished in whatever order: everything gets done once, nothing before what it
        /// reads, and a shard is retired exactly when nothing will read it.
        #[test]
        fn every_order_of_events_gets_everything_done(seed: u64, order in 4usize..=7) {
            let mut schedule = schedule(order);
            let plan = schedule.plan().clone();
            let mut random = seed | 1;
            let mut next = |n: usize| { random ^= random << 13; random ^= random >> 7; random ^= random << 17; random as usize % n };
            let (mut taken, mut done, mut retired) = (Vec::new(), HashSet::new(), HashSet::new());
            let mut done_shards = HashSet::new();
            while !schedule.is_done() {
                if taken.is_empty() || next(3) > 0 {
                    taken.extend(schedule.take(1 + next(4)));
                }
                prop_assert!(!taken.is_empty(), "stuck");
                let unit = taken.swap_remove(next(taken.len()));
                if next(5) == 0 {
                    schedule.put_back([unit]);
                    continue;
                }
                prop_assert!(done.insert(unit), "{unit:?} twice");
                for predecessor in &plan.shards[unit.shard as usize].predecessors {
                    prop_assert!(done_shards.contains(predecessor) && !retired.contains(predecessor));
                }
                let finished = schedule.finish(unit);
                if finished.shard_done {
                    done_shards.insert(unit.shard);
                }
                for shard in finished.retired {
                    prop_assert!(retired.insert(shard));
                }
            }
            prop_assert_eq!(done.len() as u32, plan.shards.iter().map(|shard| shard.parts).sum::<u32>());
            prop_assert_eq!(retired.len(), plan.shards.len());
            prop_assert_eq!(schedule.ready(), 0);
        }

        /// A run that is resumed with any set of units done that an earlier run can have left.
        #[test]
        fn resuming_hands_out_the_rest(stop_after in 0usize..400) {
            let mut first = schedule(7);
            let mut done = Vec::new();
            'run: loop {
                let bundle = first.take(3);
                if bundle.is_empty() { break }
                for unit in bundle {
                    if done.len() == stop_after { break 'run }
                    first.finish(unit);
                    done.push(unit);
                }
            }
            let mut second = schedule(7);
            for &unit in done.iter().rev() {
                second.finish(unit);
            }
            let mut rest = HashSet::new();
            loop {
                let bundle = second.take(1);
                if bundle.is_empty() { break }
                for unit in bundle {
                    prop_assert!(!done.contains(&unit) && rest.insert(unit));
                    second.finish(unit);
                }
            }
            prop_assert!(second.is_done());
        }
    }

    #[test]
    fn sizes_retire_in_order() {
        let mut schedule = schedule(6);
        let mut last = None;
        while !schedule.is_done() {
            for unit in schedule.take(1) {
                schedule.finish(unit);
                assert!(schedule.retired_size() >= last);
                last = schedule.retired_size();
            }
        }
        assert_eq!(last, Some(15));
    }
}
