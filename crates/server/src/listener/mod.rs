//! Sockets: accepting, serving, and letting go of slow clients.
//!
//! ```text
//! accept ─► one task per connection ─► TLS, if there is any ─► HTTP/1.1 or HTTP/2 ─► router
//! shut: no new connections ─► requests under way are answered ─► after the grace time, cut
//! ```
//!
//! Holds always:
//! - A client that sends or reads nothing for long enough loses its connection: in a handshake, between
//!   requests, in the middle of one, and with HTTP/2 also when it only leaves one answer lying.
//! - There are at most [`CONNECTIONS_MAX`] connections, fewer where file descriptors are scarce;
//!   further ones wait in the kernel. Each has one request under way, with HTTP/2 at most
//!   [`STREAMS_MAX`](super::http2::STREAMS_MAX).
//! - Every connection's task is owned by its [`Door`] and ended when that is shut, with all requests.
//!
//! Elsewhere: what TLS is made of and who may ask (`access`).

mod http2;
mod preface;
mod stall;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use self::preface::Version;
use self::stall::StallGuard;
use icecore_access::{Access, PeerCertificate};

/// Connections at once. Many more than writes and reads at once, because most are idle.
const CONNECTIONS_MAX: usize = 4096;

/// The part of the file descriptors that connections may take. A store in a directory needs some for
/// its files, and a store that has none left fails.
const DESCRIPTORS_SHARE: usize = 2;

/// How long a client may take for the head of its next request. It is also how long an idle
/// connection is kept: longer than the 90 s after which Go's client, and with it Prometheus, closes
/// it from its side, because a connection closed by the server can cost a request in flight.
pub(super) const HEAD_WAIT_MAX: Duration = Duration::from_secs(100);

/// How long a TLS handshake may take: two round trips and some arithmetic.
const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes of a request's head. Selectors in a URL can be long; Go's servers take a megabyte.
pub(super) const HEAD_BYTES_MAX: u32 = 256 << 10;

/// Pause after a failed accept: usually there are no file descriptors left, and trying again at once
/// would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is spoken at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// Whichever the client begins with; over TLS it is told that both are there. The web
    /// configuration file can turn HTTP/2 off.
    Http1And2,
    /// gRPC, with TLS or without.
    Http2,
}

/// An open port with everything that came in through it.
pub(crate) struct Door {
    address: SocketAddr,
    stop: watch::Sender<()>,
    accepting: JoinHandle<JoinSet<()>>,
}

impl Door {
    /// Answers with `router`, over TLS whenever `access` has some. Requests carry an
    /// `Arc<PeerCertificate>` among their extensions where the client showed one. Who may ask is for
    /// the router to check.
    pub(crate) fn open(
        listener: TcpListener,
        router: Router,
        protocols: Protocols,
        access: Arc<Access>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let doorman = Doorman {
            router,
            protocols,
            access,
        };
        let accepting = tokio::spawn(accept(listener, Arc::new(doorman), stopped));
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

/// What every connection of a door needs.
struct Doorman {
    router: Router,
    protocols: Protocols,
    access: Arc<Access>,
}

async fn accept(
    listener: TcpListener,
    doorman: Arc<Doorman>,
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
                    connections.spawn(serve(stream, Arc::clone(&doorman), stop.clone()));
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

async fn serve(stream: TcpStream, doorman: Arc<Doorman>, stop: watch::Receiver<()>) {
    // Small answers must not wait for more to send. Failing to ask for it is no reason to stop.
    let _ = stream.set_nodelay(true);
    let ended = doorman.serve(StallGuard::new(stream), stop).await;
    if let Err(error) = ended {
        // Clients go away all the time; what matters was logged where it was noticed.
        tracing::debug!(error, "a connection ended early");
    }
}

/// Why a connection did not end as it should.
pub(super) type Broken = Box<dyn Error + Send + Sync>;

/// When a connection should end: requests under way are answered, no more are taken.
pub(super) struct Ending {
    pub(super) stop: watch::Receiver<()>,
    pub(super) clients_changed: watch::Receiver<()>,
}

impl Ending {
    pub(crate) async fn begins(&mut self) {
        tokio::select! {
            _ = self.stop.changed() => {}
            _ = self.clients_changed.changed() => {}
        }
    }
}

impl Doorman {
    async fn serve<S>(&self, stream: S, mut stop: watch::Receiver<()>) -> Result<(), Broken>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let ending = Ending {
            stop: stop.clone(),
            clients_changed: self.access.clients_changed(),
        };
        let tls = self.access.with_tls(|tls| {
            let config = match self.protocols {
                Protocols::Http2 => &tls.http2,
                Protocols::Http1And2 => &tls.http,
            };
            (Arc::clone(config), tls.verifies_clients())
        });
        let Some((config, verified)) = tls else {
            return self.serve_stream(stream, None, ending).await;
        };
        let handshake = TlsAcceptor::from(config).accept(stream);
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_WAIT_MAX, handshake) => shaken,
            _ = stop.changed() => return Ok(()),
        };
        let stream = match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => stream,
            Err(error) => {
                self.access.metrics.handshake_failed();
                return Err(error.into());
            }
        };
        let certificate = Access::certificate_of(stream.get_ref().1, verified);
        self.serve_stream(stream, certificate, ending).await
    }

    async fn serve_stream<S>(
        &self,
        mut stream: S,
        certificate: Option<Arc<PeerCertificate>>,
        mut ending: Ending,
    ) -> Result<(), Broken>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let caller = Caller {
            certificate,
            ..Caller::new(self.router.clone())
        };
        match self.protocols {
            Protocols::Http2 => return http2::serve(stream, caller, ending).await,
            Protocols::Http1And2 if self.access.is_http1_only() => {
                return serve_http1(stream, caller, ending).await;
            }
            Protocols::Http1And2 => {}
        }
        let asked = tokio::select! {
            asked = tokio::time::timeout(HEAD_WAIT_MAX, preface::read(&mut stream)) => asked,
            () = ending.begins() => return Ok(()),
        };
        let Ok(asked) = asked else {
            return Ok(());
        };
        let (version, begun) = asked?;
        let stream = preface::Begun::new(begun, stream);
        match version {
            Version::Http1 => serve_http1(stream, caller, ending).await,
            Version::Http2 => http2::serve(stream, caller, ending).await,
        }
    }
}

/// Passes the requests of one connection on.
#[derive(Clone)]
pub(super) struct Caller {
    router: TowerToHyperService<Router>,
    certificate: Option<Arc<PeerCertificate>>,
}

impl Caller {
    pub(super) fn new(router: Router) -> Self {
        Self {
            router: TowerToHyperService::new(router),
            certificate: None,
        }
    }

    pub(super) fn call(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, std::convert::Infallible>> + use<> {
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(Arc::clone(certificate));
        }
        self.router.call(request)
    }
}

async fn serve_http1<S>(stream: S, caller: Caller, mut ending: Ending) -> Result<(), Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let head_bytes_max = usize::try_from(HEAD_BYTES_MAX)?;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_header_size(head_bytes_max)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(move |request| caller.call(request)),
        );
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended?,
        () = ending.begins() => {
            connection.as_mut().graceful_shutdown();
            connection.await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_store() {
        assert_eq!(connections_max(None), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(1024)), 512);
        assert_eq!(connections_max(Some(1 << 20)), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(0)), 1);
    }

    fn doorman() -> Doorman {
        Doorman {
            router: Router::new().route("/", axum::routing::get(|| async { "here" })),
            protocols: Protocols::Http1And2,
            access: Access::open(None).unwrap(),
        }
    }

    /// Everything a connection answers to what is sent, and how long it stays open.
    async fn exchange(sent: &[u8], wait: Duration) -> (String, Duration) {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (_stop, stopped) = watch::channel(());
        let serving = tokio::spawn(async move { doorman().serve(near, stopped).await });
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
        request.resize(HEAD_BYTES_MAX as usize + 100, b'x');
        let (answered, _) = exchange(&request, HEAD_WAIT_MAX / 2).await;
        assert!(answered.starts_with("HTTP/1.1 431 "), "{answered}");
    }

    /// A door with TLS.
    fn tls_doorman() -> Doorman {
        let directory = tempfile::TempDir::new().unwrap();
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, text) in [
            ("cert.pem", signed.cert.pem()),
            ("key.pem", signed.signing_key.serialize_pem()),
            (
                "web.yml",
                "tls_server_config: {cert_file: cert.pem, key_file: key.pem}".into(),
            ),
        ] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        Doorman {
            access: Access::open(Some(directory.path().join("web.yml"))).unwrap(),
            ..doorman()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_stalls_is_given_up() {
        // The first bytes of a handshake record, and nothing after them.
        for sent in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
            let (near, mut far) = tokio::io::duplex(1 << 10);
            let (_stop, stopped) = watch::channel(());
            let doorman = tls_doorman();
            let began = tokio::time::Instant::now();
            far.write_all(sent).await.unwrap();
            doorman.serve(near, stopped).await.unwrap_err();
            assert_eq!(began.elapsed().as_secs(), HANDSHAKE_WAIT_MAX.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_does_not_wait_for_handshakes_and_idle_clients() {
        for doorman in [doorman(), tls_doorman()] {
            let (near, _far) = tokio::io::duplex(1 << 10);
            let (stop, stopped) = watch::channel(());
            let began = tokio::time::Instant::now();
            let (served, ()) = tokio::join!(doorman.serve(near, stopped), async {
                stop.send(()).unwrap();
            });
            served.unwrap();
            assert!(began.elapsed() < HANDSHAKE_WAIT_MAX);
        }
    }
}
