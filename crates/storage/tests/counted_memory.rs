//! Whether what a read says it holds is what it holds. In a binary of its own, because its
//! allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use icecore_model::{
    Matcher, MemoryBudget, RawLabels, Sample, SampleSink, SelectHints, Selection, push_raw_label,
};
use icecore_storage::testing::Hooks;
use icecore_storage::{Database, Environment, ManualClock, Options};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

fn count(change: isize) {
    let held = HELD.fetch_add(change, Relaxed) + change;
    PEAK.fetch_max(held, Relaxed);
}

#[allow(
    unsafe_code,
    reason = "a global allocator cannot be written without it; it only counts"
)]
// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

const HOUR: i64 = 3_600_000;
const T0: i64 = 1_700_000_000_000 / HOUR * HOUR;
const SERIES: usize = 2_000;
const HOURS: i64 = 40;

async fn write(db: &Database, time: i64) {
    db.write(move |batch| {
        for number in 0..SERIES {
            let mut raw = Vec::new();
            push_raw_label(&mut raw, "__name__", "m");
            push_raw_label(
                &mut raw,
                "instance",
                &format!("host-{number:05}.example.net"),
            );
            push_raw_label(&mut raw, "job", "node");
            batch.series(RawLabels(&raw));
            batch.sample(Sample {
                timestamp_ms: time,
                value: 1.0,
                start_timestamp_ms: 0,
            });
        }
        Ok::<(), ()>(())
    })
    .await
    .unwrap();
}

/// What opening a selection took at most and holds, and what it said.
async fn opened(db: &Database) -> [(isize, usize); 2] {
    let memory = MemoryBudget::new(usize::MAX);
    let selection = Selection {
        matchers: vec![Matcher::equal("__name__", "m")],
        start_ms: 0,
        end_ms: i64::MAX,
        hints: SelectHints {
            memory: Some(Arc::clone(&memory)),
            ..SelectHints::default()
        },
    };
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let stream = db.select(selection).await.unwrap();
    let peak = PEAK.load(Relaxed) - before;
    let held = HELD.load(Relaxed) - before;
    let said = [(peak, memory.peak()), (held, memory.used())];
    drop(stream);
    assert_eq!(memory.used(), 0);
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selection_says_what_it_holds() {
    let mut options = Options::default();
    options.store.location = "memory://".into();
    options.journal.commit_interval = Some(std::time::Duration::ZERO);
    options.maintenance.enabled = false;
    // All label sets stay in the cache, so that they are not part of what is measured.
    options.read.chunk_cache_bytes = 1 << 30;
    let clock = Some(Arc::new(ManualClock::at(T0 + HOUR)) as _);
    let environment = Environment {
        clock,
        object_store: None,
    };
    let db = Database::open(options, environment).await.unwrap();
    for hour in 0..HOURS {
        write(&db, T0 - hour * HOUR).await;
    }
    db.flush_buckets().await.unwrap();
    // Nothing is left to be drained in the background, whose memory would be counted.
    db.drain().await.unwrap();
    opened(&db).await;
    // What else goes on for a moment is in a few of them at most.
    let mut all = Vec::new();
    for _ in 0..9 {
        all.push(opened(&db).await);
    }
    all.sort_by_key(|[(peak, _), (held, _)]| (*peak, *held));
    let middle = all[all.len() / 2];
    for (what, (taken, said)) in ["at most", "in the end"].iter().zip(middle) {
        let taken = taken as f64;
        // Label sets are shared with the cache and counted all the same.
        let shared = (SERIES * 250) as f64;
        let said = said as f64;
        assert!(said > 0.8 * taken, "{what}: {taken} taken, {said} said");
        assert!(
            said < 1.3 * taken + shared,
            "{what}: {taken} taken, {said} said"
        );
    }
}
