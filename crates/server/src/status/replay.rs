//! `/api/v1/status/walreplay`: the replay of the journal at the start.
//!
//! Holds always: it is answered before the database is open, because that is when it matters.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use crate::app::App;
use crate::middleware::json::small_success;

/// Epochs of the journal, in place of Prometheus' segments.
pub(crate) async fn status(State(app): State<Arc<App>>) -> Response {
    let progress = &app.replay;
    let data = json!({
        "min": progress.first(),
        "max": progress.last(),
        "current": progress.current(),
    });
    small_success(|out| out.extend_from_slice(data.to_string().as_bytes()))
}
