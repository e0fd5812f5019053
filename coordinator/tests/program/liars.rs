//! Workers that lie, in a simulated network where hosts crash and links are cut: every census
//! ends, with what is right as far as that is guaranteed, and names those who have lied.
//!
//! What is guaranteed:
//!
//! * No honest worker is blamed.
//! * What shows at once is not let in, and whoever is told so is blamed by an alarm.
//! * What comes out is right if every unit is solved twice by parties that do not lie alike, if
//!   all records are tried, or if nobody lies about records.
//! * Otherwise graphs are counted rightly all the same.
//!
//! `TRAILTRAP_SEEDS=1000` tries more seeds than the usual; `TRAILTRAP_SEEDS=17..18` only that one.
//! `TRAILTRAP_ORDER=9` simulates that order; `liars::` names these tests, others know the order of
//! that name too.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use tempfile::TempDir;
use tonic::Status;
use trailtrap_census::{
    core::{Fault, random::Random},
    driver::CensusOptions,
    records::{OrderResult, alarm::Alarm},
    store::Store,
};
use trailtrap_shared::{
    count::statistics::Statistics,
    game::{Game, TrailTrap},
    partition::Block,
    plan::{Plan, Unit},
    protocol::messages::{self, Wanted},
};
use trailtrap_worker::{
    cache::{Fetch, PartitionCache},
    kernel::{SolvedUnit, SourceError},
};

use crate::common::{
    answers::{Answers, next_answer, solver},
    lies::{LIES, Lie},
    seeds,
    simulated::{
        Client, Craft, HeldLease, Leader, Messages, Planned, Reply, SPLIT, copy_store, open,
        options, plan, simulate, try_seeds,
    },
};

/// The orders that are simulated, in which some shards have parts. The first takes a fifth of the
/// time.
const ORDERS: [usize; 2] = [6, 7];

/// These, or the one that was asked for.
fn orders() -> [usize; 2] {
    match std::env::var("TRAILTRAP_ORDER") {
        Err(_) => ORDERS,
        Ok(text) => [text.parse().expect("TRAILTRAP_ORDER is a number, such as 9"); 2],
    }
}

/// As many seeds as are tried every time.
const SEEDS: u64 = 18;

/// How a worker lies.
#[derive(Clone, Copy, Debug)]
struct Habit {
    lie: Lie,
    /// In one delivery of so many.
    one_in: u64,
    /// It is silent for longer than its lease lasts before it delivers.
    late: bool,
    /// It comes under a second name when the first is not trusted any more.
    two_names: bool,
    /// It lies about the same units in the same way as all others that do.
    alike: bool,
}

/// A lie that was answered.
#[derive(Clone, Debug)]
struct Told {
    host: &'static str,
    lie: Lie,
    shows_at_once: bool,
    reply: Reply,
}

/// A worker that solves what it is given, from what the coordinator has, and may lie about it.
#[derive(Clone)]
struct Solves {
    host: &'static str,
    habit: Option<Habit>,
    plans: Arc<Vec<Plan>>,
    random: Arc<Mutex<Random>>,
    /// The lies that were prepared, by lease.
    prepared: Arc<Mutex<HashMap<u64, Told>>>,
    told: Arc<Mutex<Vec<Told>>>,
    /// What it solved last.
    last: Arc<Mutex<Option<SolvedUnit>>>,
}

/// Blocks that have been fetched.
struct Fetched(HashMap<Wanted, Vec<Block>>);

impl Fetch for Fetched {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        let one = |wanted| self.0.get(wanted).cloned().ok_or_else(|| "not fetched".into());
        wanted.iter().map(one).collect()
    }
}

/// Everything that a unit reads.
fn inputs(plan: &Plan, unit: Unit) -> impl Iterator<Item = Wanted> {
    let shard = plan.shard_of(unit);
    let parents = shard.sequence.parents().into_iter();
    let buckets = shard.predecessors.iter().flat_map(|&predecessor| {
        let shard = &plan.shards[predecessor as usize];
        shard.buckets().map(|bucket| Wanted::Bucket(shard.sequence, bucket))
    });
    parents.map(|parent| Wanted::Parents(parent.sequence)).chain(buckets)
}

/// Fetches what these units read.
async fn fetch(
    client: &mut Client,
    worker: u64,
    plan: &Plan,
    units: &[Unit],
) -> Result<Fetched, Status> {
    let mut wanted: Vec<Wanted> = units.iter().flat_map(|&unit| inputs(plan, unit)).collect();
    wanted.sort_unstable_by_key(|wanted| format!("{wanted:?}"));
    wanted.dedup();
    let mut fetched = HashMap::new();
    if wanted.is_empty() {
        return Ok(Fetched(fetched));
    }
    let requests: Vec<_> =
        wanted.iter().map(|wanted| messages::request(worker, wanted, &[])).collect();
    let mut stream = client.fetch_partition(tokio_stream::iter(requests)).await?.into_inner();
    for wanted in wanted {
        let ended = || Status::unavailable("the answer has no end");
        let answer = next_answer(&mut stream).await?.ok_or_else(ended)?;
        let parse = |bytes| Block::parse(TrailTrap::LAYOUT, bytes);
        let blocks: Result<_, _> = answer.into_iter().map(parse).collect();
        fetched.insert(wanted, blocks.expect("the coordinator has sound blocks"));
    }
    Ok(Fetched(fetched))
}

impl Solves {
    fn plan(&self, units: &[Unit]) -> &Plan {
        &self.plans[usize::from(units[0].order) - 1]
    }

    /// Lies about one of the units, if it is to.
    fn lie(
        &self,
        lease: u64,
        solved: &mut [SolvedUnit],
        solve: impl Fn(Unit) -> Option<SolvedUnit>,
    ) {
        let Some(habit) = self.habit else { return };
        let mut random = self.random.lock().unwrap();
        if random.below(habit.one_in) > 0 {
            return;
        }
        let drawn = random.below(solved.len() as u64) as usize;
        let Unit { order, shard: index, part } = solved[drawn].unit;
        let mut alike = Random(u64::from(index) << 32 | u64::from(part));
        let random = if habit.alike { &mut alike } else { &mut *random };
        let plan = &self.plans[usize::from(order) - 1];
        let shard = &plan.shards[index as usize];
        let other = match habit.lie {
            Lie::OtherPart if shard.parts > 1 => {
                solve(Unit { order, shard: index, part: (part + 1) % shard.parts })
            }
            _ => self.last.lock().unwrap().take(),
        };
        let Some(altered) = habit.lie.tell(plan, &solved[drawn], other.as_ref(), random) else {
            return;
        };
        let told = Told {
            host: self.host,
            lie: habit.lie,
            shows_at_once: habit.lie.shows_at_once(shard),
            reply: Reply::Dropped,
        };
        self.prepared.lock().unwrap().insert(lease, told);
        *self.last.lock().unwrap() = Some(std::mem::replace(&mut solved[drawn], altered));
    }
}

impl Craft for Solves {
    fn name(&self, place: usize) -> Option<String> {
        let names = match self.habit {
            None => 1,
            Some(habit) => 1 + usize::from(habit.two_names),
        };
        assert!(place == 0 || self.habit.is_some(), "{}, who is honest, is refused", self.host);
        let more = if place == 0 { "" } else { " in disguise" };
        (place < names).then(|| format!("{}{more}", self.host))
    }

    async fn solve(&mut self, client: &mut Client, held: &HeldLease) -> Option<Messages> {
        let plan = self.plan(&held.units);
        let fetched = fetch(client, held.worker, plan, &held.units).await.ok()?;
        let source = PartitionCache::new(usize::MAX, Arc::new(fetched));
        let solver = solver();
        let solve = |unit| solver.solve(plan, unit, &source).ok();
        let mut solved: Vec<SolvedUnit> =
            held.units.iter().map(|&unit| solve(unit)).collect::<Option<_>>()?;
        self.lie(held.lease, &mut solved, solve);
        let results = solved.iter().map(|solved| {
            (messages::result(&solved.unit, &solved.summary, solved.elapsed), solved.blocks())
        });
        Some(messages::delivery(held.worker, held.lease, results))
    }

    fn late_one_in(&self) -> u64 {
        if self.habit.is_some_and(|habit| habit.late) { 2 } else { 30 }
    }

    fn answered(&self, held: &HeldLease, reply: Reply, why: &str) {
        let Some(told) = self.prepared.lock().unwrap().get(&held.lease).cloned() else {
            // Whoever has lied before is told so whatever it delivers.
            let is_honest = self.habit.is_none();
            assert!(!is_honest || reply != Reply::Refused, "{}: {why}", self.host);
            return;
        };
        self.told.lock().unwrap().push(Told { reply, ..told });
    }
}

/// How a census goes about it, and with whom.
#[derive(Clone, Debug)]
struct Setting {
    order: usize,
    compared_share: f64,
    trial_rate: f64,
    honest: usize,
    habits: Vec<Habit>,
}

impl Setting {
    /// Nobody lies, and nothing is tried or compared.
    fn honest(order: usize) -> Self {
        let habits = Vec::new();
        Setting { order, compared_share: 0.0, trial_rate: 0.0, honest: 1, habits }
    }

    /// Every share of units that are compared meets every lie within a few seeds.
    fn of(seed: u64, orders: [usize; 2], random: &mut Random) -> Self {
        let compared_share = [0.0, 0.1, 1.0][(seed % 3) as usize];
        let habit = |i: u64| Habit {
            lie: LIES[((seed + i * (1 + seed / 9)) % 9) as usize],
            one_in: [1, 4, 20][random.below(3) as usize],
            late: random.below(4) == 0,
            two_names: random.below(3) == 0,
            alike: random.below(4) == 0,
        };
        let habits = (0..2).map(habit).collect();
        // Who compares has to be another, and liars may be gone.
        let honest = if compared_share == 0.0 { 1 + random.below(2) as usize } else { 2 };
        let trial_rate = [0.0, 0.01, 1.0][random.below(3) as usize];
        let order = orders[usize::from(seed % 4 == 3)];
        Setting { order, compared_share, trial_rate, honest, habits }
    }

    fn options(&self) -> CensusOptions {
        let Setting { order, compared_share, trial_rate, .. } = *self;
        CensusOptions { compared_share, trial_rate, ..options(order) }
    }

    /// Whether what comes out is right for certain.
    fn is_certain(&self) -> bool {
        let about_records = |habit: &&Habit| habit.lie == Lie::Record;
        let liars: Vec<&Habit> = self.habits.iter().filter(about_records).collect();
        let conspire = liars.iter().any(|habit| habit.alike);
        liars.is_empty() || self.trial_rate == 1.0 || self.compared_share == 1.0 && !conspire
    }
}

/// What came of a census.
struct End {
    lasted: Duration,
    /// `None` if it could not be finished, since counts contradict theory.
    results: Option<Vec<OrderResult>>,
    alarms: Vec<Alarm>,
    told: Vec<Told>,
}

const HONEST: [&str; 2] = ["honest-0", "honest-1"];
const LIARS: [&str; 2] = ["liar-0", "liar-1"];

/// A census with faults, by the honest workers alone or with those who lie.
fn run(
    seed: u64,
    setting: &Setting,
    directory: &TempDir,
    plans: &Arc<Vec<Plan>>,
    faults: Vec<Planned>,
    liars: bool,
) -> End {
    let told = Arc::<Mutex<Vec<Told>>>::default();
    let worker = |host: &'static str, habit: Option<Habit>| {
        let random = Random(seed ^ host.bytes().map(u64::from).sum::<u64>() << 40);
        let craft = Solves {
            host,
            habit,
            plans: plans.clone(),
            random: Arc::new(Mutex::new(random)),
            prepared: Arc::default(),
            told: told.clone(),
            last: Arc::default(),
        };
        (host, craft)
    };
    let honest = HONEST[..setting.honest].iter().map(|host| worker(host, None));
    let liars = LIARS.iter().zip(&setting.habits).filter(|_| liars);
    let liars = liars.map(|(host, habit)| worker(host, Some(*habit)));
    let workers: Vec<_> = honest.chain(liars).collect();
    let options = setting.options();
    let leader = Leader { directory: directory.path().to_owned(), options, memory: 1 << 30 };
    let lasted = simulate(seed, &leader, &workers, faults).lasted;
    let results = match open(directory.path(), options) {
        Ok(census) => census.close().expect("it can go on"),
        Err(Fault::Contradiction(_)) => None,
        Err(fault) => panic!("{fault}"),
    };
    let store = Store::open_read_only(&directory.path().join("store")).unwrap();
    let alarms = store.alarms().unwrap().into_iter().map(|(_, alarm)| alarm).collect();
    let told = std::mem::take(&mut *told.lock().unwrap());
    End { lasted, results, alarms, told }
}

/// What is counted of graphs, whoever wins them.
fn graphs(results: &[OrderResult]) -> Vec<[u128; 4]> {
    let of = |Statistics { classes, labelled, .. }: &Statistics| {
        [classes, labelled]
            .map(|weighing| [weighing.all.graphs, weighing.connected.graphs])
            .concat()
            .try_into()
            .expect("two of two")
    };
    let by_size = results.iter().flat_map(|result| &result.by_size);
    by_size.map(|summary| of(&summary.statistics)).collect()
}

impl End {
    fn is_blamed(&self, host: &str) -> bool {
        let mut blamed = self.alarms.iter().flat_map(|alarm| &alarm.blamed);
        blamed.any(|author| author.name().starts_with(host))
    }

    /// That what is guaranteed holds.
    fn check(&self, setting: &Setting, truth: &[OrderResult]) {
        let lines = || -> Vec<&String> { self.alarms.iter().map(|alarm| &alarm.text).collect() };
        for host in HONEST {
            assert!(!self.is_blamed(host), "{host} is blamed: {:#?}", lines());
        }
        for told in &self.told {
            let is_let_in = told.reply == Reply::Taken && told.shows_at_once;
            assert!(!is_let_in, "{told:?} was let in: {:#?}", lines());
            let is_unnamed = told.lie != Lie::Twice
                && told.reply == Reply::Refused
                && !self.is_blamed(told.host);
            assert!(!is_unnamed, "nobody was blamed for {told:?}: {:#?}", lines());
        }
        let is_right = self.results.as_deref() == Some(truth);
        if setting.is_certain() {
            assert!(is_right, "other results than undisturbed: {:#?}", lines());
            return;
        }
        if let Some(results) = &self.results {
            assert!(graphs(results) == graphs(truth), "other graphs than undisturbed");
        }
        let is_believed = |told: &Told| told.lie == Lie::Record && told.reply != Reply::Refused;
        assert!(is_right || self.told.iter().any(is_believed), "{:#?}", lines());
    }
}

/// What was seen in many runs.
#[derive(Default)]
struct Tally {
    /// How often lies were told, and what the coordinator said.
    told: BTreeMap<(Lie, Reply), u64>,
    /// Runs that could not be finished, since counts contradicted theory.
    unfinished: u64,
    /// Runs that came to other results, which nobody had promised to prevent.
    wrong: u64,
    slowest: f64,
}

impl Tally {
    fn add(&mut self, end: &End, is_right: bool, times: f64) {
        for told in &end.told {
            *self.told.entry((told.lie, told.reply)).or_default() += 1;
        }
        self.unfinished += u64::from(end.results.is_none());
        self.wrong += u64::from(end.results.is_some() && !is_right);
        self.slowest = self.slowest.max(times);
    }
}

#[test]
fn whoever_lies_what_is_guaranteed_holds() {
    let orders = orders();
    let last = orders[1];
    let plans: Arc<Vec<Plan>> =
        Arc::new((1..=last).map(|n| Plan::new(TrailTrap::LAYOUT, n, SPLIT)).collect());
    let truth = Answers::solve(last, SPLIT).order_results(last);
    // Nothing happens, to begin with. What is left is where the other runs begin.
    let begin = |order| {
        let (setting, template) = (Setting::honest(order - 1), tempfile::tempdir().unwrap());
        let begun = run(0, &setting, &template, &plans, Vec::new(), false);
        assert!(begun.results.as_deref() == Some(&truth[..order - 1]));
        (order, template)
    };
    let templates: BTreeMap<usize, TempDir> =
        BTreeSet::from(orders).into_iter().map(begin).collect();
    let (seeds, tally) = (seeds(SEEDS), Mutex::new(Tally::default()));
    try_seeds(seeds.clone(), |seed| {
        let setting = Setting::of(seed, orders, &mut Random(seed * 7919 + 1));
        let [alone, lied] = [false, true].map(|liars| {
            let faults = plan(seed, &mut Random(seed));
            let directory = copy_store(templates[&setting.order].path());
            run(seed, &setting, &directory, &plans, faults, liars)
        });
        lied.check(&setting, &truth[..setting.order]);
        let (lasted, alone) = (lied.lasted, alone.lasted);
        let is_right = lied.results.as_deref() == Some(&truth[..setting.order]);
        let mut tally = tally.lock().unwrap();
        tally.add(&lied, is_right, lasted.as_secs_f64() / alone.as_secs_f64());
    });
    let Tally { told, unfinished, wrong, slowest } = tally.into_inner().unwrap();
    // How long it takes on the simulated clock depends on how fast the threads of the store are.
    println!("{seeds:?}: {told:?}; {unfinished} unfinished, {wrong} wrong; {slowest:.1} times");
    if seeds.end - seeds.start >= SEEDS {
        let refused = told.keys().filter(|(_, reply)| *reply == Reply::Refused).count();
        assert!(refused > 5, "hardly anybody has lied in many ways: {told:?}");
    }
}
