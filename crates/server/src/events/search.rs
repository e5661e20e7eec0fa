//! Stored events: search, one event, OB-JQL and SQL.

use std::sync::Arc;

use axum::extract::{FromRequestParts as _, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use icecore_events::search::{find_event, query_objql, search_events};
use icecore_events::{EventSource, Problem};

use super::call::{Call, Content, answered, json_bytes};
use crate::app::App;
use crate::middleware::error::ApiError;

pub(crate) async fn events(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Json, |app, call| async move {
        let body = call.body.clone();
        ask(&app, |view| async move { search_events(view, &body).await }).await
    })
    .await
}

pub(crate) async fn objql(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Json, |app, call| async move {
        let body = call.body.clone();
        ask(&app, |view| async move { query_objql(view, &body).await }).await
    })
    .await
}

pub(crate) async fn event(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::None, |app, mut call| async move {
        let (service, id) = two_variables(&mut call).await?;
        ask(
            &app,
            |view| async move { find_event(view, &service, &id).await },
        )
        .await
    })
    .await
}

pub(crate) async fn sql(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Json, super::sql::query).await
}

/// The only variable of a path.
pub(super) async fn variable(call: &mut Call) -> Result<String, ApiError> {
    let found = Path::<String>::from_request_parts(&mut call.head, &()).await;
    let Path(variable) = found.map_err(|error| ApiError::bad_data(error.to_string()))?;
    Ok(variable)
}

/// Both variables of a path.
pub(super) async fn two_variables(call: &mut Call) -> Result<(String, String), ApiError> {
    let found = Path::<(String, String)>::from_request_parts(&mut call.head, &()).await;
    let Path(variables) = found.map_err(|error| ApiError::bad_data(error.to_string()))?;
    Ok(variables)
}

/// Answers a question about the events of all instances.
pub(super) async fn ask<F, Answer>(app: &Arc<App>, question: F) -> Result<Response, ApiError>
where
    F: FnOnce(Arc<dyn EventSource>) -> Answer + Send + 'static,
    Answer: Future<Output = Result<String, Problem>> + Send + 'static,
{
    let events = app.all_events()?.clone();
    computed(app, async move { question(events.view().await?).await }).await
}

/// Answers with a JSON text, where queries compute.
pub(super) async fn computed(
    app: &Arc<App>,
    answer: impl Future<Output = Result<String, Problem>> + Send + 'static,
) -> Result<Response, ApiError> {
    let slot = app.queries.slot(app.queries.longest()).await?;
    let answering = async move {
        let _slot = slot;
        answer.await
    };
    let answer = app.queries.on_pool(answering).await??;
    Ok(json_bytes(StatusCode::OK, answer.into_bytes()))
}
