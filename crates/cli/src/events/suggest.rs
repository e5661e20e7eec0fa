//! `icecore events suggest`: documents for events as in a file.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::output::Output;

/// Guess documents from sample events
///
/// The file has an envelope, an array of them, or one per line; - is standard input. What is
/// printed is a start: attributes with their types, and a counter for each type of event.
#[derive(Args)]
pub(super) struct SuggestArgs {
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl SuggestArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut text = String::new();
        if self.file.as_os_str() == "-" {
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
        } else {
            text = std::fs::read_to_string(&self.file)
                .with_context(|| format!("cannot read {}", self.file.display()))?;
        }
        let suggested = match icecore_events::suggest(&text) {
            Ok(suggested) => suggested,
            Err(problem) => bail!("{}", problem.detail),
        };
        let mut output = Output::new();
        output.line(suggested.trim_end())?;
        Ok(output.finish()?)
    }
}
