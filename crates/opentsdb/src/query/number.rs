//! Values of points: integers of 64 bits or floats. Each kind has its own arithmetic.

use icecore_wire::opentsdb::number::Number;

/// The arithmetic of one kind. Integers wrap and divide toward zero, as in the original.
pub(crate) trait Arithmetic: Copy + PartialOrd + Send + Sync {
    const ZERO: Self;
    /// Never the minimum, and never the maximum of values.
    const HIGHEST: Self;
    const LOWEST: Self;
    /// Whether percentiles follow their estimation; else all are estimated as `Legacy` does.
    const IS_ESTIMATED: bool;

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn divided_by(self, count: u64) -> Self;
    fn to_f64(self) -> f64;
    fn to_number(self) -> Number;
    /// Cut to an integer where the kind is that.
    fn from_f64(value: f64) -> Self;
    /// Missing values come from fill policies.
    fn is_missing(self) -> bool;
    /// What aggregators say about nothing but missing values.
    fn missing() -> Self;
    /// The value at `x` on the line through two points.
    fn linear(x: i64, from: (i64, Self), to: (i64, Self)) -> Self;
}

impl Arithmetic for i64 {
    const ZERO: Self = 0;
    const HIGHEST: Self = Self::MAX;
    const LOWEST: Self = Self::MIN;
    const IS_ESTIMATED: bool = true;

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    fn divided_by(self, count: u64) -> Self {
        self.checked_div(count as Self).unwrap_or(0)
    }

    fn to_f64(self) -> f64 {
        self as f64
    }

    fn to_number(self) -> Number {
        Number::Integer(self)
    }

    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn is_missing(self) -> bool {
        false
    }

    fn missing() -> Self {
        0
    }

    fn linear(x: i64, from: (i64, Self), to: (i64, Self)) -> Self {
        let rise = to.1.wrapping_sub(from.1);
        let part = (x - from.0).wrapping_mul(rise);
        from.1
            .wrapping_add(part.wrapping_div((to.0 - from.0).max(1)))
    }
}

impl Arithmetic for f64 {
    const ZERO: Self = 0.0;
    const HIGHEST: Self = Self::MAX;
    const LOWEST: Self = Self::MIN;
    const IS_ESTIMATED: bool = false;

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn minus(self, other: Self) -> Self {
        self - other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }

    fn divided_by(self, count: u64) -> Self {
        self / count as Self
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn to_number(self) -> Number {
        Number::Float(self)
    }

    fn from_f64(value: f64) -> Self {
        value
    }

    fn is_missing(self) -> bool {
        self.is_nan()
    }

    fn missing() -> Self {
        Self::NAN
    }

    fn linear(x: i64, from: (i64, Self), to: (i64, Self)) -> Self {
        from.1 + (x - from.0) as Self * (to.1 - from.1) / (to.0 - from.0) as Self
    }
}
