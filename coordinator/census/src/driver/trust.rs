//! What is believed: results are examined before they are let in, computations are compared, and
//! what turns out wrong or damaged is taken back, with all that its worker did since a result of
//! it was last confirmed.

use std::collections::HashMap;

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    labelling::MAX_BATCH_ORDER,
    partition::{Block, BlockId, Section},
    plan::{Plan, Unit},
    protocol::messages::{Described, Wanted},
};
use trailtrap_worker::supply::is_shared;

use crate::{
    core::{lease::WorkerId, parents::ENUMERATED_ORDER, random::Random},
    driver::{Census, CensusError, Order, Partial, Refusal, commit::Queued, lock},
    records::{
        Delivery, UnitRecord,
        alarm::{Alarm, AlarmKind},
    },
    store::{Store, StoreError, block_id},
    trust::{
        checks::{self, Contradiction},
        trial::{self, Trial, TrialError},
    },
};

/// A description holds so many bytes of blocks at most: hundreds may be on their way.
const DESCRIPTION_BYTES: u64 = 64 << 10;

/// The units that alarms doubt and that have not been solved again since.
pub(super) fn doubted(store: &Store) -> Result<Vec<Unit>, StoreError> {
    let mut doubted = Vec::new();
    for (_, alarm) in store.alarms()? {
        let mut units = alarm.doubted;
        if alarm.settled.is_none() {
            // The run that raised it may have ended before it knew these.
            for name in &alarm.blamed {
                units.extend(unconfirmed(store, name, &[])?);
            }
        }
        for unit in units {
            if store.unit(unit)?.is_some_and(|record| record.instance <= alarm.last_instance) {
                doubted.push(unit);
            }
        }
    }
    doubted.sort_unstable();
    doubted.dedup();
    Ok(doubted)
}

/// What a worker has done since a result of it was last confirmed by another worker, in the store
/// or besides (by instances).
fn unconfirmed(
    store: &Store,
    name: &str,
    besides: &[(u64, Unit)],
) -> Result<Vec<Unit>, StoreError> {
    let mut units = besides.to_vec();
    let mut confirmed = 0;
    for order in 1..=MAX_BATCH_ORDER {
        for (unit, record) in
            store.units(order)?.into_iter().filter(|(_, record)| record.worker == name)
        {
            units.push((record.instance, unit));
            confirmed =
                confirmed.max(if record.confirmed.is_empty() { 0 } else { record.instance });
        }
    }
    Ok(units.into_iter().filter(|&(at, _)| at > confirmed).map(|(_, unit)| unit).collect())
}

/// Who is wrong when two results of a unit differ.
#[derive(Debug, thiserror::Error)]
enum Verdict {
    #[error("by nauty, the first is wrong ({0})")]
    First(String),
    #[error("by nauty, the first is right")]
    Second,
    #[error("which of them is wrong could not be found out ({0})")]
    Unknown(String),
}

impl Census {
    /// Whether a delivery is what it says it is, as far as can be told without solving it again;
    /// and whether some of its records, drawn at random, follow from their predecessors.
    pub(super) fn examine(
        &self,
        plan: &Plan,
        delivery: &mut Delivery,
        edition: u32,
    ) -> Result<(), Refusal> {
        let wrong = |why: &str| Refusal::Wrong { unit: delivery.unit, why: why.to_owned() };
        let shard = plan
            .shards
            .get(delivery.unit.shard as usize)
            .filter(|shard| {
                delivery.unit.part < shard.parts && plan.order == delivery.unit.order as usize
            })
            .ok_or_else(|| wrong("there is no such unit"))?;
        let expected = (0..1u32 << shard.bucket_bits).flat_map(|bucket| {
            Section::ALL.map(|section| block_id(shard, delivery.unit.part, bucket, section))
        });
        if !delivery.blocks.iter().map(|block| block.id).eq(expected) {
            return Err(wrong("its blocks are not those of the unit"));
        }
        checks::check_unit(&delivery.blocks, &delivery.record.statistics).map_err(wrong)?;
        let keys = delivery.blocks.iter().filter(|block| block.id.section == Section::Keys);
        if plan.order <= ENUMERATED_ORDER
            && !self.parents.know(&shard.sequence, keys.flat_map(|block| block.slots()))
        {
            return Err(wrong("it lists graphs that nauty does not"));
        }
        self.try_some(plan, delivery, edition)
    }

    /// Derives records drawn at random again.
    fn try_some(&self, plan: &Plan, delivery: &mut Delivery, edition: u32) -> Result<(), Refusal> {
        let graphs = delivery.record.statistics.classes.all.graphs as u64;
        let mut random = Random::unforeseeable().map_err(|error| self.fail(error))?;
        let drawn = trial::draw(graphs, self.options.trial_rate, &mut random);
        let tried = drawn.len() as u64;
        if tried == 0 {
            return Ok(());
        }
        let read = |sequence: &_, bucket| self.wanted_blocks(&Wanted::Bucket(*sequence, bucket));
        let tried_all = {
            let _turn = lock(&self.trials);
            Trial::new(plan, &read).run(&delivery.blocks, &drawn)
        };
        let flaw = match tried_all {
            Ok(()) => {
                delivery.record.tried = tried;
                return Ok(());
            }
            // Too late to be let in anyhow; or it is taken back just now, and the lease is void.
            Err(TrialError::Gone) => return Err(Refusal::Void),
            Err(TrialError::Read(CensusError::Store(error))) if error.bad_block().is_some() => {
                return Err(Refusal::Void);
            }
            Err(TrialError::Read(error)) => return Err(self.fail(error)),
            Err(TrialError::Flaw(flaw)) => flaw,
        };
        if self.state().edition != edition {
            return Err(Refusal::Void);
        }
        let text = format!("a result of {} was not let in: {flaw}", delivery.record.worker);
        let alarm = Alarm {
            blamed: vec![delivery.record.worker.clone()],
            quarantined: vec![delivery.record.clone()],
            ..Alarm::new(AlarmKind::Trial, delivery.unit, &delivery.sequence, text)
        };
        self.raise(alarm)
            .and_then(|(number, alarm)| self.distrust(number, alarm))
            .map_err(|error| self.fail(error))?;
        Err(Refusal::Wrong { unit: delivery.unit, why: flaw })
    }

    /// Compares Σ n!/|Aut| of the shards that these deliveries finish with the number of labelled
    /// graphs. If the parts of a shard do not add up, any of them may be the wrong one: all are to
    /// be taken back.
    pub(super) fn weigh(&self, order: &mut Order, deliveries: &[Delivery]) -> Result<(), Refusal> {
        let mut sums: HashMap<u32, (Partial, u32)> = HashMap::new();
        for delivery in deliveries {
            let before =
                || (order.partial.get(&delivery.unit.shard).copied().unwrap_or_default(), 0);
            let (sum, parts) = sums.entry(delivery.unit.shard).or_insert_with(before);
            sum.add(Partial::of(&delivery.record));
            *parts += 1;
        }
        let plan = order.schedule.plan();
        for delivery in deliveries {
            let (Partial { mass, .. }, parts) = sums[&delivery.unit.shard];
            let shard = &plan.shards[delivery.unit.shard as usize];
            let complete = order.schedule.unfinished_parts(delivery.unit.shard) == parts;
            if mass > shard.mass || complete && mass != shard.mass {
                let why =
                    format!("Σ n!/|Aut| of {} is {mass}, not {}", shard.sequence, shard.mass);
                return Err(match order.partial.contains_key(&delivery.unit.shard) {
                    true => Refusal::Reopened { sequence: shard.sequence, why },
                    false => Refusal::Wrong { unit: delivery.unit, why },
                });
            }
        }
        for (shard, (sum, parts)) in sums {
            if order.schedule.unfinished_parts(shard) == parts {
                order.partial.remove(&shard);
            } else {
                order.partial.insert(shard, sum);
            }
        }
        Ok(())
    }

    /// Ends the census with an error.
    fn fail(&self, error: impl Into<CensusError>) -> Refusal {
        self.end(Err(error.into()));
        Refusal::Ended
    }

    /// Compares results with those that were let in before. They have to be equal.
    pub(super) fn compare(
        &self,
        plan: &Plan,
        worker: WorkerId,
        deliveries: &[Delivery],
        edition: u32,
    ) -> Result<(), Refusal> {
        let name = self.worker_name(worker);
        for delivery in deliveries {
            let accepted = self.accepted(delivery).map_err(|error| self.fail(error))?;
            let Some(accepted) = accepted.filter(|_| self.state().edition == edition) else {
                continue;
            };
            if !accepted.agrees(&delivery.record) {
                return Err(self
                    .dispute(plan, &accepted, delivery, edition)
                    .unwrap_or_else(|error| self.fail(error)));
            }
            let mut guard = self.state();
            let state = &mut *guard;
            if state.edition != edition {
                return Err(Refusal::Void);
            }
            if let Some(order) = state.order.as_mut().filter(|_| accepted.worker != name) {
                order.comparisons.finish(delivery.unit);
                order.to_commit += 1;
                let (retired_size, urgent) = (order.retired(), order.is_solved());
                let confirmed = vec![(delivery.unit, name.clone())];
                self.enqueue(Queued { confirmed, retired_size, urgent, ..Queued::of(edition) });
            }
        }
        Ok(())
    }

    /// What was let in of this unit.
    fn accepted(&self, delivery: &Delivery) -> Result<Option<UnitRecord>, StoreError> {
        let (is_finished, pending) = {
            let state = self.state();
            let is_finished = |order: &Order| order.schedule.is_finished(delivery.unit);
            let pending = state.pending.get(&(delivery.sequence, delivery.unit.part)).cloned();
            (state.order.as_ref().is_some_and(is_finished), pending)
        };
        match pending {
            Some(accepted) => Ok(Some(accepted.record.clone())),
            None if is_finished => self.store.unit(delivery.unit),
            // A record of before something was taken back may still be there.
            None => Ok(None),
        }
    }

    /// Two computations of a unit differ.
    fn dispute(
        &self,
        plan: &Plan,
        accepted: &UnitRecord,
        other: &Delivery,
        edition: u32,
    ) -> Result<Refusal, StoreError> {
        let (first, second) = (&accepted.worker, &other.record.worker);
        let differ = format!("computations by {first} and by {second} differ");
        // Finding out who is wrong takes a while, and must not be what this waits for.
        let (number, mut alarm) = self.raise(Alarm {
            doubted: vec![other.unit],
            quarantined: vec![accepted.clone(), other.record.clone()],
            ..Alarm::new(AlarmKind::Disagreement, other.unit, &other.sequence, differ.clone())
        })?;
        let verdict = self.judge(plan, accepted, other, edition);
        alarm.text = format!("{differ}: {verdict}");
        match verdict {
            Verdict::First(_) => {
                alarm.blamed.push(first.clone());
                alarm.quarantined.truncate(1);
            }
            Verdict::Second => {
                alarm.blamed.push(second.clone());
                alarm.quarantined.remove(0);
                alarm.doubted.clear();
            }
            // Without outcomes its whole order would have to be solved again, whenever somebody
            // says something else.
            Verdict::Unknown(_)
                if self.store.order(plan.order)?.is_some_and(|record| !record.outcomes_kept) =>
            {
                alarm.doubted.clear();
            }
            Verdict::Unknown(_) => {}
        }
        let why = alarm.text.clone();
        self.distrust(number, alarm)?;
        Ok(match verdict {
            Verdict::Second => Refusal::Wrong { unit: other.unit, why },
            Verdict::First(_) | Verdict::Unknown(_) => Refusal::Void,
        })
    }

    /// Which of two results of a unit is wrong: every record of the one that was let in is derived
    /// again, and of the other one if need be.
    fn judge(
        &self,
        plan: &Plan,
        accepted: &UnitRecord,
        other: &Delivery,
        edition: u32,
    ) -> Verdict {
        let _turn = lock(&self.judgements);
        let read = |sequence: &_, bucket| self.wanted_blocks(&Wanted::Bucket(*sequence, bucket));
        let tried =
            self.unit_blocks(plan, other.unit).map_err(TrialError::Read).and_then(|blocks| {
                Trial::new(plan, &read).run_all(&blocks, accepted)?;
                Ok(blocks)
            });
        let same_graphs = |blocks: &[Block]| {
            let keys = |blocks: &[Block]| -> Vec<_> {
                blocks.iter().step_by(3).map(|keys| keys.name()).collect()
            };
            keys(blocks) == keys(&other.blocks)
        };
        let verdict = match tried {
            Err(TrialError::Flaw(flaw)) => Verdict::First(flaw),
            Err(error) => Verdict::Unknown(error.to_string()),
            Ok(blocks) if same_graphs(&blocks) => Verdict::Second,
            // All records of the first are right, but one may be missing, or belong to another
            // part.
            Ok(_) => match Trial::new(plan, &read).run_all(&other.blocks, &other.record) {
                Err(TrialError::Flaw(_)) => Verdict::Second,
                Err(error) => Verdict::Unknown(error.to_string()),
                Ok(()) => Verdict::Unknown(
                    "all their records are right, but of different graphs".to_owned(),
                ),
            },
        };
        match self.state().edition == edition {
            true => verdict,
            // What was read may not be what they were computed from.
            false => Verdict::Unknown("units were taken back meanwhile".to_owned()),
        }
    }

    /// Gives those whom an alarm blames no more work, and takes back what it doubts and what they
    /// did since a result of them was last confirmed.
    fn distrust(&self, number: u32, mut alarm: Alarm) -> Result<(), StoreError> {
        let pending: Vec<(u64, Unit, String)> = {
            let mut guard = self.state();
            let state = &mut *guard;
            let mut ended = Vec::new();
            for (&id, worker) in state
                .workers
                .iter_mut()
                .filter(|(_, worker)| alarm.blamed.contains(&worker.title()))
            {
                worker.distrusted = true;
                ended.extend(state.leases.end_all(id));
            }
            ended.into_iter().for_each(|ended| self.release(state, ended, None));
            // Nothing of theirs is let in from here on.
            alarm.last_instance = state.leases.last();
            if let Some(known) = state.alarms.get_mut(&number) {
                known.blamed.clone_from(&alarm.blamed);
            }
            let records = state.pending.values().map(|delivery| (delivery.unit, &delivery.record));
            let theirs = records.filter(|(_, record)| alarm.blamed.contains(&record.worker));
            theirs.map(|(unit, record)| (record.instance, unit, record.worker.clone())).collect()
        };
        for name in &alarm.blamed {
            let besides: Vec<(u64, Unit)> =
                pending.iter().filter(|p| p.2 == *name).map(|p| (p.0, p.1)).collect();
            alarm.doubted.extend(unconfirmed(&self.store, name, &besides)?);
        }
        alarm.doubted.sort_unstable();
        alarm.doubted.dedup();
        if !alarm.doubted.is_empty() {
            alarm.text += &format!("; {} units are solved again", alarm.doubted.len());
        }
        self.put_alarm(number, &alarm)?;
        if !alarm.doubted.is_empty() {
            self.take_back(&mut self.state(), alarm.doubted);
        }
        self.announce();
        Ok(())
    }

    /// Keeps an alarm for good, and shows it. Returns it with its number.
    fn raise(&self, mut alarm: Alarm) -> Result<(u32, Alarm), StoreError> {
        let number = {
            let mut state = self.state();
            alarm.last_instance = state.leases.last();
            let number = state.alarms.last_key_value().map_or(1, |(number, _)| number + 1);
            // Nobody else is to have this number.
            state.alarms.insert(number, alarm.clone());
            number
        };
        self.put_alarm(number, &alarm)?;
        Ok((number, alarm))
    }

    /// Keeps what has become known of an alarm.
    fn put_alarm(&self, number: u32, alarm: &Alarm) -> Result<(), StoreError> {
        self.state().alarms.insert(number, alarm.clone());
        tracing::error!("{}", alarm.line(number));
        self.store.put_alarm(number, alarm)
    }

    /// Whether an alarm about the sums of these units is open already, so that taking back does
    /// not help.
    fn was_summed_up(&self, units: &[Unit]) -> bool {
        let is_open = |alarm: &Alarm| alarm.kind == AlarmKind::Sum && alarm.settled.is_none();
        self.state().alarms.values().any(|alarm| is_open(alarm) && alarm.doubted == units)
    }

    /// Has a shard solved again whose parts do not add up: any of them may be the wrong one. What
    /// is in work is void already.
    pub(super) fn reopen(
        &self,
        plan: &Plan,
        sequence: &DegreeSequence,
        why: &str,
        mut records: Vec<UnitRecord>,
    ) {
        let units = self.parts_of(plan, sequence);
        let text = format!("{why}; {} parts are solved again", units.len());
        if self.was_summed_up(&units) {
            return self.end(Err(CensusError::Faulty(format!("again, {why}"))));
        }
        let raised = units
            .iter()
            .try_for_each(|&unit| self.store.unit(unit).map(|record| records.extend(record)))
            .and_then(|()| {
                let alarm = Alarm {
                    doubted: units.clone(),
                    quarantined: records,
                    ..Alarm::new(AlarmKind::Sum, units[0], sequence, text)
                };
                self.raise(alarm)
            });
        match raised {
            Ok(_) => self.take_back(&mut self.state(), units),
            Err(error) => self.end(Err(error.into())),
        }
    }

    /// Has everything with a number of edges solved again whose counts are wrong in the end.
    pub(super) fn contradicted(
        &self,
        plan: &Plan,
        contradiction: Contradiction,
    ) -> Result<(), CensusError> {
        let size_of = |unit: Unit| plan.shards.get(unit.shard as usize).map(|shard| shard.size);
        let records = self.store.units(plan.order)?.into_iter();
        let wrong = records.filter(|&(unit, _)| size_of(unit) == Some(contradiction.size));
        let (units, records): (Vec<Unit>, Vec<UnitRecord>) = wrong.unzip();
        let Some(&first) = units.first().filter(|_| !self.was_summed_up(&units)) else {
            return Err(contradiction.into());
        };
        let text = format!(
            "{contradiction}; all {} units with so many edges are solved again",
            units.len()
        );
        let sequence = &plan.shards[first.shard as usize].sequence;
        let alarm = Alarm::new(AlarmKind::Sum, first, sequence, text);
        self.raise(Alarm { doubted: units.clone(), quarantined: records, ..alarm })?;
        self.take_back(&mut self.state(), units);
        Ok(())
    }

    /// What a worker wants to read; `None` if there is no such thing.
    pub fn wanted_blocks(&self, wanted: &Wanted) -> Result<Option<Vec<Block>>, CensusError> {
        self.read_wanted(wanted, |id, at_hand| {
            at_hand.map_or_else(|| self.store.read(id), |block| Ok(block.clone()))
        })
    }

    /// What a worker wants to read, described; `None` if there is no such thing.
    pub fn described_blocks(
        &self,
        wanted: &Wanted,
    ) -> Result<Option<Vec<Described>>, CensusError> {
        let (mut room, edition) = (DESCRIPTION_BYTES, self.state().edition);
        let mut describe = |block: &Block| {
            let name = block.name();
            if is_shared(block) {
                // Not what was read before something was taken back.
                let state = self.state();
                if state.edition == edition {
                    self.names.note(block);
                }
                return Described::Named(name);
            }
            if name.length > room {
                return Described::Named(name);
            }
            room -= name.length;
            Described::Here(block.clone())
        };
        self.read_wanted(wanted, |id, at_hand| match (at_hand, self.names.get(id)) {
            (Some(block), _) => Ok(describe(block)),
            (None, Some(name)) => Ok(Described::Named(name)),
            (None, None) => Ok(describe(&self.store.read(id)?)),
        })
    }

    /// Reads what a worker wants. A unit of which something is damaged is solved again.
    fn read_wanted<T>(
        &self,
        wanted: &Wanted,
        take: impl FnMut(&BlockId, Option<&Block>) -> Result<T, StoreError>,
    ) -> Result<Option<Vec<T>>, CensusError> {
        let edition = self.state().edition;
        let read = self.each_wanted(wanted, take);
        if let Err(CensusError::Store(error)) = &read
            && let Some(id) = error.bad_block()
        {
            self.mend(id, error, edition)?;
        }
        read
    }

    /// Takes a unit back of which a block is damaged or missing.
    fn mend(&self, id: &BlockId, error: &StoreError, edition: u32) -> Result<(), CensusError> {
        let order = id.sequence.order();
        let plan = match self.leased_plan().filter(|plan| plan.order == order) {
            Some(plan) => plan,
            None => self.parent_plan(order)?,
        };
        let Some(shard) = plan.find(&id.sequence) else { return Ok(()) };
        let unit = Unit { order: order as u8, shard, part: id.part };
        let Some(record) = self.store.unit(unit)? else { return Ok(()) };
        {
            // For whoever finds it first; others have read in an edition that is over.
            let mut state = self.state();
            // What is of no use to the order in work may have been dropped.
            let is_read = |open: &Order| (order..=order + 1).contains(&open.schedule.plan().order);
            if state.edition != edition
                || state.ended.is_some()
                || !state.order.as_ref().is_some_and(is_read)
            {
                return Ok(());
            }
            self.void(&mut state);
        }
        let cause = std::error::Error::source(error)
            .map_or_else(String::new, |cause| format!(" ({cause})"));
        let raised = self.raise(Alarm {
            doubted: vec![unit],
            quarantined: vec![record],
            settled: Some("it is solved again".to_owned()),
            ..Alarm::new(AlarmKind::Damage, unit, &id.sequence, format!("{error}{cause}"))
        });
        if let Err(error) = raised {
            self.end(Err(error.into()));
            return Ok(());
        }
        self.take_back(&mut self.state(), vec![unit]);
        self.announce();
        Ok(())
    }
}
