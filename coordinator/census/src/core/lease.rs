//! Who is working on what, and until when that is believed. A pure state machine: time is what the
//! caller says it is.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use trailtrap_shared::plan::Unit;

/// A worker, by a number that is never used again.
pub type WorkerId = u64;

/// The leases that are out.
pub struct LeaseTable {
    /// How long a lease lasts without being renewed.
    term: Duration,
    next: u64,
    leases: BTreeMap<u64, Held>,
    /// The last leases that expired: their results may still come.
    expired: BTreeMap<u64, Expired>,
    /// Their numbers in the order in which they expired, each with how many had before; and those
    /// of leases that have gone on since.
    expiries: VecDeque<(u64, u64)>,
    /// How many leases have expired.
    expirations: u64,
    /// A lease that is renewed this many terms long, and not delivered, goes to whoever has nothing
    /// else to do.
    long: u32,
}

/// So many terms are long, until it is seen that units take longer.
pub(super) const LONG: u32 = 10;
/// So many expired leases are remembered: more than all workers of a large cluster hold, since all
/// expire at once if the coordinator was out of reach for longer than a term.
const EXPIRED: usize = 1 << 16;

/// What units are leased for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// They are open.
    Solve,
    /// They were solved by another worker, and are solved again to compare.
    Compare,
}

/// A lease that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedLease {
    /// The number of the lease.
    pub number: u64,
    /// Who held it.
    pub worker: WorkerId,
    /// What it was for.
    pub purpose: Purpose,
    /// The units that were leased, whatever became of them.
    pub units: Vec<Unit>,
}

struct Held {
    worker: WorkerId,
    purpose: Purpose,
    units: Vec<Unit>,
    /// `None`: until it is given back, for workers that die with the coordinator.
    deadline: Option<Duration>,
    /// When it was granted.
    since: Duration,
    /// If it was renewed to its end, and took too long: how many terms were long then.
    was_long: Option<u32>,
}

struct Expired {
    held: Held,
    /// How many leases had expired before.
    expiration: u64,
}

impl LeaseTable {
    /// A table whose numbers start after those of earlier epochs; epochs must not repeat.
    pub fn new(epoch: u32, term: Duration) -> Self {
        LeaseTable {
            term,
            next: u64::from(epoch) << 32,
            leases: BTreeMap::new(),
            expired: BTreeMap::new(),
            expiries: VecDeque::new(),
            expirations: 0,
            long: LONG,
        }
    }

    /// Leases units to a worker; the number of the lease.
    pub fn grant(
        &mut self,
        worker: WorkerId,
        purpose: Purpose,
        units: Vec<Unit>,
        now: Duration,
    ) -> u64 {
        let deadline = Some(now + self.term);
        self.insert(Held { worker, purpose, units, deadline, since: now, was_long: None })
    }

    /// Leases units to a worker of this process, which needs no deadline.
    pub fn grant_embedded(&mut self, worker: WorkerId, purpose: Purpose, units: Vec<Unit>) -> u64 {
        let since = Duration::ZERO;
        self.insert(Held { worker, purpose, units, deadline: None, since, was_long: None })
    }

    fn insert(&mut self, held: Held) -> u64 {
        self.next += 1;
        self.leases.insert(self.next, held);
        self.next
    }

    /// Renews those leases that the worker holds; of those that have expired it is noted that it is
    /// still at them.
    pub fn renew(&mut self, worker: WorkerId, numbers: &[u64], now: Duration) {
        for number in numbers {
            let held = self.leases.get_mut(number);
            let held = held.or_else(|| Some(&mut self.expired.get_mut(number)?.held));
            if let Some(held) = held.filter(|held| held.worker == worker) {
                held.deadline = held.deadline.map(|_| now + self.term);
            }
        }
    }

    /// Workers that are still at units that their leases were too short for, and what for: they have
    /// said so within a term, and have not taken twice as long yet as a lease may take.
    pub fn still_at(&self, now: Duration) -> impl Iterator<Item = (WorkerId, Purpose, &[Unit])> {
        let longest = 2 * (self.long * self.term);
        let expired = self.expired.values().map(|expired| &expired.held);
        let is_at_it = move |held: &&Held| {
            held.deadline.is_some_and(|deadline| deadline >= now) && held.since + longest > now
        };
        let expired = expired.filter(is_at_it);
        expired.map(|held| (held.worker, held.purpose, &held.units[..]))
    }

    /// The units of a lease that this worker holds, or held until it expired a while ago.
    pub fn get(&self, worker: WorkerId, number: u64) -> Option<&[Unit]> {
        let expired = || self.expired.get(&number).map(|expired| &expired.held);
        let held = self.leases.get(&number).or_else(expired);
        held.filter(|held| held.worker == worker).map(|held| &held.units[..])
    }

    /// Whether a worker holds a lease.
    pub fn is_held(&self, worker: WorkerId, number: u64) -> bool {
        self.leases.get(&number).is_some_and(|held| held.worker == worker)
    }

    /// Ends a lease; `None` if this worker does not hold it (any more).
    pub fn end(&mut self, worker: WorkerId, number: u64) -> Option<EndedLease> {
        self.leases.get(&number).filter(|held| held.worker == worker)?;
        let Held { worker, purpose, units, .. } = self.leases.remove(&number)?;
        Some(EndedLease { number, worker, purpose, units })
    }

    /// Ends all leases of a worker.
    pub fn end_all(&mut self, worker: WorkerId) -> Vec<EndedLease> {
        let numbers: Vec<u64> = self
            .leases
            .iter()
            .filter(|(_, held)| held.worker == worker)
            .map(|(&number, _)| number)
            .collect();
        numbers.into_iter().filter_map(|number| self.end(worker, number)).collect()
    }

    /// Ends all leases, and forgets those that have expired: nobody may deliver what it was
    /// working on.
    pub fn void(&mut self) {
        self.leases.clear();
        self.expired.clear();
        self.expiries.clear();
    }

    /// Ends the leases that are past their deadline.
    pub fn expire(&mut self, now: Duration) -> Vec<EndedLease> {
        let late = |held: &Held| held.deadline.is_some_and(|deadline| deadline < now);
        let numbers: Vec<u64> =
            self.leases.iter().filter(|(_, held)| late(held)).map(|(&number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.expire_one(number)).collect()
    }

    /// Ends the oldest lease that takes much longer than it should, of those that `may_go`, by
    /// number and holder: life alone, which is all that renewing shows, is no progress.
    pub fn expire_long(
        &mut self,
        now: Duration,
        may_go: impl Fn(u64, WorkerId) -> bool,
    ) -> Option<EndedLease> {
        let term = self.long * self.term;
        let is_long = |held: &Held| held.deadline.is_some() && held.since + term < now;
        let mut long = self
            .leases
            .iter()
            .filter(|(number, held)| is_long(held) && may_go(**number, held.worker));
        let number = *long.next()?.0;
        let ended = self.expire_one(number);
        if let Some(Expired { held, .. }) = self.expired.get_mut(&number) {
            held.was_long = Some(self.long);
        }
        ended
    }

    /// Results came under a lease that has expired, and nobody else has delivered them yet: if it
    /// was ended because it took long, units take longer than was thought, and from now on twice as
    /// long is long. Else whoever gets such a unit might lose it before it is done. Several that
    /// were ended before one of them came tell no more than that one: if each counted, there would
    /// soon be nothing that is long.
    pub fn came_late(&mut self, number: u64) {
        if let Some(Expired { held, .. }) = self.expired.get_mut(&number)
            && held.was_long.take() == Some(self.long)
        {
            self.long = self.long.saturating_mul(2);
        }
    }

    /// The units that a worker was to solve under a lease that has expired, if it may have them
    /// again: when it delivers them; or when it is heard of, if it did not take long.
    pub fn late(&self, worker: WorkerId, number: u64, delivers: bool) -> Option<&[Unit]> {
        let held = &self.expired.get(&number)?.held;
        if held.worker != worker {
            return None;
        }
        let may_go_on = held.purpose == Purpose::Solve && (delivers || held.was_long.is_none());
        may_go_on.then_some(&held.units[..])
    }

    /// A lease that has expired goes on: nobody else has its units.
    pub fn go_on(&mut self, number: u64, now: Duration) {
        if let Some(Expired { held, .. }) = self.expired.remove(&number) {
            self.leases.insert(number, Held { deadline: Some(now + self.term), ..held });
        }
    }

    fn expire_one(&mut self, number: u64) -> Option<EndedLease> {
        let held = self.leases.remove(&number)?;
        let Held { worker, purpose, ref units, .. } = held;
        let ended = EndedLease { number, worker, purpose, units: units.clone() };
        let expiration = self.expirations;
        self.expirations += 1;
        self.expired.insert(number, Expired { held, expiration });
        self.expiries.push_back((number, expiration));
        if self.expiries.len() > EXPIRED
            && let Some((oldest, expiration)) = self.expiries.pop_front()
            && self.expired.get(&oldest).is_some_and(|known| known.expiration == expiration)
        {
            self.expired.remove(&oldest);
        }
        Some(ended)
    }

    /// The largest number that any lease has had.
    pub fn last(&self) -> u64 {
        self.next
    }

    /// The largest number that any lease of this epoch can have: its lower 32 bits are ones.
    pub fn last_possible(&self) -> u64 {
        self.next | u64::from(u32::MAX)
    }

    /// Number of units that are leased.
    pub fn units(&self) -> usize {
        self.leases.values().map(|held| held.units.len()).sum()
    }

    /// Number of units that are leased, by worker.
    pub fn held(&self) -> BTreeMap<WorkerId, usize> {
        let mut by_worker = BTreeMap::new();
        for held in self.leases.values() {
            *by_worker.entry(held.worker).or_default() += held.units.len();
        }
        by_worker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(60);

    fn unit(shard: u32) -> Unit {
        Unit { order: 9, shard, part: 0 }
    }

    fn ended(number: u64, worker: WorkerId, purpose: Purpose, units: Vec<Unit>) -> EndedLease {
        EndedLease { number, worker, purpose, units }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_worker_loses_its_lease_and_a_renewing_one_does_not() {
        let mut table = LeaseTable::new(1, TERM);
        let silent = table.grant(1, Purpose::Solve, vec![unit(1)], at(0));
        let alive = table.grant(2, Purpose::Compare, vec![unit(2)], at(0));
        table.renew(2, &[alive], at(50));
        assert!(table.expire(at(60)).is_empty());
        assert_eq!(table.expire(at(61)), [ended(silent, 1, Purpose::Solve, vec![unit(1)])]);
        assert!(table.expire(at(110)).is_empty());
        assert_eq!(table.expire(at(111)), [ended(alive, 2, Purpose::Compare, vec![unit(2)])]);
        assert_eq!(table.units(), 0);
    }

    #[test]
    fn a_late_result_finds_its_lease_void() {
        let mut table = LeaseTable::new(1, TERM);
        let first = table.grant(1, Purpose::Solve, vec![unit(7)], at(0));
        table.expire(at(100));
        let second = table.grant(2, Purpose::Solve, vec![unit(7)], at(100));
        assert_ne!(first, second);
        table.renew(1, &[first, second], at(120));
        assert_eq!(table.get(1, first), Some(&[unit(7)][..]), "what was held, for comparison");
        assert_eq!(table.get(2, first), None);
        assert_eq!(table.get(2, second), Some(&[unit(7)][..]));
        assert_eq!(table.end(1, first), None);
        assert_eq!(table.end(1, second), None, "a lease of somebody else");
        assert_eq!(table.end(2, second), Some(ended(second, 2, Purpose::Solve, vec![unit(7)])));
        assert_eq!(table.end(2, second), None, "delivered twice");
    }

    #[test]
    fn whoever_was_late_may_go_on_and_whoever_took_long_may_not() {
        let mut table = LeaseTable::new(1, TERM);
        let late = table.grant(1, Purpose::Solve, vec![unit(1)], at(0));
        let comparing = table.grant(1, Purpose::Compare, vec![unit(2)], at(0));
        assert_eq!(table.late(1, late, false), None, "it is held");
        assert_eq!(table.expire(at(61)).len(), 2);
        assert_eq!(table.late(1, late, false), Some(&[unit(1)][..]));
        assert_eq!((table.late(2, late, true), table.late(1, comparing, true)), (None, None));
        table.go_on(late, at(61));
        assert_eq!((table.late(1, late, false), table.units()), (None, 1));
        assert!(table.expire(at(121)).is_empty());
        table.renew(1, &[late], at(601));
        assert!(table.expire_long(at(601), |_, _| true).is_some());
        assert_eq!(table.late(1, late, false), None);
        assert_eq!(table.late(1, late, true), Some(&[unit(1)][..]));
    }

    /// After an outage all leases expire at once, and all workers are there.
    #[test]
    fn the_leases_that_expired_last_are_remembered() {
        let mut table = LeaseTable::new(1, TERM);
        let grant = |table: &mut LeaseTable, now| table.grant(1, Purpose::Solve, vec![], at(now));
        let oldest = grant(&mut table, 0);
        let all: Vec<u64> = (1..EXPIRED).map(|_| grant(&mut table, 10)).collect();
        table.renew(1, &[oldest], at(50));
        assert_eq!(table.expire(at(71)).len(), EXPIRED - 1);
        assert_eq!(table.expire(at(111)).len(), 1);
        assert!(all.iter().all(|&number| table.late(1, number, true).is_some()));
        let newest = grant(&mut table, 200);
        table.expire(at(300));
        // The one that expired first is forgotten, and not the one that was granted first.
        let is_known = |number: u64| table.late(1, number, true).is_some();
        assert!(is_known(oldest) && is_known(newest) && !is_known(all[0]) && is_known(all[1]));
        // Those that go on and expire again have expired last.
        table.go_on(all[1], at(400));
        assert_eq!(table.expire(at(500)).len(), 1);
        for _ in 0..EXPIRED / 2 {
            grant(&mut table, 600);
        }
        table.expire(at(700));
        let is_known = |number: u64| table.late(1, number, true).is_some();
        assert!(is_known(all[1]) && !is_known(all[2]));
    }

    #[test]
    fn whoever_renews_for_ever_loses_its_lease_to_those_who_want_it() {
        let mut table = LeaseTable::new(1, TERM);
        let hung = table.grant(1, Purpose::Solve, vec![unit(1)], at(0));
        let young = table.grant(1, Purpose::Solve, vec![unit(2)], at(500));
        table.grant_embedded(3, Purpose::Solve, vec![unit(3)]);
        let renew = |table: &mut LeaseTable, now: u64| {
            table.renew(1, &[hung, young], at(now));
            assert!(table.expire(at(now)).is_empty());
        };
        (0..=600).step_by(50).for_each(|now| renew(&mut table, now));
        assert_eq!(table.expire_long(at(600), |_, _| true), None);
        renew(&mut table, 601);
        assert_eq!(table.expire_long(at(601), |_, holder| holder != 1), None);
        assert_eq!(table.expire_long(at(601), |number, _| number != hung), None);
        let ended = ended(hung, 1, Purpose::Solve, vec![unit(1)]);
        assert_eq!(table.expire_long(at(601), |_, _| true), Some(ended));
        assert_eq!(table.expire_long(at(601), |_, _| true), None);
        assert_eq!(table.get(1, hung), Some(&[unit(1)][..]), "its result may still come");
    }

    /// Two workers take longer for a unit than is thought long, again and again.
    #[test]
    fn what_comes_late_shows_that_more_time_is_needed() {
        let mut table = LeaseTable::new(1, TERM);
        let first = table.grant(1, Purpose::Solve, vec![unit(1)], at(0));
        table.renew(1, &[first], at(601));
        assert!(table.expire_long(at(601), |_, _| true).is_some());
        let second = table.grant(2, Purpose::Solve, vec![unit(1)], at(601));
        table.came_late(first);
        table.came_late(first);
        table.renew(2, &[second], at(1801));
        assert_eq!(table.expire_long(at(1801), |_, _| true), None);
        assert!(table.expire_long(at(1802), |_, _| true).is_some(), "it may have hung");
        // Of a worker that was not heard of that says nothing.
        let silent = table.grant(1, Purpose::Solve, vec![unit(2)], at(2000));
        table.expire(at(2061));
        table.came_late(silent);
        let third = table.grant(2, Purpose::Solve, vec![unit(2)], at(2061));
        table.renew(2, &[third], at(3262));
        assert!(table.expire_long(at(3262), |_, _| true).is_some());
    }

    /// Many that take long go to others before the first of them is done, and all come late:
    /// whoever hangs afterwards is waited for twice as long, and not for ever.
    #[test]
    fn what_was_long_at_the_same_time_tells_once_that_more_time_is_needed() {
        let mut table = LeaseTable::new(1, TERM);
        let grant = |table: &mut LeaseTable, shard: u32, now: u64| {
            table.grant(1, Purpose::Solve, vec![unit(shard)], at(now))
        };
        let slow: Vec<u64> = (0..40).map(|shard| grant(&mut table, shard, 0)).collect();
        for _ in &slow {
            assert!(table.expire_long(at(601), |_, _| true).is_some());
        }
        let hung = grant(&mut table, 40, 601);
        slow.iter().for_each(|&lease| table.came_late(lease));
        assert_eq!(table.expire_long(at(1801), |_, _| true), None);
        assert!(table.expire_long(at(1802), |_, _| true).is_some());
        // That one comes late as well.
        table.came_late(hung);
        grant(&mut table, 41, 1802);
        assert_eq!(table.expire_long(at(4202), |_, _| true), None);
        assert!(table.expire_long(at(4203), |_, _| true).is_some());
    }

    #[test]
    fn numbers_do_not_repeat_over_restarts() {
        let mut before = LeaseTable::new(3, TERM);
        let mut after = LeaseTable::new(4, TERM);
        let old = (0..1000).map(|_| before.grant(1, Purpose::Solve, vec![], at(0))).max();
        assert!(Some(before.last_possible()) >= old);
        let new = after.grant(1, Purpose::Solve, vec![], at(0));
        assert!(before.last_possible() < new && new <= after.last_possible());
    }

    #[test]
    fn embedded_leases_do_not_expire() {
        let mut table = LeaseTable::new(1, TERM);
        let number = table.grant_embedded(0, Purpose::Solve, vec![unit(1), unit(2)]);
        assert!(table.expire(at(1 << 30)).is_empty());
        assert_eq!(table.held(), [(0, 2)].into());
        assert_eq!(
            table.end(0, number),
            Some(ended(number, 0, Purpose::Solve, vec![unit(1), unit(2)]))
        );
    }

    #[test]
    fn void_leases_are_nobodys() {
        let mut table = LeaseTable::new(1, TERM);
        let expired = table.grant(1, Purpose::Solve, vec![unit(1)], at(0));
        table.expire(at(100));
        let held = table.grant(1, Purpose::Solve, vec![unit(2)], at(100));
        let others = table.grant(2, Purpose::Solve, vec![unit(3)], at(100));
        assert_eq!(table.end_all(1), [ended(held, 1, Purpose::Solve, vec![unit(2)])]);
        table.void();
        assert!(table.get(1, expired).is_none() && table.get(2, others).is_none());
        assert_eq!(table.units(), 0);
    }
}
