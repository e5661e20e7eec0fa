//! Running totals of deltas: kept in memory, journalled as samples, saved along with flushes.
//!
//! Holds always:
//! - What is saved is durable in the journal: after a crash a point that was never acknowledged
//!   must not count as one that had been added.
//! - Epochs wait until the points in them are saved (`FlushUnit::Totals`). The cursor is the
//!   sequence number from before the first part was copied: a replay sets totals to what they were
//!   after each later point, in order, so that it ends in the same state whatever the parts hold
//!   already.

use std::sync::Arc;

use bytes::Bytes;
use icecore_records::delta_totals::{self, PARTS};
use icecore_records::epoch_summary::FlushUnit;
use icecore_records::{ParsedKey, flush_cursor, key, watermark};
use tracing::{debug, error};

use super::batch_writer::{BatchWriter, Mode};
use super::to_the_end;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest::Ingest;
use crate::ingest::head::{Head, Totals, unix_seconds};
use crate::slate::read_view::{ScanKind, View};

/// Parts that are copied while appends wait: a few hundred microseconds with a million totals.
const PARTS_AT_ONCE: u16 = 16;

/// Bytes of records that are gathered before they wait for the journal together: on a remote store
/// each wait is a commit interval.
const GATHERED_BYTES: usize = 16 << 20;

/// Saves the totals that have changed, if some of them are only in the journal.
pub(crate) async fn flush_totals(ingest: &Arc<Ingest>) -> Result<()> {
    let ingest = Arc::clone(ingest);
    to_the_end(async move { flush_changes(&ingest).await }).await
}

async fn flush_changes(ingest: &Ingest) -> Result<()> {
    let _one_at_a_time = ingest.flushing.lock().await;
    // Before the question: what is touched later is waited for by the next save.
    let cursor = ingest.head.last_seq();
    if !ingest.head.is_waited_for(FlushUnit::Totals) {
        return Ok(());
    }
    let started = std::time::Instant::now();
    let mut writer = BatchWriter::new(ingest, Mode::Put);
    let mut taken = Vec::new();
    let written = async {
        let mut first = 0;
        while first < PARTS {
            first = write_parts(ingest, first, &mut writer, &mut taken).await?;
        }
        failpoint::pass("totals.before_commit");
        writer.put(key::delta_totals_cursor(), flush_cursor::encode(cursor));
        ingest.journal.wait_durable(cursor).await?;
        let mark = ingest.head.watermark();
        writer.put(key::journal_watermark(), watermark::encode(mark));
        writer.write_out_durably().await
    };
    match written.await {
        Ok(()) => {
            failpoint::pass("totals.committed");
            ingest.head.flushed(FlushUnit::Totals, cursor);
            ingest
                .context
                .metrics
                .delta_bytes_saved
                .add(writer.bytes_written);
            debug!(
                parts = taken.len(),
                bytes = writer.bytes_written,
                seconds = started.elapsed().as_secs_f64(),
                "running totals saved"
            );
            Ok(())
        }
        Err(cause) => {
            // To be tried again, all of it: what was written of it is not known.
            ingest.head.totals.lock().not_saved(&taken);
            Err(cause)
        }
    }
}

/// Writes parts from `first` on, as many as are gathered at once. Returns the next one.
async fn write_parts(
    ingest: &Ingest,
    first: u16,
    writer: &mut BatchWriter<'_>,
    taken: &mut Vec<u16>,
) -> Result<u16> {
    let head = Arc::clone(&ingest.head);
    let now_s = unix_seconds(ingest.context.guarded_ms());
    let idle_s = unix_seconds(ingest.context.idle_ms());
    let (next, last_seq, records) = ingest
        .context
        .pool
        .run(move || encode_parts(&head, first, now_s, idle_s))
        .await?;
    if records.is_empty() {
        return Ok(next);
    }
    taken.extend(records.iter().map(|(part, _)| *part));
    ingest.journal.wait_durable(last_seq).await?;
    for (part, record) in records {
        writer.put(key::delta_totals(part), record);
        if writer.write_if_full().await? {
            failpoint::pass("totals.written");
        }
    }
    Ok(next)
}

/// Records of changed parts, the sequence number up to which they are, and the part to go on with.
fn encode_parts(head: &Head, first: u16, now_s: u32, idle_s: u32) -> (u16, u64, Vec<(u16, Bytes)>) {
    let (mut next, mut last_seq, mut bytes) = (first, 0, 0);
    let mut records = Vec::new();
    while next < PARTS && bytes < GATHERED_BYTES {
        let end = next + PARTS_AT_ONCE;
        let (seq, changed) = head.take_changed_totals(next..end, idle_s);
        last_seq = seq;
        for (part, mut totals) in changed {
            let record = delta_totals::encode(&mut totals, now_s);
            bytes += record.len();
            records.push((part, record));
        }
        next = end;
    }
    (next, last_seq, records)
}

/// Reads the totals at start-up, before the journal is replayed over them.
pub(crate) async fn load_totals(view: &View, head: &Head) -> Result<()> {
    let mut records = view
        .scan_prefix(&key::delta_totals_prefix(), ScanKind::Once)
        .await?;
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading running totals"))?
    {
        if let Ok(ParsedKey::DeltaTotalsCursor) = ParsedKey::parse(&record.key) {
            continue;
        }
        match delta_totals::decode(&record.value) {
            Ok(totals) => {
                let mut known = head.totals.lock();
                totals.into_iter().for_each(|total| known.set(total));
            }
            // These series begin new totals, which readers see as counter resets: that is better
            // than not to serve at all.
            Err(cause) => {
                error!(key = ?record.key, %cause, "cannot read running totals: they start from zero")
            }
        }
    }
    Totals::all_saved(&mut head.totals.lock());
    Ok(())
}
