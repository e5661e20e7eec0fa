//! What scraping counts. `docs/operating.md` lists the names.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use icecore_model::{Counter, DURATION_BOUNDS, Durations, MetricType};
use icecore_wire::prometheus::TextWriter;

use super::report::Counts;

/// Why a scrape failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection, or it broke.
    Connection,
    Timeout,
    /// Another status than 200.
    Status,
    /// Its body is too large, or in an unsupported format.
    Body,
    Malformed,
    /// A limit of the job.
    Limit,
    /// The pool has too many targets.
    Refused,
}

const FAILURES: [(Failure, &str); 7] = [
    (Failure::Connection, "connection"),
    (Failure::Timeout, "timeout"),
    (Failure::Status, "status"),
    (Failure::Body, "body"),
    (Failure::Malformed, "malformed"),
    (Failure::Limit, "limit"),
    (Failure::Refused, "target_limit"),
];

#[derive(Default)]
pub(super) struct ScrapeMetrics {
    pub(super) succeeded: Counter,
    failures: [Counter; FAILURES.len()],
    pub(super) seconds: Durations,
    /// Skipped ticks: the previous scrape took too long, or too many commits are pending.
    pub(super) missed_by_scrape: Counter,
    pub(super) missed_by_commit: Counter,
    samples: Counter,
    kept: Counter,
    added: Counter,
    duplicates: Counter,
    pub(super) rejected: Counter,
    pub(super) not_stored: Counter,
    pub(super) rejections_logged_ms: AtomicI64,
    pub(super) failures_logged_ms: AtomicI64,
    pub(super) left_out_logged_ms: AtomicI64,
}

impl ScrapeMetrics {
    pub(super) fn failed(&self, failure: Failure) {
        let at = FAILURES.iter().position(|(kind, _)| *kind == failure);
        if let Some(counter) = at.and_then(|at| self.failures.get(at)) {
            counter.add(1);
        }
    }

    pub(super) fn count(&self, counts: &Counts) {
        self.samples.add(counts.scraped);
        self.kept.add(counts.kept);
        self.added.add(counts.added);
        self.duplicates.add(counts.duplicates);
    }

    /// Whether the last log line about something is long enough ago.
    pub(super) fn may_log(&self, last_ms: &AtomicI64, now_ms: i64, pause_ms: i64) -> bool {
        let last = last_ms.load(Relaxed);
        now_ms.saturating_sub(last) >= pause_ms
            && last_ms
                .compare_exchange(last, now_ms, Relaxed, Relaxed)
                .is_ok()
    }

    pub(super) fn write(&self, text: &mut TextWriter) {
        let name = "icecore_scrapes_total";
        let help = "Scrapes, by what came of them: success, or why the target counts as down.";
        text.family(name, help, MetricType::Counter);
        let succeeded = self.succeeded.get() as f64;
        text.sample(name, &[("result", "success")], succeeded);
        for ((_, reason), count) in FAILURES.iter().zip(&self.failures) {
            text.sample(name, &[("result", *reason)], count.get() as f64);
        }
        let name = "icecore_scrape_duration_seconds";
        let help = "Time from a scrape's request until its samples are stored.";
        text.family(name, help, MetricType::Histogram);
        let (counts, sum) = self.seconds.get();
        text.histogram(name, &[], &DURATION_BOUNDS, &counts, sum);
        let name = "icecore_scrape_missed_total";
        let help = "Scrapes left out: the one before took too long, or the store has not taken many before.";
        text.family(name, help, MetricType::Counter);
        for (reason, count) in [
            ("scrape", &self.missed_by_scrape),
            ("commit", &self.missed_by_commit),
        ] {
            text.sample(name, &[("reason", reason)], count.get() as f64);
        }
        for (name, help, count) in [
            (
                "icecore_scrape_samples_total",
                "Samples that targets exposed.",
                &self.samples,
            ),
            (
                "icecore_scrape_samples_kept_total",
                "Samples that metric relabelling kept.",
                &self.kept,
            ),
            (
                "icecore_scrape_series_added_total",
                "Series that a target had not exposed before.",
                &self.added,
            ),
            (
                "icecore_scrape_duplicate_samples_total",
                "Samples left out because the page had one of the same series already.",
                &self.duplicates,
            ),
            (
                "icecore_scrape_rejected_samples_total",
                "Samples of scrapes that storage refused for what they are.",
                &self.rejected,
            ),
            (
                "icecore_scrape_not_stored_total",
                "Scrapes that storage could not take; the next one tries again.",
                &self.not_stored,
            ),
        ] {
            text.family(name, help, MetricType::Counter);
            text.sample(name, &[], count.get() as f64);
        }
    }
}
