//! Conversion of classic histograms to native ones with custom buckets, for `load_with_nhcb`.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramCounts, Labels, LabelsBuilder,
    METRIC_NAME, Span,
};

use super::load::{LoadedSample, LoadedSeries, LoadedValue};
use crate::parse::parse_signed_number;

const BUCKET_LABEL: &str = "le";

/// The values of the series of a classic histogram at one time.
#[derive(Default)]
struct ClassicHistogram {
    /// Bounds with cumulative counts.
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

/// Which series of a classic histogram.
enum ClassicSeries {
    Bucket(f64),
    Count,
    Sum,
}

/// The native histograms of all `_bucket`, `_count` and `_sum` series.
pub(crate) fn from_classic(batch: &[LoadedSeries]) -> Result<Vec<LoadedSeries>, String> {
    let mut histograms: BTreeMap<Labels, BTreeMap<i64, ClassicHistogram>> = BTreeMap::new();
    for series in batch {
        let Some((labels, kind)) = base_of(&series.labels)? else {
            continue;
        };
        let by_time = histograms.entry(labels).or_default();
        for sample in &series.samples {
            let LoadedValue::Float(value) = sample.value else {
                continue;
            };
            let classic = by_time.entry(sample.timestamp_ms).or_default();
            match kind {
                ClassicSeries::Bucket(bound) => classic.buckets.push((bound, value)),
                ClassicSeries::Count => classic.count = Some(value),
                ClassicSeries::Sum => classic.sum = value,
            }
        }
    }
    let mut made = Vec::with_capacity(histograms.len());
    for (labels, by_time) in histograms {
        let mut samples = Vec::with_capacity(by_time.len());
        for (timestamp_ms, classic) in by_time {
            let histogram = classic
                .into_histogram()
                .map_err(|e| format!("{labels}: {e}"))?;
            samples.push(LoadedSample {
                timestamp_ms,
                value: LoadedValue::Histogram(Arc::new(histogram)),
                start_ms: None,
            });
        }
        made.push(LoadedSeries { labels, samples });
    }
    Ok(made)
}

/// The labels of the histogram that a classic series belongs to; `None` for other series.
fn base_of(labels: &Labels) -> Result<Option<(Labels, ClassicSeries)>, String> {
    let name = labels.metric_name();
    let (base, kind) = if let Some(base) = name.strip_suffix("_bucket") {
        let bound = labels
            .get(BUCKET_LABEL)
            .ok_or_else(|| format!("{labels} has no bucket label"))?;
        match parse_signed_number(bound) {
            Some(bound) if !bound.is_nan() => (base, ClassicSeries::Bucket(bound)),
            _ => return Ok(None),
        }
    } else if let Some(base) = name.strip_suffix("_sum") {
        (base, ClassicSeries::Sum)
    } else if let Some(base) = name.strip_suffix("_count") {
        (base, ClassicSeries::Count)
    } else {
        return Ok(None);
    };
    let mut builder = LabelsBuilder::from_labels(labels);
    builder.set(METRIC_NAME, base).set(BUCKET_LABEL, "");
    Ok(Some((builder.build(), kind)))
}

impl ClassicHistogram {
    fn into_histogram(mut self) -> Result<Histogram, String> {
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.buckets.dedup_by(|later, first| later.0 == first.0);
        let last = self.buckets.last().copied();
        let count = match (self.count, last) {
            (Some(count), _) => count,
            (None, Some((_, count))) => count,
            (None, None) => return Err("count must be provided when no buckets are present".into()),
        };
        match last {
            Some((f64::INFINITY, in_last)) if in_last != count => {
                return Err(format!("count mismatch: {count} and {in_last}"));
            }
            Some((f64::INFINITY, _)) => {}
            _ => self.buckets.push((f64::INFINITY, count)),
        }
        let mut positive = Vec::with_capacity(self.buckets.len());
        let mut below = 0.0;
        for (bound, cumulative) in &self.buckets {
            let in_bucket = cumulative - below;
            if in_bucket < 0.0 {
                return Err(format!("count is not cumulative at le={bound}"));
            }
            positive.push(in_bucket);
            below = *cumulative;
        }
        self.buckets.pop();
        Ok(Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            reset_hint: CounterResetHint::Unknown,
            zero_threshold: 0.0,
            sum: self.sum,
            positive_spans: vec![Span {
                offset: 0,
                length: positive.len() as u32,
            }],
            negative_spans: Vec::new(),
            counts: HistogramCounts::Float {
                count,
                zero_count: 0.0,
                positive,
                negative: Vec::new(),
            },
            custom_bounds: self.buckets.iter().map(|(bound, _)| *bound).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(labels: &[(&str, &str)], values: &[f64]) -> LoadedSeries {
        let samples = values.iter().enumerate().map(|(i, value)| LoadedSample {
            timestamp_ms: i as i64 * 1000,
            value: LoadedValue::Float(*value),
            start_ms: None,
        });
        LoadedSeries {
            labels: Labels::from_pairs(labels.iter().copied()),
            samples: samples.collect(),
        }
    }

    #[test]
    fn buckets_become_one_histogram() {
        let bucket = |le| [("__name__", "h_bucket"), ("le", le), ("a", "b")];
        let made = from_classic(&[
            floats(&bucket("+Inf"), &[6.0]),
            floats(&bucket("1"), &[2.0]),
            floats(&bucket("1.0"), &[9.0]),
            floats(&bucket(".5"), &[1.0]),
            floats(&[("__name__", "h_sum"), ("a", "b")], &[7.5]),
            floats(&[("__name__", "other"), ("le", "x")], &[1.0]),
            floats(&bucket("x"), &[1.0]),
        ])
        .unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].labels.to_string(), r#"h{a="b"}"#);
        let LoadedValue::Histogram(histogram) = &made[0].samples[0].value else {
            panic!("a histogram was expected");
        };
        assert_eq!(&*histogram.custom_bounds, [0.5, 1.0]);
        assert_eq!(histogram.sum, 7.5);
        assert_eq!(
            histogram.counts,
            HistogramCounts::Float {
                count: 6.0,
                zero_count: 0.0,
                positive: vec![1.0, 1.0, 4.0],
                negative: Vec::new()
            }
        );
        assert!(histogram.validate().is_ok());
    }

    #[test]
    fn what_contradicts_itself() {
        let bucket = |le| [("__name__", "h_bucket"), ("le", le)];
        let falling = [floats(&bucket("1"), &[3.0]), floats(&bucket("2"), &[1.0])];
        assert!(from_classic(&falling).is_err());
        let count = [
            floats(&[("__name__", "h_count")], &[3.0]),
            floats(&bucket("+Inf"), &[1.0]),
        ];
        assert!(from_classic(&count).is_err());
        assert!(from_classic(&[floats(&[("__name__", "h_sum")], &[3.0])]).is_err());
        assert!(from_classic(&[floats(&[("__name__", "h_bucket")], &[3.0])]).is_err());
    }
}
