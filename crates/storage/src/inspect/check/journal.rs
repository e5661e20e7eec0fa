//! The journal: every block decodes, sequences follow one another, references are defined.
//!
//! Within an epoch sequence numbers have no gap, because one process writes them one by one;
//! between epochs there may be one, because a process that died had given out numbers that were
//! never used.

use std::collections::BTreeMap;

use icecore_model::{BucketSize, BucketStart, MAX_TIMESTAMP_MS};
use icecore_records::epoch_summary::EpochSummary;
use icecore_records::journal::{self, Section};
use icecore_records::{Bucket, ParsedKey, flush_cursor, key};
use roaring::RoaringBitmap;

use super::super::still::{Record, StillView};
use super::report::{Findings, ProblemKind};
use crate::error::Result;

/// Checks journal records in key order.
#[derive(Default)]
pub(super) struct JournalCheck {
    epoch: Option<u32>,
    /// The sequence number that the next record of the epoch has; `None` after one that could not
    /// be read, as nobody knows how many blocks it had.
    next_seq: Option<u64>,
    /// Sequence numbers up to here are taken.
    last_seq: u64,
    /// References that the epoch has defined so far.
    defined: RoaringBitmap,
    /// First and last sequence number of each epoch, as far as they are known.
    epochs: BTreeMap<u32, (u64, u64)>,
}

impl JournalCheck {
    /// The largest sequence number seen.
    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(super) fn record(
        &mut self,
        epoch: u32,
        seq: u64,
        record: &Record,
        findings: &mut Findings,
    ) {
        self.enter(epoch, seq, record, findings);
        let blocks = match journal::decode_record(&record.value) {
            Ok(blocks) => blocks,
            Err(cause) => {
                findings.undecodable(&record.key, &cause);
                self.next_seq = None;
                self.last_seq = self.last_seq.max(seq);
                return;
            }
        };
        if blocks.is_empty() {
            findings.problem(ProblemKind::Journal, &record.key, "record without blocks");
        }
        let count = blocks.len() as u64;
        let last = seq.saturating_add(count.saturating_sub(1));
        self.epochs.entry(epoch).or_insert((seq, last)).1 = last;
        findings.counts.journal_blocks += count;
        self.next_seq = seq.checked_add(count);
        self.last_seq = self.last_seq.max(last);
        for (i, block) in blocks.iter().enumerate() {
            let seq = seq.saturating_add(i as u64);
            match journal::decode_block(block) {
                Ok(sections) => self.block(seq, &sections, &record.key, findings),
                Err(cause) => {
                    let reason = format!("sequence {seq}: {cause}");
                    findings.problem(ProblemKind::Value, &record.key, reason);
                }
            }
        }
    }

    /// Checks a summary, which comes behind all journal records. One of an epoch that is gone says
    /// nothing any more.
    pub(super) fn summary(
        &self,
        epoch: u32,
        summary: &EpochSummary,
        key: &[u8],
        findings: &mut Findings,
    ) {
        let EpochSummary {
            first_seq,
            last_seq,
            ..
        } = summary;
        let Some((first, last)) = self.epochs.get(&epoch) else {
            return;
        };
        if first < first_seq || last > last_seq {
            let reason = format!(
                "says that epoch {epoch} has sequences {first_seq} to {last_seq}, but it has {first} to {last}"
            );
            findings.problem(ProblemKind::Journal, key, reason);
        }
    }

    fn enter(&mut self, epoch: u32, seq: u64, record: &Record, findings: &mut Findings) {
        let follows = self.epoch == Some(epoch);
        let reason = match self.next_seq {
            Some(next) if follows && seq > next => Some(format!(
                "sequences {next} to {} are missing in the epoch",
                seq - 1
            )),
            _ if self.epoch.is_some() && seq <= self.last_seq => {
                let last = self.last_seq;
                Some(format!(
                    "sequence {seq} is used again: the journal had come to {last}"
                ))
            }
            _ if seq == 0 || epoch == 0 => Some("sequence and epoch 0 are never used".into()),
            _ => None,
        };
        if let Some(reason) = reason {
            findings.problem(ProblemKind::Journal, &record.key, reason);
        }
        if !follows {
            self.epoch = Some(epoch);
            self.defined.clear();
            findings.counts.journal_epochs += 1;
        }
    }

    fn block(&mut self, seq: u64, sections: &[Section], key: &[u8], findings: &mut Findings) {
        let (mut undefined, mut misplaced) = (0u64, 0u64);
        for section in sections {
            match section {
                Section::Definitions(entries) => {
                    findings.counts.journal_definitions += entries.len() as u64;
                    self.defined
                        .extend(entries.iter().map(|(number, _)| *number));
                }
                Section::Unknown { kind } => {
                    findings.note(
                        key,
                        format!("sequence {seq}: section of unknown kind {kind}"),
                    );
                }
                Section::Metadata(entries) => {
                    findings.counts.journal_entries += entries.len() as u64;
                }
                _ => {}
            }
            each_entry(section, |number, timestamp_ms| {
                findings.counts.journal_entries += 1;
                undefined += u64::from(!self.defined.contains(number));
                misplaced += u64::from(!(0..MAX_TIMESTAMP_MS).contains(&timestamp_ms));
            });
        }
        if undefined > 0 {
            let reason = format!(
                "sequence {seq}: {undefined} entries refer to series that the epoch has not defined"
            );
            findings.problem(ProblemKind::Journal, key, reason);
        }
        if misplaced > 0 {
            let reason =
                format!("sequence {seq}: {misplaced} entries have a time that no bucket holds");
            findings.problem(ProblemKind::Time, key, reason);
        }
    }
}

/// Whether the journal holds entries of a bucket that the cursors of their hours do not cover: then
/// a flush of them is under way, or will be repeated.
pub(super) async fn covers(view: &StillView, bucket: Bucket) -> Result<bool> {
    let touches = Touches::of(view, bucket).await?;
    for (hour, seq) in &touches.hours {
        if is_ahead(view, *hour, *seq).await? {
            return Ok(true);
        }
    }
    if let Some(seq) = touches.unreadable {
        let hour_ms = BucketSize::HOUR.duration_ms();
        for start_ms in (bucket.start_ms()..bucket.end_ms()).step_by(hour_ms as usize) {
            if let Some(start) = BucketSize::HOUR.bucket_of(start_ms)
                && is_ahead(view, start, seq).await?
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

async fn is_ahead(view: &StillView, hour: BucketStart, seq: u64) -> Result<bool> {
    let cursor = view.get(&key::flush_cursor(Bucket::hour(hour))).await?;
    let cursor = cursor.and_then(|value| flush_cursor::decode(&value).ok());
    Ok(cursor.is_none_or(|cursor| seq > cursor))
}

/// The last journal sequences that touch a bucket.
#[derive(Default)]
struct Touches {
    hours: BTreeMap<BucketStart, u64>,
    /// What cannot be read is reported where the journal itself is checked. It may well be what
    /// covers the bucket: then nothing is wrong with the bucket.
    unreadable: Option<u64>,
}

impl Touches {
    async fn of(view: &StillView, bucket: Bucket) -> Result<Self> {
        let prefix = key::journal_prefix();
        let mut touches = Self::default();
        let mut records = view.under(&prefix).await?;
        while let Some(record) = records.next().await? {
            let Ok(ParsedKey::Journal { seq, .. }) = ParsedKey::parse(&record.key) else {
                continue;
            };
            let Ok(blocks) = journal::decode_record(&record.value) else {
                touches.unreadable = Some(seq);
                continue;
            };
            for (i, block) in blocks.iter().enumerate() {
                touches.block(bucket, seq.saturating_add(i as u64), block);
            }
        }
        Ok(touches)
    }

    fn block(&mut self, bucket: Bucket, seq: u64, block: &[u8]) {
        let Ok(sections) = journal::decode_block(block) else {
            self.unreadable = Some(seq);
            return;
        };
        for section in &sections {
            each_entry(section, |_, timestamp_ms| {
                if bucket.contains(timestamp_ms)
                    && let Some(hour) = BucketSize::HOUR.bucket_of(timestamp_ms)
                {
                    self.hours.insert(hour, seq);
                }
            });
        }
    }
}

/// Reference and time of each entry of a section that has them.
fn each_entry(section: &Section, mut take: impl FnMut(u32, i64)) {
    match section {
        Section::Floats {
            refs, timestamps, ..
        } => refs.iter().zip(timestamps).for_each(|(r, t)| take(*r, *t)),
        Section::Histograms(entries) => entries.iter().for_each(|(r, t, _)| take(*r, *t)),
        Section::Exemplars(entries) => entries.iter().for_each(|(r, e)| take(*r, e.timestamp_ms)),
        Section::StartTimestamps(entries) => entries.iter().for_each(|(r, t, _)| take(*r, *t)),
        Section::Definitions(_)
        | Section::Metadata(_)
        | Section::Catalog(_)
        | Section::Events(_)
        | Section::Totals { .. }
        | Section::Unknown { .. } => {}
    }
}
