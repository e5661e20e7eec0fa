//! `/-/reload`: the configuration file and the web configuration file are read anew.

use std::sync::Arc;

use axum::extract::State;
use tokio::task::JoinError;

use super::App;
use super::error::ApiError;

/// Answers when the new configuration is in force, or why it is not. One file that cannot be used
/// does not keep the other from being read.
pub(super) async fn reload(State(app): State<Arc<App>>) -> Result<&'static str, ApiError> {
    app.database()?;
    let scraping = app
        .scraping()
        .cloned()
        .ok_or_else(|| ApiError::unavailable("scraping is being started: try again"))?;
    // A task of its own, because a client that goes away must not stop it in the middle.
    let access = Arc::clone(&app.access);
    let access = tokio::task::spawn_blocking(move || access.reload());
    let scraping = tokio::spawn(async move { scraping.reload().await });
    let ended = |error: JoinError| ApiError::internal(error.to_string());
    let (access, scraping) = (access.await.map_err(ended)?, scraping.await.map_err(ended)?);
    let failed = |reason: String| ApiError::internal(format!("failed to reload config: {reason}"));
    access.map_err(|reason| failed(reason.to_string()))?;
    scraping.map_err(|reason| failed(reason.to_string()))?;
    Ok("Reloaded.\n")
}
