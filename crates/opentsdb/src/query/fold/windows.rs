//! The functions over rolled-up samples: what a window adds to the state that its samples would
//! have made.
//!
//! Holds always: of a window the sample at its start comes first, then what lies inside.

use std::ops::Range;

use icecore_model::rollup::{Aggregate, Edge, WindowColumns, WindowFields};

use super::{
    Average, Count, Deviation, Difference, First, Fold, Function, Greatest, Last, Least, Product,
    SquareSum, Sum,
};
use crate::query::percentile::{Estimation, percentile_of};

/// The state of a function over values and windows.
pub(crate) trait WindowFold: Fold<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>);
}

/// Something that is done with such a state, once it is known which one that is.
pub(crate) trait WithWindowFold {
    type Output;
    fn run<F: WindowFold>(self) -> Self::Output;
}

/// Picks the state of a function.
pub(crate) fn with_window_fold<W: WithWindowFold>(function: Function, work: W) -> W::Output {
    match function {
        Function::Sum => work.run::<Sum<f64>>(),
        Function::Min => work.run::<Least<f64>>(),
        Function::Max => work.run::<Greatest<f64>>(),
        Function::Avg => work.run::<Average<f64>>(),
        Function::Mult => work.run::<Product<f64>>(),
        Function::Dev => work.run::<Deviation>(),
        Function::Diff => work.run::<Difference<f64>>(),
        Function::Count => work.run::<Count>(),
        Function::None | Function::First => work.run::<First<f64>>(),
        Function::Last => work.run::<Last<f64>>(),
        Function::SquareSum => work.run::<SquareSum<f64>>(),
        Function::Median | Function::Percentile(..) => work.run::<WeightedRanks>(),
    }
}

impl Function {
    /// What has to be known of windows.
    pub(crate) fn window_fields(self) -> WindowFields {
        let needed = match self {
            Self::Count => WindowFields::NONE,
            Self::Sum | Self::Avg => WindowFields::SUM,
            Self::Min => WindowFields::MIN,
            Self::Max => WindowFields::MAX,
            Self::Dev | Self::SquareSum => WindowFields::SUM | WindowFields::M2,
            Self::Diff => WindowFields::FIRST | WindowFields::LAST,
            Self::None | Self::First => WindowFields::FIRST,
            Self::Last => WindowFields::LAST,
            Self::Mult | Self::Median | Self::Percentile(..) => {
                WindowFields::SUM | WindowFields::MIN | WindowFields::MAX
            }
        };
        needed | WindowFields::COUNTS
    }

    /// Whether windows say what their samples would.
    pub(crate) fn is_exact_over_windows(self) -> bool {
        !matches!(self, Self::Mult | Self::Median | Self::Percentile(..))
    }
}

/// Calls `edge` for samples at starts and `inside` for the indices of windows with numbers, in
/// time order.
fn each<S>(
    state: &mut S,
    windows: &WindowColumns,
    range: Range<usize>,
    edge: impl Fn(&mut S, f64),
    inside: impl Fn(&mut S, usize, u64),
) {
    for at in range {
        if let Some(Edge::Sample(value)) = windows.edges.get(at) {
            edge(state, *value);
        }
        if let Some(numbers) = windows.numbers.get(at).filter(|numbers| **numbers > 0) {
            inside(state, at, *numbers);
        }
    }
}

impl WindowFold for Sum<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        each(self, windows, range, Self::add, |state, at, numbers| {
            state.sum += windows.sum.get(at).unwrap_or(&0.0);
            state.count += numbers;
        });
    }
}

impl WindowFold for Average<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        self.0.add_windows(windows, range);
    }
}

impl WindowFold for SquareSum<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        each(self, windows, range, Self::add, |state, at, numbers| {
            let sum = windows.sum.get(at).unwrap_or(&0.0);
            let m2 = windows.m2.get(at).unwrap_or(&0.0);
            state.0.sum += m2 + sum * sum / numbers as f64;
            state.0.count += numbers;
        });
    }
}

impl WindowFold for Count {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        each(
            self,
            windows,
            range,
            <Self as Fold<f64>>::add,
            |state, _, numbers| state.0 += numbers,
        );
    }
}

impl WindowFold for Least<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        each(self, windows, range, Self::add, |state, at, _| {
            state.add(*windows.min.get(at).unwrap_or(&f64::NAN));
        });
    }
}

impl WindowFold for Greatest<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        each(self, windows, range, Self::add, |state, at, _| {
            state.add(*windows.max.get(at).unwrap_or(&f64::NAN));
        });
    }
}

impl WindowFold for Deviation {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        let edge = <Self as Fold<f64>>::add;
        each(self, windows, range, edge, |state, at, numbers| {
            let (before, added) = (state.count as f64, numbers as f64);
            state.count += numbers;
            let all = state.count as f64;
            let distance = windows.sum.get(at).unwrap_or(&0.0) / added - state.mean;
            state.mean += distance * added / all;
            state.squares += windows.m2.get(at).unwrap_or(&0.0);
            state.squares += distance * distance * (before * added / all);
        });
    }
}

/// Calls `sample` for the samples at starts and the first and last ones inside, NaN included.
fn each_end<S>(
    state: &mut S,
    windows: &WindowColumns,
    range: Range<usize>,
    sample: impl Fn(&mut S, f64),
) {
    for at in range {
        if let Some(Edge::Sample(value)) = windows.edges.get(at) {
            sample(state, *value);
        }
        let count = |column: &[u64]| column.get(at).copied().unwrap_or(0);
        let samples = count(&windows.numbers) + count(&windows.nans);
        if let Some(first) = windows.first.get(at).filter(|_| samples > 0) {
            sample(state, *first);
        }
        // One sample is both, unless first ones are not asked for.
        let is_other = samples > 1 || (samples > 0 && windows.first.is_empty());
        if let Some(last) = windows.last.get(at).filter(|_| is_other) {
            sample(state, *last);
        }
    }
}

impl WindowFold for First<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        if self.0.is_none() {
            each_end(self, windows, range, Self::add);
        }
    }
}

impl WindowFold for Last<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        each_end(self, windows, range, Self::add);
    }
}

impl WindowFold for Difference<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        each_end(self, windows, range, Self::add);
    }
}

/// Values that stand for those inside of a window, with their weights: its least and its greatest
/// one, and the mean of the others. Up to three values that is what there was.
fn representatives(inside: &Aggregate) -> impl Iterator<Item = (f64, u64)> {
    let Aggregate {
        numbers,
        sum,
        min,
        max,
        ..
    } = *inside;
    let least = (numbers > 0).then_some((min, 1));
    let greatest = (numbers > 1).then_some((max, 1));
    let others = (numbers > 2).then(|| {
        let mean = (sum - min - max) / (numbers - 2) as f64;
        (mean.max(min).min(max), numbers - 2)
    });
    [least, others, greatest].into_iter().flatten()
}

impl WindowFold for Product<f64> {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        for at in range {
            if let Some(Edge::Sample(value)) = windows.edges.get(at) {
                self.add(*value);
            }
            for (value, weight) in windows.interior(at).iter().flat_map(representatives) {
                self.add(value.powf(weight as f64));
            }
        }
    }
}

/// Values with how often they count, for functions that need them sorted.
#[derive(Clone)]
pub(super) struct WeightedRanks {
    values: Vec<(f64, u64)>,
    /// The percentile; the median is the element in the middle.
    percentile: Option<f64>,
}

impl Fold<f64> for WeightedRanks {
    fn new(function: Function) -> Self {
        let percentile = match function {
            Function::Percentile(p, _) => Some(p),
            _ => None,
        };
        Self {
            values: Vec::new(),
            percentile,
        }
    }

    fn add(&mut self, value: f64) {
        if !value.is_nan() {
            self.values.push((value, 1));
        }
    }

    fn finish(&mut self) -> f64 {
        self.values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // Weights become the ranks up to which a value goes.
        let mut total = 0;
        for (_, weight) in &mut self.values {
            total += *weight;
            *weight = total;
        }
        let ranked = |rank: u64| {
            let at = self.values.partition_point(|(_, until)| *until < rank);
            self.values.get(at).map_or(f64::NAN, |(value, _)| *value)
        };
        match self.percentile {
            _ if total == 0 => f64::NAN,
            None => ranked(total / 2 + 1),
            // Floats are estimated as `Legacy` does.
            Some(p) => percentile_of(total, ranked, p, Estimation::Legacy),
        }
    }
}

impl WindowFold for WeightedRanks {
    fn add_windows(&mut self, windows: &WindowColumns, range: Range<usize>) {
        for at in range {
            if let Some(Edge::Sample(value)) = windows.edges.get(at) {
                self.add(*value);
            }
            let inside = windows.interior(at);
            self.values.extend(inside.iter().flat_map(representatives));
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::rollup::{Resolution, roll_up};

    use super::*;

    struct All<'a>(Function, &'a WindowColumns);

    impl WithWindowFold for All<'_> {
        type Output = f64;

        fn run<F: WindowFold>(self) -> f64 {
            let mut state = F::new(self.0);
            state.add_windows(self.1, 0..self.1.len());
            state.finish()
        }
    }

    fn over_windows(function: Function, samples: &[(i64, f64)]) -> f64 {
        let windows = roll_up(Resolution::HOUR, samples.iter().copied());
        let columns = WindowColumns::from_windows(&windows, function.window_fields());
        with_window_fold(function, All(function, &columns))
    }

    #[test]
    fn the_sample_at_the_start_belongs_to_its_hour() {
        let samples: Vec<(i64, f64)> = (0..360).map(|i| (i * 10_000, i as f64)).collect();
        let of = |function| over_windows(function, &samples);
        assert_eq!(of(Function::Sum), 64_620.0);
        assert_eq!(of(Function::Count), 360.0);
        assert_eq!(of(Function::Avg), 179.5);
        assert_eq!((of(Function::Min), of(Function::Max)), (0.0, 359.0));
        assert_eq!((of(Function::First), of(Function::Last)), (0.0, 359.0));
        assert_eq!(of(Function::Diff), 359.0);
        let squares: f64 = samples.iter().map(|s| s.1 * s.1).sum();
        assert!((of(Function::SquareSum) - squares).abs() < 1e-6);
        assert!((of(Function::Dev) - 103.922_647_515_672_28).abs() < 1e-9);
    }

    #[test]
    fn deviations_of_windows_are_merged() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let samples: Vec<(i64, f64)> = (0..)
            .zip(values)
            .map(|(i, v)| (i * 900_000 + 1, v))
            .collect();
        assert!((over_windows(Function::Dev, &samples) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn nan_is_a_sample_but_no_number() {
        let samples = [(0, f64::NAN), (5, f64::NAN)];
        assert_eq!(over_windows(Function::Count, &samples), 0.0);
        for function in [Function::Sum, Function::Avg, Function::Min, Function::First] {
            assert!(over_windows(function, &samples).is_nan());
        }
        let samples = [(1, 1.0), (2, f64::NAN)];
        assert!(over_windows(Function::Last, &samples).is_nan());
        assert_eq!(over_windows(Function::First, &samples), 1.0);
        assert_eq!(over_windows(Function::Sum, &samples), 1.0);
    }

    #[test]
    fn up_to_three_values_of_a_window_are_known() {
        let samples = [(0, 8.0), (1, 3.0), (2, 1.0), (3, 2.0), (3_600_000, 5.0)];
        assert_eq!(over_windows(Function::Median, &samples), 3.0);
        assert_eq!(over_windows(Function::Mult, &samples), 240.0);
        let p = |p| Function::Percentile(p, Estimation::R3);
        assert_eq!(over_windows(p(50.0), &samples), 3.0);
        assert_eq!(over_windows(p(99.9), &samples), 8.0);
        // Four of them are the least, the greatest, and twice the mean of the others.
        let samples = [(1, 1.0), (2, 2.0), (3, 4.0), (4, 9.0)];
        assert_eq!(over_windows(Function::Median, &samples), 3.0);
        assert_eq!(over_windows(Function::Mult, &samples), 81.0);
    }
}
