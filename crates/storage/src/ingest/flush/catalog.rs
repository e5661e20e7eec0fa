//! Metric metadata: kept in memory, journalled when it changes, written to the catalog by a flush.

use std::sync::Arc;

use icecore_model::HOUR_MS;
use icecore_records::epoch_summary::FlushUnit;
use icecore_records::{ParsedKey, flush_cursor, key, metadata, watermark};
use slatedb::WriteBatch;
use tracing::warn;

use super::{FrozenHours, to_the_end};
use crate::error::{Error, Result};
use crate::ingest::Ingest;
use crate::ingest::head::{FamilyMetadata, MetadataMap};
use crate::slate::read_view::{ScanKind, View};

/// Metadata per batch.
const BATCH_RECORDS: usize = 1024;

/// Writes the metadata of all metrics, if some of it is only in the journal.
pub(crate) async fn flush_catalog(ingest: &Arc<Ingest>) -> Result<()> {
    let ingest = Arc::clone(ingest);
    to_the_end(async move { flush_changes(&ingest).await }).await
}

async fn flush_changes(ingest: &Ingest) -> Result<()> {
    let _one_at_a_time = ingest.flushing.lock().await;
    let Some((open, cursor)) = ingest.head.take_open_catalog() else {
        return Ok(());
    };
    let written = write_catalog(ingest, cursor).await;
    match written {
        Ok(()) => ingest.head.flushed(FlushUnit::Catalog, cursor),
        // To be tried again.
        Err(_) => ingest.head.reopen_catalog(open),
    }
    written
}

async fn write_catalog(ingest: &Ingest, cursor: u64) -> Result<()> {
    let known: Vec<_> = {
        let known = ingest.head.metadata.read();
        known
            .iter()
            .map(|(family, known)| {
                let value = metadata::encode_seen(&known.metadata, known.seen_hour());
                (key::metric_metadata(family), value)
            })
            .collect()
    };
    let mark = ingest.head.watermark();
    // Only what the journal holds durably: the catalog must not know of requests that never were.
    ingest.journal.wait_durable(mark.next_seq - 1).await?;
    let db = ingest.context.engine.db();
    for records in known.chunks(BATCH_RECORDS) {
        let mut batch = WriteBatch::new();
        for (key, value) in records {
            batch.put(key, value);
        }
        db.write(batch)
            .await
            .map_err(Error::store("writing metadata"))?;
    }
    let mut batch = WriteBatch::new();
    batch.put_bytes(key::catalog_cursor(), flush_cursor::encode(cursor));
    batch.put_bytes(key::journal_watermark(), watermark::encode(mark));
    let handle = db
        .write(batch)
        .await
        .map_err(Error::store("writing metadata"))?;
    handle
        .await_durable()
        .await
        .map_err(Error::store("writing metadata"))
}

/// Deletes what was said of families that nobody needs any more. Under the flush lock, so that what
/// is said again is written after it.
pub(crate) async fn delete_metadata<'f>(
    ingest: &Ingest,
    _no_flush: &FrozenHours,
    families: impl Iterator<Item = &'f String>,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for family in families {
        batch.delete(key::metric_metadata(family));
    }
    let deleting = || Error::store("deleting metadata");
    let written = ingest.context.engine.db().write(batch).await;
    let durable = written.map_err(deleting())?.await_durable().await;
    durable.map_err(deleting())
}

/// Reads the catalog's metadata at start-up.
pub(crate) async fn load_metadata(view: &View, now_ms: i64) -> Result<MetadataMap> {
    let mut known = MetadataMap::new();
    let mut records = view
        .scan_prefix(&key::metric_metadata_prefix(), ScanKind::Once)
        .await?;
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading metadata"))?
    {
        match (
            ParsedKey::parse(&record.key),
            metadata::decode_seen(&record.value),
        ) {
            (Ok(ParsedKey::MetricMetadata { family }), Ok((metadata, seen_hour))) => {
                let seen_ms = seen_hour.map_or(now_ms, |hour| i64::from(hour) * HOUR_MS);
                known.insert(family, FamilyMetadata { metadata, seen_ms });
            }
            // Metadata describes; losing sight of some must not keep samples from being served.
            _ => warn!(key = ?record.key, "cannot read a metadata record: skipped"),
        }
    }
    Ok(known)
}
