//! The same samples before and after, and the same bytes whichever way.

use icecore_records::{ParsedKey, bucket_meta, key};
use icecore_storage::Error;
use icecore_storage::testing::Hooks;

use super::*;

#[test]
fn four_hours_hold_what_the_hours_held() {
    let world = world_of(&store_with_hours(0..4));
    let process = world.start();
    let before = process.run(process.db.stored_content()).unwrap();
    let samples: usize = before
        .values()
        .map(|series| series.floats.len() + series.histograms.len())
        .sum();
    let target = bucket(3, 0);
    let outcome = process
        .run(process.db.coarsen_now(3, target.start, None))
        .unwrap();
    assert_eq!(outcome.sources, 4);
    assert_eq!(outcome.series as usize, before.len());
    assert_eq!(outcome.samples as usize, samples);
    assert!(outcome.bytes_written < outcome.bytes_read, "{outcome:?}");
    assert!(!outcome.resumed);
    assert_eq!(process.db.listed(), [target]);
    let after = process.run(process.db.stored_content()).unwrap();
    assert_eq!(after, before);

    let meta = process
        .run(process.db.records(&key::bucket_meta(target)))
        .unwrap();
    let meta = bucket_meta::decode(&meta[0].1).unwrap();
    assert_eq!(meta.next_series_id as usize, before.len());
    assert_eq!(meta.run_starts.len(), 1);
    assert!(meta.dirty_hours.is_empty());
    assert!(meta.has_histograms && meta.has_start_timestamps);
    let firsts = before.values().filter_map(|s| s.floats.keys().next());
    assert_eq!(meta.min_timestamp_ms, *firsts.min().unwrap());
    let exemplars: usize = before.values().map(|s| s.exemplars.len()).sum();
    assert_eq!(meta.exemplars as usize, exemplars);
    let columns = records_of(&process, target);
    let is_column = |(key, _): &&(Bytes, Bytes)| {
        matches!(ParsedKey::parse(key), Ok(ParsedKey::TimeColumn { .. }))
    };
    // Two targets; of the first one a late sample makes two of three series the same.
    assert_eq!(columns.iter().filter(is_column).count(), 2);
    assert!(
        process
            .run(process.db.records(&key::maintenance_job()))
            .unwrap()
            .is_empty()
    );
    let retired = process.run(process.db.records(&key::retired_bucket_prefix()));
    assert_eq!(retired.unwrap().len(), 4);

    let again = process.run(process.db.coarsen_now(3, target.start, None));
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    // And a process that starts now sees the same.
    process.crash();
    let process = world.start();
    assert_eq!(process.db.listed(), [target]);
    assert_eq!(process.run(process.db.stored_content()).unwrap(), before);
}

#[test]
fn in_one_step_or_in_two_the_bytes_are_the_same() {
    let store = store_with_hours(0..16);
    let direct = world_of(&store).start();
    let before = direct.run(direct.db.stored_content()).unwrap();
    direct.run(direct.db.coarsen_now(5, WINDOW, None)).unwrap();
    assert_eq!(direct.db.listed(), [bucket(5, 0)]);
    assert_eq!(direct.run(direct.db.stored_content()).unwrap(), before);

    // In other batches, too.
    let mut world = world_of(&store);
    world.options.head.flush_batch_records = 1000;
    let stepwise = world.start();
    for hours_after in [8, 0, 4, 12] {
        let start = bucket(3, hours_after).start;
        stepwise
            .run(stepwise.db.coarsen_now(3, start, None))
            .unwrap();
    }
    assert_eq!(stepwise.run(stepwise.db.stored_content()).unwrap(), before);
    stepwise
        .run(stepwise.db.coarsen_now(5, WINDOW, None))
        .unwrap();
    assert_eq!(stepwise.db.listed(), [bucket(5, 0)]);
    let target = bucket(5, 0);
    let expected = records_of(&direct, target);
    assert_same_records(&records_of(&stepwise, target), &expected, "in two steps");
}

#[test]
fn what_is_left_of_a_window_is_enough() {
    let world = world_of(&store_with_hours(1..4));
    let process = world.start();
    let before = process.run(process.db.stored_content()).unwrap();
    // Two hours, then these and one more.
    process
        .run(process.db.coarsen_now(2, bucket(2, 2).start, None))
        .unwrap();
    assert_eq!(process.db.listed(), [bucket(1, 1), bucket(2, 2)]);
    assert_eq!(process.run(process.db.stored_content()).unwrap(), before);
    process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    assert_eq!(process.db.listed(), [bucket(3, 0)]);
    assert_eq!(process.run(process.db.stored_content()).unwrap(), before);
}

/// Ids that are not in label order, as only damage could leave them, cost a new start.
#[test]
fn runs_that_are_not_in_order_are_found_out() {
    let world = world_of(&store_with_hours(0..4));
    let process = world.start();
    let before = process.run(process.db.stored_content()).unwrap();
    let key = key::bucket_meta(bucket(1, 0));
    let record = process.run(process.db.records(&key)).unwrap().remove(0).1;
    let mut meta = bucket_meta::decode(&record).unwrap();
    assert!(
        meta.run_starts.len() > 1,
        "late series have a run of their own"
    );
    meta.run_starts.truncate(1);
    let lie = bucket_meta::encode(&meta).into();
    process
        .run(process.db.replace_records(vec![(key, Some(lie))]))
        .unwrap();
    process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    assert_eq!(process.run(process.db.stored_content()).unwrap(), before);
}
