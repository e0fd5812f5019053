//! Who gets in: tokens are checked before a message is read, and a connection that does not show a
//! worker's does not stay.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream, lookup_host},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Sleep,
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response, header::AUTHORIZATION},
    transport::server::Connected,
};
use tower::Service;
use trailtrap_shared::protocol::access::AccessToken;

use crate::serve::gate::{Answering, Gate};

/// A connection has this long to encrypt itself and to make a call with a worker's token. That of
/// an onlooker, who makes one call, lasts no longer.
pub const GRACE: Duration = Duration::from_secs(15);
/// No more connections than this are newcomers at a time, that is, are there and have not shown a
/// worker's token: the oldest of them makes room for the next.
const NEWCOMERS: usize = 1024;

/// So many connections may wait to be accepted. When hundreds of workers come at once, a shorter
/// queue resets some of them.
const QUEUE: u32 = 4096;

/// The calls that a viewer's token allows.
const VIEWER_CALLS: [&str; 1] = ["/trailtrap.v1.Census/Status"];

/// Knows the tokens.
#[derive(Clone)]
pub struct Guard {
    worker: AccessToken,
    viewer: AccessToken,
}

impl Guard {
    /// A guard who admits workers to everything and viewers to the status.
    pub fn new(worker: AccessToken, viewer: AccessToken) -> Self {
        Guard { worker, viewer }
    }

    /// Who makes a call.
    fn admit(&self, call: &str, header: Option<&[u8]>) -> Result<Role, Status> {
        let token = header.and_then(AccessToken::from_header).ok_or_else(|| {
            Status::unauthenticated(
                "it admits those with a token: use the access file that it wrote (--access)",
            )
        })?;
        let (worker, viewer) = (token == self.worker, token == self.viewer);
        match (worker, viewer) {
            (true, _) => Ok(Role::Worker),
            (_, true) if VIEWER_CALLS.contains(&call) => Ok(Role::Viewer),
            (_, true) => Err(Status::permission_denied(
                "this access file is for looking on (status); workers need access.json instead \
                 of viewer.json",
            )),
            _ => Err(Status::unauthenticated(
                "the token is not valid: the access file is another coordinator's, or old",
            )),
        }
    }
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Worker,
    Viewer,
}

impl Gate for Guard {
    fn pass<S>(&self, request: Request<Body>, service: &mut S) -> Answering<S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error: 'static>,
        S::Future: Send + 'static,
    {
        let header = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        match self.admit(request.uri().path(), header) {
            Ok(role) => {
                if let Some(newcomer) = request.extensions().get::<Newcomer>()
                    && role == Role::Worker
                {
                    newcomer.admit();
                }
                Box::pin(service.call(request))
            }
            // The body is not even looked at.
            Err(status) => Box::pin(async move { Ok(status.into_http()) }),
        }
    }
}

/// The connections that have not shown a worker's token yet, by the order in which they came.
struct Newcomers {
    most: usize,
    next: AtomicU64,
    present: Mutex<BTreeMap<u64, CancellationToken>>,
}

impl Newcomers {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Newcomers { most, next: AtomicU64::new(0), present: Mutex::default() })
    }

    /// Takes another one in, which comes from this host. If there are too many, the oldest has to go.
    fn enter(self: &Arc<Self>, from: IpAddr) -> (Newcomer, CancellationToken) {
        let has_to_go = CancellationToken::new();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut present = self.present.lock();
        present.insert(number, has_to_go.clone());
        if present.len() > self.most
            && let Some((_, oldest)) = present.pop_first()
        {
            oldest.cancel();
        }
        let newcomers = self.clone();
        let entry = Entry { newcomers, number, from, admitted: false.into() };
        (Newcomer(Arc::new(entry)), has_to_go)
    }
}

/// A connection, among the newcomers until it is admitted or gone.
#[derive(Clone)]
pub struct Newcomer(Arc<Entry>);

struct Entry {
    newcomers: Arc<Newcomers>,
    number: u64,
    from: IpAddr,
    admitted: AtomicBool,
}

impl Newcomer {
    /// The host that it comes from.
    pub fn host(&self) -> IpAddr {
        self.0.from
    }

    fn is_admitted(&self) -> bool {
        self.0.admitted.load(Ordering::Relaxed)
    }

    /// Lets it stay, unless it has to go already.
    fn admit(&self) {
        if !self.is_admitted() && self.0.leave().is_some() {
            self.0.admitted.store(true, Ordering::Relaxed);
        }
    }
}

impl Entry {
    fn leave(&self) -> Option<CancellationToken> {
        self.newcomers.present.lock().remove(&self.number)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A connection that fails unless it is admitted in time.
pub struct GuardedConnection {
    stream: TcpStream,
    newcomer: Newcomer,
    deadline: Pin<Box<Sleep>>,
    has_to_go: Pin<Box<WaitForCancellationFutureOwned>>,
    _permit: OwnedSemaphorePermit,
}

/// Listens at HOST:PORT, at the first address of that host that can be had.
///
/// # Errors
/// If the host has no address, or none of them can be listened at; the reason is that of the last.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in lookup_host(address).await? {
        let listen = || {
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // So that a coordinator can take the place of one that was stopped a moment ago.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(QUEUE)
        };
        match listen() {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The connections to a listener. They have to show a worker's token within `grace`, if that is
/// given.
pub fn connections(
    listener: TcpListener,
    grace: Option<Duration>,
) -> impl Stream<Item = io::Result<GuardedConnection>> + Unpin {
    let most = most_connections();
    accepted(listener, grace, NEWCOMERS.min(most / 2), most)
}

/// The connections to a listener where nobody shows a token: they end after `life`, or when `most`
/// others have come after them. So who says at once what they want is heard, however many there
/// are who say nothing.
pub fn few_connections(
    listener: TcpListener,
    life: Duration,
    most: usize,
) -> impl Stream<Item = io::Result<GuardedConnection>> + Unpin {
    accepted(listener, Some(life), most, 2 * most)
}

fn accepted(
    listener: TcpListener,
    grace: Option<Duration>,
    newcomers: usize,
    most: usize,
) -> impl Stream<Item = io::Result<GuardedConnection>> + Unpin {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let permits = Arc::new(Semaphore::new(most));
        let newcomers = Newcomers::new(newcomers);
        loop {
            // With no place left they wait in the kernel's queue.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            match accepted {
                Ok((stream, from)) => {
                    let _ = stream.set_nodelay(true);
                    let (newcomer, has_to_go) = newcomers.enter(from.ip().to_canonical());
                    if grace.is_none() {
                        newcomer.admit();
                    }
                    let connection = GuardedConnection {
                        stream,
                        newcomer,
                        deadline: Box::pin(tokio::time::sleep(grace.unwrap_or_default())),
                        has_to_go: Box::pin(has_to_go.cancelled_owned()),
                        _permit: permit,
                    };
                    if sender.send(Ok(connection)).await.is_err() {
                        return;
                    }
                }
                // Out of descriptors or memory, say: that may pass. tonic would try again without
                // a pause.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    });
    ReceiverStream::new(receiver)
}

/// Half of the files that this process may open, of which it makes as many as it can.
fn most_connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    (limit.current.unwrap_or(1 << 17) / 2).clamp(64, 1 << 16) as usize
}

impl GuardedConnection {
    /// An error when the time is over, or others need the room. Whoever is waiting then is woken:
    /// also one whose client takes nothing.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let is_over = !self.newcomer.is_admitted()
            && (self.deadline.as_mut().poll(context).is_ready()
                || self.has_to_go.as_mut().poll(context).is_ready());
        match is_over {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "no worker's token in time")),
            false => Ok(()),
        }
    }
}

impl Connected for GuardedConnection {
    type ConnectInfo = Newcomer;

    fn connect_info(&self) -> Newcomer {
        self.newcomer.clone()
    }
}

impl AsyncRead for GuardedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for GuardedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio_stream::StreamExt;
    use tonic::Code;
    use tower::Layer;

    use super::*;
    use crate::serve::gate::Through;

    /// Nothing happens in a test because of the time.
    const LONG: Duration = Duration::from_secs(86400);

    async fn listening() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[tokio::test]
    async fn a_connection_that_is_not_admitted_does_not_stay() {
        let (listener, address) = listening().await;
        let mut connections = connections(listener, Some(Duration::from_millis(50)));
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut connection = connections.next().await.unwrap().unwrap();
        let error = connection.read(&mut [0; 10]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        assert_eq!(client.read(&mut [0; 10]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_connection_that_is_admitted_stays() {
        for grace in [Some(Duration::from_millis(50)), None] {
            let (listener, address) = listening().await;
            let mut connections = connections(listener, grace);
            let mut client = TcpStream::connect(address).await.unwrap();
            let mut connection = connections.next().await.unwrap().unwrap();
            connection.connect_info().admit();
            // Its time is over.
            connection.deadline.as_mut().await;
            tokio::io::AsyncWriteExt::write_all(&mut client, b"late").await.unwrap();
            assert_eq!(connection.read(&mut [0; 10]).await.unwrap(), 4);
        }
    }

    #[tokio::test]
    async fn the_oldest_newcomer_makes_room_and_the_admitted_stay() {
        let (listener, address) = listening().await;
        let mut connections = few_connections(listener, LONG, 2);
        let mut clients = Vec::new();
        let mut connect = async || {
            clients.push(TcpStream::connect(address).await.unwrap());
            connections.next().await.unwrap().unwrap()
        };
        let admitted = connect().await;
        admitted.connect_info().admit();
        let (mut oldest, second, third) = (connect().await, connect().await, connect().await);
        let error = oldest.read(&mut [0; 10]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        oldest.connect_info().admit();
        assert!(!oldest.connect_info().is_admitted(), "it is too late");
        // Who leaves makes room as well.
        drop((oldest, third));
        let _fourth = connect().await;
        for (mut connection, client) in [(admitted, 0), (second, 2)] {
            tokio::io::AsyncWriteExt::write_all(&mut clients[client], b"here").await.unwrap();
            assert_eq!(connection.read(&mut [0; 10]).await.unwrap(), 4);
        }
    }

    #[tokio::test]
    async fn silent_connections_do_not_keep_probes_out() {
        let (listener, address) = listening().await;
        let connections = few_connections(listener, LONG, 4);
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
        let server = tonic::transport::Server::builder().add_service(health);
        tokio::spawn(server.serve_with_incoming(connections));
        let mut silent = Vec::new();
        for _ in 0..7 {
            for _ in 0..100 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
            let channel = endpoint.unwrap().connect().await.unwrap();
            let mut client = tonic_health::pb::health_client::HealthClient::new(channel);
            client.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_worker_stays_and_an_onlooker_does_not() {
        let guard = Guard::new(AccessToken::new([1; 32]), AccessToken::new([2; 32]));
        let answer = async |_: Request<Body>| Ok::<_, io::Error>(Response::new(Body::empty()));
        let answering = tower::service_fn(move |request| Box::pin(answer(request)));
        let mut service = Through(guard).layer(answering);
        for (token, stays) in [(1, true), (2, false), (3, false)] {
            let (newcomer, _has_to_go) = Newcomers::new(1).enter(IpAddr::from([127, 0, 0, 1]));
            let request = Request::builder()
                .uri(VIEWER_CALLS[0])
                .header(AUTHORIZATION, AccessToken::new([token; 32]).header().as_bytes())
                .extension(newcomer.clone());
            service.call(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(newcomer.is_admitted(), stays, "{token}");
        }
    }

    #[test]
    fn tokens_open_what_they_are_for() {
        let guard = Guard::new(AccessToken::new([1; 32]), AccessToken::new([2; 32]));
        let header = |byte: u8| format!("Bearer {}", format!("{byte:02x}").repeat(32));
        let admit = |call: &str, text: &str| {
            guard.admit(call, Some(text.as_bytes())).map_err(|status| status.code())
        };
        for call in
            ["Register", "Lease", "FetchPartition", "Heartbeat", "Complete", "GiveBack", "Unheard"]
        {
            let call = format!("/trailtrap.v1.Census/{call}");
            assert_eq!(admit(&call, &header(1)), Ok(Role::Worker));
            assert_eq!(admit(&call, &header(2)), Err(Code::PermissionDenied));
            assert_eq!(admit(&call, &header(3)), Err(Code::Unauthenticated));
            assert_eq!(guard.admit(&call, None).unwrap_err().code(), Code::Unauthenticated);
        }
        assert_eq!(admit("/trailtrap.v1.Census/Status", &header(1)), Ok(Role::Worker));
        assert_eq!(admit("/trailtrap.v1.Census/Status", &header(2)), Ok(Role::Viewer));
        assert_eq!(admit("/trailtrap.v1.Census/Status", &header(3)), Err(Code::Unauthenticated));
        assert_eq!(
            admit("/trailtrap.v1.Census/Status", &header(1)[1..]),
            Err(Code::Unauthenticated)
        );
    }
}
