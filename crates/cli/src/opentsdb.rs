//! `icecore opentsdb`: what people need who come from OpenTSDB.

mod translate;

use clap::{Args, Subcommand};

/// Come from OpenTSDB
#[derive(Args)]
pub(crate) struct OpenTsdb {
    #[command(subcommand)]
    what: Action,
}

#[derive(Subcommand)]
enum Action {
    Translate(translate::Translate),
}

impl OpenTsdb {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            Action::Translate(translate) => translate.run(),
        }
    }
}
