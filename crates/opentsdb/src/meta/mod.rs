//! Meta data: what is known of names and series besides their samples.
//!
//! ```text
//! uid/assign, uid/rename ─► names
//! put ─► hook ─► UIDMeta, TSMeta, trees (for series that this process has not seen before)
//! ```

pub(crate) mod hook;
mod names;
mod series_meta;
mod uid_meta;

pub(crate) use names::{assign, rename};
pub(crate) use series_meta::{SeriesMeta, SeriesMetaEdit, SeriesPoints};
pub(crate) use uid_meta::{UidMeta, UidMetaEdit};
