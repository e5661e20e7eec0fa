//! Listening sockets: accepting, serving, and disconnecting slow clients.
//!
//! ```text
//! accept ─► one task per connection ─► TLS, if there is any ─┬► HTTP/1.1 or HTTP/2 ─► router
//!                                                            └► line protocol, if there is one
//! shut: no new connections ─► requests under way are answered ─► after the grace time, cut
//! ```
//!
//! Holds always:
//! - A client that sends or reads nothing for long enough loses its connection: in a handshake,
//!   before its first byte, between requests, in the middle of one, and with HTTP/2 also when it
//!   only leaves one answer lying. A line protocol says how long its clients may be silent, once it
//!   is clear that they speak it.
//! - A port has at most [`CONNECTIONS_MAX`] connections, fewer where file descriptors are scarce,
//!   which all ports share; further ones wait in the kernel. Each has one request under way, with
//!   HTTP/2 at most [`STREAMS_MAX`](super::http2::STREAMS_MAX).
//! - One client address has at most its share of them ([`Shares`]); further ones are closed.
//! - Every connection's task is owned by its [`Listener`] and ended when that shuts down, with all
//!   requests.
//!
//! Elsewhere: TLS configuration and access control (`access`).

mod http2;
mod line;
mod preface;
mod shares;
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
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use self::line::{LineConnection, LineProtocol};
use self::preface::{Protocol, Rewind};
use self::shares::{Share, Shares};
use self::stall::StallGuard;
use icecore_access::{Access, PeerCertificate};

/// Connections at once. Many more than writes and reads at once, because most are idle.
const CONNECTIONS_MAX: usize = 4096;

/// The part of the file descriptors that the connections of all ports may take. A store in a
/// directory needs some for its files, and a store that has none left fails.
const DESCRIPTORS_SHARE: usize = 2;

/// How long a client may take for the head of its next request. It is also how long an idle
/// connection is kept: longer than the 90 s after which Go's client, and with it Prometheus, closes
/// it from its side, because a connection closed by the server can cost a request in flight.
pub(super) const HEAD_WAIT_MAX: Duration = Duration::from_secs(100);

/// Longest wait for the first byte of a client. Clients that connect ahead of what they have to
/// send connect again; silent ones would keep the places of others.
const FIRST_BYTE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long a TLS handshake may take: two round trips and some arithmetic.
const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes of a request's head. Selectors in a URL can be long; Go's servers take a megabyte.
pub(super) const HEAD_BYTES_MAX: u32 = 256 << 10;

/// Pause after a failed accept: usually there are no file descriptors left, and trying again at
/// once would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The versions of HTTP that a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// Whichever the client begins with; over TLS both are offered. The web
    /// configuration file can turn HTTP/2 off.
    Http1And2,
    /// gRPC, with TLS or without.
    Http2,
}

/// An open port and its connections.
pub(crate) struct Listener {
    address: SocketAddr,
    stop: watch::Sender<()>,
    accepting: JoinHandle<JoinSet<()>>,
}

impl Listener {
    pub(crate) fn open(
        socket: TcpListener,
        handler: ConnectionHandler,
        places: Places,
    ) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let accepting = tokio::spawn(accept(socket, Arc::new(handler), places, stopped));
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

/// Serves the connections of a listener.
pub struct ConnectionHandler {
    router: Router,
    protocols: Protocols,
    access: Arc<Access>,
    line_protocol: Option<Arc<dyn LineProtocol>>,
    path_prefix: &'static str,
}

/// Connections that a port may have, and that one client may have of them.
pub(crate) struct Places {
    connections_max: usize,
    shares: Shares,
}

impl Places {
    /// The places of one of so many ports. `client_share`: percent of them that one client address
    /// may have.
    pub(crate) fn new(ports: usize, client_share: usize) -> Self {
        let connections_max = connections_max(crate::metrics::open_files_max(), ports);
        Self {
            connections_max,
            shares: Shares::new(connections_max, client_share),
        }
    }
}

/// Both ends of a connection, as this server sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

async fn accept(
    socket: TcpListener,
    handler: Arc<ConnectionHandler>,
    places: Places,
    mut stop: watch::Receiver<()>,
) -> JoinSet<()> {
    let connections_max = places.connections_max;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.changed() => return connections,
            // Forgets tasks that have ended.
            Some(_) = connections.join_next() => {}
            accepted = socket.accept(), if connections.len() < connections_max => match accepted {
                Ok((stream, peer)) => {
                    // Without a share the connection is closed here.
                    if let Some(share) = places.shares.take(peer.ip()) {
                        let handler = Arc::clone(&handler);
                        connections.spawn(serve(stream, peer, handler, stop.clone(), share));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Connections of one of so many ports that fit into what the operating system allows.
fn connections_max(open_files_max: Option<usize>, ports: usize) -> usize {
    let share = |files: usize| files / DESCRIPTORS_SHARE / ports.max(1);
    let share = open_files_max.map_or(CONNECTIONS_MAX, share);
    share.clamp(1, CONNECTIONS_MAX)
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    handler: Arc<ConnectionHandler>,
    stop: watch::Receiver<()>,
    _share: Share,
) {
    // Small answers must not wait for more to send. Failing to ask for it is no reason to stop.
    let _ = stream.set_nodelay(true);
    let served = async {
        let ends = Ends {
            client: peer,
            server: stream.local_addr()?,
        };
        handler.serve(StallGuard::new(stream), ends, stop).await
    };
    if let Err(error) = served.await {
        // Clients go away all the time; what matters was logged where it was noticed.
        tracing::debug!(error, "connection failed");
    }
}

/// Why a connection ended early.
pub(super) type ConnectionError = Box<dyn Error + Send + Sync>;

/// Tells a connection to close: requests under way are answered, no more are taken.
pub(super) struct CloseSignal {
    pub(super) stop: watch::Receiver<()>,
    pub(super) clients_changed: watch::Receiver<()>,
}

impl CloseSignal {
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.stop.changed() => {}
            _ = self.clients_changed.changed() => {}
        }
    }
}

impl ConnectionHandler {
    /// Answers with `router`, over TLS whenever `access` has some. Requests carry the `SocketAddr`
    /// of the client and the [`Ends`] of the connection among their extensions, and an
    /// `Arc<PeerCertificate>` where the client showed one.
    /// The router checks access.
    pub(crate) fn new(router: Router, protocols: Protocols, access: Arc<Access>) -> Self {
        Self {
            router,
            protocols,
            access,
            line_protocol: None,
            path_prefix: "",
        }
    }

    /// Routes requests as if this stood before their paths.
    pub fn with_path_prefix(self, path_prefix: &'static str) -> Self {
        Self {
            path_prefix,
            ..self
        }
    }

    /// Hands connections that do not begin as HTTP does to `protocol`.
    pub fn with_line_protocol(self, protocol: Arc<dyn LineProtocol>) -> Self {
        Self {
            line_protocol: Some(protocol),
            ..self
        }
    }

    async fn serve<S>(
        &self,
        stream: S,
        ends: Ends,
        mut stop: watch::Receiver<()>,
    ) -> Result<(), ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let close = CloseSignal {
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
            return self.serve_stream(stream, ends, None, close).await;
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
        self.serve_stream(stream, ends, certificate, close).await
    }

    async fn serve_stream<S>(
        &self,
        mut stream: S,
        ends: Ends,
        certificate: Option<Arc<PeerCertificate>>,
        mut close: CloseSignal,
    ) -> Result<(), ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = RequestService {
            certificate: certificate.clone(),
            ends: Some(ends),
            path_prefix: self.path_prefix,
            ..RequestService::new(self.router.clone())
        };
        let line_protocol = self.line_protocol.as_ref();
        let has_line_protocol = line_protocol.is_some();
        let idle_max = line_protocol.map_or(Some(HEAD_WAIT_MAX), |protocol| protocol.idle_max());
        let at_most = |limit: Duration| Some(idle_max.map_or(limit, |idle| idle.min(limit)));
        let first = preface::first_bytes(&mut stream);
        let first = tokio::select! {
            first = line::within(at_most(FIRST_BYTE_WAIT_MAX), first) => first,
            () = close.received() => return Ok(()),
        };
        let first = match first {
            Some(first) => first?,
            None => return Ok(()),
        };
        if first.is_empty() {
            return Ok(());
        }
        let mut stream = Rewind::new(first, stream);
        let is_http1_only = self.access.is_http1_only();
        match self.protocols {
            Protocols::Http2 => return http2::serve(stream, service, close).await,
            Protocols::Http1And2 if is_http1_only && !has_line_protocol => {
                return serve_http1(stream, service, close).await;
            }
            Protocols::Http1And2 => {}
        }
        let preface = preface::read(&mut stream, has_line_protocol);
        let preface = tokio::select! {
            preface = line::within(at_most(HEAD_WAIT_MAX), preface) => preface,
            () = close.received() => return Ok(()),
        };
        let Some(preface) = preface else {
            return Ok(());
        };
        let (protocol, first) = preface?;
        let stream = Rewind::new(first, stream);
        match (protocol, &self.line_protocol) {
            (Protocol::Line, Some(line_protocol)) => {
                let stream = Box::new(stream);
                let connection =
                    LineConnection::new(stream, ends.client, certificate, close, idle_max);
                Ok(line_protocol.serve(connection).await?)
            }
            (Protocol::Http2, _) if !is_http1_only => http2::serve(stream, service, close).await,
            _ => serve_http1(stream, service, close).await,
        }
    }
}

/// Passes the requests of one connection on.
#[derive(Clone)]
pub(super) struct RequestService {
    router: TowerToHyperService<Router>,
    certificate: Option<Arc<PeerCertificate>>,
    ends: Option<Ends>,
    path_prefix: &'static str,
}

impl RequestService {
    pub(super) fn new(router: Router) -> Self {
        Self {
            router: TowerToHyperService::new(router),
            certificate: None,
            ends: None,
            path_prefix: "",
        }
    }

    pub(super) fn call(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, std::convert::Infallible>> + use<> {
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(Arc::clone(certificate));
        }
        if let Some(ends) = self.ends {
            request.extensions_mut().insert(ends.client);
            request.extensions_mut().insert(ends);
        }
        let prefix = self.path_prefix;
        if !prefix.is_empty() {
            *request.uri_mut() = prefixed(request.uri(), prefix);
        }
        let answered = self.router.call(request);
        async move {
            let mut response = answered.await?;
            if !prefix.is_empty() {
                strip_location(&mut response, prefix);
            }
            Ok(response)
        }
    }
}

/// Takes off the target of a redirect what was put before the path of its request.
fn strip_location(response: &mut Response<Body>, prefix: &str) {
    let Some(location) = response.headers().get(header::LOCATION) else {
        return;
    };
    let target = location.to_str().ok();
    let stripped = target.and_then(|target| target.strip_prefix(prefix));
    let stripped = stripped.filter(|path| path.starts_with('/'));
    if let Some(Ok(location)) = stripped.map(HeaderValue::from_str) {
        response.headers_mut().insert(header::LOCATION, location);
    }
}

/// An address with something before its path, which alone is the root. One that has no path stays
/// as it is; the host stays in any case.
fn prefixed(uri: &Uri, prefix: &str) -> Uri {
    let Some(target) = uri.path_and_query() else {
        return uri.clone();
    };
    let target = target.as_str();
    let target = match target.strip_prefix('/') {
        Some(rest) if rest.is_empty() || rest.starts_with('?') => format!("{prefix}{rest}"),
        Some(_) => format!("{prefix}{target}"),
        // `*` is what OPTIONS may ask for instead of a path.
        None => format!("{prefix}/{target}"),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = target.parse().ok();
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

async fn serve_http1<S>(
    stream: S,
    service: RequestService,
    mut close: CloseSignal,
) -> Result<(), ConnectionError>
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
            service_fn(move |request| service.call(request)),
        );
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended?,
        () = close.received() => {
            connection.as_mut().graceful_shutdown();
            connection.await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_store() {
        assert_eq!(connections_max(None, 3), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(1024), 1), 512);
        assert_eq!(connections_max(Some(1024), 2), 256, "ports share them");
        assert_eq!(connections_max(Some(1 << 20), 3), CONNECTIONS_MAX);
        assert_eq!(connections_max(Some(0), 1), 1);
    }

    #[test]
    fn prefixes_stand_before_paths_and_keep_the_host() {
        for (uri, expected) in [
            ("/", "/opentsdb"),
            ("/?a=b", "/opentsdb?a=b"),
            ("/api/put?details", "/opentsdb/api/put?details"),
            ("http://host:4242/api", "http://host:4242/opentsdb/api"),
            ("http://host", "http://host/opentsdb"),
            ("*", "/opentsdb/*"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(prefixed(&uri, "/opentsdb").to_string(), expected);
        }
    }

    const ENDS: Ends = Ends {
        client: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
        server: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2),
    };

    fn handler() -> ConnectionHandler {
        let router = Router::new().route("/", axum::routing::get(|| async { "here" }));
        ConnectionHandler::new(router, Protocols::Http1And2, Access::open(None).unwrap())
    }

    /// Everything a connection answers to what is sent, and how long it stays open.
    async fn exchange(sent: &[u8], wait: Duration) -> (String, Duration) {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (_stop, stopped) = watch::channel(());
        let serving = tokio::spawn(async move { handler().serve(near, ENDS, stopped).await });
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

    fn tls_handler() -> ConnectionHandler {
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
        ConnectionHandler {
            access: Access::open(Some(directory.path().join("web.yml"))).unwrap(),
            ..handler()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_stalls_is_given_up() {
        // The first bytes of a handshake record, and nothing after them.
        for sent in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
            let (near, mut far) = tokio::io::duplex(1 << 10);
            let (_stop, stopped) = watch::channel(());
            let handler = tls_handler();
            let began = tokio::time::Instant::now();
            far.write_all(sent).await.unwrap();
            handler.serve(near, ENDS, stopped).await.unwrap_err();
            assert_eq!(began.elapsed().as_secs(), HANDSHAKE_WAIT_MAX.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_does_not_wait_for_handshakes_and_idle_clients() {
        for handler in [handler(), tls_handler()] {
            let (near, _far) = tokio::io::duplex(1 << 10);
            let (stop, stopped) = watch::channel(());
            let began = tokio::time::Instant::now();
            let (served, ()) = tokio::join!(handler.serve(near, ENDS, stopped), async {
                stop.send(()).unwrap();
            });
            served.unwrap();
            assert!(began.elapsed() < HANDSHAKE_WAIT_MAX);
        }
    }
}
