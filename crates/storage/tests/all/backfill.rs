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
    let give_up = Instant::now() + Duration::from_secs(120);
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
    task: tokio::task::JoinHandle<Vec<Duration>>,
}

impl Live {
    fn start(db: &Database, now_ms: i64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (db, stopped) = (db.clone(), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let sample = ("live".to_owned(), now_ms + took.len() as i64, 1.0);
                let began = Instant::now();
                let outcome = try_write(&db, vec![sample]).await;
                outcome.expect("a live write is never refused");
                took.push(began.elapsed());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            took
        });
        Self { stop, task }
    }

    /// How long each of its writes took, the quickest first.
    async fn stop(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let mut took = self.task.await.expect("no live write failed");
        took.sort_unstable();
        took
    }
}
