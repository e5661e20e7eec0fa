//! How numbers were written: integers are computed and shown as integers.
//!
//! ```text
//! point ─► NumberSink ─► sample, with its form where that is not as expected ─► store
//! series ◄─ NumberStream ◄─ samples, with such forms ◄─ store
//! ```
//!
//! Senders write numbers in one of two ways: 5 and 5.5, or 5.0 and 5.5. So a metric is *natural*,
//! its whole numbers are integers, or it has *floats* only, as its first point was. Metrics that
//! only others than OpenTSDB's clients have written have floats.
//!
//! Holds always:
//! - What is expected of a sample never changes: the order in which points come does not matter.
//! - The form of a sample is part of it, in place of a start timestamp. The last write counts.
//! - A point that is as expected costs nothing.
//!
//! Earlier versions kept what was not as expected in the catalog, by series and time. Those records
//! are read, as what is expected of their series, and no more are written.

mod recorded;
mod registry;
mod store;

pub(crate) use registry::Numbers;
pub(crate) use store::NumberStore;
