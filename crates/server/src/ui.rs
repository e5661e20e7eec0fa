//! `/ui/`: the web interface, and the links that lead to it.
//!
//! Holds always:
//! - What is served here is in the binary and the same for everybody. It needs neither a credential
//!   nor the database, so that the page can ask for the one and say that the other is being opened.
//! - Redirects are relative, so that they are right below any prefix that a proxy adds.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use icecore_web_assets::{Asset, find};

use crate::middleware::compress;
use crate::middleware::error::ApiError;

/// What the page may load and do: only what this server sends, no script or style inside of HTML,
/// and no frame around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// A year: what such a name stands for never changes.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Kept, but asked for again each time, so that a new version is seen at once.
const REVALIDATED: &str = "no-cache";

/// The page.
pub(crate) async fn page(headers: HeaderMap) -> Result<Response, ApiError> {
    serve("index.html", &headers).await
}

/// A file of the page.
pub(crate) async fn file(
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Path(path) = path.map_err(|error| ApiError::bad_data(error.to_string()))?;
    serve(&path, &headers).await
}

/// From `/ui` to the page.
pub(crate) async fn to_page() -> Response {
    redirect("ui/")
}

/// From links as Prometheus has them, `/graph?…` and `/query?…`, to the same query here.
pub(crate) async fn to_query(RawQuery(query): RawQuery) -> Response {
    match query {
        Some(query) => redirect(&format!("ui/#/query?{query}")),
        None => redirect("ui/#/query"),
    }
}

/// Whether a request comes from a browser that shows a page to somebody.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("text/html"))
}

/// Whether a request is one of the interface's own. A browser that is told how to authenticate
/// would ask for a password itself, in front of the page, which asks for one, too.
pub(crate) fn is_from_ui(headers: &HeaderMap) -> bool {
    let sender = headers.get("x-requested-with");
    sender.is_some_and(|sender| sender == "icecore-ui")
}

/// Answers with another place, below the one that was asked for.
pub(crate) fn redirect(place: &str) -> Response {
    match HeaderValue::from_str(place) {
        Ok(place) => (StatusCode::FOUND, [(header::LOCATION, place)]).into_response(),
        // A query has only bytes that a header may have.
        Err(error) => ApiError::bad_data(error.to_string()).into_response(),
    }
}

async fn serve(path: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    let Some(asset) = find(path) else {
        return Err(ApiError::no_such(format!(
            "the interface has no file {path:?}"
        )));
    };
    let mut response = if is_known(headers, asset) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if compress::accepts_gzip(headers) {
        let encoding = [(header::CONTENT_ENCODING, "gzip")];
        (encoding, asset.gzip).into_response()
    } else {
        // Rarely wanted; the first takes too long for the threads that keep all connections going.
        let plain = tokio::task::spawn_blocking(|| asset.plain()).await;
        let plain = plain.map_err(|error| ApiError::internal(error.to_string()))?;
        plain.into_response()
    };
    let cache = if asset.is_immutable() {
        IMMUTABLE
    } else {
        REVALIDATED
    };
    for (name, value) in [
        (header::CONTENT_TYPE, asset.content_type),
        (header::ETAG, asset.etag),
        (header::CACHE_CONTROL, cache),
        (header::VARY, "Accept-Encoding"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// Whether the client has this file already.
fn is_known(headers: &HeaderMap, asset: &Asset) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter();
    given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || same_tag(tag, asset.etag))
}

/// Weak tags and strong ones are compared alike: RFC 9110, 13.1.2.
fn same_tag(given: &str, own: &str) -> bool {
    given.trim_start_matches("W/") == own.trim_start_matches("W/")
}
