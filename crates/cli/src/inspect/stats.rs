//! `inspect stats`: where series, samples and bytes come from.

use clap::Args;
use icecore_storage::inspect::{Bucket, Inspector, Statistics, StatisticsQuery};
use serde_json::{Value, json};

use indicatif::ProgressBar;

use crate::output::{Format, Output, Table, size};
use crate::utc::parse_ms;

#[derive(Args)]
#[command(next_help_heading = "Statistics")]
pub(super) struct StatsArgs {
    /// Only buckets that end after this time
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    start: Option<i64>,

    /// Only buckets that begin no later than this time
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    end: Option<i64>,
}

impl StatsArgs {
    pub(super) fn is_given(&self) -> bool {
        self.start.is_some() || self.end.is_some()
    }

    pub(super) fn query(&self, bucket: Option<Bucket>, limit: Option<u64>) -> StatisticsQuery {
        let default = StatisticsQuery::default();
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        StatisticsQuery {
            start_ms: self.start.unwrap_or(default.start_ms),
            end_ms: self.end.unwrap_or(default.end_ms),
            bucket,
            limit: limit.unwrap_or(default.limit),
        }
    }
}

pub(super) async fn show(
    inspector: &mut Inspector,
    query: &StatisticsQuery,
    format: Format,
    output: &mut Output,
    progress: &ProgressBar,
) -> anyhow::Result<()> {
    let statistics = inspector.statistics(query).await?;
    progress.finish_and_clear();
    match format {
        Format::Json => drop(output.json(&to_json(&statistics))?),
        Format::Text => print(&statistics, output)?,
    }
    Ok(())
}

fn print(found: &Statistics, output: &mut Output) -> anyhow::Result<()> {
    output.line(&format!(
        "{} buckets, {} series, {} samples, {} exemplars, {} before compression",
        found.buckets,
        found.series,
        found.samples,
        found.exemplars,
        size(found.bytes)
    ))?;
    if found.unreadable > 0 {
        let unreadable = found.unreadable;
        output.line(&format!(
            "{unreadable} records could not be read: see icecore check"
        ))?;
    }
    let shown = |shown: usize, total: u64, what: &str| {
        if shown as u64 == total {
            format!("\n{total} {what}")
        } else {
            format!("\n{shown} of {total} {what}, largest first")
        }
    };
    output.line(&shown(found.metrics.len(), found.metrics_total, "metrics"))?;
    let mut table = Table::new(1, ["metric", "series", "samples", "exemplars", "bytes"]);
    for metric in &found.metrics {
        table.row([
            metric.name.clone(),
            metric.series.to_string(),
            metric.samples.to_string(),
            metric.exemplars.to_string(),
            size(metric.bytes),
        ]);
    }
    table.print(output)?;
    output.line(&shown(found.labels.len(), found.labels_total, "labels"))?;
    let mut table = Table::new(1, ["label", "values", "series", "samples", "index bytes"]);
    for label in &found.labels {
        table.row([
            label.name.clone(),
            label.values.to_string(),
            label.series.to_string(),
            label.samples.to_string(),
            size(label.bytes),
        ]);
    }
    table.print(output)?;
    Ok(())
}

fn to_json(found: &Statistics) -> Value {
    let metrics = found.metrics.iter().map(|metric| {
        json!({
            "name": metric.name,
            "series": metric.series,
            "samples": metric.samples,
            "exemplars": metric.exemplars,
            "bytes": metric.bytes,
        })
    });
    let labels = found.labels.iter().map(|label| {
        json!({
            "name": label.name,
            "values": label.values,
            "series": label.series,
            "samples": label.samples,
            "indexBytes": label.bytes,
        })
    });
    json!({
        "buckets": found.buckets,
        "series": found.series,
        "samples": found.samples,
        "exemplars": found.exemplars,
        "bytes": found.bytes,
        "unreadable": found.unreadable,
        "metricsTotal": found.metrics_total,
        "labelsTotal": found.labels_total,
        "metrics": metrics.collect::<Vec<_>>(),
        "labels": labels.collect::<Vec<_>>(),
    })
}
