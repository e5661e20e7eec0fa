//! What a query came to, in a form that both engines can be brought to.

use std::collections::BTreeMap;

use icecore_promql::{Error, QueryValue, SampleValue};
use serde_json::Value;

/// Values may differ by this part of themselves: sums are made in other orders, and with compensation.
const RELATIVE: f64 = 1e-9;

/// Where large values cancel out, what is left of them differs. Values of the data are below 1e6.
const ABSOLUTE: f64 = 1e-9;

pub(crate) type Points = BTreeMap<i64, f64>;

#[derive(Debug)]
pub(crate) enum Outcome {
    Failed(String),
    Value {
        kind: &'static str,
        /// By their labels as text.
        series: BTreeMap<String, Points>,
        /// The values of an instant vector in the order of the answer.
        in_order: Vec<f64>,
    },
}

impl Outcome {
    pub(crate) fn of_engine(answer: Result<QueryValue, Error>) -> Self {
        let value = match answer {
            Ok(value) => value,
            Err(error) => return Self::Failed(error.to_string()),
        };
        let mut series = BTreeMap::new();
        let mut in_order = Vec::new();
        let kind = match value {
            QueryValue::Scalar { time_ms, value } => {
                series.insert(String::new(), Points::from([(time_ms, value)]));
                "scalar"
            }
            QueryValue::Text { .. } => "string",
            QueryValue::Vector(samples) => {
                for sample in samples {
                    let SampleValue::Float(value) = sample.value else {
                        panic!("there are no histograms in the data");
                    };
                    let labels = labels_text(sample.labels.iter());
                    let before = series.insert(labels, Points::from([(sample.time_ms, value)]));
                    assert!(
                        before.is_none(),
                        "two samples with labels {}",
                        sample.labels
                    );
                    in_order.push(value);
                }
                "vector"
            }
            QueryValue::Matrix(matrix) => {
                for one in matrix {
                    let before =
                        series.insert(labels_text(one.labels.iter()), one.floats().collect());
                    assert!(before.is_none(), "two series with labels {}", one.labels);
                }
                "matrix"
            }
        };
        Self::Value {
            kind,
            series,
            in_order,
        }
    }

    /// From an answer of the HTTP API.
    pub(crate) fn of_json(answer: &Value) -> Self {
        if answer["status"] != "success" {
            return Self::Failed(answer["error"].as_str().unwrap_or_default().to_string());
        }
        let result = &answer["data"]["result"];
        let mut series = BTreeMap::new();
        let mut in_order = Vec::new();
        let listed = || result.as_array().into_iter().flatten();
        let kind = match answer["data"]["resultType"].as_str() {
            Some("scalar") => {
                series.insert(String::new(), Points::from([point(result)]));
                "scalar"
            }
            Some("vector") => {
                for sample in listed() {
                    let (time, value) = point(&sample["value"]);
                    series.insert(
                        json_labels(&sample["metric"]),
                        Points::from([(time, value)]),
                    );
                    in_order.push(value);
                }
                "vector"
            }
            Some("matrix") => {
                for one in listed() {
                    let points = one["values"].as_array().into_iter().flatten().map(point);
                    series.insert(json_labels(&one["metric"]), points.collect());
                }
                "matrix"
            }
            _ => "string",
        };
        Self::Value {
            kind,
            series,
            in_order,
        }
    }

    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    pub(crate) fn failed_with(&self, words: &str) -> bool {
        matches!(self, Self::Failed(error) if error.contains(words))
    }

    /// Whether both are values of the same series.
    pub(crate) fn has_same_series(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value { series: a, .. }, Self::Value { series: b, .. }) => a.keys().eq(b.keys()),
            _ => false,
        }
    }

    pub(crate) fn has(&self, is_meant: fn(f64) -> bool) -> bool {
        let Self::Value { series, .. } = self else {
            return false;
        };
        let mut values = series.values().flat_map(|points| points.values());
        values.any(|value| is_meant(*value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Value { series, .. } if series.is_empty())
    }

    /// The first difference, in words; `is_ordered` where the order of a vector has a meaning.
    pub(crate) fn difference(&self, other: &Self, is_ordered: bool) -> Option<String> {
        let (ours, theirs) = match (self, other) {
            (Self::Failed(_), Self::Failed(_)) => return None,
            (Self::Failed(error), Self::Value { series, .. }) => {
                return Some(format!(
                    "we fail ({error}), they have {} series",
                    series.len()
                ));
            }
            (Self::Value { series, .. }, Self::Failed(error)) => {
                return Some(format!(
                    "they fail ({error}), we have {} series",
                    series.len()
                ));
            }
            (ours @ Self::Value { kind: a, .. }, theirs @ Self::Value { kind: b, .. })
                if a == b =>
            {
                (ours, theirs)
            }
            (Self::Value { kind: a, .. }, Self::Value { kind: b, .. }) => {
                return Some(format!("our answer is a {a}, theirs a {b}"));
            }
        };
        let (
            Self::Value {
                series: ours,
                in_order: our_order,
                ..
            },
            Self::Value {
                series: theirs,
                in_order: their_order,
                ..
            },
        ) = (ours, theirs)
        else {
            return None;
        };
        if let Some(more) = ours.keys().find(|labels| !theirs.contains_key(*labels)) {
            return Some(format!("only we have {{{more}}}: {:?}", ours[more]));
        }
        for (labels, theirs) in theirs {
            let Some(ours) = ours.get(labels) else {
                return Some(format!("only they have {{{labels}}}: {theirs:?}"));
            };
            if let Some(difference) = points_differ(ours, theirs) {
                return Some(format!("{{{labels}}} {difference}"));
            }
        }
        let same_order = our_order.iter().zip(their_order).all(|(a, b)| same(*a, *b));
        (is_ordered && !same_order)
            .then(|| format!("our order is {our_order:?}, theirs {their_order:?}"))
    }
}

fn points_differ(ours: &Points, theirs: &Points) -> Option<String> {
    let times = ours.keys().chain(theirs.keys());
    let mut differing = times.filter_map(|time| match (ours.get(time), theirs.get(time)) {
        (Some(a), Some(b)) if same(*a, *b) => None,
        (a, b) => Some(format!("at {time}: ours {a:?}, theirs {b:?}")),
    });
    differing.next()
}

fn same(a: f64, b: f64) -> bool {
    a == b
        || a.is_nan() && b.is_nan()
        || (a - b).abs() <= ABSOLUTE.max(RELATIVE * a.abs().max(b.abs())) && (a - b).is_finite()
}

fn point(pair: &Value) -> (i64, f64) {
    let time_ms = (pair[0].as_f64().unwrap() * 1000.0).round() as i64;
    (time_ms, pair[1].as_str().unwrap().parse().unwrap())
}

fn json_labels(metric: &Value) -> String {
    let labels = metric.as_object().unwrap();
    labels_text(
        labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap())),
    )
}

fn labels_text<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let sorted: BTreeMap<_, _> = labels.collect();
    let texts: Vec<String> = sorted
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    texts.join(",")
}
