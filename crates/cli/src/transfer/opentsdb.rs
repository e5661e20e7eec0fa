//! `icecore import opentsdb` and `icecore export opentsdb`.
//!
//! ```text
//! files, directories ─► lines ─────────────┐  1. cells of the UID table, of all inputs
//! HBase's REST gateway ─► scanner ─► cells ┴─ 2. everything else ─► chunks ─► server
//! server ─► slices of time ─► lines or cells, then the tables beside points ─► file
//! ```
//!
//! Holds always: names are stored before the points that need them, wherever in the inputs they
//! are.

mod export;
mod gateway;
mod import;
mod inputs;
mod skips;
mod tables;

pub(crate) use export::OpentsdbExport;
pub(crate) use import::OpentsdbImport;
