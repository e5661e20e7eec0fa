//! The types that every crate of Icecore shares, and the traits that connect them.
//!
//! ```text
//! wire ────(SampleSink)──► storage ──(SeriesSource)──► promql, server
//! scrape ──(SampleStore)──────┘
//! ```
//!
//! Holds always:
//! - A label set is sorted by name, has no empty value and no name twice.
//! - Timestamps are milliseconds since the UNIX epoch, UTC.
//! - Nothing here knows bytes on disk, HTTP or an async runtime.

mod catalog;
mod clock;
mod duration;
pub mod event;
mod exemplar;
mod float_histogram;
mod go_float;
mod guarded_clock;
mod histogram;
mod implied;
mod kahan;
mod labels;
mod matcher;
mod memory;
mod metadata;
mod metrics;
mod number_form;
mod quote;
mod raw_labels;
pub mod retention;
pub mod rollup;
mod sample;
mod sink;
mod source;
mod time;
mod time_column;
pub mod varint;
mod write;

pub use catalog::{Catalog, CatalogChange, CatalogRecord};
pub use clock::{Clock, ManualClock, SystemClock};
pub use duration::{DurationError, MAX_DURATION_MS, format_duration_ms, parse_duration_ms};
pub use exemplar::Exemplar;
pub use float_histogram::{
    AddOutcome as HistogramAddOutcome, Bucket as HistogramBucket,
    CompensatedSum as CompensatedHistogram, FloatHistogram, HistogramOpError,
};
pub use go_float::{go_float, go_float_of_digits, go_plain_float};
pub use guarded_clock::GuardedClock;
pub use histogram::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramAddError, HistogramCounts,
    HistogramError, MAX_HISTOGRAM_BUCKETS, Span,
};
pub use implied::{GROUP_BY, ImpliedMatchers, ROLLUP_LABEL};
pub use kahan::kahan_add;
pub use labels::{Labels, LabelsBuilder, METRIC_NAME};
pub use matcher::{
    AnchoredRegex, ExpansionTooLong, MAX_PATTERN_BYTES, MatchOp, Matcher, MatcherBudget,
    MatcherError, ValueLookup,
};
pub use memory::{MemoryBudget, OutOfMemory, Reservation};
pub use metadata::{Metadata, MetricType, Temporality};
pub use metrics::{Counter, DURATION_BOUNDS, Durations};
pub use number_form::{FormRun, NumberForm, NumberForms};
pub use raw_labels::{RawLabels, RawLabelsError, push_raw_label};
pub use sample::{STALE_NAN_BITS, Sample, is_stale_nan};
pub use sink::SampleSink;
pub use source::{
    BoxFuture, Evaluations, FloatColumns, HistogramSample, Levels, RolledSamples, RolledTime,
    SelectHints, Selection, SeriesSamples, SeriesSource, SeriesStream, SourceError,
};
pub use time::{BucketSize, BucketStart, HOUR_MS, MAX_TIMESTAMP_MS, MINUTE_MS};
pub use time_column::{TimeColumn, TimeColumnIdentity};
pub use write::{
    AppendError, Commit, Discard, Fill, PendingWrite, RefusedPoint, Rejection, SampleStore,
    StoreError, WriteOutcome,
};
