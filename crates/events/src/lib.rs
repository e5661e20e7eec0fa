//! Events: what services publish, and the counters, histograms and gauges that are kept of it.
//!
//! ```text
//! envelope ─► checked and masked by the registry ─► stored event ─► cells of five windows
//! ```

mod attributes;
mod catalog_key;
mod dimension;
mod engine;
pub mod envelope;
mod event_id;
mod files;
pub mod json_text;
mod mask;
mod outcome;
mod prepare;
mod problem;
pub mod query;
mod registry;
pub mod search;
pub mod series;
mod shards;
mod stored_event;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time_text;
mod validate;
mod view_cells;

pub use attributes::{Attributes, Leaf, Scalar, Value};
pub use dimension::{DimensionHasher, dimension_hash, dimension_text};
pub use engine::{
    Applied, BatchOutcome, BlockSummary, CataloguedValue, DeadLetter, DimensionSet, EventFile,
    EventGauges, EventMetrics, EventOptions, Events, EventsView, ListPage, NO_STATE, NotRegistered,
    OVERFLOW, PublishStatus, Published, QuarantineEntry, RejectedItem, ReplayReport,
    RetentionReport, SkipReason, StateCount, TailBlock, Unconfigured,
};
pub use envelope::{BatchItem, Envelope, EventBody, NestedEvent, parse_batch, parse_envelope};
pub use event_id::{EventIdSource, event_id_text, nested_event_id, parse_event_id};
pub use files::{FileBytes, FileFormat, FileRows, FileScan, FileSize, FileWriter, ReadBytes};
pub use mask::MaskingKey;
pub use prepare::{
    PrepareContext, Prepared, PreparedEvent, PreparedFamily, UnconfiguredEvent, UnconfiguredReason,
    prepare,
};
pub use problem::Problem;
pub use registry::{
    Bounds, Comparison, Dimension, Documents, EventType, Field, FieldType, Filter, Fold, FoldRule,
    Mask, MaskRule, Metric, MetricKind, NextNumbers, OnMissing, PreviousStates, Registry,
    STORED_EVENTS, Service, Sketch, StateExtractor, StateMetrics, UpdateOptions, WindowRetention,
    label_of, registry_keys, series_of, suggest,
};
pub use shards::{AllEvents, EventSource, SHARDS_MAX};
pub use stored_event::{
    BlockError, EventBlock, EventKind, StoredEvent, decode_events, encode_events,
};
