//! A column of floats, as distances to what another column suggests.
//!
//! ```text
//! head u8: predictor and factor as in `columns::numbers`, 0x20 exceptions, 0x40 ulps
//! scale u8: exponent in bits 0–3, 15 = bit patterns | reference in bits 4–7
//! numbers
//! ulps:        head u8 | numbers
//! exceptions:  varint count | (varint position − position after the one before | bits u64 LE)*
//! ```
//!
//! ```text
//! numbers ─ + reference ─ decimal ─ + ulps ─► values ◄─ exceptions
//! ```
//!
//! Ulps are what rounding leaves: the sum of decimals is a decimal, give or take a few floats.

use crate::DecodeError;
use crate::columns::decimal::{self, BIT_PATTERNS, Exception};
use crate::columns::numbers::{self, Plan};
use crate::reader::Reader;

const EXCEPTIONS: u8 = 0x20;
const ULPS: u8 = 0x40;
const STORED_BIT_PATTERNS: u8 = 15;

/// Values as numbers of one exponent, before anything is subtracted.
#[derive(Debug, Default)]
pub(super) struct Scaled {
    pub(super) exponent: u8,
    pub(super) numbers: Vec<i64>,
    ulps: Vec<i64>,
    exceptions: Vec<Exception>,
}

impl Scaled {
    pub(super) fn set(&mut self, values: &[f64]) {
        self.exponent = decimal::scale(values, &mut self.numbers, &mut self.exceptions);
        self.ulps.clear();
    }

    /// Values that were computed from values of this exponent: decimals but for rounding errors.
    pub(super) fn set_near(&mut self, values: &[f64], exponent: u8) {
        let is_near = exponent != BIT_PATTERNS && {
            let power = decimal::power(exponent);
            self.set_computed(exponent, values, |_, value| {
                let number = decimal::nearest(exponent, value);
                (number, number as f64 / power)
            })
        };
        if !is_near {
            self.set(values);
        }
    }

    /// Numbers for values, each with the value that it is expected to give back. Returns whether
    /// most of them nearly do.
    pub(super) fn set_computed(
        &mut self,
        exponent: u8,
        values: &[f64],
        number_of: impl Fn(usize, f64) -> (i64, f64),
    ) -> bool {
        self.exponent = exponent;
        self.numbers.clear();
        self.ulps.clear();
        self.exceptions.clear();
        let mut previous = 0;
        for (position, value) in values.iter().enumerate() {
            let (number, expected) = number_of(position, *value);
            match decimal::ulps_after(expected, *value) {
                Some(ulps) => {
                    previous = number;
                    self.ulps.push(ulps);
                }
                None => {
                    self.ulps.push(0);
                    self.exceptions.push(Exception {
                        position,
                        bits: value.to_bits(),
                    });
                }
            }
            self.numbers.push(previous);
        }
        if self.ulps.iter().all(|ulps| *ulps == 0) {
            self.ulps.clear();
        }
        self.exceptions.len() <= values.len() / 8
    }

    /// The second half apart from the first, for columns that were scaled together.
    pub(super) fn split_into(&mut self, second: &mut Self) {
        let half = self.numbers.len() / 2;
        second.exponent = self.exponent;
        second.ulps.clear();
        second.numbers.clear();
        second.numbers.extend(self.numbers.drain(half..));
        let at = self
            .exceptions
            .partition_point(|exception| exception.position < half);
        second.exceptions.clear();
        let shifted = self.exceptions.drain(at..).map(|exception| Exception {
            position: exception.position - half,
            ..exception
        });
        second.exceptions.extend(shifted);
    }
}

/// Writes columns; keeps its room from one to the next.
#[derive(Debug, Default)]
pub(crate) struct FloatWriter {
    numbers: Vec<i64>,
    steps: Vec<i64>,
}

impl FloatWriter {
    /// Appends a column of at least one value, with what its numbers are subtracted from.
    pub(super) fn push(
        &mut self,
        scaled: &Scaled,
        reference: u8,
        subtracted: impl Iterator<Item = i64>,
        out: &mut Vec<u8>,
    ) {
        self.numbers.clear();
        let distances = scaled.numbers.iter().zip(subtracted);
        self.numbers
            .extend(distances.map(|(number, from)| number.wrapping_sub(from)));
        let plan = Plan::apply(&mut self.numbers, &mut self.steps);
        let mut head = plan.head();
        if !scaled.ulps.is_empty() {
            head |= ULPS;
        }
        if !scaled.exceptions.is_empty() {
            head |= EXCEPTIONS;
        }
        let exponent = match scaled.exponent {
            BIT_PATTERNS => STORED_BIT_PATTERNS,
            exponent => exponent,
        };
        out.extend_from_slice(&[head, exponent | reference << 4]);
        plan.push(&self.numbers, out);
        if !scaled.ulps.is_empty() {
            self.push_integers(&scaled.ulps, out);
        }
        if !scaled.exceptions.is_empty() {
            decimal::push_exceptions(&scaled.exceptions, out);
        }
    }

    /// Appends a column of at least one integer.
    pub(crate) fn push_integers(&mut self, integers: &[i64], out: &mut Vec<u8>) {
        self.numbers.clear();
        self.numbers.extend_from_slice(integers);
        let plan = Plan::apply(&mut self.numbers, &mut self.steps);
        out.push(plan.head());
        plan.push(&self.numbers, out);
    }
}

/// A column whose head is read.
pub(super) struct FloatReader<'a> {
    reader: Reader<'a>,
    head: u8,
    pub(super) exponent: u8,
    pub(super) reference: u8,
}

impl<'a> FloatReader<'a> {
    pub(super) fn open(record: &'static str, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(record, payload);
        let (head, scale) = (reader.u8()?, reader.u8()?);
        if head & !(numbers::HEAD | EXCEPTIONS | ULPS) != 0 {
            return Err(reader.error("unknown head of values"));
        }
        let exponent = match scale & 15 {
            exponent @ 0..=12 => exponent,
            STORED_BIT_PATTERNS => BIT_PATTERNS,
            _ => return Err(reader.error("unknown exponent")),
        };
        Ok(Self {
            reader,
            head,
            exponent,
            reference: scale >> 4,
        })
    }

    pub(super) fn error(&self, reason: &'static str) -> DecodeError {
        self.reader.error(reason)
    }

    /// Reads as many distances, of which there is at least one.
    pub(super) fn numbers(&mut self, count: usize, out: &mut Vec<i64>) -> Result<(), DecodeError> {
        numbers::read(&mut self.reader, self.head, count, out)
    }

    /// Replaces `out` by the values of what were distances and have become numbers.
    pub(super) fn finish(self, numbers: &[i64], out: &mut Vec<f64>) -> Result<(), DecodeError> {
        out.clear();
        decimal::unscale(self.exponent, numbers, out)
            .ok_or_else(|| self.reader.error("unknown exponent"))?;
        self.amend(out)
    }

    /// Adds ulps and puts exceptions in their places.
    pub(super) fn amend(mut self, out: &mut [f64]) -> Result<(), DecodeError> {
        if self.head & ULPS != 0 {
            let mut ulps = Vec::new();
            read_integers(&mut self.reader, out.len(), &mut ulps)?;
            for (value, ulps) in out.iter_mut().zip(&ulps) {
                *value = decimal::float_after(*value, *ulps);
            }
        }
        if self.head & EXCEPTIONS != 0 {
            decimal::apply_exceptions(&mut self.reader, out)?;
        }
        self.reader.finish()
    }
}

/// Reads a column of integers, of which there is at least one.
pub(crate) fn read_integers(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    let head = reader.u8()?;
    if head & !numbers::HEAD != 0 {
        return Err(reader.error("unknown head of integers"));
    }
    numbers::read(reader, head, count, out)
}
