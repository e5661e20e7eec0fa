//! One series as a window function sees it: all windows, without copies.

use std::cell::RefCell;

use crate::annotations::{Annotation, Annotations, HistogramOperation};
use crate::exec::{ABSENT, Context, Values};
use crate::histogram::{AddOutcome, HistogramOpError};
use crate::parse::Span;
use crate::value::SampleValue;

use super::series::{HistogramPoint, RangeSeries};
use super::starts::StartTimes;
use super::windows::{Bounds, Slot, Windows};

/// A series with the bounds of its windows.
pub(super) struct View<'a> {
    pub(super) windows: &'a Windows,
    pub(super) times: &'a [i64],
    pub(super) floats: &'a [f64],
    pub(super) bounds: &'a Bounds,
    pub(super) histograms: &'a [HistogramPoint],
    /// Without slots where there are no histograms.
    pub(super) histogram_bounds: Bounds,
    pub(super) starts: StartTimes,
    pub(super) annotations: SeriesAnnotations<'a>,
    /// The query, to stop early when it is over.
    pub(super) context: Option<&'a Context<'a>>,
}

/// Samples between checks for cancellation: a few milliseconds of work.
const SAMPLES_BETWEEN_CHECKS: usize = 1 << 20;

/// Checks for cancellation from time to time.
struct CancelCheck<'a> {
    context: Option<&'a Context<'a>>,
    samples: usize,
}

impl CancelCheck<'_> {
    /// Whether to stop before the next `samples`.
    fn should_stop(&mut self, samples: usize) -> bool {
        self.samples += samples + 1;
        if self.samples < SAMPLES_BETWEEN_CHECKS {
            return false;
        }
        self.samples = 0;
        self.context.is_some_and(|context| context.check().is_err())
    }
}

/// The samples of one window.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    /// Not part of the window.
    pub(super) start_ms: i64,
    /// Part of the window.
    pub(super) end_ms: i64,
    pub(super) times: &'a [i64],
    pub(super) floats: &'a [f64],
    pub(super) histograms: &'a [HistogramPoint],
    /// Start timestamps of the floats, 0 where unknown; empty where none is known.
    pub(super) float_starts: &'a [i64],
    pub(super) histogram_starts: &'a [i64],
}

impl View<'_> {
    pub(super) fn steps(&self) -> usize {
        self.bounds.slots.len()
    }

    pub(super) fn has_only_floats(&self) -> bool {
        self.histograms.is_empty()
    }

    pub(super) fn window(&self, step: usize) -> Window<'_> {
        let (start_ms, end_ms) = self.windows.edges(step);
        let slot = self.bounds.slots[step];
        let none = Slot { lo: 0, hi: 0 };
        let points = self.histogram_bounds.slots.get(step).unwrap_or(&none);
        Window {
            start_ms,
            end_ms,
            times: slot.of(self.times),
            floats: slot.of(self.floats),
            histograms: points.of(self.histograms),
            float_starts: slot.of(&self.starts.floats),
            histogram_starts: points.of(&self.starts.histograms),
        }
    }

    /// The value of every window that has a sample. Stops early, with some of the values, if the
    /// query is over; its operator returns the error.
    pub(super) fn each(
        &self,
        mut value: impl FnMut(usize, &Window<'_>) -> Option<SampleValue>,
    ) -> Values {
        let mut values = Values::absent(self.steps());
        let mut cancel_check = self.cancel_check();
        for step in 0..self.steps() {
            let window = self.window(step);
            if cancel_check.should_stop(window.floats.len() + window.histograms.len()) {
                break;
            }
            if window.floats.is_empty() && window.histograms.is_empty() {
                continue;
            }
            match value(step, &window) {
                Some(SampleValue::Float(float)) => values.floats[step] = float,
                Some(SampleValue::Histogram(histogram)) => values.set_histogram(step, histogram),
                None => {}
            }
        }
        values
    }

    /// The value of every window with at least `least` floats. Histograms are ignored, with an
    /// annotation if a window has both.
    pub(super) fn each_of_floats(
        &self,
        least: usize,
        mut value: impl FnMut(usize, &[i64], &[f64]) -> f64,
    ) -> Values {
        if !self.has_only_floats() {
            self.annotate_ignored_histograms();
        }
        let mut values = Values::absent(self.steps());
        let mut cancel_check = self.cancel_check();
        for (step, (slot, out)) in self.bounds.slots.iter().zip(&mut values.floats).enumerate() {
            let floats = slot.of(self.floats);
            if cancel_check.should_stop(floats.len()) {
                break;
            }
            if floats.len() >= least {
                *out = value(step, slot.of(self.times), floats);
            }
        }
        values
    }

    fn cancel_check(&self) -> CancelCheck<'_> {
        CancelCheck {
            context: self.context,
            samples: 0,
        }
    }

    fn annotate_ignored_histograms(&self) {
        let slots = self.bounds.slots.iter();
        let mixed = slots
            .zip(&self.histogram_bounds.slots)
            .any(|(floats, histograms)| floats.len() > 0 && histograms.len() > 0);
        if mixed {
            let name = self.annotations.metric_name();
            self.annotations
                .add(Annotation::HistogramIgnoredInMixedRange(name));
        }
    }

    /// An output with all values absent.
    pub(super) fn absent_floats(&self) -> Vec<f64> {
        vec![ABSENT; self.steps()]
    }
}

/// The annotations of one series. Collected before they are added to those of the query, because
/// most windows repeat the ones before and the query's are behind a lock.
pub(super) struct SeriesAnnotations<'a> {
    query: &'a Annotations,
    span: Span,
    series: &'a RangeSeries,
    collected: RefCell<Vec<Annotation>>,
}

impl<'a> SeriesAnnotations<'a> {
    pub(super) fn new(query: &'a Annotations, span: Span, series: &'a RangeSeries) -> Self {
        Self {
            query,
            span,
            series,
            collected: RefCell::default(),
        }
    }

    pub(super) fn metric_name(&self) -> String {
        self.series.labels.metric_name().to_owned()
    }

    pub(super) fn add(&self, annotation: Annotation) {
        let mut collected = self.collected.borrow_mut();
        if !collected.contains(&annotation) {
            collected.push(annotation);
        }
    }

    pub(super) fn add_all(&self, annotations: Vec<Annotation>) {
        annotations
            .into_iter()
            .for_each(|annotation| self.add(annotation));
    }

    pub(super) fn mixed_floats_histograms(&self) {
        self.add(Annotation::MixedFloatsHistograms(self.metric_name()));
    }

    pub(super) fn mixed_exponential_custom(&self) {
        self.add(Annotation::MixedExponentialCustom(self.metric_name()));
    }

    /// Annotations after histograms were added or subtracted; none if they did not fit. Functions
    /// over windows handle resets themselves, so conflicting hints need no warning.
    pub(super) fn combined(
        &self,
        outcome: Result<AddOutcome, HistogramOpError>,
        during: HistogramOperation,
    ) -> Option<()> {
        match outcome {
            Ok(outcome) => {
                if outcome.bounds_reconciled {
                    self.add(Annotation::MismatchedCustomBuckets(during));
                }
                Some(())
            }
            Err(HistogramOpError::IncompatibleSchema) => {
                self.mixed_exponential_custom();
                None
            }
        }
    }
}

impl Drop for SeriesAnnotations<'_> {
    fn drop(&mut self) {
        for annotation in self.collected.take() {
            self.query.add(self.span, annotation);
        }
    }
}
