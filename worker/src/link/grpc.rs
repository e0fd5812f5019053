//! The link of a worker process: gRPC to a coordinator that may be restarted or out of reach for a
//! while.

mod calls;
mod counting;
mod shelf;
mod status;

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
use tonic::{Code, Status};
use trailtrap_shared::{
    class::Class,
    game::{GameName, Layout},
    labelling::{LABELLING, batch::Kernel},
    partition::{BLOCK_FORMAT, Block},
    protocol::{
        access::Access,
        codec,
        messages::{self, Described, NamedUnit, Wanted},
        shelves::ShelfPlace,
        wire::{self, PROTOCOL},
    },
};

pub use self::status::{is_passing, other_coordinator, root_cause};
use self::{
    calls::{
        LAST_ANSWER, LAST_DELIVERY, for_a_time, nothing_if_unknown, rests, sleeper,
        unless_stopped, with_timeout,
    },
    status::{certificate_error, shows_presence},
};
use crate::{
    access::{self, AccessError, AdmittedClient, Reach},
    cache::Fetch,
    counting::recount,
    kernel::{SolvedUnit, SourceError},
    link::{
        Delivered, Grant, Lease, Link, LinkError, Unsolved, delivery, leases_under_way,
        plans::PlanKeeper, result,
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
    /// Registers with the coordinator. Waits for the coordinator, or for its access file if that is
    /// missing or the system refuses it for now, for as long as `patience` lasts. Blocks.
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
        let may_come = |error: &AccessError| error.is_missing() || error.may_pass();
        let access = (|| async { reach.access() })
            .retry(pauses)
            .sleep(sleeper(&stop))
            .when(|error| may_come(error) && !stop.is_cancelled() && start.elapsed() <= patience)
            .notify(|error, _| {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "waiting for the access file");
                }
            });
        let access = runtime.block_on(access).map_err(|error| match may_come(&error) {
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
        let connection = CoordinatorConnection::new(&reach, access, 0);
        let connection = connection.map_err(|error| match error.may_pass() {
            true => LinkError::Lost(error.to_string()),
            false => LinkError::refused(error),
        })?;
        let plans = PlanKeeper::new(identity.layout());
        let counters = rayon::ThreadPoolBuilder::new()
            .num_threads(identity.threads)
            .thread_name(|i| format!("counter-{i}"))
            .build()
            .map_err(|error| LinkError::Lost(error.to_string()))?;
        let link = GrpcLink {
            connection: Mutex::new(connection),
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

/// How many of these units, one at least, have at most so many bytes of blocks together.
fn units_of_bytes(results: &[SolvedUnit], most: u64) -> usize {
    let mut bytes = 0;
    let fits = |solved: &&SolvedUnit| {
        bytes += solved.stored_bytes();
        bytes <= most
    };
    results.iter().take_while(fits).count().max(1)
}
