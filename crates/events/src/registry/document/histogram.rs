//! What a histogram says beyond what all metrics have: its value, buckets, sketch and percentiles.

use icecore_settings::{Fields, Value};

use super::{optional_path, required_text};
use crate::registry::{Bounds, MetricKind, Sketch};

/// Where none are given.
pub(in crate::registry) const DEFAULT_BOUNDS: [f64; 14] = [
    5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10000.0,
];

/// A cell has a count for each, and every window a cell.
const BOUNDS_MAX: usize = 1_000;

const PERCENTILES_MAX: usize = 100;

const DEFAULT_ACCURACY: f64 = 0.01;

/// Finer ones would have a bucket for nearly every value.
const ACCURACY_MIN: f64 = 0.0001;
const ACCURACY_MAX: f64 = 0.5;

pub(super) fn read(spec: &mut Fields<'_>, rollup: Option<&mut Fields<'_>>) -> Option<MetricKind> {
    let value = optional_path(spec, "value");
    let bounds = read_bounds(spec);
    let sketch = spec.map("sketch").and_then(read_sketch);
    let percentiles = rollup.map(read_percentiles).unwrap_or_default();
    Some(MetricKind::Histogram {
        value,
        bounds: bounds?,
        sketch,
        percentiles,
    })
}

fn read_bounds(spec: &mut Fields<'_>) -> Option<Bounds> {
    let Some(mut buckets) = spec.map("buckets") else {
        return Some(DEFAULT_BOUNDS.into());
    };
    let strategy = buckets.text("strategy");
    let bounds = match strategy.as_deref() {
        None if !buckets.has("bounds") => Some(DEFAULT_BOUNDS.into()),
        None | Some("custom") => read_custom(&mut buckets),
        Some("fixed") => read_range(&mut buckets).map(|range| range.fixed()),
        Some("log") => read_range(&mut buckets).and_then(|range| range.log(&buckets)),
        Some(other) => {
            let reason = format!("expected fixed, log or custom, found {other:?}");
            buckets.report("strategy", reason);
            return None;
        }
    };
    let bounds = bounds.filter(|bounds| is_usable(bounds, &buckets));
    buckets.finish();
    bounds.map(Bounds::from)
}

fn read_custom(buckets: &mut Fields<'_>) -> Option<Vec<f64>> {
    if buckets.node("bounds").is_none() {
        buckets.report("bounds", "is missing");
        return None;
    }
    read_numbers(buckets, "bounds")
}

/// A list of finite numbers. `None` where a problem was reported.
fn read_numbers(fields: &mut Fields<'_>, key: &'static str) -> Option<Vec<f64>> {
    let subject = fields.path_of(key);
    let mut numbers = Vec::new();
    let nodes = fields.list(key);
    for (index, node) in nodes.iter().enumerate() {
        let number = match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } => text.parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        match number {
            // Minus zero is zero.
            Some(number) => numbers.push(number + 0.0),
            None => {
                let subject = format!("{subject}[{index}]");
                fields.source.report(node.at, &subject, "expected a number");
            }
        }
    }
    (numbers.len() == nodes.len()).then_some(numbers)
}

struct Range {
    count: usize,
    min: f64,
    max: f64,
}

fn read_range(buckets: &mut Fields<'_>) -> Option<Range> {
    for key in ["count", "min", "max"] {
        if buckets.node(key).is_none() {
            buckets.report(key, "is missing");
        }
    }
    let count = buckets.number("count");
    let min = buckets.factor("min");
    let max = buckets.factor("max");
    let (count, (min, max)) = count.zip(min.zip(max))?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count == 0 || count > BOUNDS_MAX {
        buckets.report("count", format!("expected 1 to {BOUNDS_MAX}"));
        return None;
    }
    if min >= max {
        buckets.report("max", format!("expected more than min, which is {min}"));
        return None;
    }
    Some(Range { count, min, max })
}

impl Range {
    /// Spread evenly; `min` is no bound.
    fn fixed(&self) -> Vec<f64> {
        let Self { count, min, max } = *self;
        let bound = |i: usize| min + i as f64 * (max - min) / count as f64;
        let mut bounds: Vec<f64> = (1..=count).map(bound).collect();
        bounds.iter_mut().last().into_iter().for_each(|b| *b = max);
        bounds
    }

    /// Each greater than the one before by the same ratio, from `min` to `max`.
    fn log(&self, buckets: &Fields<'_>) -> Option<Vec<f64>> {
        let Self { count, min, max } = *self;
        if min <= 0.0 {
            buckets.report("min", "expected more than 0 for logarithmic buckets");
            return None;
        }
        let bound = |i: usize| min * (max / min).powf(i as f64 / count as f64);
        let mut bounds: Vec<f64> = (0..=count).map(bound).collect();
        bounds.iter_mut().last().into_iter().for_each(|b| *b = max);
        Some(bounds)
    }
}

fn is_usable(bounds: &[f64], buckets: &Fields<'_>) -> bool {
    let key = if buckets.has("bounds") {
        "bounds"
    } else {
        "count"
    };
    if bounds.is_empty() {
        buckets.report(key, "expected at least one bound");
        return false;
    }
    // One more for the first of logarithmic ones.
    if bounds.len() > BOUNDS_MAX + 1 {
        buckets.report(key, format!("has more than {BOUNDS_MAX} bounds"));
        return false;
    }
    let not_finite = bounds.iter().any(|bound| !bound.is_finite());
    let fall = bounds.windows(2).find(|pair| pair[0] >= pair[1]);
    if let Some(pair) = fall {
        let (before, after) = (pair[0], pair[1]);
        let reason = format!("bounds must grow, but {after} follows {before}");
        buckets.report(key, reason);
    } else if not_finite {
        buckets.report(key, "bounds must be finite");
    }
    fall.is_none() && !not_finite
}

/// `sketch: {kind: ddsketch, relativeAccuracy: 0.01}`.
fn read_sketch(mut sketch: Fields<'_>) -> Option<Sketch> {
    if let Some(kind) = required_text(&mut sketch, "kind")
        && kind != "ddsketch"
    {
        sketch.report("kind", format!("expected ddsketch, found {kind:?}"));
    }
    let relative_accuracy = sketch
        .factor("relativeAccuracy")
        .unwrap_or(DEFAULT_ACCURACY);
    if !(ACCURACY_MIN..=ACCURACY_MAX).contains(&relative_accuracy) {
        let reason = format!("expected {ACCURACY_MIN} to {ACCURACY_MAX}");
        sketch.report("relativeAccuracy", reason);
    }
    sketch.finish();
    Some(Sketch { relative_accuracy })
}

fn read_percentiles(rollup: &mut Fields<'_>) -> Vec<f64> {
    let percentiles = read_numbers(rollup, "percentiles").unwrap_or_default();
    if percentiles.iter().any(|q| !(0.0..=1.0).contains(q)) {
        rollup.report("percentiles", "expected numbers from 0 to 1");
    }
    if percentiles.len() > PERCENTILES_MAX {
        let reason = format!("has more than {PERCENTILES_MAX} elements");
        rollup.report("percentiles", reason);
    }
    percentiles
}
