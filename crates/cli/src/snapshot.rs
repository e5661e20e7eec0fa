//! `icecore snapshot`: states of a running server that are kept.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::output::{Output, Table};
use crate::remote::{ServerArgs, path_segment};
use crate::utc::format_ms;

/// Create, list and delete snapshots of a running server
///
/// A snapshot is created at once and takes no space of its own: it keeps files that the database
/// would otherwise remove. `icecore restore` makes a new database out of it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Snapshots {
    #[command(subcommand)]
    what: Action,
}

const EXAMPLES: &str = "\
Examples:
  icecore snapshot create nightly --ttl 7d          of the server at http://127.0.0.1:9090
  icecore snapshot list --server http://db:9090
  icecore snapshot delete nightly
  icecore restore --from /var/lib/icecore --snapshot nightly --to s3://backup/icecore";

#[derive(Subcommand)]
enum Action {
    Create(CreateArgs),
    List(ListArgs),
    Delete(DeleteArgs),
}

/// Keep the state of now, and print its name
#[derive(Args)]
struct CreateArgs {
    /// Letters, digits, dots, hyphens and underscores; made from the time when it is not given
    name: Option<String>,

    /// How long it is kept, for example 7d; without it, until it is deleted
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,

    /// Print the data of the API's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// List what is kept, by time
#[derive(Args)]
struct ListArgs {
    /// Print the data of the API's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Delete a snapshot; its files are removed within minutes
#[derive(Args)]
struct DeleteArgs {
    name: String,

    #[command(flatten)]
    server: ServerArgs,
}

impl Snapshots {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(async {
            match self.what {
                Action::Create(arguments) => create(arguments).await,
                Action::List(arguments) => list(arguments).await,
                Action::Delete(DeleteArgs { name, server }) => {
                    let path = format!("/api/v1/admin/tsdb/snapshot/{}", path_segment(&name));
                    server.delete(&path).await
                }
            }
        })
    }
}

async fn create(arguments: CreateArgs) -> anyhow::Result<()> {
    let mut params = Vec::new();
    params.extend(arguments.name.map(|name| ("name", name)));
    params.extend(arguments.ttl.map(|ttl| ("ttl", ttl)));
    let path = "/api/v1/admin/tsdb/snapshot";
    let answer = arguments.server.post(path, &params, None).await?;
    answer.print_notes();
    let mut output = Output::new();
    if arguments.json {
        output.json(&answer.data)?
    } else {
        output.line(text(&answer.data["name"]))?
    };
    Ok(output.finish()?)
}

async fn list(arguments: ListArgs) -> anyhow::Result<()> {
    let answer = arguments.server.get("/api/v1/admin/tsdb/snapshots").await?;
    answer.print_notes();
    let mut output = Output::new();
    if arguments.json {
        output.json(&answer.data)?;
        return Ok(output.finish()?);
    }
    let time = |value: &Value| value.as_i64().map_or_else(|| "never".to_owned(), format_ms);
    let mut table = Table::new(4, ["name", "made", "expires", "id"]);
    for snapshot in answer.data.as_array().into_iter().flatten() {
        table.row([
            text(&snapshot["name"]).to_owned(),
            time(&snapshot["createdMs"]),
            time(&snapshot["expiresMs"]),
            text(&snapshot["id"]).to_owned(),
        ]);
    }
    table.print(&mut output)?;
    Ok(output.finish()?)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
