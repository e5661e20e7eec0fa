//! What holds for windows of any samples.

use proptest::prelude::*;

use super::{Aggregate, Edge, Resolution, Window, roll_up, roll_up_windows};
use crate::{HOUR_MS, STALE_NAN_BITS};

/// Samples in time order, some of them at the starts of windows.
fn samples(value: impl Strategy<Value = f64>) -> impl Strategy<Value = Vec<(i64, f64)>> {
    let step = prop_oneof![
        4 => 1i64..90_000,
        1 => Just(60_000i64),
        1 => Just(300_000i64),
        1 => 300_000i64..5_000_000,
    ];
    prop::collection::vec((step, value), 1..120).prop_map(|steps| {
        let mut time_ms = HOUR_MS;
        let sample = |(step_ms, value): (i64, f64)| {
            let on_grid = step_ms % 60_000 == 0;
            time_ms = if on_grid {
                (time_ms / step_ms + 1) * step_ms
            } else {
                time_ms + step_ms
            };
            (time_ms, value)
        };
        steps.into_iter().map(sample).collect()
    })
}

/// Counts that every sum of a test holds exactly.
fn integer() -> impl Strategy<Value = f64> {
    (-1_000_000i64..1_000_000).prop_map(|value| value as f64)
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e6..1e6,
        2 => integer(),
        1 => -1e-6..1e-6,
        1 => Just(-0.0),
    ]
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => float(),
        1 => Just(f64::NAN),
        1 => Just(f64::from_bits(STALE_NAN_BITS)),
    ]
}

/// The largest value, at least 1.
fn largest(samples: &[(i64, f64)]) -> f64 {
    let values = samples.iter().map(|(_, value)| value.abs());
    values.filter(|value| !value.is_nan()).fold(1.0, f64::max)
}

/// How far sums may differ that were added in another order.
fn slack(samples: &[(i64, f64)]) -> f64 {
    largest(samples) * samples.len() as f64 * 1e-9
}

/// Whether two runs are the same; sums to rounding.
fn agree(a: &Aggregate, b: &Aggregate, samples: &[(i64, f64)]) -> bool {
    let counts = |of: &Aggregate| (of.numbers, of.nans, of.resets, of.changes);
    let times = |of: &Aggregate| (of.first_ms, of.last_ms);
    let values = |of: &Aggregate| [of.first, of.last, of.min, of.max].map(f64::to_bits);
    let is_near = |a: f64, b: f64, slack: f64| (a - b).abs() <= slack;
    let slack = slack(samples);
    (counts(a), times(a), values(a)) == (counts(b), times(b), values(b))
        && is_near(a.sum, b.sum, slack)
        && is_near(a.correction, b.correction, slack)
        && is_near(a.m2, b.m2, slack * largest(samples))
}

fn windows_agree(a: &[Window], b: &[Window], samples: &[(i64, f64)]) -> bool {
    let edge = |edge: Edge| match edge {
        Edge::Sample(value) => Some(Some(value.to_bits())),
        Edge::Stale => Some(None),
        Edge::None => None,
    };
    let same = |(a, b): (&Window, &Window)| {
        let interiors = match (&a.interior, &b.interior) {
            (Some(a), Some(b)) => agree(a, b, samples),
            (a, b) => a.is_none() && b.is_none(),
        };
        interiors
            && (a.start_ms, edge(a.edge), a.ends_stale) == (b.start_ms, edge(b.edge), b.ends_stale)
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn merged(a: &Aggregate, b: &Aggregate) -> Aggregate {
    let mut merged = *a;
    merged.merge(b);
    merged
}

/// Samples one by one.
fn run(samples: &[(i64, f64)]) -> Aggregate {
    let (first, rest) = samples.split_first().unwrap();
    let of = |(time, value): &(i64, f64)| Aggregate::of(*time, *value);
    let one_more = |run: Aggregate, sample: &(i64, f64)| merged(&run, &of(sample));
    rest.iter().fold(of(first), one_more)
}

fn interiors(samples: &[(i64, f64)], resolution: Resolution) -> Vec<(i64, Aggregate)> {
    let windows = roll_up(resolution, samples.iter().copied());
    let interiors = windows.into_iter();
    interiors
        .filter_map(|window| Some((window.start_ms, window.interior?)))
        .collect()
}

proptest! {
    /// P3, of floats: in whatever order runs are merged, they say the same to rounding.
    #[test]
    fn merging_is_associative(
        samples in samples(prop_oneof![8 => float(), 1 => Just(f64::NAN)]),
        splits in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        prop_assume!(samples.len() >= 3);
        let first = 1 + splits.0.index(samples.len() - 2);
        let second = first + 1 + splits.1.index(samples.len() - first - 1);
        let [a, b, c] = [&samples[..first], &samples[first..second], &samples[second..]].map(run);
        let left = merged(&merged(&a, &b), &c);
        let right = merged(&a, &merged(&b, &c));
        prop_assert!(agree(&left, &right, &samples), "{left:?} {right:?}");
        let whole = run(&samples);
        prop_assert!(agree(&left, &whole, &samples), "{left:?} {whole:?}");
    }

    /// P3, of floats: a coarse window is the same by way of finer ones.
    #[test]
    fn a_ladder_says_what_one_step_says(samples in samples(any_value())) {
        let fine = roll_up(Resolution::FIVE_MINUTES, samples.iter().copied());
        let coarse = roll_up_windows(Resolution::HOUR, &fine);
        let direct = roll_up(Resolution::HOUR, samples.iter().copied());
        prop_assert!(windows_agree(&coarse, &direct, &samples), "{coarse:?} {direct:?}");
    }

    /// P3, of integers: to the last bit, except for what has a mean in it.
    #[test]
    fn integers_are_exact(samples in samples(integer())) {
        let fine = roll_up(Resolution::FIVE_MINUTES, samples.iter().copied());
        let coarse = roll_up_windows(Resolution::HOUR, &fine);
        let direct = roll_up(Resolution::HOUR, samples.iter().copied());
        let exact = |windows: &[Window]| -> Vec<Window> {
            let without = |interior: Aggregate| Aggregate { m2: 0.0, ..interior };
            let exact = windows.iter().map(|window| Window {
                interior: window.interior.map(without),
                ..*window
            });
            exact.collect()
        };
        prop_assert_eq!(exact(&coarse), exact(&direct));
        prop_assert!(windows_agree(&coarse, &direct, &samples));
    }

    /// P5: what a window says does not contradict itself.
    #[test]
    fn a_window_fits_together(samples in samples(any_value())) {
        for resolution in [Resolution::FIVE_MINUTES, Resolution::HOUR] {
            for (start_ms, of) in interiors(&samples, resolution) {
                prop_assert!(start_ms < of.first_ms && of.first_ms <= of.last_ms);
                prop_assert!(of.last_ms < start_ms + resolution.ms());
                prop_assert!(of.m2 >= 0.0);
                prop_assert!(of.resets <= of.changes, "{of:?}");
                prop_assert!(of.changes < of.samples(), "{of:?}");
                prop_assert_eq!(of.min.is_nan(), of.numbers == 0);
                let ends = [of.first, of.last].into_iter().filter(|end| !end.is_nan());
                for end in ends {
                    prop_assert!(of.min <= end && end <= of.max, "{of:?}");
                }
                if of.numbers > 0 {
                    let slack = slack(&samples);
                    let mean = of.mean();
                    prop_assert!(of.min - slack <= mean && mean <= of.max + slack, "{of:?}");
                }
            }
        }
    }

    /// P4, P15, P25: each sample counts in the window that it lies in, start included, and in no
    /// other; a window of which there is nothing is not there. So intervals that are made of whole
    /// windows add up to all samples.
    #[test]
    fn each_sample_counts_in_one_window(samples in samples(any_value())) {
        let is_stale = |value: f64| value.to_bits() == STALE_NAN_BITS;
        for resolution in [Resolution::FIVE_MINUTES, Resolution::HOUR] {
            let windows = roll_up(resolution, samples.iter().copied());
            let of = |window: &Window| {
                let end_ms = window.start_ms + resolution.ms();
                let inside = samples.iter().filter(|(t, _)| (window.start_ms..end_ms).contains(t));
                inside.copied().collect::<Vec<(i64, f64)>>()
            };
            let mut covered = 0;
            for window in &windows {
                let inside = of(window);
                prop_assert!(!inside.is_empty(), "{window:?}");
                let counted = inside.iter().filter(|(_, value)| !is_stale(*value)).count();
                covered += counted;
                let all = window.all().map_or(0, |all| all.samples());
                prop_assert_eq!(all, counted as u64, "{:?}", window);
            }
            prop_assert!(windows.is_sorted_by(|a, b| a.start_ms < b.start_ms));
            let all = samples.iter().filter(|(_, value)| !is_stale(*value)).count();
            prop_assert_eq!(covered, all);
        }
    }

    /// P6: a counter never loses anything.
    #[test]
    fn counters_grow(samples in samples(float().prop_map(f64::abs))) {
        for (_, of) in interiors(&samples, Resolution::HOUR) {
            prop_assert!(of.correction >= 0.0, "{of:?}");
            prop_assert!(of.increase() >= -slack(&samples), "{of:?}");
        }
    }

    /// P6: one that was never reset grew by what lies between its ends.
    #[test]
    fn a_counter_without_resets_has_no_correction(samples in samples(float())) {
        let mut total = 0.0;
        let grown = samples.iter().map(|(time, value)| {
            total += value.abs();
            (*time, total)
        });
        let grown: Vec<(i64, f64)> = grown.collect();
        for (_, of) in interiors(&grown, Resolution::HOUR) {
            prop_assert_eq!((of.resets, of.correction), (0, 0.0));
            prop_assert_eq!(of.increase(), of.last - of.first);
        }
    }
}
