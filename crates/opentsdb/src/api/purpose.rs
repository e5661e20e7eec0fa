//! What a request is for, before anything but its head is read: access depends on it.

use http::Method;

use super::endpoint;

/// What somebody must be allowed to do for a request to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// A query: reads, and computes for a while.
    Query,
    Write,
    /// Deletes points.
    Delete,
}

/// What a request with this head is for. `target` is the path behind any prefix, with its query
/// string. A query by POST may still ask in its body that what it finds be deleted.
///
/// The path is taken apart by the code that finds its endpoint: whatever is answered is judged as
/// what it is.
pub fn purpose(method: &Method, target: &str) -> Purpose {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // What has no endpoint is an error, which anybody may read.
    let Ok(endpoint) = endpoint(path) else {
        return Purpose::Read;
    };
    let parts: Vec<&str> = endpoint.split('/').collect();
    match parts.as_slice() {
        ["put" | "rollup" | "histogram", ..] | ["uid", "assign" | "rename", ..] => Purpose::Write,
        // Without its caches the server is slow for a while, for everybody.
        ["dropcaches", ..] | ["", "dropcaches", ..] => Purpose::Write,
        ["uid" | "annotation" | "annotations" | "tree", ..] if changes(method, query) => {
            Purpose::Write
        }
        ["query", ..] if deletes(method, query) => Purpose::Delete,
        // These read points, or series by the million.
        ["query" | "search", ..] | ["uid", "tsmeta", ..] | ["tree", "test", ..] => Purpose::Query,
        ["", "q", ..] => Purpose::Query,
        _ => Purpose::Read,
    }
}

/// Whether a request changes what it names: any verb but GET, also one that a parameter names.
fn changes(method: &Method, query: &str) -> bool {
    *method != Method::GET || overrides(query).any(|verb| verb != "get")
}

fn deletes(method: &Method, query: &str) -> bool {
    *method == Method::DELETE || overrides(query).any(|verb| verb == "delete")
}

/// The verbs that `method_override` names.
fn overrides(query: &str) -> impl Iterator<Item = String> {
    let params = form_urlencoded::parse(query.as_bytes());
    let named = params.filter(|(name, _)| name == "method_override");
    named.map(|(_, verb)| verb.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes() {
        for (method, target, expected) in [
            (Method::POST, "/api/put?details", Purpose::Write),
            (Method::POST, "/api/v1/Put", Purpose::Write),
            (Method::GET, "/api/put", Purpose::Write),
            (Method::GET, "/api/query?m=sum:x", Purpose::Query),
            (Method::POST, "/api/query/exp", Purpose::Query),
            (Method::GET, "/q?ascii", Purpose::Query),
            (Method::DELETE, "/api/query?m=sum:x", Purpose::Delete),
            (
                Method::GET,
                "/api/query?method_override=Delete",
                Purpose::Delete,
            ),
            (
                Method::GET,
                "/api/query?method_%6fverride=delete",
                Purpose::Delete,
            ),
            // Versions that a number may be written as.
            (Method::POST, "/api/v+1/put", Purpose::Write),
            (Method::POST, "/api/v01/put", Purpose::Write),
            (Method::POST, "/api/v2/put", Purpose::Read),
            // These have no endpoint.
            (Method::POST, "//api/put", Purpose::Read),
            (Method::POST, "/put", Purpose::Read),
            (Method::POST, "/api/%70ut", Purpose::Read),
            (Method::GET, "/api/uid/assign?metric=x", Purpose::Write),
            (Method::POST, "/api/uid/rename", Purpose::Write),
            (Method::GET, "/api/uid/uidmeta?uid=1", Purpose::Read),
            (
                Method::GET,
                "/api/uid/uidmeta?method_override=post",
                Purpose::Write,
            ),
            (Method::PUT, "/api/uid/tsmeta", Purpose::Write),
            (Method::POST, "/api/annotation", Purpose::Write),
            (Method::DELETE, "/api/annotation/bulk", Purpose::Write),
            (Method::GET, "/api/annotations?start_time=1", Purpose::Read),
            (Method::POST, "/api/tree/rule", Purpose::Write),
            (Method::POST, "/api/tree/sync?treeid=1", Purpose::Write),
            (Method::GET, "/api/tree/branch?treeid=1", Purpose::Read),
            (Method::GET, "/api/suggest?type=metrics", Purpose::Read),
            (Method::POST, "/api/search/lookup", Purpose::Query),
            (Method::GET, "/api/uid/tsmeta?m=a", Purpose::Query),
            (Method::GET, "/api/tree/test?treeid=1", Purpose::Query),
            (Method::GET, "/api/query/last", Purpose::Query),
            (Method::GET, "/api/dropcaches", Purpose::Write),
            (Method::GET, "/api/v1/DropCaches", Purpose::Write),
            (Method::GET, "/dropcaches", Purpose::Write),
            (Method::GET, "/", Purpose::Read),
        ] {
            assert_eq!(purpose(&method, target), expected, "{method} {target}");
        }
    }
}
