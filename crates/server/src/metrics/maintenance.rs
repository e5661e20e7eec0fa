//! What coarsening has done, is doing and has left to do.

use icecore_model::MetricType;
use icecore_storage::Database;
use icecore_wire::prometheus::TextWriter;

use super::gauge;

pub(super) fn write(text: &mut TextWriter, database: &Database) {
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
            "How long the oldest window that waits to be coarsened has been closed.",
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
            "icecore_maintenance_retired_buckets",
            "Buckets whose place a coarser one took and whose records are still to be dropped.",
            status.retired as f64,
        ),
        (
            "icecore_maintenance_dirty_buckets",
            "Coarse buckets with late samples that are not folded in yet.",
            status.dirty as f64,
        ),
    ] {
        gauge(text, name, help, value);
    }
}
