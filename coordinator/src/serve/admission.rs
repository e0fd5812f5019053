//! Who gets in: tokens are checked before a message is read, and a connection that shows none does
//! not stay.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream, lookup_host},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Sleep,
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response, header::AUTHORIZATION},
    transport::server::Connected,
};
use tower::{Layer, Service};
use trailtrap_shared::protocol::access::AccessToken;

/// A connection has this long to encrypt itself and to make a call with a valid token.
pub const GRACE: Duration = Duration::from_secs(15);

/// So many connections may wait to be accepted. When hundreds of workers come at once, a shorter
/// queue resets some of them.
const QUEUE: u32 = 4096;

/// The calls that a viewer's token allows.
const VIEWER_CALLS: [&str; 1] = ["/trailtrap.v1.Census/Status"];

/// Knows the tokens. A layer around the service.
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

    fn admit(&self, call: &str, header: Option<&[u8]>) -> Result<(), Status> {
        let token = header.and_then(AccessToken::from_header).ok_or_else(|| {
            Status::unauthenticated(
                "it admits those with a token: use the access file that it wrote (--access)",
            )
        })?;
        let (worker, viewer) = (token == self.worker, token == self.viewer);
        match worker || viewer && VIEWER_CALLS.contains(&call) {
            true => Ok(()),
            false if viewer => Err(Status::permission_denied(
                "this access file is for looking on (status); workers need access.json instead \
                 of viewer.json",
            )),
            false => Err(Status::unauthenticated(
                "the token is not valid: the access file is another coordinator's, or old",
            )),
        }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

/// A service behind a guard.
#[derive(Clone)]
pub struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let header = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        match self.guard.admit(request.uri().path(), header) {
            Ok(()) => {
                if let Some(admitted) = request.extensions().get::<Admitted>() {
                    admitted.0.store(true, Ordering::Relaxed);
                }
                Box::pin(self.inner.call(request))
            }
            // The body is not even looked at.
            Err(status) => Box::pin(async move { Ok(status.into_http()) }),
        }
    }
}

/// Whether a connection has shown a valid token.
#[derive(Clone)]
pub struct Admitted(Arc<AtomicBool>);

/// A connection that fails unless it is admitted in time.
pub struct GuardedConnection {
    stream: TcpStream,
    admitted: Admitted,
    deadline: Pin<Box<Sleep>>,
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

/// The connections to a listener. They have to show a token within `grace`, if that is given.
pub fn connections(
    listener: TcpListener,
    grace: Option<Duration>,
) -> impl Stream<Item = io::Result<GuardedConnection>> + Unpin {
    accepted(listener, grace, most_connections())
}

/// The connections to a listener, at most `most` at a time. They end after `life` unless they show
/// a token.
pub fn few_connections(
    listener: TcpListener,
    life: Duration,
    most: usize,
) -> impl Stream<Item = io::Result<GuardedConnection>> + Unpin {
    accepted(listener, Some(life), most)
}

fn accepted(
    listener: TcpListener,
    grace: Option<Duration>,
    most: usize,
) -> impl Stream<Item = io::Result<GuardedConnection>> + Unpin {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let permits = Arc::new(Semaphore::new(most));
        loop {
            // With no place left they wait in the kernel's queue.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    let admitted = Admitted(Arc::new(AtomicBool::new(grace.is_none())));
                    let deadline = Box::pin(tokio::time::sleep(grace.unwrap_or_default()));
                    if sender
                        .send(Ok(GuardedConnection {
                            stream,
                            admitted,
                            deadline,
                            _permit: permit,
                        }))
                        .await
                        .is_err()
                    {
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
    /// An error when the time is over. Whoever is waiting then is woken: also one whose client
    /// takes nothing.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match !self.admitted.0.load(Ordering::Relaxed)
            && self.deadline.as_mut().poll(context).is_ready()
        {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "no valid token in time")),
            false => Ok(()),
        }
    }
}

impl Connected for GuardedConnection {
    type ConnectInfo = Admitted;

    fn connect_info(&self) -> Admitted {
        self.admitted.clone()
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

    use super::*;

    #[tokio::test]
    async fn a_connection_that_is_not_admitted_does_not_stay() {
        for grace in [Some(Duration::from_millis(50)), None] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut connections = connections(listener, grace);
            let mut client = TcpStream::connect(address).await.unwrap();
            let mut connection = connections.next().await.unwrap().unwrap();
            if grace.is_none() {
                drop(client);
                assert_eq!(
                    connection.read(&mut [0; 10]).await.unwrap(),
                    0,
                    "nothing but the end of the stream"
                );
                continue;
            }
            assert_eq!(
                connection.read(&mut [0; 10]).await.unwrap_err().kind(),
                io::ErrorKind::TimedOut
            );
            drop(connection);
            assert_eq!(client.read(&mut [0; 10]).await.unwrap(), 0);
            // One that is admitted in time.
            let mut client = TcpStream::connect(address).await.unwrap();
            let mut connection = connections.next().await.unwrap().unwrap();
            connection.connect_info().0.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
            tokio::io::AsyncWriteExt::write_all(&mut client, b"late").await.unwrap();
            assert_eq!(connection.read(&mut [0; 10]).await.unwrap(), 4);
        }
    }

    #[tokio::test]
    async fn no_more_than_a_few_connections_are_taken_at_a_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = few_connections(listener, Duration::from_millis(50), 1);
        let _clients = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let mut first = connections.next().await.unwrap().unwrap();
        let mut nothing = [0; 10];
        tokio::select! {
            biased;
            _ = connections.next() => panic!("a second one"),
            ended = first.read(&mut nothing) => {
                assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
            }
        }
        drop(first);
        connections.next().await.unwrap().unwrap();
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
            assert_eq!(admit(&call, &header(1)), Ok(()));
            assert_eq!(admit(&call, &header(2)), Err(Code::PermissionDenied));
            assert_eq!(admit(&call, &header(3)), Err(Code::Unauthenticated));
            assert_eq!(guard.admit(&call, None).unwrap_err().code(), Code::Unauthenticated);
        }
        assert_eq!(admit("/trailtrap.v1.Census/Status", &header(1)), Ok(()));
        assert_eq!(admit("/trailtrap.v1.Census/Status", &header(2)), Ok(()));
        assert_eq!(admit("/trailtrap.v1.Census/Status", &header(3)), Err(Code::Unauthenticated));
        assert_eq!(
            admit("/trailtrap.v1.Census/Status", &header(1)[1..]),
            Err(Code::Unauthenticated)
        );
    }
}
