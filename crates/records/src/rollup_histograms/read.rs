//! Reading one segment of windows.

use std::ops::Range;
use std::sync::Arc;

use icecore_model::rollup::{HistogramAggregate, HistogramEdge, HistogramWindow, WindowFields};
use icecore_model::{Histogram, is_stale_nan};

use super::{COLUMNS, Column, RECORD};
use crate::reader::Reader;
use crate::rollup_series::floats::read_integers;
use crate::rollup_series::segment::Payloads;
use crate::rollup_series::{COUNT_LIMIT, flags};
use crate::{DecodeError, histogram_columns};

type Histograms = Vec<Option<Arc<Histogram>>>;

/// What was read of a segment; lists that were not asked for or are not stored are empty.
pub(super) struct Segment {
    width_ms: i64,
    flags: Vec<u8>,
    samples: Vec<i64>,
    first_times: Vec<i64>,
    last_times: Vec<i64>,
    resets: Vec<i64>,
    changes: Vec<i64>,
    edges: Histograms,
    firsts: Histograms,
    lasts: Histograms,
    sums: Histograms,
    corrections: Histograms,
}

impl Segment {
    pub(super) fn parse(
        segment: &[u8],
        windows: usize,
        width_ms: i64,
        fields: WindowFields,
    ) -> Result<Self, DecodeError> {
        let directory = Directory(Payloads::parse(RECORD, segment)?);
        let flags = directory.flags(windows)?;
        let is_set = |flag: u8| {
            flags
                .iter()
                .filter(move |flags| **flags & flag != 0)
                .count()
        };
        let interiors = windows - is_set(flags::NO_INTERIOR);
        let edges = is_set(flags::EDGE_SAMPLE);
        let list = |column, field| {
            if fields.contains(field) {
                directory.histograms(column, interiors)
            } else {
                Ok(Vec::new())
            }
        };
        let read = Self {
            width_ms,
            samples: directory.integers(Column::Samples, interiors)?,
            first_times: directory.integers(Column::FirstTime, interiors)?,
            last_times: directory.integers(Column::LastTime, interiors)?,
            resets: directory.integers(Column::Resets, interiors)?,
            changes: directory.integers(Column::Changes, interiors)?,
            edges: directory.histograms(Column::Edges, edges)?,
            firsts: list(Column::First, WindowFields::FIRST)?,
            lasts: list(Column::Last, WindowFields::LAST)?,
            sums: list(Column::Sum, WindowFields::SUM)?,
            corrections: list(Column::Correction, WindowFields::CORRECTION)?,
            flags,
        };
        if read.edges.iter().flatten().count() != edges {
            return Err(broken("values of edges are missing"));
        }
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), DecodeError> {
        let is_count = |count: &i64| (0..COUNT_LIMIT as i64).contains(count);
        let mut counts = [&self.samples, &self.resets, &self.changes]
            .into_iter()
            .flatten();
        if !counts.all(is_count) {
            return Err(broken("count out of range"));
        }
        let most = self.width_ms - 2;
        let is_inside = |(first, last): (&i64, &i64)| {
            (0..=most).contains(first) && (0..=most - first).contains(last)
        };
        if !self.first_times.iter().zip(&self.last_times).all(is_inside) {
            return Err(broken("sample outside of its window"));
        }
        for list in [
            &self.edges,
            &self.firsts,
            &self.lasts,
            &self.sums,
            &self.corrections,
        ] {
            if list
                .iter()
                .flatten()
                .any(|histogram| is_stale_nan(histogram.sum))
            {
                return Err(broken("stale marker as a value"));
            }
        }
        Ok(())
    }

    /// Appends the windows of these indexes, which begin at these times.
    pub(super) fn append_to(
        &self,
        indexes: Range<usize>,
        starts: &[i64],
        out: &mut Vec<HistogramWindow>,
    ) {
        let before = &self.flags[..indexes.start];
        let mut edge = before
            .iter()
            .filter(|flags| **flags & flags::EDGE_SAMPLE != 0)
            .count();
        let mut interior = before
            .iter()
            .filter(|flags| **flags & flags::NO_INTERIOR == 0)
            .count();
        for (flags, start_ms) in self.flags[indexes].iter().zip(starts) {
            let mut window = HistogramWindow {
                start_ms: *start_ms,
                edge: HistogramEdge::None,
                interior: None,
                ends_stale: flags & flags::ENDS_STALE != 0,
                has_late: flags & flags::HAS_LATE != 0,
            };
            if flags & flags::EDGE_STALE != 0 {
                window.edge = HistogramEdge::Stale;
            } else if flags & flags::EDGE_SAMPLE != 0 {
                if let Some(histogram) = entry(&self.edges, edge) {
                    window.edge = HistogramEdge::Sample(histogram);
                }
                edge += 1;
            }
            if flags & flags::NO_INTERIOR == 0 {
                window.interior = Some(self.interior(interior, *start_ms));
                interior += 1;
            }
            out.push(window);
        }
    }

    fn interior(&self, i: usize, start_ms: i64) -> HistogramAggregate {
        HistogramAggregate {
            samples: self.samples[i] as u64,
            first_ms: start_ms + 1 + self.first_times[i],
            first: entry(&self.firsts, i),
            last_ms: start_ms + self.width_ms - 1 - self.last_times[i],
            last: entry(&self.lasts, i),
            sum: entry(&self.sums, i),
            correction: entry(&self.corrections, i),
            resets: self.resets[i] as u64,
            changes: self.changes[i] as u64,
        }
    }
}

fn entry(list: &Histograms, i: usize) -> Option<Arc<Histogram>> {
    list.get(i).cloned().flatten()
}

/// A segment whose directory is read.
struct Directory<'a>(Payloads<'a, COLUMNS>);

impl Directory<'_> {
    fn flags(&self, windows: usize) -> Result<Vec<u8>, DecodeError> {
        let numbers = self.integers(Column::Flags, windows)?;
        let flags = numbers.into_iter().map(flags::from_number);
        flags
            .collect::<Option<_>>()
            .ok_or_else(|| broken("unknown flags of a window"))
    }

    /// All 0 where they are not stored.
    fn integers(&self, column: Column, count: usize) -> Result<Vec<i64>, DecodeError> {
        let Some(payload) = self.0.get(column as u8) else {
            return Ok(vec![0; count]);
        };
        if count == 0 {
            return Err(broken("column of no windows"));
        }
        let mut reader = Reader::new(RECORD, payload);
        let mut integers = Vec::new();
        read_integers(&mut reader, count, &mut integers)?;
        reader.finish()?;
        Ok(integers)
    }

    /// Empty where they are not stored.
    fn histograms(&self, column: Column, count: usize) -> Result<Histograms, DecodeError> {
        let Some(payload) = self.0.get(column as u8) else {
            return Ok(Vec::new());
        };
        let mut reader = Reader::new(RECORD, payload);
        let entries = histogram_columns::decode(&mut reader)?;
        reader.finish()?;
        let places = entries.iter().map(|entry| entry.timestamp_ms);
        if count == 0 || !places.eq(0..count as i64) {
            return Err(broken("histograms do not match their windows"));
        }
        Ok(entries.into_iter().map(|entry| entry.value).collect())
    }
}

fn broken(reason: &'static str) -> DecodeError {
    DecodeError::new(RECORD, 0, reason)
}
