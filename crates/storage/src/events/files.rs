//! Files of events of an open database: what a snapshot needs stays.
//!
//! A snapshot of the database has records that name files. A file that is deleted while there is a
//! snapshot which is younger than the file therefore stays: both are dated by the store. Whoever
//! compares the files that there are with those that are named, as has to be done after crashes
//! anyway, deletes it again later.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::{EventFileInfo, EventFileStore};
use icecore_model::{BoxFuture, StoreError};
use tracing::debug;

use crate::context::Context;
use crate::error::Result;
use crate::slate::event_files::EventFiles;

/// The step back that the clock of the store may have made between the two: that of a directory
/// can.
const STEP_BACK_MS: i64 = 3_600_000;

pub(super) struct FilesOfDatabase {
    context: Arc<Context>,
    files: EventFiles,
}

impl FilesOfDatabase {
    pub(super) fn new(context: &Arc<Context>) -> Self {
        Self {
            files: EventFiles::of(&context.engine),
            context: Arc::clone(context),
        }
    }

    async fn delete(&self, path: &str) -> Result<()> {
        if self.is_in_a_snapshot(path).await? {
            debug!(path, "kept for a snapshot");
            return Ok(());
        }
        self.files.delete(path).await
    }

    async fn is_in_a_snapshot(&self, path: &str) -> Result<bool> {
        let Some(youngest_ms) = self.context.engine.youngest_snapshot_ms().await? else {
            return Ok(false);
        };
        let file = self.files.info(path).await?;
        let until_ms = youngest_ms.saturating_add(STEP_BACK_MS);
        Ok(file.is_some_and(|file| file.modified_ms <= until_ms))
    }
}

impl EventFileStore for FilesOfDatabase {
    fn put(&self, path: &str, content: Bytes) -> BoxFuture<'_, Result<(), StoreError>> {
        let path = path.to_owned();
        Box::pin(async move { Ok(self.files.put(&path, content).await?) })
    }

    fn read(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StoreError>> {
        let path = path.to_owned();
        Box::pin(async move { Ok(self.files.read(&path, range).await?) })
    }

    fn delete(&self, path: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let path = path.to_owned();
        Box::pin(async move { Ok(self.delete(&path).await?) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<EventFileInfo>, StoreError>> {
        Box::pin(async move { Ok(self.files.list().await?) })
    }
}
