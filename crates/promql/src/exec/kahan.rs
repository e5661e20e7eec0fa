//! Sums that keep what rounding takes away (Kahan and Neumaier).

/// Adds `increment` to a sum and its compensation.
#[inline]
pub(crate) fn kahan_add(increment: f64, sum: f64, compensation: f64) -> (f64, f64) {
    let total = sum + increment;
    let lost = if total.is_infinite() {
        return (total, 0.0);
    } else if sum.abs() >= increment.abs() {
        (sum - total) + increment
    } else {
        (increment - total) + sum
    };
    (total, compensation + lost)
}
