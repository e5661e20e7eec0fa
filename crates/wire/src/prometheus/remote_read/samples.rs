//! The answer with samples: one message, which the server compresses as a whole.
//!
//! ```text
//! ReadResponse { QueryResult results = 1; }      QueryResult { TimeSeries timeseries = 1; }
//! TimeSeries   { Label labels = 1; Sample samples = 2; Histogram histograms = 4; }
//! ```

use icecore_model::varint::{push_varint, zigzag};
use icecore_model::{Histogram, HistogramCounts, HistogramSample, Labels, SeriesSamples, Span};

use crate::prometheus::message::{
    put_bytes, put_double, put_message, put_number, put_packed_doubles, put_packed_zigzag,
    put_present_double, put_present_number,
};

/// Appends one series to the content of a `QueryResult`.
pub fn push_time_series(out: &mut Vec<u8>, series: &SeriesSamples) {
    put_message(out, 1, |out| {
        push_labels(out, &series.labels);
        let floats = &series.floats;
        for (timestamp, value) in floats.timestamps.iter().zip(&floats.values) {
            put_message(out, 2, |out| {
                put_double(out, 1, *value);
                put_number(out, 2, *timestamp as u64);
            });
        }
        for sample in &series.histograms {
            put_message(out, 4, |out| push_histogram(out, sample));
        }
    });
}

/// Appends a whole `QueryResult` to a response, made of series that [`push_time_series`] has
/// written.
pub fn push_query_result<T: AsRef<[u8]>>(out: &mut Vec<u8>, series: &[T]) {
    let length: usize = series.iter().map(|series| series.as_ref().len()).sum();
    push_varint(out, 1 << 3 | 2);
    push_varint(out, length as u64);
    for series in series {
        out.extend_from_slice(series.as_ref());
    }
}

/// Compresses a response; `None` when it has more than the 4 GiB that snappy can say.
pub fn finish_response(response: &[u8]) -> Option<Vec<u8>> {
    snap::raw::Encoder::new().compress_vec(response).ok()
}

/// Labels as field 1, which they are in every message that has them.
pub(super) fn push_labels(out: &mut Vec<u8>, labels: &Labels) {
    for (name, value) in labels.iter() {
        put_message(out, 1, |out| {
            put_bytes(out, 1, name.as_bytes());
            put_bytes(out, 2, value.as_bytes());
        });
    }
}

fn push_histogram(out: &mut Vec<u8>, sample: &HistogramSample) {
    let histogram = &*sample.histogram;
    match &histogram.counts {
        HistogramCounts::Integer {
            count,
            zero_count,
            positive_deltas,
            negative_deltas,
        } => {
            put_present_number(out, 1, *count);
            push_totals(out, histogram);
            put_present_number(out, 6, *zero_count);
            push_spans(out, 8, &histogram.negative_spans);
            put_packed_zigzag(out, 9, negative_deltas);
            push_spans(out, 11, &histogram.positive_spans);
            put_packed_zigzag(out, 12, positive_deltas);
        }
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        } => {
            put_present_double(out, 2, *count);
            push_totals(out, histogram);
            put_present_double(out, 7, *zero_count);
            push_spans(out, 8, &histogram.negative_spans);
            put_packed_doubles(out, 10, negative);
            push_spans(out, 11, &histogram.positive_spans);
            put_packed_doubles(out, 13, positive);
        }
    }
    put_number(out, 14, histogram.reset_hint.number().into());
    put_number(out, 15, sample.timestamp_ms as u64);
    put_packed_doubles(out, 16, &histogram.custom_bounds);
}

fn push_totals(out: &mut Vec<u8>, histogram: &Histogram) {
    put_double(out, 3, histogram.sum);
    put_number(out, 4, zigzag(histogram.schema.into()));
    put_double(out, 5, histogram.zero_threshold);
}

fn push_spans(out: &mut Vec<u8>, field: u32, spans: &[Span]) {
    for span in spans {
        put_message(out, field, |out| {
            put_number(out, 1, zigzag(span.offset.into()));
            put_number(out, 2, span.length.into());
        });
    }
}
