//! The link of a worker process: gRPC to a coordinator that may be restarted or out of reach for a
//! while.

mod counting;
mod shelf;

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ConstantBuilder, ExponentialBuilder, Retryable};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};
use trailtrap_shared::{
    class::Class,
    game::{GameName, Layout},
    graph::pairs,
    labelling::{LABELLING, batch::Kernel},
    partition::{BLOCK_FORMAT, Block},
    plan::{Plan, PlanOptions},
    protocol::{
        access::Access,
        codec,
        messages::{self, Described, NamedUnit, Wanted},
        shelves::ShelfPlace,
        wire::{self, PROTOCOL},
    },
};

use crate::{
    access::{self, AccessError, AdmittedClient, Reach},
    cache::Fetch,
    counting::recount,
    kernel::{SolvedUnit, SourceError},
    link::{
        Delivered, Grant, Lease, Link, LinkError, Unsolved, delivery, leases_under_way, result,
    },
    supply::{BlockOrigin, BlockRequest, Supply, is_shared, kept::Mark},
};

/// How this worker introduces itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Host and process, for people.
    pub name: String,
    /// Number of solving threads.
    pub threads: usize,
    /// The instruction set that it solves with.
    pub kernel: Kernel,
    /// The game that it plays.
    pub game: GameName,
    /// The class of the graphs that it solves.
    pub class: Class,
    /// Bytes of memory that it may take.
    pub memory: u64,
}

impl Identity {
    fn layout(&self) -> Layout {
        self.game.layout().on(self.class)
    }
}

/// The first pause before something is tried again, and the longest.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
const MOST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause between heartbeats, which tell a courier that the coordinator was started again.
const MOST_HEARTBEAT: Duration = Duration::from_secs(60);

/// So many bytes of blocks are made and put into the depot, or on shelves, at a time, or those of one
/// unit.
const OFFERED_BYTES: u64 = 8 << 20;

/// When the worker is asked to stop, an answer that changes what the coordinator knows of it is
/// awaited for so long: one that is well answers within five seconds, and the lease that it may grant
/// would have to expire.
const LAST_ANSWER: Duration = Duration::from_secs(8);
/// The same of a delivery, since more of it was sent: the coordinator may be about to look for blocks
/// that it names, or to write them. Slurm and Kubernetes wait for half a minute.
const LAST_DELIVERY: Duration = Duration::from_secs(20);

/// What heartbeats have brought to light.
#[derive(Default)]
struct Heard {
    /// Since when none was answered.
    silent_since: Option<Instant>,
    /// The number that the coordinator did not know.
    unknown: u64,
}

/// The gRPC link. Its methods block, and must not be called from within the runtime.
pub struct GrpcLink {
    runtime: Handle,
    reach: Reach,
    connection: Mutex<CoordinatorConnection>,
    identity: Identity,
    /// How long to keep trying when the coordinator is out of reach.
    patience: Duration,
    stop: CancellationToken,
    /// The number under which the coordinator knows this worker; changed only by registering.
    worker: AtomicU64,
    /// Held while a thread registers, so that the others wait for the new number.
    registering: Mutex<()>,
    /// The pause between heartbeats, which the coordinator says. Whoever waits for the next one
    /// hears of it.
    heartbeat: watch::Sender<Duration>,
    /// The leases that heartbeats renew: the numbers of this worker and of the lease. Another
    /// census, which has taken the place of the one before, may number its leases alike.
    held: Mutex<Vec<(u64, u64)>>,
    /// What came of them.
    heard: Mutex<Heard>,
    /// Whether the coordinator has said that something on shelves is needed though all is done.
    shelves_are_needed: AtomicBool,
    plans: PlanKeeper,
    supply: Supply,
    /// Where the shelf of this process is, if it has one.
    shelf: Option<ShelfPlace>,
    /// The threads that count units of others again, and what is told with results.
    counters: rayon::ThreadPool,
}

/// Keeps the plan of the last lease, since most leases have the same plan and a large one takes a
/// second to build.
pub(crate) struct PlanKeeper {
    layout: Layout,
    last: Mutex<Option<Arc<Plan>>>,
}

impl PlanKeeper {
    /// A keeper that has no plan yet, of the census with this layout.
    pub(crate) fn new(layout: Layout) -> Self {
        PlanKeeper { layout, last: Mutex::default() }
    }

    /// The plan of a grant, as far as the census goes, on which both sides must agree, as on the
    /// format of blocks.
    pub(crate) fn agree(&self, grant: &wire::Grant) -> Result<Arc<Plan>, LinkError> {
        let order = grant.order as usize;
        if grant.block_format != u32::from(BLOCK_FORMAT) {
            return Err(LinkError::Refused(format!(
                "the coordinator has block format {} (0 if it does not say), and this worker \
                 {BLOCK_FORMAT}: they are of different versions",
                grant.block_format
            )));
        }
        let differ = || {
            LinkError::Refused(format!(
                "the coordinator's plan of order {order} differs from this worker's: they are of \
                 different versions"
            ))
        };
        let limit = grant.max_size.map(|size| size as usize);
        let is_meant =
            |plan: &Plan| plan.fingerprint == grant.plan_fingerprint && plan.limit() == limit;
        let mut last = self.last.lock();
        let plan = match &*last {
            Some(plan) if is_meant(plan) => plan.clone(),
            _ if (1..=self.layout.class.largest_order()).contains(&order) => {
                let options = PlanOptions {
                    part_graphs: grant.part_graphs,
                    bucket_bytes: grant.bucket_bytes,
                };
                let limit = limit.unwrap_or_else(|| pairs(order));
                let plan = Plan::up_to(self.layout, order, options, limit);
                last.insert(Arc::new(plan)).clone()
            }
            _ => return Err(differ()),
        };
        let fits = || messages::units(grant).into_iter().all(|unit| plan.has(unit));
        if is_meant(&plan) && fits() { Ok(plan) } else { Err(differ()) }
    }
}

/// A client and the access it was made with.
struct CoordinatorConnection {
    access: Access,
    client: AdmittedClient,
    /// The number of accesses before this one.
    generation: u64,
}

impl CoordinatorConnection {
    fn new(reach: &Reach, access: Access, generation: u64) -> Result<Self, AccessError> {
        let client = access::client(&access, reach.identity()?.as_ref())?;
        Ok(CoordinatorConnection { access, client, generation })
    }
}

impl GrpcLink {
    /// Registers with the coordinator. Waits for the coordinator, or for its access file, for as
    /// long as `patience` lasts. Blocks.
    ///
    /// # Errors
    /// If the coordinator stays out of reach, or refuses this worker, or if the access file or the
    /// certificates are of no use.
    pub fn connect(
        runtime: Handle,
        reach: Reach,
        identity: Identity,
        supply: Supply,
        patience: Duration,
        stop: CancellationToken,
    ) -> Result<Self, LinkError> {
        let start = Instant::now();
        let pauses = ConstantBuilder::new().with_delay(LEAST_PAUSE).without_max_times();
        let mut is_told = false;
        let access = (|| async { reach.access() })
            .retry(pauses)
            .sleep(sleeper(&stop))
            .when(|error| {
                error.is_missing() && !stop.is_cancelled() && start.elapsed() <= patience
            })
            .notify(|error, _| {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "waiting for the access file");
                }
            });
        let access = runtime.block_on(access).map_err(|error| match error.is_missing() {
            true => {
                LinkError::Lost(format!("{error}; gave up after {} s", start.elapsed().as_secs()))
            }
            false => LinkError::refused(error),
        })?;
        let token = access.pass.as_ref().map(|pass| pass.token.clone());
        let shelf = supply
            .join_shelves(identity.layout(), token, &runtime, &stop)
            .map_err(LinkError::refused)?;
        let _inside = runtime.enter();
        let plans = PlanKeeper::new(identity.layout());
        let counters = rayon::ThreadPoolBuilder::new()
            .num_threads(identity.threads)
            .thread_name(|i| format!("counter-{i}"))
            .build()
            .map_err(|error| LinkError::Lost(error.to_string()))?;
        let link = GrpcLink {
            connection: Mutex::new(
                CoordinatorConnection::new(&reach, access, 0).map_err(LinkError::refused)?,
            ),
            runtime: runtime.clone(),
            reach,
            identity,
            patience,
            stop,
            worker: AtomicU64::new(0),
            registering: Mutex::default(),
            heartbeat: watch::Sender::new(Duration::from_secs(5)),
            held: Mutex::default(),
            heard: Mutex::default(),
            shelves_are_needed: AtomicBool::new(false),
            plans,
            supply,
            shelf,
            counters,
        };
        link.register(0)?;
        Ok(link)
    }

    /// The disk cache, the depot and the shelf of this worker.
    pub fn supply(&self) -> &Supply {
        &self.supply
    }

    fn client(&self) -> AdmittedClient {
        self.connection.lock().client.clone()
    }

    fn address(&self) -> String {
        self.connection.lock().access.address.clone()
    }

    fn generation(&self) -> u64 {
        self.connection.lock().generation
    }

    /// Reads the access file again, because the coordinator may have been started again elsewhere.
    /// Whether the connection is now another one than that of `generation`.
    fn refresh(&self, generation: u64) -> bool {
        // If the file is gone or incomplete at this moment, the connection stays as it is.
        let access = self.reach.access();
        let mut connection = self.connection.lock();
        if connection.generation != generation {
            return true;
        }
        let Some(access) = access.ok().filter(|access| *access != connection.access) else {
            return false;
        };
        let _inside = self.runtime.enter();
        match CoordinatorConnection::new(&self.reach, access, generation + 1) {
            Ok(new) => {
                tracing::info!(coordinator = new.access.address, "the access file has changed");
                if let Some(pass) = &new.access.pass {
                    self.supply.renew_token(pass.token.clone());
                }
                *connection = new;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the new access file is of no use");
                false
            }
        }
    }

    /// Registers, unless another thread has done so since the coordinator rejected the number
    /// `rejected`.
    fn register(&self, rejected: u64) -> Result<(), LinkError> {
        let _one_at_a_time = self.registering.lock();
        if self.worker() != rejected {
            return Ok(());
        }
        let request = wire::RegisterRequest {
            protocol: PROTOCOL,
            labelling: LABELLING.into(),
            game: self.identity.layout().number().into(),
            block_format: BLOCK_FORMAT.into(),
            name: self.identity.name.clone(),
            threads: self.identity.threads as u32,
            kernel: self.identity.kernel.name().to_owned(),
            memory: self.identity.memory,
            shelf: self.shelf.as_ref().map(messages::place_message),
        };
        let reply = self.persist("register", || {
            let (mut client, request) = (self.client(), request.clone());
            unless_stopped(self.stop.clone(), for_a_time(LAST_ANSWER), async move {
                client.register(with_timeout(request, 30)).await
            })
        })?;
        let mark = |number: u64| (number != 0).then_some(Mark(number));
        self.supply.look_for(mark(reply.depot_mark));
        self.supply
            .use_shelves(mark(reply.shelf_mark), !reply.shelf_unreached)
            .map_err(LinkError::refused)?;
        // Whoever else is about to register hears of an error as well.
        self.worker.store(reply.worker, Ordering::Relaxed);
        let pause = Duration::from_millis(reply.heartbeat_milliseconds.into());
        self.heartbeat.send_replace(pause.clamp(Duration::from_millis(10), MOST_HEARTBEAT));
        // The shelf is tidied before the coordinator can ask for blocks on it. If that fails, it is
        // tidied again later.
        let _ = self.tidy_shelf();
        tracing::info!(worker = reply.worker, coordinator = self.address(), "registered");
        Ok(())
    }

    fn worker(&self) -> u64 {
        self.worker.load(Ordering::Relaxed)
    }

    /// Repeats a call until it is answered, with growing, jittered pauses after failures of the
    /// network and of the coordinator, until nobody has been there for as long as `patience` lasts.
    /// Blocks.
    fn persist<T, F>(&self, what: &str, call: impl Fn() -> F) -> Result<T, LinkError>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(LEAST_PAUSE)
            .with_max_delay(MOST_PAUSE)
            .with_jitter()
            .without_max_times()
            .build();
        let passes = |status: &Status| certificate_error(status).is_none() && is_passing(status);
        // Since when nobody has been there. A call may wait long for a coordinator that is well, so
        // that this begins with the first failure, and anew when an answer shows that one is there.
        let mut silent_since: Option<Instant> = None;
        self.runtime.block_on(async {
            loop {
                let (generation, start) = (self.generation(), Instant::now());
                let status = match call().await {
                    Ok(response) => return Ok(response.into_inner()),
                    Err(status) => status,
                };
                // The access file has another address or token: try that at once.
                if self.refresh(generation) {
                    continue;
                }
                if shows_presence(&status, start.elapsed()) {
                    silent_since = None;
                }
                let silence = silent_since.get_or_insert_with(Instant::now).elapsed();
                let may_pass = passes(&status) && !self.stop.is_cancelled();
                // The last pause ends when patience does.
                let left = self.patience.checked_sub(silence).filter(|_| may_pass);
                let Some(pause) = left.and_then(|left| Some(pauses.next()?.min(left))) else {
                    return Err(self.lost_or_refused(&status, silence));
                };
                tracing::warn!(
                    what,
                    coordinator = self.address(),
                    cause = root_cause(&status),
                    "no answer, trying again"
                );
                self.stop.run_until_cancelled(sleep(pause)).await;
            }
        })
    }

    /// Why a call that has failed so is not made again, after nobody has been there for this time.
    fn lost_or_refused(&self, status: &Status, silence: Duration) -> LinkError {
        let address = self.address();
        if let Some(other) = other_coordinator(&address, status) {
            return LinkError::Refused(other);
        }
        if !is_passing(status) {
            return LinkError::Refused(format!("coordinator at {address}: {}", status.message()));
        }
        if self.stop.is_cancelled() {
            return LinkError::Lost("stopped before the coordinator had answered".to_owned());
        }
        let advice = match self.connection.lock().access.pass {
            Some(_) => {
                "It is spoken to in TLS, as the access file says; one on loopback without --secure \
                 takes plain text: --coordinator alone"
            }
            None => {
                "Beyond loopback, or with --secure, it admits those who have its access file \
                 (--access)"
            }
        };
        LinkError::Lost(format!(
            "cannot reach the coordinator at {address} ({}); gave up after {} s. Is it running, \
             and is the address right? {advice}",
            root_cause(status),
            silence.as_secs()
        ))
    }

    /// Renews the leases that are held, for as long as the link exists; to be spawned on the
    /// runtime.
    pub fn heartbeats(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let weak = Arc::downgrade(self);
        async move {
            let mut refreshing: Option<JoinHandle<_>> = None;
            while let Some(link) = weak.upgrade() {
                let (mut client, mut pauses) = (link.client(), link.heartbeat.subscribe());
                let pause = *pauses.borrow();
                let generation = link.generation();
                let worker = link.worker();
                let held = link.held.lock().clone();
                let own = held.into_iter().filter(|&(holder, _)| holder == worker);
                let leases = own.map(|(_, number)| number).collect();
                let request = wire::HeartbeatRequest { worker, leases };
                drop(link);
                let start = Instant::now();
                let answer = client.heartbeat(with_timeout(request, 10)).await;
                let Some(link) = weak.upgrade() else { return };
                link.note(worker, answer.as_ref().err(), start.elapsed());
                // What fails is tried again before patience is over.
                let pause = match answer {
                    Ok(_) => pause,
                    Err(_) => pause.min((link.patience / 4).clamp(LEAST_PAUSE, MOST_PAUSE)),
                };
                drop(link);
                if let Err(status) = answer {
                    tracing::debug!(cause = root_cause(&status), "heartbeat not answered");
                    // A file system may keep it waiting, and leases have to be renewed meanwhile.
                    if refreshing.as_ref().is_none_or(JoinHandle::is_finished) {
                        let weak = weak.clone();
                        let refresh = move || weak.upgrade().map(|link| link.refresh(generation));
                        refreshing = Some(tokio::task::spawn_blocking(refresh));
                    }
                }
                // A coordinator that was started again may give leases for a shorter time.
                let _ = timeout(pause, pauses.changed()).await;
            }
        }
    }

    /// Takes note of how a heartbeat of the worker with this number has failed, if it has, after this
    /// time.
    fn note(&self, worker: u64, failure: Option<&Status>, after: Duration) {
        let mut heard = self.heard.lock();
        let is_unknown = failure.is_some_and(|status| status.code() == Code::NotFound);
        if is_unknown {
            heard.unknown = worker;
        }
        let is_there = is_unknown || failure.is_none_or(|failure| shows_presence(failure, after));
        heard.silent_since = match is_there {
            true => None,
            false => heard.silent_since.or(Some(Instant::now())),
        };
    }

    /// Whether there is somebody to deliver the results of a lease to, as far as heartbeats tell.
    ///
    /// # Errors
    /// The coordinator does not know the lease, since it was started again, or has not been heard of
    /// for as long as it is waited for.
    pub fn check(&self, lease: &Lease) -> Result<(), LinkError> {
        let heard = self.heard.lock();
        // Only whoever is not known any more registers again.
        if heard.unknown == lease.worker || self.worker() != lease.worker {
            let why = "the coordinator was started again, and does not know its lease";
            return Err(LinkError::Refused(why.to_owned()));
        }
        match heard.silent_since.map(|since| since.elapsed()) {
            Some(silence) if silence >= self.patience => Err(LinkError::Lost(format!(
                "nothing was heard of the coordinator at {} for {} s",
                self.address(),
                silence.as_secs()
            ))),
            _ => Ok(()),
        }
    }

    fn release(&self, lease: &Lease) {
        self.held.lock().retain(|&held| held != (lease.worker, lease.number));
    }
}

impl Link for GrpcLink {
    fn lease(&self, room: u64) -> Result<Grant, LinkError> {
        let (worker, by_name) = (self.worker(), self.supply.is_kept());
        let reply = self.persist("lease", || {
            let mut client = self.client();
            unless_stopped(self.stop.clone(), for_a_time(LAST_ANSWER), async move {
                let request = wire::LeaseRequest { worker, room, by_name };
                nothing_if_unknown(client.lease(with_timeout(request, 60)).await)
            })
        })?;
        match reply.answer {
            // A coordinator that was restarted does not know this worker: register, then ask again.
            None => {
                self.register(worker)?;
                Ok(Grant::Wait)
            }
            Some(wire::lease_reply::Answer::Finished(is_all)) => {
                self.shelves_are_needed.store(!is_all, Ordering::Relaxed);
                Ok(Grant::Finished)
            }
            Some(wire::lease_reply::Answer::WaitMilliseconds(pause)) => {
                std::thread::sleep(Duration::from_millis(pause.min(1000).into()));
                Ok(Grant::Wait)
            }
            Some(wire::lease_reply::Answer::Grant(grant)) => {
                let plan = self.plans.agree(&grant)?;
                self.held.lock().push((worker, grant.lease));
                Ok(Grant::Work(Lease {
                    number: grant.lease,
                    worker,
                    plan,
                    units: messages::units(&grant),
                    edition: grant.edition,
                }))
            }
        }
    }

    fn complete(&self, lease: &Lease, results: &[SolvedUnit]) -> Result<Delivered, LinkError> {
        if let Some(named) = self.name(lease, results) {
            let reply = self.send_delivery(named);
            if !matches!(&reply, Ok(reply) if reply.lacking) {
                return self.delivered(lease, reply);
            }
            self.supply.note_lacking();
            tracing::warn!(
                lease = lease.number,
                "the coordinator does not find all blocks that were named; they are sent"
            );
            let made = results.iter().map(SolvedUnit::blocks);
            return self.deliver(lease, delivery(lease, results, made));
        }
        let made: Vec<Vec<Block>> = results.iter().map(SolvedUnit::blocks).collect();
        // They need not be there for good.
        let _ = self.supply.offer(made.iter().flatten());
        self.deliver(lease, delivery(lease, results, made))
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn pipeline(&self) -> usize {
        leases_under_way(self.identity.threads)
    }

    fn give_back(&self, lease: &Lease, reason: Unsolved) {
        self.release(lease);
        let failure = match reason {
            Unsolved::Leaving(_) => String::new(),
            Unsolved::Failed(why) => why.to_owned(),
        };
        let request =
            wire::GiveBackRequest { worker: lease.worker, leases: vec![lease.number], failure };
        let mut client = self.client();
        let answer =
            self.runtime.block_on(async move { client.give_back(with_timeout(request, 5)).await });
        match answer {
            Ok(_) => tracing::info!(lease = lease.number, %reason, "gave a lease back"),
            Err(status) => {
                tracing::warn!(
                    lease = lease.number,
                    cause = root_cause(&status),
                    "could not give a lease back"
                )
            }
        }
    }
}

impl GrpcLink {
    /// The messages that deliver the results of a lease by the names of their blocks, which are put
    /// into the depot or on shelves, those of some units at a time. `None` if they do not lie there
    /// for good.
    fn name(&self, lease: &Lease, results: &[SolvedUnit]) -> Option<Vec<wire::CompleteRequest>> {
        if !self.supply.is_kept() {
            return None;
        }
        let mut named = Vec::with_capacity(results.len());
        let mut rest = results;
        while !rest.is_empty() {
            let (units, others) = rest.split_at(units_of_bytes(rest, OFFERED_BYTES));
            let made: Vec<Vec<Block>> = units.iter().map(SolvedUnit::blocks).collect();
            let shelves = self.supply.offer(made.iter().flatten())?;
            named.extend(units.iter().zip(&made).map(|(solved, blocks)| {
                let ahead = self.told_ahead(lease, blocks);
                let said = wire::UnitResult { ahead, ..result(solved) };
                NamedUnit::new(said, blocks, shelves, is_shared)
            }));
            rest = others;
        }
        Some(messages::delivery_by_name(lease.worker, lease.number, named))
    }

    /// What the blocks of a unit tell about graphs with one edge more; nothing if they are wrong,
    /// which is found out when they are counted.
    fn told_ahead(&self, lease: &Lease, blocks: &[Block]) -> Vec<u8> {
        let ahead = || recount::ahead(self.identity.game, &lease.plan, blocks);
        codec::encode(&self.counters.install(ahead).unwrap_or_default())
    }

    /// Delivers the results of a lease, as the messages that say them.
    pub(crate) fn deliver(
        &self,
        lease: &Lease,
        messages: Vec<wire::CompleteRequest>,
    ) -> Result<Delivered, LinkError> {
        self.delivered(lease, self.send_delivery(messages))
    }

    /// What has become of a delivery; the lease has ended with it.
    fn delivered(
        &self,
        lease: &Lease,
        reply: Result<wire::CompleteReply, LinkError>,
    ) -> Result<Delivered, LinkError> {
        self.release(lease);
        if reply?.accepted {
            return Ok(Delivered::Accepted { retired: Vec::new() });
        }
        tracing::warn!(
            lease = lease.number,
            "its results are not taken: the lease had ended, or the coordinator was started again"
        );
        Ok(Delivered::Void)
    }

    fn send_delivery(
        &self,
        messages: Vec<wire::CompleteRequest>,
    ) -> Result<wire::CompleteReply, LinkError> {
        let messages = Arc::new(messages);
        self.persist("complete", || {
            let (mut client, messages) = (self.client(), messages.clone());
            let sent = Arc::new(AtomicUsize::new(0));
            let resting = rests(sent.clone(), LAST_DELIVERY);
            unless_stopped(self.stop.clone(), resting, async move {
                let count = messages.len();
                let next = move |i: usize| {
                    sent.store(i, Ordering::Relaxed);
                    messages[i].clone()
                };
                let stream = tokio_stream::iter((0..count).map(next));
                nothing_if_unknown(client.complete(stream).await)
            })
        })
    }
}

impl Fetch for GrpcLink {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        self.supply.fetch(wanted, self)
    }
}

impl BlockOrigin for GrpcLink {
    fn layout(&self) -> Layout {
        self.identity.layout()
    }

    fn find_shelves(&self) -> Vec<ShelfPlace> {
        self.runtime.block_on(self.ask_for_shelves()).unwrap_or_default()
    }

    fn describe(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Described>>, SourceError> {
        let worker = self.worker();
        let requests: Vec<wire::FetchRequest> =
            wanted.iter().map(|wanted| messages::request(worker, wanted, &[])).collect();
        let answers = self.persist("describe", || {
            let (mut client, requests) = (self.client(), requests.clone());
            unless_stopped(self.stop.clone(), ready(()), async move {
                let count = requests.len();
                let mut stream = client.describe(tokio_stream::iter(requests)).await?.into_inner();
                let mut answers = Vec::with_capacity(count);
                while let Some(description) = stream.message().await? {
                    answers.push(description);
                }
                match answers.len() == count {
                    true => Ok(tonic::Response::new(answers)),
                    false => Err(Status::unavailable("stream cut short")),
                }
            })
        })?;
        let layout = self.layout();
        answers
            .into_iter()
            .map(|description| Ok(messages::described(layout, description)?))
            .collect()
    }

    fn send(&self, requests: &[BlockRequest]) -> Result<Vec<Vec<Block>>, SourceError> {
        let (worker, layout) = (self.worker(), self.layout());
        let requests: Vec<wire::FetchRequest> = requests
            .iter()
            .map(|BlockRequest { wanted, only }| messages::request(worker, wanted, only))
            .collect();
        let answers = self.persist("fetch", || {
            let (mut client, requests) = (self.client(), requests.clone());
            unless_stopped(self.stop.clone(), ready(()), async move {
                let count = requests.len();
                let mut stream =
                    client.fetch_partition(tokio_stream::iter(requests)).await?.into_inner();
                let (mut answers, mut blocks, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
                while let Some(piece) = stream.message().await? {
                    if bytes.is_empty() && !piece.last {
                        // Growing would take up to twice the room; whether the length is right is
                        // found out when the block is parsed.
                        let length = Block::announced(layout, &piece.data).map_or(0, |(_, n)| n);
                        let _ = bytes.try_reserve_exact(length.try_into().unwrap_or(0));
                    }
                    bytes.extend_from_slice(&piece.data);
                    if piece.last {
                        blocks.push(std::mem::take(&mut bytes));
                    }
                    if piece.done {
                        answers.push(std::mem::take(&mut blocks));
                    }
                }
                match answers.len() == count && blocks.is_empty() && bytes.is_empty() {
                    true => Ok(tonic::Response::new(answers)),
                    false => Err(Status::unavailable("stream cut short")),
                }
            })
        })?;
        let parse = |blocks: Vec<Vec<u8>>| {
            blocks.into_iter().map(|bytes| Ok(Block::parse(layout, bytes)?)).collect()
        };
        answers.into_iter().map(parse).collect()
    }
}

/// The answer to a call, unless the worker is asked to stop and `grace` ends, which begins then: to a
/// call that reads something the coordinator may wait for a shelf, for many minutes.
async fn unless_stopped<T>(
    stop: CancellationToken,
    grace: impl Future<Output = ()>,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let stopped = async {
        stop.cancelled().await;
        grace.await;
    };
    tokio::select! {
        biased;
        answer = call => answer,
        () = stopped => Err(Status::unavailable("the worker is to stop")),
    }
}

/// A time that begins when it is first waited for.
async fn for_a_time(time: Duration) {
    sleep(time).await;
}

/// Waits until `sent` has not grown for so long.
async fn rests(sent: Arc<AtomicUsize>, pause: Duration) {
    let mut since = tokio::time::Instant::now();
    let mut before = sent.load(Ordering::Relaxed);
    while since.elapsed() < pause {
        sleep(Duration::from_secs(1)).await;
        let now = sent.load(Ordering::Relaxed);
        if std::mem::replace(&mut before, now) != now {
            since = tokio::time::Instant::now();
        }
    }
}

/// How many of these units, one at least, have at most so many bytes of blocks together.
fn units_of_bytes(results: &[SolvedUnit], most: u64) -> usize {
    let mut bytes = 0;
    let fits = |solved: &&SolvedUnit| {
        bytes += solved.stored_bytes();
        bytes <= most
    };
    results.iter().take_while(fits).count().max(1)
}

/// A call that has lasted so long was held by the coordinator: a connection that falls silent is
/// given up after 40 s (`access`).
const NOTICED: Duration = Duration::from_secs(60);

/// Whether there was a coordinator, though a call failed after this time: it had no room for the
/// call, or it held the call for longer than a call that nobody answers lasts.
fn shows_presence(status: &Status, after: Duration) -> bool {
    match status.code() {
        Code::ResourceExhausted => true,
        // The time that the caller had set; tonic says that it was cancelled.
        Code::DeadlineExceeded | Code::Cancelled => false,
        // Calls that wait for a connection wait one after another.
        _ => after > NOTICED && !causes(status).any(|cause| cause.is::<tonic::ConnectError>()),
    }
}

/// Whether the same call may succeed later.
pub fn is_passing(status: &Status) -> bool {
    // A connection that breaks is sometimes reported as an internal error, with its cause; the
    // coordinator's have none.
    let broken = status.code() == Code::Internal && std::error::Error::source(status).is_some();
    broken
        || matches!(
            status.code(),
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::Cancelled
                | Code::Unknown
                | Code::Aborted
                | Code::ResourceExhausted
        )
}

/// A status and what caused it, from the outside in.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(status as &(dyn std::error::Error + 'static)), |cause| {
        // `std::io::Error::source` skips the error that it wraps and returns that one's source.
        let inner = cause.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        inner.map_or_else(|| cause.source(), |inner| Some(inner))
    })
}

/// Says, if it is so, that what answers at an address does not show that it is the coordinator of
/// the access file.
pub fn other_coordinator(address: &str, status: &Status) -> Option<String> {
    let certificate = certificate_error(status)?;
    Some(format!(
        "what answers at {address} is not the coordinator of the access file: {certificate}"
    ))
}

/// What is wrong with the coordinator's certificate, if that is why the call failed. Trying again
/// does not help then.
fn certificate_error(status: &Status) -> Option<&rustls::Error> {
    causes(status)
        .filter_map(|cause| cause.downcast_ref::<rustls::Error>())
        .find(|error| matches!(error, rustls::Error::InvalidCertificate(_)))
}

/// The innermost error: "connection refused" rather than "transport error".
pub fn root_cause(status: &Status) -> String {
    let cause = causes(status).last().unwrap_or(status);
    match cause.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => cause.to_string(),
    }
}

/// An answer, which says nothing if the coordinator does not know what it was asked about.
fn nothing_if_unknown<T: Default>(
    answer: Result<tonic::Response<T>, Status>,
) -> Result<tonic::Response<T>, Status> {
    match answer {
        Err(status) if status.code() == Code::NotFound => Ok(tonic::Response::new(T::default())),
        other => other,
    }
}

fn with_timeout<T>(message: T, seconds: u64) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(seconds));
    request
}

/// Sleeps until the pause is over, or the worker is asked to stop.
fn sleeper(stop: &CancellationToken) -> impl backon::Sleeper + use<> {
    let stop = stop.clone();
    move |pause| stop.clone().run_until_cancelled_owned(sleep(pause))
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        plan::Unit,
    };

    use super::*;

    /// What a coordinator says shows that it is there; what nobody answers does not, however long
    /// it takes, nor what was given up here.
    #[test]
    fn who_holds_a_call_for_long_is_there() {
        let short = Duration::from_secs(1);
        assert!(shows_presence(&Status::resource_exhausted("no room"), short));
        assert!(!shows_presence(&Status::unavailable("it stops"), short));
        assert!(shows_presence(&Status::unavailable("it stops"), 2 * NOTICED));
        for given_up in [Status::deadline_exceeded("late"), Status::cancelled("Timeout expired")] {
            assert!(!shows_presence(&given_up, 2 * NOTICED));
        }
    }

    /// A coordinator that says nothing does not keep a worker that is to go; one that is about to
    /// answer is heard.
    #[tokio::test(start_paused = true)]
    async fn who_is_to_stop_waits_for_an_answer_no_longer_than_it_takes() {
        let stop = CancellationToken::new();
        let after = |pause| async move {
            sleep(pause).await;
            Ok(())
        };
        let [late, in_time] = [LAST_ANSWER * 2, LAST_ANSWER / 2];
        let ask = |grace, pause| unless_stopped(stop.clone(), for_a_time(grace), after(pause));
        // However long before it is asked to stop it has begun.
        let stopping = async {
            sleep(late).await;
            stop.cancel();
        };
        let (answer, ()) = tokio::join!(ask(LAST_ANSWER, late + in_time), stopping);
        assert!(answer.is_ok());
        assert!(ask(LAST_ANSWER, in_time).await.is_ok());
        assert!(ask(LAST_ANSWER, late).await.is_err());
        assert!(ask(Duration::ZERO, in_time).await.is_err());
    }

    /// A delivery that goes on is not given up; one that nobody takes is.
    #[tokio::test(start_paused = true)]
    async fn what_is_being_sent_is_awaited_while_more_of_it_goes() {
        let stop = CancellationToken::new();
        stop.cancel();
        for (pause, comes) in [(LAST_ANSWER / 2, true), (LAST_ANSWER * 3, false)] {
            let sent = Arc::new(AtomicUsize::new(0));
            let grace = rests(sent.clone(), LAST_ANSWER);
            let send = async move {
                for i in 0..20 {
                    sent.store(i, Ordering::Relaxed);
                    sleep(pause).await;
                }
                Ok(())
            };
            assert_eq!(unless_stopped(stop.clone(), grace, send).await.is_ok(), comes);
        }
    }

    /// A worker has as much of a plan as the census does of the order, and another one when it is
    /// taken up again with more edges.
    #[test]
    fn plans_go_as_far_as_the_census() {
        let plans = PlanKeeper::new(TrailTrap::LAYOUT);
        let up_to = |max_size| Plan::up_to(TrailTrap::LAYOUT, 6, PlanOptions::default(), max_size);
        let last = Unit { order: 6, shard: up_to(9).layer(9).start, part: 0 };
        let agreed = |plan: &Plan| plans.agree(&messages::grant(1, plan, &[last], 0));
        for max_size in [9, 12, 15, 9] {
            let plan = up_to(max_size);
            let known = agreed(&plan).unwrap();
            assert_eq!(known.shards, plan.shards);
            assert_eq!(known.limit(), plan.limit());
            assert!(Arc::ptr_eq(&known, &agreed(&plan).unwrap()), "it is kept");
        }
        assert!(agreed(&up_to(8)).is_err(), "the unit is beyond it");
    }
}
