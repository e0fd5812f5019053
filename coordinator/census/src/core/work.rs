//! Workers, and the work that is leased to them.

use std::{sync::Arc, time::Duration};

use trailtrap_shared::plan::{Plan, Unit};

use super::{
    Core, Fault, Refusal,
    effect::Effect,
    lease::{EndedLease, Purpose, WorkerId},
};
use crate::records::{Author, alarm::Alarm};

/// A worker as the coordinator sees it.
#[derive(Clone, Debug)]
pub struct Worker {
    /// As records name it.
    pub author: Author,
    /// Cores that it has; bundles of small units are made for that many.
    pub threads: usize,
    /// Last time it was heard of, since the start of the census.
    pub seen: Duration,
    /// Units it has solved.
    pub units: u64,
    /// (graph, edge) pairs it has solved.
    pub pairs: u64,
    /// Told that everything is done.
    pub dismissed: bool,
    /// Results of it were wrong.
    pub distrusted: bool,
}

/// What a worker is told when it asks for work.
#[derive(Debug)]
pub enum Assignment {
    /// Units to solve.
    Work(Work),
    /// There is nothing to do at the moment: ask again.
    Wait,
    /// Results of this worker were wrong: it gets none.
    Distrusted,
    /// Everything is done.
    Finished,
    /// The coordinator stops before that.
    Stopping,
}

/// Units leased to a worker.
#[derive(Debug)]
pub struct Work {
    /// The number of the lease, which comes with the results.
    pub lease: u64,
    /// The plan of the order of the units.
    pub plan: Arc<Plan>,
    /// In the order in which they are to be solved.
    pub units: Vec<Unit>,
    /// Partitions read under another edition may be others.
    pub edition: u32,
}

impl Core {
    /// Adds a worker, unless results of it were wrong before.
    ///
    /// # Errors
    ///
    /// [`Refusal::Distrusted`] while an alarm that blames it is open.
    pub fn register(&mut self, author: Author, threads: usize) -> Result<WorkerId, Refusal> {
        let is_same = |blamed: &Author| blamed.name() == author.name();
        let is_blamed = |alarm: &Alarm| alarm.blamed.iter().any(is_same);
        let mut open = self.alarms.values().filter(|alarm| alarm.settled.is_none());
        if open.any(is_blamed) {
            return Err(Refusal::Distrusted(author.name().to_owned()));
        }
        // Workers that are long gone need not be remembered.
        let (now, term) = (self.now, self.settings.lease_term);
        self.workers.retain(|&id, worker| {
            let is_lately_seen = now.saturating_sub(worker.seen) < 10 * term;
            worker.distrusted || is_lately_seen || self.leases.units(Some(id)) > 0
        });
        self.next_worker += 1;
        let worker = Worker {
            author,
            threads,
            seen: now,
            units: 0,
            pairs: 0,
            dismissed: false,
            distrusted: false,
        };
        self.workers.insert(self.next_worker, worker);
        Ok(self.next_worker)
    }

    /// Notes a sign of life; false if the worker is not known.
    pub fn hear(&mut self, worker: WorkerId) -> bool {
        let now = self.now;
        self.workers.get_mut(&worker).map(|worker| worker.seen = now).is_some()
    }

    /// Renews leases.
    pub fn renew(&mut self, worker: WorkerId, leases: &[u64]) {
        self.leases.renew(worker, leases, self.now);
    }

    /// A worker as records name it; one that is not known has no name.
    pub fn author(&self, worker: WorkerId) -> Author {
        self.workers.get(&worker).map(|worker| worker.author.clone()).unwrap_or_default()
    }

    /// What a worker holds under a lease, or held until it expired: units of the plan in work.
    pub fn leased(&self, worker: WorkerId, lease: u64) -> Option<(Arc<Plan>, Vec<Unit>)> {
        let plan = self.plan()?.clone();
        let units = self.leases.get(worker, lease)?;
        let is_planned = |unit: &Unit| usize::from(unit.order) == plan.order;
        units.iter().all(is_planned).then(|| (plan, units.to_vec()))
    }

    /// A worker asks for work. Leases of an embedded worker do not expire.
    pub fn assign(&mut self, worker: WorkerId, embedded: bool) -> Assignment {
        self.expire();
        if self.workers.get(&worker).is_some_and(|worker| worker.distrusted) {
            return Assignment::Distrusted;
        }
        match &self.ended {
            Some(Ok(())) => {
                if let Some(worker) = self.workers.get_mut(&worker) {
                    worker.dismissed = true;
                }
                return Assignment::Finished;
            }
            Some(Err(_)) => return Assignment::Stopping,
            None if self.closing => return Assignment::Stopping,
            None => {}
        }
        let (now, term) = (self.now, self.settings.lease_term);
        let is_alive =
            |worker: &&super::Worker| !worker.dismissed && now.saturating_sub(worker.seen) < term;
        let threads = self.workers.values().filter(is_alive).map(|worker| worker.threads).sum();
        let author = self.author(worker);
        let Some(order) = &mut self.order else { return Assignment::Wait };
        let plan = order.plan().clone();
        // Comparisons first: what is wrong should be known before much is built upon it.
        let compared = order.comparisons.lease(&author, |unit| plan.pairs(unit));
        let (purpose, units) = match compared.is_empty() {
            true => (Purpose::Solve, order.schedule.lease(threads)),
            false => (Purpose::Compare, compared),
        };
        if units.is_empty() {
            self.end_if_stuck();
            return Assignment::Wait;
        }
        let lease = match embedded {
            true => self.leases.grant_embedded(worker, purpose, units.clone()),
            false => self.leases.grant(worker, purpose, units.clone(), now),
        };
        Assignment::Work(Work { lease, plan, units, edition: self.edition })
    }

    /// Ends the leases that are past their deadline; their units go to others.
    fn expire(&mut self) {
        for ended in self.leases.expire(self.now) {
            let (lease, units) = (ended.number, ended.units.len());
            tracing::warn!(lease, worker = ended.worker, units, "lease expired");
            let failure = format!("{} fell silent", self.author(ended.worker));
            self.make_available(ended, Some(&failure));
        }
    }

    /// A worker gives leased units back unsolved. `failure` says why they could not be solved, if
    /// that was tried.
    pub fn give_back(&mut self, worker: WorkerId, lease: u64, failure: Option<&str>) {
        if let Some(ended) = self.leases.end(worker, lease) {
            let author = self.author(worker);
            let failure = failure.map(|why| format!("{author}: {why}"));
            self.make_available(ended, failure.as_deref());
        }
        self.emit(Effect::Wake);
    }

    /// Lets others have the units of a lease that has ended, or sets them aside.
    pub(super) fn make_available(&mut self, ended: EndedLease, failure: Option<&str>) {
        let Some(order) = &mut self.order else { return };
        let set_aside = match ended.purpose {
            Purpose::Solve => order.schedule.give_back(&ended.units, failure),
            Purpose::Compare => order.comparisons.give_back(&ended.units, failure),
        };
        for unit in set_aside {
            tracing::error!(?unit, failure, "a unit failed again and again and is set aside");
        }
    }

    /// Ends the census if there is nothing left to do but what was set aside.
    fn end_if_stuck(&mut self) {
        let Some(order) = &self.order else { return };
        let is_idle = self.pending.is_empty()
            && order.schedule.ready() == 0
            && order.comparisons.waiting() == 0
            && self.leases.units(None) == 0;
        if !is_idle {
            return;
        }
        let Some((unit, failures)) = order.set_aside().next() else { return };
        let fault = Fault::SetAside {
            count: order.set_aside().count(),
            sequence: order.plan().shards[unit.shard as usize].sequence,
            part: unit.part,
            failures: failures.join("; "),
        };
        self.end(Err(fault));
    }
}
