//! Windows of a series that has floats and histograms: one stale marker ends both.
//!
//! Holds always: of the two windows of a time, `ends_stale` is set only where a stale marker of
//! that kind is the last thing of both kinds. So a reader asks whether either is set.

use super::{HistogramWindow, Resolution, Window};

/// Leaves a stale marker only where nothing of the other kind follows it in its window. Positions
/// are those of what the windows were made of, in time order: the times of samples, or
/// [`last_positions`].
pub fn unite_ends(
    resolution: Resolution,
    (floats, float_positions): (&mut Vec<Window>, &[i64]),
    (histograms, histogram_positions): (&mut Vec<HistogramWindow>, &[i64]),
) {
    if floats.is_empty() || histograms.is_empty() {
        return;
    }
    let last = |positions: &[i64], start_ms: i64| {
        let end_ms = start_ms.saturating_add(resolution.ms());
        let end = positions.partition_point(|position| *position < end_ms);
        let last = positions.get(end.checked_sub(1)?).copied();
        last.filter(|position| *position >= start_ms)
    };
    floats.retain_mut(|window| {
        let own = last(float_positions, window.start_ms);
        window.ends_stale &= own >= last(histogram_positions, window.start_ms);
        !window.is_empty()
    });
    histograms.retain_mut(|window| {
        let own = last(histogram_positions, window.start_ms);
        window.ends_stale &= own >= last(float_positions, window.start_ms);
        !window.is_empty()
    });
}

/// For each window where the last thing in it lies: at its start, or after that.
pub fn last_positions(windows: &[Window]) -> Vec<i64> {
    let position = |window: &Window| {
        let has_more = window.interior.is_some() || window.ends_stale;
        window.start_ms.saturating_add(i64::from(has_more))
    };
    windows.iter().map(position).collect()
}

/// The same for histograms.
pub fn last_histogram_positions(windows: &[HistogramWindow]) -> Vec<i64> {
    let position = |window: &HistogramWindow| {
        let has_more = window.interior.is_some() || window.ends_stale;
        window.start_ms.saturating_add(i64::from(has_more))
    };
    windows.iter().map(position).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::{
        Edge, HistogramEdge, roll_up, roll_up_histogram_windows, roll_up_histograms,
        roll_up_windows,
    };
    use super::*;
    use crate::{Histogram, STALE_NAN_BITS};

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Float,
        StaleFloat,
        Histogram,
        StaleHistogram,
    }

    fn windows(
        resolution: Resolution,
        samples: &[(i64, Kind)],
    ) -> (Vec<Window>, Vec<HistogramWindow>) {
        let value = |kind: Kind| match kind {
            Kind::StaleFloat => f64::from_bits(STALE_NAN_BITS),
            _ => 1.0,
        };
        let histogram = |kind: Kind| {
            let sum = match kind {
                Kind::StaleHistogram => f64::from_bits(STALE_NAN_BITS),
                _ => 1.0,
            };
            Arc::new(Histogram {
                sum,
                ..Histogram::stale()
            })
        };
        let is_float = |kind: &Kind| matches!(kind, Kind::Float | Kind::StaleFloat);
        let floats: Vec<_> = samples.iter().filter(|(_, kind)| is_float(kind)).collect();
        let histograms: Vec<_> = samples.iter().filter(|(_, kind)| !is_float(kind)).collect();
        let times =
            |of: &[&(i64, Kind)]| -> Vec<i64> { of.iter().map(|(time, _)| *time).collect() };
        let mut rolled = roll_up(
            resolution,
            floats.iter().map(|(t, kind)| (*t, value(*kind))),
        );
        let values: Vec<_> = histograms
            .iter()
            .map(|(_, kind)| histogram(*kind))
            .collect();
        let timed = times(&histograms).into_iter().zip(&values);
        let mut rolled_histograms = roll_up_histograms(resolution, timed);
        unite_ends(
            resolution,
            (&mut rolled, &times(&floats)),
            (&mut rolled_histograms, &times(&histograms)),
        );
        (rolled, rolled_histograms)
    }

    fn ends(
        (floats, histograms): &(Vec<Window>, Vec<HistogramWindow>),
        start_ms: i64,
    ) -> (bool, bool) {
        let float = floats.iter().find(|w| w.start_ms == start_ms);
        let histogram = histograms.iter().find(|w| w.start_ms == start_ms);
        (
            float.is_some_and(|w| w.ends_stale),
            histogram.is_some_and(|w| w.ends_stale),
        )
    }

    #[test]
    fn a_marker_ends_both_kinds() {
        use Kind::{Float, Histogram, StaleFloat, StaleHistogram};
        let five = Resolution::FIVE_MINUTES;
        let of = |samples: &[(i64, Kind)]| ends(&windows(five, samples), 0);
        assert_eq!(of(&[(1, Float), (2, StaleFloat)]), (true, false));
        assert_eq!(of(&[(1, Histogram), (2, StaleFloat)]), (true, false));
        let followed = [(1, Float), (2, StaleFloat), (3, Histogram)];
        assert_eq!(of(&followed), (false, false));
        let followed = [(1, Histogram), (2, StaleHistogram), (3, Float)];
        assert_eq!(of(&followed), (false, false));
        // A window that has nothing else is not kept.
        let followed = windows(five, &[(2, StaleFloat), (3, Histogram)]);
        assert!(followed.0.is_empty() && followed.1.len() == 1);
    }

    proptest! {
        /// A window is stale where the last thing in it is a marker, at each level.
        #[test]
        fn the_last_thing_decides(
            samples in prop::collection::vec((0..3_000_i64, 0..4_u8), 0..60),
        ) {
            let kinds = [Kind::Float, Kind::StaleFloat, Kind::Histogram, Kind::StaleHistogram];
            let mut samples: Vec<_> = samples
                .into_iter()
                .map(|(second, kind)| (second * 5_000, kinds[usize::from(kind)]))
                .collect();
            samples.sort_by_key(|(time, _)| *time);
            samples.dedup_by_key(|(time, _)| *time);
            let fine = windows(Resolution::FIVE_MINUTES, &samples);
            let mut coarse = (
                roll_up_windows(Resolution::HOUR, &fine.0),
                roll_up_histogram_windows(Resolution::HOUR, &fine.1),
            );
            unite_ends(
                Resolution::HOUR,
                (&mut coarse.0, &last_positions(&fine.0)),
                (&mut coarse.1, &last_histogram_positions(&fine.1)),
            );
            let direct = windows(Resolution::HOUR, &samples);
            prop_assert_eq!(&coarse.0, &direct.0);
            prop_assert_eq!(coarse.1.len(), direct.1.len());
            for (resolution, rolled) in [(Resolution::FIVE_MINUTES, &fine), (Resolution::HOUR, &coarse)] {
                for start_ms in (0..5).map(|hour| hour * 3_600_000) {
                    let inside = start_ms + 1..start_ms + resolution.ms();
                    let last = samples.iter().rfind(|(time, _)| inside.contains(time));
                    let expected = match last {
                        Some((_, Kind::StaleFloat)) => (true, false),
                        Some((_, Kind::StaleHistogram)) => (false, true),
                        _ => (false, false),
                    };
                    prop_assert_eq!(ends(rolled, start_ms), expected);
                }
            }
            let edges = |w: &HistogramWindow| w.edge != HistogramEdge::None;
            prop_assert!(coarse.1.iter().all(|w| edges(w) || w.interior.is_some() || w.ends_stale));
            prop_assert!(coarse.0.iter().all(|w| w.edge != Edge::None || w.interior.is_some() || w.ends_stale));
        }
    }
}
