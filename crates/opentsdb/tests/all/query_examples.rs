//! Queries with small data and answers that were computed by hand.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::{
    Labels, METRIC_NAME, ManualClock, RawLabels, STALE_NAN_BITS, Sample, SampleSink, push_raw_label,
};
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Stores, Tsd};
use serde_json::{Value, json};

/// A whole hour.
pub(super) const B: i64 = 1_356_998_400;

pub(super) struct Daemon {
    pub(super) stores: Stores,
    pub(super) tsd: Tsd,
}

impl Daemon {
    pub(super) fn new(config: Config) -> Self {
        Self::over(MemoryStore::stores(), config)
    }

    /// A daemon that begins with what is stored.
    pub(super) fn over(stores: Stores, config: Config) -> Self {
        let config = Config {
            auto_create_metrics: true,
            ..config
        };
        let clock = Arc::new(ManualClock::at((B + 86_400) * 1000));
        let tsd = block_on(Tsd::open(config, stores.clone(), clock)).unwrap();
        Self { stores, tsd }
    }

    pub(super) fn ask(&self, method: Method, target: &str, body: &str) -> (u16, String) {
        let body = body.to_owned().into();
        let request = Request::new(method, target, HeaderMap::new(), body);
        let response = block_on(handle(&self.tsd, &request));
        let text = String::from_utf8(response.body).unwrap();
        (response.status.as_u16(), text)
    }

    /// Points at seconds after [`B`].
    pub(super) fn put(&self, tags: &[(&str, &str)], points: &[(i64, Value)]) {
        for (second, value) in points {
            let tags: Value = tags
                .iter()
                .map(|(k, v)| ((*k).to_owned(), json!(v)))
                .collect();
            let point =
                json!({"metric": "m", "timestamp": B + second, "value": value, "tags": tags});
            let (status, text) = self.ask(Method::POST, "/api/put", &point.to_string());
            assert_eq!(status, 204, "{text}");
        }
    }

    pub(super) fn query(&self, (start, end): (i64, i64), m: &str) -> (u16, Value) {
        let m: String = form_urlencoded::byte_serialize(m.as_bytes()).collect();
        let target = format!("/api/query?start={}&end={}&{m}", B + start, B + end);
        let target = target.replace("m%3D", "m=").replace("%26", "&");
        let (status, text) = self.ask(Method::GET, &target, "");
        (status, serde_json::from_str(&text).unwrap())
    }

    /// The points of all results, with times as seconds after [`B`].
    fn dps(&self, window: (i64, i64), m: &str) -> Vec<Vec<(i64, Value)>> {
        let (status, results) = self.query(window, &format!("m={m}"));
        assert_eq!(status, 200, "{results}");
        let points = |result: &Value| {
            let points = result["dps"].as_object().unwrap().iter();
            let mut points: Vec<_> = points
                .map(|(time, value)| (time.parse::<i64>().unwrap() - B, value.clone()))
                .collect();
            points.sort_by_key(|point| point.0);
            points
        };
        results.as_array().unwrap().iter().map(points).collect()
    }
}

fn default() -> Daemon {
    Daemon::new(Config::default())
}

fn integers(values: &[(i64, i64)]) -> Vec<(i64, Value)> {
    values.iter().map(|(t, v)| (*t, json!(v))).collect()
}

fn floats(values: &[(i64, f64)]) -> Vec<(i64, Value)> {
    values.iter().map(|(t, v)| (*t, json!(v))).collect()
}

#[test]
fn whole_hours_take_part() {
    let daemon = default();
    let points: Vec<_> = (1..=10).map(|i| (30 * i, i)).collect();
    daemon.put(&[("host", "a")], &integers(&points));
    let found = daemon.dps((90, 300), "sum:1m-sum:m");
    assert_eq!(
        found,
        [floats(&[(120, 9.0), (180, 13.0), (240, 17.0), (300, 10.0)])]
    );
    let found = daemon.dps((0, 125), "sum:1m-sum:m");
    assert_eq!(found, [floats(&[(0, 1.0), (60, 5.0), (120, 9.0)])]);
    let third = 1.0 / 30.0;
    let found = daemon.dps((90, 150), "sum:rate:m");
    assert_eq!(found, [floats(&[(90, third), (120, third), (150, third)])]);
}

#[test]
fn series_are_interpolated_between_their_points() {
    let daemon = default();
    daemon.put(
        &[("host", "a")],
        &integers(&[(60, 10), (120, 20), (180, 30)]),
    );
    daemon.put(&[("host", "b")], &integers(&[(90, 1), (150, 3)]));
    let found = daemon.dps((90, 150), "sum:m");
    assert_eq!(found, [integers(&[(90, 16), (120, 22), (150, 28)])]);
    let daemon = default();
    daemon.put(&[("host", "a")], &integers(&[(0, 10), (30, 3)]));
    daemon.put(&[("host", "b")], &integers(&[(10, 0), (20, 0)]));
    let found = daemon.dps((0, 60), "sum:m");
    assert_eq!(found, [integers(&[(0, 10), (10, 8), (20, 6), (30, 3)])]);
}

/// Puts points of any metric at any times.
fn put_at(daemon: &Daemon, metric: &str, tags: &Value, points: &[(i64, i64)]) {
    let point = |(timestamp, value): &(i64, i64)| json!({"metric": metric, "timestamp": timestamp, "value": value, "tags": tags});
    let points: Vec<Value> = points.iter().map(point).collect();
    let (status, text) = daemon.ask(Method::POST, "/api/put", &Value::Array(points).to_string());
    assert_eq!(status, 204, "{text}");
}

#[test]
fn a_request_with_rates_and_filled_intervals_as_the_specification_has_it() {
    let daemon = default();
    for (host, values) in [("web01", [1, 2, 3]), ("web02", [10, 20, 30])] {
        let times = [B, B + 60, B + 120].into_iter();
        let points: Vec<_> = times.zip(values).collect();
        put_at(&daemon, "sys.net", &json!({"host": host}), &points);
    }
    let target = "/api/query?start=2013/01/01-00:00:00&end=2013/01/01-00:02:00\
                  &m=sum:rate:sys.net%7Bhost=*%7D&m=max:2m-sum-zero:sys.net";
    let (status, text) = daemon.ask(Method::GET, target, "");
    // Byte for byte, with the order of members.
    let expected = concat!(
        r#"[{"metric":"sys.net","tags":{"host":"web01"},"aggregateTags":[],"#,
        r#""dps":{"1356998460":0.016666666666666666,"1356998520":0.016666666666666666}},"#,
        r#"{"metric":"sys.net","tags":{"host":"web02"},"aggregateTags":[],"#,
        r#""dps":{"1356998460":0.16666666666666666,"1356998520":0.16666666666666666}},"#,
        r#"{"metric":"sys.net","tags":{},"aggregateTags":["host"],"#,
        r#""dps":{"1356998400":30.0,"1356998520":30.0}}]"#,
    );
    assert_eq!((status, text.as_str()), (200, expected));
}

#[test]
fn series_that_take_turns_are_interpolated() {
    let daemon = default();
    let of = |extra: &str| json!({"reqtype": "foo", "extra": extra});
    put_at(&daemon, "m", &of("f"), &[(B, 42), (B + 30, 40)]);
    put_at(&daemon, "m", &of("t"), &[(B + 15, 100), (B + 45, 200)]);
    let sum = [(0, 42), (15, 141), (30, 190), (45, 200)];
    assert_eq!(daemon.dps((0, 60), "sum:m"), [integers(&sum)]);
    let count = [(0, 1), (15, 2), (30, 2), (45, 1)];
    assert_eq!(daemon.dps((0, 60), "count:m"), [integers(&count)]);
    let (_, results) = daemon.query((0, 60), "m=sum:m");
    assert_eq!(results[0]["tags"], json!({"reqtype": "foo"}));
    assert_eq!(results[0]["aggregateTags"], json!(["extra"]));
}

#[test]
fn intervals_are_aligned_to_the_epoch() {
    let daemon = default();
    put_at(&daemon, "m", &json!({"host": "a"}), &[(1_388_550_980, 7)]);
    let target = "/api/query?start=1388548000&end=1388552000&m=sum:36m-sum:m";
    let (status, text) = daemon.ask(Method::GET, target, "");
    assert_eq!(status, 200, "{text}");
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results[0]["dps"], json!({"1388549520": 7.0}));
}

#[test]
fn series_are_downsampled_before_they_are_added() {
    let daemon = default();
    let of = |values: [i64; 7]| -> Vec<(i64, i64)> { (B..).step_by(10).zip(values).collect() };
    let host = |name: &str| json!({"host": name});
    put_at(&daemon, "m", &host("a"), &of([5, 5, 10, 15, 20, 5, 1]));
    put_at(&daemon, "m", &host("b"), &of([10, 5, 20, 15, 10, 0, 5]));
    let found = daemon.dps((0, 60), "sum:30s-sum:m");
    assert_eq!(found, [floats(&[(0, 55.0), (30, 65.0), (60, 6.0)])]);
}

#[test]
fn every_aggregator_of_integers() {
    let daemon = default();
    daemon.put(&[("host", "a")], &integers(&[(0, 10), (30, 40)]));
    daemon.put(&[("host", "b")], &integers(&[(10, 1), (20, 3)]));
    for (aggregator, values) in [
        ("sum", [10, 21, 33, 40]),
        ("avg", [10, 10, 16, 40]),
        ("min", [10, 1, 3, 40]),
        ("max", [10, 20, 30, 40]),
        ("dev", [0, 9, 13, 0]),
        ("count", [1, 2, 2, 1]),
        ("zimsum", [10, 1, 3, 40]),
        ("pfsum", [10, 11, 13, 40]),
        ("mimmin", [10, 1, 3, 40]),
        ("mimmax", [10, 1, 3, 40]),
        ("median", [10, 20, 30, 40]),
        ("first", [10, 0, 0, 40]),
        ("last", [10, 1, 3, 40]),
        ("diff", [0, -19, -27, 0]),
        ("mult", [10, 20, 90, 40]),
        ("squareSum", [100, 1, 9, 1600]),
        ("p50", [10, 10, 16, 40]),
    ] {
        let found = daemon.dps((0, 60), &format!("{aggregator}:m"));
        let times = [0, 10, 20, 30].into_iter().zip(values);
        assert_eq!(
            found,
            [integers(&times.collect::<Vec<_>>())],
            "{aggregator}"
        );
    }
}

#[test]
fn empty_intervals_are_filled() {
    let daemon = default();
    daemon.put(&[("host", "a")], &integers(&[(30, 15), (50, 5)]));
    daemon.put(&[("host", "b")], &integers(&[(0, 10), (20, 20), (60, 20)]));
    let points = |values: [Option<Value>; 7]| {
        let times = (0..).step_by(10).zip(values);
        vec![times.filter_map(|(t, v)| Some((t, v?))).collect::<Vec<_>>()]
    };
    let number = |value: f64| Some(json!(value));
    let [ten, twenty, missing] = [number(10.0), number(20.0), Some(json!("NaN"))];
    let found = daemon.dps((0, 60), "sum:10s-sum:m");
    let none = [
        ten.clone(),
        None,
        twenty.clone(),
        number(35.0),
        None,
        number(25.0),
        twenty.clone(),
    ];
    assert_eq!(found, points(none));
    for (fill, missing) in [
        ("nan", missing),
        ("null", Some(Value::Null)),
        ("zero", number(0.0)),
    ] {
        let found = daemon.dps((0, 60), &format!("sum:10s-sum-{fill}:m"));
        let [a, b] = [number(15.0), number(5.0)];
        let filled = [&ten, &missing, &twenty, &a, &missing, &b, &twenty].map(Clone::clone);
        assert_eq!(found, points(filled), "{fill}");
    }
}

#[test]
fn tags_of_groups() {
    let daemon = default();
    for (tags, value) in [
        (&[("dc", "dal"), ("host", "web01")][..], 3),
        (&[("dc", "dal"), ("host", "web02")], 2),
        (&[("dc", "dal"), ("host", "web03")], 10),
        (&[("host", "web01")], 1),
        (&[("host", "web01"), ("owner", "jdoe")], 4),
        (&[("dc", "lax"), ("host", "web01")], 8),
        (&[("dc", "lax"), ("host", "web02")], 4),
    ] {
        daemon.put(tags, &integers(&[(0, value)]));
    }
    for (m, expected) in [
        (
            "sum:m{host=web01}",
            json!([[{"host": "web01", "owner": "jdoe"}, ["dc"], 16]]),
        ),
        (
            "sum:m{host=*,dc=dal}",
            json!([[{"host": "web01", "dc": "dal"}, [], 3], [{"host": "web02", "dc": "dal"}, [], 2],
                   [{"host": "web03", "dc": "dal"}, [], 10]]),
        ),
        (
            "sum:m{dc=dal|lax}",
            json!([[{"dc": "dal"}, ["host"], 15], [{"dc": "lax"}, ["host"], 12]]),
        ),
        (
            "sum:m{}{dc=literal_or(dal|lax)}",
            json!([[{}, ["host", "dc"], 27]]),
        ),
        (
            "sum:m{host=*}{dc=*}",
            json!([[{"host": "web01"}, ["dc"], 11], [{"host": "web02"}, ["dc"], 6],
                   [{"host": "web03", "dc": "dal"}, [], 10]]),
        ),
        (
            "sum:explicit_tags:m{host=web01}",
            json!([[{"host": "web01"}, [], 1]]),
        ),
        (
            "sum:m{dc=not_literal_or(dal)}",
            json!([[{"dc": "lax"}, ["host"], 12]]),
        ),
        // Of several filters on the first key values are united; of another key the last counts.
        (
            "sum:m{}{dc=literal_or(dal),host=literal_or(web01),host=literal_or(web02)}",
            json!([[{"dc": "dal"}, ["host"], 5]]),
        ),
        (
            "sum:m{}{host=literal_or(web01|web02),dc=literal_or(dal),dc=literal_or(lax)}",
            json!([[{"dc": "lax"}, ["host"], 12]]),
        ),
        (
            "sum:m{}{host=*,dc=literal_or(dal),dc=wildcard(l*)}",
            json!([[{"dc": "lax"}, ["host"], 12]]),
        ),
        (
            "sum:m{}{host=*,dc=wildcard(l*),dc=literal_or(dal)}",
            json!([]),
        ),
    ] {
        let (_, results) = daemon.query((0, 60), &format!("m={m}"));
        let results = results.as_array().unwrap().iter();
        let short = results.map(|result| {
            let value = &result["dps"][B.to_string()];
            json!([result["tags"], result["aggregateTags"], value])
        });
        assert_eq!(Value::from(short.collect::<Vec<_>>()), expected, "{m}");
    }
}

#[test]
fn limits_are_kept() {
    let daemon = Daemon::new(Config {
        query_points_max: 3,
        ..Config::default()
    });
    daemon.put(
        &[("host", "a")],
        &integers(&[(0, 1), (10, 2), (20, 3), (30, 4)]),
    );
    let (status, answer) = daemon.query((0, 60), "m=sum:m");
    assert_eq!(status, 413);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("limit of 3 data points"), "{message}");
    let daemon = default();
    daemon.put(&[("host", "a")], &integers(&[(0, 1)]));
    let (status, _) = daemon.query((0, 36_000), "m=sum:1ms-sum-nan:m");
    assert_eq!(status, 413);
    let many = ["m=sum:m{host=a}"; 300].join("&");
    let (status, _) = daemon.query((0, 60), &many);
    assert_eq!(status, 400);
}

#[test]
fn names_that_were_changed_are_one_series() {
    let daemon = default();
    daemon.put(&[("host", "a")], &integers(&[(0, 1), (10, 2)]));
    let rename = r#"{"tagv": "a", "name": "b"}"#;
    let (status, text) = daemon.ask(Method::POST, "/api/uid/rename", rename);
    assert_eq!(status, 200, "{text}");
    daemon.put(&[("host", "b")], &integers(&[(20, 3)]));
    let (_, results) = daemon.query((0, 60), "m=none:m{host=b}");
    assert_eq!(results.as_array().unwrap().len(), 1, "{results}");
    assert_eq!(results[0]["tags"], json!({"host": "b"}));
    let found = daemon.dps((0, 60), "sum:m");
    assert_eq!(found, [integers(&[(0, 1), (10, 2), (20, 3)])]);
    let (status, _) = daemon.query((0, 60), "m=sum:m{host=a}");
    assert_eq!(status, 400);
}

/// Samples without UIDs, as other protocols write them.
pub(super) fn append(stores: &Stores, labels: &Labels, samples: &[(i64, f64)]) {
    let mut bytes = Vec::new();
    for (name, value) in labels.iter() {
        push_raw_label(&mut bytes, name, value);
    }
    let samples = samples.to_vec();
    let fill = move |sink: &mut dyn SampleSink| {
        sink.series(RawLabels(&bytes));
        for (second, value) in samples {
            sink.sample(Sample {
                timestamp_ms: (B + second) * 1000,
                value,
                start_timestamp_ms: 0,
            });
        }
        Ok::<_, std::convert::Infallible>(())
    };
    let pending = block_on(stores.points.append(Duration::ZERO, fill)).unwrap();
    block_on(pending.commit).unwrap();
}

#[test]
fn series_of_other_protocols_are_found() {
    let daemon = default();
    let stale = f64::from_bits(STALE_NAN_BITS);
    for (instance, value) in [("z", 1.0), ("y", 2.0)] {
        let labels = Labels::from_pairs([(METRIC_NAME, "up"), ("instance", instance)]);
        append(
            &daemon.stores,
            &labels,
            &[(0, value), (10, value), (20, stale)],
        );
    }
    let (status, results) = daemon.query((0, 60), "m=sum:up{instance=*}");
    assert_eq!(status, 200, "{results}");
    // Names that have no UIDs are in the order of names.
    assert_eq!(results[0]["tags"], json!({"instance": "y"}));
    assert_eq!(results[0]["dps"].as_object().unwrap().len(), 2);
    let (status, results) = daemon.query((0, 60), "m=sum:up{instance=z}&show_tsuids");
    assert_eq!((status, &results[0]["tsuids"]), (200, &json!([])));
    for m in ["m=sum:nosuch", "m=sum:up{job=*}", "m=sum:up{instance=x}"] {
        assert_eq!(daemon.query((0, 60), m).0, 400, "{m}");
    }
}

/// Answers of the original: series outside of an intersection add no rows.
#[test]
fn times_of_joined_series_count() {
    let daemon = default();
    daemon.put(&[("host", "a")], &[(0, json!(1)), (600, json!(2))]);
    daemon.put(&[("host", "b")], &[(300, json!(3))]);
    let point = json!({"metric": "n", "timestamp": B, "value": 10, "tags": {"host": "a"}});
    daemon.ask(Method::POST, "/api/put", &point.to_string());
    let rows = |operator: &str| {
        let filter = json!({"tagk": "host", "type": "wildcard", "filter": "*", "groupBy": true});
        let metric = |id: &str, metric: &str| json!({"id": id, "metric": metric, "filter": "f", "fillPolicy": {"policy": "zero"}});
        let query = json!({
            "time": {"start": B.to_string(), "end": (B + 900).to_string(), "aggregator": "sum"},
            "filters": [{"id": "f", "tags": [filter]}],
            "metrics": [metric("x", "m"), metric("y", "n")],
            "expressions": [{"id": "e", "expr": "x + y", "join": {"operator": operator}}],
        });
        let (status, text) = daemon.ask(Method::POST, "/api/query/exp", &query.to_string());
        assert_eq!(status, 200, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["outputs"][0]["dps"].clone()
    };
    let (first, second, third) = (B * 1000, (B + 300) * 1000, (B + 600) * 1000);
    assert_eq!(rows("intersection"), json!([[first, 11.0], [third, 2.0]]));
    let all = json!([[first, 11.0, 0.0], [second, 0.0, 3.0], [third, 2.0, 0.0]]);
    assert_eq!(rows("union"), all);
}

#[test]
fn series_that_others_have_taken_the_place_of_have_rows() {
    let daemon = default();
    daemon.put(
        &[("host", "a"), ("dc", "x")],
        &integers(&[(0, 1), (600, 2)]),
    );
    daemon.put(&[("host", "a"), ("dc", "y")], &integers(&[(300, 5)]));
    let point = json!({"metric": "n", "timestamp": B, "value": 10, "tags": {"host": "a"}});
    daemon.ask(Method::POST, "/api/put", &point.to_string());
    for operator in ["union", "intersection"] {
        let filter = json!({"tagk": "host", "type": "wildcard", "filter": "*", "groupBy": true});
        let metric = |id: &str, metric: &str| json!({"id": id, "metric": metric, "filter": "f"});
        let join = json!({"operator": operator, "useQueryTags": true, "includeAggTags": false});
        let query = json!({
            "time": {"start": B.to_string(), "end": (B + 900).to_string(), "aggregator": "none"},
            "filters": [{"id": "f", "tags": [filter]}],
            "metrics": [metric("x", "m"), metric("y", "n")],
            "expressions": [{"id": "e", "expr": "x + y", "join": join}],
        });
        let (status, text) = daemon.ask(Method::POST, "/api/query/exp", &query.to_string());
        assert_eq!(status, 200, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        let (first, second, third) = (B * 1000, (B + 300) * 1000, (B + 600) * 1000);
        let rows = json!([[first, 10.0], [second, 5.0], [third, 0.0]]);
        assert_eq!(answer["outputs"][0]["dps"], rows, "{operator}");
    }
}
