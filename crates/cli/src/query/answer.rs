//! The result of a query, understood.

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::remote::Answer;

/// One series of a result.
pub(super) struct Series {
    /// Without the metric name.
    pub(super) labels: Vec<(String, String)>,
    pub(super) metric: String,
    pub(super) points: Vec<Point>,
}

pub(super) struct Point {
    pub(super) time_ms: i64,
    /// The number as the server wrote it, or a native histogram in short.
    pub(super) text: String,
    /// The number; a native histogram has none.
    pub(super) number: Option<f64>,
}

impl Answer {
    /// The series of a query's result; a scalar and a string are one without labels.
    pub(super) fn series(&self) -> anyhow::Result<Vec<Series>> {
        let result = &self.data["result"];
        match self.data["resultType"].as_str() {
            Some("scalar" | "string") => Ok(vec![Series {
                labels: Vec::new(),
                metric: String::new(),
                points: vec![float_point(result)?],
            }]),
            Some("vector" | "matrix") => {
                let list = result.as_array().context("the result is no list")?;
                list.iter().map(parse_series).collect()
            }
            other => bail!("the server answered with a result of type {other:?}"),
        }
    }
}

impl Series {
    /// `name{a="b"}`, as PromQL writes it.
    pub(super) fn name(&self) -> String {
        series_name(&self.metric, &self.labels)
    }
}

fn parse_series(json: &Value) -> anyhow::Result<Series> {
    let mut points = Vec::new();
    let one = |key: &str| json[key].is_array().then(|| vec![json[key].clone()]);
    let many = |key: &str| json[key].as_array().cloned();
    for point in one("value").or_else(|| many("values")).unwrap_or_default() {
        points.push(float_point(&point)?);
    }
    for point in one("histogram")
        .or_else(|| many("histograms"))
        .unwrap_or_default()
    {
        points.push(histogram_point(&point)?);
    }
    points.sort_by_key(|point| point.time_ms);
    let (metric, labels) = split_labels(&json["metric"]);
    Ok(Series {
        labels,
        metric,
        points,
    })
}

/// The metric name, and the other labels in the order of their names.
pub(super) fn split_labels(json: &Value) -> (String, Vec<(String, String)>) {
    let mut metric = String::new();
    let mut labels = Vec::new();
    for (name, value) in json.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default().to_owned();
        match name.as_str() {
            "__name__" => metric = value,
            _ => labels.push((name.clone(), value)),
        }
    }
    labels.sort();
    (metric, labels)
}

pub(super) fn series_name(metric: &str, labels: &[(String, String)]) -> String {
    let metric_name = (!metric.is_empty()).then_some(("__name__", metric));
    let pairs = labels.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    icecore_model::Labels::from_pairs(pairs.chain(metric_name)).to_string()
}

fn float_point(json: &Value) -> anyhow::Result<Point> {
    let text = json[1].as_str().context("a value is no text")?;
    Ok(Point {
        time_ms: time_of(json)?,
        text: text.to_owned(),
        number: number(text),
    })
}

fn histogram_point(json: &Value) -> anyhow::Result<Point> {
    let part = |key: &str| json[1][key].as_str().unwrap_or("?").to_owned();
    Ok(Point {
        time_ms: time_of(json)?,
        text: format!("count:{} sum:{}", part("count"), part("sum")),
        number: None,
    })
}

fn time_of(json: &Value) -> anyhow::Result<i64> {
    let seconds = json[0].as_f64().context("a point has no time")?;
    Ok((seconds * 1000.0).round() as i64)
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}
