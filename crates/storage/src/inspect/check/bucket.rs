//! One bucket, read in key order and judged at the end, when it is known how far it is committed.
//!
//! A flush writes forward records, dictionary, postings and samples, in this order, and commits
//! with list, BucketMeta and cursor in one batch. So at any moment what uses an id finds its
//! forward record, while a series that is not committed (its id is not below `next_series_id`, or
//! its bucket is not listed) may still lack the rest. Such leftovers are fine as long as the
//! journal holds entries of the bucket that the cursors of its hours do not cover: the flush goes
//! on, or is repeated.
//!
//! A bucket that has been retired, or that a job is making, is only counted: its records come and
//! go. The same holds for what a job or a flush has left behind: a coarse bucket without
//! BucketMeta, or an hour without it that a listed bucket covers. The batch that lists a bucket
//! writes that record; the hour was flushed into the coarser bucket in the end, and a sweep removes
//! the rest.

use std::collections::BTreeSet;

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{
    Bucket, ParsedKey, RecordType, bucket_list, bucket_meta, key, maintenance_job, retired_bucket,
    tombstones,
};

use super::super::still::{Record, StillView};
use super::journal::covers;
use super::postings::Postings;
use super::report::{Findings, ProblemKind};
use super::samples::SampleCheck;
use super::series::SeriesCheck;
use crate::buckets::raw_of;
use crate::error::Result;

pub(super) struct BucketCheck {
    bucket: Bucket,
    findings: Findings,
    listed: bool,
    records: u64,
    series: SeriesCheck,
    postings: Postings,
    samples: SampleCheck,
    /// Shared columns of timestamps that are there.
    columns: BTreeSet<u32>,
    meta: Option<BucketMeta>,
    /// Whether there is a BucketMeta that cannot be read: that is said once.
    meta_unreadable: bool,
}

impl BucketCheck {
    pub(super) fn new(bucket: Bucket, problems_max: usize) -> Self {
        Self {
            bucket,
            findings: Findings::new(problems_max),
            listed: false,
            records: 0,
            series: SeriesCheck::default(),
            postings: Postings::new(bucket),
            samples: SampleCheck::new(bucket),
            columns: BTreeSet::new(),
            meta: None,
            meta_unreadable: false,
        }
    }

    pub(super) async fn run(mut self, view: &StillView) -> Result<Findings> {
        let list = view.get(&key::bucket_list()).await?;
        // A list that cannot be read is reported with the other globals.
        let listed = list.and_then(|value| bucket_list::decode(&value).ok());
        let listed = listed.unwrap_or_default();
        self.listed = listed.contains(&self.bucket);
        let start_ms = self.bucket.start_ms();
        let covered = raw_of(&listed)
            .iter()
            .any(|listed| listed.size > self.bucket.size && listed.contains(start_ms));
        if !self.listed && self.passing(view, covered).await? {
            return Ok(self.findings);
        }
        self.tombstones(view).await?;
        if self.is_coarse() {
            let mut columns = view.under(&key::time_column_prefix(self.bucket)).await?;
            while let Some(record) = columns.next().await? {
                self.samples.column(&record, &mut self.findings);
            }
        }
        for prefix in prefixes(self.bucket) {
            let mut records = view.under(&prefix).await?;
            while let Some(record) = records.next().await? {
                self.record(&record);
            }
        }
        let covered = self.needs_journal() && covers(view, self.bucket).await?;
        self.conclude(covered);
        Ok(self.findings)
    }

    /// What was deleted may lie there in parts; it is only counted.
    async fn tombstones(&mut self, view: &StillView) -> Result<()> {
        let key = key::tombstones(self.bucket);
        let value = view.get(&key).await?;
        // What cannot be read is reported with the other globals.
        let Some(Ok(found)) = value.map(|value| tombstones::decode(&value)) else {
            return Ok(());
        };
        let (bucket, erased) = (self.bucket, found.erased.len());
        let text = format!("bucket {bucket}: {erased} series were deleted and still lie in it");
        if erased > 0 {
            self.findings.note(&key, text);
        }
        self.series.erased = found.erased;
        Ok(())
    }

    fn is_coarse(&self) -> bool {
        self.bucket.size != BucketSize::HOUR
    }

    /// Whether the bucket is one whose records come and go. Then they are counted here. `covered`:
    /// a coarser bucket is listed in its place.
    async fn passing(&mut self, view: &StillView, covered: bool) -> Result<bool> {
        let bucket = self.bucket;
        let retired = view.get(&key::retired_bucket(bucket)).await?;
        let job = view.get(&key::maintenance_job()).await?;
        let job = job.and_then(|value| maintenance_job::decode(&value).ok());
        let is_target = job.is_some_and(|job| job.target == bucket);
        let has_meta = view.get(&key::bucket_meta(bucket)).await?.is_some();
        let left_behind = (self.is_coarse() || covered) && !has_meta;
        if retired.is_none() && !is_target && !left_behind {
            return Ok(false);
        }
        let mut count = 0u64;
        for prefix in prefixes(bucket) {
            let mut records = view.under(&prefix).await?;
            while let Some(record) = records.next().await? {
                count += 1;
                self.findings.parse(&record.key);
            }
        }
        let (key, text) = match retired {
            Some(value) => {
                self.findings.counts.retired_records += count;
                // A value that cannot be read is reported with the other globals.
                let at = retired_bucket::decode(&value).unwrap_or_default();
                let text = format!("was retired at {at}: {count} records wait to be dropped");
                (key::retired_bucket(bucket), text)
            }
            None => {
                self.findings.counts.unfinished_records += count;
                let prefix = key::record_prefix(RecordType::ForwardIndex, bucket);
                if is_target {
                    (prefix, format!("is being made: {count} records so far"))
                } else {
                    (
                        prefix,
                        format!("was never finished: a sweep will remove its {count} records"),
                    )
                }
            }
        };
        if count > 0 {
            self.findings.note(&key, format!("bucket {bucket} {text}"));
        }
        Ok(true)
    }

    fn record(&mut self, record: &Record) {
        self.records += 1;
        let findings = &mut self.findings;
        let Some(parsed) = findings.parse(&record.key) else {
            return;
        };
        match parsed {
            ParsedKey::SeriesDictionary { fingerprint, .. } => {
                self.series.dictionary(fingerprint, record, findings);
            }
            ParsedKey::ForwardIndex { series, .. } => {
                self.series
                    .forward(series, record, &mut self.postings, findings);
            }
            ParsedKey::InvertedIndex { .. } => {
                self.postings.record(record, &self.series, findings);
            }
            ParsedKey::BucketMeta { .. } => match bucket_meta::decode(&record.value) {
                Ok(meta) => self.meta = Some(meta),
                Err(cause) => {
                    self.meta_unreadable = true;
                    findings.undecodable(&record.key, &cause);
                }
            },
            ParsedKey::TimeColumn { column, .. } => {
                findings.counts.time_columns += 1;
                self.columns.insert(column);
            }
            _ => self.samples.record(&parsed, record, &self.series, findings),
        }
    }

    /// Ids below this one are committed, with everything that belongs to them.
    fn committed(&self) -> u32 {
        match (&self.meta, self.listed) {
            (_, false) => 0,
            (Some(meta), true) => meta.next_series_id,
            (None, true) => u32::MAX,
        }
    }

    fn has_uncommitted_series(&self) -> bool {
        self.series
            .last_id()
            .is_some_and(|last| last >= self.committed())
    }

    /// What BucketMeta says less than there is.
    fn meta_gaps(&self) -> Vec<String> {
        let Some(meta) = self.meta.as_ref().filter(|_| self.listed) else {
            return Vec::new();
        };
        let samples = &self.samples;
        let mut gaps = Vec::new();
        if samples.has_histograms && !meta.has_histograms {
            gaps.push("says that there are no histograms, and there are".to_owned());
        }
        if samples.has_starts && !meta.has_start_timestamps {
            gaps.push("says that there are no start timestamps, and there are".to_owned());
        }
        let (first, last) = (samples.first_ms, samples.last_ms);
        if first <= last && (first < meta.min_timestamp_ms || last > meta.max_timestamp_ms) {
            gaps.push(format!(
                "says that samples lie between {} and {}, and they lie between {first} and {last}",
                meta.min_timestamp_ms, meta.max_timestamp_ms
            ));
        }
        // Flushes count what they write, also where it replaces something: there may be fewer.
        for (what, said, found) in [
            ("floats", meta.float_samples, samples.floats),
            ("histograms", meta.histogram_samples, samples.histograms),
            ("exemplars", meta.exemplars, samples.exemplars),
        ] {
            if found > said {
                gaps.push(format!(
                    "says that there are {said} {what}, and there are {found}"
                ));
            }
        }
        gaps
    }

    fn needs_journal(&self) -> bool {
        let unlisted = !self.listed && self.records > 0;
        unlisted || self.has_uncommitted_series() || !self.meta_gaps().is_empty()
    }

    fn conclude(&mut self, covered: bool) {
        let bucket = self.bucket;
        let committed = self.committed();
        let gaps = self.meta_gaps();
        let uncommitted = self.has_uncommitted_series();
        let findings = &mut self.findings;
        if self.listed {
            let meta_key = key::bucket_meta(bucket);
            match &self.meta {
                Some(meta) => {
                    let runs = &meta.run_starts;
                    self.series.order(bucket, committed, runs, findings);
                    if runs.iter().any(|start| start.0 >= committed) {
                        let reason = format!("a run starts at or after next series id {committed}");
                        findings.problem(ProblemKind::Meta, &meta_key, reason);
                    }
                }
                None if self.meta_unreadable => {}
                None => {
                    let reason = "the bucket is listed and has no BucketMeta";
                    findings.problem(ProblemKind::Meta, &meta_key, reason);
                }
            }
            if !covered {
                for gap in gaps {
                    findings.problem(ProblemKind::Meta, &meta_key, gap);
                }
            }
            if uncommitted {
                self.uncommitted_series(committed, covered);
            }
        } else if self.records > 0 {
            self.unlisted(covered);
        }
        let unused = self.columns.difference(self.samples.used_columns());
        if let Some(first) = unused.clone().next() {
            let text = format!(
                "bucket {bucket}: no series uses {} of {} shared columns of timestamps",
                unused.count(),
                self.columns.len()
            );
            let key = key::time_column(bucket, *first);
            self.findings.note(&key, text);
        }
        self.series.conclude(bucket, committed, &mut self.findings);
        let postings = std::mem::replace(&mut self.postings, Postings::new(bucket));
        postings.conclude(committed, &mut self.findings);
    }

    fn uncommitted_series(&mut self, committed: u32, covered: bool) {
        let last = self.series.last_id().unwrap_or_default();
        let key = key::forward_index(self.bucket, icecore_records::SeriesId(last));
        let what = format!("series ids up to {last}, but the next id is {committed}");
        if covered {
            let text = format!(
                "bucket {}: {what}: a flush has not committed yet",
                self.bucket
            );
            self.findings.note(&key, text);
        } else {
            let reason = format!("{what}, and the journal has nothing for the bucket");
            self.findings.problem(ProblemKind::Ids, &key, reason);
        }
    }

    fn unlisted(&mut self, covered: bool) {
        let (bucket, records) = (self.bucket, self.records);
        if self.meta.is_some() {
            // The batch that writes BucketMeta lists the bucket.
            let reason = "the bucket has BucketMeta and is not listed";
            let key = key::bucket_meta(bucket);
            self.findings.problem(ProblemKind::Unlisted, &key, reason);
        } else if covered {
            let key = key::record_prefix(RecordType::ForwardIndex, bucket);
            let text = format!(
                "bucket {bucket} is not listed: {records} records of a flush that has not committed"
            );
            self.findings.note(&key, text);
        } else {
            let key = key::record_prefix(RecordType::ForwardIndex, bucket);
            let reason = format!(
                "bucket {bucket} has {records} records, is not listed, and the journal has nothing for it"
            );
            self.findings.problem(ProblemKind::Unlisted, &key, reason);
        }
    }
}

/// What the keys of a bucket begin with, in key order.
fn prefixes(bucket: Bucket) -> impl Iterator<Item = Bytes> {
    let scoped = RecordType::ALL.into_iter().filter(|t| t.is_bucket_scoped());
    scoped.map(move |record_type| key::record_prefix(record_type, bucket))
}
