//! The protobuf form: a `MetricFamily` of the client data model per family, each after its length.
//!
//! ```text
//! MetricFamily { string name = 1; MetricType type = 3; Metric metric = 4; }
//! Metric       { LabelPair label = 1; Gauge gauge = 2; Counter counter = 3; Untyped untyped = 5;
//!                int64 timestamp_ms = 6; Histogram histogram = 7; }
//! ```
//!
//! Histograms have float counts, as those of Prometheus have.

use std::borrow::Cow;

use icecore_model::varint::{push_varint, zigzag};
use icecore_model::{Histogram, HistogramCounts, Span};

use super::{FederatedValue, Kind};
use crate::prometheus::message::{
    put_bytes, put_length_before, put_message, put_packed_doubles, put_present_double,
    put_present_number,
};

pub(super) fn push_family(out: &mut Vec<u8>, name: &str, kind: Kind, metrics: &[u8]) {
    let number = match kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Untyped => 3,
        Kind::Histogram => 4,
        Kind::GaugeHistogram => 5,
    };
    put_length_before(out, |out| {
        put_bytes(out, 1, name.as_bytes());
        put_present_number(out, 3, number);
        out.extend_from_slice(metrics);
    });
}

/// Appends one metric as a field of its family.
pub(super) fn push_metric<'a>(
    out: &mut Vec<u8>,
    labels: impl Iterator<Item = (Cow<'a, str>, &'a str)>,
    timestamp_ms: i64,
    value: FederatedValue<'_>,
    kind: Kind,
) {
    put_message(out, 4, |out| {
        for (name, value) in labels {
            put_message(out, 1, |out| {
                put_bytes(out, 1, name.as_bytes());
                put_bytes(out, 2, value.as_bytes());
            });
        }
        match value {
            FederatedValue::Float(value) => {
                let field = match kind {
                    Kind::Gauge => 2,
                    Kind::Counter => 3,
                    _ => 5,
                };
                put_message(out, field, |out| put_present_double(out, 1, value));
            }
            FederatedValue::Histogram(histogram) => {
                put_message(out, 7, |out| push_histogram(out, histogram));
            }
        }
        put_present_number(out, 6, timestamp_ms as u64);
    });
}

fn push_histogram(out: &mut Vec<u8>, histogram: &Histogram) {
    let (count, zero_count, positive, negative) = float_counts(&histogram.counts);
    put_present_double(out, 2, histogram.sum);
    put_present_double(out, 4, count);
    put_present_number(out, 5, zigzag(histogram.schema.into()));
    put_present_double(out, 6, histogram.zero_threshold);
    put_present_double(out, 8, zero_count);
    push_spans(out, 9, &histogram.negative_spans);
    put_packed_doubles(out, 11, &negative);
    push_spans(out, 12, &histogram.positive_spans);
    put_packed_doubles(out, 14, &positive);
    if histogram.positive_spans.is_empty() && histogram.negative_spans.is_empty() {
        // An empty span marks a native histogram without buckets.
        push_spans(
            out,
            12,
            &[Span {
                offset: 0,
                length: 0,
            }],
        );
    }
}

fn push_spans(out: &mut Vec<u8>, field: u32, spans: &[Span]) {
    for span in spans {
        put_message(out, field, |out| {
            put_present_number(out, 1, zigzag(span.offset.into()));
            push_varint(out, 2 << 3);
            push_varint(out, span.length.into());
        });
    }
}

fn float_counts(counts: &HistogramCounts) -> (f64, f64, Vec<f64>, Vec<f64>) {
    match counts {
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        } => (*count, *zero_count, positive.clone(), negative.clone()),
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
    }
}

fn absolute(deltas: &[i64]) -> Vec<f64> {
    let counts = deltas.iter().scan(0i64, |count, delta| {
        *count = count.wrapping_add(*delta);
        Some(*count as f64)
    });
    counts.collect()
}
