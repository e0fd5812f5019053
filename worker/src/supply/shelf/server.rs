//! What a shelf serves: blocks to those who read them, and a place for copies of theirs.

use std::{io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc::channel},
    task::spawn_blocking,
    time::timeout,
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status, Streaming,
    service::interceptor::InterceptedService,
    transport::{Identity, Server, ServerTlsConfig},
};
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockName},
    protocol::{
        access::AccessToken,
        messages::{self, Assembly},
        shelves::ShelfPlace,
        wire::{
            self,
            put_request::Part,
            shelf_server::{Shelf as ShelfCalls, ShelfServer},
        },
    },
};

use super::{LARGEST_BLOCK, Shelf, ShelfError, others::CommonToken};
use crate::{
    access::self_signed,
    process::connections::{GRACE, Newcomer, connections},
};

/// Blocks that are in memory at a time, to be sent, …
const READ_AT_A_TIME: usize = 4;
/// … and to be written.
const PUT_AT_A_TIME: usize = 2;
/// A stream is given up when its client sends or takes nothing for so long.
const STALLED: Duration = Duration::from_secs(60);
/// Connections are made again after so long; those of others are gone then.
const CONNECTED: Duration = Duration::from_secs(600);
/// Calls of one client at a time.
const CALLS: u32 = 32;
/// A call that is not read on has sent no more bytes than this.
const WINDOW: u32 = 256 << 10;

/// Serves a shelf until `stop` is cancelled: to those who have the token, encrypted, at `listen`;
/// or, if there is no token because all of the census is on loopback, there, to everybody. Returns
/// where it is, as `:PORT` of this host.
///
/// # Errors
///
/// It cannot be listened there, or no certificate be made.
pub fn serve(
    shelf: Arc<Shelf>,
    layout: Layout,
    token: CommonToken,
    listen: Option<SocketAddr>,
    runtime: &Handle,
    stop: CancellationToken,
) -> Result<ShelfPlace, ShelfError> {
    let failed = |cause: String| ShelfError::Serve { path: shelf.path().to_owned(), cause };
    let is_secure = token.read().is_some();
    if !is_secure && listen.is_some_and(|listen| !listen.ip().is_loopback()) {
        let why = "without a token, which an access file has, it is served on loopback alone";
        return Err(failed(why.to_owned()));
    }
    let usual = match is_secure {
        // IPv6 and IPv4, if there is IPv6.
        true => vec![SocketAddr::from(([0; 16], 0)), SocketAddr::from(([0; 4], 0))],
        false => vec![SocketAddr::from(([127, 0, 0, 1], 0))],
    };
    let places = listen.map_or(usual, |listen| vec![listen]);
    let listener = runtime.block_on(TcpListener::bind(&places[..])).map_err(|error| {
        let places: Vec<String> = places.iter().map(SocketAddr::to_string).collect();
        failed(format!("cannot listen on {} ({error})", places.join(" or ")))
    })?;
    let port = listener.local_addr().map_err(|error| failed(error.to_string()))?.port();
    let mut builder = Server::builder()
        .max_concurrent_streams(CALLS)
        // A stream that waits for its turn does not take the room of those that have it.
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CALLS * WINDOW)
        .max_connection_age(CONNECTED)
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(20)));
    let mut certificate = None;
    if is_secure {
        let (shown, key) = self_signed().map_err(|error| failed(error.to_string()))?;
        let identity = Identity::from_pem(&shown, key);
        let tls = ServerTlsConfig::new().identity(identity).timeout(GRACE);
        builder = builder.tls_config(tls).map_err(|error| failed(error.to_string()))?;
        certificate = Some(shown);
    }
    let place = ShelfPlace { number: shelf.number(), address: format!(":{port}"), certificate };
    let [reading, putting] = [READ_AT_A_TIME, PUT_AT_A_TIME].map(Semaphore::new).map(Arc::new);
    let service = ShelfServer::new(Service { shelf, layout, reading, putting })
        .max_decoding_message_size(4 << 20);
    // Looked at before anything of a message is read.
    let grace = is_secure.then_some(GRACE);
    let admit = move |request: Request<()>| {
        let Some(token) = token.read().clone() else { return Ok(request) };
        let shown = request.metadata().get("authorization");
        let shown = shown.and_then(|value| AccessToken::from_header(value.as_bytes()));
        if shown.is_none_or(|shown| shown != token) {
            return Err(Status::unauthenticated("a shelf admits workers of its census"));
        }
        request.extensions().get::<Newcomer>().map(Newcomer::admit);
        Ok(request)
    };
    let service = InterceptedService::new(service, admit);
    runtime.spawn(async move {
        let connections = connections(listener, grace);
        let server = builder.add_service(service).serve_with_incoming(connections);
        if let Some(Err(error)) = stop.run_until_cancelled(server).await {
            tracing::error!(%error, "the shelf is not served any more");
        }
    });
    Ok(place)
}

#[derive(Clone)]
struct Service {
    shelf: Arc<Shelf>,
    layout: Layout,
    reading: Arc<Semaphore>,
    putting: Arc<Semaphore>,
}

impl Service {
    /// The bytes of a block, if it is here, and a place among those that are in memory.
    async fn read(
        &self,
        name: BlockName,
    ) -> Result<(Option<Vec<u8>>, OwnedSemaphorePermit), Status> {
        let permit = self.reading.clone().acquire_owned().await.expect("it is never closed");
        let shelf = self.shelf.clone();
        let read = spawn_blocking(move || shelf.read(&name)).await.map_err(io::Error::other);
        match read.flatten() {
            Ok(bytes) => Ok((bytes, permit)),
            // It may be here: nothing is said about that.
            Err(error) => {
                tracing::warn!(block = %name.checksum, %error, "a block on the shelf cannot be read");
                Err(Status::unavailable(error.to_string()))
            }
        }
    }

    async fn receive(&self, mut stream: Streaming<wire::PutRequest>) -> Result<(), Status> {
        let mut next = async || match timeout(STALLED, stream.message()).await {
            Ok(message) => Ok(message?.and_then(|message| message.part)),
            Err(_) => Err(Status::deadline_exceeded("nothing came for a minute")),
        };
        let Some(Part::Name(name)) = next().await? else {
            return Err(Status::invalid_argument("a block begins with its name"));
        };
        let (name, _) = messages::block_name(name).map_err(invalid)?;
        if name.length > LARGEST_BLOCK {
            return Err(Status::invalid_argument("no block is so large"));
        }
        let permit = self.putting.clone().acquire_owned().await.expect("it is never closed");
        let mut assembly = Assembly::of(name.length);
        let bytes = loop {
            let Some(Part::Piece(piece)) = next().await? else {
                return Err(Status::invalid_argument("a block without its end"));
            };
            if let Some(bytes) = assembly.add(piece).map_err(invalid)? {
                break bytes;
            }
        };
        let (shelf, layout) = (self.shelf.clone(), self.layout);
        let put = move || {
            let _permit = permit;
            let block = Block::parse_named(layout, bytes, &name).map_err(invalid)?;
            shelf.put(&block).map_err(|error| Status::unavailable(error.to_string()))
        };
        spawn_blocking(put).await.map_err(|error| Status::internal(error.to_string()))?
    }
}

/// What a client has sent is wrong.
fn invalid(error: impl ToString) -> Status {
    Status::invalid_argument(error.to_string())
}

type Pieces = Pin<Box<dyn Stream<Item = Result<wire::BlockPiece, Status>> + Send>>;

#[tonic::async_trait]
impl ShelfCalls for Service {
    type TakeStream = Pieces;

    async fn take(&self, request: Request<wire::BlockList>) -> Result<Response<Pieces>, Status> {
        let names = request.into_inner().blocks.into_iter().map(messages::block_name);
        let names: Vec<BlockName> = names
            .map(|name| name.map(|(name, _)| name))
            .collect::<Result<_, _>>()
            .map_err(invalid)?;
        let (sender, receiver) = channel(1);
        let service = self.clone();
        tokio::spawn(async move {
            for name in names {
                let (bytes, _permit) = match service.read(name).await {
                    Ok(read) => read,
                    Err(status) => return drop(timeout(STALLED, sender.send(Err(status))).await),
                };
                let bytes = bytes.unwrap_or_default();
                let nothing = wire::BlockPiece { data: Vec::new(), last: true, done: false };
                let nothing = bytes.is_empty().then_some(nothing);
                for piece in messages::pieces(&bytes).chain(nothing) {
                    if !matches!(timeout(STALLED, sender.send(Ok(piece))).await, Ok(Ok(()))) {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn put(
        &self,
        request: Request<Streaming<wire::PutRequest>>,
    ) -> Result<Response<wire::PutReply>, Status> {
        self.receive(request.into_inner()).await?;
        Ok(Response::new(wire::PutReply {}))
    }
}
