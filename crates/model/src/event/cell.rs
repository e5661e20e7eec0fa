//! A cell: what the events of one interval and one set of dimension values add up to.
//!
//! Holds always:
//! - Merging is associative and commutative, up to the last bits of sums.
//! - Cells of different kinds, bounds or reducers are an error, never a guess.

use std::cmp::Ordering;

use thiserror::Error;

use super::EventId;

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Counter(CounterCell),
    Histogram(HistogramCell),
    Gauge(GaugeCell),
}

/// Events, and what an attribute of them adds up to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterCell {
    /// The start of the earliest interval of 5 s that has one of the events, in seconds.
    pub first_s: i64,
    /// May be negative: counts of states go down, too.
    pub count: i64,
    /// 0 where no attribute is added up.
    pub sum: f64,
}

/// A histogram with the bounds of its metric.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramCell {
    pub first_s: i64,
    /// One for each bound, and one for what is beyond the last.
    pub counts: Vec<u64>,
    pub samples: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    pub sketch: Option<SketchCounts>,
    /// At most one for each bucket, by bucket: the one with the greatest time and id.
    pub exemplars: Vec<CellExemplar>,
}

/// Buckets whose bounds grow by (1 + a) / (1 - a), by index: bucket i holds what is greater than
/// the ratio to the power of i - 1, up to the ratio to the power of i.
#[derive(Clone, Debug, PartialEq)]
pub struct SketchCounts {
    pub relative_accuracy: f64,
    pub zero: u64,
    /// By growing index, without empty ones.
    pub positive: Vec<(i32, u64)>,
    /// The same of the values with their sign changed.
    pub negative: Vec<(i32, u64)>,
}

/// An event that is in a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellExemplar {
    pub bucket: u32,
    pub value: f64,
    pub at_ns: i64,
    pub event: EventId,
    pub trace_id: Option<[u8; 16]>,
}

/// The observation that a gauge shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaugeCell {
    pub first_s: i64,
    pub reducer: Reducer,
    pub value: f64,
    pub observed_ns: i64,
    pub event: EventId,
}

/// Which of two observations counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// The later one; of equal times the one with the greater id.
    Latest,
    /// The smaller one; of equal ones the later.
    Min,
    /// The greater one; of equal ones the later.
    Max,
}

/// Two cells that are none of one metric.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct CellMismatch(&'static str);

impl Cell {
    /// The start of the earliest interval of 5 s that has one of the events, in seconds.
    pub fn first_s(&self) -> i64 {
        match self {
            Self::Counter(cell) => cell.first_s,
            Self::Histogram(cell) => cell.first_s,
            Self::Gauge(cell) => cell.first_s,
        }
    }

    /// Adds the events of another cell.
    pub fn merge(&mut self, other: &Self) -> Result<(), CellMismatch> {
        match (self, other) {
            (Self::Counter(cell), Self::Counter(other)) => cell.merge(other),
            (Self::Histogram(cell), Self::Histogram(other)) => return cell.merge(other),
            (Self::Gauge(cell), Self::Gauge(other)) => return cell.merge(other),
            _ => return Err(CellMismatch("cells of different kinds")),
        }
        Ok(())
    }
}

impl CounterCell {
    pub fn merge(&mut self, other: &Self) {
        self.first_s = self.first_s.min(other.first_s);
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
    }
}

impl HistogramCell {
    pub fn merge(&mut self, other: &Self) -> Result<(), CellMismatch> {
        if self.counts.len() != other.counts.len() {
            return Err(CellMismatch("histograms of different bounds"));
        }
        match (&mut self.sketch, &other.sketch) {
            (Some(sketch), Some(other)) => sketch.merge(other)?,
            (None, None) => {}
            _ => return Err(CellMismatch("histograms with and without a sketch")),
        }
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*other);
        }
        self.first_s = self.first_s.min(other.first_s);
        self.samples = self.samples.saturating_add(other.samples);
        self.sum += other.sum;
        self.min = extreme(self.min, other.min, Ordering::Less);
        self.max = extreme(self.max, other.max, Ordering::Greater);
        other
            .exemplars
            .iter()
            .for_each(|exemplar| self.offer(*exemplar));
        Ok(())
    }

    /// Takes an exemplar if its bucket has none, or an older one.
    pub fn offer(&mut self, exemplar: CellExemplar) {
        let rank = |exemplar: &CellExemplar| (exemplar.at_ns, exemplar.event);
        let at = |known: &CellExemplar| known.bucket.cmp(&exemplar.bucket);
        match self.exemplars.binary_search_by(at) {
            Ok(at) if rank(&self.exemplars[at]) < rank(&exemplar) => self.exemplars[at] = exemplar,
            Ok(_) => {}
            Err(at) => self.exemplars.insert(at, exemplar),
        }
    }
}

impl SketchCounts {
    pub fn merge(&mut self, other: &Self) -> Result<(), CellMismatch> {
        if self.relative_accuracy.to_bits() != other.relative_accuracy.to_bits() {
            return Err(CellMismatch("sketches of different accuracy"));
        }
        self.zero = self.zero.saturating_add(other.zero);
        merge_counts(&mut self.positive, &other.positive);
        merge_counts(&mut self.negative, &other.negative);
        Ok(())
    }
}

fn merge_counts(counts: &mut Vec<(i32, u64)>, other: &[(i32, u64)]) {
    for (index, more) in other {
        match counts.binary_search_by_key(index, |(index, _)| *index) {
            Ok(at) => counts[at].1 = counts[at].1.saturating_add(*more),
            Err(at) => counts.insert(at, (*index, *more)),
        }
    }
}

/// The smaller or greater of two numbers; what is not a number does not count. Zeros have an order,
/// so that it does not matter which one came first.
fn extreme(known: f64, other: f64, wanted: Ordering) -> f64 {
    let is_better = known.is_nan() || (!other.is_nan() && other.total_cmp(&known) == wanted);
    if is_better { other } else { known }
}

impl GaugeCell {
    pub fn merge(&mut self, other: &Self) -> Result<(), CellMismatch> {
        if self.reducer != other.reducer {
            return Err(CellMismatch("gauges of different reducers"));
        }
        let first_s = self.first_s.min(other.first_s);
        if self.gives_way_to(other) {
            *self = *other;
        }
        self.first_s = first_s;
        Ok(())
    }

    fn gives_way_to(&self, other: &Self) -> bool {
        let later = (self.observed_ns, self.event) < (other.observed_ns, other.event);
        let by_value = match self.reducer {
            Reducer::Latest => return later,
            Reducer::Min => other.value.total_cmp(&self.value),
            Reducer::Max => self.value.total_cmp(&other.value),
        };
        by_value.is_lt() || (by_value.is_eq() && later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(reducer: Reducer, value: f64, observed_ns: i64) -> GaugeCell {
        GaugeCell {
            first_s: observed_ns,
            reducer,
            value,
            observed_ns,
            event: EventId::default(),
        }
    }

    #[test]
    fn the_reducer_says_which_observation_counts() {
        for (reducer, expected) in [
            (Reducer::Latest, 2.0),
            (Reducer::Min, 1.0),
            (Reducer::Max, 3.0),
        ] {
            let observations = [(3.0, 10), (1.0, 20), (2.0, 30)];
            for first in 0..3 {
                let at = |i: usize| observations[(first + i) % 3];
                let mut cell = gauge(reducer, at(0).0, at(0).1);
                for i in 1..3 {
                    cell.merge(&gauge(reducer, at(i).0, at(i).1)).unwrap();
                }
                assert_eq!((cell.value, cell.first_s), (expected, 10));
            }
        }
        let mut equal = gauge(Reducer::Min, 1.0, 5);
        equal.merge(&gauge(Reducer::Min, 1.0, 7)).unwrap();
        assert_eq!(equal.observed_ns, 7);
        let other = gauge(Reducer::Max, 1.0, 5);
        assert!(equal.merge(&other).is_err());
    }

    #[test]
    fn extremes_do_not_depend_on_the_order() {
        let values = [0.0, -0.0, f64::NAN, 1.5, -1.5];
        for (wanted, expected) in [(Ordering::Less, -1.5), (Ordering::Greater, 1.5)] {
            for first in 0..values.len() {
                let rotated = (0..values.len()).map(|i| values[(first + i) % values.len()]);
                let found = rotated.reduce(|a, b| extreme(a, b, wanted));
                assert_eq!(found, Some(expected));
            }
        }
        let zero = |a: f64, b: f64| extreme(a, b, Ordering::Less).to_bits();
        assert_eq!(zero(0.0, -0.0), zero(-0.0, 0.0));
        assert!(extreme(f64::NAN, f64::NAN, Ordering::Less).is_nan());
    }

    #[test]
    fn kinds_do_not_mix() {
        let counter = CounterCell {
            first_s: 0,
            count: 1,
            sum: 0.0,
        };
        let mut cell = Cell::Counter(counter);
        assert!(
            cell.merge(&Cell::Gauge(gauge(Reducer::Min, 1.0, 1)))
                .is_err()
        );
        cell.merge(&Cell::Counter(counter)).unwrap();
        assert_eq!(
            cell,
            Cell::Counter(CounterCell {
                count: 2,
                ..counter
            })
        );
    }
}
