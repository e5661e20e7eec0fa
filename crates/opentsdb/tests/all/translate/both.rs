//! Both engines over one store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::ManualClock;
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::translate::{Condition, TranslateOptions, Translation};
use icecore_opentsdb::{Config, Stores, Tsd};
use icecore_promql::{Engine, EngineOptions, QueryTime, QueryValue};
use serde_json::{Value, json};

use super::B;

/// The points of results, by the values of their labels.
pub(super) type Answers = BTreeMap<Vec<(String, String)>, BTreeMap<i64, f64>>;

/// A series of metric `m`: its tags and its points.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) metric: &'static str,
    pub(super) host: usize,
    pub(super) dc: usize,
    pub(super) points: BTreeMap<i64, f64>,
}

pub(super) struct Both {
    tsd: Tsd,
    stores: Stores,
}

impl Both {
    pub(super) fn new(series: &[Series]) -> Self {
        let config = Config {
            auto_create_metrics: true,
            enable_chunked: true,
            max_chunk: 1 << 20,
            ..Config::default()
        };
        let clock = Arc::new(ManualClock::at((B + 86_400) * 1000));
        let stores = MemoryStore::stores();
        let tsd = block_on(Tsd::open(config, stores.clone(), clock)).unwrap();
        let both = Self { tsd, stores };
        let names: Vec<String> = (0..10)
            .flat_map(|i| [format!("h{i}"), format!("d{i}")])
            .collect();
        let assign = json!({"metric": ["m", "n"], "tagk": ["host", "dc"], "tagv": names});
        let (status, text) = both.ask(Method::POST, "/api/uid/assign", assign.to_string());
        assert_eq!(status, 200, "{text}");
        for series in series {
            let point = |(time, value): (&i64, &f64)| {
                // Integers are written as such.
                let value = if value.fract() == 0.0 {
                    json!(*value as i64)
                } else {
                    json!(value)
                };
                let tags =
                    json!({"host": format!("h{}", series.host), "dc": format!("d{}", series.dc)});
                let metric = series.metric;
                json!({"metric": metric, "timestamp": time, "value": value, "tags": tags})
            };
            let points: Vec<Value> = series.points.iter().map(point).collect();
            for points in points.chunks(500) {
                let body = Value::from(points.to_vec()).to_string();
                let (status, text) = both.ask(Method::POST, "/api/put", body);
                assert_eq!(status, 204, "{text}");
            }
        }
        both
    }

    fn ask(&self, method: Method, target: &str, body: String) -> (u16, String) {
        let request = Request::new(method, target, HeaderMap::new(), body.into());
        let response = block_on(handle(&self.tsd, &request));
        let text = String::from_utf8(response.body).unwrap();
        (response.status.as_u16(), text)
    }

    /// What `/api/query` or `/api/query/gexp` answers, without what is not a number; `None` where
    /// it refuses, which it does with infinite results.
    pub(super) fn opentsdb(&self, text: &str, (start, end): (i64, i64)) -> Option<Answers> {
        let (path, name) = if text.split('(').next().unwrap().contains(':') {
            ("query", "m")
        } else {
            ("query/gexp", "exp")
        };
        let encoded: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let target = format!("/api/{path}?start={start}ms&end={end}ms&ms&arrays&{name}={encoded}");
        let (status, answer) = self.ask(Method::GET, &target, String::new());
        if status != 200 {
            assert!(answer.contains("Infinity"), "{text}: {answer}");
            return None;
        }
        let results: Value = serde_json::from_str(&answer).unwrap();
        let mut answers = Answers::new();
        for result in results.as_array().unwrap() {
            let tags = result["tags"].as_object().unwrap().iter();
            let tags = tags.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()));
            let points = result["dps"].as_array().unwrap().iter();
            let points = points.map(|point| {
                (
                    point[0].as_i64().unwrap(),
                    point[1].as_f64().unwrap_or(f64::NAN),
                )
            });
            let points = points.filter(|(_, value)| !value.is_nan());
            answers.insert(tags.collect(), points.collect());
        }
        Some(answers)
    }

    /// What `/api/query/exp` answers for an output.
    pub(super) fn exp(&self, document: &Value, output: usize) -> Answers {
        let (status, answer) = self.ask(Method::POST, "/api/query/exp", document.to_string());
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let output = &answer["outputs"][output];
        let mut answers = Answers::new();
        for (column, meta) in output["meta"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .skip(1)
        {
            let tags = meta["commonTags"].as_object().unwrap().iter();
            let tags = tags.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()));
            let rows = output["dps"].as_array().unwrap().iter();
            let points = rows.map(|row| {
                (
                    row[0].as_i64().unwrap(),
                    row[column].as_f64().unwrap_or(f64::NAN),
                )
            });
            answers.insert(tags.collect(), points.filter(|p| !p.1.is_nan()).collect());
        }
        answers
    }

    /// What PromQL answers at the steps.
    pub(super) fn promql(&self, expr: &str, start: i64, end: i64, step: i64) -> Answers {
        let engine = Engine::new(EngineOptions {
            steps_max: 1_000_000,
            ..EngineOptions::default()
        });
        let request = icecore_promql::Request {
            query: expr.to_owned(),
            time: QueryTime::Range {
                start_ms: start,
                end_ms: end,
                step_ms: step,
            },
            lookback_ms: None,
            limit: None,
            timeout: None,
            counts_touched: false,
            max_source_resolution: None,
            rollup_strict: false,
        };
        let canceled = AtomicBool::new(false);
        let answer = block_on(engine.execute(&*self.stores.series, &request, &canceled));
        let answer = answer.unwrap_or_else(|error| panic!("{expr}: {error}"));
        let QueryValue::Matrix(matrix) = answer.value else {
            panic!("{expr}: not a matrix")
        };
        let mut answers = Answers::new();
        for series in matrix {
            let labels = series.labels.iter().filter(|(name, _)| *name != "__name__");
            let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            let known = answers.insert(labels, series.floats().collect());
            assert!(known.is_none(), "{expr}: two series with the same labels");
        }
        answers
    }
}

/// Options for a time that is known.
pub(super) fn options((start, end): (i64, i64), strict: bool) -> TranslateOptions {
    TranslateOptions {
        start: format!("{start}ms"),
        end: format!("{end}ms"),
        now_ms: (B + 86_400) * 1000,
        strict,
        bridge_ms: None,
    }
}

/// Says where the two answers differ. `keys` are the tags that results are grouped by.
pub(super) fn difference(
    both: &Both,
    query: &str,
    window: (i64, i64),
    translation: &Translation,
) -> Option<String> {
    let expected = both.opentsdb(query, window)?;
    compare(both, expected, translation, query)
}

pub(super) fn compare(
    both: &Both,
    mut expected: Answers,
    translation: &Translation,
    query: &str,
) -> Option<String> {
    let steps = translation.steps;
    let step_ms = steps.step_ms.unwrap_or(60_000);
    let (start, end) = steps.range_ms.unwrap();
    // Without a downsampler the window is not on the grid of points.
    let start = start.div_euclid(step_ms) * step_ms
        + if start.rem_euclid(step_ms) > 0 && steps.step_ms.is_none() {
            step_ms
        } else {
            start.rem_euclid(step_ms)
        };
    let found = if start <= end {
        both.promql(&translation.expr, start, end, step_ms)
    } else {
        Answers::new()
    };
    let mut first = start;
    if translation.conditions.contains(&Condition::NotTheFirstRate) {
        first += step_ms;
    }
    for condition in &translation.conditions {
        if let Condition::FromPoint(n) = condition {
            first += (*n as i64 - 1) * step_ms;
        }
    }
    // Zeros of a count of nothing are absent.
    let no_zeros = translation
        .notes
        .iter()
        .any(|note| note.contains("counts 0"));
    for points in expected.values_mut() {
        points.retain(|time, value| *time >= first && !(no_zeros && *value == 0.0));
    }
    // Results have tags that they are not grouped by.
    let keys: Option<Vec<String>> = found
        .keys()
        .next()
        .map(|labels| labels.iter().map(|(key, _)| key.clone()).collect());
    let mut by_keys = Answers::new();
    for (mut labels, points) in expected {
        if let Some(keys) = &keys {
            labels.retain(|(key, _)| keys.contains(key));
        }
        labels.sort();
        by_keys.entry(labels).or_default().extend(points);
    }
    by_keys.retain(|_, points| !points.is_empty());
    let mut found = found;
    for points in found.values_mut() {
        points.retain(|time, value| *time >= first && !value.is_nan());
    }
    found.retain(|_, points| !points.is_empty());
    let about = || format!("{query}\n  {}\n  {steps:?}", translation.expr);
    if found.keys().ne(by_keys.keys()) {
        let (found, expected) = (found.keys(), by_keys.keys());
        return Some(format!("{}\n  {found:?} instead of {expected:?}", about()));
    }
    for (labels, expected) in by_keys {
        let found = &found[&labels];
        if found.keys().ne(expected.keys()) {
            return Some(format!(
                "{}\n  {labels:?}\n  {found:?}\n  {expected:?}",
                about()
            ));
        }
        for (time, value) in expected {
            let near = (found[&time] - value).abs() <= 1e-9 * (1.0 + value.abs());
            if !near {
                let found = found[&time];
                return Some(format!(
                    "{}\n  {labels:?} at {time}: {found} instead of {value}",
                    about()
                ));
            }
        }
    }
    None
}
