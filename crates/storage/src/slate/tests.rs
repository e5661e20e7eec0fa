//! What the engine promises, on a store in memory, on a directory, and on stores that fail.

mod ambiguous_puts;
mod clocks;
mod drains;
mod faulty_store;
mod joins;
mod lost_database;
mod reading;
mod s3;
mod shortened_log;
mod start_up;
mod writers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;

use super::engine::Engine;
use crate::options::StoreOptions;

fn in_memory() -> (StoreOptions, Arc<dyn ObjectStore>) {
    (at("memory://"), Arc::new(InMemory::new()))
}

fn at(location: &str) -> StoreOptions {
    StoreOptions {
        location: location.to_owned(),
        ..StoreOptions::default()
    }
}

fn in_directory(directory: &tempfile::TempDir) -> StoreOptions {
    at(directory.path().to_str().unwrap())
}

async fn open(options: &StoreOptions, store: &Arc<dyn ObjectStore>) -> Engine {
    Engine::open(options, Some(Arc::clone(store)))
        .await
        .unwrap()
}

/// A key of a bucket-scoped record (forward index, 1 h) and its segment.
fn bucket_key(bucket: u32, id: u32) -> Bytes {
    let mut key = vec![1, 0x31];
    key.extend_from_slice(&bucket.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key.into()
}

fn journal_key(epoch: u32, seq: u64) -> Bytes {
    icecore_records::key::journal(epoch, seq)
}

async fn put(engine: &Engine, key: Bytes, value: &'static [u8]) -> Result<(), slatedb::Error> {
    let handle = engine
        .db()
        .put_bytes(key, Bytes::from_static(value))
        .await?;
    engine.db().flush().await?;
    handle.await_durable().await
}

async fn get(engine: &Engine, key: &[u8]) -> Option<Bytes> {
    engine.live_view().get(key).await.unwrap()
}

/// Longest wait for something that has to happen. Only a test that fails reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that a background task is to bring about.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < give_up, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
