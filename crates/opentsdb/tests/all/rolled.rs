//! Queries over time whose points were rolled up.

use std::sync::Arc;

use futures::executor::block_on;
use http::{HeaderMap, Method, StatusCode};
use icecore_model::ManualClock;
use icecore_model::rollup::{Resolution, WindowFields};
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::testing::{KeptTime, MemoryStore};
use icecore_opentsdb::{Config, Tsd};
use serde_json::{Value, json};

/// A midnight.
const B: i64 = 1_356_998_400;

const HOUR: i64 = 3600;

const FIVE: &[&str] = &["5m"];
const HOURLY: &[&str] = &["1h"];

struct Daemon {
    store: Arc<MemoryStore>,
    tsd: Tsd,
}

struct Answer {
    results: Value,
    warning: Option<String>,
}

impl Daemon {
    fn new(config: Config) -> Self {
        let config = Config {
            auto_create_metrics: true,
            enable_chunked: true,
            max_chunk: 1 << 20,
            ..config
        };
        let store = Arc::new(MemoryStore::default());
        let clock = Arc::new(ManualClock::at((B + 30 * 86_400) * 1000));
        let tsd = Tsd::open(config, Arc::clone(&store).all(), clock);
        Self {
            tsd: block_on(tsd).unwrap(),
            store,
        }
    }

    /// 24 hours of a point a minute, values 0 to 1439, of two hosts; the second has twice that.
    fn with_a_day() -> Self {
        let daemon = Self::new(Config::default());
        for (host, factor) in [("a", 1), ("b", 2)] {
            let point = |minute: i64| {
                json!({"metric": "m", "timestamp": B + minute * 60, "value": minute * factor,
                       "tags": {"host": host}})
            };
            let points: Vec<Value> = (0..1440).map(point).collect();
            daemon.post("/api/put", &json!(points));
        }
        daemon
    }

    /// Hours since [`B`] that are kept at these levels.
    fn keep(&self, parts: &[(i64, i64, &[&str])]) {
        let part = |(start, end, levels): &(i64, i64, &[&str])| KeptTime {
            start_ms: (B + start * HOUR) * 1000,
            end_ms: (B + end * HOUR) * 1000,
            levels: levels
                .iter()
                .map(|name| {
                    let lean = WindowFields::ALL.without(WindowFields::M2);
                    let level = Resolution::from_name(name).unwrap();
                    let is_hourly = level == Resolution::HOUR;
                    (level, if is_hourly { WindowFields::ALL } else { lean })
                })
                .collect(),
        };
        self.store.keep(parts.iter().map(part).collect());
    }

    fn post(&self, path: &str, body: &Value) {
        let body = body.to_string().into();
        let request = Request::new(Method::POST, path, HeaderMap::new(), body);
        let response = block_on(handle(&self.tsd, &request));
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert_eq!(response.status, StatusCode::NO_CONTENT, "{text}");
    }

    /// The answer to a document with one sub query; times are hours since [`B`].
    fn ask(&self, (start, end): (i64, i64), sub_query: &Value, more: &Value) -> Answer {
        let (start, end) = (B + start * HOUR, B + end * HOUR);
        let mut document = json!({"start": start, "end": end, "queries": [sub_query]});
        let more = more.as_object().cloned().unwrap_or_default();
        document.as_object_mut().unwrap().extend(more);
        let body = document.to_string().into();
        let request = Request::new(Method::POST, "/api/query", HeaderMap::new(), body);
        let response = block_on(handle(&self.tsd, &request));
        let text = String::from_utf8(response.body).unwrap();
        assert_eq!(response.status, StatusCode::OK, "{text}");
        let warning = response.headers.iter().find(|(name, _)| name == "warning");
        Answer {
            results: serde_json::from_str(&text).unwrap(),
            warning: warning.map(|(_, text)| text.clone()),
        }
    }

    fn downsampled(&self, window: (i64, i64), downsample: &str, usage: Option<&str>) -> Answer {
        let sub_query = json!({"metric": "m", "aggregator": "sum", "downsample": downsample,
                               "tags": {"host": "a"}, "rollupUsage": usage});
        self.ask(window, &sub_query, &json!({"showStats": true}))
    }
}

impl Answer {
    /// Minutes since [`B`] with their values.
    fn points(&self) -> Vec<(i64, f64)> {
        let Some(points) = self.results[0]["dps"].as_object() else {
            return Vec::new();
        };
        let point = |(time, value): (&String, &Value)| {
            let second = time.parse::<i64>().unwrap() - B;
            (second / 60, value.as_f64().unwrap())
        };
        let mut points: Vec<_> = points.iter().map(point).collect();
        points.sort_by_key(|point| point.0);
        points
    }

    fn rollup(&self) -> &Value {
        &self.results[0]["stats"]["rollup"]
    }
}

/// The sum of the minutes of an hour.
fn sum_of_hour(hour: i64) -> f64 {
    (hour * 60..hour * 60 + 60).sum::<i64>() as f64
}

#[test]
fn the_coarsest_level_that_divides_the_interval_answers() {
    let daemon = Daemon::with_a_day();
    let before = daemon.downsampled((0, 24), "1h-sum", None);
    assert_eq!(before.rollup(), &Value::Null);
    daemon.keep(&[(0, 12, &["5m", "1h"]), (12, 18, &["raw", "5m"])]);
    let after = daemon.downsampled((0, 24), "1h-sum", None);
    assert_eq!(after.points(), before.points());
    let expected = json!([
        {"resolution": "1h", "start": B, "end": B + 12 * HOUR},
        {"resolution": "5m", "start": B + 12 * HOUR, "end": B + 18 * HOUR},
    ]);
    assert_eq!((after.rollup(), &after.warning), (&expected, &None));
    for usage in [
        "ROLLUP_NOFALLBACK",
        "rollup_fallback",
        "ROLLUP_FALLBACK_RAW",
    ] {
        let of_usage = daemon.downsampled((0, 24), "1h-sum", Some(usage));
        assert_eq!(of_usage.points(), before.points(), "{usage}");
    }
    // Of points alone the last six hours are left, and those that are not rolled up only.
    let raw = daemon.downsampled((0, 24), "1h-sum", Some("ROLLUP_RAW"));
    let expected: Vec<_> = (12..24)
        .map(|hour| (hour * 60, sum_of_hour(hour)))
        .collect();
    assert_eq!(raw.points(), expected);
    assert_eq!(raw.rollup(), &Value::Null);
}

#[test]
fn the_summary_names_all_levels() {
    let daemon = Daemon::with_a_day();
    daemon.keep(&[(0, 12, HOURLY)]);
    let sub_query = json!({"metric": "m", "aggregator": "sum", "downsample": "2h-avg"});
    let more = json!({"showSummary": true, "msResolution": true, "showQuery": true});
    let answer = daemon.ask((4, 20), &sub_query, &more);
    let summary = &answer.results[1]["statsSummary"]["rollup"];
    let (start, end) = ((B + 4 * HOUR) * 1000, (B + 12 * HOUR) * 1000);
    let expected = json!([{"resolution": "1h", "start": start, "end": end}]);
    assert_eq!(summary, &expected);
    assert_eq!(answer.results[0]["query"]["rollupUsage"], Value::Null);
    // Sums by counts: (240 + … + 359) / 120, and that twice for the other host.
    assert_eq!(answer.points()[0].1, 299.5 * 3.0);
}

#[test]
fn intervals_that_no_level_divides_are_rounded_up_where_points_are_gone() {
    let daemon = Daemon::with_a_day();
    let before = daemon.downsampled((0, 24), "7m-max", None);
    daemon.keep(&[(0, 12, &["raw", "5m", "1h"])]);
    assert_eq!(
        daemon.downsampled((0, 24), "7m-max", None).points(),
        before.points()
    );
    daemon.keep(&[(0, 6, HOURLY), (6, 12, FIVE)]);
    for usage in [None, Some("ROLLUP_FALLBACK"), Some("ROLLUP_NOFALLBACK")] {
        let answer = daemon.downsampled((0, 24), "7m-max", usage);
        let points = answer.points();
        let hours: Vec<_> = (0..6)
            .map(|hour| (hour * 60, (hour * 60 + 59) as f64))
            .collect();
        assert_eq!(points[..6], hours);
        assert_eq!(points[6..9], [(360, 369.0), (370, 379.0), (380, 389.0)]);
        assert_eq!(points.last(), before.points().last());
        let warning = "299 icecore \"downsampled by 10m where only 5m windows are kept; \
                       downsampled by 1h where only 1h windows are kept\"";
        assert_eq!(answer.warning.as_deref(), Some(warning));
        assert_eq!(answer.rollup()[0]["interval"], "1h");
        assert_eq!(answer.rollup()[1]["interval"], "10m");
    }
    assert_eq!(
        daemon
            .downsampled((0, 11), "7m-max", Some("ROLLUP_RAW"))
            .points(),
        []
    );
}

#[test]
fn usage_decides_whether_coarser_windows_stand_in() {
    let daemon = Daemon::with_a_day();
    daemon.keep(&[(0, 6, HOURLY), (6, 12, &["5m", "1h"])]);
    let first = |usage| {
        let answer = daemon.downsampled((0, 24), "15m-sum", usage);
        answer.points()[0].0
    };
    assert_eq!(first(None), 0);
    assert_eq!(first(Some("ROLLUP_FALLBACK")), 0);
    assert_eq!(first(Some("ROLLUP_WHATEVER")), 0);
    assert_eq!(first(Some("ROLLUP_NOFALLBACK")), 360);
    assert_eq!(first(Some("ROLLUP_FALLBACK_RAW")), 360);
    assert_eq!(first(Some("ROLLUP_RAW")), 720);
}

#[test]
fn what_windows_do_not_tell_is_estimated() {
    let daemon = Daemon::with_a_day();
    let exact = daemon.downsampled((0, 24), "1h-dev", None);
    daemon.keep(&[(0, 12, HOURLY)]);
    let of_hours = daemon.downsampled((0, 24), "1h-dev", None);
    for (found, expected) in of_hours.points().iter().zip(exact.points()) {
        assert!(
            (found.1 - expected.1).abs() < 1e-9,
            "{found:?} {expected:?}"
        );
    }
    assert_eq!(of_hours.warning, None);
    // The finer level does not have the deviation.
    daemon.keep(&[(0, 12, FIVE)]);
    let estimated = daemon.downsampled((0, 12), "1h-dev", None);
    assert!((estimated.points()[0].1 - exact.points()[0].1).abs() < 1.0);
    assert_eq!(estimated.rollup()[0]["estimated"], true);
    let warning = "299 icecore \"estimated where only windows are kept\"";
    assert_eq!(estimated.warning.as_deref(), Some(warning));
    let median = daemon.downsampled((0, 12), "1h-median", None);
    assert_eq!(median.warning.as_deref(), Some(warning));
    assert!((median.points()[0].1 - 30.0).abs() < 3.0);
    // Points are preferred.
    daemon.keep(&[(0, 12, &["raw", "5m", "1h"])]);
    let median = daemon.downsampled((0, 12), "1h-median", None);
    assert_eq!((median.points()[0].1, median.warning), (30.0, None));
}

#[test]
fn without_a_downsampler_the_points_that_are_left_are_shown() {
    let daemon = Daemon::with_a_day();
    daemon.keep(&[(0, 2, HOURLY)]);
    let sub_query = json!({"metric": "m", "aggregator": "none", "tags": {"host": "a"}});
    let answer = daemon.ask((0, 2), &sub_query, &json!({"showStats": true}));
    let minutes = [0, 1, 59, 60, 61, 119, 120];
    let expected = minutes.map(|minute| (minute, minute as f64));
    assert_eq!(answer.points(), expected);
    // Integers stay integers.
    assert_eq!(answer.results[0]["dps"][(B + 60).to_string()], json!(1));
    assert_eq!(answer.rollup()[0]["resolution"], "1h");
    assert!(answer.warning.is_some());
    let raw = json!({"metric": "m", "aggregator": "none", "rollupUsage": "ROLLUP_RAW",
                     "tags": {"host": "a"}});
    let answer = daemon.ask((0, 2), &raw, &json!({}));
    assert_eq!(answer.points(), [(120, 120.0)]);
    let rate = json!({"metric": "m", "aggregator": "none", "rollupUsage": "ROLLUP_RAW",
                      "tags": {"host": "a"}, "rate": true});
    let answer = daemon.ask((2, 3), &rate, &json!({}));
    assert_eq!(answer.points()[0], (121, 1.0 / 60.0));
}

#[test]
fn the_whole_window_is_one_interval() {
    let daemon = Daemon::with_a_day();
    let before = daemon.downsampled((3, 21), "0all-sum", None);
    daemon.keep(&[(0, 12, HOURLY), (12, 15, FIVE)]);
    let after = daemon.downsampled((3, 21), "0all-sum", None);
    assert_eq!(after.points(), before.points());
    assert_eq!(after.points(), [(180, (180..1260).sum::<i64>() as f64)]);
    assert_eq!(after.warning, None);
}

#[test]
fn days_of_a_zone_are_on_the_grid_of_hours() {
    let daemon = Daemon::with_a_day();
    let ask = |zone: &str| {
        let sub_query = json!({"metric": "m", "aggregator": "sum", "downsample": "1dc-count"});
        let more = json!({"timezone": zone, "showStats": true});
        let answer = daemon.ask((-30, 24), &sub_query, &more);
        (answer.points(), answer.warning.is_some())
    };
    let (berlin, kolkata) = (ask("Europe/Berlin"), ask("Asia/Kolkata"));
    assert_eq!(berlin.0, [(-60, 2760.0), (1380, 120.0)]);
    assert_eq!(kolkata.0, [(-330, 2220.0), (1110, 660.0)]);
    daemon.keep(&[(0, 12, &["1h"]), (12, 24, &["raw", "5m", "1h"])]);
    assert_eq!(ask("Europe/Berlin"), berlin);
    // Half an hour off the grid of what is left alone.
    assert_eq!(ask("Asia/Kolkata"), (kolkata.0.clone(), true));
    daemon.keep(&[(0, 24, FIVE)]);
    assert_eq!(ask("Asia/Kolkata"), kolkata);
}

#[test]
fn groups_fills_and_rates_act_on_downsampled_windows() {
    let daemon = Daemon::with_a_day();
    let queries = [
        json!({"metric": "m", "aggregator": "avg", "downsample": "1h-sum-nan"}),
        json!({"metric": "m", "aggregator": "zimsum", "downsample": "2h-max-zero", "rate": true}),
        json!({"metric": "m", "aggregator": "max", "downsample": "1h-diff", "tags": {"host": "*"}}),
        json!({"metric": "m", "aggregator": "dev", "downsample": "3h-squareSum"}),
    ];
    let ask = || {
        queries
            .each_ref()
            .map(|q| daemon.ask((-2, 30), q, &json!({})).results)
    };
    let before = ask();
    daemon.keep(&[(0, 12, HOURLY), (12, 15, &["5m", "1h"])]);
    let after = ask();
    for (before, after) in before.iter().zip(&after) {
        let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(after) {
            assert_eq!(before["aggregateTags"], after["aggregateTags"]);
            let points = |of: &Value| of["dps"].as_object().unwrap().clone();
            let (before, after) = (points(before), points(after));
            assert!(before.keys().eq(after.keys()));
            for (time, value) in &before {
                let (is, was) = (after[time].as_f64(), value.as_f64());
                let near = is == was
                    || is
                        .zip(was)
                        .is_some_and(|(is, was)| (is - was).abs() <= 1e-9 * was.abs());
                assert!(near, "{time}: {is:?}, not {was:?}");
            }
        }
    }
}

#[test]
fn renamed_metrics_keep_their_windows() {
    let daemon = Daemon::with_a_day();
    let before = daemon.downsampled((0, 24), "1h-sum", None).points();
    let rename = json!({"metric": "m", "name": "n"});
    let body = rename.to_string().into();
    let request = Request::new(Method::POST, "/api/uid/rename", HeaderMap::new(), body);
    assert_eq!(
        block_on(handle(&daemon.tsd, &request)).status,
        StatusCode::OK
    );
    let point = json!({"metric": "n", "timestamp": B + 24 * HOUR, "value": 7,
                       "tags": {"host": "a"}});
    daemon.post("/api/put", &json!([point]));
    daemon.keep(&[(0, 12, HOURLY), (12, 25, FIVE)]);
    let sub_query = json!({"metric": "n", "aggregator": "sum", "downsample": "1h-sum",
                           "tags": {"host": "a"}});
    let after = daemon.ask((0, 24), &sub_query, &json!({})).points();
    assert_eq!(after.len(), 25);
    assert_eq!(after[..24], before);
    assert_eq!(after[24], (1440, 7.0));
}

#[test]
fn points_are_still_counted() {
    let daemon = Daemon::with_a_day();
    let body = json!({"description": "a day"}).to_string().into();
    let target = "/api/uid/tsmeta?m=m{host=a}&create=true";
    let request = Request::new(Method::POST, target, HeaderMap::new(), body);
    assert_eq!(
        block_on(handle(&daemon.tsd, &request)).status,
        StatusCode::OK
    );
    let counted = || {
        let target = "/api/uid/tsmeta?m=m{host=a}";
        let request = Request::new(Method::GET, target, HeaderMap::new(), Default::default());
        let body = block_on(handle(&daemon.tsd, &request)).body;
        let meta: Value = serde_json::from_slice(&body).unwrap();
        (
            meta[0]["totalDatapoints"].clone(),
            meta[0]["lastReceived"].clone(),
        )
    };
    let before = counted();
    assert_eq!(before, (json!(1440), json!(B + 86_340)));
    daemon.keep(&[(0, 12, HOURLY), (12, 24, FIVE)]);
    assert_eq!(counted(), before);
}

#[test]
fn limits_count_windows() {
    let daemon = Daemon::with_a_day();
    daemon.keep(&[(0, 24, HOURLY)]);
    let config = Config {
        query_points_max: 47,
        ..Config::default()
    };
    let clock = Arc::new(ManualClock::at((B + 30 * 86_400) * 1000));
    let limited = Tsd::open(config, Arc::clone(&daemon.store).all(), clock);
    let limited = block_on(limited).unwrap();
    let target = format!("/api/query?start={B}&end={}&m=sum:1h-sum:m", B + 24 * HOUR);
    let request = Request::new(Method::GET, &target, HeaderMap::new(), Default::default());
    let response = block_on(handle(&limited, &request));
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[test]
fn histograms_of_windows_are_added_up() {
    let daemon = Daemon::new(Config {
        histogram_codecs: Some([("net.opentsdb.core.SimpleHistogramDecoder".into(), 42)].into()),
        ..Config::default()
    });
    let point = |minute: i64| {
        let buckets = json!({"0,1.75": minute, "1.75,3.5": 2 * minute});
        json!({"metric": "h", "timestamp": B + minute * 60, "buckets": buckets,
               "underflow": 1, "overflow": 0, "id": 42, "tags": {"host": "a"}})
    };
    let points: Vec<Value> = (0..360).map(point).collect();
    daemon.post("/api/histogram", &json!(points));
    let sub_query = json!({"metric": "h", "aggregator": "sum", "downsample": "2h-sum",
                           "percentiles": [50.0, 99.0], "showHistogramBuckets": true});
    let ask = || daemon.ask((0, 6), &sub_query, &json!({}));
    let before = ask();
    assert_eq!(
        before.results.as_array().unwrap().len(),
        6,
        "{}",
        before.results
    );
    daemon.keep(&[(0, 2, HOURLY), (2, 4, &["5m", "1h"])]);
    let after = ask();
    assert_eq!(after.results, before.results);
    assert_eq!(after.warning, None);
}

const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1,"max":2},
    "intervals":[{"table":"t","preAggregationTable":"p","interval":"1m","rowSpan":"1h","defaultInterval":true},
                 {"table":"t10","preAggregationTable":"p10","interval":"10m","rowSpan":"1d"}]}"#;

/// What clients roll up is read by its own series, whatever became of their points.
#[test]
fn rollups_of_clients_grow_old_as_well() {
    let daemon = Daemon::new(Config {
        rollups_enabled: true,
        rollups_document: Some(ROLLUPS.into()),
        ..Config::default()
    });
    let mut points = Vec::new();
    for at in 0..36_i64 {
        for (function, value) in [("SUM", at * at), ("COUNT", at % 5 + 1), ("MAX", 40 - at)] {
            points.push(
                json!({"metric": "m", "timestamp": B + at * 600, "value": value,
                               "interval": "10m", "aggregator": function,
                               "tags": {"host": "a"}}),
            );
        }
    }
    daemon.post("/api/rollup", &json!(points));
    let all = ["10m-sum", "1h-sum", "1h-avg", "2h-max", "1h-count"];
    let ask = |of: &str| daemon.downsampled((0, 6), of, None);
    let before = all.map(|of| ask(of).points());
    assert_eq!(before[0][1], (10, 1.0));
    assert_eq!(before[2][0], (0, 55.0 / 16.0));
    daemon.keep(&[(0, 2, &["5m", "1h"]), (2, 4, FIVE)]);
    for (of, before) in all.iter().zip(&before) {
        let answer = ask(of);
        assert_eq!(&answer.points(), before, "{of}");
        assert_eq!(answer.warning, None);
    }
    daemon.keep(&[(0, 6, HOURLY)]);
    for (of, before) in all.iter().zip(&before).skip(1) {
        assert_eq!(&ask(of).points(), before, "{of}");
    }
    assert!(ask("10m-sum").warning.is_some());
}

#[test]
fn aggregates_are_left_out_unless_they_are_named() {
    let ask = |daemon: &Daemon, tags: Value| {
        let sub_query = json!({"metric": "m", "aggregator": "sum", "tags": tags});
        let answer = daemon.ask((0, 1), &sub_query, &json!({}));
        answer.points().first().map(|point| point.1)
    };
    let written = |config| {
        let daemon = Daemon::new(config);
        let point = |tags: Value, value| json!({"metric": "m", "timestamp": B, "value": value, "tags": tags});
        let points = [
            point(json!({"host": "a"}), 1),
            point(json!({"host": "b", "_aggregate": "RAW"}), 2),
            point(json!({"dc": "x", "_aggregate": "SUM"}), 3),
        ];
        daemon.post("/api/put", &json!(points));
        daemon
    };
    let off = written(Config::default());
    assert_eq!(ask(&off, json!({})), Some(6.0));
    let on = written(Config {
        exclude_aggregates: Some(true),
        ..Config::default()
    });
    assert_eq!(ask(&on, json!({})), Some(3.0));
    assert_eq!(ask(&on, json!({"_aggregate": "SUM"})), Some(3.0));
    assert_eq!(ask(&on, json!({"_aggregate": "*"})), Some(2.0));
}
