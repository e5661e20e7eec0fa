//! What buckets hold, decoded record by record: a second way to the same samples, beside reading.

use std::collections::{BTreeMap, BTreeSet};

use icecore_records::{
    Bucket, DecodeError, HistogramEntry, ParsedKey, RecordType, SeriesId, exemplar_series,
    forward_index, histogram_series, key, start_timestamps,
};

use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};
use crate::stored;

/// Everything of a series, by time; values as bits or bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesContent {
    pub floats: BTreeMap<i64, u64>,
    pub histograms: BTreeMap<i64, Vec<u8>>,
    /// Those that are known.
    pub starts: BTreeMap<i64, i64>,
    pub exemplars: BTreeSet<(i64, String, u64)>,
}

/// Series by their labels as text.
pub type StoredContent = BTreeMap<String, SeriesContent>;

/// What the given buckets hold together.
pub(super) async fn content(view: &View, buckets: &[Bucket]) -> Result<StoredContent> {
    let mut all = StoredContent::new();
    for bucket in buckets {
        add_bucket(view, *bucket, &mut all).await?;
    }
    for series in all.values_mut() {
        // A histogram beats a float of the same time.
        let histograms = &series.histograms;
        series
            .floats
            .retain(|time, _| !histograms.contains_key(time));
    }
    Ok(all)
}

async fn add_bucket(view: &View, bucket: Bucket, all: &mut StoredContent) -> Result<()> {
    let corrupt = || Error::corrupt::<DecodeError>(format!("bucket {bucket}"));
    let columns = stored::all_columns(view, bucket).await?;
    let mut names: BTreeMap<SeriesId, String> = BTreeMap::new();
    for record_type in [
        RecordType::ForwardIndex,
        RecordType::TimeSeries,
        RecordType::HistogramSeries,
        RecordType::ExemplarSeries,
    ] {
        let prefix = key::record_prefix(record_type, bucket);
        let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
        let reading = || Error::store("reading a bucket");
        while let Some(record) = records.next().await.map_err(reading())? {
            let parsed = ParsedKey::parse(&record.key).map_err(corrupt())?;
            let value = &record.value;
            let id = match parsed {
                ParsedKey::ForwardIndex { series, .. } => {
                    let labels = forward_index::decode(value).map_err(corrupt())?.labels;
                    names.insert(series, labels.to_string());
                    series
                }
                ParsedKey::TimeSeries { series, .. }
                | ParsedKey::TimeSeriesStarts { series, .. }
                | ParsedKey::HistogramSeries { series, .. }
                | ParsedKey::ExemplarSeries { series, .. } => series,
                _ => continue,
            };
            let name = names.get(&id).cloned();
            let name =
                name.ok_or_else(|| Error::Corrupt(format!("series {id} has no name").into()))?;
            let series = all.entry(name).or_default();
            match parsed {
                ParsedKey::TimeSeries { .. } => {
                    let floats = stored::floats(bucket, id, value, &columns)?;
                    let values = floats.values.iter().map(|value| value.to_bits());
                    series
                        .floats
                        .extend(floats.timestamps.iter().copied().zip(values));
                }
                ParsedKey::TimeSeriesStarts { .. } => {
                    let starts = start_timestamps::decode(value).map_err(corrupt())?;
                    series
                        .starts
                        .extend(starts.into_iter().filter(|s| s.1 != 0));
                }
                ParsedKey::HistogramSeries { .. } => {
                    let entries = stored::histograms(bucket, id, value)?;
                    let some = entries.into_iter().filter(|entry| entry.value.is_some());
                    series
                        .histograms
                        .extend(some.map(|entry| (entry.timestamp_ms, bits(entry))));
                }
                ParsedKey::ExemplarSeries { .. } => {
                    let exemplars = exemplar_series::decode(value).map_err(corrupt())?;
                    let plain = exemplars.iter().map(|exemplar| {
                        let labels = exemplar.labels.to_string();
                        (exemplar.timestamp_ms, labels, exemplar.value.to_bits())
                    });
                    series.exemplars.extend(plain);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The form of hours keeps every bit.
fn bits(entry: HistogramEntry) -> Vec<u8> {
    histogram_series::encode(&[entry])
}
