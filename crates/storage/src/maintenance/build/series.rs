//! One series of the target: what its sources hold becomes one record of each kind.
//!
//! ```text
//! values of the sources ─► unite ─► floats, histograms, starts, exemplars ─► encode ─► decode, compare
//! ```
//!
//! Holds always:
//! - One value per timestamp. A histogram beats a float of the same time, as for readers; entries that
//!   only say "none here" and starts that only say "unknown" have done their work and are left out.
//! - What is written was decoded again and is the same, bit by bit.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::Exemplar;
use icecore_records::columns::{TimeList, Times};
use icecore_records::{
    Bucket, HistogramEntry, SeriesId, coarse_samples, exemplar_series, histogram_series, key,
    start_timestamps,
};

use super::batches::{Kind, SeriesRecords};
use super::time_columns::{Place, shareable};
use crate::error::{Error, Result};
use crate::stored::{self, Floats, SharedColumns, newest_wins};

/// A series as its sources have it, united.
pub(super) struct United {
    pub(super) id: u32,
    pub(super) floats: Floats,
    histograms: Vec<HistogramEntry>,
    starts: Vec<(i64, i64)>,
    histogram_starts: Vec<(i64, i64)>,
    exemplars: Vec<Exemplar>,
    /// What its timestamps are recognised by, where they may be shared.
    pub(super) times_hash: Option<u128>,
    floats_read: u64,
}

/// How much a series has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) floats: u64,
    pub(super) histograms: u64,
    pub(super) exemplars: u64,
}

impl Counted {
    /// What has come since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            floats: self.floats.saturating_sub(before.floats),
            histograms: self.histograms.saturating_sub(before.histograms),
            exemplars: self.exemplars.saturating_sub(before.exemplars),
        }
    }
}

/// What is written of a series, and what that adds to the counts of the job.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) id: u32,
    pub(super) records: Vec<(Bytes, Bytes)>,
    pub(super) floats_read: u64,
    pub(super) floats: u64,
    pub(super) histograms: u64,
    pub(super) exemplars: u64,
    pub(super) has_starts: bool,
    /// The first and the last time of anything in it.
    pub(super) range_ms: Option<(i64, i64)>,
}

/// Samples that uniting a series takes in memory, about.
pub(super) fn weight(sources: &[Bucket], series: &SeriesRecords) -> Result<usize> {
    let mut weight = 0usize;
    for record in &series.records {
        weight = weight.saturating_add(match record.kind {
            Kind::Floats => stored::float_count(sources[record.source], record.id, &record.value)?,
            _ => record.value.len(),
        });
    }
    Ok(weight)
}

/// Unites what the sources hold of a series.
pub(super) fn unite(
    sources: &[Bucket],
    columns: &[SharedColumns],
    series: &SeriesRecords,
) -> Result<United> {
    let mut united = United {
        id: series.id,
        floats: Floats::default(),
        histograms: Vec::new(),
        starts: Vec::new(),
        histogram_starts: Vec::new(),
        exemplars: Vec::new(),
        times_hash: None,
        floats_read: 0,
    };
    for record in &series.records {
        let (bucket, id, value) = (sources[record.source], record.id, &record.value);
        let corrupt = |cause| Error::Corrupt(format!("series {id} in bucket {bucket}: {cause}"));
        let starts = || start_timestamps::decode(value).map_err(corrupt);
        match record.kind {
            Kind::Floats => {
                let newer = stored::floats(bucket, id, value, &columns[record.source])?;
                united.floats_read += newer.len() as u64;
                united.floats.lay(newer);
            }
            Kind::Histograms => {
                let newer = stored::histograms(bucket, id, value)?;
                let older = std::mem::take(&mut united.histograms);
                united.histograms = newest_wins(older, newer, |entry| entry.timestamp_ms);
            }
            Kind::Starts => lay_starts(&mut united.starts, starts()?),
            Kind::HistogramStarts => lay_starts(&mut united.histogram_starts, starts()?),
            Kind::Exemplars => {
                let newer = exemplar_series::decode(value).map_err(corrupt)?;
                united.exemplars.extend(newer);
            }
        }
    }
    united.settle();
    Ok(united)
}

fn lay_starts(starts: &mut Vec<(i64, i64)>, newer: Vec<(i64, i64)>) {
    *starts = newest_wins(std::mem::take(starts), newer, |start| start.0);
}

impl United {
    /// Lays it under what a newer bucket has of the same time: where that has a sample, of whatever
    /// kind, no other counts.
    pub(super) fn under(mut self, newer: Self) -> Self {
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
        self.settle();
        self
    }

    pub(super) fn counted(&self) -> Counted {
        Counted {
            floats: self.floats.len() as u64,
            histograms: self.histograms.len() as u64,
            exemplars: self.exemplars.len() as u64,
        }
    }

    fn settle(&mut self) {
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

/// Encodes a series for the target and decodes it again.
pub(super) fn encode(target: Bucket, united: &United, place: &Place) -> Result<Encoded> {
    let id = SeriesId(united.id);
    let mismatch = |what: &str| {
        Error::Corrupt(format!(
            "{what} of series {id} in bucket {target} do not decode to what was encoded"
        ))
    };
    let mut encoded = Encoded {
        id: united.id,
        floats_read: united.floats_read,
        floats: united.floats.len() as u64,
        histograms: united.histograms.len() as u64,
        exemplars: united.exemplars.len() as u64,
        has_starts: !united.starts.is_empty(),
        range_ms: united.range_ms(),
        ..Encoded::default()
    };
    let mut put = |key: Bytes, mut value: Vec<u8>| {
        value.shrink_to_fit();
        encoded.records.push((key, value.into()));
    };
    if let Place::New(column, value, _) = place {
        put(key::time_column(target, *column), value.to_vec());
    }
    if !united.floats.is_empty() {
        let shared = match place {
            Place::Own => None,
            Place::New(column, _, list) | Place::Known(column, list) => {
                // Another list with the same hash keeps its own timestamps.
                encode_floats(target, id, &united.floats, Some((*column, list)))
            }
        };
        let value = shared.or_else(|| encode_floats(target, id, &united.floats, None));
        let value = value.ok_or_else(|| mismatch("samples"))?;
        put(key::time_series(target, id), value);
    }
    for (starts, key) in [
        (&united.starts, key::time_series_starts(target, id)),
        (
            &united.histogram_starts,
            key::histogram_series_starts(target, id),
        ),
    ] {
        if !starts.is_empty() {
            let value = start_timestamps::encode(starts);
            if start_timestamps::decode(&value).as_ref() != Ok(starts) {
                return Err(mismatch("start timestamps"));
            }
            put(key, value);
        }
    }
    if !united.histograms.is_empty() {
        let value = encode_histograms(&united.histograms).ok_or_else(|| mismatch("histograms"))?;
        put(key::histogram_series(target, id), value);
    }
    if !united.exemplars.is_empty() {
        let value = exemplar_series::encode(&united.exemplars);
        let decoded = exemplar_series::decode(&value);
        if !decoded.is_ok_and(|decoded| exemplar_series::encode(&decoded) == value) {
            return Err(mismatch("exemplars"));
        }
        put(key::exemplar_series(target, id), value);
    }
    Ok(encoded)
}

/// The record of floats; `None` where it does not decode to them.
fn encode_floats(
    target: Bucket,
    id: SeriesId,
    floats: &Floats,
    column: Option<(u32, &Arc<TimeList>)>,
) -> Option<Vec<u8>> {
    let mut columns = SharedColumns::new();
    let times = match column {
        None => Times::Own(&floats.timestamps),
        Some((column, list)) => {
            if list.len() != floats.len() {
                return None;
            }
            columns.insert(column, Arc::clone(list));
            Times::Shared {
                column,
                first: 0,
                len: u32::try_from(floats.len()).ok()?,
            }
        }
    };
    let value = coarse_samples::encode_columns(target.start_ms(), times, &floats.values);
    let value = Bytes::from(value);
    let decoded = stored::floats(target, id, &value, &columns).ok()?;
    let same = decoded.timestamps == floats.timestamps
        && decoded.values.len() == floats.values.len()
        && decoded
            .values
            .iter()
            .zip(&floats.values)
            .all(|(a, b)| a.to_bits() == b.to_bits());
    same.then(|| value.into())
}

/// The record of histograms; `None` where it does not decode to them.
fn encode_histograms(histograms: &[HistogramEntry]) -> Option<Vec<u8>> {
    let value = histogram_series::encode_columns(histograms);
    let decoded = histogram_series::decode(&value).ok()?;
    // The hour's form keeps every bit, so equal bytes are equal histograms, NaN included.
    let same = histogram_series::encode(&decoded) == histogram_series::encode(histograms);
    same.then_some(value)
}
