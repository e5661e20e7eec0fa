//! Moving averages over a number of points, or over some time.

use icecore_wire::opentsdb::number::Number;

use super::function::{parse_span, quoted, refused};
use crate::error::Error;
use crate::query::ResultPoints;

/// What an average is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AverageWindow {
    /// So many points.
    Points(usize),
    /// The points of so many milliseconds, once they have passed.
    Time(i64),
}

impl AverageWindow {
    pub(crate) fn parse(param: Option<&str>) -> Result<Self, Error> {
        let text = param.ok_or_else(|| refused("Missing moving average window size"))?;
        let too_small = || refused("Moving average window must be an integer greater than zero");
        if let Some(quoted) = quoted(text) {
            return match parse_span(quoted) {
                Some((0, Some(_))) => Err(too_small()),
                Some((count, Some(unit_ms))) => Ok(Self::Time(i64::from(count) * unit_ms)),
                Some((_, None)) => {
                    let unit = quoted.trim_start_matches(|c: char| c.is_ascii_digit());
                    Err(refused(format!(
                        "Unknown time unit={unit} in window={text}"
                    )))
                }
                None => Err(refused(format!("Invalid moving window parameter: {text}"))),
            };
        }
        if !text.chars().all(|c| c.is_ascii_digit()) {
            return Err(refused(format!("Unparseable window size: {text}")));
        }
        let count: i32 = text
            .parse()
            .map_err(|_| refused("Invalid parameter, must be an integer"))?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0);
        count.map(Self::Points).ok_or_else(too_small)
    }
}

/// Replaces values by the average of those in the window up to them; by 0 as long as that is not
/// full. Values that are not a number do not take part.
pub(super) fn moving_average(points: &mut ResultPoints, window: AverageWindow) {
    let all = points.times.iter().zip(&points.values);
    let all = all.map(|(time, value)| (*time, value.to_f64()));
    let known: Vec<(i64, f64)> = all.filter(|(_, value)| !value.is_nan()).collect();
    let mut sums = SlidingSum::new(known.iter().map(|(_, value)| *value).collect());
    // The first of the window, and behind the last of it, among the values that are known.
    let (mut first, mut end) = (0, 0);
    let start_ms = points.times.first().copied().unwrap_or_default();
    let average = |time: &i64| {
        while known.get(end).is_some_and(|(known, _)| known <= time) {
            end += 1;
        }
        let is_full = match window {
            AverageWindow::Points(count) => {
                first = end.saturating_sub(count).max(first);
                end - first == count
            }
            AverageWindow::Time(length_ms) => {
                while first < end && time - known[first].0 >= length_ms {
                    first += 1;
                }
                time - start_ms >= length_ms && first < end
            }
        };
        if is_full {
            Number::Float(sums.sum(first, end) / (end - first) as f64)
        } else {
            Number::Float(0.0)
        }
    };
    points.values = points.times.iter().map(average).collect();
}

/// Sums over ranges whose ends only move forward. Nothing is subtracted, so that nothing is lost to
/// rounding: a sum is that of the values from the first up to a fixed one, and that of the rest.
struct SlidingSum {
    values: Vec<f64>,
    /// Sums from an index up to the fixed one.
    sums: Vec<f64>,
    fixed: usize,
    /// The sum from the fixed index up to `end`.
    rest: f64,
    end: usize,
}

impl SlidingSum {
    fn new(values: Vec<f64>) -> Self {
        Self {
            sums: vec![0.0; values.len()],
            values,
            fixed: 0,
            rest: 0.0,
            end: 0,
        }
    }

    fn sum(&mut self, first: usize, end: usize) -> f64 {
        if first >= self.fixed {
            let mut sum = 0.0;
            for i in (first..end).rev() {
                sum += self.values[i];
                self.sums[i] = sum;
            }
            (self.fixed, self.end, self.rest) = (end, end, 0.0);
            return sum;
        }
        self.rest += self.values[self.end..end].iter().sum::<f64>();
        self.end = end;
        self.sums[first] + self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn averages(values: &[f64], window: &str) -> Vec<f64> {
        let mut points = ResultPoints {
            times: (0..).map(|i| i * 60_000).take(values.len()).collect(),
            values: values.iter().map(|v| Number::Float(*v)).collect(),
        };
        let window = AverageWindow::parse(Some(window)).unwrap();
        moving_average(&mut points, window);
        let values = points.values.iter().map(|value| match value {
            Number::Float(value) => *value,
            Number::Integer(_) => panic!("averages are floats"),
        });
        values.collect()
    }

    #[test]
    fn averages_of_points_and_of_time() {
        let five = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(averages(&five, "1"), five);
        assert_eq!(averages(&five, "2"), [0.0, 1.5, 2.5, 3.5, 4.5]);
        assert_eq!(averages(&five, "3"), [0.0, 0.0, 2.0, 3.0, 4.0]);
        assert_eq!(averages(&five, "10"), [0.0; 5]);
        assert_eq!(averages(&five, "'2min'"), [0.0, 0.0, 2.5, 3.5, 4.5]);
        assert_eq!(averages(&five, "'60sec'"), [0.0, 2.0, 3.0, 4.0, 5.0]);
        let gap = [1.0, f64::NAN, 3.0, 5.0];
        assert_eq!(averages(&gap, "2"), [0.0, 0.0, 2.0, 4.0]);
        assert_eq!(averages(&[], "2"), [0.0; 0]);
    }

    #[test]
    fn long_windows_are_summed_exactly() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i * i % 97)).collect();
        for count in [1, 2, 7, 100, 999, 1000] {
            let found = averages(&values, &count.to_string());
            for i in count - 1..values.len() {
                let window = &values[i + 1 - count..=i];
                let expected = window.iter().sum::<f64>() / count as f64;
                assert_eq!(found[i], expected, "{count} at {i}");
            }
        }
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for (param, message) in [
            (None, "Missing moving average window size"),
            (Some("x"), "Unparseable window size: x"),
            (Some("-1"), "Unparseable window size: -1"),
            (Some("60sec"), "Unparseable window size: 60sec"),
            (
                Some("0"),
                "Moving average window must be an integer greater than zero",
            ),
            (Some("'1y'"), "Unknown time unit=y in window='1y'"),
            (Some("'x'"), "Invalid moving window parameter: 'x'"),
        ] {
            assert_eq!(AverageWindow::parse(param).unwrap_err().message, message);
        }
    }
}
