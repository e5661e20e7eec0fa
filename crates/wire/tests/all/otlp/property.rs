//! What goes in comes out: random requests, in protobuf, in JSON and with their fields in another
//! order.

use std::collections::BTreeMap;

use icecore_wire::otlp::{Strategy as Naming, Translation, json_to_protobuf};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::line_sink::lines_with;
use super::request::{
    CUMULATIVE, DELTA, REQUEST, START, T, gauge, histogram, histogram_point, number_point,
    resource_metrics, reversed, scope_metrics, sum,
};

#[derive(Clone, Debug)]
enum Data {
    Gauge(f64),
    Sum(f64, bool, bool),
    Histogram(Vec<(f64, u8)>, u8, bool),
}

#[derive(Clone, Debug)]
struct Metric {
    name: String,
    data: Data,
    attributes: BTreeMap<String, String>,
}

fn metrics() -> impl Strategy<Value = Vec<Metric>> {
    let number = || prop_oneof![any::<i32>().prop_map(f64::from), -1e9..1e9f64];
    let bounds = prop::collection::btree_map(-1000i32..1000, any::<u8>(), 0..5);
    let bounds = bounds.prop_map(|map| {
        map.into_iter()
            .map(|(b, c)| (f64::from(b) / 8.0, c))
            .collect()
    });
    let data = prop_oneof![
        number().prop_map(Data::Gauge),
        (number(), any::<bool>(), any::<bool>()).prop_map(|(v, d, m)| Data::Sum(v, d, m)),
        (bounds, any::<u8>(), any::<bool>()).prop_map(|(b, last, d)| Data::Histogram(b, last, d)),
    ];
    let attributes = prop::collection::btree_map("[a-zA-Zé_.]{1,4}[a-z]", any::<String>(), 0..6);
    let metric = ("[a-zß.]{1,8}", data, attributes).prop_map(|(name, data, attributes)| Metric {
        name,
        data,
        attributes,
    });
    prop::collection::vec(metric, 0..8)
}

impl Metric {
    fn protobuf(&self) -> Vec<u8> {
        let attributes: Vec<_> = self
            .attributes
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        match &self.data {
            Data::Gauge(value) => gauge(&self.name, "s", &[number_point(&attributes, *value)]),
            Data::Sum(value, delta, monotonic) => {
                let points = [number_point(&attributes, *value)];
                sum(&self.name, "s", &points, temporality(*delta), *monotonic)
            }
            Data::Histogram(buckets, last, delta) => {
                let (bounds, counts) = split(buckets, *last);
                let point = histogram_point(&attributes, &bounds, &counts, None);
                histogram(&self.name, "s", &[point], temporality(*delta))
            }
        }
    }

    fn json(&self) -> Value {
        let attributes: Vec<_> = self
            .attributes
            .iter()
            .map(|(k, v)| json!({"key": k, "value": {"stringValue": v}}))
            .collect();
        let mut point = json!({
            "attributes": attributes, "start_time_unix_nano": START, "timeUnixNano": T.to_string()
        });
        let (kind, mut data) = match &self.data {
            Data::Gauge(value) => {
                point["asDouble"] = json!(value);
                ("gauge", json!({}))
            }
            Data::Sum(value, delta, monotonic) => {
                point["asDouble"] = json!(value);
                (
                    "sum",
                    json!({"aggregationTemporality": temporality(*delta), "isMonotonic": monotonic}),
                )
            }
            Data::Histogram(buckets, last, delta) => {
                let (bounds, counts) = split(buckets, *last);
                point["count"] = json!(counts.iter().sum::<u64>().to_string());
                point["bucketCounts"] = json!(counts);
                point["explicit_bounds"] = json!(bounds);
                let word = if *delta { "DELTA" } else { "CUMULATIVE" };
                (
                    "histogram",
                    json!({"aggregation_temporality": format!("AGGREGATION_TEMPORALITY_{word}")}),
                )
            }
        };
        data["dataPoints"] = json!([point]);
        json!({"name": self.name, "description": "What it is.", "unit": "s", kind: data})
    }

    fn expected(&self) -> Vec<String> {
        let ms = " @1700000000000";
        let since = format!("{ms} since 1600000000000");
        let series = |suffix: &str, le: Option<f64>| {
            let mut labels = self.attributes.clone();
            labels.retain(|_, value| !value.is_empty());
            if let Some(le) = le {
                let text = if le.is_finite() {
                    le.to_string()
                } else {
                    "+Inf".into()
                };
                labels.insert("le".into(), text);
            }
            let shown: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
            format!("{}{suffix}{{{}}}", self.name, shown.join(","))
        };
        match &self.data {
            Data::Gauge(value) => vec![format!("{} {value}{ms}", series("", None))],
            Data::Sum(value, true, _) => vec![format!("{} delta {value}{since}", series("", None))],
            Data::Sum(value, false, true) => vec![format!("{} {value}{since}", series("", None))],
            Data::Sum(value, false, false) => vec![format!("{} {value}{ms}", series("", None))],
            Data::Histogram(buckets, last, delta) => {
                let delta = if *delta { "delta " } else { "" };
                let mut total = 0;
                let mut lines = Vec::new();
                for (bound, count) in buckets.iter().copied().chain([(f64::INFINITY, *last)]) {
                    total += u64::from(count);
                    lines.push(format!(
                        "{} {delta}{total}{since}",
                        series("_bucket", Some(bound))
                    ));
                }
                lines.push(format!("{} {delta}{total}{since}", series("_count", None)));
                lines
            }
        }
    }
}

fn temporality(delta: bool) -> u64 {
    if delta { DELTA } else { CUMULATIVE }
}

fn split(buckets: &[(f64, u8)], last: u8) -> (Vec<f64>, Vec<u64>) {
    let (bounds, mut counts): (Vec<f64>, Vec<u64>) = buckets
        .iter()
        .map(|(bound, count)| (*bound, u64::from(*count)))
        .unzip();
    counts.push(last.into());
    (bounds, counts)
}

proptest! {
    #[test]
    fn what_was_sent_is_decoded(metrics in metrics()) {
        let translation = Translation {
            strategy: Naming::NoTranslation,
            ..Translation::default()
        };
        let expected: Vec<_> = metrics.iter().flat_map(Metric::expected).collect();
        let values = |body: &[u8]| {
            let mut lines = lines_with(body, &translation);
            lines.retain(|line| line != "point" && !line.starts_with("meta "));
            lines
        };
        let messages: Vec<_> = metrics.iter().map(Metric::protobuf).collect();
        let body = resource_metrics(&[], &[scope_metrics(&[], "", &messages)]);
        prop_assert_eq!(values(&body), expected.clone());
        prop_assert_eq!(values(&reversed(&body, REQUEST)), expected.clone());
        let metrics: Vec<_> = metrics.iter().map(Metric::json).collect();
        let text = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).to_string();
        let rewritten = json_to_protobuf(text.as_bytes(), 1 << 20).unwrap();
        prop_assert_eq!(values(&rewritten), expected);
    }
}
