//! Workers, and the work that is leased to them.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use trailtrap_shared::plan::{Plan, Unit};

use super::{
    Core, Fault, Order, Refusal,
    effect::{Effect, News},
    lease::{EndedLease, LONG, Purpose, WorkerId},
    schedule::{Asked, Load, Share},
    setbacks::{Setback, Setbacks},
};
use crate::records::{Author, alarm};

/// A worker as the coordinator sees it.
#[derive(Clone, Debug)]
pub struct Worker {
    /// As records name it.
    pub author: Author,
    /// Cores that it has; bundles of small units are made for that many.
    pub threads: usize,
    /// Bytes of memory that it may take, if it says so.
    pub memory: Option<u64>,
    /// When it registered, since the start of the census.
    pub since: Duration,
    /// Last time it was heard of, likewise.
    pub seen: Duration,
    /// Last time it asked for work.
    pub asked: Option<Duration>,
    /// Units it has solved.
    pub units: u64,
    /// (graph, edge) pairs it has solved.
    pub pairs: u64,
    /// Told that everything is done.
    pub dismissed: bool,
    /// Results of it were wrong.
    pub distrusted: bool,
    /// It works in the coordinator's own process, where nobody lies.
    pub embedded: bool,
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

/// The coordinator where it solves units itself: no worker has this number.
pub const COORDINATOR: WorkerId = 0;

/// So many workers are known at a time: a status that lists them all fits into a message.
pub const MOST_WORKERS: usize = 8192;

impl Core {
    /// Adds a worker, unless results of it were wrong before. Whoever knows its number can speak
    /// for it, so that has to be one that nobody can guess. A name that a living worker has gets a
    /// number: nobody is blamed for what others do.
    ///
    /// # Errors
    ///
    /// [`Refusal::Distrusted`] while an alarm that blames it is open.
    pub fn register(
        &mut self,
        author: Author,
        threads: usize,
        memory: Option<u64>,
        number: u64,
    ) -> Result<WorkerId, Refusal> {
        if self.is_blamed(&author) {
            return Err(Refusal::Distrusted(author.name().to_owned()));
        }
        self.forget_workers();
        let mut id = number;
        while id == COORDINATOR || self.workers.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        let author = self.with_free_name(author);
        let worker = Worker {
            author,
            threads,
            memory,
            since: self.now,
            seen: self.now,
            asked: None,
            units: 0,
            pairs: 0,
            dismissed: false,
            distrusted: false,
            embedded: false,
        };
        self.workers.insert(id, worker);
        Ok(id)
    }

    /// A worker by its name, or by its name and a number if somebody else has that name.
    fn with_free_name(&self, author: Author) -> Author {
        let coordinator = Author::coordinator();
        let taken = || {
            let living = self.workers.values().filter(|other| self.is_alive(other));
            living.map(|other| &other.author).chain(self.blamed()).chain([&coordinator])
        };
        // Most names are free.
        if taken().all(|other| other.name() != author.name()) {
            return author;
        }
        let taken: HashSet<&str> = taken().map(Author::name).collect();
        let mut names = (2..).map(|number| author.numbered(number));
        names.find(|author| !taken.contains(author.name())).unwrap_or(author)
    }

    /// Whom open alarms blame.
    pub fn blamed(&self) -> impl Iterator<Item = &Author> {
        alarm::blamed(self.alarms.values().map(Arc::as_ref))
    }

    /// Whether an alarm that is open blames a worker.
    fn is_blamed(&self, author: &Author) -> bool {
        self.blamed().any(|blamed| blamed.is(author))
    }

    /// Whether a worker was heard of lately, and has more to do.
    fn is_alive(&self, worker: &Worker) -> bool {
        !worker.dismissed && self.now.saturating_sub(worker.seen) < self.settings.lease_term
    }

    /// Those who want work: a sign of life is none of that.
    fn asking(&self) -> impl Iterator<Item = &Author> {
        let asking = self.workers.values().filter(|worker| {
            let has_asked = |asked| self.now.saturating_sub(asked) < self.settings.lease_term;
            worker.asked.is_some_and(has_asked) && !(worker.dismissed || worker.distrusted)
        });
        asking.map(|worker| &worker.author)
    }

    /// Those of them beside this worker.
    fn others(&self, author: &Author) -> impl Iterator<Item = &Author> {
        self.asking().filter(move |other| !other.is(author))
    }

    /// Units of the order in work that nobody is asked for any more as long as no others want work,
    /// and who has tried them in vain.
    pub(super) fn given_up(&self) -> Vec<(Unit, &Setbacks)> {
        let Some(order) = self.order() else { return Vec::new() };
        let workers: Vec<Author> = self.asking().cloned().collect();
        let own = Some(Author::coordinator()).filter(|own| !self.is_blamed(own));
        let comparers: Vec<Author> = workers.iter().cloned().chain(own).collect();
        order.given_up(&workers, &comparers).collect()
    }

    /// Forgets workers that are long gone. If there are too many all the same, some of them go: at
    /// first those that hold nothing, and of those the ones that were silent for longest. Whoever
    /// is forgotten and still there is told so, and registers again.
    fn forget_workers(&mut self) {
        let (now, term) = (self.now, self.settings.lease_term);
        let held = self.leases.held();
        self.workers.retain(|id, worker| {
            let is_lately_seen = now.saturating_sub(worker.seen) < 10 * term;
            worker.distrusted || is_lately_seen || held.contains_key(id)
        });
        if self.workers.len() < MOST_WORKERS {
            return;
        }
        let order =
            |(&id, worker): (&WorkerId, &Worker)| (held.contains_key(&id), worker.seen, id);
        let mut dispensable: Vec<_> = self.workers.iter().map(order).collect();
        dispensable.sort_unstable();
        // Several at once, so that the next does not have to look for one again.
        for (_, _, id) in &dispensable[..MOST_WORKERS / 16] {
            self.workers.remove(id);
        }
    }

    /// Notes a sign of life; false if the worker is not known.
    pub fn hear(&mut self, worker: WorkerId) -> bool {
        let now = self.now;
        self.workers.get_mut(&worker).map(|worker| worker.seen = now).is_some()
    }

    /// Renews leases. Those that have expired go on if nobody else has their units: the coordinator
    /// itself may have been out of reach.
    pub fn renew(&mut self, worker: WorkerId, leases: &[u64]) {
        self.leases.renew(worker, leases, self.now);
        for &lease in leases {
            self.go_on(worker, lease, false);
        }
    }

    /// An expired lease to solve units goes on if nobody else has them and its worker is believed.
    /// One that was ended because it took long does so only when it `delivers`.
    pub(super) fn go_on(&mut self, worker: WorkerId, lease: u64, delivers: bool) {
        if self.trusted(worker).is_err() {
            return;
        }
        let units = self.leases.late(worker, lease, delivers);
        let (Some(units), Some(order)) = (units, &mut self.order) else { return };
        if order.schedule.take(units) {
            if delivers {
                self.leases.came_late(lease);
            }
            self.leases.go_on(lease, self.now);
        }
    }

    /// A worker as records name it; one that is not known has no name.
    pub fn author(&self, worker: WorkerId) -> Author {
        if worker == COORDINATOR {
            return Author::coordinator();
        }
        self.workers.get(&worker).map(|worker| worker.author.clone()).unwrap_or_default()
    }

    /// A worker as records name it, if its results are believed.
    ///
    /// # Errors
    ///
    /// [`Refusal::Distrusted`]; [`Refusal::Void`] if it is not known.
    pub fn trusted(&self, worker: WorkerId) -> Result<Author, Refusal> {
        match self.workers.get(&worker) {
            Some(Worker { distrusted: true, author, .. }) => {
                Err(Refusal::Distrusted(author.name().to_owned()))
            }
            Some(worker) => Ok(worker.author.clone()),
            None => Err(Refusal::Void),
        }
    }

    /// What a worker holds under a lease, or held until it expired: units of the plan in work.
    pub fn leased(&self, worker: WorkerId, lease: u64) -> Option<(Arc<Plan>, Vec<Unit>)> {
        let plan = self.plan()?.clone();
        let units = self.leases.get(worker, lease)?;
        let is_planned = |unit: &Unit| usize::from(unit.order) == plan.order;
        units.iter().all(is_planned).then(|| (plan, units.to_vec()))
    }

    /// A worker that has room for so many graphs asks for work. Leases of an embedded worker do not
    /// expire.
    pub fn assign(&mut self, worker: WorkerId, room: u64, embedded: bool) -> Assignment {
        self.expire();
        let now = self.now;
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.asked = Some(now);
            worker.embedded = embedded;
        }
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
        let found = self.find_work(worker, room).or_else(|| {
            self.expire_long(worker);
            self.find_work(worker, room)
        });
        // Also while there is something to solve: what is wrong is not to be built upon for long.
        self.compare_unaided(found.is_some());
        let Some((plan, purpose, units)) = found else {
            self.end_if_stuck(embedded);
            return Assignment::Wait;
        };
        if self.leases.units() == 0 {
            self.pace.begin(self.now);
        }
        let lease = match embedded {
            true => self.leases.grant_embedded(worker, purpose, units.clone()),
            false => self.leases.grant(worker, purpose, units.clone(), self.now),
        };
        Assignment::Work(Work { lease, plan, units, edition: self.edition })
    }

    /// Takes units for a worker that has room for so many graphs.
    fn find_work(
        &mut self,
        worker: WorkerId,
        room: u64,
    ) -> Option<(Arc<Plan>, Purpose, Vec<Unit>)> {
        let working: Vec<(WorkerId, usize)> = self
            .workers
            .iter()
            .filter(|(id, other)| **id == worker || self.is_alive(other) && !other.distrusted)
            .map(|(id, other)| (*id, other.threads))
            .collect();
        let threads = working.iter().map(|(_, threads)| threads).sum();
        let index = working.iter().position(|(id, _)| *id == worker).unwrap_or(0);
        let share = Share { index, of: working.len().max(1) };
        let asked = Asked { threads, share, room };
        let author = self.author(worker);
        let has_setbacks = self.order().is_some_and(|order| order.setbacks().next().is_some());
        let others =
            if has_setbacks { self.others(&author).cloned().collect() } else { Vec::new() };
        let order = self.order.as_mut()?;
        let plan = order.plan().clone();
        // Comparisons first: what is wrong should be known before much is built upon it.
        let compared =
            order.comparisons.lease(&author, &others, room, |unit| Load::of(&plan, unit));
        let (purpose, units) = match compared.is_empty() {
            true => (Purpose::Solve, order.schedule.lease(asked, &author, &others)),
            false => {
                self.unaided_since = None;
                (Purpose::Compare, compared)
            }
        };
        (!units.is_empty()).then_some((plan, purpose, units))
    }

    /// Somebody has asked for work. What nobody who asks for some can compare, the coordinator
    /// compares, if that has been so for the time of a lease. As long as there is something to solve,
    /// all who are there are waited for, and will ask again, but for those who have not asked for the
    /// time after which a lease is long.
    fn compare_unaided(&mut self, is_something_to_solve: bool) {
        // One bundle at a time.
        let is_busy = self.leases.held().contains_key(&COORDINATOR);
        let own = Author::coordinator();
        if self.order().is_none_or(|order| order.comparisons.open() == 0)
            || is_busy
            || self.is_blamed(&own)
        {
            return;
        }
        let workers: Vec<Author> = match is_something_to_solve {
            true => {
                let all = self.workers.values();
                let is_soon =
                    |asked| self.now.saturating_sub(asked) < LONG * self.settings.lease_term;
                let there = all.filter(|worker| {
                    self.is_alive(worker)
                        && !worker.distrusted
                        && worker.asked.is_some_and(is_soon)
                });
                there.map(|worker| worker.author.clone()).collect()
            }
            false => self.asking().cloned().collect(),
        };
        let is_left = |order: &Order| {
            let mut stuck = order.comparisons.stuck(&workers);
            stuck.any(|(_, setbacks)| !setbacks.is_set_aside())
        };
        if !self.order().is_some_and(is_left) {
            return;
        }
        if !self.has_waited_unaided() {
            return;
        }
        let Some(order) = &mut self.order else { return };
        let plan = order.plan().clone();
        let units = order.comparisons.lease_left(&workers, &own, |unit| Load::of(&plan, unit));
        if units.is_empty() {
            return;
        }
        let lease = self.leases.grant_embedded(COORDINATOR, Purpose::Compare, units.clone());
        self.emit(Effect::Compare { lease, plan, units });
    }

    /// Whether it has been for the time of a lease, since this was first asked, that no worker can
    /// compare what is left. Begins to count if it has not.
    fn has_waited_unaided(&mut self) -> bool {
        let since = *self.unaided_since.get_or_insert(self.now);
        self.now.saturating_sub(since) >= self.settings.lease_term
    }

    /// Whether there is something for this worker to solve now.
    pub fn has_work_for(&self, worker: WorkerId) -> bool {
        let author = self.author(worker);
        let others: Vec<Author> = self.others(&author).cloned().collect();
        self.order().is_some_and(|order| order.schedule.has_work_for(&author, &others))
    }

    /// Ends the leases that are past their deadline; their units go to others.
    fn expire(&mut self) {
        for ended in self.leases.expire(self.now) {
            self.expired(ended);
        }
    }

    /// Somebody has nothing to do: ends the oldest lease that takes too long, of somebody else if
    /// there is anybody.
    fn expire_long(&mut self, worker: WorkerId) {
        let author = self.author(worker);
        let is_alone = self.others(&author).next().is_none();
        let workers = &self.workers;
        // What has been delivered is looked at as soon as there is time.
        let arrived: BTreeSet<u64> = self.arrivals.values().map(|arrival| arrival.lease).collect();
        let may_go = |number: u64, holder: WorkerId| {
            let is_other = workers.get(&holder).is_none_or(|holder| !holder.author.is(&author));
            (is_alone || is_other) && !arrived.contains(&number)
        };
        let ended = self.leases.expire_long(self.now, may_go);
        if let Some(ended) = ended {
            self.expired(ended);
        }
    }

    fn expired(&mut self, ended: EndedLease) {
        let (lease, worker, units) = (ended.number, self.author(ended.worker), ended.units.len());
        self.emit(Effect::Say(News::LeaseExpired { lease, worker, units }));
        self.make_available(ended, Setback::Late);
    }

    /// A worker gives leased units back unsolved. `failure` says why they could not be solved, if
    /// that was tried. What it has delivered, and does not wait for, is looked at all the same.
    pub fn give_back(&mut self, worker: WorkerId, lease: u64, failure: Option<&str>) {
        let mut arrivals = self.arrivals.values();
        if arrivals.any(|arrival| arrival.worker == worker && arrival.lease == lease) {
            return;
        }
        if let Some(ended) = self.leases.end(worker, lease) {
            self.make_available(ended, failure.map_or(Setback::None, Setback::Failed));
        }
        if worker == COORDINATOR && failure.is_some() {
            // What is in its way may be gone after a while, or somebody else be there.
            self.unaided_since = Some(self.now);
        }
        self.emit(Effect::Wake);
    }

    /// Lets others have the units of a lease that has ended, or sets them aside.
    pub(super) fn make_available(&mut self, ended: EndedLease, setback: Setback) {
        let author = self.author(ended.worker);
        let Some(order) = &mut self.order else { return };
        let set_aside = match ended.purpose {
            Purpose::Solve => order.schedule.give_back(&ended.units, &author, setback),
            Purpose::Compare => order.comparisons.give_back(&ended.units, &author, setback),
        };
        let Setback::Failed(why) = setback else { return };
        let is_left = |(unit, setbacks): &(Unit, &Setbacks)| {
            ended.units.contains(unit)
                && setbacks.is_refused_to(&author)
                && !setbacks.is_set_aside()
        };
        let left: Vec<Unit> = order.setbacks().filter(is_left).map(|(unit, _)| unit).collect();
        for unit in left {
            let (worker, failure) = (author.clone(), why.to_owned());
            self.emit(Effect::Say(News::LeftToOthers { unit, worker, failure }));
        }
        for unit in set_aside {
            let failure = format!("{author}: {why}");
            self.emit(Effect::Say(News::SetAside { unit, failure }));
        }
    }

    /// Whether somebody who is believed is still at units that a lease was too short for, and what
    /// comes of it would be accepted, or compared.
    fn is_awaited(&self) -> bool {
        let Some(order) = self.order() else { return false };
        let is_wanted = |purpose, units: &[Unit]| match purpose {
            Purpose::Solve => order.schedule.are_free(units),
            Purpose::Compare => units.iter().any(|&unit| order.comparisons.has(unit)),
        };
        let mut late = self.leases.still_at(self.now);
        late.any(|(by, purpose, units)| self.trusted(by).is_ok() && is_wanted(purpose, units))
    }

    /// Ends the census if there is nothing left to do but what nobody is asked for any more. Others
    /// who can solve it may come, unless a worker of this process is the only one, and those who are
    /// still at it are waited for. What the coordinator has failed to compare another may: one is
    /// waited for, for the time of a lease.
    fn end_if_stuck(&mut self, embedded: bool) {
        let Some(order) = self.order() else { return };
        let is_idle = self.pending.is_empty()
            && self.arrivals.is_empty()
            && self.inquiries.is_empty()
            && (order.schedule.ready() == 0 || embedded)
            && self.leases.units() == 0;
        if !is_idle {
            return;
        }
        let (given_up, own) = (self.given_up(), Author::coordinator());
        let has_failed =
            |setbacks: &Setbacks| setbacks.is_set_aside() || setbacks.is_refused_to(&own);
        let to_compare: Vec<&Setbacks> = given_up
            .iter()
            .filter(|(unit, setbacks)| order.comparisons.has(*unit) && has_failed(setbacks))
            .map(|&(_, setbacks)| setbacks)
            .collect();
        let may_others_come = to_compare.iter().any(|setbacks| !setbacks.is_set_aside());
        let is_all = order.comparisons.open() == to_compare.len();
        let Some((unit, setbacks)) = given_up.first().filter(|_| is_all) else { return };
        if self.is_awaited() {
            return;
        }
        let fault = Fault::SetAside {
            count: given_up.len(),
            sequence: order.plan().shard_of(*unit).sequence,
            part: unit.part,
            failures: setbacks.failures().cloned().collect::<Vec<_>>().join("; "),
        };
        if !may_others_come || self.has_waited_unaided() {
            self.end(Err(fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Settings, Start, lease::Purpose};

    /// One worker holds something, one says that it is there, and others come and go.
    #[test]
    fn there_are_not_more_workers_than_can_be_told_of() {
        let term = Duration::from_secs(60);
        let settings = Settings { target: 5, lease_term: term, pending_bytes: 1, unix_seconds: 0 };
        let mut core = Core::new(settings, Start::default());
        let register = |core: &mut Core, number: u64, at: u64| {
            core.set_now(Duration::from_millis(at));
            core.register(Author::new(&format!("worker {number}"), "k"), 1, None, number + 1)
                .unwrap()
        };
        let holder = register(&mut core, 0, 0);
        core.leases.grant(holder, Purpose::Solve, Vec::new(), Duration::ZERO);
        let alive = register(&mut core, 1, 0);
        for number in 2..20_000 {
            let last = register(&mut core, number, number);
            assert!(core.hear(alive), "it was heard of a moment ago");
            assert!(core.hear(last) && core.workers.len() <= MOST_WORKERS);
        }
        assert!(core.workers.len() > MOST_WORKERS / 2);
        assert!(core.workers.contains_key(&holder), "it holds something");
        assert!(!core.hear(alive + 1), "it was silent for longest");
        // Those that are long gone.
        register(&mut core, 20_000, 20_000 + 10 * 60_000);
        assert_eq!(core.workers.len(), 2);
    }
}
