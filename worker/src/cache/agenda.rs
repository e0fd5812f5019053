//! When what a cache holds is read again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::RwLock;
use trailtrap_shared::plan::{Plan, Unit};

use super::{
    BucketKey,
    retention::{NEVER, Turn},
};

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

/// The shards of a plan that read each shard.
pub struct Readers {
    plan: Arc<Plan>,
    successors: Vec<Vec<u32>>,
}

impl Readers {
    /// Of a plan.
    pub fn new(plan: Arc<Plan>) -> Self {
        Readers { successors: plan.successors(), plan }
    }

    /// The first shard from `now` on that reads one.
    pub fn next(&self, shard: u32, now: Turn) -> Turn {
        let readers = &self.successors[shard as usize];
        readers.get(readers.partition_point(|&reader| reader < now)).copied().unwrap_or(NEVER)
    }
}

/// What the plan in work says of tables.
#[derive(Default)]
pub(super) struct Agenda(RwLock<Inner>);

#[derive(Default)]
struct Inner {
    readers: Option<Readers>,
    /// How often each shard is in work.
    in_work: BTreeMap<u32, usize>,
    /// The first shard that was in work last.
    now: Turn,
    /// Whether it has parts beside those in work then.
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
        let shard = units.first().map(|unit| unit.shard);
        if let Some(shard) = shard {
            *inner.in_work.entry(shard).or_default() += 1;
            inner.update();
            if inner.now == shard {
                inner.has_more = units.len() < plan.shards[shard as usize].parts as usize;
            }
        }
        InWork { agenda: self, plan: plan.clone(), shard }
    }
}

/// Units in work, until this is dropped.
pub struct InWork<'a> {
    agenda: &'a Agenda,
    plan: Arc<Plan>,
    shard: Option<u32>,
}

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        let mut inner = self.agenda.0.write();
        let is_known =
            inner.readers.as_ref().is_some_and(|known| Arc::ptr_eq(&known.plan, &self.plan));
        let Some(first) = self.shard.filter(|_| is_known) else { return };
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
        let shard = (0..plan.shards.len() as u32)
            .find(|&shard| readers.successors[shard as usize].len() > 2)
            .unwrap();
        let [first, second, third] = [0, 1, 2].map(|i| readers.successors[shard as usize][i]);
        let key = BucketKey::of(&plan.shards[shard as usize], 0);
        let unit = |shard| Unit { order: 6, shard, part: 0 };
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
        assert_eq!((agenda.now(), agenda.next(&key)), (3, NEVER));
        drop(four);
    }
}
