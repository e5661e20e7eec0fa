//! Pages of other origins that read the API: the headers that Prometheus answers with.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use super::route::without_prefix;
use crate::config::OriginPattern;

/// Returns `true` if pages of other origins may ask for a path: the API, and where exporters of
/// OpenTelemetry in browsers send to.
pub(crate) fn applies_to(path: &str) -> bool {
    let path = without_prefix(path);
    path.starts_with("/api/") || path.starts_with("/v1/")
}

/// The origin that a browser names.
pub(crate) fn origin_of(request: &Request) -> Option<HeaderValue> {
    let origin = request.headers().get(header::ORIGIN);
    origin.filter(|origin| !origin.is_empty()).cloned()
}

/// Says which origins may read this answer: all, or this one, or another.
pub(crate) fn allow(headers: &mut HeaderMap, allowed: &OriginPattern, origin: &HeaderValue) {
    const ALWAYS: [(HeaderName, HeaderValue); 3] = [
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
    headers.extend(ALWAYS);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if allowed.allows_any() {
        let any = HeaderValue::from_static("*");
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    } else if origin.to_str().is_ok_and(|text| allowed.allows(text)) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    }
}
