//! Questions over cells in memory.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use icecore_model::event::{Cell, EventWindow, Reducer, SketchCounts};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::testing::*;
use super::*;
use crate::{MetricKind, Problem};

fn body(more: Value) -> Vec<u8> {
    let mut body = json!({
        "serviceKey": "shop", "eventType": "order.placed", "counterName": "orders",
        "histogramName": "latency", "gaugeName": "stock",
        "interval": "1m", "start": "2026-11-09T10:00:00Z", "end": "2026-11-09T10:03:00Z",
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string().into_bytes()
}

fn counters(cells: &MemoryCells, more: Value) -> Result<Value, Problem> {
    let answer = block_on(query_counters(cells, &body(more)))?;
    Ok(serde_json::from_str(&answer).unwrap())
}

fn histograms(cells: &MemoryCells, more: Value) -> Result<Value, Problem> {
    let answer = block_on(query_histograms(cells, &body(more)))?;
    Ok(serde_json::from_str(&answer).unwrap())
}

fn gauges(cells: &MemoryCells, more: Value) -> Result<Value, Problem> {
    let answer = block_on(query_gauges(cells, &body(more)))?;
    Ok(serde_json::from_str(&answer).unwrap())
}

/// 2026-11-09T10:00:00Z.
const TEN_S: i64 = MONDAY_S + 36_000;

fn orders() -> MemoryCells {
    let orders = counter(1, "orders", &["order.channel", "region"]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    cells.count(&orders, TEN_S + 1, &["web", "eu"], 3);
    cells.count(&orders, TEN_S + 7, &["web", "us"], 4);
    cells.count(&orders, TEN_S + 130, &["app", "eu"], 5);
    cells.count(&orders, TEN_S + 131, &["tv", "eu"], 11);
    cells
}

fn counts(answer: &Value) -> Vec<Vec<i64>> {
    let intervals = answer["data"]["intervals"].as_array().unwrap();
    let of = |interval: &Value| {
        let counts = interval["counts"].as_array().unwrap().iter();
        counts
            .map(|entry| entry["count"].as_i64().unwrap())
            .collect()
    };
    intervals.iter().map(of).collect()
}

#[test]
fn the_worked_example() {
    let cells = orders();
    let answer = counters(
        &cells,
        json!({ "key": { "order.channel": ["web", "app"] } }),
    )
    .unwrap();
    assert_eq!(answer["count"], 3);
    assert_eq!(answer["total"], 3);
    assert_eq!(answer["limit"], 1000);
    assert_eq!(answer["window"], "1m");
    assert_eq!(answer.get("partial"), None);
    let first = json!({
        "from": "2026-11-09T10:00:00Z", "to": "2026-11-09T10:01:00Z",
        "counts": [
            { "key": { "order.channel": "web" }, "count": 7 },
            { "key": { "order.channel": "app" }, "count": 0 },
        ],
    });
    assert_eq!(answer["data"]["intervals"][0], first);
    assert_eq!(counts(&answer), [[7, 0], [0, 0], [0, 5]]);
    let rows = json!([
        {
            "from": "2026-11-09T10:00:00Z", "to": "2026-11-09T10:01:00Z",
            "order.channel": "web", "count": 7,
        },
        {
            "from": "2026-11-09T10:02:00Z", "to": "2026-11-09T10:03:00Z",
            "order.channel": "app", "count": 5,
        },
    ]);
    assert_eq!(answer["rows"], rows);
}

#[test]
fn dimensions_left_out_are_summed_over() {
    let cells = orders();
    let all = counters(&cells, json!({})).unwrap();
    assert_eq!(counts(&all), [[7], [0], [16]]);
    assert_eq!(all["data"]["intervals"][0]["counts"][0]["key"], json!({}));
    let pairs = json!({ "key": { "order.channel": ["web", "app"], "region": ["us", "eu"] } });
    let pairs = counters(&cells, pairs).unwrap();
    assert_eq!(counts(&pairs), [[4, 3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 5]]);
    let grouped = json!({ "groupBy": ["order.channel"], "limits": { "offset": 0, "limit": 1 } });
    let grouped = counters(&cells, grouped).unwrap();
    // Groups are those of the whole range, not of the page.
    assert_eq!(counts(&grouped), [[0, 0, 7]]);
    let mixed = json!({ "key": { "region": "eu" }, "groupBy": ["order.channel"] });
    assert_eq!(counts(&counters(&cells, mixed).unwrap())[2], [5, 11, 0]);
}

#[test]
fn pages_have_links_with_bodies() {
    let cells = orders();
    let page = json!({ "limits": { "offset": 1, "limit": 1 } });
    let answer = counters(&cells, page).unwrap();
    assert_eq!((&answer["count"], &answer["total"]), (&json!(1), &json!(3)));
    assert_eq!(counts(&answer), [[0]]);
    let links = &answer["links"];
    for (name, offset) in [
        ("self", 1),
        ("first", 0),
        ("prev", 0),
        ("next", 2),
        ("last", 2),
    ] {
        let body = &links[name]["body"];
        assert_eq!(
            body["limits"],
            json!({ "offset": offset, "limit": 1 }),
            "{name}"
        );
        assert_eq!(body["start"], "2026-11-09T10:00:00Z");
        let text = body.to_string();
        let answer = block_on(query_counters(&cells, text.as_bytes())).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["offset"], offset);
    }
    let beyond = counters(&cells, json!({ "limits": { "offset": 7 } })).unwrap();
    assert_eq!((&beyond["count"], &beyond["total"]), (&json!(0), &json!(3)));
}

#[test]
fn columns() {
    let cells = orders();
    let asked = json!({ "key": { "order.channel": ["web"] }, "format": "columnar" });
    let answer = counters(&cells, asked).unwrap();
    let columns = &answer["data"]["intervals"];
    let fields = json!([
        { "name": "from", "type": "datetime" }, { "name": "to", "type": "datetime" },
        { "name": "order.channel", "type": "string" }, { "name": "count", "type": "integer" },
    ]);
    assert_eq!(columns["schema"]["fields"], fields);
    assert_eq!(columns["data"]["count"], json!([7, 0, 0]));
    assert_eq!(
        columns["data"]["order.channel"],
        json!(["web", "web", "web"])
    );
    assert_eq!(columns["data"]["to"][2], "2026-11-09T10:03:00Z");
    assert_eq!(answer.get("rows"), None);
}

#[test]
fn ranges_are_widened_to_whole_intervals() {
    let cells = orders();
    let odd = json!({ "start": "2026-11-09T10:00:59.5Z", "end": "2026-11-09T12:02:00.001+02:00" });
    let answer = counters(&cells, odd).unwrap();
    assert_eq!(counts(&answer), [[7], [0], [16]]);
    let week =
        json!({ "interval": "7d", "start": "2026-11-11T00:00:00Z", "end": "2026-11-11T01:00:00Z" });
    let answer = counters(&cells, week).unwrap();
    assert_eq!(answer["window"], "7d");
    assert_eq!(
        answer["data"]["intervals"][0]["from"],
        "2026-11-09T00:00:00Z"
    );
    assert_eq!(counts(&answer), [[23]]);
    // The hour before now.
    let mut now = orders();
    now.now_ms = (TEN_S + 3_600) * 1000;
    let default = json!({ "start": null, "end": null, "interval": "1h" });
    assert_eq!(counts(&counters(&now, default).unwrap()), [[23]]);
}

#[test]
fn sums_are_answered_by_counters_of_sums() {
    let revenue = metric(
        2,
        "orders",
        &[],
        MetricKind::Counter {
            sum_of: Some("total".into()),
        },
    );
    let mut cells = MemoryCells::new(vec![revenue.clone()]);
    cells.count(&revenue, TEN_S, &[], 3);
    let answer = counters(&cells, json!({})).unwrap();
    let entry = json!({ "key": {}, "count": 4.5, "events": 3 });
    assert_eq!(answer["data"]["intervals"][0]["counts"][0], entry);
    assert_eq!(answer["rows"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_wrong_is_said_with_a_code() {
    let cells = orders();
    let code = |more: Value| {
        let problem = counters(&cells, more).unwrap_err();
        (problem.status, problem.code)
    };
    assert_eq!(
        code(json!({ "serviceKey": "x" })),
        (404, "query.unknown-service")
    );
    assert_eq!(
        code(json!({ "eventType": "x" })),
        (404, "query.unknown-type")
    );
    assert_eq!(
        code(json!({ "counterName": "x" })),
        (404, "query.unknown-counter")
    );
    assert_eq!(
        code(json!({ "serviceKey": null })),
        (400, "query.required-field-missing")
    );
    assert_eq!(
        code(json!({ "interval": "7s" })),
        (400, "query.interval-invalid")
    );
    assert_eq!(
        code(json!({ "interval": null })),
        (400, "query.interval-invalid")
    );
    assert_eq!(code(json!({ "interval": 5 })), (400, "query.invalid-field"));
    assert_eq!(
        code(json!({ "end": "2026-11-09T10:00:00Z" })),
        (400, "query.invalid-time-range")
    );
    assert_eq!(
        code(json!({ "start": "yesterday" })),
        (400, "query.invalid-timestamp")
    );
    assert_eq!(
        code(json!({ "key": { "x": ["y"] } })),
        (400, "query.unknown-dimension")
    );
    assert_eq!(
        code(json!({ "groupBy": ["x"] })),
        (400, "query.unknown-dimension")
    );
    assert_eq!(code(json!({ "key": 5 })), (400, "query.invalid-field"));
    assert_eq!(code(json!({ "format": "x" })), (400, "query.invalid-field"));
    assert_eq!(
        code(json!({ "limits": { "limit": 0 } })),
        (400, "query.invalid-field")
    );
    assert_eq!(
        code(json!({ "limits": { "offset": -1 } })),
        (400, "query.invalid-field")
    );
    let many: Vec<String> = (0..10_001).map(|i| i.to_string()).collect();
    assert_eq!(
        code(json!({ "key": { "region": many } })),
        (400, "query.limit-exceeded")
    );
    let parse = |body: &[u8]| block_on(query_counters(&cells, body)).unwrap_err().code;
    assert_eq!(parse(b"{"), "query.invalid-json");
    assert_eq!(parse(b"[]"), "query.invalid-body");
    let problem = histograms(&cells, json!({})).unwrap_err();
    assert_eq!(
        (problem.status, problem.code),
        (404, "query.unknown-histogram")
    );
    let problem = gauges(&cells, json!({ "gaugeName": "orders" })).unwrap_err();
    assert_eq!((problem.status, problem.code), (404, "query.unknown-gauge"));
    let mut coarse = (*counter(1, "orders", &[])).clone();
    coarse.base = EventWindow::Minute;
    let coarse = MemoryCells::new(vec![coarse.into()]);
    let problem = counters(&coarse, json!({ "interval": "5s" })).unwrap_err();
    assert_eq!(
        (problem.status, problem.code),
        (400, "query.interval-too-fine")
    );
    let problem = counters(&coarse, json!({ "interval": "90s" })).unwrap_err();
    assert_eq!(problem.code, "query.interval-too-fine");
}

#[test]
fn expired_windows_make_partial_answers() {
    let orders = counter(1, "orders", &[]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    let old_s = NOW_MS / 1000 - 8 * 86_400;
    cells.count(&orders, old_s, &[], 2);
    cells.expire(EventWindow::FiveSeconds, old_s + 60);
    let range = json!({ "start": "2026-11-03T12:00:00Z", "end": "2026-11-03T12:03:00Z" });
    let whole = counters(&cells, range.clone()).unwrap();
    assert_eq!((counts(&whole)[0][0], whole.get("partial")), (2, None));
    let mut fine = range;
    fine["interval"] = json!("90s");
    let part = counters(&cells, fine).unwrap();
    assert_eq!((counts(&part)[0][0], &part["partial"]), (0, &json!(true)));
}

#[test]
fn long_ranges_read_coarse_cells_once() {
    let orders = counter(1, "orders", &["order.channel"]);
    let mut cells = MemoryCells::new(vec![orders.clone()]);
    let start_s = MONDAY_S - 28 * 86_400;
    let names: Vec<String> = (0..100).map(|i| format!("channel-{i}")).collect();
    for hour in 0..720 {
        for name in &names {
            cells.count(&orders, start_s + hour * 3_600 + 1, &[name], hour + 1);
        }
    }
    let asked = |start: &str| {
        body(json!({
            "interval": "1h", "start": start, "end": "2026-11-11T00:00:00Z",
            "groupBy": ["order.channel"],
        }))
    };
    let ask = |start: &str| {
        let (asked, began) = (asked(start), thread_time());
        let answer = block_on(query_counters(&cells, &asked)).unwrap();
        (answer, thread_time() - began)
    };
    let (answer, long) = ask("2026-10-12T00:00:00Z");
    assert_eq!(cells.cells_read(), [("1h", 72_000)].into());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let counts = counts(&answer);
    assert_eq!(
        (counts.len(), counts[0].len(), counts[719][99]),
        (720, 100, 720)
    );
    // A tenth of the cells, forty times: four times the work. With work for each pair of cells it
    // would be less than half of it.
    let forty: Duration = (0..40).map(|_| ask("2026-11-08T00:00:00Z").1).sum();
    assert!(long < forty + 5 * TICK, "{long:?} and {forty:?}");
}

/// The longest time after which a kernel adds to the processor time of a thread.
const TICK: Duration = Duration::from_millis(10);

/// The processor time of this thread, which other work on the machine does not add to. Where the
/// system does not tell it, the time that has passed.
fn thread_time() -> Duration {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse().ok());
    // Some systems write zeros.
    let counted = nanoseconds.filter(|nanoseconds| *nanoseconds > 0);
    counted.map_or_else(|| BEGAN.elapsed(), Duration::from_nanos)
}

const INTERVALS: &[&str] = &["5s", "90s", "1m", "15m", "1h", "7h", "1d", "7d", "14d"];

proptest! {
    #[test]
    fn answers_are_those_of_the_events(
        events in prop::collection::vec((0i64..200_000, 0usize..3, 0usize..2), 0..60),
        interval in prop::sample::select(INTERVALS),
        range in (0i64..200_000, 1i64..50_000),
        page in (0usize..5, 1usize..400),
    ) {
        let orders = counter(1, "orders", &["order.channel", "region"]);
        let (channels, regions) = (["web", "app", ""], ["eu", "us"]);
        let mut cells = MemoryCells::new(vec![orders.clone()]);
        let origin_s = MONDAY_S - 86_400;
        for (at_s, channel, region) in &events {
            cells.count(&orders, origin_s + at_s, &[channels[*channel], regions[*region]], 1);
        }
        let (start_s, end_s) = (origin_s + range.0, origin_s + range.0 + range.1);
        let asked = json!({
            "interval": interval, "start": super::json::time_text(start_s),
            "end": super::json::time_text(end_s), "key": { "order.channel": ["app", "web"] },
            "limits": { "offset": page.0, "limit": page.1 },
        });
        let answer = counters(&cells, asked).unwrap();
        let interval = Interval::parse(interval).unwrap();
        let first_s = interval.start_of(start_s);
        let mut expected = Vec::new();
        let mut at_s = first_s;
        while at_s < end_s {
            let next_s = at_s + interval.seconds();
            let count = |channel| {
                let is_in = |event: &&(i64, usize, usize)| {
                    (at_s..next_s).contains(&(origin_s + event.0)) && event.1 == channel
                };
                events.iter().filter(is_in).count() as i64
            };
            expected.push(vec![count(1), count(0)]);
            at_s = next_s;
        }
        prop_assert_eq!(&answer["total"], expected.len());
        let expected: Vec<_> = expected.into_iter().skip(page.0).take(page.1).collect();
        prop_assert_eq!(counts(&answer), expected);
    }
}

#[test]
fn quantiles_of_the_worked_example() {
    let latency = histogram(3, "latency", &[10.0, 20.0, 50.0]);
    let mut cells = MemoryCells::new(vec![latency.clone()]);
    for i in 0..10 {
        cells.observe(&latency, TEN_S + i, &["web"], 5.0);
        cells.observe(&latency, TEN_S + 60 + i, &["app"], 15.0);
    }
    let asked = json!({
        "interval": "1h", "percentiles": [0.5, 0.75, 0.95, 0.999, 1], "includeBuckets": true,
    });
    let answer = histograms(&cells, asked).unwrap();
    let series = json!({
        "key": {}, "samples": 20, "sum": 200, "mean": 10, "min": 5, "max": 15,
        "percentiles": { "0.5": 10, "0.75": 15, "0.95": 19, "0.999": 19.98, "1": 20 },
        "buckets": [
            { "le": 10, "count": 10 }, { "le": 20, "count": 10 },
            { "le": 50, "count": 0 }, { "le": "+Inf", "count": 0 },
        ],
    });
    assert_eq!(answer["data"]["intervals"][0]["series"][0], series);
    let split = json!({ "key": { "order.channel": ["app"] } });
    let answer = histograms(&cells, split).unwrap();
    let empty = json!({
        "key": { "order.channel": "app" }, "samples": 0, "sum": 0, "mean": null,
        "min": null, "max": null, "percentiles": { "0.5": null, "0.9": null },
    });
    assert_eq!(answer["data"]["intervals"][0]["series"][0], empty);
    assert_eq!(answer["data"]["intervals"][1]["series"][0]["samples"], 10);
    for bad in [json!([2]), json!("0.5"), json!([null])] {
        let problem = histograms(&cells, json!({ "percentiles": bad })).unwrap_err();
        assert_eq!(problem.code, "query.invalid-field");
    }
}

#[test]
fn sketches_are_merged_and_asked() {
    let latency = histogram(3, "latency", &[10.0]);
    let mut cells = MemoryCells::new(vec![latency.clone()]);
    for (second, index) in [(0, 100), (1, 100), (61, 120)] {
        let sketch = SketchCounts {
            relative_accuracy: 0.01,
            zero: 0,
            positive: vec![(index, 1)],
            negative: Vec::new(),
        };
        let cell = icecore_model::event::HistogramCell {
            first_s: 0,
            counts: vec![1, 0],
            samples: 1,
            sum: 1.0,
            min: 1.0,
            max: 1.0,
            sketch: Some(sketch),
            exemplars: Vec::new(),
        };
        cells.add(&latency, TEN_S + second, &["web"], Cell::Histogram(cell));
    }
    let answer = histograms(&cells, json!({ "interval": "1h", "percentiles": [0.5, 1] })).unwrap();
    let percentiles = &answer["data"]["intervals"][0]["series"][0]["percentiles"];
    let gamma: f64 = 1.01 / 0.99;
    let value = |index| 2.0 * gamma.powi(index) / (gamma + 1.0);
    let near = |name: &str, expected: f64| {
        let found = percentiles[name].as_f64().unwrap();
        assert!(
            (found - expected).abs() < 1e-9 * expected,
            "{found} {expected}"
        );
    };
    near("0.5", value(100));
    near("1", value(120));
}

#[test]
fn changed_bounds_are_not_mixed() {
    let (old, new) = (
        histogram(3, "latency", &[10.0]),
        histogram(4, "latency", &[10.0, 20.0]),
    );
    let mut cells = MemoryCells::with_retired(vec![new.clone()], vec![old.clone()]);
    cells.observe(&old, TEN_S, &["web"], 5.0);
    let asked = json!({ "includeBuckets": true });
    let before = histograms(&cells, asked.clone()).unwrap();
    let buckets = |answer: &Value| {
        let series = &answer["data"]["intervals"][0]["series"][0];
        series["buckets"].as_array().unwrap().len()
    };
    assert_eq!(buckets(&before), 2);
    cells.observe(&new, TEN_S + 61, &["web"], 5.0);
    let problem = histograms(&cells, asked.clone()).unwrap_err();
    assert_eq!((problem.status, problem.code), (400, "query.mixed-buckets"));
    let mut after = asked;
    after["start"] = json!("2026-11-09T10:01:00Z");
    assert_eq!(buckets(&histograms(&cells, after).unwrap()), 3);
}

#[test]
fn gauges_show_what_their_reducer_says() {
    for (reducer, both, hour) in [
        (Reducer::Latest, 4.0, 9.0),
        (Reducer::Min, 4.0, 4.0),
        (Reducer::Max, 7.0, 9.0),
    ] {
        let stock = gauge(5, "stock", reducer);
        let mut cells = MemoryCells::new(vec![stock.clone()]);
        cells.observe(&stock, TEN_S + 3, &["web"], 7.0);
        cells.observe(&stock, TEN_S + 30, &["app"], 4.0);
        cells.observe(&stock, TEN_S + 121, &["web"], 9.0);
        let values = |more: Value| -> Vec<Value> {
            let answer = gauges(&cells, more).unwrap();
            let intervals = answer["data"]["intervals"].as_array().unwrap().iter();
            intervals
                .map(|interval| interval["values"][0]["value"].clone())
                .collect()
        };
        assert_eq!(
            values(json!({})),
            [json!(both as i64), json!(null), json!(9)]
        );
        assert_eq!(values(json!({ "interval": "1h" })), [json!(hour as i64)]);
        let filled = json!({ "fill": "previous" });
        assert_eq!(
            values(filled),
            [json!(both as i64), json!(both as i64), json!(9)]
        );
        let page = json!({ "fill": "previous", "limits": { "offset": 1, "limit": 1 } });
        assert_eq!(values(page), [json!(both as i64)]);
        let one = json!({ "key": { "order.channel": "web" }, "fill": "none" });
        let answer = gauges(&cells, one).unwrap();
        let web = json!({
            "key": { "order.channel": "web" }, "value": 7, "observedAt": "2026-11-09T10:00:03Z",
        });
        assert_eq!(answer["data"]["intervals"][0]["values"][0], web);
        assert_eq!(answer["rows"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn states_of_one_type_and_attribute() {
    let mut cells = MemoryCells::new(Vec::new());
    cells.states = vec![("NEW".into(), 4), ("PAID".into(), 2)];
    let metrics = cells.state_metrics();
    let of = |from: &'static str, to: &'static str| ["Order", "order.status", from, to];
    cells.count(&metrics.transitions, TEN_S, &of("(none)", "NEW"), 3);
    cells.count(&metrics.transitions, TEN_S + 61, &of("NEW", "PAID"), 2);
    let parcel = ["Parcel", "order.status", "(none)", "NEW"];
    cells.count(&metrics.transitions, TEN_S, &parcel, 100);
    let ask = |more: Value| {
        let mut asked = json!({ "objectType": "Order", "attribute": "order.status" });
        for (name, value) in more.as_object().unwrap() {
            asked[name] = value.clone();
        }
        body(asked)
    };
    let answer = block_on(query_state_counts(&cells, &ask(json!({})))).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let states = json!([{ "state": "NEW", "count": 4 }, { "state": "PAID", "count": 2 }]);
    assert_eq!(answer["data"]["states"], states);
    assert_eq!(
        (&answer["limit"], &answer["total"]),
        (&json!(50), &json!(2))
    );
    let some =
        ask(json!({ "states": ["GONE", "PAID"], "limits": { "limit": 1 }, "format": "columnar" }));
    let answer = block_on(query_state_counts(&cells, &some)).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let columns = json!({ "state": ["GONE"], "count": [0] });
    assert_eq!(answer["data"]["states"]["data"], columns);
    assert_eq!(answer["links"]["next"]["body"]["limits"]["offset"], 1);

    let transitions = |more: Value| -> Vec<Value> {
        let answer = block_on(query_state_transitions(&cells, &ask(more))).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let intervals = answer["data"]["intervals"].as_array().unwrap();
        assert_eq!(intervals[0]["start"], "2026-11-09T10:00:00Z");
        intervals
            .iter()
            .map(|interval| interval["transitions"].clone())
            .collect()
    };
    let first = json!([{ "fromState": "(none)", "toState": "NEW", "count": 3 }]);
    let second = json!([{ "fromState": "NEW", "toState": "PAID", "count": 2 }]);
    let none = json!([]);
    for everything in [json!({}), json!({ "fromStates": [], "toStates": "*" })] {
        let all = [first.clone(), second.clone(), none.clone()];
        assert_eq!(transitions(everything), all);
    }
    let beginnings = transitions(json!({ "fromStates": ["(NONE)"] }));
    assert_eq!(beginnings, [first, none.clone(), none.clone()]);
    let paid = transitions(json!({ "fromStates": ["NEW"], "toStates": ["PAID", "GONE"] }));
    assert_eq!(paid, [none.clone(), second, none]);
    let problem = block_on(query_state_counts(
        &cells,
        &ask(json!({ "objectType": "x" })),
    ));
    assert_eq!(problem.unwrap_err().code, "query.unknown-object-type");
    let problem = block_on(query_state_counts(
        &cells,
        &ask(json!({ "attribute": "x" })),
    ));
    assert_eq!(problem.unwrap_err().code, "query.unknown-attribute");
}

#[test]
fn counts_of_states_are_carried_over_and_never_added() {
    let mut cells = MemoryCells::new(Vec::new());
    let counts = cells.state_metrics().counts;
    // However long nobody has counted.
    let long_ago_s = TEN_S - 40 * 86_400;
    for (at_s, count) in [(long_ago_s, 9.0), (TEN_S + 60, 4.0), (TEN_S + 120, 6.0)] {
        cells.observe(&counts, at_s, &["Order", "order.status", "NEW"], count);
    }
    cells.observe(
        &counts,
        TEN_S + 60,
        &["Parcel", "order.status", "NEW"],
        77.0,
    );
    let ask = |interval: &str| -> Vec<Value> {
        let asked = json!({
            "objectType": "Order", "attribute": "order.status", "interval": interval,
            "end": "2026-11-09T10:05:00Z",
        });
        let answer = block_on(query_state_count_timeseries(&cells, &body(asked))).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let intervals = answer["data"]["intervals"].as_array().unwrap().iter();
        intervals
            .map(|interval| interval["states"][0]["count"].clone())
            .collect()
    };
    assert_eq!(ask("1m"), [9, 4, 6, 6, 6].map(|n| json!(n)));
    assert_eq!(ask("1h"), [json!(6)]);
    let fine =
        body(json!({ "objectType": "Order", "attribute": "order.status", "interval": "30s" }));
    let problem = block_on(query_state_count_timeseries(&cells, &fine)).unwrap_err();
    assert_eq!(problem.code, "query.interval-too-fine");
}
