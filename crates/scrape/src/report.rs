//! What is stored about a scrape itself: `up` and its companions.
//!
//! Holds always: they have the labels of the target and nothing else; a target that goes away ends
//! them like everything it exposed.

use icecore_model::{METRIC_NAME, RawLabels, STALE_NAN_BITS, Sample, SampleSink, push_raw_label};

/// The series of every report, in the order in which they are written.
const NAMES: [&str; 5] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];

/// Those that `extra_scrape_metrics` adds.
const EXTRA_NAMES: [&str; 3] = [
    "scrape_timeout_seconds",
    "scrape_sample_limit",
    "scrape_body_size_bytes",
];

/// What a scrape came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Report {
    pub(super) up: bool,
    pub(super) seconds: f64,
    pub(super) counts: Counts,
    pub(super) extra: Option<Extra>,
}

/// What was counted while a body was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Samples exposed.
    pub(super) scraped: u64,
    /// Samples that relabelling kept.
    pub(super) kept: u64,
    /// Series that the cache did not know.
    pub(super) added: u64,
    /// Samples of series that the body had already.
    pub(super) duplicates: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extra {
    pub(super) timeout_seconds: f64,
    pub(super) sample_limit: u64,
    /// −1 for a body that was too large, as in Prometheus.
    pub(super) body_bytes: i64,
}

/// The label bytes of the report series of one target.
pub(super) struct ReportSeries {
    always: [Vec<u8>; NAMES.len()],
    extra: [Vec<u8>; EXTRA_NAMES.len()],
    /// Which of them have samples since the last end.
    written: WrittenFlags,
}

#[derive(Clone, Copy, Default)]
struct WrittenFlags {
    always: bool,
    extra: bool,
}

impl ReportSeries {
    pub(super) fn new(labels: &[(String, String)]) -> Self {
        let bytes = |metric| labels_of(metric, labels);
        Self {
            always: NAMES.map(bytes),
            extra: EXTRA_NAMES.map(bytes),
            written: WrittenFlags::default(),
        }
    }

    pub(super) fn write(&mut self, report: &Report, timestamp_ms: i64, sink: &mut dyn SampleSink) {
        let counts = &report.counts;
        let values = [
            f64::from(u8::from(report.up)),
            report.seconds,
            counts.scraped as f64,
            counts.kept as f64,
            counts.added as f64,
        ];
        write_values(&self.always, &values, timestamp_ms, sink);
        self.written.always = true;
        match &report.extra {
            Some(extra) => {
                let values = [
                    extra.timeout_seconds,
                    extra.sample_limit as f64,
                    extra.body_bytes as f64,
                ];
                write_values(&self.extra, &values, timestamp_ms, sink);
                self.written.extra = true;
            }
            None => self.end_extra(timestamp_ms, sink),
        }
    }

    /// The target is gone. `false` when nothing was ever written.
    pub(super) fn end(&mut self, timestamp_ms: i64, sink: &mut dyn SampleSink) -> bool {
        let written = self.written.always;
        if written {
            write_values(&self.always, &[STALE; NAMES.len()], timestamp_ms, sink);
            self.written.always = false;
        }
        self.end_extra(timestamp_ms, sink);
        written
    }

    fn end_extra(&mut self, timestamp_ms: i64, sink: &mut dyn SampleSink) {
        if self.written.extra {
            write_values(&self.extra, &[STALE; EXTRA_NAMES.len()], timestamp_ms, sink);
            self.written.extra = false;
        }
    }
}

const STALE: f64 = f64::from_bits(STALE_NAN_BITS);

fn labels_of(metric: &str, labels: &[(String, String)]) -> Vec<u8> {
    let mut pairs: Vec<(&str, &str)> = labels
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    pairs.push((METRIC_NAME, metric));
    pairs.sort_unstable();
    let mut bytes = Vec::new();
    for (name, value) in pairs {
        push_raw_label(&mut bytes, name, value);
    }
    bytes
}

fn write_values(series: &[Vec<u8>], values: &[f64], timestamp_ms: i64, sink: &mut dyn SampleSink) {
    for (labels, value) in std::iter::zip(series, values) {
        announce(sink, labels);
        sink.sample(Sample {
            timestamp_ms,
            value: *value,
            start_timestamp_ms: 0,
        });
    }
}

/// Announces a series by its canonical bytes: it usually follows the one before.
#[inline]
pub(super) fn announce(sink: &mut dyn SampleSink, labels: &[u8]) {
    if sink.guess_series(labels) != Some(labels.len()) {
        sink.series(RawLabels(labels));
    }
}
