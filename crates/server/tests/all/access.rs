//! Who is let in: credentials, roles, TLS and certificates, at a live server.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use hyper::Version;
use icecore_server::{Process, ROUTES, Role, Route};
use icecore_storage::Environment;
use tempfile::TempDir;

use crate::client::{Answer, Connection, request};
use crate::payload::{Payload, T0, series};
use crate::served::{TestServer, config, until};
use crate::tls_client::{Authority, Client, Identity, Sender};

/// In every password and token here, and nowhere else.
const SECRET: &str = "verySecret";

const READ: &str = "Bearer token-to-read-verySecret";
const WRITE: &str = "Bearer token-to-write-verySecret";
const ADMIN: &str = "Bearer token-to-administrate-verySecret";

fn basic(user: &str, password: &str) -> String {
    use base64::Engine as _;
    let text = format!("{user}:{password}");
    let text = base64::engine::general_purpose::STANDARD.encode(text);
    format!("Basic {text}")
}

fn hash(password: &str) -> String {
    bcrypt::hash(password, 4).unwrap()
}

/// A token for each role, a user who may read, and one of Prometheus' own.
fn credentials() -> String {
    format!(
        "basic_auth_users:
  prometheus: {}
icecore:
  users:
    reader: {{password: {}, roles: [read]}}
  tokens:
  - {{name: read, token: token-to-read-verySecret, roles: [read]}}
  - {{name: write, token: token-to-write-verySecret, roles: [write]}}
  - {{name: admin, token: token-to-administrate-verySecret, roles: [admin]}}
",
        hash("all-verySecret"),
        hash("reader-verySecret"),
    )
}

/// A directory with a web configuration file.
struct Files(TempDir);

impl Files {
    fn new(text: &str) -> Self {
        let files = Self(TempDir::new().unwrap());
        files.write("web.yml", text);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces a file at once, as a careful person does.
    fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    fn identity(&self, identity: &Identity) {
        self.write("key.pem", &identity.key);
        self.write("cert.pem", &identity.certificate);
    }

    async fn serve(&self) -> TestServer {
        let web_config = self.path("web.yml");
        let settings = [("server.web_config", web_config.to_str().unwrap())];
        TestServer::starting(config(&settings), Environment::default()).await
    }
}

const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

/// The paths that a request can have.
fn paths_of(route: &Route) -> impl Iterator<Item = String> {
    route.paths().map(|mut path| {
        while let (Some(begin), Some(end)) = (path.find('{'), path.find('}')) {
            path.replace_range(begin..=end, "some");
        }
        path
    })
}

/// Returns `true` if an answer ends: some go on for as long as their client likes.
fn ends(route: &Route) -> bool {
    !route.path.ends_with("/live")
}

/// The status of an answer that need not end.
async fn status(served: &TestServer, method: &str, path: &str, credential: Option<&str>) -> u16 {
    let header = credential.map(|credential| ("Authorization", credential));
    let headers: Vec<_> = header.into_iter().collect();
    let mut connection = Connection::open(served.address).await;
    connection.send(&request(method, path, &headers, b"")).await;
    connection.head().await.expect("an answer").0
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_has_its_routes() {
    let files = Files::new(&credentials());
    let served = files.serve().await;
    served.until_ready().await;
    for (route, path) in ROUTES
        .iter()
        .flat_map(|route| paths_of(route).map(move |path| (route, path)))
    {
        for method in route.methods {
            let method = if *method == "ANY" { "GET" } else { method };
            for (credential, role) in [
                (None, None),
                (Some(READ), Some(Role::Read)),
                (Some(WRITE), Some(Role::Write)),
                (Some(ADMIN), Some(Role::Admin)),
            ] {
                let status = status(&served, method, &path, credential).await;
                let allowed = route.role == Role::Open
                    || role == Some(Role::Admin)
                    || role == Some(route.role);
                match (allowed, credential) {
                    (true, _) => assert!(
                        ![401, 403].contains(&status),
                        "{method} {path} with {role:?}: {status}"
                    ),
                    (false, None) => assert_eq!(status, 401, "{method} {path}"),
                    (false, Some(_)) => assert_eq!(status, 403, "{method} {path} with {role:?}"),
                }
            }
        }
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_can_ask_for_a_credential_in_its_own_way() {
    let files = Files::new(&credentials());
    let served = files.serve().await;
    served.until_ready().await;
    let access = "/api/v1/status/access";
    let ask = async |credential: Option<&str>| {
        let header = credential.map(|credential| ("Authorization", credential));
        let headers: Vec<_> = header.into_iter().collect();
        served.request("GET", access, &headers, b"").await
    };
    let schemes = ["basic", "bearer"];
    for (credential, user, roles) in [
        (None, None, &[] as &[&str]),
        (Some(READ), None, &["read"]),
        (Some(WRITE), None, &["write"]),
        (Some(ADMIN), None, &["read", "write", "admin"]),
        (
            Some(&*basic("reader", "reader-verySecret")),
            Some("reader"),
            &["read"],
        ),
    ] {
        let expected = serde_json::json!({
            "required": true,
            "authenticated": credential.is_some(),
            "user": user,
            "roles": roles,
            "schemes": schemes,
        });
        let answer = ask(credential).await;
        assert_eq!(answer.data(), expected, "{credential:?}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for wrong in [
        &*basic("reader", "verySecret"),
        "Bearer verySecret",
        "Basic",
    ] {
        ask(Some(wrong)).await.error(401, "unauthorized");
    }
    // A browser that is told how to authenticate shows a dialog of its own.
    for (path, sender, told) in [
        ("/api/v1/labels", "icecore-ui", false),
        ("/api/v1/labels", "XMLHttpRequest", true),
        ("/opentsdb/api/query", "icecore-ui", false),
        ("/api/search/events", "icecore-ui", false),
    ] {
        let headers = [("X-Requested-With", sender)];
        let method = if path.starts_with("/api/search") {
            "POST"
        } else {
            "GET"
        };
        let answer = served.request(method, path, &headers, b"").await;
        assert_eq!(answer.status, 401, "{path}");
        let header = answer.header("www-authenticate");
        assert_eq!(header.is_some(), told, "{path} from {sender}");
    }
    // The page and what leads to it hold no data.
    let browser = [("Accept", "text/html")];
    assert_eq!(served.request("GET", "/", &browser, b"").await.status, 302);
    assert_eq!(served.request("GET", "/", &[], b"").await.status, 401);
    assert_eq!(
        served.request("GET", "/ui/", &browser, b"").await.status,
        200
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_told_apart_from_missing_roles() {
    let files = Files::new(&credentials());
    let served = files.serve().await;
    served.until_ready().await;
    let check = async |credential: &str, expected: u16| {
        let status = status(&served, "GET", "/api/v1/labels", Some(credential)).await;
        assert_eq!(status, expected, "{credential}");
    };
    for _ in 0..2 {
        check(&basic("prometheus", "all-verySecret"), 200).await;
        check(&basic("reader", "reader-verySecret"), 200).await;
        check(READ, 200).await;
        check(WRITE, 403).await;
        for wrong in [
            &basic("prometheus", "other-verySecret"),
            &basic("prometheus", ""),
            &basic("nobody", "all-verySecret"),
            &basic("reader", "all-verySecret"),
            "Bearer token-to-do-nothing-verySecret",
            "Bearer",
            "Basic verySecret!",
            "Digest verySecret",
            &format!("Bearer {}", "x".repeat(100 << 10)),
        ] {
            check(wrong, 401).await;
        }
    }
    let prometheus = basic("prometheus", "all-verySecret");
    assert_eq!(
        status(&served, "POST", "/-/flush", Some(&prometheus)).await,
        200
    );

    let answer = served.get("/api/v1/labels", &[]).await;
    answer.error(401, "unauthorized");
    let challenge = answer.header("www-authenticate").unwrap();
    assert!(challenge.contains("realm=\"icecore\""), "{challenge}");
    let headers = [("Authorization", READ)];
    let flush = served.request("POST", "/-/flush", &headers, b"").await;
    let reason = flush.error(403, "forbidden");
    assert!(reason.contains("admin"), "{reason}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_learn_nothing_and_senders_learn_why() {
    let files = Files::new(&credentials());
    let served = files.serve().await;
    served.until_ready().await;
    assert_eq!(status(&served, "GET", "/no/such/path", None).await, 401);
    assert_eq!(
        status(&served, "GET", "/no/such/path", Some(WRITE)).await,
        404
    );
    assert_eq!(status(&served, "DELETE", "/api/v1/labels", None).await, 401);
    assert_eq!(
        status(&served, "DELETE", "/api/v1/labels", Some(READ)).await,
        405
    );
    assert_eq!(
        status(&served, "OPTIONS", "/api/v1/labels", None).await,
        204
    );
    assert_eq!(
        status(&served, "GET", "/-/healthy", Some("Basic !")).await,
        200
    );
    // A sender that is refused reads the answer although it is still sending.
    let mut connection = Connection::open(served.address).await;
    let body = vec![0; 4 << 20];
    let answer = connection
        .request("POST", "/api/v1/write", &[], &body)
        .await;
    assert_eq!(answer.status, 401);
    // And the next request of the same connection is answered.
    let headers = [("Authorization", READ)];
    let next = connection
        .request("GET", "/api/v1/labels", &headers, b"")
        .await;
    assert_eq!(next.status, 200);
    served.stop().await.unwrap();
}

/// Lines of the log that have a secret in them.
static LEAKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Looks at everything that is logged, at every level.
struct Leaks;

impl std::io::Write for Leaks {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        if line.contains(SECRET) || line.contains("$2b$04$") {
            LEAKED.lock().unwrap().push(line.into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn watch_the_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = tracing_subscriber::fmt()
            .with_env_filter("icecore_server=trace")
            .with_writer(|| Leaks)
            .try_init();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_shown_to_nobody() {
    watch_the_log();
    let files = Files::new(&credentials());
    let path = files.path("web.yml");
    let config = config(&[("server.web_config", path.to_str().unwrap())]);
    assert!(!config.render().contains(SECRET));
    let served = TestServer::starting(config, Environment::default()).await;
    served.until_ready().await;
    let mut seen = String::new();
    for credential in [
        READ,
        ADMIN,
        "Bearer token-verySecret",
        "Basic verySecret",
        &basic("verySecret", "verySecret"),
        &basic("prometheus", "verySecret"),
    ] {
        for route in ROUTES.iter().filter(|route| ends(route)) {
            let headers = [("Authorization", credential)];
            let method = route.methods[0];
            for path in paths_of(route) {
                let answer = served.request(method, &path, &headers, b"").await;
                seen.push_str(&String::from_utf8_lossy(&answer.body));
                seen.push_str(&format!("{:?}", answer.headers));
            }
        }
    }
    assert!(!seen.contains(SECRET) && !seen.contains("$2b$04$"));
    // A file that is wrong where a secret is.
    files.write(
        "web.yml",
        "basic_auth_users: {a: verySecret}\nicecore: {tokens: [{token: verySecret}]}",
    );
    reloaded(&served, ADMIN, "failure").await;
    served.stop().await.unwrap();
    assert_eq!(LEAKED.lock().unwrap().as_slice(), [] as [String; 0]);
}

/// Waits until a changed file was read, with this outcome.
async fn reloaded(served: &TestServer, credential: &str, outcome: &str) {
    let line = format!("icecore_access_reloads_total{{outcome=\"{outcome}\"}} 0\n");
    let headers = [("Authorization", credential)];
    let page = || served.request("GET", "/metrics", &headers, b"");
    let was_read = |page: &Answer| page.status == 200 && !page.text().contains(&line);
    until(page, was_read, "the file, read again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing_and_a_good_one_does() {
    let files = Files::new(&credentials());
    let served = files.serve().await;
    served.until_ready().await;
    files.write("web.yml", "basic_auth_users: [nonsense");
    reloaded(&served, READ, "failure").await;
    assert_eq!(
        status(&served, "GET", "/api/v1/labels", Some(READ)).await,
        200
    );
    assert_eq!(status(&served, "GET", "/api/v1/labels", None).await, 401);
    files.write(
        "web.yml",
        "icecore: {tokens: [{token: another-token-verySecret, roles: [read]}]}",
    );
    reloaded(&served, "Bearer another-token-verySecret", "success").await;
    assert_eq!(
        status(&served, "GET", "/api/v1/labels", Some(READ)).await,
        401
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_reads_the_file_at_once() {
    let files = Files::new(&credentials());
    let served = files.serve().await;
    served.until_ready().await;
    let reload = async |credential: &str| {
        let headers = [("Authorization", credential)];
        served.request("POST", "/-/reload", &headers, b"").await
    };
    files.write("web.yml", "basic_auth_users: [nonsense");
    let message = reload(ADMIN).await.error(500, "internal");
    assert!(message.contains("web.yml"), "{message}");
    assert_eq!(
        status(&served, "GET", "/api/v1/labels", Some(READ)).await,
        200
    );
    let other = "Bearer another-token-verySecret";
    files.write(
        "web.yml",
        "icecore: {tokens: [{token: another-token-verySecret, roles: [admin]}]}",
    );
    assert_eq!(reload(ADMIN).await.text(), "Reloaded.\n");
    for (credential, expected) in [(READ, 401), (ADMIN, 401), (other, 200)] {
        let status = status(&served, "GET", "/api/v1/labels", Some(credential)).await;
        assert_eq!(status, expected, "{credential}");
    }
    served.stop().await.unwrap();
}

#[tokio::test]
async fn a_bad_file_at_the_start_is_an_error_with_its_place() {
    let files = Files::new("basic_auth_users:\n  a: verySecret\n");
    let path = files.path("web.yml");
    let settings = [("server.web_config", path.to_str().unwrap())];
    let error = Process::start(config(&settings), Environment::default()).await;
    let error = error.err().expect("no start").to_string();
    assert!(error.contains("line 2 column 6"), "{error}");
    assert!(!error.contains(SECRET), "{error}");
    let settings = [("server.web_config", "/no/such/file")];
    let error = Process::start(config(&settings), Environment::default()).await;
    assert!(
        error
            .err()
            .expect("no start")
            .to_string()
            .contains("/no/such/file")
    );
}

async fn until_ready(client: &Client, served: &TestServer) {
    let status = || async {
        let mut sender = client.connect(served.address).await.unwrap();
        sender.get("/-/ready", &[]).await.unwrap().0
    };
    until(status, |status| *status == 200, "a server that is ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_either_version_of_http() {
    let authority = Authority::new();
    let files = Files::new(&format!(
        "{TLS}http_server_config: {{headers: {{X-Frame-Options: deny}}}}\n{}",
        credentials()
    ));
    files.identity(&authority.issue(&["localhost"]));
    let served = files.serve().await;
    let both = Client::new(&authority, None, &["h2", "http/1.1"]);
    until_ready(&both, &served).await;
    for (offers, expected) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let client = Client::new(&authority, None, offers);
        let mut sender = client.connect(served.address).await.unwrap();
        for (headers, status) in [(&[][..], 401), (&[("authorization", READ)], 200)] {
            let answer = sender.get("/api/v1/labels", headers).await.unwrap();
            assert_eq!((answer.0, answer.1), (status, expected), "{}", answer.2);
        }
    }
    // Without TLS there is no answer, and nothing breaks.
    let plain = Connection::open(served.address).await;
    assert!(answered(plain).await.is_none());
    let mut sender = both.connect(served.address).await.unwrap();
    let metrics = async || {
        let metrics = sender.get("/metrics", &[("authorization", READ)]).await;
        metrics.unwrap().2
    };
    let failed = "icecore_tls_handshakes_failed_total 1\n";
    until(metrics, |metrics| metrics.contains(failed), failed).await;
    served.stop().await.unwrap();
}

/// What a plain request is answered; `None` when the connection is closed.
async fn answered(mut connection: Connection) -> Option<u16> {
    let request = crate::client::request("GET", "/-/healthy", &[], b"");
    connection.send(&request).await;
    let answer = connection.head().await?;
    Some(answer.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_without_tls_and_http2_turned_off() {
    let served = TestServer::start(&[]).await;
    let mut sender = Sender::plain(served.address, true).await.unwrap();
    let answer = sender.get("/-/healthy", &[]).await.unwrap();
    assert_eq!((answer.0, answer.1), (200, Version::HTTP_2));
    served.stop().await.unwrap();

    let authority = Authority::new();
    let files = Files::new(&format!("{TLS}http_server_config: {{http2: false}}\n"));
    files.identity(&authority.issue(&["localhost"]));
    let served = files.serve().await;
    let both = Client::new(&authority, None, &["h2", "http/1.1"]);
    let mut sender = both.connect(served.address).await.unwrap();
    let answer = sender.get("/-/healthy", &[]).await.unwrap();
    assert_eq!((answer.0, answer.1), (200, Version::HTTP_11));
    let only = Client::new(&authority, None, &["h2"]);
    assert!(only.connect(served.address).await.is_err());
    served.stop().await.unwrap();
}

/// The status of a request over a new connection; `None` when the client is not let in.
async fn let_in(client: &Client, served: &TestServer, path: &str) -> Option<u16> {
    let mut sender = client.connect(served.address).await.ok()?;
    let answer = sender.get(path, &[]).await.ok()?;
    Some(answer.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_certificates() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let files = Files::new(&format!(
        "{TLS}  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [agent.example, 192.0.2.7]
"
    ));
    files.write("ca.pem", &authority.pem());
    files.identity(&authority.issue(&["localhost"]));
    let served = files.serve().await;
    let of = |identity: &Identity| Client::new(&authority, Some(identity), &["h2"]);
    let agent = of(&authority.issue(&["agent.example"]));
    until_ready(&agent, &served).await;
    assert_eq!(let_in(&agent, &served, "/api/v1/labels").await, Some(200));
    let by_address = of(&authority.issue(&["other.example", "192.0.2.7"]));
    assert_eq!(let_in(&by_address, &served, "/-/healthy").await, Some(200));
    let other_name = of(&authority.issue(&["other.example"]));
    assert_eq!(let_in(&other_name, &served, "/-/healthy").await, None);
    let other_authority = of(&stranger.issue(&["agent.example"]));
    assert_eq!(let_in(&other_authority, &served, "/-/healthy").await, None);
    let without = Client::new(&authority, None, &["h2"]);
    assert_eq!(let_in(&without, &served, "/-/healthy").await, None);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_have_roles() {
    let authority = Authority::new();
    let files = Files::new(&format!(
        "{TLS}  client_auth_type: VerifyClientCertIfGiven
  client_ca_file: ca.pem
icecore:
  tokens: [{{token: token-to-read-verySecret, roles: [read]}}]
  client_certificates:
  - {{san: reader.example, roles: [read]}}
  - {{common_name: admin.example, roles: [admin]}}
"
    ));
    files.write("ca.pem", &authority.pem());
    files.identity(&authority.issue(&["localhost"]));
    let served = files.serve().await;
    let of = |name: &str| Client::new(&authority, Some(&authority.issue(&[name])), &[]);
    let without = Client::new(&authority, None, &[]);
    until_ready(&without, &served).await;
    for (client, labels, writes) in [
        (of("reader.example"), 200, 403),
        (of("admin.example"), 200, 405),
        (of("other.example"), 401, 401),
        (without, 401, 401),
    ] {
        let status = let_in(&client, &served, "/api/v1/labels").await;
        assert_eq!(status, Some(labels));
        let status = let_in(&client, &served, "/api/v1/write").await;
        assert_eq!(status, Some(writes));
        let mut sender = client.connect(served.address).await.unwrap();
        let headers = [("authorization", READ)];
        let answer = sender.get("/api/v1/labels", &headers).await.unwrap();
        assert_eq!(answer.0, 200);
    }
    let stranger = Authority::new().issue(&["admin.example"]);
    let stranger = Client::new(&authority, Some(&stranger), &[]);
    assert_eq!(let_in(&stranger, &served, "/-/healthy").await, None);
    served.stop().await.unwrap();
}

/// Certificate and authority of clients are replaced while connections are open.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_replaced_while_running() {
    let authority = Authority::new();
    let files = Files::new(TLS);
    files.identity(&authority.issue(&["localhost"]));
    let served = files.serve().await;
    let client = Client::new(&authority, None, &["h2"]);
    until_ready(&client, &served).await;
    let mut old = client.connect(served.address).await.unwrap();
    files.identity(&authority.issue(&["localhost"]));
    let shown = || async {
        let sender = client.connect(served.address).await.unwrap();
        sender.certificate
    };
    let is_new = |shown: &Vec<u8>| *shown != old.certificate;
    until(shown, is_new, "the new certificate").await;
    let mut new = client.connect(served.address).await.unwrap();
    assert_eq!(new.get("/-/healthy", &[]).await.unwrap().0, 200);
    assert_eq!(old.get("/-/healthy", &[]).await.unwrap().0, 200);
    // Once clients have to show certificates, those that did not are let go.
    files.write("ca.pem", &authority.pem());
    files.write(
        "web.yml",
        &format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"),
    );
    let is_let_go = async || old.get("/-/healthy", &[]).await.is_err();
    until(is_let_go, |let_go| *let_go, "the end of a connection").await;
    assert_eq!(let_in(&client, &served, "/-/healthy").await, None);
    served.stop().await.unwrap();
}

/// Requests that were accepted are answered, over HTTP/2 and TLS, too.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_is_answered_before_the_end() {
    let authority = Authority::new();
    let files = Files::new(TLS);
    files.identity(&authority.issue(&["localhost"]));
    let served = files.serve().await;
    let client = Client::new(&authority, None, &["h2"]);
    until_ready(&client, &served).await;
    let mut sender = client.connect(served.address).await.unwrap();
    let payload = Payload::v1(&[series("accepted", &[], &[(T0, 1.0)])]);
    let mut writes = Vec::new();
    for _ in 0..20 {
        let mut request = hyper::Request::post("https://localhost/api/v1/write");
        for (name, value) in payload.headers() {
            request = request.header(name, value);
        }
        let body = http_body_util::Full::from(payload.body());
        let answer = sender.send(request.body(body).unwrap()).await;
        writes.push(answer.unwrap().status().as_u16());
    }
    assert_eq!(writes, [204; 20]);
    let (stop, ended) = served.parts();
    stop.send("test").await.unwrap();
    // The client is told to hang up and does, so the process does not wait for its grace time.
    ended.await.unwrap().unwrap();
    assert!(sender.get("/-/healthy", &[]).await.is_err());
}

#[test]
fn every_route_has_the_role_that_its_path_suggests() {
    for route in ROUTES {
        let path = Path::new(route.path);
        let expected = if path.starts_with("/api/v1/admin") {
            Role::Admin
        } else {
            continue;
        };
        assert_eq!(route.role, expected, "{}", route.path);
    }
}
