//! Float samples of both remote write versions:
//! `Sample { double value = 1; int64 timestamp = 2; int64 start_timestamp = 3; }`, the third field
//! being of 2.0 only.
//!
//! A field that holds zero is left out, so that the two shapes that make up nearly every request
//! are
//!
//! ```text
//! 09 <8 bytes> 10 <6 bytes>      and      10 <6 bytes>
//! ```
//!
//! with a timestamp between February 1971 and May 2109. Both are read without a loop.

use icecore_model::Sample;

use super::protobuf::{Reader, Result, fixed64_tag, known, varint_tag};

const VALUE: u32 = fixed64_tag(1);
const TIMESTAMP: u32 = varint_tag(2);
const START_TIMESTAMP: u32 = varint_tag(3);
const FIELDS: u32 = known(&[1, 2, 3]);

const VALUE_BYTE: u8 = VALUE as u8;
const TIMESTAMP_BYTE: u8 = TIMESTAMP as u8;

#[inline]
pub(super) fn decode_sample(message: &[u8]) -> Result<Sample> {
    if let Some(sample) = common_sample(message) {
        return Ok(sample);
    }
    decode_any_sample(message)
}

/// The sample of a message of one of the two common shapes.
#[inline]
pub(super) fn common_sample(message: &[u8]) -> Option<Sample> {
    let (value, timestamp) = match message {
        [
            VALUE_BYTE,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            TIMESTAMP_BYTE,
            timestamp @ ..,
        ] => (
            f64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
            timestamp,
        ),
        [TIMESTAMP_BYTE, timestamp @ ..] => (0.0, timestamp),
        _ => return None,
    };
    let timestamp: &[u8; 6] = timestamp.try_into().ok()?;
    let timestamp_ms = six_byte_varint(timestamp)?;
    Some(Sample {
        timestamp_ms,
        value,
        start_timestamp_ms: 0,
    })
}

/// Reads a varint that takes exactly six bytes, 35 to 42 bits. By hand because nearly every sample
/// has one: no loop and no branch per byte.
#[inline]
fn six_byte_varint(bytes: &[u8; 6]) -> Option<i64> {
    let [a, b, c, d, e, f] = *bytes;
    let word = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    // Five bytes have the continuation bit, the last does not.
    if word & 0x8080_8080_8080 != 0x0080_8080_8080 {
        return None;
    }
    // Seven bits of each byte move together, pairs first, so that no step waits for six others.
    let word = word & 0x7f7f_7f7f_7f7f;
    let pairs = (word & 0x007f_007f_007f) | (word & 0x7f00_7f00_7f00) >> 1;
    let value = pairs & 0x3fff | (pairs >> 2) & (0x3fff << 14) | (pairs >> 4) & (0x3fff << 28);
    Some(value as i64)
}

fn decode_any_sample(message: &[u8]) -> Result<Sample> {
    let mut sample = Sample {
        timestamp_ms: 0,
        value: 0.0,
        start_timestamp_ms: 0,
    };
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            VALUE => sample.value = reader.double()?,
            TIMESTAMP => sample.timestamp_ms = reader.varint()? as i64,
            START_TIMESTAMP => sample.start_timestamp_ms = reader.varint()? as i64,
            other => reader.skip_unknown(other, FIELDS)?,
        }
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_model::varint::push_varint;
    use proptest::prelude::*;

    fn varint(value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, value);
        bytes
    }

    fn parts(sample: Sample) -> (i64, u64, i64) {
        (
            sample.timestamp_ms,
            sample.value.to_bits(),
            sample.start_timestamp_ms,
        )
    }

    proptest! {
        #[test]
        fn both_ways_read_the_same(value: u64, timestamp: i64, bits in 0u32..64, with_value: bool) {
            let timestamp = timestamp >> bits;
            let mut message = Vec::new();
            if with_value {
                message.push(VALUE_BYTE);
                message.extend(value.to_le_bytes());
            }
            message.push(TIMESTAMP_BYTE);
            message.extend(varint(timestamp as u64));
            let expected = (timestamp, if with_value { value } else { 0 }, 0);
            prop_assert_eq!(parts(decode_sample(&message).unwrap()), expected);
            prop_assert_eq!(parts(decode_any_sample(&message).unwrap()), expected);
        }
    }

    #[test]
    fn the_common_shapes_are_recognised() {
        for timestamp in [1i64 << 35, 1_700_000_000_000, (1 << 42) - 1] {
            let mut message = vec![TIMESTAMP_BYTE];
            message.extend(varint(timestamp as u64));
            assert_eq!(common_sample(&message).unwrap().timestamp_ms, timestamp);
            let with_value = [&[VALUE_BYTE, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f], &message[..]].concat();
            assert_eq!(common_sample(&with_value).unwrap().value, 1.0);
        }
    }

    #[test]
    fn fields_in_any_order_and_repeated() {
        let message = [0x18, 5, 0x10, 7, 0x10, 9, 0x09, 0, 0, 0, 0, 0, 0, 0, 0x40];
        assert_eq!(
            parts(decode_sample(&message).unwrap()),
            (9, 2f64.to_bits(), 5)
        );
        assert_eq!(parts(decode_sample(&[]).unwrap()), (0, 0, 0));
    }
}
