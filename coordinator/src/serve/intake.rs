//! What calls may bring into memory. A call gets one of a few places before a byte of it is read,
//! or is refused; what is answered to one message is small and comes soon; and streams have their
//! share of the budget grow before they are read on. Who does not take an answer loses the connection.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body as HttpBody, Frame};
use parking_lot::Mutex as Lock;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{
    Request as Call, Status,
    body::Body,
    codegen::{
        Bytes,
        http::{Request, Response},
    },
};
use tower::Service;
use trailtrap_shared::protocol::wire::PIECE_BYTES;
use trailtrap_worker::process::connections::Newcomer;

use crate::serve::{
    admission::STATUS,
    budget::{Budget, MemoryShare},
    gate::{Answering, Gate},
};

/// The call that brings much and is answered by little.
const COMPLETE: &str = "/trailtrap.v1.Census/Complete";
/// The calls that ask, in a stream of messages, for blocks or what is said of them.
const FETCHES: [&str; 2] =
    ["/trailtrap.v1.Census/FetchPartition", "/trailtrap.v1.Census/Describe"];

/// A call of one message has no more bytes than this …
const MESSAGE_BYTES: usize = 64 << 10;
/// … and its client no more time to send them.
const MESSAGE_TIME: Duration = Duration::from_secs(15);
/// A stream whose client sends nothing for so long is given up; whoever sends a piece of a block
/// has earned as much again. An answer that is ready has to be taken on in the same time.
const STALLED: Duration = Duration::from_secs(60);

/// So many calls of one message, …
const MESSAGES_AT_A_TIME: usize = 1024;
/// … deliveries, which keep it as long as they wait for their share, …
const DELIVERIES_AT_A_TIME: usize = 1024;
/// … other streams …
const FETCHES_AT_A_TIME: usize = 1024;
/// … and questions for the status have a place at a time.
const QUESTIONS_AT_A_TIME: usize = 32;
/// Answers are handed on in pieces of this size, since those that were handed on wait in memory
/// for the client to take them.
const ANSWER_PIECE: usize = 16 << 10;

/// Gives out places and shares.
#[derive(Clone)]
pub struct Intake {
    budget: Arc<Budget>,
    /// For those whose message or stream is not read to its end: until it is, HTTP/2 lets each of
    /// them send some bytes unasked.
    messages: Arc<Semaphore>,
    deliveries: Arc<Semaphore>,
    fetches: Arc<Semaphore>,
    /// For those whose answer is not taken to its end.
    questions: Arc<Semaphore>,
}

impl Intake {
    /// Streams have shares of this budget.
    pub fn new(budget: Arc<Budget>) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Intake {
            budget,
            messages: places(MESSAGES_AT_A_TIME),
            deliveries: places(DELIVERIES_AT_A_TIME),
            fetches: places(FETCHES_AT_A_TIME),
            questions: places(QUESTIONS_AT_A_TIME),
        }
    }
}

impl Gate for Intake {
    fn pass<S>(&self, request: Request<Body>, service: &mut S) -> Answering<S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error: 'static>,
        S::Future: Send + 'static,
    {
        let Intake { budget, messages, deliveries, fetches, questions } = self;
        let path = request.uri().path();
        let (is_delivery, is_question) = (path == COMPLETE, path == STATUS);
        let is_stream = is_delivery || FETCHES.contains(&path);
        let places = match (is_delivery, is_stream, is_question) {
            (true, ..) => deliveries,
            (_, true, _) => fetches,
            (.., true) => questions,
            _ => messages,
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            let status = Status::resource_exhausted("too many such calls at a time: try again");
            return Box::pin(async move { Ok(status.into_http()) });
        };
        let (mut parts, body) = request.into_parts();
        let (read, answered) = if is_question { (None, Some(place)) } else { (Some(place), None) };
        let share = is_stream.then(|| CallShare(Arc::new(Mutex::new(budget.share()))));
        let reading = match share.clone() {
            Some(share) => {
                parts.extensions.insert(share.clone());
                Reading::new(body, Bound::Stream { share, growing: None }, STALLED, read)
            }
            None => Reading::new(body, Bound::Message { left: MESSAGE_BYTES }, MESSAGE_TIME, read),
        };
        let connection = parts.extensions.get::<Newcomer>().cloned();
        let response = service.call(Request::from_parts(parts, Body::new(reading)));
        let share = share.filter(|_| !is_delivery);
        let answer = |body| AnswerBody {
            body,
            rest: Bytes::new(),
            taking: Taking::of(connection),
            _place: answered,
            _share: share,
        };
        Box::pin(async move { Ok(response.await?.map(|body| Body::new(answer(body)))) })
    }
}

/// The share that a stream has of the budget.
#[derive(Clone)]
pub struct CallShare(Arc<Mutex<MemoryShare>>);

impl CallShare {
    /// The share of a call that has come through the layer.
    ///
    /// # Errors
    /// If it has not.
    pub fn of<T>(call: &Call<T>) -> Result<Self, Status> {
        let share = call.extensions().get::<CallShare>().cloned();
        share.ok_or_else(|| Status::internal("a stream without a share of the memory"))
    }

    /// Waits until the share covers these bytes, of which those that were read are a part.
    pub async fn cover(&self, bytes: usize) {
        self.0.lock().await.cover(bytes).await;
    }

    /// Waits until the share covers these bytes beside what was read.
    pub async fn cover_beside(&self, bytes: usize) {
        self.0.lock().await.cover_beside(bytes).await;
    }

    /// Gives back what is beyond these bytes.
    pub async fn shrink(&self, bytes: usize) {
        self.0.lock().await.shrink(bytes);
    }
}

type Growing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What bounds the bytes of a call.
enum Bound {
    Message {
        left: usize,
    },
    /// What has come is handed on when the share has grown.
    Stream {
        share: CallShare,
        growing: Option<(Growing, Frame<Bytes>)>,
    },
}

/// The body of a call as it is read.
struct Reading {
    body: Body,
    bound: Bound,
    /// The time that the client has left.
    patience: Duration,
    /// Since when the client is waited for, and until when.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    place: Option<OwnedSemaphorePermit>,
}

impl Reading {
    fn new(
        body: Body,
        bound: Bound,
        patience: Duration,
        place: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Reading { body, bound, patience, waiting: None, place }
    }

    /// The next frame, if the client sends one in time.
    fn poll_client(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            if let Some((since, _)) = self.waiting.take() {
                self.patience = self.patience.saturating_sub(since.elapsed());
            }
            return frame;
        }
        let patience = self.patience;
        let (_, end) =
            self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(patience))));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Some(Err(Status::deadline_exceeded("the call did not come in time"))))
    }
}

impl HttpBody for Reading {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if !matches!(this.bound, Bound::Stream { growing: Some(_), .. }) {
            let frame = match ready!(this.poll_client(context)) {
                Some(Ok(frame)) => frame,
                end => {
                    this.place = None;
                    return Poll::Ready(end);
                }
            };
            if this.body.is_end_stream() {
                this.place = None;
            }
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match &mut this.bound {
                Bound::Message { left } => {
                    let rest = left.checked_sub(bytes);
                    return Poll::Ready(Some(match rest {
                        Some(rest) => {
                            *left = rest;
                            Ok(frame)
                        }
                        None => Err(Status::out_of_range(format!(
                            "this call has at most {MESSAGE_BYTES} bytes"
                        ))),
                    }));
                }
                Bound::Stream { share, growing } => {
                    let earned = STALLED.mul_f64(bytes as f64 / PIECE_BYTES as f64);
                    this.patience = STALLED.min(this.patience + earned);
                    let share = share.clone();
                    let cover = async move { share.0.lock().await.cover_reading(bytes).await };
                    *growing = Some((Box::pin(cover), frame));
                }
            }
        }
        let Bound::Stream { growing, .. } = &mut this.bound else {
            return Poll::Ready(None);
        };
        if let Some((cover, _)) = growing {
            ready!(cover.as_mut().poll(context));
        }
        Poll::Ready(growing.take().map(|(_, frame)| Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        !matches!(self.bound, Bound::Stream { growing: Some(_), .. }) && self.body.is_end_stream()
    }
}

/// Ends the connection of a client that takes nothing of an answer for long. HTTP/2 asks for more
/// of an answer when the client has room for it, so that nobody who makes the answer would notice.
struct Taking {
    /// Since when the client is waited for; nothing while the answer is being made.
    since: Arc<Lock<Option<Instant>>>,
    _watched: DropGuard,
}

impl Taking {
    fn of(connection: Option<Newcomer>) -> Self {
        let since = Arc::new(Lock::new(Some(Instant::now())));
        let (watched, end) = (since.clone(), CancellationToken::new());
        let watch = async move {
            loop {
                let since = *watched.lock();
                match since.map(|since| since.elapsed()) {
                    Some(waited) if waited >= STALLED => break,
                    waited => sleep(STALLED - waited.unwrap_or_default()).await,
                }
            }
            if let Some(connection) = connection {
                tracing::warn!(host = %connection.host(), "an answer was not taken in time");
                connection.end();
            }
        };
        tokio::spawn(end.clone().run_until_cancelled_owned(watch));
        Taking { since, _watched: end.drop_guard() }
    }

    fn note<T>(&self, answer: &Poll<T>) {
        *self.since.lock() = answer.is_ready().then(Instant::now);
    }
}

/// An answer that keeps its place, or its share, until it is taken.
struct AnswerBody {
    body: Body,
    /// What is left of a piece that was too large.
    rest: Bytes,
    taking: Taking,
    _place: Option<OwnedSemaphorePermit>,
    _share: Option<CallShare>,
}

impl AnswerBody {
    /// The next piece, once it has been made.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let length = self.rest.len().min(ANSWER_PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let piece = self.poll_piece(context);
        self.taking.note(&piece);
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, net::IpAddr, pin::pin, task::Waker};

    use http_body_util::StreamBody;
    use tokio_stream::StreamExt;
    use tonic::Code;
    use tower::{Layer, service_fn};
    use trailtrap_worker::process::connections::Newcomers;

    use super::*;
    use crate::serve::gate::Through;

    const REGISTER: &str = "/trailtrap.v1.Census/Register";

    /// A call that sends so many frames, and then says nothing, or that this is all.
    fn call(path: &str, frames: usize, length: usize, ends: bool) -> Request<Body> {
        let frame = move |_| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![7; length])));
        let frames = tokio_stream::iter((0..frames).map(frame));
        let body = if ends {
            Body::new(StreamBody::new(frames))
        } else {
            Body::new(StreamBody::new(frames.chain(tokio_stream::pending())))
        };
        Request::builder().uri(path).body(body).unwrap()
    }

    /// Reads all that comes of a body, and adds up its bytes; the error that it ends with.
    async fn drain(mut body: Body, bytes: &mut usize) -> Result<(), Status> {
        while let Some(frame) =
            std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            *bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(())
    }

    /// Behind the layer, somebody who hands out what is to be read.
    fn bounded(
        intake: &Intake,
    ) -> impl Service<
        Request<Body>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Future<Output = Result<Response<Body>, Infallible>>,
    > {
        let echo = async |request: Request<Body>| Ok(Response::new(request.into_body()));
        Through(intake.clone())
            .layer(service_fn(move |request| Box::pin(echo(request)) as Pin<Box<_>>))
    }

    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn ask(intake: &Intake, request: Request<Body>) -> Response<Body> {
        at_once(bounded(intake).call(request)).unwrap().unwrap()
    }

    fn is_refused(response: &Response<Body>) -> bool {
        let code = Code::ResourceExhausted as i32;
        response.headers().get("grpc-status").is_some_and(|it| *it == code.to_string().as_str())
    }

    /// A clock that goes on when all wait.
    #[tokio::test(start_paused = true)]
    async fn a_message_is_small_and_comes_in_time() {
        let intake = Intake::new(Budget::new(1 << 20));
        for path in [REGISTER, STATUS, "/trailtrap.v1.Census/Unheard"] {
            let mut read = 0;
            let small = ask(&intake, call(path, 2, MESSAGE_BYTES / 2, true));
            drain(small.into_body(), &mut read).await.unwrap();
            assert_eq!(read, MESSAGE_BYTES, "{path}");
            read = 0;
            let large = ask(&intake, call(path, 1000, 1000, true));
            let error = drain(large.into_body(), &mut read).await.unwrap_err();
            assert_eq!(error.code(), Code::OutOfRange, "{path}");
            assert!(read <= MESSAGE_BYTES, "{read}");
            let slow = ask(&intake, call(path, 1, 10, false));
            let error = drain(slow.into_body(), &mut read).await.unwrap_err();
            assert_eq!(error.code(), Code::DeadlineExceeded, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_of_a_stream_loses_it_and_who_waits_for_room_does_not() {
        let budget = Budget::new(100);
        let intake = Intake::new(budget.clone());
        let mut read = 0;
        let silent = ask(&intake, call(COMPLETE, 1, 10, false));
        let error = drain(silent.into_body(), &mut read).await.unwrap_err();
        assert_eq!(error.code(), Code::DeadlineExceeded);
        let mut other = budget.share();
        other.cover(195).await;
        let waiting = ask(&intake, call(COMPLETE, 1, 10, true));
        let waiting = tokio::spawn(async move { drain(waiting.into_body(), &mut 0).await });
        sleep(100 * STALLED).await;
        assert!(!waiting.is_finished());
        drop(other);
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn streams_are_read_as_far_as_there_is_room() {
        let budget = Budget::new(1000);
        let intake = Intake::new(budget.clone());
        let (mut bodies, mut read) = (Vec::new(), 0);
        for _ in 0..50 {
            let mut body = ask(&intake, call(COMPLETE, 10, 100, false)).into_body();
            let mut next = || {
                at_once(std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)))
            };
            while let Some(frame) = next() {
                read += frame.unwrap().unwrap().data_ref().unwrap().len();
            }
            assert_eq!(budget.taken(), read);
            bodies.push(body);
        }
        assert_eq!(read, 1000 + 1000, "what there is room for, and one more, of 50000");
        drop(bodies);
        assert_eq!(budget.taken(), 0);
    }

    #[tokio::test]
    async fn places_are_for_those_whose_message_is_not_read() {
        let intake = Intake::new(Budget::new(1 << 20));
        let kinds = [
            (REGISTER, MESSAGES_AT_A_TIME),
            (COMPLETE, DELIVERIES_AT_A_TIME),
            (FETCHES[0], FETCHES_AT_A_TIME),
        ];
        for (path, places) in kinds {
            let ask = || ask(&intake, call(path, 1, 10, true));
            let mut open: Vec<_> = (0..places).map(|_| ask()).collect();
            assert!(!open.iter().any(is_refused) && is_refused(&ask()), "{path}");
            for (other, _) in kinds.iter().filter(|(other, _)| *other != path) {
                assert!(!is_refused(&self::ask(&intake, call(other, 1, 10, true))), "{other}");
            }
            let mut first = open.swap_remove(0).into_body();
            let mut next = || {
                at_once(std::future::poll_fn(|context| Pin::new(&mut first).poll_frame(context)))
            };
            assert!(next().unwrap().is_some() && next().unwrap().is_none());
            assert!(!is_refused(&ask()), "it was read to its end");
            drop(open);
            assert!(!is_refused(&ask()), "they have left");
        }
    }

    /// An answer may take as long as it does to be made.
    #[tokio::test(start_paused = true)]
    async fn who_does_not_take_an_answer_loses_the_connection() {
        let intake = Intake::new(Budget::new(1 << 20));
        let newcomers = Newcomers::new(3);
        let ask = |ends| {
            let (connection, ended) = newcomers.enter(IpAddr::from([127, 0, 0, 1]));
            let mut request = call(FETCHES[1], 2, 10, ends);
            request.extensions_mut().insert(connection);
            (ask(&intake, request).into_body(), ended)
        };
        let (_nothing_is_taken, lost) = ask(true);
        let (mut waiting, kept) = ask(false);
        let mut next =
            || at_once(std::future::poll_fn(|context| Pin::new(&mut waiting).poll_frame(context)));
        assert!(next().is_some() && next().is_some() && next().is_none());
        let (all, left) = ask(true);
        drain(all, &mut 0).await.unwrap();
        sleep(2 * STALLED).await;
        assert!(lost.is_cancelled() && !kept.is_cancelled() && !left.is_cancelled());
    }

    #[tokio::test]
    async fn an_answer_has_its_place_until_it_is_taken() {
        let intake = Intake::new(Budget::new(1 << 20));
        let ask = || ask(&intake, call(STATUS, 1, MESSAGE_BYTES, true));
        let mut open: Vec<_> = (0..QUESTIONS_AT_A_TIME).map(|_| ask()).collect();
        assert!(is_refused(&ask()));
        let mut answer = open.swap_remove(0).into_body();
        let mut next =
            || at_once(std::future::poll_fn(|context| Pin::new(&mut answer).poll_frame(context)));
        let mut pieces = Vec::new();
        while let Some(frame) = next().unwrap() {
            pieces.push(frame.unwrap().data_ref().unwrap().len());
            assert!(is_refused(&ask()));
        }
        assert_eq!(pieces, [ANSWER_PIECE; MESSAGE_BYTES / ANSWER_PIECE]);
        drop(answer);
        assert!(!is_refused(&ask()));
    }
}
