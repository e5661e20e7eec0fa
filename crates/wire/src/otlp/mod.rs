//! OpenTelemetry (OTLP): metrics to series, records of logs to a neutral form.
//!
//! ```text
//! JSON ──► json ──┐
//!                 ▼
//! protobuf ──► request ──► metric ──► number, histogram, exponential, summary ──► SampleSink
//!                │            │                     │
//!             resource      names           labels (attributes → label bytes)
//! ```
//!
//! Logs go through `logs` instead of `request`.
//!
//! Only protobuf is decoded: JSON is rewritten as protobuf first. Names and labels
//! come out as Prometheus 3 makes them, by [`Translation`].
//!
//! Holds always:
//! - Fields may come in any order: resource, scope and metric are read before their points.
//! - Every data point is announced by `point`, then written or rejected with a reason.
//! - Nothing is allocated per number point; label names are translated when they change, not per
//!   point.
//! - What one request can make the decoder write is bounded (`LABEL_BYTES_PER_REQUEST_MAX`).

mod attributes;
mod exemplar;
mod exponential;
mod histogram;
mod json;
mod label_names;
mod labels;
mod logs;
mod metric;
mod names;
mod number;
mod point;
mod request;
mod resource;
mod response;
mod summary;
mod translation;
mod value;

pub use json::{JsonError, json_to_protobuf, logs_json_to_protobuf};
pub use logs::{LogFields, LogRecord, decode_logs};
pub use request::{DecodeStats, decode_metrics};
pub use response::{
    PartialSuccess, write_logs_response_json, write_response, write_response_json, write_status,
    write_status_json,
};
pub use translation::{Exponential, Strategy, Translation};
