//! Rolled-up samples: what is kept of a window of time when its samples go.
//!
//! ```text
//!     w                                  w+ρ
//!     │ edge │ interior: w < t < w+ρ      │ edge of the next window
//! ```
//!
//! The sample at exactly the start of a window, its edge, is kept apart. So the same windows answer
//! ranges that are open on the left (PromQL) and ranges that are open on the right (OpenTSDB).
//!
//! Holds always:
//! - First and last sample of an aggregate are real, with their times.
//! - Windows merge exactly, in time order, any number of times: a coarser level is made of the next
//!   finer one, and equals what the samples themselves would have given.

mod aggregate;
mod append;
mod bucket_size;
mod columns;
mod ends;
mod histogram;
mod late;
#[cfg(test)]
mod properties;
mod resolution;
mod room;
mod window;

pub use aggregate::Aggregate;
pub use append::{JoinedWindows, make_whole};
pub use bucket_size::{rolled_size, rolled_sizes};
pub use columns::{Segment, WindowColumns, WindowFields};
pub use ends::{last_histogram_positions, last_positions, unite_ends};
pub use histogram::{
    HistogramAggregate, HistogramEdge, HistogramWindow, roll_up_histogram_windows,
    roll_up_histograms,
};
pub use late::SeriesWindows;
pub use resolution::{OffGrid, Permission, Resolution, RollupChoice};
pub use room::WindowRoom;
pub use window::{Edge, Window, WindowBuilder, roll_up, roll_up_windows};
