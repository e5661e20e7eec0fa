//! What maintenance has done, is doing and has left to do.

use icecore_model::MetricType;
use icecore_storage::{DURATION_BOUNDS, Database, LevelStatus, MaintenanceStatus, Metrics};
use icecore_wire::prometheus::TextWriter;

use super::{counter, gauge};

pub(crate) fn write(text: &mut TextWriter, database: &Database) {
    state(text, database);
    jobs(text, database.metrics());
    for (name, help, count) in [
        (
            "icecore_maintenance_read_bytes_total",
            "Bytes of keys and values that jobs read.",
            &database.metrics().maintenance_bytes_read,
        ),
        (
            "icecore_maintenance_written_bytes_total",
            "Bytes of keys and values that jobs wrote.",
            &database.metrics().maintenance_bytes_written,
        ),
        (
            "icecore_maintenance_coarsened_samples_total",
            "Samples in buckets that were built.",
            &database.metrics().coarsened_samples,
        ),
        (
            "icecore_maintenance_coarsened_series_total",
            "Series in buckets that were built, counted once per bucket.",
            &database.metrics().coarsened_series,
        ),
        (
            "icecore_maintenance_rolled_up_samples_total",
            "Samples that windows were made of, counted for each level.",
            &database.metrics().rolled_up_samples,
        ),
        (
            "icecore_maintenance_culled_buckets_total",
            "Buckets that were older than the retention policy keeps them.",
            &database.metrics().culled_buckets,
        ),
        (
            "icecore_maintenance_folded_records_total",
            "Records into which late samples were folded.",
            &database.metrics().folded_records,
        ),
        (
            "icecore_maintenance_repaired_buckets_total",
            "Buckets inside a larger one that joined it.",
            &database.metrics().repaired_buckets,
        ),
        (
            "icecore_deletions_total",
            "Deletions that were answered.",
            &database.metrics().deletions,
        ),
        (
            "icecore_cleaned_buckets_total",
            "Buckets that what was deleted has left, counted each time.",
            &database.metrics().cleaned_buckets,
        ),
        (
            "icecore_flush_held_hours_total",
            "Hours whose flush was held back because a job copied their bucket.",
            &database.metrics().held_hours,
        ),
    ] {
        counter(text, name, help, count.get());
    }
}

fn jobs(text: &mut TextWriter, metrics: &Metrics) {
    let name = "icecore_maintenance_jobs_total";
    let help = "Jobs by kind and result.";
    text.family(name, help, MetricType::Counter);
    let kinds = [
        ("coarsen", &metrics.coarsen),
        ("roll_up", &metrics.roll_up),
        ("fold", &metrics.fold),
    ];
    for (kind, jobs) in kinds {
        for (result, count) in [
            ("done", &jobs.done),
            ("failed", &jobs.failed),
            ("given_up", &jobs.given_up),
        ] {
            let labels = [("kind", kind), ("result", result)];
            text.sample(name, &labels, count.get() as f64);
        }
    }
    let name = "icecore_maintenance_job_duration_seconds";
    let help = "Time that a job takes, pauses included, by kind.";
    text.family(name, help, MetricType::Histogram);
    for (kind, jobs) in kinds {
        let (counts, sum) = jobs.seconds.get();
        text.histogram(name, &[("kind", kind)], &DURATION_BOUNDS, &counts, sum);
    }
}

/// Levels of retention, one family after the other.
fn levels(text: &mut TextWriter, status: &MaintenanceStatus) {
    type Value = fn(&LevelStatus) -> Option<f64>;
    let families: [(&str, &str, Value); 7] = [
        (
            "icecore_level_buckets",
            "Buckets by level: raw samples, and windows of each width.",
            |level| Some(level.buckets as f64),
        ),
        (
            "icecore_level_remnants",
            "Buckets of series whose raw samples are kept for longer than those of others.",
            |level| (level.resolution == "raw").then_some(level.remnants as f64),
        ),
        (
            "icecore_level_outdated_buckets",
            "Buckets of windows that have to be made again.",
            |level| Some(level.out_of_date as f64),
        ),
        (
            "icecore_level_outdated_hours",
            "Hours of windows that are read from what they were made of until they are made again.",
            |level| Some(level.out_of_date_hours as f64),
        ),
        (
            "icecore_level_waiting_buckets",
            "Buckets of windows that could be made now.",
            |level| Some(level.waiting as f64),
        ),
        (
            "icecore_level_lag_seconds",
            "How long the oldest window that waits to be rolled up has been closed.",
            |level| Some(level.lag_seconds),
        ),
        (
            "icecore_level_culled_before_seconds",
            "Nothing older than this time is left of the level.",
            |level| Some(level.culled_before_ms? as f64 / 1e3),
        ),
    ];
    for (name, help, value) in families {
        text.family(name, help, MetricType::Gauge);
        for level in &status.levels {
            if let Some(value) = value(level) {
                text.sample(name, &[("level", level.resolution)], value);
            }
        }
    }
}

fn state(text: &mut TextWriter, database: &Database) {
    let status = database.maintenance_status();
    let name = "icecore_buckets_by_size";
    let help = "Buckets in the store, by the hours that each spans.";
    text.family(name, help, MetricType::Gauge);
    for size in &status.buckets {
        let hours = size.hours.to_string();
        text.sample(name, &[("hours", &hours)], size.count as f64);
    }
    let yes_or_no = |yes: bool| f64::from(u8::from(yes));
    for (name, help, value) in [
        (
            "icecore_maintenance_lag_seconds",
            "How long the oldest window that waits to be coarsened or rolled up has been closed.",
            status.lag_seconds,
        ),
        (
            "icecore_maintenance_waiting",
            "Buckets that could be built now.",
            status.waiting as f64,
        ),
        (
            "icecore_maintenance_running",
            "Whether a job is under way.",
            yes_or_no(status.running.is_some()),
        ),
        (
            "icecore_maintenance_paused",
            "Whether jobs wait although there is something to do.",
            yes_or_no(status.paused.is_some()),
        ),
        (
            "icecore_tombstone_buckets",
            "Buckets that still hold something that was deleted.",
            status.tombstones as f64,
        ),
        (
            "icecore_maintenance_retired_buckets",
            "Buckets whose place a coarser one took and whose records are still to be dropped.",
            status.retired as f64,
        ),
        (
            "icecore_maintenance_overlapping_buckets",
            "Buckets that lie inside a larger one and still have to join it.",
            status.overlapping as f64,
        ),
        (
            "icecore_maintenance_skipped_jobs",
            "Jobs that failed and are left alone for a while.",
            status.skipped.len() as f64,
        ),
        (
            "icecore_maintenance_dirty_buckets",
            "Coarse buckets with late samples that are not folded in yet.",
            status.dirty as f64,
        ),
        (
            "icecore_maintenance_kept_back_buckets",
            "Buckets that are kept for longer than the retention policy says.",
            status.kept_back_count as f64,
        ),
    ] {
        gauge(text, name, help, value);
    }
    levels(text, &status);
}
