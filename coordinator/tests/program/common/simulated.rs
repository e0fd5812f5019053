//! The real service and the real census in a simulated network with a simulated clock, the workers
//! that work for them there, and what can happen to all of these.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint, Uri},
};
use trailtrap::serve::service;
use trailtrap_census::{
    core::{Fault, random::Random},
    driver::{Census, CensusError, CensusOptions},
};
use trailtrap_shared::{
    plan::{Goal, PlanOptions, Unit},
    protocol::{
        messages,
        wire::{self, census_client::CensusClient, lease_reply::Answer},
    },
};
use turmoil::net::{TcpListener, TcpStream};

use crate::common::{copy_directory, eventually_some, introduction};

pub const LEADER: &str = "leader";
const PORT: u16 = 7461;
pub const LEASE: Duration = Duration::from_secs(10);
pub const TICK: Duration = Duration::from_millis(5);
/// How orders are split: so that several leases are out at a time.
pub const SPLIT: PlanOptions = PlanOptions { part_graphs: 1, bucket_bytes: 4 << 10 };

pub type Client = CensusClient<Channel>;

/// What a worker has come to with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Asks,
    Holds,
    Computed,
    Delivers,
    Acknowledged,
}

pub const STEPS: [Step; 5] =
    [Step::Asks, Step::Holds, Step::Computed, Step::Delivers, Step::Acknowledged];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InjectedFault {
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

pub const FAULTS: [InjectedFault; 7] = [
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
    /// Times that a host was started.
    starts: Mutex<u64>,
    census: Mutex<Weak<Census>>,
    /// Why it cannot be taken up again.
    fault: Mutex<Option<Fault>>,
}

impl Log {
    fn step(&self, worker: usize, step: Step) {
        self.steps.lock().unwrap().push((worker, step));
    }

    /// Whether everything is done, if the census has ended.
    fn end(&self) -> Option<bool> {
        let is_lost = self.fault.lock().unwrap().is_some();
        let census = self.census.lock().unwrap().upgrade();
        let census = census.filter(|census| census.has_ended());
        census.map(|census| census.is_complete()).or(is_lost.then_some(false))
    }
}

/// A census of all orders up to this one, nothing of which is tried or compared.
pub fn options(order: usize) -> CensusOptions {
    let clock = || Instant::now().into_std();
    // It is durable at once, as the simulated clock stands still meanwhile.
    let usual = CensusOptions::new(Goal::new(order, None));
    CensusOptions { plan: SPLIT, lease_term: LEASE, clock, ..usual }
}

/// Opens a census when the one before, which crashed, has let go of the directory; or says why it
/// cannot go on.
pub fn open(directory: &Path, options: CensusOptions) -> Result<Arc<Census>, Fault> {
    eventually_some("the directory is free", || {
        match Census::open(&directory.join("store"), options) {
            Ok(census) => Some(Ok(census)),
            Err(CensusError::Store(_)) => None,
            Err(CensusError::Fault(fault)) => Some(Err(fault)),
            Err(error) => panic!("{error}"),
        }
    })
}

/// A coordinator.
#[derive(Clone)]
pub struct Leader {
    /// Where the store is.
    pub directory: PathBuf,
    pub options: CensusOptions,
    /// Bytes that its messages may take.
    pub memory: usize,
}

impl Leader {
    /// What its host does.
    pub async fn lead(self) -> turmoil::Result {
        self.lead_watched(&Log::default()).await
    }

    async fn lead_watched(self, log: &Log) -> turmoil::Result {
        let census = match open(&self.directory, self.options) {
            Ok(census) => census,
            Err(fault) => {
                *log.fault.lock().unwrap() = Some(fault);
                return Ok(());
            }
        };
        *log.census.lock().unwrap() = Arc::downgrade(&census);
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // tonic knows this kind of stream.
                let (mut inside, outside) = tokio::io::duplex(1 << 16);
                tokio::spawn(async move {
                    tokio::io::copy_bidirectional(&mut stream, &mut inside).await
                });
                if sender.send(io::Result::Ok(outside)).await.is_err() {
                    return;
                }
            }
        });
        let connections = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let for_ever = std::future::pending();
        Ok(service::serve_on(census, self.memory, connections, None, for_ever).await?)
    }
}

/// Connects as real workers do.
pub fn client() -> Client {
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
pub struct HeldLease {
    /// The numbers that the worker had, and the lease has.
    pub worker: u64,
    pub lease: u64,
    pub units: Vec<Unit>,
}

/// What the coordinator says of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// It is durable, or was compared.
    Taken,
    /// Nobody wants it any more.
    Dropped,
    /// It is wrong.
    Refused,
}

/// The messages of a delivery.
pub type Messages = Vec<wire::CompleteRequest>;

/// How a worker comes to results, and what it expects of the coordinator. It is cloned whenever
/// its host starts.
pub trait Craft: Clone + Send + Sync + 'static {
    /// The name to register with: the first, or the next when that one is not trusted any more;
    /// `None` if there is no other.
    fn name(&self, place: usize) -> Option<String>;

    /// The messages that deliver a lease; `None` if what they are computed from cannot be had.
    fn solve(
        &mut self,
        client: &mut Client,
        held: &HeldLease,
    ) -> impl Future<Output = Option<Messages>> + Send;

    /// How often a worker is silent for longer than a lease lasts, and delivers then: one time in
    /// so many.
    fn late_one_in(&self) -> u64 {
        30
    }

    /// The coordinator has answered a delivery of [`Craft::solve`].
    fn answered(&self, held: &HeldLease, reply: Reply, why: &str);
}

/// Whether an error is that of a census that has gone on, or of a network.
pub fn is_passing(status: &Status) -> bool {
    let passing =
        [Code::NotFound, Code::Unavailable, Code::Unknown, Code::Internal, Code::Cancelled];
    passing.contains(&status.code())
}

/// Whether the coordinator says that something is wrong with the worker.
fn is_reproach(status: &Status) -> bool {
    let wrong = [Code::InvalidArgument, Code::FailedPrecondition, Code::OutOfRange];
    wrong.contains(&status.code())
}

/// A worker of which nobody believes that it is trusted: it has no name left.
struct Expelled;

pub struct SimulatedWorker<C> {
    index: usize,
    client: Client,
    craft: C,
    log: Arc<Log>,
    random: Random,
    /// How many of its names are not trusted any more.
    names_lost: usize,
    number: u64,
    held: Vec<HeldLease>,
    /// What heartbeats say: the worker's number, and leases to renew.
    alive: Arc<Mutex<(u64, Vec<u64>)>>,
}

impl<C: Craft> SimulatedWorker<C> {
    /// A worker that nobody watches.
    pub fn new(seed: u64, craft: C) -> Self {
        Self::watched(0, seed, craft, Arc::default())
    }

    fn watched(index: usize, seed: u64, craft: C, log: Arc<Log>) -> Self {
        let mut random = Random(seed << 8 | index as u64);
        random.below(1);
        SimulatedWorker {
            index,
            client: client(),
            craft,
            log,
            random,
            names_lost: 0,
            number: 0,
            held: Vec::new(),
            alive: Arc::default(),
        }
    }

    /// What its host does: works until all is done, or nobody wants it.
    pub async fn work(mut self) -> turmoil::Result {
        if self.register().await.is_ok() {
            let beats = tokio::spawn(heartbeats(self.client.clone(), self.alive.clone()));
            let _ = self.work_on().await;
            beats.abort();
        }
        Ok(())
    }

    /// The loop of a worker that has several leases at a time, delivers them in any order,
    /// sometimes twice or late, and tries again when there is no answer.
    async fn work_on(&mut self) -> Result<(), Expelled> {
        loop {
            if self.held.is_empty() || self.held.len() < 4 && self.random.below(2) == 0 {
                self.log.step(self.index, Step::Asks);
                let request = within(
                    20,
                    wire::LeaseRequest { worker: self.number, room: 0, by_name: false },
                );
                match self.client.lease(request).await {
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
                        Answer::Finished(_) => return Ok(()),
                    },
                    // What is held is delivered nevertheless, and must not be taken.
                    Err(status) if status.code() == Code::NotFound => self.register().await?,
                    Err(status) if is_reproach(&status) => {
                        self.names_lost += 1;
                        self.register().await?;
                    }
                    Err(_) => self.pause(1000).await,
                }
            }
            if !self.held.is_empty() {
                self.finish_one().await;
            }
        }
    }

    async fn register(&mut self) -> Result<(), Expelled> {
        loop {
            let name = self.craft.name(self.names_lost).ok_or(Expelled)?;
            match self.client.register(within(10, introduction(name))).await {
                Ok(reply) => {
                    self.number = reply.into_inner().worker;
                    self.renew();
                    return Ok(());
                }
                Err(status) if is_reproach(&status) => self.names_lost += 1,
                Err(_) => self.pause(1000).await,
            }
        }
    }

    fn renew(&self) {
        *self.alive.lock().unwrap() =
            (self.number, self.held.iter().map(|held| held.lease).collect());
    }

    async fn pause(&mut self, most_milliseconds: u64) {
        sleep(Duration::from_millis(1 + self.random.below(most_milliseconds))).await;
    }

    async fn give_back(&mut self, held: HeldLease) {
        let request = wire::GiveBackRequest {
            worker: held.worker,
            leases: vec![held.lease],
            failure: String::new(),
        };
        let _ = self.client.give_back(within(5, request)).await;
        self.renew();
    }

    /// Computes and delivers one of the leases.
    async fn finish_one(&mut self) {
        let held = self.held.swap_remove(self.random.below(self.held.len() as u64) as usize);
        if self.random.below(20) == 0 {
            return self.give_back(held).await;
        }
        let Some(messages) = self.craft.solve(&mut self.client, &held).await else {
            return self.give_back(held).await;
        };
        self.pause(300).await;
        if self.random.below(self.craft.late_one_in()) == 0 {
            // Longer than the lease lasts, and without a sign of life.
            self.renew();
            sleep(LEASE * 3 / 2).await;
        }
        self.log.step(self.index, Step::Computed);
        let copies = if self.random.below(8) == 0 { 2 } else { 1 };
        for _ in 0..5 {
            self.log.step(self.index, Step::Delivers);
            let seconds = 1 + self.random.below(90);
            let answers: Vec<_> = (0..copies)
                .map(|_| tokio::spawn(deliver(self.client.clone(), messages.clone(), seconds)))
                .collect();
            let mut answered = false;
            for answer in answers {
                match answer.await.unwrap() {
                    Ok(accepted) => {
                        if accepted {
                            self.log.step(self.index, Step::Acknowledged);
                        }
                        let reply = if accepted { Reply::Taken } else { Reply::Dropped };
                        self.craft.answered(&held, reply, "");
                        answered = true;
                    }
                    Err(status) if is_reproach(&status) => {
                        self.craft.answered(&held, Reply::Refused, status.message());
                        answered = true;
                    }
                    // The coordinator does not know the worker any more.
                    Err(status) => answered = status.code() == Code::NotFound,
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

async fn deliver(mut client: Client, messages: Messages, seconds: u64) -> Result<bool, Status> {
    let reply = client.complete(within(seconds, tokio_stream::iter(messages))).await?;
    Ok(reply.into_inner().accepted)
}

async fn heartbeats(mut client: Client, alive: Arc<Mutex<(u64, Vec<u64>)>>) {
    loop {
        let (worker, leases) = alive.lock().unwrap().clone();
        let _ = client.heartbeat(within(5, wire::HeartbeatRequest { worker, leases })).await;
        sleep(LEASE / 6).await;
    }
}

/// A fault that is to happen so long after some worker has come to a step for the n-th time.
pub struct Planned {
    step: Step,
    countdown: u64,
    after: Duration,
    fault: InjectedFault,
    lasts: Duration,
}

/// The faults of a run. Every fault meets every step within a few seeds.
pub fn plan(seed: u64, random: &mut Random) -> Vec<Planned> {
    let planned = |i: u64| Planned {
        step: STEPS[((seed + i) % 5) as usize],
        fault: FAULTS[((seed * 5 + i) % 7) as usize],
        countdown: 1 + random.below(3),
        after: Duration::from_millis(random.below(150)),
        lasts: Duration::from_millis([0, 300, 4_000, 30_000][random.below(4) as usize]),
    };
    (0..5).map(planned).rev().collect()
}

/// How often faults have met steps.
pub type Met = BTreeMap<(Step, InjectedFault), u64>;

/// What became of a run.
pub struct Run {
    pub met: Met,
    /// How long it took until the census had ended, on the simulated clock.
    pub lasted: Duration,
}

/// Runs a census to its end, well or not, with these workers by the names of their hosts, while
/// faults happen. When all is done, everybody has heard that it is.
pub fn simulate<C: Craft>(
    seed: u64,
    leader: &Leader,
    workers: &[(&'static str, C)],
    mut planned: Vec<Planned>,
) -> Run {
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
        let (log, leader) = (log.clone(), leader.clone());
        move || {
            let (log, leader) = (log.clone(), leader.clone());
            async move { leader.lead_watched(&log).await }
        }
    });
    for (index, (name, craft)) in workers.iter().enumerate() {
        let (log, craft) = (log.clone(), craft.clone());
        sim.host(*name, move || {
            let start = {
                let mut starts = log.starts.lock().unwrap();
                *starts += 1;
                *starts
            };
            SimulatedWorker::watched(index, seed << 16 | start, craft.clone(), log.clone()).work()
        });
    }
    let step = |sim: &mut turmoil::Sim| {
        sim.step().unwrap_or_else(|error| panic!("{error}"));
    };
    let (mut met, mut due, mut mends) = (Met::new(), Vec::new(), Vec::new());
    let is_complete = loop {
        if let Some(is_complete) = log.end() {
            break is_complete;
        }
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
            let worker = workers[worker].0;
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
    };
    let lasted = sim.elapsed();
    // When all is mended, everybody hears that it is over.
    for (_, worker, fault) in mends {
        mend(&mut sim, worker, fault);
    }
    while is_complete && workers.iter().any(|(name, _)| sim.is_host_running(*name)) {
        step(&mut sim);
    }
    Run { met, lasted }
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

/// A directory with the same store in it.
pub fn copy_store(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    copy_directory(&from.join("store"), &to.path().join("store"));
    to
}

/// Tries seeds, two at a time, and says which one it was that failed.
pub fn try_seeds(seeds: Range<u64>, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let some = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
            tried.unwrap_or_else(|panic| {
                eprintln!("this was seed {seed}");
                std::panic::resume_unwind(panic)
            });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(some);
        }
    });
}
