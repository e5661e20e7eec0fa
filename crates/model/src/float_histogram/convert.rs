//! Stored histograms to values of a query and back.

use crate::{Histogram, HistogramCounts};

use super::FloatHistogram;

impl FloatHistogram {
    /// A stored histogram with its counts as absolute floats.
    pub fn from_model(histogram: &Histogram) -> Self {
        let (count, zero_count, positive, negative) = match &histogram.counts {
            HistogramCounts::Integer {
                count,
                zero_count,
                positive_deltas,
                negative_deltas,
            } => (
                *count as f64,
                *zero_count as f64,
                absolute(positive_deltas),
                absolute(negative_deltas),
            ),
            HistogramCounts::Float {
                count,
                zero_count,
                positive,
                negative,
            } => (*count, *zero_count, positive.clone(), negative.clone()),
        };
        Self {
            reset_hint: histogram.reset_hint,
            schema: histogram.schema,
            zero_threshold: histogram.zero_threshold,
            zero_count,
            count,
            sum: histogram.sum,
            positive_spans: histogram.positive_spans.clone(),
            negative_spans: histogram.negative_spans.clone(),
            positive,
            negative,
            custom_bounds: histogram.custom_bounds.clone(),
        }
    }

    /// The histogram as it is stored, with float counts.
    pub fn to_model(&self) -> Histogram {
        Histogram {
            schema: self.schema,
            reset_hint: self.reset_hint,
            zero_threshold: self.zero_threshold,
            sum: self.sum,
            counts: HistogramCounts::Float {
                count: self.count,
                zero_count: self.zero_count,
                positive: self.positive.clone(),
                negative: self.negative.clone(),
            },
            positive_spans: self.positive_spans.clone(),
            negative_spans: self.negative_spans.clone(),
            custom_bounds: self.custom_bounds.clone(),
        }
    }
}

fn absolute(deltas: &[i64]) -> Vec<f64> {
    let mut count = 0i64;
    let add = |delta: &i64| {
        count = count.saturating_add(*delta);
        count as f64
    };
    deltas.iter().map(add).collect()
}
