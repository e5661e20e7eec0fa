//! The sweep: records that belong to no bucket leave the store.
//!
//! A process that dies in the middle of a job or a flush leaves records of a bucket that was never
//! listed. The job or the flush is repeated and writes them again, but a job may be given up.
//!
//! Holds always:
//! - Left alone is what is listed, what is retired (it goes its own way), the target of the stored
//!   job, and hours that the head or a flush still has something of.
//! - Key versions, record types and bucket sizes that this program does not write are left alone.
//! - Nothing is flushed meanwhile: a flush writes a bucket before it lists it. No job may run,
//!   either; the caller sees to that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::{BucketSize, BucketStart};
use icecore_records::{Bucket, RecordType, key};
use tracing::info;

use super::build::stored_job;
use super::retire::empty_buckets;
use crate::buckets::ladder;
use crate::error::Result;
use crate::ingest::flush::FrozenHours;
use crate::maintenance::Maintenance;

/// How long flushes are held up at most. The next sweep goes on with what is left.
const PATIENCE: Duration = Duration::from_secs(10);

/// Drains orphans. Returns how many buckets' records went.
pub(crate) async fn sweep(maintenance: &Arc<Maintenance>) -> Result<usize> {
    let frozen = maintenance.ingest.lock_flushes().await;
    let orphans = orphans(maintenance, &frozen).await?;
    if orphans.is_empty() {
        return Ok(0);
    }
    let gone = empty_buckets(maintenance, &orphans, PATIENCE).await?;
    info!(found = orphans.len(), gone = gone.len(), "orphans swept");
    Ok(gone.len())
}

async fn orphans(maintenance: &Maintenance, frozen: &FrozenHours) -> Result<Vec<Bucket>> {
    // What is in a memtable only becomes a file here. Segments that were drained are listed for a
    // while although they are empty; such a one has no file.
    maintenance.context.engine.flush_memtable().await?;
    let stored = maintenance.context.engine.segments_in_files();
    let stored: BTreeSet<Bucket> = stored.iter().filter_map(|s| bucket_of(s)).collect();
    let job = stored_job(maintenance).await?;
    let mut hours: BTreeSet<BucketStart> = frozen.keys().copied().collect();
    hours.extend(maintenance.ingest.head().open_hours());
    let (retired, listed) = (maintenance.buckets.retired(), maintenance.buckets.levels());
    let wanted = |bucket: &Bucket| {
        listed.contains(*bucket)
            || retired.contains_key(bucket)
            // It may be resumed: what it has written of its target is of use.
            || job.as_ref().is_some_and(|job| job.target == *bucket)
            || hours.range(bucket.hours()).next().is_some()
    };
    Ok(stored
        .into_iter()
        .filter(|bucket| !wanted(bucket))
        .collect())
}

/// The bucket that a segment belongs to, if it is one that this program may have written.
fn bucket_of(segment: &[u8]) -> Option<Bucket> {
    let [key::VERSION, tag, start @ ..] = segment else {
        return None;
    };
    let known = RecordType::from_number(tag >> 4).is_some_and(RecordType::is_bucket_scoped);
    let size = BucketSize::from_exponent(tag & 0xF)?;
    let start = BucketStart(u32::from_be_bytes(start.try_into().ok()?));
    (known && ladder::is_written(size)).then_some(Bucket { size, start })
}

#[cfg(test)]
mod tests;
