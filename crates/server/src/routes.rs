//! The routes, and what holds for every request.
//!
//! ```text
//! connection ─► observe (count, site, access, time limit, origins, compression)
//!            ─► route ─► handler ─► wire, Database
//! ```
//!
//! Holds always:
//! - Pages of other sites and access are checked before anything but the head of the request is
//!   read.
//! - Until the database is open everything but `/-/healthy`, the web interface and
//!   `/api/v1/status/access` answers 503 with `Retry-After`.
//! - Every request ends within `server.request_timeout`, except a flush, a run of maintenance and
//!   what administrators ask for, which answer when they are done, an export and an import, which
//!   go on while their client reads or sends and the store keeps up, and a query, which has
//!   `query.timeout` in addition.
//! - Errors become statuses in `middleware::error` and nowhere else.
//!
//! Elsewhere: sockets and slow clients (`listener`), protocols (`icecore_wire`).

#[cfg(test)]
mod docs;
mod local;
mod refusal;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any, delete, get, post};
use http_body_util::BodyExt as _;
use icecore_access::{PeerCertificate, Role};
use tokio::sync::OwnedSemaphorePermit;

use crate::admin::{maintenance, reload, tsdb};
use crate::app::App;
use crate::events::{admin as event_admin, catalog, metric_query, publish, search};
use crate::middleware::cross_site::{Effect, ForeignPage, Site, Trust, refusal_of};
use crate::middleware::error::ApiError;
use crate::middleware::route::{Route, TimeLimit};
use crate::middleware::{body, compress, origins, redirect};
use crate::opentsdb::{
    export as opentsdb_export, http as opentsdb, import as opentsdb_import, translate,
};
use crate::query::{evaluate, expression};
use crate::read::{exemplars, export, federate, labels, remote_read};
use crate::status::{access, buckets, features, health, info, metric_names, retention, targets};
use crate::ui;
use crate::write::{grpc, import, otlp_http, remote_write};

/// A route and its handler.
struct Endpoint {
    route: Route,
    handler: fn() -> MethodRouter<Arc<App>>,
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
            time: TimeLimit::Request,
        },
        handler,
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
    let served = route(path, GET_POST, what, handler);
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
const ANY: &[&str] = &["ANY"];
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

const TABLE: &[Endpoint] = &[
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
    route("/api/v1/targets", GET, "what is scraped", || {
        get(targets::targets)
    }),
    route(
        "/api/v1/targets/metadata",
        GET,
        "type, unit and help of metrics, by target",
        || get(targets::metadata),
    ),
    route(
        "/api/v1/scrape_pools",
        GET,
        "the names of jobs that are scraped",
        || get(targets::scrape_pools),
    ),
    route(
        "/api/v1/status/config",
        GET,
        "the configuration file in force",
        || get(info::config),
    ),
    route(
        "/api/v1/status/flags",
        GET,
        "every setting and its value",
        || get(info::flags),
    ),
    route(
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
        post(search::events)
    }),
    event_query(
        "/api/objql/query",
        "events that match, asked for in text",
        || post(search::objql),
    ),
    event_query("/events/sql", "SQL over events and their metrics", || {
        post(search::sql)
    }),
    route("/api/events/{service}/{id}", GET, "one event", || {
        get(search::event)
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
        route(
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
    route(
        "/api/v1/query_exemplars",
        GET_POST,
        "exemplars of the series that a query selects",
        || get(exemplars::exemplars).post(exemplars::exemplars),
    ),
    route(
        "/api/v1/format_query",
        GET_POST,
        "a query, well laid out",
        || get(expression::format).post(expression::format),
    ),
    route(
        "/api/v1/parse_query",
        GET_POST,
        "a query as a syntax tree",
        || get(expression::parse).post(expression::parse),
    ),
    route("/api/v1/series", GET_POST, "series that match", || {
        get(labels::series).post(labels::series)
    }),
    route("/api/v1/labels", GET_POST, "label names", || {
        get(labels::label_names).post(labels::label_names)
    }),
    route(
        "/api/v1/label/{name}/values",
        GET_POST,
        "values of a label",
        || get(labels::label_values).post(labels::label_values),
    ),
    route(
        "/api/v1/metadata",
        GET,
        "type, unit and help of metrics",
        || get(info::metadata),
    ),
    route(
        "/api/v1/status/tsdb",
        GET_POST,
        "where the series come from",
        || get(info::tsdb).post(info::tsdb),
    ),
    route(
        "/api/v1/status/buildinfo",
        GET,
        "which program this is",
        || get(info::build_info),
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

/// The router of the HTTP port: every path.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for served in TABLE {
        router = router.route(served.route.path, (served.handler)());
    }
    let router = router.fallback(|method: Method, uri: Uri| async move {
        let elsewhere = redirect::without_slash(&ROUTES, &method, &uri);
        elsewhere.unwrap_or_else(|| ApiError::not_found(uri.path()).into_response())
    });
    observed(router, app)
}

/// The router of OpenTSDB's port: its paths only, and the prefix is added by the listener.
pub(crate) fn opentsdb_router(app: Arc<App>) -> Router {
    let router = Router::new()
        .route(opentsdb::PREFIX, any(opentsdb::serve))
        .route(opentsdb::PATHS, any(opentsdb::serve));
    observed(router, app)
}

/// The router of the gRPC port: the methods of gRPC only.
pub(crate) fn grpc_router(app: Arc<App>) -> Router {
    let router = Router::new()
        .route(grpc::EXPORT, post(grpc::export))
        .route(grpc::EXPORT_LOGS, post(grpc::export_logs))
        .fallback(grpc::unknown);
    observed(router, app)
}

/// No browser takes an answer for something else than it says to be.
const NO_SNIFFING: HeaderValue = HeaderValue::from_static("nosniff");

fn observed(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    router
        .layer(from_fn_with_state(Arc::clone(&app), observe))
        .with_state(app)
}

/// What holds for every request, whatever its path.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = route_of(&request);
    let timer = app.metrics.begin(route.map_or("other", |route| route.path));
    let in_api = origins::applies_to(request.uri().path());
    let origin = in_api.then(|| origins::origin_of(&request)).flatten();
    let encoding = compress::wanted(&request);
    let from_ui = ui::is_from_ui(request.headers());
    let mut response = if in_api && request.method() == Method::OPTIONS {
        // No credential is required: browsers send none.
        let known = route.and_then(|route| other_method(&app, route, &request));
        known.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response())
    } else {
        let uri = request.uri().clone();
        let answering = check_access(&app, route, request, next);
        answer(&app, route, &uri, answering).await
    };
    if from_ui {
        response.headers_mut().remove(header::WWW_AUTHENTICATE);
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFFING);
    app.access.add_headers(headers);
    if let Some(origin) = origin {
        let config = app.config();
        let allowed = &config.server.cors_origin;
        origins::allow(response.headers_mut(), allowed, &origin);
    }
    let response = compress::compressed(response, encoding).await;
    let timer = timer.answered(response.status());
    until_done(response, timer)
}

/// Keeps something until an answer is done: a streamed one when its body is, or when its client has
/// gone away.
fn until_done(response: Response, kept: impl Send + 'static) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _until_the_body_is_dropped = &kept;
            frame
        }))
    })
}

/// Who may send a request.
fn role_of(route: &Route, request: &Request) -> Role {
    let (method, uri) = (request.method(), request.uri());
    match route.path {
        path if path.starts_with(opentsdb::PREFIX) => opentsdb::role_of(method, uri),
        opentsdb_export::PATH if opentsdb_export::assigns_uids(method, uri) => Role::Admin,
        // A browser is only sent on, to a page that asks for a credential in its own way.
        "/" if ui::wants_page(request.headers()) => Role::Open,
        _ => route.role,
    }
}

/// The effect of a request on what is stored.
fn effect_of(route: Option<&Route>, request: &Request) -> Effect {
    let (method, uri) = (request.method(), request.uri());
    match route {
        // An error, or a redirect.
        None => Effect::Probe,
        Some(route) if route.path.starts_with(opentsdb::PREFIX) => opentsdb::effect_of(method, uri),
        Some(route) if route.path == opentsdb_export::PATH => {
            if opentsdb_export::assigns_uids(method, uri) {
                Effect::Change
            } else {
                Effect::Read
            }
        }
        Some(route) => route.effect(method),
    }
}

/// Refuses what the page of another site makes a browser send. Marks what may be from one and is
/// not refused.
fn check_site(
    app: &App,
    route: Option<&Route>,
    effect: Effect,
    request: &mut Request,
) -> Result<(), ApiError> {
    let config = app.config();
    let is_opentsdb = route.is_some_and(|route| route.path.starts_with(opentsdb::PREFIX));
    let tsd = app.opentsdb().ok().filter(|_| is_opentsdb);
    let has_origin = request.headers().contains_key(header::ORIGIN);
    let trust = Trust {
        is_restricted: app.access.is_restricted(),
        machine: &app.started.hostname,
        hosts: &config.server.hosts,
        // Most requests are of programs, which need not wait for settings to be looked up.
        origins: has_origin.then(|| config.explicit_cors_origin()).flatten(),
        domains: tsd.map(|tsd| tsd.cors_domains()).unwrap_or_default(),
    };
    let is_https = app.access.with_tls(|_| ()).is_some();
    let (method, uri) = (request.method(), request.uri());
    let site = Site::of(method, uri, request.headers(), is_https);
    let is_foreign = site.is_foreign(&trust);
    let refused = refusal_of(effect, &site, &trust);
    if is_foreign {
        request.extensions_mut().insert(ForeignPage);
    }
    refused.map_or(Ok(()), |refused| Err(refused.into()))
}

/// Checks the site and access first: without that, unknown paths look like known ones.
async fn check_access(
    app: &App,
    route: Option<&Route>,
    mut request: Request,
    next: Next,
) -> Response {
    let to_clean_path = redirect::to_clean_path(request.uri());
    let effect = match to_clean_path {
        // A redirect tells nothing, and its target is judged when it is asked for.
        Some(_) => Effect::Probe,
        None => effect_of(route, &request),
    };
    let admitted = match check_site(app, route, effect, &mut request) {
        Ok(()) => {
            let extensions = request.extensions();
            let certificate = extensions.get::<Arc<PeerCertificate>>();
            let client = extensions.get::<SocketAddr>().map(SocketAddr::ip);
            let role = route.map(|route| role_of(route, &request));
            let (headers, certificate) = (request.headers(), certificate.map(Arc::as_ref));
            let checked = app.access.check(headers, certificate, client, role);
            checked.await.map_err(ApiError::from)
        }
        Err(error) => Err(error),
    };
    let refused = match admitted {
        Ok(()) => match to_clean_path.or_else(|| other_method(app, route?, &request)) {
            Some(answer) => answer,
            None => {
                let admitting = admit(app, route, &request);
                match admitting.await {
                    Ok(slot) => return until_done(next.run(request).await, slot),
                    Err(error) => {
                        refusal::refused(app, route, request.uri(), request.headers(), error)
                    }
                }
            }
        },
        Err(error) => refusal::refused(app, route, request.uri(), request.headers(), error),
    };
    let (head, mut body) = request.into_parts();
    body::read_to_the_end(&mut body, &head.headers).await;
    refused
}

/// A place for a request that may be served.
fn admit(
    app: &App,
    route: Option<&Route>,
    request: &Request,
) -> impl Future<Output = Result<Option<OwnedSemaphorePermit>, ApiError>> + use<> {
    let is_restricted = app.access.is_restricted();
    let is_for_local_user =
        |route: &&Route| route.is_of_events() && route.role == Role::Admin && !is_restricted;
    let place = app.limits.admit(route, request.body());
    let checking = route
        .filter(is_for_local_user)
        .map(|_| local::check(request));
    async move {
        let place = place?;
        if let Some(checking) = checking {
            checking.await.map_err(ApiError::forbidden)?;
        }
        Ok(place)
    }
}

/// The answer to a method that the route does not have. As in Prometheus, only health checks, and
/// here the files of the interface, have `HEAD`: elsewhere it would do all the work and throw it
/// away.
fn other_method(app: &App, route: &Route, request: &Request) -> Option<Response> {
    let method = request.method();
    if route.methods == ANY {
        return None;
    }
    let head = (route.role == Role::Open).then_some("HEAD");
    let mut allowed: Vec<&str> = route.methods.iter().copied().chain(head).collect();
    if allowed.contains(&method.as_str()) {
        return None;
    }
    allowed.push("OPTIONS");
    allowed.sort_unstable();
    let mut response = match *method {
        // A browser's preflight request.
        Method::OPTIONS if route.path.starts_with("/api/") => {
            StatusCode::NO_CONTENT.into_response()
        }
        Method::OPTIONS => StatusCode::OK.into_response(),
        _ => {
            let error = ApiError::method_not_allowed(method.as_str());
            refusal::general(app, Some(route), request.uri(), error)
        }
    };
    // Names of methods are what a header may hold.
    if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    Some(response)
}

/// Waits for an answer for as long as the route allows.
async fn answer(
    app: &App,
    route: Option<&Route>,
    uri: &Uri,
    answering: impl Future<Output = Response>,
) -> Response {
    let limit = app.config().server.request_timeout;
    let (allowed, name) = match route.map_or(&TimeLimit::Request, |route| &route.time) {
        TimeLimit::Request => (limit, "server.request_timeout"),
        TimeLimit::Query => (
            limit.saturating_add(app.queries.engine().options().timeout),
            "server.request_timeout and query.timeout",
        ),
        TimeLimit::None => return answering.await,
    };
    let answered = tokio::time::timeout(allowed, answering).await;
    answered.unwrap_or_else(|_| {
        let message = format!("the request took longer than {name} = {allowed:?}");
        refusal::general(app, route, uri, ApiError::timeout(message))
    })
}

fn route_of(request: &Request) -> Option<&'static Route> {
    let matched = request.extensions().get::<MatchedPath>()?;
    ROUTES.iter().find(|route| route.path == matched.as_str())
}
