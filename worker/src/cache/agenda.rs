//! When what a cache holds is read again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::RwLock;
use trailtrap_shared::plan::{Plan, Turn, Unit};

use super::retention::NEVER;
use crate::kernel::BucketKey;

/// What tells a cache when values are read.
pub(super) trait Turns<K> {
    /// Turns before this one are past.
    fn now(&self) -> Turn;

    /// When a value is read next, at `now` or later.
    fn next(&self, key: &K) -> Turn;

    /// When a value that is read now is read again.
    fn again(&self, key: &K) -> Turn;
}

/// Of what nothing is known: what was read last is read again first.
#[derive(Default)]
pub struct Lately(AtomicU32);

impl Lately {
    /// A turn before all that were given out.
    pub fn next(&self) -> Turn {
        NEVER - self.0.fetch_add(1, Ordering::Relaxed).min(NEVER - 1)
    }
}

impl<K> Turns<K> for Lately {
    fn now(&self) -> Turn {
        0
    }

    fn next(&self, _: &K) -> Turn {
        self.next()
    }

    fn again(&self, _: &K) -> Turn {
        self.next()
    }
}

/// When the shards of a plan are read.
pub struct Readers {
    plan: Arc<Plan>,
    /// The turns of those that read each shard, in increasing order, one shard after the other.
    turns: Vec<Turn>,
    /// Where those of each shard end.
    ends: Vec<u32>,
}

impl Readers {
    /// Of a plan.
    pub fn new(plan: Arc<Plan>) -> Self {
        let mut ends = vec![0; plan.shards.len()];
        for &read in plan.shards.iter().flat_map(|shard| &shard.predecessors) {
            ends[read as usize] += 1;
        }
        // Until all are there, what is the end of each shard is where its next reader goes.
        let mut all = 0;
        for end in &mut ends {
            all += std::mem::replace(end, all);
        }
        let mut turns = vec![0; all as usize];
        for turn in 0..plan.shards.len() as Turn {
            for &read in &plan.shards[plan.shard_of_turn(turn) as usize].predecessors {
                let end = &mut ends[read as usize];
                turns[*end as usize] = turn;
                *end += 1;
            }
        }
        Readers { plan, turns, ends }
    }

    /// The first turn from `now` on of a shard that reads one.
    pub fn next(&self, shard: u32, now: Turn) -> Turn {
        let readers = self.of(shard);
        readers.get(readers.partition_point(|&reader| reader < now)).copied().unwrap_or(NEVER)
    }

    fn of(&self, shard: u32) -> &[Turn] {
        let start = shard.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.turns[start as usize..self.ends[shard as usize] as usize]
    }

    /// Bytes of memory that a plan and its readers take, about.
    pub fn bytes_with(plan: &Plan) -> usize {
        let readers: usize = plan.shards.iter().map(|shard| shard.predecessors.len()).sum();
        plan.memory_bytes() + size_of::<Turn>() * (readers + plan.shards.len())
    }
}

/// What the plan in work says of tables.
#[derive(Default)]
pub(super) struct Agenda(RwLock<Inner>);

#[derive(Default)]
struct Inner {
    readers: Option<Readers>,
    /// How often the shard of each turn is in work.
    in_work: BTreeMap<Turn, usize>,
    /// The first turn that was in work last.
    now: Turn,
    /// Whether its shard has parts beside those in work then.
    has_more: bool,
}

impl Inner {
    fn update(&mut self) {
        if let Some((&first, _)) = self.in_work.first_key_value() {
            self.now = first;
        }
    }

    fn find(&self, key: &BucketKey, from: impl Fn(Turn) -> Turn) -> Turn {
        let next = self.readers.as_ref().and_then(|readers| {
            let shard = readers.plan.find(&key.sequence)?;
            Some(readers.next(shard, from(self.now)))
        });
        next.unwrap_or(NEVER)
    }
}

impl Agenda {
    /// Parts of a shard of a plan are in work until what is returned is dropped.
    pub(super) fn begin(&self, plan: &Arc<Plan>, units: &[Unit]) -> InWork<'_> {
        let mut inner = self.0.write();
        let is_known = inner.readers.as_ref().is_some_and(|known| Arc::ptr_eq(&known.plan, plan));
        if !is_known {
            *inner = Inner { readers: Some(Readers::new(plan.clone())), ..Inner::default() };
        }
        let turn = units.first().map(|unit| plan.turn(unit.shard));
        if let Some(turn) = turn {
            *inner.in_work.entry(turn).or_default() += 1;
            inner.update();
            if inner.now == turn {
                let shard = &plan.shards[units[0].shard as usize];
                inner.has_more = units.len() < shard.parts as usize;
            }
        }
        InWork { agenda: self, plan: plan.clone(), turn }
    }
}

/// Units in work, until this is dropped.
pub struct InWork<'a> {
    agenda: &'a Agenda,
    plan: Arc<Plan>,
    turn: Option<Turn>,
}

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        let mut inner = self.agenda.0.write();
        let is_known =
            inner.readers.as_ref().is_some_and(|known| Arc::ptr_eq(&known.plan, &self.plan));
        let Some(first) = self.turn.filter(|_| is_known) else { return };
        if let Some(count) = inner.in_work.get_mut(&first) {
            *count -= 1;
            if *count == 0 {
                inner.in_work.remove(&first);
            }
        }
        inner.update();
    }
}

impl Turns<BucketKey> for Agenda {
    fn now(&self) -> Turn {
        self.0.read().now
    }

    fn next(&self, key: &BucketKey) -> Turn {
        self.0.read().find(key, |now| now)
    }

    fn again(&self, key: &BucketKey) -> Turn {
        let inner = self.0.read();
        inner.find(key, |now| if inner.has_more { now } else { now + 1 })
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        plan::PlanOptions,
    };

    use super::*;

    #[test]
    fn tables_are_read_by_the_shards_in_work_and_by_later_ones() {
        let plan = |order| Arc::new(Plan::new(TrailTrap::LAYOUT, order, PlanOptions::default()));
        let (plan, other) = (plan(6), plan(5));
        let readers = Readers::new(plan.clone());
        let shard =
            (0..plan.shards.len() as u32).find(|&shard| readers.of(shard).len() > 2).unwrap();
        let [first, second, third] = [0, 1, 2].map(|i| readers.of(shard)[i]);
        let key = BucketKey::of(&plan.shards[shard as usize], 0);
        let unit = |turn| Unit { order: 6, shard: plan.shard_of_turn(turn), part: 0 };
        let agenda = Agenda::default();
        assert_eq!(agenda.next(&key), NEVER, "nothing is known yet");
        let one = agenda.begin(&plan, &[unit(second)]);
        assert_eq!((agenda.now(), agenda.next(&key)), (second, second));
        assert_eq!(agenda.again(&key), third);
        let two = agenda.begin(&plan, &[unit(first)]);
        assert_eq!((agenda.now(), agenda.next(&key)), (first, first), "the first in work counts");
        drop(two);
        assert_eq!(agenda.next(&key), second);
        drop(one);
        let three = agenda.begin(&plan, &[unit(second + 1)]);
        assert_eq!(agenda.next(&key), third.max(second + 1));
        // Another order begins while a lease of this one is still in work.
        let four = agenda.begin(&other, &[Unit { order: 5, shard: 3, part: 0 }]);
        drop(three);
        assert_eq!((agenda.now(), agenda.next(&key)), (other.turn(3), NEVER));
        drop(four);
    }
}
