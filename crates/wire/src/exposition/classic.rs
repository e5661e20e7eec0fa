//! A classic histogram that becomes a native one with custom bounds.

use std::sync::Arc;

use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramCounts, MAX_HISTOGRAM_BUCKETS,
    Span,
};

/// Collects the components of a classic histogram, in any order.
#[derive(Debug, Default)]
pub(super) struct ClassicHistogram {
    /// Upper bound and cumulative count.
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

impl ClassicHistogram {
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
        self.count = None;
        self.sum = 0.0;
    }

    pub(super) fn add_bucket(&mut self, bound: f64, cumulative: f64) {
        self.buckets.push((bound, cumulative));
    }

    pub(super) fn set_count(&mut self, count: f64) {
        self.count = Some(count);
    }

    pub(super) fn set_sum(&mut self, sum: f64) {
        self.sum = sum;
    }

    /// The histogram, unless the parts contradict each other. Counts that are all whole numbers
    /// make one of integers. Empty buckets stay, so that the layout of a series does not change
    /// with time.
    pub(super) fn convert(&mut self) -> Option<Histogram> {
        let buckets = &mut self.buckets;
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Of a bound that came twice the first counts; −0 is 0.
        buckets.dedup_by(|second, first| second.0 == first.0);
        let count = match (self.count, buckets.last()) {
            (Some(count), _) => count,
            (None, Some((_, count))) => *count,
            (None, None) => return None,
        };
        if buckets
            .last()
            .is_none_or(|(bound, _)| *bound != f64::INFINITY)
        {
            buckets.push((f64::INFINITY, count));
        }
        let increasing = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        let last = buckets.last().map(|(_, count)| *count);
        let positive = buckets.iter().all(|(_, count)| *count >= 0.0);
        if !increasing || !positive || last != Some(count) || buckets.len() > MAX_HISTOGRAM_BUCKETS
        {
            return None;
        }
        let whole = buckets.iter().all(|(_, count)| is_whole(*count));
        let bounds: Arc<[f64]> = buckets
            .iter()
            .map(|(bound, _)| *bound)
            .take(buckets.len() - 1)
            .collect();
        let histogram = Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            reset_hint: CounterResetHint::Unknown,
            zero_threshold: 0.0,
            sum: self.sum,
            counts: if whole {
                integer_counts(buckets, count)
            } else {
                float_counts(buckets, count)
            },
            positive_spans: vec![Span {
                offset: 0,
                length: buckets.len() as u32,
            }],
            negative_spans: Vec::new(),
            custom_bounds: bounds,
        };
        histogram.validate().ok()?;
        Some(histogram)
    }
}

/// Whether a count is a whole number that a double counts up to without gaps.
fn is_whole(count: f64) -> bool {
    count.trunc() == count && count <= (1u64 << 53) as f64
}

fn integer_counts(buckets: &[(f64, f64)], count: f64) -> HistogramCounts {
    let (mut cumulative, mut previous) = (0, 0);
    let deltas = buckets.iter().map(|(_, upto)| {
        let alone = *upto as i64 - cumulative;
        let delta = alone - previous;
        (cumulative, previous) = (*upto as i64, alone);
        delta
    });
    HistogramCounts::Integer {
        count: count as u64,
        zero_count: 0,
        positive_deltas: deltas.collect(),
        negative_deltas: Vec::new(),
    }
}

fn float_counts(buckets: &[(f64, f64)], count: f64) -> HistogramCounts {
    let mut cumulative = 0.0;
    let alone = buckets.iter().map(|(_, upto)| {
        let alone = upto - cumulative;
        cumulative = *upto;
        alone
    });
    HistogramCounts::Float {
        count,
        zero_count: 0.0,
        positive: alone.collect(),
        negative: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(buckets: &[(f64, f64)], count: Option<f64>) -> Option<HistogramCounts> {
        let mut classic = ClassicHistogram::default();
        for (bound, count) in buckets {
            classic.add_bucket(*bound, *count);
        }
        classic.count = count;
        classic.convert().map(|histogram| histogram.counts)
    }

    const INF: f64 = f64::INFINITY;

    #[test]
    fn counts_are_whole_or_not() {
        let buckets = [(2.0, 5.0), (INF, 7.0), (1.0, 1.0), (1.0, 9.0)];
        assert_eq!(
            convert(&buckets, Some(7.0)),
            Some(HistogramCounts::Integer {
                count: 7,
                zero_count: 0,
                positive_deltas: vec![1, 3, -2],
                negative_deltas: vec![],
            })
        );
        assert_eq!(
            convert(&[(1.0, 0.5)], Some(2.0)),
            Some(HistogramCounts::Float {
                count: 2.0,
                zero_count: 0.0,
                positive: vec![0.5, 1.5],
                negative: vec![],
            })
        );
    }

    #[test]
    fn a_missing_part_is_made_up_from_the_others() {
        let counts = |count| convert(&[(1.0, 2.0)], count).unwrap();
        assert_eq!(counts(None), counts(Some(2.0)));
        assert!(convert(&[], Some(3.0)).is_some());
        assert!(convert(&[], None).is_none());
    }

    #[test]
    fn contradictions_are_no_histogram() {
        for (buckets, count) in [
            (&[(1.0, 3.0), (INF, 2.0)][..], 2.0),
            (&[(1.0, 3.0)], 2.0),
            (&[(INF, 3.0)], 4.0),
            (&[(1.0, -1.0)], 2.0),
            (&[(1.0, f64::NAN)], 2.0),
            (&[(f64::NAN, 1.0)], 2.0),
            (&[], f64::NAN),
            (&[], -1.0),
        ] {
            assert_eq!(convert(buckets, Some(count)), None, "{buckets:?} {count}");
        }
    }
}
