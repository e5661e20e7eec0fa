//! Windows of the target, batch by batch: what is kept of samples, or of finer windows.
//!
//! Holds always:
//! - Everything that the sources have in the time of the target is in a window: the samples that
//!   went in are counted, and so are those that the windows stand for.

use icecore_model::is_stale_nan;
use icecore_model::rollup::{Resolution, Window, WindowFields, roll_up, roll_up_windows};
use icecore_records::maintenance_job::{JobKind, Rollup};
use icecore_records::{Bucket, SeriesId, key};
use rayon::prelude::*;

use super::batches::{Batch, SeriesRecords};
use super::series::{EncodedSeries, unite};
use crate::buckets::encode;
use crate::buckets::record_kind::RecordKind;
use crate::error::{Error, Result};
use crate::stored::{self, SharedColumns};

/// What is made of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RollUp {
    pub(super) target: Bucket,
    pub(super) resolution: Resolution,
    pub(super) lean: bool,
}

impl RollUp {
    /// As the job record has it.
    pub(super) fn kind(&self) -> JobKind {
        JobKind::RollUp(Rollup {
            resolution: self.resolution,
            is_lean: self.lean,
        })
    }

    fn fields(&self) -> WindowFields {
        if self.lean {
            let dispensable = WindowFields::M2 | WindowFields::CHANGES;
            WindowFields::ALL.without(dispensable)
        } else {
            WindowFields::ALL
        }
    }

    /// The CPU part of a batch.
    pub(super) fn build(&self, sources: &[Bucket], batch: &Batch) -> Result<Vec<EncodedSeries>> {
        let series = batch.series.par_iter();
        series
            .map(|series| self.encode(sources, &batch.columns, series))
            .collect()
    }

    fn encode(
        &self,
        sources: &[Bucket],
        columns: &[SharedColumns],
        series: &SeriesRecords,
    ) -> Result<EncodedSeries> {
        let of_windows = |kind| matches!(kind, RecordKind::Windows | RecordKind::HistogramWindows);
        let (windows, samples) = if series.records.iter().any(|record| of_windows(record.kind)) {
            self.of_windows(sources, series)?
        } else {
            self.of_samples(sources, columns, series)?
        };
        let id = SeriesId(series.id);
        let mut encoded = EncodedSeries {
            id: series.id,
            ..EncodedSeries::default()
        };
        let counted: u64 = windows.iter().map(samples_in).sum();
        if counted != samples {
            return Err(Error::Corrupt(
                format!("{samples} samples of series {id} became windows of {counted}").into(),
            ));
        }
        if !windows.is_empty() {
            let value = encode::windows(self.target, id, self.resolution, self.fields(), &windows)?;
            encoded
                .records
                .push((key::rollup_series(self.target, id), value));
        }
        encoded.floats_read = samples;
        encoded.floats = counted;
        encoded.windows = windows.len() as u64;
        let ends = windows.first().zip(windows.last());
        encoded.range_ms = ends.map(|(first, last)| {
            let end_ms = last.start_ms + self.resolution.ms() - 1;
            (first.start_ms, end_ms)
        });
        Ok(encoded)
    }

    /// The windows of samples in the time of the target, and how many samples those are.
    fn of_samples(
        &self,
        sources: &[Bucket],
        columns: &[SharedColumns],
        series: &SeriesRecords,
    ) -> Result<(Vec<Window>, u64)> {
        let united = unite(sources, columns, series)?;
        if united.has_histograms() {
            return Err(Error::Unavailable(
                "native histograms cannot be rolled up yet".into(),
            ));
        }
        let floats = &united.floats;
        let within = |time: &i64| self.target.contains(*time);
        let first = floats
            .timestamps
            .partition_point(|t| *t < self.target.start_ms());
        let samples = floats.timestamps[first..].iter().take_while(|t| within(t));
        let samples = samples.copied().zip(floats.values[first..].iter().copied());
        let count = samples.clone().filter(|(_, value)| !is_stale_nan(*value));
        let count = count.count() as u64;
        Ok((roll_up(self.resolution, samples), count))
    }

    /// The same of finer windows.
    fn of_windows(&self, sources: &[Bucket], series: &SeriesRecords) -> Result<(Vec<Window>, u64)> {
        let mut finer: Vec<Window> = Vec::new();
        for record in &series.records {
            if record.kind == RecordKind::Windows {
                let bucket = sources[record.source];
                finer.extend(stored::windows(bucket, record.id, &record.value)?);
            }
        }
        finer.retain(|window| self.target.contains(window.start_ms));
        let samples = finer.iter().map(samples_in).sum();
        Ok((roll_up_windows(self.resolution, &finer), samples))
    }
}

/// The samples that a window stands for.
pub(super) fn samples_in(window: &Window) -> u64 {
    window.all().map_or(0, |all| all.samples())
}
