//! What a request is for, before anything but its head is read: access depends on it.

use http::Method;

use super::endpoint;
use crate::request::{METHOD_OVERRIDE, effective_verb};

/// What somebody must be allowed to do for a request to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// A query: reads, and computes for a while.
    Query,
    /// Stores points.
    Put,
    /// Changes names, meta data, annotations or trees, or forgets what is cached; and whatever is
    /// not known to change nothing.
    Edit,
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
    let verb = verb_of(method, query);
    match parts.as_slice() {
        ["put" | "rollup" | "histogram", ..] => Purpose::Put,
        ["uid", "assign" | "rename", ..] | ["tree", "sync", ..] => Purpose::Edit,
        // Without its caches the server is slow for a while, for everybody.
        ["dropcaches", ..] | ["", "dropcaches", ..] => Purpose::Edit,
        // These read points, or series by the million, whatever their verb is.
        ["search", ..] | ["tree", "test", ..] | ["", "q", ..] => Purpose::Query,
        ["tree", "branch" | "collisions" | "notmatched", ..] | ["annotations", ..] => Purpose::Read,
        ["query", ..] if verb == Method::DELETE || *method == Method::DELETE => Purpose::Delete,
        ["query", ..] => Purpose::Query,
        [
            "aggregators" | "config" | "stats" | "suggest" | "version",
            ..,
        ] => Purpose::Read,
        ["", "aggregators" | "stats" | "suggest" | "version", ..] => Purpose::Read,
        // An endpoint that only reads by such a verb stands above.
        _ if changes(&verb) => Purpose::Edit,
        ["uid", "tsmeta", ..] => Purpose::Query,
        _ => Purpose::Read,
    }
}

/// Returns `true` for the verbs that change what a request names.
fn changes(verb: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS].contains(verb)
}

/// Returns the verb by which endpoints decide, or the request's own where the one that
/// `method_override` names does not exist: the answer is an error then.
fn verb_of(method: &Method, query: &str) -> Method {
    let params = form_urlencoded::parse(query.as_bytes());
    let named = params.filter(|(name, _)| name == METHOD_OVERRIDE);
    // As in a request, the last value counts.
    let named = named.map(|(_, verb)| verb).last();
    effective_verb(method, named.as_deref()).unwrap_or_else(|_| method.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes() {
        for (method, target, expected) in [
            (Method::POST, "/api/put?details", Purpose::Put),
            (Method::POST, "/api/v1/Put", Purpose::Put),
            (Method::GET, "/api/put", Purpose::Put),
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
            (Method::POST, "/api/v+1/put", Purpose::Put),
            (Method::POST, "/api/v01/put", Purpose::Put),
            (Method::POST, "/api/v2/put", Purpose::Read),
            // These have no endpoint: one that is added is closed until it is listed.
            (Method::POST, "//api/put", Purpose::Edit),
            (Method::POST, "/put", Purpose::Edit),
            (Method::POST, "/api/%70ut", Purpose::Edit),
            (Method::DELETE, "/api/new", Purpose::Edit),
            (Method::GET, "/api/new?method_override=put", Purpose::Edit),
            (Method::GET, "/api/new", Purpose::Read),
            (Method::GET, "/put", Purpose::Read),
            (Method::GET, "/api/uid/assign?metric=x", Purpose::Edit),
            (Method::POST, "/api/uid/rename", Purpose::Edit),
            (Method::GET, "/api/uid/uidmeta?uid=1", Purpose::Read),
            (
                Method::GET,
                "/api/uid/uidmeta?method_override=post",
                Purpose::Edit,
            ),
            (Method::PUT, "/api/uid/tsmeta", Purpose::Edit),
            (Method::POST, "/api/annotation", Purpose::Edit),
            (Method::DELETE, "/api/annotation/bulk", Purpose::Edit),
            (Method::GET, "/api/annotations?start_time=1", Purpose::Read),
            (Method::POST, "/api/tree/rule", Purpose::Edit),
            (Method::POST, "/api/tree/sync?treeid=1", Purpose::Edit),
            (Method::GET, "/api/tree/branch?treeid=1", Purpose::Read),
            (Method::GET, "/api/suggest?type=metrics", Purpose::Read),
            (Method::POST, "/api/suggest", Purpose::Read),
            (Method::POST, "/suggest?type=metrics", Purpose::Read),
            (Method::POST, "/api/aggregators", Purpose::Read),
            (Method::POST, "/api/config/filters", Purpose::Read),
            (Method::POST, "/api/stats/jvm", Purpose::Read),
            (Method::POST, "/api/version", Purpose::Read),
            (Method::POST, "/api/search/lookup", Purpose::Query),
            (Method::GET, "/api/uid/tsmeta?m=a", Purpose::Query),
            (Method::GET, "/api/tree/test?treeid=1", Purpose::Query),
            (Method::GET, "/api/query/last", Purpose::Query),
            (Method::GET, "/api/dropcaches", Purpose::Edit),
            (Method::GET, "/api/v1/DropCaches", Purpose::Edit),
            (Method::GET, "/dropcaches", Purpose::Edit),
            (Method::GET, "/", Purpose::Read),
            // The verb that a parameter names counts, and of several the last one.
            (
                Method::POST,
                "/api/annotation?method_override=get",
                Purpose::Read,
            ),
            (
                Method::POST,
                "/api/uid/tsmeta?m=a&method_override=get",
                Purpose::Query,
            ),
            (
                Method::GET,
                "/api/tree?method_override=delete&method_override=get",
                Purpose::Read,
            ),
            (
                Method::POST,
                "/api/tree?method_override=get&method_override=delete",
                Purpose::Edit,
            ),
            (
                Method::POST,
                "/api/annotation?method_override=walk",
                Purpose::Edit,
            ),
            // Endpoints that do not ask for it do not go by it.
            (Method::POST, "/api/put?method_override=get", Purpose::Put),
            (
                Method::GET,
                "/api/uid/assign?method_override=get",
                Purpose::Edit,
            ),
            (
                Method::DELETE,
                "/api/query?m=sum:x&method_override=get",
                Purpose::Delete,
            ),
            (
                Method::POST,
                "/api/query/exp?method_override=delete",
                Purpose::Delete,
            ),
            // These change nothing, whatever their verb is.
            (Method::POST, "/api/tree/test?treeid=1", Purpose::Query),
            (Method::POST, "/api/tree/collisions", Purpose::Read),
            (Method::POST, "/api/annotations", Purpose::Read),
            (Method::HEAD, "/api/annotation", Purpose::Read),
        ] {
            assert_eq!(purpose(&method, target), expected, "{method} {target}");
        }
    }
}
