//! The routers, and what holds for every request.
//!
//! ```text
//! connection ─► observe (count, site, access, time limit, origins, compression)
//!            ─► route ─► handler ─► wire, Database
//! ```
//!
//! Holds always:
//! - Pages of other sites and access are checked before anything but the head of the request is
//!   read.
//! - Until the database is open everything but `/-/healthy`, the web interface,
//!   `/api/v1/status/access`, `/api/v1/status/walreplay` and notifications answers 503 with
//!   `Retry-After`.
//! - Every request ends within `server.request_timeout`, except a flush, a run of maintenance and
//!   what administrators ask for, which answer when they are done, an export and an import, which
//!   go on while their client reads or sends and the store keeps up, and a query, which has
//!   `query.timeout` in addition.
//! - Errors become statuses in `middleware::error` and nowhere else.
//!
//! Elsewhere: the routes (`table`), sockets and slow clients (`listener`), protocols
//! (`icecore_wire`).

#[cfg(test)]
mod docs;
mod local;
mod refusal;
mod table;

pub use table::ROUTES;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, post};
use http_body_util::BodyExt as _;
use icecore_access::{PeerCertificate, Role};
use tokio::sync::OwnedSemaphorePermit;

use self::table::{ANY, TABLE};
use crate::app::App;
use crate::middleware::cross_site::{Effect, ForeignPage, Site, Trust, refusal_of};
use crate::middleware::error::ApiError;
use crate::middleware::route::{Route, TimeLimit, without_prefix};
use crate::middleware::{body, compress, origins, redirect};
use crate::opentsdb::{export as opentsdb_export, http as opentsdb};
use crate::ui;
use crate::write::grpc;

/// The router of the HTTP port: every path.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for served in TABLE {
        for path in served.route.paths() {
            router = router.route(&path, (served.handler)());
        }
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
    let path = without_prefix(matched.as_str());
    ROUTES.iter().find(|route| route.path == path)
}
