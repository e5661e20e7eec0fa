//! Small examples whose values can be checked by hand.

use super::*;

const HOUR: Resolution = Resolution::HOUR;
const STALE: f64 = f64::from_bits(icecore_model::STALE_NAN_BITS);

fn check(source: &RolledSource, query: &str, minutes: i64, expected: Option<f64>) {
    let found = value(source, query, minutes * MINUTE_MS);
    let is_equal = match (found, expected) {
        (Some(found), Some(expected)) => is_close(found, expected),
        (found, expected) => found == expected,
    };
    assert!(
        is_equal,
        "{query} at {minutes}m: {found:?}, expected {expected:?}"
    );
}

/// The same from samples.
fn check_raw(source: &RolledSource, query: &str, minutes: i64, expected: Option<f64>) {
    check(source, query, minutes, expected);
    let raw = value(&source.samples, query, minutes * MINUTE_MS);
    let rolled = value(source, query, minutes * MINUTE_MS);
    let is_equal = match (rolled, raw) {
        (Some(rolled), Some(raw)) => is_close(rolled, raw),
        (rolled, raw) => rolled == raw,
    };
    assert!(is_equal, "{query} at {minutes}m: {rolled:?}, raw {raw:?}");
}

#[test]
fn samples_at_the_start_of_a_window() {
    let samples: Vec<_> = (0..=360).map(|i| (i * 10_000, i as f64)).collect();
    let source = rolled(&memory(&samples), HOUR, 9 * HOUR_MS);
    for (function, expected) in [
        ("sum", 64_980.0),
        ("count", 360.0),
        ("avg", 180.5),
        ("min", 1.0),
        ("max", 360.0),
        ("stddev", 103.922_647_515_672_28),
    ] {
        check_raw(
            &source,
            &format!("{function}_over_time(x[1h])"),
            60,
            Some(expected),
        );
    }
}

#[test]
fn times_are_rounded_for_series_without_windows_as_well() {
    // The one series ends before the windows begin, the other lies in them.
    let mut samples = MemorySource::default();
    let each_minute = |minutes: std::ops::Range<i64>| -> Vec<(i64, f64)> {
        minutes
            .map(|minute| (minute * MINUTE_MS, minute as f64))
            .collect()
    };
    add(&mut samples, &labels("ended"), &each_minute(0..120));
    add(&mut samples, &labels("x"), &each_minute(0..200));
    let kept = |from: i64| {
        vec![
            KeptTime::at(-1000 * HOUR_MS, from * HOUR_MS, HOUR),
            KeptTime::at(from * HOUR_MS, 2 * HOUR_MS, Resolution::RAW),
            KeptTime::at(2 * HOUR_MS, 1000 * HOUR_MS, HOUR),
        ]
    };
    for reads_before_ms in [0, 2 * HOUR_MS] {
        // Windows before the range are read or not.
        for from in [0, 1] {
            let source = RolledSource {
                samples: samples.clone(),
                kept: kept(from),
                reads_before_ms,
            };
            // At two hours, although it is asked for at half past.
            check(&source, "count_over_time(ended[1h])", 150, Some(59.0));
            check(&source, "count_over_time(x[1h])", 150, Some(60.0));
            check(&source, "ended", 124, Some(119.0));
        }
    }
}

#[test]
fn resets() {
    let values = [
        100, 130, 160, 10, 40, 70, 100, 130, 160, 190, 5, 35, 65, 95, 125,
    ];
    let samples: Vec<_> = (values.iter().enumerate())
        .map(|(i, value)| (30_000 + i as i64 * MINUTE_MS, f64::from(*value)))
        .collect();
    let source = rolled(&memory(&samples), Resolution::FIVE_MINUTES, 9 * HOUR_MS);
    check_raw(&source, "increase(x[15m])", 15, Some(401.785_714_285_714_3));
    check_raw(&source, "resets(x[15m])", 15, Some(2.0));
    check_raw(
        &source,
        "increase(x[10m])",
        10,
        Some(277.777_777_777_777_77),
    );
    check_raw(&source, "increase(x[5m])", 15, Some(140.0));
}

#[test]
fn a_reset_between_windows() {
    let samples = [
        (2_500, 95.0),
        (7_500, 100.0),
        (12_500, 97.0),
        (17_500, 107.0),
    ];
    let ten_seconds = Resolution::from_name("10s").unwrap();
    let source = rolled(&memory(&samples), ten_seconds, 9 * HOUR_MS);
    let increase = value(&source, "increase(x[20s])", 20_000);
    // 107 − 95 + 100, extrapolated from 15 to 20 seconds.
    assert_eq!(increase, Some(112.0 * (20.0 / 15.0)));
    assert_eq!(value(&source, "resets(x[20s])", 20_000), Some(1.0));
}

#[test]
fn short_and_odd_ranges() {
    let samples: Vec<_> = (0..800)
        .map(|i| (i * 15_000 + 3_000, 3.0 * i as f64))
        .collect();
    let source = rolled(&memory(&samples), HOUR, 9 * HOUR_MS);
    check(&source, "rate(x[5m])", 120, Some(0.2));
    check(&source, "increase(x[5m])", 120, Some(60.0));
    check(&source, "increase(x[1h])", 137, Some(720.0));
    check(&source, "increase(x[90m])", 137, Some(1079.7));
}

#[test]
fn across_the_border_of_rolled_up_time() {
    let samples: Vec<_> = (0..=240)
        .map(|i| (i * MINUTE_MS, 1.0 + (i / 60) as f64))
        .collect();
    let source = rolled(&memory(&samples), HOUR, 2 * HOUR_MS);
    check_raw(&source, "sum_over_time(x[2h])", 180, Some(302.0));
    check_raw(&source, "count_over_time(x[2h])", 180, Some(120.0));
    check_raw(&source, "sum_over_time(x[1h])", 120, Some(121.0));
    check_raw(&source, "count_over_time(x[1h])", 120, Some(60.0));
    check(&source, "sum_over_time(x[2h])", 150, Some(241.5));
    check(&source, "count_over_time(x[2h])", 150, Some(120.0));
    check(&source, "sum_over_time(x[90m])", 180, Some(241.5));
    check(&source, "count_over_time(x[90m])", 180, Some(90.0));
}

#[test]
fn instant_values() {
    let samples = [
        (50, 7.0),
        (58, 8.0),
        (61, 9.0),
        (70, 10.0),
        (80, STALE),
        (119, 11.0),
    ];
    let samples = samples.map(|(minute, value)| (minute * MINUTE_MS, value));
    let source = rolled(&memory(&samples), HOUR, 9 * HOUR_MS);
    check_raw(&source, "x", 60, Some(8.0));
    check(&source, "x", 62, Some(8.0));
    check(&source, "x", 90, Some(8.0));
    check_raw(&source, "x", 120, Some(11.0));
    check(&source, "x", 150, Some(11.0));
    check(&source, "timestamp(x)", 150, Some(119.0 * 60.0));
}

#[test]
fn deviation() {
    let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
    let samples: Vec<_> = (values.iter().enumerate())
        .map(|(i, value)| (i as i64 * 15 * MINUTE_MS + 1, *value))
        .collect();
    let source = rolled(&memory(&samples), HOUR, 9 * HOUR_MS);
    check_raw(&source, "stddev_over_time(x[2h])", 120, Some(2.0));
    check_raw(&source, "stdvar_over_time(x[2h])", 120, Some(4.0));
}

#[test]
fn estimates() {
    // A straight line, 2 per second, every 15 s.
    let samples: Vec<_> = (0..1000)
        .map(|i| (i * 15_000 + 5_000, 7.0 + 30.0 * i as f64))
        .collect();
    let source = rolled(&memory(&samples), HOUR, 9 * HOUR_MS);
    for query in [
        "deriv(x[3h])",
        "deriv(x[1h])",
        "predict_linear(x[2h], 3600)",
        "irate(x[1h])",
        "idelta(x[1h])",
        "ts_of_max_over_time(x[2h])",
        "ts_of_min_over_time(x[2h])",
        "quantile_over_time(0, x[2h])",
        "quantile_over_time(1, x[2h])",
    ] {
        let raw = value(&source.samples, query, 180 * MINUTE_MS);
        check(&source, query, 180, raw);
    }
    let middle = value(&source, "quantile_over_time(0.5, x[3h])", 180 * MINUTE_MS).unwrap();
    let raw = value(
        &source.samples,
        "quantile_over_time(0.5, x[3h])",
        180 * MINUTE_MS,
    )
    .unwrap();
    assert!((middle - raw).abs() <= 3600.0 * 2.0, "{middle} {raw}");
    for query in [
        "mad_over_time(x[3h])",
        "double_exponential_smoothing(x[3h], 0.5, 0.5)",
    ] {
        assert!(value(&source, query, 180 * MINUTE_MS).is_some(), "{query}");
    }
}

#[test]
fn the_samples_that_are_left() {
    let samples: Vec<_> = (0..=120).map(|i| (i * MINUTE_MS, i as f64)).collect();
    let source = rolled(&memory(&samples), HOUR, HOUR_MS);
    let answer = answer(&source, "x[62m]", 61 * MINUTE_MS);
    let QueryValue::Matrix(series) = answer.value else {
        panic!("not a matrix");
    };
    let found: Vec<_> = series[0]
        .floats()
        .map(|(time, _)| time / MINUTE_MS)
        .collect();
    assert_eq!(found, [0, 1, 59, 60, 61]);
}

#[test]
fn subqueries_round_each_step() {
    let samples: Vec<_> = (0..=300).map(|i| (i * MINUTE_MS, i as f64)).collect();
    let source = rolled(&memory(&samples), HOUR, 9 * HOUR_MS);
    // Steps at 3:00, 3:30 and 4:00; the one between is rounded down.
    check(
        &source,
        "sum_over_time(x[90m:30m])",
        240,
        Some(180.0 + 180.0 + 240.0),
    );
    check_raw(
        &source,
        "max_over_time(sum_over_time(x[1h])[3h:1h])",
        240,
        Some(12_630.0),
    );
}
