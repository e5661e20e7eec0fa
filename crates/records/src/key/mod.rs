//! Keys: `version | tag | …`, big-endian, so that byte order is logical order.
//!
//! ```text
//! tag = record type (high 4 bits) | bucket size, window of a cell, or 0 for global records (low 4)
//! ```
//!
//! Holds always:
//! - A scan over a prefix given here finds exactly the records it names.
//! - What belongs to a series but is not its stream follows it directly: its key plus one byte.
//! - The length of a segment prefix depends on version and tag only; prefixes are an antichain.

mod event;
mod parse;
#[cfg(test)]
mod tests;

pub use event::{
    event_cell, event_cell_metric_prefix, event_cell_prefix, event_cell_range,
    event_cell_week_prefix, event_identity, event_identity_prefix, event_identity_week_prefix,
};
pub use parse::ParsedKey;

use bytes::Bytes;

use crate::{Bucket, RecordType, SeriesId};

/// The version that every key begins with.
pub const VERSION: u8 = 1;

/// Bytes that name one segment of a bucket, a week of events or a journal epoch.
const SCOPED_SEGMENT_LEN: usize = 6;
const GLOBAL_SEGMENT_LEN: usize = 2;

/// Follows a series' key: the start timestamps of its samples.
const STARTS_SUFFIX: u8 = 1;

/// Follows a rolled-up series' key: the windows of its native histograms.
const ROLLUP_HISTOGRAMS_SUFFIX: u8 = 1;

/// Follows a bucket's own key: its shared columns of timestamps.
const TIME_COLUMN_SUFFIX: u8 = 1;

const FLUSH_CURSOR_KIND: u8 = 1;
const CATALOG_CURSOR_KIND: u8 = 2;
const JOURNAL_WATERMARK_KIND: u8 = 3;
const MAINTENANCE_JOB_KIND: u8 = 4;
const RETIRED_BUCKET_KIND: u8 = 5;
const DELTA_TOTALS_KIND: u8 = 6;
const TOMBSTONES_KIND: u8 = 7;
const RESTORE_MARK_KIND: u8 = 8;
const EPOCH_SUMMARY_KIND: u8 = 9;
const RETENTION_STATE_KIND: u8 = 10;
const EVENT_MARK_KIND: u8 = 11;
const EVENTS_SEALED_KIND: u8 = 12;
const METRIC_METADATA_KIND: u8 = 1;

/// Catalog keys that begin with this byte or a greater one are those of [`catalog_record`].
const CATALOG_RECORD_KINDS: u8 = 0x10;

/// A label name in a key ends with this byte; escaping keeps it out of the name itself.
const TERMINATOR: u8 = 0;
const ESCAPE: u8 = 1;

pub fn bucket_list() -> Bytes {
    global(RecordType::BucketList, &[])
}

pub fn series_dictionary(bucket: Bucket, fingerprint: u128) -> Bytes {
    scoped(
        RecordType::SeriesDictionary,
        bucket,
        &fingerprint.to_be_bytes(),
    )
}

pub fn forward_index(bucket: Bucket, series: SeriesId) -> Bytes {
    of_series(RecordType::ForwardIndex, bucket, series)
}

pub fn inverted_index(bucket: Bucket, name: &str, value: &str) -> Bytes {
    let mut key = terminated_label(bucket, name, value.len());
    key.extend_from_slice(value.as_bytes());
    key.into()
}

pub fn time_series(bucket: Bucket, series: SeriesId) -> Bytes {
    of_series(RecordType::TimeSeries, bucket, series)
}

/// Start timestamps of the samples of [`time_series`].
pub fn time_series_starts(bucket: Bucket, series: SeriesId) -> Bytes {
    starts_of_series(RecordType::TimeSeries, bucket, series)
}

/// The windows of a rolled-up series.
pub fn rollup_series(bucket: Bucket, series: SeriesId) -> Bytes {
    of_series(RecordType::RollupSeries, bucket, series)
}

/// The windows of the native histograms of the series of [`rollup_series`].
pub fn rollup_histograms(bucket: Bucket, series: SeriesId) -> Bytes {
    let suffix = ROLLUP_HISTOGRAMS_SUFFIX;
    suffixed(RecordType::RollupSeries, bucket, series, suffix)
}

pub fn histogram_series(bucket: Bucket, series: SeriesId) -> Bytes {
    of_series(RecordType::HistogramSeries, bucket, series)
}

/// Start timestamps of the samples of [`histogram_series`].
pub fn histogram_series_starts(bucket: Bucket, series: SeriesId) -> Bytes {
    starts_of_series(RecordType::HistogramSeries, bucket, series)
}

pub fn exemplar_series(bucket: Bucket, series: SeriesId) -> Bytes {
    of_series(RecordType::ExemplarSeries, bucket, series)
}

pub fn bucket_meta(bucket: Bucket) -> Bytes {
    scoped(RecordType::BucketMeta, bucket, &[])
}

/// A column of timestamps that series of a coarse bucket share.
pub fn time_column(bucket: Bucket, column: u32) -> Bytes {
    let [a, b, c, d] = column.to_be_bytes();
    scoped(
        RecordType::BucketMeta,
        bucket,
        &[TIME_COLUMN_SUFFIX, a, b, c, d],
    )
}

/// All shared columns of a bucket, in the order of their ids.
pub fn time_column_prefix(bucket: Bucket) -> Bytes {
    scoped(RecordType::BucketMeta, bucket, &[TIME_COLUMN_SUFFIX])
}

/// A journal record whose first block has the sequence number `seq`.
pub fn journal(epoch: u32, seq: u64) -> Bytes {
    let mut key = Vec::with_capacity(14);
    key.extend_from_slice(&[VERSION, tag(RecordType::Journal)]);
    key.extend_from_slice(&epoch.to_be_bytes());
    key.extend_from_slice(&seq.to_be_bytes());
    key.into()
}

/// The journal sequence up to which buckets hold everything of an hour.
pub fn flush_cursor(hour: Bucket) -> Bytes {
    about_bucket(FLUSH_CURSOR_KIND, hour)
}

/// The job that is under way.
pub fn maintenance_job() -> Bytes {
    global(RecordType::Maintenance, &[MAINTENANCE_JOB_KIND])
}

/// A bucket that is no longer listed and whose records are still to be dropped.
pub fn retired_bucket(bucket: Bucket) -> Bytes {
    about_bucket(RETIRED_BUCKET_KIND, bucket)
}

/// All retired buckets.
pub fn retired_bucket_prefix() -> Bytes {
    global(RecordType::Maintenance, &[RETIRED_BUCKET_KIND])
}

/// The journal sequence up to which the running totals are saved.
pub fn delta_totals_cursor() -> Bytes {
    global(RecordType::Maintenance, &[DELTA_TOTALS_KIND])
}

/// The running totals of one part of all series.
pub fn delta_totals(part: u16) -> Bytes {
    let [high, low] = part.to_be_bytes();
    global(RecordType::Maintenance, &[DELTA_TOTALS_KIND, high, low])
}

/// All running totals, and their cursor.
pub fn delta_totals_prefix() -> Bytes {
    delta_totals_cursor()
}

/// What was deleted from a bucket and still lies in its records.
pub fn tombstones(bucket: Bucket) -> Bytes {
    about_bucket(TOMBSTONES_KIND, bucket)
}

/// How far a restore into this database is.
pub fn restore_mark() -> Bytes {
    global(RecordType::Maintenance, &[RESTORE_MARK_KIND])
}

/// What a finished epoch of the journal holds.
pub fn epoch_summary(epoch: u32) -> Bytes {
    let [a, b, c, d] = epoch.to_be_bytes();
    global(RecordType::Maintenance, &[EPOCH_SUMMARY_KIND, a, b, c, d])
}

/// The summaries of all epochs, in their order.
pub fn epoch_summary_prefix() -> Bytes {
    global(RecordType::Maintenance, &[EPOCH_SUMMARY_KIND])
}

/// What is known of levels and of what they gave up.
pub fn retention_state() -> Bytes {
    global(RecordType::Maintenance, &[RETENTION_STATE_KIND])
}

/// Up to where the events of the journal are in cells.
pub fn event_mark() -> Bytes {
    global(RecordType::Maintenance, &[EVENT_MARK_KIND])
}

/// The journal sequence up to which files hold all events.
pub fn events_sealed() -> Bytes {
    global(RecordType::Maintenance, &[EVENTS_SEALED_KIND])
}

/// The tombstones of all buckets.
pub fn tombstones_prefix() -> Bytes {
    global(RecordType::Maintenance, &[TOMBSTONES_KIND])
}

/// The journal sequence up to which the catalog holds everything.
pub fn catalog_cursor() -> Bytes {
    global(RecordType::Maintenance, &[CATALOG_CURSOR_KIND])
}

/// The sequence and epoch numbers that are not used yet.
pub fn journal_watermark() -> Bytes {
    global(RecordType::Maintenance, &[JOURNAL_WATERMARK_KIND])
}

/// Type, unit and help of a metric family.
pub fn metric_metadata(family: &str) -> Bytes {
    let mut key = Vec::with_capacity(3 + family.len());
    key.extend_from_slice(&[VERSION, tag(RecordType::Catalog), METRIC_METADATA_KIND]);
    key.extend_from_slice(family.as_bytes());
    key.into()
}

/// A record that another part of the program keeps in the catalog, under a key of its own. Keys are
/// ordered as they are. `None` when the key begins as one of ours does.
pub fn catalog_record(key: &[u8]) -> Option<Bytes> {
    let is_theirs = key
        .first()
        .is_some_and(|kind| *kind >= CATALOG_RECORD_KINDS);
    is_theirs.then(|| global(RecordType::Catalog, key))
}

/// All records of one type of one bucket: the six bytes that name its segment.
pub fn record_prefix(record_type: RecordType, bucket: Bucket) -> Bytes {
    scoped(record_type, bucket, &[])
}

/// All journal records.
pub fn journal_prefix() -> Bytes {
    global(RecordType::Journal, &[])
}

/// The first key after all journal records.
pub fn journal_end() -> Bytes {
    Bytes::copy_from_slice(&[VERSION, tag(RecordType::Journal) + 1])
}

/// The journal records of one epoch: the six bytes that name its segment.
pub fn journal_epoch_prefix(epoch: u32) -> Bytes {
    global(RecordType::Journal, &epoch.to_be_bytes())
}

/// All values of one label in one bucket; the value is what follows the prefix.
pub fn inverted_label_prefix(bucket: Bucket, name: &str) -> Bytes {
    terminated_label(bucket, name, 0).into()
}

/// The flush cursors of all buckets.
pub fn flush_cursor_prefix() -> Bytes {
    global(RecordType::Maintenance, &[FLUSH_CURSOR_KIND])
}

/// The metadata of all metric families; the family is what follows the prefix.
pub fn metric_metadata_prefix() -> Bytes {
    global(RecordType::Catalog, &[METRIC_METADATA_KIND])
}

/// How many bytes of a key name its SlateDB segment.
pub fn segment_len(key: &[u8]) -> usize {
    let len = match key {
        [VERSION, tag, ..] => match RecordType::from_number(tag >> 4) {
            Some(RecordType::Journal | RecordType::EventCell | RecordType::EventIdentity) => {
                SCOPED_SEGMENT_LEN
            }
            Some(record_type) if record_type.is_bucket_scoped() => SCOPED_SEGMENT_LEN,
            _ => GLOBAL_SEGMENT_LEN,
        },
        _ => GLOBAL_SEGMENT_LEN,
    };
    len.min(key.len())
}

/// The tag of a global record.
fn tag(record_type: RecordType) -> u8 {
    record_type.number() << 4
}

fn global(record_type: RecordType, rest: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(2 + rest.len());
    key.extend_from_slice(&[VERSION, tag(record_type)]);
    key.extend_from_slice(rest);
    key.into()
}

/// A maintenance record about one bucket.
fn about_bucket(kind: u8, bucket: Bucket) -> Bytes {
    let mut rest = [kind, bucket.size.exponent(), 0, 0, 0, 0];
    rest[2..].copy_from_slice(&bucket.start.minutes().to_be_bytes());
    global(RecordType::Maintenance, &rest)
}

fn scoped(record_type: RecordType, bucket: Bucket, rest: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(SCOPED_SEGMENT_LEN + rest.len());
    push_scope(&mut key, record_type, bucket);
    key.extend_from_slice(rest);
    key.into()
}

fn of_series(record_type: RecordType, bucket: Bucket, series: SeriesId) -> Bytes {
    scoped(record_type, bucket, &series.0.to_be_bytes())
}

fn starts_of_series(record_type: RecordType, bucket: Bucket, series: SeriesId) -> Bytes {
    suffixed(record_type, bucket, series, STARTS_SUFFIX)
}

fn suffixed(record_type: RecordType, bucket: Bucket, series: SeriesId, suffix: u8) -> Bytes {
    let [a, b, c, d] = series.0.to_be_bytes();
    scoped(record_type, bucket, &[a, b, c, d, suffix])
}

fn push_scope(key: &mut Vec<u8>, record_type: RecordType, bucket: Bucket) {
    debug_assert!(
        record_type.is_bucket_scoped(),
        "{record_type} does not belong to a bucket"
    );
    key.extend_from_slice(&[VERSION, tag(record_type) | bucket.size.exponent()]);
    key.extend_from_slice(&bucket.start.minutes().to_be_bytes());
}

fn terminated_label(bucket: Bucket, name: &str, room: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(SCOPED_SEGMENT_LEN + name.len() + 1 + room);
    push_scope(&mut key, RecordType::InvertedIndex, bucket);
    for byte in name.bytes() {
        match byte {
            TERMINATOR | ESCAPE => key.extend_from_slice(&[ESCAPE, byte + 1]),
            _ => key.push(byte),
        }
    }
    key.push(TERMINATOR);
    key
}
