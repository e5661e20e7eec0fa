//! `/api/v1/openapi.yaml`: every route as an OpenAPI document.
//!
//! ```text
//! routes::ROUTES ─► path, methods, role, purpose ─┐
//! parameters ─────────────────────────────────────┴─► document ─► YAML
//! ```
//!
//! Holds always: a route that exists is described, and no other. Error answers of all routes of the
//! API have one form.

mod parameters;
mod yaml;

use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use icecore_access::Role;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::params::Params;
use crate::middleware::route::Route;
use parameters::{Parameter, of_path};
use yaml::Yaml;

/// Versions of OpenAPI. Streams of events have a schema in the second alone.
const VERSIONS: [&str; 2] = ["3.1.0", "3.2.0"];

/// The stream of events.
const LIVE: &str = "/api/v1/notifications/live";

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const PROBLEM: &str = "application/problem+json";

/// The document, made once for each version.
pub(crate) async fn document(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    static DOCUMENTS: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
    app.database()?;
    let newer = matches!(params.first("openapi_version"), Some("3.2" | "3.2.0"));
    let place = usize::from(newer);
    let text = DOCUMENTS[place].get_or_init(|| document_of(app.routes(), VERSIONS[place]));
    let headers = [
        (header::CONTENT_TYPE, "application/yaml; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache, no-store, must-revalidate"),
    ];
    Ok((headers, text.as_str()).into_response())
}

fn document_of(routes: &[Route], version: &str) -> String {
    let paths = routes.iter().map(|route| {
        let operations = methods_of(route).map(|method| {
            (
                method.to_ascii_lowercase(),
                operation(route, method, version),
            )
        });
        (path_of(route), Yaml::map(operations))
    });
    let info = Yaml::map([
        ("title", Yaml::text("Icecore")),
        (
            "description",
            Yaml::text(
                "A time series database on object storage. Routes of Prometheus 3.15 are served \
                 below /prometheus as well.",
            ),
        ),
        ("version", Yaml::text(env!("CARGO_PKG_VERSION"))),
    ]);
    let server = Yaml::map([("url", Yaml::text("/"))]);
    Yaml::map([
        ("openapi", Yaml::text(version)),
        ("info", info),
        ("servers", Yaml::List(vec![server])),
        ("paths", Yaml::map(paths)),
        ("components", components()),
    ])
    .into_file()
}

/// The path of a route, with variables as OpenAPI has them.
fn path_of(route: &Route) -> String {
    route.path.replace("{*", "{")
}

/// Methods of a route; for those that decide for themselves, the two that most requests have.
fn methods_of(route: &Route) -> impl Iterator<Item = &'static str> {
    let methods: &'static [&'static str] = match route.methods {
        ["ANY"] => &["GET", "POST"],
        methods => methods,
    };
    methods.iter().copied()
}

fn operation(route: &Route, method: &str, version: &str) -> Yaml {
    let role = match route.role {
        Role::Open => "none",
        Role::Read => "read",
        Role::Write => "write",
        Role::Admin => "admin",
    };
    let mut operation = vec![
        ("tags", Yaml::texts([tag_of(route)])),
        ("summary", Yaml::text(route.what)),
        ("operationId", Yaml::text(name_of(route, method))),
        ("x-icecore-role", Yaml::text(role)),
    ];
    let in_path = path_variables(route).map(|name| {
        Yaml::map([
            ("name", Yaml::text(name)),
            ("in", Yaml::text("path")),
            ("required", Yaml::Bool(true)),
            ("schema", parameters::Kind::Text.schema()),
        ])
    });
    let mut listed: Vec<Yaml> = in_path.collect();
    let own: Vec<&Parameter> = of_path(route.path).collect();
    let takes_form = method == "POST" && route.methods.contains(&"GET") && !own.is_empty();
    if !takes_form {
        listed.extend(own.iter().map(|parameter| in_url(parameter)));
    }
    if !listed.is_empty() {
        operation.push(("parameters", Yaml::List(listed)));
    }
    if takes_form {
        operation.push(("requestBody", form(&own)));
    }
    operation.push(("responses", responses(route, version)));
    if route.role != Role::Open {
        // Without access control, none is needed.
        let schemes = ["basic", "bearer"].map(|name| Yaml::map([(name, Yaml::List(Vec::new()))]));
        let mut schemes = schemes.to_vec();
        schemes.push(Yaml::Map(Vec::new()));
        operation.push(("security", Yaml::List(schemes)));
    }
    Yaml::map(operation)
}

/// A name that no other operation has.
fn name_of(route: &Route, method: &str) -> String {
    let mut words = vec![method.to_ascii_lowercase()];
    let parts = route
        .path
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
    if route.path.ends_with('/') {
        words.push("index".into());
    }
    words.join("-")
}

fn path_variables(route: &Route) -> impl Iterator<Item = &'static str> {
    let parts = route.path.split('{').skip(1);
    parts.filter_map(|part| Some(part.split_once('}')?.0.trim_start_matches('*')))
}

/// The part of the API that a route belongs to.
fn tag_of(route: &Route) -> &'static str {
    match route.path {
        _ if route.is_of_events() => "events",
        path if path.contains("opentsdb") => "opentsdb",
        path if path.contains("/admin/") => "admin",
        path if path.starts_with("/api/v1/status/") => "status",
        path if path.starts_with("/api/v1/search/") => "search",
        path if path.starts_with("/-/") => "process",
        path if path.starts_with("/ui") => "interface",
        _ if route.is_prefixed => "prometheus",
        _ if route.role == Role::Write => "write",
        _ => "other",
    }
}

fn in_url(parameter: &Parameter) -> Yaml {
    Yaml::map([
        ("name", Yaml::text(parameter.name)),
        ("in", Yaml::text("query")),
        ("description", Yaml::text(parameter.what)),
        ("required", Yaml::Bool(parameter.is_required)),
        ("schema", parameter.kind.schema()),
    ])
}

fn form(parameters: &[&Parameter]) -> Yaml {
    let fields = parameters.iter().map(|it| (it.name, it.kind.schema()));
    let needed = parameters.iter().filter(|it| it.is_required);
    let needed: Vec<&str> = needed.map(|it| it.name).collect();
    let mut schema = vec![
        ("type", Yaml::text("object")),
        ("properties", Yaml::map(fields)),
    ];
    if !needed.is_empty() {
        schema.push(("required", Yaml::texts(needed)));
    }
    let content = Yaml::map([(FORM, Yaml::map([("schema", Yaml::map(schema))]))]);
    Yaml::map([("content", content)])
}

/// The form of an answer.
#[derive(Clone, Copy)]
enum Answer {
    /// The common form of the API: status, data, warnings.
    Envelope,
    /// A JSON object of another shape.
    Json,
    Text(&'static str),
    Events,
    /// Something that OpenAPI does not describe.
    Bytes,
    Empty,
    Redirect,
}

fn answer_of(route: &Route) -> Answer {
    match route.path {
        LIVE => Answer::Events,
        "/api/v1/openapi.yaml" => Answer::Text("application/yaml"),
        "/api/v1/export" | "/api/v1/export/opentsdb" => Answer::Bytes,
        "/api/v1/read" | "/federate" => Answer::Bytes,
        "/api/v1/write" | "/api/v1/admin/tsdb/clean_tombstones" => Answer::Empty,
        "/api/v1/admin/tsdb/delete_series" | "/api/v1/admin/tsdb/snapshot/{name}" => Answer::Empty,
        "/" | "/ui/" => Answer::Text("text/html"),
        "/ui" | "/graph" | "/query" => Answer::Redirect,
        "/ui/{*path}" => Answer::Bytes,
        "/metrics" => Answer::Text("text/plain"),
        path if path.starts_with("/-/") => Answer::Text("text/plain"),
        path if path.starts_with("/api/v1/search/") => Answer::Text("application/x-ndjson"),
        path if path.starts_with("/opentsdb") => Answer::Bytes,
        path if path.starts_with("/v1/") || path.contains("/otlp/") => Answer::Bytes,
        path if path.starts_with("/opentelemetry") => Answer::Bytes,
        _ if route.is_of_events() => Answer::Json,
        _ => Answer::Envelope,
    }
}

fn responses(route: &Route, version: &str) -> Yaml {
    let of = |media: &str, schema: Yaml| Yaml::map([(media, Yaml::map([("schema", schema)]))]);
    let text = || parameters::Kind::Text.schema();
    let object = || Yaml::map([("type", Yaml::text("object"))]);
    let (status, content) = match answer_of(route) {
        Answer::Envelope => {
            let success = Yaml::reference("#/components/schemas/Success");
            ("200", Some(of(JSON, success)))
        }
        Answer::Json => ("2XX", Some(of(JSON, object()))),
        // A document is read as what it says.
        Answer::Text(media @ "application/yaml") => ("200", Some(of(media, object()))),
        Answer::Text(media) => ("200", Some(of(media, text()))),
        Answer::Events if version == VERSIONS[1] => {
            let event = Yaml::map([
                ("type", Yaml::text("object")),
                ("properties", Yaml::map([("data", text())])),
            ]);
            let stream = Yaml::map([("itemSchema", event)]);
            ("200", Some(Yaml::map([("text/event-stream", stream)])))
        }
        Answer::Events => ("200", Some(of("text/event-stream", text()))),
        Answer::Bytes => ("2XX", Some(of("*/*", Yaml::Map(Vec::new())))),
        Answer::Empty => ("2XX", None),
        Answer::Redirect => ("302", None),
    };
    let mut answer = vec![("description", Yaml::text("success"))];
    answer.extend(content.map(|content| ("content", content)));
    let error = match answer_of(route) {
        _ if route.is_of_events() => of(PROBLEM, Yaml::reference("#/components/schemas/Problem")),
        Answer::Envelope | Answer::Text("application/x-ndjson" | "application/yaml") => {
            of(JSON, Yaml::reference("#/components/schemas/Error"))
        }
        // In the form of their protocol.
        _ => of("*/*", Yaml::Map(Vec::new())),
    };
    let error = Yaml::map([("description", Yaml::text("error")), ("content", error)]);
    Yaml::map([(status, Yaml::map(answer)), ("default", error)])
}

fn components() -> Yaml {
    let text = || parameters::Kind::Text.schema();
    let texts = || parameters::Kind::Texts.schema();
    let object = |fields: Vec<(&'static str, Yaml)>, needed: &[&str]| {
        Yaml::map([
            ("type", Yaml::text("object")),
            ("properties", Yaml::map(fields)),
            ("required", Yaml::texts(needed.iter().copied())),
        ])
    };
    let word = |word: &str| {
        Yaml::map([
            ("type", Yaml::text("string")),
            ("enum", Yaml::texts([word])),
        ])
    };
    let success = object(
        vec![
            ("status", word("success")),
            ("data", Yaml::Map(Vec::new())),
            ("warnings", texts()),
            ("infos", texts()),
        ],
        &["status"],
    );
    let error = object(
        vec![
            ("status", word("error")),
            ("errorType", text()),
            ("error", text()),
            ("data", Yaml::Map(Vec::new())),
        ],
        &["status", "errorType", "error"],
    );
    let problem = object(
        vec![
            ("title", text()),
            ("detail", text()),
            ("code", text()),
            ("hint", text()),
            ("timestamp", text()),
            ("path", text()),
        ],
        &["title", "detail", "code"],
    );
    let schemes = ["basic", "bearer"].map(|scheme| {
        let fields = [("type", Yaml::text("http")), ("scheme", Yaml::text(scheme))];
        (scheme, Yaml::map(fields))
    });
    Yaml::map([
        (
            "schemas",
            Yaml::map([("Success", success), ("Error", error), ("Problem", problem)]),
        ),
        ("securitySchemes", Yaml::map(schemes)),
    ])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use icecore_settings::yaml::{Node, Value, parse};

    use super::*;
    use crate::routes::ROUTES;

    fn field<'n>(node: &'n Node, key: &str) -> &'n Node {
        let Value::Map(entries) = &node.value else {
            panic!("no map: {node:?}");
        };
        let found = entries.iter().find(|entry| entry.key == key);
        &found.unwrap_or_else(|| panic!("no {key}: {node:?}")).node
    }

    fn keys(node: &Node) -> BTreeSet<String> {
        let Value::Map(entries) = &node.value else {
            panic!("no map: {node:?}");
        };
        entries.iter().map(|entry| entry.key.clone()).collect()
    }

    #[test]
    fn every_route_is_described_with_its_methods() {
        for version in VERSIONS {
            let root = parse(&document_of(&ROUTES, version)).unwrap();
            let paths = field(&root, "paths");
            let expected: BTreeSet<String> = ROUTES.iter().map(path_of).collect();
            assert_eq!(keys(paths), expected);
            for route in &ROUTES {
                let described = keys(field(paths, &path_of(route)));
                let methods = methods_of(route).map(str::to_ascii_lowercase);
                let methods: BTreeSet<String> = methods.collect();
                assert_eq!(described, methods, "{}", route.path);
            }
        }
    }

    #[test]
    fn parameters_belong_to_routes() {
        let mut seen = BTreeSet::new();
        for (path, _) in parameters::PARAMETERS {
            assert!(seen.insert(path), "{path} twice");
            let route = ROUTES.iter().find(|route| route.path == *path);
            assert!(route.is_some(), "{path}");
            let names: Vec<_> = of_path(path).map(|it| it.name).collect();
            let once: BTreeSet<_> = names.iter().collect();
            assert_eq!(once.len(), names.len(), "{path}: {names:?}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let mut seen = BTreeSet::new();
        let root = parse(&document_of(&ROUTES, VERSIONS[0])).unwrap();
        let paths = field(&root, "paths");
        for route in &ROUTES {
            for method in methods_of(route) {
                let operation = field(field(paths, &path_of(route)), &method.to_ascii_lowercase());
                let Value::Scalar { text, .. } = &field(operation, "operationId").value else {
                    panic!("no text: {operation:?}");
                };
                assert!(seen.insert(text.clone()), "{text} twice");
            }
        }
    }
}
