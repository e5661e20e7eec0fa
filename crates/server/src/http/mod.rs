//! The HTTP door: routes, and what holds for every request.
//!
//! ```text
//! connection ─► observe (count, time limit, CORS) ─► route ─► handler ─► wire, Database
//! ```
//!
//! Holds always:
//! - Until the database is open everything but `/-/healthy` answers 503 with `Retry-After`.
//! - Every request ends within `server.request_timeout`, except a flush, which answers when it is
//!   done, and an export, which goes on while its client reads and the store delivers.
//! - Errors become statuses in `error` and nowhere else.
//!
//! Elsewhere: sockets and slow clients (`connection`), protocols (`icecore_wire`).

mod body;
pub(crate) mod connection;
mod error;
mod export;
mod health;
mod json;
mod labels;
pub(crate) mod limits;
mod params;
mod remote_write;
mod status;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use http_body_util::BodyExt as _;
use icecore_storage::Database;

use crate::config::ServerOptions;
use crate::metrics::HttpMetrics;
use error::ApiError;
use limits::Limits;

/// One path and what it is for. `docs/http-api.md` describes each.
pub struct Route {
    pub path: &'static str,
    pub methods: &'static [&'static str],
    pub what: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
    /// Whether `server.request_timeout` holds for it.
    timed: bool,
}

const fn route(
    path: &'static str,
    methods: &'static [&'static str],
    what: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Route {
    Route {
        path,
        methods,
        what,
        handler,
        timed: true,
    }
}

const GET: &[&str] = &["GET"];
const GET_POST: &[&str] = &["GET", "POST"];

/// Every path there is.
pub const ROUTES: &[Route] = &[
    route("/", GET, "this page", || get(health::index)),
    route("/-/healthy", GET, "whether the process runs", || {
        get(health::healthy)
    }),
    route("/-/ready", GET, "whether requests are answered", || {
        get(health::ready)
    }),
    Route {
        timed: false,
        ..route(
            "/-/flush",
            &["POST", "PUT"],
            "moves everything into buckets",
            || post(health::flush).put(health::flush),
        )
    },
    route("/metrics", GET, "what this process counts", || {
        get(health::metrics)
    }),
    route(
        "/api/v1/write",
        &["POST"],
        "Prometheus remote write 1.0 and 2.0",
        || post(remote_write::write),
    ),
    route(
        "/api/v1/export",
        GET_POST,
        "samples as lines of JSON",
        || get(export::export).post(export::export),
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
        || get(status::metadata),
    ),
    route(
        "/api/v1/status/tsdb",
        GET_POST,
        "where the series come from",
        || get(status::tsdb).post(status::tsdb),
    ),
    route(
        "/api/v1/status/buildinfo",
        GET,
        "which program this is",
        || get(status::build_info),
    ),
];

/// What every handler shares.
pub(crate) struct App {
    pub(crate) options: ServerOptions,
    pub(crate) limits: Limits,
    pub(crate) metrics: HttpMetrics,
    database: OnceLock<Database>,
}

impl App {
    pub(crate) fn new(options: ServerOptions) -> Self {
        Self {
            limits: Limits::new(&options),
            metrics: HttpMetrics::default(),
            options,
            database: OnceLock::new(),
        }
    }

    /// From now on requests are answered.
    pub(crate) fn set_database(&self, database: Database) {
        let earlier = self.database.set(database);
        debug_assert!(earlier.is_ok(), "a process opens one database");
    }

    fn database(&self) -> Result<&Database, ApiError> {
        self.database
            .get()
            .ok_or_else(|| ApiError::unavailable("the database is being opened: try again"))
    }
}

pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    router
        .fallback(|uri: Uri| async move { ApiError::not_found(uri.path()) })
        .method_not_allowed_fallback(|method: Method| async move {
            ApiError::method_not_allowed(method.as_str())
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), observe))
        .with_state(app)
}

/// What holds for every request, whatever its path.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = route_of(&request);
    let timer = app.metrics.begin(route.map_or("other", |route| route.path));
    let in_api = request.uri().path().starts_with("/api/");
    let cross_origin = in_api && request.headers().contains_key(header::ORIGIN);
    let mut response = if in_api && request.method() == Method::OPTIONS {
        // Browsers ask before they send what another page told them to.
        StatusCode::NO_CONTENT.into_response()
    } else if route.is_none_or(|route| route.timed) {
        let limit = app.options.request_timeout;
        match tokio::time::timeout(limit, next.run(request)).await {
            Ok(response) => response,
            Err(_) => ApiError::timeout(format!(
                "the request took longer than server.request_timeout = {limit:?}"
            ))
            .into_response(),
        }
    } else {
        next.run(request).await
    };
    if cross_origin {
        allow_other_origins(response.headers_mut());
    }
    let timer = timer.answered(response.status());
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    // A streamed answer is done when its body is, or when its client has gone away.
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _until_the_body_is_dropped = &timer;
            frame
        }))
    })
}

fn route_of(request: &Request) -> Option<&'static Route> {
    let matched = request.extensions().get::<MatchedPath>()?;
    ROUTES.iter().find(|route| route.path == matched.as_str())
}

/// What Prometheus answers to pages of other origins.
fn allow_other_origins(headers: &mut HeaderMap) {
    const ALLOWED: [(HeaderName, HeaderValue); 4] = [
        (
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            HeaderValue::from_static("*"),
        ),
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, POST, OPTIONS"),
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("Accept, Authorization, Content-Type, Origin"),
        ),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("Date"),
        ),
    ];
    headers.extend(ALLOWED);
}
