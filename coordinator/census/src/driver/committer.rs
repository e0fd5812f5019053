//! The committer: a thread that makes durable what was accepted, in the order in which it was
//! accepted, begins editions, and opens an order that has waited for a worker.

use std::{
    sync::{
        Arc, Weak,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use trailtrap_shared::{
    graph::{MAX_ORDER, pairs},
    plan::{Unit, order_name},
};

use super::{Census, CensusError};
use crate::{
    core::{
        CommitEntry, Confirmed,
        withdrawal::{self, OrderOnRecord},
    },
    records::{Author, Delivery, OrderRecord},
    store::{self, StoreError},
};

/// What the committer does.
pub(super) enum Task {
    Commit(CommitEntry),
    /// Takes these units back.
    BeginEdition(Vec<Unit>),
    /// Opens this order, which waited for a worker, in this edition.
    OpenOrder(usize, u32),
}

/// What it does as one.
enum Group {
    Commit(Vec<CommitEntry>),
    BeginEdition(Vec<Unit>),
    OpenOrder(usize, u32),
}

/// The committer gathers deliveries that nobody waits for for one part in so many of the time that a
/// run has lasted, and no longer than the options say: a crash costs little of what was done, and
/// long runs write few files.
pub const GATHER: u32 = 20;
/// It gathers deliveries no longer than this while a worker waits for them: half as long as a lease
/// of much work takes.
pub const GATHER_AWAITED: Duration = Duration::from_millis(100);
/// It gathers no more than a quarter of the bytes that may wait, 16 MiB at least, so that nobody is
/// held back for what is only being gathered. The store has a copy of as much that it has not flushed
/// yet; much less would be many files.
fn gathered_bytes(memory: Option<u64>) -> u64 {
    (super::pending_bytes(memory) / 4).max(16 << 20)
}

/// Starts the committer, which ends with the queue or with the census.
pub(super) fn spawn(census: &Arc<Census>, queue: Receiver<Task>) -> JoinHandle<()> {
    let longest = census.options.gather;
    let most_bytes = gathered_bytes(census.options.memory);
    let census = Arc::downgrade(census);
    let work = move || {
        let _unanswered = Unanswered(census.clone());
        let started = Instant::now();
        let mut gatherer = Gatherer { queue, next: None, most_bytes };
        while let Some(group) = gatherer.gather((started.elapsed() / GATHER).min(longest)) {
            let Some(census) = census.upgrade() else { return };
            let done = match group {
                Group::Commit(entries) => census.commit(entries),
                Group::BeginEdition(units) => census.begin_edition(units),
                Group::OpenOrder(order, edition) => census.open_order(order, edition),
            };
            if let Err(error) = done {
                census.fail(error);
            }
        }
    };
    let thread = std::thread::Builder::new().name("committer".to_owned());
    thread.spawn(work).expect("threads can be spawned")
}

/// Hangs up on those who wait when the committer ends, however it does: nobody answers them any
/// more.
struct Unanswered(Weak<Census>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(census) = self.0.upgrade() {
            census.state().waiting.clear();
        }
    }
}

struct Gatherer {
    queue: Receiver<Task>,
    /// What was found in the queue and is not of the group before it.
    next: Option<Task>,
    /// Of a group; more only if one delivery has more.
    most_bytes: u64,
}

impl Gatherer {
    /// Waits for something to do, then gathers what comes along, until it is urgent, or time or
    /// room is up. `None` when no more can come.
    fn gather(&mut self, patience: Duration) -> Option<Group> {
        let first = match self.next.take() {
            Some(task) => task,
            None => self.queue.recv().ok()?,
        };
        let mut entries = match first {
            Task::BeginEdition(units) => return Some(Group::BeginEdition(units)),
            Task::OpenOrder(order, edition) => return Some(Group::OpenOrder(order, edition)),
            Task::Commit(entry) => vec![entry],
        };
        let start = Instant::now();
        loop {
            let deliveries = entries.iter().flat_map(|entry| &entry.deliveries);
            let bytes: u64 = deliveries.map(|delivery| delivery.record.bytes).sum();
            // What comes after a stale unit may be that unit again.
            let is_stale = entries.last().is_some_and(|entry| !entry.stale.is_empty());
            if bytes > self.most_bytes || is_stale {
                return Some(Group::Commit(entries));
            }
            let patience = if entries.iter().any(|entry| entry.urgent) {
                Duration::ZERO
            } else if entries.iter().any(|entry| entry.arrival.is_some()) {
                patience.min(GATHER_AWAITED)
            } else {
                patience
            };
            match self.queue.recv_timeout(patience.saturating_sub(start.elapsed())) {
                Ok(Task::Commit(entry)) => entries.push(entry),
                Ok(task) => {
                    self.next = Some(task);
                    return Some(Group::Commit(entries));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Some(Group::Commit(entries));
                }
            }
        }
    }
}

impl Census {
    /// Has the committer do something; no if there is no committer any more.
    pub(super) fn enqueue(&self, task: Task) -> bool {
        self.queue.lock().as_ref().is_some_and(|queue| queue.send(task).is_ok())
    }

    /// Makes entries durable.
    fn commit(&self, entries: Vec<CommitEntry>) -> Result<(), CensusError> {
        let entries = self.event(|core| core.writing(entries));
        self.write(&entries)?;
        self.event(|core| core.written(entries));
        Ok(())
    }

    fn write(&self, entries: &[CommitEntry]) -> Result<(), StoreError> {
        let deliveries = entries.iter().flat_map(|entry| entry.deliveries.iter().cloned());
        let deliveries: Vec<Arc<Delivery>> = deliveries.collect();
        let confirmed = entries.iter().flat_map(|entry| entry.confirmed.iter().cloned());
        let confirmed: Vec<(Unit, Author)> =
            confirmed.map(|Confirmed { unit, by }| (unit, by)).collect();
        let stale = entries.iter().flat_map(|entry| entry.stale.iter().copied());
        let stale: Vec<Unit> = stale.collect();
        self.store.commit(&deliveries, gathered_bytes(self.options.memory))?;
        self.store.confirm(&confirmed)?;
        self.store.take_back(&stale)
    }

    /// Takes those of these units back that are in the store, with the results that follow from
    /// them, of their orders and of those above, and begins an edition; with them, whole orders
    /// where it takes that ([`withdrawal`]). What was computed from them stays on record: it counts
    /// again if they come out as they were, and is solved again otherwise, with its order if what
    /// it reads has gone.
    fn begin_edition(&self, doubted: Vec<Unit>) -> Result<(), CensusError> {
        if self.has_ended() {
            return Ok(());
        }
        let edition = self.event(|core| core.beginning());
        let mut orders = Vec::new();
        for order in 1..=MAX_ORDER {
            let record = self.store.order(order)?;
            orders.push(OrderOnRecord { order, record, doubted: Vec::new() });
        }
        for unit in doubted {
            // What was never accepted, or is not durable, is not there to be taken back.
            let of_unit = orders.iter_mut().find(|order| order.order == usize::from(unit.order));
            if let Some(order) = of_unit
                && self.store.unit(unit)?.is_some()
            {
                order.doubted.push(unit);
            }
        }
        let alone = |order: &OrderOnRecord| self.can_be_solved_alone(order);
        let whole = withdrawal::whole_orders(&orders, alone, |order| self.lacks_parents(order))?;
        let (mut units, mut withdrawn, mut had_results) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_affected = false;
        for (order, is_whole) in orders.into_iter().zip(whole) {
            let n = order.order;
            let before = units.len();
            match is_whole {
                // Those that are doubted are among them.
                true => {
                    for item in self.store.each_unit(n) {
                        units.push(item?.0);
                    }
                }
                false => units.extend(order.doubted),
            }
            is_affected |= self.follows_from(n, order.record.as_ref(), &units[before..])?;
            if let Some(record) = order.record.filter(|_| is_affected) {
                had_results.extend(record.result.as_ref().map(|_| order_name(n, record.max_size)));
                withdrawn.push((n, record.withdraw()));
            }
        }
        let first = units.iter().map(|unit| usize::from(unit.order)).min();
        self.store.begin_edition(edition, &units, &withdrawn)?;
        if !had_results.is_empty() {
            let (orders, units) = (had_results.join(", "), units.len());
            tracing::warn!(
                units,
                "results are withdrawn until units that they follow from are solved again: {orders}"
            );
        }
        *self.parent_plan.lock() = None;
        self.event(|core| core.begun(first));
        Ok(())
    }

    /// Whether something follows from one of these units of an order, and goes with it: beside a
    /// limited result, nothing from what a run has left that was to do more.
    fn follows_from(
        &self,
        n: usize,
        record: Option<&OrderRecord>,
        units: &[Unit],
    ) -> Result<bool, StoreError> {
        let is_limited =
            |record: &&OrderRecord| record.result.is_some() && record.max_size.is_some();
        let Some(record) = record.filter(is_limited).filter(|_| !units.is_empty()) else {
            return Ok(!units.is_empty());
        };
        let plan = store::plan(self.store.layout(), n, record)?;
        Ok(units.iter().any(|&unit| !plan.leaves_out(unit)))
    }

    /// Whether the doubted units of an order whose outcomes go can be solved again without the rest
    /// of it.
    fn can_be_solved_alone(&self, order: &OrderOnRecord) -> Result<bool, StoreError> {
        let Some(record) = &order.record else { return Ok(true) };
        // A run that was to do more may have left units of more edges.
        let (layout, n) = (self.store.layout(), order.order);
        let plan = store::plan_up_to(layout, n, record, pairs(n))?;
        withdrawal::can_be_solved_alone(&plan, &order.doubted, |shard| {
            self.store.has_gone(&plan, shard)
        })
    }
}
