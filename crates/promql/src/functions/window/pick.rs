//! Functions of the positions of samples: `count_over_time`, `present_over_time`, `last_over_time`,
//! `first_over_time` and the times of the last two.

use std::sync::Arc;

use crate::exec::Values;
use crate::value::SampleValue;

use super::view::{View, Window};

pub(super) fn count(view: &View<'_>) -> Values {
    numbers(view, |window| {
        (window.floats.len() + window.histograms.len()) as f64
    })
}

pub(super) fn present(view: &View<'_>) -> Values {
    numbers(view, |_| 1.0)
}

pub(super) fn time_of_first(view: &View<'_>) -> Values {
    numbers(view, |window| {
        let histogram = window.histograms.first().map(|point| point.time_ms);
        let first = window.times.first().copied().into_iter().chain(histogram);
        first.min().unwrap_or_default() as f64 / 1000.0
    })
}

pub(super) fn time_of_last(view: &View<'_>) -> Values {
    numbers(view, |window| {
        let histogram = window.histograms.last().map(|point| point.time_ms);
        let last = window.times.last().copied().into_iter().chain(histogram);
        last.max().unwrap_or_default() as f64 / 1000.0
    })
}

fn numbers(view: &View<'_>, number: impl Fn(&Window<'_>) -> f64) -> Values {
    view.each(|_, window| Some(SampleValue::Float(number(window))))
}

pub(super) fn last(view: &View<'_>) -> Values {
    view.each(|_, window| {
        let float = window.times.last().zip(window.floats.last());
        match (float, window.histograms.last()) {
            (Some((time, float)), Some(point)) if *time > point.time_ms => {
                Some(SampleValue::Float(*float))
            }
            (_, Some(point)) => Some(SampleValue::Histogram(Arc::clone(&point.histogram))),
            (float, None) => float.map(|(_, float)| SampleValue::Float(*float)),
        }
    })
}

pub(super) fn first(view: &View<'_>) -> Values {
    view.each(|_, window| {
        let float = window.times.first().zip(window.floats.first());
        match (float, window.histograms.first()) {
            (Some((time, float)), Some(point)) if *time < point.time_ms => {
                Some(SampleValue::Float(*float))
            }
            (_, Some(point)) => Some(SampleValue::Histogram(Arc::clone(&point.histogram))),
            (float, None) => float.map(|(_, float)| SampleValue::Float(*float)),
        }
    })
}
