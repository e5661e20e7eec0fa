//! Answers of routes of events: a document, or a problem.

use anyhow::{anyhow, bail};
use serde_json::Value;

use crate::WrongUsage;
use crate::remote::{Body, Server};

/// The document that was answered, or what the problem says.
pub(super) fn answer_of(body: &Body, server: &Server) -> anyhow::Result<Value> {
    let document = serde_json::from_slice(&body.bytes).map_err(|_| {
        anyhow!(
            "{server} answered {} without a document: is it the right address?",
            body.status
        )
    })?;
    if body.status.is_success() {
        return Ok(document);
    }
    Err(error_of(body, &document, server))
}

/// The text that was answered, or what the problem says.
pub(super) fn text_of(body: &Body, server: &Server) -> anyhow::Result<String> {
    if body.status.is_success() {
        return Ok(String::from_utf8_lossy(&body.bytes).into_owned());
    }
    answer_of(body, server).map(|_| String::new())
}

fn error_of(body: &Body, problem: &Value, server: &Server) -> anyhow::Error {
    let text = |key: &str| problem[key].as_str().unwrap_or_default();
    let mut message = format!("{}: {}", text("code"), text("detail"));
    if let Some(hint) = problem["hint"].as_str() {
        message.push_str(&format!(" ({hint})"));
    }
    let refused = || -> anyhow::Result<()> {
        // What is wrong with the request is wrong with the arguments.
        if body.status.as_u16() == 400 {
            bail!(WrongUsage(message));
        }
        bail!("{server} answered {}, {message}", body.status)
    };
    refused()
        .err()
        .unwrap_or_else(|| anyhow!("no reason given"))
}
