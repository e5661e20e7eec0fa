//! Floats as integers, because most floats that people measure are short decimals.
//!
//! ```text
//! exponent 0..=12   value = number / 10^exponent
//! exponent 255      value = the float whose bits the number is, in the order of floats
//! exception         a float that the chosen exponent cannot give back in every bit: NaN, −0, ∞,
//!                   too many digits
//! ```
//!
//! Holds always:
//! - What [`scale`] does not call an exception comes back from [`unscale`] in every bit.
//! - The choice depends on the values alone, and on integer arithmetic over what round-trips.

use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::Reader;

/// The exponent that stands for bit patterns.
pub(crate) const BIT_PATTERNS: u8 = 255;

const POWERS: [f64; 13] = [
    1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
];

/// How many values are sampled for an exponent before all are tried with it.
const LOOKED_AT: usize = 64;

/// What takes about 3.3 bits: a digit per sample. An exception takes 80 bits, a bit pattern rarely
/// less than 50.
const COST_OF_DIGIT: usize = 1;
const COST_OF_EXCEPTION: usize = 24;
const COST_OF_BIT_PATTERN: usize = 15;

/// A float that is stored as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) position: usize,
    pub(crate) bits: u64,
}

/// Fills `numbers` with one integer per value and returns their exponent. An exception repeats
/// the number before it, so that it does not disturb its neighbours.
pub(crate) fn scale(values: &[f64], numbers: &mut Vec<i64>, exceptions: &mut Vec<Exception>) -> u8 {
    // An odd step, so that what repeats every few samples is not all that is seen.
    let step = values.len().div_ceil(LOOKED_AT) | 1;
    let exponent = cheapest_exponent(values.iter().step_by(step));
    scale_by(exponent, values, numbers, exceptions);
    if exceptions.len() <= values.len() / 32 + 1 {
        return exponent;
    }
    // Not what the first look promised: then all of them decide.
    let exponent = cheapest_exponent(values.iter());
    scale_by(exponent, values, numbers, exceptions);
    exponent
}

fn scale_by(exponent: u8, values: &[f64], numbers: &mut Vec<i64>, exceptions: &mut Vec<Exception>) {
    numbers.clear();
    exceptions.clear();
    let Some(&power) = POWERS.get(usize::from(exponent)) else {
        numbers.extend(values.iter().map(|value| ordered(*value)));
        return;
    };
    let first = values.iter().find_map(|value| to_number(*value, power));
    let mut previous = first.unwrap_or(0);
    for (position, value) in values.iter().enumerate() {
        match to_number(*value, power) {
            Some(number) => previous = number,
            None => exceptions.push(Exception {
                position,
                bits: value.to_bits(),
            }),
        }
        numbers.push(previous);
    }
}

/// Turns numbers into values; `None` if there is no such exponent.
pub(crate) fn unscale(exponent: u8, numbers: &[i64], out: &mut Vec<f64>) -> Option<()> {
    match exponent {
        0 => out.extend(numbers.iter().map(|number| *number as f64)),
        BIT_PATTERNS => out.extend(numbers.iter().map(|number| from_ordered(*number))),
        _ => {
            let power = *POWERS.get(usize::from(exponent))?;
            out.extend(numbers.iter().map(|number| *number as f64 / power));
        }
    }
    Some(())
}

/// The number whose value is nearest to a value, whether or not every bit comes back; any number
/// where there is none. `exponent` is one that [`scale`] returns.
#[inline(always)]
pub(crate) fn nearest(exponent: u8, value: f64) -> i64 {
    match POWERS.get(usize::from(exponent)) {
        Some(power) => rounded(value * power),
        None => ordered(value),
    }
}

/// 10 to this exponent, which is at most 12.
#[inline(always)]
pub(crate) fn power(exponent: u8) -> f64 {
    POWERS[usize::from(exponent)]
}

/// How many floats `value` lies after `expected`; `None` if so many that it is no rounding error.
#[inline(always)]
pub(crate) fn ulps_after(expected: f64, value: f64) -> Option<i64> {
    const MOST_ULPS: u64 = 1 << 20;
    let ulps = ordered(value).wrapping_sub(ordered(expected));
    (ulps.unsigned_abs() <= MOST_ULPS).then_some(ulps)
}

/// The float that lies `ulps` floats after this one.
#[inline(always)]
pub(crate) fn float_after(value: f64, ulps: i64) -> f64 {
    from_ordered(ordered(value).wrapping_add(ulps))
}

/// Appends at least one exception.
pub(crate) fn push_exceptions(exceptions: &[Exception], out: &mut Vec<u8>) {
    push_varint(out, exceptions.len() as u64);
    let mut next = 0;
    for exception in exceptions {
        push_varint(out, (exception.position - next) as u64);
        out.extend_from_slice(&exception.bits.to_le_bytes());
        next = exception.position + 1;
    }
}

pub(crate) fn apply_exceptions(
    reader: &mut Reader<'_>,
    values: &mut [f64],
) -> Result<(), DecodeError> {
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

/// The exponent with the lowest cost for these values; of equal ones the smallest.
fn cheapest_exponent<'a>(values: impl Iterator<Item = &'a f64>) -> u8 {
    // How many values need how many digits; the last place counts those that have no end.
    let mut needing = [0usize; POWERS.len() + 1];
    let mut count = 0;
    for value in values {
        let digits = POWERS
            .iter()
            .position(|power| to_number(*value, *power).is_some());
        needing[digits.unwrap_or(POWERS.len())] += 1;
        count += 1;
    }
    let mut best = (COST_OF_BIT_PATTERN * count, BIT_PATTERNS);
    let mut exceptions = 0;
    for exponent in (0..POWERS.len()).rev() {
        exceptions += needing[exponent + 1];
        let cost = COST_OF_EXCEPTION * exceptions + COST_OF_DIGIT * exponent * count;
        if cost <= best.0 {
            best = (cost, exponent as u8);
        }
    }
    best.1
}

/// The number whose division by the power gives back every bit of the value.
#[inline(always)]
fn to_number(value: f64, power: f64) -> Option<i64> {
    let number = rounded(value * power);
    let comes_back = (number as f64 / power).to_bits() == value.to_bits();
    // With more digits than a float has, everything would come back, only longer than its bits.
    let is_short = power == 1.0 || number.unsigned_abs() < 1 << 53;
    (comes_back && is_short).then_some(number)
}

#[inline(always)]
fn rounded(scaled: f64) -> i64 {
    // Just under a half: a half itself would carry integers over 2^52 to their neighbour.
    const HALF: f64 = 0.499_999_999_999_999_94;
    (scaled + HALF.copysign(scaled)) as i64
}

/// The bits of a float as a number of the same order: neighbours are neighbours, −x before +x.
#[inline(always)]
fn ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[inline(always)]
fn from_ordered(number: i64) -> f64 {
    f64::from_bits((number ^ ((number >> 63) as u64 >> 1) as i64) as u64)
}

/// What all differences to the first number are multiples of, if that is more than 1. Pages, blocks
/// and floats of 32 bits have such a factor.
pub(super) struct Factor {
    pub(super) factor: u64,
    pub(super) offset: i64,
}

impl Factor {
    pub(super) fn of(numbers: &[i64]) -> Option<Self> {
        let offset = *numbers.first()?;
        let mut factor = 0;
        for number in numbers {
            let difference = number.wrapping_sub(offset).unsigned_abs();
            if factor == 0 || difference % factor != 0 {
                factor = greatest_common_divisor(factor, difference);
            }
            if factor == 1 {
                return None;
            }
        }
        (factor > 1).then_some(Self { factor, offset })
    }

    pub(super) fn divide(&self, numbers: &mut [i64]) {
        for number in numbers {
            let difference = number.wrapping_sub(self.offset);
            *number = difference.wrapping_div(self.factor as i64);
        }
    }

    pub(super) fn multiply(&self, numbers: &mut [i64]) {
        for number in numbers {
            *number = number
                .wrapping_mul(self.factor as i64)
                .wrapping_add(self.offset);
        }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scaled(values: &[f64]) -> (u8, Vec<i64>, usize) {
        let (mut numbers, mut exceptions) = (vec![], vec![]);
        let exponent = scale(values, &mut numbers, &mut exceptions);
        (exponent, numbers, exceptions.len())
    }

    proptest! {
        #[test]
        fn short_decimals_have_few_digits(
            numbers in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 1..200),
            digits in 0usize..=12,
        ) {
            let values: Vec<f64> = numbers.iter().map(|n| *n as f64 / POWERS[digits]).collect();
            prop_assert!(usize::from(scaled(&values).0) <= digits);
        }

        #[test]
        fn floats_keep_their_order_as_numbers(a in any::<f64>(), b in any::<f64>()) {
            prop_assert_eq!(a.total_cmp(&b), ordered(a).cmp(&ordered(b)));
            prop_assert_eq!(from_ordered(ordered(a)).to_bits(), a.to_bits());
        }

        #[test]
        fn factors_are_found_and_undone(
            multiples in prop::collection::vec(-1000i64..1000, 1..100),
            factor in 1i64..1 << 50,
            offset in any::<i64>(),
        ) {
            let numbers: Vec<i64> = multiples
                .iter()
                .map(|m| m.wrapping_mul(factor).wrapping_add(offset))
                .collect();
            let mut divided = numbers.clone();
            match Factor::of(&numbers) {
                Some(found) => {
                    prop_assert_eq!(found.factor % factor as u64, 0);
                    found.divide(&mut divided);
                    found.multiply(&mut divided);
                }
                None => prop_assert!(factor == 1 || multiples.iter().all(|m| *m == multiples[0])),
            }
            prop_assert_eq!(divided, numbers);
        }
    }

    #[test]
    fn exponents_are_the_cheapest() {
        assert_eq!(scaled(&[1.0, 2.5, 3.25]), (2, vec![100, 250, 325], 0));
        // Integers of any size, beyond 2^53, too.
        assert_eq!(scaled(&[2f64.powi(60)]), (0, vec![1 << 60], 0));
        // Full precision has no exponent; one such value among many is an exception.
        assert_eq!(scaled(&[0.1 + 0.2, 1.0 / 3.0]).0, BIT_PATTERNS);
        let mut values = vec![0.5; 100];
        values[70] = 1.0 / 3.0;
        assert_eq!((scaled(&values).0, scaled(&values).2), (1, 1));
        // So is what has no digits at all, and it does not disturb its neighbours.
        let (exponent, numbers, exceptions) = scaled(&[f64::NAN, 7.0, -0.0, 8.0, 9.0]);
        assert_eq!((exponent, exceptions), (0, 2));
        assert_eq!(numbers, [7, 7, 7, 8, 9]);
    }

    #[test]
    fn factors_at_the_ends_of_the_range() {
        for numbers in [[i64::MIN, i64::MAX], [0, i64::MIN], [i64::MAX, 0]] {
            let mut divided = numbers;
            let factor = Factor::of(&numbers);
            if let Some(factor) = &factor {
                factor.divide(&mut divided);
                factor.multiply(&mut divided);
            }
            assert_eq!(divided, numbers);
        }
        assert!(Factor::of(&[5, 5, 5]).is_none());
    }
}
