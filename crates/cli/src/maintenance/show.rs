//! The state of maintenance and the report of a run, for people.

use serde_json::Value;

use crate::output::{Output, Table, size};
use crate::utc;

const HOUR_MS: i64 = 3_600_000;

pub(super) fn status(status: &Value, output: &mut Output) -> anyhow::Result<()> {
    let coarsening = match status["enabled"].as_bool() {
        Some(true) => "by itself",
        _ => "only when a run is asked for",
    };
    let mut table = Table::new(2, ["coarsening", coarsening]);
    let mut row = |what: &str, state: String| table.row([what.to_owned(), state]);
    if let Some(reason) = status["paused"].as_str() {
        row("paused", reason.to_owned());
    }
    row("running", job(&status["running"], true));
    row("waiting", waiting(status));
    row("buckets", buckets(&status["buckets"]));
    for level in list(&status["levels"])
        .iter()
        .filter(|level| is_notable(level))
    {
        let name = level["resolution"].as_str().unwrap_or_default();
        row(&format!("level {name}"), self::level(level));
    }
    for kept in list(&status["keptBack"]) {
        row("kept back", kept_back(kept));
    }
    let shown = list(&status["keptBack"]).len() as u64;
    match number(&status["keptBackCount"]).saturating_sub(shown) {
        0 => {}
        more => row("kept back", format!("{more} more")),
    }
    row("late samples", in_buckets(number(&status["dirty"])));
    row("deleted", deleted(number(&status["tombstones"])));
    row("retired", plural(number(&status["retired"])));
    for hour in status["quarantined"].as_array().into_iter().flatten() {
        row("cannot be flushed", quarantined(hour));
    }
    if number(&status["overlapping"]) > 0 {
        let inside = plural(number(&status["overlapping"]));
        row(
            "overlapping",
            format!("{inside} inside another, to be joined"),
        );
    }
    for skipped in list(&status["skipped"]) {
        row("skipped", skipped_job(skipped));
    }
    if let Some(error) = status["lastError"].as_str() {
        row("last error", error.to_owned());
    }
    Ok(table.print(output)?)
}

/// `coarsen 2023-11-15T00:00:00Z 4h from 4 buckets, samples: 400 of 1000 series, 2.0 MiB read,
/// 512.0 KiB written, about 3 s left`.
pub(super) fn job(job: &Value, with_counters: bool) -> String {
    let Some(kind) = job["kind"].as_str() else {
        return "nothing".into();
    };
    let (start_ms, end_ms) = (integer(&job["startMs"]), integer(&job["endMs"]));
    let start = utc::format_ms(start_ms);
    let hours = end_ms.saturating_sub(start_ms) / HOUR_MS;
    let mut text = format!("{kind} {start} {hours}h");
    match number(&job["sources"]) {
        0 => {}
        sources => text.push_str(&format!(" from {}", plural(sources))),
    }
    let phase = job["phase"].as_str().unwrap_or_default();
    text.push_str(&format!(", {phase}"));
    if with_counters {
        let (done, total) = (number(&job["seriesDone"]), number(&job["seriesTotal"]));
        let (read, written) = (number(&job["bytesRead"]), number(&job["bytesWritten"]));
        let (read, written) = (size(read), size(written));
        text.push_str(&format!(
            ": {done} of {total} series, {read} read, {written} written"
        ));
        if let Some(seconds) = job["remainingSeconds"].as_f64() {
            text.push_str(&format!(", about {} left", duration(seconds)));
        }
    }
    text
}

fn waiting(status: &Value) -> String {
    let lag_s = status["lagSeconds"].as_f64().unwrap_or(0.0);
    let seconds = status["waitingSeconds"].as_f64();
    let work = seconds.map_or_else(String::new, |s| format!(", about {} of work", duration(s)));
    match number(&status["waiting"]) {
        0 => "nothing".into(),
        count => format!(
            "{} to build, the oldest closed for {}{work}",
            plural(count),
            duration(lag_s)
        ),
    }
}

fn buckets(sizes: &Value) -> String {
    let sizes = list(sizes);
    let size = |size: &Value| format!("{} of {} h", number(&size["count"]), number(&size["hours"]));
    let sizes: Vec<String> = sizes.iter().map(size).collect();
    if sizes.is_empty() {
        "none".into()
    } else {
        sizes.join(", ")
    }
}

/// Raw samples of which nothing was culled are among the buckets already.
fn is_notable(level: &Value) -> bool {
    level["resolution"] != "raw" || !level["culledBeforeMs"].is_null()
}

/// `12 buckets, 2 to build (the oldest closed for 3 h), 1 out of date, nothing before
/// 2023-11-15T00:00:00Z`.
pub(super) fn level(level: &Value) -> String {
    let mut text = plural(number(&level["buckets"]));
    match number(&level["remnants"]) {
        0 => {}
        remnants => text += &format!(", {remnants} of series that are kept for longer"),
    }
    let lag_s = level["lagSeconds"].as_f64().unwrap_or(0.0);
    match number(&level["waiting"]) {
        0 => {}
        count => {
            let lag = duration(lag_s);
            text.push_str(&format!(", {count} to build (the oldest closed for {lag})"));
        }
    }
    match number(&level["outOfDate"]) {
        0 => {}
        count => text.push_str(&format!(", {count} out of date")),
    }
    if let Some(culled_ms) = level["culledBeforeMs"].as_i64() {
        let culled = utc::format_ms(culled_ms);
        text.push_str(&format!(", nothing before {culled}"));
    }
    text
}

/// `raw 2023-11-15T00:00:00Z 16h: it is not rolled up yet`.
pub(super) fn kept_back(kept: &Value) -> String {
    let (start_ms, end_ms) = (integer(&kept["startMs"]), integer(&kept["endMs"]));
    let (start, hours) = (utc::format_ms(start_ms), (end_ms - start_ms) / HOUR_MS);
    let level = kept["resolution"].as_str().unwrap_or_default();
    let reason = kept["reason"].as_str().unwrap_or_default();
    format!("{level} {start} {hours}h: {reason}")
}

/// `2023-11-15T00:00:00Z, 3 attempts: bucket 28333320: BucketMeta: unknown version at byte 1`.
fn quarantined(hour: &Value) -> String {
    let start = utc::format_ms(integer(&hour["startMs"]));
    let cause = hour["cause"].as_str().unwrap_or_default();
    format!("{start}, {} attempts: {cause}", number(&hour["attempts"]))
}

fn deleted(count: u64) -> String {
    match count {
        0 => "none".into(),
        count => format!("in {}, to be removed", plural(count)),
    }
}

fn in_buckets(count: u64) -> String {
    match count {
        0 => "none".into(),
        count => format!("in {}, to be folded in", plural(count)),
    }
}

fn plural(count: u64) -> String {
    match count {
        0 => "none".into(),
        1 => "1 bucket".into(),
        count => format!("{count} buckets"),
    }
}

/// `fold 2023-11-15T00:00:00Z 16h, failed twice: …`.
pub(super) fn skipped_job(job: &Value) -> String {
    let (start_ms, end_ms) = (integer(&job["startMs"]), integer(&job["endMs"]));
    let (start, hours) = (utc::format_ms(start_ms), (end_ms - start_ms) / HOUR_MS);
    let kind = job["kind"].as_str().unwrap_or_default();
    let cause = job["cause"].as_str().unwrap_or_default();
    let times = match number(&job["failures"]) {
        0 | 1 => "failed".to_owned(),
        times => format!("failed {times} times"),
    };
    format!("{kind} {start} {hours}h, {times}: {cause}")
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What a run did.
pub(super) fn report(report: &Value, output: &mut Output) -> anyhow::Result<()> {
    for line in report_lines(report) {
        output.line(&line)?;
    }
    Ok(())
}

pub(super) fn report_lines(report: &Value) -> Vec<String> {
    let count = |key: &str| number(&report[key]);
    let mut lines = Vec::new();
    if count("coarsened") > 0 {
        lines.push(format!(
            "Coarsened: {} in place of {}",
            plural(count("coarsened")),
            count("retired")
        ));
    }
    if count("folded") > 0 {
        lines.push(format!(
            "Late samples folded in: {}",
            plural(count("folded"))
        ));
    }
    if count("repaired") > 0 {
        let repaired = plural(count("repaired"));
        lines.push(format!(
            "Joined with the larger one around them: {repaired}"
        ));
    }
    for (key, done) in [
        ("rolledUp", "Rolled up into"),
        ("merged", "Late samples merged into windows"),
        ("remnants", "Series that are kept for longer moved into"),
        ("culled", "Deleted because of their age"),
    ] {
        if count(key) > 0 {
            lines.push(format!("{done}: {}", plural(count(key))));
        }
    }
    if count("metadataCulled") > 0 {
        let metrics = count("metadataCulled");
        lines.push(format!(
            "Metadata deleted of metrics that are gone: {metrics}"
        ));
    }
    let skipped = list(&report["skipped"]);
    lines.extend(
        skipped
            .iter()
            .map(|job| format!("Skipped: {}", skipped_job(job))),
    );
    if lines.is_empty() {
        lines.push("Nothing was left to do.".into());
    }
    for hour in report["quarantined"].as_array().into_iter().flatten() {
        lines.push(format!("Cannot be flushed: {}", quarantined(hour)));
    }
    lines.push(format!(
        "Read {}, wrote {}, {:.1} s",
        size(count("bytesRead")),
        size(count("bytesWritten")),
        report["seconds"].as_f64().unwrap_or(0.0)
    ));
    lines
}

/// `90 s`, `45 min`, `3.5 h`: rounded for people.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}
