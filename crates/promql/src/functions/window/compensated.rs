//! Compensated addition without a branch on data.
//!
//! The same result as [`kahan_add`](icecore_model::kahan_add), bit for bit: both find the exact
//! rounding error. A branch on which of two numbers is larger is unpredictable and costs more than
//! the additions that avoid it.

/// Adds `increment` to a sum and its compensation.
#[inline]
pub(super) fn add(increment: f64, sum: f64, lost: f64) -> (f64, f64) {
    let (total, rounding) = two_sum(sum, increment);
    if total.is_infinite() {
        (total, 0.0)
    } else {
        (total, lost + rounding)
    }
}

/// A sum and its exact rounding error (Knuth).
#[inline]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_in_sum = sum - a;
    (sum, (a - (sum - b_in_sum)) + (b - b_in_sum))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use icecore_model::kahan_add;

    proptest! {
        #[test]
        fn bit_for_bit(increment: f64, sum: f64, lost in -1.0..1.0f64) {
            let (ours, theirs) = (add(increment, sum, lost), kahan_add(increment, sum, lost));
            prop_assert!(ours == theirs || (ours.0.is_nan() && theirs.0.is_nan()));
        }

        #[test]
        fn near_numbers_too(increment in -1e9..1e9f64, sum in -1e9..1e9f64) {
            prop_assert_eq!(add(increment, sum, 0.0), kahan_add(increment, sum, 0.0));
        }
    }
}
