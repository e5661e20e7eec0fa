//! Everything that is not the content of a bucket: the list, what maintenance is at, the journal,
//! cursors, the catalog, and keys that belong to nothing. Also finds the buckets that have records.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_records::maintenance_job::{self, Job};
use icecore_records::watermark::Watermark;
use icecore_records::{
    Bucket, ParsedKey, bucket_list, delta_totals, epoch_summary, flush_cursor, flush_mark, key,
    metadata, restore_mark, retired_bucket, tombstones, watermark,
};

use super::super::overview::{is_of_events, scope_of};
use super::super::still::{Record, StillView};
use super::journal::JournalCheck;
use super::report::{Findings, ProblemKind};
use crate::buckets::ladder;
use crate::error::Result;

pub(super) struct GlobalCheck {
    findings: Findings,
    listed: BTreeSet<Bucket>,
    retired: BTreeSet<Bucket>,
    /// Buckets from which something was deleted.
    tombstones: BTreeSet<Bucket>,
    job: Option<Job>,
    found: BTreeSet<Bucket>,
    journal: JournalCheck,
    /// Cursors with their keys: those of buckets, of the catalog, of totals and of events.
    cursors: BTreeMap<Bytes, (Option<Bucket>, u64)>,
    watermark: Option<Watermark>,
}

impl GlobalCheck {
    pub(super) fn new(problems_max: usize) -> Self {
        Self {
            findings: Findings::new(problems_max),
            listed: BTreeSet::new(),
            retired: BTreeSet::new(),
            tombstones: BTreeSet::new(),
            job: None,
            found: BTreeSet::new(),
            journal: JournalCheck::default(),
            cursors: BTreeMap::new(),
            watermark: None,
        }
    }

    /// Returns what was found, and all buckets that are listed or have records.
    pub(super) async fn run(mut self, view: &StillView) -> Result<(Findings, BTreeSet<Bucket>)> {
        for segment in view.segments() {
            if let Some((_, bucket)) = scope_of(segment) {
                self.found.insert(bucket);
                continue;
            }
            // Weeks of events are pieces of their own.
            if is_of_events(segment) {
                continue;
            }
            let mut records = view.under(segment).await?;
            while let Some(record) = records.next().await? {
                self.record(&record);
            }
        }
        self.conclude();
        let buckets = self.listed.union(&self.found).copied().collect();
        Ok((self.findings, buckets))
    }

    fn record(&mut self, record: &Record) {
        let Some(parsed) = self.findings.parse(&record.key) else {
            return;
        };
        let decoded = match parsed {
            ParsedKey::BucketList => {
                bucket_list::decode(&record.value).map(|listed| self.listed = listed)
            }
            ParsedKey::Journal { epoch, seq } => {
                self.journal.record(epoch, seq, record, &mut self.findings);
                Ok(())
            }
            ParsedKey::FlushCursor { bucket } => self.cursor(record, Some(bucket)),
            ParsedKey::CatalogCursor | ParsedKey::DeltaTotalsCursor | ParsedKey::EventsSealed => {
                self.cursor(record, None)
            }
            ParsedKey::EventMark => {
                self.findings.counts.cursors += 1;
                flush_mark::decode(&record.value).map(|mark| {
                    self.cursors.insert(record.key.clone(), (None, mark.seq));
                })
            }
            ParsedKey::DeltaTotals { .. } => delta_totals::decode(&record.value).map(drop),
            ParsedKey::JournalWatermark => {
                watermark::decode(&record.value).map(|mark| self.watermark = Some(mark))
            }
            // What they mean is known to those who wrote them.
            ParsedKey::CatalogRecord { .. } => {
                self.findings.counts.catalog_records += 1;
                Ok(())
            }
            ParsedKey::MetricMetadata { .. } => {
                self.findings.counts.metadata += 1;
                metadata::decode(&record.value).map(drop)
            }
            ParsedKey::MaintenanceJob => {
                maintenance_job::decode(&record.value).map(|job| self.job = Some(job))
            }
            ParsedKey::RetiredBucket { bucket } => {
                self.retired.insert(bucket);
                retired_bucket::decode(&record.value).map(drop)
            }
            ParsedKey::Tombstones { bucket } => {
                self.tombstones.insert(bucket);
                tombstones::decode(&record.value).map(drop)
            }
            ParsedKey::RestoreMark => {
                let reason = "a restore into this database has not finished";
                self.findings
                    .problem(ProblemKind::Store, &record.key, reason);
                restore_mark::decode(&record.value).map(drop)
            }
            ParsedKey::EpochSummary { epoch } => {
                let summary = epoch_summary::decode(&record.value);
                summary.map(|summary| {
                    self.journal
                        .summary(epoch, &summary, &record.key, &mut self.findings);
                })
            }
            // Keys with a bucket or a week have been passed over.
            _ => Ok(()),
        };
        if let Err(cause) = decoded {
            self.findings.undecodable(&record.key, &cause);
        }
    }

    fn cursor(
        &mut self,
        record: &Record,
        bucket: Option<Bucket>,
    ) -> Result<(), icecore_records::DecodeError> {
        self.findings.counts.cursors += 1;
        let cursor = flush_cursor::decode(&record.value)?;
        self.cursors.insert(record.key.clone(), (bucket, cursor));
        Ok(())
    }

    fn conclude(&mut self) {
        let used = self
            .watermark
            .map_or(0, |mark| mark.next_seq.saturating_sub(1));
        let used = used.max(self.journal.last_seq());
        for (key, (bucket, cursor)) in &self.cursors {
            if *cursor > used {
                let reason = format!("says {cursor}, but the last sequence given out is {used}");
                self.findings.problem(ProblemKind::Cursor, key, reason);
            }
            if bucket.is_some_and(|hour| !self.is_listed_or_inside(hour)) {
                let reason = "no listed bucket holds its hour";
                self.findings.problem(ProblemKind::Cursor, key, reason);
            }
        }
        self.conclude_buckets();
        self.findings.counts.buckets = self.listed.len() as u64;
    }

    /// The list against itself and against what maintenance says.
    fn conclude_buckets(&mut self) {
        let list_key = key::bucket_list();
        for bucket in &self.listed {
            if bucket.start_ms() % bucket.size.duration_ms() != 0 {
                let reason = format!("bucket {bucket} does not begin at a multiple of its size");
                self.findings.problem(ProblemKind::Value, &list_key, reason);
            }
            // A larger bucket takes the place of smaller ones in the batch that lists it: a sample
            // of both would be read twice.
            // Windows hold the time of the samples that they were made of; remnants that of what
            // came after them.
            let is_raw = |b: &Bucket| ladder::is_raw(b.size) && !ladder::is_remnant(b.size);
            let around = larger(*bucket).filter(|larger| is_raw(bucket) && is_raw(larger));
            let around = around
                .into_iter()
                .find(|larger| self.listed.contains(larger));
            if let Some(around) = around {
                let reason =
                    format!("bucket {bucket} lies inside bucket {around}, both are listed");
                self.findings
                    .problem(ProblemKind::Buckets, &list_key, reason);
            }
        }
        for bucket in self.retired.intersection(&self.listed) {
            let reason = "the bucket is retired and listed";
            let key = key::retired_bucket(*bucket);
            self.findings.problem(ProblemKind::Buckets, &key, reason);
        }
        for bucket in self.tombstones.difference(&self.listed) {
            let reason = "the bucket is not listed";
            let key = key::tombstones(*bucket);
            self.findings.problem(ProblemKind::Buckets, &key, reason);
        }
        let Some(job) = &self.job else { return };
        let key = key::maintenance_job();
        if self.listed.contains(&job.target) {
            let reason = format!("makes bucket {}, which is listed", job.target);
            self.findings.problem(ProblemKind::Buckets, &key, reason);
        }
        let gone = job.sources.iter().map(|source| source.bucket);
        for source in gone.filter(|source| !self.listed.contains(source)) {
            let text = format!(
                "the job that makes bucket {} has source {source}, which is not listed: it will start over",
                job.target
            );
            self.findings.note(&key, text);
        }
    }

    fn is_listed_or_inside(&self, bucket: Bucket) -> bool {
        let mut places = [bucket].into_iter().chain(larger(bucket));
        places.any(|place| self.listed.contains(&place))
    }
}

/// The buckets of all larger sizes that a bucket lies in.
fn larger(bucket: Bucket) -> impl Iterator<Item = Bucket> {
    let sizes =
        (bucket.size.exponent().saturating_add(1)..=u8::MAX).map_while(BucketSize::from_exponent);
    sizes.filter_map(move |size| {
        let start = size.bucket_of(bucket.start_ms())?;
        Some(Bucket { size, start })
    })
}
