//! Plain bodies.

use crate::DecodeError;
use crate::reader::{Reader, push_zigzag};

pub(super) mod integers {
    use super::*;

    pub(crate) fn encode(numbers: &[i64], out: &mut Vec<u8>) {
        for number in numbers {
            push_zigzag(out, *number);
        }
    }

    pub(crate) fn decode_into(
        reader: &mut Reader<'_>,
        len: usize,
        out: &mut Vec<i64>,
    ) -> Result<(), DecodeError> {
        for _ in 0..len {
            out.push(reader.zigzag()?);
        }
        Ok(())
    }
}

pub(super) mod values {
    use super::*;

    pub(crate) fn encode(values: &[f64], out: &mut Vec<u8>) {
        for value in values {
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }

    pub(crate) fn decode_into(
        chunk: &[u8],
        len: usize,
        out: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new("TimeSeries", chunk);
        for _ in 0..len {
            out.push(reader.f64()?);
        }
        reader.finish()
    }
}
