//! `icecore export opentsdb`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::skips::Skips;
use super::tables::{TableArgs, params};
use crate::query::times::parse_duration_ms;
use crate::remote::ServerArgs;
use crate::transfer::export_run::{ExportRequest, ExportRun};

/// Write series as OpenTSDB reads them: its text format, or cells of its tables
///
/// Text is what `tsdb import` takes. Cells are lines of JSON, with UIDs, meta data, annotations,
/// trees, rollups and histograms; `icecore import opentsdb` reads both.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpentsdbExport {
    /// The file to write; - for standard output. Names that end in .gz or .zst are compressed
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Series to export (default: all); may be repeated
    #[arg(short = 'm', long = "match", value_name = "SELECTOR")]
    selectors: Vec<String>,

    /// Start time (default: the first sample)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,

    /// End time (default: now)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<String>,

    /// Lines of text, or cells
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Give UIDs to names that have none, because only other clients have written them; needs the
    /// role admin. Without it, cells leave out their series
    #[arg(long)]
    assign_uids: bool,

    /// How much time is asked for at once; 0 for everything. One day into a file, everything to
    /// standard output unless given
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    slice: Option<i64>,

    /// Go on with FILE.part where the last slice ended
    #[arg(long)]
    resume: bool,

    #[command(flatten)]
    tables: TableArgs,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  icecore export opentsdb -o points.gz                         then: tsdb import points.gz
  icecore export opentsdb -o all.json.zst --format cells
  icecore export opentsdb -o - --match '{__name__=~\"sys.cpu.*\"}' --start -1d";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Cells,
}

impl OpentsdbExport {
    pub(crate) async fn export(self) -> anyhow::Result<()> {
        let connection = self.server.connect()?;
        let mut common = params(&self.tables.tables()?.layout);
        common.push(("report", "true".into()));
        common.push((
            "format",
            match self.format {
                Format::Text => "text".into(),
                Format::Cells => "cells".into(),
            },
        ));
        if self.assign_uids {
            common.push(("assign_uids", "true".into()));
        }
        let part = |part: &str| {
            let mut params = common.clone();
            params.push(("part", part.to_owned()));
            params
        };
        let run = ExportRun {
            output: self.output,
            selectors: self.selectors,
            start: self.start,
            end: self.end,
            slice: self.slice,
            resume: self.resume,
            request: ExportRequest {
                path: if self.assign_uids {
                    "/api/v1/export/opentsdb?assign_uids=true"
                } else {
                    "/api/v1/export/opentsdb"
                },
                params: part("points"),
                empty_bytes: 0,
                has_report: true,
                last: (self.format == Format::Cells).then(|| part("tables")),
            },
        };
        let mut skips = Skips::default();
        let add = |report: &serde_json::Value| skips.add(report, |line| format!("line {line}"));
        let progress = run.run(&connection, add).await?;
        skips.print("not exported");
        eprintln!("icecore: exported {}", progress.rates());
        Ok(())
    }
}
