//! Answers of the database beside those that follow from the model.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::rollup::{
    Aggregate, Edge, HistogramWindow, Resolution, RollupChoice, WindowColumns, WindowFields,
};
use icecore_model::{Levels, MatchOp, Matcher, SeriesSamples, SeriesStream};
use icecore_storage::Database;

use super::model::{Model, Series};
use crate::rollup::select_rolled;
use crate::rollup_histograms::{Value, windows_of};
use crate::support::{HOUR, selection};

/// A question: some series, a range of whole hours, and what is preferred there.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Their places in the model.
    pub(super) series: Vec<usize>,
    /// The last hour is not included.
    pub(super) hours: (i64, i64),
    pub(super) step_ms: i64,
    pub(super) fields: WindowFields,
}

impl Question {
    fn matchers(&self, model: &Model) -> Vec<Matcher> {
        let names = self.series.iter();
        let names: Vec<&str> = names
            .map(|at| model.series[*at].shape.name.as_str())
            .collect();
        let series = Matcher::new(MatchOp::Regex, "series", names.join("|")).unwrap();
        vec![Matcher::equal("__name__", "m"), series]
    }

    fn choice(&self) -> RollupChoice {
        RollupChoice {
            start_ms: self.hours.0 * HOUR,
            step_ms: self.step_ms,
            range_ms: self.step_ms,
            is_exact: true,
            max_ms: None,
            off_grid: Default::default(),
        }
    }
}

/// How much was compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) samples: usize,
    pub(super) windows: usize,
}

impl Compared {
    pub(super) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.windows += other.windows;
    }
}

/// Asks, and compares. `what` says when, for the report.
pub(super) async fn compare(
    db: &Database,
    model: &Model,
    question: &Question,
    what: &str,
) -> Compared {
    let (from, end) = (question.hours.0 * HOUR, question.hours.1 * HOUR);
    let matchers = question.matchers(model);
    let wanted = (question.choice(), question.fields);
    let selected = select_rolled(db, matchers, (from, end - 1), wanted).await;
    let found: BTreeMap<&str, &SeriesSamples> = selected
        .iter()
        .map(|found| (found.labels.get("series").unwrap(), found))
        .collect();
    let mut compared = Compared::default();
    let mut left = BTreeMap::new();
    for at in &question.series {
        let series = &model.series[*at];
        let samples = model.samples(series, from..end);
        let name = series.shape.name.as_str();
        let Some(found) = found.get(name) else {
            let first = samples.first();
            assert!(
                first.is_none(),
                "{what}, {name}, {question:?}: nothing, but {first:?}"
            );
            continue;
        };
        let levels = levels_of(found);
        let context = format!("{what}, {name}, {question:?}, {levels:?}");
        if question.step_ms == 0 {
            check_promises(series, &levels, &samples, &context);
            let of_export = Left {
                samples: left_of(series, &levels, &samples),
                levels: levels.clone(),
            };
            left.insert(name, of_export);
        }
        let raw = raw_of(found, from, end);
        let expected: BTreeMap<i64, Value> = samples
            .iter()
            .filter(|(time, _)| levels.at(*time).is_raw())
            .cloned()
            .collect();
        assert_same(&raw, &expected, &context);
        compared.samples += raw.len();
        compared.windows += compare_windows(found, (series, &samples), from, &context);
    }
    if question.step_ms == 0 {
        compare_left(db, model, question, left, what).await;
    }
    compared
}

/// What the policies keep is there as finely as they say.
fn check_promises(series: &Series, levels: &Levels, samples: &[(i64, Value)], context: &str) {
    for (time, _) in samples {
        // What is merged may be in windows alone.
        let level = levels.at(*time);
        let promised = series.promises.finest(*time);
        assert!(
            series.is_merged(*time) || promised.is_some_and(|promised| level <= promised),
            "{context}: {level} instead of {promised:?} at {time}"
        );
    }
}

/// The samples of a series that were handed out as such.
fn raw_of(found: &SeriesSamples, from: i64, end: i64) -> BTreeMap<i64, Value> {
    let times = found.floats.timestamps.iter().copied();
    let floats = times.zip(found.floats.values.iter().map(|v| Value::Float(*v)));
    let histograms = found.histograms.iter();
    let histograms = histograms.map(|s| (s.timestamp_ms, Value::Histogram(s.histogram.clone())));
    let mut all = BTreeMap::new();
    for (time, value) in floats.chain(histograms) {
        let twice = all.insert(time, value);
        assert!(twice.is_none(), "two samples at {time}");
    }
    all.retain(|time, _| (from..end).contains(time));
    all
}

fn assert_same(found: &BTreeMap<i64, Value>, expected: &BTreeMap<i64, Value>, context: &str) {
    if let Some(difference) = difference(found, expected) {
        panic!("{context}: {difference}");
    }
}

fn difference(found: &BTreeMap<i64, Value>, expected: &BTreeMap<i64, Value>) -> Option<String> {
    if found == expected {
        return None;
    }
    let times: BTreeSet<i64> = found.keys().chain(expected.keys()).copied().collect();
    let differs = |time: &&i64| found.get(time) != expected.get(time);
    let different: Vec<&i64> = times.iter().filter(differs).collect();
    let first = different[0];
    Some(format!(
        "{} of {} samples differ, first at {first} (hour {}): {:?}, expected {:?}",
        different.len(),
        times.len(),
        first.div_euclid(HOUR),
        found.get(first),
        expected.get(first)
    ))
}

/// A window as far as columns tell.
#[derive(Debug, PartialEq)]
struct Told {
    start_ms: i64,
    edge: Edge,
    interior: Option<Aggregate>,
    ends_stale: bool,
}

impl Told {
    /// Whether both have the same of what late samples can be merged into.
    fn is_same_merged(&self, other: &Self) -> bool {
        let in_any_order = |told: &Self| {
            let interior = told.interior.map(|of| {
                let ends = (of.first_ms, of.first, of.last_ms, of.last);
                ((of.numbers, of.nans), ends, (of.sum, of.min, of.max))
            });
            (told.start_ms, told.edge, interior)
        };
        in_any_order(self) == in_any_order(other)
    }

    fn is_same(&self, other: &Self) -> bool {
        let m2 = |told: &Self| told.interior.map_or(0.0, |interior| interior.m2);
        let (one, two) = (m2(self), m2(other));
        let near = (one - two).abs() <= 1e-9 * one.abs().max(two.abs()).max(1.0);
        let without_m2 = |told: &Self| {
            let interior = told.interior.map(|interior| Aggregate {
                m2: 0.0,
                ..interior
            });
            (told.start_ms, told.edge, interior, told.ends_stale)
        };
        near && without_m2(self) == without_m2(other)
    }
}

fn told(columns: &WindowColumns) -> impl Iterator<Item = Told> {
    (0..columns.len()).map(|i| Told {
        start_ms: columns.starts[i],
        edge: columns.edge(i),
        interior: columns.interior(i),
        ends_stale: columns.ends_stale(i),
    })
}

fn compare_windows(
    found: &SeriesSamples,
    (series, samples): (&Series, &[(i64, Value)]),
    from: i64,
    context: &str,
) -> usize {
    let is_sure = |start_ms: i64| start_ms >= from && !series.is_ragged(start_ms);
    let Some(rolled) = &found.rolled else {
        return 0;
    };
    let mut compared = 0;
    for (at, (segment, columns)) in rolled.segments().enumerate() {
        let inside = samples
            .iter()
            .filter(|(time, _)| *time >= segment.start_ms && *time < segment.end_ms);
        let inside = inside.map(|(time, value)| (*time, value));
        let (floats, histograms) = windows_of(inside, segment.resolution);
        let expected = WindowColumns::from_windows(&floats, columns.fields);
        let expected = told(&expected).filter(|window| is_sure(window.start_ms));
        let expected: Vec<Told> = expected.collect();
        let windows = told(columns).filter(|window| is_sure(window.start_ms));
        let windows: Vec<Told> = windows.collect();
        let same = windows.iter().zip(&expected).take_while(|(a, b)| {
            let is_merged = series.is_merged(a.start_ms);
            a.is_same(b) || (is_merged && a.is_same_merged(b))
        });
        let same = same.count();
        assert!(
            same == windows.len() && same == expected.len(),
            "{context}: windows of {segment:?}: {:?}, expected {:?}; {} and {}",
            windows.get(same),
            expected.get(same),
            windows.len(),
            expected.len(),
        );
        let of_histograms = rolled.histograms.get(at).map_or(&[][..], Vec::as_slice);
        let sure = |windows: &[HistogramWindow]| -> Vec<HistogramWindow> {
            let sure = windows.iter().filter(|window| is_sure(window.start_ms));
            sure.cloned().collect()
        };
        let (of_histograms, histograms) = (sure(of_histograms), sure(&histograms));
        let is_other = |(a, b): &(&HistogramWindow, &HistogramWindow)| {
            let counted = |w: &HistogramWindow| (w.start_ms, w.samples());
            let is_merged = series.is_merged(a.start_ms) && counted(a) == counted(b);
            a != b && !is_merged
        };
        let other = of_histograms.iter().zip(&histograms).find(is_other);
        assert!(
            other.is_none() && of_histograms.len() == histograms.len(),
            "{context}: windows of histograms of {segment:?}: {other:?}; {} and {}",
            of_histograms.len(),
            histograms.len(),
        );
        compared += windows.len() + of_histograms.len();
    }
    compared
}

/// The samples that are left of a series for those who know nothing of windows, markers left out.
fn left_of(series: &Series, levels: &Levels, samples: &[(i64, Value)]) -> BTreeMap<i64, Value> {
    let mut left = BTreeMap::new();
    let mut at = 0;
    while at < samples.len() {
        let level = levels.at(samples[at].0);
        let window = |time: i64| (levels.at(time), level.floor(time));
        let first = window(samples[at].0);
        let end = samples[at..]
            .iter()
            .position(|(time, _)| window(*time) != first);
        let end = end.map_or(samples.len(), |end| at + end);
        let inside = samples[at..end]
            .iter()
            .filter(|(_, value)| !value.is_stale());
        if level.is_raw() {
            left.extend(inside.cloned());
        } else {
            left.extend(ends_of(first, inside.cloned().collect()));
        }
        at = end;
    }
    // What is merged is left of windows, or not yet, or no more.
    left.retain(|time, _| !series.is_ragged(*time) && !series.is_merged(*time));
    left
}

/// Edge, first and last sample of a window, of each kind.
fn ends_of(
    (_, start_ms): (Resolution, i64),
    inside: Vec<(i64, Value)>,
) -> impl Iterator<Item = (i64, Value)> {
    let (floats, histograms): (Vec<_>, Vec<_>) = inside
        .into_iter()
        .partition(|(_, value)| matches!(value, Value::Float(_)));
    [floats, histograms].into_iter().flat_map(move |all| {
        let edge = all.iter().find(|(time, _)| *time == start_ms).cloned();
        let mut interior = all.into_iter().filter(move |(time, _)| *time != start_ms);
        let first = interior.next();
        let last = interior.last();
        [edge, first, last].into_iter().flatten()
    })
}

/// The levels of a series: those of its class, and of remnants that have it.
fn levels_of(found: &SeriesSamples) -> Levels {
    let rolled = found.rolled.as_ref();
    let levels = rolled.map(|rolled| rolled.levels.as_ref().clone());
    levels.unwrap_or_default()
}

/// The samples of a series that clients without windows find, at the levels that it has.
struct Left {
    levels: Levels,
    samples: BTreeMap<i64, Value>,
}

/// Compares what is exported with what is left, both at the same levels.
async fn compare_left(
    db: &Database,
    model: &Model,
    question: &Question,
    mut left: BTreeMap<&str, Left>,
    what: &str,
) {
    let (from, end) = (question.hours.0 * HOUR, question.hours.1 * HOUR);
    while let Some(difference) = difference_of_export(db, model, question, &left, what).await {
        // A run may have culled something since the levels were looked at.
        let wanted = (question.choice(), question.fields);
        let matchers = question.matchers(model);
        let selected = select_rolled(db, matchers, (from, end - 1), wanted).await;
        let mut is_changed = false;
        for (name, left) in &mut left {
            let of_series = |found: &&SeriesSamples| found.labels.get("series") == Some(*name);
            let levels = selected.iter().find(of_series).map(levels_of);
            let levels = levels.unwrap_or_default();
            if levels != left.levels {
                let series = model.series.iter().find(|s| s.shape.name == *name);
                let series = series.unwrap();
                left.samples = left_of(series, &levels, &model.samples(series, from..end));
                left.levels = levels;
                is_changed = true;
            }
        }
        assert!(is_changed, "{difference}");
    }
}

async fn difference_of_export(
    db: &Database,
    model: &Model,
    question: &Question,
    left: &BTreeMap<&str, Left>,
    what: &str,
) -> Option<String> {
    let (from, last) = (question.hours.0 * HOUR, question.hours.1 * HOUR - 1);
    let selection = selection(question.matchers(model), from, last);
    let mut stream = db.select(selection).await.unwrap();
    let mut exported: BTreeMap<String, BTreeMap<i64, Value>> = BTreeMap::new();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        for series in batch {
            let name = series.labels.get("series").unwrap();
            let mut found = raw_of(&series, i64::MIN, i64::MAX);
            assert!(
                found.keys().all(|time| (from..=last).contains(time)),
                "{what}"
            );
            let known = model.series.iter().find(|s| s.shape.name == name).unwrap();
            found.retain(|time, value| {
                let is_sure = !known.is_ragged(*time) && !known.is_merged(*time);
                is_sure && !value.is_stale()
            });
            exported.insert(name.to_owned(), found);
        }
    }
    let none = BTreeMap::new();
    let names: BTreeSet<&str> = left.keys().copied().collect();
    let names: BTreeSet<&str> = exported.keys().map(String::as_str).chain(names).collect();
    names.into_iter().find_map(|name| {
        let expected = left.get(name).map_or(&none, |left| &left.samples);
        let difference = difference(exported.get(name).unwrap_or(&none), expected)?;
        Some(format!("{what}, {name}, exported: {difference}"))
    })
}

/// Nothing is seen that is older than `kept_ms` of its series, that was never written or that was
/// deleted.
pub(super) async fn nothing_comes_back(
    db: &Database,
    model: &Model,
    series: &[usize],
    (start_ms, now_ms): (i64, i64),
    kept_ms: impl Fn(&Series) -> i64,
    what: &str,
) {
    for step_ms in [0, HOUR] {
        let question = Question {
            series: series.to_vec(),
            hours: (start_ms / HOUR, now_ms / HOUR + 1),
            step_ms,
            fields: WindowFields::COUNTS,
        };
        let wanted = (question.choice(), question.fields);
        let range = (start_ms, now_ms);
        let selected = select_rolled(db, question.matchers(model), range, wanted).await;
        for found in &selected {
            let name = found.labels.get("series").unwrap();
            let series = model.series.iter().find(|s| s.shape.name == name).unwrap();
            let extent = (start_ms, now_ms, kept_ms(series));
            check_extent(found, model, series, extent, what);
        }
    }
}

fn check_extent(
    found: &SeriesSamples,
    model: &Model,
    series: &Series,
    (start_ms, now_ms, kept_ms): (i64, i64, i64),
    what: &str,
) {
    let context = format!("{what}, {}", series.shape.name);
    let samples: BTreeMap<i64, Value> = model
        .samples(series, start_ms..now_ms + HOUR)
        .into_iter()
        .collect();
    for (time, value) in raw_of(found, i64::MIN, i64::MAX) {
        assert!(time >= kept_ms, "{context}: {time} is older than {kept_ms}");
        let expected = samples.get(&time);
        assert!(
            expected == Some(&value),
            "{context}: {value:?} at {time}, not {expected:?}"
        );
    }
    let Some(rolled) = &found.rolled else {
        return;
    };
    for (segment, windows) in rolled.segments() {
        for start in windows.starts.iter().copied() {
            assert!(
                start >= kept_ms,
                "{context}: {start} is older than {kept_ms}"
            );
            let end = start + segment.resolution.ms();
            let is_known = samples.range(start..end).next().is_some();
            assert!(
                is_known,
                "{context}: nothing of {segment:?} is known at {start}"
            );
        }
    }
}
