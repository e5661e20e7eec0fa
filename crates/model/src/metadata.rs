//! Metric metadata: type, unit, help and temporality.

use std::fmt;

/// The metric types of the Prometheus data model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricType {
    #[default]
    Unknown,
    Counter,
    Gauge,
    Histogram,
    GaugeHistogram,
    Summary,
    Info,
    StateSet,
}

impl MetricType {
    pub const ALL: [MetricType; 8] = [
        Self::Unknown,
        Self::Counter,
        Self::Gauge,
        Self::Histogram,
        Self::GaugeHistogram,
        Self::Summary,
        Self::Info,
        Self::StateSet,
    ];

    /// The number remote write uses, and the one stored in the catalog.
    pub fn number(self) -> u8 {
        self as u8
    }

    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The word Prometheus uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
        }
    }
}

impl fmt::Display for MetricType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the points of a metric relate to each other. Only OpenTelemetry sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Temporality {
    #[default]
    Unspecified,
    /// A point is the total since the start.
    Cumulative,
    /// A point is the change since the point before. It is stored as a running total all the same.
    Delta,
}

/// Type, unit and help of one metric family. It describes series and is not part of their identity:
/// the last one sent counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub metric_type: MetricType,
    pub unit: String,
    pub help: String,
    /// As it was sent; unspecified where the protocol does not say.
    pub temporality: Temporality,
    /// Whether an OpenTelemetry sum only grows. Other types and protocols leave it false.
    pub monotonic: bool,
}
