//! What is known of a route before its handler runs.

use icecore_access::Role;

/// One path and what it is for. `docs/http-api.md` describes each.
#[derive(Clone, Copy)]
pub struct Route {
    pub path: &'static str,
    pub methods: &'static [&'static str],
    pub what: &'static str,
    /// The role that is needed once credentials are configured.
    pub role: Role,
    pub(crate) time: TimeLimit,
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
