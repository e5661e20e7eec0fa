//! How many objects are in a state, on all shards together.
//!
//! A cell of a count says how many objects of *its* shard were in a state at the end of an
//! interval, and there is none where nobody looked. So the cell of the union is the sum of the last
//! count of each shard, which may be one of an earlier interval.
//!
//! An object whose events reach several shards is followed, and counted, by each of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use icecore_model::event::{Cell, CellScan, DimensionHash, EventWindow, GaugeCell, StoredCell};

use super::union::{Part, UnionView};
use super::union_cells::part_cells;
use crate::query::{CellPages, cover};
use crate::{Problem, Registry};

type Key = (i64, DimensionHash);

/// Whether a metric is the count of states of some service.
pub(super) fn is_count(registry: &Registry, metric: u32) -> bool {
    let mut services = registry.services.values();
    services.any(|service| {
        let states = service.state_metrics.as_ref();
        states.is_some_and(|states| states.counts.number == metric)
    })
}

/// The counts of now, sorted by state.
pub(super) async fn of_now(
    union: &UnionView,
    service: u32,
    object_type: &str,
    attribute: &str,
) -> Result<Vec<(String, i64)>, Problem> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for part in &union.parts {
        let Some(service) = part.numbers.service(service) else {
            continue;
        };
        let found = part
            .view
            .state_counts(service, object_type, attribute)
            .await;
        for count in found.map_err(|problem| part.named(problem))? {
            *counts.entry(count.state).or_default() += count.count;
        }
    }
    counts.retain(|_, count| *count != 0);
    Ok(counts.into_iter().collect())
}

/// The cells of a count.
pub(super) async fn cells(union: &UnionView, scan: &CellScan) -> Result<Vec<StoredCell>, Problem> {
    let mut pages: Vec<BTreeMap<Key, GaugeCell>> = Vec::new();
    for part in &union.parts {
        let cells = part_cells(part, scan).await?.into_iter();
        let gauges = cells.filter_map(|cell| match cell.cell {
            Cell::Gauge(gauge) => Some(((cell.start_s, cell.dimensions), gauge)),
            _ => None,
        });
        pages.push(gauges.collect());
    }
    let keys: BTreeSet<Key> = pages.iter().flat_map(|page| page.keys().copied()).collect();
    let keys: Vec<Key> = keys.into_iter().take(scan.limit).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts: Vec<HashMap<DimensionHash, GaugeCell>> = Vec::new();
    for part in &union.parts {
        counts.push(counts_before(part, scan).await?);
    }
    let mut sums = Vec::with_capacity(keys.len());
    for key in keys {
        let mut cell: Option<GaugeCell> = None;
        let mut value = 0.0;
        for (page, counts) in pages.iter().zip(&mut counts) {
            if let Some(own) = page.get(&key) {
                counts.insert(key.1, *own);
                match &mut cell {
                    Some(cell) => cell.merge(own).map_err(Problem::corrupt)?,
                    None => cell = Some(*own),
                }
            }
            value += counts.get(&key.1).map_or(0.0, |count| count.value);
        }
        sums.extend(cell.map(|cell| StoredCell {
            start_s: key.0,
            dimensions: key.1,
            cell: Cell::Gauge(GaugeCell { value, ..cell }),
        }));
    }
    Ok(sums)
}

/// The last counts of a shard before the cells of a scan.
async fn counts_before(
    part: &Part,
    scan: &CellScan,
) -> Result<HashMap<DimensionHash, GaugeCell>, Problem> {
    let mut counts = HashMap::new();
    let mut note = |cell: StoredCell| {
        if let Cell::Gauge(gauge) = cell.cell {
            counts.insert(cell.dimensions, gauge);
        }
    };
    let first_s = match scan.after {
        Some((start_s, _)) => start_s,
        None => first_interval(scan.window, scan.starts_s.start),
    };
    // Coarser cells end where finer ones begin.
    let windows: Vec<EventWindow> = EventWindow::ALL
        .into_iter()
        .filter(|window| *window >= scan.window)
        .collect();
    // An instance that runs writes a count each minute; one that does not still has its objects. Of
    // what is before this week there is one cell for each week, so that all of it is looked
    // through.
    let from_s = EventWindow::Week.start_of(EventWindow::Week.seconds());
    for segment in cover(&windows, from_s, first_s) {
        let starts_s = segment.start_s..segment.end_s;
        for number in part.numbers.metrics(scan.metric) {
            let mut pages = CellPages::new(&part.view, *number, segment.window, starts_s.clone());
            while let Some(cells) = pages.next().await.map_err(|p| part.named(p))? {
                cells.into_iter().for_each(&mut note);
            }
        }
    }
    let Some((_, after)) = scan.after else {
        return Ok(counts);
    };
    // The beginning of the interval that the page before has ended in.
    let interval = CellScan {
        starts_s: first_s..first_s + 1,
        after: None,
        limit: usize::MAX,
        ..scan.clone()
    };
    let cells = part_cells(part, &interval).await?.into_iter();
    cells.filter(|cell| cell.dimensions <= after).for_each(note);
    Ok(counts)
}

/// The start of the first interval that begins at a moment or after it.
fn first_interval(window: EventWindow, at_s: i64) -> i64 {
    let start_s = window.start_of(at_s);
    if start_s == at_s {
        start_s
    } else {
        start_s + window.seconds()
    }
}
