//! `icecore maintenance`: what coarsening is doing, and a run of it now.
//!
//! ```text
//!            ┌─► remote (HTTP) ─► a running server ─┐
//! arguments ─┤                                      ├─► JSON as in the API ─► table or JSON
//!            └─► --storage ─► the database, opened ─┘           └─► progress ─► standard error
//! ```
//!
//! Holds always:
//! - Standard output has the result and nothing else, so that it can be piped.
//! - What is printed comes from the JSON of the API, also about a stopped database: both say the same.

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
use stopped::{Stopped, StoppedArgs};

/// Coarsen closed hours now, or say how far coarsening is
///
/// Asks the server at --server, or works on the stopped database at --storage.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Maintenance {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  icecore maintenance status                            of the server at http://127.0.0.1:9090
  icecore maintenance run --server http://db:9090       now, and wait until it is done
  icecore maintenance run --storage /var/lib/icecore    while no server runs there";

#[derive(Subcommand)]
enum What {
    Status(StatusArgs),
    Run(RunArgs),
}

/// Say what coarsening is doing and what is left to do
#[derive(Args)]
struct StatusArgs {
    #[command(flatten)]
    place: Place,
}

/// Bring everything that is closed into its final form, and wait for it
///
/// Flushes, coarsens, folds late samples in, drops what was replaced, and ends when the store has let
/// go of it. Says on standard error how far it is. A run on a server goes on when this command is
/// interrupted. What cannot be done, because something stored is damaged, is skipped and reported; the
/// exit code is 1 then.
#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Place {
    /// Print the data of the API's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    stopped: StoppedArgs,
}

/// How often a run is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(500);

impl Maintenance {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the threads that work")?;
        runtime.block_on(async {
            match self.what {
                What::Status(StatusArgs { place }) => {
                    let status = match place.stopped.settings() {
                        Some(settings) => status_of_stopped(settings.load()?).await?,
                        None => status_of_server(&place.server).await?,
                    };
                    print(&status, place.json, show::status)
                }
                What::Run(RunArgs { place }) => {
                    let report = match place.stopped.settings() {
                        Some(settings) => run_stopped(settings.load()?).await?,
                        None => run_on_server(&place.server).await?,
                    };
                    print(&report, place.json, show::report)?;
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
    answer.tell();
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
                answer.tell();
                return Ok(answer.data);
            }
            () = tokio::time::sleep(ASK_EVERY) => {
                // The run tells whether it fails; progress is a courtesy.
                if let Ok(status) = status_of_server(server).await {
                    progress.update(&status);
                }
            }
        }
    }
}

async fn status_of_stopped(config: icecore_server::Config) -> anyhow::Result<Value> {
    let stopped = Stopped::open(&config).await?;
    let status = stopped.status();
    stopped.close().await?;
    status
}

async fn run_stopped(config: icecore_server::Config) -> anyhow::Result<Value> {
    let stopped = Stopped::open(&config).await?;
    let mut progress = Progress::new();
    let report = {
        let mut running = std::pin::pin!(stopped.run());
        loop {
            tokio::select! {
                report = &mut running => break report,
                () = tokio::time::sleep(ASK_EVERY) => progress.update(&stopped.status()?),
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
