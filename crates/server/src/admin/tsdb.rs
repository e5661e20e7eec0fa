//! `/api/v1/admin/tsdb/…`: deletion and snapshots, as Prometheus has them, and more of the latter.
//!
//! Holds always: what a success says is durable. A client that disconnects leaves nothing half
//! done: the work is the database's own.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use icecore_storage::{DeletedBeyond, Deletion, DeletionReport, Snapshot};
use icecore_wire::prometheus::api_json::{write_list, write_string};
use icecore_wire::prometheus::parse_duration_ms;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::{small_success, warned_success};
use crate::middleware::params::Params;
use crate::middleware::rfc3339;

/// Deletes samples of the series that match any `match[]`, from `start` to `end`. 204 without a
/// body, as Prometheus answers, where exactly that has gone; where windows went whole, 200 with
/// warnings, which Prometheus' clients take for a success as well.
pub(crate) async fn delete_series(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?;
    let selectors = params.some_selectors()?;
    let range = params.range()?;
    let _slot = app.limits.maintenance_slot()?;
    let deletion = Deletion {
        selectors,
        start_ms: range.start_ms,
        end_ms: range.end_ms,
    };
    let report = database.delete_series(deletion).await?;
    Ok(match &beyond_request(&report)[..] {
        [] => StatusCode::NO_CONTENT.into_response(),
        warnings => warned_success(warnings),
    })
}

/// A warning for each level of which more went than was asked for.
fn beyond_request(report: &DeletionReport) -> Vec<String> {
    let levels = report
        .beyond
        .chunk_by(|a, b| a.resolution == b.resolution)
        .map(|of_level| {
            let resolution = of_level[0].resolution;
            let range = |range: &DeletedBeyond| {
                let (start, end) = (range.start_ms, range.end_ms);
                format!("[{}, {})", rfc3339::format(start), rfc3339::format(end))
            };
            let ranges: Vec<String> = of_level.iter().map(range).collect();
            format!(
                "windows of {resolution} whose samples are gone were removed whole, beyond the \
                 request: {}",
                ranges.join(" and ")
            )
        });
    levels.collect()
}

/// Removes deleted samples from the records that still contain them, and answers when that is done.
pub(crate) async fn clean_tombstones(State(app): State<Arc<App>>) -> Result<StatusCode, ApiError> {
    let database = app.database()?;
    let _slot = app.limits.maintenance_slot()?;
    database.clean_tombstones().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Keeps the state of now under `name`, for as long as `ttl` says.
pub(crate) async fn create_snapshot(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?.clone();
    let name = params.first("name").map(str::to_owned);
    let lifetime = lifetime(&params)?;
    let _slot = app.limits.maintenance_slot()?;
    // A task of its own, because a client that goes away must not leave a snapshot that nobody
    // lists.
    let work = async move { database.create_snapshot(name.as_deref(), lifetime).await };
    let made = tokio::spawn(work).await;
    let made = made.map_err(|error| ApiError::internal(error.to_string()))??;
    Ok(small_success(|out| write_snapshot(out, &made)))
}

fn lifetime(params: &Params) -> Result<Option<Duration>, ApiError> {
    let Some(text) = params.first("ttl") else {
        return Ok(None);
    };
    let ms = parse_duration_ms(text).map_err(|error| ApiError::from(("ttl", error)))?;
    match u64::try_from(ms) {
        Ok(ms) if ms > 0 => Ok(Some(Duration::from_millis(ms))),
        _ => Err(ApiError::of_parameter("ttl", "must be positive")),
    }
}

/// All snapshots, by time.
pub(crate) async fn snapshots(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let found = app.database()?.snapshots().await?;
    Ok(small_success(|out| write_list(out, &found, write_snapshot)))
}

/// Lets a snapshot go.
pub(crate) async fn delete_snapshot(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let database = app.database()?;
    let Path(name) = name.map_err(|error| ApiError::bad_data(format!("invalid name: {error}")))?;
    if database.delete_snapshot(&name).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::no_such(format!("there is no snapshot {name:?}")))
    }
}

fn write_snapshot(out: &mut Vec<u8>, snapshot: &Snapshot) {
    out.extend_from_slice(b"{\"name\":");
    write_string(out, &snapshot.name);
    out.extend_from_slice(b",\"id\":");
    write_string(out, &snapshot.id);
    let expires = snapshot.expires_ms;
    let expires = expires.map_or_else(|| "null".to_owned(), |ms| ms.to_string());
    let times = format!(
        ",\"createdMs\":{},\"expiresMs\":{expires}}}",
        snapshot.created_ms
    );
    out.extend_from_slice(times.as_bytes());
}
