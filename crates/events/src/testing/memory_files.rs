//! Files in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use icecore_model::event::{EventFileInfo, EventFileStore};
use icecore_model::{BoxFuture, StoreError};
use parking_lot::Mutex;

#[derive(Default)]
pub struct MemoryFiles {
    files: Mutex<BTreeMap<String, (Bytes, i64)>>,
    now_ms: AtomicI64,
    failing_puts: AtomicUsize,
}

impl MemoryFiles {
    /// The time that files are written at from here on.
    pub fn set_now_ms(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Relaxed);
    }

    /// Makes the next puts fail.
    pub fn fail_puts(&self, count: usize) {
        self.failing_puts.store(count, Relaxed);
    }

    pub fn paths(&self) -> Vec<String> {
        self.files.lock().keys().cloned().collect()
    }
}

fn missing(path: &str) -> StoreError {
    StoreError(format!("there is no file {path}"))
}

impl EventFileStore for MemoryFiles {
    fn put(&self, path: &str, content: Bytes) -> BoxFuture<'_, Result<(), StoreError>> {
        let path = path.to_owned();
        Box::pin(async move {
            tokio::task::yield_now().await;
            let less = |left: usize| left.checked_sub(1);
            if self
                .failing_puts
                .fetch_update(Relaxed, Relaxed, less)
                .is_ok()
            {
                return Err(StoreError(format!("injected fault: put {path}")));
            }
            let modified_ms = self.now_ms.load(Relaxed);
            self.files.lock().insert(path, (content, modified_ms));
            Ok(())
        })
    }

    fn read(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StoreError>> {
        let path = path.to_owned();
        Box::pin(async move {
            let files = self.files.lock();
            let (content, _) = files.get(&path).ok_or_else(|| missing(&path))?;
            let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
            let range = at(range.start)..at(range.end);
            if range.start > range.end || range.end > content.len() {
                return Err(StoreError(format!("{path} ends before {}", range.end)));
            }
            Ok(content.slice(range))
        })
    }

    fn delete(&self, path: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        self.files.lock().remove(path);
        Box::pin(async { Ok(()) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<EventFileInfo>, StoreError>> {
        let files = self.files.lock();
        let files = files.iter().map(|(path, (content, modified_ms))| {
            let path = path.clone();
            EventFileInfo {
                path,
                bytes: content.len() as u64,
                modified_ms: *modified_ms,
            }
        });
        let files = files.collect();
        Box::pin(async move { Ok(files) })
    }
}
