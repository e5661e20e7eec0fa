//! Data of the original, in and out: lines of its text format, and cells of its tables.
//!
//! ```text
//! lines ─► Import ─┬─► lines, some hours at a time ─► put: checked, identified, appended
//! cells ─► Import ─┼─► names: UIDs with the numbers that they have there
//!                  ├─► records: meta data, annotations, trees
//!                  └─► points, some hours at a time
//! series, catalog ─► PointExport, TableExport ─► lines, cells
//! ```
//!
//! Holds always:
//! - A UID keeps its number. Where that number has another name here, or the name another number,
//!   nothing of the request is stored: points would be given to a series that is not theirs. Ids
//!   without points that writers of the original have left behind are counted and passed over.
//! - What a report counts is durable. The same again changes nothing.
//! - What cannot be read is named with its line; it ends the import, or is counted and passed over
//!   where the caller says so.

mod batch;
mod cells;
mod documents;
mod export_points;
mod export_tables;
mod import;
mod lines;
mod mappings;
mod names;
mod records;
mod report;
mod tables;

pub use batch::PartLimits;
pub use export_points::{ExportFormat, PointExport};
pub use export_tables::TableExport;
pub use import::{Import, ImportOptions};
pub use mappings::UidMappings;
pub use report::{Report, Skipped};
pub use tables::{ConfiguredTables, TableLayout, TableNames};
