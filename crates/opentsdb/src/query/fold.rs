//! The functions of aggregators as states that take value after value.

mod windows;

pub(crate) use windows::{WindowFold, WithWindowFold, with_window_fold};

use super::aggregator::Function;
use super::number::Arithmetic;
use super::percentile::{Estimation, percentile};

/// The state of a function over values.
pub(crate) trait Fold<V>: Clone + Send {
    fn new(function: Function) -> Self;
    fn add(&mut self, value: V);
    /// What the function says; `new` and at least one `add` came before.
    fn finish(&mut self) -> V;
}

/// Something that is done with the state of a function, once it is known which one that is.
pub(crate) trait WithFold<V> {
    type Output;
    fn run<F: Fold<V> + 'static>(self) -> Self::Output;
}

/// Picks the state of a function, so that loops over values know it when they are compiled.
pub(crate) fn with_fold<V: Arithmetic + 'static, W: WithFold<V>>(
    function: Function,
    work: W,
) -> W::Output {
    match function {
        Function::Sum => work.run::<Sum<V>>(),
        Function::Min => work.run::<Least<V>>(),
        Function::Max => work.run::<Greatest<V>>(),
        Function::Avg => work.run::<Average<V>>(),
        Function::Mult => work.run::<Product<V>>(),
        Function::Dev => work.run::<Deviation>(),
        Function::Diff => work.run::<Difference<V>>(),
        Function::Count => work.run::<Count>(),
        Function::None | Function::First => work.run::<First<V>>(),
        Function::Last => work.run::<Last<V>>(),
        Function::SquareSum => work.run::<SquareSum<V>>(),
        Function::Median | Function::Percentile(..) => work.run::<Ranked<V>>(),
    }
}

/// A sum, and of how many.
#[derive(Clone)]
pub(crate) struct Sum<V> {
    sum: V,
    count: u64,
}

impl<V: Arithmetic> Sum<V> {
    fn plus(&mut self, value: V) {
        self.sum = self.sum.plus(value);
        self.count += 1;
    }
}

impl<V: Arithmetic> Fold<V> for Sum<V> {
    fn new(_: Function) -> Self {
        Self {
            sum: V::ZERO,
            count: 0,
        }
    }

    fn add(&mut self, value: V) {
        if !value.is_missing() {
            self.plus(value);
        }
    }

    fn finish(&mut self) -> V {
        if self.count == 0 {
            return V::missing();
        }
        self.sum
    }
}

#[derive(Clone)]
pub(crate) struct SquareSum<V>(Sum<V>);

impl<V: Arithmetic> Fold<V> for SquareSum<V> {
    fn new(function: Function) -> Self {
        Self(Sum::new(function))
    }

    fn add(&mut self, value: V) {
        self.0.add(value.times(value));
    }

    fn finish(&mut self) -> V {
        self.0.finish()
    }
}

#[derive(Clone)]
pub(crate) struct Average<V>(Sum<V>);

impl<V: Arithmetic> Fold<V> for Average<V> {
    fn new(function: Function) -> Self {
        Self(Sum::new(function))
    }

    fn add(&mut self, value: V) {
        self.0.add(value);
    }

    fn finish(&mut self) -> V {
        if self.0.count == 0 {
            return V::missing();
        }
        self.0.sum.divided_by(self.0.count)
    }
}

#[derive(Clone)]
pub(crate) struct Count(u64);

impl<V: Arithmetic> Fold<V> for Count {
    fn new(_: Function) -> Self {
        Self(0)
    }

    fn add(&mut self, value: V) {
        self.0 += u64::from(!value.is_missing());
    }

    fn finish(&mut self) -> V {
        V::from_f64(self.0 as f64)
    }
}

#[derive(Clone)]
pub(crate) struct Least<V>(Option<V>);

impl<V: Arithmetic> Fold<V> for Least<V> {
    fn new(_: Function) -> Self {
        Self(None)
    }

    fn add(&mut self, value: V) {
        if !value.is_missing() && self.0.is_none_or(|least| value < least) {
            self.0 = Some(value);
        }
    }

    fn finish(&mut self) -> V {
        self.0.unwrap_or_else(V::missing)
    }
}

#[derive(Clone)]
pub(crate) struct Greatest<V>(Option<V>);

impl<V: Arithmetic> Fold<V> for Greatest<V> {
    fn new(_: Function) -> Self {
        Self(None)
    }

    fn add(&mut self, value: V) {
        if !value.is_missing() && self.0.is_none_or(|greatest| value > greatest) {
            self.0 = Some(value);
        }
    }

    fn finish(&mut self) -> V {
        self.0.unwrap_or_else(V::missing)
    }
}

/// Missing values are not left out.
#[derive(Clone)]
pub(crate) struct Product<V>(Option<V>);

impl<V: Arithmetic> Fold<V> for Product<V> {
    fn new(_: Function) -> Self {
        Self(None)
    }

    fn add(&mut self, value: V) {
        self.0 = Some(self.0.map_or(value, |product| product.times(value)));
    }

    fn finish(&mut self) -> V {
        self.0.unwrap_or_else(V::missing)
    }
}

/// The standard deviation of a population, by Welford's method.
#[derive(Clone)]
pub(crate) struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl<V: Arithmetic> Fold<V> for Deviation {
    fn new(_: Function) -> Self {
        Self {
            count: 0,
            mean: 0.0,
            squares: 0.0,
        }
    }

    fn add(&mut self, value: V) {
        if value.is_missing() {
            return;
        }
        let value = value.to_f64();
        self.count += 1;
        let from_mean = value - self.mean;
        self.mean += from_mean / self.count as f64;
        self.squares += from_mean * (value - self.mean);
    }

    fn finish(&mut self) -> V {
        match self.count {
            0 => V::missing(),
            1 => V::ZERO,
            count => V::from_f64((self.squares / count as f64).sqrt()),
        }
    }
}

/// The last value minus the first that is not missing.
#[derive(Clone)]
pub(crate) struct Difference<V> {
    first: Option<V>,
    last: Option<V>,
}

impl<V: Arithmetic> Fold<V> for Difference<V> {
    fn new(_: Function) -> Self {
        Self {
            first: None,
            last: None,
        }
    }

    fn add(&mut self, value: V) {
        if self.first.is_some() {
            self.last = Some(value);
        } else if !value.is_missing() {
            self.first = Some(value);
        }
    }

    fn finish(&mut self) -> V {
        match (self.first, self.last) {
            (None, _) => V::missing(),
            (Some(_), None) => V::ZERO,
            (Some(first), Some(last)) => last.minus(first),
        }
    }
}

#[derive(Clone)]
pub(crate) struct First<V>(Option<V>);

impl<V: Arithmetic> Fold<V> for First<V> {
    fn new(_: Function) -> Self {
        Self(None)
    }

    fn add(&mut self, value: V) {
        self.0.get_or_insert(value);
    }

    fn finish(&mut self) -> V {
        self.0.unwrap_or_else(V::missing)
    }
}

#[derive(Clone)]
pub(crate) struct Last<V>(Option<V>);

impl<V: Arithmetic> Fold<V> for Last<V> {
    fn new(_: Function) -> Self {
        Self(None)
    }

    fn add(&mut self, value: V) {
        self.0 = Some(value);
    }

    fn finish(&mut self) -> V {
        self.0.unwrap_or_else(V::missing)
    }
}

/// All values, for functions that need them sorted.
#[derive(Clone)]
pub(crate) struct Ranked<V> {
    values: Vec<V>,
    /// The percentile; the median is the element in the middle.
    percentile: Option<(f64, Estimation)>,
}

impl<V: Arithmetic> Fold<V> for Ranked<V> {
    fn new(function: Function) -> Self {
        let percentile = match function {
            Function::Percentile(p, estimation) if V::IS_ESTIMATED => Some((p, estimation)),
            Function::Percentile(p, _) => Some((p, Estimation::Legacy)),
            _ => None,
        };
        Self {
            values: Vec::new(),
            percentile,
        }
    }

    fn add(&mut self, value: V) {
        if !value.is_missing() {
            self.values.push(value);
        }
    }

    fn finish(&mut self) -> V {
        let order = |a: &V, b: &V| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
        self.values.sort_unstable_by(order);
        let middle = self.values.get(self.values.len() / 2).copied();
        match (self.percentile, middle) {
            (_, None) => V::missing(),
            (None, Some(middle)) => middle,
            (Some((p, estimation)), _) => {
                let values: Vec<f64> = self.values.iter().map(|v| v.to_f64()).collect();
                V::from_f64(percentile(&values, p, estimation))
            }
        }
    }
}
