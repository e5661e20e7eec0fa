//! Exemplars of histograms: events that are in a bucket.

use std::collections::BTreeMap;

use icecore_model::event::{Cell, CellExemplar};
use icecore_model::{Exemplar, Labels, SourceError};

use super::labels::ViewQuery;
use super::load::weeks_of;
use super::resolution::week_segments;
use super::resolve::{Family, resolve};
use super::views::{CellField, ViewKind};
use super::{ViewMemory, source_error};
use crate::engine::EXEMPLAR_WINDOW;
use crate::query::{CellPages, CellSource};
use crate::{Problem, event_id_text};

/// The most exemplars of an answer.
const EXEMPLARS_MAX: usize = 100_000;

/// Series in label order, their exemplars in time order. Series without any are left out.
pub async fn series_exemplars(
    cells: &dyn CellSource,
    query: &ViewQuery,
) -> Result<Vec<(Labels, Vec<Exemplar>)>, SourceError> {
    let mut memory = ViewMemory::new(query.memory.as_ref())?;
    let range = (query.start_ms.max(0), query.end_ms.min(cells.now_ms()));
    let mut found = BTreeMap::new();
    for matchers in &query.selectors {
        let families = resolve(cells, matchers, range, &mut memory).await;
        let families = families.map_err(source_error)?;
        for family in families
            .iter()
            .filter(|family| family.kind == ViewKind::Cumulative)
        {
            add_exemplars(cells, family, range, &mut found).await?;
        }
    }
    for exemplars in found.values_mut() {
        exemplars.sort_by(|a: &Exemplar, b| {
            (a.timestamp_ms, &a.labels).cmp(&(b.timestamp_ms, &b.labels))
        });
        exemplars.dedup();
    }
    Ok(found.into_iter().collect())
}

async fn add_exemplars(
    cells: &dyn CellSource,
    family: &Family,
    (start_ms, end_ms): (i64, i64),
    found: &mut BTreeMap<Labels, Vec<Exemplar>>,
) -> Result<(), SourceError> {
    for (at, (view, _)) in family.views.iter().enumerate() {
        if view.field != CellField::Buckets {
            continue;
        }
        let mut series = std::collections::HashMap::new();
        for resolved in &family.series {
            for part in resolved.parts.iter().filter(|part| part.view == at) {
                series.insert((family.hash(part), part.bucket), &resolved.labels);
            }
        }
        let metric = &view.metric;
        let until_s = end_ms.div_euclid(1000) + 1;
        for week in weeks_of(family, at, &(start_ms.div_euclid(1000)..until_s)) {
            // Coarser cells, which stand for what is not kept any more, have none.
            let segments = week_segments(metric, EXEMPLAR_WINDOW, week, cells.guarded_ms());
            for segment in segments.iter().filter(|s| s.window == EXEMPLAR_WINDOW) {
                let from_s = segment.window.start_of(start_ms.div_euclid(1000));
                let starts_s = segment.start_s.max(from_s)..segment.end_s.min(until_s);
                let mut pages = CellPages::new(cells, metric.number, segment.window, starts_s);
                while let Some(page) = pages.next().await.map_err(source_error)? {
                    for stored in page {
                        let Cell::Histogram(cell) = stored.cell else {
                            continue;
                        };
                        for exemplar in &cell.exemplars {
                            let bucket = usize::try_from(exemplar.bucket).unwrap_or(usize::MAX);
                            let labels = series.get(&(stored.dimensions, bucket));
                            let at_ms = exemplar.at_ns.div_euclid(1_000_000);
                            if let Some(labels) = labels
                                && (start_ms..=end_ms).contains(&at_ms)
                            {
                                let of_series = found.entry((*labels).clone()).or_default();
                                of_series.push(exemplar_of(exemplar, at_ms));
                            }
                        }
                    }
                    check_count(found).map_err(source_error)?;
                }
            }
        }
    }
    Ok(())
}

fn check_count(found: &BTreeMap<Labels, Vec<Exemplar>>) -> Result<(), Problem> {
    if found.values().map(Vec::len).sum::<usize>() > EXEMPLARS_MAX {
        let detail = format!("the selection has more than {EXEMPLARS_MAX} exemplars");
        return Err(Problem::new(422, super::TOO_MUCH_MEMORY, detail));
    }
    Ok(())
}

fn exemplar_of(exemplar: &CellExemplar, timestamp_ms: i64) -> Exemplar {
    let trace_id = exemplar.trace_id.map(|id| {
        let digits = id.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    });
    let event_id = event_id_text(exemplar.event);
    let pairs = [("event_id", Some(event_id)), ("trace_id", trace_id)];
    let pairs = pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    Exemplar {
        labels: Labels::from_pairs(pairs),
        timestamp_ms,
        value: exemplar.value,
    }
}
