//! `inspect buckets`: what there is, at a glance.

use icecore_storage::inspect::{
    BucketOverview, EpochOverview, Inspector, JobOverview, Overview, RecordType, RetiredOverview,
    TombstonesOverview,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use crate::output::{Format, Output, Table, size};
use crate::utc::format_ms;

pub(super) async fn show(
    inspector: &mut Inspector,
    format: Format,
    output: &mut Output,
) -> anyhow::Result<()> {
    let overview = inspector.overview().await?;
    match format {
        Format::Json => drop(output.json(&to_json(inspector.location(), &overview))?),
        Format::Text => print(&inspector.location(), &overview, output)?,
    }
    Ok(())
}

fn print(location: &str, overview: &Overview, output: &mut Output) -> anyhow::Result<()> {
    let number = |n: Option<u64>| n.map_or_else(|| "-".into(), |n| n.to_string());
    output.line(&format!("Database at {location}"))?;
    output.line(&format!("\nBuckets: {}", overview.buckets.len()))?;
    let mut table = Table::new(
        2,
        [
            "bucket",
            "start (UTC)",
            "series",
            "floats",
            "histograms",
            "exemplars",
            "runs",
            "files",
            "index",
            "samples",
            "cursor",
        ],
    );
    for bucket in &overview.buckets {
        let bytes = |types: &[RecordType]| -> u64 {
            types.iter().filter_map(|t| bucket.file_bytes.get(t)).sum()
        };
        table.row([
            bucket.bucket.to_string(),
            format_ms(bucket.bucket.start_ms()),
            bucket.series.to_string(),
            bucket.float_samples.to_string(),
            bucket.histogram_samples.to_string(),
            bucket.exemplars.to_string(),
            bucket.runs.to_string(),
            size(bucket.file_bytes.values().sum()),
            size(bytes(&[
                RecordType::SeriesDictionary,
                RecordType::ForwardIndex,
                RecordType::InvertedIndex,
            ])),
            size(bytes(&[
                RecordType::TimeSeries,
                RecordType::HistogramSeries,
                RecordType::ExemplarSeries,
            ])),
            number(bucket.cursor),
        ]);
    }
    if !overview.buckets.is_empty() {
        table.print(output)?;
    }
    for bucket in &overview.unlisted {
        let start = format_ms(bucket.start_ms());
        output.line(&format!(
            "{bucket} ({start}) is not listed: a flush or a job has not finished"
        ))?;
    }
    for retired in &overview.retired {
        let (bucket, at) = (retired.bucket, format_ms(retired.retired_at_ms));
        output.line(&format!(
            "{bucket} was replaced at {at} and waits to be dropped"
        ))?;
    }
    for found in &overview.tombstones {
        let (bucket, erased, shortened) = (found.bucket, found.erased, found.shortened);
        output.line(&format!(
            "{bucket} still holds {erased} series that were deleted, and deleted samples of {shortened} more"
        ))?;
    }
    if let Some(JobOverview {
        target,
        sources,
        phase,
    }) = &overview.job
    {
        output.line(&format!(
            "{target} is being made of {} buckets, phase {phase}",
            sources.len()
        ))?;
    }
    output.line(&format!("\nJournal epochs: {}", overview.epochs.len()))?;
    let mut table = Table::new(
        0,
        [
            "epoch",
            "records",
            "requests",
            "bytes",
            "first sequence",
            "last sequence",
            "unreadable",
        ],
    );
    for epoch in &overview.epochs {
        table.row([
            epoch.epoch.to_string(),
            epoch.records.to_string(),
            epoch.blocks.to_string(),
            size(epoch.bytes),
            epoch.first_sequence.to_string(),
            epoch.last_sequence.to_string(),
            epoch.unreadable.to_string(),
        ]);
    }
    if !overview.epochs.is_empty() {
        table.print(output)?;
    }
    let next_epoch = number(overview.next_epoch.map(u64::from));
    let next_sequence = number(overview.next_sequence);
    output.line(&format!(
        "\nWatermark: next sequence {next_sequence}, next epoch {next_epoch}"
    ))?;
    let cursor = number(overview.catalog_cursor);
    let (metadata, records) = (overview.metadata, overview.catalog_records);
    let unknown = overview.unknown_records;
    output.line(&format!(
        "Catalog: metadata of {metadata} metrics, {records} other records, cursor {cursor}; \
         unknown records: {unknown}"
    ))?;
    let files = overview.file_bytes.iter();
    let files: Vec<String> = files
        .map(|(t, bytes)| format!("{t} {}", size(*bytes)))
        .collect();
    output.line(&format!("Files: {}", files.join(", ")))?;
    for problem in &overview.problems {
        output.line(&format!("Problem: {problem}"))?;
    }
    for bucket in &overview.buckets {
        if let Some(problem) = &bucket.problem {
            output.line(&format!("Problem: bucket {}: {problem}", bucket.bucket))?;
        }
    }
    Ok(())
}

fn to_json(location: String, overview: &Overview) -> Value {
    json!({
        "location": location,
        "buckets": overview.buckets.iter().map(bucket).collect::<Vec<_>>(),
        "unlistedBuckets": overview.unlisted.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "tombstones": overview.tombstones.iter().map(tombstones).collect::<Vec<_>>(),
        "retiredBuckets": overview.retired.iter().map(retired).collect::<Vec<_>>(),
        "job": overview.job.as_ref().map(job),
        "journal": {
            "epochs": overview.epochs.iter().map(epoch).collect::<Vec<_>>(),
            "nextSequence": overview.next_sequence,
            "nextEpoch": overview.next_epoch,
        },
        "catalog": {
            "metadata": overview.metadata,
            "records": overview.catalog_records,
            "cursor": overview.catalog_cursor,
        },
        "unknownRecords": overview.unknown_records,
        "problems": overview.problems,
        "fileBytes": file_bytes(&overview.file_bytes),
    })
}

fn bucket(found: &BucketOverview) -> Value {
    json!({
        "bucket": found.bucket.to_string(),
        "start": format_ms(found.bucket.start_ms()),
        "startMs": found.bucket.start_ms(),
        "endMs": found.bucket.end_ms(),
        "series": found.series,
        "floatSamples": found.float_samples,
        "histogramSamples": found.histogram_samples,
        "exemplars": found.exemplars,
        "runs": found.runs,
        "lateHours": found.late_hours,
        "cursor": found.cursor,
        "fileBytes": file_bytes(&found.file_bytes),
        "problem": found.problem,
    })
}

fn tombstones(found: &TombstonesOverview) -> Value {
    json!({
        "bucket": found.bucket.to_string(),
        "erasedSeries": found.erased,
        "shortenedSeries": found.shortened,
    })
}

fn retired(found: &RetiredOverview) -> Value {
    json!({ "bucket": found.bucket.to_string(), "retiredAtMs": found.retired_at_ms })
}

fn job(found: &JobOverview) -> Value {
    json!({
        "target": found.target.to_string(),
        "sources": found.sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "phase": found.phase,
    })
}

fn epoch(found: &EpochOverview) -> Value {
    json!({
        "epoch": found.epoch,
        "records": found.records,
        "requests": found.blocks,
        "bytes": found.bytes,
        "firstSequence": found.first_sequence,
        "lastSequence": found.last_sequence,
        "unreadable": found.unreadable,
    })
}

fn file_bytes(bytes: &BTreeMap<RecordType, u64>) -> Value {
    let named = bytes
        .iter()
        .map(|(t, bytes)| (t.name().to_owned(), json!(bytes)));
    Value::Object(Map::from_iter(named))
}
