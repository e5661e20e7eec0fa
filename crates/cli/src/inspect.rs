//! `icecore inspect`: the contents of a store, also beside a running writer.

mod buckets;
mod records;
mod stats;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use icecore_model::{BucketSize, BucketStart};
use icecore_storage::inspect::{Bucket, Inspector, RecordType};

use crate::output::{self, Format, Output};
use crate::settings::SettingsArgs;
use crate::{WrongUsage, utc};

/// Look into a database, also while it is being written to
///
/// Reads buckets, records or statistics of the database at --storage. Nothing is written to it, and
/// a running writer is not disturbed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// What to show
    #[arg(value_enum, default_value_t)]
    what: View,

    /// How to print it: records as one JSON object per line, everything else as one object
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    /// Show no more than this many records, or rows of a ranking
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,

    /// Only this bucket: 1h@28333320 as shown, its start in minutes, or a time in its hour
    #[arg(long, value_name = "BUCKET", value_parser = parse_bucket)]
    bucket: Option<Bucket>,

    #[command(flatten)]
    settings: SettingsArgs,

    #[command(flatten)]
    records: records::RecordArgs,

    #[command(flatten)]
    stats: stats::StatsArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum View {
    /// Buckets, journal epochs and the catalog
    #[default]
    Buckets,
    /// Records of a key range, decoded
    Records,
    /// Series, samples and bytes by metric and by label
    Stats,
}

const EXAMPLES: &str = "\
Examples:
  icecore inspect --storage /var/lib/icecore
  icecore inspect records --type TimeSeries --bucket 2023-11-14T22:00Z --limit 10 -v
  icecore inspect records --prefix 013101b05508 --hex
  icecore inspect stats --start 2023-11-14 --limit 50 -o json";

impl Inspect {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.check_usage()?;
        let options = self.settings.load()?.storage_options().store;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(async {
            let mut inspector = Inspector::open(&options).await?;
            let progress = output::status_line();
            inspector.on_progress(output::show_progress(&progress, "reading"));
            let mut output = Output::new();
            let shown = match self.what {
                View::Buckets => buckets::show(&mut inspector, self.output, &mut output).await,
                View::Records => {
                    let selection = self.records.selection(self.bucket, self.limit);
                    let hex = self.records.hex;
                    records::show(&mut inspector, &selection, self.output, hex, &mut output).await
                }
                View::Stats => {
                    let query = self.stats.query(self.bucket, self.limit);
                    stats::show(&mut inspector, &query, self.output, &mut output, &progress).await
                }
            };
            progress.finish_and_clear();
            shown?;
            output.finish()?;
            Ok(inspector.close().await?)
        })
    }

    /// Flags that would have no effect are a misunderstanding.
    fn check_usage(&self) -> Result<(), WrongUsage> {
        let wrong = |flags: &str, what: &str| {
            Err(WrongUsage(format!(
                "{flags}: only for `icecore inspect {what}`"
            )))
        };
        if self.what != View::Records && self.records.is_given() {
            return wrong(
                "--prefix, --type, --from, --to, --hex, --verbose",
                "records",
            );
        }
        if self.what != View::Stats && self.stats.is_given() {
            return wrong("--start, --end", "stats");
        }
        if self.what == View::Buckets && (self.bucket.is_some() || self.limit.is_some()) {
            return wrong("--bucket, --limit", "records` or `icecore inspect stats");
        }
        Ok(())
    }
}

/// `1h@28333320`, minutes, or a time within an hour.
fn parse_bucket(text: &str) -> anyhow::Result<Bucket> {
    if let Some((hours, start)) = text.split_once("h@") {
        let hours: u32 = hours.parse().context("no bucket size")?;
        if !hours.is_power_of_two() {
            bail!("buckets are 1, 2, 4, 8 … hours long, not {hours}");
        }
        let exponent = u8::try_from(hours.ilog2() + 1)?;
        let size = BucketSize::from_exponent(exponent).context("no such bucket size")?;
        let start = BucketStart(start.parse().context("no start in minutes")?);
        return Ok(Bucket { size, start });
    }
    if let Ok(minutes) = text.parse() {
        return Ok(Bucket::hour(BucketStart(minutes)));
    }
    let start = BucketSize::HOUR.bucket_of(utc::parse_ms(text)?);
    Ok(Bucket::hour(start.context("no bucket can hold this time")?))
}

fn parse_type(text: &str) -> Result<RecordType, String> {
    let found = RecordType::ALL
        .into_iter()
        .find(|record_type| record_type.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names: Vec<&str> = RecordType::ALL.iter().map(|t| t.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_understood_as_shown_and_as_times() {
        for text in ["1h@28333320", "28333320", "2023-11-14T22:13:20Z"] {
            let bucket = parse_bucket(text).unwrap();
            assert_eq!(bucket.to_string(), "1h@28333320", "{text}");
        }
        assert_eq!(parse_bucket("16h@28332480").unwrap().size.exponent(), 5);
        for text in ["3h@0", "h@1", "1h@", "65536h@0", "yesterday", "-1"] {
            assert!(parse_bucket(text).is_err(), "{text}");
        }
    }
}
