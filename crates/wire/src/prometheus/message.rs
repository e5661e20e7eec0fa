//! Writing protobuf messages, the counterpart of the reader in `protobuf`.
//!
//! Holds always:
//! - As in proto3, a field that holds zero is left out, unless its presence matters.
//! - Every length is the shortest varint, so that equal values are equal bytes.

use icecore_model::varint::{push_varint, push_zigzag};

/// A `uint64`, `int64` (as its two's complement), `bool` or enum; zero is left out.
#[inline]
pub(crate) fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        put_present_number(out, field, value);
    }
}

/// The same for a field whose presence matters.
#[inline]
pub(crate) fn put_present_number(out: &mut Vec<u8>, field: u32, value: u64) {
    push_varint(out, u64::from(field << 3));
    push_varint(out, value);
}

/// A `double`; positive zero is left out.
#[inline]
pub(crate) fn put_double(out: &mut Vec<u8>, field: u32, value: f64) {
    if value.to_bits() != 0 {
        put_present_double(out, field, value);
    }
}

/// The same for a field whose presence matters.
#[inline]
pub(crate) fn put_present_double(out: &mut Vec<u8>, field: u32, value: f64) {
    push_varint(out, u64::from(field << 3 | 1));
    out.extend_from_slice(&value.to_le_bytes());
}

/// A `string` or `bytes`, also when it is empty.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    push_varint(out, u64::from(field << 3 | 2));
    push_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A `repeated sint64`, packed; nothing when there are none.
pub(crate) fn put_packed_zigzag(out: &mut Vec<u8>, field: u32, values: &[i64]) {
    if !values.is_empty() {
        put_message(out, field, |out| {
            for value in values {
                push_zigzag(out, *value);
            }
        });
    }
}

/// A `repeated double`, packed; nothing when there are none.
pub(crate) fn put_packed_doubles(out: &mut Vec<u8>, field: u32, values: &[f64]) {
    if !values.is_empty() {
        push_varint(out, u64::from(field << 3 | 2));
        push_varint(out, 8 * values.len() as u64);
        for value in values {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// A message whose content `write` appends.
pub(crate) fn put_message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    push_varint(out, u64::from(field << 3 | 2));
    put_length_before(out, write);
}

/// What `write` appends, with its length in front of it.
pub(crate) fn put_length_before(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    // Most messages are short, and so is their length: one byte, which then only needs its value.
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    push_varint(&mut prefix, length as u64);
    out.splice(start..=start, prefix);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::protobuf::{Reader, bytes_tag};

    #[test]
    fn lengths_of_every_size_stand_before_their_content() {
        for length in [0usize, 1, 127, 128, 16_383, 16_384, 70_000] {
            let content = vec![7u8; length];
            let mut out = b"before".to_vec();
            put_message(&mut out, 3, |out| out.extend_from_slice(&content));
            let mut reader = Reader::new(&out[6..]);
            assert_eq!(reader.tag(), Ok(bytes_tag(3)));
            assert_eq!(reader.bytes(), Ok(&content[..]));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn zero_is_left_out_and_minus_zero_is_not() {
        let mut out = Vec::new();
        put_number(&mut out, 1, 0);
        put_double(&mut out, 2, 0.0);
        put_packed_doubles(&mut out, 3, &[]);
        put_packed_zigzag(&mut out, 3, &[]);
        assert!(out.is_empty());
        put_double(&mut out, 2, -0.0);
        assert_eq!(out.len(), 9);
    }
}
