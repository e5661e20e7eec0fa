//! One native histogram in a frame.
//!
//! ```text
//! timestamp zigzag ─ flags u8 ─ schema zigzag ─ zero threshold f64 ─ sum f64
//! ─ count, zero count (varints or f64) ─ spans ─ buckets (zigzag deltas or f64), twice ─ bounds
//! ```
//!
//! The flags are the reset hint (bits 0–1) and whether counts are floats (bit 2).

use icecore_model::varint::{push_varint, push_zigzag};
use icecore_model::{
    CounterResetHint, Histogram, HistogramCounts, HistogramSample, MAX_HISTOGRAM_BUCKETS, Span,
};

use super::FrameError;
use super::bytes::{Reader, push_float};

const HINT_BITS: u8 = 0b11;
const FLOAT_COUNTS: u8 = 0b100;

type Result<T> = std::result::Result<T, FrameError>;

pub(super) fn push_histogram(out: &mut Vec<u8>, sample: &HistogramSample) {
    let histogram = sample.histogram.as_ref();
    push_zigzag(out, sample.timestamp_ms);
    let float = matches!(histogram.counts, HistogramCounts::Float { .. });
    out.push(histogram.reset_hint.number() | if float { FLOAT_COUNTS } else { 0 });
    push_zigzag(out, histogram.schema.into());
    push_float(out, histogram.zero_threshold);
    push_float(out, histogram.sum);
    match &histogram.counts {
        HistogramCounts::Integer {
            count,
            zero_count,
            positive_deltas,
            negative_deltas,
        } => {
            push_varint(out, *count);
            push_varint(out, *zero_count);
            push_spans(out, histogram);
            for deltas in [positive_deltas, negative_deltas] {
                push_varint(out, deltas.len() as u64);
                deltas.iter().for_each(|delta| push_zigzag(out, *delta));
            }
        }
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        } => {
            push_float(out, *count);
            push_float(out, *zero_count);
            push_spans(out, histogram);
            push_floats(out, positive);
            push_floats(out, negative);
        }
    }
    push_floats(out, &histogram.custom_bounds);
}

fn push_spans(out: &mut Vec<u8>, histogram: &Histogram) {
    for spans in [&histogram.positive_spans, &histogram.negative_spans] {
        push_varint(out, spans.len() as u64);
        for span in spans {
            push_zigzag(out, span.offset.into());
            push_varint(out, span.length.into());
        }
    }
}

fn push_floats(out: &mut Vec<u8>, values: &[f64]) {
    push_varint(out, values.len() as u64);
    values.iter().for_each(|value| push_float(out, *value));
}

/// Reads a histogram, which may still contradict itself.
pub(super) fn read_histogram(reader: &mut Reader<'_>) -> Result<(i64, Histogram)> {
    let timestamp_ms = reader.zigzag()?;
    let flags = reader.byte()?;
    if flags & !(HINT_BITS | FLOAT_COUNTS) != 0 {
        return Err(FrameError::Malformed("unknown flags of a histogram"));
    }
    let hint = CounterResetHint::from_number(u64::from(flags & HINT_BITS));
    let schema = i8::try_from(reader.zigzag()?);
    let schema = schema.map_err(|_| FrameError::Malformed("schema out of range"))?;
    let zero_threshold = reader.float()?;
    let sum = reader.float()?;
    let (counts, positive_spans, negative_spans);
    if flags & FLOAT_COUNTS == 0 {
        let (count, zero_count) = (reader.varint()?, reader.varint()?);
        positive_spans = read_spans(reader)?;
        negative_spans = read_spans(reader)?;
        counts = HistogramCounts::Integer {
            count,
            zero_count,
            positive_deltas: read_list(reader, 1, Reader::zigzag)?,
            negative_deltas: read_list(reader, 1, Reader::zigzag)?,
        };
    } else {
        let (count, zero_count) = (reader.float()?, reader.float()?);
        positive_spans = read_spans(reader)?;
        negative_spans = read_spans(reader)?;
        counts = HistogramCounts::Float {
            count,
            zero_count,
            positive: read_list(reader, 8, Reader::float)?,
            negative: read_list(reader, 8, Reader::float)?,
        };
    }
    let histogram = Histogram {
        schema,
        reset_hint: hint.unwrap_or_default(),
        zero_threshold,
        sum,
        counts,
        positive_spans,
        negative_spans,
        custom_bounds: read_list(reader, 8, Reader::float)?.into(),
    };
    Ok((timestamp_ms, histogram))
}

fn read_spans(reader: &mut Reader<'_>) -> Result<Vec<Span>> {
    read_list(reader, 2, |reader| {
        let offset = i32::try_from(reader.zigzag()?);
        let length = u32::try_from(reader.varint()?);
        match (offset, length) {
            (Ok(offset), Ok(length)) => Ok(Span { offset, length }),
            _ => Err(FrameError::Malformed("span out of range")),
        }
    })
}

fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    each_bytes: usize,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = reader.count(each_bytes)?;
    if count > MAX_HISTOGRAM_BUCKETS {
        return Err(FrameError::Malformed("histogram with too many buckets"));
    }
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(read(reader)?);
    }
    Ok(list)
}
