//! The last write wins, also where the head keeps old and new in different places.

use bytes::Bytes;
use icecore_model::BucketStart;
use icecore_records::{Bucket, key};
use icecore_storage::LabelQuery;
use icecore_storage::testing::Hooks;

use crate::process::World;
use crate::requests::{Entry, pairs, request};
use crate::support::*;

/// An hour that has sealed samples in the head is written to again after a later hour of the same
/// series was flushed.
#[test]
fn an_older_hour_goes_on_after_a_newer_one_was_flushed() {
    let world = World::new();
    let process = world.start();
    let first = [
        ("a", T0 + 10_000, 1.0),
        ("a", T0 + 20_000, 2.0),
        ("a", T0 + HOUR, 3.0),
    ];
    process.run(write(&process.db, &first));
    world.clock.advance(90_000);
    let second = [("a", T0 + 5_000, 4.0)];
    process.run(write(&process.db, &second));
    // The grace time of the newer hour has passed, that of the older one has not.
    world.clock.advance(60_000);
    process.run(process.db.tick()).unwrap();
    assert_eq!(process.db.gauges().buckets, 1);
    assert_eq!(process.db.gauges().open_hours, 1);
    let third = [
        ("a", T0 + 5_000, 5.0),
        ("a", T0 + 20_000, 6.0),
        ("a", T0 + 30_000, 7.0),
    ];
    let mut all = [first.as_slice(), &second].concat();
    for sample in third {
        process.run(write(&process.db, &[sample]));
        all.push(sample);
        let found = process.run(read(&process.db, everything()));
        assert_eq!(found, expected(&all), "after {sample:?}");
    }
    process.run(process.db.flush_buckets()).unwrap();
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&all), "from buckets");
}

/// A flush that fails leaves frozen hours behind; the next one must not take them for flushed.
#[test]
fn a_flush_that_failed_is_repeated() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    let first = [("a", T0, 1.0), ("a", T0 + HOUR, 2.0), ("b", T0 + HOUR, 3.0)];
    process.run(write(db, &first));
    process.run(db.flush_buckets()).unwrap();
    let meta = key::bucket_meta(Bucket::hour(BucketStart((T0 / 60_000) as u32)));
    let good = process.run(db.records(&meta)).unwrap().remove(0).1;
    let garbage = Some(Bytes::from_static(b"garbage"));
    process
        .run(db.replace_records(vec![(meta.clone(), garbage)]))
        .unwrap();

    let second = [("a", T0 + 1, 4.0), ("a", T0 + HOUR, 5.0)];
    process.run(write(db, &second));
    process.run(db.flush_buckets()).unwrap();
    let quarantined = || db.maintenance_status().quarantined.len();
    assert_eq!(quarantined(), 1, "the broken one is set aside");
    // Two before, and the other hour now, which the broken one must not hold back.
    assert_eq!(db.metrics().flushed_hours.get(), 3);
    let third = [("a", T0 + 1, 6.0), ("c", T0 + 2, 7.0)];
    process.run(write(db, &third));
    process.run(db.flush_buckets()).unwrap();
    assert_eq!(quarantined(), 1, "still garbage");
    let all = [first.as_slice(), &second, &third].concat();

    process
        .run(db.replace_records(vec![(meta, Some(good))]))
        .unwrap();
    assert_eq!(process.run(read(db, everything())), expected(&all));
    process.run(db.flush()).unwrap();
    assert_eq!(db.gauges().open_hours, 0);
    assert_eq!(db.gauges().journal_epochs, 0, "the journal is drained");
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 0);
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&all), "from buckets alone");
}

/// The same cycle over and over must not make the head believe that it holds more and more.
#[test]
fn memory_accounting_does_not_drift() {
    let world = World::new();
    let process = world.start();
    let mut bytes = Vec::new();
    for _ in 0..6 {
        let samples: Vec<Entry> = (0..300)
            .map(|i| {
                // Back and forth, so that late samples are folded, with starts now and then.
                let time = T0 + (i * 7_919) % 5_400_000;
                let start = if i % 3 == 0 { T0 - 1 } else { 0 };
                Entry::float(if i % 2 == 0 { "a" } else { "b" }, time, i as f64).starting(start)
            })
            .collect();
        process.run(request(&process.db, samples)).unwrap();
        process.run(process.db.flush_buckets()).unwrap();
        let gauges = process.db.gauges();
        bytes.push((gauges.head_sample_bytes, gauges.head_series_bytes));
    }
    assert!(bytes.iter().all(|b| *b == bytes[0]), "{bytes:?}");
}

/// A label with many values is stepped over, the names behind it are found all the same.
#[test]
fn label_names_behind_a_label_with_many_values() {
    let world = World::new();
    let process = world.start();
    let mut entries: Vec<Entry> = Vec::new();
    for i in 0..300 {
        let value = i.to_string();
        let sent = pairs(&[("__name__", "m"), ("many", &value), ("zone", "z")]);
        entries.push(Entry::float("", T0, 1.0).labelled(sent));
    }
    let query = LabelQuery {
        selectors: Vec::new(),
        start_ms: 0,
        end_ms: i64::MAX,
        ..LabelQuery::default()
    };
    // Once as written, once as merged.
    for _ in 0..2 {
        process.run(request(&process.db, entries.clone())).unwrap();
        process.run(process.db.flush_buckets()).unwrap();
        let names = process.run(process.db.label_names(&query)).unwrap();
        assert_eq!(names, ["__name__", "many", "zone"]);
        let values = process
            .run(process.db.label_values("many", &query))
            .unwrap();
        assert_eq!(values.len(), 300);
        entries.extend(entries.clone().into_iter().take(200).map(|entry| {
            entry.labelled(pairs(&[("__name__", "m"), ("many", "7"), ("zone", "y")]))
        }));
    }
}
