//! A step of a rewrite in place: nothing is flushed between what it reads and what it writes.

use icecore_records::Bucket;
use icecore_records::bucket_meta::BucketMeta;
use slatedb::{WriteBatch, WriteHandle};
use tokio::sync::MutexGuard;

use crate::buckets::read_meta;
use crate::error::{Error, Result};
use crate::ingest::flush::FrozenHours;
use crate::maintenance::Maintenance;
use crate::slate::read_view::View;

pub(super) struct InPlace<'m> {
    maintenance: &'m Maintenance,
    bucket: Bucket,
    pub(super) view: View,
    _no_flush: MutexGuard<'m, FrozenHours>,
}

impl<'m> InPlace<'m> {
    pub(super) async fn begin(maintenance: &'m Maintenance, bucket: Bucket) -> Self {
        let no_flush = maintenance.ingest.lock_flushes().await;
        Self {
            maintenance,
            bucket,
            view: maintenance.context.engine.live_view(),
            _no_flush: no_flush,
        }
    }

    pub(super) async fn meta(&self) -> Result<BucketMeta> {
        read_meta(&self.view, self.bucket).await
    }

    /// Writes what the step has made. `what` is being done.
    pub(super) async fn write(&self, what: &'static str, batch: WriteBatch) -> Result<WriteHandle> {
        // What was read before may still be what the bucket means, but not how it lies there.
        let cache = self.maintenance.buckets.cache();
        cache.begin_change(self.bucket);
        let written = self.maintenance.context.engine.db().write(batch).await;
        let handle = written.map_err(Error::store(what))?;
        cache.end_change(self.bucket);
        Ok(handle)
    }
}
