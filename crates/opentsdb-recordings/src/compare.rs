//! Whether an answer is the recorded one.

use std::collections::BTreeSet;

use serde_json::Value;

/// Lists whose order means nothing.
const SETS: [&str; 3] = ["aggregateTags", "aggregatedTags", "tsuids"];

/// What was answered.
pub enum Answer {
    Http(HttpAnswer),
    Telnet { reply: String, closed: bool },
}

/// An answer to an HTTP request.
pub struct HttpAnswer {
    pub status: u16,
    /// Empty where there is none.
    pub content_type: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What differs between two JSON documents: numbers may differ by 1e-9 of their size.
pub fn compare_documents(expected: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare_json(expected, value, "json", &BTreeSet::new(), &mut found);
    found
}

/// What is not as recorded.
pub(crate) fn differences(step: &Value, answer: &Answer) -> Vec<String> {
    let ignored = ["varies", "loose"]
        .into_iter()
        .flat_map(|name| texts(step, name));
    let ignored: BTreeSet<String> = ignored.collect();
    let mut found = Vec::new();
    match answer {
        Answer::Telnet { reply, closed } => {
            let expected = &step["reply"];
            if !ignored.contains("reply") && expected != reply {
                found.push(format!("reply {reply:?}, not {expected}"));
            }
            if !ignored.contains("closed") && step["closed"] != *closed {
                found.push(format!("connection closed: {closed}"));
            }
        }
        Answer::Http(response) => compare_http(step, response, &ignored, &mut found),
    }
    found
}

fn texts(step: &Value, name: &str) -> Vec<String> {
    let list = step.get(name).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(String::from).collect()
}

fn compare_http(
    step: &Value,
    response: &HttpAnswer,
    ignored: &BTreeSet<String>,
    found: &mut Vec<String>,
) {
    let text = String::from_utf8_lossy(&response.body);
    let status = response.status;
    if step.get("crash").is_some_and(|crash| crash != false) {
        return compare_crash(step, status, &text, ignored, found);
    }
    if !ignored.contains("status") && step["status"] != status {
        let start: String = text.chars().take(200).collect();
        found.push(format!("status {status}, not {}: {start}", step["status"]));
    }
    let kind = |content_type: &str| {
        content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let expected_type = step["content_type"].as_str().unwrap_or_default();
    if !ignored.contains("content_type") && kind(expected_type) != kind(&response.content_type) {
        let content_type = &response.content_type;
        found.push(format!(
            "content type {content_type:?}, not {expected_type:?}"
        ));
    }
    let headers = step.get("headers_out").and_then(Value::as_object);
    for (name, value) in headers.into_iter().flatten() {
        let sent = response
            .headers
            .iter()
            .find(|h| h.0.eq_ignore_ascii_case(name));
        let sent = sent.map(|header| header.1.as_str());
        if name.starts_with("Access") && sent != value.as_str() {
            found.push(format!("{name}: {sent:?}, not {value}"));
        }
    }
    if found.is_empty() {
        compare_body(step, &text, ignored, found);
    }
}

/// Where the original failed with 500, the fault is the client's, and the message is the same. What
/// the recordings call loose are texts of Java's exceptions.
fn compare_crash(
    step: &Value,
    status: u16,
    text: &str,
    ignored: &BTreeSet<String>,
    found: &mut Vec<String>,
) {
    if !(400..500).contains(&status) {
        found.push(format!("status {status}, the original failed with 500"));
    }
    let expected = &step["json"]["error"]["message"];
    if expected.is_null() || ignored.contains("json/error/message") {
        return;
    }
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let message = &answer["error"]["message"];
    if message != expected {
        found.push(format!("message {message}, not {expected}"));
    }
}

fn compare_body(step: &Value, text: &str, ignored: &BTreeSet<String>, found: &mut Vec<String>) {
    if step.get("empty").is_some_and(|empty| empty != false) {
        if !text.is_empty() {
            found.push(format!("body not empty: {text}"));
        }
    } else if let Some(names) = step.get("names") {
        let missing: Vec<_> = names.as_array().unwrap().iter().collect();
        let missing = missing
            .into_iter()
            .filter(|n| !text.contains(n.as_str().unwrap()));
        let missing: Vec<_> = missing.collect();
        if !missing.is_empty() {
            found.push(format!("names missing: {missing:?}"));
        }
    } else if ignored.contains("body") {
    } else if let Some(expected) = step.get("json") {
        match serde_json::from_str::<Value>(text) {
            Ok(mut value) => {
                let mut expected = expected.clone();
                if step
                    .get("unordered")
                    .is_some_and(|unordered| unordered != false)
                {
                    sort(&mut expected);
                    sort(&mut value);
                }
                compare_json(&expected, &value, "json", ignored, found);
            }
            Err(_) => found.push(format!("not JSON: {text}")),
        }
    } else if let Some(expected) = step.get("text")
        && !ignored.contains("text")
        && without_duration(expected.as_str().unwrap_or_default()) != without_duration(text)
    {
        found.push(format!("text {text:?}, not {expected}"));
    }
}

/// The text of a search without the milliseconds that it took, which are now and then those of the
/// recording.
fn without_duration(text: &str) -> String {
    const START: &str = "\"time\":";
    let Some((before, rest)) = text.split_once(START) else {
        return text.to_owned();
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    format!("{before}{START}{rest}")
}

fn sort(value: &mut Value) {
    let key = |value: &Value| {
        let mut value = value.clone();
        if let Value::Object(members) = &mut value {
            members.remove("created");
            members.remove("lastReceived");
        }
        value.to_string()
    };
    if let Value::Array(elements) = value {
        elements.sort_by_key(key);
    }
}

fn compare_json(
    expected: &Value,
    value: &Value,
    path: &str,
    ignored: &BTreeSet<String>,
    found: &mut Vec<String>,
) {
    if ignored.contains(path) {
        return;
    }
    match (expected, value) {
        (Value::Object(expected), Value::Object(members)) => {
            let keys: BTreeSet<_> = expected.keys().chain(members.keys()).collect();
            for key in keys {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                if ignored.contains(&path) || key == "trace" {
                    continue;
                }
                match (expected.get(key), members.get(key)) {
                    (Some(e), Some(v)) if SETS.contains(&key.as_str()) => {
                        let (mut e, mut v) = (e.clone(), v.clone());
                        sort(&mut e);
                        sort(&mut v);
                        compare_json(&e, &v, &path, ignored, found);
                    }
                    (Some(e), Some(v)) => compare_json(e, v, &path, ignored, found),
                    (Some(_), None) => found.push(format!("{path} missing")),
                    _ => found.push(format!("{path} unexpected")),
                }
            }
        }
        (Value::Array(e), Value::Array(v)) if e.len() == v.len() => {
            for (i, (e, v)) in e.iter().zip(v).enumerate() {
                compare_json(e, v, &format!("{path}/{i}"), ignored, found);
            }
        }
        (Value::Array(e), Value::Array(v)) => {
            found.push(format!("{path} has {} elements, not {}", v.len(), e.len()));
        }
        (Value::Number(e), Value::Number(v)) => {
            if !is_near(e, v) {
                found.push(format!("{path} is {v}, not {e}"));
            } else if e.is_f64() != v.is_f64() {
                found.push(format!("{path} is {v}, not {e} (number form)"));
            }
        }
        (e, v) if e != v => found.push(format!("{path} is {v}, not {e}")),
        _ => {}
    }
}

fn is_near(e: &serde_json::Number, v: &serde_json::Number) -> bool {
    if let (Some(e), Some(v)) = (e.as_i64(), v.as_i64()) {
        return e == v;
    }
    let (e, v) = (e.as_f64().unwrap(), v.as_f64().unwrap());
    e == v || (e - v).abs() <= 1e-9 + 1e-9 * e.abs().max(v.abs())
}
