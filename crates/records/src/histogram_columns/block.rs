//! The columns of histograms that have one layout.
//!
//! ```text
//! columns    hints | sums | integer counts, or float counts, as the layout says
//! hints      (uv ((length − 1) << 2 | reset hint))*, all histograms together
//! integer    zero counts | each positive bucket | each negative bucket | rest, a column each
//!            a bucket's column has its counts, not the differences to the bucket below;
//!            rest = count − zero count − all buckets, nearly always 0
//! float      counts | zero counts | each positive bucket | each negative bucket, as for sums
//! sums       uv length | a chunk of values (`columns::values`)
//! column     u8 0 | integers (`columns::integers`)
//!            u8 1 | zz first | integers: the differences of neighbours
//! ```
//!
//! Integer arithmetic wraps, so that every count comes back.

use std::sync::Arc;

use icecore_model::varint::{push_varint, push_zigzag};
use icecore_model::{CounterResetHint, Histogram, HistogramCounts};

use crate::columns::{integers, values};
use crate::reader::Reader;
use crate::{DecodeError, histogram};

const PLAIN: u8 = 0;
const DIFFERENCES: u8 = 1;

/// What histograms may take in memory per byte of their columns.
const MEMORY_PER_BYTE: usize = 512;

/// Memory of a histogram besides its buckets and spans: the value itself, its list entries, the
/// headers of its allocations. Part of the format, so it does not follow the type.
const HISTOGRAM_BYTES: usize = 240;

/// Whether that many bytes of columns may expand to `len` histograms of a layout.
pub(super) fn is_in_proportion(layout: &Histogram, len: usize, bytes: usize) -> bool {
    let (positive, negative) = histogram::bucket_counts(&layout.counts);
    let spans = layout.positive_spans.len() + layout.negative_spans.len();
    let numbers = positive + negative + spans;
    let each = 8 * numbers + HISTOGRAM_BYTES;
    len.saturating_mul(each) <= bytes.saturating_mul(MEMORY_PER_BYTE)
}

/// The columns of a block; all histograms have the layout of the first.
pub(super) fn encode(block: &[&Histogram]) -> Vec<u8> {
    let mut out = Vec::new();
    for run in block.chunk_by(|a, b| a.reset_hint == b.reset_hint) {
        let hint = u64::from(run[0].reset_hint.number());
        push_varint(&mut out, (run.len() as u64 - 1) << 2 | hint);
    }
    let sums: Vec<f64> = block.iter().map(|histogram| histogram.sum).collect();
    push_values(&mut out, &sums);
    match block.first().map(|histogram| &histogram.counts) {
        Some(HistogramCounts::Integer { .. }) => push_integer_counts(&mut out, block),
        Some(HistogramCounts::Float { .. }) => push_float_counts(&mut out, block),
        None => {}
    }
    out
}

/// Appends the histograms of a block.
pub(super) fn read(
    reader: &mut Reader<'_>,
    layout: &Histogram,
    len: usize,
    stored: &mut Vec<Arc<Histogram>>,
) -> Result<(), DecodeError> {
    if !is_in_proportion(layout, len, reader.remaining()) {
        return Err(reader.error("more histograms than the bytes of a block may expand to"));
    }
    let hints = read_hints(reader, len)?;
    let sums = read_values(reader, len)?;
    let counts = match &layout.counts {
        HistogramCounts::Integer {
            positive_deltas,
            negative_deltas,
            ..
        } => read_integer_counts(reader, len, positive_deltas.len(), negative_deltas.len())?,
        HistogramCounts::Float {
            positive, negative, ..
        } => read_float_counts(reader, len, positive.len(), negative.len())?,
    };
    let fields = hints.into_iter().zip(sums).zip(counts);
    stored.extend(fields.map(|((reset_hint, sum), counts)| {
        Arc::new(Histogram {
            schema: layout.schema,
            reset_hint,
            zero_threshold: layout.zero_threshold,
            sum,
            counts,
            positive_spans: layout.positive_spans.clone(),
            negative_spans: layout.negative_spans.clone(),
            custom_bounds: Arc::clone(&layout.custom_bounds),
        })
    }));
    Ok(())
}

fn read_hints(reader: &mut Reader<'_>, len: usize) -> Result<Vec<CounterResetHint>, DecodeError> {
    let mut hints = Vec::with_capacity(len);
    while hints.len() < len {
        let head = reader.varint()?;
        let run = usize::try_from((head >> 2) + 1).unwrap_or(usize::MAX);
        if run > len - hints.len() {
            return Err(reader.error("more reset hints than histograms"));
        }
        let hint = CounterResetHint::from_number(head & 0b11);
        let hint = hint.ok_or_else(|| reader.error("unknown reset hint"))?;
        hints.resize(hints.len() + run, hint);
    }
    Ok(hints)
}

fn push_integer_counts(out: &mut Vec<u8>, block: &[&Histogram]) {
    let fields: Vec<(u64, u64, [&[i64]; 2])> = block
        .iter()
        .filter_map(|histogram| match &histogram.counts {
            HistogramCounts::Integer {
                count,
                zero_count,
                positive_deltas,
                negative_deltas,
            } => Some((*count, *zero_count, [&positive_deltas[..], negative_deltas])),
            HistogramCounts::Float { .. } => None,
        })
        .collect();
    let mut column: Vec<i64> = fields.iter().map(|(_, zero, _)| *zero as i64).collect();
    push_column(out, &column);
    let mut rest: Vec<i64> = fields
        .iter()
        .map(|(count, zero, _)| count.wrapping_sub(*zero) as i64)
        .collect();
    for side in 0..2 {
        column.fill(0);
        let buckets = fields.first().map_or(0, |(_, _, sides)| sides[side].len());
        for bucket in 0..buckets {
            for ((count, rest), (_, _, sides)) in column.iter_mut().zip(&mut rest).zip(&fields) {
                let delta = sides[side].get(bucket).copied().unwrap_or(0);
                *count = count.wrapping_add(delta);
                *rest = rest.wrapping_sub(*count);
            }
            push_column(out, &column);
        }
    }
    push_column(out, &rest);
}

fn read_integer_counts(
    reader: &mut Reader<'_>,
    len: usize,
    positive: usize,
    negative: usize,
) -> Result<Vec<HistogramCounts>, DecodeError> {
    let mut column = Vec::new();
    read_column(reader, len, &mut column)?;
    let zero_counts = column.clone();
    let mut totals = column.clone();
    let mut read_side = |reader: &mut Reader<'_>, buckets: usize| {
        let mut side: Vec<Vec<i64>> = (0..len).map(|_| Vec::with_capacity(buckets)).collect();
        let mut below = vec![0i64; len];
        for _ in 0..buckets {
            read_column(reader, len, &mut column)?;
            let numbers = column.iter().zip(&mut below).zip(&mut totals);
            for (deltas, ((count, below), total)) in side.iter_mut().zip(numbers) {
                deltas.push(count.wrapping_sub(*below));
                *total = total.wrapping_add(*count);
                *below = *count;
            }
        }
        Ok(side)
    };
    let positive = read_side(reader, positive)?;
    let negative = read_side(reader, negative)?;
    read_column(reader, len, &mut column)?;
    let sides = positive.into_iter().zip(negative);
    let numbers = column.iter().zip(totals).zip(zero_counts);
    let counts = numbers.zip(sides);
    Ok(counts
        .map(
            |(((rest, total), zero), (positive_deltas, negative_deltas))| {
                HistogramCounts::Integer {
                    count: rest.wrapping_add(total) as u64,
                    zero_count: zero as u64,
                    positive_deltas,
                    negative_deltas,
                }
            },
        )
        .collect())
}

fn push_float_counts(out: &mut Vec<u8>, block: &[&Histogram]) {
    let fields: Vec<(f64, f64, [&[f64]; 2])> = block
        .iter()
        .filter_map(|histogram| match &histogram.counts {
            HistogramCounts::Float {
                count,
                zero_count,
                positive,
                negative,
            } => Some((*count, *zero_count, [&positive[..], negative])),
            HistogramCounts::Integer { .. } => None,
        })
        .collect();
    let mut column: Vec<f64> = fields.iter().map(|(count, _, _)| *count).collect();
    push_values(out, &column);
    column.clear();
    column.extend(fields.iter().map(|(_, zero, _)| *zero));
    push_values(out, &column);
    for side in 0..2 {
        let buckets = fields.first().map_or(0, |(_, _, sides)| sides[side].len());
        for bucket in 0..buckets {
            column.clear();
            column.extend(
                fields
                    .iter()
                    .filter_map(|(_, _, sides)| sides[side].get(bucket)),
            );
            push_values(out, &column);
        }
    }
}

fn read_float_counts(
    reader: &mut Reader<'_>,
    len: usize,
    positive: usize,
    negative: usize,
) -> Result<Vec<HistogramCounts>, DecodeError> {
    let totals = read_values(reader, len)?;
    let zero_counts = read_values(reader, len)?;
    let read_side = |reader: &mut Reader<'_>, buckets: usize| {
        let mut side: Vec<Vec<f64>> = (0..len).map(|_| Vec::with_capacity(buckets)).collect();
        for _ in 0..buckets {
            for (counts, count) in side.iter_mut().zip(read_values(reader, len)?) {
                counts.push(count);
            }
        }
        Ok(side)
    };
    let positive = read_side(reader, positive)?;
    let negative = read_side(reader, negative)?;
    let sides = positive.into_iter().zip(negative);
    let counts = totals.into_iter().zip(zero_counts).zip(sides);
    Ok(counts
        .map(
            |((count, zero_count), (positive, negative))| HistogramCounts::Float {
                count,
                zero_count,
                positive,
                negative,
            },
        )
        .collect())
}

fn push_column(out: &mut Vec<u8>, column: &[i64]) {
    let mut plain = vec![PLAIN];
    integers::encode(column, &mut plain);
    let mut smallest = plain;
    if let [first, _, ..] = column {
        let differences: Vec<i64> = column
            .windows(2)
            .map(|pair| pair[1].wrapping_sub(pair[0]))
            .collect();
        let mut candidate = vec![DIFFERENCES];
        push_zigzag(&mut candidate, *first);
        integers::encode(&differences, &mut candidate);
        if candidate.len() < smallest.len() {
            smallest = candidate;
        }
    }
    out.extend_from_slice(&smallest);
}

/// Puts a column of `len` numbers into `column`.
fn read_column(
    reader: &mut Reader<'_>,
    len: usize,
    column: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    column.clear();
    match reader.u8()? {
        PLAIN => integers::decode_into(reader, len, column)?,
        DIFFERENCES if len > 1 => {
            column.push(reader.zigzag()?);
            integers::decode_into(reader, len - 1, column)?;
            let mut last = 0i64;
            for number in column.iter_mut() {
                last = last.wrapping_add(*number);
                *number = last;
            }
        }
        _ => return Err(reader.error("unknown kind of column")),
    }
    if column.len() != len {
        return Err(reader.error("column of another length"));
    }
    Ok(())
}

fn push_values(out: &mut Vec<u8>, column: &[f64]) {
    let mut chunk = Vec::new();
    values::encode(column, &mut chunk);
    push_varint(out, chunk.len() as u64);
    out.extend_from_slice(&chunk);
}

fn read_values(reader: &mut Reader<'_>, len: usize) -> Result<Vec<f64>, DecodeError> {
    let bytes = reader.count(1)?;
    let chunk = reader.bytes(bytes)?;
    let mut column = Vec::with_capacity(len);
    values::decode_into(chunk, len, &mut column)?;
    if column.len() != len {
        return Err(reader.error("column of another length"));
    }
    Ok(column)
}
