//! What is known of services and their events, ready to be used: every check was made when the
//! documents were read.
//!
//! ```text
//! YAML, JSON, tar ─► document: typed, with positions ─► update: checks, numbers ─► Registry
//!                                                                                  │
//!                                        records of the catalog, YAML, JSON ◄──────┘
//! ```
//!
//! Holds always:
//! - A number is never given to another service, type or metric: stored keys have it.
//! - A change makes a new registry with a greater version, or changes nothing.

mod archive;
mod built_in;
mod check;
mod compatible;
mod document;
mod lookup;
mod names;
mod render;
mod store;
mod suggest;
mod update;
mod warnings;
mod yaml_out;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::event::{EventWindow, Reducer};

pub use document::Documents;
pub use names::{label_of, series_of};
pub use store::registry_keys;
pub use suggest::suggest;
pub use update::UpdateOptions;

/// The counter that every type has; its dimension is the outcome of the event, which is no
/// attribute.
pub const STORED_EVENTS: &str = "events_stored_total";

/// All services. A change makes a new one with a greater version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    pub version: u64,
    pub services: BTreeMap<String, Arc<Service>>,
    pub next: NextNumbers,
}

/// The numbers that are given next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextNumbers {
    pub service: u32,
    pub event_type: u32,
    pub metric: u32,
}

impl Default for NextNumbers {
    fn default() -> Self {
        Self {
            service: 1,
            event_type: 1,
            metric: 1,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Never given to another service: stored keys have it.
    pub number: u32,
    pub types: BTreeMap<String, Arc<EventType>>,
    pub states: Vec<StateExtractor>,
    /// There as soon as states are followed.
    pub state_metrics: Option<StateMetrics>,
}

/// What is kept of the states of a service's objects.
#[derive(Clone, Debug, PartialEq)]
pub struct StateMetrics {
    /// A gauge by `object_type`, `attribute`, `state`.
    pub counts: Arc<Metric>,
    /// A counter by `object_type`, `attribute`, `from`, `to`.
    pub transitions: Arc<Metric>,
}

/// One type of event of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct EventType {
    /// Never given to another type: stored keys have it.
    pub number: u32,
    pub service: String,
    pub name: String,
    /// For people.
    pub display_name: Option<String>,
    /// For people.
    pub labels: BTreeMap<String, String>,
    pub retention: Duration,
    /// Declared attributes, sorted by path.
    pub fields: Vec<Field>,
    /// Paths that are declared as objects, sorted: no attribute may be there.
    pub objects: Vec<String>,
    /// Indexed paths in the order in which they are hashed.
    pub dimensions: Vec<String>,
    pub masking: Vec<MaskRule>,
    /// The built-in counter comes first, others follow by name.
    pub metrics: Vec<Arc<Metric>>,
    /// Metrics that a change has put others in place of. Their cells stay readable.
    pub retired: Vec<Arc<Metric>>,
}

/// A declared attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub path: String,
    pub kind: FieldType,
    pub required: bool,
    pub indexed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    String,
    Integer,
    Number,
    Boolean,
    Timestamp,
    /// A list of values of one scalar type.
    ArrayOfString,
    ArrayOfInteger,
    ArrayOfNumber,
    ArrayOfBoolean,
    ArrayOfTimestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskRule {
    /// A leaf, or an object with everything in it.
    pub path: String,
    pub mask: Mask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    Drop,
    Hash,
}

/// A counter, histogram or gauge of one type of event.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Never given to another metric: stored keys have it. New bounds make a new metric.
    pub number: u32,
    pub name: String,
    /// The name as series have it, without a suffix of its kind.
    pub series: String,
    /// Made by the registry and not by a document: its dimensions are no attributes.
    pub built_in: bool,
    pub dimensions: Vec<Dimension>,
    pub on_missing: OnMissing,
    /// All must hold for an event to count.
    pub filters: Vec<Filter>,
    pub fold: Option<Fold>,
    /// The finest window that is kept; all coarser ones are kept, too.
    pub base: EventWindow,
    pub retention: WindowRetention,
    pub kind: MetricKind,
}

/// How long cells are kept, for each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRetention([Duration; 5]);

impl WindowRetention {
    pub fn all(retention: Duration) -> Self {
        Self([retention; 5])
    }

    pub fn of(&self, window: EventWindow) -> Duration {
        self.0[usize::from(window.number()) - 1]
    }

    pub fn set(&mut self, window: EventWindow, retention: Duration) {
        self.0[usize::from(window.number()) - 1] = retention;
    }
}

impl Default for WindowRetention {
    fn default() -> Self {
        let days = [7, 30, 400, 1830, 1830];
        Self(days.map(|days| Duration::from_secs(days * 86_400)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub path: String,
    /// The label of its series.
    pub label: String,
}

/// What becomes of an event without one of a metric's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// It does not count for this metric.
    Skip,
    /// It counts without that dimension.
    Empty,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    pub path: String,
    pub comparison: Comparison,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    Equal(crate::Scalar<'static>),
    NotEqual(crate::Scalar<'static>),
    Greater(f64),
    GreaterOrEqual(f64),
    Less(f64),
    LessOrEqual(f64),
    In(Vec<crate::Scalar<'static>>),
}

/// An attribute that is made from a number: the output of the first rule whose range has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    pub source: String,
    pub target: String,
    pub rules: Vec<FoldRule>,
}

/// From `from`, below `below`.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldRule {
    pub from: Option<f64>,
    pub below: Option<f64>,
    pub output: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MetricKind {
    /// Counts events, or adds up an attribute of them.
    Counter { sum_of: Option<String> },
    Histogram {
        /// The duration of the event in milliseconds, if none.
        value: Option<String>,
        bounds: Bounds,
        sketch: Option<Sketch>,
        percentiles: Vec<f64>,
    },
    Gauge {
        value: String,
        reducer: Reducer,
        /// The start of the event, if none.
        observed_at: Option<String>,
    },
}

/// Inclusive upper bounds, growing; a bucket without a bound follows.
pub type Bounds = Arc<[f64]>;

/// Buckets whose bounds grow by (1 + a) / (1 - a).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sketch {
    pub relative_accuracy: f64,
}

/// Follows the states of objects through the events of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateExtractor {
    pub event_type: String,
    pub object_type: String,
    pub object_id: String,
    pub attributes: Vec<String>,
    pub previous: PreviousStates,
}

/// Which earlier states a transition is counted from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviousStates {
    Latest,
    /// The latest, and these if the object ever had them.
    Additional(Vec<String>),
    /// These alone; `?` is the latest, `*` all earlier ones.
    Only(Vec<String>),
}

#[cfg(test)]
mod tests;
