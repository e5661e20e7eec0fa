//! `POST /events/publish` and `POST /events/publish/batch`.
//!
//! Holds always: 202 is answered after the object store holds what was accepted.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use icecore_events::{BatchOutcome, NotRegistered, event_id_text};
use serde_json::{Value, json};

use super::call::{Call, Content, answered, json};
use crate::app::App;
use crate::middleware::error::ApiError;

pub(crate) async fn one(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Json, publish).await
}

async fn publish(app: Arc<App>, call: Call) -> Result<Response, ApiError> {
    let _slot = app.limits.write_slot()?;
    let published = app.events()?.publish(call.body.clone()).await?;
    let mut answer = json!({
        "status": published.status.word(),
        "eventId": event_id_text(published.event_id),
    });
    put_not_registered(&mut answer, &published.not_registered);
    Ok(json(StatusCode::ACCEPTED, &answer))
}

pub(crate) async fn batch(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app, request, Content::Json, publish_batch).await
}

async fn publish_batch(app: Arc<App>, call: Call) -> Result<Response, ApiError> {
    let atomic = call.params.switch("atomic")?;
    let _slot = app.limits.write_slot()?;
    let outcome = app
        .events()?
        .publish_batch(call.body.clone(), atomic)
        .await?;
    let status = if outcome.is_refused {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::ACCEPTED
    };
    Ok(json(status, &outcome_json(&outcome)))
}

fn outcome_json(outcome: &BatchOutcome) -> Value {
    let rejected = outcome.rejected.iter().map(|item| {
        let mut rejected = json!({
            "index": item.index,
            "eventId": item.event_id,
            "code": item.problem.code,
            "detail": item.problem.detail,
        });
        if let Some(hint) = &item.problem.hint {
            rejected["hint"] = hint.as_str().into();
        }
        rejected
    });
    let mut answer = json!({
        "received": outcome.received,
        "stored": outcome.stored,
        "duplicates": outcome.duplicates,
        "unconfigured": outcome.unconfigured,
        "ignored": outcome.ignored,
        "rejected": rejected.collect::<Vec<_>>(),
    });
    put_not_registered(&mut answer, &outcome.not_registered);
    answer
}

/// Says which types are not registered, and what to do. Answers without such types have no field
/// for it.
fn put_not_registered(answer: &mut Value, types: &[NotRegistered]) {
    if types.is_empty() {
        return;
    }
    let types = types.iter().map(|unknown| {
        json!({
            "service": unknown.service,
            "eventType": unknown.event_type,
            "contentKept": unknown.is_content_kept,
            "detail": unknown.detail(),
            "hint": unknown.hint(),
        })
    });
    answer["notRegistered"] = types.collect();
}
