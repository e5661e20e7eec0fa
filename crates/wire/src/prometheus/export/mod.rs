//! Export: one line of JSON per series, lossless to the bit.
//!
//! ```text
//! {"metric":{"__name__":"up"},"values":[1,"StaleNaN"],"timestamps":[1700000000000,1700000015000]}
//! ```
//!
//! A value that is a number is written as one, with the shortest digits that read back as the same
//! 64 bits; −0 keeps its sign. The rest are strings:
//!
//! | string | value |
//! | --- | --- |
//! | `"Inf"`, `"-Inf"` | the infinities |
//! | `"NaN"` | the NaN of Prometheus and Go, bits 7ff8000000000001 |
//! | `"StaleNaN"` | the staleness marker, bits 7ff0000000000002 |
//! | `"NaN:0x7ff8000000000000"` | any other NaN, with its bits |
//!
//! Optional keys:
//!
//! | key | what |
//! | --- | --- |
//! | `"start_timestamps"` | a list of `[timestamp, start timestamp]`, before the samples that they are about |
//! | `"histograms"` | a list of native histograms, see [`write_histogram`] |
//! | `"exemplars"` | a list of `{"labels":{…},"timestamp":…,"value":…}` |
//! | `"metadata"` | of the metric family, once per export: `{"family":…,"type":…,"unit":…,"help":…}` |

use icecore_model::{
    CounterResetHint, Exemplar, Histogram, HistogramCounts, HistogramSample, Metadata, Span,
    Temporality, is_stale_nan,
};

use super::api_json::{write_labels, write_list, write_string};
use super::number::{push_formatted, push_json_number, push_signed, push_unsigned};
use crate::SeriesContent;

/// The NaN of Prometheus and Go.
pub(super) const NORMAL_NAN_BITS: u64 = 0x7ff8_0000_0000_0001;

/// Writes one series as a line, with its line end.
pub fn write_export_line(
    out: &mut Vec<u8>,
    series: SeriesContent<'_>,
    metadata: Option<(&str, &Metadata)>,
) {
    out.extend_from_slice(b"{\"metric\":");
    write_labels(out, series.labels);
    if let Some((family, metadata)) = metadata {
        write_metadata(out, family, metadata);
    }
    let starts = series.own_starts();
    if starts.clone().next().is_some() {
        out.extend_from_slice(b",\"start_timestamps\":");
        write_list(out, starts, |out, (timestamp, start)| {
            write_list(out, [timestamp, start], push_signed);
        });
    }
    out.extend_from_slice(b",\"values\":");
    write_values(out, series.values);
    out.extend_from_slice(b",\"timestamps\":");
    write_list(out, series.timestamps, |out, t| push_signed(out, *t));
    if !series.histograms.is_empty() {
        out.extend_from_slice(b",\"histograms\":");
        write_list(out, series.histograms, write_histogram);
    }
    if !series.exemplars.is_empty() {
        out.extend_from_slice(b",\"exemplars\":");
        write_list(out, series.exemplars, write_exemplar);
    }
    out.extend_from_slice(b"}\n");
}

fn write_metadata(out: &mut Vec<u8>, family: &str, metadata: &Metadata) {
    out.extend_from_slice(b",\"metadata\":{\"family\":");
    write_string(out, family);
    for (key, text) in [
        ("type", metadata.metric_type.name()),
        ("unit", &metadata.unit),
        ("help", &metadata.help),
    ] {
        push_formatted(out, format_args!(",\"{key}\":"));
        write_string(out, text);
    }
    let temporality = match metadata.temporality {
        Temporality::Unspecified => "",
        Temporality::Cumulative => ",\"temporality\":\"cumulative\"",
        Temporality::Delta => ",\"temporality\":\"delta\"",
    };
    out.extend_from_slice(temporality.as_bytes());
    if metadata.monotonic {
        out.extend_from_slice(b",\"monotonic\":true");
    }
    out.push(b'}');
}

fn write_exemplar(out: &mut Vec<u8>, exemplar: &Exemplar) {
    out.extend_from_slice(b"{\"labels\":");
    write_labels(out, &exemplar.labels);
    out.extend_from_slice(b",\"timestamp\":");
    push_signed(out, exemplar.timestamp_ms);
    out.extend_from_slice(b",\"value\":");
    write_value(out, exemplar.value);
    out.push(b'}');
}

fn write_values(out: &mut Vec<u8>, values: &[f64]) {
    write_list(out, values, |out, value| write_value(out, *value));
}

/// Writes any float, lossless to the bit, see the table above.
pub fn write_value(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        push_json_number(out, value);
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"\"Inf\"" } else { b"\"-Inf\"" });
    } else if is_stale_nan(value) {
        out.extend_from_slice(b"\"StaleNaN\"");
    } else if value.to_bits() == NORMAL_NAN_BITS {
        out.extend_from_slice(b"\"NaN\"");
    } else {
        push_formatted(out, format_args!("\"NaN:{:#018x}\"", value.to_bits()));
    }
}

/// Writes one native histogram, complete. Spans are `[offset, length]`. Integer histograms have
/// `positive_deltas` and `negative_deltas`, float histograms `positive_counts` and
/// `negative_counts`; the keys distinguish the two.
///
/// ```text
/// {"timestamp":…,"schema":3,"reset_hint":"unknown","sum":…,"count":…,"zero_threshold":…,
///  "zero_count":…,"positive_spans":[[0,2]],"positive_deltas":[1,2],"negative_spans":[],
///  "negative_deltas":[]}
/// ```
///
/// Only histograms of schema −53 have `custom_bounds`.
pub fn write_histogram(out: &mut Vec<u8>, sample: &HistogramSample) {
    let histogram = sample.histogram.as_ref();
    out.extend_from_slice(b"{\"timestamp\":");
    push_signed(out, sample.timestamp_ms);
    out.extend_from_slice(b",\"schema\":");
    push_signed(out, histogram.schema.into());
    out.extend_from_slice(b",\"reset_hint\":\"");
    out.extend_from_slice(hint_name(histogram.reset_hint).as_bytes());
    out.extend_from_slice(b"\",\"sum\":");
    write_value(out, histogram.sum);
    write_counts(out, histogram);
    if !histogram.custom_bounds.is_empty() {
        out.extend_from_slice(b",\"custom_bounds\":");
        write_values(out, &histogram.custom_bounds);
    }
    out.push(b'}');
}

fn write_counts(out: &mut Vec<u8>, histogram: &Histogram) {
    match &histogram.counts {
        HistogramCounts::Integer {
            count,
            zero_count,
            positive_deltas,
            negative_deltas,
        } => {
            write_totals(
                out,
                histogram,
                |out| push_unsigned(out, *count),
                |out| {
                    push_unsigned(out, *zero_count);
                },
            );
            write_spans(out, "positive", &histogram.positive_spans);
            out.extend_from_slice(b",\"positive_deltas\":");
            write_list(out, positive_deltas, |out, delta| push_signed(out, *delta));
            write_spans(out, "negative", &histogram.negative_spans);
            out.extend_from_slice(b",\"negative_deltas\":");
            write_list(out, negative_deltas, |out, delta| push_signed(out, *delta));
        }
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        } => {
            write_totals(
                out,
                histogram,
                |out| write_value(out, *count),
                |out| {
                    write_value(out, *zero_count);
                },
            );
            write_spans(out, "positive", &histogram.positive_spans);
            out.extend_from_slice(b",\"positive_counts\":");
            write_values(out, positive);
            write_spans(out, "negative", &histogram.negative_spans);
            out.extend_from_slice(b",\"negative_counts\":");
            write_values(out, negative);
        }
    }
}

fn write_totals(
    out: &mut Vec<u8>,
    histogram: &Histogram,
    write_count: impl FnOnce(&mut Vec<u8>),
    write_zero_count: impl FnOnce(&mut Vec<u8>),
) {
    out.extend_from_slice(b",\"count\":");
    write_count(out);
    out.extend_from_slice(b",\"zero_threshold\":");
    write_value(out, histogram.zero_threshold);
    out.extend_from_slice(b",\"zero_count\":");
    write_zero_count(out);
}

fn write_spans(out: &mut Vec<u8>, side: &str, spans: &[Span]) {
    push_formatted(out, format_args!(",\"{side}_spans\":"));
    write_list(out, spans, |out, span| {
        write_list(
            out,
            [i64::from(span.offset), i64::from(span.length)],
            push_signed,
        );
    });
}

fn hint_name(hint: CounterResetHint) -> &'static str {
    match hint {
        CounterResetHint::Unknown => "unknown",
        CounterResetHint::Reset => "reset",
        CounterResetHint::NotReset => "not_reset",
        CounterResetHint::Gauge => "gauge",
    }
}

#[cfg(test)]
mod tests;
