//! What is known of a route before its handler runs.

use axum::http::Method;
use icecore_access::Role;

use super::cross_site::Effect;

/// One path and what it is for. `docs/http-api.md` describes each.
#[derive(Clone, Copy)]
pub struct Route {
    pub path: &'static str,
    pub methods: &'static [&'static str],
    pub what: &'static str,
    /// The role that is needed once credentials are configured.
    pub role: Role,
    /// Set for routes of Prometheus' API that are served below `/prometheus`, too.
    pub is_prefixed: bool,
    pub(crate) time: TimeLimit,
}

/// The prefix at which Mimir serves the API of Prometheus. Clients that know Mimir begin there.
pub(crate) const PROMETHEUS_PREFIX: &str = "/prometheus";

/// The path without Mimir's prefix.
pub(crate) fn without_prefix(path: &str) -> &str {
    match path.strip_prefix(PROMETHEUS_PREFIX) {
        Some(rest) if rest.starts_with('/') => rest,
        _ => path,
    }
}

/// The path of the metrics of this process.
const METRICS: &str = "/metrics";

/// What paths of events begin with.
const EVENT_PATHS: &[&str] = &[
    "/events/",
    "/api/admin/",
    "/api/catalog/",
    "/api/events/",
    "/api/histograms/",
    "/api/objql/",
    "/api/query/",
    "/api/search/",
];

impl Route {
    /// The paths at which it is served.
    pub fn paths(&self) -> impl Iterator<Item = String> {
        let prefixed = self
            .is_prefixed
            .then(|| format!("{PROMETHEUS_PREFIX}{}", self.path));
        std::iter::once(self.path.to_owned()).chain(prefixed)
    }

    /// Whether it is about events: its errors are problem documents.
    pub(crate) fn is_of_events(&self) -> bool {
        let begins = |prefix: &&str| self.path.starts_with(*prefix);
        EVENT_PATHS.iter().any(begins)
    }

    /// Whether it is what others ask to know if this process lives.
    pub(crate) fn is_health_check(&self) -> bool {
        self.role == Role::Open && self.path.starts_with("/-/")
    }

    /// The effect of a request on what is stored: it follows from the role that it needs, and for
    /// administrators from its method. A request of OpenTSDB says for itself what it does.
    pub(crate) fn effect(&self, method: &Method) -> Effect {
        let only_reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
        match self.role {
            _ if self.is_health_check() || self.path == METRICS => Effect::Probe,
            Role::Open | Role::Read => Effect::Read,
            Role::Write => Effect::Ingest,
            Role::Admin if only_reads => Effect::Read,
            Role::Admin => Effect::Change,
        }
    }

    /// Whether it takes documents of the registry of events.
    pub(crate) fn is_of_configuration(&self) -> bool {
        self.path.starts_with("/api/admin/config") && self.methods == ["POST"]
    }
}

/// How long a request may take until its answer begins.
#[derive(Clone, Copy)]
pub(crate) enum TimeLimit {
    /// `server.request_timeout`.
    Request,
    /// The same for the request itself, and `query.timeout` for the query.
    Query,
    None,
}
