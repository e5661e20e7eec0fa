//! The `icecore` binary: arguments in, exit code out.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage (arguments or configuration). What went wrong is
//! said on standard error as `icecore: error: …`, with the cause and, where it is known, the cure.
//!
//! To add a subcommand: a module with an `Args` struct and a `run`, and one line in [`Command`] and
//! in [`Command::run`].

mod config;
mod serve;
mod settings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use icecore_server::ConfigError;

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;

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
  icecore config --config prometheus.yml              which settings are in effect, and why";

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Config(config::ShowConfig),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Config(config) => config.run(),
        }
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) if !answer.use_stderr() => {
            // `--help` and `--version`. A reader that has gone away has seen enough.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            let said = wrong.render().to_string();
            // Without a subcommand clap answers with the help, which is no complaint.
            let prefix = if said.starts_with("error:") {
                "icecore: "
            } else {
                ""
            };
            eprint!("{prefix}{said}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("icecore: error: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<ConfigError>() {
        WRONG_USAGE
    } else {
        FAILED
    }
}
