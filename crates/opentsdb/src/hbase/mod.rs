//! How the original lays out its tables in HBase, for what comes from there and goes there.
//!
//! ```text
//! row_key     [salt] metric | base time | (tag key | tag value)*
//! qualifier   of points in seconds and milliseconds, and of what else a row holds
//! column      one cell: a point, compacted or appended points, an annotation, a histogram
//! rollup      cells of the rollup tables
//! names       cells of the tables of UIDs, meta data and trees
//! ```
//!
//! Holds always:
//! - What is encoded is decoded to the same.
//! - No bytes panic; what is not understood is an error that says what it was.

mod column;
mod names;
mod qualifier;
mod rollup;
mod row_key;
pub(crate) mod value;

use thiserror::Error;

/// Bytes that are not what their table says.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{what}: {}", hex::encode_upper(.bytes))]
pub(crate) struct LayoutError {
    pub(crate) what: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl LayoutError {
    fn new(what: &'static str, bytes: &[u8]) -> Self {
        Self {
            what,
            bytes: bytes.to_vec(),
        }
    }
}

/// Steps over the first bytes.
fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(first)
}
