//! Summaries of finished epochs: a start does not read an epoch all of which is in buckets.
//!
//! Holds always:
//! - A summary is written when nothing more comes to its epoch and all of it is durable. It says
//!   what was not in buckets by then; whether that is so at a start is up to the cursors.
//! - Losing a summary costs the time to read its epoch, and nothing else. So nobody waits until it
//!   is durable.
//! - A summary that outlives its epoch is harmless: numbers of epochs are not used again.

use std::collections::BTreeMap;

use icecore_records::epoch_summary::{self, EpochSummary};
use icecore_records::{ParsedKey, key};
use slatedb::{Db, WriteBatch};
use tracing::warn;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest::Ingest;
use crate::ingest::head::Head;
use crate::slate::read_view::{ScanKind, View};

/// Writes the summaries of epochs that were finished since the last call.
pub(crate) async fn summarize_epochs(ingest: &Ingest) -> Result<()> {
    let durable_below = ingest.journal.durable_below();
    let summaries = ingest.head.unsummarized(durable_below);
    if summaries.is_empty() {
        return Ok(());
    }
    let mut batch = WriteBatch::new();
    for (epoch, summary) in &summaries {
        batch.put_bytes(key::epoch_summary(*epoch), epoch_summary::encode(summary));
    }
    failpoint::pass("summary.before");
    let written = ingest.context.engine.db().write(batch).await;
    written.map_err(Error::store("writing summaries of epochs"))?;
    failpoint::pass("summary.written");
    ingest
        .head
        .summarized(summaries.iter().map(|(epoch, _)| *epoch));
    Ok(())
}

/// Deletes the summaries of epochs that could not be read. A later start would otherwise find them
/// covered and drop what may still be repaired. Written before any cursor of this process: the log
/// is in order.
pub(crate) async fn forget_unreadable(db: &Db, head: &Head) -> Result<()> {
    let unreadable = head.unreadable_epochs();
    if unreadable.is_empty() {
        return Ok(());
    }
    let mut batch = WriteBatch::new();
    for epoch in unreadable {
        batch.delete(key::epoch_summary(epoch));
    }
    let written = db.write(batch).await;
    written.map(drop).map_err(Error::store(
        "deleting summaries of epochs that cannot be read",
    ))
}

/// The summaries that there are, by epoch. One that cannot be read is as good as none.
pub(super) async fn read_summaries(view: &View) -> Result<BTreeMap<u32, EpochSummary>> {
    let mut found = BTreeMap::new();
    let mut records = view
        .scan_prefix(&key::epoch_summary_prefix(), ScanKind::Once)
        .await?;
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading summaries of epochs"))?
    {
        match (
            ParsedKey::parse(&record.key),
            epoch_summary::decode(&record.value),
        ) {
            (Ok(ParsedKey::EpochSummary { epoch }), Ok(summary)) => {
                found.insert(epoch, summary);
            }
            _ => {
                warn!(key = ?record.key, "cannot read the summary of a journal epoch: the epoch is read instead")
            }
        }
    }
    Ok(found)
}

/// Deletes the summaries of epochs that are gone. The watermark behind them is durable.
pub(super) async fn forget_summaries(ingest: &Ingest) -> Result<()> {
    let mut batch = WriteBatch::new();
    let known = read_summaries(&ingest.context.engine.live_view()).await?;
    let gone = known.keys().filter(|epoch| !ingest.head.has_epoch(**epoch));
    gone.for_each(|epoch| batch.delete(key::epoch_summary(*epoch)));
    if batch.is_empty() {
        return Ok(());
    }
    let written = ingest.context.engine.db().write(batch).await;
    written
        .map(drop)
        .map_err(Error::store("deleting summaries of epochs"))
}
