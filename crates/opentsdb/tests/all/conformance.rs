//! Requests with what a real OpenTSDB 2.4.1 answered, replayed over stores in memory.
//!
//! `ICECORE_OPENTSDB_AREA=query` replays one area alone. Elsewhere: the same at the real process
//! (`crates/cli/tests/all/opentsdb/recorded.rs`).

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use icecore_model::ManualClock;
use icecore_opentsdb::api::{Request as ApiRequest, handle};
use icecore_opentsdb::telnet::{Session, is_http};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, ConfigFile, Tsd};
use opentsdb_recordings::{
    Answer, Group, HttpAnswer, HttpRequest, Place, Request, Tally, groups_in, recorded_groups,
    replay, settings,
};

/// Some answers depend on where in its hour a request comes: at minute 40 the recordings hold.
const NOW_S: i64 = 1_700_000_000 / 3600 * 3600 + 2400;

#[test]
fn answers_are_the_recorded_ones() {
    replay_all(recorded_groups());
}

/// Answers that the recordings lack.
#[test]
fn answers_to_small_things_are_the_recorded_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/opentsdb");
    let groups = groups_in(&root.join("small.json"));
    assert_eq!(groups.len(), 3);
    replay_all(groups);
}

fn replay_all(groups: Vec<Group>) {
    let mut all = Tally::default();
    for group in groups {
        let clock = Arc::new(ManualClock::at(NOW_S * 1000));
        let config = config(&group.settings);
        let tsd = block_on(Tsd::open(config, MemoryStore::stores(), clock)).unwrap();
        all.add(replay(&group, Place::Memory, NOW_S, |request| {
            block_on(answer(&tsd, request))
        }));
    }
    let (agree, deviate, differ) = (all.agree, all.deviate, all.differ);
    println!("{agree} agree, {deviate} deviate on purpose");
    assert!(
        differ.is_empty(),
        "{} differ:\n{}",
        differ.len(),
        differ.join("\n")
    );
}

fn config(name: &str) -> Config {
    let file = ConfigFile::read(&settings(name), |path| Err(path.to_owned()));
    assert_eq!((&file.problems[..], &file.unknown[..]), (&[][..], &[][..]));
    Config {
        // The original has both, and no way to turn them off.
        get_overrides: true,
        jsonp: true,
        ..file.config
    }
}

async fn answer(tsd: &Tsd, request: &Request) -> Answer {
    match request {
        Request::Http(request) => http_answer(tsd, request).await,
        // The port is HTTP's, too: what begins like HTTP is not read as a line.
        Request::Telnet { bytes, .. } if bytes.bytes().next().is_some_and(is_http) => {
            Answer::Telnet {
                reply: String::new(),
                closed: true,
            }
        }
        Request::Telnet { bytes, .. } => {
            let mut session = Session::new(tsd);
            let reply = session.feed(bytes.as_bytes()).await;
            let last = session.finish().await;
            Answer::Telnet {
                reply: reply.text + &last,
                closed: reply.close,
            }
        }
    }
}

async fn http_answer(tsd: &Tsd, request: &HttpRequest) -> Answer {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let name: HeaderName = name.parse().unwrap();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    let method = Method::from_bytes(request.method.as_bytes()).unwrap();
    let body = request.body.clone().into();
    let request = ApiRequest::new(method, &request.path, headers, body);
    let answer = handle(tsd, &request).await;
    let headers = answer.headers.into_iter();
    Answer::Http(HttpAnswer {
        status: answer.status.as_u16(),
        content_type: answer.content_type.to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
        body: answer.body,
    })
}
