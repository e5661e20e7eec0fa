//! `/api/v1/status/features`: what is in use, so that nobody is shown what they do not have.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success;

pub(crate) async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let gauges = app.database()?.gauges();
    let jobs = app.scraping().map(|scraping| scraping.pool_names());
    let listens = app.config().opentsdb.listen.is_some();
    let events = app.events()?;
    let has_events = !events.registry().services.is_empty()
        || events.gauges().tail_events > 0
        || events.has_quarantined().await;
    let data = json!({
        "data": gauges.open_hours > 0 || gauges.buckets > 0,
        "scrape": jobs.is_some_and(|jobs| !jobs.is_empty()),
        "opentsdb": listens || app.opentsdb()?.has_uids(),
        "events": has_events,
        "sql": cfg!(feature = "sql"),
    });
    Ok(small_success(|out| {
        out.extend_from_slice(data.to_string().as_bytes());
    }))
}
