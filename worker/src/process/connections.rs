//! Connections to a listener: those who come have to show in time that they may, or they make room
//! for others.

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
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Sleep,
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use super::limits;

/// A connection has this long to encrypt itself and to make a call with a worker's token. That of
/// an onlooker, who makes one call, lasts no longer.
pub const GRACE: Duration = Duration::from_secs(15);
/// No more connections than this are newcomers at a time, that is, are there and have not shown a
/// worker's token: the oldest of them makes room for the next.
const NEWCOMERS: usize = 1024;

/// The connections that have not shown a worker's token yet, by the order in which they came.
pub struct Newcomers {
    most: usize,
    next: AtomicU64,
    present: Mutex<BTreeMap<u64, CancellationToken>>,
}

impl Newcomers {
    /// None yet, of whom so many may be there at a time.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Newcomers { most, next: AtomicU64::new(0), present: Mutex::default() })
    }

    /// Takes another one in, which comes from this host. If there are too many, the oldest has to go.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> (Newcomer, CancellationToken) {
        let has_to_go = CancellationToken::new();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut present = self.present.lock();
        present.insert(number, has_to_go.clone());
        if present.len() > self.most
            && let Some((_, oldest)) = present.pop_first()
        {
            oldest.cancel();
        }
        let (newcomers, ended) = (self.clone(), has_to_go.clone());
        let entry = Entry { newcomers, number, from, admitted: false.into(), ended };
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
    ended: CancellationToken,
}

impl Newcomer {
    /// The host that it comes from.
    pub fn host(&self) -> IpAddr {
        self.0.from
    }

    /// Whether it may stay.
    pub fn is_admitted(&self) -> bool {
        self.0.admitted.load(Ordering::Relaxed)
    }

    /// Ends the connection, also an admitted one.
    pub fn end(&self) {
        self.0.ended.cancel();
    }

    /// Lets it stay, unless it has to go already.
    pub fn admit(&self) {
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
    (limits::raise_open_files().unwrap_or(1 << 17) / 2).clamp(64, 1 << 16) as usize
}

impl GuardedConnection {
    /// An error when the time is over, others need the room, or it was ended. Whoever is waiting then
    /// is woken: also one whose client takes nothing.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let over = |why| Err(io::Error::new(io::ErrorKind::TimedOut, why));
        let is_late =
            !self.newcomer.is_admitted() && self.deadline.as_mut().poll(context).is_ready();
        match self.has_to_go.as_mut().poll(context).is_ready() {
            true if self.newcomer.is_admitted() => over("an answer was not taken in time"),
            true => over("no worker's token in time"),
            false if is_late => over("no worker's token in time"),
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

    use super::*;

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
            // Until it is ended, while its client is waited for.
            let newcomer = connection.connect_info();
            let reading = tokio::spawn(async move { connection.read(&mut [0; 10]).await });
            tokio::task::yield_now().await;
            newcomer.end();
            assert_eq!(reading.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
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
}
