//! A run of values, each of which is stored.
//!
//! ```text
//! head u8: predictor in bits 0–3, 0x10 factor, 0x20 exceptions
//! exponent u8 0..=12, 255 = bit patterns
//! factor:       varint g | zigzag offset
//! predictor:    zigzag first number (1…5) | zigzag step (2…5) | limit u8 (3…5)
//! body of integers: the residuals, one per value (0) or per value after the first (1…5)
//! exceptions:   varint count | (varint position − position after the one before | bits u64 LE)*
//! ```
//!
//! ```text
//! bytes ─► integers ─► residuals ─► numbers ─ · g + offset ─ decimal ─► values ◄─ exceptions
//! ```

use icecore_model::varint::{push_varint, push_zigzag};

use super::super::decimal::{self, Exception, Factor};
use super::super::integers;
use super::super::predictor::Predictor;
use crate::DecodeError;
use crate::reader::Reader;

const PREDICTOR: u8 = 0x0f;
const FACTOR: u8 = 0x10;
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
        let numbers = &mut self.numbers[..];
        let factor = Factor::of(numbers);
        if let Some(factor) = &factor {
            factor.divide(numbers);
        }
        let predictor = Predictor::choose(numbers, &mut self.steps);
        predictor.subtract(numbers);

        let mut head = predictor.kind();
        head |= if factor.is_some() { FACTOR } else { 0 };
        head |= if self.exceptions.is_empty() {
            0
        } else {
            EXCEPTIONS
        };
        out.extend_from_slice(&[head, exponent]);
        if let Some(factor) = &factor {
            push_varint(out, factor.factor);
            push_zigzag(out, factor.offset);
        }
        let mut residuals = &numbers[..];
        if predictor.has_first() {
            push_zigzag(out, numbers[0]);
            residuals = &numbers[1..];
        }
        if predictor.has_step() {
            push_zigzag(out, predictor.step);
        }
        if predictor.has_limit() {
            out.push(predictor.limit);
        }
        integers::encode(residuals, out);
        self.push_exceptions(out);
    }

    fn push_exceptions(&self, out: &mut Vec<u8>) {
        if self.exceptions.is_empty() {
            return;
        }
        push_varint(out, self.exceptions.len() as u64);
        let mut next = 0;
        for exception in &self.exceptions {
            push_varint(out, (exception.position - next) as u64);
            out.extend_from_slice(&exception.bits.to_le_bytes());
            next = exception.position + 1;
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
    if head & !(PREDICTOR | FACTOR | EXCEPTIONS) != 0 {
        return Err(reader.error("unknown head of values"));
    }
    let mut factor = None;
    if head & FACTOR != 0 {
        factor = Some(Factor {
            factor: reader.varint()?,
            offset: reader.zigzag()?,
        });
    }
    let mut numbers = Vec::new();
    let predictor = read_predictor(reader, head & PREDICTOR, &mut numbers)?;
    integers::decode_into(reader, count - numbers.len(), &mut numbers)?;
    predictor.restore(&mut numbers);
    if let Some(factor) = factor {
        factor.multiply(&mut numbers);
    }
    let start = out.len();
    decimal::unscale(exponent, &numbers, out).ok_or_else(|| reader.error("unknown exponent"))?;
    if head & EXCEPTIONS != 0 {
        apply_exceptions(reader, &mut out[start..])?;
    }
    Ok(())
}

/// Reads a predictor and the first number, if it has one.
fn read_predictor(
    reader: &mut Reader<'_>,
    kind: u8,
    numbers: &mut Vec<i64>,
) -> Result<Predictor, DecodeError> {
    let mut predictor =
        Predictor::of_kind(kind).ok_or_else(|| reader.error("unknown predictor"))?;
    if predictor.has_first() {
        numbers.push(reader.zigzag()?);
    }
    if predictor.has_step() {
        predictor.step = reader.zigzag()?;
    }
    if predictor.has_limit() {
        predictor.limit = reader.u8()?;
        if !Predictor::is_limit(predictor.limit) {
            return Err(reader.error("limit of the trend out of range"));
        }
    }
    Ok(predictor)
}

fn apply_exceptions(reader: &mut Reader<'_>, values: &mut [f64]) -> Result<(), DecodeError> {
    let count = reader.varint()?;
    let mut left = values.iter_mut();
    for _ in 0..count {
        let skipped = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        match left.nth(skipped) {
            Some(value) => *value = reader.f64()?,
            None => return Err(reader.error("exception after the last value")),
        }
    }
    Ok(())
}
