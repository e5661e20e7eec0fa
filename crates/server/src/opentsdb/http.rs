//! OpenTSDB's HTTP API.
//!
//! ```text
//! access by purpose ─► body into memory, decompressed ─┬► read: slot, query pool ─► answer
//!                                                      └► write: slot, storage's pool ─► answer
//! ```
//!
//! Holds always:
//! - What a body takes in memory is reserved before it is taken.
//! - Errors have OpenTSDB's form, also those of this server. Those of requests with points are
//!   counted, because their clients may not look at them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use icecore_access::{PeerCertificate, Role};
use icecore_opentsdb::api::{self, Purpose};
use icecore_opentsdb::{Allowance, Error, RefusalReason, Tsd};

use crate::app::App;
use crate::middleware::body::{collect, read_to_the_end};
use crate::middleware::cross_site::{Effect, ForeignPage};
use crate::middleware::decompress::{Encoding, decompress_reserving};
use crate::middleware::error::ApiError;
use crate::middleware::limits::WriteMemory;
use crate::queries::CancelOnDrop;

/// Where the API lies on the HTTP port.
pub(crate) const PREFIX: &str = "/opentsdb";

/// Every path below the prefix.
pub(crate) const PATHS: &str = "/opentsdb/{*path}";

/// Who may send a request with this head.
pub(crate) fn role_of(method: &Method, uri: &Uri) -> Role {
    match api::purpose(method, target_of(uri)) {
        Purpose::Read | Purpose::Query => Role::Read,
        Purpose::Put | Purpose::Edit => Role::Write,
        Purpose::Delete => Role::Admin,
    }
}

/// The effect of a request with this head on what is stored. The body of a query may still ask for
/// a deletion.
pub(crate) fn effect_of(method: &Method, uri: &Uri) -> Effect {
    match api::purpose(method, target_of(uri)) {
        Purpose::Read | Purpose::Query => Effect::Read,
        // Browsers say which page a POST is from, and not always with a GET.
        Purpose::Edit if [Method::GET, Method::HEAD].contains(method) => Effect::Change,
        Purpose::Put | Purpose::Edit => Effect::Ingest,
        Purpose::Delete => Effect::Change,
    }
}

/// The path behind the prefix, and the query string.
fn target_of(uri: &Uri) -> &str {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    target.strip_prefix(PREFIX).unwrap_or(target)
}

pub(crate) async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let (method, uri) = (head.method.clone(), head.uri.clone());
    let remote = remote_of(&head);
    let mut memory = app.limits.write_memory();
    let body_max = app.config().server.write_body_bytes_max;
    let collected = collect(
        &mut body,
        body_max,
        "server.write_body_bytes_max",
        |bytes| memory.grow(bytes),
    );
    let answered = match collected.await {
        Ok(collected) => answer(&app, head, collected, memory).await,
        Err(error) => {
            read_to_the_end(&mut body, &head.headers).await;
            Err(error)
        }
    };
    answered.unwrap_or_else(|error| {
        let target = target_of(&uri);
        if api::purpose(&method, target) == Purpose::Put {
            note_refusal(&app, &error, &format!("{method} {target} from {remote}"));
        }
        let error = Error::new(error.status(), error.to_string());
        into_http(api::error(&error))
    })
}

/// The address of a client, for people.
fn remote_of(head: &Parts) -> String {
    let peer = head.extensions.get::<SocketAddr>();
    peer.map(|peer| peer.ip().to_string()).unwrap_or_default()
}

/// Counts a request whose points were not read.
fn note_refusal(app: &App, error: &ApiError, request: &str) {
    let reason = match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => RefusalReason::BodyTooLong,
        StatusCode::SERVICE_UNAVAILABLE => RefusalReason::StoreUnavailable,
        status if status.is_client_error() => RefusalReason::MalformedRequest,
        _ => return,
    };
    if let Ok(tsd) = app.opentsdb() {
        tsd.refuse(reason, &error.to_string(), request);
    }
}

async fn answer(
    app: &Arc<App>,
    head: Parts,
    body: Bytes,
    memory: WriteMemory,
) -> Result<Response, ApiError> {
    let tsd = Arc::clone(app.opentsdb()?);
    let sent_bytes = body.len();
    let (body, _memory) = match Encoding::from_header(&head.headers)? {
        Encoding::Identity => (body, memory),
        // Some clients say so of every request, also of those that have no body.
        _ if body.is_empty() => (body, memory),
        encoding => {
            let max = app.config().server.write_decompressed_bytes_max;
            decompressed(encoding, body, max, memory).await?
        }
    };
    let target = target_of(&head.uri);
    let purpose = api::purpose(&head.method, target);
    let may_delete = may_delete(app, &tsd, purpose, &head).await;
    let remote = remote_of(&head);
    let mut request = api::Request::new(head.method, target, head.headers, body);
    request.sent_bytes = sent_bytes;
    request.may_delete = may_delete;
    request.remote = remote;
    match purpose {
        Purpose::Query | Purpose::Delete => query(app, tsd, request).await,
        Purpose::Put | Purpose::Edit => {
            let _slot = app.limits.write_slot()?;
            request.allowance = Allowance::with_memory(app.queries.memory());
            Ok(into_http(api::handle(&tsd, &request).await))
        }
        Purpose::Read => {
            let slot = app.limits.read_slot().await?;
            request.allowance = Allowance::with_memory(app.queries.memory());
            let compute = async move {
                let _slot = slot;
                api::handle(&tsd, &request).await
            };
            Ok(into_http(app.queries.on_pool(compute).await?))
        }
    }
}

/// Decompresses a body on a thread that may be busy. What the body takes stays reserved for as long
/// as that runs, also when the client has gone meanwhile.
pub(super) async fn decompressed(
    encoding: Encoding,
    body: Bytes,
    max: usize,
    mut memory: WriteMemory,
) -> Result<(Bytes, WriteMemory), ApiError> {
    let work = move || {
        let mut decompressed = Vec::new();
        decompress_reserving(encoding, &body, max, &mut decompressed, |bytes| {
            memory.grow(bytes)
        })?;
        Ok((decompressed.into(), memory))
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?
}

/// Returns `true` if a request may delete what it finds: the body of a query can ask for it. A page
/// of another site may not, whatever credential its browser adds.
async fn may_delete(app: &App, tsd: &Tsd, purpose: Purpose, head: &Parts) -> bool {
    if purpose == Purpose::Delete {
        return true;
    }
    if purpose != Purpose::Query || head.method != Method::POST || !tsd.allows_deletion() {
        return false;
    }
    if head.extensions.get::<ForeignPage>().is_some() {
        return false;
    }
    let certificate = head.extensions.get::<Arc<PeerCertificate>>();
    let certificate = certificate.map(Arc::as_ref);
    let client = head.extensions.get::<SocketAddr>().map(SocketAddr::ip);
    let needed = Some(Role::Admin);
    let checked = app.access.check(&head.headers, certificate, client, needed);
    checked.await.is_ok()
}

/// Computes an answer where queries compute.
async fn query(
    app: &Arc<App>,
    tsd: Arc<Tsd>,
    mut request: api::Request,
) -> Result<Response, ApiError> {
    let longest = app.queries.engine().options().timeout;
    let asked = tsd.query_timeout();
    let timeout = asked.map_or(longest, |asked| asked.min(longest));
    let slot = app.queries.slot(timeout).await?;
    // What computes sees it when this is left: with an answer, without one, or by the client.
    let waiting = CancelOnDrop::default();
    request.allowance = Allowance::new(app.queries.memory(), waiting.flag());
    let compute = async move {
        let _slot = slot;
        api::handle(&tsd, &request).await
    };
    let computed = tokio::time::timeout(timeout, app.queries.on_pool(compute));
    match computed.await {
        Ok(answered) => Ok(into_http(answered?)),
        Err(_) => Ok(into_http(api::error(&timed_out(timeout, longest)))),
    }
}

fn timed_out(timeout: Duration, longest: Duration) -> Error {
    let setting = if timeout < longest {
        "tsd.query.timeout"
    } else {
        "query.timeout"
    };
    let limit_ms = timeout.as_millis();
    let message = format!(
        "Sorry, your query timed out. Time limit: {limit_ms} ms ({setting}). Please try filtering \
         using more tags or decrease your time range."
    );
    Error::new(StatusCode::REQUEST_TIMEOUT, message)
}

fn into_http(answer: api::Response) -> Response {
    let mut response = answer.body.into_response();
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    if answer.content_type.is_empty() {
        headers.remove(header::CONTENT_TYPE);
    } else {
        let content_type = HeaderValue::from_static(answer.content_type);
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}
