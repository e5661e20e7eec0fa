//! The catalog: metric metadata, which is kept in memory as a whole, and records of other parts of
//! the program. Changes are journalled and written by a flush.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::HOUR_MS;
use icecore_records::epoch_summary::FlushUnit;
use icecore_records::{ParsedKey, flush_cursor, key, metadata, watermark};
use slatedb::WriteBatch;
use tracing::warn;

use super::{FrozenHours, to_the_end};
use crate::error::{Error, Result};
use crate::ingest::Ingest;
use crate::ingest::head::{FamilyMetadata, MetadataMap, PendingRecord};
use crate::slate::read_view::{ScanKind, View};

/// Records per batch.
const BATCH_RECORDS: usize = 1024;

/// Writes what is only in the journal.
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
    let (changes, with_metadata) = ingest.head.catalog.write().all();
    let written = write_changes(ingest, cursor, &changes, with_metadata).await;
    let mut catalog = ingest.head.catalog.write();
    match written {
        Ok(()) => catalog.written(&changes),
        Err(_) => catalog.not_written(with_metadata),
    }
    written
}

async fn write_changes(
    ingest: &Ingest,
    cursor: u64,
    changes: &[(Vec<u8>, PendingRecord)],
    with_metadata: bool,
) -> Result<()> {
    let mut records: Vec<(Bytes, Option<Vec<u8>>)> = Vec::new();
    if with_metadata {
        let known = ingest.head.metadata.read();
        let known = known.iter();
        let encoded = known.map(|(family, known)| {
            let value = metadata::encode_seen(&known.metadata, known.seen_hour());
            (key::metric_metadata(family), Some(value))
        });
        records.extend(encoded);
    }
    // Keys that are not theirs are refused before anything is appended.
    let changes = changes.iter().filter_map(|(key, change)| {
        let key = key::catalog_record(key)?;
        Some((key, change.value.clone()))
    });
    records.extend(changes);
    let mark = ingest.head.watermark();
    // Only what the journal holds durably: the catalog must not know of requests that never were.
    ingest.journal.wait_durable(mark.next_seq - 1).await?;
    let db = ingest.context.engine.db();
    for records in records.chunks(BATCH_RECORDS) {
        let mut batch = WriteBatch::new();
        for (key, value) in records {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        db.write(batch)
            .await
            .map_err(Error::store("writing the catalog"))?;
    }
    let mut batch = WriteBatch::new();
    batch.put_bytes(key::catalog_cursor(), flush_cursor::encode(cursor));
    batch.put_bytes(key::journal_watermark(), watermark::encode(mark));
    let handle = db
        .write(batch)
        .await
        .map_err(Error::store("writing the catalog"))?;
    handle
        .await_durable()
        .await
        .map_err(Error::store("writing the catalog"))
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
