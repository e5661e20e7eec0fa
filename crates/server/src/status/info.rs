//! `/api/v1/status/…` but maintenance, and `/api/v1/metadata`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use icecore_model::Metadata;
use icecore_storage::{Cardinality, Gauges, LabelQuery, NamedCount, Ranking};
use icecore_wire::prometheus::api_json::{write_list, write_string};
use serde_json::json;

use crate::app::App;
use crate::events::series::add_metadata;
use crate::middleware::error::ApiError;
use crate::middleware::json::{small_success, small_success_with, success};
use crate::middleware::params::Params;
use crate::middleware::rfc3339;
use crate::middleware::route::PROMETHEUS_PREFIX;

/// Default number of entries of each ranking.
const RANKING_DEFAULT: i64 = 10;
const RANKING_MAX: i64 = 10_000;

/// Where the series come from: of the head, or with `match[]`, `start` or `end` of all series that
/// match.
pub(crate) async fn tsdb(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?;
    let ranking = Ranking {
        limit: ranking_limit(&params)?,
        focus_label: params.first("focusLabel").map(str::to_owned),
    };
    let slot = app.limits.read_slot().await?;
    let selectors = params.selectors()?;
    let range = params.range()?;
    let narrowed =
        !selectors.is_empty() || params.first("start").is_some() || params.first("end").is_some();
    let cardinality = if narrowed {
        let query = LabelQuery {
            selectors,
            start_ms: range.start_ms,
            end_ms: range.end_ms,
            limit: None,
            memory: Some(app.queries.memory()),
        };
        database.cardinality(&query, ranking).await?
    } else {
        database.head_cardinality(ranking).await?
    };
    let gauges = database.gauges();
    success(slot, Vec::new(), move |out| {
        write_tsdb(out, &cardinality, &gauges);
    })
    .await
}

fn ranking_limit(params: &Params) -> Result<usize, ApiError> {
    let positive = || ApiError::bad_data("limit must be a positive number");
    let limit = params.number("limit").map_err(|_| positive())?;
    let limit = limit.unwrap_or(RANKING_DEFAULT);
    if limit > RANKING_MAX {
        return Err(ApiError::bad_data(format!(
            "limit must not exceed {RANKING_MAX}"
        )));
    }
    match usize::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err(positive()),
    }
}

fn write_tsdb(out: &mut Vec<u8>, cardinality: &Cardinality, gauges: &Gauges) {
    // Chunks are not counted. An empty head has no times; Prometheus then answers with the ends of
    // its own time.
    let head_stats = format!(
        "{{\"headStats\":{{\"numSeries\":{},\"numLabelPairs\":{},\"chunkCount\":0,\"minTime\":{},\"maxTime\":{}}}",
        cardinality.series,
        cardinality.label_pairs,
        gauges.head_start_ms.unwrap_or(i64::MAX),
        gauges.head_end_ms.unwrap_or(i64::MIN),
    );
    out.extend_from_slice(head_stats.as_bytes());
    let always = [
        ("seriesCountByMetricName", &cardinality.series_by_metric),
        ("labelValueCountByLabelName", &cardinality.values_by_label),
        ("memoryInBytesByLabelName", &cardinality.bytes_by_label),
        ("seriesCountByLabelValuePair", &cardinality.series_by_pair),
    ];
    let focus = cardinality.focus.as_ref().map(|focus| {
        [
            ("seriesCountByFocusLabelValue", &focus.series_by_value),
            ("metricsByFocusLabel", &focus.series_by_metric),
        ]
    });
    for (key, ranking) in always.into_iter().chain(focus.into_iter().flatten()) {
        out.extend_from_slice(format!(",\"{key}\":").as_bytes());
        write_list(out, ranking, write_count);
    }
    out.push(b'}');
}

fn write_count(out: &mut Vec<u8>, NamedCount { name, value }: &NamedCount) {
    out.extend_from_slice(b"{\"name\":");
    write_string(out, name);
    out.extend_from_slice(format!(",\"value\":{value}}}").as_bytes());
}

/// The version of Prometheus whose API is served. Clients choose their requests by it.
const PROMETHEUS_VERSION: &str = "3.15.0";

/// The parts of Mimir's API beside Prometheus' that tools look for.
const MIMIR_FEATURES: [&str; 4] = [
    "alertmanager_config_api",
    "federated_rules",
    "query_sharding",
    "ruler_config_api",
];

/// The version of the program. The keys are exactly those of Prometheus, whose schema is closed;
/// below the prefix of Mimir there are two more, as in Mimir: by `features` Grafana and Mimir's
/// tools tell what a server can do beside Prometheus.
pub(crate) async fn build_info(
    State(app): State<Arc<App>>,
    uri: Uri,
) -> Result<Response, ApiError> {
    app.database()?;
    let mut data = json!({
        "version": PROMETHEUS_VERSION,
        "revision": concat!("icecore-", env!("CARGO_PKG_VERSION")),
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    });
    if uri.path().starts_with(PROMETHEUS_PREFIX) {
        data["application"] = "Icecore".into();
        // Texts, as Mimir has them. There are no rules yet, and none of the others.
        data["features"] = MIMIR_FEATURES.iter().map(|name| (*name, "false")).collect();
    }
    Ok(small_success(|out| {
        out.extend_from_slice(data.to_string().as_bytes());
    }))
}

/// The configuration in force: what Prometheus' file says, and our own settings.
pub(crate) async fn config(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    let state = app.scraping().map(|scraping| scraping.load_state());
    let file = state.map(|state| state.rendered).unwrap_or_default();
    let yaml = format!("{file}{}", app.config().render());
    Ok(small_success(|out| write_object(out, &[("yaml", &yaml)])))
}

/// Every setting by the name of its flag.
pub(crate) async fn flags(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    let flags = app.config().flags();
    let flags = flags.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    let flags: Vec<_> = flags.collect();
    Ok(small_success(|out| write_object(out, &flags)))
}

/// The keys are exactly those of Prometheus, whose schema is closed. Tasks stand for goroutines;
/// what only Go has is empty. A warning says why the rules of access in force are older than their
/// file.
pub(crate) async fn runtime_info(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    let state = app.scraping().map(|scraping| scraping.load_state());
    let (successful, loaded_ms) = state.map_or((true, app.started.at_ms), |state| {
        (state.successful, state.loaded_ms)
    });
    let access_problem = app.access.problem();
    let metrics = tokio::runtime::Handle::current().metrics();
    // Of the coarsest level, because something is left for so long. Empty, as in Prometheus, where
    // nothing is deleted for its age.
    let data = json!({
        "startTime": rfc3339::format(app.started.at_ms),
        "CWD": app.started.directory,
        "hostname": app.started.hostname,
        "serverTime": rfc3339::format(app.clock().now_ms()),
        "reloadConfigSuccess": successful && access_problem.is_none(),
        "lastConfigTime": rfc3339::format(loaded_ms),
        // A journal record that cannot be read is kept and counted.
        "corruptionCount": app.database()?.gauges().journal_unreadable_epochs,
        "goroutineCount": metrics.num_alive_tasks(),
        "GOMAXPROCS": metrics.num_workers(),
        "GOMEMLIMIT": i64::MAX,
        "GOGC": "",
        "GODEBUG": "",
        "storageRetention": app.retention().policy.as_ref().map_or_else(String::new, ToString::to_string),
    });
    let warnings: Vec<String> = access_problem
        .map(|problem| format!("the web configuration file could not be used: {problem}"))
        .into_iter()
        .collect();
    Ok(small_success_with(&warnings, |out| {
        out.extend_from_slice(data.to_string().as_bytes());
    }))
}

/// Type, unit and help of metric families.
pub(crate) async fn metadata(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?;
    let limit = params.number("limit")?.unwrap_or(-1);
    // Of each family one description is kept, so that a limit on them never cuts anything.
    params.number("limit_per_metric")?;
    let slot = app.limits.read_slot().await?;
    let mut families = database.metadata(params.first("metric"));
    add_metadata(&app, params.first("metric"), &mut families).await?;
    families.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    families.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    success(slot, Vec::new(), move |out| write_metadata(out, &families)).await
}

fn write_metadata(out: &mut Vec<u8>, families: &[(String, Metadata)]) {
    out.push(b'{');
    for (i, (name, metadata)) in families.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.extend_from_slice(b":[");
        write_object(
            out,
            &[
                ("type", metadata.metric_type.name()),
                ("help", &metadata.help),
                ("unit", &metadata.unit),
            ],
        );
        out.push(b']');
    }
    out.push(b'}');
}

fn write_object(out: &mut Vec<u8>, pairs: &[(&str, &str)]) {
    out.push(b'{');
    for (i, (key, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(out, key);
        out.push(b':');
        write_string(out, value);
    }
    out.push(b'}');
}
