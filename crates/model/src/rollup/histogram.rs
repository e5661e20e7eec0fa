//! Windows of native histograms.
//!
//! First and last histogram are those that were written; what is summed has float counts, and the
//! coarsest layout of its histograms. Exponential and custom buckets cannot be added: a run that
//! has both has no sum.

use std::sync::Arc;

use super::Resolution;
use crate::float_histogram::CompensatedSum;
use crate::{FloatHistogram, Histogram, MAX_HISTOGRAM_BUCKETS};

/// A run of native histograms in time order, none of them a stale marker. A histogram that was not
/// read is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramAggregate {
    pub samples: u64,
    pub first_ms: i64,
    pub first: Option<Arc<Histogram>>,
    pub last_ms: i64,
    pub last: Option<Arc<Histogram>>,
    /// All of them added up; `None` if some have exponential and others custom buckets.
    pub sum: Option<Arc<Histogram>>,
    /// Those before each reset added up: what a counter lost. `None` where there is no reset, or as
    /// for `sum`.
    pub correction: Option<Arc<Histogram>>,
    /// Resets from one histogram to the next.
    pub resets: u64,
    /// Changes from one histogram to the next.
    pub changes: u64,
}

impl HistogramAggregate {
    /// One histogram, not a stale marker.
    pub fn of(timestamp_ms: i64, histogram: &Arc<Histogram>) -> Self {
        Self {
            samples: 1,
            first_ms: timestamp_ms,
            first: Some(Arc::clone(histogram)),
            last_ms: timestamp_ms,
            last: Some(Arc::clone(histogram)),
            sum: Some(Arc::clone(histogram)),
            correction: None,
            resets: 0,
            changes: 0,
        }
    }

    /// Approximate bytes held.
    pub fn heap_bytes(&self) -> usize {
        let parts = [&self.first, &self.last, &self.sum, &self.correction];
        let bytes = |part: &Arc<Histogram>| size_of::<Histogram>() + part.heap_bytes();
        parts.into_iter().flatten().map(bytes).sum()
    }
}

/// The histogram at exactly the start of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HistogramEdge {
    #[default]
    None,
    Sample(Arc<Histogram>),
    Stale,
}

/// What is kept of the histograms of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramWindow {
    pub start_ms: i64,
    pub edge: HistogramEdge,
    /// The histograms after the start.
    pub interior: Option<HistogramAggregate>,
    /// A stale marker is the last thing inside, after the start.
    pub ends_stale: bool,
    /// Samples were merged into it after its own samples had gone, so their order is not known.
    pub has_late: bool,
}

impl HistogramWindow {
    pub(super) fn is_empty(&self) -> bool {
        self.edge == HistogramEdge::None && self.interior.is_none() && !self.ends_stale
    }

    /// The histograms that it stands for.
    pub fn samples(&self) -> u64 {
        let edge = u64::from(matches!(self.edge, HistogramEdge::Sample(_)));
        edge + self.interior.as_ref().map_or(0, |of| of.samples)
    }

    /// The histograms that are left, in time order.
    pub fn left(&self) -> impl Iterator<Item = (i64, &Arc<Histogram>)> {
        let edge = match &self.edge {
            HistogramEdge::Sample(histogram) => Some((self.start_ms, histogram)),
            HistogramEdge::None | HistogramEdge::Stale => None,
        };
        let interior = self.interior.as_ref();
        let first = interior.and_then(|of| Some((of.first_ms, of.first.as_ref()?)));
        let last = interior.filter(|of| of.last_ms > of.first_ms);
        let last = last.and_then(|of| Some((of.last_ms, of.last.as_ref()?)));
        [edge, first, last].into_iter().flatten()
    }

    /// Approximate bytes held.
    pub fn heap_bytes(&self) -> usize {
        let edge = match &self.edge {
            HistogramEdge::Sample(histogram) => size_of::<Histogram>() + histogram.heap_bytes(),
            HistogramEdge::None | HistogramEdge::Stale => 0,
        };
        let interior = self.interior.as_ref();
        size_of::<Self>() + edge + interior.map_or(0, HistogramAggregate::heap_bytes)
    }
}

/// The windows of histograms in time order.
pub fn roll_up_histograms<'a>(
    resolution: Resolution,
    samples: impl IntoIterator<Item = (i64, &'a Arc<Histogram>)>,
) -> Vec<HistogramWindow> {
    let mut builder = HistogramWindowBuilder::new(resolution);
    for (timestamp_ms, histogram) in samples {
        builder.sample(timestamp_ms, histogram);
    }
    builder.finish()
}

/// The windows of finer windows in time order, of which everything was read.
pub fn roll_up_histogram_windows<'a>(
    resolution: Resolution,
    windows: impl IntoIterator<Item = &'a HistogramWindow>,
) -> Vec<HistogramWindow> {
    let mut builder = HistogramWindowBuilder::new(resolution);
    for window in windows {
        builder.window(window);
    }
    builder.finish()
}

/// Makes windows of what is given in time order.
#[derive(Debug)]
struct HistogramWindowBuilder {
    resolution: Resolution,
    finished: Vec<HistogramWindow>,
    open: Option<HistogramWindow>,
    /// The interior of the open window.
    run: Option<Run>,
}

impl HistogramWindowBuilder {
    fn new(resolution: Resolution) -> Self {
        assert!(!resolution.is_raw(), "raw samples have no windows");
        Self {
            resolution,
            finished: Vec::new(),
            open: None,
            run: None,
        }
    }

    fn sample(&mut self, timestamp_ms: i64, histogram: &Arc<Histogram>) {
        if histogram.is_stale() {
            self.stale(timestamp_ms);
            return;
        }
        let open = self.open_at(timestamp_ms);
        if timestamp_ms == open.start_ms {
            open.edge = HistogramEdge::Sample(Arc::clone(histogram));
            return;
        }
        open.ends_stale = false;
        self.append(&HistogramAggregate::of(timestamp_ms, histogram));
    }

    fn stale(&mut self, timestamp_ms: i64) {
        let open = self.open_at(timestamp_ms);
        if timestamp_ms == open.start_ms {
            open.edge = HistogramEdge::Stale;
        } else {
            open.ends_stale = true;
        }
    }

    /// A window of the next finer level.
    fn window(&mut self, finer: &HistogramWindow) {
        match &finer.edge {
            HistogramEdge::None => {}
            HistogramEdge::Sample(histogram) => self.sample(finer.start_ms, histogram),
            HistogramEdge::Stale => self.stale(finer.start_ms),
        }
        let open = self.open_at(finer.start_ms);
        open.has_late |= finer.has_late;
        if finer.interior.is_some() || finer.ends_stale {
            open.ends_stale = finer.ends_stale;
        }
        if let Some(interior) = &finer.interior {
            self.append(interior);
        }
    }

    fn append(&mut self, after: &HistogramAggregate) {
        match &mut self.run {
            Some(run) => run.append(after),
            None => self.run = Some(Run::new(after)),
        }
    }

    fn finish(mut self) -> Vec<HistogramWindow> {
        self.close();
        self.finished
    }

    fn open_at(&mut self, timestamp_ms: i64) -> &mut HistogramWindow {
        let start_ms = self.resolution.floor(timestamp_ms);
        let is_open = |open: &HistogramWindow| open.start_ms == start_ms;
        if !self.open.as_ref().is_some_and(is_open) {
            self.close();
        }
        self.open.get_or_insert_with(|| HistogramWindow {
            start_ms,
            ..HistogramWindow::default()
        })
    }

    fn close(&mut self) {
        let interior = self.run.take().map(Run::finish);
        if let Some(open) = self.open.take() {
            let window = HistogramWindow { interior, ..open };
            if !window.is_empty() {
                self.finished.push(window);
            }
        }
    }
}

/// A run that grows.
#[derive(Debug)]
struct Run {
    /// Without sum and correction.
    of: HistogramAggregate,
    last: FloatHistogram,
    sum: Total,
    lost: Total,
}

impl Run {
    fn new(first: &HistogramAggregate) -> Self {
        let mut run = Self {
            last: to_float(first.last.as_ref()),
            sum: Total::Nothing,
            lost: Total::Nothing,
            of: first.clone(),
        };
        run.add_totals(first);
        run
    }

    /// Appends a run that lies after this one.
    fn append(&mut self, after: &HistogramAggregate) {
        let first = to_float(after.first.as_ref());
        if first.detect_reset(&self.last) {
            self.of.resets += 1;
            self.lost.add(&self.last);
        }
        if !first.equals(&self.last) {
            self.of.changes += 1;
        }
        self.of.samples += after.samples;
        self.of.resets += after.resets;
        self.of.changes += after.changes;
        self.of.last_ms = after.last_ms;
        self.of.last.clone_from(&after.last);
        if after.samples == 1 {
            self.sum.add(&first);
            self.last = first;
        } else {
            self.last = to_float(after.last.as_ref());
            self.add_totals(after);
        }
    }

    fn add_totals(&mut self, run: &HistogramAggregate) {
        match &run.sum {
            Some(sum) => self.sum.add(&FloatHistogram::from_model(sum)),
            None => self.sum = Total::Mixed,
        }
        match &run.correction {
            Some(lost) => self.lost.add(&FloatHistogram::from_model(lost)),
            None if run.resets > 0 => self.lost = Total::Mixed,
            None => {}
        }
    }

    fn finish(self) -> HistogramAggregate {
        HistogramAggregate {
            sum: self.sum.finish(),
            correction: self.lost.finish(),
            ..self.of
        }
    }
}

fn to_float(histogram: Option<&Arc<Histogram>>) -> FloatHistogram {
    histogram.map_or_else(FloatHistogram::default, |of| FloatHistogram::from_model(of))
}

/// The sum of two; `None` if one has exponential and the other custom buckets.
pub(super) fn added(a: &Histogram, b: &Histogram) -> Option<Histogram> {
    let mut total = Total::Nothing;
    total.add(&FloatHistogram::from_model(a));
    total.add(&FloatHistogram::from_model(b));
    total.finish().map(Arc::unwrap_or_clone)
}

/// A sum of histograms.
#[derive(Debug)]
enum Total {
    Nothing,
    Sum(CompensatedSum),
    /// Some have exponential, others custom buckets.
    Mixed,
}

impl Total {
    fn add(&mut self, histogram: &FloatHistogram) {
        match self {
            Self::Nothing => *self = Self::Sum(CompensatedSum::new(histogram)),
            Self::Sum(sum) => {
                if sum.add(histogram).is_err() {
                    *self = Self::Mixed;
                }
            }
            Self::Mixed => {}
        }
    }

    fn finish(self) -> Option<Arc<Histogram>> {
        let Self::Sum(sum) = self else {
            return None;
        };
        let mut total = sum.total();
        total.compact(0);
        // Many histograms with few buckets each may have more than one sample may have.
        while total.positive.len() + total.negative.len() > MAX_HISTOGRAM_BUCKETS {
            let coarser = FloatHistogram {
                reset_hint: total.reset_hint,
                ..total.copy_to_schema(total.schema.saturating_sub(1))
            };
            if coarser.schema == total.schema {
                break;
            }
            total = coarser;
        }
        Some(Arc::new(total.to_model()))
    }
}

#[cfg(test)]
mod tests;
