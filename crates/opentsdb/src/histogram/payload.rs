//! The bytes of a simple histogram, as HBase has them and clients send them in base 64.
//!
//! ```text
//! buckets i16 | (low f32 | high f32 | count varint)* | underflow varint | overflow varint
//! ```

use super::{Bucket, SimpleHistogram};

/// The number of buckets, underflow and overflow take four; the original wants six.
const BYTES_MIN: usize = 6;

/// Why bytes are no histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// Shorter than any with a bucket.
    TooShort,
    /// They end within a bucket.
    Truncated,
    /// Buckets that cannot be kept.
    Buckets,
}

impl SimpleHistogram {
    pub fn from_payload(bytes: &[u8]) -> Result<Self, PayloadError> {
        // With the id, which is not here.
        if bytes.len() + 1 < BYTES_MIN {
            return Err(PayloadError::TooShort);
        }
        let mut reader = Reader(bytes);
        let count = i16::from_be_bytes(reader.array()?);
        let mut buckets = Vec::new();
        for _ in 0..count {
            buckets.push(Bucket {
                low: f32::from_be_bytes(reader.array()?),
                high: f32::from_be_bytes(reader.array()?),
                count: reader.varint()?,
            });
        }
        let underflow = reader.varint()?;
        let overflow = reader.varint()?;
        Self::new(buckets, underflow, overflow).ok_or(PayloadError::Buckets)
    }

    pub fn to_payload(&self) -> Vec<u8> {
        let mut bytes = (self.buckets.len() as i16).to_be_bytes().to_vec();
        for bucket in &self.buckets {
            bytes.extend_from_slice(&bucket.low.to_be_bytes());
            bytes.extend_from_slice(&bucket.high.to_be_bytes());
            push_varint(&mut bytes, bucket.count);
        }
        push_varint(&mut bytes, self.underflow);
        push_varint(&mut bytes, self.overflow);
        bytes
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], PayloadError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(PayloadError::Truncated)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Seven bits in a byte, the lowest first; the ninth byte has eight.
    fn varint(&mut self) -> Result<u64, PayloadError> {
        let mut value = 0u64;
        for shift in (0..56).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        let [byte] = self.array()?;
        Ok(value | u64::from(byte) << 56)
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    for _ in 0..8 {
        if value < 0x80 {
            break;
        }
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_example_is_written_and_read() {
        let bucket = |low, high, count| Bucket { low, high, count };
        let buckets = vec![bucket(0.0, 1.75, 12), bucket(1.75, 3.5, 160)];
        let histogram = SimpleHistogram::new(buckets, 0, 1).unwrap();
        let bytes = histogram.to_payload();
        let hex = "0002000000003fe000000c3fe0000040600000a0010001";
        assert_eq!(hex::encode(&bytes), hex);
        assert_eq!(SimpleHistogram::from_payload(&bytes), Ok(histogram));
        for end in 0..bytes.len() {
            assert!(
                SimpleHistogram::from_payload(&bytes[..end]).is_err(),
                "{end}"
            );
        }
    }

    proptest! {
        #[test]
        fn varints_survive(value in any::<u64>()) {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            prop_assert_eq!(Reader(&bytes).varint(), Ok(value));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(histogram) = SimpleHistogram::from_payload(&bytes) {
                let _ = histogram.to_native();
            }
        }
    }
}
