//! Rates: the change between two points for each second.

use super::points::SeriesPoints;

/// How a rate is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateOptions {
    /// The values count up, and start again after `counter_max`.
    pub(crate) counter: bool,
    pub(crate) counter_max: i64,
    /// A rate above this, after a counter started again, is 0; 0 is no limit.
    pub(crate) reset_value: i64,
    /// A counter that started again has no rate there.
    pub(crate) drop_resets: bool,
}

impl Default for RateOptions {
    fn default() -> Self {
        Self {
            counter: false,
            counter_max: i64::MAX,
            reset_value: 0,
            drop_resets: false,
        }
    }
}

/// A value with the integer that it is, if it is one.
#[derive(Clone, Copy)]
struct Value {
    float: f64,
    integer: Option<i64>,
}

impl RateOptions {
    /// The rates of a series from `start_ms` on. The first of them is a rate since time zero, or
    /// since a point that only the rate needs: it is no point, but what the series counts as until
    /// its next point, as in the original.
    pub(crate) fn apply(&self, points: &SeriesPoints, start_ms: i64) -> SeriesPoints {
        let mut previous = Value {
            float: 0.0,
            integer: Some(0),
        };
        let mut previous_ms = 0;
        let mut times = Vec::with_capacity(points.len());
        let mut rates = Vec::with_capacity(points.len());
        for (i, (time, value)) in points.times.iter().zip(&points.values).enumerate() {
            let value = Value {
                float: *value,
                integer: points.integer(i),
            };
            let seconds = (time - previous_ms) as f64 / 1000.0;
            if let Some(rate) = self.rate(previous, value, seconds) {
                times.push(*time);
                rates.push(rate);
            }
            (previous, previous_ms) = (value, *time);
        }
        let skipped = times.partition_point(|time| *time < start_ms) + 1;
        let before = rates.get(skipped - 1).copied();
        let skipped = skipped.min(times.len());
        // Mostly every point has a rate: then the column of times stays shared.
        let shared = times.len() == points.len();
        let times = if shared {
            points.times.slice(skipped..points.len())
        } else {
            times.split_off(skipped).into()
        };
        SeriesPoints {
            before,
            ..SeriesPoints::floats(times, rates.split_off(skipped))
        }
    }

    /// `None` where it is to be dropped.
    fn rate(&self, previous: Value, value: Value, seconds: f64) -> Option<f64> {
        let integers = previous.integer.zip(value.integer);
        let change = match integers {
            Some((previous, value)) => value.wrapping_sub(previous) as f64,
            None => value.float - previous.float,
        };
        if !self.counter || change.is_nan() || change >= 0.0 {
            return Some(change / seconds);
        }
        if self.drop_resets {
            return None;
        }
        let change = match integers {
            Some((previous, value)) => {
                self.counter_max.wrapping_sub(previous).wrapping_add(value) as f64
            }
            None => self.counter_max as f64 - previous.float + value.float,
        };
        let rate = change / seconds;
        let is_reset = self.reset_value > 0 && rate > self.reset_value as f64;
        Some(if is_reset { 0.0 } else { rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(values: &[f64], options: RateOptions) -> Vec<(i64, f64)> {
        let times = (0..).map(|i| 1_000_000 + i * 10_000).take(values.len());
        let points = SeriesPoints::floats(times.collect(), values.to_vec());
        let rates = options.apply(&points, 0);
        let first = rates.before.unwrap();
        assert!((first - values[0] / 1000.0).abs() < 1e-12);
        let times = rates.times.iter().map(|time| (time - 1_000_000) / 10_000);
        times.zip(rates.values).collect()
    }

    #[test]
    fn counters_start_again() {
        let counter = RateOptions {
            counter: true,
            ..RateOptions::default()
        };
        let values = [50.0, 90.0, 20.0, 40.0];
        let plain = rates(&values, RateOptions::default());
        assert_eq!(plain, [(1, 4.0), (2, -7.0), (3, 2.0)]);
        let rolled = RateOptions {
            counter_max: 100,
            ..counter
        };
        assert_eq!(rates(&values[..3], rolled), [(1, 4.0), (2, 3.0)]);
        let reset = RateOptions {
            counter_max: 65535,
            reset_value: 100,
            ..counter
        };
        assert_eq!(rates(&values, reset), [(1, 4.0), (2, 0.0), (3, 2.0)]);
        let dropped = RateOptions {
            drop_resets: true,
            ..counter
        };
        assert_eq!(
            rates(&[50.0, 90.0, 20.0, 50.0], dropped),
            [(1, 4.0), (3, 3.0)]
        );
    }

    #[test]
    fn one_point_has_no_rate() {
        let points = SeriesPoints::floats(vec![1000].into(), vec![5.0]);
        let rates = RateOptions::default().apply(&points, 0);
        assert!(rates.is_empty());
        let none = SeriesPoints::default();
        assert!(RateOptions::default().apply(&none, 0).is_empty());
    }
}
