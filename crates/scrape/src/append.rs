//! One body becomes samples: text → series by the cache, limits, staleness.
//!
//! Holds always:
//! - A body that cannot be read to its end, or that exceeds a limit of its job, is an error, and
//!   its caller stores nothing of it.
//! - A series that the previous scrape had allocates nothing and reads no label.
//! - Of a series that a body has twice at one time, the first sample counts, as in Prometheus.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{Hash as _, Hasher as _};

use icecore_model::{Exemplar, Sample, SampleSink, is_stale_nan};
use icecore_wire::exposition::{
    Entry, ExposedExemplar, Format, Parser, ParserOptions, Series, SeriesValue,
};
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

use super::cache::SeriesIndex;
use super::config::ScrapeConfig;
use super::report::{Counts, announce};
use super::resolution;
use super::resolve::resolve;
use super::series::TargetSeries;
use super::target::HistogramOverrides;

/// Why nothing of a scrape is stored, in Prometheus' words where it has them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum BodyError {
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Limit(String),
}

/// What a job says about bodies, in the form in which it is used.
pub(super) struct Rules {
    pub(super) config: std::sync::Arc<ScrapeConfig>,
    /// The finest schema of native histograms.
    schema_max: i8,
}

impl Rules {
    pub(super) fn new(config: std::sync::Arc<ScrapeConfig>) -> Self {
        let schema_max = resolution::schema_of_factor(config.native_histogram_min_bucket_factor);
        Self { config, schema_max }
    }
}

/// A body to read.
pub(super) struct Page<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) format: Format,
    pub(super) histograms: HistogramOverrides,
}

/// Writes what a body says to the sink, ends what it no longer has, and counts, whatever the
/// result.
pub(super) fn append(
    rules: &Rules,
    series: &mut TargetSeries,
    page: &Page<'_>,
    timestamp_ms: i64,
    counts: &mut Counts,
    sink: &mut dyn SampleSink,
) -> Result<(), BodyError> {
    let (config, of_target) = (&rules.config, page.histograms);
    let scrape_native = (of_target.scrape_native).unwrap_or(config.scrape_native_histograms);
    let always_classic =
        (of_target.always_classic).unwrap_or(config.always_scrape_classic_histograms);
    let options = ParserOptions {
        created_timestamps: config.start_timestamps,
        classic_beside_native: always_classic,
        classic_to_custom_bounds: (of_target.convert_classic)
            .unwrap_or(config.convert_classic_histograms_to_nhcb),
        ignore_native: !scrape_native,
    };
    let mut parser = Parser::with_options(page.bytes, page.format, options);
    let mut appender = Appender {
        rules,
        series,
        timestamp_ms,
        appended: 0,
        labels: Vec::new(),
        further_times: HashSet::new(),
    };
    loop {
        let entry = parser.next();
        match entry.map_err(|error| BodyError::Malformed(error.to_string()))? {
            None => break,
            Some(Entry::Series(exposed)) => appender.sample(exposed, counts, sink)?,
            Some(Entry::Type {
                family,
                metric_type,
            }) => appender.series.families.set_type(&family, metric_type),
            Some(Entry::Help { family, text }) => appender.series.families.set_help(&family, &text),
            Some(Entry::Unit { family, unit }) => appender.series.families.set_unit(&family, &unit),
        }
    }
    if appender.over_limit() {
        return Err(BodyError::Limit("sample limit exceeded".into()));
    }
    series.end_others(timestamp_ms, sink);
    series.families.write(sink);
    Ok(())
}

struct Appender<'a> {
    rules: &'a Rules,
    series: &'a mut TargetSeries,
    timestamp_ms: i64,
    /// Samples that count for `sample_limit`.
    appended: u64,
    /// Label bytes of a new series.
    labels: Vec<u8>,
    /// Times of series that the body has several times, but for the first.
    further_times: HashSet<(SeriesIndex, i64)>,
}

impl Appender<'_> {
    #[inline]
    fn sample(
        &mut self,
        exposed: Series<'_>,
        counts: &mut Counts,
        sink: &mut dyn SampleSink,
    ) -> Result<(), BodyError> {
        counts.scraped += 1;
        let Some(series) = self.series_of(&exposed, counts)? else {
            return Ok(());
        };
        counts.kept += 1;
        let config = &self.rules.config;
        let own_ms = exposed.timestamp_ms.filter(|_| config.honor_timestamps);
        let is_histogram = matches!(exposed.value, SeriesValue::Histogram(_));
        let tracked = own_ms.is_none() || config.track_timestamps_staleness;
        let timestamp_ms = own_ms.unwrap_or(self.timestamp_ms);
        let cache = &mut self.series.cache;
        if let Some(first_ms) = cache.mark(series, timestamp_ms, tracked, is_histogram)
            && (own_ms.is_none() || !self.is_new_time(series, first_ms, timestamp_ms))
        {
            counts.duplicates += 1;
            return Ok(());
        }
        self.appended += u64::from(!is_stale(&exposed.value));
        if self.over_limit() {
            // Reading continues, so that the report has the full count.
            return Ok(());
        }
        announce(sink, self.series.cache.labels(series));
        let exemplars = exposed.exemplars();
        let created_ms = exposed.created_ms.filter(|_| config.start_timestamps);
        let start_timestamp_ms = created_ms.unwrap_or(0);
        match exposed.value {
            SeriesValue::Float(value) => sink.sample(Sample {
                timestamp_ms,
                value,
                start_timestamp_ms,
            }),
            SeriesValue::Histogram(mut histogram) => {
                let buckets_max = config.native_histogram_bucket_limit;
                resolution::limit(&mut histogram, self.rules.schema_max, buckets_max)
                    .map_err(|reason| BodyError::Limit(reason.into()))?;
                sink.histogram(timestamp_ms, start_timestamp_ms, histogram);
            }
        }
        for exemplar in exemplars {
            match exemplar {
                Ok(exemplar) => self.exemplar(series, exemplar, timestamp_ms, sink),
                Err(reason) => sink.reject(reason.into()),
            }
        }
        Ok(())
    }

    /// Whether a series that the body has again has another time than before.
    fn is_new_time(&mut self, series: SeriesIndex, first_ms: i64, timestamp_ms: i64) -> bool {
        timestamp_ms != first_ms && self.further_times.insert((series, timestamp_ms))
    }

    /// The series that a text stands for; `None` when relabelling drops it.
    #[inline]
    fn series_of(
        &mut self,
        exposed: &Series<'_>,
        counts: &mut Counts,
    ) -> Result<Option<SeriesIndex>, BodyError> {
        let hash = self.series.cache.hash(exposed.text);
        if let Some(known) = self.series.cache.find(hash) {
            return Ok(known);
        }
        let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
        exposed
            .labels(&mut pairs)
            .map_err(|error| BodyError::Malformed(error.to_string()))?;
        let target = &self.series.labels;
        let kept = resolve(&self.rules.config, target, &pairs, &mut self.labels);
        let kept = kept.map_err(BodyError::Limit)?;
        counts.added += u64::from(kept);
        let labels = kept.then_some(self.labels.as_slice());
        Ok(self.series.cache.insert(hash, labels))
    }

    fn exemplar(
        &mut self,
        series: SeriesIndex,
        exemplar: ExposedExemplar,
        timestamp_ms: i64,
        sink: &mut dyn SampleSink,
    ) {
        // One without a time of its own is exposed again and again: it is stored once.
        if exemplar.timestamp_ms.is_none() {
            let mut hash = Xxh3::new();
            exemplar.labels.fingerprint().hash(&mut hash);
            exemplar.value.to_bits().hash(&mut hash);
            if !self.series.cache.exemplar_is_new(series, hash.finish()) {
                return;
            }
        }
        sink.exemplar(Exemplar {
            labels: exemplar.labels,
            timestamp_ms: exemplar.timestamp_ms.unwrap_or(timestamp_ms),
            value: exemplar.value,
        });
    }

    fn over_limit(&self) -> bool {
        let limit = self.rules.config.sample_limit;
        limit > 0 && self.appended > limit
    }
}

fn is_stale(value: &SeriesValue) -> bool {
    match value {
        SeriesValue::Float(value) => is_stale_nan(*value),
        SeriesValue::Histogram(histogram) => histogram.is_stale(),
    }
}

#[cfg(test)]
mod tests;
