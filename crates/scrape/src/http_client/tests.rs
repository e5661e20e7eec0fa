//! Every option against a live server, in a way that fails when the option is ignored.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::config::testing::job_of;

/// What a server was asked.
#[derive(Clone, Debug)]
struct Seen {
    uri: String,
    version: Version,
    headers: HeaderMap,
}

impl Seen {
    fn header(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap()).collect()
    }
}

struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    async fn plain() -> Self {
        Self::start(None, None).await
    }

    /// Answers everything with a redirect.
    async fn redirecting(to: String) -> Self {
        Self::start(None, Some(to)).await
    }

    async fn tls(config: ServerConfig) -> Self {
        Self::start(Some(TlsAcceptor::from(Arc::new(config))), None).await
    }

    async fn start(acceptor: Option<TlsAcceptor>, redirect: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, redirect) = (Arc::clone(&recorded), redirect.clone());
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, false, seen, redirect).await,
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else {
                                return;
                            };
                            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                            serve(stream, http2, seen, redirect).await;
                        }
                    }
                });
            }
        });
        Self { address, seen }
    }

    fn url(&self, scheme: &str) -> Url {
        Url::parse(&format!("{scheme}://{}/metrics", self.address)).unwrap()
    }

    fn last(&self) -> Seen {
        self.seen.lock().last().cloned().expect("a request")
    }

    fn times(&self) -> usize {
        self.seen.lock().len()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    http2: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
    redirect: Option<String>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        seen.lock().push(Seen {
            uri: request.uri().to_string(),
            version: request.version(),
            headers: request.headers().clone(),
        });
        let mut response = Response::new(Full::new(Bytes::from_static(b"up 1\n")));
        if let Some(to) = &redirect {
            *response.status_mut() = hyper::StatusCode::FOUND;
            response
                .headers_mut()
                .insert("location", to.parse().unwrap());
        }
        async { Ok::<_, Infallible>(response) }
    });
    let io = TokioIo::new(stream);
    if http2 {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(io, service).await;
    } else {
        let builder = hyper::server::conn::http1::Builder::new();
        let _ = builder.serve_connection(io, service).await;
    }
}

fn client(keys: &str) -> HttpClient {
    HttpClient::new(&job_of(keys).http).unwrap()
}

async fn fetch(client: &HttpClient, url: Url) -> Result<reqwest::Response, String> {
    let request = client.get(url).await?;
    request.send().await.map_err(|error| reason(&error))
}

async fn ask(keys: &str, server: &Server) -> Seen {
    let response = fetch(&client(keys), server.url("http")).await.unwrap();
    assert_eq!(response.text().await.unwrap(), "up 1\n");
    server.last()
}

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// A server behind a Unix socket, and the requests that it got.
#[cfg(unix)]
fn behind_a_socket(path: &Path) -> Arc<Mutex<Vec<Seen>>> {
    let listener = tokio::net::UnixListener::bind(path).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, false, Arc::clone(&recorded), None));
        }
    });
    seen
}

#[cfg(unix)]
#[tokio::test]
async fn each_socket_has_its_connections() {
    let directory = Directory::new();
    let paths: [Arc<Path>; 2] = ["a", "b"].map(|name| directory.0.path().join(name).into());
    let seen = paths.each_ref().map(|path| behind_a_socket(path));
    // A proxy has no part in it.
    let client = client("authorization: {credentials: x}\nproxy_url: http://localhost:1");
    let url = Url::parse("http://no.such.host/metrics").unwrap();
    for _ in 0..2 {
        for path in &paths {
            let request = client.get_over(Some(path), url.clone()).await.unwrap();
            let response = request.send().await.unwrap();
            assert_eq!(response.text().await.unwrap(), "up 1\n");
        }
    }
    for seen in &seen {
        let seen = seen.lock();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].header("host"), ["no.such.host"]);
        assert_eq!(seen[0].header("authorization"), ["Bearer x"]);
    }
    let missing: Arc<Path> = directory.0.path().join("c").into();
    let request = client.get_over(Some(&missing), url).await.unwrap();
    assert!(request.send().await.unwrap_err().is_connect());
}

#[cfg(unix)]
#[test]
fn clients_of_sockets_are_bounded() {
    let client = client("");
    for number in 0..=CLIENTS_MAX {
        let path: Arc<Path> = PathBuf::from(format!("/{number}")).into();
        client.0.client(Some(&path)).unwrap();
    }
    assert!(client.0.built.lock().len() <= CLIENTS_MAX);
}

#[tokio::test]
async fn nothing_is_sent_that_was_not_asked_for() {
    let server = Server::plain().await;
    let seen = ask("", &server).await;
    assert!(seen.header("authorization").is_empty());
    assert!(seen.header("accept-encoding").is_empty());
    assert!(seen.header("user-agent")[0].starts_with("Icecore/"));
}

#[tokio::test]
async fn credentials_are_sent() {
    let server = Server::plain().await;
    for (keys, expected) in [
        (
            "basic_auth: {username: Aladdin, password: 'open sesame'}",
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        ),
        ("basic_auth: {username: a}", "Basic YTo="),
        ("authorization: {credentials: x}", "Bearer x"),
        ("authorization: {type: Token, credentials: x}", "Token x"),
        ("bearer_token: y", "Bearer y"),
    ] {
        assert_eq!(
            ask(keys, &server).await.header("authorization"),
            [expected],
            "{keys}"
        );
    }
}

#[tokio::test]
async fn files_of_secrets_are_read_anew() {
    let server = Server::plain().await;
    let directory = Directory::new();
    let token = directory.write("token", " first\n");
    let user = directory.write("user", "u");
    let path = token.display();
    let bearer = client(&format!("authorization: {{credentials_file: {path}}}"));
    let basic = client(&format!(
        "basic_auth: {{username_file: {}, password_file: {path}}}",
        user.display()
    ));
    let header = client(&format!("http_headers: {{X-Key: {{files: [{path}]}}}}"));
    for (text, basic_expected) in [
        ("first", "Basic dTpmaXJzdA=="),
        ("other", "Basic dTpvdGhlcg=="),
    ] {
        directory.write("token", &format!(" {text}\n"));
        fetch(&bearer, server.url("http")).await.unwrap();
        assert_eq!(
            server.last().header("authorization"),
            [format!("Bearer {text}")]
        );
        fetch(&basic, server.url("http")).await.unwrap();
        assert_eq!(server.last().header("authorization"), [basic_expected]);
        fetch(&header, server.url("http")).await.unwrap();
        assert_eq!(server.last().header("x-key"), [text]);
    }
    std::fs::remove_file(&token).unwrap();
    let error = fetch(&bearer, server.url("http")).await.unwrap_err();
    assert!(error.contains("cannot read"), "{error}");
    // What cannot be sent is not repeated.
    directory.write("token", "hun\0ter2");
    let error = fetch(&bearer, server.url("http")).await.unwrap_err();
    assert!(!error.contains("hun"), "{error}");
}

#[tokio::test]
async fn headers_are_sent() {
    let server = Server::plain().await;
    let keys = "http_headers: {X-One: {values: [a, b], secrets: [c]}, X-Two: {values: ['']}}";
    let seen = ask(keys, &server).await;
    assert_eq!(seen.header("x-one"), ["a", "b", "c"]);
    assert_eq!(seen.header("x-two"), [""]);
}

#[tokio::test]
async fn redirects_are_followed_or_not() {
    let server = Server::plain().await;
    let first = Server::redirecting(server.url("http").to_string()).await;
    let response = fetch(&client(""), first.url("http")).await.unwrap();
    assert_eq!((response.status().as_u16(), server.times()), (200, 1));
    let response = fetch(&client("follow_redirects: false"), first.url("http"))
        .await
        .unwrap();
    assert_eq!((response.status().as_u16(), server.times()), (302, 1));
    let endless = Server::redirecting("/again".into()).await;
    let error = fetch(&client(""), endless.url("http")).await.unwrap_err();
    assert!(error.contains("redirects"), "{error}");
    assert_eq!(endless.times(), 11);
}

#[tokio::test]
async fn credentials_do_not_follow_to_another_host() {
    let other = Server::plain().await;
    let first = Server::redirecting(other.url("http").to_string()).await;
    let keys = "authorization: {credentials: x}\nhttp_headers: {X-Open: {values: [a]}}";
    fetch(&client(keys), first.url("http")).await.unwrap();
    assert_eq!(first.last().header("authorization"), ["Bearer x"]);
    assert!(other.last().header("authorization").is_empty());
    assert_eq!(other.last().header("x-open"), ["a"]);
    let secret = client("http_headers: {X-Key: {secrets: [x]}}");
    let error = fetch(&secret, first.url("http")).await.unwrap_err();
    assert!(error.contains("secret headers"), "{error}");
    assert_eq!(other.times(), 1);
}

/// An authority with certificates for servers and clients.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key, as text.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.into()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn server(&self, name: &str) -> ServerConfig {
        self.server_with(name, rustls::DEFAULT_VERSIONS, false)
    }

    fn server_with(
        &self,
        name: &str,
        versions: &[&'static SupportedProtocolVersion],
        ask_client: bool,
    ) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let (certificate, key) = self.issue(name);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .unwrap();
        let builder = if ask_client {
            let mut roots = RootCertStore::empty();
            let root = CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap();
            roots.add(root).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}

/// A PEM as a YAML value.
fn quoted(pem: &str) -> String {
    format!("{pem:?}")
}

async fn check_tls(keys: &str, server: &Server) -> Result<(), String> {
    let response = fetch(&client(keys), server.url("https")).await?;
    assert_eq!(response.text().await.unwrap(), "up 1\n");
    Ok(())
}

#[tokio::test]
async fn a_server_is_believed_if_its_authority_is() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("127.0.0.1")).await;
    let directory = Directory::new();
    let ca = quoted(&authority.pem());
    let path = directory.write("ca.pem", &authority.pem());
    check_tls(&format!("tls_config: {{ca: {ca}}}"), &server)
        .await
        .unwrap();
    check_tls(
        &format!("tls_config: {{ca_file: {}}}", path.display()),
        &server,
    )
    .await
    .unwrap();
    check_tls("tls_config: {insecure_skip_verify: true}", &server)
        .await
        .unwrap();
    let other = quoted(&Authority::new().pem());
    for keys in [
        "".into(),
        "tls_config: {min_version: TLS12}".into(),
        format!("tls_config: {{ca: {other}}}"),
    ] {
        let error = check_tls(&keys, &server).await.unwrap_err();
        assert!(error.contains("certificate"), "{error}");
    }
    let missing = "tls_config: {ca_file: /nonexistent/ca.pem}";
    let error = check_tls(missing, &server).await.unwrap_err();
    assert!(error.contains("/nonexistent/ca.pem"), "{error}");
    let nonsense = job_of("tls_config: {ca: nonsense}").http;
    assert!(HttpClient::new(&nonsense).is_err());
}

#[tokio::test]
async fn certificates_are_read_anew_when_they_change() {
    let (first, second) = (Authority::new(), Authority::new());
    let directory = Directory::new();
    let path = directory.write("ca.pem", &first.pem());
    let client = client(&format!("tls_config: {{ca_file: {}}}", path.display()));
    let server = Server::tls(first.server("127.0.0.1")).await;
    let moved = Server::tls(second.server("127.0.0.1")).await;
    fetch(&client, server.url("https")).await.unwrap();
    assert!(fetch(&client, moved.url("https")).await.is_err());
    directory.write("ca.pem", &second.pem());
    fetch(&client, moved.url("https")).await.unwrap();
    assert!(fetch(&client, server.url("https")).await.is_err());
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let authority = Authority::new();
    let config = authority.server_with("127.0.0.1", rustls::DEFAULT_VERSIONS, true);
    let server = Server::tls(config).await;
    let directory = Directory::new();
    let (certificate, key) = authority.issue("client");
    let ca = quoted(&authority.pem());
    let (cert_path, key_path) = (
        directory.write("cert.pem", &certificate),
        directory.write("key.pem", &key),
    );
    let given = format!(
        "tls_config: {{ca: {ca}, cert: {}, key: {}}}",
        quoted(&certificate),
        quoted(&key)
    );
    check_tls(&given, &server).await.unwrap();
    let files = format!(
        "tls_config: {{ca: {ca}, cert_file: {}, key_file: {}}}",
        cert_path.display(),
        key_path.display()
    );
    check_tls(&files, &server).await.unwrap();
    assert!(
        check_tls(&format!("tls_config: {{ca: {ca}}}"), &server)
            .await
            .is_err()
    );
    let (stranger, stranger_key) = Authority::new().issue("client");
    let given = format!(
        "tls_config: {{ca: {ca}, cert: {}, key: {}}}",
        quoted(&stranger),
        quoted(&stranger_key)
    );
    assert!(check_tls(&given, &server).await.is_err());
}

#[tokio::test]
async fn the_name_of_a_server_can_be_another() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("inner.example")).await;
    let ca = quoted(&authority.pem());
    assert!(
        check_tls(&format!("tls_config: {{ca: {ca}}}"), &server)
            .await
            .is_err()
    );
    let named = |name: &str| format!("tls_config: {{ca: {ca}, server_name: {name}}}");
    check_tls(&named("inner.example"), &server).await.unwrap();
    assert!(check_tls(&named("outer.example"), &server).await.is_err());
}

#[tokio::test]
async fn versions_of_tls_have_bounds() {
    let authority = Authority::new();
    let ca = quoted(&authority.pem());
    let old = authority.server_with("127.0.0.1", &[&rustls::version::TLS12], false);
    let new = authority.server_with("127.0.0.1", &[&rustls::version::TLS13], false);
    let (old, new) = (Server::tls(old).await, Server::tls(new).await);
    for (bounds, speaks_old, speaks_new) in [
        ("", true, true),
        (", min_version: TLS13", false, true),
        (", max_version: TLS12", true, false),
        (", min_version: TLS12, max_version: TLS13", true, true),
        (", min_version: TLS10", true, true),
    ] {
        let keys = format!("tls_config: {{ca: {ca}{bounds}}}");
        assert_eq!(check_tls(&keys, &old).await.is_ok(), speaks_old, "{bounds}");
        assert_eq!(check_tls(&keys, &new).await.is_ok(), speaks_new, "{bounds}");
    }
}

#[tokio::test]
async fn http2_is_spoken_unless_turned_off() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("127.0.0.1")).await;
    let tls = format!("tls_config: {{ca: {}}}", quoted(&authority.pem()));
    check_tls(&tls, &server).await.unwrap();
    assert_eq!(server.last().version, Version::HTTP_2);
    check_tls(&format!("{tls}\nenable_http2: false"), &server)
        .await
        .unwrap();
    assert_eq!(server.last().version, Version::HTTP_11);
}

#[tokio::test]
async fn requests_go_through_the_proxy() {
    let proxy = Server::plain().await;
    let direct = Server::plain().await;
    let target = || Url::parse("http://target.invalid:81/metrics").unwrap();
    let address = proxy.address;
    let through = client(&format!("proxy_url: http://user:word@{address}"));
    fetch(&through, target()).await.unwrap();
    assert_eq!(proxy.last().uri, "http://target.invalid:81/metrics");
    assert_eq!(
        proxy.last().header("proxy-authorization"),
        ["Basic dXNlcjp3b3Jk"]
    );
    // Without exceptions, everything is proxied.
    fetch(&through, direct.url("http")).await.unwrap();
    assert_eq!((proxy.times(), direct.times()), (2, 0));
    // With them, neither these nor this machine are.
    let keys = format!("proxy_url: http://{address}\nno_proxy: target.invalid,10.0.0.0/8");
    let excepted = client(&keys);
    assert!(fetch(&excepted, target()).await.is_err());
    fetch(&excepted, direct.url("http")).await.unwrap();
    assert_eq!((proxy.times(), direct.times()), (2, 1));
    let other = Url::parse("http://other.invalid/").unwrap();
    fetch(&excepted, other.clone()).await.unwrap();
    assert_eq!(proxy.times(), 3);
}

#[tokio::test]
async fn the_environment_names_a_proxy_if_it_is_asked() {
    use std::sync::OnceLock;
    static PROXY: OnceLock<String> = OnceLock::new();
    let proxy = Server::plain().await;
    PROXY.set(proxy.address.to_string()).unwrap();
    let environment: fn(&str) -> Option<String> = |name| match name {
        "http_proxy" => PROXY.get().cloned(),
        "NO_PROXY" => Some("spared.invalid".into()),
        _ => None,
    };
    let url = |host: &str| Url::parse(&format!("http://{host}/metrics")).unwrap();
    let config = job_of("proxy_from_environment: true").http;
    let asked = HttpClient::with_environment(&config, environment).unwrap();
    fetch(&asked, url("target.invalid")).await.unwrap();
    assert_eq!(proxy.last().uri, "http://target.invalid/metrics");
    assert!(fetch(&asked, url("spared.invalid")).await.is_err());
    let https = Url::parse("https://target.invalid/").unwrap();
    assert!(fetch(&asked, https).await.is_err());
    let not_asked = HttpClient::with_environment(&HttpClientConfig::default(), environment);
    assert!(
        fetch(&not_asked.unwrap(), url("target.invalid"))
            .await
            .is_err()
    );
    assert_eq!(proxy.times(), 1);
}

#[tokio::test]
async fn a_tunnel_is_asked_for_with_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = String::new();
        let mut bytes = [0; 1024];
        while !text.contains("\r\n\r\n") {
            let length = stream.read(&mut bytes).await.unwrap();
            assert!(length > 0, "{text}");
            text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
        stream.write_all(b"HTTP/1.1 403 No\r\n\r\n").await.unwrap();
        text
    });
    let keys = format!("proxy_url: http://{address}\nproxy_connect_header: {{X-Proxy: [s3cret]}}");
    let url = Url::parse("https://target.invalid/metrics").unwrap();
    let error = fetch(&client(&keys), url).await.unwrap_err();
    assert!(!error.contains("s3cret"), "{error}");
    let text = asked.await.unwrap().to_ascii_lowercase();
    assert!(
        text.starts_with("connect target.invalid:443 http/1.1\r\n"),
        "{text}"
    );
    assert!(text.contains("\r\nx-proxy: s3cret\r\n"), "{text}");
}

#[tokio::test]
async fn errors_have_their_causes_and_no_url() {
    // Nothing listens there, and nothing else can: the port is ours.
    let silent = tokio::net::TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = silent.local_addr().unwrap();
    let url = Url::parse(&format!("http://user:hunter2@{address}/")).unwrap();
    let error = fetch(&client(""), url).await.unwrap_err();
    assert!(
        !error.contains("hunter2") && error.contains("refused"),
        "{error}"
    );
}
