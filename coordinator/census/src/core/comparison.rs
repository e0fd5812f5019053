//! Which units are to be solved a second time, by another worker, and compared. A pure state
//! machine.

use std::collections::BTreeMap;

use trailtrap_shared::{
    partition::Content,
    plan::{LEAST_TOGETHER, Unit},
};

use super::{
    schedule::{Load, MOST_WORK},
    setbacks::{Setback, Setbacks},
};
use crate::{core::secret::Secret, records::Author};

/// The units of an order that wait for a second computation.
pub struct Comparisons {
    share: f64,
    /// Which units are drawn follows from this.
    secret: Secret,
    /// Units that are wanted in any case.
    disputed: BTreeMap<Unit, Content>,
    open: BTreeMap<Unit, Open>,
}

struct Open {
    /// Who solved it first.
    by: Author,
    leased: bool,
    /// Who has tried the second computation in vain.
    setbacks: Setbacks,
}

impl Open {
    /// Whether this worker can compare it: whoever solved it cannot.
    fn is_for(&self, worker: &Author) -> bool {
        !self.by.is(worker) && self.setbacks.admit(worker, &[])
    }
}

impl Comparisons {
    /// Nothing yet; a share between 0 and 1 of all units will be wanted, and those of which it is
    /// not known who is right.
    pub fn new(share: f64, secret: Secret, disputed: BTreeMap<Unit, Content>) -> Self {
        Comparisons { share, secret, disputed, open: BTreeMap::new() }
    }

    /// Whether a unit is among those that are to be solved twice.
    pub fn want(&self, unit: Unit) -> bool {
        let Unit { order, shard, part } = unit;
        self.disputed.contains_key(&unit)
            || self.secret.draws("comparison", &(order, shard, part)).chance(self.share)
    }

    /// Whether it is not known who is right about a unit, and two who agree on it now, having read
    /// this, would tell.
    pub fn can_decide(&self, unit: Unit, inputs: &Content) -> bool {
        self.disputed.get(&unit) == Some(inputs)
    }

    /// A unit was solved by this worker.
    pub fn add(&mut self, unit: Unit, by: Author) {
        self.open.insert(unit, Open { by, leased: false, setbacks: Setbacks::default() });
    }

    /// Units for this worker, which has room for so many graphs, beside these others, none of which
    /// it has solved itself. Those that were tried in vain go alone as units to be solved do.
    pub(super) fn lease(
        &mut self,
        worker: &Author,
        others: &[Author],
        room: u64,
        load: impl Fn(Unit) -> Load,
    ) -> Vec<Unit> {
        let is_for_worker = |open: &Open| {
            // Whoever solved it cannot compare it.
            let others = || others.iter().filter(|other| !open.by.is(other)).cloned().collect();
            let is_admitted = || {
                let others: Vec<Author> = others();
                open.setbacks.admit(worker, &others)
            };
            !open.by.is(worker) && (open.setbacks.is_empty() || is_admitted())
        };
        let is_alone = |open: &Open| open.setbacks.goes_alone();
        self.bundle(is_for_worker, is_alone, room, load)
    }

    /// Units for somebody who is not among these workers, none of whom can compare them.
    pub(super) fn lease_left(
        &mut self,
        workers: &[Author],
        by: &Author,
        load: impl Fn(Unit) -> Load,
    ) -> Vec<Unit> {
        let is_left =
            |open: &Open| open.is_for(by) && !workers.iter().any(|worker| open.is_for(worker));
        self.bundle(is_left, |_| false, LEAST_TOGETHER, load)
    }

    /// Units that nobody is comparing, and none of these can, and who has tried in vain.
    pub fn stuck(&self, by: &[Author]) -> impl Iterator<Item = (Unit, &Setbacks)> {
        let is_stuck = |open: &Open| !open.leased && !by.iter().any(|by| open.is_for(by));
        let stuck = self.open.iter().filter(move |(_, open)| is_stuck(open));
        stuck.map(|(&unit, open)| (unit, &open.setbacks))
    }

    fn bundle(
        &mut self,
        is_suitable: impl Fn(&Open) -> bool,
        is_alone: impl Fn(&Open) -> bool,
        room: u64,
        load: impl Fn(Unit) -> Load,
    ) -> Vec<Unit> {
        let mut units = Vec::new();
        let (mut work, mut graphs) = (0, 0);
        let available = |open: &Open| !open.leased && is_suitable(open);
        for (&unit, open) in self.open.iter_mut().filter(|(_, open)| available(open)) {
            let more = load(unit);
            (work, graphs) = (work + more.work, graphs + more.graphs);
            let alone = is_alone(open);
            let fits = !alone && work <= MOST_WORK && graphs <= room.max(LEAST_TOGETHER);
            if !units.is_empty() && !fits {
                break;
            }
            open.leased = true;
            units.push(unit);
            if alone {
                break;
            }
        }
        units
    }

    /// Makes leased units available again that this worker has not compared. Those that too many
    /// have tried in vain are set aside and returned.
    pub fn give_back(&mut self, units: &[Unit], author: &Author, setback: Setback) -> Vec<Unit> {
        let mut set_aside = Vec::new();
        for &unit in units {
            let Some(open) = self.open.get_mut(&unit) else { continue };
            open.leased = false;
            open.setbacks.note(author, setback);
            if setback != Setback::None && open.setbacks.is_set_aside() {
                set_aside.push(unit);
            }
        }
        set_aside
    }

    /// The units that were tried in vain, and by whom.
    pub fn setbacks(&self) -> impl Iterator<Item = (Unit, &Setbacks)> {
        let tried = self.open.iter().filter(|(_, open)| !open.setbacks.is_empty());
        tried.map(|(&unit, open)| (unit, &open.setbacks))
    }

    /// A unit has been compared.
    pub fn finish(&mut self, unit: Unit) {
        self.open.remove(&unit);
    }

    /// Units that have not been compared.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether a unit is one of them.
    pub fn has(&self, unit: Unit) -> bool {
        self.open.contains_key(&unit)
    }

    /// The same units, in the order of the plan.
    pub fn units(&self) -> impl Iterator<Item = Unit> {
        self.open.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::setbacks::WORKERS, *};

    fn worker(name: &str) -> Author {
        Author::new(name, "portable")
    }

    fn unit(shard: u32) -> Unit {
        Unit { order: 9, shard, part: 0 }
    }

    const HEAVY: Load = Load { work: MOST_WORK, graphs: 1 };

    fn light(_: Unit) -> Load {
        Load { work: 10, graphs: 1 }
    }

    fn comparisons(share: f64) -> Comparisons {
        Comparisons::new(share, Secret::of(7), BTreeMap::new())
    }

    #[test]
    fn nobody_compares_with_oneself() {
        let mut comparisons = comparisons(1.0);
        comparisons.add(unit(1), worker("a"));
        comparisons.add(unit(2), worker("b"));
        assert_eq!(comparisons.lease(&worker("a"), &[], 0, light), [unit(2)]);
        assert_eq!(comparisons.lease(&worker("a"), &[], 0, light), []);
        let other_kernel = Author::new("a", "avx2");
        assert_eq!(comparisons.lease(&other_kernel, &[], 0, light), []);
        comparisons.give_back(&[unit(2), unit(3)], &worker("a"), Setback::None);
        assert_eq!(comparisons.lease(&worker("c"), &[], 0, light), [unit(1), unit(2)]);
        assert!(comparisons.units().eq([unit(1), unit(2)]));
        comparisons.finish(unit(1));
        assert_eq!((comparisons.units().next(), comparisons.open()), (Some(unit(2)), 1));
    }

    #[test]
    fn what_many_fail_at_is_set_aside_and_stays_open() {
        let mut comparisons = comparisons(1.0);
        comparisons.add(unit(1), worker("a"));
        comparisons.add(unit(2), worker("a"));
        for i in 1..=WORKERS {
            let name = worker(&i.to_string());
            assert_eq!(comparisons.lease(&name, &[], 0, |_| HEAVY), [unit(1)]);
            let set_aside = comparisons.give_back(&[unit(1)], &name, Setback::Failed("why"));
            assert_eq!(set_aside.len(), usize::from(i == WORKERS));
        }
        assert_eq!(comparisons.lease(&worker("b"), &[], 0, |_| HEAVY), [unit(2)]);
        let stuck: Vec<Unit> = comparisons.stuck(&[worker("c")]).map(|(unit, _)| unit).collect();
        assert_eq!((stuck, comparisons.open()), (vec![unit(1)], 2));
        let tried: Vec<(Unit, usize)> =
            comparisons.setbacks().map(|(unit, tried)| (unit, tried.failures().count())).collect();
        assert_eq!(tried, [(unit(1), WORKERS)]);
    }

    /// Otherwise one unit that cannot be solved would take those beside it along.
    #[test]
    fn what_was_tried_in_vain_goes_alone() {
        let mut comparisons = comparisons(1.0);
        (0..4).for_each(|shard| comparisons.add(unit(shard), worker("a")));
        let lease =
            |comparisons: &mut Comparisons, name| comparisons.lease(&worker(name), &[], 0, light);
        assert_eq!(lease(&mut comparisons, "b"), [0, 1, 2, 3].map(unit));
        comparisons.give_back(&[1, 3].map(unit), &worker("b"), Setback::Failed("why"));
        comparisons.give_back(&[0, 2].map(unit), &worker("b"), Setback::None);
        for expected in [&[0][..], &[1], &[2], &[3]] {
            let expected: Vec<Unit> = expected.iter().map(|&shard| unit(shard)).collect();
            assert_eq!(lease(&mut comparisons, "c"), expected);
        }
    }

    #[test]
    fn whoever_was_late_waits_for_those_who_can_compare() {
        let mut comparisons = comparisons(1.0);
        comparisons.add(unit(1), worker("a"));
        assert_eq!(comparisons.lease(&worker("b"), &[], 0, light), [unit(1)]);
        comparisons.give_back(&[unit(1)], &worker("b"), Setback::Late);
        // The one who solved it does not count.
        let lease = |comparisons: &mut Comparisons, others: &[Author]| {
            comparisons.lease(&worker("b"), others, 0, light)
        };
        assert_eq!(lease(&mut comparisons, &[worker("a"), worker("c")]), []);
        assert_eq!(lease(&mut comparisons, &[worker("a")]), [unit(1)]);
    }

    #[test]
    fn what_was_late_once_goes_together_again() {
        let mut comparisons = comparisons(1.0);
        (0..3).for_each(|shard| comparisons.add(unit(shard), worker("a")));
        for (name, units) in [("b", 3), ("c", 3), ("d", 1)] {
            let bundle = comparisons.lease(&worker(name), &[], 0, light);
            assert_eq!(bundle.len(), units);
            comparisons.give_back(&bundle, &worker(name), Setback::Late);
        }
    }

    #[test]
    fn what_nobody_can_compare_is_left() {
        let mut comparisons = comparisons(1.0);
        let (ann, bea, other) = (worker("a"), worker("b"), worker("the coordinator"));
        comparisons.add(unit(1), ann.clone());
        comparisons.add(unit(2), bea.clone());
        let stuck = |comparisons: &Comparisons, by: &[Author]| -> Vec<Unit> {
            comparisons.stuck(by).map(|(unit, _)| unit).collect()
        };
        assert_eq!(stuck(&comparisons, &[ann.clone(), bea.clone()]), []);
        assert_eq!(stuck(&comparisons, std::slice::from_ref(&ann)), [unit(1)]);
        assert_eq!(stuck(&comparisons, &[]), [unit(1), unit(2)]);
        let mut left = |workers: &[Author]| comparisons.lease_left(workers, &other, light);
        assert_eq!(left(&[ann.clone(), bea.clone()]), []);
        assert_eq!(left(std::slice::from_ref(&ann)), [unit(1)]);
        assert_eq!(stuck(&comparisons, std::slice::from_ref(&ann)), [], "it is leased");
        // One who has failed often is not asked again.
        for _ in 0..super::super::setbacks::ATTEMPTS {
            comparisons.lease(&ann, &[], 0, light);
            comparisons.give_back(&[unit(2)], &ann, Setback::Failed("why"));
        }
        assert_eq!(comparisons.lease_left(&[ann, bea], &other, light), [unit(2)]);
    }

    #[test]
    fn large_units_go_alone() {
        let mut comparisons = comparisons(1.0);
        (0..8).for_each(|shard| comparisons.add(unit(shard), worker("a")));
        // There may be many graphs where little is known of the work.
        let many = |_| Load { work: 10, graphs: LEAST_TOGETHER };
        assert_eq!(comparisons.lease(&worker("b"), &[], 0, many).len(), 1);
        assert_eq!(comparisons.lease(&worker("b"), &[], 3 * LEAST_TOGETHER, many).len(), 3);
        assert_eq!(comparisons.lease(&worker("b"), &[], 0, |_| HEAVY).len(), 1);
        assert_eq!(
            comparisons
                .lease(&worker("b"), &[], 0, |_| Load { work: MOST_WORK / 2, graphs: 1 })
                .len(),
            2
        );
    }

    #[test]
    fn shares_are_what_they_say() {
        let wanted = |share: f64, salt: u64| {
            let comparisons = Comparisons::new(share, Secret::of(salt), BTreeMap::new());
            (0..10_000).filter(|&shard| comparisons.want(unit(shard))).collect::<Vec<_>>()
        };
        assert_eq!(wanted(0.0, 1).len(), 0);
        assert_eq!(wanted(1.0, 1).len(), 10_000);
        assert!((2_700..3_300).contains(&wanted(0.3, 1).len()));
        assert_eq!(wanted(0.3, 1), wanted(0.3, 1));
        assert_ne!(wanted(0.3, 1), wanted(0.3, 2));
        let disputed = Comparisons::new(0.0, Secret::of(1), [(unit(7), Content([1; 16]))].into());
        assert!(disputed.want(unit(7)) && !disputed.want(unit(8)));
    }
}
