//! Functions over ranges that reach into rolled-up time.
//!
//! ```text
//! windows ─┐
//! samples ─┴► cells in time order ─► fold the cells of each range ─► finish by function
//! ```
//!
//! Most functions read cells where they lie (`runs`); others, and all where ranges overlap much,
//! from a copy (`cells`).
//!
//! A cell is one sample or the inside of one window, reduced to what the function needs. Its
//! position is the time of the sample, or a millisecond after the start of the window. So the cells
//! of a range `(a, b]` whose ends lie on the grid are those with `a < position ≤ b`.
//!
//! Holds always:
//! - An evaluation is rounded down to the grid of the level at its time; nothing later is used.
//! - Where ends of ranges lie on the grid, the result is that of the samples.
//! - Evaluations that touch no window are left to the functions of samples.

mod cells;
mod corners;
mod direct_growth;
mod estimates;
mod extremes;
mod growth;
mod histograms;
mod need;
mod points;
mod runs;
mod sliding;
mod spans;
mod spread;
mod totals;
mod transitions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use icecore_model::rollup::{Resolution, WindowFields};
use icecore_model::{Levels, RolledSamples};

use super::rate::RateKind;
use super::table::Kernel;
use super::windows::{Slot, Windows};
use super::{
    HistogramPoint, RangeSeries, SeriesAnnotations, WindowEvaluator, annotate_non_counter,
};
use crate::error::{Error, Result};
use crate::exec::{Context, Values};
use crate::rollup::{PerLevels, RollupNote, RollupReport};

use cells::{Cell, Cells};
use histograms::Filled;
use need::Derivation;
use spans::{Span, Spans};

pub(crate) use need::WindowNeed;

/// What evaluations of one call over rolled-up time share.
#[derive(Debug, Default)]
pub(super) struct RolledState {
    spans: PerLevels<Spans>,
    /// What was already noted, a bit for each level and kind of derivation.
    noted: AtomicU32,
}

/// A series as functions over rolled-up time see it.
struct RolledView<'a> {
    times: &'a [i64],
    floats: &'a [f64],
    histograms: &'a [HistogramPoint],
    rolled: &'a RolledSamples,
    windows: &'a Windows,
    spans: &'a Spans,
    annotations: &'a SeriesAnnotations<'a>,
    context: Option<&'a Context<'a>>,
    /// Nobody wants to know which cells a step has.
    is_direct: bool,
}

impl WindowEvaluator<'_> {
    /// The values of a series whose samples were partly rolled up.
    pub(super) fn evaluate_rolled(
        &self,
        series: &RangeSeries,
        rolled: &RolledSamples,
    ) -> Result<Values> {
        let spans = self.spans(&rolled.levels);
        let is_all_rolled = spans.list.len() == self.windows.grid.steps;
        let mut values = if is_all_rolled {
            Values::absent(self.windows.grid.steps)
        } else {
            let is_rolled = |step: usize| spans.list.binary_search_by_key(&step, |s| s.0).is_ok();
            self.evaluate_samples(series, is_rolled)?
        };
        if spans.list.is_empty() {
            return Ok(values);
        }
        self.note_derivations(rolled, &spans)?;
        let samples = series.floats.len().min(series.times.len());
        let annotations = SeriesAnnotations::new(self.ctx.annotations, self.span, series);
        let view = RolledView {
            times: &series.times[..samples],
            floats: &series.floats[..samples],
            histograms: &series.histograms,
            rolled,
            windows: &self.windows,
            spans: &spans,
            annotations: &annotations,
            context: self.query,
            is_direct: !self.query.is_some_and(Context::counts_touched)
                && series.histograms.is_empty()
                && !rolled.has_histograms(),
        };
        self.fill(&view, &mut values)?;
        if let Kernel::Rate(RateKind { counter: true, .. }) = self.function.kernel {
            annotate_non_counter(series, &values, &annotations);
        }
        Ok(values)
    }

    /// Sets the values of all steps whose range touches a window. The slots are those of cells;
    /// none where functions read them where they lie.
    fn fill(&self, view: &RolledView<'_>, values: &mut Values) -> Result<()> {
        let mut set = |step: usize, value: Option<f64>| match value {
            Some(value) => values.set_float(step, value),
            None => values.clear(step),
        };
        let slots = match self.function.kernel {
            Kernel::Rate(kind) => growth::rates(view, kind, &mut set),
            Kernel::Transitions(transition) => transitions::count(view, transition, &mut set),
            Kernel::Sum => totals::sums(view, &mut set),
            Kernel::Average => totals::averages(view, &mut set),
            Kernel::Count => totals::counts(view, &mut set),
            Kernel::Present => totals::presence(view, &mut set),
            Kernel::Minimum => extremes::minima(view, &mut set),
            Kernel::Maximum => extremes::maxima(view, &mut set),
            Kernel::First => points::firsts(view, |point| point.value, &mut set),
            Kernel::TimeOfFirst => points::firsts(view, points::Point::seconds, &mut set),
            Kernel::Last => points::lasts(view, |point| point.value, &mut set),
            Kernel::TimeOfLast => points::lasts(view, points::Point::seconds, &mut set),
            Kernel::Variance => spread::variances(view, |variance| variance, &mut set),
            Kernel::Deviation => spread::variances(view, f64::sqrt, &mut set),
            Kernel::InstantRate { per_second } => {
                estimates::instant_rates(view, per_second, &mut set)
            }
            Kernel::Derivative => estimates::derivatives(view, &mut set),
            Kernel::Prediction => {
                estimates::predictions(view, |step| self.parameter(0, step), &mut set)
            }
            Kernel::TimeOfMinimum => estimates::times_of_minima(view, &mut set),
            Kernel::TimeOfMaximum => estimates::times_of_maxima(view, &mut set),
            Kernel::Quantile => self.quantiles(view, &mut set)?,
            Kernel::MedianDeviation => estimates::median_deviations(view, &mut set),
            Kernel::DoubleExponentialSmoothing => estimates::smoothed(
                view,
                |step| (self.parameter(0, step), self.parameter(1, step)),
                &mut set,
            )?,
        };
        let of_histograms = if view.has_histograms() {
            histograms::fill(view, self.function.kernel, &slots, values)
        } else {
            Filled::default()
        };
        for resolution in of_histograms.estimated {
            self.note(resolution, Derivation::Estimate)?;
        }
        if self.query.is_some_and(Context::counts_touched) {
            self.touch(view, slots);
            self.touch(view, of_histograms.slots);
        }
        Ok(())
    }

    /// Counts the cells of each step as touched.
    fn touch(&self, view: &RolledView<'_>, slots: Vec<Slot>) {
        // As many slots as there are steps: those of the other steps are empty.
        let mut by_step = vec![Slot { lo: 0, hi: 0 }; self.windows.grid.steps];
        for ((step, _), slot) in view.spans.list.iter().zip(slots) {
            by_step[*step] = slot;
        }
        self.cache.touch(&by_step, u64::from);
    }

    fn quantiles(
        &self,
        view: &RolledView<'_>,
        set: &mut dyn FnMut(usize, Option<f64>),
    ) -> Result<Vec<Slot>> {
        let q = |step| self.parameter(0, step);
        let is_extreme = |(step, _): &(usize, Span)| matches!(q(*step), 0.0 | 1.0);
        if !view.spans.list.iter().all(is_extreme) {
            for resolution in view.levels() {
                self.note(resolution, Derivation::Impossible)?;
            }
        }
        Ok(estimates::quantiles(
            view,
            q,
            self.ctx.annotations,
            self.span,
            set,
        ))
    }

    fn spans(&self, levels: &Arc<Levels>) -> Arc<Spans> {
        self.rolled.spans.get(levels, || {
            let spans = Spans::new(&self.windows, levels);
            if let Some(report) = self.report() {
                report.levels(levels);
                let touched = spans.list.iter().map(|(_, s)| s.touched(&self.windows));
                report.used(levels, touched);
                for resolution in &spans.rounded {
                    report.note(RollupNote::Rounded(*resolution));
                }
                for resolution in &spans.short {
                    report.note(RollupNote::ShortRange {
                        range_ms: self.windows.range_ms,
                        resolution: *resolution,
                    });
                }
            }
            spans
        })
    }

    fn report(&self) -> Option<&RollupReport> {
        self.query.map(|query| &query.rollup)
    }

    /// Notes which levels answer only by estimates.
    fn note_derivations(&self, rolled: &RolledSamples, spans: &Spans) -> Result<()> {
        let kernel = self.function.kernel;
        for (segment, windows) in rolled.segments() {
            if windows.is_empty() || !spans.touched.contains(&segment.resolution) {
                continue;
            }
            let derivation = kernel.derivation(windows.fields);
            if derivation != Derivation::Exact {
                self.note(segment.resolution, derivation)?;
            }
        }
        for (segment, windows) in rolled.histogram_segments() {
            let is_touched = spans.touched.contains(&segment.resolution);
            if is_touched && !windows.is_empty() && kernel.estimates_histograms() {
                self.note(segment.resolution, Derivation::Estimate)?;
            }
        }
        Ok(())
    }

    fn note(&self, resolution: Resolution, derivation: Derivation) -> Result<()> {
        let Some(report) = self.report() else {
            return Ok(());
        };
        let function = self.ctx.call.function.name;
        let is_impossible = derivation == Derivation::Impossible;
        if report.options.is_strict && is_impossible {
            return Err(Error::Execution(format!(
                "{function} cannot be derived from {resolution} windows"
            )));
        }
        let note = if is_impossible {
            RollupNote::Guessed {
                function,
                resolution,
            }
        } else {
            RollupNote::Estimated {
                function,
                resolution,
            }
        };
        let bit = 1 << (resolution.code() % 16 + 16 * u8::from(is_impossible));
        if self.rolled.noted.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            report.note(note);
        }
        Ok(())
    }
}

impl RolledView<'_> {
    fn cells<T: Cell>(&self, needed: WindowFields) -> Cells<T> {
        Cells::new(self, needed)
    }

    /// Whether functions that fold all cells of each range may read them where they lie.
    fn folds_runs(&self) -> bool {
        self.is_direct && !self.spans.overlap
    }

    fn has_histograms(&self) -> bool {
        !self.histograms.is_empty() || self.rolled.has_histograms()
    }

    /// The levels that are touched and have windows.
    fn levels(&self) -> impl Iterator<Item = Resolution> {
        let present = (self.rolled.segments()).filter(|(_, windows)| !windows.is_empty());
        let levels = present.map(|(segment, _)| segment.resolution);
        levels.filter(|level| self.spans.touched.contains(level))
    }
}
