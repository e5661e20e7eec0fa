//! One bucket, read in key order and judged at the end, when it is known how far it is committed.
//!
//! A flush writes forward records, dictionary, postings and samples, in this order, and commits with
//! list, BucketMeta and cursor in one batch. So at any moment what uses an id finds its forward
//! record, while a series that is not committed (its id is not below `next_series_id`, or its bucket
//! is not listed) may still lack the rest. Such leftovers are fine as long as the journal holds
//! entries of the bucket that its cursor does not cover: the flush goes on, or is repeated.

use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, ParsedKey, RecordType, bucket_list, bucket_meta, flush_cursor, key};

use super::super::still::{Record, StillView};
use super::journal::last_touch;
use super::postings::Postings;
use super::report::{Findings, ProblemKind};
use super::samples::SampleCheck;
use super::series::SeriesCheck;
use crate::error::Result;

pub(super) struct BucketCheck {
    bucket: Bucket,
    findings: Findings,
    listed: bool,
    records: u64,
    series: SeriesCheck,
    postings: Postings,
    samples: SampleCheck,
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
            meta: None,
            meta_unreadable: false,
        }
    }

    pub(super) async fn run(mut self, view: &StillView) -> Result<Findings> {
        let list = view.get(&key::bucket_list()).await?;
        // A list that cannot be read is reported with the other globals.
        let listed = list.and_then(|value| bucket_list::decode(&value).ok());
        self.listed = listed.is_some_and(|listed| listed.contains(&self.bucket));
        for record_type in RecordType::ALL.into_iter().filter(|t| t.is_bucket_scoped()) {
            let prefix = key::record_prefix(record_type, self.bucket);
            let mut records = view.under(&prefix).await?;
            while let Some(record) = records.next().await? {
                self.record(&record);
            }
        }
        let cursor = view.get(&key::flush_cursor(self.bucket)).await?;
        let cursor = cursor.and_then(|value| flush_cursor::decode(&value).ok());
        let touched = match self.needs_journal() {
            true => last_touch(view, self.bucket).await?,
            false => None,
        };
        let covered = touched.is_some_and(|seq| cursor.is_none_or(|cursor| seq > cursor));
        self.settle(covered);
        Ok(self.findings)
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
        gaps
    }

    fn needs_journal(&self) -> bool {
        let unlisted = !self.listed && self.records > 0;
        unlisted || self.has_uncommitted_series() || !self.meta_gaps().is_empty()
    }

    fn settle(&mut self, covered: bool) {
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
        self.series.settle(bucket, committed, &mut self.findings);
        let postings = std::mem::replace(&mut self.postings, Postings::new(bucket));
        postings.settle(committed, &mut self.findings);
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
