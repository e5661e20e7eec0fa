//! Requests with what a real OpenTSDB 2.4.1 answered, replayed.
//!
//! The recordings are not part of this repository: they lie in `../shared/opentsdb-conformance`, or
//! where `ICECORE_OPENTSDB_CONFORMANCE` says. `ICECORE_OPENTSDB_AREA=query` replays one area alone
//! and prints what differs.

mod compare;
mod deviations;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use icecore_model::ManualClock;
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::telnet::{Session, is_http};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Mode, Tsd};
use icecore_wire::json::{JsonReader, SyntaxError};
use serde_json::Value;

use compare::{Answer, differences};
use deviations::reason;

/// Some answers depend on where in its hour a request comes: at minute 40 the recordings hold.
const NOW_S: i64 = 1_700_000_000 / 3600 * 3600 + 2400;

#[test]
fn answers_are_the_recorded_ones() {
    let Some(folder) = recordings() else {
        skipped_tests::skip(
            "answers of OpenTSDB 2.4.1",
            "recordings in ../shared/opentsdb-conformance",
        );
        return;
    };
    let only = std::env::var("ICECORE_OPENTSDB_AREA").ok();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    let (mut agree, mut deviate, mut differ) = (0, 0, 0);
    for file in files {
        let path = file.path();
        let area = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_recording = path.extension().is_some_and(|e| e == "json");
        if !is_recording || only.as_ref().is_some_and(|only| *only != area) {
            continue;
        }
        // One answer has half of a surrogate pair, which is no text in Rust.
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("\\ud83d\"", "\\ufffd\"");
        let mut groups: Value = serde_json::from_str(&text).unwrap();
        keep_bodies(&mut groups, &text);
        for group in groups.as_array().unwrap() {
            let outcome = replay(&area, group, only.is_some());
            let name = group["name"].as_str().unwrap();
            println!("{area}/{name}: {outcome:?}");
            agree += outcome.agree;
            deviate += outcome.deviate;
            differ += outcome.differ;
        }
    }
    println!("{agree} agree, {deviate} deviate on purpose, {differ} differ");
    assert_eq!(differ, 0, "answers differ from the recorded ones");
}

fn recordings() -> Option<PathBuf> {
    let default =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/opentsdb-conformance");
    let folder = std::env::var_os("ICECORE_OPENTSDB_CONFORMANCE").map_or(default, PathBuf::from);
    folder.is_dir().then_some(folder)
}

#[derive(Debug, Default)]
struct Outcome {
    agree: usize,
    deviate: usize,
    differ: usize,
}

/// All steps of a group on an empty store.
fn replay(area: &str, group: &Value, verbose: bool) -> Outcome {
    let clock = Arc::new(ManualClock::at(NOW_S * 1000));
    let config = config(group["config"].as_str().unwrap());
    let tsd = block_on(Tsd::open(config, MemoryStore::stores(), clock)).unwrap();
    let name = group["name"].as_str().unwrap();
    let mut outcome = Outcome::default();
    for (i, step) in group["steps"].as_array().unwrap().iter().enumerate() {
        let step = with_times(step);
        let found = block_on(answer(&tsd, &step));
        let found = differences(&step, &found);
        if found.is_empty() {
            outcome.agree += 1;
        } else if reason(area, name, i).is_some() {
            outcome.deviate += 1;
        } else {
            outcome.differ += 1;
            if verbose {
                let request = match step.get("telnet") {
                    Some(lines) => lines.to_string(),
                    None => format!("{} {}", step["method"], step["path"]),
                };
                println!("  {name} #{i} {request}\n      {}", found.join("\n      "));
            }
        }
    }
    outcome
}

/// Sends bodies as they were recorded: the order of members may mean something.
fn keep_bodies(groups: &mut Value, text: &str) {
    let mut bodies = Vec::new();
    let mut reader = JsonReader::new(text, 64);
    collect_bodies(&mut reader, &mut bodies).unwrap();
    let groups = groups.as_array_mut().unwrap().iter_mut();
    let steps = groups.flat_map(|group| group["steps"].as_array_mut().unwrap());
    let with_body = steps.filter(|step| step.get("body").is_some());
    for (step, body) in with_body.zip(bodies) {
        // Bodies with times are made of the value.
        if step.get("raw_body").is_none() && !body.contains("{{now") {
            step["raw_body"] = body.into();
        }
    }
}

/// The texts of all `body` members of steps.
fn collect_bodies(
    reader: &mut JsonReader<'_>,
    bodies: &mut Vec<String>,
) -> Result<(), SyntaxError> {
    reader.array(|group| {
        group.object(|group, name| {
            if name != "steps" {
                return group.skip();
            }
            group.array(|step| {
                step.object(|step, name| {
                    let is_body = name == "body";
                    let text = step.span(JsonReader::skip)?;
                    bodies.extend(is_body.then(|| text.to_owned()));
                    Ok(())
                })
            })
        })
    })
}

/// The settings under which a group was recorded.
fn config(name: &str) -> Config {
    let common = Config {
        auto_create_metrics: true,
        timezone: Some("UTC".into()),
        show_stack_trace: false,
        enable_chunked: true,
        max_chunk: 1 << 24,
        ..Config::default()
    };
    match name {
        "plain" => common,
        "meta" => Config {
            realtime_uid: true,
            realtime_ts: true,
            tsuid_tracking: true,
            tsuid_incrementing: true,
            tree_processing: true,
            ..common
        },
        "rollup" => Config {
            rollups: Some(ROLLUPS.into()),
            histogram_codecs: Some([("net.opentsdb.core.SimpleHistogramDecoder".into(), 0)].into()),
            allow_delete: true,
            fix_duplicates: true,
            skip_unresolved_tagvs: true,
            cors_domains: vec!["*".into()],
            ..common
        },
        "strict" => Config::default(),
        "ro" | "wo" => Config {
            mode: if name == "ro" {
                Mode::ReadOnly
            } else {
                Mode::WriteOnly
            },
            auto_create_metrics: true,
            show_stack_trace: false,
            ..Config::default()
        },
        other => panic!("unknown settings {other}"),
    }
}

const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1,"min":2,"max":3},
 "intervals":[{"table":"tsdb","preAggregationTable":"tsdb-preagg","interval":"1m","rowSpan":"1h","defaultInterval":true},
              {"table":"tsdb-rollup-10m","preAggregationTable":"tsdb-rollup-agg-10m","interval":"10m","rowSpan":"1d"},
              {"table":"tsdb-rollup-1h","preAggregationTable":"tsdb-rollup-agg-1h","interval":"1h","rowSpan":"1n"}]}"#;

async fn answer(tsd: &Tsd, step: &Value) -> Answer {
    if let Some(lines) = step.get("telnet") {
        return telnet(tsd, lines, step.get("eol")).await;
    }
    let body = match (step.get("raw_body"), step.get("body")) {
        (Some(text), _) => text.as_str().unwrap().to_owned(),
        (None, Some(json)) => json.to_string(),
        (None, None) => String::new(),
    };
    let mut headers = HeaderMap::new();
    let given = step.get("headers").and_then(Value::as_object);
    for (name, value) in given.into_iter().flatten() {
        let name: HeaderName = name.parse().unwrap();
        headers.insert(
            name,
            HeaderValue::from_str(value.as_str().unwrap()).unwrap(),
        );
    }
    let method = Method::from_bytes(step["method"].as_str().unwrap().as_bytes()).unwrap();
    let path = step["path"].as_str().unwrap();
    let request = Request::new(method, path, headers, body.into());
    Answer::Http(handle(tsd, &request).await)
}

/// Lines on a fresh connection, in one write.
async fn telnet(tsd: &Tsd, lines: &Value, eol: Option<&Value>) -> Answer {
    let eol = eol.and_then(Value::as_str).unwrap_or("\n");
    let lines = lines.as_array().unwrap().iter();
    let bytes: String = lines
        .flat_map(|line| [line.as_str().unwrap(), eol])
        .collect();
    // The port is HTTP's, too: what begins like HTTP is not read as a line.
    if bytes.bytes().next().is_some_and(is_http) {
        return Answer::Telnet {
            reply: String::new(),
            closed: true,
        };
    }
    let mut session = Session::new(tsd);
    let reply = session.feed(bytes.as_bytes()).await;
    let last = session.finish().await;
    Answer::Telnet {
        reply: reply.text + &last,
        closed: reply.close,
    }
}

/// A step with `{{now-N}}` and `{{now_ms-N}}` replaced by times.
fn with_times(step: &Value) -> Value {
    match step {
        Value::String(text) => replace_times(text),
        Value::Array(elements) => elements.iter().map(with_times).collect(),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let key = match replace_times(key) {
                    Value::String(key) => key,
                    number => number.to_string(),
                };
                (key, with_times(value))
            };
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

fn replace_times(text: &str) -> Value {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{now") {
        let (inner, after) = behind.split_once("}}").unwrap();
        let (unit, ago) = inner.split_once('-').unwrap();
        let scale = if unit == "_ms" { 1000 } else { 1 };
        let time = (NOW_S - ago.parse::<i64>().unwrap()) * scale;
        if before.is_empty() && after.is_empty() && replaced.is_empty() {
            return time.into();
        }
        replaced.push_str(before);
        replaced.push_str(&time.to_string());
        rest = after;
    }
    replaced.push_str(rest);
    Value::String(replaced)
}
