//! Parameters of the API, PromQL and deletion: nothing of them writes anything.

use super::{Case, Request, Sent, Stored, post};
use crate::client::encoded;

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

const DELETE: &str = "/api/v1/admin/tsdb/delete_series";

/// What is there before, and must be there afterwards.
pub(super) const KEPT: &str = "kept";

fn form(path: &str, params: &[(&str, &str)]) -> Request {
    post(path, &[FORM], encoded(params).into_bytes())
}

fn get(path: &str) -> Request {
    Request {
        method: "GET",
        ..post(path, &[], Vec::new())
    }
}

fn query(text: &str) -> Request {
    form("/api/v1/query", &[("query", text)])
}

pub(super) fn cases() -> Vec<Case> {
    let case = |protocol, what, status, says, request| Case {
        protocol,
        what,
        status,
        says,
        stored: Stored::Unchanged,
        sent: Sent::Http(request),
    };
    let promql = |what, status, says, request: fn(&str) -> Request| {
        case("PromQL", what, status, says, request)
    };
    let params = |what, status, says, request: fn(&str) -> Request| {
        case("parameters", what, status, says, request)
    };
    let deletion = |what, status, says, request: fn(&str) -> Request| {
        case("deletion", what, status, says, request)
    };
    vec![
        promql("a query that breaks off", "400", "parse error", |_| {
            query("sum(up")
        }),
        promql("a wrong type", "400", "expected type", |_| {
            query("rate(up)")
        }),
        promql(
            "1000 parentheses in one another",
            "400",
            "nested more than 128 levels deep",
            |_| query(&format!("{}1{}", "(".repeat(1000), ")".repeat(1000))),
        ),
        promql(
            "a regular expression that would be huge",
            "400",
            "regular expression takes more than",
            |_| query("up{a=~\"((a{1000}){1000}){1000}\"}"),
        ),
        promql(
            "regular expressions that are large together",
            "400",
            "regular expressions of the request may take more than",
            |_| {
                let matcher = |number: usize| format!("a=~`\\pL{{20}}{number}`");
                let matchers: Vec<String> = (0..100).map(matcher).collect();
                query(&format!("up{{{}}}", matchers.join(",")))
            },
        ),
        promql(
            "more than 11000 steps",
            "400",
            "exceeded maximum resolution of 11,000 points",
            |_| {
                let range = [
                    ("query", "up"),
                    ("start", "0"),
                    ("end", "1e9"),
                    ("step", "1"),
                ];
                form("/api/v1/query_range", &range)
            },
        ),
        params("`time=yesterday`", "400", "to a valid timestamp", |_| {
            form("/api/v1/query", &[("query", "up"), ("time", "yesterday")])
        }),
        params("`time=1e30`", "200", "[0,\"0\"]", |_| {
            form("/api/v1/query", &[("query", "time()"), ("time", "1e30")])
        }),
        params("`timeout=0`", "422", "context deadline exceeded", |_| {
            form("/api/v1/query", &[("query", "up"), ("timeout", "0")])
        }),
        params("`//api/v1/query`", "307", "/api/v1/query?query=up", |_| {
            get("//api/v1/query?query=up")
        }),
        params("`/api/v1/query/`", "301", "/api/v1/query?query=up", |_| {
            get("/api/v1/query/?query=up")
        }),
        params(
            "`end` before `start`",
            "400",
            "end timestamp must not be before start time",
            |_| {
                form(
                    "/api/v1/series",
                    &[("match[]", "up"), ("start", "2"), ("end", "1")],
                )
            },
        ),
        params(
            "`match[]={}`",
            "400",
            "match[] must contain at least one non-empty matcher",
            |_| form("/api/v1/series", &[("match[]", "{}")]),
        ),
        params("`limit=-1`", "400", "limit must be non-negative", |_| {
            form("/api/v1/labels", &[("limit", "-1")])
        }),
        params(
            "a body that is no form",
            "400",
            "parameters in a body must be of content type",
            |_| {
                post(
                    "/api/v1/query",
                    &[("Content-Type", "application/json")],
                    b"{}".to_vec(),
                )
            },
        ),
        params(
            "a form of 2 MiB",
            "413",
            "the body is longer than 1048576 bytes",
            |_| query(&"x".repeat(2 << 20)),
        ),
        deletion(
            "no selector",
            "400",
            "no match[] parameter provided",
            |_| form(DELETE, &[]),
        ),
        deletion("a selector that breaks off", "400", "parse error", |_| {
            form(DELETE, &[("match[]", "{a=")])
        }),
        deletion(
            "a selector of everything",
            "400",
            "match[] must contain at least one non-empty matcher",
            |_| form(DELETE, &[("match[]", "{a=~\".*\"}")]),
        ),
        deletion(
            "one bad selector beside a good one",
            "400",
            "parse error",
            |_| form(DELETE, &[("match[]", KEPT), ("match[]", "{")]),
        ),
        deletion(
            "`end` before `start`",
            "400",
            "end timestamp must not be before start time",
            |_| form(DELETE, &[("match[]", KEPT), ("start", "2"), ("end", "1")]),
        ),
        deletion("`GET`", "405", "is not allowed here", |_| Request {
            method: "GET",
            ..post(
                &format!("{DELETE}?{}", encoded(&[("match[]", KEPT)])),
                &[],
                Vec::new(),
            )
        }),
    ]
}
