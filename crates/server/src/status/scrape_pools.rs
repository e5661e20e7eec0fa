//! `/api/v1/scrape_pools/config` and `/api/v1/targets/relabel_steps`: a job, and what it makes of
//! the labels of a target.
//!
//! Holds always: the shapes are Prometheus', and no secret is in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_scrape::{RelabelStep, ScrapeManager};
use icecore_wire::prometheus::api_json::write_string;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::{small_success, success};
use crate::middleware::params::Params;

/// The configuration of a job.
pub(crate) async fn config(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let scraping = scraping(&app)?;
    let name = pool_of(&params)?;
    let yaml = scraping.pool_config(name).ok_or_else(|| missing(name))?;
    Ok(small_success(|out| {
        out.extend_from_slice(b"{\"yaml\":");
        write_string(out, &yaml);
        out.push(b'}');
    }))
}

/// The labels of a target after each rule of its job.
pub(crate) async fn relabel_steps(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let scraping = Arc::clone(scraping(&app)?);
    let name = pool_of(&params)?.to_owned();
    let labels = params
        .first("labels")
        .ok_or_else(|| ApiError::bad_data("no labels parameter provided"))?;
    let labels: BTreeMap<String, String> = serde_json::from_str(labels)
        .map_err(|error| ApiError::bad_data(format!("error parsing labels: {error}")))?;
    let slot = app.limits.read_slot().await?;
    let relabel = move || {
        let steps = scraping.relabel_steps(&name, labels);
        steps.ok_or_else(|| missing(&name))
    };
    let steps = tokio::task::spawn_blocking(relabel).await;
    let steps = steps.map_err(|error| ApiError::internal(error.to_string()))??;
    let steps = steps.map_err(|error| ApiError::execution(error.to_string()))?;
    success(slot, Vec::new(), move |out| {
        let steps: Vec<Value> = steps.into_iter().map(step_json).collect();
        out.extend_from_slice(json!({"steps": steps}).to_string().as_bytes());
    })
    .await
}

fn scraping(app: &App) -> Result<&Arc<ScrapeManager>, ApiError> {
    app.database()?;
    app.scraping()
        .ok_or_else(|| ApiError::unavailable("scraping is being started: try again"))
}

fn pool_of(params: &Params) -> Result<&str, ApiError> {
    params
        .first("scrapePool")
        .ok_or_else(|| ApiError::bad_data("no scrapePool parameter provided"))
}

fn missing(name: &str) -> ApiError {
    ApiError::bad_data(format!(
        "error retrieving scrape config: scrape pool {name:?} not found"
    ))
}

fn step_json(step: RelabelStep) -> Value {
    let mut rule = Map::new();
    if !step.source_labels.is_empty() {
        rule.insert("source_labels".into(), step.source_labels.into());
    }
    rule.insert("separator".into(), step.separator.into());
    rule.insert("regex".into(), step.regex.into());
    if step.modulus > 0 {
        rule.insert("modulus".into(), step.modulus.into());
    }
    if !step.target_label.is_empty() {
        rule.insert("target_label".into(), step.target_label.into());
    }
    rule.insert("replacement".into(), step.replacement.into());
    rule.insert("action".into(), step.action.into());
    let output = step.output.into_iter();
    let output: Map<String, Value> = output.map(|(name, value)| (name, value.into())).collect();
    json!({"rule": rule, "output": output, "keep": step.keep})
}
