//! The gRPC face of the census: checks messages and hands them on.

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};
use tower::util::option_layer;
use trailtrap_shared::{
    codec,
    digest::Digest,
    game::{Game, TrailTrap},
    labelling::LABELLING,
    partition::{BLOCK_FORMAT, Block},
    plan::Unit,
    statistics::Statistics,
    wire::{
        self, PROTOCOL,
        census_server::{Census as CensusService, CensusServer},
        complete_request::Part,
        lease_reply::Answer,
    },
};

use trailtrap_worker::{cache::Wanted, messages};

use crate::{
    admission::{self, GRACE},
    census::{Assignment, Census, CensusError, Refusal, delivery},
    secrets::Door,
    status::Status as CensusStatus,
    store::Delivery,
};

/// A request for work is answered after this long even if there is none.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const DESCRIBING: usize = 8;
/// Several times the largest block that a plan makes.
const LARGEST_BLOCK: usize = 1 << 30;

/// Serves `census` on a bound listener until `shutdown`, to everybody if there is no door; gives open connections a moment
/// to finish then.
pub async fn serve(
    census: Arc<Census>,
    listener: TcpListener,
    door: Option<Door>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), tonic::transport::Error> {
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move {
        shutdown.await;
        let _ = stopping.send(());
    };
    let connections = admission::connections(listener, door.is_some().then_some(GRACE));
    let (tls, guard) = door.map(|door| (door.tls, door.guard)).unzip();
    let mut builder = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(20)));
    if let Some(tls) = tls {
        builder = builder.tls_config(tls)?;
    }
    let server = builder
        .layer(option_layer(guard))
        .add_service(
            CensusServer::new(Service { census, describing: Arc::new(Semaphore::new(DESCRIBING)) })
                .max_decoding_message_size(4 << 20),
        )
        .serve_with_incoming_shutdown(connections, shutdown);
    // tonic waits for idle connections for ever.
    tokio::select! {
        result = server => result,
        () = async { let _ = stopped.await; tokio::time::sleep(Duration::from_secs(2)).await } => Ok(()),
    }
}

/// Serves gRPC health checks, and nothing else, to everybody: those who probe cannot show tokens.
pub async fn serve_health(listener: TcpListener) -> Result<(), tonic::transport::Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<CensusServer<Service>>().await;
    let connections = admission::connections(listener, None);
    Server::builder().add_service(health.max_decoding_message_size(1 << 10)).serve_with_incoming(connections).await
}

#[derive(Clone)]
struct Service {
    census: Arc<Census>,
    /// Descriptions that are made at a time: after a restart each may have to read what it names.
    describing: Arc<Semaphore>,
}

impl Service {
    fn known(&self, worker: u64) -> Result<(), Status> {
        match self.census.hear(worker) {
            true => Ok(()),
            false => Err(Status::not_found("this coordinator does not know the worker: register again")),
        }
    }

    /// The answer to one request for a partition.
    async fn blocks(&self, request: wire::FetchRequest) -> Result<Vec<Block>, Status> {
        let blocks = self.look_up(&request, Census::wanted_blocks).await?;
        Ok(messages::select(&request, blocks))
    }

    /// What `read` finds of what a request is for.
    async fn look_up<T: Send + 'static>(
        &self,
        request: &wire::FetchRequest,
        read: impl FnOnce(&Census, &Wanted) -> Result<Option<T>, CensusError> + Send + 'static,
    ) -> Result<T, Status> {
        self.known(request.worker)?;
        let wanted = messages::wanted(request).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let census = self.census.clone();
        tokio::task::spawn_blocking(move || read(&census, &wanted))
            .await
            .map_err(|error| Status::internal(error.to_string()))?
            .map_err(|error| Status::internal(error.to_string()))?
            .ok_or_else(|| Status::not_found(format!("partition {} is not finished", wanted.sequence())))
    }
}

/// Blocks in the pieces that they are sent in.
fn pieces(blocks: Vec<Block>) -> Vec<wire::BlockPiece> {
    let mut pieces: Vec<wire::BlockPiece> = Vec::new();
    for block in blocks {
        pieces.extend(messages::pieces(block.bytes()));
    }
    match pieces.last_mut() {
        Some(last) => last.done = true,
        None => pieces.push(wire::BlockPiece { data: Vec::new(), last: false, done: true }),
    }
    pieces
}

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl CensusService for Service {
    async fn register(&self, request: Request<wire::RegisterRequest>) -> Reply<wire::RegisterReply> {
        let request = request.into_inner();
        let pairs = [
            ("protocol", request.protocol, PROTOCOL),
            ("labelling", request.labelling, LABELLING.into()),
            ("game", request.game, TrailTrap::ID.into()),
            ("block format", request.block_format, BLOCK_FORMAT.into()),
        ];
        if let Some((what, theirs, ours)) = pairs.into_iter().find(|(_, theirs, ours)| theirs != ours) {
            return Err(Status::failed_precondition(format!(
                "worker has {what} {theirs}, coordinator has {what} {ours}; their results would not fit together. Use \
                 the same program version for both"
            )));
        }
        let printable = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).take(100).collect() };
        let threads = request.threads.clamp(1, 4096) as usize;
        let worker = self.census.register(&printable(&request.name), threads, &printable(&request.kernel));
        let options = self.census.options();
        Ok(Response::new(wire::RegisterReply {
            worker,
            heartbeat_milliseconds: (options.lease_term / 6).as_millis() as u32,
        }))
    }

    async fn lease(&self, request: Request<wire::LeaseRequest>) -> Reply<wire::LeaseReply> {
        let worker = request.into_inner().worker;
        self.known(worker)?;
        let deadline = tokio::time::Instant::now() + LONGEST_WAIT;
        let answer = loop {
            let changed = self.census.wakeup.notified();
            match self.census.assign(worker, false) {
                Assignment::Finished => break Answer::Finished(true),
                Assignment::Stopping => return Err(Status::unavailable("the coordinator is stopping")),
                Assignment::Work { lease, plan, units } => {
                    break Answer::Grant(messages::grant(lease, &plan, &units));
                }
                Assignment::Wait => {}
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                break Answer::WaitMilliseconds(0);
            }
        };
        Ok(Response::new(wire::LeaseReply { answer: Some(answer) }))
    }

    type FetchPartitionStream = Pin<Box<dyn Stream<Item = Result<wire::BlockPiece, Status>> + Send>>;

    async fn fetch_partition(
        &self,
        request: Request<Streaming<wire::FetchRequest>>,
    ) -> Reply<Self::FetchPartitionStream> {
        let mut requests = request.into_inner();
        let first = requests.next().await.transpose()?.ok_or_else(|| Status::invalid_argument("nothing asked for"))?;
        let mut answer = self.blocks(first).await;
        if let Err(status) = answer {
            return Err(status);
        }
        let service = self.clone();
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            loop {
                // Nobody listens any more when sending fails.
                match answer {
                    Ok(blocks) => {
                        for piece in pieces(blocks) {
                            if sender.send(Ok(piece)).await.is_err() {
                                return;
                            }
                        }
                    }
                    Err(status) => return drop(sender.send(Err(status)).await),
                }
                answer = match requests.next().await {
                    None => return,
                    Some(Ok(request)) => service.blocks(request).await,
                    Some(Err(status)) => Err(status),
                };
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    type DescribeStream = Pin<Box<dyn Stream<Item = Result<wire::Description, Status>> + Send>>;

    async fn describe(&self, request: Request<Streaming<wire::FetchRequest>>) -> Reply<Self::DescribeStream> {
        let service = self.clone();
        let answers = request.into_inner().then(move |request| {
            let service = service.clone();
            async move {
                let _permit = service.describing.acquire().await;
                service.look_up(&request?, Census::described_blocks).await.map(messages::description)
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn heartbeat(&self, request: Request<wire::HeartbeatRequest>) -> Reply<wire::HeartbeatReply> {
        let request = request.into_inner();
        self.known(request.worker)?;
        self.census.renew(request.worker, &request.leases);
        Ok(Response::new(wire::HeartbeatReply {}))
    }

    async fn complete(&self, request: Request<Streaming<wire::CompleteRequest>>) -> Reply<wire::CompleteReply> {
        let mut stream = request.into_inner();
        let Some(Part::Start(start)) = stream.next().await.transpose()?.and_then(|message| message.part) else {
            return Err(Status::invalid_argument("a delivery begins with its start"));
        };
        self.known(start.worker)?;
        // Only who holds a lease may send more, and not more than belongs to it.
        let Some((plan, units)) = self.census.leased(start.worker, start.lease) else {
            return Ok(Response::new(wire::CompleteReply { accepted: false }));
        };
        let mut blocks_left: usize = units.iter().map(|unit| 3 << plan.shards[unit.shard as usize].bucket_bits).sum();
        let name = self.census.worker_name(start.worker);
        let mut deliveries: Vec<Delivery> = Vec::new();
        let mut current: Option<(wire::UnitResult, Vec<Block>)> = None;
        let mut bytes: Vec<u8> = Vec::new();
        let finish = |(result, blocks): (wire::UnitResult, Vec<Block>)| -> Result<Delivery, Status> {
            let id = result.unit.ok_or_else(|| Status::invalid_argument("a result without its unit"))?;
            let unit = Unit { order: plan.order as u8, shard: id.shard, part: id.part };
            let shard = plan.shards.get(id.shard as usize).ok_or_else(|| Status::invalid_argument("no such shard"))?;
            let statistics: Statistics = codec::decode(&result.statistics)
                .map_err(|error| Status::invalid_argument(format!("statistics: {error}")))?;
            let digest: [u8; 32] =
                result.digest.try_into().map_err(|_| Status::invalid_argument("a digest has 32 bytes"))?;
            let elapsed = Duration::from_micros(result.elapsed_microseconds);
            let digest = Digest::from_le_bytes(digest);
            Ok(delivery(unit, shard.sequence, blocks, statistics, digest, elapsed, name.clone()))
        };
        while let Some(message) = stream.next().await {
            match message?.part {
                Some(Part::Unit(_)) if deliveries.len() == units.len() => {
                    return Err(Status::invalid_argument("more units than were leased"));
                }
                Some(Part::Unit(result)) => {
                    if let Some(done) = current.replace((result, Vec::new())) {
                        deliveries.push(finish(done)?);
                    }
                }
                Some(Part::Piece(piece)) => {
                    bytes.extend_from_slice(&piece.data);
                    if bytes.len() > LARGEST_BLOCK {
                        return Err(Status::invalid_argument("block too large"));
                    }
                    if piece.last {
                        let Some((_, blocks)) = &mut current else {
                            return Err(Status::invalid_argument("a block without its unit"));
                        };
                        let block = Block::parse::<TrailTrap>(std::mem::take(&mut bytes))
                            .map_err(|error| Status::invalid_argument(error.to_string()))?;
                        blocks_left = blocks_left
                            .checked_sub(1)
                            .ok_or_else(|| Status::invalid_argument("more blocks than the leased units have"))?;
                        blocks.push(block);
                    }
                }
                Some(Part::Start(_)) | None => return Err(Status::invalid_argument("unexpected part of a delivery")),
            }
        }
        if !bytes.is_empty() {
            return Err(Status::invalid_argument("the last block is cut short"));
        }
        if let Some(done) = current {
            deliveries.push(finish(done)?);
        }
        let census = self.census.clone();
        let accepted = tokio::task::spawn_blocking(move || census.accept(start.worker, start.lease, deliveries, true))
            .await
            .map_err(|error| Status::internal(error.to_string()))?;
        match accepted {
            Ok(_) => Ok(Response::new(wire::CompleteReply { accepted: true })),
            Err(refusal @ Refusal::Reopened { .. }) => {
                tracing::error!(worker = start.worker, %refusal, "results refused");
                Ok(Response::new(wire::CompleteReply { accepted: false }))
            }
            Err(Refusal::Void | Refusal::Ended) => Ok(Response::new(wire::CompleteReply { accepted: false })),
            Err(refusal @ Refusal::Wrong { .. }) => {
                tracing::error!(worker = start.worker, %refusal, "results refused");
                Err(Status::invalid_argument(refusal.to_string()))
            }
        }
    }

    async fn give_back(&self, request: Request<wire::GiveBackRequest>) -> Reply<wire::GiveBackReply> {
        let request = request.into_inner();
        self.known(request.worker)?;
        request.leases.iter().for_each(|&lease| self.census.give_back(request.worker, lease));
        Ok(Response::new(wire::GiveBackReply {}))
    }

    async fn status(&self, _: Request<wire::StatusRequest>) -> Reply<wire::StatusReply> {
        Ok(Response::new(wire::StatusReply { json: CensusStatus::of(&self.census).to_json() }))
    }
}
