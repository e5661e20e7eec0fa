//! What there is: buckets, journal epochs, catalog. Little is read: figures of buckets are those
//! that their last flush wrote down, sizes are those of files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::watermark::Watermark;
use icecore_records::{
    Bucket, DecodeError, ParsedKey, RecordType, bucket_list, bucket_meta, delta_totals,
    epoch_summary, flush_cursor, flush_mark, journal, key, maintenance_job, restore_mark,
    retention_state, retired_bucket, tombstones, watermark,
};

use super::Inspector;
use super::describe::phase_name;
use super::still::{Record, StillView};
use crate::buckets::ladder;
use crate::error::Result;

/// Problems that are spelled out.
const PROBLEMS_MAX: usize = 100;

/// What a database holds.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// In key order: by size, then by time.
    pub buckets: Vec<BucketOverview>,
    /// Buckets that have records and are none of the others: flushes that have not been committed,
    /// and what jobs that were given up have left behind.
    pub unlisted: Vec<Bucket>,
    /// Buckets that larger ones have replaced and that wait to be dropped.
    pub retired: Vec<RetiredOverview>,
    /// Buckets from which something was deleted that still lies in them.
    pub tombstones: Vec<TombstonesOverview>,
    pub job: Option<JobOverview>,
    pub epochs: Vec<EpochOverview>,
    /// The first sequence number and epoch that are free, as the last flush wrote them down.
    pub next_sequence: Option<u64>,
    pub next_epoch: Option<u32>,
    /// Metric families with metadata.
    pub metadata: u64,
    /// Records of the catalog besides metadata.
    pub catalog_records: u64,
    pub catalog_cursor: Option<u64>,
    /// Records of types that this program does not know.
    pub unknown_records: u64,
    /// What could not be read, with its key; `check` finds all of it.
    pub problems: Vec<String>,
    /// Bytes of files by record type; what is only in the WAL is not in them.
    pub file_bytes: BTreeMap<RecordType, u64>,
}

/// One bucket that has been replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredOverview {
    pub bucket: Bucket,
    pub retired_at_ms: i64,
}

/// What was deleted from one bucket and still lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstonesOverview {
    pub bucket: Bucket,
    /// Series of which nothing is left.
    pub erased: u64,
    /// Series that lost some range.
    pub shortened: u64,
}

/// The maintenance job that is under way, or was when the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOverview {
    /// The bucket that it makes.
    pub target: Bucket,
    /// What it makes it of, in the order of time.
    pub sources: Vec<Bucket>,
    /// What it is at, in one word.
    pub phase: &'static str,
}

/// One listed bucket.
#[derive(Clone, Debug)]
pub struct BucketOverview {
    pub bucket: Bucket,
    pub series: u64,
    /// Written by flushes; a sample that was written twice counts twice.
    pub float_samples: u64,
    pub histogram_samples: u64,
    pub exemplars: u64,
    /// Stretches of series ids that are in label order.
    pub runs: u64,
    /// Hours of a coarse bucket that got late samples which have not been folded in yet.
    pub late_hours: u64,
    /// The journal sequence up to which the bucket holds everything, while the journal needs it; of
    /// a coarse bucket the greatest of its hours.
    pub cursor: Option<u64>,
    pub file_bytes: BTreeMap<RecordType, u64>,
    /// Why figures are missing.
    pub problem: Option<String>,
}

/// One epoch of the journal.
#[derive(Clone, Debug)]
pub struct EpochOverview {
    pub epoch: u32,
    pub records: u64,
    pub blocks: u64,
    pub bytes: u64,
    pub first_sequence: u64,
    pub last_sequence: u64,
    pub unreadable: u64,
}

impl Inspector {
    pub fn overview(&mut self) -> LocalBoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            let sizes = self.reader.segment_bytes();
            let mut overview = self
                .attempt(async |view| Survey::default().run(view).await)
                .await?;
            for bucket in &mut overview.buckets {
                bucket.file_bytes = bucket_bytes(&sizes, bucket.bucket);
            }
            for (prefix, bytes) in &sizes {
                if let [key::VERSION, tag, ..] = prefix[..]
                    && let Some(record_type) = RecordType::from_number(tag >> 4)
                {
                    *overview.file_bytes.entry(record_type).or_default() += bytes;
                }
            }
            Ok(overview)
        })
    }
}

fn bucket_bytes(sizes: &HashMap<Bytes, u64>, bucket: Bucket) -> BTreeMap<RecordType, u64> {
    let scoped = RecordType::ALL.into_iter().filter(|t| t.is_bucket_scoped());
    let found = scoped.filter_map(|t| Some((t, *sizes.get(&key::record_prefix(t, bucket))?)));
    found.collect()
}

/// A look at everything but the content of buckets.
#[derive(Default)]
struct Survey {
    overview: Overview,
    listed: BTreeSet<Bucket>,
    found: BTreeSet<Bucket>,
    metas: HashMap<Bucket, Result<BucketMeta, String>>,
    cursors: HashMap<Bucket, u64>,
}

impl Survey {
    async fn run(mut self, view: &StillView) -> Result<Overview> {
        for segment in view.segments() {
            match scope_of(segment) {
                // The content of buckets is passed over, their own record is read.
                Some((record_type, bucket)) => {
                    self.found.insert(bucket);
                    if record_type == RecordType::BucketMeta
                        && let Some(value) = view.get(&key::bucket_meta(bucket)).await?
                    {
                        let meta = bucket_meta::decode(&value);
                        self.metas
                            .insert(bucket, meta.map_err(|cause| cause.to_string()));
                    }
                }
                // Cells and identities of events are counted by their bytes only.
                None if is_of_events(segment) => {}
                None => self.segment(view, segment).await?,
            }
        }
        Ok(self.finish())
    }

    async fn segment(&mut self, view: &StillView, prefix: &[u8]) -> Result<()> {
        let mut records = view.under(prefix).await?;
        while let Some(record) = records.next().await? {
            if let Err(cause) = self.note(&record)
                && self.overview.problems.len() < PROBLEMS_MAX
            {
                let problem = format!("{}: {cause}", hex::encode(&record.key));
                self.overview.problems.push(problem);
            }
        }
        Ok(())
    }

    fn note(&mut self, record: &Record) -> Result<(), DecodeError> {
        match ParsedKey::parse(&record.key)? {
            ParsedKey::BucketList => {
                self.listed = bucket_list::decode(&record.value)?;
            }
            ParsedKey::MaintenanceJob => {
                let job = maintenance_job::decode(&record.value)?;
                self.overview.job = Some(JobOverview {
                    target: job.target,
                    sources: job.sources.iter().map(|source| source.bucket).collect(),
                    phase: phase_name(&job.phase),
                });
            }
            ParsedKey::RetiredBucket { bucket } => {
                let retired_at_ms = retired_bucket::decode(&record.value)?;
                self.overview.retired.push(RetiredOverview {
                    bucket,
                    retired_at_ms,
                });
            }
            ParsedKey::Tombstones { bucket } => {
                let found = tombstones::decode(&record.value)?;
                self.overview.tombstones.push(TombstonesOverview {
                    bucket,
                    erased: found.erased.len(),
                    shortened: found.in_ranges().len(),
                });
            }
            ParsedKey::Journal { epoch, seq } => self.journal(epoch, seq, &record.value),
            ParsedKey::FlushCursor { bucket } => {
                let cursor = flush_cursor::decode(&record.value)?;
                self.cursors.insert(bucket, cursor);
            }
            ParsedKey::CatalogCursor => {
                let cursor = flush_cursor::decode(&record.value)?;
                self.overview.catalog_cursor = Some(cursor);
            }
            ParsedKey::JournalWatermark => {
                let Watermark {
                    next_seq,
                    next_epoch,
                } = watermark::decode(&record.value)?;
                self.overview.next_sequence = Some(next_seq);
                self.overview.next_epoch = Some(next_epoch);
            }
            ParsedKey::EventMark => {
                flush_mark::decode(&record.value)?;
            }
            ParsedKey::DeltaTotalsCursor | ParsedKey::EventsSealed => {
                flush_cursor::decode(&record.value)?;
            }
            ParsedKey::DeltaTotals { .. } => {
                delta_totals::decode(&record.value)?;
            }
            ParsedKey::EpochSummary { .. } => {
                epoch_summary::decode(&record.value)?;
            }
            ParsedKey::RetentionState => {
                retention_state::decode(&record.value)?;
            }
            ParsedKey::RestoreMark => {
                restore_mark::decode(&record.value)?;
            }
            ParsedKey::MetricMetadata { .. } => self.overview.metadata += 1,
            ParsedKey::CatalogRecord { .. } => self.overview.catalog_records += 1,
            _ => self.overview.unknown_records += 1,
        }
        Ok(())
    }

    fn journal(&mut self, number: u32, seq: u64, value: &Bytes) {
        let blocks = journal::decode_record(value).map(|blocks| blocks.len() as u64);
        let epochs = &mut self.overview.epochs;
        if epochs.last().is_none_or(|last| last.epoch != number) {
            epochs.push(EpochOverview {
                epoch: number,
                records: 0,
                blocks: 0,
                bytes: 0,
                first_sequence: seq,
                last_sequence: seq,
                unreadable: 0,
            });
        }
        if let Some(epoch) = epochs.last_mut() {
            epoch.records += 1;
            epoch.bytes += value.len() as u64;
            epoch.unreadable += u64::from(blocks.is_err());
            let blocks = blocks.unwrap_or(1);
            epoch.blocks += blocks;
            epoch.last_sequence = seq.saturating_add(blocks.saturating_sub(1));
        }
    }

    fn finish(mut self) -> Overview {
        let buckets = self.listed.iter().map(|bucket| {
            let (meta, problem) = match self.metas.remove(bucket) {
                Some(Ok(meta)) => (meta, None),
                Some(Err(cause)) => (BucketMeta::default(), Some(cause)),
                None => (BucketMeta::default(), Some("there is no BucketMeta".into())),
            };
            BucketOverview {
                bucket: *bucket,
                series: meta.next_series_id.into(),
                float_samples: meta.float_samples,
                histogram_samples: meta.histogram_samples,
                exemplars: meta.exemplars,
                runs: meta.run_starts.len() as u64,
                // Those of a remnant are in no windows.
                late_hours: if ladder::is_remnant(bucket.size) {
                    0
                } else {
                    meta.dirty_hours.len() as u64
                },
                cursor: self
                    .cursors
                    .iter()
                    .filter(|(hour, _)| bucket.contains(hour.start_ms()))
                    .map(|(_, cursor)| *cursor)
                    .max(),
                file_bytes: BTreeMap::new(),
                problem,
            }
        });
        self.overview.buckets = buckets.collect();
        let mut unlisted = &self.found - &self.listed;
        for retired in &self.overview.retired {
            unlisted.remove(&retired.bucket);
        }
        if let Some(job) = &self.overview.job {
            unlisted.remove(&job.target);
        }
        self.overview.unlisted = unlisted.into_iter().collect();
        self.overview
    }
}

/// Whether a segment has cells or identities of a week.
pub(super) fn is_of_events(segment: &[u8]) -> bool {
    let [key::VERSION, tag, ..] = *segment else {
        return false;
    };
    matches!(
        RecordType::from_number(tag >> 4),
        Some(RecordType::EventCell | RecordType::EventIdentity)
    )
}

/// Type and bucket of a key that has them, whatever follows.
pub(super) fn scope_of(key: &[u8]) -> Option<(RecordType, Bucket)> {
    let [key::VERSION, tag, a, b, c, d, ..] = *key else {
        return None;
    };
    let record_type = RecordType::from_number(tag >> 4).filter(|t| t.is_bucket_scoped())?;
    let size = icecore_model::BucketSize::from_exponent(tag & 0xf)?;
    let start = icecore_model::BucketStart(u32::from_be_bytes([a, b, c, d]));
    Some((record_type, Bucket { size, start }))
}
