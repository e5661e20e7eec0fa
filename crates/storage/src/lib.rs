//! Keeps samples and events: head, journal, buckets on SlateDB, files beside it.
//!
//! ```text
//! write ─► head ─► journal ─► acknowledged         read ◄─ head ∪ buckets, one snapshot
//!            └──── flush ────► buckets ◄──────────────────────┘
//! ```
//!
//! Holds always:
//! - Acknowledged means durable and visible.
//! - One (series, timestamp), one value: the last write wins, on every path.
//! - Everything that can grow has a limit in [`Options`] and a defined answer when it is reached.
//!
//! This is the only crate that knows SlateDB and object stores.

mod buckets;
mod cache;
mod context;
mod database;
mod error;
mod events;
mod failpoint;
mod ingest;
pub mod inspect;
mod maintenance;
mod memory;
mod metrics;
mod options;
mod pause;
mod pool;
mod read;
mod restore;
mod retention;
mod slate;
mod stored;

pub use database::{Commit, Database, Environment, Gauges};
pub use error::{Error, Reason, Result, WriteError};
pub use failpoint::TEST_VARIABLES;
#[cfg(feature = "fail-points")]
pub use failpoint::{FAIL_POINT_VARIABLE, FAIL_POINTS};
pub use icecore_model::{
    Clock, Counter, DURATION_BOUNDS, Durations, ManualClock, Rejection, SystemClock, WriteOutcome,
};
pub use ingest::flush::QuarantinedHour;
pub use ingest::head::WriteBatch;
pub use ingest::journal::ReplayProgress;
pub use maintenance::{
    DeletedBeyond, Deletion, DeletionReport, JobStatus, KeptBackBucket, LevelStatus,
    MaintenanceReport, MaintenanceStatus, RunProgress, SizeCount, SkippedJob,
};
pub use metrics::{JobMetrics, Metrics};
pub use options::{
    Compression, HeadOptions, JournalOptions, Limits, MaintenanceOptions, Options, ReadOptions,
    StoreOptions,
};
pub use read::{
    BucketFigures, BucketRole, Cardinality, ExemplarList, ExemplarQuery, FocusCounts, LabelQuery,
    NamedCount, Ranking, SeriesList,
};
pub use restore::{Restore, RestoreProgress, RestoreReport, restore};
pub use slate::health::{StoreFigures, StoreOperation};
pub use slate::slate_metrics::{SlateMetric, SlateMetricValue};
pub use slate::snapshots::Snapshot;

#[cfg(feature = "testing")]
pub mod testing;
