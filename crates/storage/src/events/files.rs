//! Files of events of an open database.

use std::ops::Range;

use bytes::Bytes;
use icecore_model::event::{EventFileInfo, EventFileStore};
use icecore_model::{BoxFuture, StoreError};

use crate::slate::event_files::EventFiles;

impl EventFileStore for EventFiles {
    fn put(&self, path: &str, content: Bytes) -> BoxFuture<'_, Result<(), StoreError>> {
        let path = path.to_owned();
        Box::pin(async move { Ok(Self::put(self, &path, content).await?) })
    }

    fn read(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StoreError>> {
        let path = path.to_owned();
        Box::pin(async move { Ok(Self::read(self, &path, range).await?) })
    }

    fn delete(&self, path: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let path = path.to_owned();
        Box::pin(async move { Ok(Self::delete(self, &path).await?) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<EventFileInfo>, StoreError>> {
        Box::pin(async move { Ok(Self::list(self).await?) })
    }
}
