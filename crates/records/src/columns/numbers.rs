//! A column of integers: what its differences have in common is divided out, what can be predicted
//! is subtracted, and the rest is a body of integers.
//!
//! ```text
//! head: predictor in bits 0–3, 0x10 factor; other bits belong to who stores it
//! factor:       varint g | zigzag offset
//! predictor:    zigzag first number (1…5) | zigzag step (2…5) | limit u8 (3…5)
//! body of integers: the residuals, one per number (0) or per number after the first (1…5)
//! ```

use icecore_model::varint::{push_varint, push_zigzag};

use super::decimal::Factor;
use super::integers;
use super::predictor::Predictor;
use crate::DecodeError;
use crate::reader::Reader;

const PREDICTOR: u8 = 0x0f;
const FACTOR: u8 = 0x10;

/// The bits of a head that are used here.
pub(crate) const HEAD: u8 = PREDICTOR | FACTOR;

/// How a column is stored.
pub(crate) struct Plan {
    factor: Option<Factor>,
    predictor: Predictor,
}

impl Plan {
    /// Finds a plan for at least one number, and turns the numbers into what it leaves of them.
    pub(crate) fn apply(numbers: &mut [i64], steps: &mut Vec<i64>) -> Self {
        let factor = Factor::of(numbers);
        if let Some(factor) = &factor {
            factor.divide(numbers);
        }
        let predictor = Predictor::choose(numbers, steps);
        predictor.subtract(numbers);
        Self { factor, predictor }
    }

    pub(crate) fn head(&self) -> u8 {
        self.predictor.kind() | if self.factor.is_some() { FACTOR } else { 0 }
    }

    /// Appends everything after the head.
    pub(crate) fn push(&self, numbers: &[i64], out: &mut Vec<u8>) {
        if let Some(factor) = &self.factor {
            push_varint(out, factor.factor);
            push_zigzag(out, factor.offset);
        }
        let mut residuals = numbers;
        if self.predictor.has_first() {
            push_zigzag(out, numbers[0]);
            residuals = &numbers[1..];
        }
        if self.predictor.has_step() {
            push_zigzag(out, self.predictor.step);
        }
        if self.predictor.has_limit() {
            out.push(self.predictor.limit);
        }
        integers::encode(residuals, out);
    }
}

/// Reads what follows a head: `count` numbers, of which there is at least one.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    head: u8,
    count: usize,
    numbers: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    numbers.clear();
    let mut factor = None;
    if head & FACTOR != 0 {
        factor = Some(Factor {
            factor: reader.varint()?,
            offset: reader.zigzag()?,
        });
    }
    let predictor = read_predictor(reader, head & PREDICTOR, numbers)?;
    integers::decode_into(reader, count - numbers.len(), numbers)?;
    predictor.restore(numbers);
    if let Some(factor) = factor {
        factor.multiply(numbers);
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
