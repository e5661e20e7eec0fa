//! Single cases, most with the numbers that Prometheus gives.

use icecore_model::{CounterResetHint, Histogram, HistogramCounts, Span};

use super::{assert_near, assert_same, histogram};
use crate::histogram::{
    AddOutcome, CompensatedSum, HistogramOpError, Moments, QuantileAnnotation, Quantiles, Trim,
};

const BOTH_SIDES: &str =
    "count:24 sum:100 z_bucket:4 z_bucket_w:0.001 buckets:[2 3 0 1 4] n_buckets:[2 3 0 1 4]";
const POSITIVE: &str = "count:12 sum:100 z_bucket:2 z_bucket_w:0.001 buckets:[2 3 0 1 4]";
const CUSTOM: &str = "schema:-53 sum:172.5 count:15 custom_values:[5 10 15 20] buckets:[1 6 4 3 1]";
const TRIM: &str =
    "sum:123.75 count:34 z_bucket:1 z_bucket_w:0.001 buckets:[2 4 8 16] n_buckets:[1 2]";

#[test]
fn integer_deltas_become_absolute_counts() {
    let stored = Histogram {
        schema: 1,
        reset_hint: CounterResetHint::NotReset,
        zero_threshold: 0.001,
        sum: 18.4,
        counts: HistogramCounts::Integer {
            count: 12,
            zero_count: 2,
            positive_deltas: vec![1, 1, -1, 0],
            negative_deltas: vec![3, -2],
        },
        positive_spans: vec![
            Span {
                offset: 0,
                length: 2,
            },
            Span {
                offset: 1,
                length: 2,
            },
        ],
        negative_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        custom_bounds: [].into(),
    };
    let value = crate::histogram::FloatHistogram::from_model(&stored);
    assert_eq!(value.positive, [1.0, 2.0, 1.0, 1.0]);
    assert_eq!(value.negative, [3.0, 1.0]);
    assert_eq!(value.reset_hint, CounterResetHint::NotReset);
    let back = crate::histogram::FloatHistogram::from_model(&value.to_model());
    assert!(back.equals(&value));
}

#[test]
fn text_is_that_of_prometheus() {
    let value =
        histogram("sum:10 count:20 z_bucket_w:0.001 z_bucket:2 buckets:[1 2] n_buckets:[1 2]");
    assert_eq!(
        value.to_string(),
        "{count:20, sum:10, [-2,-1):2, [-1,-0.5):1, [-0.001,0.001]:2, (0.5,1]:1, (1,2]:2}"
    );
    let custom = histogram("schema:-53 count:3 sum:7 custom_values:[5 10] buckets:[1 0 2]");
    assert_eq!(
        custom.to_string(),
        "{count:3, sum:7, [-Inf,5]:1, (10,+Inf]:2}"
    );
    assert_eq!(
        custom.script_text(),
        "{{schema:-53 count:3 sum:7 custom_values:[5 10] buckets:[1 0 2]}}"
    );
    assert_eq!(
        histogram("count:3 hint:gauge offset:2 buckets:[0 3] n_offset:-1 n_buckets:[1]")
            .script_text(),
        "{{count:3 counter_reset_hint:gauge offset:3 buckets:[3] n_offset:-1 n_buckets:[1]}}"
    );
}

#[test]
fn all_buckets_ascend_and_stop_at_the_zero_bucket() {
    let value = histogram("z_bucket:1 z_bucket_w:0.75 buckets:[2 3] n_buckets:[1 5]");
    let bounds = |bucket: crate::Bucket| (bucket.lower, bucket.upper, bucket.count);
    let found: Vec<_> = value.all_buckets().map(bounds).collect();
    let expected = [
        (-2.0, -1.0, 5.0),
        (-1.0, -0.75, 1.0),
        (-0.75, 0.75, 1.0),
        (0.75, 1.0, 2.0),
        (1.0, 2.0, 3.0),
    ];
    assert_eq!(found, expected);
    let reversed: Vec<_> = value.all_buckets().rev().map(bounds).collect();
    assert!(reversed.iter().eq(expected.iter().rev()));
}

#[test]
fn sums_have_the_coarser_schema() {
    let mut sum = histogram("schema:-1 sum:4 count:1 buckets:[1] offset:1");
    let outcome = sum.add(&histogram("sum:4 count:4 buckets:[2 2] offset:1"));
    assert_eq!(outcome, Ok(AddOutcome::default()));
    assert_same(&sum, "schema:-1 count:5 sum:8 offset:1 buckets:[5]");

    let fine = "schema:1 count:11 sum:1234.5 z_bucket:3 z_bucket_w:0.001 buckets:[0 2 1] n_buckets:[0 0 3 2]";
    let coarse = "schema:0 count:41 sum:2345.6 z_bucket:5 z_bucket_w:0.001 buckets:[1 3 1 2 1 1 1] n_buckets:[0 1 4 2 7 0 0 0 0 5 5 2]";
    let mut difference = histogram(coarse);
    difference.sub(&histogram(fine)).unwrap();
    assert_same(
        &difference,
        "count:30 sum:1111.1 z_bucket:2 z_bucket_w:0.001 buckets:[1 0 1 2 1 1 1] n_buckets:[0 -2 2 2 7 0 0 0 0 5 5 2]",
    );
    let mut opposite = histogram(fine);
    opposite.sub(&histogram(coarse)).unwrap();
    opposite.mul(-1.0);
    assert!(opposite.reset_hint == CounterResetHint::Gauge);
    assert_same(&opposite, &difference.script_text().replace(['{', '}'], ""));
}

#[test]
fn zero_buckets_are_widened_to_fit() {
    // 0.3 lies in the populated bucket from 0.25 to 0.5.
    let mut sum = histogram("count:9 sum:2 z_bucket:1 z_bucket_w:0.1 offset:-2 buckets:[2 3 3]");
    let wide = histogram("count:5 sum:1 z_bucket:4 z_bucket_w:0.3 offset:0 buckets:[1]");
    sum.add(&wide).unwrap();
    assert_same(
        &sum,
        "count:14 sum:3 z_bucket:10 z_bucket_w:0.5 buckets:[4]",
    );

    let mut sum = wide.clone();
    let narrow = histogram("count:9 sum:2 z_bucket:1 z_bucket_w:0.1 offset:-2 buckets:[2 3 3]");
    sum.add(&narrow).unwrap();
    assert_same(
        &sum,
        "count:14 sum:3 z_bucket:10 z_bucket_w:0.5 buckets:[4]",
    );
}

#[test]
fn custom_bounds_meet_in_the_common_ones() {
    let mut difference = histogram(
        "schema:-53 sum:555 count:450 custom_values:[1 2 3 4 5 6 7 8] buckets:[10 20 30 40 50 60 70 80 90]",
    );
    let before = histogram("schema:-53 sum:55 count:15 custom_values:[2 4 6] buckets:[1 2 5 7]");
    let outcome = difference.sub(&before).unwrap();
    assert!(outcome.bounds_reconciled);
    assert_same(
        &difference,
        "schema:-53 sum:500 count:435 custom_values:[2 4 6] buckets:[29 68 105 233]",
    );
    let mut none_common = histogram("schema:-53 count:1 custom_values:[1] buckets:[1]");
    none_common
        .add(&histogram(
            "schema:-53 count:2 custom_values:[2] buckets:[0 2]",
        ))
        .unwrap();
    assert_same(
        &none_common,
        "schema:-53 count:3 custom_values:[] buckets:[3]",
    );
}

#[test]
fn exponential_and_custom_do_not_mix() {
    let mut exponential = histogram(POSITIVE);
    let custom = histogram(CUSTOM);
    let refused = Err(HistogramOpError::IncompatibleSchema);
    assert_eq!(exponential.add(&custom), refused);
    assert_eq!(CompensatedSum::new(&custom).add(&exponential), refused);
    assert_same(&exponential, POSITIVE);
}

#[test]
fn hints_collide_only_when_they_contradict() {
    use CounterResetHint::{Gauge, NotReset, Reset, Unknown};
    for (one, other, expected, collides) in [
        (NotReset, NotReset, NotReset, false),
        (NotReset, Gauge, Gauge, false),
        (Unknown, Reset, Unknown, false),
        (Reset, Unknown, Unknown, false),
        (Reset, NotReset, Unknown, true),
    ] {
        let mut sum = histogram(POSITIVE);
        let mut added = histogram(POSITIVE);
        (sum.reset_hint, added.reset_hint) = (one, other);
        let outcome = sum.add(&added).unwrap();
        assert_eq!(sum.reset_hint, expected);
        assert_eq!(outcome.counter_reset_collision, collides);
    }
}

#[test]
fn compensated_sums_keep_small_numbers() {
    let mut sum = CompensatedSum::new(&histogram("count:1 sum:5.3 buckets:[1e100 1]"));
    for added in [
        "count:2 sum:1e100 buckets:[1 2]",
        "count:3 sum:1 buckets:[-1e100 0 4]",
        "count:4 sum:-1e100",
        "schema:1 count:5 sum:2",
    ] {
        sum.add(&histogram(added)).unwrap();
    }
    assert_same(&sum.total(), "count:15 sum:8.3 buckets:[1 3 4]");

    sum.mul(2.0);
    sum.div(4.0);
    assert_same(&sum.total(), "count:7.5 sum:4.15 buckets:[0.5 1.5 2]");
    assert!(!sum.has_overflow());
    sum.add(&histogram("count:1e308 sum:inf")).unwrap();
    assert!(sum.has_overflow());
}

#[test]
fn division_by_zero_leaves_no_buckets() {
    let mut value =
        histogram("count:30 sum:33 z_bucket:3 z_bucket_w:0.001 buckets:[3 3 3] n_buckets:[6 6 6]");
    value.div(0.0);
    assert_same(&value, "count:inf sum:inf z_bucket_w:0.001 z_bucket:inf");
}

#[test]
fn resets_are_seen() {
    let reset = |before: &str, now: &str| histogram(now).detect_reset(&histogram(before));
    assert!(!reset("count:4 buckets:[1 2 1]", "count:5 buckets:[1 2 2]"));
    assert!(reset("count:4 buckets:[1 2 1]", "count:5 buckets:[1 1 3]"));
    assert!(reset("count:4 buckets:[1 2 1]", "count:4 buckets:[4]"));
    assert!(!reset("count:1 buckets:[1 0 0]", "count:1 buckets:[1]"));
    // A populated bucket behind an empty one is missing, at the end or altogether.
    assert!(reset("count:5 buckets:[2 0 3]", "count:5 buckets:[5]"));
    assert!(reset(
        "count:3 z_bucket_w:0.001 buckets:[0 3]",
        "count:5 z_bucket_w:0.001 z_bucket:5"
    ));
    assert!(reset(
        "count:1 buckets:[1]",
        "schema:1 count:2 buckets:[1 1]"
    ));
    assert!(!reset(
        "schema:1 count:2 offset:1 buckets:[1 1]",
        "count:2 offset:1 buckets:[2]"
    ));
    assert!(reset(
        "schema:1 count:2 offset:1 buckets:[1 1]",
        "count:2 offset:2 buckets:[2]"
    ));
    assert!(reset("count:1 z_bucket_w:0.1", "count:1 z_bucket_w:0.01"));
    assert!(!reset(
        "count:3 z_bucket:1 z_bucket_w:0.1 offset:-1 buckets:[2]",
        "count:3 z_bucket:3 z_bucket_w:0.5"
    ));
    assert!(reset(
        "count:3 z_bucket:1 z_bucket_w:0.1 offset:-1 buckets:[2]",
        "count:3 z_bucket:3 z_bucket_w:0.4"
    ));
    assert!(reset(
        "count:1 buckets:[1]",
        "schema:-53 count:1 custom_values:[1] buckets:[1]"
    ));
    assert!(reset(
        "schema:-53 count:1 custom_values:[1] buckets:[1]",
        "count:1 buckets:[1]"
    ));
    let before = "schema:-53 count:15 custom_values:[2 4 6] buckets:[1 2 5 7]";
    assert!(!reset(
        before,
        "schema:-53 count:15 custom_values:[2 3 4 6] buckets:[1 1 1 5 7]"
    ));
    assert!(reset(
        before,
        "schema:-53 count:15 custom_values:[2 3 4 6] buckets:[1 0 1 5 8]"
    ));
    assert!(reset("count:1", "count:2 hint:reset"));
    assert!(!reset("count:3", "count:2 hint:not_reset"));
}

#[test]
fn equality_is_of_bits_and_layout() {
    let nan = histogram("count:1 sum:nan buckets:[1]");
    assert!(nan.equals(&nan.clone()));
    assert!(!nan.equals(&histogram("count:1 sum:nan buckets:[1 0]")));
    assert!(!histogram("sum:0").equals(&histogram("sum:-0")));
    let mut split = nan.clone();
    split.positive_spans = vec![
        Span {
            offset: -3,
            length: 0,
        },
        Span {
            offset: 3,
            length: 1,
        },
    ];
    assert!(nan.equals(&split));
}

#[test]
fn quantiles_interpolate_by_the_kind_of_bucket() {
    let quantile = |text: &str, q| histogram(text).quantile(q).0;
    assert_near(
        quantile("sum:5 count:4 buckets:[1 2 1]", 0.5),
        std::f64::consts::SQRT_2,
    );
    assert_near(quantile(POSITIVE, 0.99), 15.67072476139083);
    assert_near(quantile(POSITIVE, 0.5), 1.5874010519681994);
    assert_near(quantile(POSITIVE, 0.1), 0.0006);
    assert_near(quantile(BOTH_SIDES, 0.55), 0.0006);
    assert_near(quantile(BOTH_SIDES, 0.5), 0.0);
    assert_near(quantile(BOTH_SIDES, 0.3), -1.2030250360821169);
    assert_near(quantile(BOTH_SIDES, 0.0), -16.0);
    assert_near(quantile(BOTH_SIDES, 1.0), 16.0);
    assert_near(quantile(CUSTOM, 0.5), 10.0 + 5.0 * 0.5 / 4.0);
    assert_near(quantile(CUSTOM, 1.0), 20.0);
    assert!(quantile("", 0.5).is_nan());
}

#[test]
fn nan_observations_are_noted() {
    let some = histogram("count:15 sum:nan buckets:[12]");
    assert_eq!(some.quantile(0.8), (1.0, Some(QuantileAnnotation::NaNSkew)));
    assert_eq!(some.quantile(0.81).1, Some(QuantileAnnotation::NaNResult));
    assert_near(some.quantile(0.4).0, 0.7071067811865475);
    assert_eq!(some.fraction(f64::NEG_INFINITY, f64::INFINITY), (0.8, true));
    // Observations of both infinities make the sum NaN as well.
    assert_eq!(
        histogram("count:12 sum:nan buckets:[12]").quantile(1.0),
        (1.0, None)
    );
}

#[test]
fn fractions_are_the_inverse_of_quantiles() {
    let below = |text: &str, value| histogram(text).fraction(f64::NEG_INFINITY, value).0;
    assert_near(below(POSITIVE, 1.5), 0.4795739585136224);
    assert_near(below(BOTH_SIDES, -0.0005), 0.4583333333333333);
    assert_near(below(CUSTOM, 13.0) * 15.0, 9.4);
    assert_near(
        histogram(BOTH_SIDES).fraction(-6.0, -1.5).0,
        0.07625312493990362,
    );
    let value = histogram(BOTH_SIDES);
    for q in [0.05, 0.3, 0.49, 0.6, 0.97] {
        assert_near(below(BOTH_SIDES, value.quantile(q).0), q);
    }
}

#[test]
fn deviations_take_the_middle_of_buckets() {
    let deviation = |text: &str| histogram(text).deviation();
    assert_near(
        deviation("schema:2 count:4 sum:10 buckets:[1 0 0 0 1 0 0 1 1]"),
        1.0787993180043811,
    );
    assert_near(
        deviation("count:10 sum:-100 n_buckets:[0 0 0 0 10]"),
        1.3137084989848,
    );
    let custom = "schema:-53 count:110 sum:330 custom_values:[0 0.1 0.2 1] buckets:[0 50 20 40]";
    assert_near(deviation(custom), 2.7435461458749795);
    assert_eq!(deviation("count:7 sum:inf buckets:[7]"), f64::INFINITY);
    assert!(deviation("count:0").is_nan());
    assert_near(histogram("count:4 sum:5").average(), 1.25);
}

#[test]
fn trims_interpolate_and_estimate_the_sum() {
    let below = |text: &str, limit| histogram(text).trim_upper(limit);
    let above = |text: &str, limit| histogram(text).trim_lower(limit);
    assert_same(&above(TRIM, f64::NEG_INFINITY), TRIM);
    assert_same(&above(TRIM, f64::INFINITY), "z_bucket_w:0.001");
    assert_same(
        &above(TRIM, 0.0),
        "sum:120.20840280171308 count:30.5 z_bucket:0.5 z_bucket_w:0.001 buckets:[2 4 8 16]",
    );
    assert_same(
        &below(TRIM, -1.0),
        "count:2 sum:-2.8284271247461903 z_bucket_w:0.001 n_offset:1 n_buckets:[2]",
    );
    let fine = "schema:2 sum:12.8286080906 count:28 z_bucket:1 z_bucket_w:0.001 buckets:[1 2 4 7 3] n_buckets:[1 5 3 1]";
    assert_same(
        &below(fine, 1.13),
        "schema:2 count:13.410582181123704 sum:-9.385798726068233 z_bucket:1 z_bucket_w:0.001 buckets:[1 1.410582181123704] n_buckets:[1 5 3 1]",
    );
    assert_same(
        &above(CUSTOM, 13.0),
        "schema:-53 count:5.6 sum:94.9 custom_values:[5 10 15 20] offset:2 buckets:[1.6 3 1]",
    );
    assert_same(&below(CUSTOM, 0.0), "schema:-53 custom_values:[5 10 15 20]");
    assert_same(&above(CUSTOM, 0.0), CUSTOM);
    let only_zero = "count:5 sum:0 z_bucket:5 z_bucket_w:0.1";
    assert_same(
        &below(only_zero, -0.05),
        "count:1.25 sum:-0.09375 z_bucket:1.25 z_bucket_w:0.1",
    );
}
