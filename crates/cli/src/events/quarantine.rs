//! `icecore events quarantine`: events of types that are not registered at a running server.

use std::collections::BTreeMap;

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::problem::answer_of;
use super::text;
use crate::output::{Output, Table};
use crate::remote::{Connection, ServerArgs};

/// Show events of types that are not registered
///
/// Lists services and types with the number of their events in quarantine. The content of events is
/// there only if the setting events.keep_payload was on when they came.
#[derive(Args)]
pub(super) struct QuarantineArgs {
    /// Store the events whose types are registered by now and whose content was kept
    #[arg(long)]
    replay: bool,

    /// Print the answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Entries that are asked for at once.
const PAGE: usize = 1_000;

/// The events of one type in quarantine.
#[derive(Default)]
struct OfType {
    events: u64,
    with_content: u64,
    newest: String,
}

impl QuarantineArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let connection = self.server.connect()?;
        let mut output = Output::new();
        if self.replay {
            let request = connection.request(Method::POST, "/api/admin/quarantine/replay");
            let body = connection.exchange(request).await?;
            let answer = answer_of(&body, connection.server())?;
            if self.json {
                output.json(&answer)?;
            } else {
                let number = |key: &str| answer[key].as_u64().unwrap_or_default();
                let (stored, remaining) = (number("stored"), number("remaining"));
                output.line(&format!("{stored} stored, {remaining} remain"))?;
            }
            return Ok(output.finish()?);
        }
        let types = listed(&connection).await?;
        if self.json {
            output.json(&json!(types.iter().map(type_json).collect::<Vec<_>>()))?;
            return Ok(output.finish()?);
        }
        let header = ["service", "event", "newest", "events", "with content"];
        let mut table = Table::new(3, header);
        for ((service, event), of_type) in &types {
            table.row([
                service.clone(),
                event.clone(),
                of_type.newest.clone(),
                of_type.events.to_string(),
                of_type.with_content.to_string(),
            ]);
        }
        table.print(&mut output)?;
        for line in advice(&types) {
            output.line(&line)?;
        }
        Ok(output.finish()?)
    }
}

type Types = BTreeMap<(String, String), OfType>;

/// Reads all entries, page by page.
async fn listed(connection: &Connection) -> anyhow::Result<Types> {
    let mut types = Types::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut path = format!("/api/admin/quarantine?limit={PAGE}");
        if let Some(cursor) = &cursor {
            path.push_str("&cursor=");
            path.push_str(cursor);
        }
        let body = connection
            .exchange(connection.request(Method::GET, &path))
            .await?;
        let answer = answer_of(&body, connection.server())?;
        for entry in answer["items"].as_array().into_iter().flatten() {
            let name = |key: &str| text(&entry[key]).to_owned();
            let of_type = types
                .entry((name("service"), name("eventType")))
                .or_default();
            of_type.events += 1;
            of_type.with_content += u64::from(entry["payload"].is_string());
            of_type.newest = of_type.newest.clone().max(name("receivedAt"));
        }
        match &answer["nextCursor"] {
            Value::String(next) if cursor.as_ref() != Some(next) => cursor = Some(next.clone()),
            _ => return Ok(types),
        }
    }
}

fn type_json(((service, event), of_type): (&(String, String), &OfType)) -> Value {
    json!({
        "service": service,
        "eventType": event,
        "newest": of_type.newest,
        "events": of_type.events,
        "withContent": of_type.with_content,
    })
}

/// Returns advice about the events.
fn advice(types: &Types) -> Vec<String> {
    let without: u64 = types.values().map(|of| of.events - of.with_content).sum();
    let with: u64 = types.values().map(|of| of.with_content).sum();
    let mut lines = Vec::new();
    if without > 0 {
        lines.push(format!(
            "The content of {without} events was not kept, because no masking rule is known for \
             it: register their types with `icecore events apply` and send them again. With the \
             setting events.keep_payload the content of such events is kept."
        ));
    }
    if with > 0 {
        lines.push(format!(
            "{with} events are stored, masked, as soon as their types are registered with \
             `icecore events apply`."
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_about_what_is_there() {
        let of = |events, with_content| {
            let of_type = OfType {
                events,
                with_content,
                newest: String::new(),
            };
            let types = Types::from([(("shop".into(), "order".into()), of_type)]);
            advice(&types)
        };
        assert!(of(0, 0).is_empty());
        let [line] = &of(3, 0)[..] else { panic!() };
        assert!(line.contains("3 events was not kept") && line.contains("events.keep_payload"));
        let [line] = &of(3, 3)[..] else { panic!() };
        assert!(line.starts_with("3 events are stored, masked"));
        assert_eq!(of(3, 1).len(), 2);
    }
}
