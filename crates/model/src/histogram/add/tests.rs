use proptest::prelude::*;

use super::*;
use crate::CounterResetHint;

/// A histogram with these positive and negative buckets, and one observation of 0.
fn histogram(schema: i8, positive: &[(i64, i64)], negative: &[(i64, i64)]) -> Histogram {
    let like = Histogram {
        schema,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: 0.0,
        sum: 1.5,
        counts: HistogramCounts::Integer {
            count: 0,
            zero_count: 0,
            positive_deltas: vec![],
            negative_deltas: vec![],
        },
        positive_spans: vec![],
        negative_spans: vec![],
        custom_bounds: Arc::from([]),
    };
    let all = positive.iter().chain(negative).map(|(_, count)| count);
    let indexed = IndexedHistogram::<i64> {
        schema,
        zero_threshold: 0.0,
        count: 1 + all.sum::<i64>(),
        zero: 1,
        positive: positive.to_vec(),
        negative: negative.to_vec(),
    };
    indexed.into_histogram(&like).unwrap()
}

fn positive(histogram: &Histogram) -> Vec<(i64, i64)> {
    IndexedHistogram::<i64>::of(histogram).unwrap().positive
}

#[test]
fn equal_layouts_add_bucket_by_bucket() {
    let mut total = histogram(3, &[(1, 2), (2, 5)], &[(7, 1)]);
    let change = total.clone();
    total.add(&change).unwrap();
    let mut expected = histogram(3, &[(1, 4), (2, 10)], &[(7, 2)]);
    expected.sum = 3.0;
    let HistogramCounts::Integer {
        count, zero_count, ..
    } = &mut expected.counts
    else {
        panic!("integer counts");
    };
    (*count, *zero_count) = (18, 2);
    assert_eq!(total, expected);
    assert_eq!(total.validate(), Ok(()));
}

#[test]
fn different_schemas_meet_in_the_coarser_one() {
    let mut total = histogram(1, &[(1, 1), (2, 2), (3, 4), (4, 8)], &[]);
    total.add(&histogram(0, &[(2, 16)], &[])).unwrap();
    assert_eq!(total.schema, 0);
    assert_eq!(positive(&total), [(1, 3), (2, 28)]);
    let mut other_way = histogram(0, &[(2, 16)], &[]);
    other_way
        .add(&histogram(1, &[(1, 1), (2, 2), (3, 4), (4, 8)], &[]))
        .unwrap();
    assert_eq!(total, other_way);
}

#[test]
fn a_wider_zero_bucket_takes_in_what_lies_within() {
    // Schema 0: bucket 1 is (1, 2], bucket 2 is (2, 4].
    let mut total = histogram(0, &[(1, 3), (2, 5), (3, 7)], &[]);
    let mut change = histogram(0, &[(3, 1)], &[]);
    change.zero_threshold = 3.0;
    total.add(&change).unwrap();
    assert_eq!(
        total.zero_threshold, 4.0,
        "the end of the bucket in which 3 lies"
    );
    assert_eq!(positive(&total), [(3, 8)]);
    assert!(matches!(
        total.counts,
        HistogramCounts::Integer {
            zero_count: 10,
            count: 18,
            ..
        }
    ));
}

#[test]
fn custom_buckets_need_equal_bounds() {
    let custom = |bounds: &[f64]| Histogram {
        custom_bounds: bounds.into(),
        schema: CUSTOM_BUCKETS_SCHEMA,
        ..histogram(0, &[(0, 1), (2, 1)], &[])
    };
    let mut total = custom(&[1.0, 2.0]);
    let before = total.clone();
    assert_eq!(
        total.add(&custom(&[1.0, 3.0])),
        Err(HistogramAddError::Bounds)
    );
    assert_eq!(
        total.add(&histogram(0, &[], &[])),
        Err(HistogramAddError::Bounds)
    );
    assert_eq!(total, before, "nothing has changed");
    total.add(&custom(&[1.0, 2.0])).unwrap();
    assert_eq!(positive(&total), [(0, 2), (2, 2)]);
}

#[test]
fn a_sum_that_does_not_fit_is_an_error() {
    let mut total = histogram(0, &[(1, i64::MAX - 2)], &[]);
    let before = total.clone();
    assert_eq!(total.add(&before.clone()), Err(HistogramAddError::Overflow));
    assert_eq!(
        total.add(&histogram(0, &[(1, 5), (2, 1)], &[])),
        Err(HistogramAddError::Overflow)
    );
    assert_eq!(total, before);
}

#[test]
fn floats_and_integers_add_to_floats() {
    let mut total = histogram(0, &[(1, 3)], &[]);
    let mut change = histogram(0, &[(1, 3)], &[]);
    change.counts = HistogramCounts::Float {
        count: 1.5,
        zero_count: 0.0,
        positive: vec![1.5],
        negative: vec![],
    };
    total.add(&change).unwrap();
    assert_eq!(
        total.counts,
        HistogramCounts::Float {
            count: 5.5,
            zero_count: 1.0,
            positive: vec![4.5],
            negative: vec![]
        }
    );
}

#[test]
fn many_buckets_become_coarser_ones() {
    let many: Vec<(i64, i64)> = (-200..200).map(|index| (index, 1)).collect();
    let mut total = histogram(8, &many, &[]);
    total.limit_buckets(160);
    assert_eq!(total.schema, 6);
    assert_eq!(
        positive(&total).iter().map(|(_, count)| count).sum::<i64>(),
        400
    );
    assert_eq!(total.validate(), Ok(()));
}

fn some() -> impl Strategy<Value = Histogram> {
    let side = || prop::collection::btree_map(-40i64..40, 1i64..100, 0..12);
    let threshold = prop_oneof![Just(0.0), Just(1e-3), Just(0.7), Just(5.0)];
    (-4i8..9, side(), side(), threshold).prop_map(|(schema, positive, negative, threshold)| {
        let list =
            |side: std::collections::BTreeMap<i64, i64>| side.into_iter().collect::<Vec<_>>();
        let mut some = histogram(schema, &list(positive), &list(negative));
        some.zero_threshold = threshold;
        some
    })
}

proptest! {
    #[test]
    fn sums_keep_every_observation_and_do_not_depend_on_order(one in some(), other in some()) {
        let mut sum = one.clone();
        sum.add(&other).unwrap();
        let mut reversed = other.clone();
        reversed.add(&one).unwrap();
        prop_assert_eq!(&sum, &reversed);
        prop_assert_eq!(sum.validate(), Ok(()));
        prop_assert_eq!(sum.schema, one.schema.min(other.schema));
        sum.limit_buckets(5);
        prop_assert_eq!(sum.validate(), Ok(()));
    }
}
