//! Forgetting series while others use the head.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use icecore_model::{Sample, SampleSink, push_raw_label};

use super::*;

fn head() -> Head {
    Head::new(Limits::default(), usize::MAX, 7, Sequencer::new(1, 1, 0))
}

/// Label bytes of `m{series="…", of="…"}`; the other way round they are another encoding of the
/// same.
fn labels(series: usize, reversed: bool) -> Vec<u8> {
    let number = series.to_string();
    let group = (series % 7).to_string();
    let mut pairs = [("__name__", "m"), ("of", &group), ("series", &number)];
    if reversed {
        pairs.reverse();
    }
    let mut bytes = Vec::new();
    for (name, value) in pairs {
        push_raw_label(&mut bytes, name, value);
    }
    bytes
}

/// Writes one sample of each series, in the given second of the process.
fn write(head: &Head, series: impl Iterator<Item = usize>, reversed: bool, process_s: u32) {
    let _references = head.hold_references();
    let mut buffers = BatchBuffers::default();
    let now_ms = 1_700_000_000_000 + i64::from(process_s);
    let mut batch = WriteBatch::new(head, &mut buffers, now_ms);
    for series in series {
        batch.series(icecore_model::RawLabels(&labels(series, reversed)));
        batch.sample(Sample {
            timestamp_ms: now_ms,
            value: 1.0,
            start_timestamp_ms: 0,
        });
    }
    let time = AppendTime {
        now_ms,
        guarded_ms: now_ms,
        elapsed_ms: now_ms,
        process_s,
    };
    assert!(head.append(&mut buffers, time, usize::MAX).is_ok());
}

/// What a flush of everything does to the head.
fn flush(head: &Head) {
    let open = head.sequencer.lock().open_hours.keys().copied().collect();
    let (_, freeze) = head.begin_freeze(&open);
    for (hour, series) in head.freeze(&freeze) {
        head.drop_frozen(&[hour], &series);
    }
}

fn forget_all(head: &Head, before_s: u32) -> usize {
    let idle = head.idle_series(before_s);
    let forgotten = head.forget(&idle, before_s, Duration::ZERO).unwrap();
    head.reuse(&forgotten);
    forgotten.len()
}

#[test]
fn what_is_idle_is_forgotten_and_comes_back_as_new() {
    let head = head();
    write(&head, 0..3000, false, 10);
    write(&head, 0..1000, true, 10);
    assert_eq!(forget_all(&head, 20), 0, "they hold samples");
    flush(&head);
    assert_eq!(head.sample_bytes(), 0);
    let bytes = head.series_bytes();
    write(&head, 0..100, false, 30);
    assert_eq!(forget_all(&head, 20), 2900);
    assert_eq!(head.series.load(Relaxed), 100);
    // Tables keep their length.
    assert!(head.series_bytes() + 2900 * super::SERIES_BYTES < bytes);
    // Under their other encoding, and with references that were used before.
    write(&head, 500..2500, true, 40);
    assert_eq!(head.series.load(Relaxed), 2100);
    let index = head.index();
    let matching = index.select(&[Matcher::equal("series", "777")]);
    assert_eq!(matching.len(), 1);
    let found = index.labels(SeriesRef(matching.min().unwrap()));
    assert_eq!(found.get("series"), Some("777"));
    assert_eq!(index.select(&[Matcher::equal("of", "3")]).len(), 300);
    assert!(index.select(&[Matcher::equal("series", "300")]).is_empty());
    assert_eq!(
        head.sequencer.lock().next_ref,
        3000,
        "references are reused"
    );
}

#[test]
fn an_alias_does_not_lead_to_a_series_that_is_forgotten() {
    let head = head();
    write(&head, 0..10, false, 10);
    write(&head, 0..10, true, 10);
    flush(&head);
    let idle = head.idle_series(20);
    let forgotten = head.forget(&idle, 20, Duration::ZERO).unwrap();
    // Between the two steps.
    write(&head, 3..4, true, 30);
    assert_eq!(head.series.load(Relaxed), 1);
    head.reuse(&forgotten);
    write(&head, 0..10, true, 30);
    assert_eq!(head.series.load(Relaxed), 10);
    assert!(forget_all(&head, 20) == 0);
}

#[test]
fn series_are_forgotten_although_requests_are_always_under_way() {
    let head = Arc::new(head());
    write(&head, 0..20_000, false, 10);
    flush(&head);
    let done = Arc::new(AtomicBool::new(false));
    let requests = Arc::new(AtomicUsize::new(0));
    let busy = (0..4).map(|thread| {
        let (head, done) = (Arc::clone(&head), Arc::clone(&done));
        let requests = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let began = Instant::now();
                let references = head.hold_references();
                longest = longest.max(began.elapsed());
                requests.fetch_add(1, Ordering::Relaxed);
                // Of four that overlap there is always one.
                std::thread::sleep(Duration::from_millis(2 + thread));
                drop(references);
            }
            longest
        })
    });
    let busy: Vec<_> = busy.collect();
    while requests.load(Ordering::Relaxed) < 40 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let idle = head.idle_series(20);
    let began = Instant::now();
    let mut forgotten = Vec::new();
    for some in idle.chunks(4096) {
        let gone = loop {
            assert!(began.elapsed() < Duration::from_secs(120), "never let in");
            if let Some(gone) = head.forget(some, 20, Duration::from_millis(100)) {
                break gone;
            }
        };
        forgotten.extend(gone);
    }
    head.reuse(&forgotten);
    done.store(true, Ordering::Relaxed);
    for thread in busy {
        let longest = thread.join().unwrap();
        assert!(longest < Duration::from_secs(60), "waited for {longest:?}");
    }
    assert_eq!(forgotten.len(), 20_000);
}
