//! Every rule of `validate`, each broken alone, and equality bit for bit.

use super::*;
use crate::STALE_NAN_BITS;

fn span(offset: i32, length: u32) -> Span {
    Span { offset, length }
}

/// Buckets −1: 1, 0: 3, 5: 2, and on the negative side 2: 4; 5 in the zero bucket.
fn integer() -> Histogram {
    Histogram {
        schema: 3,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: 0.001,
        sum: 12.5,
        counts: HistogramCounts::Integer {
            count: 15,
            zero_count: 5,
            positive_deltas: vec![1, 2, -1],
            negative_deltas: vec![4],
        },
        positive_spans: vec![span(-1, 2), span(4, 1)],
        negative_spans: vec![span(2, 1)],
        custom_bounds: Arc::from([]),
    }
}

fn float() -> Histogram {
    Histogram {
        counts: HistogramCounts::Float {
            count: 15.5,
            zero_count: 5.0,
            positive: vec![1.0, 3.0, 2.5],
            negative: vec![4.0],
        },
        ..integer()
    }
}

/// Three bounds, four buckets, the second of them empty.
fn custom() -> Histogram {
    Histogram {
        schema: CUSTOM_BUCKETS_SCHEMA,
        zero_threshold: 0.0,
        counts: HistogramCounts::Integer {
            count: 6,
            zero_count: 0,
            positive_deltas: vec![1, 1, 1],
            negative_deltas: vec![],
        },
        positive_spans: vec![span(0, 1), span(1, 2)],
        negative_spans: vec![],
        custom_bounds: Arc::from([0.5, 1.0, 10.0]),
        ..integer()
    }
}

fn check(mut histogram: Histogram, change: impl FnOnce(&mut Histogram), expected: HistogramError) {
    histogram.validate().expect("valid before the change");
    change(&mut histogram);
    assert_eq!(histogram.validate(), Err(expected));
}

fn set_count(histogram: &mut Histogram, new: u64) {
    match &mut histogram.counts {
        HistogramCounts::Integer { count, .. } => *count = new,
        HistogramCounts::Float { count, .. } => *count = new as f64,
    }
}

fn set_positive_deltas(histogram: &mut Histogram, new: Vec<i64>) {
    match &mut histogram.counts {
        HistogramCounts::Integer {
            positive_deltas, ..
        } => *positive_deltas = new,
        HistogramCounts::Float { .. } => panic!("an integer histogram is meant"),
    }
}

fn set_floats(histogram: &mut Histogram, new_count: f64, new_zero: f64, first_positive: f64) {
    match &mut histogram.counts {
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            ..
        } => {
            (*count, *zero_count, positive[0]) = (new_count, new_zero, first_positive);
        }
        HistogramCounts::Integer { .. } => panic!("a float histogram is meant"),
    }
}

#[test]
fn each_kind_has_a_valid_example() {
    for histogram in [integer(), float(), custom()] {
        assert_eq!(histogram.validate(), Ok(()), "{histogram:?}");
    }
}

#[test]
fn schemas_from_minus_4_to_8() {
    for schema in i8::MIN..=i8::MAX {
        let result = Histogram {
            schema,
            ..integer()
        }
        .validate();
        match schema {
            -4..=8 => assert_eq!(result, Ok(())),
            CUSTOM_BUCKETS_SCHEMA => assert!(result.is_err()),
            _ => assert_eq!(result, Err(HistogramError::Schema(i64::from(schema)))),
        }
    }
}

#[test]
fn spans_have_to_fit_the_buckets() {
    let long = |h: &mut Histogram| h.positive_spans[0].length = 3;
    check(
        integer(),
        long,
        HistogramError::SpanLength { need: 4, have: 3 },
    );
    check(
        custom(),
        long,
        HistogramError::SpanLength { need: 5, have: 3 },
    );
    let none = |h: &mut Histogram| h.negative_spans.clear();
    check(
        float(),
        none,
        HistogramError::SpanLength { need: 0, have: 1 },
    );
    let huge = |h: &mut Histogram| h.positive_spans = vec![span(-2_000_000_000, 4_000_000_000)];
    check(
        integer(),
        huge,
        HistogramError::SpanLength {
            need: 4_000_000_000,
            have: 3,
        },
    );
}

#[test]
fn only_the_first_span_may_go_back() {
    check(
        integer(),
        |h| h.positive_spans[1].offset = -1,
        HistogramError::SpanOffset(2),
    );
    check(
        custom(),
        |h| h.positive_spans[1].offset = -1,
        HistogramError::SpanOffset(2),
    );
    check(
        custom(),
        |h| h.positive_spans[0].offset = -1,
        HistogramError::SpanOffset(1),
    );
}

#[test]
fn bucket_indexes_fit_32_bits() {
    let after = |h: &mut Histogram| h.positive_spans[1].offset = i32::MAX;
    check(integer(), after, HistogramError::SpanIndex(2));
    let before = |h: &mut Histogram| h.positive_spans[0].offset = i32::MIN;
    check(integer(), before, HistogramError::SpanIndex(1));
    let mut lowest = integer();
    lowest.positive_spans[0].offset = i32::MIN + 1;
    assert_eq!(lowest.validate(), Ok(()));
}

#[test]
fn counts_are_not_negative() {
    check(
        integer(),
        |h| set_positive_deltas(h, vec![1, -2, 3]),
        HistogramError::NegativeCount,
    );
    check(
        float(),
        |h| set_floats(h, 15.0, 5.0, -0.5),
        HistogramError::NegativeCount,
    );
    check(
        float(),
        |h| set_floats(h, 15.0, -5.0, 0.5),
        HistogramError::NegativeCount,
    );
    check(
        float(),
        |h| set_floats(h, -15.0, 5.0, 0.5),
        HistogramError::NegativeTotal,
    );
}

#[test]
fn counts_do_not_overflow() {
    let overflow = HistogramError::CountOverflow;
    check(
        integer(),
        |h| set_positive_deltas(h, vec![i64::MAX, 1, 0]),
        overflow.clone(),
    );
    check(
        integer(),
        |h| set_positive_deltas(h, vec![i64::MAX, 0, 0]),
        overflow,
    );
}

#[test]
fn integer_buckets_add_up_to_the_count() {
    let mismatch = |count| HistogramError::CountMismatch {
        observations: 15,
        count,
    };
    check(integer(), |h| set_count(h, 14), mismatch(14));
    check(integer(), |h| set_count(h, 16), mismatch(16));
}

#[test]
fn with_a_nan_sum_the_count_may_be_larger() {
    let nan = || Histogram {
        sum: f64::NAN,
        ..integer()
    };
    let mut larger = nan();
    set_count(&mut larger, 16);
    assert_eq!(larger.validate(), Ok(()));
    let mismatch = HistogramError::CountMismatch {
        observations: 15,
        count: 14,
    };
    check(nan(), |h| set_count(h, 14), mismatch);
}

#[test]
fn float_buckets_need_not_add_up() {
    let mut histogram = float();
    set_count(&mut histogram, 3);
    assert_eq!(histogram.validate(), Ok(()));
}

#[test]
fn custom_bounds_increase_and_end_before_infinity() {
    for bounds in [
        [1.0, 1.0, 2.0],
        [1.0, 0.5, 2.0],
        [0.5, 1.0, f64::INFINITY],
        [f64::NAN, 1.0, 2.0],
        [0.5, 1.0, f64::NAN],
    ] {
        check(
            custom(),
            |h| h.custom_bounds = Arc::from(bounds),
            HistogramError::CustomBounds,
        );
    }
    let only = |bound| Histogram {
        positive_spans: vec![],
        counts: HistogramCounts::Integer {
            count: 0,
            zero_count: 0,
            positive_deltas: vec![],
            negative_deltas: vec![],
        },
        custom_bounds: Arc::from([bound]),
        ..custom()
    };
    assert_eq!(only(f64::NEG_INFINITY).validate(), Ok(()));
    assert_eq!(
        only(f64::INFINITY).validate(),
        Err(HistogramError::CustomBounds)
    );
    assert_eq!(only(f64::NAN).validate(), Err(HistogramError::CustomBounds));
}

#[test]
fn custom_buckets_have_bounds() {
    let few = |h: &mut Histogram| h.custom_bounds = Arc::from([0.5, 1.0]);
    check(
        custom(),
        few,
        HistogramError::TooFewBounds {
            bounds: 2,
            span_length: 4,
        },
    );
}

#[test]
fn custom_buckets_have_no_zero_and_no_negative_side() {
    let not = HistogramError::NotForCustom;
    check(
        custom(),
        |h| h.zero_threshold = 0.1,
        not("a zero threshold"),
    );
    check(
        custom(),
        |h| h.negative_spans = vec![span(0, 0)],
        not("negative spans"),
    );
    let zero = |h: &mut Histogram| {
        h.counts = HistogramCounts::Integer {
            count: 7,
            zero_count: 1,
            positive_deltas: vec![1, 1, 1],
            negative_deltas: vec![],
        };
    };
    check(custom(), zero, not("a zero count"));
    let negative = |h: &mut Histogram| {
        h.counts = HistogramCounts::Float {
            count: 7.0,
            zero_count: 0.0,
            positive: vec![1.0, 1.0, 1.0],
            negative: vec![1.0],
        };
    };
    check(custom(), negative, not("negative buckets"));
}

#[test]
fn exponential_buckets_have_no_bounds_and_a_sane_zero() {
    let bounds = |h: &mut Histogram| h.custom_bounds = Arc::from([1.0]);
    check(integer(), bounds, HistogramError::BoundsWithoutCustom);
    check(
        float(),
        |h| h.zero_threshold = f64::NAN,
        HistogramError::ZeroThreshold,
    );
    check(
        float(),
        |h| h.zero_threshold = -1.0,
        HistogramError::ZeroThreshold,
    );
}

#[test]
fn buckets_and_spans_are_capped() {
    let too_many = HistogramError::TooManyBuckets(MAX_HISTOGRAM_BUCKETS);
    let buckets = |h: &mut Histogram| {
        set_positive_deltas(h, vec![0; MAX_HISTOGRAM_BUCKETS]);
        h.positive_spans = vec![span(0, MAX_HISTOGRAM_BUCKETS as u32)];
    };
    check(integer(), buckets, too_many.clone());
    let spans = |h: &mut Histogram| h.negative_spans = vec![span(0, 0); MAX_HISTOGRAM_BUCKETS + 1];
    check(integer(), spans, too_many.clone());
    let bounds = |h: &mut Histogram| {
        h.custom_bounds = (0..=MAX_HISTOGRAM_BUCKETS).map(|i| i as f64).collect();
    };
    check(custom(), bounds, too_many);
}

#[test]
fn a_stale_histogram_is_valid_and_equals_itself() {
    let stale = |bits| Histogram {
        sum: f64::from_bits(bits),
        counts: HistogramCounts::Float {
            count: 0.0,
            zero_count: f64::NAN,
            positive: vec![],
            negative: vec![],
        },
        positive_spans: vec![],
        negative_spans: vec![],
        ..float()
    };
    let marker = stale(STALE_NAN_BITS);
    assert!(marker.is_stale());
    assert_eq!(marker.validate(), Ok(()));
    assert_eq!(marker, marker.clone());
    let nan = stale(f64::NAN.to_bits());
    assert!(!nan.is_stale());
    assert_ne!(marker, nan);
}

#[test]
fn every_field_counts_in_equality() {
    type Change = fn(&mut Histogram);
    let changes: [(Histogram, Change); 10] = [
        (integer(), |h| h.schema = 4),
        (integer(), |h| h.reset_hint = CounterResetHint::Gauge),
        (integer(), |h| h.zero_threshold = 0.002),
        (
            Histogram {
                sum: 0.0,
                ..integer()
            },
            |h| h.sum = -0.0,
        ),
        (integer(), |h| h.positive_spans[0].offset = 0),
        (integer(), |h| h.negative_spans.clear()),
        (integer(), |h| set_count(h, 16)),
        (integer(), |h| set_positive_deltas(h, vec![1, 2, 0])),
        (float(), |h| set_floats(h, 15.5, 5.0, 1.5)),
        (custom(), |h| h.custom_bounds = Arc::from([0.5, 1.0, 11.0])),
    ];
    for (original, change) in changes {
        let mut changed = original.clone();
        assert_eq!(changed, original);
        change(&mut changed);
        assert_ne!(changed, original);
    }
    assert_ne!(integer().counts, float().counts);
}

#[test]
fn sizes() {
    assert_eq!(integer().bucket_count(), 4);
    assert_eq!(custom().bucket_count(), 3);
    // 3 spans of 8 bytes and 4 buckets; 2 spans, 3 buckets and 3 bounds.
    assert_eq!(integer().heap_bytes(), 56);
    assert_eq!(custom().heap_bytes(), 64);
}

#[test]
fn reset_hints_have_the_numbers_of_remote_write() {
    for number in 0..=3 {
        let hint = CounterResetHint::from_number(number).unwrap();
        assert_eq!(u64::from(hint.number()), number);
    }
    assert_eq!(
        CounterResetHint::from_number(3),
        Some(CounterResetHint::Gauge)
    );
    assert_eq!(CounterResetHint::from_number(4), None);
}
