//! What becomes of a delivery: it is examined, then accepted or compared, then answered.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use trailtrap_shared::plan::{Plan, Unit};

use super::{
    Accepted, ArrivalId, Case, CommitEntry, Confirmed, Core, Effect, Examined, Refusal,
    inquiry::{ACCIDENT, Next},
    lease::{EndedLease, Purpose, WorkerId},
    setbacks::Setback,
};
use crate::records::{
    Delivery, UnitRecord,
    alarm::{Alarm, AlarmKind},
};

/// So many workers' statements about a unit are remembered that could not be read.
const MOST_UNREAD: usize = 8;

/// What was leased: units of a plan.
type Leased = (Arc<Plan>, Vec<Unit>);

/// Results of one lease that are being examined, compared or inquired into.
pub(super) struct Arrival {
    pub(super) worker: WorkerId,
    pub(super) lease: u64,
    /// Whether its worker waits until it is durable.
    durable: bool,
    pub(super) edition: u32,
    pub(super) plan: Arc<Plan>,
    pub(super) outcomes_kept: bool,
    /// The lease, if it was held until now and its units are not accepted.
    pub(super) ended: Option<EndedLease>,
    stage: ArrivalStage,
}

enum ArrivalStage {
    /// The driver has the results.
    Examining,
    /// These are still to be compared with what was accepted before; the record of the first is
    /// being read.
    Comparing(VecDeque<Delivery>),
    /// What the parts of this shard are on record with is being read, since they do not add up.
    Summing { shard: u32, why: String, records: BTreeMap<Unit, UnitRecord> },
    /// An inquiry answers.
    Inquiring,
}

impl Core {
    /// A worker delivers the results of a lease. With `durable` it is answered when they are on
    /// disk, otherwise when they are accepted and there is room for more.
    pub fn deliver(
        &mut self,
        worker: WorkerId,
        lease: u64,
        deliveries: Vec<Delivery>,
        durable: bool,
    ) -> ArrivalId {
        let (arrival, leased) = self.arrive(worker, lease, durable);
        let Some((plan, units)) = leased else { return arrival };
        if deliveries.iter().map(|delivery| delivery.unit).eq(units.iter().copied()) {
            self.emit(Effect::Examine { arrival, plan, deliveries });
        } else {
            let why = "these are not the leased units".to_owned();
            self.reject(arrival, units[0], None, why);
        }
        arrival
    }

    /// A worker delivers under a lease what cannot be read, for this reason.
    pub fn deliver_unreadable(&mut self, worker: WorkerId, lease: u64, why: String) -> ArrivalId {
        let (arrival, leased) = self.arrive(worker, lease, true);
        if let Some((_, units)) = leased {
            self.reject(arrival, units[0], None, why);
        }
        arrival
    }

    /// Something arrives under a lease, and what was leased. If the worker has not held that
    /// lease, the arrival is answered at once.
    fn arrive(
        &mut self,
        worker: WorkerId,
        lease: u64,
        durable: bool,
    ) -> (ArrivalId, Option<Leased>) {
        self.next_arrival += 1;
        let arrival = self.next_arrival;
        let leased = self.leased(worker, lease);
        let Some((plan, _)) = &leased else {
            // Its order is done: the lease ends, so that the coordinator may compare again.
            self.leases.end(worker, lease);
            let refusal = if self.ended.is_some() { Refusal::Ended } else { Refusal::Void };
            self.emit(Effect::Answer { arrival, answer: Err(refusal) });
            return (arrival, None);
        };
        let begun = Arrival {
            worker,
            lease,
            durable,
            edition: self.edition,
            plan: plan.clone(),
            outcomes_kept: self.order.as_ref().is_some_and(|order| order.outcomes_kept),
            ended: None,
            stage: ArrivalStage::Examining,
        };
        self.arrivals.insert(arrival, begun);
        (arrival, leased)
    }

    /// The results of an arrival were examined.
    pub fn examined(&mut self, id: ArrivalId, deliveries: Vec<Delivery>, examined: Examined) {
        let Some(&Arrival { worker, lease, edition, .. }) = self.arrivals.get(&id) else { return };
        if let Examined::Flaw { index, why } = examined {
            let delivery = deliveries.into_iter().nth(index).filter(|_| edition == self.edition);
            return match delivery {
                Some(Delivery { unit, record, .. }) => self.reject(id, unit, Some(record), why),
                None => self.refuse(id, Refusal::Void),
            };
        }
        if self.ended.is_some() || self.closing {
            return self.refuse(id, Refusal::Ended);
        }
        // Blamed since then, it may have held the lease until that expired.
        if let Err(refusal @ Refusal::Distrusted(_)) = self.trusted(worker) {
            return self.refuse(id, refusal);
        }
        if edition == self.edition
            && let Some(index) = self.contradicted_itself(worker, &deliveries)
        {
            let Delivery { unit, record, .. } = deliveries.into_iter().nth(index).expect("found");
            let why = "its worker has stated another one before, which could not be read";
            return self.reject(id, unit, Some(record), why.to_owned());
        }
        let verdict = match examined {
            Examined::Passed => Ok(()),
            Examined::Lacking => {
                if edition == self.edition {
                    self.note_unread(worker, lease, &deliveries);
                }
                // The lease goes on.
                return self.refuse(id, Refusal::Lacking);
            }
            Examined::Gone | Examined::Flaw { .. } => Err(Refusal::Void),
        };
        if verdict.is_ok() && edition == self.edition {
            self.go_on(worker, lease, true);
        }
        let ended = self.leases.end(worker, lease);
        let purpose = ended.as_ref().map(|ended| ended.purpose);
        if let Some(arrival) = self.arrivals.get_mut(&id) {
            arrival.ended = ended;
        }
        match (verdict, purpose) {
            (Err(refusal), _) => self.refuse(id, refusal),
            (Ok(()), _) if edition != self.edition => self.refuse(id, Refusal::Void),
            (Ok(()), Some(Purpose::Solve)) => self.accept(id, deliveries),
            // Others have the units by now; or they are to be solved twice.
            (Ok(()), Some(Purpose::Compare) | None) => self.compare(id, deliveries.into()),
        }
    }

    /// Some of these deliveries cannot be read. Whoever has them on a shelf knows that they were asked
    /// for, and so that their records may be tried: what is stated of all of them is remembered.
    /// Of units that are accepted already it is of no use, unless they are being compared.
    fn note_unread(&mut self, worker: WorkerId, lease: u64, deliveries: &[Delivery]) {
        let (author, is_held) = (self.author(worker), self.leases.is_held(worker, lease));
        for Delivery { unit, sequence, record, .. } in deliveries {
            if !is_held && self.is_accepted(*unit) {
                continue;
            }
            let stated = self.unread.entry(*unit).or_default();
            let is_known = stated.iter().any(|other| other.record.worker.is(&author));
            if !is_known && stated.len() < MOST_UNREAD {
                stated.push(Delivery::of_statement(*unit, *sequence, record.clone()));
            }
        }
    }

    /// The first of these deliveries of which their worker has stated something else before, which
    /// could not be read.
    fn contradicted_itself(&self, worker: WorkerId, deliveries: &[Delivery]) -> Option<usize> {
        let author = self.author(worker);
        deliveries.iter().position(|delivery| {
            let stated = self.unread.get(&delivery.unit).into_iter().flatten();
            let mut own = stated.filter(|before| before.record.worker.is(&author));
            own.any(|before| !before.record.agrees(&delivery.record))
        })
    }

    /// Results that contradict themselves, theory, or what they were computed from: their worker
    /// is not believed. If it is an accident, the unit is solved again from what is read anew,
    /// since a partition that was held in memory may be what is wrong.
    fn reject(&mut self, id: ArrivalId, unit: Unit, record: Option<UnitRecord>, why: String) {
        let Some(arrival) = self.arrivals.get_mut(&id) else { return };
        arrival.stage = ArrivalStage::Inquiring;
        let (worker, plan) = (arrival.worker, arrival.plan.clone());
        let author = self.author(worker);
        let text = format!("a result of {author} was not let in: {why}");
        let sequence = &plan.shard_of(unit).sequence;
        let alarm = Alarm {
            quarantined: record.into_iter().collect(),
            ..self.alarm(AlarmKind::Trial, unit, sequence, text)
        };
        if self.is_accident(&author, &[unit]) {
            let settled = Some(ACCIDENT.to_owned());
            let alarm = Alarm { doubted: vec![unit], settled, ..alarm };
            // What else came of it is void, and no other accident.
            self.void();
            return self.inquire(id, alarm, Next::TakeBack { refusal: Refusal::Void });
        }
        let alarm = self.blaming(author, alarm);
        self.inquire(id, alarm, Next::Distrust { refusal: Refusal::Wrong { unit, why } });
    }

    /// Accepts the results of a lease, if the shards they finish add up.
    fn accept(&mut self, id: ArrivalId, mut deliveries: Vec<Delivery>) {
        let Some(order) = &mut self.order else { return self.refuse(id, Refusal::Void) };
        match order.weigh(&deliveries) {
            Ok(()) => {}
            Err(Refusal::TakenBack { sequence, why }) => {
                let shard = order.plan().find(&sequence).expect("a shard of the plan");
                return self.sum(id, shard, why, deliveries);
            }
            Err(Refusal::Wrong { unit, why }) => {
                let mut deliveries = deliveries.into_iter();
                let record = deliveries.find(|delivery| delivery.unit == unit);
                return self.reject(id, unit, record.map(|delivery| delivery.record), why);
            }
            Err(refusal) => return self.refuse(id, refusal),
        }
        let Some(Arrival { worker, durable, .. }) = self.arrivals.remove(&id) else { return };
        let author = self.author(worker);
        let Some(order) = &mut self.order else { return };
        let mut accepted = Accepted::default();
        for delivery in &mut deliveries {
            delivery.record.instance = self.leases.last();
            delivery.record.inputs = order.schedule.inputs(delivery.unit.shard);
        }
        let deliveries: Vec<Arc<Delivery>> = deliveries.into_iter().map(Arc::new).collect();
        for delivery in &deliveries {
            let Delivery { unit, record, ahead, .. } = &**delivery;
            if order.comparisons.want(*unit) {
                order.comparisons.add(*unit, author.clone());
            }
            let retired = order.schedule.finish(*unit, record.content);
            order.retire(&retired);
            accepted.retired.extend(retired);
            let pairs = order.count(*unit, record, ahead.as_ref());
            self.pace.add(pairs, self.now);
            if let Some(worker) = self.workers.get_mut(&worker) {
                worker.units += 1;
                worker.pairs += pairs;
            }
            self.pending.insert(*unit, delivery.clone());
            self.pending_bytes += record.bytes as usize;
        }
        let stale = order.recall();
        let (retired, urgent) = (order.retired(), order.is_solved());
        for delivery in &deliveries {
            self.contest_unread(delivery.unit, &delivery.record);
        }
        let arrival = durable.then_some(id);
        let entry = CommitEntry {
            deliveries,
            stale,
            retired,
            urgent,
            arrival,
            ..CommitEntry::of(self.edition)
        };
        self.emit(Effect::Commit(entry));
        if durable {
            self.awaited.insert(id, accepted);
        } else {
            self.held_back.push_back((id, accepted));
            self.make_room();
        }
        self.contest_finished();
        self.emit(Effect::Wake);
    }

    /// Whether a unit of the order in work is accepted.
    fn is_accepted(&self, unit: Unit) -> bool {
        self.order().is_some_and(|order| order.schedule.is_finished(unit))
    }

    /// A unit is accepted, or compared: what was stated of it, could not be read, and differs from its
    /// record is to be contested.
    fn contest_unread(&mut self, unit: Unit, accepted: &UnitRecord) {
        let stated = self.unread.remove(&unit).into_iter().flatten();
        let others = stated.filter(|other| !other.record.agrees(accepted));
        self.contests.extend(others.map(|other| (accepted.clone(), other)));
    }

    /// Contests what is to be, in shards that are finished: of these no part lacks a graph.
    fn contest_finished(&mut self) {
        let Some(order) = self.order.as_deref() else { return };
        let contests = std::mem::take(&mut self.contests).into_iter();
        let (ready, waiting): (Vec<_>, Vec<_>) =
            contests.partition(|(_, other)| order.is_shard_finished(other.unit.shard));
        let (plan, outcomes_kept, edition) =
            (order.plan().clone(), order.outcomes_kept, self.edition);
        self.contests = waiting;
        for (accepted, other) in ready {
            let case = Case { plan: plan.clone(), accepted, other, is_readable: false, edition };
            self.contest(None, case, outcomes_kept);
        }
    }

    /// Answers those that were held back, if there is room for more.
    pub(super) fn make_room(&mut self) {
        if self.pending_bytes > self.settings.pending_bytes {
            return;
        }
        for (arrival, accepted) in std::mem::take(&mut self.held_back) {
            self.emit(Effect::Answer { arrival, answer: Ok(accepted) });
        }
    }

    /// The parts of a shard do not add up. Each of them may be the wrong one, so all of them are
    /// solved again by the coordinator.
    fn sum(&mut self, id: ArrivalId, shard: u32, why: String, deliveries: Vec<Delivery>) {
        let pending = self.pending.values().map(|delivery| (delivery.unit, &delivery.record));
        let delivered = deliveries.iter().map(|delivery| (delivery.unit, &delivery.record));
        let of_shard = pending.chain(delivered).filter(|(unit, _)| unit.shard == shard);
        let records = of_shard.map(|(unit, record)| (unit, record.clone())).collect();
        let Some(arrival) = self.arrivals.get_mut(&id) else { return };
        arrival.stage = ArrivalStage::Summing { shard, why, records };
        let units: Vec<Unit> = arrival.plan.parts_of(shard).collect();
        self.emit(Effect::ReadRecords { arrival: id, units });
    }

    /// Compares results with those that were accepted before. They have to be equal.
    fn compare(&mut self, id: ArrivalId, mut deliveries: VecDeque<Delivery>) {
        loop {
            let Some(delivery) = deliveries.front() else { return self.end_comparing(id) };
            let unit = delivery.unit;
            if let Some(pending) = self.pending.get(&unit) {
                let accepted = pending.record.clone();
                let delivery = deliveries.pop_front().expect("just looked at");
                if !self.compare_one(id, accepted, delivery) {
                    return;
                }
                continue;
            }
            // A record of before something was taken back may still be there.
            if self.is_accepted(unit) {
                let Some(arrival) = self.arrivals.get_mut(&id) else { return };
                arrival.stage = ArrivalStage::Comparing(deliveries);
                return self.emit(Effect::ReadRecords { arrival: id, units: vec![unit] });
            }
            deliveries.pop_front();
            if let Some(arrival) = self.arrivals.get(&id) {
                self.leases.came_late(arrival.lease);
            }
        }
    }

    /// The records of the units that were asked for: those that there are.
    pub fn records_read(&mut self, id: ArrivalId, found: Vec<(Unit, UnitRecord)>) {
        let Some(arrival) = self.arrivals.get_mut(&id) else { return };
        let plan = arrival.plan.clone();
        let is_current = arrival.edition == self.edition;
        match std::mem::replace(&mut arrival.stage, ArrivalStage::Inquiring) {
            _ if !is_current => self.refuse(id, Refusal::Void),
            ArrivalStage::Summing { shard, why, mut records } => {
                for (unit, record) in found {
                    records.entry(unit).or_insert(record);
                }
                self.weigh_parts(id, plan, shard, why, records);
            }
            ArrivalStage::Comparing(mut deliveries) => {
                let delivery = deliveries.pop_front();
                let is_equal = match (delivery, found.into_iter().next()) {
                    (Some(delivery), Some((_, accepted))) => {
                        self.compare_one(id, accepted, delivery)
                    }
                    _ => true,
                };
                if is_equal {
                    self.compare(id, deliveries);
                }
            }
            ArrivalStage::Examining | ArrivalStage::Inquiring => {}
        }
    }

    /// Compares a result with the one that was accepted; no if they differ, which is inquired
    /// into.
    fn compare_one(&mut self, id: ArrivalId, accepted: UnitRecord, other: Delivery) -> bool {
        let Some(arrival) = self.arrivals.get(&id) else { return false };
        if !accepted.agrees(&other.record) {
            self.dispute(id, accepted, other);
            return false;
        }
        let by = self.author(arrival.worker);
        if accepted.worker.is(&by) {
            return true;
        }
        let Some(order) = &mut self.order else { return true };
        let unit = other.unit;
        order.comparisons.finish(unit);
        order.to_commit += 1;
        let (retired, urgent) = (order.retired(), order.is_solved());
        let confirmed = vec![Confirmed { unit, by }];
        self.emit(Effect::Commit(CommitEntry {
            confirmed,
            retired,
            urgent,
            ..CommitEntry::of(self.edition)
        }));
        self.decide(unit, &accepted);
        self.contest_unread(unit, &accepted);
        self.contest_finished();
        true
    }

    /// All results of an arrival are equal to those that were accepted.
    fn end_comparing(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get_mut(&id) else { return };
        match arrival.ended.take() {
            Some(ended) => {
                // Those that were compared are not there any more.
                self.make_available(ended, Setback::None);
                self.arrivals.remove(&id);
                self.emit(Effect::Answer { arrival: id, answer: Ok(Accepted::default()) });
                self.after_scrutiny();
                self.emit(Effect::Wake);
            }
            None => self.refuse(id, Refusal::Void),
        }
    }

    /// Ends an arrival with a no; what was leased for it goes to others.
    pub(super) fn refuse(&mut self, id: ArrivalId, refusal: Refusal) {
        let Some(arrival) = self.arrivals.remove(&id) else { return };
        if let Some(ended) = arrival.ended.filter(|_| arrival.edition == self.edition) {
            // What somebody has got wrong is no failure of the unit: liars would set it aside.
            self.make_available(ended, Setback::None);
        }
        self.emit(Effect::Answer { arrival: id, answer: Err(refusal) });
        self.after_scrutiny();
        self.emit(Effect::Wake);
    }

    /// If the order in work is done but for what was being found out, lets the committer know.
    pub(super) fn after_scrutiny(&mut self) {
        if self.is_order_done() {
            self.emit(Effect::Commit(CommitEntry {
                urgent: true,
                ..CommitEntry::of(self.edition)
            }));
        }
    }

    /// Whether the order in work is done and durable, and nothing is being found out about it.
    pub(super) fn is_order_done(&self) -> bool {
        let is_done = |order: &super::Order| order.to_commit == 0 && order.is_solved();
        self.arrivals.is_empty() && self.inquiries.is_empty() && self.order().is_some_and(is_done)
    }
}
