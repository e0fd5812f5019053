//! Making it durable, and taking it back.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant},
};

use trailtrap_shared::{
    degree::DegreeSequence,
    partition::Section,
    plan::{Plan, Unit},
};

use super::{Census, CensusError, Keep, State, lock};
use crate::{
    parents::ENUMERATED_ORDER,
    store::{Delivery, OrderRecord},
};

/// An entry of the committer's queue.
pub(super) struct Queued {
    /// What it belongs to; what was accepted in an earlier edition is dropped.
    pub(super) edition: u32,
    pub(super) deliveries: Vec<Arc<Delivery>>,
    /// Units that another worker has solved again with the same results, and who.
    pub(super) confirmed: Vec<(Unit, String)>,
    /// Units whose records are to go.
    pub(super) forget: Vec<Unit>,
    /// Begins a new edition, in which those units are to be done again.
    pub(super) new_edition: bool,
    /// When this entry is durable, no unfinished shard needs outcomes with up to this many edges.
    pub(super) retired_size: Option<usize>,
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
            forget: Vec::new(),
            new_edition: false,
            retired_size: None,
            urgent: false,
            waiter: None,
        }
    }
}

/// The committer gathers deliveries for this part of the time that a run has lasted, and no longer than the options say,
/// when nobody waits for them: a crash costs little of what was done, and long runs write few files …
pub(super) const GATHER: u32 = 20;
/// … half as long as a lease of much work takes when a worker waits, …
const GATHER_AWAITED: Duration = Duration::from_millis(100);
/// … and no more than this many bytes.
const GATHER_BYTES: usize = 64 << 20;

/// Waits for deliveries, then gathers what comes along, until it is urgent, or time or room is up. `None` when
/// no more can come.
pub(super) fn gather(queue: &Receiver<Queued>, patience: Duration) -> Option<Vec<Queued>> {
    let mut group = vec![queue.recv().ok()?];
    let start = Instant::now();
    loop {
        let bytes: u64 = group.iter().flat_map(|queued| &queued.deliveries).map(|delivery| delivery.record.bytes).sum();
        let forgets = group.last().is_some_and(|queued| !queued.forget.is_empty() || queued.new_edition);
        // What comes after a unit is forgotten may be that unit again.
        if bytes as usize > GATHER_BYTES || forgets {
            return Some(group);
        }
        let patience = match () {
            () if group.iter().any(|queued| queued.urgent) => Duration::ZERO,
            () if group.iter().any(|queued| queued.waiter.is_some()) => patience.min(GATHER_AWAITED),
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
    pub(super) fn commit(&self, group: Vec<Queued>) {
        let edition = {
            let state = self.state();
            if state.ended.is_some() {
                return;
            }
            state.edition
        };
        // Only the last entry of a group may begin an edition, and it does so even if another one is to begin after it.
        let new_edition = group.iter().any(|queued| queued.new_edition);
        let live: Vec<Queued> =
            group.into_iter().filter(|queued| queued.edition == edition || queued.new_edition).collect();
        let deliveries: Vec<Arc<Delivery>> = live.iter().flat_map(|queued| queued.deliveries.iter().cloned()).collect();
        let confirmed: Vec<(Unit, String)> = live.iter().flat_map(|queued| queued.confirmed.iter().cloned()).collect();
        let forget: Vec<Unit> = live.iter().flat_map(|queued| queued.forget.iter().copied()).collect();
        let committed = self
            .store
            .commit(&deliveries)
            .and_then(|()| self.store.confirm(&confirmed))
            .and_then(|()| self.store.forget(forget.iter().copied()));
        if let Err(error) = committed {
            self.end(Err(error.into()));
            return;
        }
        let retired_size = live.iter().filter_map(|queued| queued.retired_size).max();
        let order_done = {
            let mut state = self.state();
            let current = state.edition == edition;
            if current {
                for delivery in &deliveries {
                    let key = (delivery.sequence, delivery.unit.part);
                    // A later delivery of the same unit may have taken its place.
                    if state.pending.get(&key).is_some_and(|pending| Arc::ptr_eq(pending, delivery)) {
                        state.pending.remove(&key);
                    }
                    state.pending_bytes -= delivery.record.bytes as usize;
                }
            }
            match state.order.as_mut().filter(|_| current && !new_edition) {
                Some(order) => {
                    order.units_to_commit -= deliveries.len();
                    order.units_to_commit == 0 && order.is_solved()
                }
                None => false,
            }
        };
        for waiter in live.into_iter().filter_map(|queued| queued.waiter) {
            let _ = waiter.send(());
        }
        let next = if new_edition {
            self.begin_edition(forget)
        } else {
            self.drop_retired_outcomes(retired_size).and_then(|()| if order_done { self.advance() } else { Ok(()) })
        };
        if let Err(error) = next {
            self.end(Err(error));
        }
        self.announce();
    }

    /// Takes finished units back: voids all leases, and has the committer begin a new edition.
    pub(super) fn take_back(&self, state: &mut State, units: Vec<Unit>) {
        state.edition += 1;
        state.order = None;
        state.leases.void();
        state.pending.clear();
        state.pending_bytes = 0;
        self.enqueue(Queued { forget: units, new_edition: true, ..Queued::of(state.edition) });
    }

    /// All parts of a shard.
    pub(super) fn parts_of(&self, plan: &Plan, sequence: &DegreeSequence) -> Vec<Unit> {
        let shard = plan.find(sequence).expect("a shard of the plan");
        let parts = plan.shards[shard as usize].parts;
        (0..parts).map(|part| Unit { order: plan.order as u8, shard, part }).collect()
    }

    /// Makes the state anew of what the store holds, now that these units are forgotten.
    fn begin_edition(&self, forgotten: Vec<Unit>) -> Result<(), CensusError> {
        let edition = {
            let mut state = self.state();
            // Something may have been begun, and accepted, between the taking back and now.
            state.edition += 1;
            state.order = None;
            state.leases.void();
            state.pending.clear();
            state.pending_bytes = 0;
            state.edition
        };
        self.store.put_edition(edition)?;
        let mut first = forgotten.iter().map(|unit| usize::from(unit.order)).min();
        while let Some(n) = first {
            if self.store.order(n)?.is_some_and(|record| !record.outcomes_kept) {
                // What its units were computed from is gone.
                let units = self.store.units(n)?;
                self.store.forget(units.into_iter().map(|(unit, _)| unit))?;
            }
            if n <= ENUMERATED_ORDER + 1 || self.store.has_keys(n - 1)? {
                break;
            }
            first = Some(n - 1);
        }
        if let Some(first) = first {
            for n in first.. {
                let Some(record) = self.store.order(n)? else { break };
                if record.result.is_some() {
                    self.store.put_order(n, &OrderRecord { result: None, ..record })?;
                }
            }
            self.state().results.truncate(first - 1);
        }
        *lock(&self.parent_plan) = None;
        self.advance()
    }

    /// With `--keep minimal`, drops the outcomes with up to `size` edges every few sizes.
    fn drop_retired_outcomes(&self, size: Option<usize>) -> Result<(), CensusError> {
        if self.options.keep == Keep::All {
            return Ok(());
        }
        let (n, size) = {
            let mut state = self.state();
            let Some(order) = &mut state.order else { return Ok(()) };
            let next = order.dropped_size.map_or(0, |dropped| dropped + 4);
            let Some(size) = size.filter(|&size| size >= next) else { return Ok(()) };
            order.dropped_size = Some(size);
            (order.schedule.plan().order, size)
        };
        Ok(self.store.drop_section(Section::Outcomes, n, size)?)
    }
}
