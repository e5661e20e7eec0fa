//! Federation: the latest samples of series, as a Prometheus that scrapes us reads them.
//!
//! ```text
//! Accept ─► FederateFormat        samples in the order of their names ─► FederateWriter ─► bytes
//! ```
//!
//! Holds always, as in Prometheus:
//! - Every series carries a timestamp and, where it has none of its own, an empty label `instance`,
//!   so that the scraper does not put its own there.
//! - Native histograms have no form in text and are left out of it.
//!
//! More than Prometheus: counters and gauges have their type where metadata has it. Histograms and
//! summaries are not: their series are spread over several names, and half a family is no valid
//! one.

mod format;
mod protobuf;
mod text;

pub use format::{Escaping, FederateFormat};

use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, Labels, METRIC_NAME, MetricType,
};

const INSTANCE: &str = "instance";

/// The latest value of a series.
#[derive(Clone, Copy, Debug)]
pub enum FederatedValue<'a> {
    Float(f64),
    Histogram(&'a Histogram),
}

/// What the samples of one family have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Untyped,
    Histogram,
    GaugeHistogram,
}

impl Kind {
    fn of(value: FederatedValue<'_>, metric_type: MetricType) -> Self {
        match value {
            FederatedValue::Histogram(histogram) => match histogram.reset_hint {
                CounterResetHint::Gauge => Self::GaugeHistogram,
                _ => Self::Histogram,
            },
            FederatedValue::Float(_) => match metric_type {
                MetricType::Counter => Self::Counter,
                MetricType::Gauge | MetricType::Info | MetricType::StateSet => Self::Gauge,
                _ => Self::Untyped,
            },
        }
    }
}

/// Writes samples one after the other. Those of one metric form a family if they are adjacent.
pub struct FederateWriter {
    format: FederateFormat,
    out: Vec<u8>,
    /// Name and kind of the family that is being written.
    family: Option<(String, Kind)>,
    /// The metrics of that family, which the protobuf form can only write as a whole.
    metrics: Vec<u8>,
}

impl FederateWriter {
    pub fn new(format: FederateFormat) -> Self {
        Self {
            format,
            out: Vec::new(),
            family: None,
            metrics: Vec::new(),
        }
    }

    /// Writes one sample. A series without a name is left out, as is a histogram that the format
    /// has no form for.
    pub fn sample(
        &mut self,
        labels: &Labels,
        timestamp_ms: i64,
        value: FederatedValue<'_>,
        metric_type: MetricType,
    ) {
        let name = labels.metric_name();
        if name.is_empty() || !self.is_supported(value) {
            return;
        }
        let kind = Kind::of(value, metric_type);
        let same = |(family, of): &(String, Kind)| family == name && *of == kind;
        if !self.family.as_ref().is_some_and(same) {
            self.begin_family(name, kind);
        }
        let escaping = self.format.escaping;
        let pairs = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
        let missing = labels.get(INSTANCE).is_none().then_some((INSTANCE, ""));
        let labels = pairs
            .chain(missing)
            .map(|(name, value)| (escaping.escape(name), value));
        match value {
            FederatedValue::Float(value) if self.format.is_text => {
                text::push_sample(
                    &mut self.out,
                    &escaping.escape(name),
                    labels,
                    value,
                    timestamp_ms,
                );
            }
            _ => protobuf::push_metric(&mut self.metrics, labels, timestamp_ms, value, kind),
        }
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.end_family();
        self.out
    }

    fn is_supported(&self, value: FederatedValue<'_>) -> bool {
        match value {
            FederatedValue::Float(_) => true,
            // Protobuf has no place for custom bounds.
            FederatedValue::Histogram(histogram) => {
                !self.format.is_text && histogram.schema != CUSTOM_BUCKETS_SCHEMA
            }
        }
    }

    fn begin_family(&mut self, name: &str, kind: Kind) {
        self.end_family();
        if self.format.is_text {
            text::push_type(&mut self.out, &self.format.escaping.escape(name), kind);
        }
        self.family = Some((name.into(), kind));
    }

    fn end_family(&mut self) {
        let Some((name, kind)) = self.family.take() else {
            return;
        };
        if !self.format.is_text {
            let name = self.format.escaping.escape(&name);
            protobuf::push_family(&mut self.out, &name, kind, &self.metrics);
            self.metrics.clear();
        }
    }
}

#[cfg(test)]
mod tests;
