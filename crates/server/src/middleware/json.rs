//! Success answers of the API.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use icecore_wire::prometheus::api_json::{write_success, write_success_without_data};
use tokio::sync::OwnedSemaphorePermit;

use crate::middleware::error::ApiError;

/// Answers with what `data` writes. Long lists take their time, so this is no work for the threads
/// that keep all connections going; `slot` is the read's place, which it keeps meanwhile.
pub(crate) async fn success(
    slot: OwnedSemaphorePermit,
    warnings: Vec<String>,
    data: impl FnOnce(&mut Vec<u8>) + Send + 'static,
) -> Result<Response, ApiError> {
    let write = move || {
        let body = written(&warnings, data);
        drop(slot);
        body
    };
    let body = tokio::task::spawn_blocking(write).await;
    Ok(response(
        body.map_err(|error| ApiError::internal(error.to_string()))?,
    ))
}

/// The same for what is always small.
pub(crate) fn small_success(data: impl FnOnce(&mut Vec<u8>)) -> Response {
    response(written(&[], data))
}

/// A small answer with warnings.
pub(crate) fn small_success_with(warnings: &[String], data: impl FnOnce(&mut Vec<u8>)) -> Response {
    response(written(warnings, data))
}

/// The same for what has no data, and more to say than that it succeeded.
pub(crate) fn warned_success(warnings: &[String]) -> Response {
    let mut body = Vec::new();
    write_success_without_data(&mut body, warnings);
    response(body)
}

fn written(warnings: &[String], data: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = Vec::new();
    write_success(&mut body, warnings, data);
    body
}

fn response(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
