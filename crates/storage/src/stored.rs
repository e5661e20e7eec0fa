//! Stored samples of a series, of a bucket of any size, as sorted columns.
//!
//! ```text
//! hour      one Gorilla stream                          │ histograms, version 1
//! coarser   columns (own or shared timestamps), then    │ columns, then late
//!           late Gorilla streams, oldest first          │ histograms, oldest first
//! ```
//!
//! Holds always:
//! - What comes out is strictly increasing in time; of equal timestamps the newest part counted.
//! - Bytes that cannot be read are an error that names bucket and series: nothing is left out.
//!
//! Elsewhere: the bytes (`records::{gorilla, columns, coarse_samples, histogram_series}`), reading
//! only what a query needs (`crate::read`).

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_model::rollup::{HistogramWindow, JoinedWindows, Window, WindowFields};
use icecore_records::coarse_samples::{self, Part};
use icecore_records::columns::{ColumnRecord, RecordTimes, TimeList, time_column};
use icecore_records::rollup_series::{self, Decoder, RollupRecord};
use icecore_records::{
    Bucket, DecodeError, HistogramEntry, ParsedKey, SeriesId, gorilla, histogram_series, key,
    rollup_histograms,
};

use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// Shared columns of one bucket, by id.
pub(crate) type SharedColumns = HashMap<u32, Arc<TimeList>>;

/// From this many columns on they are read with one scan over all of them.
const SCAN_MIN: usize = 16;

/// Float samples in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Floats {
    pub(crate) timestamps: Vec<i64>,
    pub(crate) values: Vec<f64>,
}

/// The windows of a record.
pub(crate) fn windows(bucket: Bucket, id: SeriesId, value: &[u8]) -> Result<Vec<Window>> {
    rollup_series::decode_windows(bucket, value).map_err(corrupt_windows(bucket, id))
}

/// Appends the windows of a record that begin in a range of time, with those of the fields that it
/// keeps.
pub(crate) fn append_windows(
    bucket: Bucket,
    id: SeriesId,
    (fields, starts_ms): (WindowFields, Range<i64>),
    (decoder, value): (&mut Decoder, &[u8]),
    out: &mut JoinedWindows,
) -> Result<()> {
    let record = RollupRecord::parse(bucket, value).map_err(corrupt_windows(bucket, id))?;
    let appended = decoder.append(&record, fields, starts_ms, out);
    appended.map_err(corrupt_windows(bucket, id))
}

/// The windows of histograms of a record.
pub(crate) fn histogram_windows(
    bucket: Bucket,
    id: SeriesId,
    value: &[u8],
) -> Result<Vec<HistogramWindow>> {
    let all = bucket.start_ms()..bucket.end_ms();
    histogram_windows_in(bucket, id, value, WindowFields::ALL, all)
}

/// Those that begin in a range of time, with these of their fields.
pub(crate) fn histogram_windows_in(
    bucket: Bucket,
    id: SeriesId,
    value: &[u8],
    fields: WindowFields,
    starts_ms: Range<i64>,
) -> Result<Vec<HistogramWindow>> {
    let windows = rollup_histograms::decode(bucket, value, fields, starts_ms);
    windows.map_err(corrupt_windows(bucket, id))
}

fn corrupt_windows(bucket: Bucket, id: SeriesId) -> impl FnOnce(DecodeError) -> Error {
    Error::corrupt(format!("windows of series {id} in bucket {bucket}"))
}

impl Floats {
    pub(crate) fn len(&self) -> usize {
        self.timestamps.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.timestamps.is_empty()
    }

    /// Adds newer samples; of equal timestamps they count.
    pub(crate) fn lay(&mut self, newer: Self) {
        let follows = match (self.timestamps.last(), newer.timestamps.first()) {
            (Some(last), Some(first)) => last < first,
            _ => true,
        };
        if self.is_empty() {
            *self = newer;
        } else if follows {
            self.timestamps.extend_from_slice(&newer.timestamps);
            self.values.extend_from_slice(&newer.values);
        } else {
            *self = self.interleaved(&newer);
        }
    }

    fn interleaved(&self, newer: &Self) -> Self {
        let mut all = Self::default();
        all.timestamps.reserve(self.len() + newer.len());
        all.values.reserve(self.len() + newer.len());
        let mut older = self.timestamps.iter().zip(&self.values).peekable();
        for (time, value) in newer.timestamps.iter().zip(&newer.values) {
            while let Some((time, value)) = older.next_if(|(earlier, _)| *earlier < time) {
                all.push(*time, *value);
            }
            older.next_if(|(same, _)| *same == time);
            all.push(*time, *value);
        }
        older.for_each(|(time, value)| all.push(*time, *value));
        all
    }

    fn push(&mut self, time: i64, value: f64) {
        self.timestamps.push(time);
        self.values.push(value);
    }
}

/// The samples of a TimeSeries value. `columns` has at least those that
/// [`add_referenced_columns`] names.
pub(crate) fn floats(
    bucket: Bucket,
    series: SeriesId,
    value: &Bytes,
    columns: &SharedColumns,
) -> Result<Floats> {
    let error = |cause: DecodeError| corrupt("samples", bucket, series, cause);
    if bucket.size == BucketSize::HOUR {
        return stream(value).map_err(error);
    }
    let mut all = Floats::default();
    for part in coarse_samples::parts(value) {
        let newer = match coarse_samples::parse(&part).map_err(error)? {
            Part::Stream(bytes) => stream(bytes).map_err(error)?,
            Part::Columns(record) => of_columns(bucket, &record, columns)
                .map_err(|cause| corrupt("samples", bucket, series, cause))?,
        };
        if !newer.timestamps.is_sorted_by(|a, b| a < b) {
            let cause = "timestamps do not increase";
            return Err(corrupt("samples", bucket, series, cause));
        }
        all.lay(newer);
    }
    Ok(all)
}

fn stream(bytes: &[u8]) -> Result<Floats, DecodeError> {
    let mut floats = Floats::default();
    gorilla::decode_into(bytes, &mut floats.timestamps, &mut floats.values)?;
    Ok(floats)
}

fn of_columns(
    bucket: Bucket,
    record: &ColumnRecord<'_>,
    columns: &SharedColumns,
) -> Result<Floats, String> {
    let mut floats = Floats::default();
    let len = record.len();
    match record.times() {
        RecordTimes::Own => {
            let own = record
                .decode_times(bucket.start_ms())
                .map_err(|cause| cause.to_string())?;
            own.copy_into(0..own.len(), &mut floats.timestamps);
        }
        RecordTimes::Shared { column, first } => {
            let times = columns.get(&column);
            let times = times.ok_or_else(|| format!("column {column} is missing"))?;
            let first = first as usize;
            let end = first.checked_add(len).filter(|end| *end <= times.len());
            let end = end.ok_or_else(|| format!("column {column} is too short"))?;
            times.copy_into(first..end, &mut floats.timestamps);
        }
    }
    record
        .decode_values(0..len, &mut floats.values)
        .map_err(|cause| cause.to_string())?;
    if floats.timestamps.len() != len || floats.values.len() != len {
        return Err(format!(
            "{} timestamps and {} values where there should be {len}",
            floats.timestamps.len(),
            floats.values.len()
        ));
    }
    Ok(floats)
}

/// Notes the shared columns that a TimeSeries value refers to.
pub(crate) fn add_referenced_columns(
    bucket: Bucket,
    series: SeriesId,
    value: &Bytes,
    wanted: &mut BTreeSet<u32>,
) -> Result<()> {
    if bucket.size == BucketSize::HOUR {
        return Ok(());
    }
    for part in coarse_samples::parts(value) {
        let part = coarse_samples::parse(&part)
            .map_err(|cause| corrupt("samples", bucket, series, cause))?;
        if let Part::Columns(record) = part
            && let RecordTimes::Shared { column, .. } = record.times()
        {
            wanted.insert(column);
        }
    }
    Ok(())
}

/// How many samples a TimeSeries value has, duplicates of parts included, without decoding them.
pub(crate) fn float_count(bucket: Bucket, series: SeriesId, value: &Bytes) -> Result<usize> {
    let error = |cause: DecodeError| corrupt("samples", bucket, series, cause);
    if bucket.size == BucketSize::HOUR {
        return Ok(gorilla::count(value).map_err(error)? as usize);
    }
    let mut count = 0usize;
    for part in coarse_samples::parts(value) {
        count = count.saturating_add(match coarse_samples::parse(&part).map_err(error)? {
            Part::Columns(record) => record.len(),
            Part::Stream(stream) => gorilla::count(stream).map_err(error)? as usize,
        });
    }
    Ok(count)
}

/// The entries of a HistogramSeries value, also those that say "none here".
pub(crate) fn histograms(
    bucket: Bucket,
    series: SeriesId,
    value: &Bytes,
) -> Result<Vec<HistogramEntry>> {
    let decoded = if bucket.size == BucketSize::HOUR {
        histogram_series::decode(value)
    } else {
        histogram_series::decode_coarse(value)
    };
    decoded.map_err(|cause| corrupt("histograms", bucket, series, cause))
}

/// Merges two strictly increasing lists; of equal times the element of `newer` stays.
pub(crate) fn newest_wins<T>(older: Vec<T>, newer: Vec<T>, time: impl Fn(&T) -> i64) -> Vec<T> {
    if older.is_empty() {
        return newer;
    }
    let mut all = Vec::with_capacity(older.len() + newer.len());
    let mut older = older.into_iter().peekable();
    for item in newer {
        while let Some(earlier) = older.next_if(|other| time(other) < time(&item)) {
            all.push(earlier);
        }
        older.next_if(|other| time(other) == time(&item));
        all.push(item);
    }
    all.extend(older);
    all
}

/// Reads shared columns of a bucket into `known`, those that it does not have yet.
pub(crate) async fn read_columns(
    view: &View,
    bucket: Bucket,
    wanted: &BTreeSet<u32>,
    known: &mut SharedColumns,
) -> Result<()> {
    let missing: Vec<u32> = wanted
        .iter()
        .copied()
        .filter(|column| !known.contains_key(column))
        .collect();
    if missing.len() < SCAN_MIN {
        for column in missing {
            if let Some(value) = view.get(&key::time_column(bucket, column)).await? {
                known.insert(column, decode_column(bucket, column, &value)?);
            }
        }
        return Ok(());
    }
    let is_missing = |column: u32| missing.binary_search(&column).is_ok();
    scan_columns(view, bucket, is_missing, known).await
}

/// Reads all shared columns of a bucket.
pub(crate) async fn all_columns(view: &View, bucket: Bucket) -> Result<SharedColumns> {
    let mut all = SharedColumns::new();
    scan_columns(view, bucket, |_| true, &mut all).await?;
    Ok(all)
}

async fn scan_columns(
    view: &View,
    bucket: Bucket,
    wanted: impl Fn(u32) -> bool,
    known: &mut SharedColumns,
) -> Result<()> {
    let prefix = key::time_column_prefix(bucket);
    let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
    let reading = || Error::store("reading columns of timestamps");
    while let Some(record) = records.next().await.map_err(reading())? {
        let parsed = ParsedKey::parse(&record.key);
        if let Ok(ParsedKey::TimeColumn { column, .. }) = parsed
            && wanted(column)
        {
            known.insert(column, decode_column(bucket, column, &record.value)?);
        }
    }
    Ok(())
}

pub(crate) fn decode_column(bucket: Bucket, column: u32, value: &[u8]) -> Result<Arc<TimeList>> {
    let decoded = time_column::decode(bucket.start_ms(), value);
    let what = format!("column {column} of timestamps in bucket {bucket}");
    decoded.map(Arc::new).map_err(Error::corrupt(what))
}

/// Whether a time lies in one of the ranges, ends included.
pub(crate) fn is_lost(ranges: &[(i64, i64)], time: i64) -> bool {
    let mut ranges = ranges.iter();
    ranges.any(|(first, last)| (*first..=*last).contains(&time))
}

/// Leaves out what was lost; returns how much that was.
pub(crate) fn drop_lost(floats: &mut Floats, lost: &[(i64, i64)]) -> u64 {
    drop_lost_samples(&mut floats.timestamps, &mut floats.values, lost)
}

/// The same for two columns of equal length.
pub(crate) fn drop_lost_samples(
    timestamps: &mut Vec<i64>,
    values: &mut Vec<f64>,
    lost: &[(i64, i64)],
) -> u64 {
    let before = timestamps.len();
    let kept: Vec<bool> = timestamps
        .iter()
        .map(|time| !is_lost(lost, *time))
        .collect();
    let mut keep = kept.iter().copied();
    timestamps.retain(|_| keep.next().unwrap_or(true));
    let mut keep = kept.iter().copied();
    values.retain(|_| keep.next().unwrap_or(true));
    (before - timestamps.len()) as u64
}

fn corrupt(
    what: &str,
    bucket: Bucket,
    series: SeriesId,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::corrupt(format!("{what} of series {series} in bucket {bucket}"))(cause)
}

#[cfg(test)]
mod tests {
    use icecore_model::BucketStart;
    use icecore_records::columns::Times;
    use proptest::prelude::*;

    use super::*;

    fn bucket(exponent: u8) -> Bucket {
        let size = BucketSize::from_exponent(exponent).unwrap();
        let start = size.bucket_of(1_700_000_000_000).unwrap();
        Bucket { size, start }
    }

    fn floats_of(samples: &[(i64, f64)]) -> Floats {
        Floats {
            timestamps: samples.iter().map(|s| s.0).collect(),
            values: samples.iter().map(|s| s.1).collect(),
        }
    }

    /// What the merge operator makes of parts.
    fn merged(bucket: Bucket, parts: &[Bytes]) -> Bytes {
        let key = key::time_series(bucket, SeriesId(7));
        icecore_records::merge(&key, None, parts).unwrap()
    }

    #[test]
    fn an_hour_is_its_stream() {
        let hour = Bucket::hour(BucketStart(28_333_320));
        let samples = floats_of(&[(5, 1.0), (9, 2.0)]);
        let value = Bytes::from(gorilla::encode(&samples.timestamps, &samples.values));
        let known = SharedColumns::new();
        assert_eq!(floats(hour, SeriesId(7), &value, &known).unwrap(), samples);
        assert_eq!(float_count(hour, SeriesId(7), &value).unwrap(), 2);
        let cut = floats(hour, SeriesId(7), &value.slice(..value.len() - 1), &known);
        assert!(matches!(cut, Err(Error::Corrupt(text)) if text.to_string().contains("series 7")));
    }

    #[test]
    fn shared_timestamps_come_from_the_column() {
        let bucket = bucket(3);
        let start = bucket.start_ms();
        let times = [start + 1, start + 5, start + 6, start + 60_000];
        let column = time_column::encode(start, &times);
        let known = SharedColumns::from([(3, decode_column(bucket, 3, &column).unwrap())]);
        let shared = |first, len| Times::Shared {
            column: 3,
            first,
            len,
        };
        let encode = |times, values: &[f64]| {
            Bytes::from(coarse_samples::encode_columns(start, times, values))
        };
        let value = encode(shared(1, 3), &[1.0, 2.0, 3.0]);
        let found = floats(bucket, SeriesId(7), &value, &known).unwrap();
        assert_eq!(found.timestamps, &times[1..]);
        let mut wanted = BTreeSet::new();
        add_referenced_columns(bucket, SeriesId(7), &value, &mut wanted).unwrap();
        assert_eq!(wanted, BTreeSet::from([3]));
        // A range that the column does not have, and a column that is not there.
        let value = encode(shared(2, 3), &[1.0, 2.0, 3.0]);
        assert!(floats(bucket, SeriesId(7), &value, &known).is_err());
        assert!(floats(bucket, SeriesId(7), &value, &SharedColumns::new()).is_err());
    }

    /// Strictly increasing times within a 4 h bucket.
    fn any_part() -> impl Strategy<Value = Vec<(i64, f64)>> {
        let samples = prop::collection::btree_map(0i64..2_000, any::<i16>(), 1..60);
        samples.prop_map(|samples| {
            let start = bucket(3).start_ms();
            let sample = |(t, v): (i64, i16)| (start + t * 7_000, f64::from(v));
            samples.into_iter().map(sample).collect()
        })
    }

    proptest! {
        #[test]
        fn the_newest_part_wins(base in any_part(), late in prop::collection::vec(any_part(), 0..4)) {
            let bucket = bucket(3);
            let columns = floats_of(&base);
            let times = Times::Own(&columns.timestamps);
            let mut parts =
                vec![Bytes::from(coarse_samples::encode_columns(bucket.start_ms(), times, &columns.values))];
            let mut expected: std::collections::BTreeMap<i64, f64> = base.iter().copied().collect();
            for part in &late {
                let stream = floats_of(part);
                let stream = gorilla::encode(&stream.timestamps, &stream.values);
                parts.push(coarse_samples::late_stream(&stream));
                expected.extend(part.iter().copied());
            }
            let value = merged(bucket, &parts);
            let found = floats(bucket, SeriesId(7), &value, &SharedColumns::new()).unwrap();
            let expected: Vec<(i64, f64)> = expected.into_iter().collect();
            prop_assert_eq!(found, floats_of(&expected));
            let count: usize = base.len() + late.iter().map(Vec::len).sum::<usize>();
            prop_assert_eq!(float_count(bucket, SeriesId(7), &value).unwrap(), count);
        }
    }
}
