//! Hostile requests: nothing panics, and answers have the requested shape.

use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::Labels;
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::{
    Answer, Engine, Error, MemorySource, QueryTime, QueryValue, Request, SampleValue,
};

/// The earliest and the latest time, some near them, and some usual ones.
const MOMENTS: [i64; 9] = [
    i64::MIN,
    i64::MIN + 1,
    -1,
    0,
    1,
    60_000,
    1_700_000_000_000,
    i64::MAX - 1,
    i64::MAX,
];

const FLOATS: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX];

const QUERIES: [&str; 44] = [
    "m",
    "m offset 290y",
    "m offset -290y",
    "m @ 9223372036854775.807",
    "m @ -9223372036854775.808",
    "m @ end() offset -290y",
    "m smoothed",
    "timestamp(m)",
    "m[290y]",
    "m[1m] anchored",
    "m[290y] smoothed",
    "m[1m:1ms] offset -290y",
    "rate(m[290y])",
    "rate(m[1ms] offset 290y)",
    "increase(m[290y] anchored)",
    "delta(m[290y] smoothed)",
    "predict_linear(m[290y], 1e300)",
    "deriv(m[290y])",
    "sum_over_time(m[290y:290y])",
    "sum_over_time(m[1m:290y] offset 290y)",
    "sum_over_time(m[290y:1ms])",
    "max_over_time(sum_over_time(m[1m:10s])[1m:10s] @ end())",
    "sum(m) + avg(m) + stddev(m)",
    "topk(9223372036854774783, m)",
    "topk(1e300, m)",
    "bottomk(-1e300, m)",
    "limitk(NaN, m)",
    "limit_ratio(-Inf, m)",
    "quantile(NaN, m) or quantile(1e300, m)",
    "count_values(\"i\", m)",
    "sort(m)",
    "m % 0 ^ m atan2 Inf",
    "m == bool m unless on() nothing",
    "nothing + fill(NaN) m",
    "year(m) + minute(m) + days_in_month(m)",
    "day_of_year(vector(1e300)) or hour(vector(NaN))",
    "round(m, 1e-320)",
    "clamp(m, NaN, -Inf)",
    "histogram_quantile(2, m)",
    "info(m offset -290y)",
    "absent(m) or absent_over_time(m[290y])",
    "label_replace(m, \"i\", \"$1$1\", \"i\", \"(.*)\")",
    "scalar(m) + time() * 1e300",
    "vector(-0) or -vector(0)",
];

fn source() -> MemorySource {
    let mut source = MemorySource::default();
    for (i, float) in FLOATS.iter().enumerate() {
        let i = i.to_string();
        let labels = Labels::from_pairs([("__name__", "m"), ("i", &i), ("job", "j")]);
        for timestamp_ms in MOMENTS {
            let sample = LoadedSample {
                timestamp_ms,
                value: LoadedValue::Float(*float),
                start_ms: None,
            };
            source.add(&labels, sample);
        }
    }
    source
}

fn request(query: &str, time: QueryTime) -> Request {
    Request {
        query: query.to_string(),
        time,
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: true,
        max_source_resolution: None,
        rollup_strict: false,
    }
}

fn ask(source: &MemorySource, request: &Request) -> Result<Answer, Error> {
    let canceled = AtomicBool::new(false);
    block_on(Engine::default().execute(source, request, &canceled))
}

#[test]
fn any_time_and_any_lookback() {
    let source = source();
    for query in QUERIES {
        for time_ms in MOMENTS {
            for lookback_ms in [None, Some(1), Some(i64::MAX)] {
                let mut instant = request(query, QueryTime::Instant { time_ms });
                instant.lookback_ms = lookback_ms;
                let _ = ask(&source, &instant);
                for (before, step_ms) in [(2, 1), (i64::MAX, i64::MAX), (60_000, 17_000)] {
                    let time = QueryTime::Range {
                        start_ms: time_ms.saturating_sub(before),
                        end_ms: time_ms,
                        step_ms,
                    };
                    let mut range = request(query, time);
                    range.lookback_ms = lookback_ms;
                    let _ = ask(&source, &range);
                }
            }
        }
    }
}

#[test]
fn ranges_that_are_none() {
    let source = source();
    for (start_ms, end_ms, step_ms) in [
        (0, 10, 0),
        (0, 10, -1),
        (0, 10, i64::MIN),
        (10, 0, 1),
        (i64::MAX, i64::MIN, 1),
        (i64::MIN, i64::MAX, 1),
        (0, 11_001, 1),
    ] {
        let time = QueryTime::Range {
            start_ms,
            end_ms,
            step_ms,
        };
        let refused = ask(&source, &request("m", time));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{time:?}");
    }
    let longest = QueryTime::Range {
        start_ms: 0,
        end_ms: 11_000,
        step_ms: 1,
    };
    assert!(ask(&source, &request("vector(1)", longest)).is_ok());
}

#[test]
fn the_shape_of_answers() {
    let source = source();
    let instant = QueryTime::Instant { time_ms: 60_000 };
    let range = QueryTime::Range {
        start_ms: 60_000,
        end_ms: 61_500,
        step_ms: 1000,
    };
    let value = |query: &str, time| ask(&source, &request(query, time)).unwrap().value;
    assert!(matches!(
        value("time() + 1", instant),
        QueryValue::Scalar { time_ms: 60_000, value } if value == 61.0
    ));
    assert!(matches!(
        value("('text')", instant),
        QueryValue::Text { time_ms: 60_000, text } if text == "text"
    ));
    match value("vector(1)", instant) {
        QueryValue::Vector(samples) => {
            assert_eq!((samples.len(), samples[0].time_ms), (1, 60_000));
            assert!(matches!(samples[0].value, SampleValue::Float(value) if value == 1.0));
        }
        other => panic!("{other:?}"),
    }
    match value("m[1m]", instant) {
        QueryValue::Matrix(series) => {
            assert_eq!(series.len(), FLOATS.len());
            let times: Vec<i64> = series[0].floats().map(|(time, _)| time).collect();
            assert_eq!(times, [1, 60_000]);
        }
        other => panic!("{other:?}"),
    }
    match value("time()", range) {
        QueryValue::Matrix(series) => {
            assert!(series[0].labels.is_empty());
            let floats: Vec<(i64, f64)> = series[0].floats().collect();
            assert_eq!(floats, [(60_000, 60.0), (61_000, 61.0)]);
        }
        other => panic!("{other:?}"),
    }
    for query in ["'text'", "m[1m]", "m[1m:1s]"] {
        let refused = ask(&source, &request(query, range));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{query}");
    }
}

#[test]
fn no_more_series_than_the_limit() {
    let source = source();
    let truncated = "results truncated due to limit";
    let ask_limited = |query: &str, limit| {
        let mut request = request(query, QueryTime::Instant { time_ms: 60_000 });
        request.limit = limit;
        ask(&source, &request).unwrap()
    };
    for (query, limit, count, warned) in [
        ("m", Some(2), 2, true),
        ("m", Some(5), 5, false),
        ("m", Some(0), 5, false),
        ("m", None, 5, false),
        ("m[1m]", Some(3), 3, true),
    ] {
        let answer = ask_limited(query, limit);
        let found = match &answer.value {
            QueryValue::Vector(samples) => samples.len(),
            QueryValue::Matrix(series) => series.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (found, answer.warnings.iter().any(|w| w == truncated)),
            (count, warned)
        );
    }
}
