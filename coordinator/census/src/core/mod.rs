//! The census as a pure state machine: what is leased to whom, what is accepted, compared,
//! committed, doubted and taken back, and which order comes next.
//!
//! Every method with `&mut self` is an event. Events change the state and emit [`Effect`]s, which
//! the driver takes with [`Core::effects`] before it hands in the next event, and carries out
//! without the core: reading, examining and judging results, and writing to the store. What comes
//! of that is an event again. There is no lock in here, no thread, no store, and no clock but the
//! time that [`Core::set_now`] is told; so the same events always lead to the same effects, and
//! tests need neither threads nor a disk.
//!
//! What the driver has to keep to, and what then holds:
//!
//! * Entries to commit and editions to begin are carried out one after the other, in the order in
//!   which they were emitted. So whatever is durable was computed from what is durable.
//! * An alarm is *kept* by the store before [`Core::alarm_kept`] says so; only then is anything
//!   done about it.
//! * A delivery is answered with a yes only when it is durable, if its worker asked for that.
//! * With every edition all leases are void, and what was accepted before and is not durable is
//!   dropped. Nothing that was read or examined in an earlier edition is used.

mod arrival;
mod commit;
pub(crate) mod comparison;
pub(crate) mod counting;
pub(crate) mod effect;
mod inquiry;
pub mod lease;
pub mod order;
mod pace;
pub mod parents;
pub mod random;
pub mod schedule;
pub(crate) mod secret;
pub(crate) mod setbacks;
#[cfg(test)]
mod tests;
pub mod withdrawal;
mod work;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    plan::{Plan, Unit},
};

pub use self::{
    effect::{
        Accepted, ArrivalId, Case, CommitEntry, Confirmed, DisputeVerdict, Effect, Examined,
        Fault, Instance, News, Refusal, Suspect,
    },
    inquiry::{Damage, Trace},
    lease::WorkerId,
    order::{Order, OrderOpening, Recorded},
    work::{Assignment, COORDINATOR, MOST_WORKERS, Work, Worker},
};

use self::{arrival::Arrival, inquiry::Inquiry, lease::LeaseTable, pace::Pace};
use crate::records::{Delivery, OrderResult, UnitRecord, alarm::Alarm};

/// What does not change while a census is open.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// All orders up to this one.
    pub target: usize,
    /// Leases of workers in other processes last this long.
    pub lease_term: Duration,
    /// Deliveries whose workers do not wait for the disk are held back while more bytes than this
    /// wait for it.
    pub pending_bytes: usize,
    /// Seconds from 1970 to the beginning of the time that the core is told.
    pub unix_seconds: u64,
}

/// What the store says when a census is opened.
#[derive(Debug, Default)]
pub struct Start {
    /// Larger than that of all starts before.
    pub epoch: u32,
    /// Larger than all editions before.
    pub edition: u32,
    /// All alarms, settled or not, by number.
    pub alarms: BTreeMap<u32, Alarm>,
    /// The units that alarms doubt and that have not been solved again since: an earlier run was
    /// stopped before it took them back.
    pub doubted: Vec<Unit>,
}

/// How far the census is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The order in work.
    pub order: usize,
    /// Graphs of it with more edges are left out, if it is not done to the end.
    pub max_size: Option<usize>,
    /// The last order to do.
    pub target: usize,
    /// Shards of the order that are accepted in all parts.
    pub shards_done: usize,
    /// Shards of the order.
    pub shards: usize,
    /// Units that could be leased.
    pub units_ready: usize,
    /// Units that are leased, to solve or to compare.
    pub units_leased: usize,
    /// Graphs of accepted units.
    pub graphs_done: u64,
    /// Graphs of the order; exact, by Pólya's theorem. 0 of a class, of which that is not known.
    pub graphs: u64,
    /// (graph, edge) pairs of accepted units.
    pub pairs_done: u64,
    /// (graph, edge) pairs of the order; exact, or 0 likewise.
    pub pairs: u64,
    /// (graph, edge) pairs solved in a second, lately: within ten minutes, or since the run began.
    pub pairs_per_second: f64,
    /// Time since the run began.
    pub elapsed: Duration,
    /// Units that wait for a second computation by another worker.
    pub units_to_compare: usize,
    /// Units that failed again and again, and that nobody who is there is asked for any more.
    pub set_aside: Vec<SetAsideUnit>,
}

/// A unit that failed again and again, and why.
#[derive(Clone, Debug)]
pub struct SetAsideUnit {
    /// The unit.
    pub unit: Unit,
    /// Its degree sequence.
    pub sequence: DegreeSequence,
    /// One text for each attempt.
    pub failures: Vec<String>,
}

/// The state of a census.
pub struct Core {
    settings: Settings,
    now: Duration,
    effects: Vec<Effect>,
    results: Vec<OrderResult>,
    order: Option<Box<Order>>,
    leases: LeaseTable,
    workers: BTreeMap<WorkerId, Worker>,
    /// When there was first a unit to be compared that no worker who asks for work can compare;
    /// `None` when a worker has compared something since.
    unaided_since: Option<Duration>,
    /// Accepted and not durable yet.
    pending: HashMap<Unit, Arc<Delivery>>,
    pending_bytes: usize,
    /// (graph, edge) pairs solved in this run.
    pace: Pace,
    /// Changes with every start, and whenever units are taken back.
    edition: u32,
    /// Editions that the committer is to begin.
    editions_due: usize,
    /// Results that are being examined or compared. What they bring to light has to be known
    /// before an order is done.
    arrivals: BTreeMap<ArrivalId, Arrival>,
    next_arrival: ArrivalId,
    /// Arrivals that were accepted, and what they are told when they are durable.
    awaited: BTreeMap<ArrivalId, Accepted>,
    /// Arrivals that were accepted and are held back until there is room for more.
    held_back: VecDeque<(ArrivalId, Accepted)>,
    alarms: BTreeMap<u32, Arc<Alarm>>,
    /// What is being done about alarms.
    inquiries: BTreeMap<u32, Inquiry>,
    /// What workers have stated of units and could not be read, the first that each has stated, until
    /// the unit is accepted, or was compared.
    unread: HashMap<Unit, Vec<Delivery>>,
    /// Records of units that are accepted, each with a statement that differs and could not be read,
    /// until their shard is finished.
    contests: Vec<(UnitRecord, Delivery)>,
    /// By order and number of edges: damaged blocks that were found since all units with so many
    /// were taken back, and how many may be.
    damages: BTreeMap<(usize, usize), (usize, usize)>,
    ended: Option<Result<(), Fault>>,
    closing: bool,
}

impl Core {
    /// A census as the store knows it. Its first effects begin an edition or open an order.
    pub fn new(settings: Settings, start: Start) -> Self {
        let Start { epoch, edition, alarms, doubted } = start;
        let mut core = Core {
            settings,
            now: Duration::ZERO,
            effects: Vec::new(),
            results: Vec::new(),
            order: None,
            leases: LeaseTable::new(epoch, settings.lease_term),
            workers: BTreeMap::new(),
            unaided_since: None,
            pending: HashMap::new(),
            pending_bytes: 0,
            pace: Pace::new(Duration::ZERO),
            edition,
            editions_due: 0,
            arrivals: BTreeMap::new(),
            next_arrival: 0,
            awaited: BTreeMap::new(),
            held_back: VecDeque::new(),
            alarms: alarms.into_iter().map(|(number, alarm)| (number, Arc::new(alarm))).collect(),
            inquiries: BTreeMap::new(),
            unread: HashMap::new(),
            contests: Vec::new(),
            damages: BTreeMap::new(),
            ended: None,
            closing: false,
        };
        match doubted.is_empty() {
            true => core.open_next(),
            false => core.take_back(doubted),
        }
        core
    }

    /// It is so late now, since the beginning of the run.
    pub fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// What is to be done since this was last asked, in this order.
    #[must_use = "effects have to be carried out"]
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Nothing more is to be handed out or accepted.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The driver cannot do what it has to do. Returns whether this is what ends the census.
    pub fn fail(&mut self) -> bool {
        let is_first = self.ended.is_none();
        self.end(Err(Fault::Driver));
        is_first
    }

    fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn end(&mut self, result: Result<(), Fault>) {
        // The first end counts.
        let has_failed = self.ended.get_or_insert(result).is_err();
        // Nobody is to wait for room that there will not be …
        for (arrival, accepted) in std::mem::take(&mut self.held_back) {
            self.emit(Effect::Answer { arrival, answer: Ok(accepted) });
        }
        if has_failed {
            // … or for what nobody does any more. What is being examined still is: if it turns out
            // wrong, there is an alarm about it, which the next run heeds.
            let awaited = std::mem::take(&mut self.awaited).into_keys();
            let open: Vec<ArrivalId> = self.arrivals.keys().copied().collect();
            for arrival in awaited.chain(open) {
                self.emit(Effect::Answer { arrival, answer: Err(Refusal::Ended) });
            }
        }
        self.emit(Effect::Wake);
    }

    /// Whether it is over, well or not; `None` if it is not.
    pub fn ended(&self) -> Option<&Result<(), Fault>> {
        self.ended.as_ref()
    }

    /// The end. Why it did not end well is reported by whoever takes it; that everything is done
    /// stays so, for workers that ask late.
    pub fn take_ended(&mut self) -> Option<Result<(), Fault>> {
        match self.ended {
            Some(Ok(())) => Some(Ok(())),
            _ => self.ended.take(),
        }
    }

    /// Whether it is stopped before everything is done.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// The edition in work.
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// Orders that are done.
    pub fn results(&self) -> &[OrderResult] {
        &self.results
    }

    /// All alarms, by number.
    pub fn alarms(&self) -> &BTreeMap<u32, Arc<Alarm>> {
        &self.alarms
    }

    /// The order in work.
    pub fn order(&self) -> Option<&Order> {
        self.order.as_deref()
    }

    /// The plan of the order in work.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.order().map(Order::plan)
    }

    /// Units that could be leased.
    pub fn units_ready(&self) -> usize {
        self.order().map_or(0, |order| order.schedule.ready())
    }

    /// A unit that is accepted and not durable yet.
    pub fn pending(&self, unit: Unit) -> Option<&Arc<Delivery>> {
        self.pending.get(&unit)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress {
            order: self.results.len(),
            target: self.settings.target,
            pairs_per_second: self.pace.per_second(self.now),
            elapsed: self.now,
            units_leased: self.leases.units(),
            ..Progress::default()
        };
        if let Some(order) = &self.order {
            let plan = order.plan();
            let set_aside = self.given_up().into_iter().map(|(unit, setbacks)| SetAsideUnit {
                unit,
                sequence: plan.shard_of(unit).sequence,
                failures: setbacks.failures().cloned().collect(),
            });
            progress.set_aside =
                set_aside.filter(|set_aside| !set_aside.failures.is_empty()).collect();
            progress.order = plan.order;
            progress.max_size = plan.limit();
            progress.units_to_compare = order.comparisons.open();
            (progress.shards_done, progress.shards) = order.schedule.shards_done();
            progress.units_ready = order.schedule.ready();
            progress.graphs_done = order.graphs_done;
            progress.graphs = order.graphs;
            progress.pairs_done = order.pairs_done;
            progress.pairs = order.pairs;
        }
        progress
    }

    /// The workers, and the number of units each of them holds.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &Worker, usize)> {
        let held = self.leases.held();
        let units = move |id| held.get(&id).copied().unwrap_or(0);
        self.workers.iter().map(move |(&id, worker)| (id, worker, units(id)))
    }
}
