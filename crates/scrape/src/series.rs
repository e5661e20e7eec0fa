//! What is remembered about the series of one target between its scrapes.
//!
//! Holds always: series and report end with a marker that is later than their last sample.

use icecore_model::{Histogram, STALE_NAN_BITS, Sample, SampleSink};

use super::cache::SeriesCache;
use super::families::Families;
use super::report::{Report, ReportSeries, announce};

pub(super) struct TargetSeries {
    pub(super) cache: SeriesCache,
    pub(super) families: Families,
    /// What its series get, sorted by name.
    pub(super) labels: Vec<(String, String)>,
    report: ReportSeries,
    /// By which rules texts were resolved.
    rules: u64,
    /// The timestamp that was written last.
    last_ms: i64,
}

impl TargetSeries {
    pub(super) fn new<'l>(labels: impl Iterator<Item = (&'l str, &'l str)>) -> Self {
        let labels: Vec<_> = labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self {
            cache: SeriesCache::new(),
            families: Families::default(),
            report: ReportSeries::new(&labels),
            labels,
            rules: 0,
            last_ms: i64::MIN,
        }
    }

    /// A scrape begins by these rules, at this time.
    pub(super) fn begin(&mut self, rules: u64, timestamp_ms: i64) {
        if self.rules != rules {
            self.rules = rules;
            self.cache.forget_texts();
        }
        self.last_ms = self.last_ms.max(timestamp_ms);
        self.cache.begin();
        self.families.begin();
    }

    /// Ends every series that the scrape did not have.
    pub(super) fn end_others(&mut self, timestamp_ms: i64, sink: &mut dyn SampleSink) {
        self.cache.end_others(|labels, is_histogram| {
            announce(sink, labels);
            if is_histogram {
                sink.histogram(timestamp_ms, 0, Histogram::stale());
            } else {
                sink.sample(Sample {
                    timestamp_ms,
                    value: f64::from_bits(STALE_NAN_BITS),
                    start_timestamp_ms: 0,
                });
            }
        });
    }

    pub(super) fn report(&mut self, report: &Report, timestamp_ms: i64, sink: &mut dyn SampleSink) {
        self.report.write(report, timestamp_ms, sink);
    }

    /// Ends everything, the report included: the target is gone. `false` when there was nothing.
    pub(super) fn end_all(&mut self, now_ms: i64, sink: &mut dyn SampleSink) -> bool {
        // Even where the clock was set back.
        let timestamp_ms = now_ms.max(self.last_ms.saturating_add(1));
        self.cache.begin();
        self.end_others(timestamp_ms, sink);
        self.report.end(timestamp_ms, sink)
    }

    /// What was written since `begin` is stored.
    pub(super) fn commit(&mut self) {
        self.cache.commit();
        self.families.commit();
    }

    /// What was written since `begin` is not stored.
    pub(super) fn failed(&mut self) {
        self.families.failed();
    }
}
