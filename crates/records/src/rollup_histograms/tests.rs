use std::sync::Arc;

use icecore_model::rollup::{HistogramAggregate, HistogramEdge};
use icecore_model::{
    BucketSize, BucketStart, CounterResetHint, HOUR_MS, Histogram, HistogramCounts, STALE_NAN_BITS,
    Span,
};
use proptest::prelude::*;

use super::*;

const ALL_TIME: Range<i64> = i64::MIN..i64::MAX;

fn bucket(exponent: u8) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    let start = BucketStart(28 * (60 << 14));
    Bucket { size, start }
}

/// A histogram of one of two layouts.
fn histogram(count: u64, sum: f64, is_float: bool) -> Arc<Histogram> {
    let span = |length| Span { offset: 2, length };
    let counts = if is_float {
        HistogramCounts::Float {
            count: count as f64 / 3.0,
            zero_count: 0.5,
            positive: vec![1.5, count as f64],
            negative: vec![],
        }
    } else {
        HistogramCounts::Integer {
            count,
            zero_count: count / 7,
            positive_deltas: vec![count as i64, -3, 5],
            negative_deltas: vec![],
        }
    };
    Arc::new(Histogram {
        schema: 3,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: 1e-128,
        sum,
        counts,
        positive_spans: vec![span(if is_float { 2 } else { 3 })],
        negative_spans: vec![],
        custom_bounds: Arc::from([]),
    })
}

fn any_histogram() -> impl Strategy<Value = Arc<Histogram>> {
    let sum = prop_oneof![
        (0u32..500).prop_map(f64::from),
        Just(-0.0),
        Just(f64::INFINITY),
        any::<f64>().prop_filter("a number", |sum| !sum.is_nan()),
    ];
    (0u64..5000, sum, prop::bool::weighted(0.2))
        .prop_map(|(count, sum, is_float)| histogram(count, sum, is_float))
}

fn any_interior() -> impl Strategy<Value = (HistogramAggregate, (u32, u32))> {
    let part = || prop::option::weighted(0.9, any_histogram());
    let rare = || prop_oneof![3 => Just(0u64), 1 => 0u64..1 << 62];
    let counts = (0u64..400, rare(), rare());
    let correction = prop::option::weighted(0.2, any_histogram());
    (
        part(),
        part(),
        part(),
        correction,
        counts,
        any::<(u32, u32)>(),
    )
        .prop_map(|(first, last, sum, correction, counts, times)| {
            let (samples, resets, changes) = counts;
            let interior = HistogramAggregate {
                samples,
                first,
                last,
                sum,
                correction,
                resets,
                changes,
                ..HistogramAggregate::default()
            };
            (interior, times)
        })
}

fn any_edge() -> impl Strategy<Value = HistogramEdge> {
    prop_oneof![
        3 => Just(HistogramEdge::None),
        1 => Just(HistogramEdge::Stale),
        1 => any_histogram().prop_map(HistogramEdge::Sample),
    ]
}

fn any_windows() -> impl Strategy<Value = (Resolution, Vec<HistogramWindow>)> {
    let window = (
        any_edge(),
        prop::option::weighted(0.8, any_interior()),
        any::<(bool, bool)>(),
        0i64..3,
    );
    let windows = prop::collection::vec(window, 0..40);
    (prop::sample::select(vec![3u8, 6]), windows).prop_map(|(code, windows)| {
        let resolution = Resolution::from_code(code).unwrap();
        let width_ms = resolution.ms();
        let mut start_ms = bucket(8).start_ms();
        let mut placed = vec![];
        for (edge, interior, (ends_stale, has_late), gap) in windows {
            start_ms += (gap - 1).max(0) * width_ms;
            let interior = interior.map(|(interior, (first, span))| {
                let first = 1 + i64::from(first) % (width_ms - 1);
                let last = first + i64::from(span) % (width_ms - first);
                HistogramAggregate {
                    first_ms: start_ms + first,
                    last_ms: start_ms + last,
                    ..interior
                }
            });
            placed.push(HistogramWindow {
                start_ms,
                edge,
                interior,
                ends_stale,
                has_late,
            });
            start_ms += width_ms;
        }
        (resolution, placed)
    })
}

fn check(resolution: Resolution, windows: &[HistogramWindow]) -> Vec<u8> {
    let value = encode(bucket(8), resolution, windows);
    assert_eq!(encode(bucket(8), resolution, windows), value);
    let record = HistogramRecord::parse(bucket(8), &value).unwrap();
    assert_eq!(
        (record.resolution(), record.len()),
        (resolution, windows.len())
    );
    assert_eq!(
        record.windows(WindowFields::ALL, ALL_TIME).unwrap(),
        windows
    );
    value
}

proptest! {
    #[test]
    fn any_windows_come_back((resolution, windows) in any_windows(), from in 0i64..40, to in 0i64..40) {
        let value = check(resolution, &windows);
        let start = |number| bucket(8).start_ms() + number * resolution.ms();
        let range = start(from)..start(to);
        let last = decode(bucket(8), &value, WindowFields::LAST, range.clone()).unwrap();
        let mut expected = windows.clone();
        expected.retain(|window| range.contains(&window.start_ms));
        for interior in expected.iter_mut().filter_map(|window| window.interior.as_mut()) {
            (interior.first, interior.sum, interior.correction) = (None, None, None);
        }
        prop_assert_eq!(last, expected);
    }

    #[test]
    fn damage_is_an_error_or_sound(
        (resolution, windows) in any_windows(),
        position in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut value = check(resolution, &windows);
        for end in 0..value.len() {
            let cut = decode(bucket(8), &value[..end], WindowFields::ALL, ALL_TIME);
            prop_assert!(cut.is_err(), "cut at {}", end);
        }
        let position = position.index(value.len());
        value[position] ^= change;
        if let Ok(windows) = decode(bucket(8), &value, WindowFields::ALL, ALL_TIME) {
            let record = HistogramRecord::parse(bucket(8), &value).unwrap();
            encode(bucket(8), record.resolution(), &windows);
        }
    }
}

#[test]
fn a_long_record_is_read_in_parts() {
    let start_ms = bucket(8).start_ms();
    let window = |i: u64| {
        let start_ms = start_ms + i as i64 * 5 * 60_000;
        let part = |count| Some(histogram(count, count as f64 / 4.0, false));
        HistogramWindow {
            start_ms,
            edge: HistogramEdge::None,
            interior: Some(HistogramAggregate {
                samples: 20,
                first_ms: start_ms + 3,
                first: part(i * 100),
                last_ms: start_ms + 290_003,
                last: part(i * 100 + 95),
                sum: part(i * 2000 + 950),
                ..HistogramAggregate::default()
            }),
            ends_stale: false,
            has_late: i == 7,
        }
    };
    let windows: Vec<HistogramWindow> = (0..1000).map(window).collect();
    let value = check(Resolution::FIVE_MINUTES, &windows);
    assert!(value.len() < 30_000, "{} bytes", value.len());
    let range = start_ms + 50 * HOUR_MS..start_ms + 51 * HOUR_MS;
    let part = decode(bucket(8), &value, WindowFields::ALL, range).unwrap();
    assert_eq!(part, windows[600..612]);
}

#[test]
fn broken_rules_are_refused() {
    let stale = histogram(1, f64::from_bits(STALE_NAN_BITS), false);
    let start_ms = bucket(8).start_ms();
    let window = |first_ms, edge| HistogramWindow {
        start_ms,
        edge,
        interior: Some(HistogramAggregate {
            first_ms: start_ms + first_ms,
            last_ms: start_ms + 9,
            ..HistogramAggregate::default()
        }),
        ends_stale: false,
        has_late: false,
    };
    let refused = |window: HistogramWindow| {
        let encode = || encode(bucket(8), Resolution::HOUR, &[window]);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(encode)).is_err()
    };
    assert!(!refused(window(1, HistogramEdge::None)));
    assert!(refused(window(0, HistogramEdge::None)));
    assert!(
        refused(window(10, HistogramEdge::None)),
        "last before first"
    );
    assert!(refused(window(1, HistogramEdge::Sample(stale))));
}
