//! Questions about events and what is kept of them.
//!
//! ```text
//! body ─► request: metric, intervals, groups ─► the coarsest window that fits
//!                                              └► cells, page by page ─► table ─► answer as JSON
//! ```
//!
//! Holds always:
//! - An answer is the same whichever window it is read from.
//! - What is held for an answer depends on its size, not on the number of cells that are read.

mod answer;
mod cells;
mod condition;
mod counters;
mod evaluate;
mod gauges;
mod groups;
mod histograms;
mod interval;
mod json;
mod kept_values;
mod links;
mod quantile;
mod replaced;
mod request;
mod source;
mod states;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod window_choice;

pub use condition::{Clause, Condition, Operand, Operator, Subject};
pub use counters::query_counters;
pub use evaluate::is_like;
pub use gauges::query_gauges;
pub use histograms::query_histograms;
pub use interval::Interval;
pub use source::{CellSource, DimensionValues};
pub use states::{query_state_count_timeseries, query_state_counts, query_state_transitions};

pub(crate) use cells::CellPages;
pub(crate) use window_choice::{Segment, cover, kept_since_s};
