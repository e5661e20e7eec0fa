//! `icecore config`: which settings are in effect, and where each came from.

use std::io::Write as _;

use clap::Args;

use crate::settings::SettingsArgs;

/// Show the configuration in effect
///
/// Takes the same flags, environment and file as `icecore serve`, checks them, and prints every
/// setting with its value and where it came from, as YAML that can be used as a file. Secrets are
/// not shown.
#[derive(Args)]
pub(crate) struct ShowConfig {
    #[command(flatten)]
    settings: SettingsArgs,
}

impl ShowConfig {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let config = self.settings.load()?;
        for warning in config.warnings() {
            eprintln!("icecore: warning: {warning}");
        }
        match std::io::stdout().write_all(config.render().as_bytes()) {
            // `icecore config | head` is no failure.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        }
    }
}
