//! Backfills of any width come to their end, and live writes do not notice them.

mod content;
mod measure;
mod pace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use icecore_storage::{Database, Error, WriteError};

use crate::support::*;

/// Writes until the store takes it. Returns how often it was told to come back.
async fn write_patiently(db: &Database, samples: Vec<(String, i64, f64)>) -> usize {
    let give_up = Instant::now() + PATIENCE;
    let mut refusals = 0;
    loop {
        match try_write(db, samples.clone()).await {
            Ok(_) => return refusals,
            Err(WriteError::Storage(Error::Unavailable(reason))) => {
                assert!(Instant::now() < give_up, "still refused: {reason}");
                refusals += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Someone who writes the hour of now all the while.
struct Live {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<LiveWrites>,
}

/// The delays of writes to the current hour, each list ascending.
#[derive(Default)]
struct LiveWrites {
    took: Vec<Duration>,
    /// How many hours were flushed meanwhile, which no machine is too slow or too quick for.
    flushed: Vec<u64>,
}

impl Live {
    fn start(db: &Database, now_ms: i64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (db, stopped) = (db.clone(), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut writes = LiveWrites::default();
            let flushed = || db.metrics().flushed_hours.get();
            while !stopped.load(Ordering::Relaxed) {
                let sample = ("live".to_owned(), now_ms + writes.took.len() as i64, 1.0);
                let (began, flushed_before) = (Instant::now(), flushed());
                let outcome = try_write(&db, vec![sample]).await;
                outcome.expect("a live write is never refused");
                writes.took.push(began.elapsed());
                writes.flushed.push(flushed() - flushed_before);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            writes
        });
        Self { stop, task }
    }

    async fn stop(self) -> LiveWrites {
        self.stop.store(true, Ordering::Relaxed);
        let mut writes = self.task.await.expect("no live write failed");
        writes.took.sort_unstable();
        writes.flushed.sort_unstable();
        writes
    }
}
