//! `GET /federate`: the latest sample of each series that matches, for a Prometheus that scrapes
//! us.
//!
//! ```text
//! match[] ─► Database::select, from now back to query.lookback_delta
//!         ─► last sample of each ─► text or protobuf
//! ```
//!
//! Holds always: a series is there once, however many selectors it matches, and not at all when it
//! has ended: its last sample is a staleness marker, or too old. Where it is what is left of a
//! window, which takes a lookback of days, a header says so.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use icecore_model::{
    Histogram, Labels, MAX_TIMESTAMP_MS, Matcher, MetricType, Selection, SeriesSamples,
    SeriesStream as _, is_stale_nan,
};
use icecore_storage::Database;
use icecore_wire::prometheus::federate::{FederateFormat, FederateWriter, FederatedValue};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::params::Params;
use crate::read::external_labels::{external_labels, with_external};
use crate::read::resolution::RolledUpTime;

pub(crate) async fn federate(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?.clone();
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let format = FederateFormat::negotiate(accept);
    let slot = app.limits.read_slot().await?;
    // None is no error here: a Prometheus without a selector would see an empty page.
    let selectors = params.selectors()?;
    let now_ms = app.clock().now_ms();
    let lookback = app.queries.engine().options().lookback;
    let lookback_ms = i64::try_from(lookback.as_millis()).unwrap_or(i64::MAX);
    let start_ms = now_ms.saturating_sub(lookback_ms);
    let mut latest = Vec::new();
    let mut rolled = RolledUpTime::default();
    let engine = app.queries.engine();
    for mut matchers in selectors {
        // What counts twice for queries does for whoever sums up what it scrapes.
        let implied: Vec<Matcher> = engine.options().implied.of(&matchers).cloned().collect();
        matchers.extend(implied);
        let selection = Selection {
            matchers,
            start_ms: start_ms.max(0),
            end_ms: now_ms.min(MAX_TIMESTAMP_MS),
            hints: app.queries.hints(),
        };
        gather(&database, selection, &mut latest, &mut rolled).await?;
    }
    let external = external_labels(&app);
    let write = move || {
        add_external(&external, &mut latest);
        let body = written(&database, format, latest);
        drop(slot);
        body
    };
    let body = tokio::task::spawn_blocking(write).await;
    let body = body.map_err(|error| ApiError::internal(error.to_string()))?;
    let response = ([(header::CONTENT_TYPE, format.content_type())], body).into_response();
    Ok(rolled.announce(response))
}

/// The last sample of a series.
struct Latest {
    labels: Labels,
    timestamp_ms: i64,
    value: Value,
}

enum Value {
    Float(f64),
    Histogram(Arc<Histogram>),
}

async fn gather(
    database: &Database,
    selection: Selection,
    latest: &mut Vec<Latest>,
    rolled: &mut RolledUpTime,
) -> Result<(), ApiError> {
    let mut stream = database.select(selection).await?;
    rolled.add(&stream.levels());
    while let Some(batch) = stream.next_batch().await? {
        latest.extend(batch.iter().filter_map(latest_of));
    }
    Ok(())
}

/// The last sample of a series that goes on.
fn latest_of(series: &SeriesSamples) -> Option<Latest> {
    let float_at = series.floats.timestamps.last().copied();
    let histogram = series.histograms.last();
    let (timestamp_ms, value) = match (float_at, histogram) {
        (float_at, Some(sample)) if float_at.is_none_or(|at| at < sample.timestamp_ms) => {
            let histogram = Arc::clone(&sample.histogram);
            (sample.timestamp_ms, Value::Histogram(histogram))
        }
        (at, _) => (at?, Value::Float(series.floats.values.last().copied()?)),
    };
    let stale = match &value {
        Value::Float(value) => is_stale_nan(*value),
        Value::Histogram(histogram) => histogram.is_stale(),
    };
    (!stale).then(|| Latest {
        labels: series.labels.clone(),
        timestamp_ms,
        value,
    })
}

/// Adds `global.external_labels`, by which a Prometheus that federates several servers tells their
/// series apart.
fn add_external(external: &[(String, String)], latest: &mut [Latest]) {
    if external.is_empty() {
        return;
    }
    for sample in latest {
        sample.labels = with_external(&sample.labels, external);
    }
}

fn written(database: &Database, format: FederateFormat, mut latest: Vec<Latest>) -> Vec<u8> {
    // Stable, so that of a series that several selectors have brought the first one stays.
    latest.sort_by(|a, b| a.labels.cmp(&b.labels));
    latest.dedup_by(|b, a| a.labels == b.labels);
    let mut writer = FederateWriter::new(format);
    let mut known: Option<(&str, MetricType)> = None;
    for sample in &latest {
        let name = sample.labels.metric_name();
        let metric_type = match known {
            Some((of, metric_type)) if of == name => metric_type,
            _ => metric_type_of(database, name),
        };
        known = Some((name, metric_type));
        let value = match &sample.value {
            Value::Float(value) => FederatedValue::Float(*value),
            Value::Histogram(histogram) => FederatedValue::Histogram(histogram),
        };
        writer.sample(&sample.labels, sample.timestamp_ms, value, metric_type);
    }
    writer.finish()
}

/// What metadata says about a metric. OpenMetrics describes the counter `x_total` as `x`.
fn metric_type_of(database: &Database, name: &str) -> MetricType {
    let described = |family: &str| {
        let found = database.metadata(Some(family)).into_iter().next();
        found.map(|(_, metadata)| metadata.metric_type)
    };
    described(name)
        .or_else(|| {
            let family = name.strip_suffix("_total")?;
            described(family).filter(|found| *found == MetricType::Counter)
        })
        .unwrap_or_default()
}
