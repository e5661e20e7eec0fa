//! `icecore events show`: what is registered at a running server.

use clap::Args;
use reqwest::{Method, header};

use super::problem::{answer_of, text_of};
use super::text;
use crate::output::{Output, Table};
use crate::remote::{ServerArgs, path_segment};

/// Show what is registered
///
/// With a service its documents, which `icecore events apply` takes; without one all types of
/// events.
#[derive(Args)]
pub(super) struct ShowArgs {
    service: Option<String>,

    /// Print the answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl ShowArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let connection = self.server.connect()?;
        let mut output = Output::new();
        if let Some(service) = &self.service {
            let path = format!("/api/admin/config/service/{}", path_segment(service));
            let accepted = if self.json {
                "application/json"
            } else {
                "application/yaml"
            };
            let request = connection.request(Method::GET, &path);
            let request = request.header(header::ACCEPT, accepted);
            let body = connection.exchange(request).await?;
            output.line(text_of(&body, connection.server())?.trim_end())?;
            return Ok(output.finish()?);
        }
        let request = connection.request(Method::GET, "/api/catalog/event-type");
        let body = connection.exchange(request).await?;
        let answer = answer_of(&body, connection.server())?;
        if self.json {
            output.json(&answer)?;
            return Ok(output.finish()?);
        }
        let mut table = Table::new(2, ["service", "event", "attributes"]);
        for event_type in answer["eventTypes"].as_array().into_iter().flatten() {
            let attributes = event_type["attributes"].as_array().map_or(0, Vec::len);
            table.row([
                text(&event_type["service"]).to_owned(),
                text(&event_type["name"]).to_owned(),
                attributes.to_string(),
            ]);
        }
        table.print(&mut output)?;
        Ok(output.finish()?)
    }
}
