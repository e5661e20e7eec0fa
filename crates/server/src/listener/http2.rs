//! HTTP/2 connections: several requests at once, and a check for clients that stop reading.
//!
//! A client of HTTP/2 can go on talking and still take nothing of an answer: each has a window of
//! its own, and an empty one looks like any other wait. So each answer records when its last piece
//! was handed over, and the connection checks them all.
//!
//! Holds always: tasks of requests end with their connection.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::listener::stall::WRITE_STALL_MAX;
use crate::listener::{
    CloseSignal, ConnectionError, HEAD_BYTES_MAX, HEAD_WAIT_MAX, RequestService,
};

/// Requests of one connection at once: what RFC 9113 asks for at least. More of them wait at the
/// client.
pub(super) const STREAMS_MAX: u32 = 100;

/// Bytes that a client may send ahead, per request and in all: they lie in memory until a handler
/// reads them.
const REQUEST_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of an answer that wait for its client's window.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// A client that is silent for this long is asked whether it is still there.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long it may take to say so.
const PONG_WAIT_MAX: Duration = Duration::from_secs(20);

/// Interval between checks of a connection's requests.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client that has no more requests may take to hang up when it was told to, and to read
/// the end of its last answer, of which [`SEND_BUFFER_BYTES`] may be on their way.
const HANG_UP_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn serve<S>(
    stream: S,
    service: RequestService,
    mut close: CloseSignal,
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let requests = Requests::new();
    let tracked = Arc::clone(&requests);
    let service = service_fn(move |request| {
        let request_guard = ActiveRequest::new(&tracked);
        let answering = service.call(request);
        async move {
            let response = answering.await;
            response.map(|response| {
                response.map(|body| TrackedBody {
                    body,
                    request: request_guard,
                })
            })
        }
    });
    let tasks = StreamTasks::default();
    let _abort_on_drop = AbortOnDrop(tasks.clone());
    let connection = http2::Builder::new(tasks)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(REQUEST_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(SILENCE_MAX)
        .keep_alive_timeout(PONG_WAIT_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut check = tokio::time::interval(CHECK_INTERVAL);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut closing_since = None;
    loop {
        let should_close = tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            () = close.received(), if closing_since.is_none() => true,
            now = check.tick() => match (requests.state(now), closing_since) {
                (State::Stalled, _) => return Err("client stopped reading a response".into()),
                (State::Idle(time), Some(since))
                    if time.min(now.duration_since(since)) > HANG_UP_MAX =>
                {
                    return Ok(());
                }
                (State::Idle(time), None) => time > HEAD_WAIT_MAX,
                (State::Idle(_) | State::Busy, _) => false,
            },
        };
        if should_close {
            closing_since = Some(Instant::now());
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Runs the requests of one connection, and ends them with it.
#[derive(Clone, Default)]
struct StreamTasks(Arc<Mutex<JoinSet<()>>>);

/// Ends what still runs. Dropping the set alone would not do: each task has a share in it.
struct AbortOnDrop(StreamTasks);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.0.lock().abort_all();
    }
}

impl<F> Executor<F> for StreamTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let mut tasks = self.0.lock();
        // Forgets tasks that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future);
    }
}

/// The requests of one connection.
struct Requests(Mutex<RequestTable>);

struct RequestTable {
    active: usize,
    /// Since when there are none.
    idle_since: Instant,
    /// When the last piece of each answer was handed over, until its next one is requested.
    handed_over: HashMap<u64, Instant>,
    next_id: u64,
}

enum State {
    Busy,
    Idle(Duration),
    Stalled,
}

impl Requests {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(RequestTable {
            active: 0,
            idle_since: Instant::now(),
            handed_over: HashMap::new(),
            next_id: 0,
        })))
    }

    fn state(&self, now: Instant) -> State {
        let table = self.0.lock();
        let stalled = |since: &Instant| now.duration_since(*since) > WRITE_STALL_MAX;
        if table.handed_over.values().any(stalled) {
            State::Stalled
        } else if table.active == 0 {
            State::Idle(now.duration_since(table.idle_since))
        } else {
            State::Busy
        }
    }
}

/// One request of a connection, from its head to the end of its answer.
struct ActiveRequest {
    requests: Arc<Requests>,
    id: u64,
}

impl ActiveRequest {
    fn new(requests: &Arc<Requests>) -> Self {
        let mut table = requests.0.lock();
        table.active += 1;
        let id = table.next_id;
        table.next_id += 1;
        drop(table);
        Self {
            requests: Arc::clone(requests),
            id,
        }
    }

    fn handed_over(&self) {
        let mut table = self.requests.0.lock();
        table.handed_over.insert(self.id, Instant::now());
    }

    /// It is ours to produce the next piece.
    fn requested(&self) {
        self.requests.0.lock().handed_over.remove(&self.id);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut table = self.requests.0.lock();
        table.handed_over.remove(&self.id);
        table.active = table.active.saturating_sub(1);
        if table.active == 0 {
            table.idle_since = Instant::now();
        }
    }
}

/// The body of an answer, watched.
struct TrackedBody {
    body: Body,
    request: ActiveRequest,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.request.handed_over(),
            Poll::Ready(None | Some(Err(_))) | Poll::Pending => self.request.requested(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use futures::stream;
    use http_body_util::{BodyExt as _, Empty};
    use hyper::Request;
    use hyper::client::conn::http2::SendRequest;
    use hyper_util::rt::TokioExecutor;
    use tokio::sync::{oneshot, watch};
    use tokio::task::JoinHandle;

    use super::*;

    type Ended = JoinHandle<(Result<(), ConnectionError>, Duration)>;

    /// A connection to a server with an endless answer, a slow one and a quick one.
    async fn connected(stop: watch::Receiver<()>) -> (SendRequest<Empty<Bytes>>, Ended) {
        let piece = || async { Ok::<_, std::io::Error>(Bytes::from_static(&[7; 4096])) };
        let endless = move || async move {
            Body::from_stream(stream::unfold((), move |()| async move {
                Some((piece().await, ()))
            }))
        };
        let slow = || async {
            tokio::time::sleep(2 * WRITE_STALL_MAX).await;
            "slow"
        };
        let router = Router::new()
            .route("/endless", get(endless))
            .route("/slow", get(slow))
            .route("/quick", get(|| async { "quick" }));
        let (near, far) = tokio::io::duplex(1 << 16);
        let began = Instant::now();
        let ended = tokio::spawn(async move {
            // Kept, so that nothing seems to have changed.
            let kept = watch::Sender::new(());
            let close = CloseSignal {
                stop,
                clients_changed: kept.subscribe(),
            };
            let served = serve(near, RequestService::new(router), close).await;
            (served, began.elapsed())
        });
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(far))
                .await
                .unwrap();
        tokio::spawn(connection);
        (sender, ended)
    }

    fn request(path: &str) -> Request<Empty<Bytes>> {
        let uri = format!("http://test{path}");
        Request::get(uri).body(Empty::new()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_left_lying_ends_the_connection() {
        let (_stop, stopped) = watch::channel(());
        let (mut sender, ended) = connected(stopped).await;
        let left = sender.send_request(request("/endless")).await.unwrap();
        // Others are answered meanwhile.
        let quick = sender.send_request(request("/quick")).await.unwrap();
        assert_eq!(
            quick.into_body().collect().await.unwrap().to_bytes(),
            "quick"
        );
        let (served, time) = ended.await.unwrap();
        assert!(served.is_err());
        assert!(time >= WRITE_STALL_MAX, "{time:?}");
        drop(left);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_no_stall() {
        let (_stop, stopped) = watch::channel(());
        let (mut sender, _ended) = connected(stopped).await;
        let slow = sender.send_request(request("/slow")).await.unwrap();
        assert_eq!(slow.into_body().collect().await.unwrap().to_bytes(), "slow");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_kept_and_then_closed() {
        let (_stop, stopped) = watch::channel(());
        let (mut sender, ended) = connected(stopped).await;
        let quick = sender.send_request(request("/quick")).await.unwrap();
        assert_eq!(
            quick.into_body().collect().await.unwrap().to_bytes(),
            "quick"
        );
        // The client may be the first to hang up.
        let (_, time) = ended.await.unwrap();
        assert!(time >= HEAD_WAIT_MAX, "{time:?}");
        drop(sender);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_waits_for_what_was_accepted() {
        let (stop, stopped) = watch::channel(());
        let (mut sender, ended) = connected(stopped).await;
        let (begun, has_begun) = oneshot::channel();
        let mut slow_sender = sender.clone();
        let slow = tokio::spawn(async move {
            let sending = slow_sender.send_request(request("/slow"));
            begun.send(()).unwrap();
            let slow = sending.await?;
            Ok::<_, ConnectionError>(slow.into_body().collect().await?.to_bytes())
        });
        has_begun.await.unwrap();
        // What is answered after it was sent after it: the slow one has arrived.
        sender.send_request(request("/quick")).await.unwrap();
        stop.send(()).unwrap();
        let answered = slow.await.unwrap();
        let (served, time) = ended.await.unwrap();
        assert!(served.is_ok(), "{served:?} {time:?}");
        assert_eq!(answered.unwrap(), "slow");
    }
}
