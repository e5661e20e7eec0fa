//! The parameters of routes, beside those in their paths.
//!
//! Elsewhere: their meaning in full (`docs/http-api.md`).

use super::yaml::Yaml;

/// A parameter of a URL, or of a form.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) is_required: bool,
    pub(super) what: &'static str,
}

/// The values that a parameter may have.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A text that may be given more than once.
    Texts,
    Word(&'static [&'static str]),
    Count,
    Flag,
    Time,
    Duration,
}

impl Kind {
    pub(super) fn schema(self) -> Yaml {
        let of_type = |name: &str| Yaml::map([("type", Yaml::text(name))]);
        let formatted = |name: &str, format: &str| {
            Yaml::map([("type", Yaml::text(name)), ("format", Yaml::text(format))])
        };
        let either =
            |text: Yaml, number: Yaml| Yaml::map([("oneOf", Yaml::List(vec![text, number]))]);
        match self {
            Self::Text => of_type("string"),
            Self::Texts => Yaml::map([("type", Yaml::text("array")), ("items", of_type("string"))]),
            Self::Word(words) => Yaml::map([
                ("type", Yaml::text("string")),
                ("enum", Yaml::texts(words.iter().copied())),
            ]),
            Self::Count => formatted("integer", "int64"),
            Self::Flag => of_type("boolean"),
            Self::Time => either(
                formatted("string", "date-time"),
                formatted("number", "unixtime"),
            ),
            Self::Duration => either(
                formatted("string", "duration"),
                formatted("number", "float"),
            ),
        }
    }
}

const fn optional(name: &'static str, kind: Kind, what: &'static str) -> Parameter {
    Parameter {
        name,
        kind,
        is_required: false,
        what,
    }
}

const fn required(name: &'static str, kind: Kind, what: &'static str) -> Parameter {
    Parameter {
        is_required: true,
        ..optional(name, kind, what)
    }
}

const QUERY: Parameter = required("query", Kind::Text, "PromQL");
const START: Parameter = optional("start", Kind::Time, "the first time");
const END: Parameter = optional("end", Kind::Time, "the last time");
const LIMIT: Parameter = optional("limit", Kind::Count, "most results; 0 for all");
const MATCH: Parameter = optional("match[]", Kind::Texts, "selectors of series");
const SOME_MATCH: Parameter = required("match[]", Kind::Texts, "selectors of series");
const METRIC: Parameter = optional("metric", Kind::Text, "this metric alone");
const POOL: Parameter = required("scrapePool", Kind::Text, "the name of a job");
const TIMEOUT: Parameter = optional("timeout", Kind::Duration, "longest evaluation");
const LOOKBACK: Parameter = optional("lookback_delta", Kind::Duration, "oldest sample of a step");
const STATS: Parameter = optional("stats", Kind::Text, "true or all: with statistics");
const SEARCH: &[Parameter] = &[
    MATCH,
    optional("search[]", Kind::Texts, "texts to look for, at most 32"),
    optional(
        "fuzz_threshold",
        Kind::Count,
        "the lowest score, from 0 to 100",
    ),
    optional(
        "fuzz_alg",
        Kind::Word(&["subsequence", "jarowinkler"]),
        "how texts are compared",
    ),
    optional(
        "case_sensitive",
        Kind::Flag,
        "false: letters of both cases are alike",
    ),
    optional(
        "sort_by",
        Kind::Word(&["alpha", "score"]),
        "the order of results",
    ),
    optional(
        "sort_dir",
        Kind::Word(&["asc", "dsc"]),
        "the direction of sort_by=alpha",
    ),
    optional("include_score", Kind::Flag, "with scores"),
    START,
    END,
    optional("limit", Kind::Count, "most results, from 1 to 10000"),
    optional("batch_size", Kind::Count, "results in one line"),
];

/// Routes with parameters. A route that searches has those of `SEARCH` beside its own.
pub(super) const PARAMETERS: &[(&str, &[Parameter])] = &[
    (
        "/api/v1/query",
        &[
            QUERY,
            optional("time", Kind::Time, "the time of evaluation; now"),
            LIMIT,
            TIMEOUT,
            LOOKBACK,
            STATS,
        ],
    ),
    (
        "/api/v1/query_range",
        &[
            QUERY,
            required("start", Kind::Time, "the first step"),
            required("end", Kind::Time, "the last time"),
            required("step", Kind::Duration, "time between steps"),
            LIMIT,
            TIMEOUT,
            LOOKBACK,
            STATS,
        ],
    ),
    ("/api/v1/query_exemplars", &[QUERY, START, END]),
    ("/api/v1/format_query", &[QUERY]),
    ("/api/v1/parse_query", &[QUERY]),
    ("/api/v1/series", &[SOME_MATCH, START, END, LIMIT]),
    ("/api/v1/labels", &[MATCH, START, END, LIMIT]),
    ("/api/v1/label/{name}/values", &[MATCH, START, END, LIMIT]),
    (
        "/api/v1/search/metric_names",
        &[optional(
            "include_metadata",
            Kind::Flag,
            "with type, help and unit",
        )],
    ),
    ("/api/v1/search/label_names", &[]),
    (
        "/api/v1/search/label_values",
        &[required("label", Kind::Text, "the label")],
    ),
    (
        "/api/v1/metadata",
        &[
            METRIC,
            LIMIT,
            optional("limit_per_metric", Kind::Count, "without effect"),
        ],
    ),
    (
        "/api/v1/targets",
        &[
            optional("state", Kind::Text, "active, dropped or any"),
            optional("scrapePool", Kind::Text, "this job alone"),
        ],
    ),
    (
        "/api/v1/targets/metadata",
        &[
            optional("match_target", Kind::Text, "a selector of targets"),
            METRIC,
            LIMIT,
        ],
    ),
    (
        "/api/v1/targets/relabel_steps",
        &[
            POOL,
            required("labels", Kind::Text, "labels of a target, as a JSON object"),
        ],
    ),
    ("/api/v1/scrape_pools/config", &[POOL]),
    (
        "/api/v1/rules",
        &[
            optional("type", Kind::Text, "alert or record"),
            optional("rule_name[]", Kind::Texts, "names of rules"),
            optional("rule_group[]", Kind::Texts, "names of groups"),
            optional("file[]", Kind::Texts, "paths of files"),
            MATCH,
            optional("exclude_alerts", Kind::Text, "true: without alerts"),
            optional("group_limit", Kind::Count, "most groups"),
            optional("group_next_token", Kind::Text, "the group to begin with"),
        ],
    ),
    (
        "/api/v1/status/tsdb",
        &[
            LIMIT,
            MATCH,
            START,
            END,
            optional("focusLabel", Kind::Text, "a label that is ranked"),
        ],
    ),
    (
        "/api/v1/status/self_metrics",
        &[optional(
            "metric_name_pattern",
            Kind::Text,
            "a regular expression of whole names",
        )],
    ),
    (
        "/api/v1/openapi.yaml",
        &[optional("openapi_version", Kind::Text, "3.1 or 3.2")],
    ),
    (
        "/api/v1/status/metric_names",
        &[
            optional("search", Kind::Text, "words that a name has"),
            optional("type", Kind::Text, "a type of metrics"),
            optional("queried", Kind::Word(&["never"]), "metrics without queries"),
            optional(
                "sort",
                Kind::Word(&["name", "series", "queries", "last_queried"]),
                "the order",
            ),
            optional("order", Kind::Word(&["asc", "desc"]), "its direction"),
            LIMIT,
            optional("offset", Kind::Count, "results before the first"),
        ],
    ),
    (
        "/api/v1/status/query_usage",
        &[
            optional("order", Kind::Word(&["asc", "desc"]), "the direction"),
            LIMIT,
            optional("offset", Kind::Count, "results before the first"),
        ],
    ),
    ("/federate", &[SOME_MATCH]),
    (
        "/api/v1/export",
        &[
            SOME_MATCH,
            START,
            END,
            optional("format", Kind::Word(&["json", "native"]), "the form"),
        ],
    ),
    (
        "/api/v1/admin/tsdb/delete_series",
        &[SOME_MATCH, START, END],
    ),
    (
        "/api/v1/admin/tsdb/snapshot",
        &[
            optional("name", Kind::Text, "the name of the snapshot"),
            optional("ttl", Kind::Duration, "the time until it is dropped"),
        ],
    ),
];

/// The parameters of a route.
pub(super) fn of_path(path: &str) -> impl Iterator<Item = &'static Parameter> {
    let found = PARAMETERS.iter().find(|(of, _)| *of == path);
    let own = found.map_or(&[] as &[Parameter], |(_, parameters)| *parameters);
    let shared: &[Parameter] = if path.starts_with("/api/v1/search/") {
        SEARCH
    } else {
        &[]
    };
    own.iter().chain(shared)
}
