//! Chunks of buckets larger than an hour: the record as it is, with its timestamps beside it.
//!
//! ```text
//! value ─ one part, columns ─► record, copied │ timestamps: own list, or part of a shared column
//!       └ several parts, late streams ─► united, newest wins ─► columns
//! ```
//!
//! Holds always:
//! - A shared column is read and decoded once, and kept for as long as a chunk uses it.
//! - Values are decoded when an answer needs them, and only the chunks of its range.

use std::collections::BTreeSet;

use bytes::Bytes;
use icecore_records::coarse_samples::{self, Part};
use icecore_records::columns::{ColumnRecord, RecordTimes};
use icecore_records::{DecodeError, SeriesId, key};
use rayon::prelude::*;

use super::postings::BucketView;
use crate::cache::{Chunk, ChunkTimes, RecordValues, SideRecords};
use crate::error::{Error, Result};
use crate::slate::fetch::{FetchedRecord, fetch};
use crate::stored::drop_lost;
use crate::stored::{self, SharedColumns};

/// The shared columns that some records of a bucket refer to.
#[derive(Default)]
pub(super) struct ReadColumns {
    known: SharedColumns,
    read: Vec<(u32, Bytes)>,
}

/// Reads the columns that values refer to, as far as the cache does not have them.
pub(super) async fn read_columns<'v>(
    from: &BucketView,
    values: impl Iterator<Item = &'v Bytes>,
    concurrent_gets: usize,
) -> Result<ReadColumns> {
    let mut wanted = BTreeSet::new();
    values.for_each(|value| add_columns_of(value, &mut wanted));
    let mut columns = ReadColumns::default();
    let mut missing = Vec::new();
    for column in wanted {
        match from.cache.times.column(column) {
            Some(list) => drop(columns.known.insert(column, list)),
            None => missing.push(column),
        }
    }
    let bucket = from.bucket;
    let key_of = move |column: SeriesId| key::time_column(bucket, column.0);
    let read = fetch(&from.view, &missing, key_of, false, concurrent_gets).await?;
    let read = read.into_iter();
    columns.read = read
        .map(|FetchedRecord { id, value, .. }| (id.0, value))
        .collect();
    Ok(columns)
}

/// What cannot be parsed is reported when it is decoded.
fn add_columns_of(value: &Bytes, wanted: &mut BTreeSet<u32>) {
    let mut add = |record: &ColumnRecord<'_>| {
        if let RecordTimes::Shared { column, .. } = record.times() {
            wanted.insert(column);
        }
    };
    // Nearly all values are a column record alone.
    if let Ok(Part::Columns(record)) = coarse_samples::parse(value) {
        return add(&record);
    }
    for part in coarse_samples::parts(value) {
        if let Ok(Part::Columns(record)) = coarse_samples::parse(&part) {
            add(&record);
        }
    }
}

impl ReadColumns {
    /// Decodes and keeps what was read.
    pub(super) fn decode(mut self, from: &BucketView) -> Result<SharedColumns> {
        let decode = |(column, value): (u32, Bytes)| {
            let list = stored::decode_column(from.bucket, column, &value)?;
            Ok((column, from.cache.times.keep_column(column, list)))
        };
        let decoded: Result<Vec<_>> = self.read.into_par_iter().map(decode).collect();
        self.known.extend(decoded?);
        Ok(self.known)
    }
}

/// Makes the chunk of a series, without the ranges that it has lost.
pub(super) fn decode(
    from: &BucketView,
    series: SeriesId,
    value: &Bytes,
    columns: &SharedColumns,
    side: SideRecords,
    lost: &[(i64, i64)],
) -> Result<Chunk> {
    let corrupt = |cause: &str| {
        let bucket = from.bucket;
        Error::Corrupt(format!("samples of series {series} in bucket {bucket}: {cause}").into())
    };
    if let Ok(Part::Columns(record)) = coarse_samples::parse(value)
        && lost.is_empty()
    {
        let times = times_of(from, &record, columns).map_err(|cause| corrupt(&cause))?;
        // What follows the kind byte.
        let bytes = value.get(1..).unwrap_or_default();
        let values = RecordValues::new(bytes, &record);
        return Ok(Chunk::of_record(times, values, side));
    }
    let mut floats = if value.is_empty() {
        stored::Floats::default()
    } else {
        stored::floats(from.bucket, series, value, columns)?
    };
    drop_lost(&mut floats, lost);
    let chunk = Chunk::of_columns(floats.timestamps, &floats.values, side, &from.cache.times);
    chunk.ok_or_else(|| corrupt("another number of timestamps than values"))
}

fn times_of(
    from: &BucketView,
    record: &ColumnRecord<'_>,
    columns: &SharedColumns,
) -> Result<ChunkTimes, String> {
    let (list, first) = match record.times() {
        RecordTimes::Own => {
            let own = record.decode_times(from.bucket.start_ms());
            let own = own.map_err(|cause: DecodeError| cause.to_string())?;
            if own.len() != record.len() {
                return Err("another number of timestamps than values".into());
            }
            (from.cache.times.compact(own.into()), 0)
        }
        RecordTimes::Shared { column, first } => {
            let list = columns.get(&column);
            let list = list.ok_or_else(|| format!("column {column} is missing"))?;
            (list.clone(), first)
        }
    };
    ChunkTimes::part(list, first, record.len())
        .ok_or_else(|| "its column of timestamps is too short".to_string())
}
