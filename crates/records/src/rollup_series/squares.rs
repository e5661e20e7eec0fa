//! Squared deviations, from what decimals have to add up to.
//!
//! n decimals of exponent e are integers over 10^e. With S for the sum of these integers and Q for
//! the sum of their squares, m2 = (Q − S²/n) / 10^2e. As Q is an integer, so is
//! q = m2 · 10^2e + (S² mod n) / n, and S and n are known: q stands for m2, give or take a few ulps
//! of rounding, in half the bits.

use crate::columns::decimal;

/// The exponent of q where values have this one; `None` where it would be too large.
pub(super) fn exponent_of(values: u8) -> Option<u8> {
    (values <= 6).then(|| 2 * values)
}

/// What m2 is q too large by, in n-ths: S² mod n.
#[inline(always)]
fn excess(count: i64, sum: f64, exponent: u8) -> i64 {
    let sum = decimal::nearest(exponent / 2, sum);
    let rest = sum.wrapping_rem_euclid(count);
    rest.wrapping_mul(rest).wrapping_rem(count)
}

/// The number that stands for m2.
pub(super) fn number(m2: f64, count: i64, sum: f64, exponent: u8) -> i64 {
    if count <= 0 {
        return decimal::nearest(exponent, m2);
    }
    let part = excess(count, sum, exponent) as f64 / count as f64;
    decimal::nearest(0, m2 * decimal::power(exponent) + part)
}

/// What a number stands for; `exponent` is even.
#[inline(always)]
pub(super) fn value(number: i64, count: i64, sum: f64, exponent: u8) -> f64 {
    if count <= 0 {
        return number as f64 / decimal::power(exponent);
    }
    let whole = number.wrapping_mul(count);
    let rest = whole.wrapping_sub(excess(count, sum, exponent));
    rest as f64 / (count as f64 * decimal::power(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stand_for_squares() {
        // 2, 4, 4, 4 and 5, 5, 7, 9: 3 and 11; together 32.
        assert_eq!(number(3.0, 4, 14.0, 0), 3);
        assert_eq!(value(3, 4, 14.0, 0), 3.0);
        assert_eq!(value(number(11.0, 4, 26.0, 0), 4, 26.0, 0), 11.0);
        // Thirds: 1, 2, 2.
        let m2 = 2.0 / 3.0;
        assert_eq!(value(number(m2, 3, 5.0, 0), 3, 5.0, 0), m2);
        // Hundredths: 0.01, 0.03.
        assert_eq!(value(number(0.0002, 2, 0.04, 4), 2, 0.04, 4), 0.0002);
    }
}
