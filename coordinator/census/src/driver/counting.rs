//! Units that workers count again, so that the coordinator need not read what lies in the depot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use trailtrap_shared::{partition::Section, plan::Plan, protocol::messages::Described};
use trailtrap_worker::counting::{CountTask, Statement};

use super::{Census, CensusError};
use crate::{
    core::{
        Refusal, WorkerId,
        counting::{CountDesk, Counted},
        parents::ENUMERATED_ORDER,
    },
    records::{DeliveredBlock, Delivery},
    trust::trial::TrialError,
};

/// What has fewer bytes is counted here, in less than a millisecond: to have it counted takes two
/// calls.
pub const LEAST_BYTES: u64 = 16 << 10;

/// A unit of more buckets is counted here: what is stated of it does not fit into a small message.
const MOST_BUCKETS: u32 = 512;
/// So many bytes of small blocks go with a task.
const MOST_HERE_BYTES: u64 = 1 << 20;
/// A statement is not waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// The desk, and those who wait for what comes of tasks.
pub(super) struct Counting {
    desk: Mutex<Desk>,
    changed: Condvar,
    /// A task was put out.
    put: Notify,
}

struct Desk {
    tasks: CountDesk<CountTask, Statement>,
    is_closed: bool,
}

/// A task that somebody waits for, until this is dropped.
pub(super) struct CountTicket<'a> {
    census: &'a Census,
    number: u64,
    /// From then on it is not waited for.
    until: Instant,
}

impl Counting {
    /// Nothing to count. Numbers of tasks begin where those of leases do in this run.
    pub(super) fn new(epoch: u32) -> Self {
        let tasks = CountDesk::new(u64::from(epoch) << 32);
        let desk = Mutex::new(Desk { tasks, is_closed: false });
        Counting { desk, changed: Condvar::new(), put: Notify::new() }
    }

    /// What is being examined is not what it was when it was put out.
    pub(super) fn clear(&self) {
        self.desk.lock().tasks.clear();
        self.changed.notify_all();
    }

    /// A worker with much room waits for something to count.
    #[cfg(test)]
    pub(super) fn wait(&self, worker: WorkerId, author: &crate::records::Author) {
        let taken = self.desk.lock().tasks.take(worker, author, u64::MAX);
        assert!(taken.is_none(), "there is nothing to count yet");
    }

    /// Nobody is to wait for others any more.
    pub(super) fn close(&self) {
        self.desk.lock().is_closed = true;
        self.changed.notify_all();
        self.put.notify_waiters();
    }
}

/// Somebody who waits for a task, until this is dropped.
struct Idle<'a> {
    census: &'a Census,
    worker: WorkerId,
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.census.counting.desk.lock().tasks.leave(self.worker);
        self.census.counting.changed.notify_all();
    }
}

impl Drop for CountTicket<'_> {
    fn drop(&mut self) {
        self.census.counting.desk.lock().tasks.withdraw(self.number);
    }
}

impl CountTicket<'_> {
    /// Waits for a statement, and who has made it; `None` if nobody makes any.
    ///
    /// # Errors
    ///
    /// [`TrialError::Gone`] if the census ends: nothing is accepted any more.
    pub(super) fn wait(self) -> Result<Option<(WorkerId, Statement)>, TrialError<CensusError>> {
        let Counting { desk, changed, .. } = &self.census.counting;
        let mut desk = desk.lock();
        loop {
            if desk.is_closed {
                return Err(TrialError::Gone);
            }
            match desk.tasks.collect(self.number) {
                Some(Counted::Stated(by, statement)) => return Ok(Some((by, statement))),
                Some(Counted::Failed) => return Ok(None),
                None => {}
            }
            if changed.wait_until(&mut desk, self.until).timed_out() {
                return Ok(None);
            }
        }
    }
}

impl Census {
    /// Has another worker count a delivery again, if there is somebody to do it, and if that says
    /// all that the coordinator would find in its blocks. Graphs of small orders are compared with
    /// nauty's.
    pub(super) fn have_counted(
        &self,
        plan: &Arc<Plan>,
        delivery: &Delivery,
    ) -> Option<CountTicket<'_>> {
        let Delivery { unit, named, told_ahead, record, .. } = delivery;
        // Whoever counts makes lists of wins anew, and does not see those that were delivered.
        let has_wins = named.iter().any(|(id, _)| id.section == Section::Wins);
        let is_told = !named.is_empty() && !has_wins && told_ahead.is_some();
        let shard = plan.shards.get(unit.shard as usize)?;
        if !is_told
            || record.bytes < LEAST_BYTES
            || plan.order <= ENUMERATED_ORDER
            || !plan.layout.class.is_by_degrees()
        {
            return None;
        }
        let (mut blocks, mut bucket_bytes, mut here_bytes) = (Vec::new(), 0, 0);
        if 1 << shard.bucket_bits > MOST_BUCKETS {
            return None;
        }
        for bucket in shard.buckets() {
            let mut bytes = 0;
            for section in [Section::Keys, Section::Outcomes] {
                let described = match delivery.block(bucket, section)? {
                    DeliveredBlock::Here(block) => Described::Here(block.clone()),
                    DeliveredBlock::Named(name) => self.named(*name),
                };
                bytes += match &described {
                    Described::Here(block) => {
                        here_bytes += block.name().length;
                        block.name().length
                    }
                    Described::Named(name, _) => name.length,
                };
                blocks.push(described);
            }
            bucket_bytes = bucket_bytes.max(bytes);
        }
        if here_bytes > MOST_HERE_BYTES {
            return None;
        }
        let edition = {
            let state = self.state();
            let is_in_work =
                state.core.plan().is_some_and(|known| known.fingerprint == plan.fingerprint);
            is_in_work.then(|| state.core.edition())?
        };
        let plan = plan.clone();
        // It is given a number when it is put out.
        let task = CountTask { number: 0, plan, unit: *unit, edition, blocks };
        let mut desk = self.counting.desk.lock();
        if desk.is_closed {
            return None;
        }
        let number = desk.tasks.put(&record.worker, record.bytes, bucket_bytes, task)?;
        drop(desk);
        self.counting.put.notify_waiters();
        let until = Instant::now() + self.options.lease_term.min(PATIENCE);
        Some(CountTicket { census: self, number, until })
    }

    /// A unit of another worker for this one to count again, of which a bucket takes at most `room`
    /// bytes; waits for one for so long.
    ///
    /// # Errors
    ///
    /// [`Refusal::Distrusted`], or [`Refusal::Ended`] if the census ends.
    pub async fn count_task(
        &self,
        worker: WorkerId,
        room: u64,
        patience: Duration,
    ) -> Result<Option<CountTask>, Refusal> {
        let deadline = tokio::time::Instant::now() + patience;
        // However this ends: whoever asks may be gone.
        let _idle = Idle { census: self, worker };
        loop {
            let put = self.counting.put.notified();
            let author = self.state().core.trusted(worker)?;
            let taken = {
                let mut desk = self.counting.desk.lock();
                if desk.is_closed {
                    return Err(Refusal::Ended);
                }
                desk.tasks.take(worker, &author, room)
            };
            // What it had before is given up.
            self.counting.changed.notify_all();
            if let Some((number, task)) = taken {
                return Ok(Some(CountTask { number, ..task }));
            }
            if tokio::time::timeout_at(deadline, put).await.is_err() {
                return Ok(None);
            }
        }
    }

    /// A worker states what it has counted, or that it could not.
    pub fn counted(&self, worker: WorkerId, number: u64, stated: Option<Statement>) {
        let stated = stated.filter(|_| self.state().core.trusted(worker).is_ok());
        self.counting.desk.lock().tasks.state(worker, number, stated);
        self.counting.changed.notify_all();
    }
}
