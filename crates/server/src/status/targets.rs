//! `/api/v1/targets`, `/api/v1/targets/metadata` and `/api/v1/scrape_pools`: what is scraped.
//!
//! Holds always: the shapes are Prometheus'.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_model::Matcher;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;
use crate::middleware::params::Params;
use crate::middleware::rfc3339;
use icecore_scrape::{TargetInfo, TargetMetadata};

pub(crate) async fn targets(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    app.database()?;
    let state = params.first("state").unwrap_or("any").to_lowercase();
    let shown = |name: &str| state == "any" || state == name;
    let (active, dropped) = (shown("active"), shown("dropped"));
    let pool = params.first("scrapePool").map(str::to_owned);
    let slot = app.limits.read_slot().await?;
    // The data has a closed schema; jobs that are left out are not in it.
    let left_out = app
        .scraping()
        .map(|scraping| scraping.load_state().unsupported);
    success(slot, left_out.unwrap_or_default(), move |out| {
        let data = targets_json(&app, pool.as_deref(), active, dropped);
        out.extend_from_slice(data.to_string().as_bytes());
    })
    .await
}

fn targets_json(app: &App, pool: Option<&str>, active: bool, dropped: bool) -> Value {
    let pools = app.scraping().map(|scraping| scraping.pools());
    let pools = pools.unwrap_or_default();
    // Counts are of all pools, whichever is asked for.
    let counted = pools.iter().filter(|_| dropped);
    let counts: Map<String, Value> = counted
        .map(|pool| (pool.name.clone(), pool.dropped_count.into()))
        .collect();
    let mut active_targets = Vec::new();
    let mut dropped_targets = Vec::new();
    for shown in pools {
        if pool.is_some_and(|name| *name != shown.name) {
            continue;
        }
        let name = &shown.name;
        if active {
            let json = |target: &TargetInfo| target_json(name, target, &app.started.hostname);
            active_targets.extend(shown.active.iter().map(json));
        }
        if dropped {
            let json = |labels: &Vec<(String, String)>| json!({"discoveredLabels": labels_json(labels), "scrapePool": name});
            dropped_targets.extend(shown.dropped.iter().map(json));
        }
    }
    json!({
        "activeTargets": active_targets,
        "droppedTargets": dropped_targets,
        // Empty, and not null, where they are not asked for: Prometheus' own schema says so.
        "droppedTargetCounts": counts,
    })
}

fn target_json(pool: &str, target: &TargetInfo, hostname: &str) -> Value {
    let last_scrape = target.scraped_ms.map(rfc3339::format);
    json!({
        "discoveredLabels": labels_json(&target.discovered),
        "labels": labels_json(&target.labels),
        "scrapePool": pool,
        "scrapeUrl": target.url,
        "globalUrl": global_url(&target.url, hostname),
        "lastError": target.error.as_deref().unwrap_or(""),
        "lastScrape": last_scrape.as_deref().unwrap_or(rfc3339::NEVER),
        "lastScrapeDuration": target.seconds,
        "health": target.health,
        "scrapeInterval": target.interval,
        "scrapeTimeout": target.timeout,
    })
}

fn labels_json(labels: &[(String, String)]) -> Map<String, Value> {
    let pair = |(name, value): &(String, String)| (name.clone(), value.clone().into());
    labels.iter().map(pair).collect()
}

/// The URL as others reach it: names of this machine for itself mean nothing elsewhere.
fn global_url(url: &str, hostname: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.into();
    };
    for local in ["127.0.0.1", "localhost", "[::1]"] {
        if let Some(after) = rest.strip_prefix(local)
            && after.starts_with(':')
        {
            return format!("{scheme}://{hostname}{after}");
        }
    }
    url.into()
}

/// What targets say about their metrics.
pub(crate) async fn metadata(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    app.database()?;
    let limit = params.number("limit")?.unwrap_or(-1);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let matchers = params.target_matchers()?;
    let metric = params.first("metric").map(str::to_owned);
    let slot = app.limits.read_slot().await?;
    success(slot, Vec::new(), move |out| {
        let matches = |labels: &[(String, String)]| all_match(&matchers, labels);
        let found = app
            .scraping()
            .map(|scraping| scraping.target_metadata(matches, metric.as_deref(), limit));
        let json: Value = found
            .unwrap_or_default()
            .iter()
            .map(metadata_json)
            .collect();
        out.extend_from_slice(json.to_string().as_bytes());
    })
    .await
}

fn all_match(matchers: &[Matcher], labels: &[(String, String)]) -> bool {
    matchers.iter().all(|matcher| {
        let found = labels.iter().find(|(name, _)| name == matcher.name());
        matcher.matches(found.map_or("", |(_, value)| value))
    })
}

fn metadata_json(found: &TargetMetadata) -> Value {
    let mut json = json!({
        "target": labels_json(&found.labels),
        "type": found.metadata.metric_type.name(),
        "help": found.metadata.help,
        "unit": found.metadata.unit,
    });
    if let (Some(family), Some(json)) = (&found.family, json.as_object_mut()) {
        json.insert("metric".into(), family.clone().into());
    }
    json
}

pub(crate) async fn scrape_pools(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    let slot = app.limits.read_slot().await?;
    let names = app.scraping().map(|scraping| scraping.pool_names());
    success(slot, Vec::new(), move |out| {
        let json = json!({"scrapePools": names.unwrap_or_default()});
        out.extend_from_slice(json.to_string().as_bytes());
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_names_are_replaced() {
        for (url, global) in [
            ("http://127.0.0.1:90/m", "http://host:90/m"),
            ("http://localhost:90/m", "http://host:90/m"),
            ("https://[::1]:90/m?a=b", "https://host:90/m?a=b"),
            ("http://localhost/m", "http://localhost/m"),
            ("http://elsewhere:90/m", "http://elsewhere:90/m"),
            (
                "http://localhost.example:90/m",
                "http://localhost.example:90/m",
            ),
        ] {
            assert_eq!(global_url(url, "host"), global);
        }
    }
}
