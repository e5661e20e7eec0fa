//! `/api/v1/status/self_metrics`: the metrics of this process as JSON.
//!
//! ```text
//! /metrics ─► wire::exposition ─► families ─► by name ─► JSON of the protobuf form
//! ```
//!
//! Holds always: the JSON is what Prometheus makes of its own metrics, `protojson` of
//! `io.prometheus.client.MetricFamily`: counts are texts, and NaN and infinity are words.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use icecore_model::{MatchOp, Matcher, MatcherBudget, MetricType};
use icecore_wire::exposition::{Entry, Format, Parser, SeriesValue};
use serde_json::{Value, json};

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::success;
use crate::middleware::params::Params;
use crate::status::metrics;

const METRIC_NAME: &str = "__name__";
const BUCKET_BOUND: &str = "le";

type Pairs = Vec<(String, String)>;

pub(crate) async fn status(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let database = app.database()?.clone();
    let slot = app.limits.read_slot().await?;
    let pattern = params.first("metric_name_pattern");
    let pattern = pattern.map(pattern_of).transpose()?;
    success(slot, Vec::new(), move |out| {
        let page = metrics::render(&database, &app);
        let mut families = read(&page);
        if let Some(pattern) = pattern {
            families.retain(|family| pattern.matches(&family.name));
        }
        families.sort_by(|a, b| a.name.cmp(&b.name));
        let families: Value = families.iter().map(Family::json).collect();
        out.extend_from_slice(families.to_string().as_bytes());
    })
    .await
}

fn pattern_of(pattern: &str) -> Result<Matcher, ApiError> {
    let mut budget = MatcherBudget::default();
    let matcher = budget.matcher(MatchOp::Regex, METRIC_NAME, pattern);
    matcher.map_err(|error| ApiError::bad_data(format!("invalid metric_name_pattern: {error}")))
}

/// A family of metrics.
#[derive(Debug, Default)]
struct Family {
    name: String,
    help: String,
    metric_type: MetricType,
    metrics: Vec<Metric>,
}

/// The samples of a family that have the same labels.
#[derive(Debug, Default)]
struct Metric {
    labels: Pairs,
    value: f64,
    /// Of histograms: upper bounds without infinity, and the observations up to each.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

/// The families of a page that this process has written.
fn read(page: &[u8]) -> Vec<Family> {
    let mut parser = Parser::new(page, Format::Text004);
    let mut families: Vec<Family> = Vec::new();
    let mut help = (String::new(), String::new());
    // A page of our own has no errors, and its families come one after the other.
    while let Ok(Some(entry)) = parser.next() {
        match entry {
            Entry::Help { family, text } => help = (family.into_owned(), text.into_owned()),
            Entry::Type {
                family,
                metric_type,
            } => {
                let (of, text) = std::mem::take(&mut help);
                families.push(Family {
                    help: if of == family { text } else { String::new() },
                    name: family.into_owned(),
                    metric_type,
                    metrics: Vec::new(),
                });
            }
            Entry::Series(series) => {
                let mut pairs = Vec::new();
                let labels = series.labels(&mut pairs);
                if let (Ok(()), SeriesValue::Float(value), Some(family)) =
                    (labels, &series.value, families.last_mut())
                {
                    let pairs = pairs.into_iter();
                    let pairs = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
                    family.add(pairs.collect(), *value);
                }
            }
            Entry::Unit { .. } => {}
        }
    }
    families
}

impl Family {
    fn add(&mut self, mut labels: Pairs, value: f64) {
        let mut take = |wanted: &str| {
            let place = labels.iter().position(|(name, _)| name == wanted)?;
            Some(labels.remove(place).1)
        };
        let name = take(METRIC_NAME).unwrap_or_default();
        if self.metric_type != MetricType::Histogram {
            self.metrics.push(Metric {
                labels,
                value,
                ..Metric::default()
            });
            return;
        }
        let bound = take(BUCKET_BOUND).and_then(|bound| bound.parse::<f64>().ok());
        // The samples of one histogram follow each other.
        if self.metrics.last().is_none_or(|last| last.labels != labels) {
            self.metrics.push(Metric {
                labels,
                ..Metric::default()
            });
        }
        let Some(metric) = self.metrics.last_mut() else {
            return;
        };
        match (name.strip_prefix(&self.name), bound) {
            (Some("_bucket"), Some(bound)) if bound.is_finite() => {
                metric.buckets.push((bound, value));
            }
            (Some("_sum"), _) => metric.sum = value,
            (Some("_count"), _) => metric.count = value,
            _ => {}
        }
    }

    fn json(&self) -> Value {
        let (type_name, key) = match self.metric_type {
            MetricType::Counter => ("COUNTER", "counter"),
            MetricType::Histogram => ("HISTOGRAM", "histogram"),
            MetricType::Gauge => ("GAUGE", "gauge"),
            _ => ("UNTYPED", "untyped"),
        };
        let metrics = self.metrics.iter().map(|metric| {
            let value = match self.metric_type {
                MetricType::Histogram => metric.histogram_json(),
                _ => json!({"value": number(metric.value)}),
            };
            let mut json = json!({});
            json[key] = value;
            if !metric.labels.is_empty() {
                let labels = metric.labels.iter();
                json["label"] = labels
                    .map(|(name, value)| json!({"name": name, "value": value}))
                    .collect();
            }
            json
        });
        json!({
            "name": self.name,
            "help": self.help,
            "type": type_name,
            "metric": metrics.collect::<Vec<Value>>(),
        })
    }
}

impl Metric {
    fn histogram_json(&self) -> Value {
        let buckets = self.buckets.iter().map(|(bound, count)| {
            json!({"cumulativeCount": whole(*count), "upperBound": number(*bound)})
        });
        json!({
            "sampleCount": whole(self.count),
            "sampleSum": number(self.sum),
            "bucket": buckets.collect::<Vec<Value>>(),
        })
    }
}

/// A count, as text: it has 64 bits, of which JavaScript would lose some.
fn whole(count: f64) -> String {
    format!("{}", count as u64)
}

fn number(value: f64) -> Value {
    if value.is_nan() {
        "NaN".into()
    } else if value == f64::INFINITY {
        "Infinity".into()
    } else if value == f64::NEG_INFINITY {
        "-Infinity".into()
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_those_of_the_page() {
        let page = b"# HELP a Help.\n# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} NaN\n\
            # HELP h Times.\n# TYPE h histogram\n\
            h_bucket{r=\"q\",le=\"0.5\"} 1\nh_bucket{r=\"q\",le=\"+Inf\"} 3\n\
            h_sum{r=\"q\"} 4.5\nh_count{r=\"q\"} 3\n";
        let families: Value = read(page).iter().map(Family::json).collect();
        let expected = json!([
            {"name": "a", "help": "Help.", "type": "COUNTER", "metric": [
                {"label": [{"name": "x", "value": "1"}], "counter": {"value": 2.0}},
                {"label": [{"name": "x", "value": "2"}], "counter": {"value": "NaN"}},
            ]},
            {"name": "h", "help": "Times.", "type": "HISTOGRAM", "metric": [
                {"label": [{"name": "r", "value": "q"}], "histogram": {
                    "sampleCount": "3",
                    "sampleSum": 4.5,
                    "bucket": [{"cumulativeCount": "1", "upperBound": 0.5}],
                }},
            ]},
        ]);
        assert_eq!(families, expected);
    }
}
