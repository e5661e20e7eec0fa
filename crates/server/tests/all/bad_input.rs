//! Bad input of every protocol, as `docs/http-api.md` promises it: the status, the reason, and what
//! is stored all the same.
//!
//! Holds always: the table in the document and the cases here are the same list, in the same order,
//! and each case was sent to a process. `UPDATE_DOCS=1` rewrites the table.

mod import;
mod otlp;
mod pages;
mod questions;
mod remote_write;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;

use serde_json::Value;

use crate::documents::document;
use crate::payload::{Payload, T0, series};
use crate::scrape_target::LiveTarget;
use crate::scraper::Scraper;
use crate::served::{TestServer, until};

const BEGIN: &str =
    "<!-- bad input: generated, by UPDATE_DOCS=1 cargo test -p icecore-server bad_input -->\n";
const END: &str = "<!-- bad input: end -->\n";

/// Small, so that too much is quickly sent. An import takes 32 MiB of what all bodies may.
const SETTINGS: [(&str, &str); 5] = [
    ("server.write_body_bytes_max", "256KiB"),
    ("server.write_decompressed_bytes_max", "20MiB"),
    ("limits.labels_per_series_max", "10"),
    ("limits.samples_per_request_max", "1000"),
    ("otlp.grpc_listen", "127.0.0.1:0"),
];

/// More than a body may have before decompression, and after it.
const TOO_LONG: usize = (256 << 10) + 1;
const TOO_LONG_DECOMPRESSED: usize = (20 << 20) + 1;

/// Far beyond every clock: the year 2100.
const FAR_MS: i64 = 4_102_444_800_000;

/// One row of the table.
struct Case {
    protocol: &'static str,
    what: &'static str,
    status: &'static str,
    /// A part of the answer.
    says: &'static str,
    stored: Stored,
    sent: Sent,
}

/// What a case sends. Its series begin with the name that it is given.
enum Sent {
    Http(fn(&str) -> Request),
    Grpc(fn(&str) -> Request),
    /// What a target answers when it is scraped.
    Page(fn() -> Page),
}

/// What is there afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    Nothing,
    /// `…_good` and `…_too`, between which the bad part stands.
    GoodPart,
    /// `…_good`, which stands before the bad part; what stands behind it is not.
    Before,
    /// It does not write.
    Unchanged,
}

struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
}

/// A page, and further lines of the job that scrapes it.
struct Page {
    status: u16,
    content_type: &'static str,
    gzip: bool,
    body: Vec<u8>,
    job: &'static str,
}

impl Case {
    fn row(&self) -> String {
        let Self {
            protocol,
            what,
            status,
            says,
            ..
        } = self;
        let stored = match self.stored {
            Stored::Nothing => "nothing",
            Stored::GoodPart => "the good part",
            Stored::Before => "what stands before it",
            Stored::Unchanged => "–",
        };
        format!("| {protocol} | {what} | {status} | `{says}` | {stored} |\n")
    }

    /// The names of series that must be there, without what the case's own begin with.
    fn names(&self) -> &'static [&'static str] {
        match self.stored {
            Stored::Nothing | Stored::Unchanged => &[],
            Stored::GoodPart => &["good", "too"],
            Stored::Before => &["good"],
        }
    }
}

fn post(path: &str, headers: &[(&'static str, &'static str)], body: Vec<u8>) -> Request {
    Request {
        method: "POST",
        path: path.into(),
        headers: headers.to_vec(),
        body,
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Without its last bytes.
fn cut(mut body: Vec<u8>) -> Vec<u8> {
    body.truncate(body.len() - 3);
    body
}

fn cases() -> Vec<Case> {
    let lists = [
        remote_write::cases(),
        otlp::http_cases(),
        otlp::grpc_cases(),
        import::cases(),
        pages::cases(),
        questions::cases(),
    ];
    lists.into_iter().flatten().collect()
}

#[test]
fn the_documented_answers_are_those_of_the_cases() {
    let mut table = String::from(
        "| sent to | what is sent | status | what the answer says | what is stored |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    table.extend(cases().iter().map(Case::row));
    let written = document("http-api.md");
    let (before, rest) = written.split_once(BEGIN).expect("begin marker");
    let (_, after) = rest.split_once(END).expect("end marker");
    let expected = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let path = format!("{}/../../docs/http-api.md", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, &expected).unwrap();
    } else {
        assert!(
            written == expected,
            "the table of bad input in docs/http-api.md is another one: run this test with UPDATE_DOCS=1"
        );
    }
}

#[test]
fn rows_can_be_told_apart_and_shown() {
    let cases = cases();
    let keys: BTreeSet<_> = cases
        .iter()
        .map(|case| (case.protocol, case.what))
        .collect();
    assert_eq!(keys.len(), cases.len());
    for case in &cases {
        for text in [case.what, case.says] {
            assert!(!text.is_empty() && !text.contains(['|', '\n']), "{text}");
        }
        assert!(!case.says.contains('`'), "{}", case.says);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_gets_the_documented_answer() {
    let served = TestServer::start(&SETTINGS).await;
    let kept = Payload::v1(&[series(questions::KEPT, &[], &[(T0, 1.0)])]);
    assert_eq!(served.write(&kept).await.status, 204);
    let mut wrong = Vec::new();
    for (i, case) in cases().iter().enumerate() {
        let name = format!("case{i}");
        let (status, text) = match case.sent {
            Sent::Http(request) => over_http(&served, request(&name)).await,
            Sent::Grpc(request) => over_grpc(&served, request(&name)).await,
            Sent::Page(_) => continue,
        };
        let stored = stored(&served, &name).await;
        if status != case.status || !text.contains(case.says) || stored != case.names() {
            let row = case.row();
            let text = text.chars().take(500).collect::<String>();
            wrong.push(format!("{row}  got {status} {text:?}, stored {stored:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(
        served.export(&[("match[]", questions::KEPT)]).await.len(),
        1
    );
    served.stop().await.unwrap();
}

async fn over_http(served: &TestServer, request: Request) -> (String, String) {
    let answer = served
        .request(
            request.method,
            &request.path,
            &request.headers,
            &request.body,
        )
        .await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    (answer.status.to_string(), text)
}

/// The status is gRPC's. That of a success stands in the trailers, which the client does not show.
async fn over_grpc(served: &TestServer, request: Request) -> (String, String) {
    let address: SocketAddr = served.grpc_address.expect("gRPC is listened for");
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let client = client.no_proxy().build().unwrap();
    let url = format!("http://{address}{}", request.path);
    let mut asked = client.post(url).body(request.body);
    for (name, value) in request.headers {
        asked = asked.header(name, value);
    }
    let answer = asked.send().await.expect("an answer");
    let header = |name: &str| {
        let value = answer.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let status = header("grpc-status").unwrap_or_else(|| "0".into());
    let message = header("grpc-message").unwrap_or_default();
    // A form, but for its plus signs, which a message does not escape.
    let message = format!("m={}", message.replace('+', "%2B"));
    let (_, message) = form_urlencoded::parse(message.as_bytes()).next().unwrap();
    let body = answer.bytes().await.expect("a body");
    let text = format!("{message}{}", String::from_utf8_lossy(&body));
    (format!("gRPC {status}"), text)
}

/// What is there of a case, without what its names begin with.
async fn stored(served: &TestServer, name: &str) -> Vec<String> {
    let selector = format!("{{__name__=~\"{name}_.+\"}}");
    let lines = served.export(&[("match[]", &selector)]).await;
    let prefix = format!("{name}_");
    names_of(&lines)
        .into_iter()
        .map(|found| found.trim_start_matches(&prefix).to_owned())
        .collect()
}

fn names_of(lines: &[Value]) -> BTreeSet<String> {
    let name = |line: &Value| line["metric"]["__name__"].as_str().unwrap().to_owned();
    lines.iter().map(name).collect()
}

/// Series that a scrape has whatever its page is.
fn is_report(name: &str) -> bool {
    name == "up" || name.starts_with("scrape_")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scraped_page_gets_the_documented_health() {
    let mut file = String::from("scrape_configs:\n");
    let mut targets = Vec::new();
    let cases = cases();
    let pages = cases
        .iter()
        .enumerate()
        .filter_map(|(i, case)| match case.sent {
            Sent::Page(page) => Some((format!("case{i}"), case, page())),
            _ => None,
        });
    for (name, case, page) in pages {
        let target = LiveTarget::start("").await;
        let (address, keys) = (target.address, page.job);
        file.push_str(&format!(
            "  - job_name: {name}\n    scrape_interval: 3s\n    scrape_timeout: 3s\n    \
             static_configs: [{{targets: ['{address}']}}]\n    {keys}\n"
        ));
        target.set(|behaviour| {
            behaviour.status = page.status;
            behaviour.headers = vec![("content-type", page.content_type.into())];
            if page.gzip {
                behaviour.headers.push(("content-encoding", "gzip".into()));
            }
            behaviour.body = page.body;
        });
        targets.push((name, case, target));
    }
    let scraper = Scraper::start_with(&file, &[("limits.labels_per_series_max", "10")]).await;
    for (name, case, _) in &targets {
        let error = |data: &Value| {
            let active = data["activeTargets"].as_array().unwrap();
            let target = active.iter().find(|target| target["scrapePool"] == **name);
            let target = target?;
            Some(target["lastError"].as_str().unwrap().to_owned())
        };
        let says = |data: &Value| error(data).is_some_and(|error| error.contains(case.says));
        until(|| scraper.targets(), says, &case.row()).await;
        let up = format!("up{{job=\"{name}\"}}");
        let value = case.status.trim_start_matches("up ");
        scraper.until_value(&up, value).await;
        let selector = format!("{{job=\"{name}\"}}");
        let lines = scraper.served.export_once(&[("match[]", &selector)]).await;
        let mut found = names_of(&lines);
        found.retain(|name| !is_report(name));
        assert!(found.iter().eq(case.names()), "{}{found:?}", case.row());
    }
    scraper.served.stop().await.unwrap();
}
