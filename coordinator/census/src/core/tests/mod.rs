//! The core with a driver that carries its effects out by hand, a store in memory, and workers who
//! say what they are told to say. No threads, no disk, no time but the one that is set.

mod disk;
mod property;
mod stories;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use trailtrap_shared::{
    count::{ahead::Share, statistics::Statistics, summary::Summary},
    game::{Game, TrailTrap},
    graph::factorial,
    partition::Content,
    plan::{Plan, PlanOptions, Unit},
};

use super::{comparison::Comparisons, effect::Effect, inquiry::Next, secret::Secret, *};
use crate::records::{
    Author, Delivery, UnitRecord,
    ahead::Ahead,
    alarm::{self, Alarm, AlarmKind},
};

/// A result as a worker may come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Right,
    /// The records are others; different liars do not agree.
    Wrong(u8),
    /// The records are right, the counts are not.
    Miscounted,
    /// The sum that records do not keep is wrong, and all else is right.
    Misled,
    /// A graph stands in the place of one of another part.
    Swapped,
    /// Graphs are missing.
    Light,
}

const WAYS: [Way; 5] = [Way::Right, Way::Miscounted, Way::Misled, Way::Swapped, Way::Light];

/// The place of the sum that records do not keep.
const TOLD: usize = 2;

impl Way {
    /// Records of this world have no blocks that would show how they came about: a number does.
    fn number(self) -> u64 {
        match self {
            Way::Wrong(lie) => 100 + u64::from(lie),
            way => WAYS.iter().position(|&other| other == way).expect("listed") as u64,
        }
    }

    fn of(record: &UnitRecord) -> Self {
        match record.microseconds {
            number @ 100.. => Way::Wrong((number - 100) as u8),
            number => WAYS[number as usize],
        }
    }
}

/// What outlasts a crash.
#[derive(Default)]
struct Disk {
    epoch: u32,
    edition: u32,
    units: BTreeMap<Unit, UnitRecord>,
    /// Those of them whose outcomes were dropped.
    dropped: BTreeSet<Unit>,
    results: BTreeMap<usize, OrderResult>,
    alarms: BTreeMap<u32, Alarm>,
}

/// A lease that a worker holds, or thinks it holds.
#[derive(Clone)]
struct HeldWork {
    worker: WorkerId,
    lease: u64,
    units: Vec<Unit>,
    /// What the units are computed from, as it was when they were leased.
    inputs: Vec<Content>,
    /// Whether the units were accepted already, and are to be compared.
    compares: bool,
}

/// What a driver would be in the middle of.
struct World {
    settings: Settings,
    split: PlanOptions,
    /// The share of units that are solved twice.
    compared_share: f64,
    /// Whether every record is tried before results are accepted.
    tries_all: bool,
    /// Whether there are two honest workers.
    two_honest: bool,
    /// Whether a run has ended.
    was_killed: bool,
    outcomes_kept: bool,
    sizes_kept: usize,
    /// The next verdict is that nobody knows.
    at_a_loss: bool,
    /// The verdicts that are awaited, if they take their time.
    pondered: Option<Vec<Effect>>,
    /// The coordinator miscounts what it solves next to compare.
    miscounts: bool,
    /// The coordinator fails at whatever it is to compare, or to solve.
    fails: bool,
    /// What the coordinator solves next comes out as it was delivered, right or not.
    repeats: bool,
    /// What is examined next cannot be read.
    lacks: bool,
    now: Duration,
    disk: Disk,
    core: Core,
    /// The committer's queue, and what it does before it looks there.
    queue: VecDeque<Effect>,
    committer: VecDeque<Effect>,
    /// What other threads are to do.
    todo: Vec<Effect>,
    workers: BTreeMap<String, WorkerId>,
    held: Vec<HeldWork>,
    /// By arrival: what was delivered, under which lease, and whether its worker waits.
    arrivals: HashMap<ArrivalId, (String, HeldWork, bool)>,
    plans: HashMap<usize, Arc<Plan>>,
    /// What happened, for stories.
    log: Vec<String>,
    leases: BTreeSet<u64>,
    /// The number of the next worker.
    next_worker: u64,
    /// Units that workers were told are durable, and the numbers of their records.
    acknowledged: BTreeMap<Unit, u64>,
    /// By alarm: a unit in dispute, in which edition, and which of the shards that it is judged by had
    /// gone before.
    judged: BTreeMap<u32, (Unit, u32, BTreeSet<u32>)>,
}

const TERM: Duration = Duration::from_secs(60);

/// The worker in the coordinator's own process.
const EMBEDDED: &str = "Here";

/// What a worker calls itself: somebody pretends to be Ann.
fn name_of(worker: &str) -> &str {
    if worker == "Mal" { "Ann" } else { worker }
}

impl World {
    fn new(target: usize, compared_share: f64, part_graphs: u64) -> Self {
        let settings = Settings { target, lease_term: TERM, pending_bytes: 3, unix_seconds: 0 };
        let mut world = World {
            settings,
            split: PlanOptions { part_graphs, bucket_bytes: 1 << 20 },
            compared_share,
            tries_all: false,
            two_honest: true,
            was_killed: false,
            outcomes_kept: true,
            sizes_kept: 0,
            at_a_loss: false,
            pondered: None,
            miscounts: false,
            fails: false,
            repeats: false,
            lacks: false,
            now: Duration::ZERO,
            disk: Disk::default(),
            core: Core::new(settings, Start::default()),
            queue: VecDeque::new(),
            committer: VecDeque::new(),
            todo: Vec::new(),
            workers: BTreeMap::new(),
            held: Vec::new(),
            arrivals: HashMap::new(),
            plans: HashMap::new(),
            log: Vec::new(),
            leases: BTreeSet::new(),
            next_worker: 0,
            acknowledged: BTreeMap::new(),
            judged: BTreeMap::new(),
        };
        world.start();
        world
    }

    /// Starts the program; what was in memory is gone.
    fn start(&mut self) {
        self.disk.epoch += 1;
        self.disk.edition += 1;
        let doubted = self.doubted();
        let start = Start {
            epoch: self.disk.epoch,
            edition: self.disk.edition,
            alarms: self.disk.alarms.clone(),
            doubted,
        };
        self.queue.clear();
        self.committer.clear();
        self.todo.clear();
        self.workers.clear();
        self.held.clear();
        self.arrivals.clear();
        self.pondered = None;
        self.judged.clear();
        self.now = Duration::ZERO;
        self.core = Core::new(self.settings, start);
        self.collect();
        // The program that opens a census does so itself, before there is a committer.
        self.committer.extend(std::mem::take(&mut self.todo));
    }

    fn plan(&mut self, order: usize) -> Arc<Plan> {
        let new = || Arc::new(Plan::new(TrailTrap::LAYOUT, order, self.split));
        self.plans.entry(order).or_insert_with(new).clone()
    }

    /// Units are named by order, place in the plan, and part: `u5.7`, `u5.7/1`.
    fn name(&self, unit: Unit) -> String {
        let Unit { order, shard, part } = unit;
        let plan = &self.plans[&usize::from(order)];
        match plan.shards[shard as usize].parts {
            1 => format!("u{order}.{shard}"),
            _ => format!("u{order}.{shard}/{part}"),
        }
    }

    fn names<'a>(&self, units: impl IntoIterator<Item = &'a Unit>) -> String {
        let names: Vec<String> = units.into_iter().map(|&unit| self.name(unit)).collect();
        names.join(" ")
    }

    fn say(&mut self, text: String) {
        self.log.push(text);
    }

    /// The units that are to be solved, as the store and the plan know them.
    fn record(&self, unit: Unit, inputs: Content, worker: &Author, way: Way) -> UnitRecord {
        let shard = self.plans[&usize::from(unit.order)].shard_of(unit);
        let (parts, part) = (u128::from(shard.parts), u128::from(unit.part));
        let mut mass = shard.mass / parts + u128::from(part < shard.mass % parts);
        mass -= u128::from(way == Way::Light);
        let mut statistics = Statistics::default();
        statistics.labelled.all.graphs = mass;
        statistics.classes.all.graphs = 1;
        statistics.classes.all.listed = u128::from(way == Way::Miscounted);
        // Each unit with one edge less tells of one, and all of them stand in the first part.
        if part == 0 {
            let plan = &self.plans[&usize::from(unit.order)];
            let parts = |&shard: &u32| u128::from(plan.shards[shard as usize].parts);
            let told = shard.predecessors.iter().map(parts).sum();
            statistics.classes.sums.0[TOLD] = told;
            statistics.labelled.sums.0[TOLD] = told;
        }
        statistics.labelled.sums.0[TOLD] += u128::from(way == Way::Misled);
        let lie = match way {
            Way::Right | Way::Miscounted | Way::Misled => 0,
            way => way.number() as usize,
        };
        let own = [unit.shard as usize, unit.part as usize, lie];
        let own = own.map(|number| Content::of_all(&vec![Content::default(); number]));
        UnitRecord {
            statistics,
            digest: [0; 32],
            bytes: 1,
            microseconds: way.number(),
            worker: worker.clone(),
            instance: 0,
            content: Content::of_all([&inputs].into_iter().chain(&own)),
            inputs: Content::default(),
            tried: 0,
            confirmed: Vec::new(),
        }
    }

    /// What a unit tells about those with one edge more.
    fn ahead(&self, unit: Unit) -> Ahead {
        let order = usize::from(unit.order);
        let share = Share { classes: factorial(order).into(), labelled: 1 };
        let successors = self.plans[&order].successors();
        let shares = successors[unit.shard as usize].iter().map(|&shard| (shard, share));
        Ahead { content: Content::default(), shares: shares.collect(), masses: Vec::new() }
    }

    /// Whether a record follows from its predecessors: what nauty would say.
    fn is_right(&self, unit: Unit, inputs: Content, record: &UnitRecord) -> bool {
        self.record(unit, inputs, &Author::default(), Way::Right).agrees(record)
    }

    /// Takes the effects of the last event in: entries for the committer are queued at once.
    fn collect(&mut self) {
        for effect in self.core.effects() {
            match effect {
                Effect::Commit(_) | Effect::BeginEdition { .. } => self.queue.push_back(effect),
                Effect::Answer { arrival, answer } => self.answered(arrival, answer),
                Effect::Say(News::LeftToOthers { unit, worker, .. }) => {
                    let text = format!("{} leaves {} to others", worker.name(), self.name(unit));
                    self.say(text);
                }
                Effect::EditionOver | Effect::Wake | Effect::Say(_) => {}
                effect => self.todo.push(effect),
            }
        }
        self.check();
        self.check_judged();
    }

    /// The shards that a unit is judged by, or is solved again from, and that have gone, or are about
    /// to.
    fn gone_of(&self, unit: Unit) -> BTreeSet<u32> {
        let plan = &self.plans[&usize::from(unit.order)];
        let read = plan.shard_of(unit).predecessors.iter().copied();
        let going = self.todo.iter().chain(&self.committer).filter_map(|effect| match effect {
            Effect::Drop { shards, .. } => Some(shards),
            _ => None,
        });
        let going: BTreeSet<u32> = going.flatten().copied().collect();
        let has_gone = |&shard: &u32| {
            let Ok(has_gone) = self.has_gone(plan, shard);
            has_gone || going.contains(&shard)
        };
        read.chain([unit.shard]).filter(has_gone).collect()
    }

    /// From when a unit is to be judged until it is taken back, if it is, nothing of that goes.
    fn check_judged(&mut self) {
        for effect in &self.todo {
            if let Effect::Judge { alarm, case } = effect
                && case.edition == self.core.edition()
                && !self.judged.contains_key(alarm)
            {
                let unit = case.other.unit;
                self.judged.insert(*alarm, (unit, case.edition, self.gone_of(unit)));
            }
        }
        let (core, edition) = (&self.core, self.core.edition());
        self.judged.retain(|alarm, (_, begun, _)| {
            *begun == edition && core.inquiries.contains_key(alarm)
        });
        for (unit, _, before) in self.judged.values() {
            let gone = self.gone_of(*unit);
            assert!(gone.is_subset(before), "{unit:?} is in dispute, and {gone:?} have gone");
        }
    }

    fn answered(&mut self, arrival: ArrivalId, answer: Result<Accepted, Refusal>) {
        let Some((name, held, durable)) = self.arrivals.remove(&arrival) else { return };
        let what = self.names(&held.units);
        let Err(refusal) = answer else {
            for &unit in held.units.iter().filter(|_| durable && !held.compares) {
                let record = self.disk.units.get(&unit);
                let by = self.core.author(held.worker);
                let of_lease =
                    record.filter(|record| record.instance >= held.lease && record.worker.is(&by));
                let instance = of_lease.map(|record| record.instance);
                let instance = instance.expect("what is acknowledged is durable");
                let before = self.acknowledged.insert(unit, instance);
                assert_eq!(before, None, "{unit:?} counts twice");
            }
            return self.say(format!("{name} is told: {what} accepted"));
        };
        if matches!(refusal, Refusal::Wrong { .. }) {
            let author = self.core.author(held.worker);
            let mut alarms = self.disk.alarms.values().flat_map(|alarm| &alarm.blamed);
            assert!(
                alarms.any(|blamed| blamed.is(&author)),
                "{author} was wrong, and is not named"
            );
        }
        let why = refusal.to_string();
        let why = why.split_once("are wrong: ").map_or(&why[..], |(_, why)| why).to_owned();
        self.say(format!("{name} is told: {what} refused, {why}"));
    }

    /// What holds at every time.
    fn check(&self) {
        if let Some(order) = self.core.order() {
            let progress = self.core.progress();
            assert!(progress.graphs_done <= progress.graphs, "counted twice");
            assert!(order.to_commit >= self.core.pending.len(), "counted as durable and is not");
        }
        for (_, worker, _) in self.core.workers().filter(|(_, worker, _)| worker.distrusted) {
            let mut blamed = self.disk.alarms.values().flat_map(|alarm| &alarm.blamed);
            let mut doubted = self.disk.alarms.values().flat_map(|alarm| &alarm.quarantined);
            let is_known = blamed.any(|blamed| blamed.is(&worker.author))
                || doubted.any(|record| record.worker.is(&worker.author));
            assert!(is_known, "{} is distrusted before an alarm is durable", worker.author);
        }
        for (unit, instance) in &self.acknowledged {
            let record = self.disk.units.get(unit);
            assert!(record.is_some_and(|record| record.instance == *instance), "{unit:?} is lost");
        }
        // What was dropped is not taken for damaged.
        if let Some(order) = self.core.order() {
            let is_of_order = |unit: &&Unit| usize::from(unit.order) == order.plan().order;
            for unit in self.disk.dropped.iter().filter(is_of_order) {
                // What was solved again since is at hand before it is on disk.
                let is_there =
                    order.schedule.is_finished(*unit) && !self.core.pending.contains_key(unit);
                assert!(!is_there || order.may_be_dropped(unit.shard), "{unit:?} was dropped");
            }
        }
    }

    /// A worker asks for work.
    fn ask(&mut self, name: &str) -> bool {
        self.core.set_now(self.now);
        self.next_worker += 1;
        let known = self.workers.get(name).copied().filter(|&worker| self.core.hear(worker));
        let worker = match known {
            Some(worker) => worker,
            None => match self.core.register(
                Author::new(name_of(name), "k"),
                1,
                None,
                self.next_worker,
            ) {
                Ok(worker) => worker,
                Err(refusal) => {
                    self.say(format!("{name} is told: {refusal}"));
                    return false;
                }
            },
        };
        self.workers.insert(name.to_owned(), worker);
        let assignment = self.core.assign(worker, 0, name == EMBEDDED);
        self.collect();
        let text = match assignment {
            Assignment::Work(work) => {
                assert!(self.leases.insert(work.lease), "a lease number comes twice");
                assert_eq!(work.edition, self.core.edition());
                let order = self.core.order().expect("there is work");
                let inputs = work.units.iter().map(|unit| order.schedule.inputs(unit.shard));
                let inputs = inputs.collect();
                let compares = order.schedule.is_finished(work.units[0]);
                let plan = order.plan().clone();
                let Work { lease, units, .. } = work;
                let what = self.names(&units);
                let read = units.iter().flat_map(|&unit| &plan.shard_of(unit).predecessors);
                let read = read.flat_map(|&shard| plan.parts_of(shard));
                let gone = read.into_iter().find(|unit| self.disk.dropped.contains(unit));
                self.held.push(HeldWork { worker, lease, units, inputs, compares });
                if let Some(gone) = gone {
                    self.damage(gone);
                }
                format!("{name} leases {what}")
            }
            Assignment::Wait => format!("{name} is told to wait"),
            Assignment::Distrusted => format!("{name} is told that it is not trusted"),
            Assignment::Finished => format!("{name} is told that all is done"),
            Assignment::Stopping => format!("{name} is told that the coordinator stops"),
        };
        let has_work = text.contains("leases");
        self.say(text);
        has_work
    }

    /// A worker has counted a unit of others again, the first one of the order in work that
    /// `is_it`, and stated something that is wrong.
    fn miscount(&mut self, name: &str, is_it: impl Fn(&World, Unit) -> bool) {
        let Some(&worker) = self.workers.get(name) else { return };
        let Some(plan) = self.core.plan().cloned() else { return };
        let shards = (0..).zip(&plan.shards);
        let unit = |shard: u32| Unit { order: plan.order as u8, shard, part: 0 };
        let found = shards.into_iter().find(|&(shard, _)| is_it(self, unit(shard)));
        if let Some((index, shard)) = found {
            self.core.miscounted(worker, unit(index), &shard.sequence);
        }
    }

    /// A worker delivers what it holds, or held, and waits until it is durable.
    fn deliver(&mut self, name: &str, held: &HeldWork, way: Way) {
        self.deliver_and_wait(name, held, way, true);
    }

    fn deliver_and_wait(&mut self, name: &str, held: &HeldWork, way: Way, durable: bool) {
        let author = self.core.author(held.worker);
        let one = |(&unit, &inputs): (&Unit, &Content)| {
            let shard = self.plans[&usize::from(unit.order)].shard_of(unit);
            let record = self.record(unit, inputs, &author, way);
            Delivery::new(unit, shard.sequence, Vec::new(), record)
        };
        let deliveries = held.units.iter().zip(&held.inputs).map(one).collect();
        self.arrive(name, held, durable, |core| {
            core.deliver(held.worker, held.lease, deliveries, durable)
        });
    }

    fn deliver_unreadable(&mut self, name: &str, held: &HeldWork) {
        self.arrive(name, held, true, |core| {
            core.deliver_unreadable(held.worker, held.lease, "it cannot be read".to_owned())
        });
    }

    fn arrive(
        &mut self,
        name: &str,
        held: &HeldWork,
        durable: bool,
        arrive: impl FnOnce(&mut Core) -> ArrivalId,
    ) {
        // Answers may come at once.
        let next = self.core.next_arrival + 1;
        self.arrivals.insert(next, (name.to_owned(), held.clone(), durable));
        assert_eq!(arrive(&mut self.core), next);
        self.collect();
    }

    /// Carries an effect out that is not for the committer's queue.
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Examine { arrival, mut deliveries, plan } => {
                // The order in work may be another one by now, or made anew.
                let inputs = |unit: Unit| {
                    let order = self.core.order()?;
                    let plan = order.plan();
                    let shard = plan.shards.get(unit.shard as usize)?;
                    let is_there = plan.order == usize::from(unit.order)
                        && shard.predecessors.iter().all(|&read| order.is_shard_finished(read));
                    is_there.then(|| order.schedule.inputs(unit.shard))
                };
                let flaw = |delivery: &Delivery| match Way::of(&delivery.record) {
                    Way::Miscounted => Some("it is miscounted"),
                    Way::Swapped => Some("it lists a graph of another part"),
                    Way::Light if plan.shard_of(delivery.unit).parts == 1 => {
                        Some("it is too light")
                    }
                    // What was left out cannot be tried, and nor can what is not in the records.
                    Way::Light | Way::Misled => None,
                    Way::Right | Way::Wrong(_) => {
                        let follows = inputs(delivery.unit).is_some_and(|inputs| {
                            self.is_right(delivery.unit, inputs, &delivery.record)
                        });
                        (self.tries_all && !follows).then_some("it does not follow")
                    }
                };
                let flaws = deliveries.iter().map(flaw).enumerate();
                let flaw = flaws.filter_map(|(index, why)| Some((index, why?.to_owned()))).next();
                let examined = match flaw {
                    _ if std::mem::take(&mut self.lacks) => Examined::Lacking,
                    Some((index, why)) => Examined::Flaw { index, why },
                    None => Examined::Passed,
                };
                for delivery in &mut deliveries {
                    delivery.ahead = Some(self.ahead(delivery.unit));
                }
                self.core.examined(arrival, deliveries, examined);
            }
            Effect::ReadRecords { arrival, units } => {
                let found = units
                    .iter()
                    .filter_map(|unit| Some((*unit, self.disk.units.get(unit)?.clone())));
                self.core.records_read(arrival, found.collect());
            }
            Effect::KeepAlarm { number, alarm } => {
                let blamed = match &alarm.blamed[..] {
                    [] => "nobody".to_owned(),
                    blamed => blamed.iter().map(Author::name).collect::<Vec<_>>().join(" and "),
                };
                let doubted = match &alarm.doubted[..] {
                    [] => "nothing".to_owned(),
                    doubted => self.names(doubted),
                };
                let kind = alarm.kind.name();
                self.say(format!(
                    "alarm {number} is kept: {kind}, blames {blamed}, doubts {doubted}"
                ));
                self.disk.alarms.insert(number, Arc::unwrap_or_clone(alarm));
                self.core.alarm_kept(number);
            }
            Effect::Judge { .. } if self.pondered.is_some() => {
                self.pondered.as_mut().expect("just looked at").push(effect);
            }
            Effect::Judge { alarm, case } => {
                let unit = case.other.unit;
                let inputs = self.core.order().filter(|_| case.edition == self.core.edition());
                let inputs = inputs.map(|order| order.schedule.inputs(unit.shard));
                let [first, second] = [&case.accepted, &case.other.record].map(Way::of);
                let verdict = match inputs {
                    _ if std::mem::take(&mut self.at_a_loss) => {
                        DisputeVerdict::Unknown("?".to_owned())
                    }
                    None => DisputeVerdict::Unknown("gone".to_owned()),
                    _ if first == Way::Light && second != Way::Light => {
                        DisputeVerdict::First("it lacks graphs".to_owned())
                    }
                    _ if second == Way::Light && first != Way::Light => {
                        DisputeVerdict::SecondFor("it lacks graphs".to_owned())
                    }
                    Some(inputs) if self.is_right(unit, inputs, &case.accepted) => {
                        DisputeVerdict::Second
                    }
                    Some(_) => DisputeVerdict::First("it does not follow".to_owned()),
                };
                self.say(format!("verdict on {}: {verdict}", self.name(unit)));
                self.core.judged(alarm, verdict);
            }
            Effect::Solve { alarm, units, .. } => {
                let repeats = std::mem::take(&mut self.repeats);
                let right = |&unit: &Unit| {
                    let order = self.core.order().filter(|order| {
                        let shards = &order.plan().shards;
                        let Some(shard) = shards.get(unit.shard as usize) else { return false };
                        usize::from(unit.order) == order.plan().order
                            && shard.predecessors.iter().all(|&read| order.is_shard_finished(read))
                    });
                    let inputs = order.ok_or("gone")?.schedule.inputs(unit.shard);
                    Ok((unit, self.record(unit, inputs, &Author::default(), Way::Right)))
                };
                let solved = if self.fails {
                    Err("the disk fails".to_owned())
                } else if repeats {
                    // The alarm has what was delivered.
                    let delivered = self.core.alarms()[&alarm].quarantined.iter().cloned();
                    Ok(units.iter().copied().zip(delivered).collect())
                } else {
                    units.iter().map(right).collect()
                };
                let what = self.names(&units);
                self.say(format!("the coordinator solves {what}"));
                self.core.solved(alarm, solved);
            }
            Effect::Compare { lease, units, .. } => {
                // It may be void by now, and is delivered all the same.
                let order =
                    self.core.order().filter(|_| self.core.leased(COORDINATOR, lease).is_some());
                let Some(order) = order else {
                    let (worker, inputs) = (COORDINATOR, Vec::new());
                    let held = HeldWork { worker, lease, units, inputs, compares: true };
                    return self.deliver_and_wait("the coordinator", &held, Way::Right, false);
                };
                let inputs = units.iter().map(|unit| order.schedule.inputs(unit.shard)).collect();
                let what = self.names(&units);
                self.say(format!("the coordinator compares {what}"));
                if self.fails {
                    return self.core.give_back(COORDINATOR, lease, Some("the disk fails"));
                }
                let held = HeldWork { worker: COORDINATOR, lease, units, inputs, compares: true };
                let way = match std::mem::take(&mut self.miscounts) {
                    true => Way::Miscounted,
                    false => Way::Right,
                };
                self.deliver_and_wait("the coordinator", &held, way, false);
            }
            Effect::Trace { alarm, workers, blamed } => {
                let traced =
                    workers.into_iter().flat_map(|suspect| self.trace(suspect, &blamed)).collect();
                self.core.traced(alarm, traced);
            }
            Effect::OpenOrder { order, edition } => self.open_order(order, edition),
            Effect::CloseOrder { plan } => self.close_order(&plan),
            Effect::Drop { plan, shards, with_graphs } => {
                self.drop_shards(&plan, &shards, with_graphs)
            }
            Effect::Commit(_)
            | Effect::BeginEdition { .. }
            | Effect::Answer { .. }
            | Effect::Say(_)
            | Effect::EditionOver
            | Effect::Wake => unreachable!("done when it is emitted"),
        }
        self.collect();
    }

    /// Whatever reads what is dropped is durable.
    fn drop_shards(&mut self, plan: &Plan, shards: &[u32], with_graphs: bool) {
        assert!(!self.outcomes_kept);
        assert_eq!(with_graphs, self.sizes_kept == 0);
        let last = shards.iter().map(|&shard| plan.shards[shard as usize].size).max();
        if let Some(last) = last.filter(|_| self.sizes_kept > 0) {
            // What has no more edges is not needed to solve again what is in work.
            let last = (last + self.sizes_kept).min(plan.max_size);
            for unit in (0..plan.layer(last).end).flat_map(|shard| plan.parts_of(shard)) {
                let is_done = self.disk.units.contains_key(&unit);
                assert!(is_done, "{unit:?} has nothing to fall back on");
            }
        }
        let successors = plan.successors();
        for shard in shards
            .iter()
            .flat_map(|&shard| [vec![shard], successors[shard as usize].clone()].concat())
        {
            for unit in plan.parts_of(shard) {
                assert!(self.disk.units.contains_key(&unit), "{unit:?} cannot be solved any more");
            }
        }
        let dropped = shards.iter().flat_map(|&shard| plan.parts_of(shard));
        self.disk.dropped.extend(dropped);
        let names: Vec<String> =
            shards.iter().map(|shard| format!("u{}.{shard}", plan.order)).collect();
        self.say(format!("dropped: {}", names.join(" ")));
    }

    /// Somebody reads a unit of the store and finds it damaged.
    fn damage(&mut self, unit: Unit) {
        let Some(record) = self.disk.units.get(&unit).cloned() else { return };
        let sequence = self.plan(unit.order.into()).shard_of(unit).sequence;
        let edition = self.core.edition();
        let text = "a block is damaged".to_owned();
        self.core.damaged(Damage { unit, sequence, record, text, edition });
        self.collect();
    }

    /// Carries everything out that is to be done, in the order in which it came.
    fn run(&mut self) {
        loop {
            if !self.todo.is_empty() {
                let effect = self.todo.remove(0);
                self.carry_out(effect);
            } else if !self.commit(usize::MAX, None) {
                return;
            }
        }
    }
}

/// A trace may lead to units with more edges than the plan in work has, and to other orders.
#[test]
fn what_the_plan_lacks_is_not_in_dispute() {
    let mut world = World::new(2, 0.0, 1000);
    world.run();
    let unit = |order: u8, shard: u32| Unit { order, shard, part: 0 };
    let sequence = world.plan(1).shards[0].sequence;
    let mut first_disputed = |doubted: Unit| {
        let alarm = world.core.alarm(AlarmKind::Trial, doubted, &sequence, String::new());
        let alarm = Alarm { doubted: vec![doubted], ..alarm };
        world.core.inquire(0, alarm, Next::TakeBack { refusal: Refusal::Void });
        world.core.first_disputed()
    };
    assert_eq!(first_disputed(unit(1, 99)), None);
    assert_eq!(first_disputed(unit(2, 0)), None);
    assert_eq!(first_disputed(unit(1, 0)), Some(0));
}
