//! How numbers were written: integers are computed and shown as integers.
//!
//! ```text
//! point ─► NumberSink ─┬─ sample, a float ─► store
//!                      └─ what cannot be told from the float ─► catalog, with the request
//! series ◄─ NumberStore ◄─ samples and forms ◄─ store, Numbers
//! ```
//!
//! Senders write numbers in one of two ways: 5 and 5.5, or 5.0 and 5.5. So a series is *natural*,
//! its whole numbers are integers, or it has *floats* only. Series of metrics that points were
//! written for are natural unless it is said otherwise; all others have floats. What a series says
//! otherwise, from a time on or at one time, are records of the catalog. An integer of more than 53
//! bits is such an exception, too.
//!
//! Holds always:
//! - A point that is as its series is said to be costs no record.
//! - A series has at most [`EXCEPTIONS_MAX`](series::EXCEPTIONS_MAX) exceptions. From then on it is
//!   not said how its numbers were written.

mod registry;
mod series;
mod store;

pub(crate) use registry::Numbers;
pub(crate) use store::NumberStore;
