//! The points of one series, as they go through downsampling, rate and aggregation.

use std::collections::BTreeMap;

use icecore_model::{NumberForms, SeriesSamples, TimeColumn, is_stale_nan};

/// Points in time order, as columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SeriesPoints {
    pub(crate) times: TimeColumn,
    /// All values as floats.
    pub(crate) values: Vec<f64>,
    /// Those that are integers; `None` where no point is.
    pub(crate) integers: Option<Integers>,
    /// What the series counts as before its first point; rates have this.
    pub(crate) before: Option<f64>,
}

/// Values that were written as integers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Integers {
    /// One for each point; 0 where it is a float.
    pub(crate) values: Vec<i64>,
    /// Which points are floats, by their indices.
    pub(crate) floats: Vec<u32>,
}

impl SeriesPoints {
    /// The float samples of a series. Stale markers are no points.
    pub(crate) fn of(samples: SeriesSamples, with_integers: bool) -> Self {
        let (mut times, mut values) = (samples.floats.timestamps, samples.floats.values);
        if values.iter().any(|value| is_stale_nan(*value)) {
            let points = times.iter().zip(&values);
            let (kept_times, kept): (Vec<i64>, Vec<f64>) =
                points.filter(|(_, value)| !is_stale_nan(**value)).unzip();
            (times, values) = (kept_times.into(), kept);
        }
        let integers = with_integers.then(|| Integers::of(&times, &values, &samples.forms));
        Self {
            times,
            values,
            integers: integers.flatten(),
            before: None,
        }
    }

    /// Points that are floats.
    pub(crate) fn floats(times: TimeColumn, values: Vec<f64>) -> Self {
        Self {
            times,
            values,
            integers: None,
            before: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The integer at an index.
    pub(crate) fn integer(&self, index: usize) -> Option<i64> {
        let integers = self.integers.as_ref()?;
        let is_float = integers.floats.binary_search(&(index as u32)).is_ok();
        (!is_float).then(|| integers.values.get(index).copied())?
    }

    /// Without the points before a time. The first points of a series may only be there for what
    /// follows them.
    pub(crate) fn starting_at(mut self, start_ms: i64) -> Self {
        let skipped = self.times.partition_point(|time| *time < start_ms);
        if skipped > 0 {
            self.times = self.times.slice(skipped..self.times.len());
            self.values.drain(..skipped);
            if let Some(integers) = &mut self.integers {
                integers.skip(skipped);
            }
        }
        self
    }

    /// Adds the points of another part of the series; at equal times that part counts.
    pub(crate) fn merge(&mut self, other: &Self) {
        let points = |points: &Self| {
            let all = points.times.iter().zip(&points.values).enumerate();
            let point =
                |(i, (time, value)): (usize, (&i64, &f64))| (*time, (*value, points.integer(i)));
            all.map(point).collect::<Vec<_>>()
        };
        let mut merged: BTreeMap<i64, (f64, Option<i64>)> = points(self).into_iter().collect();
        merged.extend(points(other));
        let values = merged.values();
        let is_integer = |(_, integer): &&(f64, Option<i64>)| integer.is_some();
        self.integers = values.clone().any(|v| is_integer(&v)).then(|| Integers {
            values: values.clone().map(|v| v.1.unwrap_or(0)).collect(),
            floats: (0..)
                .zip(values.clone())
                .filter(|(_, v)| v.1.is_none())
                .map(|(i, _)| i)
                .collect(),
        });
        self.values = values.map(|v| v.0).collect();
        self.times = merged.into_keys().collect();
    }

    /// Approximate bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let integers = self.integers.as_ref();
        let integers = integers.map_or(0, |i| 8 * i.values.len() + 4 * i.floats.len());
        8 * self.times.len() + 8 * self.values.len() + integers
    }
}

impl Integers {
    fn of(times: &[i64], values: &[f64], forms: &NumberForms) -> Option<Self> {
        let runs = forms
            .runs()
            .iter()
            .filter(|run| run.form.correction().is_some());
        let mut integers: Option<Vec<i64>> = None;
        let mut floats = Vec::new();
        let mut done = 0;
        for run in runs {
            let start = times.partition_point(|time| *time < run.first_ms);
            let end = times.partition_point(|time| *time <= run.last_ms);
            let integers = integers.get_or_insert_with(|| vec![0; values.len()]);
            floats.extend(done as u32..start as u32);
            done = end;
            if run.form.correction() == Some(0) {
                // The float is the integer: mostly so, and much faster than the general way.
                let exact = integers[start..end].iter_mut().zip(&values[start..end]);
                exact.for_each(|(integer, value)| *integer = *value as i64);
                continue;
            }
            for i in start..end {
                match run.form.integer(values[i]) {
                    Some(integer) => integers[i] = integer,
                    None => floats.push(i as u32),
                }
            }
        }
        floats.extend(done as u32..values.len() as u32);
        let values = integers?;
        Some(Self { values, floats })
    }

    fn skip(&mut self, count: usize) {
        self.values.drain(..count);
        self.floats.retain(|index| *index as usize >= count);
        for index in &mut self.floats {
            *index -= count as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::{FloatColumns, Labels, NumberForm, STALE_NAN_BITS};

    use super::*;

    fn points(points: &[(i64, f64, NumberForm)]) -> SeriesPoints {
        SeriesPoints::of(
            SeriesSamples {
                labels: Labels::empty(),
                floats: FloatColumns {
                    timestamps: points.iter().map(|p| p.0).collect(),
                    values: points.iter().map(|p| p.1).collect(),
                },
                histograms: Vec::new(),
                start_timestamps: Vec::new(),
                forms: NumberForms::of(points.iter().map(|p| (p.0, p.2))),
                rolled: None,
            },
            true,
        )
    }

    #[test]
    fn integers_are_told_from_floats() {
        let (big, form) = NumberForm::of_integer(i64::MAX);
        let small = NumberForm::of_integer(1).1;
        let float = NumberForm::FLOAT;
        let stale = f64::from_bits(STALE_NAN_BITS);
        let found = points(&[
            (1, 0.5, float),
            (2, 1.0, small),
            (3, stale, float),
            (4, 2.0, float),
            (5, big, form),
            (6, 3.5, float),
        ]);
        assert_eq!(found.len(), 5);
        let integers: Vec<_> = (0..5).map(|i| found.integer(i)).collect();
        assert_eq!(integers, [None, Some(1), None, Some(i64::MAX), None]);
        let later = found.starting_at(2);
        let integers: Vec<_> = (0..4).map(|i| later.integer(i)).collect();
        assert_eq!(integers, [Some(1), None, Some(i64::MAX), None]);
        assert_eq!(points(&[(1, 0.5, float)]).integers, None);
        let mut merged = points(&[(1, 0.5, float), (3, 1.0, small)]);
        merged.merge(&points(&[(2, 7.0, small), (3, 2.5, float)]));
        assert_eq!(&*merged.times, [1, 2, 3]);
        assert_eq!(merged.values, [0.5, 7.0, 2.5]);
        let integers: Vec<_> = (0..3).map(|i| merged.integer(i)).collect();
        assert_eq!(integers, [None, Some(7), None]);
    }
}
