//! Encodes what a series has, for the size of its bucket, and decodes it again.
//!
//! Holds always:
//! - What is returned decodes to what was given, bit by bit. Where it does not, whatever holds the
//!   original is left as it is.

use std::fmt;

use bytes::Bytes;
use icecore_model::rollup::{Aggregate, Edge, HistogramWindow, Resolution, Window, WindowFields};
use icecore_model::{BucketSize, Exemplar};
use icecore_records::columns::Times;
use icecore_records::{
    Bucket, HistogramEntry, SeriesId, coarse_samples, exemplar_series, gorilla, histogram_series,
    rollup_histograms, rollup_series, start_timestamps,
};

use crate::error::{Error, Result};
use crate::stored::{self, Floats, SharedColumns};

/// Floats, of which there are some. In a coarse bucket their timestamps lie where `times` says,
/// which may be one of the `columns`.
pub(crate) fn floats(
    bucket: Bucket,
    id: SeriesId,
    floats: &Floats,
    times: Times<'_>,
    columns: &SharedColumns,
) -> Result<Bytes> {
    let value = if bucket.size == BucketSize::HOUR {
        gorilla::encode(&floats.timestamps, &floats.values)
    } else {
        coarse_samples::encode_columns(bucket.start_ms(), times, &floats.values)
    };
    let value = packed(value);
    let decoded = stored::floats(bucket, id, &value, columns)?;
    let decoded_bits = decoded.values.iter().map(|value| value.to_bits());
    let same = decoded.timestamps == floats.timestamps
        && decoded_bits.eq(floats.values.iter().map(|value| value.to_bits()));
    verified(same, "samples", bucket, id).map(|()| value)
}

/// Histograms, of which there are some.
pub(crate) fn histograms(
    bucket: Bucket,
    id: SeriesId,
    entries: &[HistogramEntry],
) -> Result<Bytes> {
    let value = packed(if bucket.size == BucketSize::HOUR {
        histogram_series::encode(entries)
    } else {
        histogram_series::encode_columns(entries)
    });
    let decoded = stored::histograms(bucket, id, &value)?;
    // The hour's form writes every bit down, so it compares what `==` on floats would not.
    let same = histogram_series::encode(&decoded) == histogram_series::encode(entries);
    verified(same, "histograms", bucket, id).map(|()| value)
}

pub(crate) fn starts(bucket: Bucket, id: SeriesId, starts: &[(i64, i64)]) -> Result<Bytes> {
    let value = packed(start_timestamps::encode(starts));
    let decoded = start_timestamps::decode(&value);
    let same = decoded.is_ok_and(|decoded| decoded == starts);
    verified(same, "start timestamps", bucket, id).map(|()| value)
}

pub(crate) fn exemplars(bucket: Bucket, id: SeriesId, exemplars: &[Exemplar]) -> Result<Bytes> {
    let value = packed(exemplar_series::encode(exemplars));
    let decoded = exemplar_series::decode(&value);
    let same = decoded.is_ok_and(|decoded| exemplar_series::encode(&decoded) == value);
    verified(same, "exemplars", bucket, id).map(|()| value)
}

/// Windows, of which there are some, with these of their fields.
pub(crate) fn windows(
    bucket: Bucket,
    id: SeriesId,
    resolution: Resolution,
    fields: WindowFields,
    windows: &[Window],
) -> Result<Bytes> {
    let value = packed(rollup_series::encode(bucket, resolution, fields, windows));
    let decoded = stored::windows(bucket, id, &value)?;
    let pairs = decoded.iter().zip(windows);
    let same = decoded.len() == windows.len()
        && pairs.into_iter().all(|(a, b)| is_same_window(a, b, fields));
    verified(same, "windows", bucket, id).map(|()| value)
}

/// Windows of histograms, of which there are some.
pub(crate) fn histogram_windows(
    bucket: Bucket,
    id: SeriesId,
    resolution: Resolution,
    windows: &[HistogramWindow],
) -> Result<Bytes> {
    let value = packed(rollup_histograms::encode(bucket, resolution, windows));
    // Histograms are equal bit by bit.
    let same = stored::histogram_windows(bucket, id, &value)? == windows;
    verified(same, "windows of histograms", bucket, id).map(|()| value)
}

/// Whether two windows are the same in these fields, bit by bit.
fn is_same_window(a: &Window, b: &Window, fields: WindowFields) -> bool {
    let same_edge = match (a.edge, b.edge) {
        (Edge::Sample(a), Edge::Sample(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    };
    let same_interior = match (&a.interior, &b.interior) {
        (Some(a), Some(b)) => is_same_aggregate(a, b, fields),
        (a, b) => a.is_none() && b.is_none(),
    };
    let flags = |window: &Window| (window.start_ms, window.ends_stale, window.has_late);
    same_edge && same_interior && flags(a) == flags(b)
}

fn is_same_aggregate(a: &Aggregate, b: &Aggregate, fields: WindowFields) -> bool {
    let kept = |aggregate: &Aggregate| {
        let Aggregate {
            numbers,
            nans,
            first_ms,
            first,
            last_ms,
            last,
            sum,
            min,
            max,
            m2,
            correction,
            resets,
            changes,
        } = *aggregate;
        let value = |field, bits: u64| fields.contains(field).then_some(bits);
        [
            value(WindowFields::COUNTS, numbers),
            value(WindowFields::COUNTS, nans),
            value(WindowFields::FIRST, first_ms as u64),
            value(WindowFields::FIRST, first.to_bits()),
            value(WindowFields::LAST, last_ms as u64),
            value(WindowFields::LAST, last.to_bits()),
            value(WindowFields::SUM, sum.to_bits()),
            value(WindowFields::MIN, min.to_bits()),
            value(WindowFields::MAX, max.to_bits()),
            value(WindowFields::M2, m2.to_bits()),
            value(WindowFields::CORRECTION, correction.to_bits()),
            value(WindowFields::RESETS, resets),
            value(WindowFields::CHANGES, changes),
        ]
    };
    kept(a) == kept(b)
}

/// SlateDB keeps the whole allocation.
fn packed(mut value: Vec<u8>) -> Bytes {
    value.shrink_to_fit();
    value.into()
}

fn verified(same: bool, what: impl fmt::Display, bucket: Bucket, id: SeriesId) -> Result<()> {
    if same {
        return Ok(());
    }
    Err(Error::Corrupt(
        format!("{what} of series {id} in bucket {bucket} do not decode to what was encoded")
            .into(),
    ))
}
