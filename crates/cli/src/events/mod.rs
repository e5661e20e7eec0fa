//! `icecore events`: documents of a registry, and questions to a running server.
//!
//! Holds always: what is wrong with documents is found before a server is asked.

mod documents;
mod problem;
mod quarantine;
mod show;
mod sql;
mod suggest;
mod tar;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use crate::output::Output;
use crate::remote::ServerArgs;
use problem::answer_of;

/// Register events, and ask a running server about them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    #[command(subcommand)]
    what: Action,
}

const EXAMPLES: &str = "\
Examples:
  icecore events suggest samples.json > shop.yaml   documents for events as in the file
  icecore events check shop.yaml services/          whether documents can be used, without a server
  icecore events apply shop.yaml                    registers them at http://127.0.0.1:9090
  icecore events show shop                          what is registered of a service
  icecore events sql \"SELECT event_type, count(*) FROM events WHERE started_at > now() - INTERVAL '1 hour' GROUP BY 1\"
  icecore events quarantine                         events of types that are not registered
  icecore events flush                              writes the cells of all events so far";

#[derive(Subcommand)]
enum Action {
    Apply(documents::ApplyArgs),
    Check(documents::CheckArgs),
    Show(show::ShowArgs),
    Suggest(suggest::SuggestArgs),
    Sql(sql::SqlArgs),
    Quarantine(quarantine::QuarantineArgs),
    Flush(FlushArgs),
}

/// Write the cells of all events so far, and wait until the store has them
#[derive(Args)]
struct FlushArgs {
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Events {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            Action::Check(arguments) => arguments.run(),
            Action::Suggest(arguments) => arguments.run(),
            Action::Apply(arguments) => block_on(arguments.run()),
            Action::Show(arguments) => block_on(arguments.run()),
            Action::Sql(arguments) => block_on(arguments.run()),
            Action::Quarantine(arguments) => block_on(arguments.run()),
            Action::Flush(arguments) => block_on(flush(arguments)),
        }
    }
}

fn block_on(future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(future)
}

async fn flush(arguments: FlushArgs) -> anyhow::Result<()> {
    let connection = arguments.server.connect()?;
    let request = connection.request(Method::POST, "/api/admin/flush");
    let body = connection.exchange(request).await?;
    let answer = answer_of(&body, connection.server())?;
    let mut output = Output::new();
    if arguments.json {
        output.json(&answer)?;
    } else {
        let number = |key: &str| answer[key].as_u64().unwrap_or_default();
        let (generation, seq) = (number("generation"), number("hiSeq"));
        output.line(&format!("generation {generation}, up to request {seq}"))?;
    }
    Ok(output.finish()?)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
