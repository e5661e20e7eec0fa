//! Strategies for whole requests.

use icecore_model::{
    CounterResetHint, Histogram, HistogramCounts, Metadata, MetricType, Sample, Span,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::request::{Request, SentExemplar, SentHistogram, Series};

pub(crate) fn requests() -> impl Strategy<Value = Request> {
    let families = vec(("[a-z]{1,6}", metadata()), 0..4);
    (vec(series(), 0..8), families).prop_map(|(series, metadata)| Request { series, metadata })
}

fn labels() -> impl Strategy<Value = Vec<(String, String)>> {
    let value = prop_oneof![9 => "[a-c]{0,3}", 1 => ".{0,150}"];
    (vec(("[a-e]{1,2}", value), 0..5), "[a-c]{1,2}").prop_map(|(mut labels, name)| {
        labels.insert(0, ("__name__".into(), name));
        labels
    })
}

pub(crate) fn series() -> impl Strategy<Value = Series> {
    let content = (
        vec(sample(), 0..4),
        vec(exemplar(), 0..2),
        vec(histogram(), 0..2),
    );
    let start = prop_oneof![Just(0), any::<i64>()];
    (labels(), content, metadata(), start).prop_map(
        |(labels, (mut samples, exemplars, histograms), metadata, created_timestamp_ms)| {
            // A series must have something, or version 2.0 refuses it.
            if samples.is_empty() && histograms.is_empty() {
                samples.push(Sample {
                    timestamp_ms: 1,
                    value: 1.0,
                    start_timestamp_ms: 0,
                });
            }
            Series {
                labels,
                samples,
                exemplars,
                histograms,
                metadata,
                created_timestamp_ms,
            }
        },
    )
}

fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![
        1_600_000_000_000i64..1_800_000_000_000,
        any::<i64>(),
        Just(0)
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let value = prop_oneof![any::<u64>().prop_map(f64::from_bits), Just(0.0), Just(1.0)];
    let start = prop_oneof![Just(0), any::<i64>()];
    (timestamp(), value, start).prop_map(|(timestamp_ms, value, start_timestamp_ms)| Sample {
        timestamp_ms,
        value,
        start_timestamp_ms,
    })
}

fn exemplar() -> impl Strategy<Value = SentExemplar> {
    let labels = vec(("[a-z]{1,8}", "[0-9a-f]{1,16}"), 0..3);
    (labels, timestamp(), any::<f64>()).prop_map(|(labels, timestamp_ms, value)| SentExemplar {
        labels,
        timestamp_ms,
        value,
    })
}

/// Metadata of types whose family is the metric name.
fn metadata() -> impl Strategy<Value = Metadata> {
    let types = prop_oneof![
        Just(MetricType::Unknown),
        Just(MetricType::Counter),
        Just(MetricType::Gauge),
        Just(MetricType::StateSet)
    ];
    (types, "[a-z]{0,2}", "[a-z]{0,1}").prop_map(|(metric_type, help, unit)| Metadata {
        metric_type,
        unit,
        help,
        ..Metadata::default()
    })
}

pub(crate) fn histogram() -> impl Strategy<Value = SentHistogram> {
    let hint =
        (0u64..4).prop_map(|number| CounterResetHint::from_number(number).expect("four are known"));
    let common = (-4i8..=8, hint, any::<f64>(), 0.0..1.0);
    let buckets = (buckets(), buckets(), 0u64..1000, any::<bool>());
    (common, buckets, timestamp(), timestamp()).prop_map(
        |((schema, reset_hint, sum, zero_threshold), buckets, timestamp_ms, start_timestamp_ms)| {
            let ((positive_spans, positive), (negative_spans, negative), zero, is_float) = buckets;
            let counts = if is_float {
                float_counts(&positive, &negative, zero)
            } else {
                integer_counts(&positive, &negative, zero)
            };
            let histogram = Histogram {
                schema,
                reset_hint,
                zero_threshold,
                sum,
                counts,
                positive_spans,
                negative_spans,
                custom_bounds: [].into(),
            };
            SentHistogram {
                timestamp_ms,
                start_timestamp_ms,
                histogram,
            }
        },
    )
}

/// Spans, and a count for each of their buckets.
fn buckets() -> impl Strategy<Value = (Vec<Span>, Vec<u64>)> {
    vec((-3i32..5, vec(0u64..10_000, 1..4)), 0..4).prop_map(|runs| {
        let mut spans = Vec::new();
        let mut counts = Vec::new();
        for (i, (offset, run)) in runs.into_iter().enumerate() {
            let offset = if i == 0 { offset } else { offset.abs() };
            spans.push(Span {
                offset,
                length: run.len() as u32,
            });
            counts.extend(run);
        }
        (spans, counts)
    })
}

fn integer_counts(positive: &[u64], negative: &[u64], zero_count: u64) -> HistogramCounts {
    let deltas = |counts: &[u64]| {
        let before = [0].into_iter().chain(counts.iter().copied());
        counts
            .iter()
            .zip(before)
            .map(|(count, before)| *count as i64 - before as i64)
            .collect()
    };
    HistogramCounts::Integer {
        count: zero_count + positive.iter().sum::<u64>() + negative.iter().sum::<u64>(),
        zero_count,
        positive_deltas: deltas(positive),
        negative_deltas: deltas(negative),
    }
}

fn float_counts(positive: &[u64], negative: &[u64], zero_count: u64) -> HistogramCounts {
    let floats = |counts: &[u64]| counts.iter().map(|count| *count as f64 / 4.0).collect();
    let (positive, negative): (Vec<f64>, Vec<f64>) = (floats(positive), floats(negative));
    let zero_count = zero_count as f64 / 4.0;
    HistogramCounts::Float {
        count: zero_count + positive.iter().sum::<f64>() + negative.iter().sum::<f64>(),
        zero_count,
        positive,
        negative,
    }
}
