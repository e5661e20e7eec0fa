//! An axis of values: its range, and where it has ticks.

use super::number_format::NumberFormat;
use super::options::AxisOptions;

/// The range of an axis without values, as in the original.
const EMPTY: (f64, f64) = (0.0, 10.0);

/// The range of a logarithmic axis without values.
const EMPTY_LOG: (f64, f64) = (1.0, 10.0);

#[derive(Clone, Debug)]
pub(super) struct Axis {
    min: f64,
    max: f64,
    is_log: bool,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis for values, with about so many ticks.
    pub(super) fn new(
        options: &AxisOptions,
        values: impl Iterator<Item = f64>,
        ticks: usize,
    ) -> Self {
        let ticks = ticks.max(1);
        let is_shown = |value: &f64| !options.is_log || *value > 0.0;
        let extremes = values.filter(is_shown).fold(None, |extremes, value| {
            let (min, max) = extremes.unwrap_or((value, value));
            Some((value.min(min), value.max(max)))
        });
        let (min, max, positions) = if options.is_log {
            let (min, max) = log_range(options, extremes.unwrap_or(EMPTY_LOG));
            let mut positions = decades(min, max, ticks);
            if positions.len() < 2 {
                positions = multiples(min, max, step(min, max, ticks));
            }
            (min, max, positions)
        } else {
            let (min, max, step) = range(options, extremes.unwrap_or(EMPTY), ticks);
            (min, max, multiples(min, max, step))
        };
        Self {
            min,
            max,
            is_log: options.is_log,
            ticks: labelled(&positions, &options.format),
        }
    }

    /// How far up a value lies, from 0 to 1 where it is in the range. A logarithmic axis has no
    /// place for what is not positive.
    pub(super) fn share(&self, value: f64) -> Option<f64> {
        if !self.is_log {
            return Some((value - self.min) / (self.max - self.min));
        }
        let (min, max) = (self.min.ln(), self.max.ln());
        (value > 0.0).then(|| (value.ln() - min) / (max - min))
    }
}

/// Powers of ten, and numbers between them where there is room.
fn decades(min: f64, max: f64, ticks: usize) -> Vec<f64> {
    let (first, last) = (min.log10().floor() as i32, max.log10().ceil() as i32);
    let decades = (last - first).max(1) as usize;
    let stride = decades.div_ceil(ticks);
    let factors: &[f64] = if decades * 3 <= ticks {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let powers = (first..=last)
        .step_by(stride)
        .map(|power| 10f64.powi(power));
    let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
    all.filter(|tick| (min..=max).contains(tick)).collect()
}

/// The range that was asked for, otherwise one that holds all values and ends at ticks.
fn range(
    options: &AxisOptions,
    (mut low, mut high): (f64, f64),
    ticks: usize,
) -> (f64, f64, Option<f64>) {
    low = options.min.unwrap_or(low);
    high = options.max.unwrap_or(high);
    if low >= high {
        let margin = |value: f64| match value.abs() {
            0.0 => 1.0,
            value => (value * 0.1).max(f64::MIN_POSITIVE),
        };
        match (options.min, options.max) {
            (Some(min), _) => high = min + margin(min),
            (None, Some(max)) => low = max - margin(max),
            (None, None) => (low, high) = (low - margin(low), high + margin(high)),
        }
    }
    let step = step(low, high, ticks);
    if let Some(step) = step {
        if options.min.is_none() {
            low = (low / step).floor() * step;
        }
        if options.max.is_none() {
            high = (high / step).ceil() * step;
        }
    }
    (low, high, step)
}

/// The range that was asked for, otherwise whole decades.
fn log_range(options: &AxisOptions, (low, high): (f64, f64)) -> (f64, f64) {
    // Smaller numbers have no power of ten below them.
    let (low, high) = (low.max(f64::MIN_POSITIVE), high.max(f64::MIN_POSITIVE));
    let decade = |value: f64, power: f64| 10f64.powf(power).clamp(f64::MIN_POSITIVE, value * 10.0);
    let mut min = options
        .min
        .unwrap_or_else(|| decade(low, low.log10().floor()));
    let mut max = options
        .max
        .unwrap_or_else(|| decade(high, high.log10().ceil()));
    if min >= max {
        match options.max {
            Some(max) => min = max / 10.0,
            None => max = min * 10.0,
        }
    }
    (min, max)
}

/// The least of 1, 2 and 5 times a power of ten that makes at most so many steps.
fn step(low: f64, high: f64, ticks: usize) -> Option<f64> {
    let rough = (high - low) / ticks as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= rough);
    let step = factor.unwrap_or(10.0) * power;
    step.is_normal().then_some(step)
}

/// Multiples of a step, or both ends where there is none.
fn multiples(low: f64, high: f64, step: Option<f64>) -> Vec<f64> {
    let Some(step) = step else {
        return vec![low, high];
    };
    // A little beyond the ends, which may be missed by rounding.
    let margin = step * 1e-6;
    let first = ((low - margin) / step).ceil();
    let count = ((high - low) / step).round() as usize + 2;
    // Adding zero makes a negative zero positive.
    let all = (0..count).map(|i| (first + i as f64) * step + 0.0);
    let mut found: Vec<f64> = all.take_while(|tick| *tick <= high + margin).collect();
    found.dedup();
    found
}

/// Ticks with texts. The usual format gets more digits where texts would be equal.
fn labelled(positions: &[f64], format: &NumberFormat) -> Vec<(f64, String)> {
    let with = |format: &NumberFormat| -> Vec<(f64, String)> {
        let tick = |position: &f64| (*position, format.text(*position));
        positions.iter().map(tick).collect()
    };
    let labelled = with(format);
    if *format != NumberFormat::default() {
        return labelled;
    }
    let is_clear = |ticks: &[(f64, String)]| ticks.windows(2).all(|pair| pair[0].1 != pair[1].1);
    let more = [6, 9, 12, 15].into_iter().map(NumberFormat::shortest);
    let mut attempts = more.map(|format| with(&format));
    attempts.find(|ticks| is_clear(ticks)).unwrap_or(labelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(options: &AxisOptions, values: &[f64]) -> Axis {
        Axis::new(options, values.iter().copied(), 8)
    }

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.1.as_str()).collect()
    }

    fn log() -> AxisOptions {
        AxisOptions {
            is_log: true,
            ..AxisOptions::default()
        }
    }

    #[test]
    fn ranges_end_at_ticks() {
        let found = axis(&AxisOptions::default(), &[0.3, 72.0, -4.0]);
        assert_eq!((found.min, found.max), (-10.0, 80.0));
        assert_eq!(
            texts(&found),
            ["-10", "0", "10", "20", "30", "40", "50", "60", "70", "80"]
        );
        assert_eq!(found.share(35.0), Some(0.5));
        let empty = axis(&AxisOptions::default(), &[]);
        assert_eq!((empty.min, empty.max), (0.0, 10.0));
        let flat = axis(&AxisOptions::default(), &[42.0, 42.0]);
        assert!(flat.min < 42.0 && 42.0 < flat.max);
        let large = axis(&AxisOptions::default(), &[1_000_001.0, 1_000_004.0]);
        let mut distinct = texts(&large);
        distinct.dedup();
        assert_eq!(distinct.len(), large.ticks.len());
    }

    #[test]
    fn ranges_that_are_asked_for() {
        let options = AxisOptions {
            min: Some(1.0),
            ..AxisOptions::default()
        };
        let found = axis(&options, &[-7.0, -5.0]);
        assert_eq!(found.min, 1.0);
        assert!(found.max > 1.0);
        let options = AxisOptions {
            min: Some(2.0),
            max: Some(5.0),
            ..log()
        };
        let found = axis(&options, &[1e9]);
        assert_eq!(texts(&found), ["2", "5"]);
    }

    #[test]
    fn decades() {
        let found = axis(&log(), &[0.5, 2_000.0, 0.0, -3.0]);
        assert_eq!((found.min, found.max), (0.1, 10_000.0));
        assert_eq!(texts(&found), ["0.1", "1", "10", "100", "1000", "10000"]);
        assert_eq!(found.share(0.0), None);
        assert!((found.share(1_000.0).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(
            texts(&axis(&log(), &[2.0, 40.0])),
            ["1", "2", "5", "10", "20", "50", "100"]
        );
        let wide = axis(&log(), &[1e-300, 1e300]);
        assert!(wide.ticks.len() < 12);
    }

    /// Whatever the values are, an axis has a range and not too many ticks.
    #[test]
    fn no_values_are_too_strange() {
        let values = [
            0.0,
            5e-324,
            1e-310,
            1.0,
            1.0 + f64::EPSILON,
            1e17,
            1e300,
            -1e300,
        ];
        for options in [AxisOptions::default(), log()] {
            for a in values {
                for b in values {
                    let found = axis(&options, &[a, b]);
                    assert!(found.min < found.max, "{a} {b} {found:?}");
                    assert!(found.ticks.len() <= 18, "{a} {b} {found:?}");
                    let share = found.share(a);
                    assert!(
                        share.is_none_or(|share| !share.is_nan()),
                        "{a} {b} {found:?}"
                    );
                }
            }
        }
    }
}
