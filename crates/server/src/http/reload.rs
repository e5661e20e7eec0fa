//! `/-/reload`: the configuration file is read anew.

use std::sync::Arc;

use axum::extract::State;

use super::App;
use super::error::ApiError;

/// Answers when the new configuration is in force, or why it is not.
pub(super) async fn reload(State(app): State<Arc<App>>) -> Result<&'static str, ApiError> {
    app.database()?;
    let scraping = app
        .scraping()
        .cloned()
        .ok_or_else(|| ApiError::unavailable("scraping is being started: try again"))?;
    // A task of its own, because a client that goes away must not stop it in the middle.
    let reloaded = tokio::spawn(async move { scraping.reload().await }).await;
    let reloaded = reloaded.map_err(|error| ApiError::internal(error.to_string()))?;
    reloaded.map_err(|reason| ApiError::internal(format!("failed to reload config: {reason}")))?;
    Ok("Reloaded.\n")
}
