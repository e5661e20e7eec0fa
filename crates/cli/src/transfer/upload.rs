//! One request with a part of a file, sent until it is stored or must not be sent again.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderName;
use serde_json::Value;

use crate::remote::{Body, Connection};

/// How long requests to a server that is busy or gone are retried.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(2);

/// The server cannot read or store what was sent: sending it again changes nothing.
#[derive(Debug)]
pub(super) struct BadContent(String);

impl fmt::Display for BadContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadContent {}

/// What the server says about what it stored. Lines of errors are counted from the beginning of
/// the file, in which `lines_before` are before these.
pub(super) async fn upload(
    connection: &Connection,
    path: &str,
    headers: &[(HeaderName, &'static str)],
    body: Bytes,
    lines_before: u64,
) -> anyhow::Result<Value> {
    let began = Instant::now();
    loop {
        let mut request = connection.request(Method::POST, path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let answered = connection.exchange(request.body(body.clone())).await;
        let problem = match answered {
            Ok(answer) if answer.status.is_success() => {
                let answer: Value = serde_json::from_slice(&answer.bytes)?;
                return Ok(answer["data"].clone());
            }
            Ok(answer) if !matches!(answer.status.as_u16(), 429 | 502..=504) => {
                return Err(refusal(&answer, connection, lines_before));
            }
            Ok(answer) => refusal(&answer, connection, lines_before),
            Err(error) => error,
        };
        if began.elapsed() >= PATIENCE {
            return Err(problem);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What the server says is wrong. It counts lines from the beginning of the chunk.
fn refusal(answer: &Body, connection: &Connection, lines_before: u64) -> anyhow::Error {
    let json: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
    let message = json["error"].as_str().unwrap_or("no reason given");
    let reasons = json["data"]["rejected"].as_array().into_iter().flatten();
    let reasons = reasons.filter_map(|rejected| rejected["reason"].as_str());
    let all: Vec<String> = std::iter::once(message)
        .chain(reasons)
        .map(|text| in_file(text, lines_before))
        .collect();
    let text = format!(
        "{} answered {}: {}",
        connection.server(),
        answer.status,
        all.join("; ")
    );
    match answer.status.as_u16() {
        400 => BadContent(text).into(),
        _ => anyhow!(text),
    }
}

/// `line 3: …` of a chunk, with the number that the line has in the file.
pub(super) fn in_file(text: &str, lines_before: u64) -> String {
    let moved = text.strip_prefix("line ").and_then(|rest| {
        let (number, rest) = rest.split_once(':')?;
        let number: u64 = number.parse().ok()?;
        Some(format!("line {}:{rest}", number + lines_before))
    });
    moved.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_numbers_in_the_file() {
        assert_eq!(in_file("line 3: no metric", 100), "line 103: no metric");
        assert_eq!(in_file("line x: y", 1), "line x: y");
        assert_eq!(in_file("full", 1), "full");
    }
}
