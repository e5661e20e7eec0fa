//! Why a request as a whole could not be read.

use thiserror::Error;

use crate::otlp::JsonError;
use crate::prometheus::protobuf::ProtobufError;
use crate::prometheus::snappy::SnappyError;

/// The body is not what it claims to be. Nothing in it may be kept: a decoder that returns this has
/// possibly handed a part of the request to its sink, and the caller throws that part away.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    #[error("snappy: {0}")]
    Snappy(#[from] SnappyError),
    #[error("protobuf: {error} (in the field at byte {offset})")]
    Protobuf {
        /// Where the top-level field that could not be read begins in the decompressed body.
        offset: usize,
        #[source]
        error: ProtobufError,
    },
    #[error("the body is a remote write {found} request, but its content type says {declared}")]
    VersionMismatch {
        declared: &'static str,
        found: &'static str,
    },
    #[error("the first entry of the symbol table must be the empty string")]
    FirstSymbol,
    #[error("JSON: {0}")]
    Json(#[source] JsonError),
}
