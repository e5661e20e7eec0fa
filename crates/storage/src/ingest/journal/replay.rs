//! Recovery: what the journal holds and buckets do not, back into the head.
//!
//! ```text
//! summaries, cursors ─► epochs to read ─► records, chunk by chunk ─► decoded, on all cores
//!                                             └─ read ahead            └─► applied, in order
//! ```
//!
//! Holds always:
//! - Records are applied in the order of their sequence numbers, so the last write wins as before.
//! - What a bucket's cursor covers is skipped, and so is what the bucket held when something was
//!   deleted from it. An epoch that is covered as a whole is not even read, if its summary says so.
//! - What cannot be read is reported with its key and counted; its epoch is never drained.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use hashbrown::HashMap;
use icecore_model::BucketStart;
use icecore_records::epoch_summary::{EpochSummary, FlushUnit};
use icecore_records::journal::MAX_BLOCKS;
use icecore_records::{DecodeError, ParsedKey, flush_cursor, key, watermark};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};

use super::decoded::{DecodedBlock, DecodedRecord, decode_records};
use super::summary::read_summaries;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ingest::head::{AppendTime, Head, SERIES_REFS_MAX, UNDEFINED};
use crate::pool::Pool;
use crate::slate::read_view::{ScanKind, View};

/// Journal bytes that are decoded in one go: some ten milliseconds of work.
const CHUNK_BYTES: usize = 512 << 10;

/// Chunks that are decoded or wait to be applied. Decoded they take ten to twenty times as much.
const CHUNKS_AHEAD: usize = 6;

/// Journal bytes between two lines of progress.
const PROGRESS_BYTES: usize = 64 << 20;

/// The progress of the replay at a start, in epochs of the journal. All numbers are 0 before it,
/// and where there is no journal.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    first: AtomicU32,
    last: AtomicU32,
    current: AtomicU32,
}

impl ReplayProgress {
    /// The first epoch of the journal.
    pub fn first(&self) -> u32 {
        self.first.load(Relaxed)
    }

    /// The last epoch, as far as it is known: the one that was open when the process ended is found
    /// at the end.
    pub fn last(&self) -> u32 {
        self.last.load(Relaxed).max(self.current())
    }

    /// The epoch that is being replayed, or was last.
    pub fn current(&self) -> u32 {
        self.current.load(Relaxed)
    }
}

/// Up to where buckets hold an hour.
type Cursors = HashMap<FlushUnit, u64>;

/// A chunk that some CPU thread is decoding.
type Decoding = oneshot::Receiver<Vec<DecodedRecord>>;

/// What recovery found.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) next_seq: u64,
    pub(crate) next_epoch: u32,
    /// Records that were read.
    pub(crate) records: u64,
    pub(crate) samples: u64,
    /// Records or sections that could not be read, and entries that refer to what they defined.
    pub(crate) unreadable: u64,
    /// Epochs that were not read, because buckets hold all of them.
    pub(crate) passed_over: u64,
    /// The blocks of events that are in no file, by sequence number.
    pub(crate) events: Vec<(u64, Bytes)>,
}

/// Replays the journal into an empty head. `flushed` are hours with the sequence number up to which
/// their buckets hold everything, beside what cursors say.
pub(crate) async fn recover(
    context: &Context,
    view: &View,
    head: &Arc<Head>,
    flushed: &[(BucketStart, u64)],
    progress: &Arc<ReplayProgress>,
) -> Result<Recovery> {
    let mut cursors = read_cursors(view).await?;
    for (hour, seq) in flushed {
        let cursor = cursors.entry(FlushUnit::Hour(*hour)).or_default();
        *cursor = (*cursor).max(*seq);
    }
    let mut replay = Replay {
        head: Arc::clone(head),
        cursors,
        series: Vec::new(),
        epoch: 0,
        time: AppendTime::of(context),
        strict: context.options.journal.strict_recovery,
        bytes: 0,
        found: read_watermark(view).await?,
        progress: Arc::clone(progress),
    };
    for cursor in replay.cursors.values() {
        replay.found.next_seq = replay.found.next_seq.max(cursor + 1);
    }
    let summaries = read_summaries(view).await?;
    if let (Some(first), Some(last)) = (summaries.keys().next(), summaries.keys().last()) {
        progress.first.store(*first, Relaxed);
        progress.last.store(*last, Relaxed);
    }
    let ranges = replay.pass_over(&summaries);
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let applying = tokio::task::spawn_blocking(move || replay.run(receiver));
    let read = read_journal(view, ranges, head, &context.pool, sender).await;
    let replay = applying.await.map_err(Error::corrupt("replay stopped"))??;
    read?;
    progress.current.store(progress.last(), Relaxed);
    head.summarized(summaries.keys().copied());
    head.account_index();
    Ok(replay.found)
}

/// Hands the records of the given ranges on, in order, decoded.
async fn read_journal(
    view: &View,
    ranges: Vec<(Bound<Bytes>, Bound<Bytes>)>,
    head: &Arc<Head>,
    pool: &Pool,
    decoding: mpsc::Sender<Decoding>,
) -> Result<()> {
    let (mut chunk, mut chunk_bytes) = (Vec::new(), 0);
    for range in ranges {
        let mut records = view.scan(range, ScanKind::Once).await?;
        while let Some(record) = records
            .next()
            .await
            .map_err(Error::store("reading the journal"))?
        {
            chunk_bytes += record.value.len();
            chunk.push((record.key, record.value));
            if chunk_bytes >= CHUNK_BYTES {
                let chunk = std::mem::take(&mut chunk);
                chunk_bytes = 0;
                if !hand_on(head, pool, &decoding, chunk).await {
                    return Ok(());
                }
            }
        }
    }
    if !chunk.is_empty() {
        hand_on(head, pool, &decoding, chunk).await;
    }
    Ok(())
}

/// False when nobody waits for more.
async fn hand_on(
    head: &Arc<Head>,
    pool: &Pool,
    decoding: &mpsc::Sender<Decoding>,
    chunk: Vec<(Bytes, Bytes)>,
) -> bool {
    // Room first, so that what is decoded ahead is bounded.
    let Ok(room) = decoding.reserve().await else {
        return false;
    };
    let head = Arc::clone(head);
    room.send(pool.start(move || decode_records(&head, chunk)));
    true
}

/// Everything of the journal but these epochs, as ranges of keys.
fn all_but(epochs: impl Iterator<Item = u32>) -> Vec<(Bound<Bytes>, Bound<Bytes>)> {
    let mut ranges = Vec::new();
    let mut from = Some(key::journal_prefix());
    for epoch in epochs {
        let prefix = key::journal_epoch_prefix(epoch);
        if let Some(from) = from.take_if(|from| **from < *prefix) {
            ranges.push((Bound::Included(from), Bound::Excluded(prefix)));
        }
        from = epoch.checked_add(1).map(key::journal_epoch_prefix);
    }
    if let Some(from) = from {
        ranges.push((Bound::Included(from), Bound::Excluded(key::journal_end())));
    }
    ranges
}

async fn read_cursors(view: &View) -> Result<Cursors> {
    let mut cursors = Cursors::new();
    let corrupt = || Error::corrupt::<DecodeError>("flush cursor");
    let mut records = view
        .scan_prefix(&key::flush_cursor_prefix(), ScanKind::Once)
        .await?;
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading cursors"))?
    {
        if let ParsedKey::FlushCursor { bucket } =
            ParsedKey::parse(&record.key).map_err(corrupt())?
        {
            let cursor = flush_cursor::decode(&record.value).map_err(corrupt())?;
            cursors.insert(FlushUnit::Hour(bucket.start), cursor);
        }
    }
    if let Some(value) = view.get(&key::catalog_cursor()).await? {
        cursors.insert(
            FlushUnit::Catalog,
            flush_cursor::decode(&value).map_err(corrupt())?,
        );
    }
    if let Some(value) = view.get(&key::delta_totals_cursor()).await? {
        cursors.insert(
            FlushUnit::Totals,
            flush_cursor::decode(&value).map_err(corrupt())?,
        );
    }
    if let Some(value) = view.get(&key::events_sealed()).await? {
        cursors.insert(
            FlushUnit::Events,
            flush_cursor::decode(&value).map_err(corrupt())?,
        );
    }
    Ok(cursors)
}

async fn read_watermark(view: &View) -> Result<Recovery> {
    // Sequence 0 and epoch 0 are never used: 0 means "none" elsewhere.
    let mut found = Recovery {
        next_seq: 1,
        next_epoch: 1,
        ..Recovery::default()
    };
    if let Some(value) = view.get(&key::journal_watermark()).await? {
        let mark = watermark::decode(&value).map_err(Error::corrupt("journal watermark"))?;
        found.next_seq = found.next_seq.max(mark.next_seq);
        found.next_epoch = found.next_epoch.max(mark.next_epoch);
    }
    Ok(found)
}

struct Replay {
    head: Arc<Head>,
    cursors: Cursors,
    /// This process' references of the series that the current epoch has defined, by their number
    /// there. Numbers are dense.
    series: Vec<u32>,
    epoch: u32,
    time: AppendTime,
    strict: bool,
    bytes: usize,
    found: Recovery,
    progress: Arc<ReplayProgress>,
}

impl Replay {
    /// Takes note of the epochs that need not be read, and returns what is to be read.
    fn pass_over(
        &mut self,
        summaries: &BTreeMap<u32, EpochSummary>,
    ) -> Vec<(Bound<Bytes>, Bound<Bytes>)> {
        let mut covered = Vec::new();
        for (epoch, summary) in summaries {
            self.found.next_epoch = self.found.next_epoch.max(epoch.saturating_add(1));
            let next_seq = summary.last_seq.saturating_add(1);
            self.found.next_seq = self.found.next_seq.max(next_seq);
            if summary.is_covered(|unit| self.cursors.get(&unit).copied()) {
                self.head
                    .skipped_epoch(*epoch, summary, self.time.elapsed_ms);
                covered.push(*epoch);
            }
        }
        self.found.passed_over = covered.len() as u64;
        all_but(covered.into_iter())
    }

    /// Applies chunks as they are decoded, in their order.
    fn run(mut self, mut decoding: mpsc::Receiver<Decoding>) -> Result<Self> {
        let mut reported = 0;
        while let Some(chunk) = decoding.blocking_recv() {
            let records = chunk.blocking_recv().map_err(|_| {
                Error::Corrupt("decoding the journal failed; the log has the cause".into())
            })?;
            self.apply(records);
            if self.strict && self.found.unreadable > 0 {
                return Err(Error::Corrupt(
                    "the journal has records that cannot be read (see above), and \
                     journal.strict_recovery is set: restore them or start without it"
                        .into(),
                ));
            }
            if self.bytes - reported >= PROGRESS_BYTES {
                reported = self.bytes;
                let Recovery {
                    records, samples, ..
                } = self.found;
                let mib = self.bytes >> 20;
                info!(mib, records, samples, "replaying the journal");
            }
        }
        Ok(self)
    }

    fn apply(&mut self, records: Vec<DecodedRecord>) {
        for record in records {
            self.bytes += record.stored_bytes;
            let key = record.key;
            if let Some(epoch) = epoch_of(&key)
                && epoch != self.epoch
            {
                self.epoch = epoch;
                self.series.clear();
                self.progress.current.store(epoch, Relaxed);
            }
            let Some((epoch, seq)) = record.place else {
                self.unreadable(&key, self.found.next_seq, "not a journal key");
                continue;
            };
            self.found.records += 1;
            self.found.next_epoch = self.found.next_epoch.max(epoch + 1);
            self.found.next_seq = self.found.next_seq.max(seq + 1);
            match record.blocks {
                Ok(blocks) => {
                    for (seq, block) in (seq..).zip(blocks) {
                        self.found.next_seq = self.found.next_seq.max(seq + 1);
                        match block {
                            Ok(block) => self.apply_block(&key, seq, block),
                            Err(cause) => self.unreadable(&key, seq, &cause.to_string()),
                        }
                    }
                }
                Err(cause) => {
                    // How many blocks it held is unknown; their numbers are not to be used again.
                    self.found.next_seq = self.found.next_seq.max(seq + MAX_BLOCKS as u64);
                    self.unreadable(&key, seq, &cause.to_string());
                }
            }
        }
    }

    fn apply_block(&mut self, key: &Bytes, seq: u64, mut block: DecodedBlock) {
        let undefined = block.unknown + self.define(&block) + self.translate(&mut block);
        let cursors = &self.cursors;
        let covered = |unit: FlushUnit| cursors.get(&unit).is_some_and(|cursor| *cursor >= seq);
        let events = &block.content.events;
        if !events.is_empty() && !covered(FlushUnit::Events) {
            self.found.events.push((seq, events.clone()));
        }
        self.found.samples += self
            .head
            .replay(self.epoch, seq, block.content, &covered, self.time);
        if undefined > 0 {
            let reason = format!("{undefined} entries refer to series whose definition is missing");
            self.unreadable(key, seq, &reason);
        }
    }

    /// Enters the series that a block defines. Returns how many found no room.
    fn define(&mut self, block: &DecodedBlock) -> u64 {
        if block.series.is_empty() {
            return 0;
        }
        let (mut refused, known) = (0, &mut self.series);
        self.head.enter_series(&block.series, |number, found| {
            let number = number as usize;
            let Some(found) = found.filter(|_| number < SERIES_REFS_MAX) else {
                refused += 1;
                return;
            };
            if known.len() <= number {
                known.resize(number + 1, UNDEFINED);
            }
            known[number] = found.0;
        });
        refused
    }

    /// Replaces the journal's references by those of this process. Returns how many have none.
    fn translate(&self, block: &mut DecodedBlock) -> u64 {
        let mut undefined = 0;
        let mut translate = |number: &mut u32| {
            let known = self.series.get(*number as usize);
            *number = known.copied().unwrap_or(UNDEFINED);
            undefined += u64::from(*number == UNDEFINED);
        };
        let content = &mut block.content;
        content.refs.iter_mut().for_each(&mut translate);
        let histograms = content.histograms.iter_mut();
        histograms.for_each(|(series, ..)| translate(series));
        let exemplars = content.exemplars.iter_mut();
        exemplars.for_each(|(series, _)| translate(series));
        let starts = content.starts.iter_mut();
        starts.for_each(|(series, ..)| translate(series));
        undefined
    }

    fn unreadable(&mut self, key: &Bytes, seq: u64, reason: &str) {
        let epoch = self.epoch;
        error!(
            ?key,
            epoch, seq, reason, "cannot read a journal record: its epoch is kept"
        );
        self.found.unreadable += 1;
        self.head.unreadable(epoch, seq, self.time.elapsed_ms);
    }
}

/// The epoch in whose segment a key lies, also when the rest of the key is no journal key.
fn epoch_of(key: &[u8]) -> Option<u32> {
    let segment = key.get(..icecore_records::key::segment_len(key))?;
    let epoch = segment.last_chunk::<4>()?;
    Some(u32::from_be_bytes(*epoch))
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds as _;

    use proptest::prelude::*;

    use super::*;

    fn any_epoch() -> impl Strategy<Value = u32> {
        prop_oneof![0..6u32, u32::MAX - 3..=u32::MAX]
    }

    proptest! {
        #[test]
        fn all_but_some_epochs_is_everything_else(
            passed_over in prop::collection::btree_set(any_epoch(), 0..8),
            keys in prop::collection::btree_set((any_epoch(), any::<u64>()), 1..40),
        ) {
            let ranges = all_but(passed_over.iter().copied());
            let mut found = Vec::new();
            for range in &ranges {
                let inside = keys.iter().filter(|(epoch, seq)| range.contains(&key::journal(*epoch, *seq)));
                found.extend(inside.copied());
            }
            let wanted: Vec<_> =
                keys.into_iter().filter(|(epoch, _)| !passed_over.contains(epoch)).collect();
            prop_assert_eq!(found, wanted, "in order, each once");
            let never_empty = |(from, to): &(Bound<Bytes>, Bound<Bytes>)| match (from, to) {
                (Bound::Included(from), Bound::Excluded(to)) => from < to,
                _ => false,
            };
            prop_assert!(ranges.iter().all(never_empty));
        }
    }
}
