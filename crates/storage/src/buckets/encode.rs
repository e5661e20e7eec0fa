//! Encodes what a series has, for the size of its bucket, and decodes it again.
//!
//! Holds always:
//! - What is returned decodes to what was given, bit by bit. Where it does not, whatever holds the
//!   original is left as it is.

use std::fmt;

use bytes::Bytes;
use icecore_model::{BucketSize, Exemplar};
use icecore_records::columns::Times;
use icecore_records::{
    Bucket, HistogramEntry, SeriesId, coarse_samples, exemplar_series, gorilla, histogram_series,
    start_timestamps,
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
