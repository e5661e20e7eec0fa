//! Where series, samples and bytes come from: by metric and by label, counted from the records.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures::future::LocalBoxFuture;
use icecore_records::{
    Bucket, ParsedKey, RecordType, bucket_list, exemplar_series, forward_index, key,
};
use xxhash_rust::xxh3::xxh3_128;

use super::Inspector;
use super::overview::scope_of;
use super::still::{Record, StillView};
use crate::error::{Error, Result};
use crate::stored;

/// Which buckets are counted: those that overlap the range.
#[derive(Clone, Copy, Debug)]
pub struct StatisticsQuery {
    pub start_ms: i64,
    /// Included.
    pub end_ms: i64,
    pub bucket: Option<Bucket>,
    /// Rows per ranking.
    pub limit: usize,
}

impl Default for StatisticsQuery {
    fn default() -> Self {
        Self {
            start_ms: i64::MIN,
            end_ms: i64::MAX,
            bucket: None,
            limit: 20,
        }
    }
}

/// Sums over the buckets that were counted. A series that lies in several of them counts once.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    pub buckets: u64,
    pub series: u64,
    pub samples: u64,
    pub exemplars: u64,
    /// Keys and values of all records of the buckets, before block compression.
    pub bytes: u64,
    /// Records that could not be read; `check` names them.
    pub unreadable: u64,
    /// All metrics and labels there are; the rankings may be cut.
    pub metrics_total: u64,
    pub labels_total: u64,
    /// Most bytes first.
    pub metrics: Vec<MetricStatistics>,
    pub labels: Vec<LabelStatistics>,
}

#[derive(Clone, Debug, Default)]
pub struct MetricStatistics {
    pub name: String,
    pub series: u64,
    /// Floats and histograms.
    pub samples: u64,
    pub exemplars: u64,
    /// Records of its series; index records of labels are not in it, metrics share them.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub struct LabelStatistics {
    pub name: String,
    pub values: u64,
    pub series: u64,
    /// Floats and histograms of the series that carry the label.
    pub samples: u64,
    /// Its records in the inverted index.
    pub bytes: u64,
}

impl Inspector {
    pub fn statistics<'a>(
        &'a mut self,
        query: &'a StatisticsQuery,
    ) -> LocalBoxFuture<'a, Result<Statistics>> {
        Box::pin(async move {
            let listed = self
                .attempt(async |view| match view.get(&key::bucket_list()).await? {
                    Some(value) => {
                        bucket_list::decode(&value).map_err(Error::corrupt("list of buckets"))
                    }
                    None => Ok(BTreeSet::new()),
                })
                .await?;
            let wanted = |bucket: &Bucket| match query.bucket {
                Some(only) => *bucket == only,
                None => bucket.start_ms() <= query.end_ms && bucket.end_ms() > query.start_ms,
            };
            let buckets: Vec<Bucket> = listed.into_iter().filter(&wanted).collect();
            let mut sizes = self.reader.segment_bytes();
            sizes.retain(|segment, _| {
                scope_of(segment).is_some_and(|(t, bucket)| COUNTED.contains(&t) && wanted(&bucket))
            });
            self.meter.expect(sizes);
            let mut totals = Totals::default();
            for bucket in buckets {
                let counted = self
                    .attempt(async |view| BucketCount::default().run(view, bucket).await)
                    .await?;
                totals.add(counted);
            }
            Ok(totals.rank(query.limit))
        })
    }
}

/// What is counted of a bucket, in key order.
const COUNTED: [RecordType; 7] = [
    RecordType::SeriesDictionary,
    RecordType::ForwardIndex,
    RecordType::InvertedIndex,
    RecordType::TimeSeries,
    // With it lie the columns of timestamps that series share.
    RecordType::BucketMeta,
    RecordType::HistogramSeries,
    RecordType::ExemplarSeries,
];

/// One bucket, counted on one state.
#[derive(Default)]
struct BucketCount {
    series: HashMap<u32, SeriesCount>,
    labels: HashMap<String, LabelCount>,
    metrics: Vec<String>,
    metric_numbers: HashMap<String, u32>,
    label_names: Vec<String>,
    label_numbers: HashMap<String, u32>,
    bytes: u64,
    unreadable: u64,
}

#[derive(Default)]
struct SeriesCount {
    fingerprint: u128,
    metric: u32,
    labels: Vec<u32>,
    samples: u64,
    exemplars: u64,
    bytes: u64,
}

#[derive(Default)]
struct LabelCount {
    /// Hashes of the values, to count each once over all buckets.
    values: HashSet<u128>,
    bytes: u64,
}

impl BucketCount {
    async fn run(mut self, view: &StillView, bucket: Bucket) -> Result<Self> {
        for record_type in COUNTED {
            let prefix = key::record_prefix(record_type, bucket);
            let mut records = view.under(&prefix).await?;
            while let Some(record) = records.next().await? {
                self.bytes += record.len() as u64;
                if self.note(&record).is_none() {
                    self.unreadable += 1;
                }
            }
        }
        Ok(self)
    }

    /// `None` for what cannot be read or belongs to no series.
    fn note(&mut self, record: &Record) -> Option<()> {
        let value = &record.value;
        match ParsedKey::parse(&record.key).ok()? {
            ParsedKey::ForwardIndex { series, .. } => {
                let labels = forward_index::decode(value).ok()?.labels;
                let metric = number(
                    &mut self.metric_numbers,
                    &mut self.metrics,
                    labels.metric_name(),
                );
                let names = labels
                    .iter()
                    .map(|(name, _)| number(&mut self.label_numbers, &mut self.label_names, name));
                let labels_of_series = names.collect();
                self.series.insert(
                    series.0,
                    SeriesCount {
                        fingerprint: labels.fingerprint(),
                        metric,
                        labels: labels_of_series,
                        bytes: record.len() as u64,
                        ..SeriesCount::default()
                    },
                );
            }
            ParsedKey::InvertedIndex {
                name,
                value: label_value,
                ..
            } => {
                let label = self.labels.entry(name).or_default();
                label.values.insert(xxh3_128(label_value.as_bytes()));
                label.bytes += record.len() as u64;
            }
            ParsedKey::TimeSeries { bucket, series } => {
                // A late sample that replaces one counts until it is folded in: finding out would
                // mean to decode everything.
                let samples = stored::float_count(bucket, series, value).ok()?;
                self.of_series(series.0, record)?.samples += samples as u64;
            }
            ParsedKey::HistogramSeries { bucket, series } => {
                let entries = stored::histograms(bucket, series, value).ok()?;
                let samples = entries.iter().filter(|entry| entry.value.is_some()).count();
                self.of_series(series.0, record)?.samples += samples as u64;
            }
            ParsedKey::ExemplarSeries { series, .. } => {
                let exemplars = exemplar_series::decode(value).ok()?.len();
                self.of_series(series.0, record)?.exemplars += exemplars as u64;
            }
            ParsedKey::TimeSeriesStarts { series, .. }
            | ParsedKey::HistogramSeriesStarts { series, .. } => {
                self.of_series(series.0, record)?;
            }
            _ => {}
        }
        Some(())
    }

    fn of_series(&mut self, id: u32, record: &Record) -> Option<&mut SeriesCount> {
        let series = self.series.get_mut(&id)?;
        series.bytes += record.len() as u64;
        Some(series)
    }
}

/// The number of a name; a new one is appended.
fn number(numbers: &mut HashMap<String, u32>, names: &mut Vec<String>, name: &str) -> u32 {
    if let Some(known) = numbers.get(name) {
        return *known;
    }
    let new = names.len() as u32;
    names.push(name.to_owned());
    numbers.insert(name.to_owned(), new);
    new
}

/// All buckets together.
#[derive(Default)]
struct Totals {
    sums: Statistics,
    known: HashSet<u128>,
    metrics: HashMap<String, MetricStatistics>,
    labels: HashMap<String, (LabelStatistics, HashSet<u128>)>,
}

impl Totals {
    fn add(&mut self, bucket: BucketCount) {
        self.sums.buckets += 1;
        self.sums.bytes += bucket.bytes;
        self.sums.unreadable += bucket.unreadable;
        for (name, count) in bucket.labels {
            let (label, values) = self.labels.entry(name).or_default();
            label.bytes += count.bytes;
            values.extend(count.values);
        }
        for series in bucket.series.into_values() {
            let new = u64::from(self.known.insert(series.fingerprint));
            self.sums.series += new;
            self.sums.samples += series.samples;
            self.sums.exemplars += series.exemplars;
            let metric = bucket.metrics.get(series.metric as usize);
            let metric = metric.map_or("", String::as_str);
            let metric = entry(&mut self.metrics, metric);
            metric.series += new;
            metric.samples += series.samples;
            metric.exemplars += series.exemplars;
            metric.bytes += series.bytes;
            for label in series.labels {
                let name = bucket.label_names.get(label as usize);
                let (label, _) = entry(&mut self.labels, name.map_or("", String::as_str));
                label.series += new;
                label.samples += series.samples;
            }
        }
    }

    fn rank(self, limit: usize) -> Statistics {
        let mut sums = self.sums;
        sums.metrics_total = self.metrics.len() as u64;
        sums.labels_total = self.labels.len() as u64;
        let metrics = self.metrics.into_iter();
        sums.metrics = metrics
            .map(|(name, m)| MetricStatistics { name, ..m })
            .collect();
        sums.metrics
            .sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        sums.metrics.truncate(limit);
        let labels = self
            .labels
            .into_iter()
            .map(|(name, (label, values))| LabelStatistics {
                name,
                values: values.len() as u64,
                ..label
            });
        sums.labels = labels.collect();
        sums.labels
            .sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        sums.labels.truncate(limit);
        sums
    }
}

fn entry<'m, T: Default>(map: &'m mut HashMap<String, T>, name: &str) -> &'m mut T {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), T::default());
    }
    map.get_mut(name).expect("it was inserted if it was absent")
}
