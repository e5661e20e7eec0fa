//! One series of a coarse bucket: what was gathered of it becomes one record of each kind.
//!
//! ```text
//! floats, histograms, starts, exemplars, oldest first ─► united ─► encode ─► decode, compare
//! ```
//!
//! Holds always:
//! - One value per timestamp. A histogram beats a float of the same time, as for readers; entries
//!   that only say "none here" and starts that only say "unknown" have done their work and are left
//!   out.
//! - What is written was decoded again and is the same, bit by bit.
//!
//! Elsewhere: who gathers (`crate::ingest::flush`, `crate::maintenance::build`).

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::Exemplar;
use icecore_records::columns::Times;
use icecore_records::{Bucket, HistogramEntry, SeriesId, exemplar_series, key};
use rayon::prelude::*;

use super::encode;
use super::record_kind::RecordKind;
use super::time_columns::{ColumnTable, TimesPlacement, shareable};
use crate::error::Result;
use crate::stored::{Floats, SharedColumns, newest_wins};

/// A series as its sources have it, united. What is newer is added later.
#[derive(Default)]
pub(crate) struct MergedSeries {
    pub(crate) id: u32,
    pub(crate) floats: Floats,
    pub(crate) histograms: Vec<HistogramEntry>,
    starts: Vec<(i64, i64)>,
    histogram_starts: Vec<(i64, i64)>,
    exemplars: Vec<Exemplar>,
    /// What its timestamps are recognised by, where they may be shared.
    pub(crate) times_hash: Option<u128>,
    floats_read: u64,
}

/// How much a series has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleCounts {
    pub(crate) floats: u64,
    pub(crate) histograms: u64,
    pub(crate) exemplars: u64,
}

impl SampleCounts {
    /// What has come since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            floats: self.floats.saturating_sub(before.floats),
            histograms: self.histograms.saturating_sub(before.histograms),
            exemplars: self.exemplars.saturating_sub(before.exemplars),
        }
    }
}

/// What is written of a series, and what that adds to the counts of the job.
#[derive(Default)]
pub(crate) struct EncodedSeries {
    pub(crate) id: u32,
    pub(crate) records: Vec<(Bytes, Bytes)>,
    pub(crate) floats_read: u64,
    pub(crate) floats: u64,
    pub(crate) histograms: u64,
    pub(crate) exemplars: u64,
    pub(crate) windows: u64,
    pub(crate) histogram_windows: u64,
    pub(crate) has_starts: bool,
    /// The first and the last time of anything in it.
    pub(crate) range_ms: Option<(i64, i64)>,
}

fn lay_starts(starts: &mut Vec<(i64, i64)>, newer: Vec<(i64, i64)>) {
    *starts = newest_wins(std::mem::take(starts), newer, |start| start.0);
}

impl MergedSeries {
    /// The series with this id, in which nothing is yet.
    pub(crate) fn new(id: u32) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    pub(crate) fn add_floats(&mut self, newer: Floats) {
        self.floats_read += newer.len() as u64;
        self.floats.lay(newer);
    }

    pub(crate) fn add_histograms(&mut self, newer: Vec<HistogramEntry>) {
        let older = std::mem::take(&mut self.histograms);
        self.histograms = newest_wins(older, newer, |entry| entry.timestamp_ms);
    }

    pub(crate) fn add_starts(&mut self, newer: Vec<(i64, i64)>) {
        lay_starts(&mut self.starts, newer);
    }

    pub(crate) fn add_histogram_starts(&mut self, newer: Vec<(i64, i64)>) {
        lay_starts(&mut self.histogram_starts, newer);
    }

    pub(crate) fn add_exemplars(&mut self, newer: Vec<Exemplar>) {
        self.exemplars.extend(newer);
    }

    /// Lays it under what a newer bucket has of the same time: where that has a sample, of whatever
    /// kind, no other counts.
    pub(crate) fn under(mut self, newer: Self) -> Self {
        let mut times = newer.floats.timestamps.clone();
        times.extend(newer.histograms.iter().map(|entry| entry.timestamp_ms));
        times.sort_unstable();
        let stays = |time: i64| times.binary_search(&time).is_err();
        let floats = std::mem::take(&mut self.floats);
        for (time, value) in floats.timestamps.into_iter().zip(floats.values) {
            if stays(time) {
                self.floats.timestamps.push(time);
                self.floats.values.push(value);
            }
        }
        self.histograms.retain(|entry| stays(entry.timestamp_ms));
        self.starts.retain(|(time, _)| stays(*time));
        self.histogram_starts.retain(|(time, _)| stays(*time));
        self.floats.lay(newer.floats);
        let histograms = std::mem::take(&mut self.histograms);
        self.histograms = newest_wins(histograms, newer.histograms, |entry| entry.timestamp_ms);
        lay_starts(&mut self.starts, newer.starts);
        lay_starts(&mut self.histogram_starts, newer.histogram_starts);
        self.exemplars.extend(newer.exemplars);
        self.floats_read += newer.floats_read;
        self.normalize();
        self
    }

    pub(crate) fn counted(&self) -> SampleCounts {
        SampleCounts {
            floats: self.floats.len() as u64,
            histograms: self.histograms.len() as u64,
            exemplars: self.exemplars.len() as u64,
        }
    }

    /// Everything has been added: one sample per time stays.
    pub(crate) fn normalize(&mut self) {
        self.histograms.retain(|entry| entry.value.is_some());
        if !self.histograms.is_empty() && !self.floats.is_empty() {
            self.drop_beaten_floats();
        }
        self.starts.retain(|(_, start)| *start != 0);
        self.histogram_starts.retain(|(_, start)| *start != 0);
        self.exemplars.sort_unstable_by(exemplar_series::order);
        self.exemplars.dedup();
        self.times_hash = shareable(&self.floats.timestamps);
    }

    fn drop_beaten_floats(&mut self) {
        let floats = std::mem::take(&mut self.floats);
        let mut histograms = self.histograms.iter().map(|e| e.timestamp_ms).peekable();
        for (time, value) in floats.timestamps.into_iter().zip(floats.values) {
            while histograms.next_if(|histogram| *histogram < time).is_some() {}
            if histograms.peek() != Some(&time) {
                self.floats.timestamps.push(time);
                self.floats.values.push(value);
            }
        }
    }

    fn range_ms(&self) -> Option<(i64, i64)> {
        let floats = &self.floats.timestamps;
        let histograms = &self.histograms;
        let exemplars = &self.exemplars;
        let firsts = [
            floats.first().copied(),
            histograms.first().map(|entry| entry.timestamp_ms),
            exemplars.first().map(|exemplar| exemplar.timestamp_ms),
        ];
        let lasts = [
            floats.last().copied(),
            histograms.last().map(|entry| entry.timestamp_ms),
            exemplars.last().map(|exemplar| exemplar.timestamp_ms),
        ];
        let first = firsts.into_iter().flatten().min()?;
        Some((first, lasts.into_iter().flatten().max()?))
    }
}

/// The records of series that follow each other in a bucket. The table decides, in their order,
/// which timestamps they share.
pub(crate) fn encode_all(
    bucket: Bucket,
    all: &[MergedSeries],
    table: &mut ColumnTable,
) -> Result<Vec<EncodedSeries>> {
    let mut places = Vec::with_capacity(all.len());
    for series in all {
        places.push(match series.times_hash {
            Some(hash) => table.place(hash, &series.floats.timestamps)?,
            None => TimesPlacement::Own,
        });
    }
    let pairs = all.par_iter().zip(&places);
    pairs
        .map(|(series, place)| encode_series(bucket, series, place))
        .collect()
}

/// Encodes a series for the target and decodes it again.
pub(crate) fn encode_series(
    target: Bucket,
    united: &MergedSeries,
    place: &TimesPlacement,
) -> Result<EncodedSeries> {
    let id = SeriesId(united.id);
    let mut encoded = EncodedSeries {
        id: united.id,
        floats_read: united.floats_read,
        floats: united.floats.len() as u64,
        histograms: united.histograms.len() as u64,
        exemplars: united.exemplars.len() as u64,
        has_starts: !united.starts.is_empty(),
        range_ms: united.range_ms(),
        ..EncodedSeries::default()
    };
    let mut put = |key: Bytes, value: Bytes| encoded.records.push((key, value));
    if let TimesPlacement::New(column, value, _) = place {
        put(key::time_column(target, *column), value.clone());
    }
    let mut put = |kind: RecordKind, value: Bytes| put(kind.key(target, id), value);
    if !united.floats.is_empty() {
        let value = encode_floats(target, id, &united.floats, place)?;
        put(RecordKind::Floats, value);
    }
    for (kind, starts) in [
        (RecordKind::Starts, &united.starts),
        (RecordKind::HistogramStarts, &united.histogram_starts),
    ] {
        if !starts.is_empty() {
            put(kind, encode::starts(target, id, starts)?);
        }
    }
    if !united.histograms.is_empty() {
        let value = encode::histograms(target, id, &united.histograms)?;
        put(RecordKind::Histograms, value);
    }
    if !united.exemplars.is_empty() {
        let value = encode::exemplars(target, id, &united.exemplars)?;
        put(RecordKind::Exemplars, value);
    }
    Ok(encoded)
}

fn encode_floats(
    target: Bucket,
    id: SeriesId,
    floats: &Floats,
    place: &TimesPlacement,
) -> Result<Bytes> {
    if let TimesPlacement::New(column, _, list) | TimesPlacement::Known(column, list) = place
        && list.len() == floats.len()
        && let Ok(len) = u32::try_from(floats.len())
    {
        let columns = SharedColumns::from([(*column, Arc::clone(list))]);
        let times = Times::Shared {
            column: *column,
            first: 0,
            len,
        };
        // Another list with the same hash keeps its own timestamps.
        if let Ok(value) = encode::floats(target, id, floats, times, &columns) {
            return Ok(value);
        }
    }
    let times = Times::Own(&floats.timestamps);
    encode::floats(target, id, floats, times, &SharedColumns::new())
}
