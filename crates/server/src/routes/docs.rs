//! The table of limits in `docs/http-api.md`: generated from the routes, and held against the file.
//!
//! `UPDATE_DOCS=1` rewrites the part between the markers instead of comparing it.

use std::fmt::Write as _;
use std::path::Path;

use axum::http::Method;
use icecore_access::Role;

use super::ROUTES;
use crate::middleware::cross_site::Effect;
use crate::middleware::limits::{IMPORTS_MAX, ROUTE_REQUESTS_MAX, requests_max};
use crate::middleware::route::{Route, TimeLimit};

const BEGIN: &str =
    "<!-- limits: generated, by UPDATE_DOCS=1 cargo test -p icecore-server routes::docs -->\n";
const END: &str = "<!-- limits: end -->\n";

#[test]
fn the_documented_limits_are_the_real_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http-api.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once(BEGIN).expect("begin marker");
    let (_, after) = rest.split_once(END).expect("end marker");
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            written == expected,
            "the limits in docs/http-api.md are not those of the routes: run this test with UPDATE_DOCS=1"
        );
    }
}

fn table() -> String {
    let mut text = String::from(
        "| route | role | effect | body | under way | time |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for route in &ROUTES {
        let role = match route.role {
            _ if route.path.starts_with("/opentsdb") => "by request",
            Role::Open => "–",
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        };
        let (path, effect, body) = (route.path, effect(route), body(route));
        let (under_way, time) = (under_way(route), time(route));
        let _ = writeln!(
            text,
            "| `{path}` | {role} | {effect} | {body} | {under_way} | {time} |"
        );
    }
    text
}

/// The strongest effect of its methods.
fn effect(route: &Route) -> &'static str {
    if route.path.starts_with("/opentsdb") {
        return "by request";
    }
    let methods = route
        .methods
        .iter()
        .filter_map(|method| method.parse().ok());
    let effects: Vec<Effect> = methods
        .map(|method: Method| route.effect(&method))
        .collect();
    if effects.contains(&Effect::Change) {
        "changes"
    } else if effects.contains(&Effect::Ingest) {
        "stores"
    } else if effects.contains(&Effect::Probe) {
        "reads, for any host"
    } else {
        "reads"
    }
}

fn body(route: &Route) -> &'static str {
    match (route.role, &route.time) {
        _ if route.path.starts_with("/opentsdb") => "`server.write_body_bytes_max`",
        _ if route.path.starts_with("/api/v1/import/opentsdb") => "`server.write_body_bytes_max`",
        _ if route.path.starts_with("/events/publish") || route.is_of_configuration() => "16 MiB",
        (Role::Write, TimeLimit::None) => "any, taken as it arrives",
        (Role::Write, _) => "`server.write_body_bytes_max`",
        _ => "1 MiB",
    }
}

fn under_way(route: &Route) -> String {
    match (route.role, &route.time) {
        _ if route.is_health_check() => "–".into(),
        _ if route.path.starts_with("/api/v1/import/opentsdb") => IMPORTS_MAX.to_string(),
        (Role::Write, TimeLimit::None) => IMPORTS_MAX.to_string(),
        (Role::Write, _) => "`server.concurrent_writes_max`".into(),
        (_, TimeLimit::Query) => {
            format!("{ROUTE_REQUESTS_MAX}, of which `query.max_concurrency` run")
        }
        _ => requests_max(route).to_string(),
    }
}

fn time(route: &Route) -> &'static str {
    match route.time {
        TimeLimit::Request => "`server.request_timeout`",
        TimeLimit::Query => "`server.request_timeout` and `query.timeout`",
        TimeLimit::None => "until it is done",
    }
}
