//! One series as a window function sees it: all windows, without copies.

use std::cell::RefCell;

use crate::annotations::{Annotations, HistogramOperation, Note};
use crate::exec::{ABSENT, Context, Values};
use crate::histogram::{AddOutcome, HistogramOpError};
use crate::parse::Span;
use crate::value::SampleValue;

use super::series::{HistogramPoint, RangeSeries};
use super::starts::Starts;
use super::windows::{Bounds, Slot, Windows};

/// A series with the places of its windows.
pub(super) struct View<'a> {
    pub(super) windows: &'a Windows,
    pub(super) times: &'a [i64],
    pub(super) floats: &'a [f64],
    pub(super) bounds: &'a Bounds,
    pub(super) histograms: &'a [HistogramPoint],
    /// Without slots where there are no histograms.
    pub(super) histogram_bounds: Bounds,
    pub(super) starts: Starts,
    pub(super) notes: Notes<'a>,
    /// The query, where there is one: who has no time left need not finish.
    pub(super) context: Option<&'a Context<'a>>,
}

/// Samples after which a function over windows asks whether to go on: a few milliseconds of work.
const SAMPLES_BETWEEN_CHECKS: usize = 1 << 20;

/// Asks from time to time whether to go on.
struct Patience<'a> {
    context: Option<&'a Context<'a>>,
    samples: usize,
}

impl Patience<'_> {
    /// Whether to stop, before the next `samples` are looked at.
    fn is_over(&mut self, samples: usize) -> bool {
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

    /// The value of every window that has a sample. Ends early, with some of the values, when the query
    /// is over; its operator asks for the reason.
    pub(super) fn each(
        &self,
        mut value: impl FnMut(usize, &Window<'_>) -> Option<SampleValue>,
    ) -> Values {
        let mut values = Values::absent(self.steps());
        let mut patience = self.patience();
        for step in 0..self.steps() {
            let window = self.window(step);
            if patience.is_over(window.floats.len() + window.histograms.len()) {
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

    /// The value of every window with at least `least` floats. Histograms are ignored, with a note
    /// where a window has both.
    pub(super) fn each_of_floats(
        &self,
        least: usize,
        mut value: impl FnMut(usize, &[i64], &[f64]) -> f64,
    ) -> Values {
        if !self.has_only_floats() {
            self.note_ignored_histograms();
        }
        let mut values = Values::absent(self.steps());
        let mut patience = self.patience();
        for (step, (slot, out)) in self.bounds.slots.iter().zip(&mut values.floats).enumerate() {
            let floats = slot.of(self.floats);
            if patience.is_over(floats.len()) {
                break;
            }
            if floats.len() >= least {
                *out = value(step, slot.of(self.times), floats);
            }
        }
        values
    }

    fn patience(&self) -> Patience<'_> {
        Patience {
            context: self.context,
            samples: 0,
        }
    }

    fn note_ignored_histograms(&self) {
        let slots = self.bounds.slots.iter();
        let mixed = slots
            .zip(&self.histogram_bounds.slots)
            .any(|(floats, histograms)| floats.len() > 0 && histograms.len() > 0);
        if mixed {
            let name = self.notes.metric_name();
            self.notes.add(Note::HistogramIgnoredInMixedRange(name));
        }
    }

    /// An output without values, to be filled.
    pub(super) fn absent_floats(&self) -> Vec<f64> {
        vec![ABSENT; self.steps()]
    }
}

/// What is to be said about one series. Gathered first, because a window is like the one before it
/// and the notes of a query lie behind a lock.
pub(super) struct Notes<'a> {
    annotations: &'a Annotations,
    span: Span,
    series: &'a RangeSeries,
    gathered: RefCell<Vec<Note>>,
}

impl<'a> Notes<'a> {
    pub(super) fn new(annotations: &'a Annotations, span: Span, series: &'a RangeSeries) -> Self {
        Self {
            annotations,
            span,
            series,
            gathered: RefCell::default(),
        }
    }

    pub(super) fn metric_name(&self) -> String {
        self.series.labels.metric_name().to_owned()
    }

    pub(super) fn add(&self, note: Note) {
        let mut gathered = self.gathered.borrow_mut();
        if !gathered.contains(&note) {
            gathered.push(note);
        }
    }

    pub(super) fn add_all(&self, notes: Vec<Note>) {
        notes.into_iter().for_each(|note| self.add(note));
    }

    pub(super) fn mixed_floats_histograms(&self) {
        self.add(Note::MixedFloatsHistograms(self.metric_name()));
    }

    pub(super) fn mixed_exponential_custom(&self) {
        self.add(Note::MixedExponentialCustom(self.metric_name()));
    }

    /// What is to be said after histograms were added or subtracted; none where they did not fit.
    /// Functions over windows treat resets themselves, so contradicting hints are no news.
    pub(super) fn combined(
        &self,
        outcome: Result<AddOutcome, HistogramOpError>,
        during: HistogramOperation,
    ) -> Option<()> {
        match outcome {
            Ok(outcome) => {
                if outcome.bounds_reconciled {
                    self.add(Note::MismatchedCustomBuckets(during));
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

impl Drop for Notes<'_> {
    fn drop(&mut self) {
        for note in self.gathered.take() {
            self.annotations.add(self.span, note);
        }
    }
}
