//! Which series a selection has: matchers are tried on names and dimension values before any
//! sample is made.
//!
//! ```text
//! registry ─► views by name ─► cells of 7 d: the sets of values of each week ─► label sets
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::event::{DimensionHash, EventWindow, Week};
use icecore_model::{Labels, METRIC_NAME, Matcher, go_float};

use super::ViewMemory;
use super::views::{CellField, View, ViewKind, matching_views};
use crate::query::{CellPages, CellSource, DimensionValues};
use crate::{Metric, MetricKind, Problem};

/// What a label set and its place in a list take beside the text, about.
const SERIES_BYTES: usize = 160;

/// A week in which a set of dimension values has cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AliveWeek {
    pub(super) start_s: i64,
    /// The start of its first interval of 5 s that is not empty.
    pub(super) first_s: i64,
}

/// A set of dimension values with the weeks that have something of it, in order.
pub(super) struct AliveSet {
    hash: DimensionHash,
    values: DimensionValues,
    pub(super) weeks: Vec<AliveWeek>,
}

/// The sets of a metric.
pub(super) type AliveSets = Arc<Vec<AliveSet>>;

/// Cells that a series is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesPart {
    /// Which of the family's views.
    pub(super) view: usize,
    /// Which of the metric's sets.
    pub(super) set: usize,
    /// Which bucket of a histogram.
    pub(super) bucket: usize,
}

pub(super) struct ResolvedSeries {
    pub(super) labels: Labels,
    /// More than one where a metric was replaced by another one.
    pub(super) parts: Vec<SeriesPart>,
}

/// The series of one name, in label order.
pub(super) struct Family {
    pub(super) kind: ViewKind,
    pub(super) views: Vec<(View, AliveSets)>,
    pub(super) series: Vec<ResolvedSeries>,
}

impl Family {
    pub(super) fn hash(&self, part: &SeriesPart) -> DimensionHash {
        self.views[part.view].1[part.set].hash
    }

    pub(super) fn weeks(&self, part: &SeriesPart) -> &[AliveWeek] {
        &self.views[part.view].1[part.set].weeks
    }
}

/// The families of a selection, by name.
pub(super) async fn resolve(
    source: &dyn CellSource,
    matchers: &[Matcher],
    (start_ms, end_ms): (i64, i64),
    memory: &mut ViewMemory,
) -> Result<Vec<Family>, Problem> {
    let mut sets: HashMap<u32, AliveSets> = HashMap::new();
    let mut families: Vec<Family> = Vec::new();
    let mut last_name: Option<String> = None;
    for view in matching_views(source.registry(), matchers) {
        let metric = &view.metric;
        let alive = match sets.get(&metric.number) {
            Some(alive) => Arc::clone(alive),
            None => {
                let alive = Arc::new(alive_sets(source, metric, (start_ms, end_ms), memory).await?);
                sets.insert(metric.number, Arc::clone(&alive));
                alive
            }
        };
        if alive.is_empty() {
            continue;
        }
        if last_name.as_ref() != Some(&view.name) {
            last_name = Some(view.name.clone());
            families.push(Family {
                kind: view.kind,
                views: Vec::new(),
                series: Vec::new(),
            });
        }
        if let Some(family) = families.last_mut() {
            add_series(family, view, alive, matchers, memory)?;
        }
    }
    for family in &mut families {
        unite_equal(&mut family.series);
    }
    families.retain(|family| !family.series.is_empty());
    Ok(families)
}

/// All sets of a metric that have cells in the weeks of a range, and in the week before it: what
/// was there before a Monday begins anew.
async fn alive_sets(
    source: &dyn CellSource,
    metric: &Metric,
    (start_ms, end_ms): (i64, i64),
    memory: &mut ViewMemory,
) -> Result<Vec<AliveSet>, Problem> {
    let (start_s, end_s) = (start_ms.div_euclid(1000), end_ms.div_euclid(1000));
    let first = Week::of(start_s).start_s() - EventWindow::Week.seconds();
    let until = Week::of(end_s).end_s();
    let mut places: HashMap<DimensionHash, usize> = HashMap::new();
    let mut sets: Vec<AliveSet> = Vec::new();
    let mut pages = CellPages::new(source, metric.number, EventWindow::Week, first..until);
    while let Some(cells) = pages.next().await? {
        memory.hold(cells.len() * size_of::<AliveWeek>())?;
        for cell in cells {
            let place = *places.entry(cell.dimensions).or_insert_with(|| {
                sets.push(AliveSet {
                    hash: cell.dimensions,
                    values: Vec::new(),
                    weeks: Vec::new(),
                });
                sets.len() - 1
            });
            sets[place].weeks.push(AliveWeek {
                start_s: cell.start_s,
                first_s: cell.cell.first_s(),
            });
        }
    }
    // Of the week before alone there is nothing in the range.
    let from_s = Week::of(start_s).start_s();
    let is_alive = |week: &AliveWeek| week.start_s >= from_s;
    sets.retain(|set| set.weeks.iter().any(is_alive));
    let hashes: Vec<DimensionHash> = sets.iter().map(|set| set.hash).collect();
    let values = source.dimension_sets(metric.number, &hashes).await?;
    for (set, values) in sets.iter_mut().zip(values) {
        set.values = values.unwrap_or_default();
        let texts = set
            .values
            .iter()
            .map(|(path, text)| path.len() + text.len());
        memory.hold(SERIES_BYTES + texts.sum::<usize>())?;
    }
    Ok(sets)
}

fn add_series(
    family: &mut Family,
    view: View,
    alive: AliveSets,
    matchers: &[Matcher],
    memory: &mut ViewMemory,
) -> Result<(), Problem> {
    let bounds = bound_texts(&view);
    let matches = |name: &str, value: &str| {
        let mut of_label = matchers.iter().filter(|matcher| matcher.name() == name);
        of_label.all(|matcher| matcher.matches(value))
    };
    let buckets: Vec<usize> = (0..bounds.len())
        .filter(|bucket| matches("le", &bounds[*bucket]))
        .collect();
    let at = family.views.len();
    for (place, set) in alive.iter().enumerate() {
        let mut pairs: Vec<(&str, &str)> =
            vec![(METRIC_NAME, &view.name), ("service", &view.service)];
        if let Some(event_type) = &view.event_type {
            pairs.push(("event_type", event_type));
        }
        for dimension in &view.metric.dimensions {
            let value = set.values.iter().find(|(path, _)| *path == dimension.path);
            if let Some((_, value)) = value.filter(|(_, value)| !value.is_empty()) {
                pairs.push((&dimension.label, value));
            }
        }
        let value_of = |name: &str| {
            let found = pairs.iter().find(|(label, _)| *label == name);
            found.map_or("", |(_, value)| value)
        };
        let others = matchers.iter().filter(|matcher| matcher.name() != "le");
        if !others
            .clone()
            .all(|matcher| matcher.matches(value_of(matcher.name())))
        {
            continue;
        }
        for bucket in &buckets {
            let le = Some(("le", bounds[*bucket].as_str())).filter(|(_, le)| !le.is_empty());
            let labels = Labels::from_pairs(pairs.iter().copied().chain(le));
            memory.hold(SERIES_BYTES + labels.heap_bytes())?;
            family.series.push(ResolvedSeries {
                labels,
                parts: vec![SeriesPart {
                    view: at,
                    set: place,
                    bucket: *bucket,
                }],
            });
        }
    }
    family.views.push((view, alive));
    Ok(())
}

/// The values of `le` by bucket; an empty one where there are no buckets.
pub(super) fn bound_texts(view: &View) -> Vec<String> {
    match (&view.metric.kind, view.field) {
        (MetricKind::Histogram { bounds, .. }, CellField::Buckets) => {
            let finite = bounds.iter().map(|bound| go_float(*bound));
            finite.chain(["+Inf".to_owned()]).collect()
        }
        _ => vec![String::new()],
    }
}

/// Sorts series, and makes one of those that have the same labels.
fn unite_equal(series: &mut Vec<ResolvedSeries>) {
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    series.dedup_by(|later, first| {
        let is_same = later.labels == first.labels;
        if is_same {
            first.parts.append(&mut later.parts);
        }
        is_same
    });
}
