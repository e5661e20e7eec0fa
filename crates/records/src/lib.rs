//! Stored keys and values, byte by byte, and how values merge. Pure: no clock, no I/O, no SlateDB.
//!
//! ```text
//! model values ─► key + value ─► storage ─► bytes ─► decode ─► model values
//!                                  └─ merge(key, operands), during flush, compaction and reads
//! ```
//!
//! Holds always:
//! - Same input, same bytes: repeating a flush changes nothing.
//! - The byte order of keys is the logical order of what they name.
//! - Decoding ends in a value or a [`DecodeError`], never in a panic, and takes memory in
//!   proportion to the input.
//! - The merge operator is associative and total.
//!
//! The format is written down for other implementations in `docs/storage-format.md` and pinned by
//! the golden bytes in `tests/`.

mod bucket;
pub mod bucket_list;
pub mod bucket_meta;
pub mod coarse_samples;
pub mod columns;
mod container;
pub mod delta_totals;
pub mod epoch_summary;
mod error;
pub mod event_cell;
pub mod event_identity;
pub mod exemplar_series;
pub mod flush_cursor;
pub mod flush_mark;
pub mod forward_index;
pub mod gorilla;
mod histogram;
mod histogram_columns;
pub mod histogram_series;
pub mod inverted_index;
pub mod journal;
pub mod key;
pub mod maintenance_job;
pub mod merge;
pub mod metadata;
mod reader;
mod record_type;
pub mod restore_mark;
pub mod retention_state;
pub mod retired_bucket;
pub mod rollup_histograms;
pub mod rollup_series;
pub mod series_dictionary;
pub mod start_timestamps;
pub mod tombstones;
mod union;
pub mod watermark;

pub use bucket::{Bucket, SeriesId};
pub use bucket_meta::{BucketMeta, BucketState};
pub use error::DecodeError;
pub use forward_index::{ForwardRecord, MetricMeta, StoredType, Temporality};
pub use histogram_series::HistogramEntry;
pub use key::ParsedKey;
pub use merge::merge;
pub use record_type::RecordType;
pub use retention_state::RetentionState;
