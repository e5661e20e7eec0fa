//! OTLP over gRPC: `MetricsService/Export` and `LogsService/Export`, on a port of its own.
//!
//! ```text
//! HTTP/2 ─► observe ─► body within limits ─► one message
//!        ─► the same store as OTLP over HTTP ─► frame, trailers
//! ```
//!
//! Holds always:
//! - A message is decompressed and decoded on a CPU thread, and what it takes in memory is reserved
//!   before it is taken. That is why framing is done here and not by a library, which decompresses
//!   where it reads.
//! - An error is a gRPC status with the reason; what may be sent again says when.
//!
//! Elsewhere: what a request means (`icecore_wire::otlp`), connections (`connection`).

mod frame;
mod status;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, Uri, header};
use icecore_wire::otlp::write_response;

use crate::app::App;
use crate::middleware::body::{collect, read_to_the_end};
use crate::middleware::decompress::Encoding;
use crate::middleware::error::ApiError;
use crate::middleware::error::OtlpFormat;
use crate::write::otlp::store_metrics;
use crate::write::otlp_logs::store_logs;
use frame::{HEADER_BYTES, only_message};

/// The paths of the methods.
pub(crate) const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
pub(crate) const EXPORT_LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// What the request's messages are compressed with, where they say that they are.
const MESSAGE_ENCODING: &str = "grpc-encoding";

/// What a call is about.
#[derive(Clone, Copy)]
enum Method {
    Metrics,
    Logs,
}

pub(crate) async fn export(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    answer(&app, Method::Metrics, request).await
}

pub(crate) async fn export_logs(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    answer(&app, Method::Logs, request).await
}

async fn answer(app: &App, method: Method, request: Request) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    match call(app, method, &head.headers, &mut body).await {
        Ok(answer) => status::answered(&answer),
        Err(error) => {
            read_to_the_end(&mut body, &head.headers).await;
            status::refused(&error)
        }
    }
}

/// Returns `true` if a request is a call of gRPC.
pub(crate) fn is_call(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to a call that is refused before it comes here.
pub(crate) fn refused(error: &ApiError) -> Response<Body> {
    status::refused(error)
}

/// Any other method.
pub(crate) async fn unknown(uri: Uri) -> Response<Body> {
    status::unimplemented(uri.path())
}

async fn call(
    app: &App,
    method: Method,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Vec<u8>, ApiError> {
    if !is_call(headers) {
        return Err(ApiError::unsupported(
            "this port speaks gRPC (content type application/grpc); OTLP over HTTP is POST /v1/metrics on the other",
        ));
    }
    app.database()?;
    let mut memory = app.limits.write_memory();
    let body_max = app.config().server.write_body_bytes_max;
    let body_max = body_max.saturating_add(HEADER_BYTES);
    let body = collect(body, body_max, "server.write_body_bytes_max", |bytes| {
        memory.grow(bytes)
    })
    .await?;
    let _slot = app.limits.write_slot()?;
    let message = only_message(body).map_err(|error| ApiError::bad_data(error.to_string()))?;
    let encoding = if message.is_compressed {
        encoding_of(headers)?
    } else {
        Encoding::Identity
    };
    let (message, format) = (message.bytes, OtlpFormat::Protobuf);
    let partial = match method {
        Method::Metrics => store_metrics(app, message, memory, encoding, format).await?,
        Method::Logs => store_logs(app, message, memory, encoding, format).await?,
    };
    Ok(write_response(partial.as_ref()))
}

/// What a compressed message is compressed with.
fn encoding_of(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let name = headers.get(MESSAGE_ENCODING).map(|value| value.to_str());
    match name {
        Some(Ok(name)) => Ok(Encoding::from_name(name)?),
        Some(Err(_)) => Err(ApiError::bad_data("grpc-encoding is not ASCII")),
        None => Err(ApiError::bad_data(
            "the message says that it is compressed, and no grpc-encoding says how",
        )),
    }
}
