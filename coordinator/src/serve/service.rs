//! The gRPC face of the census: checks messages and hands them on.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use backon::{ConstantBuilder, Retryable};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{
        Mutex, OnceCell, Semaphore,
        mpsc::{Sender, channel},
    },
    time::{Instant, timeout, timeout_at},
};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::Connected},
};
use tower::util::option_layer;
use trailtrap_census::{
    driver::{Assignment, Census, CensusError, Refusal, Work},
    read::status::CensusStatus,
    store::shelves::{ShelfRoom, Tidied},
};
use trailtrap_shared::{
    game::GameName,
    labelling::LABELLING,
    partition::{BLOCK_FORMAT, Block, Checksum, entry_bytes},
    protocol::{
        messages::{self, Wanted},
        shelves::ShelfPlace,
        wire::{
            self, PIECE_BYTES, PROTOCOL,
            census_server::{Census as CensusService, CensusServer},
            complete_request::Part,
            counted_request::What,
            lease_reply::Answer,
        },
    },
};
use trailtrap_worker::{
    counting::{CountTask, Statement},
    process::connections::{self, GRACE, Newcomer},
};

use crate::serve::{
    budget::Budget,
    delivery::{Unpacked, Unpacking, Unreadable},
    gate::Through,
    intake::{CallShare, Intake},
    secrets::Door,
};

/// A request for work is answered after this long even if there is none.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Whoever is first in the line of those who wait for work steps back after this long: what there
/// is may not be for them, but for one behind.
const TURN: Duration = Duration::from_millis(200);
/// So many answers that describe blocks are made at a time.
const DESCRIBING: usize = 8;
/// More names of blocks than any worker has to list in a message.
const LONGEST_LIST: usize = 1 << 16;
/// So many connections of those who probe the health, or do not say what they want, are there at a
/// time.
const PROBES: usize = 64;
/// The certificate of a shelf has no more bytes than this.
const LONGEST_CERTIFICATE: usize = 8 << 10;
/// A shelf has so long to answer before it is used, …
const PROBE: Duration = Duration::from_secs(5);
/// … so many times.
const PROBED: usize = 3;
/// A stream that is held back has sent no more bytes than this …
const STREAM_WINDOW: u32 = 64 << 10;
/// … and all streams of a worker together do not fill its connection, so that heartbeats and other
/// streams get through.
const STREAMS: u32 = 1024;

/// Units that are leased together have results of at most so many bytes in all; one unit alone may
/// have more. All messages together take `memory` bytes at most, and several workers deliver at a
/// time.
pub fn together_bytes(memory: u64) -> u64 {
    memory / 4
}

/// Serves `census` on a bound listener until `shutdown`, to everybody if there is no door; gives
/// open connections a moment to finish then. Messages take up to about `memory` bytes.
///
/// # Errors
/// If the door's certificates cannot be used, or the listener fails.
pub async fn serve(
    census: Arc<Census>,
    memory: usize,
    listener: TcpListener,
    door: Option<Door>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), tonic::transport::Error> {
    let connections = connections::connections(listener, door.is_some().then_some(GRACE));
    serve_on(census, memory, connections, door, shutdown).await
}

/// Like [`serve`], on connections of any kind.
///
/// # Errors
/// If the door's certificates cannot be used, or `connections` ends with an error.
pub async fn serve_on<C>(
    census: Arc<Census>,
    memory: usize,
    connections: impl Stream<Item = io::Result<C>>,
    door: Option<Door>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), tonic::transport::Error>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move {
        shutdown.await;
        let _ = stopping.send(());
    };
    let host = door.as_ref().map(|door| door.host.clone());
    let (tls, guard) = door.map(|door| (door.tls, door.guard)).unzip();
    let mut builder = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(20)))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW * STREAMS)
        .max_concurrent_streams(STREAMS);
    if let Some(tls) = tls {
        builder = builder.tls_config(tls)?;
    }
    let server = builder
        .layer(option_layer(guard.map(Through)))
        .layer(Through(Intake::new(Budget::new(memory))))
        .add_service(
            CensusServer::new(GrpcService {
                host,
                ..GrpcService::new(census, together_bytes(memory as u64) as usize)
            })
            .max_decoding_message_size(4 << 20),
        )
        .serve_with_incoming_shutdown(connections, shutdown);
    // tonic waits for idle connections for ever.
    tokio::select! {
        result = server => result,
        () = async {
            let _ = stopped.await;
            tokio::time::sleep(Duration::from_secs(2)).await
        } => Ok(()),
    }
}

/// Serves gRPC health checks, and nothing else, to everybody: those who probe cannot show tokens.
///
/// # Errors
/// If the listener fails.
pub async fn serve_health(listener: TcpListener) -> Result<(), tonic::transport::Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<CensusServer<GrpcService>>().await;
    // Nobody shows a token here: no connection stays.
    let connections = connections::few_connections(listener, GRACE, PROBES);
    Server::builder()
        .add_service(health.max_decoding_message_size(1 << 10))
        .serve_with_incoming(connections)
        .await
}

const DISTRUSTED: &str = "results of this worker were wrong, and it gets no more work: see \
                          `trailtrap alarms`, and check its machine";

#[derive(Clone)]
struct GrpcService {
    census: Arc<Census>,
    /// Those who wait for work stand in line for this: news wakes one of them, not hundreds.
    turn: Arc<Mutex<()>>,
    /// Whether something on shelves is needed when all is done.
    needs_shelves: Arc<OnceCell<bool>>,
    /// Descriptions that are made at a time: after a restart each may have to read what it names.
    describing: Arc<Semaphore>,
    /// What is granted together has about so many bytes of results at most, unless it is one unit.
    together_bytes: usize,
    /// By which others know the host of this process, if they do.
    host: Option<String>,
}

impl GrpcService {
    fn new(census: Arc<Census>, together_bytes: usize) -> Self {
        let describing = Arc::new(Semaphore::new(DESCRIBING));
        let (turn, needs_shelves, host) = (Arc::default(), Arc::default(), None);
        GrpcService { census, turn, needs_shelves, describing, together_bytes, host }
    }

    fn known(&self, worker: u64) -> Result<(), Status> {
        match self.census.hear(worker) {
            true => Ok(()),
            false => {
                Err(Status::not_found("this coordinator does not know the worker: register again"))
            }
        }
    }

    /// Whether a worker plays the same game as the census, on the same graphs, and its results fit.
    fn check_version(&self, request: &wire::RegisterRequest) -> Result<(), Status> {
        let pairs = [
            ("protocol", request.protocol, PROTOCOL),
            ("labelling", request.labelling, LABELLING.into()),
            ("block format", request.block_format, BLOCK_FORMAT.into()),
        ];
        if let Some((what, theirs, ours)) =
            pairs.into_iter().find(|(_, theirs, ours)| theirs != ours)
        {
            return Err(Status::failed_precondition(format!(
                "worker has {what} {theirs}, coordinator has {what} {ours}; their results would \
                 not fit together. Use the same program version for both"
            )));
        }
        let (game, class) = (self.census.game(), self.census.class());
        if request.game != u32::from(game.layout().on(class).number()) {
            let theirs = u16::try_from(request.game).ok().and_then(GameName::on_class_of_number);
            let (their_game, their_class) = theirs.unzip();
            return Err(Status::failed_precondition(match their_game {
                Some(theirs) if theirs == game => format!(
                    "worker has class {}, this is a census of the class {class}: start the worker \
                     with `--class {class}`",
                    their_class.unwrap_or_default()
                ),
                theirs => {
                    let theirs =
                        theirs.map_or_else(|| request.game.to_string(), |game| game.to_string());
                    format!(
                        "worker has game {theirs}, this is a census of {game}: start the worker \
                         with `--game {game}`"
                    )
                }
            }));
        }
        Ok(())
    }

    /// Where the shelf of a worker is that comes from this host and says `:PORT`, if it can be
    /// reached there.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    async fn reach(&self, place: ShelfPlace, from: IpAddr) -> Result<ShelfPlace, String> {
        let port = place.address.strip_prefix(':').and_then(|port| port.parse::<u16>().ok());
        let port = port.ok_or("it does not say its port")?;
        if place.certificate.as_ref().is_some_and(|pem| pem.len() > LONGEST_CERTIFICATE) {
            return Err("its certificate is too long".to_owned());
        }
        let address = match &self.host {
            Some(own) if from.is_loopback() => format!("{own}:{port}"),
            // Where nobody has to show a token, shelves are at this address.
            None if from.is_loopback() => format!("127.0.0.1:{port}"),
            _ => SocketAddr::new(from, port).to_string(),
        };
        // What is not reached now is not used as long as the worker has its number.
        let probe = || async {
            match timeout(PROBE, TcpStream::connect(&address)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(format!("{address}: {error}")),
                Err(_) => Err(format!("{address}: no answer")),
            }
        };
        let pauses = ConstantBuilder::new().with_max_times(PROBED - 1);
        probe.retry(pauses).sleep(tokio::time::sleep).await?;
        Ok(ShelfPlace { address, ..place })
    }

    /// Work for a worker that has room for so many graphs; waits for some until `deadline`.
    async fn assignment(&self, worker: u64, room: u64, deadline: Instant) -> Assignment {
        loop {
            let Ok(_turn) = timeout_at(deadline, self.turn.lock()).await else {
                return Assignment::Wait;
            };
            let end = deadline.min(Instant::now() + TURN);
            loop {
                let changed = self.census.wakeup.notified();
                match self.census.assign(worker, room, false) {
                    Assignment::Wait => {}
                    other => return other,
                }
                if timeout_at(end, changed).await.is_err() {
                    break;
                }
            }
            if end == deadline {
                return Assignment::Wait;
            }
        }
    }

    /// How many graphs may be granted together: their results come as one message.
    fn most_together(&self) -> u64 {
        let plan = self.census.plan_in_work();
        let entry = plan.map_or(1, |plan| entry_bytes(plan.layout, plan.order));
        (self.together_bytes / entry) as u64
    }

    /// What a worker asks for.
    fn wanted(&self, request: &wire::FetchRequest) -> Result<Wanted, Status> {
        self.known(request.worker)?;
        if request.only.len() > LONGEST_LIST {
            let what = format!("a list of more than {LONGEST_LIST}");
            return Err(Status::invalid_argument(what));
        }
        messages::wanted(request).map_err(|error| Status::invalid_argument(error.to_string()))
    }

    /// What `read` finds of it.
    async fn look_up<T: Send + 'static>(
        &self,
        wanted: Wanted,
        read: impl FnOnce(&Census, &Wanted) -> Result<Option<T>, CensusError> + Send + 'static,
    ) -> Result<T, Status> {
        let census = self.census.clone();
        blocking(move || read(&census, &wanted))
            .await?
            .map_err(|error| match error {
                // The census has ended; workers wait for the next run.
                CensusError::Fault(_) => Status::unavailable(error.to_string()),
                _ => Status::internal(error.to_string()),
            })?
            .ok_or_else(|| {
                Status::not_found(format!("partition {} is not finished", wanted.sequence()))
            })
    }

    /// The answer to one request for a partition, which the share of the call then covers.
    async fn blocks(
        &self,
        request: wire::FetchRequest,
        share: &CallShare,
    ) -> Result<Vec<Block>, Status> {
        let wanted = self.wanted(&request)?;
        let expected =
            self.look_up(wanted, |census, wanted| census.wanted_bytes(wanted).map(Some)).await?;
        share.cover_beside(expected).await;
        // Reading goes on when the client leaves.
        let held = share.clone();
        let read = |census: &Census, wanted: &Wanted| {
            let _share = held;
            census.wanted_blocks(wanted)
        };
        let blocks = messages::select(&request, self.look_up(wanted, read).await?);
        let bytes = length(&blocks);
        share.cover_beside(bytes + on_their_way(bytes)).await;
        Ok(blocks)
    }

    /// Sends the answers to one request after the other. In the end the share covers no more than
    /// what may wait for the client to take it.
    async fn send_partitions(
        self,
        first: Result<Vec<Block>, Status>,
        share: CallShare,
        requests: Streaming<wire::FetchRequest>,
        sender: Sender<Result<wire::BlockPiece, Status>>,
    ) {
        self.send_answers(first, &share, requests, sender).await;
        share.shrink(on_their_way(usize::MAX)).await;
    }

    /// Sends the answers; returns early when nobody listens any more.
    async fn send_answers(
        &self,
        mut answer: Result<Vec<Block>, Status>,
        share: &CallShare,
        mut requests: Streaming<wire::FetchRequest>,
        sender: Sender<Result<wire::BlockPiece, Status>>,
    ) {
        loop {
            match answer {
                Ok(blocks) => {
                    for piece in pieces(&blocks) {
                        if sender.send(Ok(piece)).await.is_err() {
                            return;
                        }
                    }
                    share.shrink(on_their_way(length(&blocks))).await;
                }
                Err(status) => return drop(sender.send(Err(status)).await),
            }
            answer = match requests.message().await {
                Ok(None) => return,
                Ok(Some(request)) => self.blocks(request, share).await,
                Err(status) => Err(status),
            };
        }
    }
}

/// Does something that waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Status::internal(error.to_string()))
}

fn length(blocks: &[Block]) -> usize {
    blocks.iter().map(|block| block.bytes().len()).sum()
}

/// Bytes of the pieces, made of so many bytes of blocks, that wait for the client to take them.
fn on_their_way(bytes: usize) -> usize {
    bytes.min(3 * PIECE_BYTES)
}

/// Blocks in the pieces that they are sent in.
fn pieces<'a>(blocks: &'a [Block]) -> impl Iterator<Item = wire::BlockPiece> + Send + 'a {
    let nothing =
        blocks.is_empty().then(|| wire::BlockPiece { data: Vec::new(), last: false, done: true });
    let of_block = |(i, block): (usize, &'a Block)| {
        let last_block = i + 1 == blocks.len();
        messages::pieces(block.bytes())
            .map(move |piece| wire::BlockPiece { done: last_block && piece.last, ..piece })
    };
    blocks.iter().enumerate().flat_map(of_block).chain(nothing)
}

type Served<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl CensusService for GrpcService {
    async fn register(
        &self,
        request: Request<wire::RegisterRequest>,
    ) -> Served<wire::RegisterReply> {
        let from = request.extensions().get::<Newcomer>().map(Newcomer::host);
        let request = request.into_inner();
        self.check_version(&request)?;
        let threads = request.threads.clamp(1, 4096) as usize;
        let memory = (request.memory > 0).then_some(request.memory);
        let worker = self
            .census
            .register(&request.name, threads, &request.kernel, memory)
            .map_err(|refusal| match refusal {
                Refusal::Distrusted(_) => Status::failed_precondition(DISTRUSTED),
                refusal => Status::failed_precondition(refusal.to_string()),
            })?;
        let shelves = self.census.shelves();
        let place = request.shelf.and_then(messages::shelf_place).zip(from);
        let mut shelf_unreached = false;
        if let Some((all, (place, from))) = shelves.zip(place) {
            match self.reach(place, from).await {
                Ok(place) => all.register(worker, place),
                // It is better not to use it than to name what nobody can read.
                Err(why) => {
                    tracing::warn!(worker, why, "the shelf of a worker cannot be reached");
                    shelf_unreached = true;
                }
            }
        }
        let options = self.census.options();
        Ok(Response::new(wire::RegisterReply {
            worker,
            heartbeat_milliseconds: (options.lease_term / 6)
                .as_millis()
                .try_into()
                .unwrap_or(u32::MAX),
            depot_mark: self.census.depot_mark().map_or(0, |mark| mark.0),
            shelf_mark: shelves.map_or(0, |shelves| shelves.mark().0),
            shelf_unreached,
        }))
    }

    async fn lease(&self, request: Request<wire::LeaseRequest>) -> Served<wire::LeaseReply> {
        let wire::LeaseRequest { worker, room, by_name } = request.into_inner();
        self.known(worker)?;
        let is_named = by_name && self.census.takes_names();
        let room = if is_named { room } else { room.min(self.most_together()) };
        let answer = match self.assignment(worker, room, Instant::now() + LONGEST_WAIT).await {
            Assignment::Finished => {
                let census = self.census.clone();
                let look = || blocking(move || census.needs_shelves());
                Answer::Finished(!*self.needs_shelves.get_or_try_init(look).await?)
            }
            Assignment::Stopping => {
                return Err(Status::unavailable("the coordinator is stopping"));
            }
            Assignment::Wait => Answer::WaitMilliseconds(0),
            Assignment::Distrusted => return Err(Status::failed_precondition(DISTRUSTED)),
            Assignment::Work(Work { lease, plan, units, edition }) => {
                Answer::Grant(messages::grant(lease, &plan, &units, edition))
            }
        };
        Ok(Response::new(wire::LeaseReply { answer: Some(answer) }))
    }

    type FetchPartitionStream =
        Pin<Box<dyn Stream<Item = Result<wire::BlockPiece, Status>> + Send>>;

    async fn fetch_partition(
        &self,
        request: Request<Streaming<wire::FetchRequest>>,
    ) -> Served<Self::FetchPartitionStream> {
        let share = CallShare::of(&request)?;
        let mut requests = request.into_inner();
        let first = requests
            .message()
            .await?
            .ok_or_else(|| Status::invalid_argument("nothing asked for"))?;
        // An error of the first answer is one of the call.
        let first = self.blocks(first, &share).await?;
        let (sender, receiver) = channel(1);
        tokio::spawn(self.clone().send_partitions(Ok(first), share, requests, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    type DescribeStream = Pin<Box<dyn Stream<Item = Result<wire::Description, Status>> + Send>>;

    async fn describe(
        &self,
        request: Request<Streaming<wire::FetchRequest>>,
    ) -> Served<Self::DescribeStream> {
        let service = self.clone();
        let share = CallShare::of(&request)?;
        let answers = request.into_inner().then(move |request| {
            let (service, share) = (service.clone(), share.clone());
            async move {
                let wanted = service.wanted(&request?)?;
                share.shrink(0).await;
                let _permit = service.describing.acquire().await;
                service.look_up(wanted, Census::described_blocks).await.map(messages::description)
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn heartbeat(
        &self,
        request: Request<wire::HeartbeatRequest>,
    ) -> Served<wire::HeartbeatReply> {
        let request = request.into_inner();
        self.known(request.worker)?;
        self.census.renew(request.worker, &request.leases);
        Ok(Response::new(wire::HeartbeatReply {}))
    }

    async fn complete(
        &self,
        request: Request<Streaming<wire::CompleteRequest>>,
    ) -> Served<wire::CompleteReply> {
        let share = CallShare::of(&request)?;
        let mut stream = request.into_inner();
        let Some(Part::Start(start)) = stream.message().await?.and_then(|message| message.part)
        else {
            return Err(Status::invalid_argument("a delivery begins with its start"));
        };
        self.known(start.worker)?;
        // Only who holds a lease may send more, and not more than belongs to it.
        let Some((plan, units)) = self.census.leased(start.worker, start.lease) else {
            return Ok(Response::new(wire::CompleteReply::default()));
        };
        // What is only named is not in memory.
        if !start.by_name {
            share.cover(plan.bytes(&units) as usize).await;
        }
        let author = self.census.author(start.worker);
        let unpacked = Unpacking::new(&plan, &units, author).unpack(&mut stream).await;
        if let Err(Unreadable::Broken(status)) = unpacked {
            return Err(status);
        }
        let census = self.census.clone();
        let accept = move || {
            // In here, because it goes on when the client leaves.
            let _share = share;
            match unpacked {
                Ok(Unpacked { deliveries, shelved }) => {
                    let shelves = census.shelves();
                    if let Some(shelves) = shelves {
                        shelves.delivered(&shelved);
                    }
                    let accepted = census.accept(start.worker, start.lease, deliveries, true);
                    if let Some(shelves) = shelves {
                        shelves.answered(&shelved);
                    }
                    accepted
                }
                Err(unreadable) => {
                    Err(census.refuse(start.worker, start.lease, unreadable.to_string()))
                }
            }
        };
        match blocking(accept).await? {
            Ok(_) => {
                tracing::debug!(worker = start.worker, lease = start.lease, ?units, "durable");
                Ok(Response::new(wire::CompleteReply { accepted: true, lacking: false }))
            }
            Err(refusal @ Refusal::TakenBack { .. }) => {
                tracing::error!(worker = start.worker, %refusal, "results refused");
                Ok(Response::new(wire::CompleteReply::default()))
            }
            Err(Refusal::Lacking) => {
                Ok(Response::new(wire::CompleteReply { accepted: false, lacking: true }))
            }
            Err(Refusal::Distrusted(_)) => Err(Status::failed_precondition(DISTRUSTED)),
            Err(Refusal::Void | Refusal::Ended) => {
                Ok(Response::new(wire::CompleteReply::default()))
            }
            Err(refusal @ Refusal::Wrong { .. }) => {
                tracing::error!(worker = start.worker, %refusal, "results refused");
                Err(Status::invalid_argument(refusal.to_string()))
            }
        }
    }

    async fn count(&self, request: Request<wire::CountRequest>) -> Served<wire::CountReply> {
        let wire::CountRequest { worker, room } = request.into_inner();
        self.known(worker)?;
        let task = self.census.count_task(worker, room, LONGEST_WAIT).await;
        let task = task.map_err(|refusal| match refusal {
            Refusal::Distrusted(_) => Status::failed_precondition(DISTRUSTED),
            refusal => Status::unavailable(refusal.to_string()),
        })?;
        let task = task.map(|CountTask { number, plan, unit, edition, blocks }| wire::CountTask {
            grant: Some(messages::grant(number, &plan, &[unit], edition)),
            blocks: Some(messages::description(blocks)),
        });
        Ok(Response::new(wire::CountReply { task }))
    }

    async fn counted(&self, request: Request<wire::CountedRequest>) -> Served<wire::CountedReply> {
        let wire::CountedRequest { worker, task, what } = request.into_inner();
        self.known(worker)?;
        // What cannot be understood is as good as nothing.
        let statement = match what {
            Some(What::Statement(statement)) => Statement::of_message(statement).ok(),
            Some(What::Failure(_)) | None => None,
        };
        self.census.counted(worker, task, statement);
        Ok(Response::new(wire::CountedReply {}))
    }

    async fn give_back(
        &self,
        request: Request<wire::GiveBackRequest>,
    ) -> Served<wire::GiveBackReply> {
        let request = request.into_inner();
        self.known(request.worker)?;
        let failure: String =
            request.failure.chars().filter(|c| !c.is_control()).take(1000).collect();
        let failure = (!failure.is_empty()).then_some(&failure[..]);
        request
            .leases
            .iter()
            .for_each(|&lease| self.census.give_back(request.worker, lease, failure));
        Ok(Response::new(wire::GiveBackReply {}))
    }

    async fn tidy_shelf(&self, request: Request<wire::ShelfList>) -> Served<wire::ShelfAnswer> {
        let wire::ShelfList { worker, checksums, seconds } = request.into_inner();
        self.known(worker)?;
        let listed = messages::checksums(&checksums)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let ages = seconds.into_iter().map(|seconds| Duration::from_secs(seconds.into()));
        let listed: Vec<(Checksum, Duration)> = listed.zip(ages).collect();
        let shelves = self.census.shelves();
        let Tidied { unwanted, lonely } =
            shelves.map(|shelves| shelves.tidy(worker, listed)).unwrap_or_default();
        let [unwanted, lonely] = [unwanted, lonely].map(messages::joined);
        Ok(Response::new(wire::ShelfAnswer { unwanted, lonely }))
    }

    async fn find_shelves(
        &self,
        request: Request<wire::FindShelvesRequest>,
    ) -> Served<wire::FindShelvesReply> {
        self.known(request.into_inner().worker)?;
        let places = self.census.shelves().map(ShelfRoom::places).unwrap_or_default();
        let shelves = places.iter().map(messages::place_message).collect();
        Ok(Response::new(wire::FindShelvesReply { shelves }))
    }

    async fn status(&self, _: Request<wire::StatusRequest>) -> Served<wire::StatusReply> {
        Ok(Response::new(wire::StatusReply {
            json: CensusStatus::of(&self.census).brief().to_json(),
        }))
    }
}
