//! Native histograms with fewer buckets: `native_histogram_bucket_limit` and
//! `native_histogram_min_bucket_factor`.
//!
//! Holds always: two neighbouring buckets of a schema are one bucket of the schema below, so that
//! no observation moves to a bucket that it does not belong to, and sums of counts stay.

use icecore_model::{CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramCounts, Span};

/// Exponential schemas there are.
const SCHEMA_MIN: i8 = -4;
const SCHEMA_MAX: i8 = 8;

/// The finest schema whose buckets grow at least by `factor`.
pub(super) fn schema_of_factor(factor: f64) -> i8 {
    if factor <= 1.0 {
        return SCHEMA_MAX;
    }
    let schema = -factor.log2().log2().floor();
    schema.clamp(f64::from(SCHEMA_MIN), f64::from(SCHEMA_MAX)) as i8
}

/// Brings a histogram to at most `schema_max` and, with a limit, to at most so many buckets. An
/// error where that is not possible.
pub(super) fn limit(
    histogram: &mut Histogram,
    schema_max: i8,
    buckets_max: u64,
) -> Result<(), &'static str> {
    const TOO_MANY: &str = "histogram bucket limit exceeded";
    let exponential = histogram.schema != CUSTOM_BUCKETS_SCHEMA;
    if exponential && histogram.schema > schema_max {
        reduce(histogram, schema_max);
    }
    while buckets_max > 0 && histogram.bucket_count() as u64 > buckets_max {
        if !exponential || histogram.schema <= SCHEMA_MIN {
            return Err(TOO_MANY);
        }
        reduce(histogram, histogram.schema - 1);
    }
    Ok(())
}

fn reduce(histogram: &mut Histogram, schema: i8) {
    let shift = u32::from(histogram.schema.abs_diff(schema));
    match &mut histogram.counts {
        HistogramCounts::Integer {
            positive_deltas,
            negative_deltas,
            ..
        } => {
            reduce_deltas(&mut histogram.positive_spans, positive_deltas, shift);
            reduce_deltas(&mut histogram.negative_spans, negative_deltas, shift);
        }
        HistogramCounts::Float {
            positive, negative, ..
        } => {
            let add = |a: f64, b: f64| a + b;
            merge(&mut histogram.positive_spans, positive, shift, add);
            merge(&mut histogram.negative_spans, negative, shift, add);
        }
    }
    histogram.schema = schema;
}

fn reduce_deltas(spans: &mut Vec<Span>, deltas: &mut Vec<i64>, shift: u32) {
    let mut count = 0i64;
    for delta in deltas.iter_mut() {
        count = count.wrapping_add(*delta);
        *delta = count;
    }
    merge(spans, deltas, shift, i64::wrapping_add);
    let mut before = 0i64;
    for count in deltas.iter_mut() {
        let delta = count.wrapping_sub(before);
        before = *count;
        *count = delta;
    }
}

/// Adds up what falls into the same bucket of the coarser schema.
fn merge<T: Copy>(spans: &mut Vec<Span>, counts: &mut Vec<T>, shift: u32, add: fn(T, T) -> T) {
    let mut merged: Vec<T> = Vec::with_capacity(counts.len());
    let mut merged_spans: Vec<Span> = Vec::new();
    // The bucket that was added to last.
    let mut last: Option<i64> = None;
    let mut index = 0i64;
    let mut rest = counts.iter();
    for span in spans.iter() {
        index = index.saturating_add(i64::from(span.offset));
        for count in rest.by_ref().take(span.length as usize) {
            // A bucket is named by its upper bound, therefore the ones around.
            let coarse = ((index - 1) >> shift) + 1;
            match (last, merged.last_mut(), merged_spans.last_mut()) {
                (Some(same), Some(sum), _) if same == coarse => *sum = add(*sum, *count),
                (Some(before), _, Some(span)) if before + 1 == coarse => {
                    span.length += 1;
                    merged.push(*count);
                }
                _ => {
                    // The first span counts from bucket 0, others from the end of the one before.
                    let offset = coarse - last.map_or(0, |before| before + 1);
                    merged_spans.push(Span {
                        offset: i32::try_from(offset).unwrap_or(i32::MAX),
                        length: 1,
                    });
                    merged.push(*count);
                }
            }
            last = Some(coarse);
            index += 1;
        }
    }
    (*counts, *spans) = (merged, merged_spans);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(schema: i8, spans: &[(i32, u32)], deltas: &[i64]) -> Histogram {
        let mut count = 0;
        let mut total = 0u64;
        for delta in deltas {
            count += delta;
            total += count.unsigned_abs();
        }
        Histogram {
            schema,
            reset_hint: Default::default(),
            zero_threshold: 0.0,
            sum: 1.0,
            counts: HistogramCounts::Integer {
                count: total,
                zero_count: 0,
                positive_deltas: deltas.into(),
                negative_deltas: Vec::new(),
            },
            positive_spans: spans
                .iter()
                .map(|(offset, length)| Span {
                    offset: *offset,
                    length: *length,
                })
                .collect(),
            negative_spans: Vec::new(),
            custom_bounds: [].into(),
        }
    }

    fn parts(histogram: &Histogram) -> (i8, Vec<(i32, u32)>, Vec<i64>) {
        let HistogramCounts::Integer {
            positive_deltas, ..
        } = &histogram.counts
        else {
            panic!("integers stay integers");
        };
        let spans = histogram.positive_spans.iter();
        let spans = spans.map(|span| (span.offset, span.length)).collect();
        (histogram.schema, spans, positive_deltas.clone())
    }

    #[test]
    fn factors_as_in_prometheus() {
        for (factor, schema) in [
            (0.0, 8),
            (1.0, 8),
            (1.002, 8),
            (1.1, 3),
            (1.5, 1),
            (2.0, 0),
            (4.0, -1),
            (65_536.0, -4),
            (1e30, -4),
        ] {
            assert_eq!(schema_of_factor(factor), schema, "{factor}");
        }
    }

    #[test]
    fn neighbours_become_one() {
        // Buckets 1..=4 with counts 1, 2, 3, 4, then 7 with count 5.
        let mut given = histogram(1, &[(1, 4), (2, 1)], &[1, 1, 1, 1, 1]);
        limit(&mut given, 8, 3).unwrap();
        given.validate().unwrap();
        // 1+2 and 3+4 in buckets 1 and 2, and 5 in bucket 4.
        assert_eq!(parts(&given), (0, vec![(1, 2), (1, 1)], vec![3, 4, -2]));
    }

    #[test]
    fn limits_that_cannot_be_kept_are_errors() {
        let mut wide = histogram(-4, &[(0, 3)], &[1, 0, 0]);
        assert!(limit(&mut wide, 8, 2).is_err());
        assert!(limit(&mut wide, 8, 3).is_ok());
        let mut custom = histogram(CUSTOM_BUCKETS_SCHEMA, &[(0, 3)], &[1, 0, 0]);
        assert!(limit(&mut custom, 8, 2).is_err());
        assert!(limit(&mut custom, 0, 0).is_ok());
        assert_eq!(custom.schema, CUSTOM_BUCKETS_SCHEMA);
    }

    #[test]
    fn the_factor_bounds_the_schema() {
        let mut fine = histogram(8, &[(0, 2)], &[1, 0]);
        limit(&mut fine, schema_of_factor(2.0), 0).unwrap();
        assert_eq!(fine.schema, 0);
        fine.validate().unwrap();
    }

    proptest! {
        #[test]
        fn sums_stay_and_indexes_follow(
            schema in -3i8..=8,
            spans in prop::collection::vec((1i32..50, 1u32..5), 1..6),
            first in -1000i32..1000,
            counts in prop::collection::vec(0i64..100, 30),
            to in -4i8..=8,
        ) {
            let mut spans = spans;
            spans[0].0 = first;
            let length: u32 = spans.iter().map(|span| span.1).sum();
            let counts = &counts[..length as usize];
            let mut before = 0;
            let deltas: Vec<i64> = counts
                .iter()
                .map(|count| {
                    let delta = count - before;
                    before = *count;
                    delta
                })
                .collect();
            let mut given = histogram(schema, &spans, &deltas);
            limit(&mut given, to, 0).unwrap();
            prop_assert!(given.validate().is_ok(), "{:?}", given);
            prop_assert_eq!(given.schema, schema.min(to));
            let (_, _, deltas) = parts(&given);
            let mut count = 0;
            let sum: i64 = deltas.iter().map(|delta| { count += delta; count }).sum();
            prop_assert_eq!(sum, counts.iter().sum::<i64>());
        }
    }
}
