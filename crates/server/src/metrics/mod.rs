//! Metrics of HTTP, queries and the process. `docs/operating.md` lists every name.

pub(crate) mod events;
mod http;
pub(crate) mod maintenance;
pub(crate) mod process;
mod query;

use icecore_model::MetricType;
use icecore_storage::{DURATION_BOUNDS, Durations};
use icecore_wire::prometheus::TextWriter;

pub(crate) use self::http::HttpMetrics;
pub(crate) use self::process::open_files_max;
pub(crate) use self::query::{QueryKind, QueryMetrics};

pub(crate) fn counter(text: &mut TextWriter, name: &str, help: &str, value: u64) {
    text.family(name, help, MetricType::Counter);
    text.sample(name, &[], value as f64);
}

pub(crate) fn gauge(text: &mut TextWriter, name: &str, help: &str, value: f64) {
    text.family(name, help, MetricType::Gauge);
    text.sample(name, &[], value);
}

pub(crate) fn durations(text: &mut TextWriter, name: &str, help: &str, durations: &Durations) {
    text.family(name, help, MetricType::Histogram);
    let (counts, sum) = durations.get();
    text.histogram(name, &[], &DURATION_BOUNDS, &counts, sum);
}
