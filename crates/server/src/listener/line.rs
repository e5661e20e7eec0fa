//! Protocols of text lines that share a port with HTTP, such as OpenTSDB's telnet commands.
//!
//! Over TLS where the port has it: nothing is spoken in the clear beside HTTPS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use icecore_access::PeerCertificate;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::CloseSignal;

/// Bytes that are handed over at once, by a client that sends much.
const READ_BYTES_MAX: usize = 64 << 10;

/// Room that a connection waits with: thousands of silent ones should take little.
const READ_BYTES_MIN: usize = 2 << 10;

/// What connections are handed to that do not begin as HTTP does.
pub trait LineProtocol: Send + Sync {
    /// Serves one connection; it is closed when this returns. It must return soon after
    /// [`LineConnection::next_bytes`] has given the last ones.
    fn serve(&self, connection: LineConnection) -> BoxFuture<'static, io::Result<()>>;

    /// How long a client may send nothing; `None`: for ever.
    fn idle_max(&self) -> Option<Duration>;
}

/// What comes within a time, if there is one.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    coming: impl Future<Output = T>,
) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, coming).await.ok(),
        None => Some(coming.await),
    }
}

pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A connection of a [`LineProtocol`], from its first byte. Writes fail when the client reads
/// nothing for long, as for every connection.
pub struct LineConnection {
    stream: Box<dyn ByteStream>,
    peer: SocketAddr,
    certificate: Option<Arc<PeerCertificate>>,
    close: CloseSignal,
    idle_max: Option<Duration>,
    /// Room for the next read: twice what the last one filled.
    read_bytes: usize,
}

impl LineConnection {
    pub(super) fn new(
        stream: Box<dyn ByteStream>,
        peer: SocketAddr,
        certificate: Option<Arc<PeerCertificate>>,
        close: CloseSignal,
        idle_max: Option<Duration>,
    ) -> Self {
        Self {
            stream,
            peer,
            certificate,
            close,
            idle_max,
            read_bytes: READ_BYTES_MIN,
        }
    }

    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The client's certificate, where TLS asked for one.
    pub fn certificate(&self) -> Option<&PeerCertificate> {
        self.certificate.as_deref()
    }

    /// What has arrived: some lines, the last of them perhaps only in part. None when the client
    /// has closed, sent nothing for [`LineProtocol::idle_max`], or the server shuts down.
    pub async fn next_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::with_capacity(self.read_bytes);
        let read = tokio::select! {
            read = within(self.idle_max, self.stream.read_buf(&mut bytes)) => read,
            () = self.close.received() => return Ok(None),
        };
        match read {
            None | Some(Ok(0)) => Ok(None),
            Some(read) => {
                self.read_bytes = (read? * 2).clamp(READ_BYTES_MIN, READ_BYTES_MAX);
                Ok(Some(bytes))
            }
        }
    }

    /// Reads nothing for a time; false as soon as the server shuts down, whose grace time is short.
    pub async fn pause(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            _ = self.close.stop.changed() => false,
        }
    }

    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Empty};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use icecore_access::Access;
    use tokio::net::{TcpListener, TcpStream};

    use super::super::{
        ConnectionHandler, Ends, FIRST_BYTE_WAIT_MAX, HEAD_WAIT_MAX, Listener, Places, Protocols,
    };
    use super::*;

    struct Echo {
        idle_max: Option<Duration>,
    }

    const ECHO: Echo = Echo {
        idle_max: Some(Duration::from_secs(7)),
    };

    impl LineProtocol for Echo {
        fn idle_max(&self) -> Option<Duration> {
            self.idle_max
        }

        fn serve(&self, mut connection: LineConnection) -> BoxFuture<'static, io::Result<()>> {
            Box::pin(async move {
                assert!(connection.peer().ip().is_loopback());
                assert!(connection.certificate().is_none());
                while let Some(bytes) = connection.next_bytes().await? {
                    connection
                        .write_all(&[b"> ", bytes.as_slice()].concat())
                        .await?;
                }
                Ok(())
            })
        }
    }

    async fn listener() -> Listener {
        let socket = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let router = Router::new().route("/", axum::routing::get(|| async { "http" }));
        let access = Access::open(None).unwrap();
        let handler = ConnectionHandler::new(router, Protocols::Http1And2, access);
        let handler = handler.with_line_protocol(Arc::new(ECHO));
        Listener::open(socket, handler, Places::new(1, 100)).unwrap()
    }

    /// Everything that is answered to what is sent at once, until the server closes.
    async fn answer(address: SocketAddr, sent: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answered = String::new();
        stream.read_to_string(&mut answered).await.unwrap();
        answered
    }

    #[tokio::test]
    async fn http1_http2_and_lines_share_a_port() {
        let listener = listener().await;
        let address = listener.address();
        let lines = answer(address, b"put a 1 2\r\nSTATS\nexit").await;
        assert_eq!(lines, "> put a 1 2\r\nSTATS\nexit");
        let http1 = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let http1 = answer(address, http1).await;
        assert!(http1.starts_with("HTTP/1.1 200 OK"), "{http1}");
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::get("http://x/").body(Empty::<Bytes>::new());
        let http2 = sender.send_request(request.unwrap()).await.unwrap();
        let body = http2.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "http");
        drop(sender);
    }

    #[tokio::test]
    async fn shutdown_closes_line_connections() {
        let listener = listener().await;
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        stream.write_all(b"hello\n").await.unwrap();
        let mut echo = [0; 8];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(&echo, b"> hello\n");
        assert!(listener.shut(Duration::from_secs(60)).await);
        assert_eq!(stream.read(&mut echo).await.unwrap(), 0);
    }

    /// How long a connection is kept on which this was sent, and nothing more for a week.
    async fn kept(echo: Echo, sent: &[u8]) -> Duration {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let access = Access::open(None).unwrap();
        let handler = ConnectionHandler::new(Router::new(), Protocols::Http1And2, access)
            .with_line_protocol(Arc::new(echo));
        let (_stop, stopped) = tokio::sync::watch::channel(());
        far.write_all(sent).await.unwrap();
        let began = tokio::time::Instant::now();
        let ends = Ends {
            client: SocketAddr::from(([127, 0, 0, 1], 1)),
            server: SocketAddr::from(([127, 0, 0, 1], 2)),
        };
        let served = handler.serve(near, ends, stopped);
        // A request of HTTP that is not finished ends with an error.
        let _ = tokio::time::timeout(WEEK, served).await;
        began.elapsed()
    }

    const WEEK: Duration = Duration::from_secs(7 * 86400);

    #[tokio::test(start_paused = true)]
    async fn silent_clients_are_closed_if_the_protocol_says_so() {
        for sent in [&b"hello\n"[..], b"hello"] {
            assert_eq!(kept(ECHO, sent).await.as_secs(), 7);
            let patient = Echo { idle_max: None };
            assert!(kept(patient, sent).await >= WEEK);
        }
        // What begins as HTTP does, or as HTTP may, is closed as HTTP is.
        for sent in [&b"GET / HT"[..], b"GE"] {
            let patient = Echo { idle_max: None };
            let time = kept(patient, sent).await;
            assert_eq!(time.as_secs(), HEAD_WAIT_MAX.as_secs());
        }
        // A client that has said nothing yet speaks no protocol that could be patient.
        assert_eq!(kept(ECHO, b"").await.as_secs(), 7);
        let patient = Echo { idle_max: None };
        assert_eq!(kept(patient, b"").await, FIRST_BYTE_WAIT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_when_the_server_shuts_down() {
        let (near, _far) = tokio::io::duplex(1 << 10);
        let (stop, stopped) = tokio::sync::watch::channel(());
        let close = CloseSignal {
            stop: stopped,
            clients_changed: Access::open(None).unwrap().clients_changed(),
        };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut connection = LineConnection::new(Box::new(near), peer, None, close, None);
        assert!(connection.pause(Duration::from_secs(3)).await);
        let began = tokio::time::Instant::now();
        stop.send(()).unwrap();
        assert!(!connection.pause(Duration::from_secs(3)).await);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
