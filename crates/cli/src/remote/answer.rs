//! The server's answer: a success with its data, or an error.

use anyhow::{anyhow, bail};
use serde_json::Value;

use super::client::{Body, Server};
use crate::WrongUsage;

/// A success.
pub(crate) struct Answer {
    pub(crate) data: Value,
    warnings: Vec<String>,
    infos: Vec<String>,
}

impl Answer {
    pub(crate) fn parse(body: &Body, server: &Server) -> anyhow::Result<Self> {
        let json: Value = serde_json::from_slice(&body.bytes).map_err(|_| {
            anyhow!(
                "{server} answered {} without an API response: is it the right address?",
                body.status
            )
        })?;
        let texts = |key: &str| -> Vec<String> {
            let list = json[key].as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned))
                .collect()
        };
        match json["status"].as_str() {
            Some("success") => Ok(Self {
                data: json["data"].clone(),
                warnings: texts("warnings"),
                infos: texts("infos"),
            }),
            Some("error") => {
                let kind = json["errorType"].as_str().unwrap_or("error");
                let message = json["error"].as_str().unwrap_or("no reason given");
                // What is wrong with the request is wrong with the arguments.
                if kind == "bad_data" {
                    bail!(WrongUsage(message.to_owned()));
                }
                bail!("{server} answered {}, {kind}: {message}", body.status)
            }
            _ => bail!("{server} answered {} without a status", body.status),
        }
    }

    /// Prints warnings, infos and the query plan to standard error.
    pub(crate) fn print_notes(&self) {
        for warning in &self.warnings {
            eprintln!("icecore: warning: {warning}");
        }
        for info in &self.infos {
            eprintln!("icecore: info: {info}");
        }
        if let Some(plan) = self.data["explain"].as_str() {
            eprintln!("{}", plan.trim_end());
        }
    }
}
