//! Compensated summation (Kahan and Neumaier).

/// Adds `increment` to a sum and its compensation. Selects instead of branches, so that loops over
/// it compile to vector instructions.
#[inline]
pub fn kahan_add(increment: f64, sum: f64, compensation: f64) -> (f64, f64) {
    let total = sum + increment;
    let (large, small) = if sum.abs() >= increment.abs() {
        (sum, increment)
    } else {
        (increment, sum)
    };
    let lost = (large - total) + small;
    let compensation = if total.is_infinite() {
        0.0
    } else {
        compensation + lost
    };
    (total, compensation)
}
