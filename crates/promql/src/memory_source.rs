//! Series in memory, for scripts and tests.
//!
//! Holds always: samples of a series are in time order; of several with one timestamp the last
//! loaded counts.

use std::collections::BTreeMap;
use std::vec;

use icecore_model::{
    BoxFuture, FloatColumns, HistogramSample, Labels, Selection, SeriesSamples, SeriesSource,
    SeriesStream, SourceError, TimeColumn,
};

use crate::script::{Backend, LoadedSample, LoadedSeries, LoadedValue};

/// Series of one batch of a stream.
const BATCH_SERIES: usize = 256;

/// All series with their samples.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    series: BTreeMap<Labels, Vec<LoadedSample>>,
}

impl MemorySource {
    /// Adds a sample; it replaces one of the same time.
    pub fn add(&mut self, labels: &Labels, sample: LoadedSample) {
        match self.series.get_mut(labels) {
            Some(samples) => insert(samples, sample),
            None => {
                self.series.insert(labels.clone(), vec![sample]);
            }
        }
    }

    pub(crate) fn read(&self, selection: &Selection) -> Result<Vec<SeriesSamples>, SourceError> {
        let mut selected: Vec<SeriesSamples> = Vec::new();
        let mut count = 0;
        for (labels, samples) in &self.series {
            if selection
                .hints
                .series_limit
                .is_some_and(|limit| selected.len() >= limit)
            {
                break;
            }
            let fits = |matcher: &icecore_model::Matcher| {
                matcher.matches(labels.get(matcher.name()).unwrap_or_default())
            };
            if !selection.matchers.iter().all(fits) {
                continue;
            }
            let start = samples.partition_point(|s| s.timestamp_ms < selection.start_ms);
            let end = samples.partition_point(|s| s.timestamp_ms <= selection.end_ms);
            let Some(in_range) = samples.get(start..end).filter(|s| !s.is_empty()) else {
                continue;
            };
            let samples = if selection.hints.labels_only {
                &[]
            } else {
                in_range
            };
            count += samples.len();
            if selection
                .hints
                .samples_limit
                .is_some_and(|limit| count > limit)
            {
                return Err(SourceError::LimitReached(
                    "too many samples selected".to_owned(),
                ));
            }
            let previous = selected.last().map(|series| &series.floats.timestamps);
            selected.push(columns(labels, samples, previous));
        }
        Ok(selected)
    }
}

fn insert(samples: &mut Vec<LoadedSample>, sample: LoadedSample) {
    let index = samples.partition_point(|s| s.timestamp_ms < sample.timestamp_ms);
    match samples.get_mut(index) {
        Some(same) if same.timestamp_ms == sample.timestamp_ms => *same = sample,
        _ => samples.insert(index, sample),
    }
}

/// The samples as columns. Equal timestamps are shared with the series before, as in a real store.
fn columns(
    labels: &Labels,
    samples: &[LoadedSample],
    previous: Option<&TimeColumn>,
) -> SeriesSamples {
    let mut timestamps = Vec::with_capacity(samples.len());
    let mut values = Vec::with_capacity(samples.len());
    let mut histograms = Vec::new();
    let mut start_timestamps = Vec::new();
    for sample in samples {
        match &sample.value {
            LoadedValue::Float(value) => {
                timestamps.push(sample.timestamp_ms);
                values.push(*value);
            }
            LoadedValue::Histogram(histogram) => histograms.push(HistogramSample {
                timestamp_ms: sample.timestamp_ms,
                histogram: histogram.clone(),
            }),
        }
        if let Some(start) = sample.start_ms {
            start_timestamps.push((sample.timestamp_ms, start));
        }
    }
    let timestamps = match previous {
        Some(shared) if **shared == *timestamps => shared.clone(),
        _ => TimeColumn::from(timestamps),
    };
    SeriesSamples {
        labels: labels.clone(),
        floats: FloatColumns { timestamps, values },
        histograms,
        start_timestamps,
        forms: Default::default(),
        rolled: None,
    }
}

impl Backend for MemorySource {
    fn load(&mut self, batch: &[LoadedSeries]) -> Result<(), String> {
        for series in batch {
            for sample in &series.samples {
                self.add(&series.labels, sample.clone());
            }
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), String> {
        self.series.clear();
        Ok(())
    }

    fn source(&self) -> &dyn SeriesSource {
        self
    }
}

impl SeriesSource for MemorySource {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        Box::pin(async move {
            let selected = self.read(&selection)?.into_iter();
            Ok(Box::new(MemoryStream { selected }) as Box<dyn SeriesStream>)
        })
    }
}

struct MemoryStream {
    selected: vec::IntoIter<SeriesSamples>,
}

impl SeriesStream for MemoryStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        let batch: Vec<_> = self.selected.by_ref().take(BATCH_SERIES).collect();
        Box::pin(async move { Ok(Some(batch).filter(|batch| !batch.is_empty())) })
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use icecore_model::{MatchOp, Matcher, SelectHints};

    use super::*;

    fn sample(timestamp_ms: i64, value: f64) -> LoadedSample {
        LoadedSample {
            timestamp_ms,
            value: LoadedValue::Float(value),
            start_ms: None,
        }
    }

    fn labels(name: &str, value: &str) -> Labels {
        Labels::from_pairs([("__name__", name), ("a", value)])
    }

    fn select(
        source: &MemorySource,
        selection: Selection,
    ) -> Result<Vec<SeriesSamples>, SourceError> {
        block_on(async {
            let mut stream = source.select(selection).await?;
            let mut all = Vec::new();
            while let Some(batch) = stream.next_batch().await? {
                all.extend(batch);
            }
            Ok(all)
        })
    }

    fn of(matchers: Vec<Matcher>, start_ms: i64, end_ms: i64) -> Selection {
        Selection {
            matchers,
            start_ms,
            end_ms,
            hints: SelectHints::default(),
        }
    }

    #[test]
    fn late_and_repeated_samples() {
        let mut source = MemorySource::default();
        for (time, value) in [(3, 3.0), (1, 1.0), (2, 2.0), (1, 9.0)] {
            source.add(&labels("m", "x"), sample(time, value));
        }
        let all = select(&source, of(vec![Matcher::equal("__name__", "m")], 0, 2)).unwrap();
        assert_eq!(&*all[0].floats.timestamps, [1, 2]);
        assert_eq!(all[0].floats.values, [9.0, 2.0]);
        source.clear().unwrap();
        assert!(select(&source, of(Vec::new(), 0, 9)).unwrap().is_empty());
    }

    #[test]
    fn matchers_and_limits() {
        let mut source = MemorySource::default();
        for i in 0..1000 {
            source.add(&labels("m", &i.to_string()), sample(5, 1.0));
        }
        source.add(&labels("n", ""), sample(6, 1.0));
        assert_eq!(select(&source, of(Vec::new(), 0, 9)).unwrap().len(), 1001);
        let empty = Matcher::new(MatchOp::NotRegex, "a", ".+").unwrap();
        let all = select(&source, of(vec![empty], 0, 9)).unwrap();
        assert_eq!(all[0].labels.to_string(), "n");
        assert!(select(&source, of(Vec::new(), 7, 9)).unwrap().is_empty());
        let mut limited = of(Vec::new(), 0, 9);
        limited.hints.series_limit = Some(3);
        let three = select(&source, limited.clone()).unwrap();
        assert_eq!(three.len(), 3);
        assert_eq!(
            three[0].floats.timestamps.identity(),
            three[1].floats.timestamps.identity()
        );
        limited.hints.samples_limit = Some(2);
        assert!(select(&source, limited).is_err());
    }
}
