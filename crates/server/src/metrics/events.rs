//! What is counted about events. `docs/operating.md` lists every name.

use icecore_events::Events;
use icecore_model::MetricType;
use icecore_wire::prometheus::TextWriter;

use super::{counter, durations, gauge};

pub(crate) fn write(text: &mut TextWriter, events: &Events) {
    received(text, events);
    skipped(text, events);
    written(text, events);
    in_memory(text, events);
}

/// By what became of them.
fn received(text: &mut TextWriter, events: &Events) {
    let metrics = events.metrics();
    let name = "icecore_events_total";
    let help = "Events that were received, by what became of them.";
    text.family(name, help, MetricType::Counter);
    for (status, count) in [
        ("stored", &metrics.stored),
        ("duplicate", &metrics.duplicates),
        ("unconfigured", &metrics.unconfigured),
        ("ignored", &metrics.ignored),
        ("rejected", &metrics.rejected),
    ] {
        text.sample(name, &[("status", status)], count.get() as f64);
    }
    counter(
        text,
        "icecore_events_refused_requests_total",
        "Requests that were refused because events took all of events.memory_limit.",
        metrics.refused.get(),
    );
}

fn skipped(text: &mut TextWriter, events: &Events) {
    let metrics = events.metrics();
    let name = "icecore_events_metric_skipped_total";
    let help = "Events that did not count for a metric of theirs, by metric and reason.";
    text.family(name, help, MetricType::Counter);
    for (metric, reason, count) in metrics.skipped() {
        let labels = [("metric", metric.as_str()), ("reason", reason.word())];
        text.sample(name, &labels, count as f64);
    }
    for (name, help, count) in [
        (
            "icecore_events_dimension_overflow_total",
            "Observations counted under __overflow__, because their metric had events.max_dimension_sets sets of dimension values.",
            &metrics.dimension_overflow,
        ),
        (
            "icecore_events_dimension_collisions_total",
            "Sets of dimension values that share a hash with others.",
            &metrics.dimension_collisions,
        ),
        (
            "icecore_events_late_states_total",
            "States left out because a later event of the object was there.",
            &metrics.late_states,
        ),
    ] {
        counter(text, name, help, count.get());
    }
}

fn written(text: &mut TextWriter, events: &Events) {
    let metrics = events.metrics();
    for (name, help, count) in [
        (
            "icecore_events_failed_blocks_total",
            "Requests whose events could not be committed.",
            &metrics.failed_blocks,
        ),
        (
            "icecore_events_flushes_total",
            "Generations of cells written.",
            &metrics.flushes,
        ),
        (
            "icecore_events_failed_flushes_total",
            "Attempts to write a generation that failed and are repeated.",
            &metrics.failed_flushes,
        ),
        (
            "icecore_events_flushed_cells_total",
            "Cells written, of all windows.",
            &metrics.flushed_cells,
        ),
        (
            "icecore_events_seals_total",
            "Times that events were put into files.",
            &metrics.seals,
        ),
        (
            "icecore_events_failed_seals_total",
            "Attempts to put events into files that failed and are repeated.",
            &metrics.failed_seals,
        ),
        (
            "icecore_events_sealed_total",
            "Events put into files.",
            &metrics.sealed_events,
        ),
        (
            "icecore_events_merged_files_total",
            "Files of events that were merged with others.",
            &metrics.merged_files,
        ),
        (
            "icecore_events_dropped_files_total",
            "Files of events deleted because they were merged or too old.",
            &metrics.dropped_files,
        ),
        (
            "icecore_events_dropped_orphans_total",
            "Files of events deleted because a crash had left them behind.",
            &metrics.dropped_orphans,
        ),
    ] {
        counter(text, name, help, count.get());
    }
    durations(
        text,
        "icecore_events_flush_duration_seconds",
        "Time that writing a generation of cells takes.",
        &metrics.flush_seconds,
    );
    durations(
        text,
        "icecore_events_seal_duration_seconds",
        "Time that putting events into files takes.",
        &metrics.seal_seconds,
    );
}

fn in_memory(text: &mut TextWriter, events: &Events) {
    let gauges = events.gauges();
    for (name, help, value) in [
        (
            "icecore_events_memory_bytes",
            "Memory of events on their way into the store, into cells and into files; events.memory_limit bounds it.",
            gauges.memory_bytes,
        ),
        (
            "icecore_events_tail",
            "Events that are in no file yet.",
            gauges.tail_events,
        ),
        (
            "icecore_events_tail_bytes",
            "Memory of these.",
            gauges.tail_bytes,
        ),
        (
            "icecore_events_unflushed_generations",
            "Generations of cells that are not written yet.",
            gauges.unflushed_generations,
        ),
        (
            "icecore_events_in_flight",
            "Events whose commit is waited for.",
            gauges.in_flight_events,
        ),
    ] {
        gauge(text, name, help, value as f64);
    }
    let version = events.registry().version;
    gauge(
        text,
        "icecore_events_registry_version",
        "The version of the registry, which grows with every change.",
        version as f64,
    );
}
