//! Variable-length integers: seven bits per byte, least significant first, as in protobuf.
//!
//! Holds always: no read goes past the end; a number that takes more than ten bytes or does not fit
//! 64 bits is an error.

use thiserror::Error;

/// Why bytes do not begin with a varint.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum VarintError {
    #[error("bytes end within a variable-length integer")]
    Truncated,
    #[error("variable-length integer is longer than 64 bits")]
    Overflow,
}

type Result<T> = std::result::Result<T, VarintError>;

/// Appends a number in its shortest form.
#[inline(always)]
pub fn push_varint(buffer: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

/// Appends a signed number in zigzag form.
#[inline]
pub fn push_zigzag(buffer: &mut Vec<u8>, value: i64) {
    push_varint(buffer, zigzag(value));
}

/// How many bytes [`push_varint`] appends.
#[inline]
pub fn varint_length(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Reads the number that `rest` begins with and steps over it. One and two bytes are read in line:
/// tags, lengths and references hardly ever have more.
#[inline(always)]
pub fn take_varint(rest: &mut &[u8]) -> Result<u64> {
    let bytes = *rest;
    match *bytes {
        [byte, ref tail @ ..] if byte < 0x80 => {
            *rest = tail;
            Ok(byte.into())
        }
        [low, high, ref tail @ ..] if high < 0x80 => {
            *rest = tail;
            Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => {
            let (value, length) = read_long(bytes)?;
            *rest = &bytes[length..];
            Ok(value)
        }
    }
}

/// The number at `position` and the position after it. One byte is read in line.
#[inline(always)]
pub fn read_varint(bytes: &[u8], position: usize) -> Result<(u64, usize)> {
    let first = *bytes.get(position).ok_or(VarintError::Truncated)?;
    if first < 0x80 {
        return Ok((first.into(), position + 1));
    }
    let (value, length) = read_long(&bytes[position..])?;
    Ok((value, position + length))
}

/// The number that `bytes` begin with, and its length.
#[inline]
fn read_long(bytes: &[u8]) -> Result<(u64, usize)> {
    let mut value = 0;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        // The tenth byte has room for one bit only.
        if i == 9 && byte > 1 {
            return Err(VarintError::Overflow);
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((value, i + 1));
        }
    }
    // A tenth byte that is at most 1 ends its number, so there were fewer.
    Err(VarintError::Truncated)
}

/// Small numbers of either sign become small unsigned ones: 0, −1, 1, −2…
#[inline(always)]
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[inline(always)]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_at_every_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = vec![0xff];
                push_varint(&mut bytes, value);
                assert_eq!(bytes.len(), 1 + varint_length(value));
                assert_eq!(read_varint(&bytes, 1), Ok((value, bytes.len())));
                let mut rest = &bytes[1..];
                assert_eq!(take_varint(&mut rest), Ok(value));
                assert!(rest.is_empty());
                let cut = &bytes[..bytes.len() - 1];
                assert_eq!(read_varint(cut, 1), Err(VarintError::Truncated));
                assert_eq!(take_varint(&mut &cut[1..]), Err(VarintError::Truncated));
                assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
            }
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_an_error() {
        let mut bytes = vec![0xff; 9];
        bytes.push(2);
        assert_eq!(read_varint(&bytes, 0), Err(VarintError::Overflow));
        assert_eq!(take_varint(&mut &bytes[..]), Err(VarintError::Overflow));
        assert_eq!(read_varint(&[0x80; 11], 0), Err(VarintError::Overflow));
        assert_eq!(read_varint(&[], 0), Err(VarintError::Truncated));
        assert_eq!(read_varint(&[1], 2), Err(VarintError::Truncated));
    }

    #[test]
    fn longer_forms_of_a_number_are_read() {
        assert_eq!(take_varint(&mut &[0x81, 0x80, 0x00][..]), Ok(1));
    }

    #[test]
    fn signs_alternate() {
        assert_eq!([0, -1, 1, i64::MIN].map(zigzag), [0, 1, 2, u64::MAX]);
        let decoded = [0, 1, 2, 3, u64::MAX, u64::MAX - 1].map(unzigzag);
        assert_eq!(decoded, [0, -1, 1, -2, i64::MIN, i64::MAX]);
    }
}
