//! Records of the catalog: meta data, annotations, trees.
//!
//! Holds always:
//! - A record that was read to be changed is changed under the lock, so that no change is lost.
//!   The lock ends with the append: others need not wait until a change is durable.
//! - A change is durable before the request that made it is answered.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::lock::{Mutex, MutexGuard};
use http::StatusCode;
use icecore_model::{
    AppendError, Catalog, CatalogChange, CatalogRecord, SampleSink, SampleStore, StoreError,
};

use crate::catalog_key;
use crate::error::Error;

/// How records are written: this byte, and behind it JSON.
const VERSION: u8 = 1;

/// Reads and writes records.
pub(crate) struct Records {
    points: Arc<dyn SampleStore>,
    catalog: Arc<dyn Catalog>,
    lock: Mutex<()>,
}

impl Records {
    pub(crate) fn new(points: Arc<dyn SampleStore>, catalog: Arc<dyn Catalog>) -> Self {
        Self {
            points,
            catalog,
            lock: Mutex::new(()),
        }
    }

    /// To be taken before a record is read that will be changed.
    pub(crate) async fn lock(&self) -> RecordsEdit<'_> {
        RecordsEdit {
            records: self,
            guard: self.lock.lock().await,
        }
    }

    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let records = self.range(catalog_key::exactly(key), 1).await?;
        Ok(records.into_iter().next().map(|(_, value)| value))
    }

    /// Records in key order, at most `limit`.
    pub(crate) async fn range(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> Result<Vec<CatalogRecord>, Error> {
        if keys.start >= keys.end {
            return Ok(Vec::new());
        }
        let records = self.catalog.range(keys, limit).await;
        records.map_err(unavailable)
    }
}

/// The right to change records.
pub(crate) struct RecordsEdit<'a> {
    records: &'a Records,
    guard: MutexGuard<'a, ()>,
}

impl RecordsEdit<'_> {
    /// Stores changes; they are durable afterwards.
    pub(crate) async fn write(self, changes: Vec<CatalogChange>) -> Result<(), Error> {
        self.write_and(changes, || ()).await
    }

    /// The same for who remembers what is stored: `appended` runs under the lock, and only if the
    /// changes were taken.
    pub(crate) async fn write_and(
        self,
        changes: Vec<CatalogChange>,
        appended: impl FnOnce(),
    ) -> Result<(), Error> {
        if changes.is_empty() {
            appended();
            return Ok(());
        }
        let fill = |sink: &mut dyn SampleSink| {
            changes.into_iter().for_each(|change| sink.catalog(change));
            Ok::<(), StoreError>(())
        };
        let pending = self.records.points.append(Duration::ZERO, fill).await;
        let pending = pending.map_err(|error| match error {
            AppendError::Fill(error) | AppendError::Store(error) => unavailable(error),
        })?;
        appended();
        drop(self.guard);
        pending.commit.await.map_err(unavailable)
    }
}

/// What is said when the store is busy or does not answer: the same request may succeed later.
fn unavailable(error: StoreError) -> Error {
    let message = format!("Storage exception: {error}");
    Error::new(StatusCode::SERVICE_UNAVAILABLE, message)
}

/// What is said when a record cannot be read.
pub(crate) fn failed(error: StoreError) -> Error {
    Error::new(StatusCode::INTERNAL_SERVER_ERROR, error.0)
}

/// A change that stores a record.
pub(crate) fn stored(key: Vec<u8>, json: &str) -> CatalogChange {
    let mut value = vec![VERSION];
    value.extend_from_slice(json.as_bytes());
    CatalogChange {
        key,
        value: Some(value),
    }
}

/// A change that removes a record.
pub(crate) fn removed(key: Vec<u8>) -> CatalogChange {
    CatalogChange { key, value: None }
}

/// The JSON of a record.
pub(crate) fn json_of(value: &[u8]) -> Option<&str> {
    let (version, json) = value.split_first()?;
    std::str::from_utf8(json)
        .ok()
        .filter(|_| *version == VERSION)
}
