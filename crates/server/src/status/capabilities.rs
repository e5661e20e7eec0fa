//! `/api/v1/features`: the names under which Prometheus says what a server can do.
//!
//! Holds always: a name means what it means in Prometheus 3.15. A function or operator that is
//! listed here is one that our parser takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_promql::parse::FUNCTIONS;
use serde_json::json;

use crate::app::App;
use crate::config::Config;
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success;

type Category = BTreeMap<&'static str, bool>;

/// Operators and aggregations, as they are written in a query.
const OPERATORS: &[&str] = &[
    "!=",
    "!~",
    "%",
    "*",
    "+",
    "-",
    "/",
    "<",
    "</",
    "<=",
    "==",
    "=~",
    ">",
    ">/",
    ">=",
    "@",
    "^",
    "and",
    "atan2",
    "avg",
    "bottomk",
    "count",
    "count_values",
    "group",
    "limit_ratio",
    "limitk",
    "max",
    "min",
    "or",
    "quantile",
    "stddev",
    "stdvar",
    "sum",
    "topk",
    "unless",
];

/// Keywords and further parts of the language.
const LANGUAGE: &[&str] = &[
    "anchored",
    "at_modifier",
    "bool",
    "by",
    "duration_expr",
    "fill",
    "fill_left",
    "fill_right",
    "group_left",
    "group_right",
    "ignoring",
    "negative_offset",
    "offset",
    "on",
    "per_query_lookback_delta",
    "per_step_stats",
    "smoothed",
    "subqueries",
    "without",
];

pub(crate) async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.database()?;
    let data = json!(categories(&app.config()));
    Ok(small_success(|out| {
        out.extend_from_slice(data.to_string().as_bytes());
    }))
}

fn categories(config: &Config) -> BTreeMap<&'static str, Category> {
    let all = |names: &[&'static str]| names.iter().map(|name| (*name, true)).collect();
    let mut language: Category = all(LANGUAGE);
    language.insert(
        "delayed_name_removal",
        config.query.engine.delayed_name_removal,
    );
    language.insert("type_and_unit_labels", false);
    BTreeMap::from([
        (
            "api",
            all(&[
                "admin",
                "exclude_alerts",
                "label_values_match",
                "lifecycle",
                "openapi_3.1",
                "openapi_3.2",
                "otlp_write_receiver",
                "query_stats",
                "query_warnings",
                "remote_write_receiver",
                "search",
                "search_fuzz_alg_jarowinkler",
                "search_fuzz_alg_subsequence",
                "time_range_labels",
                "time_range_series",
            ]),
        ),
        (
            "otlp_receiver",
            Category::from([
                ("delta_conversion", true),
                ("native_delta_ingestion", false),
            ]),
        ),
        (
            "prometheus",
            Category::from([
                ("agent_mode", false),
                ("auto_reload_config", false),
                ("icecore", true),
                ("server_mode", true),
            ]),
        ),
        ("promql", language),
        (
            "promql_functions",
            FUNCTIONS.iter().map(|it| (it.name, true)).collect(),
        ),
        ("promql_operators", all(OPERATORS)),
        (
            "rules",
            Category::from([
                ("concurrent_rule_eval", false),
                ("keep_firing_for", false),
                ("query_offset", false),
            ]),
        ),
        (
            "scrape",
            Category::from([
                ("extra_scrape_metrics", true),
                ("openmetrics2", true),
                (
                    "start_timestamp_zero_ingestion",
                    config.scraping.start_timestamps,
                ),
                ("type_and_unit_labels", false),
            ]),
        ),
        (
            "service_discovery_providers",
            all(&["dns", "file", "http", "static"]),
        ),
        (
            "tsdb",
            Category::from([
                ("delayed_compaction", false),
                ("exemplar_storage", true),
                ("native_histograms", true),
            ]),
        ),
        ("ui", Category::from([("ui_v2", false), ("ui_v3", false)])),
    ])
}

#[cfg(test)]
mod tests {
    use icecore_promql::parse::parse;

    use super::*;

    #[test]
    fn operators_and_keywords_are_those_of_the_language() {
        for name in OPERATORS {
            let query = match *name {
                "=~" | "!~" => format!("up{{job{name}\"a\"}}"),
                "@" => "up @ 1".into(),
                "bottomk" | "limitk" | "limit_ratio" | "quantile" | "topk" => {
                    format!("{name}(1, up)")
                }
                "count_values" => "count_values(\"a\", up)".into(),
                "avg" | "count" | "group" | "max" | "min" | "stddev" | "stdvar" | "sum" => {
                    format!("{name}(up)")
                }
                operator => format!("a {operator} b"),
            };
            parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
        }
        for query in [
            "rate(a[5m] anchored)",
            "rate(a[5m] smoothed)",
            "a == bool b",
            "sum by(a) (b)",
            "sum without(a) (b)",
            "a + fill(0) b",
            "a + fill_left(0) b",
            "a + fill_right(0) b",
            "a + on(c) group_left() b",
            "a + ignoring(c) group_right() b",
            "a offset -5m",
            "a[step() * 2]",
            "rate(a[5m:1m])",
        ] {
            parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        }
    }
}
