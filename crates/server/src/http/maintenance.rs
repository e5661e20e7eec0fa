//! `/api/v1/status/maintenance` and `/api/v1/admin/maintenance/run`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::error::ApiError;
use super::json::small_success;
use crate::maintenance::{
    CALLERS_MAX, TooManyCallers, write_maintenance_report, write_maintenance_status,
};

/// What maintenance is doing and what is left to do. Read from memory, so that it answers also while
/// all reads are taken.
pub(super) async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let status = app.database()?.maintenance_status();
    Ok(small_success(|out| write_maintenance_status(out, &status)))
}

/// Brings everything that is closed into its final form and answers when that is done.
pub(super) async fn run(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let database = app.database()?.clone();
    let asked = app.maintenance_runs.ask(move || {
        let database = database.clone();
        async move { database.run_maintenance().await.map_err(ApiError::from) }
    });
    let too_many = |TooManyCallers| {
        ApiError::unavailable(format!(
            "{CALLERS_MAX} requests wait for a run of maintenance already: try again"
        ))
    };
    let ended = asked.map_err(too_many)?.await;
    let report = ended.map_err(|_| ApiError::internal("the run of maintenance panicked"))??;
    Ok(small_success(|out| write_maintenance_report(out, &report)))
}
