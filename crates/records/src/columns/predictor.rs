//! Predictors: what the next number of a column will be, so that only the residual is stored.
//!
//! ```text
//! 0  nothing          the number itself
//! 1  same             number − previous
//! 2  same step        step − previous step; the first step is stored
//! 3…5  damped trend   step − trend; the trend follows the residuals by a half, quarter, eighth
//! ```
//!
//! The trend is kept in 64ths; a residual moves it by at most 2^limit, so that a counter's reset
//! does not throw it off: `trend += clamp(residual, ±2^limit) · 64 / 2^k`.
//!
//! Holds always:
//! - All arithmetic wraps, so every column comes back.
//! - The choice is made with integers, so the same column gets the same predictor everywhere.

use super::bitpack::BLOCK;

/// Kinds of predictors.
const KINDS: usize = 6;
const NOTHING: u8 = 0;
const SAME: u8 = 1;
const SAME_STEP: u8 = 2;
const TREND: std::ops::RangeInclusive<u8> = 3..=5;

const TREND_FRACTION: u32 = 6;
/// With more, the limit would not be one.
const MAX_LIMIT: u8 = 62;

/// Columns from this length on are judged by windows.
const JUDGED_WHOLE: usize = 1500;
const WINDOWS: usize = 8;
/// Steps for the trend to settle in a window.
const WARM_UP: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Predictor {
    kind: u8,
    /// The step before the first one; not used by kinds 0 and 1.
    pub(super) step: i64,
    /// Not used by kinds 0 to 2.
    pub(super) limit: u8,
}

impl Predictor {
    /// A predictor as it is read, still without its parameters.
    pub(super) fn of_kind(kind: u8) -> Option<Self> {
        let predictor = Self {
            kind,
            step: 0,
            limit: 0,
        };
        (usize::from(kind) < KINDS).then_some(predictor)
    }

    pub(super) fn kind(&self) -> u8 {
        self.kind
    }

    /// Whether the first number is stored, and only those after it are predicted.
    pub(super) fn has_first(&self) -> bool {
        self.kind != NOTHING
    }

    pub(super) fn has_step(&self) -> bool {
        self.kind >= SAME_STEP
    }

    pub(super) fn has_limit(&self) -> bool {
        TREND.contains(&self.kind)
    }

    pub(super) fn is_limit(limit: u8) -> bool {
        limit <= MAX_LIMIT
    }

    /// The predictor that leaves the least deviation, of equal ones the simplest.
    pub(super) fn choose(numbers: &[i64], steps: &mut Vec<i64>) -> Self {
        steps.clear();
        steps.extend(numbers.windows(2).map(|two| two[1].wrapping_sub(two[0])));
        if steps.len() < 2 {
            return Self {
                kind: NOTHING,
                step: 0,
                limit: 0,
            };
        }
        let limit = limit_of(steps);
        let trend_step = median(&steps[..steps.len().min(WARM_UP)]);
        let costs = costs(numbers, steps, trend_step, limit);
        let mut kind = NOTHING;
        for candidate in SAME..KINDS as u8 {
            if costs[usize::from(candidate)] < costs[usize::from(kind)] {
                kind = candidate;
            }
        }
        match kind {
            NOTHING | SAME => Self {
                kind,
                step: 0,
                limit: 0,
            },
            SAME_STEP => Self {
                kind,
                step: steps[0],
                limit: 0,
            },
            _ => Self {
                kind,
                step: trend_step,
                limit,
            },
        }
    }

    /// Turns numbers into residuals, in place; the first number stays if the predictor has one.
    pub(super) fn subtract(&self, numbers: &mut [i64]) {
        let Some((first, rest)) = numbers.split_first_mut() else {
            return;
        };
        let mut previous = *first;
        match self.kind {
            NOTHING => {}
            SAME => {
                for number in rest {
                    let step = number.wrapping_sub(previous);
                    previous = *number;
                    *number = step;
                }
            }
            SAME_STEP => {
                let mut previous_step = self.step;
                for number in rest {
                    let step = number.wrapping_sub(previous);
                    previous = *number;
                    *number = step.wrapping_sub(previous_step);
                    previous_step = step;
                }
            }
            _ => {
                let mut trend = Trend::new(self.kind, self.step, self.limit);
                for number in rest {
                    let step = number.wrapping_sub(previous);
                    previous = *number;
                    *number = trend.residual(step);
                }
            }
        }
    }

    /// Reverses [`Predictor::subtract`].
    pub(super) fn restore(&self, numbers: &mut [i64]) {
        let Some((first, rest)) = numbers.split_first_mut() else {
            return;
        };
        let mut previous = *first;
        match self.kind {
            NOTHING => {}
            SAME => {
                for number in rest {
                    previous = previous.wrapping_add(*number);
                    *number = previous;
                }
            }
            SAME_STEP => {
                let mut step = self.step;
                for number in rest {
                    step = step.wrapping_add(*number);
                    previous = previous.wrapping_add(step);
                    *number = previous;
                }
            }
            _ => {
                let mut trend = Trend::new(self.kind, self.step, self.limit);
                for number in rest {
                    previous = previous.wrapping_add(trend.step(*number));
                    *number = previous;
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Trend {
    /// In 64ths of a step.
    estimate: i64,
    bound: i64,
    gain: u32,
}

impl Trend {
    fn new(kind: u8, step: i64, limit: u8) -> Self {
        Self {
            estimate: step << TREND_FRACTION,
            bound: 1 << limit.min(MAX_LIMIT),
            gain: TREND_FRACTION - u32::from(kind - SAME_STEP),
        }
    }

    #[inline(always)]
    fn residual(&mut self, step: i64) -> i64 {
        let residual = step.wrapping_sub(self.estimate >> TREND_FRACTION);
        self.follow(residual);
        residual
    }

    #[inline(always)]
    fn step(&mut self, residual: i64) -> i64 {
        let step = residual.wrapping_add(self.estimate >> TREND_FRACTION);
        self.follow(residual);
        step
    }

    #[inline(always)]
    fn follow(&mut self, residual: i64) {
        let bounded = residual.clamp(-self.bound, self.bound);
        self.estimate = self.estimate.wrapping_add(bounded << self.gain);
    }
}

/// Eight times what steps usually deviate by, as a power of two: further than that is a jump.
fn limit_of(steps: &[i64]) -> u8 {
    let every = steps.len().div_ceil(256);
    let mut sample = [0i64; 256];
    let mut len = 0;
    for (place, step) in sample.iter_mut().zip(steps.iter().step_by(every)) {
        *place = *step;
        len += 1;
    }
    let sample = &mut sample[..len];
    let (_, middle, _) = sample.select_nth_unstable(len / 2);
    let middle = *middle;
    for step in sample.iter_mut() {
        *step = step.wrapping_sub(middle).saturating_abs();
    }
    let (_, deviation, _) = sample.select_nth_unstable(len / 2);
    let bits = 64 - deviation.leading_zeros();
    (3 + bits as u8).min(MAX_LIMIT)
}

fn median(steps: &[i64]) -> i64 {
    let mut sorted = [0i64; WARM_UP];
    let sorted = &mut sorted[..steps.len()];
    sorted.copy_from_slice(steps);
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// What each kind of predictor would cost, in 16ths of a bit.
fn costs(numbers: &[i64], steps: &[i64], trend_step: i64, limit: u8) -> [u64; KINDS] {
    let step_bytes = |step: i64| 1 + u64::from(64 - step.unsigned_abs().leading_zeros()) / 7;
    let trend_header = 128 * (1 + step_bytes(trend_step));
    let mut costs = [
        0,
        0,
        128 * step_bytes(steps[0]),
        trend_header,
        trend_header,
        trend_header,
    ];
    let mut estimator = CostEstimator::new(steps[0], trend_step, limit);
    if steps.len() < JUDGED_WHOLE {
        for (steps, numbers) in steps.chunks(BLOCK).zip(numbers[1..].chunks(BLOCK)) {
            estimator.add(numbers, steps, &mut costs);
        }
        return costs;
    }
    for window in 0..WINDOWS {
        let len = WARM_UP + BLOCK;
        let start = (steps.len() - len) / (WINDOWS - 1) * window;
        let (warm_up, judged) = steps[start..start + len].split_at(WARM_UP);
        let mut estimator = CostEstimator::new(warm_up[WARM_UP - 1], median(warm_up), limit);
        let numbers = &numbers[start + WARM_UP + 1..start + len + 1];
        estimator.add(numbers, judged, &mut costs);
    }
    costs
}

/// Runs all predictors side by side and adds up their costs.
struct CostEstimator {
    previous_step: i64,
    trends: [Trend; 3],
}

impl CostEstimator {
    fn new(previous_step: i64, trend_step: i64, limit: u8) -> Self {
        let trends = [3, 4, 5].map(|kind| Trend::new(kind, trend_step, limit));
        Self {
            previous_step,
            trends,
        }
    }

    /// Adds what a block would cost.
    fn add(&mut self, numbers: &[i64], steps: &[i64], costs: &mut [u64; KINDS]) {
        let len = steps.len().min(BLOCK);
        let mut residuals = [[0i64; BLOCK]; KINDS];
        residuals[0][..len].copy_from_slice(&numbers[..len]);
        residuals[1][..len].copy_from_slice(&steps[..len]);
        for (i, step) in steps.iter().enumerate().take(len) {
            residuals[2][i] = step.wrapping_sub(self.previous_step);
            self.previous_step = *step;
            for (trend, residuals) in self.trends.iter_mut().zip(&mut residuals[3..]) {
                residuals[i] = trend.residual(*step);
            }
        }
        for (cost, residuals) in costs.iter_mut().zip(&residuals) {
            // A fourth of a unit is added to the mean: below that there is hardly anything to save.
            let scaled = 16 * deviation(&residuals[..len]) + 4 * len as u64;
            *cost += len as u64 * log2_in_16ths(scaled);
        }
    }
}

/// The sum of the distances to (about) the median, which a frame of reference has for nothing. The
/// median and not the mean, which a single jump would move. Distances over 2^50 count as that: far
/// is far, and sums stay in range.
fn deviation(residuals: &[i64]) -> u64 {
    let every = residuals.len().div_ceil(WARM_UP).max(1);
    let mut some = [0i64; WARM_UP];
    let mut count = 0;
    for (place, residual) in some.iter_mut().zip(residuals.iter().step_by(every)) {
        *place = *residual;
        count += 1;
    }
    let center = median(&some[..count]);
    let distances = residuals
        .iter()
        .map(|residual| residual.wrapping_sub(center).unsigned_abs().min(1 << 50));
    distances.sum()
}

/// The logarithm of a number over 0, straight between powers of two.
fn log2_in_16ths(number: u64) -> u64 {
    let zeros = number.leading_zeros();
    let whole = u64::from(63 - zeros);
    let fraction = (number << zeros) << 1 >> 60;
    whole * 16 + fraction
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_kind_gives_back_any_column(
            numbers in prop::collection::vec(any::<i64>(), 1..200),
            kind in 0u8..6,
            step in any::<i64>(),
            limit in 0u8..=MAX_LIMIT,
        ) {
            let predictor = Predictor { kind, step, limit };
            let mut column = numbers.clone();
            predictor.subtract(&mut column);
            predictor.restore(&mut column);
            prop_assert_eq!(column, numbers);
        }
    }

    fn chosen(numbers: impl Iterator<Item = i64>) -> Predictor {
        Predictor::choose(&numbers.collect::<Vec<_>>(), &mut vec![])
    }

    #[test]
    fn columns_get_the_predictor_that_fits() {
        let noise = |i: i64| {
            let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed >> 58) as i64
        };
        for len in [200, 3000] {
            assert_eq!(chosen((0..len).map(noise)).kind, NOTHING);
            let mut walk = 0;
            let walk = (0..len).map(|i| {
                walk += noise(i) - 31;
                walk
            });
            assert_eq!(chosen(walk).kind, SAME);
            assert_eq!(chosen((0..len).map(|i| i * i)).kind, SAME_STEP);
            let mut counter = 0;
            let counter = (0..len).map(|i| {
                counter += 1000 + i + noise(i);
                counter
            });
            assert!(TREND.contains(&chosen(counter).kind));
        }
    }

    #[test]
    fn a_reset_does_not_move_the_trend_far() {
        let mut trend = Trend::new(3, 100, 6);
        trend.residual(-1_000_000);
        assert_eq!(trend.estimate >> TREND_FRACTION, 100 - 64 / 2);
    }

    #[test]
    fn logarithms_rise() {
        assert_eq!(
            [1, 2, 3, 4, 1 << 63].map(log2_in_16ths),
            [0, 16, 24, 32, 63 * 16]
        );
        assert_eq!(log2_in_16ths(u64::MAX), 63 * 16 + 15);
    }
}
