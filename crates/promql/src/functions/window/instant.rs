//! `irate` and `idelta`: the difference of the last two samples of a window.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use crate::annotations::Annotation;
use crate::exec::Values;
use crate::histogram::FloatHistogram;
use crate::value::SampleValue;

use super::histogram_rate::subtract;
use super::series::HistogramPoint;
use super::starts::{SampleStart, is_restart};
use super::view::{View, Window};

/// One of the last two samples of a window.
#[derive(Clone, Copy)]
enum LastSample<'a> {
    Float(f64, SampleStart),
    Histogram(&'a HistogramPoint, SampleStart),
}

impl LastSample<'_> {
    fn started(&self) -> SampleStart {
        match self {
            Self::Float(_, started) | Self::Histogram(_, started) => *started,
        }
    }
}

pub(super) fn change(view: &View<'_>, per_second: bool) -> Values {
    view.each(|_, window| {
        let (before, after) = last_two(window)?;
        let elapsed_ms = after.started().time.saturating_sub(before.started().time);
        if elapsed_ms == 0 {
            return None;
        }
        let seconds = elapsed_ms as f64 / 1000.0;
        match (before, after) {
            (LastSample::Float(before, since), LastSample::Float(after, started)) => {
                let reset = per_second && (after < before || is_restart(since, started));
                let change = if reset { after } else { after - before };
                Some(SampleValue::Float(if per_second {
                    change / seconds
                } else {
                    change
                }))
            }
            (LastSample::Histogram(before, since), LastSample::Histogram(after, started)) => {
                let restart = per_second && is_restart(since, started);
                let (before, after) = (&before.histogram, &after.histogram);
                let mut change = histogram_change(before, after, per_second, restart, view)?;
                if per_second {
                    change.div(seconds);
                }
                Some(SampleValue::Histogram(Arc::new(change)))
            }
            _ => {
                view.annotations.mixed_floats_histograms();
                None
            }
        }
    })
}

fn histogram_change(
    before: &FloatHistogram,
    after: &FloatHistogram,
    counter: bool,
    restart: bool,
    view: &View<'_>,
) -> Option<FloatHistogram> {
    let name = || view.annotations.metric_name();
    let gauges = [before, after].map(|histogram| histogram.reset_hint == CounterResetHint::Gauge);
    if counter && gauges.contains(&true) {
        view.annotations
            .add(Annotation::NativeHistogramNotCounter(name()));
    }
    if !counter && gauges.contains(&false) {
        view.annotations
            .add(Annotation::NativeHistogramNotGauge(name()));
    }
    let mut change = after.clone();
    if !counter || !(restart || after.detect_reset(before)) {
        subtract(&mut change, before, &view.annotations)?;
    }
    change.reset_hint = CounterResetHint::Gauge;
    change.compact(0);
    Some(change)
}

/// The last two samples of a window in time order.
fn last_two<'a>(window: &Window<'a>) -> Option<(LastSample<'a>, LastSample<'a>)> {
    let (mut floats, mut points) = (window.floats.len(), window.histograms.len());
    let mut take = || {
        let float = floats.checked_sub(1).map(|i| (i, window.times[i]));
        let point = points.checked_sub(1).map(|i| (i, &window.histograms[i]));
        match (float, point) {
            (Some((i, time)), point) if point.is_none_or(|(_, point)| point.time_ms < time) => {
                floats = i;
                let started = SampleStart::at(i, time, window.float_starts);
                Some(LastSample::Float(window.floats[i], started))
            }
            (_, Some((i, point))) => {
                points = i;
                let started = SampleStart::at(i, point.time_ms, window.histogram_starts);
                Some(LastSample::Histogram(point, started))
            }
            _ => None,
        }
    };
    let after = take()?;
    let before = take()?;
    Some((before, after))
}
