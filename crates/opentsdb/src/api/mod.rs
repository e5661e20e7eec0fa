//! The HTTP API: which endpoint answers which path.

mod annotation;
mod body;
mod fields;
mod series_meta;
mod uid;
mod uid_meta;

use http::StatusCode;

use crate::error::Error;
use crate::put;
use crate::query;
use crate::tsd::Tsd;

pub use crate::request::Request;
pub use crate::response::Response;

/// Answers one request.
pub async fn handle(tsd: &Tsd, request: &Request) -> Response {
    let answer = route(tsd, request).await;
    let response = answer.unwrap_or_else(|error| Response::error(&error));
    response.wrapped(request)
}

async fn route(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let endpoint = endpoint(&request.path)?;
    let parts: Vec<&str> = endpoint.split('/').collect();
    match parts.as_slice() {
        ["put", ..] => put::endpoint::put(tsd, request).await,
        ["query", ..] => query::query(tsd, request).await,
        ["annotation"] => annotation::one(tsd, request).await,
        ["annotation", "bulk", ..] => annotation::bulk(tsd, request).await,
        ["annotations", ..] => annotation::many(tsd, request).await,
        ["uid", rest @ ..] => uid::route(tsd, request, rest).await,
        _ => Err(Error::not_found("Endpoint not found")),
    }
}

/// The path behind `/api/` and its version, in lower case; UI paths as they are.
fn endpoint(path: &str) -> Result<String, Error> {
    let path = path.trim_start_matches('/').to_ascii_lowercase();
    let Some(rest) = path.strip_prefix("api/") else {
        return Ok(format!("/{path}"));
    };
    let (first, behind) = rest.split_once('/').unwrap_or((rest, ""));
    let version = first.strip_prefix('v').and_then(|v| v.parse::<u32>().ok());
    match version {
        None => Ok(rest.to_owned()),
        Some(0 | 1) => Ok(behind.to_owned()),
        Some(_) => Err(Error::new(
            StatusCode::NOT_IMPLEMENTED,
            "Requested API version is greater than the max implemented",
        )),
    }
}
