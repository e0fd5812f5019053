//! Making it durable, and taking it back.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant},
};

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::Section,
    plan::{Plan, Unit},
};

use crate::{
    core::parents::ENUMERATED_ORDER,
    driver::{Census, CensusError, Keep, State, lock},
    records::{Delivery, OrderRecord},
};

/// An entry of the committer's queue.
pub(super) struct Queued {
    /// What it belongs to; what was accepted in an earlier edition is dropped.
    pub(super) edition: u32,
    pub(super) deliveries: Vec<Arc<Delivery>>,
    /// Units that another worker has solved again with the same results, and who.
    pub(super) confirmed: Vec<(Unit, String)>,
    /// Units whose records are to go, because they are solved again.
    pub(super) stale: Vec<Unit>,
    /// Begins a new edition, in which these finished units are to be done again.
    pub(super) taken_back: Option<Vec<Unit>>,
    /// When this entry is durable, no unfinished shard of this order needs outcomes with up to
    /// this many edges.
    pub(super) retired_size: Option<(usize, usize)>,
    /// Nothing will come for a while: do not wait for more.
    pub(super) urgent: bool,
    /// Whom to tell when it is durable.
    pub(super) waiter: Option<SyncSender<()>>,
}

impl Queued {
    /// Nothing, in this edition.
    pub(super) fn of(edition: u32) -> Self {
        Queued {
            edition,
            deliveries: Vec::new(),
            confirmed: Vec::new(),
            stale: Vec::new(),
            taken_back: None,
            retired_size: None,
            urgent: false,
            waiter: None,
        }
    }
}

/// The committer gathers deliveries for this part of the time that a run has lasted, and no longer
/// than the options say, when nobody waits for them: a crash costs little of what was done, and
/// long runs write few files …
pub(super) const GATHER: u32 = 20;
/// … half as long as a lease of much work takes when a worker waits, …
const GATHER_AWAITED: Duration = Duration::from_millis(100);
/// … and no more than this many bytes.
const GATHER_BYTES: usize = 64 << 20;

/// Waits for deliveries, then gathers what comes along, until it is urgent, or time or room is up.
/// `None` when no more can come.
pub(super) fn gather(queue: &Receiver<Queued>, patience: Duration) -> Option<Vec<Queued>> {
    let mut group = vec![queue.recv().ok()?];
    let start = Instant::now();
    loop {
        let bytes: u64 = group
            .iter()
            .flat_map(|queued| &queued.deliveries)
            .map(|delivery| delivery.record.bytes)
            .sum();
        let forgets = group
            .last()
            .is_some_and(|queued| !queued.stale.is_empty() || queued.taken_back.is_some());
        // What comes after a unit is forgotten may be that unit again.
        if bytes as usize > GATHER_BYTES || forgets {
            return Some(group);
        }
        let patience = match () {
            () if group.iter().any(|queued| queued.urgent) => Duration::ZERO,
            () if group.iter().any(|queued| queued.waiter.is_some()) => {
                patience.min(GATHER_AWAITED)
            }
            () => patience,
        };
        let pause = patience.saturating_sub(start.elapsed());
        match queue.recv_timeout(pause) {
            Ok(queued) => group.push(queued),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Some(group),
        }
    }
}

impl Census {
    pub(super) fn enqueue(&self, queued: Queued) {
        if let Some(queue) = &*lock(&self.queue) {
            // The committer is there for as long as the queue is.
            let _ = queue.send(queued);
        }
    }

    /// Makes a group of entries durable.
    pub(super) fn commit(&self, mut group: Vec<Queued>) {
        let edition = {
            let state = self.state();
            if state.ended.is_some() {
                return;
            }
            state.edition
        };
        // Only the last entry of a group may begin an edition, and it does so even if another one
        // is to begin after it.
        let taken_back = group.last_mut().and_then(|queued| queued.taken_back.take());
        let live: Vec<Queued> =
            group.into_iter().filter(|queued| queued.edition == edition).collect();
        let deliveries: Vec<Arc<Delivery>> =
            live.iter().flat_map(|queued| queued.deliveries.iter().cloned()).collect();
        let confirmed: Vec<(Unit, String)> =
            live.iter().flat_map(|queued| queued.confirmed.iter().cloned()).collect();
        let stale: Vec<Unit> =
            live.iter().flat_map(|queued| queued.stale.iter().copied()).collect();
        let committed = self
            .store
            .commit(&deliveries)
            .and_then(|()| self.store.confirm(&confirmed))
            .and_then(|()| self.store.forget(&stale));
        if let Err(error) = committed {
            self.end(Err(error.into()));
            return;
        }
        let retired_size = live.iter().filter_map(|queued| queued.retired_size).max();
        let finished = {
            let mut state = self.state();
            let current = state.edition == edition;
            if current {
                for delivery in &deliveries {
                    let key = (delivery.sequence, delivery.unit.part);
                    // A later delivery of the same unit may have taken its place.
                    if state
                        .pending
                        .get(&key)
                        .is_some_and(|pending| Arc::ptr_eq(pending, delivery))
                    {
                        state.pending.remove(&key);
                    }
                    state.pending_bytes -= delivery.record.bytes as usize;
                }
            }
            if let Some(order) = state.order.as_mut().filter(|_| current) {
                order.to_commit -= deliveries.len() + confirmed.len();
            }
            // Under the same lock, so that nothing more is let in.
            let is_done = taken_back.is_none() && state.is_order_done();
            is_done.then(|| state.order.take()).flatten()
        };
        for waiter in live.into_iter().filter_map(|queued| queued.waiter) {
            let _ = waiter.send(());
        }
        let next = match (taken_back, finished) {
            (Some(units), _) => self.begin_edition(units),
            (None, Some(order)) => self.advance(Some(order)),
            (None, None) => self.drop_retired_outcomes(retired_size),
        };
        if let Err(error) = next {
            self.end(Err(error));
        }
        self.announce();
    }

    /// Takes finished units back: voids all leases, and has the committer begin a new edition.
    pub(super) fn take_back(&self, state: &mut State, units: Vec<Unit>) {
        self.void(state);
        self.enqueue(Queued { taken_back: Some(units), ..Queued::of(state.edition) });
    }

    /// Drops all that is in work, and begins an edition.
    pub(super) fn void(&self, state: &mut State) {
        state.edition += 1;
        state.order = None;
        state.leases.void();
        state.pending.clear();
        state.pending_bytes = 0;
        self.names.clear();
    }

    /// All parts of a shard.
    pub(super) fn parts_of(&self, plan: &Plan, sequence: &DegreeSequence) -> Vec<Unit> {
        let shard = plan.find(sequence).expect("a shard of the plan");
        let parts = plan.shards[shard as usize].parts;
        (0..parts).map(|part| Unit { order: plan.order as u8, shard, part }).collect()
    }

    /// Takes these units back in the store, and makes the state anew of what is left.
    fn begin_edition(&self, mut units: Vec<Unit>) -> Result<(), CensusError> {
        let edition = {
            let mut state = self.state();
            // Something may have been begun, and accepted, between the taking back and now.
            self.void(&mut state);
            state.edition
        };
        let mut reopened = Vec::new();
        if let Some(lowest) = units.iter().map(|unit| usize::from(unit.order)).min() {
            let mut first = lowest;
            while first > ENUMERATED_ORDER + 1 && !self.store.has_keys(first - 1)? {
                first -= 1;
            }
            for n in first.. {
                let Some(record) = self.store.order(n)? else { break };
                if !record.outcomes_kept {
                    // What single units were computed from may be gone.
                    units.extend(self.store.units(n)?.into_iter().map(|(unit, _)| unit));
                }
                reopened.push((n, OrderRecord { result: None, ..record }));
            }
            self.state().results.truncate(first - 1);
        }
        self.store.reopen(edition, &units, &reopened)?;
        *lock(&self.parent_plan) = None;
        self.advance(None)
    }

    /// With `--keep minimal`, drops the outcomes with up to `size` edges every few sizes.
    fn drop_retired_outcomes(&self, retired: Option<(usize, usize)>) -> Result<(), CensusError> {
        if self.options.keep == Keep::All {
            return Ok(());
        }
        let (n, size) = {
            let mut state = self.state();
            let Some(order) = &mut state.order else { return Ok(()) };
            let (n, next) =
                (order.schedule.plan().order, order.dropped_size.map_or(0, |dropped| dropped + 4));
            let Some((n, size)) = retired.filter(|&(of, size)| of == n && size >= next) else {
                return Ok(());
            };
            order.dropped_size = Some(size);
            (n, size)
        };
        Ok(self.store.drop_section(Section::Outcomes, n, size)?)
    }
}
