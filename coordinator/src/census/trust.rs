//! What is believed: results are examined before they are let in, computations are compared, and what turns out wrong or damaged is taken
//! back, with all that its worker did since a result of it was last confirmed.

use std::collections::HashMap;

use trailtrap_shared::{
    partition::{Block, BlockId, Section},
    plan::{Plan, Unit},
};
use trailtrap_worker::{
    cache::Wanted,
    supply::{Described, is_shared},
};

use super::{Census, CensusError, Delivery, Order, Partial, Refusal, commit::Queued};
use crate::{
    alarm::{Alarm, AlarmKind},
    checks,
    lease::WorkerId,
    parents::ENUMERATED_ORDER,
    random::Random,
    store::{Store, StoreError, UnitRecord, block_id},
    trial::{self, Trial, TrialError},
};

/// A description holds so many bytes of blocks at most: hundreds may be on their way.
const DESCRIPTION_BYTES: u64 = 64 << 10;

/// The units that alarms doubt and that have not been solved again since.
pub(super) fn doubted(store: &Store) -> Result<Vec<Unit>, StoreError> {
    let mut doubted = Vec::new();
    for (_, alarm) in store.alarms()? {
        for unit in alarm.doubted {
            if store.unit(unit)?.is_some_and(|record| record.instance <= alarm.last_instance) {
                doubted.push(unit);
            }
        }
    }
    Ok(doubted)
}

impl Census {
    /// Whether a delivery is what it says it is, as far as can be told without solving it again; and whether some of its records, drawn at
    /// random, follow from their predecessors.
    pub(super) fn examine(&self, plan: &Plan, delivery: &mut Delivery, edition: u32) -> Result<(), Refusal> {
        let wrong = |why: &str| Refusal::Wrong { unit: delivery.unit, why: why.to_owned() };
        let shard = plan
            .shards
            .get(delivery.unit.shard as usize)
            .filter(|shard| delivery.unit.part < shard.parts && plan.order == delivery.unit.order as usize)
            .ok_or_else(|| wrong("there is no such unit"))?;
        let expected = (0..1u32 << shard.bucket_bits)
            .flat_map(|bucket| Section::ALL.map(|section| block_id(shard, delivery.unit.part, bucket, section)));
        if !delivery.blocks.iter().map(|block| block.id).eq(expected) {
            return Err(wrong("its blocks are not those of the unit"));
        }
        checks::check_unit(&delivery.blocks, &delivery.record.statistics).map_err(wrong)?;
        let keys = delivery.blocks.iter().filter(|block| block.id.section == Section::Keys);
        if plan.order <= ENUMERATED_ORDER && !self.parents.know(&shard.sequence, keys.flat_map(|block| block.slots())) {
            return Err(wrong("it lists graphs that nauty does not"));
        }
        self.try_some(plan, delivery, edition)
    }

    /// Derives records drawn at random again.
    fn try_some(&self, plan: &Plan, delivery: &mut Delivery, edition: u32) -> Result<(), Refusal> {
        let graphs = delivery.record.statistics.classes.all.graphs as u64;
        let mut random = Random::unforeseeable().map_err(|error| {
            self.end(Err(error.into()));
            Refusal::Ended
        })?;
        let drawn = trial::draw(graphs, self.options.trial_rate, &mut random);
        let tried = drawn.len() as u64;
        if tried == 0 {
            return Ok(());
        }
        let read = |sequence: &_, bucket| self.wanted_blocks(&Wanted::Bucket(*sequence, bucket));
        let flaw = match Trial::new(plan, &read).run(&delivery.blocks, drawn) {
            Ok(()) => {
                delivery.record.tried = tried;
                return Ok(());
            }
            // Too late to be let in anyhow; or it is taken back just now, and the lease is void.
            Err(TrialError::Gone) => return Err(Refusal::Void),
            Err(TrialError::Read(CensusError::Store(error))) if error.bad_block().is_some() => {
                return Err(Refusal::Void);
            }
            Err(TrialError::Read(error)) => {
                self.end(Err(error));
                return Err(Refusal::Ended);
            }
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
        self.distrust(alarm, edition);
        Err(Refusal::Wrong { unit: delivery.unit, why: flaw })
    }

    /// Compares Σ n!/|Aut| of the shards that these deliveries finish with the number of labelled graphs. If the parts of a
    /// shard do not add up, any of them may be the wrong one: all are to be taken back.
    pub(super) fn weigh(&self, order: &mut Order, deliveries: &[Delivery]) -> Result<(), Refusal> {
        let mut sums: HashMap<u32, (Partial, u32)> = HashMap::new();
        for delivery in deliveries {
            let before = || (order.partial.get(&delivery.unit.shard).copied().unwrap_or_default(), 0);
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
                let why = format!("Σ n!/|Aut| of {} is {mass}, not {}", shard.sequence, shard.mass);
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

    /// Compares results with those that were let in before. They have to be equal.
    pub(super) fn compare(&self, worker: WorkerId, deliveries: &[Delivery], edition: u32) -> Result<(), Refusal> {
        let name = self.worker_name(worker);
        for delivery in deliveries {
            let Some(accepted) = self.accepted(delivery).filter(|_| self.state().edition == edition) else { continue };
            if !accepted.agrees(&delivery.record) {
                return Err(self.dispute(&accepted, delivery, edition));
            }
            let mut guard = self.state();
            let state = &mut *guard;
            if state.edition != edition {
                return Err(Refusal::Void);
            }
            if let Some(order) = state.order.as_mut().filter(|_| accepted.worker != name) {
                order.comparisons.finish(delivery.unit);
                let (retired_size, urgent) = (order.retired_size(), order.is_solved());
                let confirmed = vec![(delivery.unit, name.clone())];
                self.enqueue(Queued { confirmed, retired_size, urgent, ..Queued::of(edition) });
            }
        }
        Ok(())
    }

    /// What was let in of this unit.
    fn accepted(&self, delivery: &Delivery) -> Option<UnitRecord> {
        let pending = self.state().pending.get(&(delivery.sequence, delivery.unit.part)).cloned();
        match pending {
            Some(accepted) => Some(accepted.record.clone()),
            None => self.store.unit(delivery.unit).unwrap_or_default(),
        }
    }

    /// Two computations of a unit differ: every record of the one that was let in is derived again, which tells who is wrong.
    fn dispute(&self, accepted: &UnitRecord, other: &Delivery, edition: u32) -> Refusal {
        let (first, second) = (&accepted.worker, &other.record.worker);
        tracing::error!(unit = ?other.unit, first, second, "two computations differ; deriving every record again");
        let Some(plan) = self.leased_plan() else { return Refusal::Void };
        let read = |sequence: &_, bucket| self.wanted_blocks(&Wanted::Bucket(*sequence, bucket));
        let tried = self
            .unit_blocks(&plan, other.unit)
            .map_err(TrialError::from)
            .and_then(|blocks| Trial::new(&plan, &read).run_all(&blocks, accepted));
        let (blamed, quarantined, verdict) = match tried {
            Ok(()) => (vec![second], vec![other.record.clone()], "by nauty, the first is right".to_owned()),
            Err(TrialError::Flaw(flaw)) => {
                (vec![first], vec![accepted.clone()], format!("by nauty, the first is wrong ({flaw})"))
            }
            // The unit, or one that it was computed from, is solved again.
            Err(TrialError::Read(CensusError::Store(error))) if error.bad_block().is_some() => {
                let mended = error.bad_block().map_or(Ok(()), |id| self.mend(id, &error, edition));
                return mended.err().map_or(Refusal::Void, |error| {
                    self.end(Err(error));
                    Refusal::Ended
                });
            }
            Err(error) => (
                vec![first, second],
                vec![accepted.clone(), other.record.clone()],
                format!("which of them is wrong could not be found out ({error})"),
            ),
        };
        let text = format!("computations by {first} and by {second} differ: {verdict}");
        let mut alarm = Alarm {
            quarantined,
            blamed: blamed.iter().map(ToString::to_string).collect(),
            ..Alarm::new(AlarmKind::Disagreement, other.unit, &other.sequence, text)
        };
        if blamed.contains(&first) {
            alarm.doubted.push(other.unit);
        }
        let refusal = match blamed.contains(&second) {
            true => Refusal::Wrong { unit: other.unit, why: alarm.text.clone() },
            false => Refusal::Void,
        };
        self.distrust(alarm, edition);
        refusal
    }

    /// Raises an alarm, gives those it blames no more work, and takes back what it doubts and what they did since a result of them
    /// was last confirmed.
    fn distrust(&self, mut alarm: Alarm, edition: u32) {
        for name in &alarm.blamed {
            match self.unconfirmed(name) {
                Ok(units) => alarm.doubted.extend(units),
                Err(error) => return self.end(Err(error.into())),
            }
        }
        alarm.doubted.sort_unstable();
        alarm.doubted.dedup();
        if !alarm.doubted.is_empty() {
            alarm.text += &format!("; {} units are solved again", alarm.doubted.len());
        }
        if let Err(error) = self.raise(&mut alarm) {
            return self.end(Err(error.into()));
        }
        let mut guard = self.state();
        let state = &mut *guard;
        let mut ended = Vec::new();
        for (&id, worker) in state.workers.iter_mut().filter(|(_, worker)| alarm.blamed.contains(&worker.title())) {
            worker.distrusted = true;
            ended.extend(state.leases.end_all(id));
        }
        ended.into_iter().for_each(|ended| self.release(state, ended, None));
        if !alarm.doubted.is_empty() && state.edition == edition {
            self.take_back(state, alarm.doubted);
        }
        drop(guard);
        self.announce();
    }

    /// What a worker has done since a result of it was last confirmed by another worker.
    fn unconfirmed(&self, name: &str) -> Result<Vec<Unit>, StoreError> {
        let mut units: Vec<(u64, Unit)> = Vec::new();
        let mut confirmed = 0;
        for order in 1..=self.options.order {
            for (unit, record) in self.store.units(order)?.into_iter().filter(|(_, record)| record.worker == name) {
                units.push((record.instance, unit));
                confirmed = confirmed.max(if record.confirmed.is_empty() { 0 } else { record.instance });
            }
        }
        let pending: Vec<(u64, Unit)> = {
            let state = self.state();
            let mine = state.pending.values().filter(|delivery| delivery.record.worker == name);
            mine.map(|delivery| (delivery.record.instance, delivery.unit)).collect()
        };
        Ok(units.into_iter().chain(pending).filter(|(at, _)| *at > confirmed).map(|(_, unit)| unit).collect())
    }

    /// Keeps an alarm for good, and shows it.
    fn raise(&self, alarm: &mut Alarm) -> Result<(), StoreError> {
        let number = {
            let mut state = self.state();
            alarm.last_instance = state.leases.last();
            let number = state.alarms.last().map_or(1, |(number, _)| number + 1);
            state.alarms.push((number, alarm.clone()));
            number
        };
        tracing::error!("{}", alarm.line(number));
        self.store.put_alarm(number, alarm)
    }

    /// What a worker wants to read; `None` if there is no such thing.
    pub fn wanted_blocks(&self, wanted: &Wanted) -> Result<Option<Vec<Block>>, CensusError> {
        self.read_wanted(wanted, |id, at_hand| at_hand.map_or_else(|| self.store.read(id), |block| Ok(block.clone())))
    }

    /// What a worker wants to read, described; `None` if there is no such thing.
    pub fn described_blocks(&self, wanted: &Wanted) -> Result<Option<Vec<Described>>, CensusError> {
        let mut room = DESCRIPTION_BYTES;
        let mut describe = |block: &Block| {
            let name = block.name();
            if is_shared(block) || name.length > room {
                self.names.note(block);
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
        if self.state().edition != edition {
            return Ok(());
        }
        let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(" ({cause})"));
        let mut alarm = Alarm {
            doubted: vec![unit],
            quarantined: vec![record],
            settled: Some("it is solved again".to_owned()),
            ..Alarm::new(AlarmKind::Damage, unit, &id.sequence, format!("{error}{cause}"))
        };
        self.raise(&mut alarm)?;
        let mut guard = self.state();
        if guard.edition == edition {
            self.take_back(&mut guard, alarm.doubted);
        }
        drop(guard);
        self.announce();
        Ok(())
    }
}
