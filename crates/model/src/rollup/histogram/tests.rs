use proptest::prelude::*;

use super::*;
use crate::{CUSTOM_BUCKETS_SCHEMA, CounterResetHint, HOUR_MS, HistogramCounts, Span};

const MINUTE_MS: i64 = 60_000;

type Samples = Vec<(i64, Arc<Histogram>)>;

/// A histogram of two buckets.
fn histogram(schema: i8, low: i64, high: i64) -> Histogram {
    Histogram {
        schema,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: 0.0,
        sum: (low + 3 * high) as f64,
        counts: HistogramCounts::Integer {
            count: (low + high).unsigned_abs(),
            zero_count: 0,
            positive_deltas: vec![low, high - low],
            negative_deltas: Vec::new(),
        },
        positive_spans: vec![Span {
            offset: 1,
            length: 2,
        }],
        negative_spans: Vec::new(),
        custom_bounds: [].into(),
    }
}

/// The same with custom bounds.
fn custom(low: i64, high: i64) -> Histogram {
    Histogram {
        schema: CUSTOM_BUCKETS_SCHEMA,
        custom_bounds: [1.0, 2.0, 3.0].into(),
        ..histogram(0, low, high)
    }
}

fn samples(values: impl IntoIterator<Item = (i64, Histogram)>) -> Samples {
    let sample = |(minute, histogram)| (minute * MINUTE_MS, Arc::new(histogram));
    values.into_iter().map(sample).collect()
}

fn rolled(resolution: Resolution, samples: &Samples) -> Vec<HistogramWindow> {
    let samples = samples.iter().map(|(time, histogram)| (*time, histogram));
    roll_up_histograms(resolution, samples)
}

/// What a counter grew by from the first histogram to the last.
fn increase(of: &HistogramAggregate) -> Option<FloatHistogram> {
    let mut increase = to_float(of.last.as_ref());
    increase.sub(&to_float(of.first.as_ref())).ok()?;
    match &of.correction {
        Some(lost) => increase.add(&FloatHistogram::from_model(lost)).ok()?,
        None if of.resets > 0 => return None,
        None => return Some(increase),
    };
    Some(increase)
}

fn positive(histogram: Option<&Arc<Histogram>>) -> Vec<f64> {
    to_float(histogram).positive
}

#[test]
fn resets_and_sums() {
    let values = [
        (1, 5, 5),
        (2, 7, 9),
        (3, 1, 2),
        (4, 4, 4),
        (6, 3, 9),
        (7, 8, 9),
    ];
    let values = values.map(|(minute, low, high)| (minute, histogram(0, low, high)));
    let windows = rolled(Resolution::FIVE_MINUTES, &samples(values));
    let of = windows[0].interior.as_ref().unwrap();
    assert_eq!((of.samples, of.resets, of.changes), (4, 1, 3));
    assert_eq!(positive(of.sum.as_ref()), [17.0, 20.0]);
    assert_eq!(positive(of.correction.as_ref()), [7.0, 9.0]);
    assert_eq!(increase(of).unwrap().positive, [6.0, 8.0]);
    let second = windows[1].interior.as_ref().unwrap();
    assert_eq!((second.resets, second.correction.as_ref()), (0, None));
    let hour = roll_up_histogram_windows(Resolution::HOUR, &windows);
    let both = hour[0].interior.as_ref().unwrap();
    // One bucket fell from 4 to 3.
    assert_eq!((both.samples, both.resets), (6, 2));
    assert_eq!(increase(both).unwrap().positive, [14.0, 17.0]);
}

#[test]
fn first_and_last_are_as_they_were() {
    let values = samples([(1, histogram(3, 5, 5)), (2, histogram(1, 7, 9))]);
    let windows = rolled(Resolution::HOUR, &values);
    let of = windows[0].interior.as_ref().unwrap();
    assert_eq!(of.first.as_ref(), Some(&values[0].1));
    assert_eq!(of.last.as_ref(), Some(&values[1].1));
    assert_eq!(
        of.sum.as_ref().unwrap().schema,
        1,
        "the coarsest of the two"
    );
}

#[test]
fn edges_and_stale_markers() {
    let values = [
        (0, histogram(0, 1, 1)),
        (1, histogram(0, 2, 2)),
        (2, Histogram::stale()),
        (5, Histogram::stale()),
        (6, histogram(0, 3, 3)),
        (11, Histogram::stale()),
    ];
    let windows = rolled(Resolution::FIVE_MINUTES, &samples(values));
    assert!(matches!(windows[0].edge, HistogramEdge::Sample(_)) && windows[0].ends_stale);
    assert!(windows[1].edge == HistogramEdge::Stale && !windows[1].ends_stale);
    assert!(windows[2].interior.is_none() && windows[2].ends_stale);
    let coarse = roll_up_histogram_windows(Resolution::HOUR, &windows[..2]);
    assert_eq!(coarse.len(), 1);
    assert!(matches!(coarse[0].edge, HistogramEdge::Sample(_)) && !coarse[0].ends_stale);
    assert_eq!((coarse[0].samples(), windows[0].samples()), (3, 2));
    assert!(roll_up_histogram_windows(Resolution::HOUR, &windows)[0].ends_stale);
}

#[test]
fn exponential_and_custom_buckets_have_no_sum() {
    let values = [
        (1, histogram(0, 1, 1)),
        (2, custom(9, 9)),
        (3, custom(10, 9)),
        (4, histogram(0, 9, 9)),
    ];
    let windows = rolled(Resolution::HOUR, &samples(values));
    let interior = windows[0].interior.as_ref().unwrap();
    assert_eq!((interior.samples, interior.resets), (4, 2));
    assert_eq!(
        (interior.sum.as_ref(), interior.correction.as_ref()),
        (None, None)
    );
}

#[test]
fn gauges_are_gauges_in_the_sum() {
    let gauge = Histogram {
        reset_hint: CounterResetHint::Gauge,
        ..histogram(0, 1, 1)
    };
    let values = [(1, histogram(0, 1, 1)), (2, gauge), (3, histogram(0, 9, 9))];
    let windows = rolled(Resolution::HOUR, &samples(values));
    let sum = windows[0].interior.as_ref().unwrap().sum.as_ref();
    assert_eq!(sum.unwrap().reset_hint, CounterResetHint::Gauge);
}

#[test]
fn sums_have_no_more_buckets_than_samples_may_have() {
    let sparse = |i: i32| Histogram {
        schema: 8,
        counts: HistogramCounts::Integer {
            count: 40_000,
            zero_count: 0,
            positive_deltas: vec![1; 40_000],
            negative_deltas: Vec::new(),
        },
        positive_spans: vec![Span {
            offset: i * 40_000,
            length: 40_000,
        }],
        ..histogram(8, 0, 0)
    };
    let windows = rolled(
        Resolution::HOUR,
        &samples([(1, sparse(0)), (2, sparse(1)), (3, sparse(2))]),
    );
    let sum = windows[0].interior.as_ref().unwrap().sum.as_ref().unwrap();
    assert!(sum.bucket_count() <= MAX_HISTOGRAM_BUCKETS && sum.schema == 7);
}

fn text(windows: &[HistogramWindow]) -> Vec<String> {
    let of_float = |of: &FloatHistogram| {
        let mut compact = of.clone();
        compact.compact(0);
        format!("{} {:?} {compact}", compact.schema, compact.reset_hint)
    };
    let of_stored = |of: &Arc<Histogram>| of_float(&FloatHistogram::from_model(of));
    let of_window = |window: &HistogramWindow| {
        let edge = match &window.edge {
            HistogramEdge::None => "none".to_string(),
            HistogramEdge::Stale => "stale".to_string(),
            HistogramEdge::Sample(of) => of_stored(of),
        };
        let interior = window.interior.as_ref().map(|of| {
            (
                (of.samples, of.resets, of.changes, of.first_ms, of.last_ms),
                of.sum.as_ref().map(of_stored),
                of.correction.as_ref().map(of_stored),
                increase(of).as_ref().map(of_float),
            )
        });
        format!(
            "{} {edge} {interior:?} {}",
            window.start_ms, window.ends_stale
        )
    };
    windows.iter().map(of_window).collect()
}

proptest! {
    /// Coarser windows equal those of the histograms themselves, whatever the schemas.
    #[test]
    fn coarser_windows_equal_those_of_the_histograms(
        values in prop::collection::vec((0..4_i8, 0..20_i64, 0..20_i64, 0..40_u8), 0..40),
        spacing in 1..7_i64,
    ) {
        let value = |(schema, low, high, kind): &(i8, i64, i64, u8)| match kind {
            0..=4 => Histogram::stale(),
            5 => custom(*low, *high),
            kind => Histogram {
                reset_hint: CounterResetHint::from_number(u64::from(*kind) / 8)
                    .unwrap_or_default(),
                ..histogram(*schema, *low, *high)
            },
        };
        let values = values.iter().enumerate().map(|(i, of)| (i as i64 * spacing, value(of)));
        let samples = samples(values);
        let fine = rolled(Resolution::FIVE_MINUTES, &samples);
        let coarse = roll_up_histogram_windows(Resolution::HOUR, &fine);
        prop_assert_eq!(text(&coarse), text(&rolled(Resolution::HOUR, &samples)));
        let count: u64 = coarse.iter().map(HistogramWindow::samples).sum();
        let fresh = samples.iter().filter(|(_, histogram)| !histogram.is_stale()).count();
        prop_assert_eq!(count, fresh as u64);
        prop_assert!(coarse.iter().all(|w| w.start_ms % HOUR_MS == 0));
    }
}
