//! Counters, histograms, gauges and states by intervals: `POST /api/query/…`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use icecore_events::Problem;
use icecore_events::query::{
    CellSource, query_counters, query_gauges, query_histograms, query_state_count_timeseries,
    query_state_counts, query_state_transitions,
};
use icecore_model::BoxFuture;

use super::call::{Call, Content, answered, json_bytes};
use crate::app::App;
use crate::middleware::error::ApiError;

/// What answers a body with a JSON text.
type Question = for<'a> fn(&'a dyn CellSource, &'a [u8]) -> BoxFuture<'a, Result<String, Problem>>;

pub(crate) async fn counters(State(app): State<Arc<App>>, request: Request) -> Response {
    ask(app, request, |cells, body| {
        Box::pin(query_counters(cells, body))
    })
    .await
}

pub(crate) async fn histograms(State(app): State<Arc<App>>, request: Request) -> Response {
    ask(app, request, |cells, body| {
        Box::pin(query_histograms(cells, body))
    })
    .await
}

pub(crate) async fn gauges(State(app): State<Arc<App>>, request: Request) -> Response {
    ask(app, request, |cells, body| {
        Box::pin(query_gauges(cells, body))
    })
    .await
}

pub(crate) async fn state_counts(State(app): State<Arc<App>>, request: Request) -> Response {
    ask(app, request, |cells, body| {
        Box::pin(query_state_counts(cells, body))
    })
    .await
}

pub(crate) async fn state_transitions(State(app): State<Arc<App>>, request: Request) -> Response {
    ask(app, request, |cells, body| {
        Box::pin(query_state_transitions(cells, body))
    })
    .await
}

pub(crate) async fn state_count_timeseries(
    State(app): State<Arc<App>>,
    request: Request,
) -> Response {
    ask(app, request, |cells, body| {
        Box::pin(query_state_count_timeseries(cells, body))
    })
    .await
}

async fn ask(app: Arc<App>, request: Request, question: Question) -> Response {
    answered(
        app,
        request,
        Content::Json,
        move |app, call: Call| async move {
            let answer = computed(&app, call.body.clone(), question).await?;
            Ok(json_bytes(StatusCode::OK, answer.into_bytes()))
        },
    )
    .await
}

/// Answers where queries compute.
async fn computed(app: &Arc<App>, body: Bytes, question: Question) -> Result<String, ApiError> {
    let slot = app.queries.slot(app.queries.longest()).await?;
    let events = app.all_events()?.clone();
    let answering = async move {
        let _slot = slot;
        let cells = events.cells().await?;
        question(&*cells, &body).await
    };
    Ok(app.queries.on_pool(answering).await??)
}
