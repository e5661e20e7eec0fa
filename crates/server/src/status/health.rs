//! `/-/healthy`, `/-/ready`, `/-/flush`, `/metrics` and the page at `/`: for operators.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse as _, Response};
use icecore_wire::prometheus::text::TEXT_CONTENT_TYPE;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::status::metrics;
use crate::ui;

/// The process runs. It says nothing about the database: restarting a process that replays its
/// journal would only make it begin again.
pub(crate) async fn healthy() -> &'static str {
    "Icecore is healthy.\n"
}

/// Requests are answered, and what is written can be acknowledged.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let unready = app.database().map(|database| database.unready());
    match unready {
        // Targets and the configuration of scraping are known a moment after the database is open.
        Ok(None) if app.scraping().is_none() => ApiError::unavailable("starting").into_text(),
        Ok(None) => "Icecore is ready.\n".into_response(),
        Ok(Some(reason)) => ApiError::unavailable(reason).into_text(),
        Err(error) => error.into_text(),
    }
}

/// Moves everything into buckets and answers when that is done.
pub(crate) async fn flush(State(app): State<Arc<App>>) -> Result<String, ApiError> {
    let database = app.database()?.clone();
    // A task of its own, because a client that goes away must not stop a flush in the middle.
    let flushing = database.clone();
    let flushed = tokio::spawn(async move { flushing.flush().await }).await;
    flushed.map_err(|error| ApiError::internal(error.to_string()))??;
    let mut answer = String::from("Flushed.\n");
    for hour in database.quarantined() {
        let (start_ms, cause) = (hour.start_ms, hour.cause);
        answer += &format!(
            "Not flushed: the hour that begins at {start_ms} ms. It stays in head and journal: {cause}\n"
        );
    }
    Ok(answer)
}

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let text = metrics::render(app.database()?, &app);
    Ok(([(header::CONTENT_TYPE, TEXT_CONTENT_TYPE)], text).into_response())
}

/// What there is. A browser is sent to the interface.
pub(crate) async fn index(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if ui::wants_page(&headers) {
        return Ok(ui::redirect("ui/"));
    }
    app.database()?;
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Icecore</title>\
         <h1>Icecore ",
    );
    page.push_str(env!("CARGO_PKG_VERSION"));
    page.push_str("</h1><ul>");
    for route in app.routes() {
        let methods = route.methods.join(", ");
        let (path, what) = (route.path, route.what);
        let linked = route.methods.contains(&"GET") && !path.contains('{');
        let shown = if linked {
            format!("<a href=\"{path}\">{path}</a>")
        } else {
            path.to_owned()
        };
        page.push_str(&format!("<li><code>{methods} {shown}</code> {what}</li>"));
    }
    page.push_str("</ul></html>\n");
    Ok(Html(page).into_response())
}
