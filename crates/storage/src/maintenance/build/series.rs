//! One series of the target: what its sources hold, united.
//!
//! Elsewhere: what it becomes (`crate::buckets::united`).

use icecore_records::{Bucket, DecodeError, exemplar_series, start_timestamps};

use super::batches::SeriesRecords;
use crate::buckets::record_kind::RecordKind;
pub(super) use crate::buckets::united::{EncodedSeries, MergedSeries, SampleCounts, encode_series};
use crate::error::{Error, Result};
use crate::stored::{self, SharedColumns};

/// Samples that uniting a series takes in memory, about.
pub(super) fn weight(sources: &[Bucket], series: &SeriesRecords) -> Result<usize> {
    let mut weight = 0usize;
    for record in &series.records {
        weight = weight.saturating_add(match record.kind {
            RecordKind::Floats => {
                stored::float_count(sources[record.source], record.id, &record.value)?
            }
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
) -> Result<MergedSeries> {
    let mut united = MergedSeries::new(series.id);
    for record in &series.records {
        let (bucket, id, value) = (sources[record.source], record.id, &record.value);
        let corrupt = || Error::corrupt::<DecodeError>(format!("series {id} in bucket {bucket}"));
        let starts = || start_timestamps::decode(value).map_err(corrupt());
        match record.kind {
            RecordKind::Floats => {
                united.add_floats(stored::floats(bucket, id, value, &columns[record.source])?);
            }
            RecordKind::Histograms => {
                united.add_histograms(stored::histograms(bucket, id, value)?);
            }
            RecordKind::Starts => united.add_starts(starts()?),
            RecordKind::HistogramStarts => united.add_histogram_starts(starts()?),
            RecordKind::Exemplars => {
                united.add_exemplars(exemplar_series::decode(value).map_err(corrupt())?);
            }
            // Of buckets of windows, which are not united with samples.
            RecordKind::Windows | RecordKind::HistogramWindows => {}
        }
    }
    united.normalize();
    Ok(united)
}
