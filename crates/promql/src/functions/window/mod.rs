//! Functions over range vectors: one value for each window of a series.
//!
//! ```text
//! RangeSeries ─┐                     ┌ kernel: one loop over all windows of the series
//! Windows ─────┴► bounds (shared) ─► View ─► Values
//! ```
//!
//! Holds always:
//! - All steps of a series are evaluated at once; windows are slices of the series, never copies.
//! - The bounds of windows follow from times alone and are computed once for each column of times.
//! - Results are those of Prometheus: the same arithmetic in the same order, or one whose relative
//!   error is far below 10⁻⁹ (documented where used).
//!
//! Elsewhere: reading samples and subqueries (the operators), `absent_over_time`
//! (`present_over_time`, then `absent`).

mod cache;
mod compensated;
mod edges;
mod extremes;
mod histogram_edges;
mod histogram_rate;
mod histogram_sums;
mod instant;
mod pick;
mod rate;
mod rolled;
mod series;
mod spread;
mod starts;
mod sums;
mod table;
mod transitions;
mod trend;
mod view;
mod windows;

#[cfg(test)]
mod tests;

use crate::annotations::{Annotation, NO_POSITION};
use crate::error::Result;
use crate::exec::{Context, SampleCounts, Values, is_absent};
use crate::functions::CallContext;
use crate::parse::{Expr, Span};
use crate::value::SampleValue;

use cache::BoundsCache;
use rate::RateKind;
use rolled::RolledState;
use starts::StartTimes;
use view::{SeriesAnnotations, View};
use windows::{Bounds, Slot};

pub(crate) use rolled::WindowNeed;
pub(crate) use series::{HistogramPoint, RangeSeries, ResetDetection, histogram_points};
pub(crate) use spread::quantile_of;
pub(crate) use table::{WindowFunction, check_mode, window_function};
pub(crate) use windows::{WindowMode, Windows};

use table::Kernel;

/// Evaluates one call of a window function for many series.
pub(crate) struct WindowEvaluator<'a> {
    function: &'static WindowFunction,
    ctx: CallContext<'a>,
    windows: Windows,
    /// The index of the range vector among the arguments.
    series_arg: usize,
    /// The span of annotations.
    span: Span,
    cache: BoundsCache,
    query: Option<&'a Context<'a>>,
    rolled: RolledState,
}

impl<'a> WindowEvaluator<'a> {
    pub(crate) fn new(
        function: &'static WindowFunction,
        ctx: CallContext<'a>,
        windows: Windows,
        series_arg: usize,
    ) -> Self {
        Self {
            function,
            span: annotation_span(&ctx),
            ctx,
            windows,
            series_arg,
            cache: BoundsCache::new(windows.grid.steps),
            query: None,
            rolled: RolledState::default(),
        }
    }

    /// Lets evaluations end early when the query is over.
    pub(crate) fn of_query(mut self, query: &'a Context<'a>) -> Self {
        self.query = Some(query);
        self
    }

    /// The value of every window of a series.
    pub(crate) fn evaluate(&self, series: &RangeSeries) -> Result<Values> {
        match series.rolled() {
            Some(rolled) => self.evaluate_rolled(series, rolled),
            None => self.evaluate_samples(series, |_| false),
        }
    }

    /// The values of samples. Histograms of skipped steps are not looked at: they are not all, and
    /// what would be said about them may not be true of all.
    fn evaluate_samples(
        &self,
        series: &RangeSeries,
        is_skipped: impl Fn(usize) -> bool,
    ) -> Result<Values> {
        let column = self.cache.bounds(&series.times, |times| self.bounds(times));
        let samples = series.floats.len().min(series.times.len());
        let view = View {
            windows: &self.windows,
            times: &series.times[..samples],
            floats: &series.floats[..samples],
            bounds: &column.bounds,
            histograms: &series.histograms,
            histogram_bounds: self.histogram_bounds(series, is_skipped),
            starts: if self.function.kernel.uses_starts() {
                StartTimes::of(series)
            } else {
                StartTimes::default()
            },
            annotations: SeriesAnnotations::new(self.ctx.annotations, self.span, series),
            context: self.query,
        };
        let values = self.run(&view)?;
        if let Kernel::Rate(RateKind { counter: true, .. }) = self.function.kernel {
            annotate_non_counter(series, &values, &view.annotations);
        }
        Ok(values)
    }

    /// Whether results keep the metric name.
    pub(crate) fn keeps_name(&self) -> bool {
        self.function.keeps_name
    }

    /// Samples in windows so far, by step.
    pub(crate) fn sample_counts(&self) -> SampleCounts {
        self.cache.sample_counts()
    }

    fn bounds(&self, times: &[i64]) -> Bounds {
        match self.function.kernel {
            Kernel::Rate(kind) if self.windows.mode == WindowMode::Plain => {
                rate::extrapolating_bounds(&self.windows, times, kind)
            }
            _ => Bounds::new(&self.windows, times),
        }
    }

    fn histogram_bounds(&self, series: &RangeSeries, is_skipped: impl Fn(usize) -> bool) -> Bounds {
        if series.histograms.is_empty() {
            return Bounds::default();
        }
        let times = series.histograms.iter().map(|point| point.time_ms);
        let times: Vec<i64> = times.collect();
        let mut bounds = Bounds::new(&self.windows, &times);
        for (_, slot) in (bounds.slots.iter_mut().enumerate()).filter(|(step, _)| is_skipped(*step))
        {
            *slot = Slot { lo: 0, hi: 0 };
        }
        let weights = series.histograms.iter().map(|point| point.weight());
        let mut running = vec![0];
        running.extend(weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        }));
        self.cache.touch(&bounds.slots, |at| running[at as usize]);
        bounds
    }

    fn run(&self, view: &View<'_>) -> Result<Values> {
        Ok(match self.function.kernel {
            Kernel::Rate(kind) => self.rate(view, kind),
            Kernel::InstantRate { per_second } => instant::change(view, per_second),
            Kernel::Transitions(transition) => transitions::count(view, transition),
            Kernel::Derivative => trend::derivative(view),
            Kernel::Prediction => trend::prediction(view, |step| self.parameter(0, step)),
            Kernel::DoubleExponentialSmoothing => {
                return trend::double_exponential_smoothing(
                    view,
                    |step| self.parameter(0, step),
                    |step| self.parameter(1, step),
                );
            }
            Kernel::Sum => sums::sum(view),
            Kernel::Average => sums::average(view),
            Kernel::Minimum => extremes::over_time::<extremes::Minimum>(view),
            Kernel::Maximum => extremes::over_time::<extremes::Maximum>(view),
            Kernel::TimeOfMinimum => extremes::time_of::<extremes::Minimum>(view),
            Kernel::TimeOfMaximum => extremes::time_of::<extremes::Maximum>(view),
            Kernel::Count => pick::count(view),
            Kernel::Present => pick::present(view),
            Kernel::First => pick::first(view),
            Kernel::Last => pick::last(view),
            Kernel::TimeOfFirst => pick::time_of_first(view),
            Kernel::TimeOfLast => pick::time_of_last(view),
            Kernel::Deviation => spread::deviation(view),
            Kernel::Variance => spread::variance(view),
            Kernel::Quantile => spread::quantile(view, |step| self.parameter(0, step)),
            Kernel::MedianDeviation => spread::median_deviation(view),
        })
    }

    fn rate(&self, view: &View<'_>, kind: RateKind) -> Values {
        let plain = self.windows.mode == WindowMode::Plain;
        if plain && view.has_only_floats() && (!kind.counter || view.starts.floats.is_empty()) {
            return rate::of_floats(view, kind);
        }
        let resets = if plain && kind.counter {
            histogram_rate::resets(view)
        } else {
            Vec::new()
        };
        view.each(|step, window| {
            if !window.floats.is_empty() && !window.histograms.is_empty() {
                view.annotations.mixed_floats_histograms();
                return None;
            }
            if window.histograms.is_empty() {
                let value = if plain {
                    rate::of_window(window, &self.windows, kind, &view.annotations)
                } else {
                    edges::of_window(window, &self.windows, kind)
                };
                return value.map(SampleValue::Float);
            }
            let value = if plain {
                let resets = view.histogram_bounds.slots[step].of(&resets);
                histogram_rate::of_window(window, resets, &self.windows, kind, &view.annotations)
            } else {
                histogram_edges::of_window(window, &[], &self.windows, kind, &view.annotations)
            };
            value.map(SampleValue::Histogram)
        })
    }

    /// The scalar argument at `index`, the range vector not counted.
    fn parameter(&self, index: usize, step: usize) -> f64 {
        let index = index + usize::from(index >= self.series_arg);
        self.ctx.scalar(index, step)
    }
}

/// The span of the annotations of a call: its first argument without parentheses. Prometheus
/// replaces a subquery by its samples before it calls the function, and these have no position. The
/// end of the span orders them after the annotations of everything inside the call.
fn annotation_span(ctx: &CallContext<'_>) -> Span {
    match ctx.call.args.first().map(Expr::unwrapped) {
        Some(Expr::Subquery(subquery)) => Span {
            start: NO_POSITION,
            end: subquery.span.end,
        },
        Some(arg) => Span {
            start: arg.span().start,
            end: ctx.call.span.end,
        },
        None => ctx.call.span,
    }
}

/// Adds an info if the name of a counter does not end like one.
fn annotate_non_counter(
    series: &RangeSeries,
    values: &Values,
    annotations: &SeriesAnnotations<'_>,
) {
    let name = series.labels.metric_name();
    let suffixes = ["_total", "_sum", "_count", "_bucket"];
    if name.is_empty() || suffixes.iter().any(|suffix| name.ends_with(suffix)) {
        return;
    }
    if values.floats.iter().any(|value| !is_absent(*value)) {
        annotations.add(Annotation::PossibleNonCounter(name.to_owned()));
    }
}
