//! `icecore export`: series of a server in a file, as JSON or in the native format.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use icecore_wire::native;

use super::export_run::{ExportRequest, ExportRun};
use super::opentsdb::OpentsdbExport;
use crate::WrongUsage;
use crate::query::times::parse_duration_ms;
use crate::remote::ServerArgs;

/// Write series of a server to a file
///
/// Slice of time by slice of time, so that an import finds what belongs together close together and
/// an interrupted export can go on. The file has its name when it is complete, FILE.part until
/// then.
#[derive(Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Export {
    #[command(subcommand)]
    format_of: Option<ExportFor>,

    /// The file to write; - for standard output. Names that end in .gz or .zst are compressed
    #[arg(short, long, value_name = "FILE", required = true)]
    output: Option<PathBuf>,

    /// Series to export (default: all); may be repeated
    #[arg(short = 'm', long = "match", value_name = "SELECTOR")]
    selectors: Vec<String>,

    /// Start time (default: the first sample)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,

    /// End time (default: now)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<String>,

    /// Lines of JSON, or frames that are smaller and faster
    #[arg(long, value_enum, default_value_t = Format::Native)]
    format: Format,

    /// How much time is asked for at once; 0 for everything, so that no series comes twice. One day
    /// into a file, everything to standard output unless given
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    slice: Option<i64>,

    /// Go on with FILE.part where the last slice ended
    #[arg(long)]
    resume: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  icecore export -o all.native                                 everything
  icecore export -o up.json.zst --format json --match up --start -30d
  icecore export -o - --format json --match 'up{job=\"a\"}' | jq .metric
  icecore export -o all.native --resume                        after an interruption";

/// Formats of other programs.
#[derive(Subcommand)]
enum ExportFor {
    Opentsdb(OpentsdbExport),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Native,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Native => "native",
        }
    }

    /// The length of an answer in which there is nothing.
    fn empty_bytes(self) -> u64 {
        match self {
            Self::Json => 0,
            Self::Native => {
                let mut stream = Vec::new();
                native::Encoder::new(&mut stream).finish(&mut stream);
                stream.len() as u64
            }
        }
    }
}

impl Export {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        match self.format_of {
            Some(ExportFor::Opentsdb(export)) => runtime.block_on(export.export()),
            None => runtime.block_on(self.export()),
        }
    }

    async fn export(self) -> anyhow::Result<()> {
        let Some(output) = self.output else {
            bail!(WrongUsage("--output is missing".into()));
        };
        let connection = self.server.connect()?;
        let run = ExportRun {
            output,
            selectors: self.selectors,
            start: self.start,
            end: self.end,
            slice: self.slice,
            resume: self.resume,
            request: ExportRequest {
                path: "/api/v1/export",
                params: vec![("format", self.format.name().into())],
                empty_bytes: self.format.empty_bytes(),
                has_report: false,
                last: None,
            },
        };
        let progress = run.run(&connection, |_| {}).await?;
        eprintln!("icecore: exported {}", progress.rates());
        Ok(())
    }
}
