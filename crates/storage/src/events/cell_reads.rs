//! Reading cells: span by span out of the cache, and what is missing there from the store.
//!
//! ```text
//! range ─► spans ─┬ kept ─────────────────────► a part of what is kept
//!                 ├ missing, with neighbours ─► one scan of whole spans ─► kept
//!                 └ too large, or of no use for others ─► a scan of what is wanted
//! ```
//!
//! Holds always:
//! - What is found is in the order of keys, whatever it comes from.
//! - What is read beyond a scan's limit is what is left of one span.

use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::{CellKey, CellScan, EventWindow, StoredCell, Week};
use icecore_records::{ParsedKey, event_cell, key};
use slatedb::DbIterator;

use super::snapshot::unreadable;
use crate::cache::{CellPlace, CellSpan, KnownSpan, PinnedCells, SpanCells};
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// Cells as the store has them, in order.
pub(super) enum StoredCells {
    /// Keys and values.
    Records(Vec<(Bytes, Bytes)>),
    /// Some of a span.
    Span {
        cells: Arc<SpanCells>,
        range: Range<usize>,
        is_cached: bool,
    },
}

impl StoredCells {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Records(records) => records.len(),
            Self::Span { range, .. } => range.len(),
        }
    }

    pub(super) fn is_cached(&self) -> bool {
        matches!(
            self,
            Self::Span {
                is_cached: true,
                ..
            }
        )
    }
}

/// The first cells of what a metric has in a window. CPU work.
pub(super) fn decode(
    (window, metric): (EventWindow, u32),
    found: &[StoredCells],
    limit: usize,
) -> Result<Vec<StoredCell>> {
    let mut cells = Vec::with_capacity(limit);
    for part in found {
        let left = limit - cells.len();
        match part {
            StoredCells::Records(records) => {
                for (key, value) in records.iter().take(left) {
                    let (start_s, dimensions) = place_of(key)?;
                    let cell = event_cell::decode(value);
                    cells.push(StoredCell {
                        start_s,
                        dimensions,
                        cell: cell.map_err(|cause| unreadable(key, cause))?,
                    });
                }
            }
            StoredCells::Span {
                cells: of_span,
                range,
                ..
            } => {
                let range = range.start..range.end.min(range.start.saturating_add(left));
                for ((start_s, dimensions), value) in of_span.iter(range) {
                    let unreadable = |cause| {
                        let key = key::event_cell(&CellKey {
                            window,
                            metric,
                            start_s,
                            dimensions,
                        });
                        unreadable(&key.unwrap_or_default(), cause)
                    };
                    cells.push(StoredCell {
                        start_s,
                        dimensions,
                        cell: event_cell::decode(value).map_err(unreadable)?,
                    });
                }
            }
        }
    }
    Ok(cells)
}

/// Finds the cells of one week that a scan asks for.
pub(super) struct WeekRead<'a> {
    view: &'a View,
    kept: Option<&'a PinnedCells>,
    scan: &'a CellScan,
    week: Week,
    found: Vec<StoredCells>,
    count: usize,
}

/// Neighbouring spans that are read in one way.
enum Run {
    Known(Arc<SpanCells>),
    Missing,
    Direct,
}

impl<'a> WeekRead<'a> {
    /// `kept` is what may be used of the cache.
    pub(super) fn new(
        view: &'a View,
        kept: Option<&'a PinnedCells>,
        scan: &'a CellScan,
        week: Week,
    ) -> Self {
        Self {
            view,
            kept,
            scan,
            week,
            found: Vec::new(),
            count: 0,
        }
    }

    /// The cells that begin in a range, at least as many as the scan's limit if there are.
    pub(super) async fn read(mut self, starts_s: Range<i64>) -> Result<Vec<StoredCells>> {
        let Range { start, end } = starts_s;
        let end_s = end.min(self.week.end_s());
        let mut at_s = start.max(self.week.start_s());
        // Up to where spans have turned out to be too large.
        let mut direct_until_s = at_s;
        while at_s < end_s && self.count < self.scan.limit {
            let (run, until_s) = self.next_run(at_s, end_s, direct_until_s);
            let from_s = std::mem::replace(&mut at_s, until_s);
            let wanted = from_s..until_s.min(end_s);
            match run {
                Run::Known(cells) => self.take(cells, &wanted, true),
                Run::Direct => self.read_directly(wanted).await?,
                Run::Missing => {
                    if let Some(large) = self.read_spans(wanted, until_s).await? {
                        at_s = large.start_s().max(from_s);
                        direct_until_s = large.end_s();
                    }
                }
            }
        }
        Ok(self.found)
    }

    /// The spans from a moment on that are read in one way, and where they end.
    fn next_run(&self, at_s: i64, end_s: i64, direct_until_s: i64) -> (Run, i64) {
        let Some(kept) = self.kept else {
            return (Run::Direct, end_s);
        };
        let known = |span: &CellSpan| {
            if span.start_s() < direct_until_s {
                return Run::Direct;
            }
            match kept.get(span) {
                KnownSpan::Cells(cells) => Run::Known(cells),
                KnownSpan::Missing => Run::Missing,
                KnownSpan::NotKept => Run::Direct,
            }
        };
        let mut span = self.span_at(at_s);
        let run = known(&span);
        if !matches!(run, Run::Known(_)) {
            let kind = std::mem::discriminant(&run);
            while span.end_s() < end_s && std::mem::discriminant(&known(&span.next())) == kind {
                span = span.next();
            }
        }
        (run, span.end_s())
    }

    fn span_at(&self, at_s: i64) -> CellSpan {
        CellSpan::of(self.scan.window, self.week, self.scan.metric, at_s)
    }

    /// Takes what is wanted of a span.
    fn take(&mut self, cells: Arc<SpanCells>, wanted: &Range<i64>, is_cached: bool) {
        let range = cells.within(wanted, self.scan.after);
        if range.is_empty() {
            return;
        }
        self.count += range.len();
        self.found.push(StoredCells::Span {
            cells,
            range,
            is_cached,
        });
    }

    async fn read_directly(&mut self, wanted: Range<i64>) -> Result<()> {
        let Range { start, end } = self.keys(wanted);
        let start = match after(self.scan)? {
            Some(after) if after >= start => Bound::Excluded(after),
            _ => Bound::Included(start),
        };
        let (Bound::Included(first) | Bound::Excluded(first)) = &start else {
            return Ok(());
        };
        if *first >= end {
            return Ok(());
        }
        let range = (start, Bound::Excluded(end));
        let mut stored = self.view.scan(range, ScanKind::Cached).await?;
        let mut records = Vec::new();
        while self.count + records.len() < self.scan.limit
            && let Some(record) = next_of(&mut stored).await?
        {
            records.push(record);
        }
        self.count += records.len();
        self.found.push(StoredCells::Records(records));
        Ok(())
    }

    /// Reads whole spans, from that of the beginning of what is wanted up to a moment, and keeps
    /// them. Ends early when there is enough, or at a span that is too large to be kept, which it
    /// returns.
    async fn read_spans(&mut self, wanted: Range<i64>, until_s: i64) -> Result<Option<CellSpan>> {
        let Some(kept) = self.kept else {
            return Ok(None);
        };
        let mut span = self.span_at(wanted.start);
        let Range { start, end } = self.keys(span.start_s()..until_s);
        let range = (Bound::Included(start), Bound::Excluded(end));
        let mut stored = self.view.scan(range, ScanKind::Cached).await?;
        let mut cells = SpanCells::default();
        loop {
            let record = next_of(&mut stored).await?;
            let place = record.as_ref().map(|(key, _)| place_of(key)).transpose()?;
            // What lies before it is complete.
            while place.is_none_or(|(start_s, _)| start_s >= span.end_s()) {
                let complete = std::mem::take(&mut cells).into_shared();
                kept.keep(span, &complete);
                self.take(complete, &wanted, false);
                span = span.next();
                if span.start_s() >= until_s || self.count >= self.scan.limit {
                    return Ok(None);
                }
            }
            if let Some((place, (_, value))) = place.zip(record) {
                cells.push(place, &value);
            }
            if cells.bytes() > kept.span_bytes_max() {
                kept.keep_out(span);
                return Ok(Some(span));
            }
        }
    }

    fn keys(&self, starts_s: Range<i64>) -> Range<Bytes> {
        key::event_cell_range(self.scan.window, self.week, self.scan.metric, starts_s)
    }
}

async fn next_of(records: &mut DbIterator) -> Result<Option<(Bytes, Bytes)>> {
    let record = records.next().await;
    let record = record.map_err(Error::store("reading cells of events"))?;
    Ok(record.map(|record| (record.key, record.value)))
}

/// The key of the cell behind which a scan goes on.
fn after(scan: &CellScan) -> Result<Option<Bytes>> {
    let Some((start_s, dimensions)) = scan.after else {
        return Ok(None);
    };
    let after = key::event_cell(&CellKey {
        window: scan.window,
        metric: scan.metric,
        start_s,
        dimensions,
    });
    let none_there = || Error::Invalid("a scan goes on behind what is no cell".into());
    after.map(Some).ok_or_else(none_there)
}

fn place_of(key: &Bytes) -> Result<CellPlace> {
    match ParsedKey::parse(key).map_err(|cause| unreadable(key, cause))? {
        ParsedKey::EventCell(cell) => Ok((cell.start_s, cell.dimensions)),
        _ => Err(Error::Corrupt(
            format!("{} is no key of a cell", hex::encode(key)).into(),
        )),
    }
}
