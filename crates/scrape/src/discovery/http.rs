//! Targets from a server that lists them as JSON.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{StatusCode, Url};
use tokio::sync::mpsc;

use super::{KnownGroups, groups, patience};
use crate::config::{HttpClientConfig, TargetGroup};
use crate::http_client::{HttpClient, reason};
use icecore_settings::without_secrets;

/// Above any list of targets (a hundred thousand of them take about ten megabytes).
const BODY_BYTES_MAX: usize = 64 << 20;

const REFRESH_HEADER: &str = "X-Prometheus-Refresh-Interval-Seconds";
const URL_LABEL: &str = "__meta_url";

pub(super) async fn run(
    url: String,
    refresh: Duration,
    client: HttpClientConfig,
    updates: mpsc::Sender<Vec<TargetGroup>>,
) {
    let shown = without_secrets(&url);
    let mut known = KnownGroups::default();
    let mut made: Option<HttpClient> = None;
    loop {
        let asked = fetch_groups(&url, &shown, refresh, &client, &mut made);
        let answer = tokio::select! {
            () = updates.closed() => return,
            answer = tokio::time::timeout(patience(refresh), asked) => answer,
        };
        match answer {
            Ok(Ok(groups)) => {
                let changed = known.replace(groups);
                if !changed.is_empty() && updates.send(changed).await.is_err() {
                    return;
                }
            }
            Ok(Err(reason)) => known.keep(&shown, reason),
            Err(_) => known.keep(&shown, "no answer in time".into()),
        }
        tokio::select! {
            () = updates.closed() => return,
            () = tokio::time::sleep(refresh) => {}
        }
    }
}

pub(super) async fn fetch_groups(
    url: &str,
    shown: &str,
    refresh: Duration,
    config: &HttpClientConfig,
    made: &mut Option<HttpClient>,
) -> Result<Vec<TargetGroup>, String> {
    let client = match made {
        Some(client) => client,
        None => made.insert(HttpClient::new(config)?),
    };
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    let request = client.get(parsed).await?;
    let mut response = request
        .header(ACCEPT, "application/json")
        .header(REFRESH_HEADER, refresh.as_secs_f64().to_string())
        .send()
        .await
        .map_err(|error| reason(&error))?;
    if response.status() != StatusCode::OK {
        return Err(format!("the server answered {}", response.status()));
    }
    if !is_json(response.headers()) {
        return Err("the answer's Content-Type is not application/json".into());
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| reason(&error))? {
        if body.len().saturating_add(part.len()) > BODY_BYTES_MAX {
            return Err(format!("the answer has more than {BODY_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&part);
    }
    let mut groups = groups::from_json(&body, shown)?;
    for group in &mut groups {
        group.labels.push((URL_LABEL.into(), shown.to_owned()));
    }
    Ok(groups)
}

/// `application/json`, alone or with the one charset JSON has.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let Some(value) = value.map(str::to_ascii_lowercase) else {
        return false;
    };
    match value.split_once(';') {
        None => value.trim() == "application/json",
        Some((kind, parameter)) => {
            let charset = parameter.trim().strip_prefix("charset=");
            let is_utf8 = charset.is_some_and(|charset| charset.trim_matches('"') == "utf-8");
            kind.trim() == "application/json" && is_utf8
        }
    }
}
