//! `POST /v1/metrics` and `POST /v1/logs`: OTLP over HTTP, protobuf and JSON.
//!
//! ```text
//! negotiate ─► body into memory ─► place ─► otlp, otlp_logs ─► 200, with what was refused
//!    415          413, 503         503
//! ```
//!
//! Holds always: an answer is in the form of its request, errors are a `google.rpc.Status`, and
//! what may be sent again says when.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use icecore_wire::otlp::{write_logs_response_json, write_response, write_response_json};

use crate::app::App;
use crate::middleware::body::{collect, read_to_the_end};
use crate::middleware::decompress::Encoding;
use crate::middleware::error::ApiError;
use crate::middleware::error::OtlpFormat;
use crate::write::otlp::{Partial, store_metrics};
use crate::write::otlp_logs::store_logs;

/// The paths of OTLP over HTTP.
pub(crate) const PATHS: [&str; 3] = [METRICS, PROMETHEUS_METRICS, LOGS];
pub(crate) const METRICS: &str = "/v1/metrics";
/// The path at which Prometheus takes metrics.
pub(crate) const PROMETHEUS_METRICS: &str = "/api/v1/otlp/v1/metrics";
pub(crate) const LOGS: &str = "/v1/logs";

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Metrics,
    Logs,
}

pub(crate) async fn metrics(State(app): State<Arc<App>>, request: Request) -> Response {
    export(&app, Signal::Metrics, request).await
}

pub(crate) async fn logs(State(app): State<Arc<App>>, request: Request) -> Response {
    export(&app, Signal::Logs, request).await
}

async fn export(app: &App, signal: Signal, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let format = format_of(&head.headers);
    let stored = match &format {
        Ok(format) => store(app, signal, &head.headers, *format, &mut body).await,
        Err(content_type) => Err(ApiError::unsupported(format!(
            "content type {content_type:?} is not taken: application/x-protobuf and application/json are"
        ))),
    };
    let format = format.unwrap_or(OtlpFormat::Protobuf);
    match stored {
        Ok(partial) => success(signal, format, &partial),
        Err(error) => {
            read_to_the_end(&mut body, &head.headers).await;
            error.into_otlp(format)
        }
    }
}

/// The answer to a request that is refused before it comes here.
pub(crate) fn refused(error: ApiError, headers: &HeaderMap) -> Response {
    error.into_otlp(format_of(headers).unwrap_or(OtlpFormat::Protobuf))
}

/// What `Content-Type` says, whatever its parameters.
fn format_of(headers: &HeaderMap) -> Result<OtlpFormat, String> {
    let content_type = headers.get(header::CONTENT_TYPE);
    let text = content_type.map_or("", |value| value.to_str().unwrap_or("not ASCII"));
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/x-protobuf") {
        Ok(OtlpFormat::Protobuf)
    } else if essence.eq_ignore_ascii_case("application/json") {
        Ok(OtlpFormat::Json)
    } else {
        Err(essence.chars().take(80).collect())
    }
}

async fn store(
    app: &App,
    signal: Signal,
    headers: &HeaderMap,
    format: OtlpFormat,
    body: &mut Body,
) -> Result<Partial, ApiError> {
    let encoding = Encoding::from_header(headers)?;
    app.database()?;
    let mut memory = app.limits.write_memory();
    let body_max = app.config().server.write_body_bytes_max;
    let body = collect(body, body_max, "server.write_body_bytes_max", |bytes| {
        memory.grow(bytes)
    })
    .await?;
    let _slot = app.limits.write_slot()?;
    match signal {
        Signal::Metrics => store_metrics(app, body, memory, encoding, format).await,
        Signal::Logs => store_logs(app, body, memory, encoding, format).await,
    }
}

fn success(signal: Signal, format: OtlpFormat, partial: &Partial) -> Response {
    let body = match (format, signal) {
        (OtlpFormat::Protobuf, _) => write_response(partial.as_ref()),
        (OtlpFormat::Json, Signal::Metrics) => write_response_json(partial.as_ref()),
        (OtlpFormat::Json, Signal::Logs) => write_logs_response_json(partial.as_ref()),
    };
    let mut response = body.into_response();
    let content_type = HeaderValue::from_static(format.content_type());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

impl OtlpFormat {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_with_and_without_parameters() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            format_of(&headers)
        };
        assert_eq!(of("application/x-protobuf"), Ok(OtlpFormat::Protobuf));
        assert_eq!(of("Application/JSON; charset=utf-8"), Ok(OtlpFormat::Json));
        assert_eq!(of("text/plain"), Err("text/plain".into()));
        assert_eq!(format_of(&HeaderMap::new()), Err(String::new()));
    }
}
