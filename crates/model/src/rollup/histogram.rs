//! Windows of native histograms.
//!
//! First and last histogram keep their own layout; what is summed has the coarsest schema of its
//! histograms. Exponential and custom buckets cannot be added: a run that has both has no sum.

use std::sync::Arc;

use super::Resolution;
use crate::{FloatHistogram, HistogramSample};

/// A run of native histograms in time order, none of them a stale marker.
#[derive(Clone, Debug)]
pub struct HistogramAggregate {
    pub samples: u64,
    pub first_ms: i64,
    pub first: Arc<FloatHistogram>,
    pub last_ms: i64,
    pub last: Arc<FloatHistogram>,
    /// `None` if some have exponential and others custom buckets.
    pub sum: Option<FloatHistogram>,
    /// Sum of the histograms before each reset: what a counter lost. `None` as for `sum`.
    pub correction: Option<FloatHistogram>,
    pub resets: u64,
    /// Changes from one histogram to the next.
    pub changes: u64,
}

impl HistogramAggregate {
    /// One histogram, not a stale marker.
    pub fn of(timestamp_ms: i64, histogram: Arc<FloatHistogram>) -> Self {
        let nothing = FloatHistogram {
            schema: histogram.schema,
            zero_threshold: histogram.zero_threshold,
            custom_bounds: Arc::clone(&histogram.custom_bounds),
            ..FloatHistogram::default()
        };
        Self {
            samples: 1,
            first_ms: timestamp_ms,
            first: Arc::clone(&histogram),
            last_ms: timestamp_ms,
            last: Arc::clone(&histogram),
            sum: Some(FloatHistogram::clone(&histogram)),
            correction: Some(nothing),
            resets: 0,
            changes: 0,
        }
    }

    /// What a counter grew by from the first histogram to the last; `None` where buckets do not
    /// fit.
    pub fn increase(&self) -> Option<FloatHistogram> {
        let mut increase = FloatHistogram::clone(&self.last);
        increase.sub(&self.first).ok()?;
        increase.add(self.correction.as_ref()?).ok()?;
        Some(increase)
    }

    /// Appends a run that lies after this one.
    pub fn merge(&mut self, after: &Self) {
        if after.first.detect_reset(&self.last) {
            self.resets += 1;
            self.correction = added(self.correction.take(), Some(&self.last));
        }
        if !after.first.equals(&self.last) {
            self.changes += 1;
        }
        self.samples += after.samples;
        self.resets += after.resets;
        self.changes += after.changes;
        self.sum = added(self.sum.take(), after.sum.as_ref());
        self.correction = added(self.correction.take(), after.correction.as_ref());
        self.last_ms = after.last_ms;
        self.last = Arc::clone(&after.last);
    }
}

fn added(sum: Option<FloatHistogram>, other: Option<&FloatHistogram>) -> Option<FloatHistogram> {
    let (mut sum, other) = (sum?, other?);
    sum.add(other).ok()?;
    Some(sum)
}

/// The histogram at exactly the start of a window.
#[derive(Clone, Debug, Default)]
pub enum HistogramEdge {
    #[default]
    None,
    Sample(Arc<FloatHistogram>),
    Stale,
}

/// What is kept of the histograms of a window.
#[derive(Clone, Debug)]
pub struct HistogramWindow {
    pub start_ms: i64,
    pub edge: HistogramEdge,
    /// The histograms after the start.
    pub interior: Option<HistogramAggregate>,
    /// A stale marker is the last thing inside, after the start.
    pub ends_stale: bool,
}

impl HistogramWindow {
    fn append(&mut self, after: &HistogramAggregate) {
        match &mut self.interior {
            Some(interior) => interior.merge(after),
            None => self.interior = Some(after.clone()),
        }
        self.ends_stale = false;
    }
}

/// The windows of histograms in time order.
pub fn roll_up_histograms<'a>(
    resolution: Resolution,
    samples: impl IntoIterator<Item = &'a HistogramSample>,
) -> Vec<HistogramWindow> {
    let mut windows = Vec::new();
    for sample in samples {
        let time = sample.timestamp_ms;
        let window = open_at(&mut windows, resolution, time);
        let is_edge = time == window.start_ms;
        if sample.histogram.is_stale() {
            mark_stale(window, is_edge);
            continue;
        }
        let histogram = Arc::new(FloatHistogram::from_model(&sample.histogram));
        if is_edge {
            window.edge = HistogramEdge::Sample(histogram);
        } else {
            window.append(&HistogramAggregate::of(time, histogram));
        }
    }
    windows
}

/// The windows of finer windows in time order.
pub fn roll_up_histogram_windows<'a>(
    resolution: Resolution,
    windows: impl IntoIterator<Item = &'a HistogramWindow>,
) -> Vec<HistogramWindow> {
    let mut coarse = Vec::new();
    for finer in windows {
        let window = open_at(&mut coarse, resolution, finer.start_ms);
        let is_edge = finer.start_ms == window.start_ms;
        match &finer.edge {
            HistogramEdge::None => {}
            HistogramEdge::Stale => mark_stale(window, is_edge),
            HistogramEdge::Sample(_) if is_edge => window.edge = finer.edge.clone(),
            HistogramEdge::Sample(histogram) => {
                let histogram = Arc::clone(histogram);
                window.append(&HistogramAggregate::of(finer.start_ms, histogram));
            }
        }
        if let Some(interior) = &finer.interior {
            window.append(interior);
        }
        window.ends_stale |= finer.ends_stale;
    }
    coarse
}

fn mark_stale(window: &mut HistogramWindow, is_edge: bool) {
    if is_edge {
        window.edge = HistogramEdge::Stale;
    } else {
        window.ends_stale = true;
    }
}

/// The window of a moment, which is the last one or comes after it.
fn open_at(
    windows: &mut Vec<HistogramWindow>,
    resolution: Resolution,
    timestamp_ms: i64,
) -> &mut HistogramWindow {
    let start_ms = resolution.floor(timestamp_ms);
    let is_open = windows.last().is_some_and(|last| last.start_ms == start_ms);
    let place = windows.len() - usize::from(is_open);
    if !is_open {
        windows.push(HistogramWindow {
            start_ms,
            edge: HistogramEdge::None,
            interior: None,
            ends_stale: false,
        });
    }
    &mut windows[place]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        CUSTOM_BUCKETS_SCHEMA, CounterResetHint, HOUR_MS, Histogram, HistogramCounts, Span,
    };

    const MINUTE_MS: i64 = 60_000;

    /// A histogram of two buckets.
    fn histogram(schema: i8, low: i64, high: i64) -> Histogram {
        Histogram {
            schema,
            reset_hint: CounterResetHint::Unknown,
            zero_threshold: 0.0,
            sum: (low + 3 * high) as f64,
            counts: HistogramCounts::Integer {
                count: (low + high).unsigned_abs(),
                zero_count: 0,
                positive_deltas: vec![low, high - low],
                negative_deltas: Vec::new(),
            },
            positive_spans: vec![Span {
                offset: 1,
                length: 2,
            }],
            negative_spans: Vec::new(),
            custom_bounds: [].into(),
        }
    }

    fn samples(values: &[(i64, Histogram)]) -> Vec<HistogramSample> {
        let sample = |(minute, histogram): &(i64, Histogram)| HistogramSample {
            timestamp_ms: minute * MINUTE_MS,
            histogram: Arc::new(histogram.clone()),
        };
        values.iter().map(sample).collect()
    }

    #[test]
    fn resets_and_sums() {
        let values = [
            (1, 5, 5),
            (2, 7, 9),
            (3, 1, 2),
            (4, 4, 4),
            (6, 3, 9),
            (7, 8, 9),
        ];
        let values = values.map(|(minute, low, high)| (minute, histogram(0, low, high)));
        let windows = roll_up_histograms(Resolution::FIVE_MINUTES, &samples(&values));
        let [first, second] = windows.as_slice() else {
            panic!("{windows:?}");
        };
        let of = first.interior.as_ref().unwrap();
        assert_eq!((of.samples, of.resets, of.changes), (4, 1, 3));
        assert_eq!(of.sum.as_ref().unwrap().positive, [17.0, 20.0]);
        assert_eq!(of.correction.as_ref().unwrap().positive, [7.0, 9.0]);
        assert_eq!(of.increase().unwrap().positive, [6.0, 8.0]);
        let mut both = of.clone();
        both.merge(second.interior.as_ref().unwrap());
        // One bucket fell from 4 to 3.
        assert_eq!((both.samples, both.resets), (6, 2));
        assert_eq!(both.increase().unwrap().positive, [14.0, 17.0]);
    }

    #[test]
    fn edges_and_stale_markers() {
        let values = [
            (0, histogram(0, 1, 1)),
            (1, histogram(0, 2, 2)),
            (2, Histogram::stale()),
            (5, Histogram::stale()),
            (6, histogram(0, 3, 3)),
        ];
        let windows = roll_up_histograms(Resolution::FIVE_MINUTES, &samples(&values));
        assert!(matches!(windows[0].edge, HistogramEdge::Sample(_)) && windows[0].ends_stale);
        assert!(matches!(windows[1].edge, HistogramEdge::Stale) && !windows[1].ends_stale);
        let coarse = roll_up_histogram_windows(Resolution::HOUR, &windows);
        assert_eq!(coarse.len(), 1);
        assert!(matches!(coarse[0].edge, HistogramEdge::Sample(_)) && !coarse[0].ends_stale);
        assert_eq!(coarse[0].interior.as_ref().unwrap().samples, 2);
    }

    #[test]
    fn exponential_and_custom_buckets_have_no_sum() {
        let custom = Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            custom_bounds: [1.0, 2.0, 3.0].into(),
            ..histogram(0, 9, 9)
        };
        let values = [
            (1, histogram(0, 1, 1)),
            (2, custom),
            (3, histogram(0, 9, 9)),
        ];
        let windows = roll_up_histograms(Resolution::HOUR, &samples(&values));
        let interior = windows[0].interior.as_ref().unwrap();
        assert!(interior.sum.is_none() && interior.samples == 3);
    }

    fn text(windows: &[HistogramWindow]) -> Vec<String> {
        let histogram = |of: &FloatHistogram| {
            let mut compact = of.clone();
            compact.compact(0);
            format!("{} {compact}", compact.schema)
        };
        let of_window = |window: &HistogramWindow| {
            let edge = match &window.edge {
                HistogramEdge::None => "none".to_string(),
                HistogramEdge::Stale => "stale".to_string(),
                HistogramEdge::Sample(of) => histogram(of),
            };
            let interior = window.interior.as_ref().map(|of| {
                let sum = of.sum.as_ref().map(histogram);
                let increase = of.increase().as_ref().map(histogram);
                (
                    of.samples,
                    of.resets,
                    of.changes,
                    of.first_ms,
                    of.last_ms,
                    sum,
                    increase,
                )
            });
            format!(
                "{} {edge} {interior:?} {}",
                window.start_ms, window.ends_stale
            )
        };
        windows.iter().map(of_window).collect()
    }

    proptest! {
        /// Coarser windows equal those of the histograms themselves, whatever the schemas.
        #[test]
        fn coarser_windows_equal_those_of_the_histograms(
            values in prop::collection::vec((0..4_i8, 0..20_i64, 0..20_i64, 0..9_u8), 0..40),
            spacing in 1..7_i64,
        ) {
            let values: Vec<_> = values.iter().enumerate().map(|(i, (schema, low, high, kind))| {
                let histogram = if *kind == 0 { Histogram::stale() } else { histogram(*schema, *low, *high) };
                (i as i64 * spacing, histogram)
            }).collect();
            let samples = samples(&values);
            let fine = roll_up_histograms(Resolution::FIVE_MINUTES, &samples);
            let coarse = roll_up_histogram_windows(Resolution::HOUR, &fine);
            prop_assert_eq!(text(&coarse), text(&roll_up_histograms(Resolution::HOUR, &samples)));
            let count: u64 = coarse.iter().map(|w| {
                let edge = u64::from(matches!(w.edge, HistogramEdge::Sample(_)));
                edge + w.interior.as_ref().map_or(0, |of| of.samples)
            }).sum();
            let fresh = samples.iter().filter(|s| !s.histogram.is_stale()).count();
            prop_assert_eq!(count, fresh as u64);
            prop_assert!(coarse.iter().all(|w| w.start_ms % HOUR_MS == 0));
        }
    }
}
