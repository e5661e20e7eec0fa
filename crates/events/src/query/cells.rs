//! Reading cells: page by page, each with the group that it belongs to.

use std::ops::Range;

use icecore_model::event::{Cell, CellScan, EventWindow, StoredCell, Week};

use super::CellSource;
use super::groups::{Grouping, Groups};
use super::interval::Intervals;
use super::window_choice::cover;
use crate::{Metric, Problem};

/// Cells that are read at a time; what is held of a long range does not depend on its length.
const PAGE_CELLS: usize = 32_768;

/// All cells of a range, page by page.
pub(crate) struct CellPages<'s> {
    source: &'s dyn CellSource,
    scan: Option<CellScan>,
}

impl<'s> CellPages<'s> {
    pub(crate) fn new(
        source: &'s dyn CellSource,
        metric: u32,
        window: EventWindow,
        starts_s: Range<i64>,
    ) -> Self {
        // Beyond the last week that keys can name there is nothing.
        let last_s = Week::of(i64::MAX).end_s();
        let scan = CellScan {
            window,
            metric,
            starts_s: starts_s.start.max(0)..starts_s.end.min(last_s),
            after: None,
            limit: PAGE_CELLS,
        };
        Self {
            source,
            scan: Some(scan).filter(|scan| !scan.starts_s.is_empty()),
        }
    }

    /// The next cells, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<StoredCell>>, Problem> {
        let Some(scan) = &mut self.scan else {
            return Ok(None);
        };
        let cells = self.source.cells(scan.clone()).await?;
        match cells.last() {
            Some(last) if cells.len() >= scan.limit => {
                scan.after = Some((last.start_s, last.dimensions));
            }
            _ => self.scan = None,
        }
        Ok(Some(cells).filter(|cells| !cells.is_empty()))
    }
}

/// Hands over all cells of a range that belong to a group, in the order of their intervals.
pub(crate) async fn each_cell(
    source: &dyn CellSource,
    (metric, window): (u32, EventWindow),
    starts_s: Range<i64>,
    groups: &mut Groups,
    mut each: impl FnMut(usize, i64, Cell) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut pages = CellPages::new(source, metric, window, starts_s);
    while let Some(cells) = pages.next().await? {
        let mut cells = cells.into_iter();
        while let Some(cell) = cells.next() {
            let group = match groups.of(&cell.dimensions) {
                Some(group) => group,
                None => {
                    let sets = cells.as_slice().iter().map(|cell| cell.dimensions);
                    let sets = [cell.dimensions].into_iter().chain(sets);
                    groups.learn(source, metric, sets).await?;
                    groups.of(&cell.dimensions).flatten()
                }
            };
            if let Some(group) = group {
                each(group, cell.start_s, cell.cell)?;
            }
        }
    }
    Ok(())
}

/// Which cells a page is made of.
pub(crate) struct PageScan<'a> {
    /// Each with the window that it is read from. Their cells can be merged.
    pub(crate) metrics: Vec<(&'a Metric, EventWindow)>,
    pub(crate) intervals: &'a Intervals,
    pub(crate) grouping: &'a Grouping,
}

/// The values of a page: for each group one for each interval.
pub(crate) struct Table<T> {
    pub(crate) groups: Groups,
    values: Vec<Vec<T>>,
}

impl<T: Clone + Default> Table<T> {
    /// Reads the cells of a page. `values_max` is the most values that it may have.
    pub(crate) async fn read(
        source: &dyn CellSource,
        scan: PageScan<'_>,
        values_max: usize,
        mut add: impl FnMut(&mut T, Cell) -> Result<(), Problem>,
    ) -> Result<Self, Problem> {
        let PageScan {
            metrics,
            intervals,
            grouping,
        } = scan;
        let groups_max = values_max / intervals.count.max(1);
        let mut groups = Groups::new(grouping, groups_max)?;
        let mut values: Vec<Vec<T>> = Vec::new();
        let page = intervals.page_start_s()..intervals.page_end_s();
        let mut each = |group: usize, start_s: i64, cell: Cell| {
            while values.len() <= group {
                values.push(vec![T::default(); intervals.count]);
            }
            match intervals.place_of(start_s) {
                Some(place) => add(&mut values[group][place], cell),
                None => Ok(()),
            }
        };
        for (metric, window) in &metrics {
            let cells = (metric.number, *window);
            each_cell(source, cells, page.clone(), &mut groups, &mut each).await?;
        }
        if grouping.is_open() {
            // Every page has the same groups: those of the whole range.
            for part in [intervals.start_s..page.start, page.end..intervals.end_s()] {
                for cells in &metrics {
                    learn_groups(source, *cells, part.clone(), &mut groups).await?;
                }
            }
        }
        let mut table = Self { groups, values };
        table.resize(intervals.count);
        Ok(table)
    }

    /// Makes place for groups that were found later.
    pub(crate) fn resize(&mut self, count: usize) {
        let groups = self.groups.keys().len();
        self.values.resize(groups, vec![T::default(); count]);
    }

    pub(crate) fn value(&self, group: usize, place: usize) -> &T {
        &self.values[group][place]
    }

    pub(crate) fn group_mut(&mut self, group: usize) -> &mut [T] {
        &mut self.values[group]
    }
}

/// Which groups there are in a range, read from as few cells as possible.
async fn learn_groups(
    source: &dyn CellSource,
    (metric, window): (&Metric, EventWindow),
    range: Range<i64>,
    groups: &mut Groups,
) -> Result<(), Problem> {
    let kept = metric.retention;
    let reaches = |coarser: &EventWindow| kept.of(*coarser) >= kept.of(window);
    let windows = metric.windows().filter(|coarser| *coarser >= window);
    let windows: Vec<EventWindow> = windows.filter(reaches).collect();
    for part in cover(&windows, range.start, range.end) {
        let (cells, range) = ((metric.number, part.window), part.start_s..part.end_s);
        each_cell(source, cells, range, groups, |_, _, _| Ok(())).await?;
    }
    Ok(())
}
