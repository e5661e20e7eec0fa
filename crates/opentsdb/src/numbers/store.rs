//! Stores that keep how numbers were written.

use std::sync::Arc;
use std::time::Duration;

use icecore_model::{
    AppendError, BoxFuture, CatalogChange, Discard, Exemplar, Fill, Histogram, Levels, Metadata,
    NumberForm, PendingWrite, RawLabels, Sample, SampleSink, SampleStore, Selection, SeriesSamples,
    SeriesSource, SeriesStream, SourceError, StoreError,
};

use super::registry::{Expected, Numbers};

/// Points go to a store of floats, their forms in place of start timestamps; both come back
/// together.
pub(crate) struct NumberStore {
    pub(crate) points: Arc<dyn SampleStore>,
    pub(crate) series: Arc<dyn SeriesSource>,
    pub(crate) numbers: Arc<Numbers>,
}

impl SampleStore for NumberStore {
    fn append_boxed(
        &self,
        patience: Duration,
        fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, AppendError<Discard>>> {
        let numbers = Arc::clone(&self.numbers);
        let with_numbers: Fill = Box::new(move |sink| {
            fill(&mut NumberSink {
                sink,
                numbers: &numbers,
                labels: Vec::new(),
                expected: None,
            })
        });
        self.points.append_boxed(patience, with_numbers)
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.points.barrier()
    }
}

struct NumberSink<'a> {
    sink: &'a mut dyn SampleSink,
    numbers: &'a Numbers,
    /// Of the series announced last.
    labels: Vec<u8>,
    expected: Option<Expected<'a>>,
}

impl NumberSink<'_> {
    fn announce(&mut self, labels: &[u8]) {
        self.labels.clear();
        self.labels.extend_from_slice(labels);
        self.expected = None;
    }
}

impl SampleSink for NumberSink<'_> {
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = self.sink.guess_series(bytes)?;
        self.announce(bytes.get(..length).unwrap_or_default());
        Some(length)
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        self.announce(labels.0);
        self.sink.series(labels);
    }

    fn sample(&mut self, sample: Sample) {
        self.sink.sample(sample);
    }

    fn number(&mut self, sample: Sample, form: NumberForm) {
        // The unit of a whole second is not kept: no answer depends on it.
        let form = form.with_milliseconds(false);
        let (numbers, labels) = (self.numbers, &self.labels);
        let expected = self
            .expected
            .get_or_insert_with(|| numbers.expected(labels));
        let is_expected = expected.form(sample.timestamp_ms, sample.value) == form;
        self.sink.sample(Sample {
            start_timestamp_ms: if is_expected { 0 } else { form.as_start() },
            ..sample
        });
    }

    fn histogram(&mut self, timestamp_ms: i64, start_timestamp_ms: i64, histogram: Histogram) {
        self.sink
            .histogram(timestamp_ms, start_timestamp_ms, histogram);
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        self.sink.exemplar(exemplar);
    }

    fn point(&mut self) {
        self.sink.point();
    }

    fn metadata(&mut self, family: &str, metadata: Metadata) {
        self.sink.metadata(family, metadata);
    }

    fn catalog(&mut self, change: CatalogChange) {
        self.sink.catalog(change);
    }

    fn reject(&mut self, reason: String) {
        self.sink.reject(reason);
    }
}

impl SeriesSource for NumberStore {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        if !selection.hints.forms {
            return self.series.select(selection);
        }
        Box::pin(async move {
            let stream = self.series.select(selection).await?;
            let numbers = Arc::clone(&self.numbers);
            Ok(Box::new(NumberStream { stream, numbers }) as Box<dyn SeriesStream>)
        })
    }
}

struct NumberStream {
    stream: Box<dyn SeriesStream>,
    numbers: Arc<Numbers>,
}

impl SeriesStream for NumberStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        Box::pin(async move {
            let mut batch = self.stream.next_batch().await?;
            for series in batch.iter_mut().flatten() {
                let samples = (&*series.floats.timestamps, &*series.floats.values);
                let starts = &series.start_timestamps;
                series.forms = self.numbers.forms(&series.labels, samples, starts);
            }
            Ok(batch)
        })
    }

    fn levels(&self) -> Vec<Arc<Levels>> {
        self.stream.levels()
    }

    fn kept_since_ms(&self) -> Option<i64> {
        self.stream.kept_since_ms()
    }
}
