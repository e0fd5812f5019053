//! Which units are to be solved a second time, by another worker, and compared. A pure state
//! machine.

use std::collections::BTreeMap;

use trailtrap_shared::plan::Unit;

use crate::{core::random::Random, records::Author};

/// A comparison that has failed so often is set aside.
const ATTEMPTS: usize = 5;
/// Comparisons are leased in bundles of at most about this many (graph, edge) pairs.
const MOST_WORK: u64 = 2_000_000;

/// The units of an order that wait for a second computation.
pub struct Comparisons {
    share: f64,
    /// Which units are drawn follows from this number, which no worker knows.
    salt: u64,
    open: BTreeMap<Unit, Open>,
}

struct Open {
    /// Who solved it first.
    by: Author,
    leased: bool,
    /// Why attempts at the second computation failed.
    failures: Vec<String>,
}

impl Open {
    fn is_set_aside(&self) -> bool {
        self.failures.len() >= ATTEMPTS
    }
}

impl Comparisons {
    /// Nothing yet; a share between 0 and 1 of all units will be wanted.
    pub fn new(share: f64, salt: u64) -> Self {
        Comparisons { share, salt, open: BTreeMap::new() }
    }

    /// Whether a unit is among those that are to be solved twice.
    pub fn want(&self, unit: Unit) -> bool {
        let Unit { order, shard, part } = unit;
        let place = u64::from(order) << 56 ^ u64::from(part) << 32 ^ u64::from(shard);
        Random(Random(self.salt ^ place).draw()).chance(self.share)
    }

    /// A unit was solved by this worker.
    pub fn add(&mut self, unit: Unit, by: Author) {
        self.open.insert(unit, Open { by, leased: false, failures: Vec::new() });
    }

    /// Units for this worker, none of which it has solved itself; `work` tells their (graph, edge)
    /// pairs.
    pub fn lease(&mut self, worker: &Author, work: impl Fn(Unit) -> u64) -> Vec<Unit> {
        let (mut units, mut sum) = (Vec::new(), 0);
        let available = |open: &Open| !open.leased && !open.is_set_aside() && open.by != *worker;
        for (&unit, open) in self.open.iter_mut().filter(|(_, open)| available(open)) {
            let more = work(unit);
            if !units.is_empty() && sum + more > MOST_WORK {
                break;
            }
            open.leased = true;
            units.push(unit);
            sum += more;
        }
        units
    }

    /// Makes leased units available again that were not compared. With a `failure` that was tried;
    /// those that have failed too often are set aside and returned.
    pub fn give_back(&mut self, units: &[Unit], failure: Option<&str>) -> Vec<Unit> {
        let mut set_aside = Vec::new();
        for &unit in units {
            let Some(open) = self.open.get_mut(&unit) else { continue };
            open.leased = false;
            open.failures.extend(failure.map(str::to_owned));
            if failure.is_some() && open.is_set_aside() {
                set_aside.push(unit);
            }
        }
        set_aside
    }

    /// The units that are set aside, and why each attempt failed.
    pub fn set_aside(&self) -> impl Iterator<Item = (Unit, &[String])> {
        self.open
            .iter()
            .filter(|(_, open)| open.is_set_aside())
            .map(|(&unit, open)| (unit, &open.failures[..]))
    }

    /// A unit has been compared.
    pub fn finish(&mut self, unit: Unit) {
        self.open.remove(&unit);
    }

    /// Units that wait or are being solved, without those that are set aside.
    pub fn waiting(&self) -> usize {
        self.open.values().filter(|open| !open.is_set_aside()).count()
    }

    /// Units that have not been compared.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The first of them in the order of the plan.
    pub fn first(&self) -> Option<Unit> {
        self.open.first_key_value().map(|(&unit, _)| unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str) -> Author {
        Author::new(name, "portable")
    }

    fn unit(shard: u32) -> Unit {
        Unit { order: 9, shard, part: 0 }
    }

    #[test]
    fn nobody_compares_with_oneself() {
        let mut comparisons = Comparisons::new(1.0, 7);
        comparisons.add(unit(1), worker("a"));
        comparisons.add(unit(2), worker("b"));
        assert_eq!(comparisons.lease(&worker("a"), |_| 10), [unit(2)]);
        assert_eq!(comparisons.lease(&worker("a"), |_| 10), []);
        comparisons.give_back(&[unit(2), unit(3)], None);
        assert_eq!(comparisons.lease(&worker("c"), |_| 10), [unit(1), unit(2)]);
        assert_eq!(comparisons.first(), Some(unit(1)));
        comparisons.finish(unit(1));
        assert_eq!((comparisons.first(), comparisons.open()), (Some(unit(2)), 1));
    }

    #[test]
    fn what_fails_again_and_again_is_set_aside_and_stays_open() {
        let mut comparisons = Comparisons::new(1.0, 7);
        comparisons.add(unit(1), worker("a"));
        comparisons.add(unit(2), worker("a"));
        for attempt in 1..=ATTEMPTS {
            assert_eq!(comparisons.lease(&worker("b"), |_| MOST_WORK), [unit(1)]);
            let set_aside = comparisons.give_back(&[unit(1)], Some("why"));
            assert_eq!(set_aside.len(), usize::from(attempt == ATTEMPTS));
        }
        assert_eq!(comparisons.lease(&worker("b"), |_| MOST_WORK), [unit(2)]);
        assert_eq!((comparisons.waiting(), comparisons.open()), (1, 2));
        assert_eq!(
            comparisons.set_aside().map(|(unit, why)| (unit, why.len())).collect::<Vec<_>>(),
            [(unit(1), 5)]
        );
    }

    #[test]
    fn large_units_go_alone() {
        let mut comparisons = Comparisons::new(1.0, 7);
        (0..4).for_each(|shard| comparisons.add(unit(shard), worker("a")));
        assert_eq!(comparisons.lease(&worker("b"), |_| MOST_WORK).len(), 1);
        assert_eq!(comparisons.lease(&worker("b"), |_| MOST_WORK / 2).len(), 2);
    }

    #[test]
    fn shares_are_what_they_say() {
        let wanted = |share: f64, salt: u64| {
            let comparisons = Comparisons::new(share, salt);
            (0..10_000).filter(|&shard| comparisons.want(unit(shard))).collect::<Vec<_>>()
        };
        assert_eq!(wanted(0.0, 1).len(), 0);
        assert_eq!(wanted(1.0, 1).len(), 10_000);
        assert!((2_700..3_300).contains(&wanted(0.3, 1).len()));
        assert_eq!(wanted(0.3, 1), wanted(0.3, 1));
        assert_ne!(wanted(0.3, 1), wanted(0.3, 2));
    }
}
