//! One way to rewrite buckets: the records of sources, series by series, become those of a target.
//!
//! ```text
//! sources ─► series map ─► batches of series ─► unite ─► encode, decode, compare ─► put ─► commit
//!
//! coarsen     buckets of a window ─► one larger bucket      job record, resumed where it was cut
//!             of samples, or with the same windows
//! roll up     samples, or finer windows ─► windows          the same, and the sources stay
//! remnant     some series of a window ─► their samples      the same, and the rest is culled
//! repair      a bucket inside another ─► the larger one     in place, under a hold
//! merge late  overlays ─► windows whose sources are gone   in place, under a hold
//! fold        late parts of records ─► their columns        in place, step by step
//! clean       records ─► without what was deleted           in place, step by step
//! ```
//!
//! Holds always:
//! - Everything is put and depends on the sources alone, so a repeat ends in the same bytes.
//! - What is encoded is decoded again and compared before it is written (`crate::buckets::encode`).
//! - Flushes do not come between what is read and what is written of it: a hold on the window, or
//!   the flush lock for one step (`in_place`).
//! - Each job yields and is paced by its [`Watch`](super::pace::Watch).

mod batches;
mod clean;
mod coarsen;
mod coarsen_windows;
mod commit;
mod empty;
mod fold;
mod hold;
mod in_place;
mod index;
mod job;
mod merge_late;
mod phases;
mod recompute;
mod remnant;
mod repair;
mod roll_up;
mod samples;
mod series;
mod series_map;
mod sources;
mod verify;
mod windows;
mod write_limit;
mod writer;

pub(crate) use clean::{clean_all, clean_bucket};
pub(crate) use coarsen::coarsen;
#[cfg(feature = "testing")]
pub(crate) use coarsen::coarsen_until;
pub(crate) use coarsen_windows::coarsen_windows;
#[cfg(feature = "testing")]
pub(crate) use coarsen_windows::coarsen_windows_until;
#[cfg(feature = "testing")]
pub(crate) use fold::FoldOutcome;
pub(crate) use fold::{fold, load_dirty};
#[cfg(not(feature = "testing"))]
pub(crate) use job::Outcome;
#[cfg(feature = "testing")]
pub use job::Outcome;
pub(crate) use job::stored_job;
pub(crate) use merge_late::merge_late;
#[cfg(feature = "testing")]
pub(crate) use merge_late::merge_late_until;
pub(crate) use recompute::{WindowComparison, compare_windows};
pub(crate) use remnant::build_remnant;
#[cfg(feature = "testing")]
pub(crate) use remnant::build_remnant_until;
pub(crate) use repair::repair;
#[cfg(feature = "testing")]
pub(crate) use repair::repair_until;
pub(crate) use roll_up::roll_up;
#[cfg(feature = "testing")]
pub(crate) use roll_up::roll_up_until;
