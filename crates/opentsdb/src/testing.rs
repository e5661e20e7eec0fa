//! Stores in memory, for tests.

mod rolled;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::channel::oneshot;
use icecore_model::{
    AppendError, BoxFuture, Catalog, CatalogChange, CatalogRecord, Discard, Exemplar, Fill,
    FloatColumns, Histogram, HistogramSample, Labels, Levels, Matcher, Metadata, NumberForm,
    NumberForms, PendingWrite, RawLabels, Sample, SampleSink, SampleStore, Selection,
    SeriesSamples, SeriesSource, SeriesStream, SourceError, StoreError, TimeColumn, WriteOutcome,
};
use parking_lot::Mutex;

pub use rolled::KeptTime;
use rolled::RolledSelection;

use crate::label_names::LabelIndex;
use crate::tsd::{PointDeletion, Stores};

/// Points, series and records in maps.
#[derive(Default)]
pub struct MemoryStore {
    content: Mutex<Content>,
    /// Appends that fail from now on.
    refusals: AtomicUsize,
    /// Appends that succeed before those.
    successes: AtomicUsize,
    /// Samples of an append; 0 for any number.
    samples_max: AtomicUsize,
    /// Set while the next append is to be held.
    holds_next: AtomicBool,
    held: Mutex<HeldAppends>,
}

/// Appends that are filled and not taken yet.
#[derive(Default)]
struct HeldAppends {
    count: usize,
    release: Vec<oneshot::Sender<()>>,
    /// Barriers that wait for them.
    barriers: Vec<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Content {
    kept: Vec<KeptTime>,
    series: BTreeMap<Labels, SeriesContent>,
    catalog: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Default)]
struct SeriesContent {
    floats: BTreeMap<i64, f64>,
    /// Of the floats that have one.
    starts: BTreeMap<i64, i64>,
    histograms: BTreeMap<i64, Arc<Histogram>>,
}

impl MemoryStore {
    /// One store for everything.
    pub fn stores() -> Stores {
        Arc::new(Self::default()).all()
    }

    /// From now on these parts of time are kept so.
    pub fn keep(&self, kept: Vec<KeptTime>) {
        self.content.lock().kept = kept;
    }

    /// Whether appends fail from now on, after they were filled.
    pub fn refuse_appends(&self, refuses: bool) {
        let refusals = if refuses { usize::MAX } else { 0 };
        self.refuse_next(refusals);
    }

    /// So many appends fail from now on, after they were filled.
    pub fn refuse_next(&self, appends: usize) {
        self.refusals.store(appends, Ordering::SeqCst);
    }

    /// So many appends succeed from now on, and the one behind them fails.
    pub fn refuse_after(&self, appends: usize) {
        self.successes.store(appends, Ordering::SeqCst);
        self.refuse_next(1);
    }

    /// From now on, appends with more samples fail.
    pub fn limit_samples(&self, max: usize) {
        self.samples_max.store(max, Ordering::SeqCst);
    }

    /// Holds the next append once it is filled, until it is released.
    pub fn hold_next(&self) {
        self.holds_next.store(true, Ordering::SeqCst);
    }

    /// Lets the appends go on that are held.
    pub fn release(&self) {
        for held in self.held.lock().release.drain(..) {
            // Its caller may have gone.
            let _ = held.send(());
        }
    }

    /// Waits for the release of an append, if it is to be held; returns `true` if it was.
    async fn wait_for_release(&self) -> bool {
        if !self.holds_next.swap(false, Ordering::SeqCst) {
            return false;
        }
        let (release, released) = oneshot::channel();
        {
            let mut held = self.held.lock();
            held.count += 1;
            held.release.push(release);
        }
        let _ = released.await;
        true
    }

    /// Ends what [`Self::wait_for_release`] has begun, after the content was taken.
    fn append_ended(&self, was_held: bool) {
        let mut held = self.held.lock();
        held.count -= usize::from(was_held);
        if held.count == 0 {
            for barrier in held.barriers.drain(..) {
                let _ = barrier.send(());
            }
        }
    }

    fn check(&self, sink: &MemorySink) -> Result<(), AppendError<Discard>> {
        // Whether one was left of what is counted down; the greatest number never ends.
        let is_left = |counter: &AtomicUsize| {
            let next = |left: usize| match left {
                0 => None,
                usize::MAX => Some(left),
                _ => Some(left - 1),
            };
            let counted = counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
            counted.is_ok()
        };
        if !is_left(&self.successes) && is_left(&self.refusals) {
            return Err(StoreError("appends are refused".into()).into());
        }
        let max = self.samples_max.load(Ordering::SeqCst);
        if max > 0 && sink.outcome.samples > max as u64 {
            let reason = "too many samples: split it";
            return Err(AppendError::Refused(StoreError(reason.into())));
        }
        Ok(())
    }

    /// This store for everything.
    pub fn all(self: Arc<Self>) -> Stores {
        let store = self;
        Stores {
            points: store.clone(),
            series: store.clone(),
            catalog: store.clone(),
            deletion: store.clone(),
            labels: store,
        }
    }
}

impl SampleStore for MemoryStore {
    fn append_boxed(
        &self,
        _: Duration,
        fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, AppendError<Discard>>> {
        Box::pin(async move {
            let mut sink = MemorySink::default();
            fill(&mut sink)?;
            self.check(&sink)?;
            let was_held = self.wait_for_release().await;
            let outcome = std::mem::take(&mut sink.outcome);
            self.content.lock().take(sink);
            self.append_ended(was_held);
            Ok(PendingWrite {
                outcome,
                commit: Box::pin(async { Ok(()) }),
            })
        })
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (ended, has_ended) = oneshot::channel();
            {
                let mut held = self.held.lock();
                if held.count == 0 {
                    return Ok(());
                }
                held.barriers.push(ended);
            }
            let ended = has_ended.await;
            ended.map_err(|_| StoreError("an append was dropped".into()))
        })
    }
}

impl Content {
    fn take(&mut self, filled: MemorySink) {
        for (labels, fresh) in filled.series {
            let series = self.series.entry(labels).or_default();
            series
                .starts
                .retain(|time, _| !fresh.floats.contains_key(time));
            series.starts.extend(fresh.starts);
            series.floats.extend(fresh.floats);
            series.histograms.extend(fresh.histograms);
        }
        for CatalogChange { key, value } in filled.changes {
            match value {
                Some(value) => self.catalog.insert(key, value),
                None => self.catalog.remove(&key),
            };
        }
    }
}

/// What one append brings.
#[derive(Default)]
struct MemorySink {
    series: BTreeMap<Labels, SeriesContent>,
    changes: Vec<CatalogChange>,
    labels: Option<Labels>,
    outcome: WriteOutcome,
}

impl MemorySink {
    fn series_content(&mut self) -> &mut SeriesContent {
        let labels = self.labels.clone().expect("a series is announced first");
        self.series.entry(labels).or_default()
    }
}

impl SampleSink for MemorySink {
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
        let series = self.series_content();
        series.floats.insert(sample.timestamp_ms, sample.value);
        match sample.start_timestamp_ms {
            0 => drop(series.starts.remove(&sample.timestamp_ms)),
            start_ms => drop(series.starts.insert(sample.timestamp_ms, start_ms)),
        }
    }

    fn histogram(&mut self, timestamp_ms: i64, _: i64, histogram: Histogram) {
        self.outcome.histograms += 1;
        let histograms = &mut self.series_content().histograms;
        histograms.insert(timestamp_ms, Arc::new(histogram));
    }

    fn exemplar(&mut self, _: Exemplar) {}

    fn metadata(&mut self, _: &str, _: Metadata) {}

    fn catalog(&mut self, change: CatalogChange) {
        self.changes.push(change);
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
                series.starts.retain(|time, _| is_kept(time));
                series.histograms.retain(|time, _| is_kept(time));
            }
        }
        Box::pin(async { Ok(()) })
    }
}

impl LabelIndex for MemoryStore {
    fn names(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        let names = self.labels(|name, _| Some(name), limit);
        Box::pin(async move { Ok(names) })
    }

    fn values<'a>(
        &'a self,
        label: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let values = self.labels(|name, value| (name == label).then_some(value), limit);
        Box::pin(async move { Ok(values) })
    }
}

impl MemoryStore {
    /// What is picked of the labels of all series, sorted.
    fn labels(
        &self,
        pick: impl for<'l> Fn(&'l str, &'l str) -> Option<&'l str>,
        limit: usize,
    ) -> Vec<String> {
        let content = self.content.lock();
        let pairs = content.series.keys().flat_map(|labels| labels.iter());
        let picked: BTreeSet<&str> = pairs
            .filter_map(|(name, value)| pick(name, value))
            .collect();
        picked.into_iter().take(limit).map(String::from).collect()
    }
}

impl SeriesSource for MemoryStore {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        let content = self.content.lock();
        let rolled =
            (!content.kept.is_empty()).then(|| RolledSelection::new(&content.kept, &selection));
        let mut selected = Vec::new();
        for (labels, series) in &content.series {
            let fits = |m: &Matcher| m.matches(labels.get(m.name()).unwrap_or_default());
            if !selection.matchers.iter().all(fits) {
                continue;
            }
            let mut found = match &rolled {
                None => series.read(labels, selection.start_ms..=selection.end_ms),
                Some(rolled) => rolled.read(series.read(labels, i64::MIN..=i64::MAX)),
            };
            if !selection.hints.forms {
                let is_time = |start_ms| NumberForm::of_start(start_ms).is_none();
                found.start_timestamps.retain(|start| is_time(start.1));
            }
            let windows = found.rolled.as_ref();
            if found.sample_count() > 0 || windows.is_some_and(|windows| !windows.is_empty()) {
                selected.push(found);
            }
        }
        let stream: Box<dyn SeriesStream> = Box::new(MemoryStream {
            selected: Some(selected),
            levels: rolled.iter().map(RolledSelection::levels).collect(),
        });
        Box::pin(async move { Ok(stream) })
    }
}

impl SeriesContent {
    fn read(&self, labels: &Labels, times: RangeInclusive<i64>) -> SeriesSamples {
        let floats: Vec<_> = self.floats.range(times.clone()).collect();
        let starts = self.starts.range(times.clone());
        let starts = starts.map(|(time, start_ms)| (*time, *start_ms));
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
            start_timestamps: starts.collect(),
            forms: NumberForms::default(),
            rolled: None,
        }
    }
}

struct MemoryStream {
    selected: Option<Vec<SeriesSamples>>,
    levels: Vec<Arc<Levels>>,
}

impl SeriesStream for MemoryStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        let batch = self.selected.take();
        Box::pin(async move { Ok(batch) })
    }

    fn levels(&self) -> Vec<Arc<Levels>> {
        self.levels.clone()
    }
}
