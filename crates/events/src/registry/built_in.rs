//! Metrics that the registry makes itself: of every type, and of the states of every service.

use std::sync::Arc;

use icecore_model::event::{EventWindow, Reducer};

use super::names::{STATE_COUNT, STATE_TRANSITIONS};
use super::{
    Dimension, Metric, MetricKind, OnMissing, STORED_EVENTS, StateMetrics, WindowRetention,
};

/// The counter that every type has.
pub(super) fn stored_events(number: u32) -> Metric {
    let kind = MetricKind::Counter { sum_of: None };
    let base = EventWindow::FiveSeconds;
    let retention = WindowRetention::default();
    built_in(number, STORED_EVENTS, &["outcome"], base, retention, kind)
}

impl StateMetrics {
    pub(super) fn new(counts: u32, transitions: u32, kept: WindowRetention) -> Self {
        let gauge = MetricKind::Gauge {
            value: "count".into(),
            reducer: Reducer::Latest,
            observed_at: None,
        };
        let counter = MetricKind::Counter { sum_of: None };
        let of_counts = ["object_type", "attribute", "state"];
        let of_transitions = ["object_type", "attribute", "from", "to"];
        // Counts are looked at once a minute.
        let (minute, fine) = (EventWindow::Minute, EventWindow::FiveSeconds);
        let counts = built_in(counts, STATE_COUNT, &of_counts, minute, kept, gauge);
        let name = STATE_TRANSITIONS;
        let transitions = built_in(transitions, name, &of_transitions, fine, kept, counter);
        Self {
            counts: Arc::new(counts),
            transitions: Arc::new(transitions),
        }
    }

    /// Keeps cells of both metrics as long as this.
    pub(super) fn keep(&mut self, retention: WindowRetention) {
        Arc::make_mut(&mut self.counts).retention = retention;
        Arc::make_mut(&mut self.transitions).retention = retention;
    }
}

fn built_in(
    number: u32,
    name: &str,
    labels: &[&str],
    base: EventWindow,
    retention: WindowRetention,
    kind: MetricKind,
) -> Metric {
    let dimension = |label: &&str| Dimension {
        path: (*label).into(),
        label: (*label).into(),
    };
    Metric {
        number,
        name: name.into(),
        series: name.into(),
        built_in: true,
        dimensions: labels.iter().map(dimension).collect(),
        on_missing: OnMissing::Empty,
        filters: Vec::new(),
        fold: None,
        base,
        retention,
        kind,
    }
}
