//! What cannot be coarsened stays as it is.

use icecore_records::{RecordType, SeriesId, key};
use icecore_storage::Error;
use icecore_storage::testing::Hooks;

use super::*;

#[test]
fn a_record_that_cannot_be_read_ends_the_job() {
    let world = world_of(&store_with_hours(0..4));
    let process = world.start();
    let hour = bucket(1, 1);
    let exemplars = key::record_prefix(RecordType::ExemplarSeries, hour);
    let exemplars = process.run(process.db.records(&exemplars)).unwrap();
    // In the order in which a job meets them: it goes on where the damage was.
    for damaged in [
        key::forward_index(hour, SeriesId(2)),
        key::inverted_index(hour, "series", "regular"),
        key::time_series(hour, SeriesId(3)),
        exemplars[0].0.clone(),
    ] {
        let good = process
            .run(process.db.records(&damaged))
            .unwrap()
            .remove(0)
            .1;
        let garbage = Some(Bytes::from_static(b"\xff\xff\xff"));
        let records = vec![(damaged.clone(), garbage)];
        process.run(process.db.replace_records(records)).unwrap();
        let refused = process.run(process.db.coarsen_now(3, WINDOW, None));
        let text = match refused {
            Err(Error::Corrupt(text)) => text,
            other => panic!("{damaged:?}: {other:?}"),
        };
        assert!(text.to_string().contains(&hour.to_string()), "{text}");
        assert_eq!(process.db.listed().len(), 4);
        let records = vec![(damaged, Some(good))];
        process.run(process.db.replace_records(records)).unwrap();
    }
    process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    assert_eq!(process.db.listed(), [bucket(3, 0)]);
}

#[test]
fn a_window_without_buckets_is_refused() {
    let process = World::new().start();
    for exponent in [1, 2, 3, 6] {
        let refused = process.run(process.db.coarsen_now(exponent, WINDOW, None));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
}

/// What a job has written and cannot be gone on with is dropped, and the next job starts over.
#[test]
fn a_damaged_target_is_built_again() {
    let store = store_with_hours(0..4);
    let world = world_of(&store);
    let process = world.start();
    process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    let target = bucket(3, 0);
    let expected = records_of(&process, target);
    process.crash();
    let columns = expected.iter().map(|(key, _)| key);
    let is_column =
        |key: &&Bytes| matches!(ParsedKey::parse(key), Ok(ParsedKey::TimeColumn { .. }));
    let column = columns.clone().find(is_column).unwrap().clone();
    for damaged in [column, key::forward_index(target, SeriesId(1))] {
        let process = world_of(&store).start();
        let mut writes = 10;
        // Far enough that there is something to damage.
        while process
            .run(process.db.records(&damaged))
            .unwrap()
            .is_empty()
        {
            let cut = process.run(process.db.coarsen_now(3, WINDOW, Some(writes)));
            assert!(cut.is_err());
            writes = 1;
        }
        process
            .run(process.db.replace_records(vec![(damaged, None)]))
            .unwrap();
        let refused = process.run(process.db.coarsen_now(3, WINDOW, None));
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
        assert_eq!(process.db.listed().len(), 4);
        let outcome = process
            .run(process.db.coarsen_now(3, WINDOW, None))
            .unwrap();
        assert!(!outcome.resumed);
        assert_same_records(&records_of(&process, target), &expected, "built again");
    }
}
