//! `icecore policy`: what is kept how long, by a file or by a running server; `policy apply`
//! confirms what Prometheus' setting deletes.
//!
//! Holds always: what is printed comes from the JSON of the API, also about a file: both say the
//! same.

mod show;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use icecore_server::{Config, ConfigError, Inputs, Problem, read_policy_file, retention_status};
use serde_json::Value;

use crate::output::Output;
use crate::remote::ServerArgs;

/// Check a retention policy, or show the one in effect
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Policy {
    #[command(subcommand)]
    what: Action,
}

const EXAMPLES: &str = "\
Examples:
  icecore policy check prometheus.yml           its section icecore: {retention: …}
  icecore policy check policy.yml               a file with the keys of a policy alone
  icecore policy show                           of the server at http://127.0.0.1:9090
  icecore policy show --config prometheus.yml   of a server that would be started with it
  icecore policy apply                          storage.tsdb.retention.time may delete older data";

#[derive(Subcommand)]
enum Action {
    Check(CheckArgs),
    Show(ShowArgs),
    Apply(ApplyArgs),
}

/// Confirm that storage.tsdb.retention.time deletes older data
///
/// A database that holds data older than this setting of Prometheus keeps it, with a warning, until
/// this command says once that it may go. The server remembers it. Prints what is in effect then.
#[derive(Args)]
struct ApplyArgs {
    /// Print the data of the API's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Check the policy of a file and print what it keeps how long
///
/// The file is a configuration file, which is checked as a whole, or has the keys of a policy
/// (levels, rollup_delay, late_data, overrides) at its top. Problems are printed as
/// FILE:LINE:COLUMN, and the exit code is 1.
#[derive(Args)]
struct CheckArgs {
    file: PathBuf,

    /// Print the policy as JSON, as the API has it
    #[arg(long)]
    json: bool,
}

/// Show what is kept how long
#[derive(Args)]
struct ShowArgs {
    /// Print the data of the API's answer as JSON
    #[arg(long)]
    json: bool,

    /// Read this configuration file and the environment instead of asking a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "headers"])]
    config: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,
}

impl Policy {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            Action::Check(CheckArgs { file, json }) => check(&file, json),
            Action::Show(ShowArgs {
                json,
                config,
                server,
            }) => {
                let status = match config {
                    Some(file) => status_of_file(file)?,
                    None => status_of_server(&server)?,
                };
                print(&status, json)
            }
            Action::Apply(ApplyArgs { json, server }) => print(&apply(&server)?, json),
        }
    }
}

fn check(file: &Path, as_json: bool) -> anyhow::Result<()> {
    match read_policy_file(file) {
        Ok(policy) => print(&retention_status(policy.as_ref()), as_json),
        Err(ConfigError::Invalid(problems)) => {
            let mut output = Output::new();
            for problem in &problems {
                output.line(&located(problem))?;
            }
            output.finish()?;
            let count = match problems.len() {
                1 => "1 problem".to_owned(),
                count => format!("{count} problems"),
            };
            bail!("{count} in {}", file.display())
        }
        Err(unreadable) => bail!("{unreadable}"),
    }
}

/// `FILE:LINE:COLUMN: KEY: what is wrong; what would be right`.
fn located(problem: &Problem) -> String {
    let mut text = String::new();
    if let Some((file, at)) = &problem.location {
        text.push_str(&format!("{}:{}:{}: ", file.display(), at.line, at.column));
    }
    if !problem.subject.is_empty() {
        text.push_str(&format!("{}: ", problem.subject));
    }
    text.push_str(&problem.reason);
    if let Some(hint) = &problem.hint {
        text.push_str(&format!("; {hint}"));
    }
    text
}

fn status_of_file(file: PathBuf) -> Result<Value, ConfigError> {
    let config = Config::load(&Inputs {
        file: Some(file),
        environment: std::env::vars_os().collect(),
        flags: Vec::new(),
    })?;
    Ok(retention_status(config.retention_policy().as_ref()))
}

fn status_of_server(server: &ServerArgs) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let answer = runtime.block_on(server.get("/api/v1/status/retention"))?;
    answer.print_notes();
    Ok(answer.data)
}

fn apply(server: &ServerArgs) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let answer = server.post("/api/v1/admin/retention/apply", &[], None);
    Ok(runtime.block_on(answer)?.data)
}

fn print(status: &Value, as_json: bool) -> anyhow::Result<()> {
    let mut output = Output::new();
    if as_json {
        output.json(status)?;
    } else {
        show::status(status, &mut output)?;
    }
    Ok(output.finish()?)
}
