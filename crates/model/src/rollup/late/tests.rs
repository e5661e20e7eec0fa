use proptest::prelude::*;

use super::super::{Resolution, roll_up, roll_up_histograms, roll_up_windows, unite_ends};
use super::*;
use crate::{Histogram, HistogramCounts, MINUTE_MS, STALE_NAN_BITS, is_stale_nan};

const FIVE: Resolution = Resolution::FIVE_MINUTES;
const STALE: f64 = f64::from_bits(STALE_NAN_BITS);

fn floats(resolution: Resolution, samples: &[(i64, f64)]) -> SeriesWindows {
    SeriesWindows {
        floats: roll_up(resolution, samples.iter().copied()),
        histograms: Vec::new(),
    }
}

fn histogram(count: u64) -> Arc<Histogram> {
    let mut histogram = Histogram {
        sum: count as f64,
        ..Histogram::stale()
    };
    if let HistogramCounts::Integer {
        count: total,
        zero_count,
        ..
    } = &mut histogram.counts
    {
        (*total, *zero_count) = (count, count);
    }
    Arc::new(histogram)
}

/// Both kinds at minutes.
fn both(of_floats: &[(i64, f64)], of_histograms: &[(i64, Arc<Histogram>)]) -> SeriesWindows {
    let of_floats = of_floats.iter().map(|(minute, v)| (minute * MINUTE_MS, *v));
    let of_floats: Vec<_> = of_floats.collect();
    let of_histograms = of_histograms.iter().map(|(m, h)| (m * MINUTE_MS, h));
    let times: Vec<i64> = of_floats.iter().map(|(time, _)| *time).collect();
    let histogram_times: Vec<i64> = of_histograms.clone().map(|(time, _)| time).collect();
    let mut windows = SeriesWindows {
        floats: roll_up(FIVE, of_floats),
        histograms: roll_up_histograms(FIVE, of_histograms),
    };
    unite_ends(
        FIVE,
        (&mut windows.floats, &times),
        (&mut windows.histograms, &histogram_times),
    );
    windows
}

fn merged_with(mut rolled: SeriesWindows, late: SeriesWindows) -> SeriesWindows {
    rolled.merge_late(late);
    rolled
}

/// Whether the first window ends with a marker, by kind.
fn ends(windows: &SeriesWindows) -> (bool, bool) {
    let float = windows.floats.first().filter(|w| w.start_ms == 0);
    let histogram = windows.histograms.first().filter(|w| w.start_ms == 0);
    (
        float.is_some_and(|w| w.ends_stale),
        histogram.is_some_and(|w| w.ends_stale),
    )
}

#[test]
fn what_depends_on_order_stays_as_it_was() {
    let minutes = |values: &[(i64, f64)]| -> Vec<(i64, f64)> {
        values.iter().map(|(m, v)| (m * MINUTE_MS, *v)).collect()
    };
    let rolled = floats(FIVE, &minutes(&[(1, 10.0), (3, 2.0)]));
    let late = floats(FIVE, &minutes(&[(2, 50.0), (4, 1.0), (7, 3.0), (8, 1.0)]));
    let merged = merged_with(rolled, late);
    let [first, second] = merged.floats[..] else {
        panic!("{merged:?}");
    };
    let of = first.interior.unwrap();
    assert!(first.has_late && second.has_late);
    assert_eq!((of.numbers, of.sum, of.min, of.max), (4, 63.0, 1.0, 50.0));
    assert_eq!((of.first_ms, of.first), (MINUTE_MS, 10.0));
    assert_eq!((of.last_ms, of.last), (4 * MINUTE_MS, 1.0));
    assert_eq!((of.correction, of.resets, of.changes), (10.0, 1, 1));
    // A window that had nothing has all of it.
    let of = second.interior.unwrap();
    assert_eq!((of.correction, of.resets, of.changes), (3.0, 1, 1));
}

#[test]
fn at_the_start_of_a_window_the_later_write_counts() {
    let late = floats(FIVE, &[(0, 7.0), (5 * MINUTE_MS, STALE)]);
    let rolled = floats(
        FIVE,
        &[(0, 1.0), (5 * MINUTE_MS, 2.0), (10 * MINUTE_MS, 3.0)],
    );
    let edges: Vec<Edge> = merged_with(rolled, late)
        .floats
        .iter()
        .map(|window| window.edge)
        .collect();
    let expected = [Edge::Sample(7.0), Edge::Stale, Edge::Sample(3.0)];
    assert_eq!(edges, expected);
    // Also one of the other kind.
    let merged = merged_with(both(&[(0, 1.0)], &[]), both(&[], &[(0, histogram(2))]));
    assert!(merged.floats.is_empty() && merged.histograms[0].samples() == 1);
    let merged = merged_with(both(&[], &[(0, histogram(2))]), both(&[(0, 1.0)], &[]));
    assert!(merged.histograms.is_empty() && merged.floats[0].edge == Edge::Sample(1.0));
}

#[test]
fn the_latest_sample_decides_what_a_window_ends_with() {
    let ended = || both(&[(1, 1.0), (2, STALE)], &[]);
    // What lies before what was there changes nothing, what lies behind is the end.
    let earlier = both(&[], &[]);
    assert_eq!(ends(&merged_with(ended(), earlier)), (true, false));
    assert_eq!(
        ends(&merged_with(ended(), both(&[(3, 1.0)], &[]))),
        (false, false)
    );
    let behind = both(&[], &[(3, histogram(1))]);
    assert_eq!(ends(&merged_with(ended(), behind)), (false, false));
    let open = || both(&[(2, 1.0)], &[(3, histogram(1))]);
    let late = || both(&[(1, 1.0), (4, STALE)], &[]);
    assert_eq!(ends(&merged_with(open(), late())), (false, false));
    let late = both(&[(4, 1.0)], &[]);
    assert_eq!(ends(&merged_with(open(), late)), (false, false));
    let stale = Arc::new(Histogram::stale());
    let late = both(&[], &[(3, histogram(1)), (4, stale)]);
    assert_eq!(
        ends(&merged_with(both(&[(2, 1.0)], &[]), late)),
        (false, true)
    );
    // A marker alone, in a window of nothing.
    let late = both(&[(2, STALE)], &[]);
    assert_eq!(
        ends(&merged_with(SeriesWindows::default(), late)),
        (true, false)
    );
}

#[test]
fn histograms_are_added() {
    let rolled = both(&[], &[(1, histogram(9)), (3, histogram(4))]);
    let late = both(&[], &[(2, histogram(100)), (6, histogram(1))]);
    let merged = merged_with(rolled, late);
    let of = merged.histograms[0].interior.as_ref().unwrap();
    assert_eq!((of.samples, of.resets, of.changes), (3, 1, 1));
    assert_eq!((of.first_ms, of.last_ms), (MINUTE_MS, 3 * MINUTE_MS));
    assert_eq!(of.sum.as_ref().unwrap().sum, 113.0);
    assert_eq!(of.correction.as_ref().unwrap().sum, 9.0);
    assert!(merged.histograms[0].has_late && merged.histograms[1].has_late);
    assert_eq!(merged.histograms[1].samples(), 1);
}

fn near(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// Whether windows are the same apart from what depends on the order of samples.
fn is_same_set(a: &Window, b: &Window) -> bool {
    let same_interior = match (&a.interior, &b.interior) {
        (Some(a), Some(b)) => {
            let bits = |of: &Aggregate| (of.first_ms, of.first.to_bits(), of.last_ms);
            bits(a) == bits(b)
                && a.last.to_bits() == b.last.to_bits()
                && (a.numbers, a.nans) == (b.numbers, b.nans)
                && near(a.sum, b.sum)
                && near(a.min, b.min)
                && near(a.max, b.max)
                && near(a.m2, b.m2)
        }
        (a, b) => a.is_none() && b.is_none(),
    };
    a.start_ms == b.start_ms && same_interior
}

fn sample() -> impl Strategy<Value = (i64, f64, bool)> {
    let value = prop_oneof![
        9 => (-50..50_i32).prop_map(f64::from),
        1 => Just(f64::NAN),
        1 => Just(STALE),
    ];
    (0..1_200_i64, value, any::<bool>())
}

proptest! {
    /// Merged windows are those of all samples, in all that does not depend on their order; the
    /// rest is what it was, and coarser windows of them are coarser windows of all samples, too.
    #[test]
    fn late_samples_count_as_all_others(samples in prop::collection::vec(sample(), 0..80)) {
        let mut samples = samples;
        samples.sort_by_key(|(second, ..)| *second);
        samples.dedup_by_key(|(second, ..)| *second);
        let at = |second: i64| second * 7_000;
        let part = |is_late: bool| -> Vec<(i64, f64)> {
            let part = samples.iter().filter(|(.., late)| *late == is_late);
            part.map(|(second, value, _)| (at(*second), *value)).collect()
        };
        let all: Vec<(i64, f64)> = samples.iter().map(|(s, v, _)| (at(*s), *v)).collect();
        let rolled = floats(FIVE, &part(false));
        let late = floats(FIVE, &part(true));
        let touched: Vec<i64> = late.floats.iter().map(|w| w.start_ms).collect();
        let merged = merged_with(rolled.clone(), late);
        let expected = floats(FIVE, &all);
        let shown = |of: &SeriesWindows| -> Vec<Window> {
            of.floats.iter().filter(|w| w.all().is_some()).copied().collect()
        };
        let (found, wanted) = (shown(&merged), shown(&expected));
        prop_assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(&wanted) {
            prop_assert!(is_same_set(found, wanted), "{:?} {:?}", found, wanted);
            prop_assert_eq!(found.has_late, touched.contains(&found.start_ms));
            let before = rolled.floats.iter().find(|w| w.start_ms == found.start_ms);
            if let (Some(before), Some(after)) = (before.and_then(|w| w.interior), found.interior) {
                let order = |of: &Aggregate| (of.correction, of.resets, of.changes);
                prop_assert_eq!(order(&before), order(&after));
            }
        }
        let coarse = roll_up_windows(Resolution::HOUR, &merged.floats);
        let count = |windows: &[Window]| -> u64 {
            windows.iter().filter_map(Window::all).map(|all| all.samples()).sum()
        };
        let fresh = all.iter().filter(|(_, value)| !is_stale_nan(*value)).count();
        prop_assert_eq!(count(&coarse), fresh as u64);
        prop_assert_eq!(count(&merged.floats), fresh as u64);
    }

    /// Nothing changes nothing, and windows of nothing become those of the late samples.
    #[test]
    fn nothing_is_neutral(samples in prop::collection::vec(sample(), 0..40)) {
        let mut samples: Vec<(i64, f64)> =
            samples.into_iter().map(|(s, v, _)| (s * 7_000, v)).collect();
        samples.sort_by_key(|(time, _)| *time);
        samples.dedup_by_key(|(time, _)| *time);
        let windows = floats(FIVE, &samples);
        let bits = |of: &SeriesWindows| format!("{of:?}");
        let kept = merged_with(windows.clone(), SeriesWindows::default());
        prop_assert_eq!(bits(&kept), bits(&windows));
        let mut made = merged_with(SeriesWindows::default(), windows.clone());
        prop_assert!(made.floats.iter().all(|window| window.has_late));
        for window in &mut made.floats {
            window.has_late = false;
        }
        prop_assert_eq!(bits(&made), bits(&windows));
    }
}
