//! Meta data: what is known of names and series besides their samples.
//!
//! ```text
//! uid/assign, uid/rename ─► names
//! put ─► hook ─► UIDMeta, TSMeta, leaves of trees
//!          └── for series that this process has not seen before, and only if settings ask for it
//! ```
//!
//! Holds always:
//! - Points of known series cost nothing here: how many a series has, and when the last one came,
//!   is asked of the series itself when its meta data is shown.
//! - Meta data of a name belongs to its id, and stays when the name is changed.

pub(crate) mod hook;
mod names;
mod series_meta;
mod tree_sync;
mod uid_meta;

pub(crate) use names::{assign, rename};
pub(crate) use series_meta::{SeriesMeta, SeriesMetaEdit};
pub(crate) use tree_sync::sync_tree;
pub(crate) use uid_meta::{UidMeta, UidMetaEdit};
