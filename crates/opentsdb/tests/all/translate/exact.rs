//! Whatever the data is: translations without conditions give the same numbers.

use std::sync::atomic::{AtomicUsize, Ordering};

use icecore_opentsdb::translate::translate_text;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::both::{Both, Series, difference, options};
use super::{B, FILTERS, HOUR_MS, query};

/// Aggregators, those that never interpolate more often.
const AGGREGATORS: [&str; 16] = [
    "none",
    "zimsum",
    "mimmin",
    "mimmax",
    "squareSum",
    "zimsum",
    "mimmin",
    "none",
    "sum",
    "min",
    "max",
    "avg",
    "dev",
    "count",
    "p50",
    "pfsum",
];

fn series() -> impl Strategy<Value = Series> {
    let time = prop_oneof![
        4 => (0i64..720).prop_map(|n| n * 15_000),
        1 => 0i64..3 * HOUR_MS,
    ];
    let value = (-4000i64..4000).prop_map(|n| n as f64 / 16.0);
    let points = prop::collection::btree_map(time, value, 1..40);
    (0usize..3, points).prop_map(|(dc, points)| Series {
        metric: "m",
        host: 0,
        dc,
        points: points.into_iter().map(|(t, v)| (B * 1000 + t, v)).collect(),
    })
}

fn data() -> impl Strategy<Value = Vec<Series>> {
    prop::collection::vec(series(), 1..6).prop_map(|mut all| {
        for (i, series) in all.iter_mut().enumerate() {
            series.host = i;
        }
        all
    })
}

#[test]
fn numbers_are_the_same_for_any_data() {
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    });
    let intervals = &[
        0,
        500,
        15_000,
        60_000,
        420_000,
        2_160_000,
        HOUR_MS,
        2 * HOUR_MS,
    ];
    let fills = &["none", "nan", "null", "zero"];
    let query = query(&AGGREGATORS, intervals, fills).prop_filter(
        "millions of intervals would be filled",
        |query| {
            query
                .downsample
                .is_none_or(|(interval, _, fill)| interval != 500 || fill == "none")
        },
    );
    let window = (0..3 * HOUR_MS, 1..2 * HOUR_MS);
    let filters = prop::sample::select(&FILTERS);
    let compared = AtomicUsize::new(0);
    let result = runner.run(
        &(data(), query, window, filters),
        |(data, query, window, filters)| {
            let text = query.text(filters);
            let start = B * 1000 + window.0;
            let window = (start, start + window.1);
            let Ok(translation) = translate_text(&text, &options(window, true)) else {
                return Ok(());
            };
            prop_assert!(translation.conditions.is_empty());
            compared.fetch_add(1, Ordering::Relaxed);
            let difference = difference(&Both::new(&data), &text, window, &translation);
            prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
            Ok(())
        },
    );
    result.unwrap();
    let compared = compared.load(Ordering::Relaxed);
    println!("{compared} of 600 random queries have a translation without conditions");
    assert!(
        compared > 150,
        "only {compared} queries had a translation without conditions"
    );
}
