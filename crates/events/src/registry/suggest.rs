//! A first registry out of sample events, for a person to correct.
//!
//! Holds always: what is suggested can be read and passes every check.

mod attributes;
mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use icecore_model::event::{EventWindow, Reducer};

use self::attributes::AttributeStats;
use self::samples::TypeStats;
use super::document::DEFAULT_BOUNDS;
use super::{
    Dimension, EventType, Field, FieldType, Metric, MetricKind, OnMissing, WindowRetention, names,
    render, yaml_out,
};
use crate::Problem;

/// More dimensions make more series than a first look needs.
const COUNTER_DIMENSIONS_MAX: usize = 3;

const RETENTION: Duration = Duration::from_secs(30 * 86_400);

/// Parts of names that values have which go up and down.
const GAUGE_WORDS: [&str; 12] = [
    "level",
    "depth",
    "usage",
    "used",
    "free",
    "temperature",
    "balance",
    "queue",
    "capacity",
    "percent",
    "pending",
    "size",
];

/// Parts of names that people may not want to be stored.
const PERSONAL_WORDS: [&str; 8] = [
    "email", "password", "token", "secret", "phone", "address", "iban", "card",
];

/// Documents for the samples as YAML with comments. Samples are envelopes in JSON: an array, or one
/// on each line.
pub fn suggest(samples: &str) -> Result<String, Problem> {
    let types = samples::read(samples)?;
    let mut documents = Vec::new();
    let mut series_of_service: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for ((service, event), stats) in &types {
        let series = series_of_service.entry(service).or_default();
        let suggestion = Suggestion::of(service, event, stats);
        documents.push(suggestion.event_document());
        for metric in suggestion.metrics(stats, series) {
            let text = yaml_out::document(&render::metric(service, event, &metric));
            documents.push(text);
        }
    }
    Ok(documents.join("---\n"))
}

struct Suggestion<'a> {
    event_type: EventType,
    /// Paths that split metrics well, the one with the fewest values first.
    dimensions: Vec<(&'a str, &'a AttributeStats)>,
    comments: Vec<String>,
}

impl<'a> Suggestion<'a> {
    fn of(service: &str, event: &str, stats: &'a TypeStats) -> Self {
        let mut comments = vec![format!("{} samples of {event}", stats.samples)];
        let mut fields = Vec::new();
        let mut objects = BTreeSet::new();
        let mut dimensions = Vec::new();
        for (path, attribute) in &stats.attributes {
            let Some(kind) = stats.field_type(path) else {
                comments.push(format!(
                    "{path:?} is left out: it has values of several types"
                ));
                continue;
            };
            let is_dimension = attribute.is_dimension(kind);
            let is_id = looks_like_id(path) && kind == FieldType::String;
            if is_dimension && !is_id {
                dimensions.push((path.as_str(), attribute));
            }
            fields.push(Field {
                path: path.clone(),
                kind,
                required: false,
                indexed: is_dimension || is_id,
            });
            let dots = path.match_indices('.');
            objects.extend(dots.map(|(at, _)| path[..at].to_owned()));
            comments.extend(remark(path, kind, is_dimension));
        }
        let in_all = fields.iter().filter(|field| {
            let attribute = stats.attributes.get(&field.path);
            attribute.is_some_and(|attribute| attribute.present == stats.samples)
        });
        let in_all: Vec<&str> = in_all.map(|field| field.path.as_str()).collect();
        if !in_all.is_empty() {
            comments.push(format!("all samples have: {}", in_all.join(", ")));
        }
        dimensions.sort_by_key(|(path, attribute)| (attribute.distinct(), *path));
        let event_type = EventType {
            number: 0,
            service: service.into(),
            name: event.into(),
            display_name: None,
            labels: BTreeMap::new(),
            retention: RETENTION,
            fields,
            objects: objects.into_iter().collect(),
            dimensions: dimensions.iter().map(|(path, _)| (*path).into()).collect(),
            masking: Vec::new(),
            metrics: Vec::new(),
            retired: Vec::new(),
        };
        Self {
            event_type,
            dimensions,
            comments,
        }
    }

    fn event_document(&self) -> String {
        let comments = self.comments.iter().map(|comment| format!("# {comment}\n"));
        let comments: String = comments.collect();
        comments + &yaml_out::document(&render::event(&self.event_type))
    }

    /// A counter, a histogram of durations if there are some, and gauges of what goes up and down.
    fn metrics(&self, stats: &TypeStats, series: &mut BTreeSet<String>) -> Vec<Metric> {
        let event = &self.event_type.name;
        let counter = MetricKind::Counter { sum_of: None };
        let mut metrics = vec![self.metric(event, counter, stats, series)];
        if stats.has_end {
            let durations = MetricKind::Histogram {
                value: None,
                bounds: DEFAULT_BOUNDS.into(),
                sketch: None,
                percentiles: vec![0.5, 0.9, 0.99],
            };
            let name = format!("{event}_duration_ms");
            metrics.push(self.metric(&name, durations, stats, series));
        }
        for field in &self.event_type.fields {
            if is_gauge(field) {
                let gauge = MetricKind::Gauge {
                    value: field.path.clone(),
                    reducer: Reducer::Latest,
                    observed_at: None,
                };
                metrics.push(self.metric(&field.path, gauge, stats, series));
            }
        }
        metrics
    }

    fn metric(
        &self,
        name: &str,
        kind: MetricKind,
        stats: &TypeStats,
        series: &mut BTreeSet<String>,
    ) -> Metric {
        let mut chosen: Vec<Dimension> = Vec::new();
        let mut on_missing = OnMissing::Skip;
        for (path, attribute) in &self.dimensions {
            let label = names::label_of(path);
            let is_taken = chosen.iter().any(|other| other.label == label);
            let is_value = matches!(&kind, MetricKind::Gauge { value, .. } if value == path);
            if chosen.len() == COUNTER_DIMENSIONS_MAX || is_taken || is_value {
                continue;
            }
            if names::check_label(&label).is_err() {
                continue;
            }
            if attribute.present < stats.samples {
                on_missing = OnMissing::Empty;
            }
            let path = (*path).to_owned();
            chosen.push(Dimension { path, label });
        }
        let mut metric = Metric {
            number: 0,
            name: String::new(),
            series: String::new(),
            built_in: false,
            dimensions: chosen,
            on_missing,
            filters: Vec::new(),
            fold: None,
            base: EventWindow::FiveSeconds,
            retention: WindowRetention::default(),
            kind,
        };
        give_name(&mut metric, name, series);
        metric
    }
}

/// Gives a name that no other metric of the service has, nor makes the same series with.
fn give_name(metric: &mut Metric, name: &str, series: &mut BTreeSet<String>) {
    // Room for what is added.
    let stem: String = names::series_of(name).chars().take(150).collect();
    for attempt in 1_u64.. {
        metric.name = if attempt == 1 {
            stem.clone()
        } else {
            format!("{stem}_{attempt}")
        };
        metric.series = names::series_of(&metric.name);
        let mut made = metric.series_names();
        made.push(format!("{}:", metric.series));
        let is_free = |name: &String| !series.contains(name) && !names::is_built_in(name);
        if made.iter().all(is_free) {
            series.extend(made);
            return;
        }
    }
}

fn remark(path: &str, kind: FieldType, is_dimension: bool) -> Option<String> {
    let name = path.to_ascii_lowercase();
    if PERSONAL_WORDS.iter().any(|word| name.contains(word)) {
        return Some(format!(
            "{path} may be personal: `masking` can drop or hash it"
        ));
    }
    let is_number = matches!(kind, FieldType::Integer | FieldType::Number);
    (is_number && !is_dimension)
        .then(|| format!("{path} is a number: a sum, a histogram or a gauge of it may be of use"))
}

fn last_name(path: &str) -> String {
    path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase()
}

fn looks_like_id(path: &str) -> bool {
    let name = last_name(path);
    name == "id" || name.ends_with("_id") || name.ends_with("uuid") || path.ends_with("Id")
}

fn is_gauge(field: &Field) -> bool {
    let is_number = matches!(field.kind, FieldType::Integer | FieldType::Number);
    let name = last_name(&field.path);
    is_number && GAUGE_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests;
