//! To native histograms and back.

use icecore_model::{CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramCounts, Span};

use super::{Bucket, SimpleHistogram};

impl SimpleHistogram {
    pub(crate) fn to_native(&self) -> Histogram {
        let mut bounds: Vec<f64> = Vec::with_capacity(self.buckets.len() + 1);
        let mut cells = Cells::default();
        cells.push(0, self.underflow);
        for bucket in &self.buckets {
            let low = f64::from(bucket.low);
            if bounds.last() != Some(&low) {
                bounds.push(low);
            }
            cells.push(bounds.len(), bucket.count);
            bounds.push(bucket.high.into());
        }
        cells.push(bounds.len(), self.overflow);
        Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            // Counts are of one moment and do not grow from point to point.
            reset_hint: CounterResetHint::Gauge,
            zero_threshold: 0.0,
            // Nobody knows what was counted.
            sum: f64::NAN,
            counts: HistogramCounts::Integer {
                count: cells.count,
                zero_count: 0,
                positive_deltas: cells.deltas,
                negative_deltas: Vec::new(),
            },
            positive_spans: cells.spans,
            negative_spans: Vec::new(),
            custom_bounds: bounds.into(),
        }
    }

    /// A native histogram as a simple one; `None` where it has no buckets with bounds of its own,
    /// or more than 64 bits of count. Bounds lose what 32 bits cannot hold.
    pub(crate) fn from_native(histogram: &Histogram) -> Option<Self> {
        if histogram.schema != CUSTOM_BUCKETS_SCHEMA {
            return None;
        }
        let bounds = &histogram.custom_bounds;
        let mut simple = Self::default();
        let mut counts = counts(&histogram.counts).into_iter();
        let mut index = 0usize;
        for span in &histogram.positive_spans {
            index = index.checked_add_signed(span.offset as isize)?;
            for _ in 0..span.length {
                let count = counts.next()?;
                let low = index.checked_sub(1).and_then(|low| bounds.get(low));
                match (low, bounds.get(index)) {
                    (Some(low), Some(high)) => simple.buckets.push(Bucket {
                        low: *low as f32,
                        high: *high as f32,
                        count,
                    }),
                    (None, _) if index == 0 => simple.underflow = count,
                    _ => simple.overflow = count,
                }
                index += 1;
            }
        }
        Some(simple)
    }
}

/// Native buckets in the order of their indexes.
#[derive(Default)]
struct Cells {
    spans: Vec<Span>,
    deltas: Vec<i64>,
    count: u64,
    /// Behind the last bucket.
    end: usize,
    last: u64,
}

impl Cells {
    fn push(&mut self, index: usize, count: u64) {
        self.count = self.count.saturating_add(count);
        match self.spans.last_mut() {
            Some(span) if index == self.end => span.length += 1,
            _ => self.spans.push(Span {
                offset: (index - self.end) as i32,
                length: 1,
            }),
        }
        self.deltas.push(count.wrapping_sub(self.last) as i64);
        self.last = count;
        self.end = index + 1;
    }
}

/// Counts of the positive buckets.
fn counts(counts: &HistogramCounts) -> Vec<u64> {
    match counts {
        HistogramCounts::Integer {
            positive_deltas, ..
        } => {
            let total = |sum: &mut i64, delta: &i64| {
                *sum = sum.wrapping_add(*delta);
                Some(*sum as u64)
            };
            positive_deltas.iter().scan(0i64, total).collect()
        }
        HistogramCounts::Float { positive, .. } => {
            positive.iter().map(|count| count.round() as u64).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(low: f32, high: f32, count: u64) -> Bucket {
        Bucket { low, high, count }
    }

    #[test]
    fn gaps_and_empty_buckets_are_told_apart() {
        let buckets = vec![
            bucket(0.0, 1.75, 12),
            bucket(1.75, 3.5, 0),
            bucket(10.0, 20.0, 7),
        ];
        let simple = SimpleHistogram::new(buckets, 2, 3).unwrap();
        let native = simple.to_native();
        assert_eq!(native.validate(), Ok(()));
        assert_eq!(&*native.custom_bounds, [0.0, 1.75, 3.5, 10.0, 20.0]);
        let spans = native.positive_spans.iter();
        let spans: Vec<_> = spans.map(|span| (span.offset, span.length)).collect();
        assert_eq!(spans, [(0, 3), (1, 2)]);
        assert_eq!(SimpleHistogram::from_native(&native), Some(simple));
    }

    #[test]
    fn what_has_no_native_form_is_no_histogram() {
        for buckets in [
            vec![bucket(1.0, 0.0, 5)],
            vec![bucket(1.0, 1.0, 5)],
            vec![bucket(0.0, 10.0, 5), bucket(5.0, 20.0, 5)],
            vec![bucket(f32::NAN, 1.0, 5)],
        ] {
            assert_eq!(SimpleHistogram::new(buckets, 0, 0), None);
        }
    }

    proptest! {
        #[test]
        fn every_simple_histogram_survives(
            bounds in prop::collection::btree_set(-1000i16..1000, 2..20),
            counts in prop::collection::vec((any::<bool>(), 0u64..1 << 40), 20),
            underflow in 0u64..1 << 40,
            overflow in 0u64..1 << 40,
        ) {
            let bounds: Vec<f32> = bounds.into_iter().map(|b| f32::from(b) / 8.0).collect();
            let pairs = bounds.windows(2).zip(counts);
            let buckets = pairs
                .filter(|(_, (is_there, _))| *is_there)
                .map(|(pair, (_, count))| bucket(pair[0], pair[1], count));
            let buckets: Vec<_> = buckets.collect();
            prop_assume!(!buckets.is_empty());
            let simple = SimpleHistogram::new(buckets, underflow, overflow).unwrap();
            let native = simple.to_native();
            prop_assert_eq!(native.validate(), Ok(()));
            prop_assert_eq!(SimpleHistogram::from_native(&native), Some(simple));
        }
    }
}
