//! `icecore restore`: a snapshot becomes a database of its own.

use anyhow::Context as _;
use clap::Args;
use icecore_storage::inspect::Progress;
use icecore_storage::{Restore, RestoreProgress, restore};

use crate::output::{self, Output, size};
use crate::settings::SettingsArgs;

/// Make a new database out of a snapshot
///
/// Copies every record of the snapshot, reads both once more and compares them. Nothing of the new
/// database refers to the old one, which may be deleted afterwards. The old one is only read and
/// may be in use. The new place must be empty; a restore that was cut off goes on where it was when
/// it is run again, and until it is complete no server opens what is there. Credentials and
/// endpoints are the same for both places; where they are not, restore into a directory and copy
/// that.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// Where the snapshot is: a directory or a URL, as in --storage
    #[arg(long, value_name = "PATH_OR_URL")]
    from: String,

    /// The name of the snapshot
    #[arg(long, value_name = "NAME")]
    snapshot: String,

    /// Where the new database goes
    #[arg(long, value_name = "PATH_OR_URL")]
    to: String,

    #[command(flatten)]
    settings: SettingsArgs,
}

const EXAMPLES: &str = "\
Examples:
  icecore restore --from /var/lib/icecore --snapshot nightly --to /var/lib/icecore-restored
  icecore restore --from s3://metrics/db --snapshot nightly --to /mnt/backup";

impl RestoreArgs {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let options = self.settings.load()?.storage_options().store;
        let at = |location: &str| {
            let mut options = options.clone();
            options.location = location.to_owned();
            options
        };
        let plan = Restore {
            from: at(&self.from),
            snapshot: self.snapshot.clone(),
            to: at(&self.to),
            stores: None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        let line = output::status_line();
        let show = output::show_progress(&line, "restoring");
        let report = runtime.block_on(restore(plan, move |progress| show(&overall(progress))));
        line.finish_and_clear();
        let report = report?;
        let mut output = Output::new();
        let (records, bytes) = (report.records, size(report.bytes));
        let resumed = if report.resumed { ", resumed" } else { "" };
        let (name, to) = (&report.snapshot.name, &self.to);
        output.line(&format!(
            "Restored {name} into {to}: {records} records, {bytes}, compared{resumed}"
        ))?;
        Ok(output.finish()?)
    }
}

/// Copying is one half of it, comparing the other.
fn overall(progress: RestoreProgress) -> Progress {
    let files = progress.file_bytes as f64 / progress.file_bytes_total.max(1) as f64;
    Progress {
        done: (files + f64::from(u8::from(progress.comparing))) / 2.0,
        records: progress.records,
        bytes: progress.bytes,
    }
}
