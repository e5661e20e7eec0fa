//! The samples of a bucket: streams decode to their end, times ascend inside the bucket, and each
//! belongs to a series.

use icecore_model::BucketSize;
use icecore_records::{
    Bucket, ParsedKey, exemplar_series, gorilla, histogram_series, start_timestamps,
};

use super::super::still::Record;
use super::report::{Findings, ProblemKind};
use super::series::SeriesCheck;

/// What the samples of a bucket have shown.
pub(super) struct SampleCheck {
    bucket: Bucket,
    /// Of floats and histograms.
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    pub(super) has_histograms: bool,
    pub(super) has_starts: bool,
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
            timestamps: Vec::new(),
            values: Vec::new(),
        }
    }

    pub(super) fn record(
        &mut self,
        parsed: &ParsedKey,
        record: &Record,
        series: &SeriesCheck,
        findings: &mut Findings,
    ) {
        let (id, decoded) = match parsed {
            ParsedKey::TimeSeries { series, .. } => (series, self.floats(record, findings)),
            ParsedKey::TimeSeriesStarts { series, .. }
            | ParsedKey::HistogramSeriesStarts { series, .. } => {
                (series, self.starts(record, findings))
            }
            ParsedKey::HistogramSeries { series, .. } => {
                (series, self.histograms(record, findings))
            }
            ParsedKey::ExemplarSeries { series, .. } => (series, self.exemplars(record, findings)),
            ParsedKey::RollupSeries { series, .. } => {
                (series, self.unknown_format(record, findings))
            }
            _ => return,
        };
        if let Err(cause) = decoded {
            findings.undecodable(&record.key, &cause);
        }
        if !series.contains(id.0) {
            let reason = format!("series {id} has no forward record");
            findings.problem(ProblemKind::NoSeries, &record.key, reason);
        }
    }

    fn floats(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        if self.bucket.size != BucketSize::HOUR {
            return self.unknown_format(record, findings);
        }
        self.timestamps.clear();
        self.values.clear();
        gorilla::decode_into(&record.value, &mut self.timestamps, &mut self.values)?;
        findings.counts.float_samples += self.timestamps.len() as u64;
        let times = std::mem::take(&mut self.timestamps);
        self.times(times.iter().copied(), true, record, findings);
        self.note_range(&times);
        self.timestamps = times;
        Ok(())
    }

    fn starts(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let starts = start_timestamps::decode(&record.value)?;
        findings.counts.start_timestamps += starts.len() as u64;
        self.has_starts = true;
        self.times(starts.iter().map(|start| start.0), true, record, findings);
        Ok(())
    }

    fn histograms(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let entries = histogram_series::decode(&record.value)?;
        self.has_histograms = true;
        for entry in &entries {
            let Some(histogram) = &entry.value else {
                continue;
            };
            findings.counts.histogram_samples += 1;
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

    fn exemplars(&mut self, record: &Record, findings: &mut Findings) -> Decoded {
        let exemplars = exemplar_series::decode(&record.value)?;
        findings.counts.exemplars += exemplars.len() as u64;
        let times = exemplars.iter().map(|exemplar| exemplar.timestamp_ms);
        self.times(times, false, record, findings);
        Ok(())
    }

    /// Columns and rollups are written by later versions.
    fn unknown_format(&self, record: &Record, findings: &mut Findings) -> Decoded {
        findings.counts.unknown_records += 1;
        if findings.counts.unknown_records == 1 {
            findings.note(
                &record.key,
                "samples in a format that this version does not know",
            );
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
