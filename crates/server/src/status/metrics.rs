//! What the process counts, in Prometheus' text format. `docs/operating.md` lists every name.
//!
//! | names | whose |
//! | --- | --- |
//! | `icecore_http_…`, `icecore_write_…` | requests (`metrics::http`, `middleware::limits`) |
//! | `icecore_scrape…`, `icecore_config_…` | scraping (`scrape::metrics`, `scrape::manager`) |
//! | `icecore_access_…`, `icecore_tls_…` | refused requests and connections (`icecore_access`) |
//! | `icecore_quer…` | queries (`metrics::query`, `queries`) |
//! | `icecore_events_…` | events (`metrics::events`) |
//! | `icecore_opentsdb_…` | names with UIDs, refused points (`icecore_opentsdb`) |
//! | `icecore_maintenance_…`, `icecore_buckets_by_size` | maintenance (`metrics::maintenance`) |
//! | `icecore_…` | storage's own counters and gauges |
//! | `slatedb_…` | SlateDB's |
//! | `process_…` | the operating system's (`metrics::process`) |

use icecore_model::MetricType;
use icecore_opentsdb::Tsd;
use icecore_storage::{Database, Gauges, SlateMetricValue, StoreOperation};
use icecore_wire::prometheus::TextWriter;

use crate::app::App;
use crate::metrics::{counter, durations, events, gauge, maintenance, process};

/// Everything, as it stands.
pub(crate) fn render(database: &Database, app: &App) -> Vec<u8> {
    let mut text = TextWriter::new();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    let help = "Always 1; the label says which program this is.";
    text.family("icecore_build_info", help, MetricType::Gauge);
    text.sample("icecore_build_info", &version, 1.0);
    ingested(&mut text, database);
    state(&mut text, &database.gauges());
    journal_and_flushes(&mut text, database);
    store(&mut text, database);
    reads(&mut text, database);
    maintenance::write(&mut text, database);
    queries(&mut text, app);
    requests(&mut text, app);
    if let Ok(tsd) = app.opentsdb() {
        opentsdb(&mut text, tsd);
    }
    if let Ok(open) = app.events() {
        events::write(&mut text, open);
    }
    if let Some(scraping) = app.scraping() {
        scraping.write_metrics(&mut text);
    }
    slatedb(&mut text, database);
    process::write(&mut text);
    text.into_bytes()
}

fn ingested(text: &mut TextWriter, database: &Database) {
    let metrics = database.metrics();
    let name = "icecore_ingested_samples_total";
    text.family(name, "Samples acknowledged, by type.", MetricType::Counter);
    text.sample(name, &[("type", "float")], metrics.samples.get() as f64);
    let histograms = metrics.histograms.get() as f64;
    text.sample(name, &[("type", "histogram")], histograms);
    for (name, help, count) in [
        (
            "icecore_ingested_exemplars_total",
            "Exemplars acknowledged.",
            &metrics.exemplars,
        ),
        (
            "icecore_rejected_samples_total",
            "Samples, histograms and exemplars refused for what they are.",
            &metrics.rejected,
        ),
        (
            "icecore_rejected_late_samples_total",
            "Samples, histograms and exemplars refused because those of their time were rolled up or culled.",
            &metrics.rejected_late,
        ),
        (
            "icecore_acknowledged_requests_total",
            "Write requests acknowledged.",
            &metrics.requests,
        ),
        (
            "icecore_series_created_total",
            "Series that were new to the head.",
            &metrics.series_created,
        ),
        (
            "icecore_series_forgotten_total",
            "Series that the head let go of because nothing came for them.",
            &metrics.series_forgotten,
        ),
        (
            "icecore_delta_duplicates_total",
            "Delta points that had been added before.",
            &metrics.delta_duplicates,
        ),
        (
            "icecore_delta_overlaps_total",
            "Delta points that began before the one before them ended.",
            &metrics.delta_overlaps,
        ),
        (
            "icecore_delta_restarts_total",
            "Delta points with which a running total began anew.",
            &metrics.delta_restarts,
        ),
        (
            "icecore_delta_saved_bytes_total",
            "Bytes with which running totals were saved.",
            &metrics.delta_bytes_saved,
        ),
    ] {
        counter(text, name, help, count.get());
    }
}

fn state(text: &mut TextWriter, gauges: &Gauges) {
    for (name, help, value) in [
        (
            "icecore_active_series",
            "Series in the head.",
            gauges.series as f64,
        ),
        (
            "icecore_delta_series",
            "Series sent as deltas whose running totals are kept.",
            gauges.delta_series as f64,
        ),
        (
            "icecore_delta_bytes",
            "Memory of running totals.",
            gauges.delta_bytes as f64,
        ),
        (
            "icecore_chunk_cache_bytes",
            "Memory of the chunk cache; read.chunk_cache_bytes bounds it.",
            gauges.chunk_cache_bytes as f64,
        ),
        (
            "icecore_events_cell_cache_bytes",
            "Memory of cells of events in the chunk cache, a part of icecore_chunk_cache_bytes.",
            gauges.event_cell_cache_bytes as f64,
        ),
        (
            "icecore_head_sample_bytes",
            "Memory of samples in the head; head.flush_bytes and head.bytes_max bound it.",
            gauges.head_sample_bytes as f64,
        ),
        (
            "icecore_head_series_bytes",
            "Memory of series in the head: labels, index, tables; head.series_bytes_max bounds it.",
            gauges.head_series_bytes as f64,
        ),
        (
            "icecore_head_open_hours",
            "Hours that have samples in the head.",
            gauges.open_hours as f64,
        ),
        (
            "icecore_quarantined_hours",
            "Hours that cannot be flushed and stay in head and journal.",
            gauges.quarantined_hours as f64,
        ),
        (
            "icecore_buckets",
            "Buckets in the store.",
            gauges.buckets as f64,
        ),
        (
            "icecore_metadata_families",
            "Metric families whose type, unit and help are known.",
            gauges.metadata as f64,
        ),
        (
            "icecore_journal_lag_requests",
            "Write requests in the head that the store does not hold yet.",
            gauges.journal_lag as f64,
        ),
        (
            "icecore_journal_queued_bytes",
            "Bytes that wait for a commit; journal.queue_bytes_max bounds it.",
            gauges.journal_queued_bytes as f64,
        ),
        (
            "icecore_journal_epochs",
            "Journal epochs that a restart would replay.",
            gauges.journal_epochs as f64,
        ),
        (
            "icecore_journal_unreadable_epochs",
            "Journal epochs kept because something in them could not be read.",
            gauges.journal_unreadable_epochs as f64,
        ),
        (
            "icecore_journal_oldest_epoch_age_seconds",
            "Age of the oldest journal epoch.",
            gauges.oldest_epoch_age_s,
        ),
    ] {
        gauge(text, name, help, value);
    }
}

fn journal_and_flushes(text: &mut TextWriter, database: &Database) {
    let metrics = database.metrics();
    durations(
        text,
        "icecore_journal_commit_duration_seconds",
        "Time from handing a group of requests to the store until it holds them.",
        &metrics.commit_seconds,
    );
    durations(
        text,
        "icecore_flush_duration_seconds",
        "Time that a flush of hours into buckets takes.",
        &metrics.flush_seconds,
    );
    for (name, help, count) in [
        (
            "icecore_journal_committed_requests_total",
            "Write requests committed; divided by commits, requests that shared one.",
            &metrics.commit_requests,
        ),
        (
            "icecore_journal_bytes_total",
            "Bytes written to the journal.",
            &metrics.journal_bytes,
        ),
        (
            "icecore_journal_drained_epochs_total",
            "Journal epochs removed because buckets hold all of them.",
            &metrics.drained_epochs,
        ),
        (
            "icecore_flush_bytes_total",
            "Bytes of keys and values that flushes wrote.",
            &metrics.flush_bytes,
        ),
        (
            "icecore_flush_records_total",
            "Records that flushes wrote.",
            &metrics.flush_records,
        ),
        (
            "icecore_flush_hours_total",
            "Hours that were flushed.",
            &metrics.flushed_hours,
        ),
        (
            "icecore_replay_records_total",
            "Journal records read at start-up.",
            &metrics.replayed_records,
        ),
        (
            "icecore_replay_samples_total",
            "Samples taken from the journal at start-up.",
            &metrics.replayed_samples,
        ),
        (
            "icecore_replay_unreadable_total",
            "Journal entries that could not be read at start-up.",
            &metrics.replay_unreadable,
        ),
    ] {
        counter(text, name, help, count.get());
    }
}

fn store(text: &mut TextWriter, database: &Database) {
    let figures = database.store_figures();
    let name = "icecore_store_errors_total";
    let help =
        "Requests to the store that failed, by operation; a file that is absent is no failure.";
    text.family(name, help, MetricType::Counter);
    for (operation, count) in StoreOperation::ALL.iter().zip(figures.errors) {
        text.sample(name, &[("operation", operation.name())], count as f64);
    }
    gauge(
        text,
        "icecore_store_last_write_age_seconds",
        "Time since the store took a write.",
        figures.since_write.as_secs_f64(),
    );
    gauge(
        text,
        "icecore_store_failing",
        "1 while commits fail or do not end, so that nothing is acknowledged; else 0.",
        f64::from(u8::from(figures.failing)),
    );
}

fn reads(text: &mut TextWriter, database: &Database) {
    let metrics = database.metrics();
    for (name, help, count) in [
        (
            "icecore_selections_total",
            "Selections of series with their samples.",
            &metrics.selections,
        ),
        (
            "icecore_read_samples_total",
            "Samples that selections returned.",
            &metrics.samples_read,
        ),
        (
            "icecore_read_bucket_samples_total",
            "Samples that selections took from buckets.",
            &metrics.bucket_samples_read,
        ),
        (
            "icecore_chunk_cache_hits_total",
            "Hours of series that selections found decoded.",
            &metrics.chunk_cache_hits,
        ),
        (
            "icecore_chunk_cache_misses_total",
            "Hours of series that selections had to decode.",
            &metrics.chunk_cache_misses,
        ),
        (
            "icecore_chunk_cache_evicted_bytes_total",
            "Memory that the chunk cache gave up to stay within its limit.",
            &metrics.chunk_cache_evicted_bytes,
        ),
        (
            "icecore_events_cell_cache_hits_total",
            "Cells of events that queries found in memory.",
            &metrics.event_cell_cache_hits,
        ),
        (
            "icecore_events_cell_cache_misses_total",
            "Cells of events that queries read from the store.",
            &metrics.event_cell_cache_misses,
        ),
    ] {
        counter(text, name, help, count.get());
    }
}

fn queries(text: &mut TextWriter, app: &App) {
    app.queries.metrics.write(text);
    for (name, help, value) in [
        (
            "icecore_queries_running",
            "Queries that run, or whose answer is being sent.",
            app.queries.running(),
        ),
        (
            "icecore_queries_running_max",
            "Queries that may run at once; further ones wait.",
            app.queries.running_max(),
        ),
        (
            "icecore_queries_waiting",
            "Queries that wait for their turn.",
            app.queries.waiting(),
        ),
    ] {
        gauge(text, name, help, value as f64);
    }
}

fn requests(text: &mut TextWriter, app: &App) {
    app.metrics.write(text);
    app.access.metrics.write(text);
    gauge(
        text,
        "icecore_write_body_bytes",
        "Memory of write bodies being received and decoded.",
        app.limits.write_bytes() as f64,
    );
    gauge(
        text,
        "icecore_write_body_bytes_max",
        "What write bodies may take together; beyond it writes get 503.",
        app.limits.write_bytes_max() as f64,
    );
}

fn opentsdb(text: &mut TextWriter, tsd: &Tsd) {
    let name = "icecore_opentsdb_refused_total";
    let help = "Points, lines and requests of OpenTSDB's clients that were refused, by reason.";
    text.family(name, help, MetricType::Counter);
    for (reason, count) in tsd.refusals().counts() {
        text.sample(name, &[("reason", reason.name())], count as f64);
    }
    gauge(
        text,
        "icecore_opentsdb_name_bytes",
        "Memory of names with UIDs, which are never given back.",
        tsd.name_bytes() as f64,
    );
    gauge(
        text,
        "icecore_opentsdb_name_bytes_max",
        "What names with UIDs may take (opentsdb.uid_bytes_max); beyond it new ones are refused.",
        tsd.name_bytes_max() as f64,
    );
}

fn slatedb(text: &mut TextWriter, database: &Database) {
    let mut family = String::new();
    for metric in database.slate_metrics() {
        if metric.name != family {
            let metric_type = match metric.value {
                SlateMetricValue::Counter(_) => MetricType::Counter,
                SlateMetricValue::Gauge(_) => MetricType::Gauge,
                SlateMetricValue::Histogram { .. } => MetricType::Histogram,
            };
            let help = match metric.help.as_str() {
                "" => "SlateDB says no more about it than its name.",
                help => help,
            };
            text.family(&metric.name, help, metric_type);
            family.clone_from(&metric.name);
        }
        let labels: Vec<(&str, &str)> = metric
            .labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        match metric.value {
            SlateMetricValue::Counter(count) => text.sample(&metric.name, &labels, count as f64),
            SlateMetricValue::Gauge(level) => text.sample(&metric.name, &labels, level as f64),
            SlateMetricValue::Histogram { buckets, sum, .. } => {
                let (bounds, counts) = each_alone(&buckets);
                text.histogram(&metric.name, &labels, &bounds, &counts, sum);
            }
        }
    }
}

/// Bounds without the infinite one, and the observations of each bucket alone.
fn each_alone(cumulative: &[(f64, u64)]) -> (Vec<f64>, Vec<u64>) {
    let mut below = 0;
    let mut counts = Vec::with_capacity(cumulative.len());
    for (_, up_to) in cumulative {
        counts.push(up_to.saturating_sub(below));
        below = *up_to;
    }
    let finite = cumulative.len().saturating_sub(1);
    let bounds = cumulative.iter().take(finite).map(|(bound, _)| *bound);
    (bounds.collect(), counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulative_buckets_are_taken_apart() {
        let cumulative = [(1.0, 2), (5.0, 2), (f64::INFINITY, 7)];
        assert_eq!(each_alone(&cumulative), (vec![1.0, 5.0], vec![2, 0, 5]));
    }
}
