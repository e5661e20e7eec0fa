//! A run of values, each of which is stored.
//!
//! ```text
//! head u8: predictor in bits 0–3, 0x10 factor, 0x20 exceptions
//! exponent u8 0..=12, 255 = bit patterns
//! numbers (`numbers`)
//! exceptions:   varint count | (varint position − position after the one before | bits u64 LE)*
//! ```
//!
//! ```text
//! bytes ─► integers ─► residuals ─► numbers ─ · g + offset ─ decimal ─► values ◄─ exceptions
//! ```

use super::super::decimal::{self, Exception};
use super::super::numbers::{self, Plan};
use crate::DecodeError;
use crate::reader::Reader;

const EXCEPTIONS: u8 = 0x20;

#[derive(Debug, Default)]
pub(super) struct Encoder {
    numbers: Vec<i64>,
    steps: Vec<i64>,
    exceptions: Vec<Exception>,
}

impl Encoder {
    /// Appends at least one value.
    pub(super) fn encode(&mut self, values: &[f64], out: &mut Vec<u8>) {
        let exponent = decimal::scale(values, &mut self.numbers, &mut self.exceptions);
        let plan = Plan::apply(&mut self.numbers, &mut self.steps);
        let mut head = plan.head();
        if !self.exceptions.is_empty() {
            head |= EXCEPTIONS;
        }
        out.extend_from_slice(&[head, exponent]);
        plan.push(&self.numbers, out);
        if !self.exceptions.is_empty() {
            decimal::push_exceptions(&self.exceptions, out);
        }
    }
}

/// Appends `count` values, of which there is at least one.
pub(super) fn decode_into(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<f64>,
) -> Result<(), DecodeError> {
    let head = reader.u8()?;
    let exponent = reader.u8()?;
    if head & !(numbers::HEAD | EXCEPTIONS) != 0 {
        return Err(reader.error("unknown head of values"));
    }
    let mut read = Vec::new();
    numbers::read(reader, head, count, &mut read)?;
    let start = out.len();
    decimal::unscale(exponent, &read, out).ok_or_else(|| reader.error("unknown exponent"))?;
    if head & EXCEPTIONS != 0 {
        decimal::apply_exceptions(reader, &mut out[start..])?;
    }
    Ok(())
}
