//! Rollups are read by the rows of the original: hours, a day, a month.

use http::Method;
use icecore_opentsdb::Config;
use serde_json::{Value, json};

use crate::query_examples::{B, Daemon};

const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1,"min":2},"intervals":[
    {"interval":"1m","rowSpan":"1h","defaultInterval":true},
    {"interval":"10m","rowSpan":"1d"},{"interval":"1h","rowSpan":"1n"}]}"#;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

fn daemon(rollups: &str) -> Daemon {
    Daemon::new(Config {
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        ..Config::default()
    })
}

/// Rollups of the series `host=a` at seconds after [`B`].
fn roll_up(daemon: &Daemon, points: &[(&str, &str, i64, i64)]) {
    for (interval, aggregator, second, value) in points {
        let point = json!({"metric": "m", "timestamp": B + second, "value": value,
            "tags": {"host": "a"}, "interval": interval, "aggregator": aggregator});
        let (status, text) = daemon.ask(Method::POST, "/api/rollup", &point.to_string());
        assert_eq!(status, 204, "{text}");
    }
}

/// The points of all results, as seconds after [`B`], with the table that answered.
fn found(daemon: &Daemon, window: (i64, i64), m: &str) -> Vec<(String, Vec<(i64, Value)>)> {
    let (status, results) = daemon.query(window, &format!("m={m}&show_query"));
    assert_eq!(status, 200, "{results}");
    let result = |result: &Value| {
        let points = result["dps"].as_object().unwrap().iter();
        let points = points.map(|(time, v)| (time.parse::<i64>().unwrap() - B, v.clone()));
        let mut points: Vec<_> = points.collect();
        points.sort_by_key(|point| point.0);
        let table = result["query"]["rollupTable"].as_str().unwrap();
        (table.to_owned(), points)
    };
    results.as_array().unwrap().iter().map(result).collect()
}

fn answer<V: Into<Value>>(
    table: &str,
    points: impl IntoIterator<Item = (i64, V)>,
) -> Vec<(String, Vec<(i64, Value)>)> {
    let points = points.into_iter().map(|(time, value)| (time, value.into()));
    vec![(table.to_owned(), points.collect())]
}

#[test]
fn a_row_with_rollups_outside_of_the_window_answers() {
    let daemon = daemon(ROLLUPS);
    daemon.put(&[("host", "a")], &[(0, json!(1)), (HOUR, json!(2))]);
    roll_up(&daemon, &[("1h", "min", 5 * DAY, 7)]);
    let missing = [(0, "NaN"), (HOUR, "NaN"), (2 * HOUR, "NaN")];
    for usage in [
        "rollup_fallback",
        "rollup_fallback_raw",
        "rollup_nofallback",
    ] {
        let m = format!("sum:1h-min-nan:{usage}:m");
        let filled = found(&daemon, (0, 2 * HOUR), &m);
        assert_eq!(filled, answer("1h", missing), "{usage}");
        let m = format!("sum:1h-min:{usage}:m");
        let empty = found(&daemon, (0, 2 * HOUR), &m);
        assert_eq!(empty, answer::<Value>("1h", []), "{usage}");
    }
    // The rollups of sums are columns of their own.
    let raw = found(&daemon, (0, 2 * HOUR), "sum:1h-sum:rollup_fallback_raw:m");
    assert_eq!(raw, answer("raw", [(0, 1.0), (HOUR, 2.0)]));
    // The row of another month is not read.
    let february = 31 * DAY;
    daemon.put(&[("host", "a")], &[(february, json!(3))]);
    let window = (february, february + HOUR);
    let raw = found(&daemon, window, "sum:1h-min:rollup_fallback_raw:m");
    assert_eq!(raw, answer("raw", [(february, 3.0)]));
}

#[test]
fn the_rows_of_days_answer_before_points_do() {
    let daemon = daemon(ROLLUPS);
    daemon.put(&[("host", "a")], &[(0, json!(1)), (600, json!(2))]);
    roll_up(
        &daemon,
        &[("10m", "sum", 0, 5), ("10m", "sum", 3 * HOUR, 6)],
    );
    let m = "sum:2h-sum:rollup_fallback:m";
    // Rollups of ten minutes are added up to what was asked for.
    assert_eq!(found(&daemon, (0, HOUR), m), answer("10m", [(0, 5.0)]));
    // What falls back to points has the interval of the rollups that were tried last.
    daemon.put(&[("host", "a")], &[(DAY, json!(3)), (DAY + 600, json!(4))]);
    let points = [(DAY, 3.0), (DAY + 600, 4.0)];
    assert_eq!(found(&daemon, (DAY, DAY + HOUR), m), answer("raw", points));
    // Without a configured interval of points there is nothing to fall back to.
    let alone = self::daemon(
        r#"{"aggregationIds":{"sum":0},"intervals":[{"interval":"1h","rowSpan":"1n"}]}"#,
    );
    alone.put(&[("host", "a")], &[(0, json!(1))]);
    assert_eq!(found(&alone, (0, HOUR), m), []);
    let m = "sum:2h-sum:rollup_fallback_raw:m";
    assert_eq!(found(&alone, (0, HOUR), m), answer("raw", [(0, 1.0)]));
}

#[test]
fn rates_of_rollups_read_the_row_before() {
    let daemon = daemon(ROLLUPS);
    let february = 31 * DAY;
    for start in [10 * HOUR, february] {
        roll_up(
            &daemon,
            &[("1h", "sum", start, 36_000), ("1h", "count", start, 1)],
        );
        let window = (start, start + HOUR);
        for aggregator in ["last", "sum"] {
            let rates = found(&daemon, window, &format!("{aggregator}:1h-avg-zero:rate:m"));
            let expected = [(start, 10.0), (start + HOUR, -10.0)];
            assert_eq!(rates, answer("1h", expected), "{aggregator} {start}");
        }
    }
}

#[test]
fn explicit_tags_are_looked_for_in_one_more_row() {
    let daemon = daemon(ROLLUPS);
    for (host, points) in [
        ("a", vec![(3000, 10), (4200, 20)]),
        ("b", vec![(3300, 1)]),
        ("c", vec![(5000, 1)]),
        ("d", vec![(3600, 1)]),
    ] {
        let points: Vec<_> = points.iter().map(|(t, v)| (*t, json!(v))).collect();
        daemon.put(&[("host", host)], &points);
    }
    let sums = |m: &str| found(&daemon, (0, 3500), m);
    let interpolated = answer("raw", [(3000, 10), (3300, 13)]);
    assert_eq!(sums("sum:explicit_tags:m{}{host=*}"), interpolated);
    assert_eq!(
        sums("sum:m{}{host=*}"),
        answer("raw", [(3000, 10), (3300, 1)])
    );
    // Without a filter nothing is explicit.
    assert_eq!(
        sums("sum:explicit_tags:m"),
        answer("raw", [(3000, 10), (3300, 1)])
    );
    // A series counts if it begins no later than the time that others are read to.
    let hosts = sums("sum:explicit_tags:m{host=*}");
    let counts: Vec<usize> = hosts.iter().map(|(_, points)| points.len()).collect();
    assert_eq!(counts, [1, 1, 0]);
}
