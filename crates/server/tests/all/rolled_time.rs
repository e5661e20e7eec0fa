//! What is read and deleted of samples that the server itself has rolled up and culled.

use std::collections::BTreeSet;
use std::sync::Arc;

use icecore_model::STALE_NAN_BITS;
use icecore_storage::{Environment, ManualClock};
use serde_json::{Value, json};

use crate::client::{Answer, encoded};
use crate::payload::{Payload, series};
use crate::remote_read::{self, ChunkSamples, SAMPLES, STREAMED, decode};
use crate::served::{TestServer, config};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A midnight, 60 days after which it is now: samples go after 21 days, and windows of 5 minutes
/// after 90.
const START: i64 = 1_699_920_000_000;
const NOW: i64 = START + 60 * DAY_MS;

const EXPORT: &str = "/api/v1/export";
const DELETE: &str = "/api/v1/admin/tsdb/delete_series";
const RESOLUTION: &str = "x-icecore-resolution";

/// What the header says of the old samples: borders are those of buckets of 32 hours.
const HEADER: &str = "5m 2023-11-13T16:00:00Z/2023-11-19T00:00:00Z";

const ALL: (&str, &str) = ("match[]", "m");

async fn served(retention: Option<&str>) -> TestServer {
    let mut settings = vec![("storage.gc_min_age", "1s")];
    settings.extend(retention.map(|policy| ("retention", policy)));
    let environment = Environment {
        clock: Some(Arc::new(ManualClock::at(NOW))),
        ..Environment::default()
    };
    let served = TestServer::starting(config(&settings), environment).await;
    served.until_ready().await;
    served
}

/// Nearly five days of a sample a minute, not on the minute, with a marker that ends them, and an
/// hour of today.
fn samples() -> Vec<(i64, f64)> {
    let last = START + 5 * DAY_MS - 12 * HOUR_MS;
    let old = (START..last).step_by(MINUTE_MS as usize);
    let mut old: Vec<(i64, f64)> = old.enumerate().map(|(i, t)| (t + 7, i as f64)).collect();
    let stale = f64::from_bits(STALE_NAN_BITS);
    // Inside of a window, some time after the last sample.
    old.push((last - MINUTE_MS / 2, stale));
    let new = (0..12).map(|i| (NOW - 2 * HOUR_MS + i * 5 * MINUTE_MS, 1.0));
    old.extend(new);
    old
}

/// A server of which all that is old is rolled up and culled, and what was written to it.
async fn rolled() -> (TestServer, Vec<(i64, f64)>) {
    let served = served(Some("default")).await;
    let samples = samples();
    for part in samples.chunks(2000) {
        let payload = Payload::v1(&[series("m", &[], part)]);
        assert_eq!(served.write(&payload).await.status, 204);
    }
    let answer = served.get(EXPORT, &[ALL]).await;
    assert_eq!(answer.header(RESOLUTION), None, "nothing is rolled up yet");
    assert_eq!(exported(&answer), bits(&samples));
    let run = served.request("POST", "/api/v1/admin/maintenance/run", &[], b"");
    let report = run.await.data();
    assert!(report["rolledUp"] != 0 && report["culled"] != 0, "{report}");
    (served, samples)
}

fn bits(samples: &[(i64, f64)]) -> Vec<(i64, u64)> {
    samples.iter().map(|(t, v)| (*t, v.to_bits())).collect()
}

/// The samples of an export of one series.
fn exported(answer: &Answer) -> Vec<(i64, u64)> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let value = |value: &Value| match value.as_str() {
        Some("StaleNaN") => STALE_NAN_BITS,
        _ => value.as_f64().unwrap().to_bits(),
    };
    let lines = answer.text().lines();
    let lines: Vec<Value> = lines.map(|l| serde_json::from_str(l).unwrap()).collect();
    let samples = lines.iter().flat_map(|line| {
        let times = line["timestamps"].as_array().unwrap().iter();
        let times = times.map(|time| time.as_i64().unwrap());
        times.zip(line["values"].as_array().unwrap().iter().map(value))
    });
    samples.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_samples_are_read_and_a_header_says_where_others_are_gone() {
    let (served, samples) = rolled().await;
    let everything: BTreeSet<(i64, u64)> = bits(&samples).into_iter().collect();
    let answer = served.get(EXPORT, &[ALL]).await;
    assert_eq!(answer.header(RESOLUTION), Some(HEADER));
    let left = exported(&answer);
    // All that is left is real but for the marker, of which it is known that it followed.
    let all = left.iter().copied();
    let (markers, real): (Vec<_>, Vec<_>) = all.partition(|(_, bits)| *bits == STALE_NAN_BITS);
    assert!(real.len() < samples.len() / 2 && real.len() > samples.len() / 5);
    assert!(real.iter().all(|sample| everything.contains(sample)));
    let ended = START + 5 * DAY_MS - 12 * HOUR_MS - MINUTE_MS + 7;
    assert_eq!(markers, [(ended + 1, STALE_NAN_BITS)]);
    // In the other form, and whatever the first selector finds, it is said as well.
    let native = served.get(EXPORT, &[ALL, ("format", "native")]).await;
    assert_eq!(native.header(RESOLUTION), Some(HEADER));
    let none = served.get(EXPORT, &[("match[]", "n"), ALL]).await;
    assert_eq!(none.header(RESOLUTION), Some(HEADER));
    // Not of time that is as it was.
    let today = ((NOW - DAY_MS) / 1000).to_string();
    let recent = served.get(EXPORT, &[ALL, ("start", &today)]).await;
    assert_eq!(recent.header(RESOLUTION), None);
    assert_eq!(exported(&recent).len(), 12);
    let federated = served.get("/federate", &[ALL]).await;
    assert_eq!(
        (federated.status, federated.header(RESOLUTION)),
        (200, None)
    );

    for accepted in [SAMPLES, STREAMED] {
        let matchers: &[(u8, &str, &str)] = &[(0, "__name__", "m")];
        let old = remote_read::request(&[matchers], (0, NOW), accepted);
        let answer = remote_read::read(&served, &old).await;
        assert_eq!(answer.header(RESOLUTION), Some(HEADER));
        if accepted == SAMPLES {
            let found = remote_read::sampled(&answer);
            assert_eq!(found, [[("__name__=m".to_owned(), left.len(), 0)]]);
        } else {
            let frames = remote_read::streamed(&answer);
            let chunks = frames.iter().flat_map(|frame| &frame.chunks);
            let found = chunks.flat_map(|(_, _, encoding, data)| {
                let ChunkSamples::Floats(samples) = decode(*encoding, data) else {
                    panic!("they are floats");
                };
                samples
            });
            assert_eq!(found.collect::<Vec<_>>(), left, "markers included");
        }
        // The second of two queries counts before it is begun.
        let both = remote_read::request(&[&[(0, "__name__", "n")], matchers], (0, NOW), accepted);
        let answer = remote_read::read(&served, &both).await;
        assert_eq!(answer.header(RESOLUTION), Some(HEADER));
        let recent = remote_read::request(&[matchers], (NOW - DAY_MS, NOW), accepted);
        let answer = remote_read::read(&served, &recent).await;
        assert_eq!(answer.header(RESOLUTION), None);
    }
    served.stop().await.unwrap();
}

/// What is left is a series that ends where the original ended, for whoever imports it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_can_be_imported_elsewhere() {
    let (from, _) = rolled().await;
    let to = served(None).await;
    for format in ["json", "native"] {
        let left = from.get(EXPORT, &[ALL, ("format", format)]).await;
        let imported = to
            .request("POST", "/api/v1/import", &[], &left.body)
            .await
            .data();
        let expected = exported(&from.get(EXPORT, &[ALL]).await);
        assert_eq!(imported["samples"], expected.len(), "{imported}");
        let again = to.get(EXPORT, &[ALL]).await;
        assert_eq!(exported(&again), expected);
        assert_eq!(again.header(RESOLUTION), None, "these are samples");
    }
    // Right after the last sample there is something, and after the marker there is not, although
    // the lookback reaches the sample.
    let ended = START + 5 * DAY_MS - 12 * HOUR_MS - MINUTE_MS + 7;
    for (after_ms, expected) in [(0, 1), (MINUTE_MS, 0)] {
        let time = ((ended + after_ms) as f64 / 1e3).to_string();
        let found = to
            .get("/api/v1/query", &[("query", "m"), ("time", &time)])
            .await;
        let found = found.data()["result"].clone();
        assert_eq!(found.as_array().unwrap().len(), expected, "{found}");
    }
    from.stop().await.unwrap();
    to.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_says_what_went_beyond_the_request() {
    let (served, _) = rolled().await;
    let delete = async |start_ms: i64, end_ms: i64| {
        let (start, end) = (start_ms as f64 / 1e3, end_ms as f64 / 1e3);
        let params = [
            ALL,
            ("start", &start.to_string()),
            ("end", &end.to_string()),
        ];
        let path = format!("{DELETE}?{}", encoded(&params));
        served.request("POST", &path, &[], b"").await
    };
    // Samples that are there, and windows that end where the request does.
    let now = delete(NOW - 2 * HOUR_MS + 1, NOW).await;
    assert_eq!((now.status, now.body.len()), (204, 0));
    let whole = delete(START + 5 * HOUR_MS, START + 6 * HOUR_MS - 1).await;
    assert_eq!((whole.status, whole.body.len()), (204, 0));
    let cut = delete(START + 8 * HOUR_MS + 90_000, START + 9 * HOUR_MS + 89_999).await;
    assert_eq!(cut.status, 200);
    let level = |level: &str, ranges: &str| {
        format!(
            "windows of {level} whose samples are gone were removed whole, beyond the request: \
             {ranges}"
        )
    };
    let expected = json!({"status": "success", "warnings": [
        level("5m", "[2023-11-14T08:00:00.000Z, 2023-11-14T08:01:30.000Z) and \
                     [2023-11-14T09:01:30.000Z, 2023-11-14T09:05:00.000Z)"),
        level("1h", "[2023-11-14T08:00:00.000Z, 2023-11-14T08:01:30.000Z) and \
                     [2023-11-14T09:01:30.000Z, 2023-11-14T10:00:00.000Z)"),
    ]});
    assert_eq!(cut.json(), expected);
    // It is as it was said.
    let left = exported(&served.get(EXPORT, &[ALL]).await);
    let between = |from: i64, to: i64| {
        let within = |(time, _): &&(i64, u64)| (START + from..START + to).contains(time);
        left.iter().filter(within).count()
    };
    assert_eq!(between(8 * HOUR_MS, 9 * HOUR_MS + 5 * MINUTE_MS), 0);
    assert!(between(9 * HOUR_MS + 5 * MINUTE_MS, 10 * HOUR_MS) > 0);
    // Nothing more goes.
    let again = delete(START + 8 * HOUR_MS + 90_000, START + 9 * HOUR_MS + 89_999).await;
    assert_eq!(again.status, 204);
    served.stop().await.unwrap();
}
