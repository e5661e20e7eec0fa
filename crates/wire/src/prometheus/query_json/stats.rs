//! What a query cost, in the shape that Prometheus gives it.

use super::number::{push_sample_number, push_short_timestamp};
use crate::prometheus::api_json::write_list;
use crate::prometheus::number::push_formatted;

/// What a query cost, as `stats` shows it. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub struct QueryStats {
    pub eval_total_seconds: f64,
    pub result_sort_seconds: f64,
    pub preparation_seconds: f64,
    pub inner_eval_seconds: f64,
    pub queue_seconds: f64,
    pub exec_total_seconds: f64,
    /// Empty where the caller did not ask for it.
    pub samples_per_step: Vec<(i64, u64)>,
    pub samples: u64,
    /// Empty where the caller did not ask for it.
    pub samples_read_per_step: Vec<(i64, u64)>,
    pub samples_read: u64,
    pub samples_peak: u64,
}

pub(super) fn write_stats(out: &mut Vec<u8>, stats: &QueryStats) {
    out.extend_from_slice(b"{\"timings\":{");
    for (i, (key, seconds)) in [
        ("evalTotalTime", stats.eval_total_seconds),
        ("resultSortTime", stats.result_sort_seconds),
        ("queryPreparationTime", stats.preparation_seconds),
        ("innerEvalTime", stats.inner_eval_seconds),
        ("execQueueTime", stats.queue_seconds),
        ("execTotalTime", stats.exec_total_seconds),
    ]
    .into_iter()
    .enumerate()
    {
        out.extend_from_slice(if i > 0 { b",\"" } else { b"\"" });
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        // A clock does not give infinities; if one came, it would not be JSON.
        push_sample_number(out, if seconds.is_finite() { seconds } else { 0.0 });
    }
    out.extend_from_slice(b"},\"samples\":{");
    write_per_step(out, "totalQueryableSamplesPerStep", &stats.samples_per_step);
    push_formatted(
        out,
        format_args!("\"totalQueryableSamples\":{},", stats.samples),
    );
    write_per_step(out, "samplesReadPerStep", &stats.samples_read_per_step);
    push_formatted(
        out,
        format_args!(
            "\"samplesRead\":{},\"peakSamples\":{}}}}}",
            stats.samples_read, stats.samples_peak
        ),
    );
}

fn write_per_step(out: &mut Vec<u8>, key: &str, steps: &[(i64, u64)]) {
    if steps.is_empty() {
        return;
    }
    push_formatted(out, format_args!("\"{key}\":"));
    write_list(out, steps, |out, (time_ms, count)| {
        out.push(b'[');
        push_short_timestamp(out, *time_ms);
        push_formatted(out, format_args!(",{count}]"));
    });
    out.push(b',');
}
