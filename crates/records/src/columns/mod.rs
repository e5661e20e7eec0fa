//! Columns: the samples of one series in a bucket larger than an hour.
//!
//! ```text
//! record   version | n | s | timestamps | length of each chunk but the last | chunk, chunk, …
//!                             │                                               s values each
//!                             └ regular | grid and residuals | a shared column of the bucket
//! ```
//!
//! Timestamps belong to the record, values to chunks that are found by the index of a sample: a
//! short range of time decodes few chunks.
//!
//! Holds always:
//! - Nothing is lost: every bit pattern of a value and every strictly increasing list of timestamps
//!   comes back.
//! - Same samples, same bytes.
//! - Memory follows the input: a chunk and a body of residuals expand to at most [`MAX_CHUNK_LEN`]
//!   samples, a record for at most [`MAX_SAMPLES`], and regular timestamps are expanded only when
//!   they are copied.

mod bitpack;
pub(crate) mod decimal;
mod huffman;
pub(crate) mod integers;
pub(crate) mod numbers;
mod predictor;
mod record;
#[cfg(test)]
mod tests;
pub mod time_column;
mod time_list;
mod timestamps;
pub mod values;

pub use record::{ColumnRecord, RecordTimes, Times, encode};
pub use time_list::{TimeList, is_regular};

/// The most samples of a record or a column: more than a bucket of 16 h has milliseconds.
pub const MAX_SAMPLES: usize = 1 << 26;

/// The most samples of one chunk of values, and of one body of residuals.
pub const MAX_CHUNK_LEN: usize = 4096;
