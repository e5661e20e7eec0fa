//! `icecore maintenance`: what is done to buckets, and a run of it now.
//!
//! ```text
//!            ┌─► remote (HTTP) ─► a running server ─┐
//! arguments ─┤                                      ├─► JSON as in the API ─► table or JSON
//!            └─► --storage ─► the database, opened ─┘           └─► progress ─► standard error
//! ```
//!
//! Holds always:
//! - Standard output has the result and nothing else, so that it can be piped.
//! - What is printed comes from the JSON of the API, also about a stopped database: both say the
//!   same.

mod progress;
mod show;
mod stopped;

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::output::Output;
use crate::remote::ServerArgs;
use progress::Progress;
use stopped::{StoppedArgs, StoppedDatabase};

/// Coarsen, roll up and delete now what is due, or say how far that is
///
/// Asks the server at --server, or works on the stopped database at --storage.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Maintenance {
    #[command(subcommand)]
    what: Action,
}

const EXAMPLES: &str = "\
Examples:
  icecore maintenance status                            of the server at http://127.0.0.1:9090
  icecore maintenance run --server http://db:9090       now, and wait until it is done
  icecore maintenance run --storage /var/lib/icecore    while no server runs there";

#[derive(Subcommand)]
enum Action {
    Status(StatusArgs),
    Run(RunArgs),
}

/// Say what maintenance is doing and what is left to do
#[derive(Args)]
struct StatusArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// Bring everything that is closed into its final form, and wait for it
///
/// Flushes, coarsens, rolls up and deletes as the retention policy says, folds late samples in,
/// drops what was replaced, and ends when the store has let go of it. Says on standard error how
/// far it is. A run on a server goes on when this command is interrupted. What cannot be done,
/// because something stored is damaged, is skipped and reported; the exit code is 1 then.
#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Args)]
struct TargetArgs {
    /// Print the data of the API's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    stopped: StoppedArgs,
}

/// Interval between progress updates of a run.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

impl Maintenance {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(async {
            match self.what {
                Action::Status(StatusArgs { target }) => {
                    let status = match target.stopped.settings() {
                        Some(settings) => status_of_stopped(settings.load()?).await?,
                        None => status_of_server(&target.server).await?,
                    };
                    print(&status, target.json, show::status)
                }
                Action::Run(RunArgs { target }) => {
                    let report = match target.stopped.settings() {
                        Some(settings) => run_stopped(settings.load()?).await?,
                        None => run_on_server(&target.server).await?,
                    };
                    print(&report, target.json, show::report)?;
                    match show::list(&report["skipped"]).len() {
                        0 => Ok(()),
                        skipped => bail!("{skipped} of the jobs failed and were skipped"),
                    }
                }
            }
        })
    }
}

async fn status_of_server(server: &ServerArgs) -> anyhow::Result<Value> {
    let answer = server.get("/api/v1/status/maintenance").await?;
    answer.print_notes();
    Ok(answer.data)
}

async fn run_on_server(server: &ServerArgs) -> anyhow::Result<Value> {
    let mut progress = Progress::new();
    let mut running = std::pin::pin!(server.post("/api/v1/admin/maintenance/run", &[], None));
    loop {
        tokio::select! {
            answer = &mut running => {
                progress.clear();
                let answer = answer?;
                answer.print_notes();
                return Ok(answer.data);
            }
            () = tokio::time::sleep(POLL_INTERVAL) => {
                // Errors of the run itself are reported; progress is optional.
                if let Ok(status) = status_of_server(server).await {
                    progress.update(&status);
                }
            }
        }
    }
}

async fn status_of_stopped(config: icecore_server::Config) -> anyhow::Result<Value> {
    let stopped = StoppedDatabase::open(&config).await?;
    let status = stopped.status();
    stopped.close().await?;
    status
}

async fn run_stopped(config: icecore_server::Config) -> anyhow::Result<Value> {
    let stopped = StoppedDatabase::open(&config).await?;
    let mut progress = Progress::new();
    let report = {
        let mut running = std::pin::pin!(stopped.run());
        loop {
            tokio::select! {
                report = &mut running => break report,
                () = tokio::time::sleep(POLL_INTERVAL) => progress.update(&stopped.status()?),
            }
        }
    };
    progress.clear();
    let closed = stopped.close().await;
    let report = report?;
    closed?;
    Ok(report)
}

fn print(
    data: &Value,
    as_json: bool,
    show: fn(&Value, &mut Output) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut output = Output::new();
    if as_json {
        output.json(data)?;
    } else {
        show(data, &mut output)?;
    }
    Ok(output.finish()?)
}

#[cfg(test)]
mod tests;
