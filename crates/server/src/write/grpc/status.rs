//! Answers of gRPC: statuses for errors, frames and trailers for successes.
//!
//! | ours | gRPC | sent again by OpenTelemetry's exporters |
//! | --- | --- | --- |
//! | 400 | `INVALID_ARGUMENT` | no |
//! | 401, 403 | `UNAUTHENTICATED`, `PERMISSION_DENIED` | no |
//! | 413 | `RESOURCE_EXHAUSTED` | no |
//! | 415 | `UNIMPLEMENTED` | no |
//! | 429 | `RESOURCE_EXHAUSTED` with `RetryInfo` | yes, after its time |
//! | 503 | `UNAVAILABLE` with `RetryInfo` | yes, after its time |
//! | other | `INTERNAL` | no |

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use futures::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use icecore_model::varint::push_varint;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::frame::framed;
use crate::middleware::error::{ApiError, RETRY_AFTER};

/// The compressions that a client may use, as the header names them.
pub(super) const ACCEPTED_ENCODINGS: HeaderValue = HeaderValue::from_static("identity,gzip,zstd");
pub(super) const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const DETAILS: &str = "grpc-status-details-bin";

/// What a message may not hold as it is: everything but printable ASCII, and the sign of an escape.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// The codes of gRPC that are answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    InvalidArgument = 3,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// An error as the only thing in an answer.
pub(super) fn refused(error: &ApiError) -> Response<Body> {
    let code = code_of(error.status());
    let message = error.to_string();
    let is_retryable = matches!(
        error.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let mut response = answer_of(code, &message);
    if is_retryable {
        let details = STANDARD_NO_PAD.encode(status_with_retry_info(code, &message));
        insert_text(response.headers_mut(), DETAILS, &details);
    }
    response
}

pub(super) fn unimplemented(path: &str) -> Response<Body> {
    let message = format!(
        "there is no method {path}; OpenTelemetry's MetricsService/Export and LogsService/Export are what this port offers"
    );
    answer_of(Code::Unimplemented, &message)
}

/// An answer without a body has its status among its headers.
fn answer_of(code: Code, message: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
    headers.insert(ACCEPT_ENCODING, ACCEPTED_ENCODINGS);
    headers.insert(STATUS, HeaderValue::from(code as u16));
    let message = utf8_percent_encode(message, ESCAPED).to_string();
    insert_text(headers, MESSAGE, &message);
    response
}

fn insert_text(headers: &mut HeaderMap, name: &'static str, text: &str) {
    // What is encoded is visible ASCII, which a header may hold.
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// A message followed by the status of success.
pub(super) fn answered(message: &[u8]) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from_static("0"));
    let frames = [Frame::data(framed(message)), Frame::trailers(trailers)];
    let frames = frames.map(Ok::<Frame<Bytes>, std::convert::Infallible>);
    let mut response = Response::new(Body::new(StreamBody::new(stream::iter(frames))));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
    headers.insert(ACCEPT_ENCODING, ACCEPTED_ENCODINGS);
    response
}

fn code_of(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST => Code::InvalidArgument,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// A `google.rpc.Status` whose details hold one `google.rpc.RetryInfo`: when to come back.
fn status_with_retry_info(code: Code, message: &str) -> Bytes {
    const TYPE: &str = "type.googleapis.com/google.rpc.RetryInfo";
    const VARINT: u8 = 0;
    const BYTES: u8 = 2;
    let tag = |field: u8, wire_type: u8| field << 3 | wire_type;
    let nested = |field: u8, content: &[u8]| {
        let mut bytes = vec![tag(field, BYTES)];
        push_varint(&mut bytes, content.len() as u64);
        bytes.extend_from_slice(content);
        bytes
    };
    let mut seconds = vec![tag(1, VARINT)];
    push_varint(&mut seconds, RETRY_AFTER.as_secs());
    let retry_info = nested(1, &seconds);
    let mut any = nested(1, TYPE.as_bytes());
    any.extend(nested(2, &retry_info));
    let mut status = vec![tag(1, VARINT)];
    push_varint(&mut status, code as u64);
    status.extend(nested(2, message.as_bytes()));
    status.extend(nested(3, &any));
    status.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_sent_again_says_when() {
        let status = status_with_retry_info(Code::Unavailable, "later");
        let expected = b"\x08\x0e\x12\x05later\x1a\x30\
            \x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x04\x0a\x02\x08\x02";
        assert_eq!(&status[..], expected);
    }

    #[test]
    fn a_message_is_escaped_as_grpc_wants_it() {
        let response = refused(&ApiError::bad_data("100 % of é\n"));
        assert_eq!(response.headers()[MESSAGE], "100 %25 of %C3%A9%0A");
        assert_eq!(response.headers()[STATUS], "3");
    }

    #[test]
    fn only_what_may_succeed_later_has_details() {
        let details = |error: ApiError| {
            let response = refused(&error);
            response.headers().contains_key(DETAILS)
        };
        assert!(details(ApiError::unavailable("x")));
        assert!(details(ApiError::quota("x")));
        assert!(!details(ApiError::bad_data("x")));
        assert!(!details(ApiError::too_large("x")));
    }
}
