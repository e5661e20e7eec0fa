//! The samples that are left of windows, for those who know nothing of windows: what lies at the
//! start of a window, its first and its last sample, and the stale marker that ends it.
//!
//! Holds always:
//! - Everything is a sample as it was written, except for the time of markers inside of windows.
//! - Nothing lies outside of the range of the selection.
//! - Of one time there is one sample: that which came late, if there is one.

use std::sync::Arc;

use icecore_model::rollup::{Edge, HistogramEdge, HistogramWindow, WindowColumns};
use icecore_model::{
    FloatColumns, Histogram, HistogramSample, RolledSamples, STALE_NAN_BITS, SeriesSamples,
};

const STALE: f64 = f64::from_bits(STALE_NAN_BITS);

/// Lays what is left of windows, both ends of the range included, among the raw samples.
pub(super) fn splice(
    series: &mut SeriesSamples,
    rolled: &RolledSamples,
    (start_ms, end_ms): (i64, i64),
) {
    let (mut floats, mut histograms) = (Vec::new(), Vec::new());
    for (at, windows) in rolled.windows.iter().enumerate() {
        let of_histograms = rolled.histograms.get(at).map_or(&[][..], Vec::as_slice);
        push_floats(windows, of_histograms, &mut floats);
        push_histograms(windows, of_histograms, &mut histograms);
    }
    let is_within = |time: i64| (start_ms..=end_ms).contains(&time);
    floats.retain(|(time, _)| is_within(*time));
    histograms.retain(|sample| is_within(sample.timestamp_ms));
    // What came late counts, whichever kind it is of.
    let late_floats = &series.floats.timestamps;
    histograms.retain(|sample| late_floats.binary_search(&sample.timestamp_ms).is_err());
    let late_histograms = &series.histograms;
    floats.retain(|(time_ms, _)| {
        let found = late_histograms.binary_search_by_key(time_ms, |s| s.timestamp_ms);
        found.is_err()
    });
    if !floats.is_empty() {
        let raw = series.floats.timestamps.iter().copied();
        floats.extend(raw.zip(series.floats.values.iter().copied()));
        floats.sort_by_key(|sample| sample.0);
        floats.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        series.floats = FloatColumns {
            timestamps: floats.iter().map(|sample| sample.0).collect(),
            values: floats.into_iter().map(|sample| sample.1).collect(),
        };
    }
    if !histograms.is_empty() {
        histograms.append(&mut series.histograms);
        histograms.sort_by_key(|sample| sample.timestamp_ms);
        histograms.dedup_by(|later, earlier| {
            let is_same = later.timestamp_ms == earlier.timestamp_ms;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        series.histograms = histograms;
    }
}

fn push_floats(
    windows: &WindowColumns,
    of_histograms: &[HistogramWindow],
    out: &mut Vec<(i64, f64)>,
) {
    for (at, start_ms) in windows.starts.iter().enumerate() {
        match windows.edge(at) {
            Edge::None => {}
            Edge::Sample(value) => out.push((*start_ms, value)),
            Edge::Stale => out.push((*start_ms, STALE)),
        }
        let interior = windows.interior(at);
        if let Some(interior) = &interior {
            out.push((interior.first_ms, interior.first));
            if interior.last_ms > interior.first_ms {
                out.push((interior.last_ms, interior.last));
            }
        }
        if windows.ends_stale(at) {
            let histograms = find(of_histograms, *start_ms).and_then(last_ms);
            let last_ms = interior.map(|of| of.last_ms).max(histograms);
            out.push((marker_ms(*start_ms, last_ms), STALE));
        }
    }
}

fn push_histograms(
    floats: &WindowColumns,
    windows: &[HistogramWindow],
    out: &mut Vec<HistogramSample>,
) {
    let mut push = |timestamp_ms: i64, histogram: &Arc<Histogram>| {
        out.push(HistogramSample {
            timestamp_ms,
            histogram: Arc::clone(histogram),
        });
    };
    for window in windows {
        if window.edge == HistogramEdge::Stale {
            push(window.start_ms, &Arc::new(Histogram::stale()));
        }
        window
            .left()
            .for_each(|(time, histogram)| push(time, histogram));
        if window.ends_stale {
            let at = floats.starts.binary_search(&window.start_ms).ok();
            let of_floats = at.and_then(|at| floats.interior(at));
            let last_ms = last_ms(window).max(of_floats.map(|of| of.last_ms));
            let marker_ms = marker_ms(window.start_ms, last_ms);
            push(marker_ms, &Arc::new(Histogram::stale()));
        }
    }
}

fn find(windows: &[HistogramWindow], start_ms: i64) -> Option<&HistogramWindow> {
    let at = windows.binary_search_by_key(&start_ms, |window| window.start_ms);
    windows.get(at.ok()?)
}

fn last_ms(window: &HistogramWindow) -> Option<i64> {
    window.interior.as_ref().map(|of| of.last_ms)
}

/// When a marker inside of a window says that the series ended. All that is known is that it lay
/// after the last sample and in the window; right after that sample is always both, and nobody
/// takes the sample for valid longer than it was.
fn marker_ms(start_ms: i64, last_ms: Option<i64>) -> i64 {
    last_ms.unwrap_or(start_ms) + 1
}

#[cfg(test)]
mod tests {
    use icecore_model::rollup::{
        Resolution, WindowFields, roll_up, roll_up_histograms, unite_ends,
    };
    use icecore_model::{Labels, Levels};

    use super::*;

    const MINUTE: i64 = 60_000;

    fn histogram(count: u64) -> Arc<Histogram> {
        let mut histogram = Histogram {
            sum: count as f64,
            ..Histogram::stale()
        };
        if let icecore_model::HistogramCounts::Integer {
            count: total,
            zero_count,
            ..
        } = &mut histogram.counts
        {
            (*total, *zero_count) = (count, count);
        }
        Arc::new(histogram)
    }

    /// What is left of 5 minute windows between two minutes: floats, and counts of histograms;
    /// stale markers are `None`.
    type Left = (Vec<(i64, Option<f64>)>, Vec<(i64, Option<f64>)>);

    fn left(
        floats: &[(i64, f64)],
        histograms: &[(i64, Arc<Histogram>)],
        range_ms: (i64, i64),
    ) -> Left {
        let resolution = Resolution::FIVE_MINUTES;
        let mut windows = roll_up(resolution, floats.iter().copied());
        let timed = histograms.iter().map(|(time, of)| (*time, of));
        let mut of_histograms = roll_up_histograms(resolution, timed);
        let float_times: Vec<i64> = floats.iter().map(|(time, _)| *time).collect();
        let histogram_times: Vec<i64> = histograms.iter().map(|(time, _)| *time).collect();
        unite_ends(
            resolution,
            (&mut windows, &float_times),
            (&mut of_histograms, &histogram_times),
        );
        let rolled = RolledSamples {
            levels: Arc::new(Levels::default()),
            windows: vec![WindowColumns::from_windows(&windows, WindowFields::ALL)],
            histograms: vec![of_histograms],
            room: Default::default(),
        };
        let mut series = SeriesSamples {
            labels: Labels::empty(),
            floats: FloatColumns::default(),
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: Default::default(),
            rolled: None,
        };
        splice(&mut series, &rolled, range_ms);
        let times = series.floats.timestamps.iter().copied();
        let values = series.floats.values.iter();
        let values = values.map(|value| (!icecore_model::is_stale_nan(*value)).then_some(*value));
        let of_histogram = |sample: &HistogramSample| {
            let sum = sample.histogram.sum;
            (
                sample.timestamp_ms,
                (!sample.histogram.is_stale()).then_some(sum),
            )
        };
        (
            times.zip(values).collect(),
            series.histograms.iter().map(of_histogram).collect(),
        )
    }

    #[test]
    fn real_samples_within_the_range_are_left() {
        let floats: Vec<_> = (0..15).map(|i| (i * MINUTE, i as f64)).collect();
        let (all, _) = left(&floats, &[], (i64::MIN, i64::MAX));
        let minutes = |of: &[(i64, Option<f64>)]| -> Vec<i64> {
            of.iter().map(|(time, _)| time / MINUTE).collect()
        };
        assert_eq!(minutes(&all), [0, 1, 4, 5, 6, 9, 10, 11, 14]);
        assert!(
            all.iter()
                .all(|(time, value)| *value == Some((time / MINUTE) as f64))
        );
        // Both ends are in it, and windows that the range cuts give what lies in it.
        let (cut, _) = left(&floats, &[], (4 * MINUTE, 10 * MINUTE));
        assert_eq!(minutes(&cut), [4, 5, 6, 9, 10]);
        let (cut, _) = left(&floats, &[], (MINUTE + 1, 4 * MINUTE - 1));
        assert_eq!(minutes(&cut), [0; 0]);
    }

    #[test]
    fn histograms_are_left() {
        let histograms: Vec<_> = (0..9)
            .map(|i| (i * MINUTE, histogram(i.unsigned_abs() + 1)))
            .collect();
        let (_, all) = left(&[], &histograms, (i64::MIN, i64::MAX));
        let expected = [0, 1, 4, 5, 6, 8].map(|i| (i * MINUTE, Some((i + 1) as f64)));
        assert_eq!(all, expected);
        let (_, cut) = left(&[], &histograms, (MINUTE, 5 * MINUTE));
        assert_eq!(cut, expected[1..4]);
    }

    #[test]
    fn markers_follow_the_last_sample() {
        let stale = Arc::new(Histogram::stale());
        let floats = [
            (MINUTE, 1.0),
            (2 * MINUTE, STALE),
            (5 * MINUTE, STALE),
            (16 * MINUTE, STALE),
        ];
        let all = (i64::MIN, i64::MAX);
        let (left_floats, _) = left(&floats, &[], all);
        let expected = [
            (MINUTE, Some(1.0)),
            (MINUTE + 1, None),
            (5 * MINUTE, None),
            (15 * MINUTE + 1, None),
        ];
        assert_eq!(left_floats, expected);
        let (cut, _) = left(&floats, &[], (0, MINUTE));
        assert_eq!(cut, expected[..1]);
        // After the last sample of both kinds, as a marker of the kind that it was.
        let histograms = [(2 * MINUTE, histogram(1)), (3 * MINUTE, stale)];
        let (floats, histograms) = left(&[(MINUTE, 1.0)], &histograms, all);
        assert_eq!(floats, [(MINUTE, Some(1.0))]);
        let expected = [(2 * MINUTE, Some(1.0)), (2 * MINUTE + 1, None)];
        assert_eq!(histograms, expected);
        // A sample of the other kind follows.
        let floats = [(MINUTE, 1.0), (2 * MINUTE, STALE)];
        let (floats, histograms) = left(&floats, &[(3 * MINUTE, histogram(1))], all);
        assert_eq!(floats, [(MINUTE, Some(1.0))]);
        assert_eq!(histograms, [(3 * MINUTE, Some(1.0))]);
    }
}
