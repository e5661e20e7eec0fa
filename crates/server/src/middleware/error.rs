//! Errors become HTTP answers here, and nowhere else.
//!
//! | what | status | errorType |
//! | --- | --- | --- |
//! | the request is wrong and stays wrong | 400 | bad_data |
//! | no credential, or a wrong one | 401 and `WWW-Authenticate` | unauthorized |
//! | a credential without the role, or a page of another site | 403 | forbidden |
//! | no such path, or not with this method | 404, 405 | not_found, bad_data |
//! | too large, or in an unsupported format | 413, 415 | bad_data |
//! | a limit of reading, or a query that cannot be evaluated | 422 | execution |
//! | a quota of writing | 429 and `Retry-After` | unavailable |
//! | memory, the store, or not open (yet, or any more) | 503 and `Retry-After` | unavailable |
//! | took too long | 503 and `Retry-After` | timeout |
//! | nobody waits for the answer any more | 499 | canceled |
//! | stored data that cannot be read, and bugs | 500 | internal |
//!
//! The API answers JSON in Prometheus' shape; remote write answers one line of text, because that
//! is what its clients put into their logs; routes of events answer documents of
//! `application/problem+json`.

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use icecore_events::Problem;
use icecore_model::SourceError;
use icecore_promql::Error as PromqlError;
use icecore_promql::parse::ParseError;
use icecore_storage::{Error as StorageError, WriteError};
use icecore_wire::WireError;
use icecore_wire::otlp::{JsonError, write_status, write_status_json};
use icecore_wire::prometheus::api_json::{ErrorType, write_error};
use icecore_wire::prometheus::snappy::SnappyError;
use icecore_wire::prometheus::{ContentError, ParamError};

use crate::middleware::cross_site::CrossSite;
use crate::middleware::decompress::{DecompressError, EncodingError};
use crate::middleware::rfc3339;
use crate::queries::QueryError;
use icecore_access::AuthError;

/// The form of an OTLP request, and so of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtlpFormat {
    Protobuf,
    Json,
}

/// When to come back: long enough for a flush to free memory, short enough that senders with small
/// buffers do not lose anything.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// What a credential may look like. Browsers take the first one that they know.
const CHALLENGES: [HeaderValue; 2] = [
    HeaderValue::from_static("Basic realm=\"icecore\", charset=\"UTF-8\""),
    HeaderValue::from_static("Bearer realm=\"icecore\""),
];

/// An answer that is not a success.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    error_type: ErrorType,
    message: String,
    /// JSON about what was done in spite of the error; empty for nothing.
    data: Vec<u8>,
    /// What programs tell errors of events apart by, and how to mend them.
    code: Option<&'static str>,
    hint: Option<String>,
}

impl ApiError {
    fn new(status: StatusCode, error_type: ErrorType, message: impl Into<String>) -> Self {
        Self {
            status,
            error_type,
            message: message.into(),
            data: Vec::new(),
            code: None,
            hint: None,
        }
    }

    pub(crate) fn bad_data(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorType::BadData, message)
    }

    pub(crate) fn not_found(path: &str) -> Self {
        let message = format!("there is nothing at {path}; / lists what there is");
        Self::new(StatusCode::NOT_FOUND, ErrorType::NotFound, message)
    }

    /// This client may not do it.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ErrorType::Forbidden, message)
    }

    /// What was named is not there.
    pub(crate) fn no_such(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorType::NotFound, message)
    }

    pub(crate) fn method_not_allowed(method: &str) -> Self {
        let message = format!("method {method} is not allowed here");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, ErrorType::BadData, message)
    }

    /// It does not fit what is there.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, ErrorType::BadData, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorType::BadData, message)
    }

    pub(crate) fn unsupported_content(error: &ContentError) -> Self {
        Self::unsupported(error.to_string())
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, ErrorType::BadData, message)
    }

    pub(crate) fn quota(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            ErrorType::Unavailable,
            message,
        )
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorType::Unavailable,
            message,
        )
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorType::Timeout, message)
    }

    pub(crate) fn execution(message: impl Into<String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::new(status, ErrorType::Execution, message)
    }

    fn canceled(message: impl Into<String>) -> Self {
        // nginx' number, which Prometheus uses, too.
        let status = StatusCode::from_u16(499).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, ErrorType::Canceled, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            ErrorType::Internal,
            message,
        )
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// What the answer calls it.
    pub(crate) fn type_name(&self) -> &'static str {
        self.error_type.name()
    }

    /// The same, with JSON about what was done in spite of the error.
    pub(crate) fn with_data(self, data: Vec<u8>) -> Self {
        Self { data, ..self }
    }

    /// The same, about a named parameter.
    pub(crate) fn of_parameter(name: &str, problem: impl fmt::Display) -> Self {
        Self::bad_data(format!("invalid parameter {name:?}: {problem}"))
    }

    /// One line of text, for clients that show it to people as it is.
    pub(crate) fn into_text(self) -> Response {
        let body = format!("{}\n", self.message);
        let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
        self.answer(content_type, body.into_bytes())
    }

    /// A `google.rpc.Status` in the form of the request, for OTLP over HTTP.
    pub(crate) fn into_otlp(self, format: OtlpFormat) -> Response {
        let code = grpc_code(self.status);
        let body = match format {
            OtlpFormat::Protobuf => write_status(code, &self.message),
            OtlpFormat::Json => write_status_json(code, &self.message),
        };
        self.answer(HeaderValue::from_static(format.content_type()), body)
    }

    /// An object as OpenTSDB has it for errors.
    pub(crate) fn into_opentsdb(self) -> Response {
        let error = icecore_opentsdb::Error::new(self.status, self.message.as_str());
        let answer = icecore_opentsdb::api::error(&error);
        self.answer(HeaderValue::from_static(answer.content_type), answer.body)
    }

    /// A problem document about a request for this path.
    pub(crate) fn into_problem(self, path: &str, now_ms: i64) -> Response {
        let mut document = serde_json::json!({
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.message,
            "code": self.code.unwrap_or_else(|| general_code(self.status)),
            "timestamp": rfc3339::format(now_ms),
            "path": path,
        });
        if let Some(hint) = &self.hint {
            document["hint"] = hint.as_str().into();
        }
        let body = document.to_string().into_bytes();
        self.answer(HeaderValue::from_static("application/problem+json"), body)
    }

    fn answer(self, content_type: HeaderValue, body: Vec<u8>) -> Response {
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(reason = self.message, "request failed");
        }
        let mut response = body.into_response();
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        if matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ) {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER.as_secs().into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            for challenge in CHALLENGES {
                headers.append(header::WWW_AUTHENTICATE, challenge);
            }
        }
        response
    }
}

/// The code of a problem that has nothing to do with events.
fn general_code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "request.invalid",
        401 => "access.unauthorized",
        403 => "access.forbidden",
        404 => "request.not-found",
        405 => "request.method-not-allowed",
        413 => "ingest.limit-exceeded",
        415 => "request.unsupported-media-type",
        422 => "query.limit",
        429 => "request.too-many",
        503 => "ingest.unavailable",
        _ => "internal",
    }
}

/// The code that gRPC has for what a status says.
fn grpc_code(status: StatusCode) -> i32 {
    match status {
        StatusCode::FORBIDDEN => 7,
        StatusCode::TOO_MANY_REQUESTS => 8,
        StatusCode::UNAUTHORIZED => 16,
        StatusCode::INTERNAL_SERVER_ERROR => 13,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        // The request is wrong and stays wrong.
        _ => 3,
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = Vec::new();
        write_error(&mut body, self.error_type, &self.message);
        if !self.data.is_empty() && body.pop().is_some() {
            body.extend_from_slice(b",\"data\":");
            body.extend_from_slice(&self.data);
            body.push(b'}');
        }
        self.answer(HeaderValue::from_static("application/json"), body)
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error_type = match problem.status {
            404 => ErrorType::NotFound,
            422 => ErrorType::Execution,
            429 | 503 => ErrorType::Unavailable,
            500.. => ErrorType::Internal,
            _ => ErrorType::BadData,
        };
        Self {
            code: Some(problem.code),
            hint: problem.hint,
            ..Self::new(status, error_type, problem.detail)
        }
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        let message = error.to_string();
        match error {
            StorageError::Invalid(_) => Self::bad_data(message),
            StorageError::LimitReached(_) => Self::execution(message),
            StorageError::Unavailable(_) | StorageError::Closed(_) | StorageError::Store { .. } => {
                Self::unavailable(message)
            }
            StorageError::Corrupt(_) => Self::internal(message),
        }
    }
}

impl From<SourceError> for ApiError {
    fn from(error: SourceError) -> Self {
        let message = error.to_string();
        match error {
            SourceError::LimitReached(_) => StorageError::LimitReached(message).into(),
            SourceError::Unavailable(_) => Self::unavailable(message),
            SourceError::Corrupt(_) | SourceError::Internal(_) => Self::internal(message),
        }
    }
}

impl From<ParseError> for ApiError {
    fn from(error: ParseError) -> Self {
        Self::of_parameter("query", error)
    }
}

impl From<PromqlError> for ApiError {
    fn from(error: PromqlError) -> Self {
        let message = error.to_string();
        match error {
            PromqlError::Parse(error) => error.into(),
            PromqlError::Invalid(_) => Self::of_parameter("query", message),
            PromqlError::Execution(_) | PromqlError::LimitReached(_) => Self::execution(message),
            PromqlError::Timeout(_) => Self::timeout(message),
            PromqlError::Canceled(_) => Self::canceled(message),
            PromqlError::Source(error) => error.into(),
        }
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Engine(error) => error.into(),
            QueryError::QueueFull(_) => Self::unavailable(error.to_string()),
            QueryError::Panicked => Self::internal(error.to_string()),
        }
    }
}

impl From<WriteError<WireError>> for ApiError {
    fn from(error: WriteError<WireError>) -> Self {
        match error {
            WriteError::Decode(error) => error.into(),
            // A limit that a sender runs into is a quota: it goes away when there is less.
            WriteError::Storage(StorageError::LimitReached(message)) => Self::quota(message),
            WriteError::Storage(error) => error.into(),
        }
    }
}

impl From<WriteError<ApiError>> for ApiError {
    fn from(error: WriteError<ApiError>) -> Self {
        match error {
            WriteError::Decode(error) => error,
            WriteError::Storage(error) => WriteError::<WireError>::Storage(error).into(),
        }
    }
}

impl From<WireError> for ApiError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Json(JsonError::TooLarge { .. })
            | WireError::Snappy(SnappyError::TooLarge { .. }) => Self::too_large(error.to_string()),
            _ => Self::bad_data(error.to_string()),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(denied: AuthError) -> Self {
        let message = denied.to_string();
        match denied {
            AuthError::Missing | AuthError::Wrong | AuthError::Malformed(_) => {
                Self::new(StatusCode::UNAUTHORIZED, ErrorType::Unauthorized, message)
            }
            AuthError::Forbidden(_) => Self::forbidden(message),
            AuthError::Busy => Self::unavailable(message),
            AuthError::TooMany => Self::quota(message),
        }
    }
}

impl From<CrossSite> for ApiError {
    fn from(refused: CrossSite) -> Self {
        Self::forbidden(refused.to_string())
    }
}

impl From<EncodingError> for ApiError {
    fn from(error: EncodingError) -> Self {
        Self::unsupported(error.to_string())
    }
}

impl From<DecompressError> for ApiError {
    fn from(error: DecompressError) -> Self {
        match error {
            DecompressError::TooLarge(_) | DecompressError::Ratio(_) => {
                Self::too_large(error.to_string())
            }
            DecompressError::Broken(_) => Self::bad_data(error.to_string()),
            DecompressError::Refused(error) => error,
        }
    }
}

impl From<(&str, ParamError)> for ApiError {
    fn from((name, error): (&str, ParamError)) -> Self {
        Self::of_parameter(name, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: impl Into<ApiError>, status: u16, error_type: &str, retry: bool) {
        let error = error.into();
        assert_eq!(error.error_type.name(), error_type);
        let response = error.into_response();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers().contains_key("retry-after"), retry);
    }

    #[test]
    fn storage_errors_by_what_the_client_can_do() {
        let text = String::new;
        check(StorageError::Invalid(text().into()), 400, "bad_data", false);
        check(StorageError::LimitReached(text()), 422, "execution", false);
        check(
            StorageError::Unavailable(text().into()),
            503,
            "unavailable",
            true,
        );
        check(StorageError::Closed(text()), 503, "unavailable", true);
        check(StorageError::Corrupt(text().into()), 500, "internal", false);
        check(SourceError::LimitReached(text()), 422, "execution", false);
        check(SourceError::Unavailable(text()), 503, "unavailable", true);
        check(SourceError::Corrupt(text()), 500, "internal", false);
    }

    #[tokio::test]
    async fn problems_say_what_and_where() {
        let problem = Problem::new(400, "ingest.invalid-json", "no JSON").with_hint("send JSON");
        let response = ApiError::from(problem).into_problem("/events/publish", 0);
        assert_eq!(response.status().as_u16(), 400);
        let content_type = &response.headers()["content-type"];
        assert_eq!(content_type, "application/problem+json");
        let body = axum::body::to_bytes(response.into_body(), 1 << 10).await;
        let body: serde_json::Value = serde_json::from_slice(&body.unwrap()).unwrap();
        let expected = serde_json::json!({
            "title": "Bad Request", "status": 400, "detail": "no JSON",
            "code": "ingest.invalid-json", "timestamp": "1970-01-01T00:00:00.000Z",
            "path": "/events/publish", "hint": "send JSON",
        });
        assert_eq!(body, expected);
        let busy = ApiError::from(Problem::new(503, "ingest.unavailable", "busy"));
        let response = busy.into_problem("/", 0);
        assert!(response.headers().contains_key("retry-after"));
        let denied = ApiError::from(AuthError::Missing).into_problem("/", 0);
        assert!(denied.headers().contains_key("www-authenticate"));
    }

    #[test]
    fn query_errors_as_in_prometheus() {
        let text = String::new;
        let parse = ParseError {
            line: 1,
            column: 2,
            message: "unexpected".into(),
        };
        let error = ApiError::from(PromqlError::from(parse));
        assert_eq!(
            error.to_string(),
            "invalid parameter \"query\": 1:2: parse error: unexpected"
        );
        check(error, 400, "bad_data", false);
        check(PromqlError::Invalid(text()), 400, "bad_data", false);
        check(PromqlError::Execution(text()), 422, "execution", false);
        check(PromqlError::LimitReached(text()), 422, "execution", false);
        check(PromqlError::Timeout("x"), 503, "timeout", true);
        check(PromqlError::Canceled("x"), 499, "canceled", false);
        let of_source = |error| PromqlError::from(error);
        let limit = of_source(SourceError::LimitReached(text()));
        check(limit, 422, "execution", false);
        let unavailable = of_source(SourceError::Unavailable(text()));
        check(unavailable, 503, "unavailable", true);
        let corrupt = of_source(SourceError::Corrupt(text()));
        check(corrupt, 500, "internal", false);
        check(QueryError::QueueFull(1), 503, "unavailable", true);
    }

    #[test]
    fn write_errors_by_what_the_sender_should_do() {
        let limit = StorageError::LimitReached(String::new());
        check(
            WriteError::<WireError>::Storage(limit),
            429,
            "unavailable",
            true,
        );
        let closed = StorageError::Closed(String::new());
        check(
            WriteError::<WireError>::Storage(closed),
            503,
            "unavailable",
            true,
        );
        let malformed = WriteError::Decode(WireError::FirstSymbol);
        check(malformed, 400, "bad_data", false);
        let bomb = SnappyError::TooLarge { length: 2, max: 1 };
        check(
            WriteError::<WireError>::Decode(bomb.into()),
            413,
            "bad_data",
            false,
        );
    }
}
