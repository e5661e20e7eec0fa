//! A store in memory as another instance sees it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use icecore_model::event::{EventShard, EventSnapshot, EventStore};
use icecore_model::{BoxFuture, StoreError};

use super::MemoryStore;

/// Cheap to clone.
#[derive(Clone)]
pub struct MemoryShard {
    name: String,
    store: MemoryStore,
    is_gone: Arc<AtomicBool>,
}

impl MemoryShard {
    pub fn new(name: &str, store: &MemoryStore) -> Self {
        Self {
            name: name.to_owned(),
            store: store.clone(),
            is_gone: Arc::default(),
        }
    }

    /// From now on it can be reached, or not.
    pub fn set_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Relaxed);
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_gone.load(Relaxed) {
            return Err(StoreError("it cannot be reached".into()));
        }
        Ok(())
    }
}

impl EventShard for MemoryShard {
    fn name(&self) -> &str {
        &self.name
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn EventSnapshot>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.snapshot().await
        })
    }

    fn read_file(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StoreError>> {
        self.store.files().read(path, range)
    }
}
