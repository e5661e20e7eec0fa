//! Aggregations that fold the rows of a group into one.

use super::groups::Groups;
use super::histogram_sum::HistogramSum;
use super::{Fold, Say};
use crate::annotations::Note;
use crate::error::Result;
use crate::exec::{ABSENT, Row, Values, is_absent, kahan_add};
use crate::parse::AggregateOp;

pub(super) struct Folds<'a> {
    groups: Groups,
    op: AggregateOp,
    steps: usize,
    states: Vec<State>,
    say: Say<'a>,
}

impl<'a> Folds<'a> {
    pub(super) fn new(groups: Groups, op: AggregateOp, steps: usize, say: Say<'a>) -> Self {
        Self {
            groups,
            op,
            steps,
            states: Vec::new(),
            say,
        }
    }
}

impl Fold for Folds<'_> {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let number = self.groups.of(&row);
            if number == self.states.len() {
                self.states.push(State::new(self.op, self.steps));
            }
            self.states[number].add(self.op, &row, self.say);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        let groups = self.groups.into_groups().into_iter();
        let mut rows = Vec::with_capacity(self.states.len());
        for (group, state) in groups.zip(self.states) {
            let values = state.finish(self.op, self.say);
            if !values.is_empty() {
                rows.push(Row {
                    labels: group.labels,
                    drop_name: group.drop_name,
                    values,
                });
            }
        }
        rows
    }

    fn heap_bytes(&self) -> usize {
        self.states.iter().map(State::heap_bytes).sum()
    }
}

/// What a group has gathered. Each column has one place per step, or is empty if the operator does
/// not need it.
struct State {
    /// The sum, the smallest or largest value, or the sum of squared differences.
    values: Vec<f64>,
    /// What rounding took from the sum; the mean for deviations.
    seconds: Vec<f64>,
    /// How many floats were folded.
    counts: Vec<u32>,
    /// Steps at which the sum overflowed and a running mean goes on; empty while there are none.
    means: Vec<bool>,
    /// Empty while there are no histograms.
    histograms: Vec<Option<HistogramSum>>,
}

impl State {
    fn new(op: AggregateOp, steps: usize) -> Self {
        let (values, seconds) = match op {
            AggregateOp::Sum | AggregateOp::Avg | AggregateOp::Stddev | AggregateOp::Stdvar => {
                (vec![0.0; steps], vec![0.0; steps])
            }
            AggregateOp::Min | AggregateOp::Max => (vec![ABSENT; steps], Vec::new()),
            _ => (Vec::new(), Vec::new()),
        };
        Self {
            values,
            seconds,
            counts: vec![0; steps],
            means: Vec::new(),
            histograms: Vec::new(),
        }
    }

    fn add(&mut self, op: AggregateOp, row: &Row, say: Say<'_>) {
        let values = &row.values;
        match op {
            AggregateOp::Sum => self.add_to_sums(&values.floats),
            AggregateOp::Avg => self.add_to_averages(&values.floats),
            AggregateOp::Min => self.keep_extremes(&values.floats, |new, old| new < old),
            AggregateOp::Max => self.keep_extremes(&values.floats, |new, old| new > old),
            AggregateOp::Stddev | AggregateOp::Stdvar => self.add_to_deviations(&values.floats),
            _ => self.count(&values.floats),
        }
        if values.has_histograms() {
            self.add_histograms(op, row, say);
        }
    }

    fn count(&mut self, floats: &[f64]) {
        for (count, value) in self.counts.iter_mut().zip(floats) {
            *count += u32::from(!is_absent(*value));
        }
    }

    fn add_to_sums(&mut self, floats: &[f64]) {
        let columns = self.values.iter_mut().zip(&mut self.seconds);
        for (((sum, lost), count), value) in columns.zip(&mut self.counts).zip(floats) {
            if !is_absent(*value) {
                (*sum, *lost) = kahan_add(*value, *sum, *lost);
                *count += 1;
            }
        }
    }

    fn add_to_averages(&mut self, floats: &[f64]) {
        for (step, value) in floats.iter().enumerate() {
            if is_absent(*value) {
                continue;
            }
            self.counts[step] += 1;
            let count = f64::from(self.counts[step]);
            let (sum, lost) = (self.values[step], self.seconds[step]);
            if !self.means.get(step).is_some_and(|is_mean| *is_mean) {
                let (new_sum, new_lost) = kahan_add(*value, sum, lost);
                if count == 1.0 || !new_sum.is_infinite() {
                    (self.values[step], self.seconds[step]) = (new_sum, new_lost);
                    continue;
                }
                // The sum is too large for a float, the mean is not.
                self.means.resize(self.counts.len(), false);
                self.means[step] = true;
                self.values[step] = sum / (count - 1.0);
                self.seconds[step] = lost / (count - 1.0);
            }
            let share = (count - 1.0) / count;
            let (mean, lost) = (self.values[step], self.seconds[step]);
            (self.values[step], self.seconds[step]) =
                kahan_add(value / count, share * mean, share * lost);
        }
    }

    fn keep_extremes(&mut self, floats: &[f64], is_better: impl Fn(f64, f64) -> bool) {
        for ((kept, count), value) in self.values.iter_mut().zip(&mut self.counts).zip(floats) {
            // What is absent so far is a NaN, and any number is better than NaN.
            if !is_absent(*value) {
                if kept.is_nan() || is_better(*value, *kept) {
                    *kept = *value;
                }
                *count += 1;
            }
        }
    }

    /// Welford's method.
    fn add_to_deviations(&mut self, floats: &[f64]) {
        let columns = self.values.iter_mut().zip(&mut self.seconds);
        for (((squares, mean), count), value) in columns.zip(&mut self.counts).zip(floats) {
            if is_absent(*value) {
                continue;
            }
            *count += 1;
            if *count == 1 {
                *mean = *value;
                *squares = if value.is_finite() { 0.0 } else { f64::NAN };
                continue;
            }
            let delta = value - *mean;
            *mean += delta / f64::from(*count);
            *squares += delta * (value - *mean);
        }
    }

    fn add_histograms(&mut self, op: AggregateOp, row: &Row, say: Say<'_>) {
        let metric = row.labels.metric_name();
        for (step, histogram) in row.values.histograms.iter().enumerate() {
            let Some(histogram) = histogram else {
                continue;
            };
            match op {
                AggregateOp::Sum | AggregateOp::Avg => {
                    self.histograms.resize_with(self.counts.len(), || None);
                    match &mut self.histograms[step] {
                        Some(sum) => sum.add(histogram, op == AggregateOp::Avg, metric, say),
                        place => *place = Some(HistogramSum::new(histogram)),
                    }
                }
                AggregateOp::Count | AggregateOp::Group => self.counts[step] += 1,
                _ => say(Note::HistogramIgnoredInAggregation(op.name())),
            }
        }
    }

    fn finish(mut self, op: AggregateOp, say: Say<'_>) -> Values {
        let mut values = Values::absent(self.counts.len());
        for step in 0..self.counts.len() {
            if self.counts[step] > 0 {
                values.floats[step] = self.float(op, step);
            }
            let histogram = self.histograms.get_mut(step).and_then(Option::take);
            let Some(histogram) = histogram else {
                continue;
            };
            if self.counts[step] > 0 {
                say(Note::MixedFloatsHistogramsInAggregation);
                values.floats[step] = ABSENT;
                continue;
            }
            let value = match op {
                AggregateOp::Avg => histogram.mean(say),
                _ => histogram.total(say),
            };
            if let Some(value) = value {
                values.set_histogram(step, value);
            }
        }
        values
    }

    fn float(&self, op: AggregateOp, step: usize) -> f64 {
        let count = f64::from(self.counts[step]);
        match op {
            AggregateOp::Sum => self.values[step] + self.seconds[step],
            AggregateOp::Avg if self.means.get(step).is_some_and(|is_mean| *is_mean) => {
                self.values[step] + self.seconds[step]
            }
            AggregateOp::Avg => self.values[step] / count + self.seconds[step] / count,
            AggregateOp::Min | AggregateOp::Max => match is_absent(self.values[step]) {
                true => f64::NAN,
                false => self.values[step],
            },
            AggregateOp::Stdvar => self.values[step] / count,
            AggregateOp::Stddev => (self.values[step] / count).sqrt(),
            AggregateOp::Group => 1.0,
            _ => count,
        }
    }

    fn heap_bytes(&self) -> usize {
        8 * (self.values.len() + self.seconds.len() + self.histograms.len())
            + 4 * self.counts.len()
            + self.means.len()
    }
}
