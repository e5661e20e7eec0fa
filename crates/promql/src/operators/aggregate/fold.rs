//! Aggregations that fold the rows of a group into one.

use std::ops::Range;

use super::groups::Groups;
use super::histogram_sum::HistogramSum;
use super::{Accumulator, Annotate};
use crate::annotations::Annotation;
use crate::error::Result;
use crate::exec::{ABSENT, Row, Values, is_absent};
use crate::parse::AggregateOp;
use icecore_model::kahan_add;

/// Approximate slots (groups times steps) of a block: few enough that the last block wastes little,
/// and many enough that groups of one step have little overhead.
const BLOCK_PLACES: usize = 4096;

pub(super) struct GroupFold<'a> {
    groups: Groups,
    op: AggregateOp,
    steps: usize,
    delayed_names: bool,
    /// Blocks are added as groups appear; a single growing list would be copied again and again.
    blocks: Vec<State>,
    groups_of_block: usize,
    annotate: Annotate<'a>,
}

impl<'a> GroupFold<'a> {
    pub(super) fn new(
        groups: Groups,
        op: AggregateOp,
        steps: usize,
        delayed_names: bool,
        annotate: Annotate<'a>,
    ) -> Self {
        Self {
            groups,
            op,
            steps,
            delayed_names,
            blocks: Vec::new(),
            groups_of_block: (BLOCK_PLACES / steps.max(1)).max(1),
            annotate,
        }
    }
}

impl Accumulator for GroupFold<'_> {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let group = self.groups.of(&row);
            let (block, within) = (group / self.groups_of_block, group % self.groups_of_block);
            if block == self.blocks.len() {
                let places = self.groups_of_block * self.steps;
                self.blocks.push(State::with_capacity(self.op, places));
            }
            let places = within * self.steps..(within + 1) * self.steps;
            let state = &mut self.blocks[block];
            if state.counts.len() < places.end {
                state.grow(places.end);
            }
            state.add(self.op, places.clone(), &row);
            if row.values.has_histograms() {
                // The name may have been left on the row although it is removed already.
                let metric = if row.drop_name && !self.delayed_names {
                    ""
                } else {
                    row.labels.metric_name()
                };
                state.add_histograms(self.op, places.start, &row, metric, self.annotate);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        let mut groups = self.groups.into_groups().into_iter();
        let mut rows = Vec::with_capacity(groups.len());
        // Blocks are freed one by one as their rows are made.
        for mut state in self.blocks {
            for (within, group) in groups.by_ref().take(self.groups_of_block).enumerate() {
                let places = within * self.steps..(within + 1) * self.steps;
                let values = state.finish(self.op, places, self.annotate);
                if !values.is_empty() {
                    rows.push(Row {
                        labels: group.labels,
                        drop_name: group.drop_name,
                        values,
                    });
                }
            }
        }
        rows
    }

    fn heap_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(State::heap_bytes);
        self.groups.heap_bytes() + blocks.sum::<usize>()
    }
}

/// The state of some groups. Each column has the steps of the first group, then those of the
/// second, and so on; it is empty if the operator does not need it.
struct State {
    /// The initial value of `values`.
    unset: f64,
    /// The sum, the smallest or largest value, or the sum of squared differences.
    values: Vec<f64>,
    /// The compensation of the sum; the mean for deviations.
    seconds: Vec<f64>,
    /// Number of floats folded.
    counts: Vec<u32>,
    /// Slots whose sum overflowed, so that a running mean takes over; empty while there are none.
    means: Vec<bool>,
    /// Empty while there are no histograms.
    histograms: Vec<Option<HistogramSum>>,
}

impl State {
    fn with_capacity(op: AggregateOp, places: usize) -> Self {
        let (values, seconds) = match op {
            AggregateOp::Sum | AggregateOp::Avg | AggregateOp::Stddev | AggregateOp::Stdvar => {
                (places, places)
            }
            AggregateOp::Min | AggregateOp::Max => (places, 0),
            _ => (0, 0),
        };
        Self {
            unset: match op {
                AggregateOp::Min | AggregateOp::Max => ABSENT,
                _ => 0.0,
            },
            values: Vec::with_capacity(values),
            seconds: Vec::with_capacity(seconds),
            counts: Vec::with_capacity(places),
            means: Vec::new(),
            histograms: Vec::new(),
        }
    }

    /// Makes room for one more group; the columns have the capacity.
    fn grow(&mut self, places: usize) {
        self.counts.resize(places, 0);
        if self.values.capacity() > 0 {
            self.values.resize(places, self.unset);
        }
        if self.seconds.capacity() > 0 {
            self.seconds.resize(places, 0.0);
        }
        if !self.means.is_empty() {
            self.means.resize(places, false);
        }
        if !self.histograms.is_empty() {
            self.histograms.resize_with(places, || None);
        }
    }

    /// Folds a row into the group at `places`.
    fn add(&mut self, op: AggregateOp, places: Range<usize>, row: &Row) {
        let floats = &row.values.floats;
        match op {
            AggregateOp::Sum => self.add_to_sums(places.clone(), floats),
            AggregateOp::Avg => self.add_to_averages(places.start, floats),
            AggregateOp::Min => self.keep_extremes(places.clone(), floats, |new, old| new < old),
            AggregateOp::Max => self.keep_extremes(places.clone(), floats, |new, old| new > old),
            AggregateOp::Stddev | AggregateOp::Stdvar => {
                self.add_to_deviations(places.clone(), floats);
            }
            _ => count(&mut self.counts[places.clone()], floats),
        }
    }

    fn add_to_sums(&mut self, places: Range<usize>, floats: &[f64]) {
        let counts = &mut self.counts[places.clone()];
        let (sums, lost) = (
            &mut self.values[places.clone()],
            &mut self.seconds[places.clone()],
        );
        let columns = sums.iter_mut().zip(lost).zip(floats);
        // Most rows have a value at every step. Without branches the loop compiles to vector
        // instructions.
        if floats.iter().fold(true, |all, v| all & !is_absent(*v)) {
            columns.for_each(|((sum, lost), value)| {
                (*sum, *lost) = kahan_add(*value, *sum, *lost);
            });
            counts.iter_mut().for_each(|count| *count += 1);
            return;
        }
        for (((sum, lost), value), count) in columns.zip(counts) {
            if !is_absent(*value) {
                (*sum, *lost) = kahan_add(*value, *sum, *lost);
                *count += 1;
            }
        }
    }

    fn add_to_averages(&mut self, first: usize, floats: &[f64]) {
        for (step, value) in floats.iter().enumerate() {
            if is_absent(*value) {
                continue;
            }
            let place = first + step;
            self.counts[place] += 1;
            let count = f64::from(self.counts[place]);
            let (sum, lost) = (self.values[place], self.seconds[place]);
            if !self.is_mean(place) {
                let (new_sum, new_lost) = kahan_add(*value, sum, lost);
                if count == 1.0 || !new_sum.is_infinite() {
                    (self.values[place], self.seconds[place]) = (new_sum, new_lost);
                    continue;
                }
                // The sum is too large for a float, the mean is not.
                self.means.resize(self.counts.len(), false);
                self.means[place] = true;
                self.values[place] = sum / (count - 1.0);
                self.seconds[place] = lost / (count - 1.0);
            }
            let share = (count - 1.0) / count;
            let (mean, lost) = (self.values[place], self.seconds[place]);
            (self.values[place], self.seconds[place]) =
                kahan_add(value / count, share * mean, share * lost);
        }
    }

    fn is_mean(&self, place: usize) -> bool {
        self.means.get(place).is_some_and(|is_mean| *is_mean)
    }

    fn keep_extremes(
        &mut self,
        places: Range<usize>,
        floats: &[f64],
        is_better: impl Fn(f64, f64) -> bool,
    ) {
        let kept = self.values[places.clone()].iter_mut();
        for ((kept, count), value) in kept.zip(&mut self.counts[places]).zip(floats) {
            // An absent value is a NaN, and any number replaces NaN.
            let is_present = !is_absent(*value);
            let replaces = is_present & (kept.is_nan() | is_better(*value, *kept));
            *kept = if replaces { *value } else { *kept };
            *count += u32::from(is_present);
        }
    }

    /// Welford's algorithm.
    fn add_to_deviations(&mut self, places: Range<usize>, floats: &[f64]) {
        let means = &mut self.seconds[places.clone()];
        let columns = self.values[places.clone()].iter_mut().zip(means);
        for (((squares, mean), count), value) in columns.zip(&mut self.counts[places]).zip(floats) {
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

    fn add_histograms(
        &mut self,
        op: AggregateOp,
        first: usize,
        row: &Row,
        metric: &str,
        annotate: Annotate<'_>,
    ) {
        for (step, histogram) in row.values.histograms.iter().enumerate() {
            let Some(histogram) = histogram else {
                continue;
            };
            let place = first + step;
            match op {
                AggregateOp::Sum | AggregateOp::Avg => {
                    self.histograms.resize_with(self.counts.len(), || None);
                    match &mut self.histograms[place] {
                        Some(sum) => sum.add(histogram, op == AggregateOp::Avg, metric, annotate),
                        place => *place = Some(HistogramSum::new(histogram)),
                    }
                }
                AggregateOp::Count | AggregateOp::Group => self.counts[place] += 1,
                _ => annotate(Annotation::HistogramIgnoredInAggregation(op.name())),
            }
        }
    }

    /// The values of the group at `places`.
    fn finish(&mut self, op: AggregateOp, places: Range<usize>, annotate: Annotate<'_>) -> Values {
        let mut values = Values::absent(places.len());
        for (step, place) in places.enumerate() {
            if self.counts[place] > 0 {
                values.floats[step] = self.float(op, place);
            }
            let histogram = self.histograms.get_mut(place).and_then(Option::take);
            let Some(histogram) = histogram else {
                continue;
            };
            if self.counts[place] > 0 {
                annotate(Annotation::MixedFloatsHistogramsInAggregation);
                values.floats[step] = ABSENT;
                continue;
            }
            let value = match op {
                AggregateOp::Avg => histogram.mean(annotate),
                _ => histogram.total(annotate),
            };
            if let Some(value) = value {
                values.set_histogram(step, value);
            }
        }
        values
    }

    fn float(&self, op: AggregateOp, place: usize) -> f64 {
        let count = f64::from(self.counts[place]);
        match op {
            AggregateOp::Sum => self.values[place] + self.seconds[place],
            AggregateOp::Avg if self.is_mean(place) => self.values[place] + self.seconds[place],
            AggregateOp::Avg => self.values[place] / count + self.seconds[place] / count,
            AggregateOp::Min | AggregateOp::Max => {
                if is_absent(self.values[place]) {
                    f64::NAN
                } else {
                    self.values[place]
                }
            }
            AggregateOp::Stdvar => self.values[place] / count,
            AggregateOp::Stddev => (self.values[place] / count).sqrt(),
            AggregateOp::Group => 1.0,
            _ => count,
        }
    }

    fn heap_bytes(&self) -> usize {
        8 * (self.values.capacity() + self.seconds.capacity())
            + 4 * self.counts.capacity()
            + self.means.capacity()
            + size_of::<Option<HistogramSum>>() * self.histograms.capacity()
    }
}

fn count(counts: &mut [u32], floats: &[f64]) {
    for (count, value) in counts.iter_mut().zip(floats) {
        *count += u32::from(!is_absent(*value));
    }
}
