//! `icecore config`: which settings are in effect, and where each came from;
//! `icecore config check`: what of a file is not supported.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use icecore_server::{Config, Inputs};

use crate::settings::SettingsArgs;

/// Show the configuration in effect
///
/// Takes the same flags, environment and file as `icecore serve`, checks them, and prints every
/// setting with its value and where it came from, as YAML that can be used as a file. Secrets are
/// not shown.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ShowConfig {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Subcommand)]
enum ConfigCommand {
    Check(CheckConfig),
}

/// Check a configuration file, and list what of it is not supported
///
/// A server starts with the file unless this fails. Parts that are not supported are left out then;
/// for each, the list has its place and what to use instead.
#[derive(Args)]
struct CheckConfig {
    /// A configuration file of Prometheus, with or without our section icecore
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Fail if a part is not supported
    #[arg(long = "config.strict")]
    strict: bool,
}

impl CheckConfig {
    fn run(self) -> anyhow::Result<()> {
        let strict = self.strict.then(|| ("config.strict".into(), "true".into()));
        let config = Config::load(&Inputs {
            file: Some(self.file.clone()),
            environment: std::env::vars_os().collect(),
            flags: strict.into_iter().collect(),
        })?;
        let mut text = String::new();
        for warning in config.warnings() {
            let _ = writeln!(text, "{warning}");
        }
        let file = self.file.display();
        let _ = match config.unsupported().len() {
            0 => writeln!(text, "{file} is valid, and all of it is supported"),
            1 => writeln!(text, "{file} is valid; 1 part of it is not supported"),
            count => writeln!(
                text,
                "{file} is valid; {count} parts of it are not supported"
            ),
        };
        print(&text)
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // `icecore config | head` is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

impl ShowConfig {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(ConfigCommand::Check(check)) = self.command {
            return check.run();
        }
        let config = self.settings.load()?;
        for warning in config.warnings() {
            eprintln!("icecore: warning: {warning}");
        }
        print(&config.render())
    }
}
