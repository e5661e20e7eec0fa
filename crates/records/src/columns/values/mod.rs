//! One chunk of values.
//!
//! ```text
//! form u8 = 0 | dense
//!           1 | varint m | bitmap of n bits: which values differ from the one before | dense of m
//!           2 | varint m | m−1 varints: how far on the next such value is | dense of m
//! ```
//!
//! Holds always:
//! - Every f64 comes back in every bit, NaN payloads and −0 included.
//! - Same values, same bytes.
//! - The number of values is not stored here. **The caller bounds it**: a value that never changes
//!   takes a few bytes, however long the chunk is. Memory follows the number asked for.
//! - No values are no bytes.

mod dense;
#[cfg(test)]
mod tests;

use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "TimeSeries";

const DENSE: u8 = 0;
const BITMAP: u8 = 1;
const GAPS: u8 = 2;

/// Writes chunks; keeps its room from one to the next.
#[derive(Debug, Default)]
pub struct Encoder {
    dense: dense::Encoder,
    changes: Vec<f64>,
    bitmap: Vec<u8>,
    gaps: Vec<u8>,
    sparse: Vec<u8>,
}

/// Appends a chunk. Who writes many keeps an [`Encoder`].
pub fn encode(values: &[f64], out: &mut Vec<u8>) {
    Encoder::default().encode(values, out);
}

impl Encoder {
    /// Appends a chunk.
    pub fn encode(&mut self, values: &[f64], out: &mut Vec<u8>) {
        if values.is_empty() {
            return;
        }
        self.find_changes(values);
        let (changes, len) = (self.changes.len(), values.len());
        if changes == 1 || changes > len - len / 8 {
            out.push(DENSE);
            // A value that never changes makes a constant body, which does not contain the length.
            let told = if changes == 1 { &values[..1] } else { values };
            self.dense.encode(told, out);
            return;
        }
        self.sparse.clear();
        let (form, positions) = if self.gaps.len() <= self.bitmap.len() {
            (GAPS, &self.gaps)
        } else {
            (BITMAP, &self.bitmap)
        };
        self.sparse.push(form);
        push_varint(&mut self.sparse, changes as u64);
        self.sparse.extend_from_slice(positions);
        self.dense.encode(&self.changes, &mut self.sparse);
        if changes >= len / 4 {
            let start = out.len();
            out.push(DENSE);
            self.dense.encode(values, out);
            if out.len() - start <= self.sparse.len() {
                return;
            }
            out.truncate(start);
        }
        out.extend_from_slice(&self.sparse);
    }

    fn find_changes(&mut self, values: &[f64]) {
        self.changes.clear();
        self.gaps.clear();
        self.bitmap.clear();
        self.bitmap.resize(values.len().div_ceil(8), 0);
        let mut last: Option<(usize, u64)> = None;
        for (i, value) in values.iter().enumerate() {
            let bits = value.to_bits();
            match last {
                Some((_, before)) if before == bits => continue,
                Some((before, _)) => push_varint(&mut self.gaps, (i - before) as u64),
                None => {}
            }
            last = Some((i, bits));
            self.bitmap[i / 8] |= 1 << (i % 8);
            self.changes.push(*value);
        }
    }
}

/// Appends the `count` values of a chunk. With an error, some of them may have been appended.
pub fn decode_into(chunk: &[u8], count: usize, out: &mut Vec<f64>) -> Result<(), DecodeError> {
    let mut reader = Reader::new(RECORD, chunk);
    if count > 0 {
        match reader.u8()? {
            DENSE => dense::decode_into(&mut reader, count, out)?,
            BITMAP => decode_bitmap(&mut reader, count, out)?,
            GAPS => decode_gaps(&mut reader, count, out)?,
            _ => return Err(reader.error("unknown form of chunk")),
        }
    }
    reader.finish()
}

fn decode_bitmap(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<f64>,
) -> Result<(), DecodeError> {
    let changes = read_changes(reader, count)?;
    let bitmap = reader.bytes(count.div_ceil(8))?;
    let mut values = Vec::new();
    dense::decode_into(reader, changes, &mut values)?;
    let mut values = values.into_iter();
    let mut value = 0.0;
    let mut missing = bitmap[0] & 1 == 0;
    out.reserve(count);
    for i in 0..count {
        if bitmap[i / 8] >> (i % 8) & 1 != 0 {
            match values.next() {
                Some(next) => value = next,
                None => missing = true,
            }
        }
        out.push(value);
    }
    if missing || values.next().is_some() {
        return Err(reader.error("bitmap and values do not match"));
    }
    Ok(())
}

fn decode_gaps(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<f64>,
) -> Result<(), DecodeError> {
    let changes = read_changes(reader, count)?;
    if changes - 1 > reader.remaining() {
        return Err(reader.error("more changes than bytes"));
    }
    let mut gaps = Vec::with_capacity(changes);
    let mut left = count;
    for _ in 1..changes {
        let gap = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        // Every value is there at least once, the last one, too.
        if gap == 0 || gap >= left {
            return Err(reader.error("gap out of range"));
        }
        left -= gap;
        gaps.push(gap);
    }
    gaps.push(left);
    let mut values = Vec::new();
    dense::decode_into(reader, changes, &mut values)?;
    out.reserve(count);
    for (value, gap) in values.into_iter().zip(gaps) {
        out.resize(out.len() + gap, value);
    }
    Ok(())
}

fn read_changes(reader: &mut Reader<'_>, count: usize) -> Result<usize, DecodeError> {
    match usize::try_from(reader.varint()?) {
        Ok(changes) if changes >= 1 && changes <= count => Ok(changes),
        _ => Err(reader.error("more changes than values")),
    }
}
