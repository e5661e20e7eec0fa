//! `/api/query/gexp`: functions over the results of queries, as Graphite has them.
//!
//! ```text
//! exp=scale(sum:sys.cpu{host=*},2) ─► Call ─► sub queries ─► functions, from the inside out
//! ```
//!
//! Holds always:
//! - Series of two sets are paired by their tags, and their points by time.
//! - A function that moves points in time gets points of as much earlier, so that they lie in the
//!   window afterwards.

mod call;
mod endpoint;
mod function;
mod moving_average;
mod parser;
mod series_arithmetic;

pub(crate) use endpoint::gexp;
pub(crate) use function::{Function, scale_factor, shift_ms, top_n};
pub(crate) use moving_average::AverageWindow;
pub(crate) use parser::{Call, Input};
