//! Sockets: accepting, serving, and letting go of slow clients.
//!
//! ```text
//! accept ─► one task per connection ─► hyper ─► router
//! shut: no new connections ─► requests under way are answered ─► after the grace time, cut
//! ```
//!
//! Holds always:
//! - A client that sends or reads nothing for long enough loses its connection.
//! - There are at most [`CONNECTIONS_MAX`] connections, fewer where file descriptors are scarce;
//!   further ones wait in the kernel.
//! - Every connection's task is owned by its [`Door`] and ended when that is shut.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Sleep;

/// Connections at once. Many more than writes and reads at once, because most are idle.
const CONNECTIONS_MAX: usize = 4096;

/// The part of the file descriptors that connections may take. A store in a directory needs some for
/// its files, and a store that has none left fails.
const DESCRIPTORS_SHARE: usize = 2;

/// How long a client may take for the head of its next request. It is also how long an idle
/// connection is kept: longer than the 90 s after which Go's client, and with it Prometheus, closes
/// it from its side, because a connection closed by the server can cost a request in flight.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(100);

/// How long a client may read nothing of an answer that waits for it.
const WRITE_STALL_MAX: Duration = Duration::from_secs(60);

/// Bytes of a request's head. Selectors in a URL can be long; Go's servers take a megabyte.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// Pause after a failed accept: usually there are no file descriptors left, and trying again at once
/// would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An open port with everything that came in through it.
pub(crate) struct Door {
    address: SocketAddr,
    stop: watch::Sender<()>,
    accepting: JoinHandle<JoinSet<()>>,
}

impl Door {
    pub(crate) fn open(listener: TcpListener, router: Router) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let accepting = tokio::spawn(accept(listener, router, stopped));
        Ok(Self {
            address,
            stop,
            accepting,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, answers what is under way and returns; whether all of it was answered
    /// within the grace time.
    pub(crate) async fn shut(self, grace: Duration) -> bool {
        // Without a receiver the task has ended, and with it every connection.
        let _ = self.stop.send(());
        let Ok(mut connections) = self.accepting.await else {
            return false;
        };
        let all_done = async { while connections.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(grace, all_done).await.is_ok();
        connections.shutdown().await;
        in_time
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    mut stop: watch::Receiver<()>,
) -> JoinSet<()> {
    let connections_max = connections_max(crate::metrics::open_files_max());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.changed() => return connections,
            // Tasks that have ended are let go of as others come.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < connections_max => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, router.clone(), stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Connections that fit into what the operating system allows.
fn connections_max(open_files_max: Option<usize>) -> usize {
    let share = open_files_max.map_or(CONNECTIONS_MAX, |files| files / DESCRIPTORS_SHARE);
    share.clamp(1, CONNECTIONS_MAX)
}

async fn serve(stream: TcpStream, router: Router, stop: watch::Receiver<()>) {
    // Small answers must not wait for more to send. Failing to ask for it is no reason to stop.
    let _ = stream.set_nodelay(true);
    if let Err(error) = serve_stream(stream, router, stop).await {
        // Clients go away all the time; what matters was logged where it was noticed.
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn serve_stream<S>(
    stream: S,
    router: Router,
    mut stop: watch::Receiver<()>,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(StallGuard::new(stream));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(io, TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// A stream whose writes fail when the other side takes nothing for [`WRITE_STALL_MAX`].
struct StallGuard<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    /// Passes on what became of a write, or gives up on it.
    fn guard<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL_MAX)));
        stalled
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.guard(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.guard(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.guard(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stalls_is_given_up() {
        let (near, _far) = tokio::io::duplex(4);
        let began = tokio::time::Instant::now();
        let error = StallGuard::new(near).write_all(b"12345678").await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WRITE_STALL_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for() {
        let (near, mut far) = tokio::io::duplex(4);
        let reader = tokio::spawn(async move {
            let mut received = [0; 8];
            for byte in received.chunks_mut(1) {
                tokio::time::sleep(WRITE_STALL_MAX / 2).await;
                far.read_exact(byte).await.unwrap();
            }
            received
        });
        let mut near = StallGuard::new(near);
        near.write_all(b"12345678").await.unwrap();
        assert_eq!(&reader.await.unwrap(), b"12345678");
    }

    #[test]
    fn connections_leave_descriptors_to_the_store() {
        assert_eq!(connections_max(None), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(1024)), 512);
        assert_eq!(connections_max(Some(1 << 20)), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(0)), 1);
    }

    /// Everything a connection answers to what is sent, and how long it stays open.
    async fn exchange(sent: &[u8], wait: Duration) -> (String, Duration) {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (_stop, stopped) = watch::channel(());
        let router = Router::new().route("/", axum::routing::get(|| async { "here" }));
        let serving = tokio::spawn(serve_stream(near, router, stopped));
        let began = tokio::time::Instant::now();
        let (mut answers, mut requests) = tokio::io::split(far);
        requests.write_all(sent).await.unwrap();
        let mut answered = String::new();
        // An error of the connection ends the stream just as well.
        let read = answers.read_to_string(&mut answered);
        let _ = tokio::time::timeout(wait, read)
            .await
            .expect("open for too long");
        let _ = serving.await.unwrap();
        (answered, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_waited_for_only_so_long() {
        let (answered, time) = exchange(b"GET / HTTP/1.1\r\nHos", 2 * HEAD_WAIT_MAX).await;
        assert_eq!(answered, "");
        assert!(time >= HEAD_WAIT_MAX, "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_kept_and_then_closed() {
        let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let (answered, time) = exchange(&request.repeat(2), 2 * HEAD_WAIT_MAX).await;
        assert_eq!(answered.matches("HTTP/1.1 200 OK").count(), 2, "{answered}");
        assert!(time >= HEAD_WAIT_MAX, "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_is_too_long_is_refused() {
        let mut request = b"GET / HTTP/1.1\r\nX: ".to_vec();
        request.resize(HEAD_BYTES_MAX + 100, b'x');
        let (answered, _) = exchange(&request, HEAD_WAIT_MAX / 2).await;
        assert!(answered.starts_with("HTTP/1.1 431 "), "{answered}");
    }
}
