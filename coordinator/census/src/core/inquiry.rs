//! What is done about an alarm: it is kept, the culprit is found, and what is doubted is taken
//! back. Whatever is done about an alarm is done after it is durable.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::Content,
    plan::{Plan, Unit},
};

use super::{
    ArrivalId, COORDINATOR, Case, Core, DisputeVerdict, Effect, Fault, Instance, Refusal, Suspect,
    Worker, WorkerId, setbacks::Setback,
};
use crate::records::{
    Author, Delivery, UnitRecord,
    alarm::{Alarm, AlarmKind},
};

/// What settles the alarm about an accident.
pub(super) const ACCIDENT: &str = "taken for an accident of this machine: it is solved again";

/// So many damaged blocks of graphs of the order in work with as many edges cost only their units.
/// When there are more, others are likely to be damaged as well, and each would take its turn: then
/// all units with so many edges are taken back. The next time it takes twice as many.
const MOST_DAMAGES: usize = 3;

/// A census has so many accidents at most. What goes wrong after them, or twice in one unit, is
/// the fault of the machine or of the program.
const MOST_ACCIDENTS: usize = 3;

/// What is being done about an alarm.
pub(super) struct Inquiry {
    /// Whom to answer when all is known.
    arrival: Option<ArrivalId>,
    next: Next,
}

/// What comes next: in most cases, when the alarm is durable.
pub(super) enum Next {
    /// Find out which of two results is wrong.
    Judge { case: Box<Case> },
    /// The verdict is awaited.
    Judging { dispute: Dispute },
    /// Find out which parts of a shard are wrong.
    Weigh { parts: WeighedParts },
    /// They are being solved again.
    Weighing { parts: WeighedParts },
    /// Those whom the alarm blames get no more work, and what they did is traced.
    Distrust { refusal: Refusal },
    /// What they did is being read.
    Tracing { refusal: Refusal },
    /// What the alarm doubts is taken back.
    TakeBack { refusal: Refusal },
    /// The census ends, for this reason: solving what the alarm doubts again does not help.
    End { refusal: Refusal, why: String },
}

/// Two results that differ.
pub(super) struct Dispute {
    unit: Unit,
    first: Author,
    second: Author,
    edition: u32,
}

/// The parts of a shard, which do not add up.
pub(super) struct WeighedParts {
    plan: Arc<Plan>,
    records: BTreeMap<Unit, UnitRecord>,
    edition: u32,
    sequence: DegreeSequence,
    why: String,
}

/// What a worker has done since a result of it was last confirmed by another worker.
pub struct Trace {
    worker: Author,
    /// What was not confirmed.
    units: Vec<Instance>,
    /// The largest number of what was.
    confirmed: u64,
}

impl Trace {
    /// Begins with what is accepted and not durable.
    pub fn new(suspect: Suspect) -> Self {
        Trace { worker: suspect.worker, units: suspect.pending, confirmed: 0 }
    }

    /// Considers a unit that the store holds. What those who are blamed have confirmed says nothing.
    pub fn add(&mut self, unit: Unit, record: &UnitRecord, blamed: &[Author]) {
        if record.worker.is(&self.worker) {
            match record.is_confirmed(blamed) {
                true => self.confirmed = self.confirmed.max(record.instance),
                false => self.units.push(Instance { number: record.instance, unit }),
            }
        }
    }

    /// The units. What was accepted together with a result that was confirmed, or while nobody
    /// got work, may have been done after it.
    pub fn finish(self) -> impl Iterator<Item = Unit> {
        let confirmed = self.confirmed;
        let later = self.units.into_iter().filter(move |instance| instance.number >= confirmed);
        later.map(|instance| instance.unit)
    }
}

/// A block in the store that is damaged or missing.
#[derive(Debug)]
pub struct Damage {
    /// The unit that the block belongs to.
    pub unit: Unit,
    /// Its degree sequence.
    pub sequence: DegreeSequence,
    /// What the store knows of the unit.
    pub record: UnitRecord,
    /// What is wrong with the block.
    pub text: String,
    /// The edition in which it was read.
    pub edition: u32,
}

impl Core {
    /// An alarm of this moment.
    pub(super) fn alarm(
        &self,
        kind: AlarmKind,
        unit: Unit,
        sequence: &DegreeSequence,
        text: String,
    ) -> Alarm {
        let time = self.settings.unix_seconds + self.now.as_secs();
        Alarm { last_instance: self.leases.last(), ..Alarm::at(time, kind, unit, sequence, text) }
    }

    /// The same alarm, which blames this worker. Until it gets no more work, any lease of this run
    /// may be the last one that it delivers under.
    pub(super) fn blaming(&self, author: Author, alarm: Alarm) -> Alarm {
        Alarm { blamed: vec![author], last_instance: self.leases.last_possible(), ..alarm }
    }

    /// Whether what a worker has done wrong in these units counts as an accident: it is in the
    /// coordinator's own process, where nobody lies, and there were few accidents before, none of
    /// them in one of these units.
    pub(super) fn is_accident(&self, author: &Author, units: &[Unit]) -> bool {
        let is_own = |worker: &Worker| worker.embedded && worker.author.is(author);
        let is_one = |alarm: &&Arc<Alarm>| alarm.settled.as_deref() == Some(ACCIDENT);
        let before: Vec<&Arc<Alarm>> = self.alarms.values().filter(is_one).collect();
        let is_again = |alarm: &&Arc<Alarm>| alarm.doubted.iter().any(|unit| units.contains(unit));
        self.workers.values().any(is_own)
            && before.len() < MOST_ACCIDENTS
            && !before.iter().any(is_again)
    }

    /// Whether a worker of the coordinator's own process has delivered this.
    fn is_own(&self, arrival: Option<ArrivalId>) -> bool {
        let arrival = arrival.and_then(|id| self.arrivals.get(&id));
        let worker = arrival.and_then(|arrival| self.workers.get(&arrival.worker));
        worker.is_some_and(|worker| worker.embedded)
    }

    /// Whether an alarm about the sums of these units is open, other than that of this number, so
    /// that taking back does not help.
    fn was_summed_up(&self, units: &[Unit], but_for: Option<u32>) -> bool {
        let is_open = |alarm: &Alarm| alarm.kind == AlarmKind::Sum && alarm.settled.is_none();
        self.alarms.iter().any(|(&number, alarm)| {
            Some(number) != but_for && is_open(alarm) && alarm.doubted == units
        })
    }

    /// Raises an alarm: keeps it, and goes on when it is durable.
    pub(super) fn inquire(&mut self, arrival: ArrivalId, alarm: Alarm, next: Next) {
        self.raise(Some(arrival), alarm, next);
    }

    fn raise(&mut self, arrival: Option<ArrivalId>, alarm: Alarm, next: Next) {
        let number = self.alarms.last_key_value().map_or(1, |(number, _)| number + 1);
        self.inquiries.insert(number, Inquiry { arrival, next });
        self.keep(number, alarm);
    }

    fn keep(&mut self, number: u32, alarm: Alarm) {
        let alarm = Arc::new(alarm);
        self.alarms.insert(number, alarm.clone());
        self.emit(Effect::KeepAlarm { number, alarm });
    }

    /// An alarm is durable.
    pub fn alarm_kept(&mut self, number: u32) {
        let Some(Inquiry { arrival, next }) = self.inquiries.remove(&number) else { return };
        match next {
            Next::Judge { case } => {
                let dispute = Dispute {
                    unit: case.other.unit,
                    first: case.accepted.worker.clone(),
                    second: case.other.record.worker.clone(),
                    edition: case.edition,
                };
                let next = Next::Judging { dispute };
                self.inquiries.insert(number, Inquiry { arrival, next });
                self.emit(Effect::Judge { alarm: number, case });
            }
            Next::Distrust { refusal } => self.distrust(number, arrival, refusal),
            Next::TakeBack { refusal } => {
                let doubted = self.alarms[&number].doubted.clone();
                if !doubted.is_empty() {
                    self.take_back(doubted);
                }
                match arrival {
                    Some(id) => self.refuse(id, refusal),
                    None => self.after_scrutiny(),
                }
                self.emit(Effect::Wake);
            }
            Next::End { refusal, why } => {
                if let Some(id) = arrival {
                    self.refuse(id, refusal);
                }
                self.end(Err(Fault::Faulty(why)));
            }
            Next::Weigh { parts } => {
                let (plan, units) = (parts.plan.clone(), parts.records.keys().copied().collect());
                let next = Next::Weighing { parts };
                self.inquiries.insert(number, Inquiry { arrival, next });
                self.emit(Effect::Solve { alarm: number, plan, units });
            }
            next @ (Next::Judging { .. } | Next::Weighing { .. } | Next::Tracing { .. }) => {
                self.inquiries.insert(number, Inquiry { arrival, next });
            }
        }
    }

    /// What a worker stated of a unit that it counted again for the coordinator is not what the
    /// coordinator has counted: that worker is not believed any more.
    pub fn miscounted(&mut self, worker: WorkerId, unit: Unit, sequence: &DegreeSequence) {
        let has_more = |worker: &&Worker| !worker.distrusted;
        let Some(by) = self.workers.get(&worker).filter(has_more) else { return };
        let author = by.author.clone();
        let text = format!("{author} has counted a unit of another worker again, and miscounted");
        let alarm = self.alarm(AlarmKind::Trial, unit, sequence, text);
        let alarm = self.blaming(author, alarm);
        self.raise(None, alarm, Next::Distrust { refusal: Refusal::Void });
    }

    /// The parts of a shard do not add up. Solving them again takes a while, and must not be what
    /// the alarm waits for.
    pub(super) fn weigh_parts(
        &mut self,
        id: ArrivalId,
        plan: Arc<Plan>,
        shard: u32,
        why: String,
        records: BTreeMap<Unit, UnitRecord>,
    ) {
        let sequence = plan.shards[shard as usize].sequence;
        let units: Vec<Unit> = records.keys().copied().collect();
        let Some(&first) = units.first() else { return self.refuse(id, Refusal::Void) };
        let alarm = Alarm {
            doubted: units,
            quarantined: records.values().take(Alarm::MOST_QUARANTINED).cloned().collect(),
            ..self.alarm(AlarmKind::Sum, first, &sequence, why.clone())
        };
        let parts = WeighedParts { plan, records, edition: self.edition, sequence, why };
        self.inquire(id, alarm, Next::Weigh { parts });
    }

    /// The parts of a shard that do not add up were solved in this process, or could not be, for
    /// this reason: then nobody is blamed.
    pub fn solved(&mut self, number: u32, solved: Result<Vec<(Unit, UnitRecord)>, String>) {
        let Some(inquiry) = self.inquiries.remove(&number) else { return };
        let Inquiry { arrival, next: Next::Weighing { parts } } = inquiry else {
            self.inquiries.insert(number, inquiry);
            return;
        };
        let WeighedParts { records, edition, sequence, why, .. } = parts;
        let refusal = Refusal::TakenBack { sequence, why: why.clone() };
        let solved = match edition == self.edition {
            true => solved,
            // What was read may not be what they were computed from.
            false => Err("units were taken back meanwhile".to_owned()),
        };
        match solved {
            Ok(solved) => {
                let right: BTreeMap<Unit, UnitRecord> = solved.into_iter().collect();
                let is_wrong = |(unit, record): &(Unit, UnitRecord)| {
                    right.get(unit).is_none_or(|right| !right.agrees(record))
                };
                let wrong: Vec<(Unit, UnitRecord)> =
                    records.into_iter().filter(is_wrong).collect();
                if wrong.is_empty() {
                    // The machine of the coordinator, or the program, is wrong in all of them.
                    let text = format!("{why}; solved again, the coordinator came to the same");
                    let why = format!("solved again, {why}");
                    return self.end_after(number, arrival, text, Next::End { refusal, why });
                }
                let (doubted, quarantined): (Vec<Unit>, Vec<UnitRecord>) =
                    wrong.into_iter().unzip();
                let mut authors: Vec<Author> = Vec::new();
                for record in &quarantined {
                    if !authors.contains(&record.worker) {
                        authors.push(record.worker.clone());
                    }
                }
                let names: Vec<String> = authors.iter().map(Author::to_string).collect();
                let is_accident = authors.iter().all(|author| self.is_accident(author, &doubted));
                let Some(alarm) = self.alarms.get_mut(&number).map(Arc::make_mut) else { return };
                (alarm.doubted, alarm.quarantined) = (doubted, quarantined);
                alarm.text = format!("{why}; solved again, wrong is that of {}", names.join("; "));
                if is_accident {
                    alarm.settled = Some(ACCIDENT.to_owned());
                } else {
                    alarm.blamed = authors;
                }
            }
            Err(unknown) => {
                let text = format!("{why}; which part is wrong could not be told ({unknown})");
                let Some(alarm) = self.alarms.get(&number) else { return };
                if self.is_own(arrival) && self.was_summed_up(&alarm.doubted, Some(number)) {
                    // Nobody else will solve it.
                    let why = format!("{why} ({unknown})");
                    return self.end_after(number, arrival, text, Next::End { refusal, why });
                }
                let Some(alarm) = self.alarms.get_mut(&number).map(Arc::make_mut) else { return };
                alarm.text = text;
            }
        }
        self.distrust(number, arrival, refusal);
    }

    /// Ends the census like this, as soon as it is durable that the alarm of this number says so.
    fn end_after(&mut self, number: u32, arrival: Option<ArrivalId>, text: String, end: Next) {
        let Some(alarm) = self.alarms.get(&number) else { return };
        let alarm = Alarm { text, ..Alarm::clone(alarm) };
        self.inquiries.insert(number, Inquiry { arrival, next: end });
        self.keep(number, alarm);
    }

    /// What arrives is not what was accepted.
    pub(super) fn dispute(&mut self, id: ArrivalId, accepted: UnitRecord, other: Delivery) {
        let arrival = &self.arrivals[&id];
        let (plan, edition) = (arrival.plan.clone(), arrival.edition);
        let outcomes_kept = arrival.outcomes_kept;
        let case = Case { plan, accepted, other, is_readable: true, edition };
        self.contest(Some(id), case, outcomes_kept);
    }

    /// Two computations of a unit differ. Finding out who is wrong takes a while, and must not be
    /// what the alarm waits for.
    pub(super) fn contest(&mut self, arrival: Option<ArrivalId>, case: Case, outcomes_kept: bool) {
        let Case { accepted, other, .. } = &case;
        let (first, second) = (&accepted.worker, &other.record.worker);
        let text = format!("computations by {first} and by {second} differ");
        let alarm = Alarm {
            // Should this run end before it is known who is wrong, the unit is solved again; but
            // not if what it was computed from may have gone: then its whole order would have to
            // be, whenever somebody says something else, however late. Nor if the other one is there
            // for nobody.
            doubted: if outcomes_kept && case.is_readable { vec![other.unit] } else { Vec::new() },
            quarantined: vec![accepted.clone(), other.record.clone()],
            ..self.alarm(AlarmKind::Disagreement, other.unit, &other.sequence, text)
        };
        self.raise(arrival, alarm, Next::Judge { case: Box::new(case) });
    }

    /// The fewest edges of units of the order in work that are judged, or are about to be taken back;
    /// none at all while it is traced what somebody did, as anything of that may be taken back.
    pub(super) fn first_disputed(&self) -> Option<usize> {
        let plan = self.plan()?;
        let is_traced = |inquiry: &Inquiry| {
            matches!(inquiry.next, Next::Distrust { .. } | Next::Tracing { .. })
        };
        if self.inquiries.values().any(is_traced) {
            return Some(0);
        }
        // What was read in an earlier edition is judged for nobody.
        let judged = self.inquiries.values().filter_map(|inquiry| match &inquiry.next {
            Next::Judge { case } => Some((case.other.unit, case.edition)),
            Next::Judging { dispute } => Some((dispute.unit, dispute.edition)),
            _ => None,
        });
        let judged = judged.filter(|&(_, edition)| edition == self.edition).map(|(unit, _)| unit);
        let doubted = self.inquiries.keys().flat_map(|number| &self.alarms[number].doubted);
        // A trace may lead to other orders, and to what the plan in work leaves out.
        let disputed = judged.chain(doubted.copied());
        let disputed = disputed.filter(|unit| usize::from(unit.order) == plan.order);
        disputed.filter_map(|unit| Some(plan.shards.get(unit.shard as usize)?.size)).min()
    }

    /// It was found out which of two results is wrong.
    pub fn judged(&mut self, number: u32, verdict: DisputeVerdict) {
        let Some(inquiry) = self.inquiries.remove(&number) else { return };
        let Inquiry { arrival, next: Next::Judging { dispute } } = inquiry else {
            self.inquiries.insert(number, inquiry);
            return;
        };
        let verdict = match dispute.edition == self.edition {
            true => verdict,
            // What was read may not be what they were computed from.
            false => DisputeVerdict::Unknown("units were taken back meanwhile".to_owned()),
        };
        let is_accident = self.is_accident(&dispute.first, &[dispute.unit]);
        let Some(alarm) = self.alarms.get_mut(&number).map(Arc::make_mut) else { return };
        alarm.text = format!("{}: {verdict}", alarm.text);
        let why = alarm.text.clone();
        let refusal = match verdict {
            DisputeVerdict::First(_) => {
                match is_accident {
                    true => alarm.settled = Some(ACCIDENT.to_owned()),
                    false => alarm.blamed.push(dispute.first),
                }
                alarm.doubted = vec![dispute.unit];
                alarm.quarantined.truncate(1);
                Refusal::Void
            }
            DisputeVerdict::Both(_) => {
                alarm.blamed.extend([dispute.first, dispute.second]);
                alarm.doubted = vec![dispute.unit];
                Refusal::Wrong { unit: dispute.unit, why }
            }
            DisputeVerdict::Second | DisputeVerdict::SecondFor(_) => {
                alarm.blamed.push(dispute.second);
                alarm.quarantined.remove(0);
                alarm.doubted.clear();
                Refusal::Wrong { unit: dispute.unit, why }
            }
            DisputeVerdict::Unknown(_) => Refusal::Void,
        };
        self.distrust(number, arrival, refusal);
    }

    /// The units of which two results differ, and it is not known which is wrong; with what the one
    /// on record was computed from.
    pub fn disputed(&self) -> BTreeMap<Unit, Content> {
        let undecided = self.alarms.values().filter(|alarm| alarm.is_undecided());
        undecided.map(|alarm| (alarm.unit, alarm.quarantined[0].inputs)).collect()
    }

    /// Two workers agree on a unit. So it is known now who was wrong where two differed about it, if
    /// nobody was blamed for that; unless they computed it from something else.
    pub(super) fn decide(&mut self, unit: Unit, right: &UnitRecord) {
        let undecided = |(number, alarm): &(&u32, &mut Arc<Alarm>)| {
            // The first of the two was on record, with what both read.
            let has_read_the_same = || alarm.quarantined[0].inputs == right.inputs;
            alarm.unit == unit
                && alarm.is_undecided()
                && has_read_the_same()
                && !self.inquiries.contains_key(number)
        };
        let mut decided = Vec::new();
        for (&number, alarm) in self.alarms.iter_mut().filter(undecided) {
            let alarm = Arc::make_mut(alarm);
            alarm.quarantined.retain(|record| !record.agrees(right));
            alarm.blamed = alarm.quarantined.iter().map(|record| record.worker.clone()).collect();
            let names: Vec<String> = alarm.blamed.iter().map(Author::to_string).collect();
            alarm.text += &format!("; as two agree now, wrong is that of {}", names.join("; "));
            // What is on record is right.
            alarm.doubted.clear();
            decided.push(number);
        }
        decided.into_iter().for_each(|number| self.distrust(number, None, Refusal::Void));
    }

    /// Gives those whom an alarm blames no more work, and finds out what they did since a result
    /// of them was last confirmed.
    fn distrust(&mut self, number: u32, arrival: Option<ArrivalId>, refusal: Refusal) {
        let blamed = self.alarms[&number].blamed.clone();
        let mut ended = Vec::new();
        for (&id, worker) in &mut self.workers {
            if blamed.iter().any(|blamed| blamed.is(&worker.author)) {
                worker.distrusted = true;
                ended.extend(self.leases.end_all(id));
            }
        }
        if blamed.iter().any(|blamed| blamed.is(&Author::coordinator())) {
            ended.extend(self.leases.end_all(COORDINATOR));
        }
        ended.into_iter().for_each(|ended| self.make_available(ended, Setback::None));
        if let Some(alarm) = self.alarms.get_mut(&number).map(Arc::make_mut) {
            // Nothing of theirs is accepted from here on.
            alarm.last_instance = self.leases.last();
        }
        self.inquiries.insert(number, Inquiry { arrival, next: Next::Tracing { refusal } });
        if blamed.is_empty() {
            return self.traced(number, Vec::new());
        }
        let suspect = |worker: Author| {
            let theirs =
                self.pending.values().filter(|delivery| delivery.record.worker.is(&worker));
            let instance = |delivery: &Arc<Delivery>| Instance {
                number: delivery.record.instance,
                unit: delivery.unit,
            };
            let pending = theirs.map(instance).collect();
            Suspect { worker, pending }
        };
        let workers = blamed.into_iter().map(suspect).collect();
        let blamed = self.blamed().cloned().collect();
        self.emit(Effect::Trace { alarm: number, workers, blamed });
    }

    /// What those whom an alarm blames did since a result of theirs was last confirmed.
    pub fn traced(&mut self, number: u32, units: Vec<Unit>) {
        let Some(inquiry) = self.inquiries.get_mut(&number) else { return };
        let Next::Tracing { refusal } = &inquiry.next else { return };
        inquiry.next = Next::TakeBack { refusal: refusal.clone() };
        let Some(alarm) = self.alarms.get(&number) else { return };
        let mut alarm = Alarm::clone(alarm);
        alarm.doubted.extend(units);
        alarm.doubted.sort_unstable();
        alarm.doubted.dedup();
        if !alarm.doubted.is_empty() {
            alarm.text += &format!("; {} units are solved again", alarm.doubted.len());
        }
        self.keep(number, alarm);
    }

    /// Counts of an order contradict theory; these are the units with so many edges, and the
    /// records of the first of them, which are kept with the alarm. All of the units are taken
    /// back, unless that was tried.
    pub fn contradicted(
        &mut self,
        plan: &Plan,
        contradiction: Box<dyn Error + Send + Sync>,
        units: Vec<Unit>,
        quarantined: Vec<UnitRecord>,
    ) {
        let Some(&first) = units.first().filter(|_| !self.was_summed_up(&units, None)) else {
            return self.end(Err(Fault::Contradiction(contradiction)));
        };
        let count = units.len();
        let text =
            format!("{contradiction}; all {count} units with so many edges are solved again");
        let sequence = &plan.shard_of(first).sequence;
        let alarm = Alarm {
            doubted: units,
            quarantined,
            ..self.alarm(AlarmKind::Sum, first, sequence, text)
        };
        self.raise(None, alarm, Next::TakeBack { refusal: Refusal::Void });
    }

    /// Notes that a block of graphs of this order with so many edges is damaged; whether so many were
    /// found that others are likely to be damaged as well.
    fn is_one_of_many(&mut self, order: usize, size: usize) -> bool {
        let (found, most) = self.damages.entry((order, size)).or_insert((0, MOST_DAMAGES));
        *found += 1;
        let is_too_many = *found > *most;
        if is_too_many {
            (*found, *most) = (0, *most * 2);
        }
        is_too_many
    }

    /// A block is damaged or missing: its unit is taken back, or, after [`MOST_DAMAGES`] of them, all
    /// units of the order in work with as many edges. That is done for whoever finds it first; others
    /// have read in an edition that is over.
    pub fn damaged(&mut self, damage: Damage) {
        let Damage { unit, sequence, record, text, edition } = damage;
        // What is of no use to the order in work may have been dropped.
        let order = usize::from(unit.order);
        let is_read = self.plan().is_some_and(|plan| (order..=order + 1).contains(&plan.order));
        if edition != self.edition || self.ended.is_some() || !is_read {
            return;
        }
        let in_work = self.order.as_ref().filter(|in_work| in_work.keeps_inputs());
        let plan =
            in_work.map(|in_work| in_work.plan()).filter(|plan| plan.order == order).cloned();
        let (doubted, settled) = match plan.filter(|_| self.is_one_of_many(order, sequence.size()))
        {
            None => (vec![unit], "it is solved again"),
            Some(plan) => {
                let units = plan.layer(sequence.size()).flat_map(|shard| plan.parts_of(shard));
                (units.collect(), "all units with so many edges are solved again")
            }
        };
        self.void();
        let alarm = Alarm {
            doubted,
            quarantined: vec![record],
            settled: Some(settled.to_owned()),
            ..self.alarm(AlarmKind::Damage, unit, &sequence, text)
        };
        self.raise(None, alarm, Next::TakeBack { refusal: Refusal::Void });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trailtrap_shared::count::summary::Summary;

    use super::*;
    use crate::records::delivery;

    /// A confirmed result vouches for what was accepted before it, and not for what came with it or
    /// while no work was given out, which may have been done after it.
    #[test]
    fn what_did_not_come_before_a_confirmed_result_is_traced() {
        let [suspect, other, liar] = ["a", "b", "c"].map(|name| Author::new(name, "portable"));
        let unit = |shard| Unit { order: 9, shard, part: 0 };
        let record = |worker: &Author, instance: u64, confirmed: &[&Author]| {
            let (sequence, summary) = (DegreeSequence::new([0]), Summary::default());
            let worker = worker.clone();
            let delivery =
                delivery(unit(0), sequence, Vec::new(), summary, Duration::ZERO, worker);
            let confirmed = confirmed.iter().copied().cloned().collect();
            UnitRecord { instance, confirmed, ..delivery.record }
        };
        let records = [
            record(&suspect, 3, &[]),
            record(&suspect, 4, &[&other]),
            record(&suspect, 5, &[]),
            record(&suspect, 5, &[&other]),
            record(&suspect, 5, &[]),
            record(&suspect, 6, &[]),
            record(&other, 7, &[&suspect]),
            record(&suspect, 8, &[&liar]),
            record(&suspect, 4, &[&liar, &other]),
        ];
        let pending = [5, 4].map(|number| Instance { number, unit: unit(10 + number as u32) });
        let mut trace = Trace::new(Suspect { worker: suspect, pending: pending.to_vec() });
        (0..).zip(&records).for_each(|(shard, record)| {
            trace.add(unit(shard), record, std::slice::from_ref(&liar));
        });
        let traced: Vec<u32> = trace.finish().map(|unit| unit.shard).collect();
        assert_eq!(traced, [15, 2, 4, 5, 7]);
    }
}
