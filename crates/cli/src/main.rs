//! The `icecore` binary: arguments in, exit code out.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage (arguments or configuration), 3 an import stored
//! some of its file only. What went wrong is said on standard error as `icecore: error: …`, with
//! the cause and, where it is known, a hint.
//!
//! To add a subcommand: a module with an `Args` struct and a `run`, and one line in [`Command`] and
//! in [`Command::run`].

mod check;
mod config;
mod events;
mod health;
mod inspect;
mod maintenance;
mod new_files;
mod opentsdb;
mod output;
mod policy;
mod query;
mod remote;
mod restore;
mod serve;
mod settings;
mod snapshot;
mod test_promql;
mod transfer;
mod utc;

use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use icecore_server::{ConfigError, ServeError};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const NOT_ALL_STORED: u8 = 3;

#[derive(Parser)]
#[command(name = "icecore", version, about, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  icecore serve                                       a directory here, http://127.0.0.1:9090
  icecore serve --storage s3://bucket/prefix --listen 0.0.0.0:9090
  icecore serve --config prometheus.yml               our settings are in its section icecore:
  icecore health                                      exit code 0 if a server is ready
  icecore config --config prometheus.yml              which settings are in effect, and why
  icecore config check prometheus.yml                 what of it is not supported
  icecore inspect --storage /var/lib/icecore          what lies there, also beside a running server
  icecore check --storage /var/lib/icecore            whether all of it fits together
  icecore maintenance run                             coarsens closed hours of a running server now
  icecore policy check prometheus.yml                 what it keeps how long
  icecore snapshot create nightly --ttl 7d            keeps the state of a running server
  icecore query range 'rate(http_requests_total[5m])' -o plot
  icecore events apply shop.yaml                      registers events of a service
  icecore export -o all.native; icecore import all.native
  icecore opentsdb translate 'sum:1m-avg:sys.cpu.user{host=*}'
  icecore test promql functions.test                  PromQL scripts, in memory";

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Health(health::Health),
    Config(config::ShowConfig),
    Inspect(inspect::Inspect),
    Check(check::Check),
    Maintenance(maintenance::Maintenance),
    Policy(policy::Policy),
    Snapshot(snapshot::Snapshots),
    Restore(restore::RestoreArgs),
    Query(query::Query),
    Events(events::Events),
    Export(transfer::export::Export),
    Import(transfer::import::Import),
    #[command(name = "opentsdb")]
    OpenTsdb(opentsdb::OpenTsdb),
    Test(test_promql::Test),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Health(health) => health.run(),
            Self::Config(config) => config.run(),
            Self::Inspect(inspect) => inspect.run(),
            Self::Check(check) => check.run(),
            Self::Maintenance(maintenance) => maintenance.run(),
            Self::Policy(policy) => policy.run(),
            Self::Snapshot(snapshots) => snapshots.run(),
            Self::Restore(restore) => restore.run(),
            Self::Query(query) => query.run(),
            Self::Events(events) => events.run(),
            Self::Export(export) => export.run(),
            Self::Import(import) => import.run(),
            Self::OpenTsdb(opentsdb) => opentsdb.run(),
            Self::Test(test) => test.run(),
        }
    }
}

fn main() -> ExitCode {
    new_files::keep_from_others();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) if !answer.use_stderr() => {
            // `--help` and `--version`. A closed standard output is no error.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            let message = wrong.render().to_string();
            // Without a subcommand clap answers with the help, which is no error.
            let prefix = if message.starts_with("error:") {
                "icecore: "
            } else {
                ""
            };
            eprint!("{prefix}{message}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("icecore: error: {}", with_causes(&error));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The error and its causes. Some errors say their cause themselves; it is not said again.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Arguments that do not go together.
#[derive(Debug)]
struct WrongUsage(String);

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// An import that came to its end and of whose file something is not stored.
#[derive(Debug)]
struct NotAllStored(String);

impl fmt::Display for NotAllStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAllStored {}

fn exit_code(error: &anyhow::Error) -> u8 {
    let served = error.downcast_ref::<ServeError>();
    if error.is::<NotAllStored>() {
        NOT_ALL_STORED
    } else if error.is::<ConfigError>()
        || error.is::<WrongUsage>()
        || served.is_some_and(ServeError::is_configuration)
    {
        WRONG_USAGE
    } else {
        FAILED
    }
}
