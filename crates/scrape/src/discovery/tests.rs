//! Discovery against live files, a live HTTP server and a live DNS server. Nothing here waits for a
//! fixed time: a change is awaited until a generous deadline.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, MX, NS, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::*;
use crate::config::{Credentials, DnsRecord, HttpClientConfig, Secret};

const DEADLINE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

/// The receiving side, as a pool keeps it: the newest group of each source.
struct Pool {
    receiver: mpsc::Receiver<Vec<TargetGroup>>,
    groups: BTreeMap<String, TargetGroup>,
    task: JoinHandle<()>,
}

impl Pool {
    fn of(discovery: &Discovery) -> Self {
        let (sender, receiver) = mpsc::channel(4);
        Self::receiving(receiver, spawn(discovery, sender))
    }

    fn receiving(receiver: mpsc::Receiver<Vec<TargetGroup>>, task: JoinHandle<()>) -> Self {
        Self {
            receiver,
            groups: BTreeMap::new(),
            task,
        }
    }

    fn targets(&self) -> Vec<&str> {
        let groups = self.groups.values();
        let mut targets: Vec<_> = groups.flat_map(|group| &group.targets).collect();
        targets.sort();
        targets.into_iter().map(String::as_str).collect()
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        let groups = self.groups.values();
        let mut labels: Vec<_> = groups
            .flat_map(|group| &group.labels)
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        labels.sort();
        labels
    }

    async fn next(&mut self) {
        let groups = tokio::time::timeout(DEADLINE, self.receiver.recv()).await;
        for group in groups
            .expect("an update in time")
            .expect("a task that runs")
        {
            if group.targets.is_empty() {
                self.groups.remove(&group.source);
            } else {
                self.groups.insert(group.source.clone(), group);
            }
        }
    }

    async fn until(&mut self, targets: &[&str]) {
        while self.targets() != targets {
            self.next().await;
        }
    }

    /// The task ends when nobody listens any more.
    async fn end(self) {
        drop(self.receiver);
        let ended = tokio::time::timeout(DEADLINE, self.task).await;
        ended.expect("the task ends").unwrap();
    }
}

#[tokio::test]
async fn static_targets_are_there_at_once() {
    let group = TargetGroup {
        targets: vec!["a:1".into()],
        labels: vec![("x".into(), "y".into())],
        source: "0".into(),
    };
    let mut pool = Pool::of(&Discovery::Static(vec![group]));
    pool.until(&["a:1"]).await;
    assert_eq!(pool.labels(), [("x", "y")]);
    pool.end().await;
}

fn write(path: &Path, text: &str) {
    // As a careful tool does it: nobody sees half a file.
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[tokio::test]
async fn files_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write(
        &at("a.yml"),
        "- targets: [a:1, a:2]\n  labels: {job: x}\n- targets: [b:1]\n",
    );
    write(&at("c.json"), r#"[{"targets": ["c:1"]}]"#);
    let mut pool = Pool::of(&Discovery::File {
        files: vec![at("*.yml"), at("c.json"), at("none.json"), at("a.yml")],
        refresh_interval: SHORT,
    });
    pool.until(&["a:1", "a:2", "b:1", "c:1"]).await;
    let (a, c) = (
        at("a.yml").display().to_string(),
        at("c.json").display().to_string(),
    );
    let expected = [
        ("__meta_filepath", a.as_str()),
        ("__meta_filepath", a.as_str()),
        ("__meta_filepath", c.as_str()),
        ("job", "x"),
    ];
    assert_eq!(pool.labels(), expected);

    // Fewer groups, then a new file, then a broken one, which changes nothing, then one that is
    // gone.
    write(&at("a.yml"), "- targets: [a:3]\n");
    pool.until(&["a:3", "c:1"]).await;
    write(&at("d.yml"), "- targets: [d:1]\n");
    pool.until(&["a:3", "c:1", "d:1"]).await;
    write(&at("a.yml"), "- target: [nonsense]\n");
    write(&at("c.json"), r#"[{"targets": ["c:2"]}]"#);
    pool.until(&["a:3", "c:2", "d:1"]).await;
    std::fs::remove_file(at("d.yml")).unwrap();
    pool.until(&["a:3", "c:2"]).await;
    write(&at("a.yml"), "[]");
    pool.until(&["c:2"]).await;
    pool.end().await;
}

#[tokio::test]
async fn a_change_is_seen_long_before_the_refresh() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.json");
    write(&path, r#"[{"targets": ["a:1"]}]"#);
    let mut pool = Pool::of(&Discovery::File {
        files: vec![path.clone()],
        refresh_interval: Duration::from_secs(86_400),
    });
    pool.until(&["a:1"]).await;
    write(&path, r#"[{"targets": ["a:2"]}]"#);
    pool.until(&["a:2"]).await;
    // Written in place, with the same size.
    std::fs::write(&path, r#"[{"targets": ["a:3"]}]"#).unwrap();
    pool.until(&["a:3"]).await;
    pool.end().await;
}

/// What the discovery server answers, and what it was asked.
#[derive(Default)]
struct Listing {
    status: StatusCode,
    kind: String,
    body: String,
    asked: HeaderMap,
    times: usize,
}

async fn list(State(listing): State<Arc<Mutex<Listing>>>, headers: HeaderMap) -> impl IntoResponse {
    let mut listing = listing.lock();
    listing.asked = headers;
    listing.times += 1;
    (
        listing.status,
        [(header::CONTENT_TYPE, listing.kind.clone())],
        listing.body.clone(),
    )
}

async fn listing_server() -> (SocketAddr, Arc<Mutex<Listing>>) {
    let listing = Arc::new(Mutex::new(Listing::default()));
    let router = Router::new()
        .route("/targets", get(list))
        .with_state(Arc::clone(&listing));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, listing)
}

/// Waits until the server has been asked twice more: what it answers now has then been taken in.
async fn asked_again(listing: &Mutex<Listing>) {
    let seen = listing.lock().times;
    let wait = async {
        while listing.lock().times < seen + 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait)
        .await
        .expect("requests in time");
}

fn answer(listing: &Mutex<Listing>, status: StatusCode, kind: &str, body: &str) {
    let mut listing = listing.lock();
    listing.status = status;
    listing.kind = kind.into();
    listing.body = body.into();
}

#[tokio::test]
async fn a_server_lists_targets() {
    const JSON: &str = "application/json; charset=utf-8";
    let (address, listing) = listing_server().await;
    let two = r#"[{"targets": ["a:1"], "labels": {"x": "y"}}, {"targets": ["b:1"]}]"#;
    answer(&listing, StatusCode::OK, JSON, two);
    let url = format!("http://{address}/targets");
    let refresh_interval = Duration::from_millis(1500);
    let credentials = Credentials::Header {
        kind: "Bearer".into(),
        credentials: Secret::Inline("s3cret".into()),
    };
    let mut pool = Pool::of(&Discovery::Http {
        url: url.clone(),
        refresh_interval,
        client: Box::new(HttpClientConfig {
            credentials: Some(credentials),
            ..HttpClientConfig::default()
        }),
    });
    pool.until(&["a:1", "b:1"]).await;
    assert_eq!(
        pool.labels(),
        [
            ("__meta_url", url.as_str()),
            ("__meta_url", url.as_str()),
            ("x", "y")
        ]
    );
    let asked = listing.lock().asked.clone();
    assert_eq!(asked["X-Prometheus-Refresh-Interval-Seconds"], "1.5");
    assert_eq!(asked["accept"], "application/json");
    assert_eq!(asked["authorization"], "Bearer s3cret");
    pool.end().await;

    let mut pool = Pool::of(&Discovery::Http {
        url,
        refresh_interval: SHORT,
        client: Box::default(),
    });
    pool.until(&["a:1", "b:1"]).await;
    // A group less, then answers that are none and change nothing, then another list.
    answer(
        &listing,
        StatusCode::OK,
        "Application/JSON",
        r#"[{"targets": ["a:2"]}]"#,
    );
    pool.until(&["a:2"]).await;
    for (status, kind, body) in [
        (StatusCode::INTERNAL_SERVER_ERROR, JSON, "[]"),
        (StatusCode::NO_CONTENT, JSON, "[]"),
        (StatusCode::OK, "text/plain", "[]"),
        (StatusCode::OK, "application/json; charset=latin1", "[]"),
        (StatusCode::OK, JSON, "[{]"),
        (StatusCode::OK, JSON, r#"[{"targets": 5}]"#),
    ] {
        answer(&listing, status, kind, body);
        asked_again(&listing).await;
        assert!(pool.receiver.try_recv().is_err(), "{status} {kind} {body}");
    }
    answer(&listing, StatusCode::OK, JSON, r#"[{"targets": ["a:3"]}]"#);
    pool.until(&["a:3"]).await;
    answer(&listing, StatusCode::OK, JSON, "[]");
    pool.until(&[]).await;
    pool.end().await;
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let (address, listing) = listing_server().await;
    let long = " ".repeat((64 << 20) + 1);
    answer(&listing, StatusCode::OK, "application/json", &long);
    let url = format!("http://{address}/targets");
    let mut made = None;
    let client = HttpClientConfig::default();
    let error = http::fetch_groups(&url, &url, SHORT, &client, &mut made).await;
    assert!(error.unwrap_err().contains("more than"));
}

/// A DNS server that knows some records.
#[derive(Default)]
struct Zone {
    records: Vec<Record>,
    fails: bool,
    asked: usize,
}

impl Zone {
    fn answer(&mut self, request: &Message) -> Message {
        self.asked += 1;
        let mut response = Message::response(request.metadata.id, OpCode::Query);
        let Some(query) = request.queries.first() else {
            return response;
        };
        response.add_query(query.clone());
        let of_name = self
            .records
            .iter()
            .filter(|record| record.name == *query.name());
        let known = of_name.clone().count() > 0;
        let found = of_name.filter(|record| {
            let kind = record.record_type();
            kind == query.query_type() || kind == RecordType::CNAME
        });
        if self.fails {
            response.metadata.response_code = ResponseCode::ServFail;
        } else if known {
            response.add_answers(found.cloned());
        } else {
            response.metadata.response_code = ResponseCode::NXDomain;
        }
        response
    }
}

async fn dns_server() -> (SocketAddr, Arc<Mutex<Zone>>) {
    let zone = Arc::new(Mutex::new(Zone::default()));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let answering = Arc::clone(&zone);
    tokio::spawn(async move {
        let mut bytes = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
            let request = Message::from_vec(&bytes[..length]).unwrap();
            let response = answering.lock().answer(&request);
            let _ = socket.send_to(&response.to_vec().unwrap(), from).await;
        }
    });
    (address, zone)
}

fn dns_pool(server: SocketAddr, names: &[&str], record: DnsRecord, port: Option<u16>) -> Pool {
    let resolver = move || {
        let mut name_server = NameServerConfig::udp(server.ip());
        name_server.connections[0].port = server.port();
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![name_server]);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        builder.options_mut().cache_size = 0;
        builder.build().map_err(|error| error.to_string())
    };
    let asked = dns::DnsQuery {
        names: names.iter().map(ToString::to_string).collect(),
        record,
        port,
    };
    let (sender, receiver) = mpsc::channel(4);
    let task = tokio::spawn(dns::run(asked, SHORT, resolver, sender));
    Pool::receiving(receiver, task)
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn record(of: &str, data: RData) -> Record {
    Record::from_rdata(name(of), 60, data)
}

#[tokio::test]
async fn srv_records_are_targets() {
    let (server, zone) = dns_server().await;
    let srv = |port, target| RData::SRV(SRV::new(1, 1, port, name(target)));
    zone.lock().records = vec![
        record("_x._tcp.test.", srv(9100, "b.test.")),
        record("_x._tcp.test.", srv(9100, "a.test.")),
        record("_y._tcp.test.", srv(1, "c.test.")),
    ];
    let mut pool = dns_pool(
        server,
        &["_x._tcp.test.", "_y._tcp.test."],
        DnsRecord::Srv,
        None,
    );
    pool.until(&["a.test:9100", "b.test:9100", "c.test:1"])
        .await;
    let group = &pool.groups["_x._tcp.test.:0"];
    let labels: BTreeMap<_, _> = group.labels.iter().cloned().collect();
    assert_eq!(group.targets, ["a.test:9100"]);
    assert_eq!(labels["__meta_dns_name"], "_x._tcp.test.");
    assert_eq!(labels["__meta_dns_srv_record_target"], "a.test.");
    assert_eq!(labels["__meta_dns_srv_record_port"], "9100");
    // One goes.
    zone.lock().records.remove(0);
    pool.until(&["a.test:9100", "c.test:1"]).await;
    pool.end().await;
}

#[tokio::test]
async fn addresses_and_names_get_the_port_of_the_configuration() {
    let (server, zone) = dns_server().await;
    zone.lock().records = vec![
        record("h.test.", RData::A(A::new(10, 0, 0, 1))),
        record("h.test.", RData::A(A::new(10, 0, 0, 2))),
        record(
            "h.test.",
            RData::AAAA(AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        ),
        record("h.test.", RData::MX(MX::new(10, name("mail.test.")))),
        record("h.test.", RData::NS(NS(name("ns.test.")))),
        record("alias.test.", RData::CNAME(CNAME(name("h.test.")))),
        record("alias.test.", RData::A(A::new(10, 0, 0, 9))),
    ];
    for (kind, of, targets, label) in [
        (
            DnsRecord::A,
            "h.test.",
            &["10.0.0.1:80", "10.0.0.2:80"][..],
            None,
        ),
        (DnsRecord::Aaaa, "h.test.", &["[2001:db8::1]:80"], None),
        (
            DnsRecord::Mx,
            "h.test.",
            &["mail.test:80"],
            Some(("__meta_dns_mx_record_target", "mail.test.")),
        ),
        (
            DnsRecord::Ns,
            "h.test.",
            &["ns.test:80"],
            Some(("__meta_dns_ns_record_target", "ns.test.")),
        ),
    ] {
        let mut pool = dns_pool(server, &[of], kind, Some(80));
        pool.until(targets).await;
        assert!(pool.labels().contains(&("__meta_dns_name", of)), "{kind:?}");
        if let Some(label) = label {
            assert!(pool.labels().contains(&label), "{:?}", pool.labels());
        }
        pool.end().await;
    }
}

#[tokio::test]
async fn a_failing_server_changes_nothing_and_a_missing_name_does() {
    let (server, zone) = dns_server().await;
    let known = vec![record("h.test.", RData::A(A::new(10, 0, 0, 1)))];
    zone.lock().records = known;
    let mut pool = dns_pool(server, &["h.test."], DnsRecord::A, Some(80));
    pool.until(&["10.0.0.1:80"]).await;
    // Often enough that a failed answer has been taken in, since one lookup may ask several times.
    let asked_again = |zone: Arc<Mutex<Zone>>| async move {
        let seen = zone.lock().asked;
        let wait = async {
            while zone.lock().asked < seen + 10 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait)
            .await
            .expect("questions in time");
    };
    zone.lock().fails = true;
    asked_again(Arc::clone(&zone)).await;
    assert!(pool.receiver.try_recv().is_err());
    zone.lock().fails = false;
    zone.lock().records.clear();
    pool.until(&[]).await;
    pool.end().await;
}

#[test]
fn only_changes_are_told() {
    let group = |source: &str, target: &str| TargetGroup {
        targets: vec![target.into()],
        labels: Vec::new(),
        source: source.into(),
    };
    let mut known = KnownGroups::default();
    let both = vec![group("0", "a"), group("1", "b")];
    assert_eq!(known.replace(both.clone()), both);
    assert_eq!(known.replace(both.clone()), []);
    known.keep("test", "reason".into());
    assert_eq!(known.replace(both), []);
    assert_eq!(
        known.replace(vec![group("0", "c")]),
        [
            group("0", "c"),
            TargetGroup {
                source: "1".into(),
                ..TargetGroup::default()
            },
        ]
    );
}
