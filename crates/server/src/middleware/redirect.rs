//! Redirects from paths that nearly are one of ours.
//!
//! | path | answer |
//! | --- | --- |
//! | `//api/v1/query`, `/api/./v1/query`, `/x/../metrics` | 307 to the same without them, whether it exists or not |
//! | `/api/v1/query/`, where `/api/v1/query` exists for the method | 301 for a `GET`, 307 for others |
//!
//! As in Prometheus, whose clients are often given a base URL that ends with a slash. Prometheus
//! itself loses `/api/v1` in the second case.

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};

use super::route::{Route, without_prefix};

/// The answer to a path that can be said more shortly.
pub(crate) fn to_clean_path(uri: &Uri) -> Option<Response> {
    let path = uri.path();
    // Nearly every path is clean, and looked at without being copied.
    if !path.contains("//") && !path.contains("/.") {
        return None;
    }
    let cleaned = clean(path);
    if cleaned == path {
        return None;
    }
    redirect(StatusCode::TEMPORARY_REDIRECT, &cleaned, uri)
}

/// The answer to a path that there is without the slash at its end.
pub(crate) fn without_slash(routes: &[Route], method: &Method, uri: &Uri) -> Option<Response> {
    let path = uri.path().strip_suffix('/')?;
    let status = match *method {
        Method::GET => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::TEMPORARY_REDIRECT,
    };
    if is_taken(routes, method, path) {
        redirect(status, path, uri)
    } else {
        None
    }
}

fn redirect(status: StatusCode, path: &str, uri: &Uri) -> Option<Response> {
    let query = uri.path_and_query().and_then(PathAndQuery::query);
    let location = match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    // As plain text, because a path may hold what a page would take for markup.
    let reason = status.canonical_reason().unwrap_or_default();
    let body = format!("{reason}: {location}\n");
    let location = HeaderValue::from_str(&location).ok()?;
    Some((status, [(header::LOCATION, location)], body).into_response())
}

/// Whether a path has a route that takes the method.
fn is_taken(routes: &[Route], method: &Method, path: &str) -> bool {
    let same = |pattern: &str, path: &str| {
        let mut segments = path.split('/');
        let all = pattern.split('/').all(|wanted| {
            let found = segments.next().unwrap_or_default();
            found == wanted || (wanted.starts_with('{') && !found.is_empty())
        });
        all && segments.next().is_none()
    };
    let takes = |methods: &[&str]| methods.contains(&method.as_str());
    routes.iter().any(|route| {
        let path = if route.is_prefixed {
            without_prefix(path)
        } else {
            path
        };
        takes(route.methods) && same(route.path, path)
    })
}

/// The shortest path with the same meaning. It begins with one slash, so that it never names
/// another host; a slash at the end stays.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    let mut cleaned = format!("/{}", kept.join("/"));
    if path.ends_with('/') && !cleaned.ends_with('/') {
        cleaned.push('/');
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn paths_are_cleaned() {
        for (path, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("//a", "/a"),
            ("//other.host/a", "/other.host/a"),
            ("/a//b///c", "/a/b/c"),
            ("/a/./b/.", "/a/b"),
            ("/a/../../b", "/b"),
            ("/..", "/"),
            ("/a//", "/a/"),
        ] {
            assert_eq!(clean(path), expected, "{path}");
        }
    }

    #[test]
    fn parameters_of_paths_are_not_empty() {
        assert!(is_taken(&ROUTES, &Method::GET, "/api/v1/label/job/values"));
        assert!(!is_taken(&ROUTES, &Method::GET, "/api/v1/label//values"));
        assert!(!is_taken(&ROUTES, &Method::PUT, "/api/v1/label/job/values"));
        assert!(!is_taken(
            &ROUTES,
            &Method::GET,
            "/api/v1/label/job/values/x"
        ));
        assert!(!is_taken(&ROUTES, &Method::GET, "/api/v1"));
        assert!(is_taken(&ROUTES, &Method::GET, "/prometheus/api/v1/query"));
        assert!(!is_taken(&ROUTES, &Method::GET, "/prometheus/api/v1/write"));
        assert!(!is_taken(&ROUTES, &Method::GET, "/prometheus/metrics"));
    }
}
