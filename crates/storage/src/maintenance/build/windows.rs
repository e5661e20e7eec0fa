//! Windows of the target, batch by batch: what is kept of samples, or of finer windows.
//!
//! Holds always:
//! - Everything that the sources have in the time of the target is in a window: the samples that
//!   went in are counted, and so are those that the windows stand for.
//! - Floats and histograms of a series have a record each; a stale marker of either kind ends both.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::retention::{RetentionClass, RetentionPolicy};
use icecore_model::rollup::{
    HistogramWindow, Resolution, SeriesWindows, Window, WindowFields, last_histogram_positions,
    last_positions, roll_up, roll_up_histogram_windows, roll_up_histograms, roll_up_windows,
    unite_ends,
};
use icecore_model::{Labels, is_stale_nan};
use icecore_records::maintenance_job::{JobKind, Rollup};
use icecore_records::{Bucket, SeriesId};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::batches::{Batch, SeriesRecords, SourceRecord};
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
    /// [`SeriesFilter::hash`].
    pub(super) left_out: u64,
    /// The sources have the same windows, in smaller buckets that this one takes the place of.
    pub(super) coarsens: bool,
}

/// [`SeriesFilter::hash`] where everything is left out.
const ALL: u64 = u64::MAX;

/// [`SeriesFilter::hash`] of a level; 0 where nothing is left out.
pub(super) fn left_out(policy: Option<Arc<RetentionPolicy>>, resolution: Resolution) -> u64 {
    SeriesFilter::new(policy, resolution).map_or(0, |filter| filter.hash())
}

/// Which series a bucket has.
pub(super) enum SeriesFilter {
    /// Those that a level has.
    Level(Arc<RetentionPolicy>, Resolution),
    /// Those whose raw samples are kept for longer than those of others.
    Longer(Arc<RetentionPolicy>),
    Nothing,
}

impl SeriesFilter {
    /// Of a level. `None`: it has all of them.
    pub(super) fn new(
        policy: Option<Arc<RetentionPolicy>>,
        resolution: Resolution,
    ) -> Option<Self> {
        let policy = policy?;
        // A level that the policy does not name is made for the sake of others.
        let is_named = policy.level(resolution).is_some();
        let mut classes = policy.classes();
        let leaves_out = is_named && classes.any(|class| !policy.reaches(class, resolution));
        leaves_out.then_some(Self::Level(policy, resolution))
    }

    /// Of a remnant.
    pub(super) fn longer(policy: Option<Arc<RetentionPolicy>>) -> Self {
        policy.map_or(Self::Nothing, Self::Longer)
    }

    pub(super) fn has(&self, labels: &Labels) -> bool {
        match self {
            Self::Level(policy, _) | Self::Longer(policy) => {
                self.has_class(policy, policy.class_of(labels))
            }
            Self::Nothing => false,
        }
    }

    fn has_class(&self, policy: &RetentionPolicy, class: RetentionClass) -> bool {
        match self {
            Self::Level(_, resolution) => policy.reaches(class, *resolution),
            Self::Longer(_) => policy.outlives(class, Resolution::RAW),
            Self::Nothing => false,
        }
    }

    /// Stands for what is left out.
    pub(super) fn hash(&self) -> u64 {
        let (Self::Level(policy, _) | Self::Longer(policy)) = self else {
            return ALL;
        };
        let classes = policy.classes().skip(1);
        let of = policy.overrides().iter().zip(classes);
        let of = of.map(|(series, class)| {
            let is_left_out = !self.has_class(policy, class);
            format!("{series} {is_left_out}\n")
        });
        xxh3_64(of.collect::<String>().as_bytes())
    }
}

/// The windows of a series, and how many samples went in.
#[derive(Default)]
pub(super) struct CountedWindows {
    pub(super) windows: SeriesWindows,
    pub(super) float_samples: u64,
    pub(super) histogram_samples: u64,
}

impl RollUp {
    /// Whether the bucket has no series, because there is nothing of its time.
    pub(super) fn is_empty(&self) -> bool {
        self.left_out == ALL
    }

    /// As the job record has it.
    pub(super) fn kind(&self) -> JobKind {
        JobKind::RollUp(Rollup {
            resolution: self.resolution,
            is_lean: self.lean,
            left_out: self.left_out,
        })
    }

    /// What a level keeps of floats. Of histograms it keeps everything: beside them what a lean
    /// level saves is next to nothing.
    pub(super) fn fields(&self) -> WindowFields {
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
        let windows = self.windows(sources, columns, series)?;
        self.encode_windows(SeriesId(series.id), &windows)
    }

    /// The records of windows, which stand for what went in.
    pub(super) fn encode_windows(
        &self,
        id: SeriesId,
        windows: &CountedWindows,
    ) -> Result<EncodedSeries> {
        windows.check(id)?;
        let SeriesWindows { floats, histograms } = &windows.windows;
        let mut encoded = EncodedSeries {
            id: id.0,
            floats_read: windows.float_samples,
            floats: windows.float_samples,
            histograms: windows.histogram_samples,
            windows: floats.len() as u64,
            histogram_windows: histograms.len() as u64,
            range_ms: self.range_ms(&windows.windows),
            ..EncodedSeries::default()
        };
        let mut put = |kind: RecordKind, value: Bytes| {
            encoded.records.push((kind.key(self.target, id), value));
        };
        if !floats.is_empty() {
            let value = encode::windows(self.target, id, self.resolution, self.fields(), floats)?;
            put(RecordKind::Windows, value);
        }
        if !histograms.is_empty() {
            let value = encode::histogram_windows(self.target, id, self.resolution, histograms)?;
            put(RecordKind::HistogramWindows, value);
        }
        Ok(encoded)
    }

    /// What becomes of a series.
    pub(super) fn windows(
        &self,
        sources: &[Bucket],
        columns: &[SharedColumns],
        series: &SeriesRecords,
    ) -> Result<CountedWindows> {
        if series.records.iter().any(SourceRecord::has_windows) {
            self.of_windows(sources, series)
        } else {
            self.of_samples(sources, columns, series)
        }
    }

    /// The time of all windows.
    fn range_ms(&self, windows: &SeriesWindows) -> Option<(i64, i64)> {
        let floats = windows.floats.iter().map(|window| window.start_ms);
        let histograms = windows.histograms.iter().map(|window| window.start_ms);
        let starts = floats.chain(histograms);
        let (first, last) = (starts.clone().min()?, starts.max()?);
        Some((first, last + self.resolution.ms() - 1))
    }

    /// The windows of samples in the time of the target.
    pub(super) fn of_samples(
        &self,
        sources: &[Bucket],
        columns: &[SharedColumns],
        series: &SeriesRecords,
    ) -> Result<CountedWindows> {
        let mut united = unite(sources, columns, series)?;
        let within = |time: i64| self.target.contains(time);
        let times = &united.floats.timestamps;
        let first = times.partition_point(|time| *time < self.target.start_ms());
        let end = times.partition_point(|time| *time < self.target.end_ms());
        let (times, values) = (&times[first..end], &united.floats.values[first..end]);
        let samples = times.iter().copied().zip(values.iter().copied());
        let is_fresh = |(_, value): &(i64, f64)| !is_stale_nan(*value);
        united.histograms.retain(|entry| within(entry.timestamp_ms));
        let histograms = united.histograms.iter();
        let histograms =
            histograms.filter_map(|entry| Some((entry.timestamp_ms, entry.value.as_ref()?)));
        let histogram_times: Vec<i64> = histograms.clone().map(|(time, _)| time).collect();
        let fresh_histograms = histograms.clone().filter(|(_, of)| !of.is_stale()).count();
        let mut windows = CountedWindows {
            float_samples: samples.clone().filter(is_fresh).count() as u64,
            histogram_samples: fresh_histograms as u64,
            windows: SeriesWindows {
                floats: roll_up(self.resolution, samples),
                histograms: roll_up_histograms(self.resolution, histograms),
            },
        };
        windows.unite_ends(self.resolution, times, &histogram_times);
        Ok(windows)
    }

    /// The same of finer windows.
    fn of_windows(&self, sources: &[Bucket], series: &SeriesRecords) -> Result<CountedWindows> {
        let mut finer = stored_windows(sources, &series.records)?;
        let within = |start_ms: i64| self.target.contains(start_ms);
        finer.floats.retain(|window| within(window.start_ms));
        finer.histograms.retain(|window| within(window.start_ms));
        let float_samples = finer.floats.iter().map(samples_in).sum();
        let histogram_samples = finer.histograms.iter().map(HistogramWindow::samples).sum();
        if self.coarsens {
            return Ok(CountedWindows {
                windows: finer,
                float_samples,
                histogram_samples,
            });
        }
        let mut windows = CountedWindows {
            float_samples,
            histogram_samples,
            windows: SeriesWindows {
                floats: roll_up_windows(self.resolution, &finer.floats),
                histograms: roll_up_histogram_windows(self.resolution, &finer.histograms),
            },
        };
        let float_positions = last_positions(&finer.floats);
        let histogram_positions = last_histogram_positions(&finer.histograms);
        windows.unite_ends(self.resolution, &float_positions, &histogram_positions);
        Ok(windows)
    }
}

/// The windows that records hold, one record after the other.
pub(super) fn stored_windows(
    sources: &[Bucket],
    records: &[SourceRecord],
) -> Result<SeriesWindows> {
    let mut found = SeriesWindows::default();
    for record in records {
        let (bucket, id, value) = (sources[record.source], record.id, &record.value);
        match record.kind {
            RecordKind::Windows => found.floats.extend(stored::windows(bucket, id, value)?),
            RecordKind::HistogramWindows => {
                let windows = stored::histogram_windows(bucket, id, value)?;
                if !windows.iter().all(is_whole) {
                    let reason = format!("windows of series {id} in {bucket} lack histograms");
                    return Err(Error::Corrupt(reason.into()));
                }
                found.histograms.extend(windows);
            }
            _ => {}
        }
    }
    Ok(found)
}

impl CountedWindows {
    fn unite_ends(&mut self, resolution: Resolution, floats: &[i64], histograms: &[i64]) {
        unite_ends(
            resolution,
            (&mut self.windows.floats, floats),
            (&mut self.windows.histograms, histograms),
        );
    }

    /// Fails where the windows do not stand for what went in.
    fn check(&self, id: SeriesId) -> Result<()> {
        let SeriesWindows { floats, histograms } = &self.windows;
        let floats: u64 = floats.iter().map(samples_in).sum();
        let histograms = histograms.iter().map(HistogramWindow::samples).sum();
        for (kind, samples, counted) in [
            ("samples", self.float_samples, floats),
            ("histograms", self.histogram_samples, histograms),
        ] {
            if counted != samples {
                return Err(Error::Corrupt(
                    format!("{samples} {kind} of series {id} became windows of {counted}").into(),
                ));
            }
        }
        Ok(())
    }
}

/// Whether a window has the histograms that coarser ones are made of.
fn is_whole(window: &HistogramWindow) -> bool {
    let interior = window.interior.as_ref();
    interior.is_none_or(|of| of.samples > 0 && of.first.is_some() && of.last.is_some())
}

/// The samples that a window stands for.
pub(super) fn samples_in(window: &Window) -> u64 {
    window.all().map_or(0, |all| all.samples())
}
