//! The real service and the real census in a simulated network with a simulated clock: messages
//! are delayed and lost, links are cut, hosts crash, and every run ends with the digests of an
//! undisturbed one.
//!
//! `TRAILTRAP_SEEDS=1000` tries more seeds than the usual; `TRAILTRAP_SEEDS=17..18` only that one.

mod common;

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use common::{answers::Answers, eventually_some, introduction};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt;
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint, Uri},
};
use trailtrap::serve::service;
use trailtrap_census::{
    core::random::Random,
    driver::{Census, CensusError, CensusOptions, Keep},
};
use trailtrap_shared::{
    plan::{PlanOptions, Unit},
    protocol::{
        messages,
        wire::{self, census_client::CensusClient, lease_reply::Answer},
    },
};
use turmoil::net::{TcpListener, TcpStream};

const LEADER: &str = "leader";
const PORT: u16 = 7461;
const WORKERS: [&str; 3] = ["worker-0", "worker-1", "worker-2"];
const LEASE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(5);
/// The order that is simulated, and how it is split: so that several leases are out at a time.
const ORDER: usize = 8;
const SPLIT: PlanOptions = PlanOptions { part_graphs: 1, bucket_bytes: 4 << 10 };

/// What a worker has come to with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Asks,
    Holds,
    Computed,
    Delivers,
    Acknowledged,
}

const STEPS: [Step; 5] =
    [Step::Asks, Step::Holds, Step::Computed, Step::Delivers, Step::Acknowledged];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InjectedFault {
    LeaderCrashes,
    WorkerCrashes,
    /// Nothing gets through between the worker and the coordinator …
    Cut,
    /// … or nothing that goes to the worker: answers are lost.
    Deaf,
    /// Messages wait, and come all at once.
    Held,
    /// Now and then a message is lost, and what comes after it on the connection.
    Lossy,
    /// Messages take seconds, and overtake each other.
    Slow,
}

const FAULTS: [InjectedFault; 7] = [
    InjectedFault::LeaderCrashes,
    InjectedFault::WorkerCrashes,
    InjectedFault::Cut,
    InjectedFault::Deaf,
    InjectedFault::Held,
    InjectedFault::Lossy,
    InjectedFault::Slow,
];

/// What the hosts of a simulation, through all their crashes, tell the one who watches.
#[derive(Default)]
struct Log {
    steps: Mutex<Vec<(usize, Step)>>,
    acknowledged: Mutex<HashSet<Unit>>,
    /// Times that a host was started.
    starts: Mutex<u64>,
    census: Mutex<Weak<Census>>,
}

impl Log {
    fn step(&self, worker: usize, step: Step) {
        self.steps.lock().unwrap().push((worker, step));
    }

    fn census(&self) -> Option<Arc<Census>> {
        self.census.lock().unwrap().upgrade()
    }
}

fn options(order: usize) -> CensusOptions {
    let clock = || Instant::now().into_std();
    CensusOptions {
        game: None,
        order,
        keep: Keep::All,
        plan: SPLIT,
        lease_term: LEASE,
        trial_rate: 0.01,
        compared_share: 0.0,
        // The simulated clock stands still meanwhile.
        gather: Duration::ZERO,
        clock,
    }
}

/// Opens a census when the one before, which crashed, has let go of the directory.
fn open(directory: &Path, order: usize) -> Arc<Census> {
    eventually_some("the directory is free", || {
        match Census::open(&directory.join("store"), options(order)) {
            Ok(census) => Some(census),
            Err(CensusError::Store(_)) => None,
            Err(error) => panic!("{error}"),
        }
    })
}

async fn lead(directory: PathBuf, order: usize, memory: usize, log: Arc<Log>) -> turmoil::Result {
    let census = open(&directory, order);
    *log.census.lock().unwrap() = Arc::downgrade(&census);
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // tonic knows this kind of stream.
            let (mut inside, outside) = tokio::io::duplex(1 << 16);
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut stream, &mut inside).await },
            );
            if sender.send(io::Result::Ok(outside)).await.is_err() {
                return;
            }
        }
    });
    let connections = tokio_stream::wrappers::ReceiverStream::new(receiver);
    Ok(service::serve_on(census, memory, connections, None, std::future::pending()).await?)
}

/// Connects as real workers do.
fn client() -> CensusClient<Channel> {
    let connect = |_: Uri| async { TcpStream::connect((LEADER, PORT)).await.map(TokioIo::new) };
    let channel = Endpoint::from_static("http://leader:7461")
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(tower::service_fn(connect));
    CensusClient::new(channel)
}

fn within<T>(seconds: u64, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(seconds));
    request
}

#[derive(Clone)]
struct HeldLease {
    /// The numbers that the worker had, and the lease has.
    worker: u64,
    lease: u64,
    units: Vec<Unit>,
}

struct SimulatedWorker {
    index: usize,
    client: CensusClient<Channel>,
    answers: Arc<Answers>,
    log: Arc<Log>,
    random: Random,
    number: u64,
    held: Vec<HeldLease>,
    /// What heartbeats say: the worker's number, and leases to renew.
    alive: Arc<Mutex<(u64, Vec<u64>)>>,
}

impl SimulatedWorker {
    fn new(index: usize, seed: u64, answers: Arc<Answers>, log: Arc<Log>) -> Self {
        let mut random = Random(seed << 8 | index as u64);
        random.below(1);
        SimulatedWorker {
            index,
            client: client(),
            answers,
            log,
            random,
            number: 0,
            held: Vec::new(),
            alive: Arc::default(),
        }
    }

    /// The loop of a worker that has several leases at a time, delivers them in any order,
    /// sometimes twice or late, and tries again when there is no answer.
    async fn work(mut self) -> turmoil::Result {
        self.register().await;
        let beats = tokio::spawn(heartbeats(self.client.clone(), self.alive.clone()));
        loop {
            if self.held.is_empty() || self.held.len() < 4 && self.random.below(2) == 0 {
                self.log.step(self.index, Step::Asks);
                match self
                    .client
                    .lease(within(20, wire::LeaseRequest { worker: self.number }))
                    .await
                {
                    Ok(reply) => match reply.into_inner().answer.unwrap() {
                        Answer::Grant(grant) => {
                            self.log.step(self.index, Step::Holds);
                            let units = messages::units(&grant);
                            self.held.push(HeldLease {
                                worker: self.number,
                                lease: grant.lease,
                                units,
                            });
                            self.renew();
                        }
                        Answer::WaitMilliseconds(_) => {}
                        Answer::Finished(_) => break,
                    },
                    // What is held is delivered nevertheless, and must not be taken.
                    Err(status) if status.code() == Code::NotFound => self.register().await,
                    Err(_) => self.pause(1000).await,
                }
            }
            if !self.held.is_empty() {
                self.finish_one().await;
            }
        }
        beats.abort();
        Ok(())
    }

    async fn register(&mut self) {
        loop {
            match self.client.register(within(10, introduction(WORKERS[self.index]))).await {
                Ok(reply) => self.number = reply.into_inner().worker,
                Err(_) => {
                    self.pause(1000).await;
                    continue;
                }
            }
            return self.renew();
        }
    }

    fn renew(&self) {
        *self.alive.lock().unwrap() =
            (self.number, self.held.iter().map(|held| held.lease).collect());
    }

    async fn pause(&mut self, most_milliseconds: u64) {
        sleep(Duration::from_millis(1 + self.random.below(most_milliseconds))).await;
    }

    /// Computes and delivers one of the leases.
    async fn finish_one(&mut self) {
        let held = self.held.swap_remove(self.random.below(self.held.len() as u64) as usize);
        if self.random.below(20) == 0 {
            let request = wire::GiveBackRequest {
                worker: held.worker,
                leases: vec![held.lease],
                failure: String::new(),
            };
            let _ = self.client.give_back(within(5, request)).await;
            return self.renew();
        }
        if self.random.below(3) == 0
            && let Err(status) =
                self.answers.check_input(&mut self.client, held.worker, held.units[0]).await
        {
            // Not the census that was asked, or it has gone on.
            let passing = [
                Code::NotFound,
                Code::Unavailable,
                Code::Unknown,
                Code::Internal,
                Code::Cancelled,
            ];
            assert!(passing.contains(&status.code()), "{status:?}");
        }
        self.pause(300).await;
        if self.random.below(30) == 0 {
            // Longer than the lease lasts, and without a sign of life.
            self.renew();
            sleep(LEASE * 3 / 2).await;
        }
        self.log.step(self.index, Step::Computed);
        let copies = if self.random.below(8) == 0 { 2 } else { 1 };
        for _ in 0..5 {
            self.log.step(self.index, Step::Delivers);
            let seconds = 1 + self.random.below(90);
            let answers = futures(copies, || {
                deliver(self.client.clone(), self.answers.clone(), held.clone(), seconds)
            });
            let mut answered = false;
            for answer in answers {
                match answer.await.unwrap() {
                    Ok(true) => {
                        self.log.step(self.index, Step::Acknowledged);
                        let mut acknowledged = self.log.acknowledged.lock().unwrap();
                        let new = held.units.iter().all(|&unit| acknowledged.insert(unit));
                        assert!(new, "what was acknowledged is accepted again: {:?}", held.units);
                        answered = true;
                    }
                    Ok(false) => answered = true,
                    Err(status) => {
                        let wrong =
                            [Code::InvalidArgument, Code::FailedPrecondition, Code::OutOfRange];
                        assert!(!wrong.contains(&status.code()), "{status:?}");
                        // The coordinator does not know the worker any more.
                        answered = status.code() == Code::NotFound;
                    }
                }
            }
            // Sometimes it is not sure that it was answered.
            if answered && self.random.below(6) > 0 {
                break;
            }
            self.pause(1000).await;
        }
        self.renew();
    }
}

fn futures<T: Send + 'static, F>(
    count: usize,
    make: impl Fn() -> F,
) -> Vec<tokio::task::JoinHandle<T>>
where
    F: Future<Output = T> + Send + 'static,
{
    (0..count).map(|_| tokio::spawn(make())).collect()
}

async fn deliver(
    mut client: CensusClient<Channel>,
    answers: Arc<Answers>,
    held: HeldLease,
    seconds: u64,
) -> Result<bool, Status> {
    let messages = answers.delivery(held.worker, held.lease, &held.units);
    let reply = client.complete(within(seconds, tokio_stream::iter(messages))).await?;
    Ok(reply.into_inner().accepted)
}

async fn heartbeats(mut client: CensusClient<Channel>, alive: Arc<Mutex<(u64, Vec<u64>)>>) {
    loop {
        let (worker, leases) = alive.lock().unwrap().clone();
        let _ = client.heartbeat(within(5, wire::HeartbeatRequest { worker, leases })).await;
        sleep(LEASE / 6).await;
    }
}

/// A fault that is to happen so long after some worker has come to a step for the n-th time.
struct Planned {
    step: Step,
    countdown: u64,
    after: Duration,
    fault: InjectedFault,
    lasts: Duration,
}

fn plan(seed: u64, random: &mut Random) -> Vec<Planned> {
    let planned = |i: u64| Planned {
        // Every fault meets every step within a few seeds.
        step: STEPS[((seed + i) % 5) as usize],
        fault: FAULTS[((seed * 5 + i) % 7) as usize],
        countdown: 1 + random.below(3),
        after: Duration::from_millis(random.below(150)),
        lasts: Duration::from_millis([0, 300, 4_000, 30_000][random.below(4) as usize]),
    };
    (0..5).map(planned).rev().collect()
}

type Met = BTreeMap<(Step, InjectedFault), u64>;

/// A run of all orders up to `order` that are not in the directory yet, with faults. They are
/// counted by the step that they met.
fn simulate(
    seed: u64,
    directory: &Path,
    order: usize,
    answers: &Arc<Answers>,
    mut planned: Vec<Planned>,
    memory: usize,
) -> Met {
    let log = Arc::new(Log::default());
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(3600))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(20))
        .repair_rate(0.2)
        .tcp_capacity(1 << 12)
        .build();
    sim.host(LEADER, {
        let (log, directory) = (log.clone(), directory.to_owned());
        move || lead(directory.clone(), order, memory, log.clone())
    });
    for (index, name) in WORKERS.into_iter().enumerate() {
        let (log, answers) = (log.clone(), answers.clone());
        sim.host(name, move || {
            let start = {
                let mut starts = log.starts.lock().unwrap();
                *starts += 1;
                *starts
            };
            SimulatedWorker::new(index, seed << 16 | start, answers.clone(), log.clone()).work()
        });
    }
    let step = |sim: &mut turmoil::Sim| {
        sim.step().unwrap_or_else(|error| panic!("{error}"));
    };
    let (mut met, mut due, mut mends) = (Met::new(), Vec::new(), Vec::new());
    while !log.census().is_some_and(|census| census.has_ended()) {
        step(&mut sim);
        let now = sim.elapsed();
        for (worker, step) in std::mem::take(&mut *log.steps.lock().unwrap()) {
            let Some(next) = planned.last_mut().filter(|next| next.step == step) else { continue };
            next.countdown -= 1;
            if next.countdown == 0 {
                *met.entry((step, next.fault)).or_default() += 1;
                due.extend(planned.pop().map(|planned| (now + planned.after, worker, planned)));
            }
        }
        for (_, worker, planned) in due.extract_if(.., |(at, ..)| *at <= now) {
            let worker = WORKERS[worker];
            match planned.fault {
                InjectedFault::LeaderCrashes => sim.crash(LEADER),
                InjectedFault::WorkerCrashes => sim.crash(worker),
                InjectedFault::Cut => sim.partition(worker, LEADER),
                InjectedFault::Deaf => sim.partition_oneway(LEADER, worker),
                InjectedFault::Held => sim.hold(worker, LEADER),
                InjectedFault::Lossy => sim.set_fail_rate(0.02),
                InjectedFault::Slow => sim.set_max_message_latency(Duration::from_secs(3)),
            }
            mends.push((now + planned.lasts, worker, planned.fault));
        }
        for (_, worker, fault) in mends.extract_if(.., |(at, ..)| *at <= now) {
            mend(&mut sim, worker, fault);
        }
    }
    // When all is mended, everybody hears that it is over.
    for (_, worker, fault) in mends {
        mend(&mut sim, worker, fault);
    }
    while WORKERS.iter().any(|worker| sim.is_host_running(*worker)) {
        step(&mut sim);
    }
    drop(sim);
    let results = open(directory, order).close().unwrap().expect("all is done");
    assert!(results == answers.order_results(order), "other results than undisturbed");
    met
}

fn mend(sim: &mut turmoil::Sim, worker: &str, fault: InjectedFault) {
    match fault {
        InjectedFault::LeaderCrashes => sim.bounce(LEADER),
        InjectedFault::WorkerCrashes => sim.bounce(worker),
        InjectedFault::Cut => sim.repair(worker, LEADER),
        InjectedFault::Deaf => sim.repair_oneway(LEADER, worker),
        InjectedFault::Held => sim.release(worker, LEADER),
        InjectedFault::Lossy => sim.set_fail_rate(0.0),
        InjectedFault::Slow => sim.set_max_message_latency(Duration::from_millis(20)),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// The seeds that were asked for.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |text: &str| {
        text.parse().expect("TRAILTRAP_SEEDS is a number or a range of numbers, such as 17..18")
    };
    match std::env::var("TRAILTRAP_SEEDS") {
        Err(_) => 0..usual,
        Ok(text) => match text.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&text),
        },
    }
}

#[test]
fn whatever_happens_the_digests_are_those_of_an_undisturbed_run() {
    let answers = Arc::new(Answers::solve(ORDER, SPLIT));
    // Nothing happens, to begin with. What is left is where most of the other runs begin.
    let template = tempfile::tempdir().unwrap();
    let met = simulate(0, template.path(), ORDER - 1, &answers, Vec::new(), 1 << 30);
    assert!(met.is_empty());
    let seeds = seeds(30);
    let (next, all) = (AtomicU64::new(seeds.start), Mutex::new(Met::new()));
    let some = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let mut random = Random(seed * 7919 + 1);
            // Some runs pass through several orders.
            let from_scratch = seed % 6 == 5;
            let order = if from_scratch { ORDER - 2 } else { ORDER };
            let directory = tempfile::tempdir().unwrap();
            if !from_scratch {
                copy(&template.path().join("store"), &directory.path().join("store"));
            }
            let memory = [1, 1 << 10, 1 << 30][random.below(3) as usize];
            let planned = plan(seed, &mut random);
            let run = || simulate(seed, directory.path(), order, &answers, planned, memory);
            let met = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let met = met.unwrap_or_else(|panic| {
                eprintln!("this was seed {seed}");
                std::panic::resume_unwind(panic)
            });
            for (pair, count) in met {
                *all.lock().unwrap().entry(pair).or_default() += count;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(some);
        }
    });
    let met = all.into_inner().unwrap();
    println!("{} faults in {seeds:?}: {met:?}", met.values().sum::<u64>());
    if seeds == (0..30) {
        for fault in FAULTS {
            for step in STEPS {
                assert!(met.contains_key(&(step, fault)), "{fault:?} has never met {step:?}");
            }
        }
    }
}

/// One worker begins to deliver and says nothing more, though it is alive; the memory of messages
/// is enough for one delivery.
#[test]
fn a_client_that_stalls_does_not_keep_its_share_of_the_memory() {
    let answers = Arc::new(Answers::solve(4, SPLIT));
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::default());
    let mut sim = turmoil::Builder::new()
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(600))
        .build();
    sim.host(LEADER, {
        let (log, directory) = (log.clone(), directory.path().to_owned());
        move || lead(directory.clone(), 4, 1, log.clone())
    });
    let gave_up = Arc::new(Mutex::new(None));
    sim.client("silent", {
        let (answers, gave_up) = (answers.clone(), gave_up.clone());
        async move {
            let mut client = client();
            let worker = client.register(introduction("silent")).await?.into_inner().worker;
            let reply = client.lease(wire::LeaseRequest { worker }).await?.into_inner();
            let Some(Answer::Grant(grant)) = reply.answer else { panic!("work is there") };
            let begun = answers
                .delivery(worker, grant.lease, &messages::units(&grant))
                .into_iter()
                .take(3);
            let start = Instant::now();
            let status = client
                .complete(tokio_stream::iter(begun).chain(tokio_stream::pending()))
                .await
                .unwrap_err();
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
            *gave_up.lock().unwrap() = Some(start.elapsed());
            Ok(())
        }
    });
    sim.client("honest", async move {
        // When the other one has its share.
        sleep(Duration::from_secs(5)).await;
        SimulatedWorker::new(0, 1, answers, log).work().await
    });
    sim.run().unwrap();
    let gave_up = gave_up.lock().unwrap().expect("the silent one was told");
    assert!((55..90).contains(&gave_up.as_secs()), "{gave_up:?}");
}
