//! The bytes of one native histogram, relative to the histogram before it.
//!
//! ```text
//! kind u8     bits 0–1: 1 same layout as before, 2 layout follows; bits 2–3: reset hint
//! [layout]    schema i8 | counts u8 (0 integer, 1 float) | zero threshold f64
//!             | spans positive, spans negative: varint count, (zigzag offset, varint length)*
//!             | custom bounds: varint count, f64*
//!             | varint number of positive and of negative buckets
//! sum         XOR with the sum before
//! counts      count, zero count, positive, negative buckets, each relative to the same one before
//!             (integers: zigzag of the difference; floats: XOR); with a new layout: to 0
//!
//! XOR = u8 (leading zero bytes << 4 | number of bytes) and that many bytes of old ^ new,
//!       big-endian, trailing zero bytes left out; 0 for no change
//! ```
//!
//! Every bit of every field survives, also of histograms that contradict themselves.

use std::sync::Arc;

use icecore_model::varint::{push_varint, push_zigzag};
use icecore_model::{CounterResetHint, Histogram, HistogramCounts, Span};

use crate::DecodeError;
use crate::reader::Reader;

pub(crate) const KIND_NONE: u8 = 0;
const KIND_SAME_LAYOUT: u8 = 1;
const KIND_NEW_LAYOUT: u8 = 2;
const KIND_MASK: u8 = 0b11;

const INTEGER_COUNTS: u8 = 0;
const FLOAT_COUNTS: u8 = 1;

/// Spans without buckets cost nothing but the layout, which is written once. A layout with far more
/// spans than buckets is not shared, so that the memory of a decoded record stays in proportion to
/// its bytes.
const SPANS_PER_BUCKET: usize = 8;

/// Appends a histogram.
pub(crate) fn push(buffer: &mut Vec<u8>, previous: Option<&Histogram>, histogram: &Histogram) {
    let hint = histogram.reset_hint.number() << 2;
    let previous = previous.filter(|p| is_shareable(p) && same_layout(p, histogram));
    match previous {
        Some(_) => buffer.push(KIND_SAME_LAYOUT | hint),
        None => {
            buffer.push(KIND_NEW_LAYOUT | hint);
            push_layout(buffer, histogram);
        }
    }
    push_xor(buffer, previous.map_or(0.0, |p| p.sum), histogram.sum);
    push_counts(buffer, previous.map(|p| &p.counts), &histogram.counts);
}

/// Reads what [`push`] wrote; `None` is the kind 0, "no histogram".
pub(crate) fn read(
    reader: &mut Reader<'_>,
    previous: Option<&Histogram>,
) -> Result<Option<Histogram>, DecodeError> {
    let byte = reader.u8()?;
    let hint = CounterResetHint::from_number((byte >> 2).into());
    let reset_hint = hint.ok_or_else(|| reader.error("unknown reset hint"))?;
    match byte & KIND_MASK {
        KIND_NONE if byte == KIND_NONE => Ok(None),
        KIND_SAME_LAYOUT => {
            let previous = previous.filter(|p| is_shareable(p));
            let previous = previous.ok_or_else(|| reader.error("no layout to repeat"))?;
            let mut histogram = Histogram {
                reset_hint,
                ..previous.clone()
            };
            histogram.sum = read_xor(reader, previous.sum)?;
            read_counts(reader, &mut histogram.counts)?;
            Ok(Some(histogram))
        }
        KIND_NEW_LAYOUT => {
            let mut histogram = read_layout(reader)?;
            histogram.reset_hint = reset_hint;
            histogram.sum = read_xor(reader, 0.0)?;
            read_counts(reader, &mut histogram.counts)?;
            Ok(Some(histogram))
        }
        _ => Err(reader.error("unknown kind of histogram")),
    }
}

pub(crate) fn bucket_counts(counts: &HistogramCounts) -> (usize, usize) {
    match counts {
        HistogramCounts::Integer {
            positive_deltas,
            negative_deltas,
            ..
        } => (positive_deltas.len(), negative_deltas.len()),
        HistogramCounts::Float {
            positive, negative, ..
        } => (positive.len(), negative.len()),
    }
}

fn is_shareable(histogram: &Histogram) -> bool {
    let (positive, negative) = bucket_counts(&histogram.counts);
    let spans = histogram.positive_spans.len() + histogram.negative_spans.len();
    spans <= SPANS_PER_BUCKET * (positive + negative + 1)
}

/// Whether two histograms differ in nothing but their reset hint, sum and counts.
pub(crate) fn same_layout(a: &Histogram, b: &Histogram) -> bool {
    a.schema == b.schema
        && matches!(a.counts, HistogramCounts::Integer { .. })
            == matches!(b.counts, HistogramCounts::Integer { .. })
        && bucket_counts(&a.counts) == bucket_counts(&b.counts)
        && a.zero_threshold.to_bits() == b.zero_threshold.to_bits()
        && a.positive_spans == b.positive_spans
        && a.negative_spans == b.negative_spans
        && (Arc::ptr_eq(&a.custom_bounds, &b.custom_bounds)
            || a.custom_bounds
                .iter()
                .map(|v| v.to_bits())
                .eq(b.custom_bounds.iter().map(|v| v.to_bits())))
}

pub(crate) fn push_layout(buffer: &mut Vec<u8>, histogram: &Histogram) {
    let counts = match histogram.counts {
        HistogramCounts::Integer { .. } => INTEGER_COUNTS,
        HistogramCounts::Float { .. } => FLOAT_COUNTS,
    };
    buffer.extend_from_slice(&[histogram.schema as u8, counts]);
    buffer.extend_from_slice(&histogram.zero_threshold.to_bits().to_le_bytes());
    for spans in [&histogram.positive_spans, &histogram.negative_spans] {
        push_varint(buffer, spans.len() as u64);
        for span in spans {
            push_zigzag(buffer, span.offset.into());
            push_varint(buffer, span.length.into());
        }
    }
    push_varint(buffer, histogram.custom_bounds.len() as u64);
    for bound in histogram.custom_bounds.iter() {
        buffer.extend_from_slice(&bound.to_bits().to_le_bytes());
    }
    let (positive, negative) = bucket_counts(&histogram.counts);
    push_varint(buffer, positive as u64);
    push_varint(buffer, negative as u64);
}

/// A histogram of this layout whose counts are all zero.
pub(crate) fn read_layout(reader: &mut Reader<'_>) -> Result<Histogram, DecodeError> {
    let schema = reader.u8()? as i8;
    let counts = reader.u8()?;
    let zero_threshold = reader.f64()?;
    let positive_spans = read_spans(reader)?;
    let negative_spans = read_spans(reader)?;
    let bounds = reader.count(8)?;
    let custom_bounds = (0..bounds)
        .map(|_| reader.f64())
        .collect::<Result<_, _>>()?;
    let (positive, negative) = (reader.count(1)?, reader.count(1)?);
    let counts = match counts {
        INTEGER_COUNTS => HistogramCounts::Integer {
            count: 0,
            zero_count: 0,
            positive_deltas: vec![0; positive],
            negative_deltas: vec![0; negative],
        },
        FLOAT_COUNTS => HistogramCounts::Float {
            count: 0.0,
            zero_count: 0.0,
            positive: vec![0.0; positive],
            negative: vec![0.0; negative],
        },
        _ => return Err(reader.error("unknown kind of counts")),
    };
    Ok(Histogram {
        schema,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold,
        sum: 0.0,
        counts,
        positive_spans,
        negative_spans,
        custom_bounds,
    })
}

fn read_spans(reader: &mut Reader<'_>) -> Result<Vec<Span>, DecodeError> {
    let count = reader.count(2)?;
    let mut spans = Vec::with_capacity(count);
    for _ in 0..count {
        let offset = i32::try_from(reader.zigzag()?);
        let offset = offset.map_err(|_| reader.error("span offset does not fit 32 bits"))?;
        spans.push(Span {
            offset,
            length: reader.varint32()?,
        });
    }
    Ok(spans)
}

fn push_counts(buffer: &mut Vec<u8>, previous: Option<&HistogramCounts>, counts: &HistogramCounts) {
    match counts {
        HistogramCounts::Integer {
            count,
            zero_count,
            positive_deltas,
            negative_deltas,
        } => {
            let (old_count, old_zero, old_positive, old_negative) = match previous {
                Some(HistogramCounts::Integer {
                    count,
                    zero_count,
                    positive_deltas,
                    negative_deltas,
                }) => (
                    *count,
                    *zero_count,
                    &positive_deltas[..],
                    &negative_deltas[..],
                ),
                _ => (0, 0, &[][..], &[][..]),
            };
            push_zigzag(buffer, count.wrapping_sub(old_count) as i64);
            push_zigzag(buffer, zero_count.wrapping_sub(old_zero) as i64);
            push_differences(buffer, old_positive, positive_deltas);
            push_differences(buffer, old_negative, negative_deltas);
        }
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        } => {
            let (old_count, old_zero, old_positive, old_negative) = match previous {
                Some(HistogramCounts::Float {
                    count,
                    zero_count,
                    positive,
                    negative,
                }) => (*count, *zero_count, &positive[..], &negative[..]),
                _ => (0.0, 0.0, &[][..], &[][..]),
            };
            push_xor(buffer, old_count, *count);
            push_xor(buffer, old_zero, *zero_count);
            push_xors(buffer, old_positive, positive);
            push_xors(buffer, old_negative, negative);
        }
    }
}

fn push_differences(buffer: &mut Vec<u8>, old: &[i64], new: &[i64]) {
    for (i, value) in new.iter().enumerate() {
        push_zigzag(buffer, value.wrapping_sub(old.get(i).copied().unwrap_or(0)));
    }
}

fn push_xors(buffer: &mut Vec<u8>, old: &[f64], new: &[f64]) {
    for (i, value) in new.iter().enumerate() {
        push_xor(buffer, old.get(i).copied().unwrap_or(0.0), *value);
    }
}

/// Turns the counts of the histogram before into those of this one.
fn read_counts(reader: &mut Reader<'_>, counts: &mut HistogramCounts) -> Result<(), DecodeError> {
    match counts {
        HistogramCounts::Integer {
            count,
            zero_count,
            positive_deltas,
            negative_deltas,
        } => {
            *count = count.wrapping_add(reader.zigzag()? as u64);
            *zero_count = zero_count.wrapping_add(reader.zigzag()? as u64);
            for delta in positive_deltas.iter_mut().chain(negative_deltas) {
                *delta = delta.wrapping_add(reader.zigzag()?);
            }
        }
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        } => {
            *count = read_xor(reader, *count)?;
            *zero_count = read_xor(reader, *zero_count)?;
            for value in positive.iter_mut().chain(negative) {
                *value = read_xor(reader, *value)?;
            }
        }
    }
    Ok(())
}

fn push_xor(buffer: &mut Vec<u8>, old: f64, new: f64) {
    let xor = old.to_bits() ^ new.to_bits();
    if xor == 0 {
        buffer.push(0);
        return;
    }
    let leading = xor.leading_zeros() as usize / 8;
    let end = 8 - xor.trailing_zeros() as usize / 8;
    buffer.push((leading << 4 | (end - leading)) as u8);
    buffer.extend_from_slice(&xor.to_be_bytes()[leading..end]);
}

fn read_xor(reader: &mut Reader<'_>, old: f64) -> Result<f64, DecodeError> {
    let head = usize::from(reader.u8()?);
    let (leading, len) = (head >> 4, head & 0xf);
    if leading + len > 8 {
        return Err(reader.error("XOR is wider than eight bytes"));
    }
    let mut xor = [0; 8];
    xor[leading..leading + len].copy_from_slice(reader.bytes(len)?);
    Ok(f64::from_bits(old.to_bits() ^ u64::from_be_bytes(xor)))
}
