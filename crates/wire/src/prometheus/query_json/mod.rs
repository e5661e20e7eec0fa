//! The JSON of query results, written piece by piece.
//!
//! ```text
//! {"resultType":"matrix","result":[
//!   {"metric":{…},"values":[[1435781451.781,"1"],…],"histograms":[[1435781451.781,{…}],…]},…]}
//! ```
//!
//! Holds always:
//! - The bytes are those of Prometheus 3, so that answers can be compared with its own.
//! - What can be long is written between calls of `flow`, which may take what is there: memory
//!   depends on the size of a piece, not of the answer.
//! - Nothing here knows the engine: callers bring labels, times and values.

mod number;
mod stats;
mod time_texts;

use icecore_model::{Exemplar, Labels};

use super::api_json::{write_labels, write_list, write_string, write_string_list};
pub use number::{push_sample_number, push_scalar_number, push_short_timestamp, push_timestamp};
pub use stats::QueryStats;
use stats::write_stats;
pub use time_texts::TimeTexts;

/// Points between two calls of `flow`: some tens of kilobytes.
const POINTS_PER_PIECE: usize = 1024;

/// Room for the text of one point: `,[-9223372036854775.808,"-1.7976931348623157e+308"]` and some.
const POINT_BYTES_MAX: usize = 64;

/// The `resultType` of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    Scalar,
    Text,
    Vector,
    Matrix,
}

impl ResultType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Text => "string",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
        }
    }
}

/// One bucket of a native histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    pub lower: f64,
    pub upper: f64,
    pub lower_inclusive: bool,
    pub upper_inclusive: bool,
    pub count: f64,
}

/// A native histogram of a result: totals, and buckets from the lowest to the highest.
#[derive(Clone, Debug)]
pub struct HistogramPoint<B> {
    pub count: f64,
    pub sum: f64,
    pub buckets: B,
}

/// Begins the data of an answer; the result follows, then [`write_query_end`].
pub fn write_query_start(out: &mut Vec<u8>, result_type: ResultType) {
    out.extend_from_slice(b"{\"status\":\"success\",\"data\":{\"resultType\":\"");
    out.extend_from_slice(result_type.name().as_bytes());
    out.extend_from_slice(b"\",\"result\":");
}

/// What follows the result of a query.
#[derive(Clone, Debug, Default)]
pub struct QueryEnd<'a> {
    pub stats: Option<&'a QueryStats>,
    /// The plan of the query as text.
    pub explain: Option<&'a str>,
    pub warnings: &'a [String],
    pub infos: &'a [String],
}

/// Ends what [`write_query_start`] began.
pub fn write_query_end(out: &mut Vec<u8>, end: &QueryEnd<'_>) {
    if let Some(stats) = end.stats {
        out.extend_from_slice(b",\"stats\":");
        write_stats(out, stats);
    }
    if let Some(explain) = end.explain {
        out.extend_from_slice(b",\"explain\":");
        write_string(out, explain);
    }
    out.push(b'}');
    for (key, notes) in [("warnings", end.warnings), ("infos", end.infos)] {
        if !notes.is_empty() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            write_string_list(out, notes);
        }
    }
    out.push(b'}');
}

/// Writes the result of a scalar query.
pub fn write_scalar(out: &mut Vec<u8>, time_ms: i64, value: f64) {
    out.push(b'[');
    push_short_timestamp(out, time_ms);
    out.extend_from_slice(b",\"");
    push_scalar_number(out, value);
    out.extend_from_slice(b"\"]");
}

/// Writes the result of a query that is a string.
pub fn write_text(out: &mut Vec<u8>, time_ms: i64, text: &str) {
    out.push(b'[');
    push_short_timestamp(out, time_ms);
    out.push(b',');
    write_string(out, text);
    out.push(b']');
}

/// Writes one element of a vector that is a float.
pub fn write_vector_float(out: &mut Vec<u8>, labels: &Labels, time_ms: i64, value: f64) {
    write_metric(out, labels);
    out.extend_from_slice(b",\"value\":[");
    push_timestamp(out, time_ms);
    out.extend_from_slice(b",\"");
    push_sample_number(out, value);
    out.extend_from_slice(b"\"]}");
}

/// Writes one element of a vector that is a histogram.
pub fn write_vector_histogram(
    out: &mut Vec<u8>,
    labels: &Labels,
    time_ms: i64,
    histogram: HistogramPoint<impl Iterator<Item = Bucket>>,
) {
    write_metric(out, labels);
    out.extend_from_slice(b",\"histogram\":");
    write_histogram_point(out, time_ms, histogram);
    out.push(b'}');
}

/// Writes one series of a matrix.
pub fn write_matrix_series<E, B: Iterator<Item = Bucket>>(
    out: &mut Vec<u8>,
    times: &TimeTexts,
    labels: &Labels,
    floats: impl Iterator<Item = (i64, f64)>,
    histograms: impl Iterator<Item = (i64, HistogramPoint<B>)>,
    mut flow: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    write_metric(out, labels);
    let mut cursor = times.cursor();
    let mut count = 0usize;
    for (time_ms, value) in floats {
        if count == 0 {
            out.extend_from_slice(b",\"values\":[");
        } else if count.is_multiple_of(POINTS_PER_PIECE) {
            flow(out)?;
        }
        out.reserve(POINT_BYTES_MAX);
        cursor.push_point_start(out, time_ms, count == 0);
        push_sample_number(out, value);
        out.extend_from_slice(b"\"]");
        count += 1;
    }
    if count > 0 {
        out.push(b']');
    }
    let mut first = true;
    for (time_ms, histogram) in histograms {
        if first {
            out.extend_from_slice(b",\"histograms\":[");
        } else {
            flow(out)?;
            out.push(b',');
        }
        first = false;
        write_histogram_point(out, time_ms, histogram);
    }
    if !first {
        out.push(b']');
    }
    out.push(b'}');
    Ok(())
}

fn write_metric(out: &mut Vec<u8>, labels: &Labels) {
    out.extend_from_slice(b"{\"metric\":");
    write_labels(out, labels);
}

fn write_histogram_point(
    out: &mut Vec<u8>,
    time_ms: i64,
    histogram: HistogramPoint<impl Iterator<Item = Bucket>>,
) {
    out.push(b'[');
    push_timestamp(out, time_ms);
    out.extend_from_slice(b",{\"count\":");
    push_quoted(out, histogram.count);
    out.extend_from_slice(b",\"sum\":");
    push_quoted(out, histogram.sum);
    let mut any = false;
    // Empty buckets are left out. A count that is not a number is none of these.
    for bucket in histogram.buckets.filter(|bucket| bucket.count != 0.0) {
        out.extend_from_slice(if any { b"," } else { b",\"buckets\":[" });
        any = true;
        write_bucket(out, &bucket);
    }
    out.extend_from_slice(if any { b"]}]" } else { b"}]" });
}

fn write_bucket(out: &mut Vec<u8>, bucket: &Bucket) {
    let boundaries = match (bucket.lower_inclusive, bucket.upper_inclusive) {
        (false, true) => b'0',
        (true, false) => b'1',
        (false, false) => b'2',
        (true, true) => b'3',
    };
    out.extend_from_slice(&[b'[', boundaries]);
    for value in [bucket.lower, bucket.upper, bucket.count] {
        out.push(b',');
        push_quoted(out, value);
    }
    out.push(b']');
}

fn push_quoted(out: &mut Vec<u8>, value: f64) {
    out.push(b'"');
    push_sample_number(out, value);
    out.push(b'"');
}

/// Writes one series of `/api/v1/query_exemplars`.
pub fn write_exemplar_series(out: &mut Vec<u8>, labels: &Labels, exemplars: &[Exemplar]) {
    out.extend_from_slice(b"{\"seriesLabels\":");
    write_labels(out, labels);
    out.extend_from_slice(b",\"exemplars\":");
    write_list(out, exemplars, |out, exemplar| {
        out.extend_from_slice(b"{\"labels\":");
        write_labels(out, &exemplar.labels);
        out.extend_from_slice(b",\"value\":");
        push_quoted(out, exemplar.value);
        out.extend_from_slice(b",\"timestamp\":");
        push_timestamp(out, exemplar.timestamp_ms);
        out.push(b'}');
    });
    out.push(b'}');
}

#[cfg(test)]
mod tests;
