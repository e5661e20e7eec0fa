//! Random points and queries, at this process and at a running OpenTSDB 2.4.
//!
//! For developers who have one, with `tsd.core.auto_create_metrics` and
//! `tsd.http.request.enable_chunked` set:
//!
//! ```text
//! ICECORE_OPENTSDB_ORIGINAL=127.0.0.1:4242 ORIGINAL_SECONDS=300 \
//!     cargo test -p icecore --test all original -- --ignored --nocapture
//! ```
//!
//! `ORIGINAL_SEED=…` asks the same queries again; names have the seed in them, and a run makes its
//! own, so that the original need not be empty.

mod points;
mod queries;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use opentsdb_recordings::compare_documents;
use serde_json::Value as Json;

use self::points::{Names, points};
use self::queries::{Asked, ask};
use super::serve;
use crate::crash::{number_from, say};
use crate::http::{Client, Response};
use crate::random::Random;
use crate::served::Workplace;

/// Queries about the same points.
const QUERIES_PER_ROUND: usize = 150;

/// What differs is shown so many times.
const SHOWN_MAX: usize = 20;

const SETTINGS: &str = "\
tsd.core.auto_create_metrics = true
tsd.core.timezone = UTC
tsd.http.request.enable_chunked = true
tsd.http.request.max_chunk = 1048576
tsd.http.show_stack_trace = false
";

#[test]
#[ignore = "needs a running OpenTSDB at ICECORE_OPENTSDB_ORIGINAL"]
fn answers_are_those_of_the_original() {
    let original = std::env::var("ICECORE_OPENTSDB_ORIGINAL");
    let original = original.expect("ICECORE_OPENTSDB_ORIGINAL=127.0.0.1:4242");
    let original: SocketAddr = original.parse().expect("an address of this machine");
    let seconds = number_from("ORIGINAL_SECONDS").unwrap_or(60);
    let until = Instant::now() + Duration::from_secs(seconds);
    let seed = number_from("ORIGINAL_SEED").unwrap_or_else(crate::crash::seed);
    say(&format!("ORIGINAL_SEED={seed}"));
    let workplace = Workplace::new();
    let served = serve(&workplace, "data", SETTINGS).start();
    let mut both = Both {
        original: Client::new(original),
        ours: Client::new(served.opentsdb_address()),
        asked: 0,
        different: Vec::new(),
    };
    let mut random = Random::new(seed);
    let mut round = 0;
    while Instant::now() < until && both.different.len() < SHOWN_MAX {
        round += 1;
        let run = std::process::id();
        let names = Names::new(&format!("{seed}.{run}.{round}"), &mut random);
        both.assign(&names);
        for body in points(&names, &mut random) {
            both.put(&body);
        }
        both.wait_for_points(&names);
        for _ in 0..QUERIES_PER_ROUND {
            both.compare(&ask(&names, &mut random));
        }
    }
    let (asked, count) = (both.asked, both.different.len());
    say(&format!(
        "{asked} queries in {round} rounds, {count} answers differ"
    ));
    let shown: Vec<&str> = both.different.iter().map(String::as_str).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n\n"));
}

struct Both {
    original: Client,
    ours: Client,
    asked: usize,
    different: Vec<String>,
}

impl Both {
    /// The order of UIDs is the order of results: names get theirs in the same order.
    fn assign(&mut self, names: &Names) {
        let body = names.assigned();
        for client in [&mut self.original, &mut self.ours] {
            let answer = post(client, "/api/uid/assign", &body);
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }

    fn put(&mut self, body: &str) {
        for client in [&mut self.original, &mut self.ours] {
            let answer = post(client, "/api/put?details&sync=true", body);
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }

    /// The original answers before points can be read.
    fn wait_for_points(&mut self, names: &Names) {
        let query = names.all_points();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let [ours, original] = [&mut self.ours, &mut self.original]
                .map(|client| post(client, "/api/query", &query).text());
            if compare_documents(&parsed(&original), &parsed(&ours)).is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "points differ:\n{original}\n{ours}"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn compare(&mut self, asked: &Asked) {
        self.asked += 1;
        let [original, ours] = [&mut self.original, &mut self.ours].map(|client| {
            let answer = match asked {
                Asked::Get(path) => client.get(path),
                Asked::Post(path, body) => client.post(path, &[JSON], body.as_bytes()),
            };
            answer.expect("it lives")
        });
        let differences = differences(&original, &ours);
        if !differences.is_empty() {
            let differences: Vec<String> = differences.into_iter().take(5).collect();
            let short = |answer: &Response| answer.text().chars().take(600).collect::<String>();
            let text = format!(
                "{asked:?}\n  {}\n  original {}: {}\n  ours {}: {}",
                differences.join("\n  "),
                original.status,
                short(&original),
                ours.status,
                short(&ours),
            );
            say(&text);
            self.different.push(text);
        }
    }
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn post(client: &mut Client, path: &str, body: &str) -> Response {
    client
        .post(path, &[JSON], body.as_bytes())
        .expect("it lives")
}

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What differs for no reason that `docs/opentsdb.md` gives.
fn differences(original: &Response, ours: &Response) -> Vec<String> {
    if has_failed(original) && [200, 400].contains(&ours.status) {
        return Vec::new();
    }
    if original.status != ours.status {
        return vec![format!("status {}, not {}", ours.status, original.status)];
    }
    let [original, ours] = [original, ours].map(|answer| comparable(parsed(&answer.text())));
    compare_documents(&original, &ours)
}

/// Whether the original met a fault of its own.
fn has_failed(original: &Response) -> bool {
    let is_null_pointer = original.status == 400 && original.text().contains("is null\"");
    original.status == 500 || is_null_pointer
}

/// A document without what need not be equal.
fn comparable(mut document: Json) -> Json {
    if let Some(error) = document.get_mut("error").and_then(Json::as_object_mut) {
        error.remove("details");
        error.remove("trace");
        // What follows shows Java's objects.
        let message = error.get("message").and_then(Json::as_str);
        let split = message.and_then(|text| text.split_once("intersections found: "));
        if let Some((start, _)) = split {
            error["message"] = start.to_owned().into();
        }
    }
    if let Some(results) = document.as_array_mut() {
        // explicitTags makes results of no series.
        results.retain(|result| result.get("metric").is_none_or(|metric| metric != ""));
    }
    let outputs = document.get_mut("outputs").and_then(Json::as_array_mut);
    for output in outputs.into_iter().flatten() {
        // The first time of no rows is the largest number there, the last of one row is 0.
        let meta = &mut output["dpsMeta"];
        if meta["setCount"] == 0 || meta["setCount"] == 1 {
            meta["firstTimestamp"] = Json::Null;
            meta["lastTimestamp"] = Json::Null;
        }
    }
    document
}
