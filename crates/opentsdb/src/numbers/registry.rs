//! Expected forms of the numbers of all series.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{
    Catalog, Labels, METRIC_NAME, NumberForm, NumberForms, ROLLUP_LABEL, RawLabels, StoreError,
    push_raw_label,
};
use xxhash_rust::xxh3::xxh3_128;

use super::recorded::{Mode, SeriesKey, SeriesRecords, parse};
use crate::catalog_key;
use crate::rollup::{base_metric, base_of};
use crate::uid::{UidKind, UidSpace, Uids};

/// The forms of numbers that have none stored with them.
pub(crate) struct Numbers {
    /// Records of earlier versions; none are added.
    recorded: HashMap<SeriesKey, SeriesRecords>,
    uids: Arc<Uids>,
}

/// The expectation of one series.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected<'n> {
    Mode(Mode),
    Recorded(&'n SeriesRecords),
}

impl Expected<'_> {
    /// Returns the form of a number that has none stored with it.
    pub(super) fn form(self, timestamp_ms: i64, value: f64) -> NumberForm {
        match self {
            Self::Mode(mode) => mode.form(value),
            Self::Recorded(records) => records.form(timestamp_ms, value),
        }
    }
}

impl Numbers {
    /// Reads all records of earlier versions.
    pub(crate) async fn load(catalog: &dyn Catalog, uids: Arc<Uids>) -> Result<Self, StoreError> {
        let records = catalog.range(catalog_key::numbers(), usize::MAX).await?;
        let mut recorded: HashMap<SeriesKey, SeriesRecords> = HashMap::new();
        for (key, value) in records {
            let (series_key, timestamp_ms, record) = parse(&key, &value)
                .ok_or_else(|| StoreError(format!("cannot read form of numbers: {key:02x?}")))?;
            let series = recorded.entry(series_key).or_default();
            series.add(timestamp_ms, record);
        }
        Ok(Self { recorded, uids })
    }

    /// Returns the expectation of a series that a point is written to. Its labels are in the order
    /// of their names.
    pub(super) fn expected(&self, labels: &[u8]) -> Expected<'_> {
        if let Some(records) = self.records(|| xxh3_128(labels)) {
            return Expected::Recorded(records);
        }
        let metrics = self.uids.read(UidKind::Metric);
        if !metrics.has_float_metrics() {
            return Expected::Mode(Mode::Natural);
        }
        let mut pairs = Vec::new();
        // Labels that cannot be read are refused by the store.
        let _ = RawLabels(labels).parse(&mut pairs);
        let value_of = |name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1);
        let metric = value_of(METRIC_NAME).unwrap_or_default();
        let metric = base_of(metric, value_of(ROLLUP_LABEL));
        Expected::Mode(mode_of(&metrics, metric))
    }

    fn records(&self, key: impl FnOnce() -> SeriesKey) -> Option<&SeriesRecords> {
        if self.recorded.is_empty() {
            return None;
        }
        self.recorded.get(&key())
    }

    /// Returns the forms of samples, given in time order. `starts` has those that are stored with
    /// them.
    pub(super) fn forms(
        &self,
        labels: &Labels,
        (times, values): (&[i64], &[f64]),
        starts: &[(i64, i64)],
    ) -> NumberForms {
        let metric = base_metric(labels);
        let mode = {
            let metrics = self.uids.read(UidKind::Metric);
            // Others than OpenTSDB's clients send floats.
            if !metrics.is_written(metric) {
                return NumberForms::default();
            }
            mode_of(&metrics, metric)
        };
        let records = self.records(|| key_of(labels));
        let expected = records.map_or(Expected::Mode(mode), Expected::Recorded);
        let samples = times.iter().copied().zip(values.iter().copied());
        let mut starts = starts.iter().peekable();
        NumberForms::of(samples.map(|(time, value)| {
            while starts.next_if(|start| start.0 < time).is_some() {}
            let start = starts.next_if(|start| start.0 == time);
            let stored = start.and_then(|(_, start_ms)| NumberForm::of_start(*start_ms));
            (time, stored.unwrap_or_else(|| expected.form(time, value)))
        }))
    }
}

/// Returns the mode of a metric.
fn mode_of(metrics: &UidSpace, metric: &str) -> Mode {
    if metrics.is_float_metric(metric) {
        Mode::Floats
    } else {
        Mode::Natural
    }
}

/// Returns the key of the records of a series.
fn key_of(labels: &Labels) -> SeriesKey {
    let mut bytes = Vec::with_capacity(256);
    for (name, value) in labels.iter() {
        push_raw_label(&mut bytes, name, value);
    }
    xxh3_128(&bytes)
}
