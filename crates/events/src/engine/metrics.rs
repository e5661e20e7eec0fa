//! What is counted about events, to be shown among the metrics of this server.

use std::collections::BTreeMap;

use icecore_model::{Counter, Durations};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub struct EventMetrics {
    pub stored: Counter,
    pub duplicates: Counter,
    pub unconfigured: Counter,
    pub ignored: Counter,
    pub rejected: Counter,
    /// Requests that were refused because of `memory_limit`.
    pub refused: Counter,
    /// Blocks whose commit failed.
    pub failed_blocks: Counter,
    /// Observations that went to an overflow cell because a metric had too many dimension sets.
    pub dimension_overflow: Counter,
    /// Dimension sets that were found to share a hash with others.
    pub dimension_collisions: Counter,
    /// Operations on state that were left out because an event was not the latest of its object.
    pub late_states: Counter,
    pub flushes: Counter,
    pub failed_flushes: Counter,
    pub flushed_cells: Counter,
    pub flush_seconds: Durations,
    pub seals: Counter,
    pub failed_seals: Counter,
    pub sealed_events: Counter,
    pub seal_seconds: Durations,
    pub merged_files: Counter,
    pub dropped_files: Counter,
    pub dropped_orphans: Counter,
    skipped: Mutex<BTreeMap<(String, SkipReason), u64>>,
}

/// Why an event did not count for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    MissingDimension,
    BadValue,
    /// The id of an object, or its state, is longer than keys can have.
    TooLong,
}

impl SkipReason {
    pub fn word(self) -> &'static str {
        match self {
            Self::MissingDimension => "missing_dimension",
            Self::BadValue => "bad_value",
            Self::TooLong => "too_long",
        }
    }
}

impl EventMetrics {
    pub(crate) fn skip(&self, metric: &str, reason: SkipReason, events: u64) {
        let mut skipped = self.skipped.lock();
        match skipped.get_mut(&(metric.to_owned(), reason)) {
            Some(count) => *count += events,
            None => {
                skipped.insert((metric.to_owned(), reason), events);
            }
        }
    }

    /// `events_metric_skipped_total` by metric and reason. Metrics are registered, so there are no
    /// more of them than documents.
    pub fn skipped(&self) -> Vec<(String, SkipReason, u64)> {
        let skipped = self.skipped.lock();
        let rows = skipped.iter();
        rows.map(|((metric, reason), count)| (metric.clone(), *reason, *count))
            .collect()
    }
}

/// What is in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventGauges {
    pub memory_bytes: usize,
    pub tail_events: usize,
    pub tail_bytes: usize,
    pub unflushed_generations: usize,
    pub in_flight_events: usize,
}
