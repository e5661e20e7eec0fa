//! Recovery: what the journal holds and buckets do not, back into the head.
//!
//! Holds always:
//! - Records are applied in the order of their sequence numbers, so the last write wins as before.
//! - What a bucket's cursor covers is skipped.
//! - What cannot be read is reported with its key and counted; its epoch is never drained.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use icecore_records::delta_totals::TotalValue;
use icecore_records::journal::{self, Section};
use icecore_records::{DecodeError, ParsedKey, flush_cursor, key, watermark};
use tracing::{error, info};

use crate::error::{Error, Result};
use crate::head::{CATALOG_HOUR, Head, ReplayedBlock, TOTALS_HOUR};
use crate::slate::read_view::{ScanKind, View};

/// Journal bytes that are decoded in one go, and between two lines of progress.
const CHUNK_BYTES: usize = 8 << 20;
const PROGRESS_BYTES: usize = 64 << 20;

/// More blocks than a group commit gathers.
const BLOCKS_PER_RECORD_MAX: u64 = 1 << 20;

/// What recovery found.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) next_seq: u64,
    pub(crate) next_epoch: u32,
    pub(crate) records: u64,
    pub(crate) samples: u64,
    /// Records or sections that could not be read, and entries that refer to what they defined.
    pub(crate) unreadable: u64,
}

/// Replays the journal into an empty head.
pub(crate) async fn recover(
    view: &View,
    head: &Arc<Head>,
    strict: bool,
    now_ms: i64,
) -> Result<Recovered> {
    let mut replay = Replay {
        head: Arc::clone(head),
        cursors: read_cursors(view).await?,
        series: HashMap::new(),
        epoch: 0,
        now_ms,
        found: read_watermark(view).await?,
    };
    for cursor in replay.cursors.values() {
        replay.found.next_seq = replay.found.next_seq.max(cursor + 1);
    }
    let mut records = view
        .scan_prefix(&key::journal_prefix(), ScanKind::Once)
        .await?;
    let (mut bytes, mut reported) = (0, 0);
    loop {
        let mut chunk: Vec<(Bytes, Bytes)> = Vec::new();
        let mut chunk_bytes = 0;
        while chunk_bytes < CHUNK_BYTES {
            let next = records
                .next()
                .await
                .map_err(Error::store("reading the journal"))?;
            let Some(record) = next else { break };
            chunk_bytes += record.value.len();
            chunk.push((record.key, record.value));
        }
        if chunk.is_empty() {
            break;
        }
        bytes += chunk_bytes;
        let apply = move || {
            replay.apply(chunk);
            replay
        };
        replay = tokio::task::spawn_blocking(apply)
            .await
            .map_err(|cause| Error::Corrupt(format!("replay stopped: {cause}")))?;
        if strict && replay.found.unreadable > 0 {
            return Err(Error::Corrupt(
                "the journal has records that cannot be read (see above), and \
                 journal.strict_recovery is set: restore them or start without it"
                    .into(),
            ));
        }
        if bytes - reported >= PROGRESS_BYTES {
            reported = bytes;
            let Recovered {
                records, samples, ..
            } = replay.found;
            info!(mib = bytes >> 20, records, samples, "replaying the journal");
        }
    }
    head.account_index();
    Ok(replay.found)
}

async fn read_cursors(view: &View) -> Result<HashMap<u32, u64>> {
    let mut cursors = HashMap::new();
    let corrupt = |cause: DecodeError| Error::Corrupt(format!("flush cursor: {cause}"));
    let mut records = view
        .scan_prefix(&key::flush_cursor_prefix(), ScanKind::Once)
        .await?;
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading cursors"))?
    {
        if let ParsedKey::FlushCursor { bucket } = ParsedKey::parse(&record.key).map_err(corrupt)? {
            let cursor = flush_cursor::decode(&record.value).map_err(corrupt)?;
            cursors.insert(bucket.start.minutes(), cursor);
        }
    }
    if let Some(value) = view.get(&key::catalog_cursor()).await? {
        cursors.insert(CATALOG_HOUR, flush_cursor::decode(&value).map_err(corrupt)?);
    }
    if let Some(value) = view.get(&key::delta_totals_cursor()).await? {
        cursors.insert(TOTALS_HOUR, flush_cursor::decode(&value).map_err(corrupt)?);
    }
    Ok(cursors)
}

async fn read_watermark(view: &View) -> Result<Recovered> {
    // Sequence 0 and epoch 0 are never used: 0 means "none" elsewhere.
    let mut found = Recovered {
        next_seq: 1,
        next_epoch: 1,
        ..Recovered::default()
    };
    if let Some(value) = view.get(&key::journal_watermark()).await? {
        let mark = watermark::decode(&value)
            .map_err(|cause| Error::Corrupt(format!("journal watermark: {cause}")))?;
        found.next_seq = found.next_seq.max(mark.next_seq);
        found.next_epoch = found.next_epoch.max(mark.next_epoch);
    }
    Ok(found)
}

struct Replay {
    head: Arc<Head>,
    cursors: HashMap<u32, u64>,
    /// This process' references of the series that the current epoch has defined.
    series: HashMap<u32, u32>,
    epoch: u32,
    now_ms: i64,
    found: Recovered,
}

impl Replay {
    fn apply(&mut self, records: Vec<(Bytes, Bytes)>) {
        for (key, value) in records {
            let parsed = ParsedKey::parse(&key);
            if let Some(epoch) = epoch_of(&key)
                && epoch != self.epoch
            {
                self.epoch = epoch;
                self.series.clear();
            }
            let Ok(ParsedKey::Journal { epoch, seq }) = parsed else {
                self.unreadable(&key, self.found.next_seq, "not a journal key");
                continue;
            };
            self.found.records += 1;
            self.found.next_epoch = self.found.next_epoch.max(epoch + 1);
            self.found.next_seq = self.found.next_seq.max(seq + 1);
            match journal::decode_record(&value) {
                Ok(blocks) => {
                    for (i, block) in blocks.iter().enumerate() {
                        self.apply_block(&key, seq + i as u64, block);
                    }
                }
                Err(cause) => {
                    // How many blocks it held is unknown; their numbers are not to be used again.
                    self.found.next_seq = self.found.next_seq.max(seq + BLOCKS_PER_RECORD_MAX);
                    self.unreadable(&key, seq, &cause.to_string());
                }
            }
        }
    }

    fn apply_block(&mut self, key: &Bytes, seq: u64, block: &[u8]) {
        self.found.next_seq = self.found.next_seq.max(seq + 1);
        let sections = match journal::decode_block(block) {
            Ok(sections) => sections,
            Err(cause) => return self.unreadable(key, seq, &cause.to_string()),
        };
        let mut replayed = ReplayedBlock::default();
        let mut undefined = 0;
        let totals = sections.iter().find_map(|section| match section {
            Section::Totals { floats, histograms } => Some((*floats, *histograms)),
            _ => None,
        });
        for section in sections {
            undefined += self.gather(section, totals.unwrap_or_default(), &mut replayed);
        }
        let cursors = &self.cursors;
        let covered = |hour: u32| cursors.get(&hour).is_some_and(|cursor| *cursor >= seq);
        self.found.samples += self
            .head
            .replay(self.epoch, seq, replayed, &covered, self.now_ms);
        if undefined > 0 {
            let reason = format!("{undefined} entries refer to series whose definition is missing");
            self.unreadable(key, seq, &reason);
        }
    }

    /// Translates references. Returns how many entries have none. `totals` says how many of the last
    /// floats and histograms are running totals.
    fn gather(
        &mut self,
        section: Section,
        totals: (usize, usize),
        block: &mut ReplayedBlock,
    ) -> u64 {
        let mut undefined = 0;
        let series = &mut self.series;
        match section {
            Section::Definitions(definitions) => {
                for (number, labels) in definitions {
                    match self.head.series_for(&labels) {
                        Some(found) => drop(series.insert(number, found.0)),
                        None => undefined += 1,
                    }
                }
            }
            Section::Floats {
                refs,
                timestamps,
                values,
            } => {
                block.floats.reserve(refs.len());
                let first_total = refs.len().saturating_sub(totals.0);
                let columns = refs.iter().zip(timestamps).zip(values);
                for (at, ((number, timestamp), value)) in columns.enumerate() {
                    let Some(found) = series.get(number) else {
                        undefined += 1;
                        continue;
                    };
                    block.floats.push((*found, timestamp, value));
                    if at >= first_total {
                        let total = TotalValue::Float(value);
                        block.totals.push((*found, timestamp, total));
                    }
                }
            }
            Section::Histograms(entries) => {
                let first_total = entries.len().saturating_sub(totals.1);
                for (at, (number, timestamp, histogram)) in entries.into_iter().enumerate() {
                    let Some(found) = series.get(&number) else {
                        undefined += 1;
                        continue;
                    };
                    if at >= first_total {
                        let total = TotalValue::Histogram(Box::new(histogram.clone()));
                        block.totals.push((*found, timestamp, total));
                    }
                    block.histograms.push((*found, timestamp, histogram));
                }
            }
            Section::Exemplars(entries) => {
                for (number, exemplar) in entries {
                    match series.get(&number) {
                        Some(found) => block.exemplars.push((*found, exemplar)),
                        None => undefined += 1,
                    }
                }
            }
            Section::StartTimestamps(entries) => {
                for (number, timestamp, start) in entries {
                    match series.get(&number) {
                        Some(found) => drop(block.starts.insert((*found, timestamp), start)),
                        None => undefined += 1,
                    }
                }
            }
            Section::Metadata(entries) => block.metadata.extend(entries),
            // Known before the others are gathered.
            Section::Totals { .. } => {}
            // Written by a newer version: not ours to lose.
            Section::Unknown { .. } => undefined += 1,
        }
        undefined
    }

    fn unreadable(&mut self, key: &Bytes, seq: u64, reason: &str) {
        let epoch = self.epoch;
        error!(
            ?key,
            epoch, seq, reason, "journal record cannot be read: its epoch is kept"
        );
        self.found.unreadable += 1;
        let mut sequencer = self.head.sequencer.lock();
        sequencer.note(epoch, seq, &[], self.now_ms);
        if let Some(epoch) = sequencer.epochs.get_mut(&epoch) {
            epoch.unreadable = true;
        }
    }
}

/// The epoch in whose segment a key lies, also when the rest of the key is no journal key.
fn epoch_of(key: &[u8]) -> Option<u32> {
    let segment = key.get(..icecore_records::key::segment_len(key))?;
    let epoch = segment.last_chunk::<4>()?;
    Some(u32::from_be_bytes(*epoch))
}
