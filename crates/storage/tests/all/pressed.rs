//! Coarse buckets made by hand: what listed hours hold, written as records of one larger bucket.
//!
//! On purpose without the code that coarsens in the product: reading is checked against the format,
//! not against its own writer.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use icecore_model::{BucketSize, Exemplar, Labels};
use icecore_records::columns::{Times, is_regular, time_column};
use icecore_records::{
    Bucket, BucketMeta, ForwardRecord, HistogramEntry, ParsedKey, RecordType, SeriesId,
    bucket_list, bucket_meta, coarse_samples, exemplar_series, forward_index, gorilla,
    histogram_series, inverted_index, key, merge, start_timestamps,
};
use icecore_storage::Database;
use icecore_storage::testing::Hooks;
use roaring::RoaringBitmap;

/// The bucket of 2^(exponent − 1) hours that holds a time.
pub(crate) fn bucket(exponent: u8, time_ms: i64) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    let start = size.bucket_of(time_ms).unwrap();
    Bucket { size, start }
}

/// What hours hold of one series.
#[derive(Default)]
struct Pressed {
    forward: Option<ForwardRecord>,
    times: Vec<i64>,
    values: Vec<f64>,
    late: Vec<Bytes>,
    histograms: Vec<HistogramEntry>,
    late_histograms: Vec<Bytes>,
    starts: Vec<(i64, i64)>,
    exemplars: Vec<Exemplar>,
}

/// Replaces the hours within `target` by it. Those from `late_ms` on become late parts. The
/// database has to be opened again to see it.
pub(crate) async fn press(db: &Database, target: Bucket, late_ms: i64) {
    let stored = db.records(&key::bucket_list()).await.unwrap();
    let mut listed = bucket_list::decode(&stored[0].1).unwrap();
    let within = |b: &&Bucket| b.start_ms() >= target.start_ms() && b.end_ms() <= target.end_ms();
    let sources: Vec<Bucket> = listed.iter().filter(within).copied().collect();
    let mut series: BTreeMap<Labels, Pressed> = BTreeMap::new();
    let mut meta = BucketMeta {
        run_starts: vec![SeriesId(0)],
        min_timestamp_ms: target.start_ms(),
        max_timestamp_ms: target.end_ms() - 1,
        ..BucketMeta::default()
    };
    for source in &sources {
        gather(db, *source, source.start_ms() >= late_ms, &mut series).await;
        let stored = db.records(&key::bucket_meta(*source)).await.unwrap();
        let of_source = bucket_meta::decode(&stored[0].1).unwrap();
        meta.float_samples += of_source.float_samples;
        meta.histogram_samples += of_source.histogram_samples;
        meta.exemplars += of_source.exemplars;
        meta.has_histograms |= of_source.has_histograms;
        meta.has_start_timestamps |= of_source.has_start_timestamps;
        listed.remove(source);
    }
    meta.next_series_id = series.len() as u32;
    listed.insert(target);
    let mut records = records_of(target, &series);
    records.push((key::bucket_meta(target), bucket_meta::encode(&meta).into()));
    records.push((key::bucket_list(), bucket_list::encode(&listed)));
    let records = records.into_iter().map(|(key, value)| (key, Some(value)));
    db.replace_records(records.collect()).await.unwrap();
}

async fn gather(db: &Database, source: Bucket, late: bool, series: &mut BTreeMap<Labels, Pressed>) {
    let records = async |of: RecordType| db.records(&key::record_prefix(of, source)).await.unwrap();
    let mut labels: HashMap<SeriesId, Labels> = HashMap::new();
    for (key, value) in records(RecordType::ForwardIndex).await {
        let Ok(ParsedKey::ForwardIndex { series: id, .. }) = ParsedKey::parse(&key) else {
            panic!("a forward record has another key");
        };
        let forward = forward_index::decode(&value).unwrap();
        labels.insert(id, forward.labels.clone());
        let found = series.entry(forward.labels.clone()).or_default();
        found.forward = Some(forward);
    }
    for of in [
        RecordType::TimeSeries,
        RecordType::HistogramSeries,
        RecordType::ExemplarSeries,
    ] {
        for (key, value) in records(of).await {
            match ParsedKey::parse(&key).unwrap() {
                ParsedKey::TimeSeries { series: id, .. } => {
                    let found = series.get_mut(&labels[&id]).unwrap();
                    if late {
                        found.late.push(coarse_samples::late_stream(&value));
                    } else {
                        let columns = (&mut found.times, &mut found.values);
                        gorilla::decode_into(&value, columns.0, columns.1).unwrap();
                    }
                }
                ParsedKey::TimeSeriesStarts { series: id, .. } => {
                    let found = series.get_mut(&labels[&id]).unwrap();
                    found
                        .starts
                        .extend(start_timestamps::decode(&value).unwrap());
                }
                ParsedKey::HistogramSeries { series: id, .. } => {
                    let found = series.get_mut(&labels[&id]).unwrap();
                    if late {
                        found.late_histograms.push(value)
                    } else {
                        found
                            .histograms
                            .extend(histogram_series::decode(&value).unwrap())
                    }
                }
                ParsedKey::ExemplarSeries { series: id, .. } => {
                    let found = series.get_mut(&labels[&id]).unwrap();
                    found
                        .exemplars
                        .extend(exemplar_series::decode(&value).unwrap());
                }
                other => panic!("{other:?} is new here"),
            }
        }
    }
}

fn records_of(target: Bucket, series: &BTreeMap<Labels, Pressed>) -> Vec<(Bytes, Bytes)> {
    let start_ms = target.start_ms();
    let mut records: Vec<(Bytes, Bytes)> = Vec::new();
    let mut postings: BTreeMap<(String, String), RoaringBitmap> = BTreeMap::new();
    let columns = shared_columns(series);
    for (times, column) in &columns {
        let value = time_column::encode(start_ms, times);
        records.push((key::time_column(target, *column), value.into()));
    }
    for (id, (labels, found)) in (0..).zip(series) {
        let id = SeriesId(id);
        for (name, value) in labels.iter() {
            let pair = (name.to_string(), value.to_string());
            postings.entry(pair).or_default().insert(id.0);
        }
        let forward = forward_index::encode(found.forward.as_ref().unwrap());
        records.push((key::forward_index(target, id), forward.into()));
        let mut parts = Vec::new();
        if !found.times.is_empty() {
            let part =
                coarse_samples::encode_columns(start_ms, times_of(found, &columns), &found.values);
            parts.push(part.into());
        }
        parts.extend(found.late.iter().cloned());
        records.extend(merged(key::time_series(target, id), parts));
        let mut parts = Vec::new();
        if !found.histograms.is_empty() {
            parts.push(histogram_series::encode_columns(&found.histograms).into());
        }
        parts.extend(found.late_histograms.iter().cloned());
        records.extend(merged(key::histogram_series(target, id), parts));
        if !found.starts.is_empty() {
            let value = start_timestamps::encode(&found.starts);
            records.push((key::time_series_starts(target, id), value.into()));
        }
        if !found.exemplars.is_empty() {
            let value = exemplar_series::encode(&found.exemplars);
            records.push((key::exemplar_series(target, id), value.into()));
        }
    }
    for ((name, value), mut ids) in postings {
        let postings = inverted_index::encode(&mut ids);
        records.push((key::inverted_index(target, &name, &value), postings));
    }
    records
}

/// What the merge operator makes of parts.
fn merged(key: Bytes, parts: Vec<Bytes>) -> Option<(Bytes, Bytes)> {
    let value = (!parts.is_empty()).then(|| merge(&key, None, &parts).unwrap())?;
    Some((key, value))
}

/// Irregular lists that several series have, numbered.
fn shared_columns(series: &BTreeMap<Labels, Pressed>) -> BTreeMap<&[i64], u32> {
    let mut users: BTreeMap<&[i64], u32> = BTreeMap::new();
    for found in series.values() {
        *users.entry(&found.times).or_default() += 1;
    }
    let shared = users
        .into_iter()
        .filter(|(list, users)| *users > 1 && !is_regular(list));
    shared
        .zip(0..)
        .map(|((list, _), column)| (list, column))
        .collect()
}

/// In a column of its own, or of others: also as a part of a longer one.
fn times_of<'p>(found: &'p Pressed, columns: &BTreeMap<&[i64], u32>) -> Times<'p> {
    let times = &found.times[..];
    for (list, column) in columns {
        let part = list.windows(times.len()).position(|part| part == times);
        if let Some(first) = part {
            return Times::Shared {
                column: *column,
                first: first as u32,
                len: times.len() as u32,
            };
        }
    }
    Times::Own(times)
}
