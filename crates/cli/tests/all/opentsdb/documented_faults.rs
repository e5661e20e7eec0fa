//! The table of bad input in `docs/opentsdb.md` is what the process does.

use serde_json::Value as Json;

use super::{repository, serve};
use crate::http::{Client, Response};
use crate::served::Workplace;

/// A row of the table.
struct Fault {
    method: String,
    path: String,
    body: String,
    status: u16,
    /// What the body is made of, as the text above the table says.
    shape: String,
    /// Empty where it is not said.
    message: String,
}

#[test]
fn bad_input_is_answered_as_documented() {
    let document = std::fs::read_to_string(repository("docs/opentsdb.md")).unwrap();
    let faults = faults_in(&document);
    assert!(faults.len() > 100, "only {} rows were found", faults.len());
    let workplace = Workplace::new();
    let served = serve(&workplace, "data", "tsd.core.auto_create_metrics = true\n").start();
    let mut client = Client::new(served.opentsdb_address());
    let point = br#"{"metric":"sys.cpu","timestamp":1500000000,"value":1,"tags":{"host":"web01"}}"#;
    assert_eq!(client.post("/api/put", &[], point).unwrap().status, 204);
    let mut wrong = Vec::new();
    for fault in &faults {
        let headers = [("Content-Type", "application/json")];
        let body = fault.body.as_bytes();
        let answer = client.request(&fault.method, &fault.path, &headers, body);
        let answer = answer.unwrap();
        let (shape, message) = shape_of(&answer);
        let is_said = fault.message.is_empty() || fault.message == message;
        if answer.status != fault.status || shape != fault.shape || !is_said {
            let (method, path, body) = (&fault.method, &fault.path, &fault.body);
            let status = answer.status;
            wrong.push(format!(
                "{method} {path} {body}: {status} {shape} {message:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/opentsdb.md says otherwise:\n{}",
        wrong.join("\n")
    );
}

/// Rows of the tables below the heading.
fn faults_in(document: &str) -> Vec<Fault> {
    let section = document
        .split("\n## ")
        .find(|part| part.starts_with("Bad input\n"));
    let rows = section
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"));
    rows.map(fault).collect()
}

fn fault(row: &str) -> Fault {
    let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
    let [request, body, _original, status, shape, message] = cells[..] else {
        panic!("not six cells: {row}");
    };
    let plain = |cell: &str| {
        let inner = cell
            .strip_prefix('`')
            .and_then(|cell| cell.strip_suffix('`'));
        inner.unwrap_or(cell).to_owned()
    };
    let request = plain(request);
    let (method, path) = request.split_once(' ').unwrap();
    Fault {
        method: method.to_owned(),
        path: path.to_owned(),
        body: plain(body),
        status: status.parse().unwrap(),
        shape: shape.to_owned(),
        message: plain(message),
    }
}

/// The form of an answer, and what it says.
fn shape_of(answer: &Response) -> (&'static str, String) {
    let text = answer.text();
    let Ok(document) = serde_json::from_str::<Json>(&text) else {
        let content_type = answer.header("content-type").unwrap_or_default();
        let shape = match content_type {
            _ if text.is_empty() => "nothing",
            _ if content_type.contains("html") => "page",
            _ => "text",
        };
        return (shape, String::new());
    };
    let said = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    if document["error"].is_object() {
        let code = &document["error"]["code"];
        assert_eq!(*code, answer.status, "{text}");
        return ("error", said(&document["error"]["message"]));
    }
    if document.get("failed").is_some() {
        return ("points", said(&document["errors"][0]["error"]));
    }
    if document.get("result").is_some() {
        return ("result", said(&document["error"]));
    }
    let members = document.as_object().into_iter().flatten();
    let errors = members
        .into_iter()
        .find(|(name, _)| name.ends_with("_errors"));
    match errors.and_then(|(_, errors)| errors.as_object()?.values().next()) {
        Some(error) => ("names", said(error)),
        None => ("document", String::new()),
    }
}
