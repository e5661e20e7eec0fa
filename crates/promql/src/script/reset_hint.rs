//! Counter reset hints of loaded histograms, as Prometheus' storage returns them.
//!
//! Scripts expect the hints that Prometheus' storage returns: "not reset" for a histogram that
//! continues the one before it; "unknown" for any other, even one loaded as a reset; gauges stay
//! gauges.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{CounterResetHint, Histogram, HistogramCounts, Labels};

use super::histogram::buckets;
use super::load::{LoadedSeries, LoadedValue};

/// The last sample of each series loaded so far; `None` for a float.
#[derive(Default)]
pub(crate) struct ResetHints {
    last: HashMap<Labels, (i64, Option<Arc<Histogram>>)>,
}

/// Replaces the hints of series without earlier samples.
pub fn hints_as_stored(batch: &mut [LoadedSeries]) {
    ResetHints::default().apply(batch);
}

impl ResetHints {
    pub(crate) fn clear(&mut self) {
        self.last.clear();
    }

    pub(crate) fn apply(&mut self, batch: &mut [LoadedSeries]) {
        for series in batch {
            let mut last = self.last.get(&series.labels).cloned();
            for sample in &mut series.samples {
                let stored = match &mut sample.value {
                    LoadedValue::Float(_) => None,
                    LoadedValue::Histogram(histogram) => {
                        let before = last
                            .as_ref()
                            .filter(|(time, _)| *time < sample.timestamp_ms)
                            .and_then(|(_, histogram)| histogram.as_deref());
                        let hint = stored_hint(before, histogram);
                        Arc::make_mut(histogram).reset_hint = hint;
                        Some(Arc::clone(histogram))
                    }
                };
                if last
                    .as_ref()
                    .is_none_or(|(time, _)| *time < sample.timestamp_ms)
                {
                    last = Some((sample.timestamp_ms, stored));
                }
            }
            if let Some(last) = last {
                self.last.insert(series.labels.clone(), last);
            }
        }
    }
}

fn stored_hint(before: Option<&Histogram>, histogram: &Histogram) -> CounterResetHint {
    match (before, histogram.reset_hint) {
        (_, CounterResetHint::Gauge) => CounterResetHint::Gauge,
        (_, CounterResetHint::Reset) | (None, _) => CounterResetHint::Unknown,
        (Some(before), _) => {
            if continues(before, histogram) {
                CounterResetHint::NotReset
            } else {
                CounterResetHint::Unknown
            }
        }
    }
}

/// Whether a counter may have gone from `before` to `after`: the layout is the same, no count is
/// smaller and no bucket is missing.
fn continues(before: &Histogram, after: &Histogram) -> bool {
    let (
        HistogramCounts::Float {
            count,
            zero_count,
            positive,
            negative,
        },
        HistogramCounts::Float {
            count: next_count,
            zero_count: next_zero_count,
            positive: next_positive,
            negative: next_negative,
        },
    ) = (&before.counts, &after.counts)
    else {
        return false;
    };
    let grew = |spans, counts, next_spans, next_counts| {
        let next = buckets(next_spans, next_counts);
        buckets(spans, counts)
            .iter()
            .all(|(index, count)| next.get(index).is_some_and(|next| next >= count))
    };
    before.reset_hint != CounterResetHint::Gauge
        && !before.is_stale()
        && !after.is_stale()
        && before.schema == after.schema
        && before.zero_threshold == after.zero_threshold
        && before.custom_bounds == after.custom_bounds
        && next_count >= count
        && next_zero_count >= zero_count
        && grew(
            &before.positive_spans,
            positive,
            &after.positive_spans,
            next_positive,
        )
        && grew(
            &before.negative_spans,
            negative,
            &after.negative_spans,
            next_negative,
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::load::{Load, SeriesLine};
    use crate::script::series::parse_series;

    fn load(line: &str) -> Vec<LoadedSeries> {
        let (labels, points) = parse_series(line).unwrap();
        let load = Load {
            interval_ms: 1000,
            with_nhcb: false,
            series: vec![SeriesLine {
                labels,
                points,
                starts: Vec::new(),
            }],
        };
        load.batch().unwrap()
    }

    fn hints(batch: &[LoadedSeries]) -> String {
        let samples = batch.iter().flat_map(|series| &series.samples);
        let letters = samples.map(|sample| match &sample.value {
            LoadedValue::Float(_) => 'f',
            LoadedValue::Histogram(h) => match h.reset_hint {
                CounterResetHint::Unknown => 'u',
                CounterResetHint::Reset => 'r',
                CounterResetHint::NotReset => 'n',
                CounterResetHint::Gauge => 'g',
            },
        });
        letters.collect()
    }

    #[test]
    fn as_prometheus_stores_them() {
        let cases = [
            ("h {{count:1}}x3", "unnn"),
            ("h {{count:2}} {{count:1}} {{count:3}}", "uun"),
            (
                "h {{count:2}} {{count:3 counter_reset_hint:reset}} {{count:4}}",
                "uun",
            ),
            ("h {{count:2 counter_reset_hint:not_reset}}", "u"),
            (
                "h {{count:2 counter_reset_hint:gauge}}x1 {{count:3}} {{count:4}}",
                "ggun",
            ),
            ("h {{count:2}} 5 {{count:3}} {{count:4}}", "ufun"),
            ("h {{count:2}} stale {{count:3}}", "ufu"),
            ("h {{count:2 buckets:[2]}} {{count:3 buckets:[1 2]}}", "uu"),
            ("h {{count:2 buckets:[2]}} {{count:3 buckets:[2 1]}}", "un"),
            ("h {{count:2}} {{count:2 z_bucket_w:1}}", "uu"),
            ("h {{schema:1}} {{}}", "uu"),
        ];
        for (line, expected) in cases {
            let mut batch = load(line);
            ResetHints::default().apply(&mut batch);
            assert_eq!(hints(&batch), expected, "{line}");
        }
    }

    #[test]
    fn later_loads_go_on() {
        let mut state = ResetHints::default();
        let mut first = load("h {{count:1}}x1");
        state.apply(&mut first);
        let mut second = load("h _x2 {{count:5}}");
        state.apply(&mut second);
        assert_eq!(hints(&second), "n");
        let mut late = load("h _ {{count:5}}");
        state.apply(&mut late);
        assert_eq!(hints(&late), "u");
        state.clear();
        let mut fresh = load("h _x5 {{count:5}}");
        state.apply(&mut fresh);
        assert_eq!(hints(&fresh), "u");
    }
}
