//! What two windows differ in.
//!
//! Holds always: sums may differ by what rounding makes of them. Windows may have been made of a
//! level that has gone since, in another order of additions.

use std::fmt;

use icecore_model::rollup::{
    Aggregate, Edge, HistogramAggregate, HistogramWindow, Window, WindowFields,
};
use icecore_model::{Histogram, HistogramCounts};

/// What rounding may make of a sum, beside the size of what was added.
const ROUNDING: f64 = 1e-9;

/// What became of comparing the windows of a series.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Compared {
    /// All of them, and those that differ.
    pub(super) windows: u64,
    pub(super) wrong: u64,
    /// The first that differs.
    pub(super) first: Option<(i64, String)>,
}

/// Compares the windows of a series, both sides in time order.
pub(super) fn first_difference<W>(
    (found, made): (&[W], &[W]),
    is_compared: impl Fn(&W) -> bool,
    start_ms: impl Fn(&W) -> i64,
    difference: impl Fn(&W, &W) -> Option<String>,
) -> Compared {
    let mut found = found.iter().filter(|window| is_compared(window)).peekable();
    let mut made = made.iter().filter(|window| is_compared(window)).peekable();
    let mut compared = Compared::default();
    loop {
        let next = [found.peek(), made.peek()].map(|next| next.map(|next| start_ms(next)));
        let Some(at_ms) = next.into_iter().flatten().min() else {
            return compared;
        };
        let pair = (
            found.next_if(|window| start_ms(window) == at_ms),
            made.next_if(|window| start_ms(window) == at_ms),
        );
        let reason = match pair {
            (Some(found), Some(made)) => difference(found, made),
            (Some(_), None) => Some("there are no samples in it".to_owned()),
            (None, _) => Some("it is missing".to_owned()),
        };
        compared.windows += 1;
        compared.wrong += u64::from(reason.is_some());
        if let (None, Some(reason)) = (&compared.first, reason) {
            compared.first = Some((at_ms, reason));
        }
    }
}

pub(super) fn window_difference(
    found: &Window,
    made: &Window,
    fields: WindowFields,
) -> Option<String> {
    let edge = |window: &Window| match window.edge {
        Edge::Sample(value) => (1, value.to_bits()),
        Edge::Stale => (2, 0),
        Edge::None => (0, 0),
    };
    if edge(found) != edge(made) {
        return says("the sample at its start", found.edge, made.edge);
    }
    if found.ends_stale != made.ends_stale {
        return says("stale at its end", found.ends_stale, made.ends_stale);
    }
    match (&found.interior, &made.interior) {
        (Some(found), Some(made)) => aggregate_difference(found, made, fields),
        (None, None) => None,
        (found, made) => {
            let samples = |of: &Option<Aggregate>| of.map_or(0, |of| of.samples());
            says("samples", samples(found), samples(made))
        }
    }
}

fn aggregate_difference(
    found: &Aggregate,
    made: &Aggregate,
    fields: WindowFields,
) -> Option<String> {
    let counts = [
        (WindowFields::COUNTS, "numbers", found.numbers, made.numbers),
        (WindowFields::COUNTS, "NaN", found.nans, made.nans),
        (WindowFields::RESETS, "resets", found.resets, made.resets),
        (
            WindowFields::CHANGES,
            "changes",
            found.changes,
            made.changes,
        ),
    ];
    let counts = counts.into_iter().filter(|c| fields.contains(c.0));
    if let Some((_, what, found, made)) = counts.into_iter().find(|(.., a, b)| a != b) {
        return says(what, found, made);
    }
    let times = [
        (
            WindowFields::FIRST,
            "first time",
            found.first_ms,
            made.first_ms,
        ),
        (WindowFields::LAST, "last time", found.last_ms, made.last_ms),
    ];
    let times = times.into_iter().filter(|t| fields.contains(t.0));
    if let Some((_, what, found, made)) = times.into_iter().find(|(.., a, b)| a != b) {
        return says(what, found, made);
    }
    let values = [
        (WindowFields::FIRST, "first", found.first, made.first),
        (WindowFields::LAST, "last", found.last, made.last),
        (WindowFields::MIN, "min", found.min, made.min),
        (WindowFields::MAX, "max", found.max, made.max),
    ];
    let mut values = values.into_iter().filter(|v| fields.contains(v.0));
    let differ = |a: f64, b: f64| a.to_bits() != b.to_bits();
    if let Some((_, what, found, made)) = values.find(|(.., a, b)| differ(*a, *b)) {
        return says(what, found, made);
    }
    let largest = made.min.abs().max(made.max.abs());
    let added = largest * made.numbers as f64;
    let lost = largest * made.resets as f64;
    let sums = [
        (WindowFields::SUM, "sum", found.sum, made.sum, added),
        (
            WindowFields::M2,
            "deviation",
            found.m2,
            made.m2,
            added * largest,
        ),
        (
            WindowFields::CORRECTION,
            "lost in resets",
            found.correction,
            made.correction,
            lost,
        ),
    ];
    let mut sums = sums.into_iter().filter(|sum| fields.contains(sum.0));
    let (_, what, found, made, _) = sums.find(|(.., a, b, of)| !is_near(*a, *b, *of))?;
    says(what, found, made)
}

pub(super) fn histogram_difference(
    found: &HistogramWindow,
    made: &HistogramWindow,
) -> Option<String> {
    if found == made {
        return None;
    }
    if found.edge != made.edge {
        return Some("the histogram at its start is another".to_owned());
    }
    if found.ends_stale != made.ends_stale {
        return says("stale at its end", found.ends_stale, made.ends_stale);
    }
    let samples = |of: &HistogramWindow| of.samples();
    match (&found.interior, &made.interior) {
        (Some(found), Some(made)) => histogram_aggregate_difference(found, made),
        (None, None) => None,
        _ => says("histograms", samples(found), samples(made)),
    }
}

fn histogram_aggregate_difference(
    found: &HistogramAggregate,
    made: &HistogramAggregate,
) -> Option<String> {
    for (what, found, made) in [
        ("histograms", found.samples, made.samples),
        ("resets", found.resets, made.resets),
        ("changes", found.changes, made.changes),
    ] {
        if found != made {
            return says(what, found, made);
        }
    }
    let ends =
        |of: &HistogramAggregate| (of.first_ms, of.first.clone(), of.last_ms, of.last.clone());
    if ends(found) != ends(made) {
        return Some("its first or last histogram is another".to_owned());
    }
    let are_near = |found: Option<&Histogram>, made: Option<&Histogram>| match (found, made) {
        (Some(found), Some(made)) => is_near_histogram(found, made),
        (None, None) => true,
        _ => false,
    };
    if !are_near(found.sum.as_deref(), made.sum.as_deref()) {
        return Some("the sum of its histograms is another".to_owned());
    }
    let is_right = are_near(found.correction.as_deref(), made.correction.as_deref());
    (!is_right).then(|| "what was lost in resets is another".to_owned())
}

fn is_near_histogram(found: &Histogram, made: &Histogram) -> bool {
    if found == made {
        return true;
    }
    let layout = |of: &Histogram| {
        let spans = (of.positive_spans.clone(), of.negative_spans.clone());
        (
            of.schema,
            of.zero_threshold.to_bits(),
            of.custom_bounds.clone(),
            spans,
        )
    };
    let HistogramCounts::Float {
        count,
        zero_count,
        positive,
        negative,
    } = &found.counts
    else {
        return false;
    };
    let HistogramCounts::Float {
        count: made_count,
        zero_count: made_zero_count,
        positive: made_positive,
        negative: made_negative,
    } = &made.counts
    else {
        return false;
    };
    let near = |a: &f64, b: &f64| is_near(*a, *b, made_count.abs());
    let all_near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| near(a, b));
    layout(found) == layout(made)
        && is_near(found.sum, made.sum, made.sum.abs())
        && near(count, made_count)
        && near(zero_count, made_zero_count)
        && (positive.len(), negative.len()) == (made_positive.len(), made_negative.len())
        && all_near(positive, made_positive)
        && all_near(negative, made_negative)
}

/// Whether two sums are the same but for rounding; `added` is about the size of what was added up.
fn is_near(a: f64, b: f64, added: f64) -> bool {
    // Also infinite ones.
    let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || a == b;
    // What was added may have been too large for its own sum.
    same || !added.is_finite() || (a - b).abs() <= ROUNDING * added.max(b.abs())
}

fn says(what: &str, found: impl fmt::Debug, made: impl fmt::Debug) -> Option<String> {
    Some(format!("{what} {found:?}, and its samples give {made:?}"))
}

#[cfg(test)]
mod tests {
    use icecore_model::rollup::{Resolution, roll_up, roll_up_windows};

    use super::*;

    fn compare(found: &[Window], made: &[Window]) -> Compared {
        let differ = |a: &Window, b: &Window| window_difference(a, b, WindowFields::ALL);
        let no_late = |window: &Window| !window.has_late;
        first_difference((found, made), no_late, |window| window.start_ms, differ)
    }

    fn samples() -> impl Iterator<Item = (i64, f64)> {
        let value = |i: i64| ((i * 7919) % 1013) as f64 / 7.0 + 1e6;
        (0..2000).map(move |i| (i * 15_000, value(i)))
    }

    #[test]
    fn the_way_to_a_level_is_no_difference() {
        let fine = roll_up(Resolution::FIVE_MINUTES, samples());
        let found = roll_up_windows(Resolution::HOUR, &fine);
        let made = roll_up(Resolution::HOUR, samples());
        assert_ne!(found, made, "they differ in what rounding makes of sums");
        let compared = compare(&found, &made);
        assert_eq!((compared.windows, compared.first), (9, None));
    }

    #[test]
    fn each_part_of_a_window_is_compared() {
        let made = roll_up(Resolution::HOUR, samples());
        let changes: [fn(&mut Window); 10] = [
            |w| w.edge = Edge::Stale,
            |w| w.ends_stale = true,
            |w| w.interior = None,
            |w| w.interior.as_mut().unwrap().numbers += 1,
            |w| w.interior.as_mut().unwrap().first_ms += 1,
            |w| w.interior.as_mut().unwrap().last += 1e-9,
            |w| w.interior.as_mut().unwrap().sum *= 1.0 + 1e-8,
            |w| w.interior.as_mut().unwrap().m2 *= 1e6,
            |w| w.interior.as_mut().unwrap().correction += 1e3,
            |w| w.interior.as_mut().unwrap().changes += 1,
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut found = made.clone();
            change(&mut found[3]);
            let compared = compare(&found, &made);
            let first = compared.first.map(|(start_ms, _)| start_ms);
            assert_eq!(first, Some(made[3].start_ms), "change {at}");
            assert_eq!(compared.wrong, 1);
        }
        let compared = compare(&made[1..], &made[..8]);
        assert_eq!((compared.windows, compared.wrong), (9, 2));
        assert_eq!(compared.first.unwrap().1, "it is missing");
    }
}
