//! `/-/reload`: reloads the configuration file and the web configuration file.

use std::sync::Arc;

use axum::extract::State;

use crate::app::App;
use crate::middleware::error::ApiError;

/// Answers when the new configuration is in force, or why it is not; and which settings changed, or
/// need a restart to.
pub(crate) async fn reload(State(app): State<Arc<App>>) -> Result<String, ApiError> {
    app.database()?;
    let scraping = app
        .scraping()
        .ok_or_else(|| ApiError::unavailable("scraping is being started: try again"))?;
    let failed = |reason| ApiError::internal(format!("failed to reload config: {reason}"));
    let changes = crate::reload::reload(&app, scraping)
        .await
        .map_err(failed)?;
    let mut answer = String::from("Reloaded.\n");
    for (what, keys) in [
        ("applied", changes.applied),
        ("need a restart", changes.waiting),
    ] {
        if !keys.is_empty() {
            answer.push_str(&format!("{what}: {}\n", keys.join(", ")));
        }
    }
    Ok(answer)
}
