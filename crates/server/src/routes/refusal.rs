//! Refusals of requests that never reach their handler, in the form that their clients read.

use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::route::Route;
use crate::opentsdb::http as opentsdb;
use crate::write::{grpc, otlp_http, remote_write};

/// The answer to a request that is refused for what its head says.
pub(super) fn refused(
    app: &App,
    route: Option<&Route>,
    uri: &Uri,
    headers: &HeaderMap,
    error: ApiError,
) -> Response {
    let path = route.map_or("", |route| route.path);
    match path {
        remote_write::PATH => error.into_text(),
        _ if grpc::is_call(headers) => grpc::refused(&error),
        _ if otlp_http::PATHS.contains(&path) => otlp_http::refused(error, headers),
        _ if path.starts_with(opentsdb::PREFIX) => error.into_opentsdb(),
        _ => general(app, route, uri, error),
    }
}

/// The answer in Prometheus' form, or a problem document where the route is about events.
pub(super) fn general(app: &App, route: Option<&Route>, uri: &Uri, error: ApiError) -> Response {
    match route.filter(|route| route.is_of_events()) {
        Some(_) => error.into_problem(uri.path(), app.clock().now_ms()),
        None => error.into_response(),
    }
}
