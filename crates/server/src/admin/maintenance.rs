//! `/api/v1/status/maintenance` and `/api/v1/admin/maintenance/run`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::app::App;
use crate::maintenance::{write_maintenance_report, write_maintenance_status};
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success;

/// What maintenance is doing and what is left to do. Read from memory, so that it answers also
/// while all reads are taken.
pub(crate) async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let status = app.database()?.maintenance_status();
    Ok(small_success(|out| write_maintenance_status(out, &status)))
}

/// Brings everything that is closed into its final form and answers when that is done. The run is
/// the database's own: callers share it, and it continues when they disconnect.
pub(crate) async fn run(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let database = app.database()?;
    let _slot = app.limits.maintenance_slot()?;
    let report = database.run_maintenance().await?;
    Ok(small_success(|out| write_maintenance_report(out, &report)))
}
