//! `icecore check`: reads everything and says whether it fits together.

use anyhow::{Context as _, bail};
use clap::Args;
use icecore_storage::inspect::{CheckOptions, CheckReport, Inspector};
use serde_json::{Map, Value, json};

use crate::output::{self, Output, size};
use crate::settings::SettingsArgs;

/// Read the whole database and verify that it is sound
///
/// Reads every record of the database at --storage: that keys and values decode, that every sample
/// lies in its bucket and belongs to a series, that labels and index agree both ways, that buckets
/// are listed and that the journal is complete. Nothing is written, and a running writer is not
/// disturbed. Exit code 0: sound. 1: problems, or the check could not be done. 2: wrong usage.
#[derive(Args)]
pub(crate) struct Check {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,

    /// Problems to spell out; all are counted
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    settings: SettingsArgs,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let options = self.settings.load()?.storage_options().store;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        let limit = CheckOptions {
            problems_max: self.limit,
        };
        let report = runtime.block_on(async {
            let mut inspector = Inspector::open(&options).await?;
            let progress = output::status_line();
            inspector.on_progress(output::show_progress(&progress, "checking"));
            let report = inspector.check(limit).await;
            progress.finish_and_clear();
            inspector.close().await?;
            report
        })?;
        let mut output = Output::new();
        if self.json {
            output.json(&to_json(&report))?;
        } else {
            print(&report, &mut output)?;
        }
        output.finish()?;
        match report.problems_total {
            0 => Ok(()),
            1 => bail!("1 problem"),
            problems => bail!("{problems} problems"),
        }
    }
}

fn print(report: &CheckReport, output: &mut Output) -> anyhow::Result<()> {
    let counts = &report.counts;
    output.line(&format!("Checked {}", report.location))?;
    let records = counts.records_total();
    let read = size(report.bytes_read);
    output.line(&format!("  {records:>12} records, {read}"))?;
    for (what, count) in figures(report) {
        if count > 0 {
            output.line(&format!("  {count:>12} {what}"))?;
        }
    }
    for note in &report.notes {
        output.line(&format!(
            "Note: {}  [{}]",
            note.text,
            hex::encode(&note.key)
        ))?;
    }
    for problem in &report.problems {
        output.line(&format!(
            "Problem ({}): {}: {}  [{}]",
            problem.kind,
            problem.name,
            problem.reason,
            hex::encode(&problem.key)
        ))?;
    }
    let more = report.problems_total - report.problems.len() as u64;
    if more > 0 {
        output.line(&format!("… and {more} more problems (--limit)"))?;
    }
    if report.is_clean() {
        output.line("No problems.")?;
    } else {
        let kinds = report.problems_by_kind.iter();
        let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{kind} {n}")).collect();
        output.line(&format!(
            "{} problems: {}",
            report.problems_total,
            kinds.join(", ")
        ))?;
    }
    Ok(())
}

fn figures(report: &CheckReport) -> [(&'static str, u64); 24] {
    let counts = &report.counts;
    [
        ("buckets", counts.buckets),
        ("series, summed over buckets", counts.series),
        ("float samples", counts.float_samples),
        ("histogram samples", counts.histogram_samples),
        ("exemplars", counts.exemplars),
        ("start timestamps", counts.start_timestamps),
        ("windows of rolled-up samples", counts.windows),
        (
            "windows compared with their samples",
            counts.windows_compared,
        ),
        ("shared columns of timestamps", counts.time_columns),
        ("label pairs in the index", counts.label_pairs),
        ("postings", counts.postings),
        ("journal epochs", counts.journal_epochs),
        ("journal requests", counts.journal_blocks),
        ("journal entries", counts.journal_entries),
        ("journal definitions", counts.journal_definitions),
        ("cursors", counts.cursors),
        ("metrics with metadata", counts.metadata),
        ("other records of the catalog", counts.catalog_records),
        ("cells of events", counts.event_cells),
        ("identities of events", counts.event_identities),
        ("records of retired buckets", counts.retired_records),
        ("records of unfinished buckets", counts.unfinished_records),
        ("records of unknown type", counts.unknown_records),
        (
            "times begun again because files had vanished",
            report.restarts,
        ),
    ]
}

fn to_json(report: &CheckReport) -> Value {
    let counts = &report.counts;
    let by_type = counts.records.iter();
    let by_type = by_type.map(|(t, count)| (t.name().to_owned(), json!(count)));
    let by_kind = report.problems_by_kind.iter();
    let by_kind = by_kind.map(|(kind, count)| (kind.name().to_owned(), json!(count)));
    let problems = report.problems.iter().map(|problem| {
        json!({
            "kind": problem.kind.name(),
            "key": hex::encode(&problem.key),
            "name": problem.name,
            "reason": problem.reason,
        })
    });
    let notes = report.notes.iter();
    let notes = notes.map(|note| json!({"key": hex::encode(&note.key), "text": note.text}));
    json!({
        "location": report.location,
        "clean": report.is_clean(),
        "problemsTotal": report.problems_total,
        "problemsByKind": Value::Object(Map::from_iter(by_kind)),
        "problems": problems.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "counts": {
            "records": Value::Object(Map::from_iter(by_type)),
            "unknownRecords": counts.unknown_records,
            "buckets": counts.buckets,
            "series": counts.series,
            "floatSamples": counts.float_samples,
            "histogramSamples": counts.histogram_samples,
            "exemplars": counts.exemplars,
            "startTimestamps": counts.start_timestamps,
            "windows": counts.windows,
            "windowsCompared": counts.windows_compared,
            "timeColumns": counts.time_columns,
            "labelPairs": counts.label_pairs,
            "postings": counts.postings,
            "journalEpochs": counts.journal_epochs,
            "journalRequests": counts.journal_blocks,
            "journalEntries": counts.journal_entries,
            "journalDefinitions": counts.journal_definitions,
            "cursors": counts.cursors,
            "metadata": counts.metadata,
            "catalogRecords": counts.catalog_records,
            "eventCells": counts.event_cells,
            "eventIdentities": counts.event_identities,
            "retiredRecords": counts.retired_records,
            "unfinishedRecords": counts.unfinished_records,
        },
        "bytesRead": report.bytes_read,
        "restarts": report.restarts,
    })
}
