//! Outcomes of queries in a form that is common to both engines.

use std::collections::{BTreeMap, BTreeSet};

use icecore_promql::{Answer, Error, FloatHistogram, QueryValue, SampleValue};
use serde_json::Value;

/// Relative tolerance: sums are computed in other orders, and with compensation.
const RELATIVE: f64 = 1e-9;

/// Absolute tolerance for values that cancel out. Values of the data are below 1e6.
const ABSOLUTE: f64 = 1e-9;

pub(crate) type Points = BTreeMap<i64, f64>;

#[derive(Debug)]
pub(crate) enum Outcome {
    Failed(String),
    Value {
        kind: &'static str,
        /// By their labels as text.
        series: BTreeMap<String, Points>,
        /// Native histograms, by the labels of their series and their time.
        histograms: BTreeMap<(String, i64), RenderedHistogram>,
        /// The values of an instant vector in the order of the answer.
        in_order: Vec<f64>,
        /// Warnings and infos with their positions.
        annotations: BTreeSet<String>,
    },
}

/// A native histogram as rendered in answers.
#[derive(Clone, Debug)]
pub(crate) struct RenderedHistogram {
    /// The full text, if known.
    text: Option<String>,
    count: f64,
    sum: f64,
    /// Inclusiveness of the bounds, the lower and the upper bound, and the count.
    buckets: Vec<(u64, f64, f64, f64)>,
}

impl RenderedHistogram {
    fn of_engine(histogram: &FloatHistogram) -> Self {
        let buckets = histogram.all_buckets().filter(|b| b.count != 0.0);
        let shown = buckets.map(|b| {
            let rule = match (b.lower_inclusive, b.upper_inclusive) {
                (false, true) => 0,
                (true, false) => 1,
                (false, false) => 2,
                (true, true) => 3,
            };
            (rule, b.lower, b.upper, b.count)
        });
        Self {
            text: Some(histogram.to_string()),
            count: histogram.count,
            sum: histogram.sum,
            buckets: shown.collect(),
        }
    }

    fn of_json(histogram: &Value) -> Self {
        let buckets = histogram["buckets"].as_array().into_iter().flatten();
        let shown = buckets.map(|bucket| {
            let rule = bucket[0].as_u64().unwrap();
            (
                rule,
                number(&bucket[1]),
                number(&bucket[2]),
                number(&bucket[3]),
            )
        });
        Self {
            text: None,
            count: number(&histogram["count"]),
            sum: number(&histogram["sum"]),
            buckets: shown.collect(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (&self.text, &other.text) {
            return a == b;
        }
        let buckets = self.buckets.iter().zip(&other.buckets);
        same(self.count, other.count)
            && same(self.sum, other.sum)
            && self.buckets.len() == other.buckets.len()
            && buckets
                .into_iter()
                .all(|(a, b)| a.0 == b.0 && same(a.1, b.1) && same(a.2, b.2) && same(a.3, b.3))
    }
}

/// Most warnings, and most infos, that Prometheus returns; it counts the rest.
const ANNOTATIONS_SHOWN: usize = 10;

impl Outcome {
    pub(crate) fn of_engine(answer: Result<Answer, Error>) -> Self {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Self::Failed(error.to_string()),
        };
        let (value, annotations) = (
            answer.value,
            answer.warnings.into_iter().chain(answer.infos),
        );
        let mut series = BTreeMap::new();
        let mut histograms = BTreeMap::new();
        let mut in_order = Vec::new();
        let kind = match value {
            QueryValue::Scalar { time_ms, value } => {
                series.insert(String::new(), Points::from([(time_ms, value)]));
                "scalar"
            }
            QueryValue::Text { .. } => "string",
            QueryValue::Vector(samples) => {
                for sample in samples {
                    let labels = labels_text(sample.labels.iter());
                    match sample.value {
                        SampleValue::Histogram(histogram) => {
                            histograms.insert(
                                (labels, sample.time_ms),
                                RenderedHistogram::of_engine(&histogram),
                            );
                        }
                        SampleValue::Float(value) => {
                            let points = Points::from([(sample.time_ms, value)]);
                            let before = series.insert(labels, points);
                            assert!(before.is_none(), "twice {}", sample.labels);
                            in_order.push(value);
                        }
                    }
                }
                "vector"
            }
            QueryValue::Matrix(matrix) => {
                for one in matrix {
                    let labels = labels_text(one.labels.iter());
                    for (time_ms, histogram) in one.histograms() {
                        histograms.insert(
                            (labels.clone(), time_ms),
                            RenderedHistogram::of_engine(histogram),
                        );
                    }
                    let floats: Points = one.floats().collect();
                    if floats.is_empty() {
                        continue;
                    }
                    let before = series.insert(labels, floats);
                    assert!(before.is_none(), "twice {}", one.labels);
                }
                "matrix"
            }
        };
        Self::Value {
            kind,
            series,
            histograms,
            in_order,
            annotations: annotations.collect(),
        }
    }

    /// From an answer of the HTTP API.
    pub(crate) fn of_json(answer: &Value) -> Self {
        if answer["status"] != "success" {
            return Self::Failed(answer["error"].as_str().unwrap_or_default().to_string());
        }
        let result = &answer["data"]["result"];
        let mut series = BTreeMap::new();
        let mut histograms = BTreeMap::new();
        let mut in_order = Vec::new();
        let listed = || result.as_array().into_iter().flatten();
        let kind = match answer["data"]["resultType"].as_str() {
            Some("scalar") => {
                series.insert(String::new(), Points::from([point(result)]));
                "scalar"
            }
            Some("vector") => {
                for sample in listed() {
                    if let Some(histogram) = sample.get("histogram") {
                        let shown = RenderedHistogram::of_json(&histogram[1]);
                        let labels = json_labels(&sample["metric"]);
                        histograms.insert((labels, time_of(histogram)), shown);
                        continue;
                    }
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
                    for histogram in one["histograms"].as_array().into_iter().flatten() {
                        let key = (json_labels(&one["metric"]), time_of(histogram));
                        histograms.insert(key, RenderedHistogram::of_json(&histogram[1]));
                    }
                    let points = one["values"].as_array().into_iter().flatten().map(point);
                    let points: Points = points.collect();
                    if !points.is_empty() {
                        series.insert(json_labels(&one["metric"]), points);
                    }
                }
                "matrix"
            }
            _ => "string",
        };
        let annotations =
            ["warnings", "infos"].map(|key| answer[key].as_array().into_iter().flatten());
        let annotations = annotations.into_iter().flatten().filter_map(Value::as_str);
        Self::Value {
            kind,
            series,
            histograms,
            in_order,
            annotations: annotations.map(str::to_string).collect(),
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

    pub(crate) fn is_same_but_for_signs_of_infinity(&self, other: &Self) -> bool {
        let (Self::Value { series: ours, .. }, Self::Value { series: theirs, .. }) = (self, other)
        else {
            return false;
        };
        let points = |series: &BTreeMap<String, Points>| -> Vec<f64> {
            let values = series.values().flat_map(|points| points.values());
            let unsigned = values.map(|value| {
                if value.is_infinite() {
                    value.abs()
                } else {
                    *value
                }
            });
            unsigned.collect()
        };
        let (ours, theirs) = (points(ours), points(theirs));
        self.has_same_series(other)
            && ours.len() == theirs.len()
            && ours.iter().zip(&theirs).all(|(a, b)| same(*a, *b))
    }

    /// Whether both have the same values at each time, in whatever series.
    pub(crate) fn has_same_values(&self, other: &Self) -> bool {
        let (Self::Value { series: ours, .. }, Self::Value { series: theirs, .. }) = (self, other)
        else {
            return false;
        };
        let sorted = |series: &BTreeMap<String, Points>| {
            let points = series.values().flatten();
            let mut points: Vec<(i64, f64)> = points.map(|(time, v)| (*time, *v)).collect();
            points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            points
        };
        let (ours, theirs) = (sorted(ours), sorted(theirs));
        let mut pairs = ours.iter().zip(&theirs);
        ours.len() == theirs.len() && pairs.all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
    }

    pub(crate) fn has(&self, is_meant: fn(f64) -> bool) -> bool {
        let Self::Value { series, .. } = self else {
            return false;
        };
        let mut values = series.values().flat_map(|points| points.values());
        values.any(|value| is_meant(*value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Value { series, histograms, .. }
            if series.is_empty() && histograms.is_empty())
    }

    /// The first difference of warnings and infos.
    pub(crate) fn annotations_differ(&self, other: &Self) -> Option<String> {
        let (
            Self::Value {
                annotations: ours, ..
            },
            Self::Value {
                annotations: theirs,
                ..
            },
        ) = (self, other)
        else {
            return None;
        };
        let is_count = |annotation: &&String| {
            annotation.ends_with(" more warning annotations omitted")
                || annotation.ends_with(" more info annotations omitted")
        };
        let mut only_ours = ours.difference(theirs).collect::<Vec<_>>();
        let only_theirs: Vec<_> = theirs.difference(ours).filter(|n| !is_count(n)).collect();
        if theirs.iter().any(|annotation| is_count(&annotation)) && ours.len() > ANNOTATIONS_SHOWN {
            only_ours.clear();
        }
        (!only_ours.is_empty() || !only_theirs.is_empty())
            .then(|| format!("only we say {only_ours:#?}, only they say {only_theirs:#?}"))
    }

    /// The first difference; `is_ordered` if the order of a vector matters.
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
                histograms: our_histograms,
                in_order: our_order,
                ..
            },
            Self::Value {
                series: theirs,
                histograms: their_histograms,
                in_order: their_order,
                ..
            },
        ) = (ours, theirs)
        else {
            return None;
        };
        let same_histograms = our_histograms.keys().eq(their_histograms.keys())
            && (our_histograms.values().zip(their_histograms.values()))
                .all(|(ours, theirs)| ours.is_same(theirs));
        if !same_histograms {
            return Some(format!("{our_histograms:?} and {their_histograms:?}"));
        }
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
    (time_of(pair), number(&pair[1]))
}

fn time_of(pair: &Value) -> i64 {
    (pair[0].as_f64().unwrap() * 1000.0).round() as i64
}

fn number(text: &Value) -> f64 {
    text.as_str().unwrap().parse().unwrap()
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
