//! Time whose points were rolled up: windows are downsampled as their points would be.
//!
//! ```text
//! interval, function, rollupUsage ─► RolledTime: levels, columns ─► store
//! points and windows ─► Runs, in time order ─► buckets ─► WindowFold ─► downsampled points
//! ```
//!
//! Holds always:
//! - A window is one thing at the time of its start: it is never cut. Where an interval is no
//!   multiple of the windows, the interval is made longer, and the answer says so.
//! - What was a point for the store is one here: stale markers are none.

mod choice;
mod downsample;
mod points;
mod report;
mod runs;

pub(crate) use choice::{Alignment, rolled_time};
pub(crate) use downsample::{RolledBuckets, RolledKey};
pub(crate) use points::{REDUCED_FIELDS, RolledPoints, reduced};
pub(crate) use report::RolledReport;
