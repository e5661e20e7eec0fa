//! A request about events: its body in memory, and its answer or a problem document.
//!
//! ```text
//! content type ─► body within limits ─► decompressed ─► handler ─► answer, or problem
//!     415             413, 503             400, 413
//! ```
//!
//! Holds always:
//! - What a body takes in memory is reserved before it is taken, compressed or not.
//! - Whatever goes wrong is answered as `application/problem+json`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;

use crate::app::App;
use crate::middleware::body::{collect, read_to_the_end};
use crate::middleware::decompress::{Encoding, decompress_reserving};
use crate::middleware::error::ApiError;
use crate::middleware::limits::WriteMemory;
use crate::middleware::params::Params;

/// Bytes of a body, as sent and decompressed. The setting is the specification's.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;

/// What a body may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// There is none that matters.
    None,
    Json,
    /// Documents: YAML, of which JSON is a part.
    Yaml,
    /// A tar, or a form with one.
    Archive,
}

/// A request whose body has arrived.
pub(super) struct Call {
    pub(super) head: Parts,
    pub(super) params: Params,
    pub(super) body: Bytes,
    /// Of the body, for as long as it is used.
    _memory: WriteMemory,
}

/// Reads a request, lets it be handled, and answers. `handle` gets a copy of the app because its
/// future may outlive a client.
pub(super) async fn answered<F, Answer>(
    app: Arc<App>,
    request: Request,
    content: Content,
    handle: F,
) -> Response
where
    F: FnOnce(Arc<App>, Call) -> Answer,
    Answer: Future<Output = Result<Response, ApiError>>,
{
    let (head, mut body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let headers = head.headers.clone();
    let answered = match read(&app, head, &mut body, content).await {
        Ok(call) => handle(Arc::clone(&app), call).await,
        Err(error) => {
            read_to_the_end(&mut body, &headers).await;
            Err(error)
        }
    };
    answered.unwrap_or_else(|error| error.into_problem(&path, app.clock().now_ms()))
}

async fn read(app: &App, head: Parts, body: &mut Body, content: Content) -> Result<Call, ApiError> {
    app.database()?;
    check_content_type(&head.headers, content)?;
    let encoding = Encoding::from_header(&head.headers)?;
    let mut memory = app.limits.write_memory();
    let body = collect(body, BODY_BYTES_MAX, "the limit for events", |bytes| {
        memory.grow(bytes)
    })
    .await?;
    let (body, memory) = match encoding {
        Encoding::Identity => (body, memory),
        encoding => decompressed(encoding, body, memory).await?,
    };
    Ok(Call {
        params: Params::of_url(&head.uri),
        head,
        body,
        _memory: memory,
    })
}

/// Decompresses a body on a thread that may be busy.
async fn decompressed(
    encoding: Encoding,
    body: Bytes,
    mut memory: WriteMemory,
) -> Result<(Bytes, WriteMemory), ApiError> {
    let work = move || {
        let mut decompressed = Vec::new();
        let into = &mut decompressed;
        decompress_reserving(encoding, &body, BODY_BYTES_MAX, into, |bytes| {
            memory.grow(bytes)
        })?;
        Ok((decompressed.into(), memory))
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?
}

/// What `Content-Type` says, without its parameters, in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let content_type = headers.get(header::CONTENT_TYPE);
    let text = content_type.map_or("", |value| value.to_str().unwrap_or("not ASCII"));
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.to_ascii_lowercase()
}

fn check_content_type(headers: &HeaderMap, content: Content) -> Result<(), ApiError> {
    let given = media_type(headers);
    let is_json = given == "application/json" || given.ends_with("+json");
    let (is_right, expected) = match content {
        Content::None => (true, ""),
        Content::Json => (is_json, "application/json"),
        Content::Yaml => (is_json || is_yaml(&given), "application/yaml"),
        Content::Archive => (
            is_archive(&given),
            "application/gzip or multipart/form-data",
        ),
    };
    if is_right {
        return Ok(());
    }
    let shown: String = given.chars().take(80).collect();
    Err(ApiError::unsupported(format!(
        "content type {shown:?} is not taken here: {expected} is"
    )))
}

fn is_yaml(media_type: &str) -> bool {
    let yaml = [
        "application/yaml",
        "application/x-yaml",
        "text/yaml",
        "text/x-yaml",
    ];
    yaml.contains(&media_type) || media_type.ends_with("+yaml")
}

fn is_archive(media_type: &str) -> bool {
    [
        "application/gzip",
        "application/x-gzip",
        "application/x-tar",
        "application/tar",
        "application/octet-stream",
        "multipart/form-data",
    ]
    .contains(&media_type)
}

/// An answer that is a JSON document.
pub(super) fn json(status: StatusCode, document: &serde_json::Value) -> Response {
    json_bytes(status, document.to_string().into_bytes())
}

pub(super) fn json_bytes(status: StatusCode, document: Vec<u8>) -> Response {
    let mut response = document.into_response();
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(content: Content, content_type: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        check_content_type(&headers, content).is_ok()
    }

    #[test]
    fn content_types() {
        assert!(taken(Content::Json, "application/json; charset=utf-8"));
        assert!(taken(Content::Json, "application/cloudevents+JSON"));
        assert!(!taken(Content::Json, "text/plain"));
        assert!(!taken(Content::Json, ""));
        assert!(taken(Content::Yaml, "application/yaml"));
        assert!(taken(Content::Yaml, "application/json"));
        assert!(!taken(Content::Yaml, "application/gzip"));
        assert!(taken(Content::Archive, "multipart/form-data; boundary=x"));
        assert!(taken(Content::None, ""));
    }
}
