//! The table of routes: every path with its methods, its role, its time limit and its handler.
//!
//! Elsewhere: what holds for every request (`routes`), the effect of a request, which follows from
//! role and method (`middleware::route`).

use std::sync::Arc;

use axum::routing::{MethodRouter, any, delete, get, post};
use icecore_access::Role;

use crate::admin::{maintenance, reload, tsdb};
use crate::app::App;
use crate::events::{admin as event_admin, catalog, metric_query, publish, search as event_search};
use crate::middleware::route::{Route, TimeLimit};
use crate::openapi;
use crate::opentsdb::{
    export as opentsdb_export, http as opentsdb, import as opentsdb_import, translate,
};
use crate::query::{evaluate, expression};
use crate::read::{exemplars, export, federate, labels, remote_read};
use crate::search;
use crate::status::{
    access, blocks, buckets, capabilities, features, health, info, metric_names, notifications,
    replay, retention, rules, scrape_pools, self_metrics, targets,
};
use crate::ui;
use crate::write::{grpc, import, otlp_http, remote_write};

/// A route and its handler.
pub(super) struct Endpoint {
    pub(super) route: Route,
    pub(super) handler: fn() -> MethodRouter<Arc<App>>,
}

const fn route(
    path: &'static str,
    methods: &'static [&'static str],
    what: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Endpoint {
    Endpoint {
        route: Route {
            path,
            methods,
            what,
            role: Role::Read,
            is_prefixed: false,
            time: TimeLimit::Request,
        },
        handler,
    }
}

/// A route of Prometheus' API: it is served below Mimir's prefix, too.
const fn prometheus(
    path: &'static str,
    methods: &'static [&'static str],
    what: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Endpoint {
    let served = route(path, methods, what, handler);
    Endpoint {
        route: Route {
            is_prefixed: true,
            ..served.route
        },
        ..served
    }
}

/// A route for another role than reading.
const fn only(role: Role, served: Endpoint) -> Endpoint {
    Endpoint {
        route: Route {
            role,
            ..served.route
        },
        ..served
    }
}

/// A route that answers when it is done, or goes on for as long as its client does.
const fn unlimited(role: Role, served: Endpoint) -> Endpoint {
    let served = only(role, served);
    Endpoint {
        route: Route {
            time: TimeLimit::None,
            ..served.route
        },
        ..served
    }
}

const fn query(
    path: &'static str,
    what: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Endpoint {
    let served = prometheus(path, GET_POST, what, handler);
    Endpoint {
        route: Route {
            time: TimeLimit::Query,
            ..served.route
        },
        ..served
    }
}

/// A question about events, which is a JSON document.
const fn event_query(
    path: &'static str,
    what: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Endpoint {
    let served = route(path, &["POST"], what, handler);
    Endpoint {
        route: Route {
            time: TimeLimit::Query,
            ..served.route
        },
        ..served
    }
}

/// What administrators of events ask for: it answers when it is done.
const fn admin_of_events(
    path: &'static str,
    methods: &'static [&'static str],
    what: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Endpoint {
    unlimited(Role::Admin, route(path, methods, what, handler))
}

/// Who may send a request of OpenTSDB depends on its path, which decides about methods, too.
const fn opentsdb_route(path: &'static str, what: &'static str) -> Endpoint {
    let served = route(path, ANY, what, || any(opentsdb::serve));
    Endpoint {
        route: Route {
            time: TimeLimit::Query,
            ..served.route
        },
        ..served
    }
}

/// Stands for every method: the handler says which there are.
pub(super) const ANY: &[&str] = &["ANY"];
const GET: &[&str] = &["GET"];
const POST_PUT: &[&str] = &["POST", "PUT"];
const GET_POST: &[&str] = &["GET", "POST"];

/// Every path there is.
pub static ROUTES: [Route; TABLE.len()] = {
    let mut routes = [TABLE[0].route; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        routes[at] = TABLE[at].route;
        at += 1;
    }
    routes
};

/// Every path there is, with its handler.
pub(super) const TABLE: &[Endpoint] = &[
    route("/", GET, "this page", || get(health::index)),
    only(
        Role::Open,
        route("/ui", GET, "leads to the web interface", || {
            get(ui::to_page)
        }),
    ),
    only(
        Role::Open,
        route("/ui/", GET, "the web interface", || get(ui::page)),
    ),
    only(
        Role::Open,
        route("/ui/{*path}", GET, "its files", || get(ui::file)),
    ),
    only(
        Role::Open,
        route("/graph", GET, "Prometheus' links to a query", || {
            get(ui::to_query)
        }),
    ),
    only(
        Role::Open,
        route("/query", GET, "the same", || get(ui::to_query)),
    ),
    only(
        Role::Open,
        route("/-/healthy", GET, "whether the process runs", || {
            get(health::healthy)
        }),
    ),
    only(
        Role::Open,
        route("/-/ready", GET, "whether requests are answered", || {
            get(health::ready)
        }),
    ),
    unlimited(
        Role::Admin,
        route(
            "/-/flush",
            &["POST", "PUT"],
            "moves everything into buckets",
            || post(health::flush).put(health::flush),
        ),
    ),
    route("/metrics", GET, "what this process counts", || {
        get(health::metrics)
    }),
    only(
        Role::Admin,
        route(
            "/-/reload",
            &["POST", "PUT"],
            "reads the configuration file anew",
            || post(reload::reload).put(reload::reload),
        ),
    ),
    prometheus("/api/v1/targets", GET, "what is scraped", || {
        get(targets::targets)
    }),
    prometheus(
        "/api/v1/targets/metadata",
        GET,
        "type, unit and help of metrics, by target",
        || get(targets::metadata),
    ),
    prometheus(
        "/api/v1/scrape_pools",
        GET,
        "the names of jobs that are scraped",
        || get(targets::scrape_pools),
    ),
    prometheus(
        "/api/v1/status/config",
        GET,
        "the configuration file in force",
        || get(info::config),
    ),
    prometheus(
        "/api/v1/status/flags",
        GET,
        "every setting and its value",
        || get(info::flags),
    ),
    prometheus(
        "/api/v1/status/runtimeinfo",
        GET,
        "the process: since when, how many threads",
        || get(info::runtime_info),
    ),
    only(
        Role::Write,
        route(
            remote_write::PATH,
            &["POST"],
            "Prometheus remote write 1.0 and 2.0",
            || post(remote_write::write),
        ),
    ),
    only(
        Role::Write,
        route(
            otlp_http::METRICS,
            &["POST"],
            "OTLP metrics, protobuf or JSON",
            || post(otlp_http::metrics),
        ),
    ),
    only(
        Role::Write,
        route(
            otlp_http::PROMETHEUS_METRICS,
            &["POST"],
            "the same, where Prometheus has it",
            || post(otlp_http::metrics),
        ),
    ),
    only(
        Role::Write,
        route(
            otlp_http::LOGS,
            &["POST"],
            "OTLP logs: records with an event name are events",
            || post(otlp_http::logs),
        ),
    ),
    only(
        Role::Write,
        route(grpc::EXPORT_LOGS, &["POST"], "the same over gRPC", || {
            post(grpc::export_logs)
        }),
    ),
    only(
        Role::Write,
        route("/events/publish", &["POST"], "stores one event", || {
            post(publish::one)
        }),
    ),
    only(
        Role::Write,
        route(
            "/events/publish/batch",
            &["POST"],
            "stores events, by default those that are right",
            || post(publish::batch),
        ),
    ),
    event_query("/api/search/events", "events that match", || {
        post(event_search::events)
    }),
    event_query(
        "/api/objql/query",
        "events that match, asked for in text",
        || post(event_search::objql),
    ),
    event_query("/events/sql", "SQL over events and their metrics", || {
        post(event_search::sql)
    }),
    route("/api/events/{service}/{id}", GET, "one event", || {
        get(event_search::event)
    }),
    route(
        "/api/catalog/event-type",
        GET,
        "types of events, and what is known of them",
        || get(catalog::event_types_of),
    ),
    route(
        "/api/catalog/attributes/{service}/names",
        GET,
        "indexed attributes of a service",
        || get(catalog::names),
    ),
    route(
        "/api/catalog/attributes/{service}/{attribute}/values",
        GET,
        "values of an attribute, and when they were seen",
        || get(catalog::values),
    ),
    event_query("/api/query/counters", "counters by intervals", || {
        post(metric_query::counters)
    }),
    event_query(
        "/api/query/histograms",
        "histograms by intervals, with percentiles",
        || post(metric_query::histograms),
    ),
    event_query("/api/histograms/query", "the same", || {
        post(metric_query::histograms)
    }),
    event_query("/api/query/gauges", "gauges by intervals", || {
        post(metric_query::gauges)
    }),
    event_query(
        "/api/query/state-counts",
        "how many objects are in which state",
        || post(metric_query::state_counts),
    ),
    event_query(
        "/api/query/state-transitions",
        "transitions between states by intervals",
        || post(metric_query::state_transitions),
    ),
    event_query(
        "/api/query/state-count-timeseries",
        "states of objects by intervals",
        || post(metric_query::state_count_timeseries),
    ),
    admin_of_events(
        "/api/admin/config/documents",
        &["POST"],
        "applies registry documents: a stream of YAML",
        || post(event_admin::documents),
    ),
    admin_of_events(
        "/api/admin/configs/import",
        &["POST"],
        "applies registry documents: a tar of files",
        || post(event_admin::import),
    ),
    admin_of_events(
        "/api/admin/config/service",
        &["POST"],
        "applies one service as a JSON document",
        || post(event_admin::put_service),
    ),
    admin_of_events(
        "/api/admin/config/service/{service}",
        GET,
        "what is registered of a service",
        || get(event_admin::service),
    ),
    admin_of_events(
        "/api/admin/config/ready",
        GET,
        "whether documents are taken",
        || get(event_admin::ready),
    ),
    admin_of_events(
        "/api/admin/flush",
        &["POST"],
        "writes the cells of all events so far",
        || post(event_admin::flush),
    ),
    admin_of_events(
        "/api/admin/partitions",
        GET,
        "services and weeks of stored events",
        || get(event_admin::partitions),
    ),
    admin_of_events(
        "/api/admin/retention/run",
        &["POST"],
        "drops events that are too old",
        || post(event_admin::run_retention),
    ),
    admin_of_events(
        "/api/admin/quarantine",
        GET,
        "events of types that are not registered",
        || get(event_admin::quarantine),
    ),
    admin_of_events(
        "/api/admin/quarantine/replay",
        &["POST"],
        "publishes them again",
        || post(event_admin::replay),
    ),
    admin_of_events(
        "/api/admin/dead-letters",
        GET,
        "bodies that could not be read",
        || get(event_admin::dead_letters),
    ),
    only(
        Role::Write,
        route(
            grpc::EXPORT,
            &["POST"],
            "OpenTelemetry metrics (OTLP) over gRPC",
            || post(grpc::export),
        ),
    ),
    unlimited(
        Role::Read,
        prometheus(
            "/api/v1/read",
            &["POST"],
            "Prometheus remote read, samples or chunks",
            || post(remote_read::read),
        ),
    ),
    route(
        "/federate",
        GET,
        "latest samples in a text or protobuf format",
        || get(federate::federate),
    ),
    route(
        "/api/v1/export",
        GET_POST,
        "samples as lines of JSON, or in the native form",
        || get(export::export).post(export::export),
    ),
    unlimited(
        Role::Write,
        route(
            "/api/v1/import",
            &["POST"],
            "stores what an export wrote",
            || post(import::import),
        ),
    ),
    unlimited(
        Role::Write,
        route(
            "/api/v1/import/prometheus",
            &["POST"],
            "stores text expositions with timestamps",
            || post(import::import_exposition),
        ),
    ),
    unlimited(
        Role::Write,
        route(
            "/api/v1/import/opentsdb",
            &["POST"],
            "stores lines of OpenTSDB's text format",
            || post(opentsdb_import::import_lines),
        ),
    ),
    unlimited(
        Role::Admin,
        route(
            "/api/v1/import/opentsdb/cells",
            &["POST"],
            "stores cells of OpenTSDB's tables",
            || post(opentsdb_import::import_cells),
        ),
    ),
    route(
        opentsdb_export::PATH,
        GET_POST,
        "samples as OpenTSDB's text format or cells",
        || get(opentsdb_export::export).post(opentsdb_export::export),
    ),
    route(
        "/api/v1/opentsdb/translate",
        GET_POST,
        "queries of OpenTSDB as PromQL",
        || get(translate::translate).post(translate::translate),
    ),
    query("/api/v1/query", "a PromQL query at one time", || {
        get(evaluate::instant).post(evaluate::instant)
    }),
    query(
        "/api/v1/query_range",
        "a PromQL query at the steps of a range",
        || get(evaluate::range).post(evaluate::range),
    ),
    prometheus(
        "/api/v1/query_exemplars",
        GET_POST,
        "exemplars of the series that a query selects",
        || get(exemplars::exemplars).post(exemplars::exemplars),
    ),
    prometheus(
        "/api/v1/format_query",
        GET_POST,
        "a query, well laid out",
        || get(expression::format).post(expression::format),
    ),
    prometheus(
        "/api/v1/parse_query",
        GET_POST,
        "a query as a syntax tree",
        || get(expression::parse).post(expression::parse),
    ),
    prometheus("/api/v1/series", GET_POST, "series that match", || {
        get(labels::series).post(labels::series)
    }),
    prometheus("/api/v1/labels", GET_POST, "label names", || {
        get(labels::label_names).post(labels::label_names)
    }),
    prometheus(
        "/api/v1/label/{name}/values",
        GET_POST,
        "values of a label",
        || get(labels::label_values).post(labels::label_values),
    ),
    prometheus(
        "/api/v1/metadata",
        GET,
        "type, unit and help of metrics",
        || get(info::metadata),
    ),
    prometheus(
        "/api/v1/status/tsdb",
        GET_POST,
        "where the series come from",
        || get(info::tsdb).post(info::tsdb),
    ),
    prometheus(
        "/api/v1/status/buildinfo",
        GET,
        "which program this is",
        || get(info::build_info),
    ),
    prometheus(
        "/api/v1/scrape_pools/config",
        GET,
        "the configuration of a job",
        || get(scrape_pools::config),
    ),
    prometheus(
        "/api/v1/targets/relabel_steps",
        GET,
        "the labels of a target after each rule of its job",
        || get(scrape_pools::relabel_steps),
    ),
    prometheus(
        "/api/v1/rules",
        GET,
        "rules, of which there are none",
        || get(rules::rules),
    ),
    prometheus(
        "/api/v1/alerts",
        GET,
        "alerts, of which there are none",
        || get(rules::alerts),
    ),
    prometheus(
        "/api/v1/alertmanagers",
        GET,
        "Alertmanagers, of which there are none",
        || get(rules::alertmanagers),
    ),
    prometheus(
        "/api/v1/features",
        GET,
        "what this server can do, in Prometheus' words",
        || get(capabilities::status),
    ),
    prometheus(
        "/api/v1/notifications",
        GET,
        "what people should know of this process",
        || get(notifications::list),
    ),
    prometheus(
        "/api/v1/notifications/live",
        GET,
        "the same as it changes",
        || get(notifications::live),
    ),
    prometheus(
        "/api/v1/search/metric_names",
        GET_POST,
        "metrics that match a few letters",
        || get(search::metric_names).post(search::metric_names),
    ),
    prometheus(
        "/api/v1/search/label_names",
        GET_POST,
        "labels that match a few letters",
        || get(search::label_names).post(search::label_names),
    ),
    prometheus(
        "/api/v1/search/label_values",
        GET_POST,
        "values of a label that match a few letters",
        || get(search::label_values).post(search::label_values),
    ),
    prometheus(
        "/api/v1/status/tsdb/blocks",
        GET,
        "buckets in the shape of blocks",
        || get(blocks::status),
    ),
    prometheus(
        "/api/v1/status/walreplay",
        GET,
        "how far the replay of the journal is",
        || get(replay::status),
    ),
    prometheus(
        "/api/v1/status/self_metrics",
        GET,
        "what this process counts, as JSON",
        || get(self_metrics::status),
    ),
    prometheus(
        "/api/v1/openapi.yaml",
        GET,
        "every route, as an OpenAPI document",
        || get(openapi::document),
    ),
    route(
        "/api/v1/status/metric_names",
        GET,
        "metrics by name, page by page",
        || get(metric_names::metric_names),
    ),
    route(
        "/api/v1/status/query_usage",
        GET,
        "which metrics queries ask for",
        || get(metric_names::query_usage),
    ),
    route(
        "/api/v1/status/maintenance",
        GET,
        "what coarsening is doing",
        || get(maintenance::status),
    ),
    only(
        Role::Open,
        route(
            "/api/v1/status/access",
            GET,
            "whether a credential is needed, and what this one allows",
            || get(access::status),
        ),
    ),
    route(
        "/api/v1/status/buckets",
        GET,
        "what is stored where",
        || get(buckets::status),
    ),
    route("/api/v1/status/features", GET, "what is in use", || {
        get(features::status)
    }),
    route(
        "/api/v1/status/retention",
        GET,
        "what is kept how long",
        || get(retention::status),
    ),
    opentsdb_route(opentsdb::PREFIX, "the same: what it serves"),
    opentsdb_route(opentsdb::PATHS, "OpenTSDB's HTTP API"),
    unlimited(
        Role::Admin,
        route(
            "/api/v1/admin/maintenance/run",
            &["POST", "PUT"],
            "coarsens everything that is closed",
            || post(maintenance::run).put(maintenance::run),
        ),
    ),
    unlimited(
        Role::Admin,
        route(
            "/api/v1/admin/retention/apply",
            POST_PUT,
            "confirms what a retention time deletes",
            || post(retention::apply).put(retention::apply),
        ),
    ),
    unlimited(
        Role::Admin,
        route(
            "/api/v1/admin/tsdb/delete_series",
            POST_PUT,
            "deletes samples of series that match",
            || post(tsdb::delete_series).put(tsdb::delete_series),
        ),
    ),
    unlimited(
        Role::Admin,
        route(
            "/api/v1/admin/tsdb/clean_tombstones",
            POST_PUT,
            "removes what was deleted from the store",
            || post(tsdb::clean_tombstones).put(tsdb::clean_tombstones),
        ),
    ),
    unlimited(
        Role::Admin,
        route(
            "/api/v1/admin/tsdb/snapshot",
            POST_PUT,
            "keeps the state of now under a name",
            || post(tsdb::create_snapshot).put(tsdb::create_snapshot),
        ),
    ),
    only(
        Role::Admin,
        route(
            "/api/v1/admin/tsdb/snapshots",
            GET,
            "snapshots that there are",
            || get(tsdb::snapshots),
        ),
    ),
    only(
        Role::Admin,
        route(
            "/api/v1/admin/tsdb/snapshot/{name}",
            &["DELETE"],
            "lets a snapshot go",
            || delete(tsdb::delete_snapshot),
        ),
    ),
];
