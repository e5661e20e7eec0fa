//! The last look at a target before it is listed: everything that was counted is there.
//!
//! Each record was compared when it was encoded. What is left to find is a hole or something too
//! much, as an interrupted job could leave if it were wrong about how far it was.

use bytes::Bytes;
use icecore_model::rollup::HistogramWindow;
use icecore_records::maintenance_job::Counts;
use icecore_records::{Bucket, ParsedKey, RecordType, histogram_series, key};
use tracing::warn;

use super::super::pace::Watch;
use super::samples::count_floats;
use super::sources::Source;
use super::windows::{RollUp, samples_in};
use crate::error::{Error, Result};
use crate::maintenance::Maintenance;
use crate::slate::read_view::ScanKind;
use crate::stored;

/// Records that are looked at in one go.
const PAGE_RECORDS: usize = 1024;

/// What is there of a target.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    series: u64,
    floats: u64,
    histograms: u64,
    last_series: Option<u32>,
    /// Ids are missing, records do not decode or are of no series.
    wrong: u64,
}

/// Fails when the target is not what the job says it has written.
pub(super) async fn verify(
    maintenance: &Maintenance,
    watch: &Watch,
    target: Bucket,
    sources: &[Source],
    roll_up: Option<RollUp>,
    counts: &Counts,
) -> Result<()> {
    let mut found = Found::default();
    for record_type in [
        RecordType::ForwardIndex,
        RecordType::TimeSeries,
        RecordType::HistogramSeries,
        RecordType::RollupSeries,
    ] {
        found = look_through(maintenance, watch, target, record_type, counts, found).await?;
    }
    let stated: u64 = sources.iter().map(|s| s.meta.float_samples).sum();
    let right = found.wrong == 0
        && found.series == counts.series
        && found.floats == counts.floats
        && found.histograms == counts.histograms
        // Replaced samples are counted twice by a source, never the other way round.
        && (roll_up.is_some() || counts.floats_read <= stated)
        && counts.floats <= counts.floats_read;
    if !right {
        return Err(Error::Corrupt(
            format!(
                "bucket {target} is not complete: {found:?} where there should be {counts:?}, \
             {stated} samples in its sources"
            )
            .into(),
        ));
    }
    if counts.postings != counts.labels {
        // The sources are like that: a flush that was cut off leaves series without postings.
        let (postings, labels) = (counts.postings, counts.labels);
        warn!(%target, postings, labels, "the index lacks postings of some series");
    }
    Ok(())
}

async fn look_through(
    maintenance: &Maintenance,
    watch: &Watch,
    target: Bucket,
    record_type: RecordType,
    counts: &Counts,
    mut found: Found,
) -> Result<Found> {
    let view = maintenance.context.engine.live_view();
    let prefix = key::record_prefix(record_type, target);
    let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
    let reading = || Error::store("reading a coarse bucket");
    let series = counts.series;
    loop {
        let (mut page, mut bytes): (Vec<(Bytes, Bytes)>, usize) = (Vec::new(), 0);
        while page.len() < PAGE_RECORDS
            && let Some(record) = records.next().await.map_err(reading())?
        {
            bytes += record.key.len() + record.value.len();
            page.push((record.key, record.value));
        }
        if page.is_empty() {
            return Ok(found);
        }
        watch.read(bytes).await?;
        let work = move || {
            for (key, value) in page {
                found.note(&key, &value, series);
            }
            found
        };
        found = maintenance.context.job_pool.run(work).await?;
    }
}

impl Found {
    fn note(&mut self, key: &[u8], value: &Bytes, series_count: u64) {
        let right = match ParsedKey::parse(key) {
            Ok(ParsedKey::ForwardIndex { series, .. }) => {
                let expected = self.last_series.map_or(0, |last| last.wrapping_add(1));
                self.last_series = Some(series.0);
                self.series += 1;
                series.0 == expected
            }
            Ok(ParsedKey::TimeSeries { series, .. }) => {
                let count = count_floats(value);
                self.floats += count.unwrap_or(0);
                count.is_some() && u64::from(series.0) < series_count
            }
            Ok(ParsedKey::RollupSeries { series, bucket }) => {
                let windows = stored::windows(bucket, series, value);
                let samples = windows.iter().flatten().map(samples_in);
                self.floats += samples.sum::<u64>();
                windows.is_ok() && u64::from(series.0) < series_count
            }
            Ok(ParsedKey::RollupHistograms { series, bucket }) => {
                let windows = stored::histogram_windows(bucket, series, value);
                let samples = windows.iter().flatten().map(HistogramWindow::samples);
                self.histograms += samples.sum::<u64>();
                windows.is_ok() && u64::from(series.0) < series_count
            }
            Ok(ParsedKey::HistogramSeries { series, .. }) => {
                let entries = histogram_series::decode(value);
                self.histograms += entries.as_ref().map_or(0, |e| e.len() as u64);
                entries.is_ok() && u64::from(series.0) < series_count
            }
            Ok(
                ParsedKey::TimeSeriesStarts { series, .. }
                | ParsedKey::HistogramSeriesStarts { series, .. },
            ) => u64::from(series.0) < series_count,
            _ => false,
        };
        self.wrong += u64::from(!right);
    }
}
