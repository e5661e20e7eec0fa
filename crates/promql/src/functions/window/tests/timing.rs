//! Time per window:
//! `cargo test --release -p icecore-promql --lib window::tests::timing -- --ignored --nocapture`.

use std::time::Instant;

use icecore_model::{FloatColumns, Labels, SeriesSamples, TimeColumn};

use super::super::RangeSeries;
use super::{evaluator, range_series, windows};

/// Series of `hosts` scrape targets: 6 h at 15 s, times shared by the series of a host or not.
fn scraped(hosts: usize, per_host: usize, shared: bool) -> Vec<RangeSeries> {
    let mut series = Vec::new();
    for host in 0..hosts {
        let times = |jitter: usize| {
            let time = move |i: usize| (15_000 * i + 37 * host + (i * 7 + jitter) % 3) as i64;
            (0..1440).map(time).collect::<TimeColumn>()
        };
        let column = times(0);
        for n in 0..per_host {
            let value = move |i: usize| {
                ((i * (n + 3) + 10_000) as f64 * 0.5).floor() + (i % 5) as f64 * 0.1
            };
            series.push(range_series(SeriesSamples {
                labels: Labels::from_pairs([("__name__", "a_total")]),
                floats: FloatColumns {
                    timestamps: if shared { column.clone() } else { times(0) },
                    values: (0..1440).map(value).collect(),
                },
                histograms: Vec::new(),
                start_timestamps: Vec::new(),
                forms: Default::default(),
                rolled: None,
            }));
        }
    }
    series
}

#[test]
#[ignore = "a measurement"]
fn window_timing() {
    let shared = scraped(10, 30, true);
    let own = scraped(10, 30, false);
    for (name, range_s, parameters) in [
        ("rate", 300, &[][..]),
        ("increase", 3600, &[]),
        ("irate", 300, &[]),
        ("max_over_time", 300, &[]),
        ("max_over_time", 3600, &[]),
        ("sum_over_time", 300, &[]),
        ("avg_over_time", 600, &[]),
        ("avg_over_time", 3600, &[]),
        ("count_over_time", 300, &[]),
        ("last_over_time", 300, &[]),
        ("changes", 300, &[]),
        ("stddev_over_time", 300, &[]),
        ("quantile_over_time", 300, &[0.9]),
        ("deriv", 300, &[]),
    ] {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..25 {
            for (best, series) in best.iter_mut().zip([&shared, &own]) {
                let windows = windows(3600, 60, 300, range_s);
                *best = best.min(evaluator(name, windows, parameters, |evaluator| {
                    let begin = Instant::now();
                    for series in series {
                        let values = evaluator.evaluate(series).expect("values");
                        std::hint::black_box(values);
                    }
                    begin.elapsed().as_secs_f64()
                }));
            }
        }
        let [shared, own] = best.map(|seconds| seconds * 1e9 / (300.0 * 300.0));
        println!("{name}[{range_s}s]: {shared:.1} ns per window, {own:.1} with own times");
    }
}
