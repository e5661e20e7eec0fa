//! Stores in memory, for tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::{
    BoxFuture, Catalog, CatalogChange, CatalogRecord, Exemplar, Fill, FloatColumns, Histogram,
    HistogramSample, Labels, Matcher, Metadata, NumberForms, PendingWrite, RawLabels, Sample,
    SampleSink, SampleStore, Selection, SeriesSamples, SeriesSource, SeriesStream, SourceError,
    StoreError, TimeColumn, WriteOutcome,
};
use parking_lot::Mutex;

use crate::tsd::{PointDeletion, Stores};

/// Points, series and records in maps.
#[derive(Default)]
pub struct MemoryStore {
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    series: BTreeMap<Labels, SeriesContent>,
    catalog: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Default)]
struct SeriesContent {
    floats: BTreeMap<i64, f64>,
    histograms: BTreeMap<i64, Arc<Histogram>>,
}

impl MemoryStore {
    /// One store for everything.
    pub fn stores() -> Stores {
        let store = Arc::new(Self::default());
        Stores {
            points: store.clone(),
            series: store.clone(),
            catalog: store.clone(),
            deletion: store,
        }
    }
}

impl SampleStore for MemoryStore {
    fn append_boxed(
        &self,
        _: Duration,
        fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, StoreError>> {
        Box::pin(async move {
            let mut content = self.content.lock();
            let mut sink = MemorySink {
                content: &mut content,
                labels: None,
                outcome: WriteOutcome::default(),
            };
            fill(&mut sink)?;
            Ok(PendingWrite {
                outcome: sink.outcome,
                commit: Box::pin(async { Ok(()) }),
            })
        })
    }
}

struct MemorySink<'a> {
    content: &'a mut Content,
    labels: Option<Labels>,
    outcome: WriteOutcome,
}

impl MemorySink<'_> {
    fn series_content(&mut self) -> &mut SeriesContent {
        let labels = self.labels.clone().expect("a series is announced first");
        self.content.series.entry(labels).or_default()
    }
}

impl SampleSink for MemorySink<'_> {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        let mut pairs = Vec::new();
        labels.parse(&mut pairs).expect("labels are well-formed");
        self.labels = Some(Labels::from_pairs(pairs));
    }

    fn sample(&mut self, sample: Sample) {
        self.outcome.samples += 1;
        let floats = &mut self.series_content().floats;
        floats.insert(sample.timestamp_ms, sample.value);
    }

    fn histogram(&mut self, timestamp_ms: i64, _: i64, histogram: Histogram) {
        self.outcome.histograms += 1;
        let histograms = &mut self.series_content().histograms;
        histograms.insert(timestamp_ms, Arc::new(histogram));
    }

    fn exemplar(&mut self, _: Exemplar) {}

    fn metadata(&mut self, _: &str, _: Metadata) {}

    fn catalog(&mut self, change: CatalogChange) {
        let CatalogChange { key, value } = change;
        match value {
            Some(value) => self.content.catalog.insert(key, value),
            None => self.content.catalog.remove(&key),
        };
    }

    fn reject(&mut self, reason: String) {
        panic!("rejected: {reason}");
    }
}

impl Catalog for MemoryStore {
    fn range(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<CatalogRecord>, StoreError>> {
        let content = self.content.lock();
        let records = content.catalog.range(keys).take(limit);
        let records = records.map(|(key, value)| (key.clone(), value.clone()));
        let records = Ok(records.collect());
        Box::pin(async move { records })
    }
}

impl PointDeletion for MemoryStore {
    fn delete(
        &self,
        selectors: Vec<Vec<Matcher>>,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut content = self.content.lock();
        for (labels, series) in &mut content.series {
            let fits = |m: &Matcher| m.matches(labels.get(m.name()).unwrap_or_default());
            if selectors.iter().any(|matchers| matchers.iter().all(fits)) {
                let is_kept = |time: &i64| !(start_ms..=end_ms).contains(time);
                series.floats.retain(|time, _| is_kept(time));
                series.histograms.retain(|time, _| is_kept(time));
            }
        }
        Box::pin(async { Ok(()) })
    }
}

impl SeriesSource for MemoryStore {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        let content = self.content.lock();
        let mut selected = Vec::new();
        for (labels, series) in &content.series {
            let fits = |m: &Matcher| m.matches(labels.get(m.name()).unwrap_or_default());
            if !selection.matchers.iter().all(fits) {
                continue;
            }
            let found = series.read(labels, &selection);
            if found.sample_count() > 0 {
                selected.push(found);
            }
        }
        let stream: Box<dyn SeriesStream> = Box::new(MemoryStream(Some(selected)));
        Box::pin(async move { Ok(stream) })
    }
}

impl SeriesContent {
    fn read(&self, labels: &Labels, selection: &Selection) -> SeriesSamples {
        let times = selection.start_ms..=selection.end_ms;
        let floats: Vec<_> = self.floats.range(times.clone()).collect();
        let histograms = self.histograms.range(times);
        SeriesSamples {
            labels: labels.clone(),
            floats: FloatColumns {
                timestamps: TimeColumn::from(floats.iter().map(|f| *f.0).collect::<Vec<_>>()),
                values: floats.iter().map(|f| *f.1).collect(),
            },
            histograms: histograms
                .map(|(timestamp_ms, histogram)| HistogramSample {
                    timestamp_ms: *timestamp_ms,
                    histogram: Arc::clone(histogram),
                })
                .collect(),
            start_timestamps: Vec::new(),
            forms: NumberForms::default(),
            rolled: None,
        }
    }
}

struct MemoryStream(Option<Vec<SeriesSamples>>);

impl SeriesStream for MemoryStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        let batch = self.0.take();
        Box::pin(async move { Ok(batch) })
    }
}
