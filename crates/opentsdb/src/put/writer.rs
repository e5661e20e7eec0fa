//! Writes the points of one request to a sink.

use icecore_model::{CatalogChange, RawLabels, SampleSink};
use parking_lot::RwLockReadGuard;

use super::error::PutError;
use super::point::sample;
use super::series::{Naming, SeriesText};
use crate::config::Config;
use crate::counters::Counters;
use crate::refusals::RefusalTally;
use crate::rollup::RollupConfig;
use crate::series_cache::{SeriesCache, SeriesTable};
use crate::uid::{Tsuid, Uids};

/// The most bytes that the text of a series has in ordinary requests.
const KEY_BYTES: usize = 512;

pub(crate) struct PointWriter<'a> {
    pub(super) sink: &'a mut dyn SampleSink,
    pub(super) naming: Naming<'a>,
    pub(super) rollups: Option<&'a RollupConfig>,
    known: RwLockReadGuard<'a, SeriesTable>,
    pub(super) learned: Learned,
    /// The text of the current series; kept for its allocation.
    key: Vec<u8>,
    pub(super) tally: Tally,
}

/// What a request did, for statistics.
#[derive(Default)]
pub(super) struct Tally {
    points: u64,
    pub(super) rollups: u64,
    pub(super) histograms: u64,
    invalid_values: u64,
    illegal_arguments: u64,
    unknown_metrics: u64,
    pub(super) refusals: RefusalTally,
}

impl Tally {
    pub(super) fn add_to(&self, counters: &Counters) {
        counters.points_received.add(self.points);
        counters.rollups_received.add(self.rollups);
        counters.histograms_received.add(self.histograms);
        counters.invalid_values.add(self.invalid_values);
        counters.illegal_arguments.add(self.illegal_arguments);
        counters.unknown_metrics.add(self.unknown_metrics);
    }
}

/// What a request brought that was not known.
pub(super) struct Learned {
    /// Its series, known to all once the request is durable.
    pub(super) series: SeriesTable,
    pub(super) tsuids: Vec<Tsuid>,
    /// Its names, which are stored with it.
    pub(super) changes: Vec<CatalogChange>,
}

impl<'a> PointWriter<'a> {
    pub(super) fn new(
        sink: &'a mut dyn SampleSink,
        config: &'a Config,
        uids: &'a Uids,
        cache: &'a SeriesCache,
        rollups: Option<&'a RollupConfig>,
    ) -> Self {
        let known = cache.read(uids.renames());
        Self {
            sink,
            naming: Naming { config, uids },
            rollups,
            learned: Learned {
                series: known.empty(),
                tsuids: Vec::new(),
                changes: Vec::new(),
            },
            known,
            key: Vec::with_capacity(KEY_BYTES),
            tally: Tally::default(),
        }
    }

    /// Writes a point whose time is in seconds or milliseconds.
    pub(crate) fn write(
        &mut self,
        series: SeriesText<'_>,
        timestamp: i64,
        value: &str,
    ) -> Result<(), PutError> {
        self.tally.points += 1;
        self.key.clear();
        series.push_key(&mut self.key);
        let hash = self.known.hash(&self.key);
        let known = self.known.get(hash, &self.key);
        let known = known.or_else(|| self.learned.series.get(hash, &self.key));
        if let Some(labels) = known {
            let (sample, form) = sample(series, timestamp, value)?;
            announce(self.sink, labels);
            self.sink.number(sample, form);
            return Ok(());
        }
        let tags = series.tags()?;
        let (sample, form) = sample(series, timestamp, value)?;
        let changes = &mut self.learned.changes;
        let identified = self
            .naming
            .identify(series.metric(), &tags, None, Some(form), changes)?;
        announce(self.sink, &identified.labels);
        self.sink.number(sample, form);
        self.learned.series.add(&self.key, &identified.labels);
        self.learned.tsuids.push(identified.tsuid);
        Ok(())
    }

    pub(crate) fn naming_config(&self) -> &Config {
        self.naming.config
    }

    /// Counts a point that is refused. `example` is the point as it was sent.
    pub(crate) fn refuse(&mut self, error: &PutError, example: impl FnOnce() -> String) {
        self.count_invalid(error);
        self.log_refusal(error, example);
    }

    /// Counts a point that is refused for the statistics alone: an import has a report of its own.
    pub(crate) fn count_invalid(&mut self, error: &PutError) {
        let counter = match error {
            PutError::Number(_) => &mut self.tally.invalid_values,
            PutError::UnknownName(..) => &mut self.tally.unknown_metrics,
            _ => &mut self.tally.illegal_arguments,
        };
        *counter += 1;
    }

    /// Counts a point that is refused for the log alone. The original's statistics have no such
    /// points of documents.
    pub(super) fn log_refusal(&mut self, error: &PutError, example: impl FnOnce() -> String) {
        let refusals = &mut self.tally.refusals;
        refusals.add(error.reason(), 1, || error.cause(), example);
    }

    /// Writes the names that the points need.
    pub(super) fn finish(self) -> (Learned, Tally) {
        for change in &self.learned.changes {
            self.sink.catalog(change.clone());
        }
        (self.learned, self.tally)
    }
}

/// Senders repeat the order of their series, which is cheaper to check than to look up.
#[inline]
pub(super) fn announce(sink: &mut dyn SampleSink, labels: &[u8]) {
    if sink.guess_series(labels) != Some(labels.len()) {
        sink.series(RawLabels(labels));
    }
}
