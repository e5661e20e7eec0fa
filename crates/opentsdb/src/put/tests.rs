//! Requests against a store that records what it gets, refuses what it is told to, and becomes
//! durable when it is told to.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::{FutureExt as _, join};
use http::{HeaderMap, Method, StatusCode};
use icecore_model::{
    AppendError, BoxFuture, CatalogChange, Discard, Exemplar, Fill, Histogram, ManualClock,
    Metadata, PendingWrite, RawLabels, RefusedPoint, Rejection, Sample, SampleSink, SampleStore,
    StoreError, WriteOutcome,
};
use parking_lot::Mutex;

use crate::api::{Request, Response, handle};
use crate::config::Config;
use crate::telnet::Session;
use crate::testing::MemoryStore;
use crate::tsd::{Stores, Tsd};

#[derive(Default)]
struct RecordingStore {
    received: Mutex<Vec<Received>>,
    rejected: Mutex<Vec<Rejection>>,
    refused_points: Mutex<Vec<RefusedPoint>>,
    commits: Mutex<Vec<oneshot::Sender<()>>>,
    waits: bool,
}

/// What one append brought.
#[derive(Clone, Debug, Default)]
struct Received {
    series: Vec<String>,
    points: Vec<(i64, f64)>,
    histograms: usize,
    changes: usize,
}

impl SampleSink for Received {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        let mut pairs = Vec::new();
        labels.parse(&mut pairs).unwrap();
        let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
        self.series.push(pairs.collect::<Vec<_>>().join(" "));
    }

    fn sample(&mut self, sample: Sample) {
        self.points.push((sample.timestamp_ms, sample.value));
    }

    fn histogram(&mut self, _: i64, _: i64, histogram: Histogram) {
        histogram.validate().unwrap();
        self.histograms += 1;
    }

    fn exemplar(&mut self, _: Exemplar) {}

    fn metadata(&mut self, _: &str, _: Metadata) {}

    fn catalog(&mut self, _: CatalogChange) {
        self.changes += 1;
    }

    fn reject(&mut self, reason: String) {
        panic!("rejected: {reason}");
    }
}

impl SampleStore for RecordingStore {
    fn append_boxed(
        &self,
        _: Duration,
        fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, AppendError<Discard>>> {
        Box::pin(async move {
            let mut received = Received::default();
            fill(&mut received)?;
            let outcome = WriteOutcome {
                samples: received.points.len() as u64,
                rejected: self.rejected.lock().clone(),
                refused_points: self.refused_points.lock().clone(),
                ..WriteOutcome::default()
            };
            self.received.lock().push(received);
            let (sender, receiver) = oneshot::channel();
            if self.waits {
                self.commits.lock().push(sender);
            }
            let waits = self.waits;
            let commit = async move {
                if waits {
                    receiver.await.map_err(|_| StoreError("lost".into()))?;
                }
                Ok(())
            };
            let commit = Box::pin(commit);
            Ok(PendingWrite { outcome, commit })
        })
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // No append waits between its fill and its end.
        Box::pin(async { Ok(()) })
    }
}

fn open(store: RecordingStore, config: Config) -> (Tsd, Arc<RecordingStore>) {
    let store = Arc::new(store);
    let stores = Stores {
        points: store.clone(),
        ..MemoryStore::stores()
    };
    let config = Config {
        auto_create_metrics: true,
        ..config
    };
    let clock = Arc::new(ManualClock::at(0));
    (block_on(Tsd::open(config, stores, clock)).unwrap(), store)
}

fn request(path: &str, body: &str) -> Request {
    Request::new(Method::POST, path, HeaderMap::new(), body.to_owned().into())
}

fn post(tsd: &Tsd, path: &str, body: &str) -> (StatusCode, String) {
    let Response { status, body, .. } = block_on(handle(tsd, &request(path, body)));
    (status, String::from_utf8(body).unwrap())
}

const POINT: &str = r#"{"metric":"m","timestamp":1500000000,"value":5,"tags":{"host":"a"}}"#;

#[test]
fn a_request_is_one_append_and_a_known_series_costs_no_names() {
    let (tsd, store) = open(RecordingStore::default(), Config::default());
    let body = format!("[{POINT},{POINT},{}]", POINT.replace('5', "6"));
    assert_eq!(post(&tsd, "/api/put", &body).0, StatusCode::NO_CONTENT);
    assert_eq!(post(&tsd, "/api/put", POINT).0, StatusCode::NO_CONTENT);
    let received = store.received.lock();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].series, ["__name__=m host=a"; 3]);
    assert_eq!(received[0].points[0], (1_500_000_000_000, 5.0));
    // Three names, and how wide their ids are.
    assert_eq!(received[0].changes, 6);
    assert_eq!(received[1].changes, 0);
}

#[test]
fn names_are_stored_again_until_they_are_durable() {
    let store = RecordingStore {
        waits: true,
        ..RecordingStore::default()
    };
    let (tsd, store) = open(store, Config::default());
    let first = request("/api/put", POINT);
    let mut first = Box::pin(handle(&tsd, &first));
    assert!((&mut first).now_or_never().is_none(), "it is not durable");
    let second = request("/api/put", POINT);
    let mut second = Box::pin(handle(&tsd, &second));
    assert!((&mut second).now_or_never().is_none());
    let changes = |store: &RecordingStore| -> Vec<usize> {
        store.received.lock().iter().map(|r| r.changes).collect()
    };
    // Three names, and how wide their ids are.
    assert_eq!(changes(&store), [6, 6]);
    for commit in store.commits.lock().drain(..) {
        commit.send(()).unwrap();
    }
    let (first, second) = block_on(join(first, second));
    assert_eq!(first.status, StatusCode::NO_CONTENT);
    assert_eq!(second.status, StatusCode::NO_CONTENT);
    let third = request("/api/put", POINT);
    let mut third = Box::pin(handle(&tsd, &third));
    assert!((&mut third).now_or_never().is_none());
    assert_eq!(changes(&store), [6, 6, 0]);
    // Who never hears that it is durable does not know it.
    store.commits.lock().clear();
    assert_eq!(block_on(third).status, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn a_broken_document_changes_nothing() {
    let (tsd, store) = open(RecordingStore::default(), Config::default());
    let (status, _) = post(&tsd, "/api/put", &format!("[{POINT},1]"));
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(store.received.lock().len(), 0);
    assert_eq!(tsd.uids.read(crate::uid::UidKind::Metric).len(), 0);
}

#[test]
fn what_the_store_refuses_is_reported() {
    let (tsd, store) = open(RecordingStore::default(), Config::default());
    let rejection = |retryable| {
        vec![Rejection {
            reason: "too old".into(),
            count: 1,
            retryable,
        }]
    };
    *store.rejected.lock() = rejection(false);
    let (status, body) = post(&tsd, "/api/put?details", POINT);
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let shown = POINT.replace(":5,", ":\"5\",");
    let errors = format!(r#"[{{"datapoint":{shown},"error":"too old"}}]"#);
    assert_eq!(
        body,
        format!(r#"{{"success":0,"failed":1,"errors":{errors}}}"#)
    );
    let (_, body) = post(&tsd, "/api/put?details", &format!("[{POINT},{POINT}]"));
    let errors = r#"[{"datapoint":null,"error":"too old (×1)"}]"#;
    assert_eq!(
        body,
        format!(r#"{{"success":1,"failed":1,"errors":{errors}}}"#)
    );
    *store.rejected.lock() = rejection(true);
    let (status, body) = post(&tsd, "/api/put", POINT);
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("too old (×1)"), "{body}");
}

#[test]
fn points_that_the_store_refuses_are_named() {
    let rollups = r#"{"aggregationIds":{"sum":0},"intervals":[{"interval":"1h","rowSpan":"1d"}]}"#;
    let config = Config {
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        ..Config::default()
    };
    let (tsd, store) = open(RecordingStore::default(), config);
    let rejection = |reason: &str, count| Rejection {
        reason: reason.into(),
        count,
        retryable: false,
    };
    *store.rejected.lock() = vec![rejection("too new", 1), rejection("too old", 2)];
    *store.refused_points.lock() = vec![
        RefusedPoint {
            point: 2,
            reason: 1,
        },
        RefusedPoint {
            point: 1,
            reason: 0,
        },
    ];
    let rollup = POINT.replace(
        r#""metric""#,
        r#""interval":"1h","aggregator":"SUM","metric""#,
    );
    for (target, point) in [
        ("/api/put?details", POINT),
        ("/api/rollup?details", rollup.as_str()),
    ] {
        let point = |value: i64| point.replace(r#""value":5"#, &format!(r#""value":"{value}""#));
        let points: Vec<String> = (0..4).map(point).collect();
        let (status, text) = post(&tsd, target, &format!("[{}]", points.join(",")));
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        let error = |point: &str, error: &str| {
            let point: serde_json::Value = serde_json::from_str(point).unwrap();
            serde_json::json!({"datapoint": point, "error": error})
        };
        let errors = serde_json::json!([
            error(&points[1], "too new"),
            error(&points[2], "too old"),
            error("null", "too old (×1)"),
        ]);
        let expected = serde_json::json!({"success": 1, "failed": 3, "errors": errors});
        assert_eq!(answer, expected, "{target}");
    }
}

#[test]
fn lines_about_points_that_are_left_out_name_their_command() {
    let rollups = r#"{"aggregationIds":{"sum":0},"intervals":[{"interval":"1h","rowSpan":"1d"}]}"#;
    let config = Config {
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        ..Config::default()
    };
    let (tsd, store) = open(RecordingStore::default(), config);
    let rejection = |retryable| Rejection {
        reason: "too old".into(),
        count: 1,
        retryable,
    };
    let lines = b"put m 1500000000 1 host=a\nrollup 1h-SUM m 1500000000 1 host=a\n";
    let replies = |retryable| {
        *store.rejected.lock() = vec![rejection(retryable)];
        let mut session = Session::new(&tsd);
        let mut reply = block_on(session.feed(lines));
        let (mut text, mut pauses) = (reply.text, 0);
        while reply.has_more {
            pauses += u32::from(reply.retry_after.is_some());
            reply = block_on(session.resume());
            text += &reply.text;
        }
        (text, pauses)
    };
    let (text, pauses) = replies(false);
    assert_eq!(pauses, 0);
    let expected = "put: illegal argument: too old (×1)\nrollup: illegal argument: too old (×1)\n";
    assert_eq!(text, expected);
    // What may be taken later is tried again for a while; other series do not wait for ever.
    let (text, pauses) = replies(true);
    assert_eq!(pauses, 8);
    let expected = expected.replace("illegal argument", "Please throttle writes");
    assert_eq!(text, expected);
}

#[test]
fn lines_of_a_read_are_one_append_that_is_durable_at_the_end() {
    let store = RecordingStore {
        waits: true,
        ..RecordingStore::default()
    };
    let (tsd, store) = open(store, Config::default());
    let mut session = Session::new(&tsd);
    let lines = "put m 1500000000 1 host=a\nversion\nput m 1500000001 2.5 host=a\n";
    let reply = session.feed(lines.as_bytes()).now_or_never().unwrap();
    assert!(reply.text.starts_with("net.opentsdb"), "{reply:?}");
    assert_eq!(store.received.lock().len(), 1);
    assert_eq!(store.received.lock()[0].points.len(), 2);
    let mut end = Box::pin(session.finish());
    assert!((&mut end).now_or_never().is_none(), "it is not durable");
    let commit = store.commits.lock().pop().unwrap();
    commit.send(()).unwrap();
    assert_eq!(block_on(end), "");
}

#[test]
fn rollups_are_series_of_their_own() {
    let rollups = r#"{"aggregationIds":{"sum":0,"avg":1},
                      "intervals":[{"interval":"1h","rowSpan":"1d"}]}"#;
    let config = Config {
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        histogram_codecs: Some([(crate::histogram::SIMPLE_CODEC.to_owned(), 0)].into()),
        ..Config::default()
    };
    let (tsd, store) = open(RecordingStore::default(), config);
    let mut session = Session::new(&tsd);
    let mut feed = |line: &str| block_on(session.feed(format!("{line}\n").as_bytes())).text;
    assert_eq!(feed("rollup 1h-SUM m 1500000123 7 host=a"), "");
    assert_eq!(feed("rollup 1h-SUM:MAX m 1500000123 7 dc=x"), "");
    assert_eq!(feed("rollup MAX m 1500000123 7 dc=x _aggregate=max"), "");
    assert_eq!(feed("histogram m 1500000123 0,1=2 host=a"), "");
    let received = store.received.lock().clone();
    let series: Vec<_> = received.iter().flat_map(|r| r.series.clone()).collect();
    let expected = [
        "__name__=m:1h-sum __rollup__=1h-sum host=a",
        "__name__=m:1h-sum-groupby __rollup__=1h-sum-groupby _aggregate=MAX dc=x",
        "__name__=m:groupby __rollup__=groupby _aggregate=MAX dc=x",
        "__name__=m host=a",
    ];
    assert_eq!(series, expected);
    // A rollup belongs to the interval that its time lies in.
    let times: Vec<_> = received.iter().flat_map(|r| r.points.clone()).collect();
    let times: Vec<i64> = times.iter().map(|point| point.0).collect();
    assert_eq!(
        times,
        [1_499_997_600_000, 1_499_997_600_000, 1_500_000_123_000]
    );
    assert_eq!(received[3].histograms, 1);
}

#[test]
fn rollups_that_cannot_be_are_refused_in_the_words_of_the_original() {
    let rollups = r#"{"aggregationIds":{"sum":0,"avg":1},
                      "intervals":[{"interval":"1h","rowSpan":"1d"}]}"#;
    let config = Config {
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        ..Config::default()
    };
    let (tsd, _) = open(RecordingStore::default(), config);
    let mut session = Session::new(&tsd);
    for (line, reply) in [
        (
            "3m-SUM m 1500000000 7 host=a",
            "No such rollup: No rollups configured for the interval: 3m",
        ),
        (
            "1h-MIN m 1500000000 7 host=a",
            "illegal argument: No ID found mapping to aggregator: MIN",
        ),
        (
            "1h-AVG m 1500000000 7 host=a",
            "illegal argument: Derived rollup aggregations are not allowed AVG with metric m \
             {host=a}",
        ),
        (
            "foo m 1500000000 7 host=a",
            "illegal argument: Invalid group by aggregator foo with metric m \
             {_aggregate=FOO, host=a}",
        ),
        (
            "avg m 1500000000 7 host=a",
            "illegal argument: Derived group by aggregations are not allowed avg with metric m \
             {_aggregate=AVG, host=a}",
        ),
        (
            "1h-SUM m 1500000000000 7 host=a",
            "illegal argument: bad timestamp=1500000000000 when trying to add value=[7]/0 to \
             metric=m, tags={host=a}",
        ),
        (
            "1h-SUM m 1500000000 7 _aggregate=SUM",
            "illegal argument: Given tag value for _aggregate of SUM did not match the group by \
             aggregator of null for m {_aggregate=SUM}",
        ),
    ] {
        let found = block_on(session.feed(format!("rollup {line}\n").as_bytes()));
        assert_eq!(found.text, format!("rollup: {reply}\n"));
    }
    let (_, body) = post(
        &tsd,
        "/api/rollup?details",
        &POINT.replace('{', "{\"aggregator\":\"sum\",").replacen(
            "{\"aggregator\":\"sum\",\"host\"",
            "{\"host\"",
            1,
        ),
    );
    assert!(body.contains("Missing interval"), "{body}");
}

#[test]
fn errors_show_rollups_as_the_original_has_them() {
    let rollups = r#"{"aggregationIds":{"sum":0},"intervals":[{"interval":"1h","rowSpan":"1d"}]}"#;
    let config = Config {
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        ..Config::default()
    };
    let (tsd, store) = open(RecordingStore::default(), config);
    for (fields, aggregate, error) in [
        (
            r#""interval":"","aggregator":"sum""#,
            None,
            "Missing interval",
        ),
        (
            r#""interval":"1h","aggregator":"""#,
            None,
            "Missing aggregator",
        ),
        (
            r#""interval":"1h","aggregator":"sum","groupByAggregator":"""#,
            None,
            "Cannot write a group by data point without specifying the aggregation function. \
             Metric=m tags={host=a}",
        ),
        (
            r#""interval":"2h","aggregator":"sum","groupByAggregator":"sum""#,
            Some("SUM"),
            "Unexpected exception",
        ),
        (
            r#""interval":"1h","groupByAggregator":"max""#,
            Some("MAX"),
            "Aggregator cannot be null or empty.",
        ),
        (
            r#""interval":"","aggregator":"dev","groupByAggregator":"sum""#,
            Some("SUM"),
            "Derived rollup aggregations are not allowed DEV with metric m \
             {_aggregate=SUM, host=a}",
        ),
        (
            r#""groupByAggregator":"foo""#,
            Some("FOO"),
            "Invalid group by aggregator foo with metric m {_aggregate=FOO, host=a}",
        ),
    ] {
        let point = |tags: &str| {
            let start = r#"{"metric":"m","timestamp":3600,"value":"1","tags":{"#;
            format!("{start}{tags}}},{fields}}}")
        };
        let host = r#""host":"a""#;
        let (status, text) = post(&tsd, "/api/rollup?details", &point(host));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        let shown = match aggregate {
            None => point(host),
            Some(aggregate) => point(&format!(r#"{host},"_aggregate":"{aggregate}""#)),
        };
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(answer["errors"][0]["datapoint"], shown, "{fields}");
        assert_eq!(answer["errors"][0]["error"], error, "{fields}");
    }
    let received = store.received.lock();
    assert!(received.iter().all(|received| received.points.is_empty()));
}
