//! Records of buckets larger than an hour, and those that say how such buckets come and go.

use bytes::Bytes;
use icecore_records::coarse_samples::{self, Part};
use icecore_records::columns::{ColumnRecord, RecordTimes, time_column};
use icecore_records::maintenance_job::{self, Phase};
use icecore_records::{Bucket, DecodeError, gorilla, histogram_series, retired_bucket, tombstones};

use super::{Fact, Reading, summary};

impl Reading<'_> {
    /// Samples in parts. Times that lie in a shared column are not known here: the record alone is
    /// looked at.
    pub(super) fn coarse_floats(
        &mut self,
        bucket: Bucket,
        value: &Bytes,
    ) -> Result<(), DecodeError> {
        let parts = coarse_samples::parts(value);
        let mut samples = 0usize;
        let mut shared = Vec::new();
        let (mut first, mut last) = (None::<i64>, None::<i64>);
        for (number, part) in parts.iter().enumerate() {
            let times = match coarse_samples::parse(part)? {
                Part::Columns(record) => {
                    samples = samples.saturating_add(record.len());
                    if let RecordTimes::Shared { column, .. } = record.times() {
                        shared.push(column.to_string());
                    }
                    self.columns(bucket, number, &record)?
                }
                Part::Stream(stream) => {
                    let times = self.late_stream(number, stream)?;
                    samples = samples.saturating_add(times.len());
                    times
                }
            };
            first = times.iter().copied().chain(first).min();
            last = times.iter().copied().chain(last).max();
        }
        self.view.fact("samples", samples);
        self.view.fact("parts", parts.len());
        if shared.is_empty() {
            self.view.range(first, last);
        } else {
            self.view.fact("shared_times", shared.join(","));
        }
        Ok(())
    }

    /// Returns the times that the part has itself.
    fn columns(
        &mut self,
        bucket: Bucket,
        number: usize,
        record: &ColumnRecord<'_>,
    ) -> Result<Vec<i64>, DecodeError> {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        record.decode_values(0..record.len(), &mut values)?;
        let len = record.len();
        match record.times() {
            RecordTimes::Own => {
                let own = record.decode_times(bucket.start_ms())?;
                own.copy_into(0..own.len(), &mut times);
                self.lines([format!("part {number}: columns, {len} samples")]);
                self.samples(&times, &values);
            }
            RecordTimes::Shared { column, first } => {
                self.lines([format!(
                    "part {number}: columns, {len} samples, times in column {column} from {first}"
                )]);
                let places = u64::from(first)..;
                self.lines(places.zip(&values).map(|(at, v)| format!("#{at} {v}")));
            }
        }
        Ok(times)
    }

    fn late_stream(&mut self, number: usize, stream: &[u8]) -> Result<Vec<i64>, DecodeError> {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        gorilla::decode_into(stream, &mut times, &mut values)?;
        self.lines([format!(
            "part {number}: late stream, {} samples",
            times.len()
        )]);
        self.samples(&times, &values);
        Ok(times)
    }

    pub(super) fn samples(&mut self, times: &[i64], values: &[f64]) {
        self.lines(times.iter().zip(values).map(|(t, v)| format!("{t} {v}")));
    }

    pub(super) fn histograms(&mut self, value: &Bytes, is_hour: bool) -> Result<(), DecodeError> {
        let entries = if is_hour {
            histogram_series::decode(value)?
        } else {
            histogram_series::decode_coarse(value)?
        };
        self.view.fact("histograms", entries.len());
        if !is_hour {
            let parts = histogram_series::parts(value).len();
            self.view.fact("parts", parts);
        }
        let (first, last) = (entries.first(), entries.last());
        let time = |entry: &icecore_records::HistogramEntry| entry.timestamp_ms;
        self.view.range(first.map(time), last.map(time));
        self.lines(entries.iter().map(|entry| match &entry.value {
            Some(histogram) => format!("{} {}", entry.timestamp_ms, summary(histogram)),
            None => format!("{} none", entry.timestamp_ms),
        }));
        Ok(())
    }

    pub(super) fn time_column(&mut self, bucket: Bucket, value: &[u8]) -> Result<(), DecodeError> {
        let times = time_column::decode(bucket.start_ms(), value)?;
        self.view.fact("times", times.len());
        self.view.range(times.first(), times.last());
        if self.details {
            let mut all = Vec::new();
            times.copy_into(0..times.len(), &mut all);
            self.lines(all);
        }
        Ok(())
    }

    pub(super) fn retired(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let retired_at_ms = retired_bucket::decode(value)?;
        self.view.fact("retired", Fact::Time(retired_at_ms));
        Ok(())
    }

    pub(super) fn tombstones(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let found = tombstones::decode(value)?;
        self.view.fact("erased", found.erased.len());
        self.view.fact("shortened", found.in_ranges().len());
        self.view.fact("ranges", found.ranges.len());
        self.view.fact("through", found.through_seq);
        self.lines(found.erased.iter().map(|id| format!("erased {id}")));
        self.lines(found.ranges.iter().flat_map(|range| {
            let (first, last) = (range.first_ms, range.last_ms);
            let series = range.series.iter();
            series.map(move |id| format!("{id} lost {first} to {last}"))
        }));
        Ok(())
    }

    pub(super) fn job(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let job = maintenance_job::decode(value)?;
        self.view.fact("target", job.target.to_string());
        self.view.fact("sources", job.sources.len());
        self.view.fact("phase", phase_name(&job.phase).to_owned());
        self.view.fact("series", job.counts.series);
        self.view.fact("floats", job.counts.floats);
        self.view.fact("histograms", job.counts.histograms);
        self.view.fact("exemplars", job.counts.exemplars);
        self.lines(job.sources.iter().map(|source| {
            let (bucket, hash) = (source.bucket, source.meta_hash);
            format!("source {bucket} with BucketMeta {hash:032x}")
        }));
        self.lines([
            format!("at {:?}", job.phase),
            format!("bytes read {}", job.counts.bytes_read),
            format!("bytes written {}", job.counts.bytes_written),
            format!("records {}", job.counts.records),
        ]);
        Ok(())
    }
}

/// What a job is at, in one word.
pub(in super::super) fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Series { .. } => "series",
        Phase::Index { .. } => "index",
        Phase::Samples { .. } => "samples",
        Phase::Verify => "verify",
    }
}
