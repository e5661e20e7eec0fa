//! SlateDB's own counters, in a form that `/metrics` can print.

use std::sync::Arc;

use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue, MetricsRecorder};

/// One metric of SlateDB at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SlateMetric {
    /// Name for Prometheus: `slatedb_` and underscores; counters end in `_total`.
    pub name: String,
    pub help: String,
    pub labels: Vec<(String, String)>,
    pub value: SlateMetricValue,
}

/// The value and with it the kind of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum SlateMetricValue {
    Counter(u64),
    Gauge(i64),
    Histogram {
        /// Upper bound and number of observations up to it, cumulative; the last bound is infinite.
        buckets: Vec<(f64, u64)>,
        sum: f64,
        count: u64,
    },
}

/// Keeps what SlateDB counts.
#[derive(Clone, Default)]
pub(crate) struct SlateMetrics {
    recorder: Arc<DefaultMetricsRecorder>,
}

impl SlateMetrics {
    /// What SlateDB counts into.
    pub(crate) fn recorder(&self) -> Arc<dyn MetricsRecorder> {
        Arc::clone(&self.recorder) as Arc<dyn MetricsRecorder>
    }

    /// One gauge, by the name that SlateDB gives it; 0 while it has none.
    pub(crate) fn level(&self, dotted: &str) -> usize {
        let snapshot = self.recorder.snapshot();
        let found = snapshot.by_name_and_labels(dotted, &[]);
        match found.map(|metric| &metric.value) {
            Some(MetricValue::Gauge(level) | MetricValue::UpDownCounter(level)) => {
                usize::try_from(*level).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// All metrics as they stand, sorted by name and labels so that families are together.
    pub(crate) fn snapshot(&self) -> Vec<SlateMetric> {
        let mut metrics: Vec<SlateMetric> = self
            .recorder
            .snapshot()
            .all()
            .iter()
            .map(|metric| {
                let value = value_of(&metric.value);
                SlateMetric {
                    name: name_of(&metric.name, &value),
                    help: metric.description.clone(),
                    labels: metric.labels.clone(),
                    value,
                }
            })
            .collect();
        metrics.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
        metrics
    }
}

fn name_of(dotted: &str, value: &SlateMetricValue) -> String {
    let mut name: String = dotted
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if !name.starts_with("slatedb_") {
        name.insert_str(0, "slatedb_");
    }
    if matches!(value, SlateMetricValue::Counter(_)) && !name.ends_with("_total") {
        name.push_str("_total");
    }
    name
}

fn value_of(value: &MetricValue) -> SlateMetricValue {
    match value {
        MetricValue::Counter(count) => SlateMetricValue::Counter(*count),
        MetricValue::Gauge(level) | MetricValue::UpDownCounter(level) => {
            SlateMetricValue::Gauge(*level)
        }
        MetricValue::Histogram {
            sum,
            boundaries,
            bucket_counts,
            ..
        } => {
            let bounds = boundaries.iter().copied().chain([f64::INFINITY]);
            let mut seen = 0;
            let buckets = bounds
                .zip(bucket_counts)
                .map(|(bound, observations)| {
                    seen += observations;
                    (bound, seen)
                })
                .collect();
            SlateMetricValue::Histogram {
                buckets,
                sum: *sum,
                // Not SlateDB's own count, which moves apart from the buckets: an answer must not
                // contradict itself.
                count: seen,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_translated() {
        let metrics = SlateMetrics::default();
        let recorder = metrics.recorder();
        recorder
            .register_counter("slatedb.db.write_ops", "writes", &[("op", "put")])
            .increment(3);
        recorder
            .register_gauge("slatedb.db.level", "level", &[])
            .set(-2);
        recorder
            .register_up_down_counter("slatedb.db.open", "open", &[])
            .increment(5);
        let histogram = recorder.register_histogram("slatedb.db.time", "time", &[], &[1.0, 2.0]);
        for value in [0.5, 1.5, 1.6, 9.0] {
            histogram.record(value);
        }

        assert_eq!(metrics.level("slatedb.db.open"), 5);
        assert_eq!(metrics.level("slatedb.db.level"), 0, "below nothing");
        assert_eq!(metrics.level("slatedb.db.unknown"), 0);
        let shown: Vec<(String, SlateMetricValue)> = metrics
            .snapshot()
            .into_iter()
            .map(|metric| (metric.name, metric.value))
            .collect();
        assert_eq!(
            shown,
            [
                ("slatedb_db_level".to_owned(), SlateMetricValue::Gauge(-2)),
                ("slatedb_db_open".to_owned(), SlateMetricValue::Gauge(5)),
                (
                    "slatedb_db_time".to_owned(),
                    SlateMetricValue::Histogram {
                        buckets: vec![(1.0, 1), (2.0, 3), (f64::INFINITY, 4)],
                        sum: 12.6,
                        count: 4,
                    }
                ),
                (
                    "slatedb_db_write_ops_total".to_owned(),
                    SlateMetricValue::Counter(3)
                ),
            ]
        );
    }
}
