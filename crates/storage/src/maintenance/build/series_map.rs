//! Which series the target has, and which id of a source is which id of the target.
//!
//! ```text
//! source, run ─► page of forward records ┐
//! source, run ─► page of forward records ┼─ merge by labels ─► ids 0, 1, 2, … of the target
//! …                                      ┘
//! ```
//!
//! Holds always:
//! - Ids of the target are in label order, without gaps, and depend on nothing but the label sets.
//! - Of a series that several sources have, the record of the newest one is taken as it is.
//! - Within a run the new ids do not decrease: a batch of new ids is a range of each run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::Labels;
use icecore_records::{Bucket, ParsedKey, SeriesId, forward_index, key};
use rayon::prelude::*;

use super::sources::Source;
use super::windows::SeriesFilter;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// Forward records in memory at once, over all runs; each run has at least [`PAGE_MIN`] of them.
const PAGES_RECORDS: usize = 32 << 10;
const PAGE_MIN: usize = 64;
const PAGE_MAX: usize = 4096;

/// Old ids to new ids.
#[derive(Default)]
pub(super) struct SeriesMap {
    /// By source, then by old id.
    new_ids: Vec<Vec<u32>>,
    len: u32,
}

/// Stands for "not a series of the target".
const NO_SERIES: u32 = u32::MAX;

impl SeriesMap {
    /// One source whose ids stay what they are.
    pub(super) fn identity(len: u32) -> Self {
        Self {
            new_ids: vec![(0..len).collect()],
            len,
        }
    }

    /// How many series the target has.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn new_id(&self, source: usize, old: u32) -> Option<u32> {
        let new = self.new_ids.get(source)?.get(old as usize)?;
        Some(*new).filter(|new| *new != NO_SERIES)
    }

    fn set(&mut self, source: usize, old: u32, new: u32) {
        let ids = &mut self.new_ids[source];
        let at = old as usize;
        if ids.len() <= at {
            ids.resize(at + 1, NO_SERIES);
        }
        ids[at] = new;
    }

    #[cfg(test)]
    pub(super) fn of(new_ids: Vec<Vec<Option<u32>>>, len: u32) -> Self {
        let ids = |list: Vec<Option<u32>>| list.into_iter().map(|id| id.unwrap_or(NO_SERIES));
        Self {
            new_ids: new_ids.into_iter().map(|l| ids(l).collect()).collect(),
            len,
        }
    }
}

/// A series of the target.
pub(super) struct NewSeries {
    pub(super) id: u32,
    /// Its forward record.
    pub(super) value: Bytes,
    pub(super) labels: usize,
}

/// A run is not in label order: it has to end before this id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnsortedRun {
    pub(super) source: usize,
    pub(super) id: u32,
}

/// The merge of all runs, page by page.
pub(super) struct Merge {
    cursors: Vec<Cursor>,
    /// The next labels of each cursor that has some.
    heads: BinaryHeap<Reverse<(Labels, usize)>>,
    pub(super) map: SeriesMap,
    filter: Option<Arc<SeriesFilter>>,
    page_len: usize,
}

/// How far a run is read.
struct Cursor {
    source: usize,
    bucket: Bucket,
    /// The first id that is not read yet, and the end of the run.
    next: u32,
    end: u32,
    page: VecDeque<Entry>,
    last: Option<Labels>,
    /// Whether it stands in `heads`.
    waiting: bool,
}

struct Entry {
    id: u32,
    labels: Labels,
    value: Bytes,
}

/// Records of a run, as they were read.
pub(super) struct Page {
    cursor: usize,
    records: Vec<(u32, Bytes)>,
    /// The run has no more.
    last: bool,
    pub(super) bytes: usize,
}

impl Merge {
    pub(super) fn new<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Self {
        let mut cursors = Vec::new();
        let mut count = 0;
        for (at, source) in sources.into_iter().enumerate() {
            count = at + 1;
            cursors.extend(source.runs.iter().map(|run| Cursor {
                source: at,
                bucket: source.bucket,
                next: run.start,
                end: run.end,
                page: VecDeque::new(),
                last: None,
                waiting: false,
            }));
        }
        let page_len = PAGES_RECORDS / cursors.len().max(1);
        Self {
            heads: BinaryHeap::with_capacity(cursors.len()),
            map: SeriesMap {
                new_ids: vec![Vec::new(); count],
                len: 0,
            },
            filter: None,
            page_len: page_len.clamp(PAGE_MIN, PAGE_MAX),
            cursors,
        }
    }

    /// Leaves out series that the target is not to have.
    pub(super) fn only(self, filter: Option<Arc<SeriesFilter>>) -> Self {
        Self { filter, ..self }
    }

    /// Whether all series have been given out.
    pub(super) fn is_done(&self) -> bool {
        let read = |cursor: &Cursor| cursor.page.is_empty() && cursor.next >= cursor.end;
        self.cursors.iter().all(read)
    }

    /// The runs of which less than half a page is left, as what has to be read of them.
    pub(super) fn wanted(&self) -> Vec<PageRequest> {
        let cursors = self.cursors.iter().enumerate();
        let low = |(_, c): &(usize, &Cursor)| c.next < c.end && c.page.len() <= self.page_len / 2;
        let request = |(at, cursor): (usize, &Cursor)| PageRequest {
            cursor: at,
            bucket: cursor.bucket,
            next: cursor.next,
            end: cursor.end,
            len: self.page_len,
        };
        cursors.filter(low).map(request).collect()
    }

    /// Takes pages that were read.
    pub(super) fn accept(&mut self, pages: Vec<Page>) -> Result<()> {
        for page in pages {
            let cursor = &mut self.cursors[page.cursor];
            let bucket = cursor.bucket;
            let decode = |(id, value): (u32, Bytes)| {
                let record = forward_index::decode(&value)
                    .map_err(Error::corrupt(format!("series {id} in bucket {bucket}")))?;
                let labels = record.labels;
                Ok::<_, Error>(Entry { id, labels, value })
            };
            cursor.next = match (page.last, page.records.last()) {
                (false, Some((id, _))) => id.saturating_add(1),
                _ => cursor.end,
            };
            let entries: Result<Vec<Entry>> = page.records.into_par_iter().map(decode).collect();
            cursor.page.extend(entries?);
        }
        Ok(())
    }

    /// Gives out series until a run has to be read on.
    pub(super) fn advance(&mut self) -> Result<Vec<NewSeries>, UnsortedRun> {
        let mut found = Vec::new();
        for at in 0..self.cursors.len() {
            self.line_up(at)?;
        }
        while !self.starves() {
            let Some(Reverse((labels, first))) = self.heads.pop() else {
                break;
            };
            let is_wanted = self
                .filter
                .as_ref()
                .is_none_or(|filter| filter.has(&labels));
            let new = if is_wanted { self.map.len } else { NO_SERIES };
            let mut newest = self.take(first, &labels, new);
            self.line_up(first)?;
            while self.heads.peek().is_some_and(|head| head.0.0 == labels) {
                let Some(Reverse((_, next))) = self.heads.pop() else {
                    break;
                };
                newest = newest.max(self.take(next, &labels, new));
                self.line_up(next)?;
            }
            if !is_wanted {
                continue;
            }
            self.map.len += 1;
            found.push(NewSeries {
                id: new,
                value: newest.map(|(_, _, value)| value).unwrap_or_default(),
                labels: labels.len(),
            });
        }
        Ok(found)
    }

    /// Whether the next labels of some run are not known.
    fn starves(&self) -> bool {
        let mut cursors = self.cursors.iter();
        cursors.any(|cursor| !cursor.waiting && cursor.next < cursor.end)
    }

    /// Lines up the next labels of a run with those of the others.
    fn line_up(&mut self, at: usize) -> Result<(), UnsortedRun> {
        let cursor = &mut self.cursors[at];
        let Some(entry) = cursor.page.front() else {
            return Ok(());
        };
        if cursor.waiting {
            return Ok(());
        }
        if cursor
            .last
            .as_ref()
            .is_some_and(|last| *last > entry.labels)
        {
            return Err(UnsortedRun {
                source: cursor.source,
                id: entry.id,
            });
        }
        cursor.waiting = true;
        self.heads.push(Reverse((entry.labels.clone(), at)));
        Ok(())
    }

    /// Takes the first entry of a run, which is one of the series that comes next.
    fn take(&mut self, at: usize, labels: &Labels, new: u32) -> Option<(usize, u32, Bytes)> {
        let cursor = &mut self.cursors[at];
        cursor.waiting = false;
        cursor.last = Some(labels.clone());
        let entry = cursor.page.pop_front()?;
        let source = cursor.source;
        self.map.set(source, entry.id, new);
        Some((source, entry.id, entry.value))
    }
}

/// What has to be read of a run.
pub(super) struct PageRequest {
    cursor: usize,
    bucket: Bucket,
    next: u32,
    end: u32,
    len: usize,
}

impl PageRequest {
    pub(super) async fn read(self, view: &View) -> Result<Page> {
        let start = Bound::Included(key::forward_index(self.bucket, SeriesId(self.next)));
        let end = Bound::Excluded(key::forward_index(self.bucket, SeriesId(self.end)));
        let mut scan = view.scan((start, end), ScanKind::Once).await?;
        let mut page = Page {
            cursor: self.cursor,
            records: Vec::with_capacity(self.len),
            last: true,
            bytes: 0,
        };
        let reading = || Error::store("reading series");
        while let Some(record) = scan.next().await.map_err(reading())? {
            let Ok(ParsedKey::ForwardIndex { series, .. }) = ParsedKey::parse(&record.key) else {
                continue;
            };
            page.bytes += record.key.len() + record.value.len();
            page.records.push((series.0, record.value));
            if page.records.len() >= self.len {
                page.last = false;
                break;
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests;
