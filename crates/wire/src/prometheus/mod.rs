//! The Prometheus protocols: remote write in, the HTTP API's parameters in and its JSON out, text
//! exposition of own metrics out.

pub mod api_json;
pub mod content;
pub mod escaping;
pub(crate) mod exemplar;
pub mod export;
pub mod federate;
pub(crate) mod histogram;
pub mod import;
pub(crate) mod message;
pub(crate) mod number;
pub mod params;
pub mod protobuf;
pub mod query_columns;
pub mod query_json;
pub mod remote_read;
pub mod remote_write_v1;
pub mod remote_write_v2;
mod sample;
pub mod selector;
pub mod snappy;
pub mod text;

pub use content::{ContentError, RemoteWriteVersion, check_content_encoding};
pub use params::{ParamError, parse_duration_ms, parse_query_time_ms, parse_time_ms};
pub use remote_write_v1::decode_v1;
pub use remote_write_v2::decode_v2;
pub use selector::{SelectorError, parse_selector, parse_selectors};
pub use text::TextWriter;
