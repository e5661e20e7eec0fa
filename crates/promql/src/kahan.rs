//! Sums that keep what rounding takes away (Kahan and Neumaier).

/// Adds `increment` to a sum and its compensation. Choices instead of branches: loops over this are
/// compiled to vector instructions.
#[inline]
pub(crate) fn kahan_add(increment: f64, sum: f64, compensation: f64) -> (f64, f64) {
    let total = sum + increment;
    let (large, small) = match sum.abs() >= increment.abs() {
        true => (sum, increment),
        false => (increment, sum),
    };
    let lost = (large - total) + small;
    let compensation = match total.is_infinite() {
        true => 0.0,
        false => compensation + lost,
    };
    (total, compensation)
}
