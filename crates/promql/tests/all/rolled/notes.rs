//! What answers say about rolled-up time.

use icecore_model::rollup::WindowFields;
use icecore_model::{BoxFuture, Selection, SeriesSamples, SeriesSource, SeriesStream, SourceError};

use super::*;

fn samples() -> MemorySource {
    let samples: Vec<_> = (0..600).map(|i| (i * MINUTE_MS, i as f64)).collect();
    memory(&samples)
}

fn source() -> RolledSource {
    let at = |start, end, resolution| KeptTime::at(start * HOUR_MS, end * HOUR_MS, resolution);
    RolledSource {
        reads_before_ms: 2 * HOUR_MS,
        samples: samples(),
        kept: vec![
            at(0, 4, Resolution::HOUR),
            at(4, 6, Resolution::FIVE_MINUTES),
            at(6, 1000, Resolution::RAW),
        ],
    }
}

/// Samples that are kept since a time, which the source does not hide.
struct Expiring(MemorySource, i64);

struct ExpiringStream(Box<dyn SeriesStream>, i64);

impl SeriesSource for Expiring {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        Box::pin(async move {
            let stream = self.0.select(selection).await?;
            Ok(Box::new(ExpiringStream(stream, self.1)) as Box<dyn SeriesStream>)
        })
    }
}

impl SeriesStream for ExpiringStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        self.0.next_batch()
    }

    fn kept_since_ms(&self) -> Option<i64> {
        Some(self.1)
    }
}

#[test]
fn time_that_is_not_kept_is_named() {
    let infos = |query: &str, minutes: i64| {
        let request = request(
            query,
            QueryTime::Instant {
                time_ms: minutes * MINUTE_MS,
            },
        );
        let source = Expiring(samples(), 2 * HOUR_MS);
        let answer =
            block_on(Engine::default().execute(&source, &request, &AtomicBool::new(false)));
        answer.unwrap().infos
    };
    let expected = ["PromQL info: nothing before 1970-01-01T02:00:00Z is kept"];
    assert_eq!(infos("y", 60), expected);
    assert_eq!(infos("sum_over_time(x[2h])", 180), expected);
    assert_eq!(infos("x + x offset 3h", 240), expected);
    assert_eq!(infos("sum_over_time(x[2h])", 240), Vec::<String>::new());
    assert_eq!(infos("x", 130), Vec::<String>::new());
}

/// The infos and warnings of an instant query.
fn notes(query: &str, minutes: i64) -> Vec<String> {
    let answer = answer(&source(), query, minutes * MINUTE_MS);
    answer.infos.into_iter().chain(answer.warnings).collect()
}

/// The info about a level, with its hours.
fn used(level: &str, from: i64, to: i64) -> String {
    format!(
        "PromQL info: rolled-up data at {level} resolution used for [1970-01-01T0{from}:00:00Z, 1970-01-01T0{to}:00:00Z)"
    )
}

#[test]
fn levels_are_named_if_and_only_if_they_contribute() {
    assert_eq!(notes("sum_over_time(x[1h])", 500), Vec::<String>::new());
    assert_eq!(notes("x", 500), Vec::<String>::new());
    assert_eq!(notes("sum_over_time(x[1h])", 420), Vec::<String>::new());
    assert_eq!(
        notes("sum_over_time(x[6h])", 480),
        [used("5m", 4, 6), used("1h", 2, 4)]
    );
    assert_eq!(notes("x", 180), [used("1h", 2, 4)]);
    assert_eq!(notes("x[1h]", 420), Vec::<String>::new());
    assert_eq!(notes("x[3h]", 420), [used("5m", 4, 6)]);
}

/// EXPLAIN counts windows by level, and samples beside them.
#[test]
fn windows_are_counted_where_they_are_read() {
    let request = request(
        "sum_over_time(x[6h])",
        QueryTime::Instant {
            time_ms: 480 * MINUTE_MS,
        },
    );
    let engine = Engine::default();
    let explained =
        block_on(engine.execute_explained(&source(), &request, &AtomicBool::new(false)));
    let (answer, text) = explained.unwrap();
    let windows: Vec<u64> = (answer.stats.windows_read.iter())
        .map(|(_, count)| *count)
        .collect();
    let [fine, coarse] = windows[..] else {
        panic!("{windows:?}");
    };
    let samples = answer.stats.samples_read;
    let expected =
        format!(", 1 series, {samples} samples, {fine} windows of 5m, {coarse} windows of 1h]");
    assert!(text.contains(&expected), "{expected}: {text}");
    let expected = "\n    windows of 1h before 1970-01-01 04:00:00, \
        then windows of 5m before 1970-01-01 06:00:00, then samples\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn rounded_times() {
    let expected = "PromQL info: evaluation times rounded down to the 1h grid";
    assert!(notes("x", 121).contains(&expected.to_string()));
    assert!(!notes("x", 120).contains(&expected.to_string()));
    assert!(notes("rate(x[2h])", 150).contains(&expected.to_string()));
}

#[test]
fn short_ranges() {
    let expected = "PromQL info: range 5m is shorter than the 1h resolution; value is the enclosing window scaled";
    assert!(notes("increase(x[5m])", 120).contains(&expected.to_string()));
    assert!(!notes("increase(x[1h])", 120).contains(&expected.to_string()));
}

#[test]
fn estimates_and_guesses() {
    let irate = notes("irate(x[2h])", 120);
    assert!(irate.contains(&"PromQL info: irate estimated from 1h windows".to_string()));
    let quantile = notes("quantile_over_time(0.5, x[2h])", 120);
    let expected =
        "PromQL warning: quantile_over_time estimated from 1h windows, and may be far off";
    assert!(quantile.contains(&expected.to_string()));
    let extreme = notes("quantile_over_time(1, x[2h])", 120);
    assert!(!extreme.contains(&expected.to_string()), "{extreme:?}");
}

#[test]
fn strict_queries_fail_rather_than_guess() {
    let strict = |query: &str| {
        let mut request = request(
            query,
            QueryTime::Instant {
                time_ms: 2 * HOUR_MS,
            },
        );
        request.rollup_strict = true;
        execute(&source(), &request)
    };
    match strict("mad_over_time(x[2h])") {
        Err(Error::Execution(reason)) => {
            assert_eq!(reason, "mad_over_time cannot be derived from 1h windows");
        }
        other => panic!("{other:?}"),
    }
    assert!(strict("irate(x[2h])").is_ok());
    assert!(strict("rate(x[2h])").is_ok());
}

#[test]
fn lean_levels() {
    let mut source = source();
    let lean = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
    source.kept[0].levels = vec![(Resolution::HOUR, lean)];
    for (query, function) in [
        ("stddev_over_time(x[3h])", "stddev_over_time"),
        ("changes(x[3h])", "changes"),
    ] {
        let answer = answer(&source, query, 3 * HOUR_MS);
        let expected =
            format!("PromQL warning: {function} estimated from 1h windows, and may be far off");
        assert_eq!(answer.warnings, [expected]);
    }
    assert!(
        answer(&source, "resets(x[3h])", 3 * HOUR_MS)
            .warnings
            .is_empty()
    );
    // The spread of the means of three windows; the samples spread a little more.
    let spread = value(&source, "stddev_over_time(x[3h])", 3 * HOUR_MS).unwrap();
    let raw = value(&source.samples, "stddev_over_time(x[3h])", 3 * HOUR_MS).unwrap();
    assert!(spread < raw && spread > 0.8 * raw, "{spread} {raw}");
}

#[test]
fn a_cap_is_never_exceeded() {
    let capped = |max_ms: i64| {
        let mut request = request(
            "x",
            QueryTime::Range {
                start_ms: 0,
                end_ms: 9 * HOUR_MS,
                step_ms: HOUR_MS,
            },
        );
        request.max_source_resolution = Some(max_ms);
        execute(&source(), &request).unwrap()
    };
    let raw = capped(0);
    assert_eq!(raw.stats.windows_read, []);
    assert_eq!(raw.infos, Vec::<String>::new());
    assert_eq!(
        raw.warnings,
        [
            "PromQL warning: no data finer than 5m before 1970-01-01T06:00:00Z; max_source_resolution=0s excludes it",
        ]
    );
    let minutes = capped(5 * MINUTE_MS);
    assert_eq!(
        minutes.warnings,
        [
            "PromQL warning: no data finer than 1h before 1970-01-01T04:00:00Z; max_source_resolution=5m excludes it",
        ]
    );
    let levels: Vec<_> = minutes
        .stats
        .windows_read
        .iter()
        .map(|(level, _)| *level)
        .collect();
    assert_eq!(levels, [Resolution::FIVE_MINUTES]);
}

#[test]
fn plans_say_which_windows_they_would_take() {
    let explain = |query: &str, step_ms, max_source_resolution| {
        let time = QueryTime::Range {
            start_ms: 0,
            end_ms: 8 * HOUR_MS,
            step_ms,
        };
        let request = Request {
            max_source_resolution,
            ..request(query, time)
        };
        let text = Engine::default().explain(&request).unwrap();
        let scan = text.lines().find(|line| line.contains("scan 0:")).unwrap();
        scan.rsplit_once(')').unwrap().1.to_string()
    };
    assert_eq!(
        explain("rate(x[2h])", HOUR_MS, None),
        ", windows of up to 1h"
    );
    assert_eq!(
        explain("rate(x[5m])", HOUR_MS, None),
        ", windows of up to 5m"
    );
    assert_eq!(explain("rate(x[4m])", HOUR_MS, None), "");
    assert_eq!(explain("irate(x[2h])", HOUR_MS, None), "");
    assert_eq!(explain("x", HOUR_MS, Some(0)), ", samples only");
    let capped = explain("x", HOUR_MS, Some(5 * MINUTE_MS));
    assert_eq!(capped, ", windows of up to 5m, never above 5m");
}

#[test]
fn windows_are_counted_by_level() {
    let request = request(
        "sum_over_time(x[1h])",
        QueryTime::Range {
            start_ms: HOUR_MS,
            end_ms: 8 * HOUR_MS,
            step_ms: HOUR_MS,
        },
    );
    let answer = execute(&source(), &request).unwrap();
    assert_eq!(
        answer.stats.windows_read,
        [(Resolution::FIVE_MINUTES, 24), (Resolution::HOUR, 4)]
    );
    // Those of the two hours after rolled-up time.
    assert_eq!(answer.stats.samples_read, 121);
}
