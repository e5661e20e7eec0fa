//! The numbers that storage keeps about itself. `docs/operating.md` lists them.

use icecore_model::{Counter, Durations};

/// What storage counts.
#[derive(Debug, Default)]
pub struct Metrics {
    pub samples: Counter,
    pub histograms: Counter,
    pub exemplars: Counter,
    pub rejected: Counter,
    /// Refused because what was stored at their time has been rolled up or culled; not among the
    /// above.
    pub rejected_late: Counter,
    /// Delta points that had been added before.
    pub delta_duplicates: Counter,
    /// Delta points that began before the one before them ended.
    pub delta_overlaps: Counter,
    /// Delta points with which a running total began anew.
    pub delta_restarts: Counter,
    /// Bytes of keys and values with which running totals were saved.
    pub delta_bytes_saved: Counter,
    pub requests: Counter,
    pub series_created: Counter,
    pub series_forgotten: Counter,
    pub commit_seconds: Durations,
    pub commit_requests: Counter,
    pub journal_bytes: Counter,
    pub flush_seconds: Durations,
    pub flush_bytes: Counter,
    pub flush_records: Counter,
    pub flushed_hours: Counter,
    /// Hours whose flush was held back by a job.
    pub held_hours: Counter,
    pub coarsen: JobMetrics,
    pub coarsened_samples: Counter,
    pub coarsened_series: Counter,
    pub roll_up: JobMetrics,
    /// Samples that windows were made of.
    pub rolled_up_samples: Counter,
    /// Buckets that were older than the policy keeps them.
    pub culled_buckets: Counter,
    pub fold: JobMetrics,
    pub folded_records: Counter,
    /// Bytes of keys and values that jobs read and wrote.
    pub maintenance_bytes_read: Counter,
    pub maintenance_bytes_written: Counter,
    pub deletions: Counter,
    /// Buckets that joined a larger one around them.
    pub repaired_buckets: Counter,
    /// Buckets that what was deleted has left.
    pub cleaned_buckets: Counter,
    pub drained_epochs: Counter,
    pub replayed_records: Counter,
    pub replayed_samples: Counter,
    pub replay_unreadable: Counter,
    pub selections: Counter,
    pub samples_read: Counter,
    pub bucket_samples_read: Counter,
    pub chunk_cache_hits: Counter,
    pub chunk_cache_misses: Counter,
    pub chunk_cache_evicted_bytes: Counter,
    /// Cells of events that queries found in memory, and those that they read from the store.
    pub event_cell_cache_hits: Counter,
    pub event_cell_cache_misses: Counter,
}

/// What became of the jobs of one kind.
#[derive(Debug, Default)]
pub struct JobMetrics {
    pub done: Counter,
    pub failed: Counter,
    /// Jobs that made room for ingest or for the end of the process, or whose plan was old; they
    /// are gone on with later.
    pub given_up: Counter,
    pub seconds: Durations,
}
