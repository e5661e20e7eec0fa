mod batches;
mod clean;
mod coarsen;
mod commit;
mod fold;
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
pub(crate) use fold::Folded;
pub(crate) use fold::{fold, load_dirty};
pub(crate) use mend::mend;
#[cfg(feature = "testing")]
pub(crate) use mend::mend_until;
