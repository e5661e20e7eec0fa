//! What is kept of a run of samples.

use crate::kahan::kahan_add;

/// A run of samples in time order, none of them a stale marker, as numbers that can be merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    /// Samples that are numbers.
    pub numbers: u64,
    /// Samples that are NaN.
    pub nans: u64,
    pub first_ms: i64,
    pub first: f64,
    pub last_ms: i64,
    pub last: f64,
    /// Of the numbers.
    pub sum: f64,
    /// Of the numbers; NaN when there are none.
    pub min: f64,
    pub max: f64,
    /// Sum of the squared distances of the numbers from their mean.
    pub m2: f64,
    /// Sum of the values before each decrease: what a counter lost in resets.
    pub correction: f64,
    /// Decreases from one sample to the next.
    pub resets: u64,
    /// Changes of value from one sample to the next.
    pub changes: u64,
}

impl Aggregate {
    /// One sample, not a stale marker.
    pub fn of(timestamp_ms: i64, value: f64) -> Self {
        let is_nan = value.is_nan();
        Self {
            numbers: u64::from(!is_nan),
            nans: u64::from(is_nan),
            first_ms: timestamp_ms,
            first: value,
            last_ms: timestamp_ms,
            last: value,
            sum: if is_nan { 0.0 } else { value },
            min: value,
            max: value,
            m2: 0.0,
            correction: 0.0,
            resets: 0,
            changes: 0,
        }
    }

    pub fn samples(&self) -> u64 {
        self.numbers + self.nans
    }

    /// What a counter grew by from the first sample to the last.
    pub fn increase(&self) -> f64 {
        self.last - self.first + self.correction
    }

    pub fn mean(&self) -> f64 {
        self.sum / self.numbers as f64
    }

    /// Appends a run that lies after this one.
    pub fn merge(&mut self, after: &Self) {
        // Comparisons with NaN are false.
        if after.first < self.last {
            self.resets += 1;
            self.correction += self.last;
        }
        if after.first != self.last && !(after.first.is_nan() && self.last.is_nan()) {
            self.changes += 1;
        }
        self.correction += after.correction;
        self.resets += after.resets;
        self.changes += after.changes;
        self.m2 = merged_m2(self, after);
        self.numbers += after.numbers;
        self.nans += after.nans;
        self.sum += after.sum;
        self.min = if after.min < self.min || self.min.is_nan() {
            after.min
        } else {
            self.min
        };
        self.max = if after.max > self.max || self.max.is_nan() {
            after.max
        } else {
            self.max
        };
        self.last_ms = after.last_ms;
        self.last = after.last;
    }
}

/// Chan et al.; a side without numbers adds nothing.
fn merged_m2(a: &Aggregate, b: &Aggregate) -> f64 {
    if a.numbers == 0 || b.numbers == 0 {
        return a.m2 + b.m2;
    }
    let distance = b.mean() - a.mean();
    let (a_count, b_count) = (a.numbers as f64, b.numbers as f64);
    a.m2 + b.m2 + distance * distance * (a_count * b_count / (a_count + b_count))
}

/// Makes an aggregate of samples one by one, with sums as exact as PromQL's.
#[derive(Clone, Debug, Default)]
pub(super) struct Accumulator {
    aggregate: Option<Aggregate>,
    sum_lost: f64,
}

impl Accumulator {
    pub(super) fn push(&mut self, timestamp_ms: i64, value: f64) {
        self.append(&Aggregate::of(timestamp_ms, value));
    }

    pub(super) fn append(&mut self, after: &Aggregate) {
        let Some(aggregate) = &mut self.aggregate else {
            self.aggregate = Some(*after);
            return;
        };
        let sum = aggregate.sum;
        aggregate.merge(after);
        (aggregate.sum, self.sum_lost) = kahan_add(after.sum, sum, self.sum_lost);
    }

    pub(super) fn take(&mut self) -> Option<Aggregate> {
        let Self {
            aggregate,
            sum_lost,
        } = std::mem::take(self);
        aggregate.map(|aggregate| Aggregate {
            sum: aggregate.sum + sum_lost,
            ..aggregate
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Aggregate {
        let mut accumulator = Accumulator::default();
        for (i, value) in values.iter().enumerate() {
            accumulator.push(i as i64 * 1000, *value);
        }
        accumulator.take().unwrap()
    }

    fn at(aggregate: Aggregate, shift_ms: i64) -> Aggregate {
        Aggregate {
            first_ms: aggregate.first_ms + shift_ms,
            last_ms: aggregate.last_ms + shift_ms,
            ..aggregate
        }
    }

    #[test]
    fn deviations_merge() {
        let (mut a, b) = (of(&[2.0, 4.0, 4.0, 4.0]), of(&[5.0, 5.0, 7.0, 9.0]));
        let near = |m2: f64, expected: f64| (m2 - expected).abs() < 1e-12;
        assert!(near(a.m2, 3.0) && near(b.m2, 11.0));
        a.merge(&at(b, 10_000));
        assert!(near(a.m2, 32.0) && a.numbers == 8);
    }

    #[test]
    fn a_reset_between_two_runs_counts() {
        let (mut a, b) = (of(&[95.0, 100.0]), of(&[97.0, 107.0]));
        a.merge(&at(b, 10_000));
        assert_eq!((a.resets, a.correction), (1, 100.0));
        assert_eq!(a.increase(), 112.0);
    }

    #[test]
    fn nan_is_counted_and_left_out_of_the_rest() {
        let nan = f64::NAN;
        let a = of(&[nan, 3.0, nan, nan, 1.0]);
        assert_eq!((a.numbers, a.nans, a.samples()), (2, 3, 5));
        assert_eq!((a.sum, a.min, a.max), (4.0, 1.0, 3.0));
        assert_eq!((a.resets, a.changes), (0, 3));
        assert!(a.first.is_nan() && a.last == 1.0);
        let all = of(&[nan, nan]);
        assert!(all.min.is_nan() && all.max.is_nan());
        assert_eq!((all.sum, all.m2, all.changes), (0.0, 0.0, 0));
    }

    #[test]
    fn sums_keep_what_rounding_loses() {
        let a = of(&[1e16, 1.0, -1e16, 1.0]);
        assert_eq!(a.sum, 2.0);
    }
}
