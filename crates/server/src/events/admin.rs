//! What administrators of events ask for: `/api/admin/…`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use icecore_events::time_text::parse_time;
use icecore_events::{Documents, Problem};
use serde_json::json;

use super::call::{Call, Content, answered, json, media_type};
use super::lists::{Page, answer, letter_json, quarantine_json};
use super::multipart;
use super::partitions::list_partitions;
use super::search::{computed, variable};
use crate::app::App;
use crate::middleware::error::ApiError;

pub(crate) async fn documents(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Yaml, |app, call| async move {
        let text = text_of(&call.body)?.to_owned();
        apply(&app, &call, move || Documents::parse_yaml(&text)).await
    })
    .await
}

pub(crate) async fn put_service(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Json, |app, call| async move {
        let text = text_of(&call.body)?.to_owned();
        apply(&app, &call, move || Documents::parse_yaml(&text)).await
    })
    .await
}

pub(crate) async fn import(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Archive, import_archive).await
}

async fn import_archive(app: Arc<App>, call: Call) -> Result<Response, ApiError> {
    if let Some(mode) = call.params.first("mode")
        && mode != "upsert"
    {
        let detail = format!("mode {mode:?} does not exist: upsert does");
        return Err(Problem::new(400, "config.invalid", detail).into());
    }
    let headers = &call.head.headers;
    let archive = if media_type(headers) == "multipart/form-data" {
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let range = multipart::field(content_type.unwrap_or_default(), &call.body, "file")
            .map_err(|reason| Problem::new(400, "config.invalid", reason))?;
        call.body.slice(range)
    } else {
        call.body.clone()
    };
    apply(&app, &call, move || Documents::parse_archive(&archive)).await
}

fn text_of(body: &[u8]) -> Result<&str, Problem> {
    str::from_utf8(body).map_err(|_| Problem::new(400, "config.invalid", "the body is not UTF-8"))
}

async fn apply(
    app: &App,
    call: &Call,
    parse: impl FnOnce() -> Result<Documents, Vec<icecore_settings::Problem>> + Send + 'static,
) -> Result<Response, ApiError> {
    let force = call.params.switch("force")?;
    let events = app.events()?.clone();
    let parsed = tokio::task::spawn_blocking(parse).await;
    let parsed = parsed.map_err(|error| ApiError::internal(error.to_string()))?;
    let documents = parsed.map_err(|faults| Problem::invalid_documents(&faults))?;
    // A task of its own, because a client that goes away must not stop a change in the middle.
    let services: Vec<String> = documents.services().into_iter().map(Into::into).collect();
    let applied = tokio::spawn(async move { events.apply(documents, force).await }).await;
    let applied = applied.map_err(|error| ApiError::internal(error.to_string()))??;
    let answer = json!({
        "registryVersion": applied.registry.version,
        "services": services,
        "warnings": applied.registry.warnings(),
    });
    Ok(json(StatusCode::OK, &answer))
}

pub(crate) async fn service(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, mut call| async move {
        let name = variable(&mut call).await?;
        let registry = app.events()?.registry();
        let wants_yaml = call.head.headers.get(header::ACCEPT);
        let wants_yaml = wants_yaml.is_some_and(|value| value.as_bytes().ends_with(b"yaml"));
        let unknown = || {
            let detail = format!("service {name:?} is not registered");
            Problem::new(404, "query.unknown-service", detail)
        };
        if wants_yaml {
            let text = registry.service_yaml(&name).ok_or_else(unknown)?;
            let content_type = [(header::CONTENT_TYPE, "application/yaml")];
            return Ok((content_type, text).into_response());
        }
        let document = registry.service_json(&name).ok_or_else(unknown)?;
        Ok(json(StatusCode::OK, &document))
    })
    .await
}

pub(crate) async fn ready(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, _| async move {
        app.events()?;
        Ok("OK".into_response())
    })
    .await
}

pub(crate) async fn flush(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, _| async move {
        let events = app.events()?.clone();
        let flushed = tokio::spawn(async move { events.flush().await }).await;
        let mark = flushed.map_err(|error| ApiError::internal(error.to_string()))??;
        let answer = json!({"generation": mark.generation, "hiSeq": mark.seq});
        Ok(json(StatusCode::OK, &answer))
    })
    .await
}

pub(crate) async fn run_retention(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, call| async move {
        let now_ms = match call.params.first("now") {
            None => app.clock().now_ms(),
            Some(text) => {
                let invalid = || {
                    let detail = format!("now={text:?} is no time of RFC 3339");
                    Problem::new(400, "request.invalid", detail)
                };
                parse_time(text).ok_or_else(invalid)? / 1_000_000
            }
        };
        let events = app.events()?.clone();
        let ran = tokio::spawn(async move { events.run_retention(now_ms).await }).await;
        let report = ran.map_err(|error| ApiError::internal(error.to_string()))??;
        let answer = json!({
            "files": report.files,
            "events": report.events,
            "cellWeeks": report.cell_weeks,
            "identityWeeks": report.identity_weeks,
            "dimensionSets": report.dimension_sets,
            "quarantined": report.quarantined,
        });
        Ok(json(StatusCode::OK, &answer))
    })
    .await
}

pub(crate) async fn partitions(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, call| async move {
        let service = call.params.first("service").map(str::to_owned);
        let events = app.events()?.clone();
        computed(&app, async move {
            list_partitions(&events.view().await?, service.as_deref()).await
        })
        .await
    })
    .await
}

pub(crate) async fn quarantine(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, call| async move {
        let page = Page::of(&call.params)?;
        let listed = app.events()?.quarantine(page.below, page.limit).await?;
        Ok(json(
            StatusCode::OK,
            &answer(&listed, |entry| entry.number, quarantine_json),
        ))
    })
    .await
}

pub(crate) async fn dead_letters(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, call| async move {
        let page = Page::of(&call.params)?;
        let listed = app.events()?.dead_letters(page.below, page.limit).await?;
        Ok(json(
            StatusCode::OK,
            &answer(&listed, |letter| letter.number, letter_json),
        ))
    })
    .await
}

pub(crate) async fn replay(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, _| async move {
        let events = app.events()?.clone();
        let replayed = tokio::spawn(async move { events.replay_quarantine().await }).await;
        let replayed = replayed.map_err(|error| ApiError::internal(error.to_string()))??;
        let answer = json!({"stored": replayed.stored, "remaining": replayed.remaining});
        Ok(json(StatusCode::OK, &answer))
    })
    .await
}
