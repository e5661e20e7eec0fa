//! What maintenance says about itself, as JSON.
//!
//! Holds always: the shape is the same from a server and from `icecore maintenance --storage`.
//!
//! Elsewhere: the routes (`http::maintenance`), the metrics (`metrics::maintenance`), what is done
//! (`icecore_storage`).

use icecore_storage::{
    JobStatus, KeptBackBucket, LevelStatus, MaintenanceReport, MaintenanceStatus, QuarantinedHour,
    RunProgress, SizeCount, SkippedJob,
};
use icecore_wire::prometheus::api_json::{write_list, write_string};

/// Writes the state of maintenance as a JSON object. `docs/http-api.md` describes each field.
pub fn write_maintenance_status(out: &mut Vec<u8>, status: &MaintenanceStatus) {
    raw(
        out,
        &format!("{{\"enabled\":{},\"paused\":", status.enabled),
    );
    text_or_null(out, status.paused.as_deref());
    raw(out, ",\"running\":");
    match &status.running {
        Some(job) => write_job(out, job),
        None => raw(out, "null"),
    }
    raw(out, ",\"run\":");
    match status.run {
        Some(RunProgress { done, waiting }) => {
            raw(out, &format!("{{\"done\":{done},\"waiting\":{waiting}}}"));
        }
        None => raw(out, "null"),
    }
    raw(
        out,
        &format!(
            ",\"waiting\":{},\"waitingSeconds\":{},\"lagSeconds\":{},\"buckets\":",
            status.waiting,
            seconds_or_null(status.waiting_seconds),
            finite(status.lag_seconds)
        ),
    );
    write_list(out, &status.buckets, |out, SizeCount { hours, count }| {
        raw(out, &format!("{{\"hours\":{hours},\"count\":{count}}}"));
    });
    raw(
        out,
        &format!(
            ",\"retired\":{},\"dirty\":{},\"tombstones\":{},\"quarantined\":",
            status.retired, status.dirty, status.tombstones
        ),
    );
    write_list(out, &status.quarantined, write_quarantined);
    raw(
        out,
        &format!(",\"overlapping\":{},\"skipped\":", status.overlapping),
    );
    write_list(out, &status.skipped, write_skipped);
    raw(out, ",\"levels\":");
    write_list(out, &status.levels, write_level);
    raw(
        out,
        &format!(
            ",\"keptBackCount\":{},\"keptBack\":",
            status.kept_back_count
        ),
    );
    write_list(out, &status.kept_back, write_kept_back);
    raw(out, ",\"lastError\":");
    text_or_null(out, status.last_error.as_deref());
    out.push(b'}');
}

fn write_quarantined(out: &mut Vec<u8>, hour: &QuarantinedHour) {
    let QuarantinedHour {
        start_ms,
        since_ms,
        attempts,
        next_try_ms,
        ..
    } = hour;
    raw(
        out,
        &format!(
            "{{\"startMs\":{start_ms},\"sinceMs\":{since_ms},\"attempts\":{attempts},\"nextTryMs\":{next_try_ms},\"cause\":"
        ),
    );
    write_string(out, &hour.cause);
    out.push(b'}');
}

fn write_level(out: &mut Vec<u8>, level: &LevelStatus) {
    raw(out, "{\"resolution\":");
    write_string(out, level.resolution);
    let culled_before = level.culled_before_ms;
    let culled_before = culled_before.map_or_else(|| "null".to_owned(), |ms| ms.to_string());
    raw(
        out,
        &format!(
            ",\"buckets\":{},\"remnants\":{},\"outOfDate\":{},\"outOfDateHours\":{},\"culledBeforeMs\":{culled_before},\"waiting\":{},\"lagSeconds\":{}}}",
            level.buckets,
            level.remnants,
            level.out_of_date,
            level.out_of_date_hours,
            level.waiting,
            finite(level.lag_seconds)
        ),
    );
}

fn write_kept_back(out: &mut Vec<u8>, kept: &KeptBackBucket) {
    raw(out, "{\"resolution\":");
    write_string(out, kept.resolution);
    raw(
        out,
        &format!(
            ",\"startMs\":{},\"endMs\":{},\"reason\":",
            kept.start_ms, kept.end_ms
        ),
    );
    write_string(out, kept.reason);
    out.push(b'}');
}

fn write_job(out: &mut Vec<u8>, job: &JobStatus) {
    raw(out, "{\"kind\":");
    write_string(out, job.kind);
    raw(
        out,
        &format!(
            ",\"startMs\":{},\"endMs\":{},\"sources\":{},\"phase\":",
            job.start_ms, job.end_ms, job.sources
        ),
    );
    write_string(out, job.phase);
    raw(
        out,
        &format!(
            ",\"seriesDone\":{},\"seriesTotal\":{},\"bytesRead\":{},\"bytesWritten\":{},\"startedMs\":{},\"remainingSeconds\":{}}}",
            job.series_done,
            job.series_total,
            job.bytes_read,
            job.bytes_written,
            job.started_ms,
            seconds_or_null(job.remaining_seconds)
        ),
    );
}

fn write_skipped(out: &mut Vec<u8>, job: &SkippedJob) {
    raw(out, "{\"kind\":");
    write_string(out, job.kind);
    raw(
        out,
        &format!(
            ",\"startMs\":{},\"endMs\":{},\"failures\":{},\"nextTryMs\":{},\"cause\":",
            job.start_ms, job.end_ms, job.failures, job.next_try_ms
        ),
    );
    write_string(out, &job.cause);
    out.push(b'}');
}

/// Writes what a run did as a JSON object. `docs/http-api.md` describes each field.
pub fn write_maintenance_report(out: &mut Vec<u8>, report: &MaintenanceReport) {
    raw(
        out,
        &format!(
            "{{\"coarsened\":{},\"retired\":{},\"folded\":{},\"repaired\":{},\"rolledUp\":{},\"merged\":{},\"remnants\":{},\"culled\":{},\"metadataCulled\":{},\"bytesRead\":{},\"bytesWritten\":{},\"seconds\":{},\"quarantined\":",
            report.coarsened,
            report.retired,
            report.folded,
            report.repaired,
            report.rolled_up,
            report.merged,
            report.remnants,
            report.culled,
            report.metadata_culled,
            report.bytes_read,
            report.bytes_written,
            finite(report.seconds)
        ),
    );
    write_list(out, &report.quarantined, write_quarantined);
    raw(out, ",\"skipped\":");
    write_list(out, &report.skipped, write_skipped);
    out.push(b'}');
}

fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// To the tenth: it is an estimate.
fn seconds_or_null(seconds: Option<f64>) -> String {
    seconds.map_or_else(
        || "null".to_owned(),
        |seconds| finite((seconds * 10.0).round() / 10.0).to_string(),
    )
}

fn text_or_null(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => write_string(out, text),
        None => raw(out, "null"),
    }
}

/// JSON has no other numbers.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

#[cfg(test)]
mod tests;
