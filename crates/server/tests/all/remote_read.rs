//! Remote read: both forms of the answer, order, limits, and a real Prometheus that reads from us.

#![allow(
    clippy::unwrap_used,
    reason = "everything here is a test, also what is outside of test functions"
)]

use icecore_model::HistogramCounts;
use serde_json::{Value, json};

use crate::client::{Answer, encoded};
use crate::payload::{Payload, Series, T0, compressed, series};
use crate::prometheus::Prometheus;
use crate::scraper::Scraper;
use crate::served::TestServer;

#[path = "../../../wire/src/prometheus/remote_read/chunks/decoder.rs"]
mod decoder;

pub(crate) use decoder::{ChunkSamples, decode};
use decoder::{Frame, frames};

const MINUTE: i64 = 60_000;
pub(crate) const SAMPLES: &[u8] = &[];
pub(crate) const STREAMED: &[u8] = &[1, 0];

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, number: u64, content: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, content.len() as u64);
    out.extend(content);
}

/// A request with a query per list of `(type, name, value)`.
pub(crate) fn request(
    queries: &[&[(u8, &str, &str)]],
    range: (i64, i64),
    accepted: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    for matchers in queries {
        let mut query = Vec::new();
        for (number, time) in [(1, range.0), (2, range.1)] {
            varint(&mut query, number << 3);
            varint(&mut query, time as u64);
        }
        for (kind, name, value) in *matchers {
            let mut matcher = vec![0x08, *kind];
            field(&mut matcher, 2, name.as_bytes());
            field(&mut matcher, 3, value.as_bytes());
            field(&mut query, 3, &matcher);
        }
        field(&mut out, 1, &query);
    }
    if !accepted.is_empty() {
        field(&mut out, 2, accepted);
    }
    out
}

const HEADERS: &[(&str, &str)] = &[
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Read-Version", "0.1.0"),
];

pub(crate) async fn read(served: &TestServer, message: &[u8]) -> Answer {
    let body = compressed(message);
    served.request("POST", "/api/v1/read", HEADERS, &body).await
}

/// Content of the fields of a message that have this number and state their length.
fn parts(message: &[u8], number: u64) -> Vec<&[u8]> {
    fn read_varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let tag = read_varint(&mut rest);
        match tag & 7 {
            0 => drop(read_varint(&mut rest)),
            1 => rest = &rest[8..],
            _ => {
                let length = read_varint(&mut rest) as usize;
                let (content, tail) = rest.split_at(length);
                if tag >> 3 == number {
                    found.push(content);
                }
                rest = tail;
            }
        }
    }
    found
}

/// Per query and series: labels, number of samples, number of histograms.
pub(crate) fn sampled(answer: &Answer) -> Vec<Vec<(String, usize, usize)>> {
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    assert_eq!(
        answer.header("content-type"),
        Some("application/x-protobuf")
    );
    assert_eq!(answer.header("content-encoding"), Some("snappy"));
    let message = snap::raw::Decoder::new()
        .decompress_vec(&answer.body)
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let label =
        |label: &&[u8]| format!("{}={}", text(parts(label, 1)[0]), text(parts(label, 2)[0]));
    let series = |series: &&[u8]| {
        let labels: Vec<String> = parts(series, 1).iter().map(label).collect();
        (
            labels.join(","),
            parts(series, 2).len(),
            parts(series, 4).len(),
        )
    };
    let results = parts(&message, 1);
    let of_query = |result: &&[u8]| parts(result, 1).iter().map(series).collect();
    results.iter().map(of_query).collect()
}

pub(crate) fn streamed(answer: &Answer) -> Vec<Frame> {
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    assert!(answer.complete);
    assert_eq!(
        answer.header("content-type"),
        Some("application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")
    );
    assert_eq!(answer.header("content-encoding"), None);
    frames(&answer.body)
}

fn label_text(frame: &Frame) -> String {
    let pairs = frame.labels.iter().map(|(n, v)| format!("{n}={v}"));
    pairs.collect::<Vec<_>>().join(",")
}

fn minutes(count: i64) -> Vec<(i64, f64)> {
    (0..count)
        .map(|i| (T0 + i * MINUTE, (i * i) as f64 / 3.0))
        .collect()
}

const ALL: (i64, i64) = (0, T0 + 1_000_000_000);

/// As Prometheus 3.14: added where a series has no such label, and not looked for in what is
/// stored.
#[tokio::test(flavor = "multi_thread")]
async fn external_labels_are_added_and_can_be_asked_for() {
    let file = "global: {external_labels: {dc: eu, job: outside}}";
    let scraper = Scraper::start(file).await;
    let payload = Payload::v1(&[
        series("m", &[("job", "own")], &[(T0, 1.0)]),
        series("m", &[], &[(T0, 2.0)]),
        series("m", &[("dc", "us")], &[(T0, 3.0)]),
    ]);
    assert_eq!(scraper.served.write(&payload).await.status, 204);
    let eu = ["__name__=m,dc=eu,job=outside", "__name__=m,dc=eu,job=own"];
    let us = "__name__=m,dc=us,job=outside";
    let (equal, unequal) = (0, 1);
    for (matchers, expected) in [
        (vec![(equal, "__name__", "m")], vec![eu[0], eu[1], us]),
        (vec![(equal, "dc", "eu")], vec![eu[0], eu[1]]),
        (vec![(equal, "dc", "us")], vec![us]),
        (
            vec![(equal, "__name__", "m"), (equal, "job", "outside")],
            vec![eu[0], us],
        ),
        // Only equality knows about them.
        (
            vec![(equal, "__name__", "m"), (unequal, "dc", "eu")],
            vec![eu[0], eu[1], us],
        ),
    ] {
        let mut answers = Vec::new();
        for accepted in [SAMPLES, STREAMED] {
            let message = request(&[&matchers], ALL, accepted);
            let answer = read(&scraper.served, &message).await;
            let mut found: Vec<String> = match accepted {
                SAMPLES => sampled(&answer)[0]
                    .iter()
                    .map(|(labels, ..)| labels.clone())
                    .collect(),
                _ => streamed(&answer).iter().map(label_text).collect(),
            };
            found.sort();
            answers.push(found);
        }
        assert_eq!(answers[0], expected, "{matchers:?}");
        assert_eq!(answers[1], expected, "{matchers:?}");
    }
    scraper.served.stop().await.unwrap();
}

async fn with_series(settings: &[(&str, &str)]) -> TestServer {
    let served = TestServer::start(settings).await;
    let histograms = Series {
        histograms: (0..130).map(|i| (T0 + i * MINUTE, 5 + i as u64)).collect(),
        ..series("latency", &[("job", "b")], &[])
    };
    let payload = Payload::v1(&[
        series("cpu", &[("host", "a")], &minutes(300)),
        series("cpu", &[("Zone", "1"), ("host", "b")], &minutes(7)),
        series("disk", &[("host", "a")], &minutes(5)),
        histograms,
    ]);
    assert_eq!(served.write(&payload).await.status, 204);
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_of_several_queries_in_prometheus_order() {
    let served = with_series(&[]).await;
    let queries: &[&[(u8, &str, &str)]] = &[
        &[(1, "__name__", "")],
        &[(0, "__name__", "cpu"), (2, "host", "a|c")],
        &[(0, "__name__", "nothing")],
    ];
    let answer = read(&served, &request(queries, ALL, SAMPLES)).await;
    let s = |labels: &str, floats, histograms| (labels.to_owned(), floats, histograms);
    let expected = [
        vec![
            s("Zone=1,__name__=cpu,host=b", 7, 0),
            s("__name__=cpu,host=a", 300, 0),
            s("__name__=disk,host=a", 5, 0),
            s("__name__=latency,job=b", 0, 130),
        ],
        vec![s("__name__=cpu,host=a", 300, 0)],
        vec![],
    ];
    assert_eq!(sampled(&answer), expected);

    // Both ends are included, and a range without any time has nothing.
    let range = (T0 + MINUTE, T0 + 3 * MINUTE);
    let answer = read(&served, &request(&queries[1..2], range, SAMPLES)).await;
    assert_eq!(sampled(&answer), [vec![s("__name__=cpu,host=a", 3, 0)]]);
    let answer = read(&served, &request(&queries[1..2], (T0, T0 - 1), SAMPLES)).await;
    assert_eq!(sampled(&answer), [vec![]]);
    let after = (T0 + 10_000 * MINUTE, T0 + 10_001 * MINUTE);
    let answer = read(&served, &request(&queries[1..2], after, STREAMED)).await;
    assert!(streamed(&answer).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_hold_what_was_written() {
    let served = with_series(&[]).await;
    let queries: &[&[(u8, &str, &str)]] = &[&[(0, "__name__", "disk")], &[(2, "__name__", ".+")]];
    let answer = read(&served, &request(queries, ALL, STREAMED)).await;
    let frames = streamed(&answer);
    let order: Vec<_> = frames
        .iter()
        .map(|f| (f.query_index, label_text(f)))
        .collect();
    let expected = [
        (0, "__name__=disk,host=a"),
        (1, "Zone=1,__name__=cpu,host=b"),
        (1, "__name__=cpu,host=a"),
        (1, "__name__=disk,host=a"),
        (1, "__name__=latency,job=b"),
    ];
    assert_eq!(order, expected.map(|(i, labels)| (i, labels.to_owned())));
    let mut floats = Vec::new();
    let sizes: Vec<usize> = frames[2]
        .chunks
        .iter()
        .map(|(_, _, encoding, data)| {
            let ChunkSamples::Floats(samples) = decode(*encoding, data) else {
                panic!("they are floats");
            };
            floats.extend(samples.iter().map(|(t, bits)| (*t, f64::from_bits(*bits))));
            samples.len()
        })
        .collect();
    assert_eq!(sizes, [120, 120, 60]);
    assert_eq!(floats, minutes(300));
    let mut counts = Vec::new();
    for (_, _, encoding, data) in &frames[4].chunks {
        let ChunkSamples::Histograms(samples) = decode(*encoding, data) else {
            panic!("they are histograms");
        };
        counts.extend(samples.iter().map(|sample| match &sample.histogram.counts {
            HistogramCounts::Integer { count, .. } => *count,
            HistogramCounts::Float { .. } => panic!("counts are whole"),
        }));
    }
    assert_eq!(counts, (5..135).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_bounded_and_a_stream_takes_its_time() {
    let settings = [
        ("server.remote_read_frame_bytes", "1KiB"),
        ("server.remote_read_bytes_max", "8KiB"),
        ("read.batch_series", "10"),
    ];
    let served = TestServer::start(&settings).await;
    let names: Vec<String> = (0..50).map(|i| format!("{i:02}")).collect();
    let noise: Vec<(i64, f64)> = (0..500)
        .map(|i| (T0 + i * 1000, (i as f64).sin()))
        .collect();
    let all = names
        .iter()
        .map(|name| series("x", &[("host", name)], &noise));
    let all: Vec<Series> = all.collect();
    assert_eq!(served.write(&Payload::v1(&all)).await.status, 204);
    let queries: &[&[(u8, &str, &str)]] = &[&[(0, "__name__", "x")]];
    let answer = read(&served, &request(queries, ALL, STREAMED)).await;
    let frames = streamed(&answer);
    assert!(frames.iter().all(|frame| frame.message_bytes < 1024 + 1300));
    let mut hosts: Vec<String> = frames
        .iter()
        .map(|frame| frame.labels[1].1.clone())
        .collect();
    assert!(hosts.is_sorted() && hosts.len() > names.len());
    hosts.dedup();
    assert_eq!(hosts, names);
    let samples: usize = frames
        .iter()
        .flat_map(|frame| &frame.chunks)
        .map(|(_, _, _, data)| usize::from(u16::from_be_bytes([data[0], data[1]])))
        .sum();
    assert_eq!(samples, 50 * 500);

    // The other form would have to hold all of it.
    let answer = read(&served, &request(queries, ALL, SAMPLES)).await;
    assert_eq!(answer.status, 422);
    assert!(
        answer
            .text()
            .contains("server.remote_read_bytes_max = 8192 bytes"),
        "{}",
        answer.text()
    );
    assert!(answer.text().contains("streamed chunks"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_one_line_that_says_why() {
    let served = with_series(&[("read.samples_max", "100")]).await;
    let query: &[(u8, &str, &str)] = &[(0, "__name__", "cpu")];
    let said = |answer: Answer, status: u16, words: &str| {
        // As Prometheus' schema says, and as one line: clients log what they get.
        let kind = if status == 422 {
            "execution"
        } else {
            "bad_data"
        };
        let message = answer.error(status, kind);
        assert!(message.contains(words), "{message}");
        assert_eq!(answer.text().lines().count(), 1);
    };
    said(read(&served, &[0xff]).await, 400, "protobuf");
    said(
        read(&served, &request(&[query], ALL, &[9])).await,
        400,
        "response types [9]",
    );
    let wrong: &[(u8, &str, &str)] = &[(2, "host", "(")];
    said(
        read(&served, &request(&[wrong], ALL, SAMPLES)).await,
        400,
        "host",
    );
    for accepted in [SAMPLES, STREAMED] {
        let answer = read(&served, &request(&[query], ALL, accepted)).await;
        said(answer, 422, "read.samples_max");
    }
    let path = "/api/v1/read";
    said(
        served.request("POST", path, HEADERS, b"\xff\xff").await,
        400,
        "snappy",
    );
    let gzip = [("Content-Encoding", "gzip")];
    said(
        served.request("POST", path, &gzip, b"x").await,
        415,
        "snappy",
    );
    let long = vec![0; (1 << 20) + 1];
    said(
        served.request("POST", path, HEADERS, &long).await,
        413,
        "remote read",
    );
    assert_eq!(served.get(path, &[]).await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_reads_what_was_written() {
    let served = with_series(&[]).await;
    let url = format!("http://{}/api/v1/read", served.address);
    let config = format!("remote_read: [{{url: '{url}', read_recent: true}}]\n");
    let Some(prometheus) = Prometheus::start("remote read by Prometheus", &config).await else {
        return;
    };
    let at = ((T0 + 300 * MINUTE) / 1000).to_string();
    let raw = prometheus
        .query("/api/v1/query", &[("query", "cpu[6h]"), ("time", &at)])
        .await;
    let number = |value: f64| format!("{value}");
    let points = |samples: &[(i64, f64)]| -> Vec<Value> {
        let point = |(t, v): &(i64, f64)| json!([t / 1000, number(*v)]);
        samples.iter().map(point).collect()
    };
    let mut found: Vec<(String, Value)> = raw
        .as_array()
        .unwrap()
        .iter()
        .map(|series| {
            (
                series["metric"]["host"].as_str().unwrap().to_owned(),
                series["values"].clone(),
            )
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let as_number = |values: &Value| -> Vec<(i64, f64)> {
        let values = values.as_array().unwrap().iter();
        values
            .map(|point| {
                let value = point[1].as_str().unwrap().parse().unwrap();
                (point[0].as_f64().unwrap() as i64 * 1000, value)
            })
            .collect()
    };
    assert_eq!(points(&minutes(1)), vec![json!([T0 / 1000, "0"])]);
    let found: Vec<_> = found
        .iter()
        .map(|(host, values)| (host.as_str(), as_number(values)))
        .collect();
    assert_eq!(found, [("a", minutes(300)), ("b", minutes(7))]);

    // Its engine on our samples, in a range query with several selectors.
    let (start, end) = ((T0 / 1000).to_string(), (T0 / 1000 + 240).to_string());
    let params = [
        ("query", "sum(cpu) + on() disk{host=~\"a|x\"}"),
        ("start", start.as_str()),
        ("end", end.as_str()),
        ("step", "60"),
    ];
    let sums = prometheus.query("/api/v1/query_range", &params).await;
    let sums = as_number(&sums[0]["values"]);
    let expected: Vec<_> = minutes(5).iter().map(|(t, v)| (*t, v + v + v)).collect();
    assert_eq!(sums, expected);

    // Labels and series come the same way.
    let params = [
        ("match[]", "{__name__=~\"cpu|disk\"}"),
        ("start", &start),
        ("end", &end),
    ];
    let answer = prometheus
        .get(&format!("/api/v1/series?{}", encoded(&params)))
        .await;
    let json: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(json["data"].as_array().unwrap().len(), 3, "{json}");
}
