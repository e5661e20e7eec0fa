//! One way to rewrite buckets: the records of sources, series by series, become those of a target.
//!
//! ```text
//! sources ─► series map ─► batches of series ─► unite ─► encode, decode, compare ─► put ─► commit
//!
//! coarsen     buckets of a window ─► one larger bucket      job record, resumed where it was cut
//! mend        a bucket inside another ─► the larger one     in place, under a hold
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
mod commit;
mod fold;
mod in_place;
mod index;
mod mend;
mod phases;
mod samples;
mod series;
mod series_map;
mod sources;
mod time_columns;
mod verify;
mod writer;

pub(crate) use clean::{clean_all, clean_bucket};
#[cfg(feature = "testing")]
pub use coarsen::Outcome;
#[cfg(feature = "testing")]
pub(crate) use coarsen::coarsen_until;
pub(crate) use coarsen::{coarsen, stored_job};
#[cfg(feature = "testing")]
pub(crate) use fold::FoldOutcome;
pub(crate) use fold::{fold, load_dirty};
pub(crate) use mend::mend;
#[cfg(feature = "testing")]
pub(crate) use mend::mend_until;
