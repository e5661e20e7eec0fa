//! Float samples as three columns. Small numbers in each, so that lz4 finds what repeats.
//!
//! ```text
//! varint count | references | timestamps | values
//! reference   zigzag of reference − (previous + 1); 0 for series in the order they arrived
//! timestamp   zigzag of the difference to the sample before
//! value       varint of zigzag(v) + 1 for whole numbers below 2^53 (not −0);
//!             else the byte 0 and 8 bytes
//! ```
//!
//! Values are absolute, not differences to earlier requests: a lost record must not change
//! later ones.

use icecore_model::varint::{push_varint, read_varint, unzigzag, zigzag};

use super::RECORD;
use crate::DecodeError;

/// Whole numbers below this have one f64 each.
const WHOLE_LIMIT: f64 = 9_007_199_254_740_992.0;

/// At least a byte in each column.
const MIN_SAMPLE_LEN: usize = 3;

/// A varint takes at most ten bytes, a value at most nine.
const MAX_NUMBER_LEN: usize = 10;

/// The most bytes that a sample takes in all columns.
pub(super) const MAX_SAMPLE_LEN: usize = 3 * MAX_NUMBER_LEN;

/// The columns while they are written.
#[derive(Default)]
pub(super) struct FloatColumnsWriter {
    count: u64,
    next_reference: u32,
    timestamp: i64,
    references: Column,
    timestamps: Column,
    values: Column,
}

impl FloatColumnsWriter {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn push(&mut self, references: &[u32], timestamps: &[i64], values: &[f64]) {
        let samples = references.len();
        assert!(
            timestamps.len() == samples && values.len() == samples,
            "columns must be equally long"
        );
        for column in [&mut self.references, &mut self.timestamps, &mut self.values] {
            column.reserve(samples);
        }
        for &reference in references {
            let difference = i64::from(reference) - i64::from(self.next_reference);
            self.next_reference = reference.wrapping_add(1);
            self.references.push(zigzag(difference));
        }
        for &timestamp in timestamps {
            self.timestamps
                .push(zigzag(timestamp.wrapping_sub(self.timestamp)));
            self.timestamp = timestamp;
        }
        for &value in values {
            match whole_number(value) {
                Some(number) => self.values.push(zigzag(number) + 1),
                None => self.values.push_bits(value.to_bits()),
            }
        }
        self.count += samples as u64;
    }

    /// Appends the finished section to `raw` and empties the columns.
    pub(super) fn finish(&mut self, raw: &mut Vec<u8>) {
        push_varint(raw, self.count);
        for column in [&mut self.references, &mut self.timestamps, &mut self.values] {
            raw.extend_from_slice(column.written());
            column.len = 0;
        }
        self.count = 0;
        self.next_reference = 0;
        self.timestamp = 0;
    }
}

#[inline(always)]
fn whole_number(value: f64) -> Option<i64> {
    let number = value as i64;
    // Comparing bits keeps −0 out; NaN and infinities fail the range.
    (value.abs() < WHOLE_LIMIT && (number as f64).to_bits() == value.to_bits()).then_some(number)
}

/// Bytes with room reserved ahead, so that writing a number costs one check: faster than a
/// `push_varint` per number, and every sample of a request passes here.
#[derive(Default)]
struct Column {
    bytes: Vec<u8>,
    len: usize,
}

impl Column {
    /// Makes room for so many numbers of any size.
    fn reserve(&mut self, numbers: usize) {
        let needed = self.len + numbers * MAX_NUMBER_LEN;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
    }

    #[inline(always)]
    fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes[self.len] = number as u8 | 0x80;
            self.len += 1;
            number >>= 7;
        }
        self.bytes[self.len] = number as u8;
        self.len += 1;
    }

    #[inline(always)]
    fn push_bits(&mut self, bits: u64) {
        let slot = &mut self.bytes[self.len..self.len + 9];
        slot[0] = 0;
        slot[1..].copy_from_slice(&bits.to_le_bytes());
        self.len += 9;
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// References, timestamps and values of a section.
pub(super) type FloatColumns = (Vec<u32>, Vec<i64>, Vec<f64>);

pub(super) fn decode(raw: &[u8]) -> Result<FloatColumns, DecodeError> {
    let error = |at, reason| DecodeError::new(RECORD, at, reason);
    let (count, mut at) = read_varint(raw, 0).map_err(|_| error(0, "truncated"))?;
    let count = usize::try_from(count)
        .ok()
        .filter(|&c| c <= raw.len() / MIN_SAMPLE_LEN);
    let count = count.ok_or_else(|| error(at, "more samples than bytes"))?;
    let next = |at: &mut usize| match read_varint(raw, *at) {
        Ok((number, after)) => {
            *at = after;
            Ok(number)
        }
        Err(_) => Err(error(*at, "truncated or oversized varint")),
    };

    let mut references = Vec::with_capacity(count);
    let mut expected = 0u32;
    for _ in 0..count {
        let reference = i64::from(expected).wrapping_add(unzigzag(next(&mut at)?));
        let reference = u32::try_from(reference).map_err(|_| error(at, "series reference"))?;
        references.push(reference);
        expected = reference.wrapping_add(1);
    }
    let mut timestamps = Vec::with_capacity(count);
    let mut timestamp = 0i64;
    for _ in 0..count {
        timestamp = timestamp.wrapping_add(unzigzag(next(&mut at)?));
        timestamps.push(timestamp);
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let value = match next(&mut at)? {
            0 => {
                let bits = raw.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                at += 8;
                f64::from_bits(u64::from_le_bytes(
                    bits.ok_or_else(|| error(at, "truncated"))?,
                ))
            }
            number => unzigzag(number - 1) as f64,
        };
        values.push(value);
    }
    if at != raw.len() {
        return Err(error(at, "bytes after the end"));
    }
    Ok((references, timestamps, values))
}
