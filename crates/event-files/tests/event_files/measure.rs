//! Measurements: `cargo test --release -p icecore-event-files -- --ignored --nocapture measure`.

use std::sync::atomic::Ordering;
use std::time::Instant;

use icecore_event_files::Parquet;
use icecore_events::{FileFormat, FileScan, StoredEvent};

use crate::events::{event, everything, file_of, in_memory};

/// Thirty minutes at 10 000 events a second, in files of a million.
#[tokio::test]
#[ignore = "takes minutes"]
async fn measure_the_newest_of_eighteen_million() {
    let began = Instant::now();
    let files: Vec<_> = (0..18)
        .map(|file| {
            let events: Vec<StoredEvent<'static>> = (file * 1_000_000..(file + 1) * 1_000_000)
                .map(event)
                .collect();
            in_memory(file_of(&events))
        })
        .collect();
    let bytes: u64 = files.iter().map(|file| file.file.size).sum();
    println!(
        "18 M events in {:?}, {} bytes an event",
        began.elapsed(),
        bytes / 18_000_000
    );
    let began = Instant::now();
    let newest = files.last().unwrap();
    let scan = FileScan {
        newest_first: true,
        ..everything()
    };
    let mut rows = Parquet.open(newest.file.clone(), scan).await.unwrap();
    let found = rows.next_batch().await.unwrap().unwrap();
    let took = began.elapsed();
    assert_eq!(found[0], event(17_999_999));
    let read = newest.bytes_read.load(Ordering::Relaxed);
    println!(
        "newest {} events in {took:?}, {read} bytes read",
        found.len()
    );
    assert!(took.as_millis() < 50);
}
