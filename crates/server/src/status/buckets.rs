//! `/api/v1/status/buckets`: what is stored where, on a line of time.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_model::HOUR_MS;
use icecore_storage::{BucketFigures, Gauges};
use serde_json::{Value, json};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;

pub(crate) async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let database = app.database()?;
    let slot = app.limits.read_slot().await?;
    let buckets = database.bucket_figures().await?;
    let gauges = database.gauges();
    success(slot, Vec::new(), move |out| {
        let buckets: Vec<Value> = buckets.iter().map(bucket_json).collect();
        let data = json!({"buckets": buckets, "head": head_json(&gauges)});
        out.extend_from_slice(data.to_string().as_bytes());
    })
    .await
}

fn bucket_json(bucket: &BucketFigures) -> Value {
    json!({
        "start": bucket.start_ms / 1000,
        "hours": (bucket.end_ms - bucket.start_ms) / HOUR_MS,
        "resolution": bucket.resolution,
        "state": bucket.role.word(),
        "series": bucket.series,
        "samples": bucket.samples,
        "bytes": bucket.bytes,
    })
}

/// What is in memory. Its samples are not counted.
fn head_json(gauges: &Gauges) -> Value {
    let seconds = |ms: Option<i64>| ms.map(|ms| ms / 1000);
    json!({
        "minTime": seconds(gauges.head_start_ms),
        "maxTime": seconds(gauges.head_end_ms),
        "series": gauges.series,
        "samples": null,
        "bytes": gauges.head_sample_bytes,
    })
}
