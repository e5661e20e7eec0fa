//! Logarithms, exponentials, powers and extremes with the last bit that Go gives them.
//!
//! Prometheus uses Go's `math` package, mostly on amd64. Its functions are within one unit in the
//! last place of the exact value, and so are those of the C library that Rust calls, but not always
//! on the same side. Comparisons, `%`, `floor` and comparisons of two databases expose the
//! difference. So these follow Go: the reductions, the polynomials (FreeBSD's for the logarithm and
//! powers of two, Shibata's for the exponential) and the order in which terms are added.
//!
//! Holds always: no fused multiplication, except explicit ones.
//!
//! `testdata/go_math.txt` has values computed by a Go program; a test compares all bits.

#![allow(
    clippy::excessive_precision,
    reason = "constants are written as they were published"
)]

use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E, LOG10_E};

/// The logarithm of 2 in two parts, the first of which has few enough bits to be multiplied
/// exactly.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

const EXPONENT_BITS: u64 = 0x7ff << 52;
const FRACTION_BITS: u64 = (1 << 52) - 1;

/// The natural logarithm.
pub(crate) fn ln(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x < 0.0 {
        return f64::NAN;
    }
    if !x.is_finite() {
        return x;
    }
    // x = 2^k · f1. Go takes the bits as they are, for subnormal numbers, too.
    let bits = x.to_bits();
    let mut k = (bits >> 52) as f64 - 1022.0;
    let mut f1 = f64::from_bits((bits & FRACTION_BITS) | 0.5f64.to_bits());
    if f1 <= FRAC_1_SQRT_2 {
        k -= 1.0;
        f1 *= 2.0;
    }
    let f = f1 - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let odd = s2
        * (0.6666666666666735130
            + s4 * (0.2857142874366239149
                + s4 * (0.1818357216161805012 + s4 * 0.1479819860511658591)));
    let even =
        s4 * (0.3999999999940941908 + s4 * (0.2222219843214978396 + s4 * 0.1531383769920937332));
    let rest = odd + even;
    let half_square = 0.5 * f * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + rest) + k * LN2_LOW)) - f)
}

/// The logarithm to base 2, exact for powers of 2.
pub(crate) fn log2(x: f64) -> f64 {
    let (fraction, exponent) = split(x);
    if fraction == 0.5 {
        f64::from(exponent - 1)
    } else {
        ln(fraction) * LOG2_E + f64::from(exponent)
    }
}

pub(crate) fn log10(x: f64) -> f64 {
    ln(x) * LOG10_E
}

/// The exponential, with fused multiplications as Go uses them where the processor has them.
pub(crate) fn exp(x: f64) -> f64 {
    const LN2_UPPER: f64 = 0.693_147_180_559_662_956_511_601_805_686_950_683_593_75;
    const LN2_LOWER: f64 = 0.282_352_905_630_315_771_225_884_481_750_134_360_255_254_120_68e-12;
    const LARGEST: f64 = 7.097_827_128_933_84e2;
    const COEFFICIENTS: [f64; 7] = [
        1.984_126_984_126_984_127_0e-4,
        1.388_888_888_888_888_888_9e-3,
        8.333_333_333_333_333_333_3e-3,
        4.166_666_666_666_666_666_7e-2,
        1.666_666_666_666_666_666_7e-1,
        0.5,
        1.0,
    ];
    if x.is_nan() || x == f64::INFINITY || x > LARGEST {
        return if x.is_nan() { x } else { f64::INFINITY };
    }
    if x == f64::NEG_INFINITY {
        return 0.0;
    }
    let exponent = (LOG2_E * x).round_ties_even() as i32;
    let k = f64::from(exponent);
    let reduced = LN2_LOWER.mul_add(-k, LN2_UPPER.mul_add(-k, x)) * 0.0625;
    let start = 2.480_158_730_158_730_158_7e-5;
    let series = COEFFICIENTS
        .iter()
        .fold(start, |sum, c| reduced.mul_add(sum, *c));
    // e^r − 1, squared four times as (1 + y)² − 1 = y · (y + 2).
    let mut y = reduced * series;
    for _ in 0..3 {
        y *= y + 2.0;
    }
    scaled_by_bits((y + 2.0).mul_add(y, 1.0), exponent)
}

/// `value` · 2^`exponent` for a value near 1.
fn scaled_by_bits(value: f64, exponent: i32) -> f64 {
    let power = |biased: i32| f64::from_bits((biased as u64) << 52);
    match exponent.saturating_add(1023) {
        biased @ 1..2047 => value * power(biased),
        2047.. => f64::INFINITY,
        biased if biased < -52 => 0.0,
        // Subnormal: in two steps, because there is no such power of 2.
        biased => value * power(biased + 1022) * f64::MIN_POSITIVE,
    }
}

/// 2 to the power of x.
pub(crate) fn exp2(x: f64) -> f64 {
    const LARGEST: f64 = 1.023_999_999_999_999_9e3;
    const SMALLEST: f64 = -1074.0;
    if x.is_nan() {
        return x;
    }
    if x > LARGEST {
        return f64::INFINITY;
    }
    if x < SMALLEST {
        return 0.0;
    }
    let k = if x > 0.0 {
        (x + 0.5).trunc()
    } else {
        (x - 0.5).trunc()
    };
    let k = if x == 0.0 { 0.0 } else { k };
    let t = x - k;
    let (high, low) = (t * LN2_HIGH, -t * LN2_LOW);
    let r = high - low;
    let t = r * r;
    let c = r - t
        * (1.66666666666666657415e-01
            + t * (-2.77777777770155933842e-03
                + t * (6.61375632143793436117e-05
                    + t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
    let y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
    scaled(y, k as i32)
}

/// x to the power of y.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    if let Some(special) = special_power(x, y) {
        return special;
    }
    let mut whole = y.abs().trunc();
    let mut fraction = y.abs() - whole;
    if fraction != 0.0 && x < 0.0 {
        return f64::NAN;
    }
    if whole >= 9_223_372_036_854_775_808.0 {
        return match (x == -1.0, (x.abs() < 1.0) == (y > 0.0)) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => f64::INFINITY,
        };
    }
    let (mut power, mut power_exponent) = (1.0, 0i32);
    if fraction != 0.0 {
        if fraction > 0.5 {
            fraction -= 1.0;
            whole += 1.0;
        }
        power = exp(fraction * ln(x));
    }
    // Squared again and again, the exponents apart.
    let (mut square, mut exponent) = split(x);
    let mut rest = whole as i64;
    while rest != 0 {
        if !(-4096..=4096).contains(&exponent) {
            power_exponent += exponent;
            break;
        }
        if rest & 1 == 1 {
            power *= square;
            power_exponent += exponent;
        }
        square *= square;
        exponent <<= 1;
        if square < 0.5 {
            square += square;
            exponent -= 1;
        }
        rest >>= 1;
    }
    if y < 0.0 {
        scaled(1.0 / power, -power_exponent)
    } else {
        scaled(power, power_exponent)
    }
}

/// Powers that follow from what the numbers are.
fn special_power(x: f64, y: f64) -> Option<f64> {
    let is_odd = |y: f64| y.abs() < 9_007_199_254_740_992.0 && y % 2.0 != 0.0 && y.trunc() == y;
    if y == 0.0 || x == 1.0 {
        return Some(1.0);
    }
    if y == 1.0 {
        return Some(x);
    }
    if x.is_nan() || y.is_nan() {
        return Some(f64::NAN);
    }
    if x == 0.0 {
        let size = if y < 0.0 { f64::INFINITY } else { 0.0 };
        return Some(if x.is_sign_negative() && is_odd(y) {
            -size
        } else {
            size
        });
    }
    if y.is_infinite() {
        return Some(match (x == -1.0, (x.abs() < 1.0) == (y > 0.0)) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => f64::INFINITY,
        });
    }
    if x == f64::NEG_INFINITY {
        return Some(pow(-0.0, -y));
    }
    if x == f64::INFINITY {
        return Some(if y < 0.0 { 0.0 } else { f64::INFINITY });
    }
    if y == 0.5 {
        return Some(x.sqrt());
    }
    (y == -0.5).then(|| 1.0 / x.sqrt())
}

/// A number as a fraction from 0.5 up to 1 and a power of 2.
fn split(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (x, shift) = normal(x);
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022;
    let fraction = f64::from_bits((bits & !EXPONENT_BITS) | 0.5f64.to_bits());
    (fraction, exponent + shift)
}

/// A number that is not subnormal, and the power of 2 it is to be multiplied with.
fn normal(x: f64) -> (f64, i32) {
    if x.abs() < f64::MIN_POSITIVE {
        (x * 4_503_599_627_370_496.0, -52)
    } else {
        (x, 0)
    }
}

/// `fraction` · 2^`exponent`, rounded once.
fn scaled(fraction: f64, exponent: i32) -> f64 {
    if fraction == 0.0 || !fraction.is_finite() {
        return fraction;
    }
    let (fraction, shift) = normal(fraction);
    let bits = fraction.to_bits();
    let exponent = exponent.saturating_add(shift + ((bits >> 52) & 0x7ff) as i32 - 1023);
    if exponent < -1075 {
        return 0.0f64.copysign(fraction);
    }
    if exponent > 1023 {
        return f64::INFINITY.copysign(fraction);
    }
    let (exponent, factor) = if exponent < -1022 {
        (exponent + 53, 1.0 / 9_007_199_254_740_992.0)
    } else {
        (exponent, 1.0)
    };
    factor * f64::from_bits((bits & !EXPONENT_BITS) | (((exponent + 1023) as u64) << 52))
}

/// Go's `math.Min`: −Inf wins over NaN, NaN over the rest, −0 over 0.
pub(crate) fn min(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY || b == f64::NEG_INFINITY {
        f64::NEG_INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// Go's `math.Max`: +Inf wins over NaN, NaN over the rest, 0 over −0.
pub(crate) fn max(a: f64, b: f64) -> f64 {
    -min(-a, -b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table was made by Go on amd64: a function, its arguments and its result, as bits.
    #[test]
    fn the_bits_are_those_of_go() {
        let table = include_str!("../../../testdata/go_math.txt");
        let mut compared = 0;
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let numbers: Vec<f64> = words
                .map(|word| f64::from_bits(u64::from_str_radix(word, 16).unwrap()))
                .collect();
            let (found, expected) = match (name, &numbers[..]) {
                ("ln", [x, y]) => (ln(*x), *y),
                ("log2", [x, y]) => (log2(*x), *y),
                ("log10", [x, y]) => (log10(*x), *y),
                ("exp", [x, y]) => (exp(*x), *y),
                ("exp2", [x, y]) => (exp2(*x), *y),
                ("pow", [a, b, y]) => (pow(*a, *b), *y),
                _ => panic!("{line}"),
            };
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(
                same,
                "{line}: {found:e} and not {expected:e} of {numbers:?}"
            );
            compared += 1;
        }
        assert!(compared > 2000, "{compared}");
    }
}
