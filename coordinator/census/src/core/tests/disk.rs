//! What the committer does, and what the store holds.

use std::convert::Infallible;

use super::{super::withdrawal::can_be_solved_alone, *};

impl World {
    pub(super) fn has_gone(&self, plan: &Plan, shard: u32) -> Result<bool, Infallible> {
        Ok(plan.parts_of(shard).any(|part| self.disk.dropped.contains(&part)))
    }

    /// As the driver finds it in the store.
    pub(super) fn doubted(&mut self) -> Vec<Unit> {
        let open: Vec<Author> = alarm::blamed(self.disk.alarms.values()).cloned().collect();
        let trace = |alarm: &Alarm| -> Vec<Unit> {
            let blamed = [&open[..], &alarm.blamed].concat();
            let suspect =
                |worker: &Author| Suspect { worker: worker.clone(), pending: Vec::new() };
            alarm.blamed.iter().flat_map(|worker| self.trace(suspect(worker), &blamed)).collect()
        };
        let untraced = self.disk.alarms.iter().filter(|(_, alarm)| alarm.is_untraced());
        let traced: Vec<(u32, Vec<Unit>)> =
            untraced.map(|(&number, alarm)| (number, trace(alarm))).collect();
        for (number, units) in traced {
            self.disk.alarms.get_mut(&number).expect("it was there").trace(units);
        }
        let mut doubted = BTreeSet::new();
        for alarm in self.disk.alarms.values() {
            let units = alarm.doubted.clone();
            let is_left = |unit: &Unit| {
                let record = self.disk.units.get(unit);
                record.is_some_and(|record| record.instance <= alarm.last_instance)
            };
            doubted.extend(units.into_iter().filter(is_left));
        }
        doubted.into_iter().collect()
    }

    pub(super) fn trace(&self, suspect: Suspect, blamed: &[Author]) -> Vec<Unit> {
        let mut trace = Trace::new(suspect);
        self.disk.units.iter().for_each(|(unit, record)| trace.add(*unit, record, blamed));
        trace.finish().collect()
    }

    pub(super) fn open_order(&mut self, order: usize, edition: u32) {
        if let Some(result) = self.disk.results.get(&order) {
            return self.core.found_finished(edition, result.clone());
        }
        let plan = self.plan(order);
        let of_order =
            |(unit, _): &(&Unit, &UnitRecord), order: usize| usize::from(unit.order) == order;
        let below = self.disk.units.iter().filter(|item| of_order(item, order - 1));
        let below = Content::of_all(below.map(|(_, record)| &record.content));
        let records = self.disk.units.iter().filter(|item| of_order(item, order));
        let ahead = records.clone().map(|(unit, _)| (*unit, self.ahead(*unit)));
        let (share, disputed) = (self.compared_share, self.core.disputed());
        let comparisons = Comparisons::new(share, Secret::of(7), disputed);
        let comparable = records.clone().map(|(unit, _)| *unit).filter(|&unit| {
            let Ok(alone) =
                can_be_solved_alone(&plan, &[unit], |shard| self.has_gone(&plan, shard));
            alone
        });
        let comparable = comparable.collect();
        let blamed: Vec<Author> = self.core.blamed().cloned().collect();
        let opening = OrderOpening {
            parents: vec![below; plan.shards.len()],
            records: records
                .map(|(unit, record)| Recorded::of(*unit, record.clone(), Some(TOLD), &blamed))
                .collect(),
            outcomes_kept: self.outcomes_kept,
            graphs_dropped: !self.outcomes_kept && self.sizes_kept == 0,
            sizes_kept: self.sizes_kept,
            dropped_together: 3,
            graphs: plan.unit_count(),
            pairs: 0,
            comparisons,
            comparable,
            ahead: ahead.collect(),
            told: Some(TOLD),
            plan,
        };
        let opened = Box::new(Order::open(opening));
        self.core.opened(edition, opened);
        if let Some(opened) = self.core.order() {
            let (done, all) = opened.schedule.shards_done();
            self.say(format!("order {order} is opened: {done} of {all} shards are recalled"));
        }
    }

    pub(super) fn close_order(&mut self, plan: &Plan) {
        let order = plan.order;
        let records = self.disk.units.iter().filter(|(unit, _)| usize::from(unit.order) == order);
        let mut total = Statistics::default();
        records.clone().for_each(|(_, record)| total += &record.statistics);
        let units = plan.unit_count() as usize;
        assert_eq!(records.count(), units, "closed before it was done");
        let mass = plan.shards.iter().map(|shard| shard.mass).sum::<u128>();
        assert_eq!(total.labelled.all.graphs, mass, "something is lost or counted twice");
        let total = Summary { statistics: total, ..Summary::default() };
        let result = OrderResult { order, by_size: vec![total] };
        self.disk.results.insert(order, result.clone());
        self.say(format!("order {order} is closed"));
        self.core.closed(result);
    }

    /// The committer does the next thing; with `steps` it is killed after so many writes. Returns
    /// whether there was anything to do.
    pub(super) fn commit(&mut self, most: usize, steps: Option<usize>) -> bool {
        if let Some(effect) = self.committer.pop_front() {
            self.carry_out(effect);
            let own = self.take_of_committer();
            self.committer.extend(own);
            return true;
        }
        match self.queue.pop_front() {
            None => return false,
            Some(Effect::BeginEdition { units }) => self.begin_edition(units),
            Some(Effect::Commit(first)) => {
                let mut group = vec![first];
                while group.len() < most
                    && group.last().is_some_and(|entry| entry.stale.is_empty())
                    && let Some(Effect::Commit(_)) = self.queue.front()
                {
                    let Some(Effect::Commit(entry)) = self.queue.pop_front() else { break };
                    group.push(entry);
                }
                self.write(group, steps);
            }
            Some(_) => unreachable!("not for the committer"),
        }
        let own = self.take_of_committer();
        self.committer.extend(own);
        true
    }

    /// What came of what the committer has done is its own to do.
    pub(super) fn take_of_committer(&mut self) -> Vec<Effect> {
        let is_own = |effect: &mut Effect| {
            matches!(
                effect,
                Effect::OpenOrder { .. } | Effect::CloseOrder { .. } | Effect::Drop { .. }
            )
        };
        self.todo.extract_if(.., is_own).collect()
    }

    pub(super) fn write(&mut self, group: Vec<CommitEntry>, steps: Option<usize>) {
        let group = self.core.writing(group);
        self.collect();
        let left = |step: usize| steps.is_none_or(|steps| step < steps);
        let deliveries: Vec<_> = group.iter().flat_map(|entry| entry.deliveries.clone()).collect();
        if left(0) {
            for delivery in &deliveries {
                self.disk.units.insert(delivery.unit, delivery.record.clone());
                self.disk.dropped.remove(&delivery.unit);
            }
            for delivery in &deliveries {
                self.check_durable(delivery);
            }
        }
        for Confirmed { unit, by } in group.iter().flat_map(|entry| &entry.confirmed) {
            if left(1)
                && let Some(record) = self.disk.units.get_mut(unit)
            {
                record.confirmed.push(by.clone());
            }
        }
        for unit in group.iter().flat_map(|entry| &entry.stale) {
            if left(2) {
                self.disk.units.remove(unit);
                self.acknowledged.remove(unit);
            }
        }
        if !left(3) {
            return self.start();
        }
        for entry in &group {
            let CommitEntry { deliveries, confirmed, stale, .. } = entry;
            let mut parts = Vec::new();
            if !deliveries.is_empty() {
                parts.push(self.names(deliveries.iter().map(|delivery| &delivery.unit)));
            }
            for Confirmed { unit, by } in confirmed {
                let by = by.name();
                parts.push(format!("{} confirmed by {by}", self.name(*unit)));
            }
            if !stale.is_empty() {
                parts.push(format!("stale {}", self.names(stale)));
            }
            if !parts.is_empty() {
                self.say(format!("durable: {}", parts.join(", ")));
            }
        }
        self.core.written(group);
        self.collect();
    }

    /// Whatever is durable was computed from what is durable.
    pub(super) fn check_durable(&self, delivery: &Delivery) {
        let Delivery { unit, record, .. } = delivery;
        let Some(order) =
            self.core.order().filter(|order| order.plan().order == unit.order as usize)
        else {
            return;
        };
        for &shard in &order.plan().shard_of(*unit).predecessors {
            for read in order.plan().parts_of(shard) {
                assert!(self.disk.units.contains_key(&read), "{unit:?} before {read:?}");
            }
        }
        assert_eq!(record.inputs, order.schedule.inputs(unit.shard));
    }

    pub(super) fn begin_edition(&mut self, units: Vec<Unit>) {
        for unit in &units {
            let by = self.disk.units.get(unit).map(|record| &record.worker);
            let is_doubted = |alarm: &Alarm| {
                let is_blamed = by.is_some_and(|by| alarm.blamed.contains(by));
                alarm.doubted.contains(unit) || alarm.settled.is_none() && is_blamed
            };
            assert!(self.disk.alarms.values().any(is_doubted), "taken back without an alarm");
        }
        self.disk.edition = self.core.beginning();
        self.collect();
        let mut units = units;
        units.retain(|unit| self.disk.units.contains_key(unit));
        if !self.outcomes_kept {
            let orders: BTreeSet<u8> = units.iter().map(|unit| unit.order).collect();
            for order in orders {
                let is_of_order = |unit: &&Unit| unit.order == order;
                let doubted: Vec<Unit> = units.iter().filter(is_of_order).copied().collect();
                let plan = self.plan(order.into());
                let Ok(alone) =
                    can_be_solved_alone(&plan, &doubted, |shard| self.has_gone(&plan, shard));
                if !alone {
                    units.extend(self.disk.units.keys().filter(is_of_order));
                }
            }
            units.sort_unstable();
            units.dedup();
        }
        for unit in &units {
            self.disk.units.remove(unit);
            self.acknowledged.remove(unit);
        }
        let first = units.iter().map(|unit| usize::from(unit.order)).min();
        if let Some(first) = first {
            self.disk.results.retain(|&order, _| order < first);
        }
        let what = if units.is_empty() { "nothing".to_owned() } else { self.names(&units) };
        self.say(format!("taken back: {what}"));
        self.core.begun(first);
        self.collect();
    }
}
