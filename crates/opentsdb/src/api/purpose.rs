//! What a request is for, before anything but its head is read: access depends on it.

use http::Method;

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
pub fn purpose(method: &Method, target: &str) -> Purpose {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.to_ascii_lowercase();
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    parts.next_if(|part| *part == "api");
    parts.next_if(|part| is_version(part));
    let changes = changes(method, query);
    match parts.next() {
        Some("put" | "rollup" | "histogram") => Purpose::Write,
        Some("query") if deletes(method, query) => Purpose::Delete,
        Some("query" | "q") => Purpose::Query,
        Some("uid")
            if parts
                .next()
                .is_some_and(|part| part == "assign" || part == "rename") =>
        {
            Purpose::Write
        }
        Some("uid" | "annotation" | "annotations" | "tree") if changes => Purpose::Write,
        _ => Purpose::Read,
    }
}

fn is_version(part: &str) -> bool {
    let number = part.strip_prefix('v').unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
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
                "//api/query?method_%6fverride=delete",
                Purpose::Delete,
            ),
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
            (Method::GET, "/api/tree/branch?treeid=1", Purpose::Read),
            (Method::GET, "/api/suggest?type=metrics", Purpose::Read),
            (Method::POST, "/api/search/lookup", Purpose::Read),
            (Method::GET, "/", Purpose::Read),
        ] {
            assert_eq!(purpose(&method, target), expected, "{method} {target}");
        }
    }
}
