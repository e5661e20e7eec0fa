//! The body of a query, and its answer.

use icecore_events::Problem;
use serde_json::Value;

/// Rows of an answer, unless the request says otherwise, and at most.
const DEFAULT_LIMIT: usize = 1_000;
const MAX_LIMIT: usize = 100_000;

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlRequest {
    pub query: String,
    pub limit: usize,
    pub format: SqlFormat,
    /// Events may be read without a bound on their start.
    pub allow_full_scan: bool,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlFormat {
    Row,
    Columnar,
    Csv,
    /// A stream of Arrow IPC.
    Arrow,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct SqlAnswer {
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl SqlRequest {
    /// Reads the body of `POST /events/sql`.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|cause| Problem::new(400, "sql.invalid-json", cause.to_string()))?;
        let wrong = |detail: &str| Problem::new(400, "sql.invalid-field", detail);
        let field = |name: &str| value.get(name).filter(|value| !value.is_null());
        if !value.is_object() {
            return Err(Problem::new(
                400,
                "sql.invalid-body",
                "the body must be a JSON object",
            ));
        }
        let query = match field("q") {
            Some(Value::String(query)) if !query.trim().is_empty() => query.clone(),
            None => {
                return Err(Problem::new(
                    400,
                    "sql.required-field-missing",
                    "q is required",
                ));
            }
            Some(_) => return Err(wrong("q must be the text of a query")),
        };
        let limit = match field("limit") {
            None => DEFAULT_LIMIT,
            Some(limit) => {
                let limit = limit.as_u64().filter(|limit| *limit > 0);
                let limit = limit.ok_or_else(|| wrong("limit must be a number from 1"))?;
                usize::try_from(limit).unwrap_or(MAX_LIMIT).min(MAX_LIMIT)
            }
        };
        let format = match field("format").map(Value::as_str) {
            None | Some(Some("row")) => SqlFormat::Row,
            Some(Some("columnar")) => SqlFormat::Columnar,
            Some(Some("csv")) => SqlFormat::Csv,
            Some(Some("arrow")) => SqlFormat::Arrow,
            Some(_) => return Err(wrong("format must be row, columnar, csv or arrow")),
        };
        let allow_full_scan = match field("allowFullScan") {
            None => false,
            Some(Value::Bool(allow)) => *allow,
            Some(_) => return Err(wrong("allowFullScan must be true or false")),
        };
        Ok(Self {
            query,
            limit,
            format,
            allow_full_scan,
        })
    }
}
