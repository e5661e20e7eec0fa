//! Deletion where the model does not reach: jobs under way, damage, many series, and that no trace
//! is left.

use icecore_model::{BucketSize, MatchOp, Matcher};
use icecore_records::{Bucket, ParsedKey, RecordType, SeriesId, key};
use icecore_storage::testing::{Hooks, JobHooks};
use icecore_storage::{Deletion, Error, LabelQuery};

use crate::process::World;
use crate::support::*;

fn deletion(pattern: &str, start_ms: i64, end_ms: i64) -> Deletion {
    let matcher = Matcher::new(MatchOp::Regex, "series", pattern).unwrap();
    Deletion {
        selectors: vec![vec![matcher]],
        start_ms,
        end_ms,
    }
}

fn always(pattern: &str) -> Deletion {
    deletion(pattern, i64::MIN, i64::MAX)
}

fn bucket(exponent: u8, time: i64) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    let start = size.bucket_of(time).unwrap();
    Bucket { size, start }
}

#[test]
fn a_deletion_waits_for_the_job_that_copies_its_buckets() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        write(
            &db,
            &[("a", T0, 1.0), ("b", T0, 2.0), ("a", T0 - 50 * HOUR, 3.0)],
        )
        .await;
        db.flush_buckets().await.unwrap();
        let held = db.hold_back(bucket(3, T0)).await.unwrap();
        // What it does not copy is deleted at once.
        db.delete_series(deletion("a", 0, T0 - 40 * HOUR))
            .await
            .unwrap();
        let after = expected(&[("a", T0, 1.0), ("b", T0, 2.0)]);
        assert_eq!(read(&db, everything()).await, after);
        let waits = tokio::spawn({
            let db = db.clone();
            async move { db.delete_series(always("a")).await }
        });
        until("the deletion waits for the job", || db.flush_waits()).await;
        assert!(!waits.is_finished());
        assert_eq!(read(&db, everything()).await, after);
        drop(held);
        waits.await.unwrap().unwrap();
        let after = expected(&[("b", T0, 2.0)]);
        assert_eq!(read(&db, everything()).await, after);
    });
}

#[test]
fn no_trace_is_left_of_what_was_deleted() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    // More than fit into a batch.
    let names: Vec<String> = (0..700).map(|n| format!("s{n:03}")).collect();
    let hours = [T0, T0 + HOUR, T0 + 2 * HOUR];
    let rows = |hour: i64| -> Vec<(&str, i64, f64)> {
        let rows = names
            .iter()
            .flat_map(|n| [(n.as_str(), hour, 1.0), (n, hour + 9, 2.0)]);
        rows.collect()
    };
    let left = || -> Vec<(&str, i64, f64)> {
        let rows = hours.into_iter().flat_map(rows);
        let rows = rows.filter(|(name, ..)| !name.ends_with('7'));
        rows.filter(|(name, time, _)| {
            !(name.starts_with("s1") && *time >= T0 + HOUR + 5 && *time <= T0 + 2 * HOUR)
        })
        .collect()
    };
    process.run(async {
        for hour in hours {
            write(&db, &rows(hour)).await;
        }
        db.flush_buckets().await.unwrap();
        // Two hours become one coarse bucket; the third stays.
        db.coarsen_now(2, bucket(2, T0).start, None).await.unwrap();
        db.delete_series(always(".*7")).await.unwrap();
        db.delete_series(deletion("s1.*", T0 + HOUR + 5, T0 + 2 * HOUR))
            .await
            .unwrap();
        assert_eq!(read(&db, everything()).await, expected(&left()));
        assert_ne!(db.maintenance_status().tombstones, 0);
        db.clean_tombstones().await.unwrap();
        assert_eq!(db.maintenance_status().tombstones, 0);
        assert_eq!(read(&db, everything()).await, expected(&left()));
        // Decoded without the read path.
        let stored = db.stored_content().await.unwrap();
        let samples: usize = stored.values().map(|series| series.floats.len()).sum();
        assert_eq!(samples, left().len());
        for record_type in [RecordType::ForwardIndex, RecordType::InvertedIndex] {
            for bucket in db.listed() {
                let prefix = key::record_prefix(record_type, bucket);
                for (key, value) in db.records(&prefix).await.unwrap() {
                    let bytes = [&key[..], &value[..]].concat();
                    let trace = bytes.windows(4).any(|w| w == b"s007" || w == b"s697");
                    assert!(!trace, "{:?}", ParsedKey::parse(&key));
                }
            }
        }
        // The same again has nothing to do, and what comes back is seen.
        db.delete_series(always(".*7")).await.unwrap();
        assert_eq!(db.maintenance_status().tombstones, 0);
        write(&db, &[("s007", T0, 7.0)]).await;
        db.flush_buckets().await.unwrap();
        let again: Vec<_> = left().into_iter().chain([("s007", T0, 7.0)]).collect();
        assert_eq!(read(&db, everything()).await, expected(&again));
    });
    process.close();
    world.check();
}

#[test]
fn damage_can_be_deleted() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        write(&db, &[("a", T0, 1.0), ("b", T0, 2.0)]).await;
        db.flush_buckets().await.unwrap();
        let damaged = key::time_series(bucket(1, T0), SeriesId(0));
        let broken = Some(bytes::Bytes::from_static(
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ));
        db.replace_records(vec![(damaged, broken)]).await.unwrap();
    });
    process.crash();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        // A range needs to know what is there, everything does not.
        let range = db.delete_series(deletion("a", T0, T0 + 5)).await;
        assert!(matches!(range, Err(Error::Corrupt(_))), "{range:?}");
        db.delete_series(always("a")).await.unwrap();
        let after = expected(&[("b", T0, 2.0)]);
        assert_eq!(read(&db, everything()).await, after);
        db.clean_tombstones().await.unwrap();
        assert_eq!(read(&db, everything()).await, after);
        let query = LabelQuery {
            selectors: Vec::new(),
            start_ms: 0,
            end_ms: i64::MAX,
            ..LabelQuery::default()
        };
        assert_eq!(db.label_values("series", &query).await.unwrap(), ["b"]);
    });
    process.close();
    world.check();
}
