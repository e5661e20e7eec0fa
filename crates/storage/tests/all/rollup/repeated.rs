//! Maintenance that has nothing to do does nothing.

use proptest::prelude::*;

use super::*;

/// Everything that is listed, with all records.
fn stored(process: &Process) -> Vec<(Bytes, Bytes)> {
    let mut buckets = process.db.listed();
    buckets.extend(process.db.rolled());
    buckets.extend(process.db.remnants());
    buckets.extend(process.db.overlays());
    let all = buckets
        .into_iter()
        .flat_map(|bucket| records_of(process, bucket));
    let global = [
        key::bucket_list(),
        key::retention_state(),
        key::maintenance_job(),
    ];
    let global = global
        .into_iter()
        .flat_map(|key| process.run(process.db.records(&key)).unwrap());
    all.chain(global).collect()
}

fn policies() -> Vec<RetentionPolicy> {
    let longer = Override {
        matchers: vec![Matcher::equal("series", "gauge")],
        retain: vec![(RAW, Retention::For(60 * DAY))],
    };
    let none = Retention::NOT_KEPT;
    let without = Override {
        matchers: vec![Matcher::equal("series", "late")],
        retain: vec![(FIVE, none), (HOURLY, none)],
    };
    let levels = policy([6, 90, 365]).levels().to_vec();
    let with = |overrides| {
        RetentionPolicy::new(levels.clone(), 2 * HOUR, LateData::Reject, overrides).unwrap()
    };
    vec![
        policy([6, 90, 365]),
        merging_late(&policy([6, 10, 60])),
        merging_late(&with(vec![without, longer.clone()])),
        with(vec![longer]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// P11: a second run finds nothing to do, and writes nothing, whatever there was before.
    #[test]
    fn a_second_run_writes_no_bytes(
        steps in prop::collection::vec((0usize..4, 1i64..30, 0i64..600, any::<bool>()), 1..4),
    ) {
        let world = world(START + 100 * HOUR);
        let process = world.start();
        for (at, days, late, deletes) in steps {
            process.db.set_retention(Some(policies()[at].clone()));
            let hours = (world.clock.now_ms() - START) / HOUR;
            // Some hours of late, and some of now; as far as they are taken.
            for from in [hours - 12, (hours - late).max(0)] {
                process.run(write_all(&process.db, &samples(from..from + 6)));
            }
            if deletes {
                delete(&process, "counter", (hours - late) * HOUR, (hours - late + 40) * HOUR);
            }
            set_clock(&world, world.clock.now_ms() + days * DAY);
            maintain(&process);
            let before = stored(&process);
            let second = maintain(&process);
            prop_assert_eq!(second.bytes_written, 0, "{:?}", second);
            prop_assert_eq!(stored(&process), before);
        }
        process.close();
        world.check();
    }
}
