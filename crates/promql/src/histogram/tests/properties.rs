//! Properties of all histograms, inconsistent ones included.

use icecore_model::{CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Span};
use proptest::prelude::*;

use super::{assert_near, numbers};
use crate::histogram::{
    ClassicBucket, CompensatedSum, FloatHistogram, Moments, Quantiles, Trim, bucket_fraction,
    bucket_quantile,
};

/// A side whose spans fit its counts.
fn side() -> impl Strategy<Value = (Vec<Span>, Vec<f64>)> {
    let runs = prop::collection::vec((0..5i32, prop::collection::vec(0..100u32, 0..5)), 0..4);
    (-8..8i32, runs).prop_map(|(start, runs)| {
        let (mut spans, mut counts) = (Vec::new(), Vec::new());
        for (number, (gap, run)) in runs.into_iter().enumerate() {
            spans.push(Span {
                offset: if number == 0 { start } else { gap },
                length: run.len() as u32,
            });
            counts.extend(run.into_iter().map(f64::from));
        }
        (spans, counts)
    })
}

prop_compose! {
    /// As client libraries make them: no bucket overlaps the zero bucket.
    fn valid()(
        schema in -2i8..6,
        zero_threshold in prop::sample::select(vec![0.0, 0.001, 0.3, 0.5, 3.0]),
        zero_count in 0..50u32,
        (positive_spans, positive) in side(),
        (negative_spans, negative) in side(),
    ) -> FloatHistogram {
        let zero_count = f64::from(zero_count);
        let mut histogram = FloatHistogram {
            reset_hint: CounterResetHint::Unknown,
            schema,
            zero_threshold: 0.0,
            zero_count,
            count: zero_count + positive.iter().chain(&negative).sum::<f64>(),
            sum: 12.5,
            positive_spans,
            negative_spans,
            positive,
            negative,
            custom_bounds: [].into(),
        };
        let empty = FloatHistogram {
            schema,
            zero_threshold,
            ..FloatHistogram::default()
        };
        histogram.add(&empty).unwrap();
        histogram
    }
}

fn any_number() -> impl Strategy<Value = f64> {
    let special = vec![
        0.0,
        -0.0,
        -1.0,
        1e300,
        f64::MAX,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
    ];
    prop_oneof![(0..9u8).prop_map(f64::from), prop::sample::select(special)]
}

fn any_span() -> impl Strategy<Value = Span> {
    let offset = prop_oneof![-3..6i32, any::<i32>()];
    let length = prop_oneof![0..4u32, any::<u32>()];
    (offset, length).prop_map(|(offset, length)| Span { offset, length })
}

prop_compose! {
    /// Anything that a client can send.
    fn hostile()(
        schema in prop_oneof![Just(CUSTOM_BUCKETS_SCHEMA), -4i8..9, any::<i8>()],
        hint in 0..4u64,
        totals in prop::array::uniform4(any_number()),
        positive_spans in prop::collection::vec(any_span(), 0..4),
        negative_spans in prop::collection::vec(any_span(), 0..4),
        positive in prop::collection::vec(any_number(), 0..6),
        negative in prop::collection::vec(any_number(), 0..6),
        bounds in prop::collection::vec(any_number(), 0..4),
    ) -> FloatHistogram {
        let [zero_threshold, zero_count, count, sum] = totals;
        FloatHistogram {
            reset_hint: CounterResetHint::from_number(hint).unwrap_or_default(),
            schema,
            zero_threshold,
            zero_count,
            count,
            sum,
            positive_spans,
            negative_spans,
            positive,
            negative,
            custom_bounds: bounds.into(),
        }
    }
}

fn bucket_total(histogram: &FloatHistogram) -> f64 {
    numbers(histogram).skip(2).sum()
}

proptest! {
    #[test]
    fn adding_and_subtracting_gives_the_original(one in valid(), other in valid()) {
        let mut sum = one.clone();
        sum.add(&other).unwrap();
        assert_near(bucket_total(&sum), bucket_total(&one) + bucket_total(&other));
        sum.sub(&other).unwrap();
        sum.compact(0);
        // In the layout that the sum has.
        let mut expected = one.clone();
        let mut nothing = other;
        nothing.mul(0.0);
        expected.add(&nothing).unwrap();
        if expected.zero_threshold == sum.zero_threshold {
            expected.compact(0);
            prop_assert_eq!(&sum.positive_spans, &expected.positive_spans);
            prop_assert_eq!(&sum.negative_spans, &expected.negative_spans);
            for (found, expected) in numbers(&sum).zip(numbers(&expected)) {
                assert_near(found, expected);
            }
        }
        assert_near(bucket_total(&sum), bucket_total(&one));
    }

    #[test]
    fn compensated_sums_of_small_numbers_are_plain_sums(
        first in valid(),
        rest in prop::collection::vec(valid(), 0..4),
    ) {
        let mut compensated = CompensatedSum::new(&first);
        let mut plain = first;
        for added in &rest {
            compensated.add(added).unwrap();
            plain.add(added).unwrap();
        }
        let mut total = compensated.total();
        total.compact(0);
        plain.compact(0);
        prop_assert!(total.equals(&plain), "{} and {}", total.script_text(), plain.script_text());
    }

    #[test]
    fn coarser_copies_keep_the_total(one in valid(), schema in -4i8..6) {
        let copy = one.copy_to_schema(schema);
        prop_assert_eq!(copy.schema, one.schema.min(schema));
        assert_near(bucket_total(&copy), bucket_total(&one));
    }

    #[test]
    fn compacting_keeps_the_populated_buckets(one in valid(), empty_max in 0..4usize) {
        let mut compact = one.clone();
        compact.compact(empty_max);
        let populated = |h: &FloatHistogram| -> Vec<_> {
            h.all_buckets().filter(|bucket| bucket.count != 0.0).collect()
        };
        prop_assert_eq!(populated(&compact), populated(&one));
        let lengths: u32 = compact.positive_spans.iter().map(|span| span.length).sum();
        prop_assert_eq!(lengths as usize, compact.positive.len());
        let mut again = compact.clone();
        again.compact(empty_max);
        prop_assert!(again.equals(&compact));
    }

    #[test]
    fn a_histogram_is_no_reset_of_itself(one in valid(), more in valid()) {
        prop_assert!(!one.detect_reset(&one));
        let mut grown = one.clone();
        grown.add(&more).unwrap();
        // Not even in a coarser layout.
        prop_assert!(!grown.detect_reset(&one));
    }

    #[test]
    fn quantiles_grow(one in valid(), p in 0.0..=1.0f64, q in 0.0..=1.0f64) {
        let (low, high) = (one.quantile(p.min(q)).0, one.quantile(p.max(q)).0);
        prop_assert!(low <= high + 1e-9 * high.abs() || one.count == 0.0);
    }

    #[test]
    fn trims_share_the_observations(one in valid(), limit in -20.0..20.0f64) {
        let (below, above) = (one.trim_upper(limit), one.trim_lower(limit));
        assert_near(below.count + above.count, one.count);
    }

    #[test]
    fn nothing_panics(
        one in hostile(),
        other in hostile(),
        number in any_number(),
        another in any_number(),
    ) {
        let mut sum = one.clone();
        let _ = sum.add(&other);
        let _ = sum.sub(&one);
        let mut compensated = CompensatedSum::new(&one);
        let _ = compensated.add(&other);
        compensated.mul(number);
        compensated.div(another);
        for mut value in [one.clone(), sum, compensated.total(), one.copy_to_schema(other.schema)] {
            value.detect_reset(&other);
            value.equals(&other);
            value.quantile(number);
            value.fraction(number, another);
            value.deviation();
            value.trim_upper(number).compact(0);
            value.trim_lower(number).compact(3);
            prop_assert!(!value.to_string().is_empty());
            prop_assert!(!value.script_text().is_empty());
            prop_assert_eq!(value.all_buckets().count(), value.all_buckets().rev().count());
            value.size();
            value.mul(number);
            value.div(another);
            value.compact(usize::MAX);
            FloatHistogram::from_model(&value.to_model());
        }
    }

    #[test]
    fn no_classic_buckets_panic(
        list in prop::collection::vec((any_number(), any_number()), 0..6),
        number in any_number(),
        another in any_number(),
    ) {
        let bucket = |(upper, count)| ClassicBucket { upper, count };
        let mut buckets: Vec<_> = list.into_iter().map(bucket).collect();
        bucket_fraction(number, another, &mut buckets.clone());
        bucket_quantile(number, &mut buckets.clone());
        bucket_quantile(0.5, &mut buckets);
    }
}
