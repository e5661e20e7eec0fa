//! Reads `/api/v1/export` back, every bit of it.

use std::collections::BTreeMap;
use std::io;

use crate::http::{Client, escape};
use crate::ledger::{Found, LabelSet, Samples, Value};

const STALE_NAN: u64 = 0x7ff0_0000_0000_0002;
const NORMAL_NAN: u64 = 0x7ff8_0000_0000_0001;

/// Everything there is.
pub(crate) fn everything(client: &mut Client) -> io::Result<Found> {
    select(client, r#"{__name__!=""}"#)
}

/// All samples of the series that match.
pub(crate) fn select(client: &mut Client, selector: &str) -> io::Result<Found> {
    let path = format!("/api/v1/export?match[]={}", escape(selector));
    let response = client.get(&path)?;
    assert!(
        response.is_success(),
        "export of {selector}: {} {}",
        response.status,
        response.text()
    );
    let text = String::from_utf8(response.body).expect("an export is UTF-8");
    let mut found = Found::new();
    for line in text.lines() {
        let (labels, samples) = parse_line(line);
        let twice = found.insert(labels, samples);
        assert!(twice.is_none(), "a series is there twice: {line:.300}");
    }
    Ok(found)
}

/// All exemplars, as the samples that they are.
pub(crate) fn exemplars(client: &mut Client) -> io::Result<Found> {
    let query = escape(r#"{__name__!=""}"#);
    let response = client.get(&format!("/api/v1/query_exemplars?query={query}"))?;
    let text = response.text();
    assert!(response.is_success(), "exemplars: {text:.300}");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("an answer is JSON");
    let series = answer["data"].as_array().expect("a list of series");
    let found = series.iter().map(|series| {
        let labels: BTreeMap<String, String> =
            serde_json::from_value(series["seriesLabels"].clone()).expect("labels");
        let exemplars = series["exemplars"].as_array().expect("a list of exemplars");
        let mut samples: Samples = exemplars.iter().map(exemplar).collect();
        samples.sort_by_key(|sample| sample.0);
        (labels.into_iter().collect(), samples)
    });
    Ok(found.collect())
}

/// The time and value of an exemplar, whose label repeats the time.
fn exemplar(json: &serde_json::Value) -> (i64, Value) {
    let seconds = json["timestamp"].as_f64().expect("an exemplar has a time");
    let timestamp_ms = (seconds * 1e3).round() as i64;
    let labels = serde_json::json!({"trace_id": timestamp_ms.to_string()});
    assert_eq!(json["labels"], labels, "{json}");
    let value = json["value"].as_str().map(parse::<f64>);
    let value = value.expect("an exemplar has a value");
    (timestamp_ms, Value::Float(value.to_bits()))
}

fn parse_line(line: &str) -> (LabelSet, Samples) {
    let rest = line
        .strip_prefix(r#"{"metric":"#)
        .unwrap_or_else(|| panic!("not an export line: {line:.300}"));
    let mut labels = serde_json::Deserializer::from_str(rest).into_iter();
    let metric: BTreeMap<String, String> = labels
        .next()
        .and_then(Result::ok)
        .unwrap_or_else(|| panic!("no labels: {line:.300}"));
    let rest = &rest[labels.byte_offset()..];
    // Metadata and start timestamps stand before the samples. No text contains what is looked for,
    // because quotes in it are escaped.
    let values = rest.find(r#","values":["#);
    let rest = values.map_or(rest, |at| &rest[at..]);
    // Numbers are taken as text: a general JSON reader may round them.
    let (values, rest) = list(rest, r#","values":["#);
    let (timestamps, rest) = list(rest, r#","timestamps":["#);
    let values: Vec<Value> = values.map(|text| Value::Float(float_bits(text))).collect();
    let timestamps: Vec<i64> = timestamps.map(parse).collect();
    assert_eq!(values.len(), timestamps.len(), "{line:.300}");
    let mut samples: Samples = timestamps.into_iter().zip(values).collect();
    if let Some(histograms) = rest.strip_prefix(r#","histograms":"#) {
        let mut histograms = serde_json::Deserializer::from_str(histograms).into_iter();
        let histograms: Vec<serde_json::Value> = histograms
            .next()
            .and_then(Result::ok)
            .unwrap_or_else(|| panic!("no histograms: {line:.300}"));
        samples.extend(histograms.iter().map(histogram));
        // Stable: a float and a histogram at one time stay two, which the ledger refuses.
        samples.sort_by_key(|sample| sample.0);
    }
    (metric.into_iter().collect(), samples)
}

/// The elements of a list that holds neither commas nor brackets inside them.
fn list<'a>(text: &'a str, before: &str) -> (impl Iterator<Item = &'a str>, &'a str) {
    let text = text
        .strip_prefix(before)
        .unwrap_or_else(|| panic!("expected {before} at {text:.100}"));
    let (elements, rest) = text.split_once(']').expect("a list ends");
    (elements.split_terminator(','), rest)
}

fn parse<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn float_bits(text: &str) -> u64 {
    let Some(word) = text.strip_prefix('"') else {
        return parse::<f64>(text).to_bits();
    };
    match word.trim_end_matches('"') {
        "Inf" => f64::INFINITY.to_bits(),
        "-Inf" => f64::NEG_INFINITY.to_bits(),
        "NaN" => NORMAL_NAN,
        "StaleNaN" => STALE_NAN,
        other => {
            let hex = other.strip_prefix("NaN:0x");
            let bits = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok());
            bits.unwrap_or_else(|| panic!("{text:?} is no value"))
        }
    }
}

/// The number that a histogram was made from, after a look at each of its fields.
fn histogram(json: &serde_json::Value) -> (i64, Value) {
    let seed = json["positive_deltas"][0].as_u64().unwrap_or_default();
    let expected = serde_json::json!({
        "timestamp": json["timestamp"],
        "schema": 3,
        "reset_hint": "unknown",
        "sum": json["sum"],
        "count": 2 * seed + 1,
        "zero_threshold": 0.25,
        "zero_count": 1,
        "positive_spans": [[-2, 2]],
        "positive_deltas": [seed, 0],
        "negative_spans": [],
        "negative_deltas": [],
    });
    assert_eq!(*json, expected);
    assert_eq!(json["sum"].as_f64(), Some(seed as f64 / 4.0), "{json}");
    let timestamp_ms = json["timestamp"].as_i64().expect("a histogram has a time");
    let seed = u32::try_from(seed).expect("histograms are made from 32 bits");
    (timestamp_ms, Value::Histogram(seed))
}

#[test]
fn every_value_is_read_back() {
    let line = r#"{"metric":{"__name__":"a","b":"x\",\"values\":[1]"},"values":[1,-0,1e-323,"NaN","StaleNaN","NaN:0x7ff8000000000000","-Inf"],"timestamps":[1,2,3,4,5,6,7]}"#;
    let (labels, samples) = parse_line(line);
    assert_eq!(labels[1].1, "x\",\"values\":[1]");
    let bits: Vec<u64> = samples
        .iter()
        .map(|(_, value)| match value {
            Value::Float(bits) => *bits,
            Value::Histogram(_) => 0,
        })
        .collect();
    let expected = [
        1f64.to_bits(),
        (-0f64).to_bits(),
        2,
        NORMAL_NAN,
        STALE_NAN,
        0x7ff8_0000_0000_0000,
        f64::NEG_INFINITY.to_bits(),
    ];
    assert_eq!(bits, expected);
    assert_eq!(samples[6].0, 7);
}
