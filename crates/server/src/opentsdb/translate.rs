//! `/api/v1/opentsdb/translate`: queries of OpenTSDB as PromQL that gives the same numbers.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_model::format_duration_ms;
use icecore_opentsdb::translate::{Refusal, TranslateOptions, Translation, translate_text};
use serde_json::{Value, json};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;
use crate::middleware::params::Params;

/// Queries of one request: more than a graph can show.
const QUERIES_MAX: usize = 64;

/// Bytes of all of them.
const QUERY_BYTES_MAX: usize = 16 << 10;

/// A query with what it is in PromQL, or why it is nothing there.
type Part = (String, Result<Translation, Refusal>);

pub(crate) async fn translate(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    app.database()?;
    let queries: Vec<String> = params.all("m").map(str::to_owned).collect();
    if queries.is_empty() {
        return Err(ApiError::of_parameter("m", "a query is needed"));
    }
    if queries.len() > QUERIES_MAX {
        let problem = format!("there are more than {QUERIES_MAX} queries");
        return Err(ApiError::of_parameter("m", problem));
    }
    if queries.iter().map(String::len).sum::<usize>() > QUERY_BYTES_MAX {
        let problem = format!("queries have more than {QUERY_BYTES_MAX} bytes");
        return Err(ApiError::of_parameter("m", problem));
    }
    let text = |name: &str| params.first(name).unwrap_or_default().to_owned();
    let options = TranslateOptions {
        start: text("start"),
        end: text("end"),
        now_ms: app.clock().now_ms(),
        strict: params.switch("strict")?,
        bridge_ms: None,
    };
    let slot = app.limits.read_slot().await?;
    success(slot, Vec::new(), move |out| {
        let parts = queries.into_iter().map(|query| {
            let translation = translate_text(&query, &options);
            (query, translation)
        });
        let parts: Vec<Part> = parts.collect();
        out.extend_from_slice(answer(&parts).to_string().as_bytes());
    })
    .await
}

/// All of them together, for who wants to show them in one graph, and each by itself.
fn answer(parts: &[Part]) -> Value {
    let translated = || parts.iter().filter_map(|(_, part)| part.as_ref().ok());
    let promql: Vec<&str> = translated().map(|it| it.expr.as_str()).collect();
    let reasons = parts.iter().filter_map(|(query, part)| {
        let reason = part.as_ref().err()?;
        Some(format!("{query}: {reason}"))
    });
    let reasons: Vec<String> = reasons.collect();
    let mut steps = translated().map(|it| it.steps.step_ms);
    let step_ms = steps.next().flatten();
    let step_ms = step_ms.filter(|first| steps.all(|other| other == Some(*first)));
    json!({
        "promql": promql,
        "step": step_ms.map(format_duration_ms),
        "reason": (!reasons.is_empty()).then(|| reasons.join("; ")),
        "conditions": different(translated().flat_map(conditions_of)),
        "notes": different(translated().flat_map(|it| it.notes.iter().cloned())),
        "queries": parts.iter().map(part_json).collect::<Vec<_>>(),
    })
}

fn conditions_of(translation: &Translation) -> impl Iterator<Item = String> {
    translation.conditions.iter().map(ToString::to_string)
}

/// Each text once, in the order in which they came.
fn different(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

fn part_json((query, translation): &Part) -> Value {
    let translation = match translation {
        Ok(translation) => translation,
        Err(reason) => return json!({"query": query, "reason": reason.to_string()}),
    };
    let steps = &translation.steps;
    let range = steps.first_and_last_ms();
    let seconds = |ms: i64| ms as f64 / 1e3;
    json!({
        "query": query,
        "promql": translation.expr,
        "step": steps.step_ms.map(format_duration_ms),
        "start": range.map(|(start, _)| seconds(start)),
        "end": range.map(|(_, end)| seconds(end)),
        "conditions": conditions_of(translation).collect::<Vec<_>>(),
        "notes": translation.notes,
    })
}
