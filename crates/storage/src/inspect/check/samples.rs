//! The samples of a bucket: streams and columns decode to their end, times ascend inside the
//! bucket, and each belongs to a series.
//!
//! In a coarse bucket a value may have several parts, and times may lie in a column that several
//! series share: the columns are read before the samples.

use std::collections::BTreeSet;

use icecore_model::BucketSize;
use icecore_model::rollup::{HistogramEdge, WindowFields};
use icecore_records::rollup_histograms::HistogramRecord;
use icecore_records::rollup_series::{self, RollupRecord};
use icecore_records::{
    Bucket, HistogramEntry, ParsedKey, SeriesId, exemplar_series, gorilla, histogram_series,
    start_timestamps,
};

use super::super::still::Record;
use super::report::{Findings, ProblemKind};
use super::series::SeriesCheck;
use crate::stored::{self, SharedColumns};

/// What the samples of a bucket have shown.
pub(super) struct SampleCheck {
    bucket: Bucket,
    /// Of floats and histograms.
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    pub(super) has_histograms: bool,
    pub(super) has_starts: bool,
    pub(super) floats: u64,
    pub(super) histograms: u64,
    pub(super) exemplars: u64,
    /// Shared columns that can be read, those that cannot, and those that samples refer to.
    columns: SharedColumns,
    broken_columns: BTreeSet<u32>,
    used_columns: BTreeSet<u32>,
    timestamps: Vec<i64>,
    values: Vec<f64>,
}

impl SampleCheck {
    pub(super) fn new(bucket: Bucket) -> Self {
        Self {
            bucket,
            first_ms: i64::MAX,
            last_ms: i64::MIN,
            has_histograms: false,
            has_starts: false,
            floats: 0,
            histograms: 0,
            exemplars: 0,
            columns: SharedColumns::new(),
            broken_columns: BTreeSet::new(),
            used_columns: BTreeSet::new(),
            timestamps: Vec::new(),
            values: Vec::new(),
        }
    }

    /// A column of timestamps, before all samples.
    pub(super) fn column(&mut self, record: &Record, findings: &mut Findings) {
        // A broken key is reported when its turn comes.
        let Ok(ParsedKey::TimeColumn { column, .. }) = ParsedKey::parse(&record.key) else {
            return;
        };
        match stored::decode_column(self.bucket, column, &record.value) {
            Ok(times) => {
                let ends = [times.first(), times.last()];
                self.times(ends.into_iter().flatten(), false, record, findings);
                self.columns.insert(column, times);
            }
            Err(cause) => {
                findings.problem(ProblemKind::Value, &record.key, cause.to_string());
                self.broken_columns.insert(column);
            }
        }
    }

    /// Columns that samples refer to, whether they are there or not.
    pub(super) fn used_columns(&self) -> &BTreeSet<u32> {
        &self.used_columns
    }

    pub(super) fn record(
        &mut self,
        parsed: &ParsedKey,
        record: &Record,
        series: &SeriesCheck,
        findings: &mut Findings,
    ) {
        let before = (self.floats, self.histograms, self.exemplars);
        let (id, decoded) = match parsed {
            ParsedKey::TimeSeries { series, .. } => {
                (series, self.float_samples(*series, record, findings))
            }
            ParsedKey::TimeSeriesStarts { series, .. }
            | ParsedKey::HistogramSeriesStarts { series, .. } => {
                (series, self.starts(record, findings))
            }
            ParsedKey::HistogramSeries { series, .. } => {
                (series, self.histogram_samples(record, findings))
            }
            ParsedKey::ExemplarSeries { series, .. } => {
                (series, self.exemplars_of(record, findings))
            }
            ParsedKey::RollupSeries { series, .. } => (series, self.windows(record, findings)),
            ParsedKey::RollupHistograms { series, .. } => {
                (series, self.histogram_windows(record, findings))
            }
            _ => return,
        };
        if let Err(cause) = decoded {
            findings.undecodable(&record.key, &cause);
        }
        if !series.contains(id.0) {
            // What belongs to nothing is not what BucketMeta speaks of.
            (self.floats, self.histograms, self.exemplars) = before;
            let reason = format!("series {id} has no forward record");
            findings.problem(ProblemKind::NoSeries, &record.key, reason);
        }
    }

    fn float_samples(
        &mut self,
        series: SeriesId,
        record: &Record,
        findings: &mut Findings,
    ) -> Decoded {
        self.timestamps.clear();
        self.values.clear();
        if self.bucket.size == BucketSize::HOUR {
            gorilla::decode_into(&record.value, &mut self.timestamps, &mut self.values)?;
        } else {
            match self.coarse_times(series, record) {
                Ok(times) => self.timestamps = times,
                Err(cause) => {
                    findings.problem(ProblemKind::Value, &record.key, cause.to_string());
                    return Ok(());
                }
            }
        }
        self.floats += self.timestamps.len() as u64;
        findings.counts.float_samples += self.timestamps.len() as u64;
        let times = std::mem::take(&mut self.timestamps);
        self.times(times.iter().copied(), true, record, findings);
        self.note_range(&times);
        self.timestamps = times;
        Ok(())
    }

    /// The times of the samples of all parts. None of a value that needs a column which cannot be
    /// read: that has been said about the column.
    fn coarse_times(
        &mut self,
        series: SeriesId,
        record: &Record,
    ) -> Result<Vec<i64>, crate::Error> {
        let mut needed = BTreeSet::new();
        stored::add_referenced_columns(self.bucket, series, &record.value, &mut needed)?;
        self.used_columns.extend(&needed);
        if !needed.is_disjoint(&self.broken_columns) {
            return Ok(Vec::new());
        }
        let floats = stored::floats(self.bucket, series, &record.value, &self.columns)?;
        Ok(floats.timestamps)
    }

    fn starts(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let starts = start_timestamps::decode(&record.value)?;
        findings.counts.start_timestamps += starts.len() as u64;
        self.has_starts = true;
        self.times(starts.iter().map(|start| start.0), true, record, findings);
        Ok(())
    }

    fn histogram_samples(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let entries: Vec<HistogramEntry> = if self.bucket.size == BucketSize::HOUR {
            histogram_series::decode(&record.value)?
        } else {
            histogram_series::decode_coarse(&record.value)?
        };
        // One that only says that there is none at a time is no histogram.
        self.has_histograms |= entries.iter().any(|entry| entry.value.is_some());
        for entry in &entries {
            let Some(histogram) = &entry.value else {
                continue;
            };
            findings.counts.histogram_samples += 1;
            self.histograms += 1;
            if let Err(cause) = histogram.validate() {
                let reason = format!("histogram at {}: {cause}", entry.timestamp_ms);
                findings.problem(ProblemKind::Value, &record.key, reason);
            }
        }
        let times: Vec<i64> = entries.iter().map(|entry| entry.timestamp_ms).collect();
        self.times(times.iter().copied(), true, record, findings);
        self.note_range(&times);
        Ok(())
    }

    fn exemplars_of(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let exemplars = exemplar_series::decode(&record.value)?;
        findings.counts.exemplars += exemplars.len() as u64;
        self.exemplars += exemplars.len() as u64;
        let times = exemplars.iter().map(|exemplar| exemplar.timestamp_ms);
        self.times(times, false, record, findings);
        Ok(())
    }

    /// What a window holds lies in it and fits together.
    fn windows(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let parsed = RollupRecord::parse(self.bucket, &record.value)?;
        let width_ms = parsed.resolution().ms();
        let windows = rollup_series::decode_windows(self.bucket, &record.value)?;
        let starts = windows.iter().map(|window| window.start_ms);
        self.times(starts, true, record, findings);
        for window in &windows {
            let last_ms = window.start_ms + width_ms - 1;
            self.note_range(&[window.start_ms, last_ms]);
            let samples = window.all().map_or(0, |all| all.samples());
            self.floats += samples;
            findings.counts.windows += 1;
            let Some(interior) = &window.interior else {
                continue;
            };
            let inside = window.start_ms + 1..=last_ms;
            let (first, last) = (interior.first_ms, interior.last_ms);
            if !inside.contains(&first) || !inside.contains(&last) || first > last {
                let reason = format!("samples from {first} to {last} are not in their window");
                findings.problem(ProblemKind::Time, &record.key, reason);
            }
        }
        Ok(())
    }

    /// The same for histograms. That they lie in their windows is looked at where they are decoded.
    fn histogram_windows(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let parsed = HistogramRecord::parse(self.bucket, &record.value)?;
        let width_ms = parsed.resolution().ms();
        let bucket_ms = self.bucket.start_ms()..self.bucket.end_ms();
        let windows = parsed.windows(WindowFields::ALL, bucket_ms)?;
        let starts = windows.iter().map(|window| window.start_ms);
        self.times(starts, true, record, findings);
        self.has_histograms |= !windows.is_empty();
        for window in &windows {
            let last_ms = window.start_ms + width_ms - 1;
            self.note_range(&[window.start_ms, last_ms]);
            self.histograms += window.samples();
            findings.counts.windows += 1;
            let edge = match &window.edge {
                HistogramEdge::Sample(histogram) => Some(histogram),
                HistogramEdge::None | HistogramEdge::Stale => None,
            };
            let interior = window.interior.as_ref();
            if interior.is_some_and(|of| of.samples == 0 || of.first.is_none() || of.last.is_none())
            {
                let reason = format!("window {} lacks its histograms", window.start_ms);
                findings.problem(ProblemKind::Value, &record.key, reason);
            }
            let interior = interior.into_iter().flat_map(|of| [&of.first, &of.last]);
            for histogram in edge.into_iter().chain(interior.flatten()) {
                if let Err(cause) = histogram.validate() {
                    let reason = format!("histogram in window {}: {cause}", window.start_ms);
                    findings.problem(ProblemKind::Value, &record.key, reason);
                }
            }
        }
        Ok(())
    }

    /// Times must lie in the bucket and ascend, strictly or not.
    fn times(
        &self,
        times: impl Iterator<Item = i64>,
        strictly: bool,
        record: &Record,
        findings: &mut Findings,
    ) {
        let mut previous = None;
        for time in times {
            let reason = if !self.bucket.contains(time) {
                format!("time {time} is not in the bucket")
            } else if previous.is_some_and(|p| p > time || (strictly && p == time)) {
                format!("time {time} does not ascend")
            } else {
                previous = Some(time);
                continue;
            };
            // One is enough: a damaged stream has thousands.
            return findings.problem(ProblemKind::Time, &record.key, reason);
        }
    }

    /// What lies outside the bucket has been reported and says nothing about its range.
    fn note_range(&mut self, times: &[i64]) {
        let inside = |time: &&i64| self.bucket.contains(**time);
        let (first, last) = (times.iter().find(inside), times.iter().rfind(inside));
        if let (Some(first), Some(last)) = (first, last) {
            self.first_ms = self.first_ms.min(*first);
            self.last_ms = self.last_ms.max(*last);
        }
    }
}

type Decoded = Result<(), icecore_records::DecodeError>;
