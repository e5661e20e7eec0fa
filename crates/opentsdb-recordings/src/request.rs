//! What a step sends, with times in place of `{{now-N}}`.

use serde_json::Value;

/// What is sent.
pub enum Request {
    Http(HttpRequest),
    /// Bytes on a connection of their own. The reply that is expected tells how long to wait.
    Telnet {
        bytes: String,
        reply: String,
        closed: bool,
    },
}

/// A request as it was recorded.
pub struct HttpRequest {
    pub method: String,
    /// With the query string.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Whether the body is to be compressed.
    pub gzip: bool,
}

impl Request {
    /// The request of a step whose times are set.
    pub(crate) fn of(step: &Value) -> Self {
        if let Some(lines) = step.get("telnet") {
            let eol = step.get("eol").and_then(Value::as_str).unwrap_or("\n");
            let lines = lines.as_array().unwrap().iter();
            let lines = lines.flat_map(|line| [line.as_str().unwrap(), eol]);
            return Self::Telnet {
                bytes: lines.collect(),
                reply: step["reply"].as_str().unwrap_or_default().to_owned(),
                closed: step["closed"] == true,
            };
        }
        let body = match (step.get("raw_body"), step.get("body")) {
            (Some(text), _) => Some(text.as_str().unwrap().to_owned()),
            (None, Some(json)) => Some(json.to_string()),
            (None, None) => None,
        };
        let given = step.get("headers").and_then(Value::as_object);
        let given = given.into_iter().flatten();
        let mut headers: Vec<(String, String)> = given
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
            .collect();
        let has_type = |h: &(String, String)| h.0.eq_ignore_ascii_case("content-type");
        if body.is_some() && !headers.iter().any(has_type) {
            headers.push(("Content-Type".into(), "application/json".into()));
        }
        let gzip = step.get("gzip").is_some_and(|gzip| *gzip == true);
        if gzip
            && !headers
                .iter()
                .any(|h| h.0.eq_ignore_ascii_case("content-encoding"))
        {
            headers.push(("Content-Encoding".into(), "gzip".into()));
        }
        Self::Http(HttpRequest {
            method: step["method"].as_str().unwrap().to_owned(),
            path: step["path"].as_str().unwrap().to_owned(),
            headers,
            body: body.unwrap_or_default(),
            gzip,
        })
    }
}

/// A step with `{{now-N}}` and `{{now_ms-N}}` replaced by times.
pub(crate) fn with_times(step: &Value, now_s: i64) -> Value {
    match step {
        Value::String(text) => replace_times(text, now_s),
        Value::Array(elements) => elements.iter().map(|e| with_times(e, now_s)).collect(),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let key = match replace_times(key, now_s) {
                    Value::String(key) => key,
                    number => number.to_string(),
                };
                (key, with_times(value, now_s))
            };
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

fn replace_times(text: &str, now_s: i64) -> Value {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{now") {
        let (inner, after) = behind.split_once("}}").unwrap();
        let (unit, ago) = inner.split_once('-').unwrap();
        let scale = if unit == "_ms" { 1000 } else { 1 };
        let time = (now_s - ago.parse::<i64>().unwrap()) * scale;
        if before.is_empty() && after.is_empty() && replaced.is_empty() {
            return time.into();
        }
        replaced.push_str(before);
        replaced.push_str(&time.to_string());
        rest = after;
    }
    replaced.push_str(rest);
    Value::String(replaced)
}
