//! What a wide backfill leaves is what was written, however it is flushed, folded and interrupted.

use icecore_model::retention::{LateData, Level, Retention, RetentionPolicy};
use icecore_model::rollup::Resolution;
use icecore_model::{BucketSize, BucketStart};
use icecore_records::{bucket_meta, key};
use icecore_storage::testing::Hooks;

use super::*;
use crate::process::World;

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Hours of the backfill, and series in it.
const HOURS: u64 = 150;
const SERIES: u64 = 12;

fn some(random: &mut Random, round: usize) -> Vec<(String, i64, f64)> {
    let mut samples = Vec::new();
    for i in 0..400 {
        let series = format!("s{:02}", random.below(SERIES));
        // Few times of each hour, so that many are written twice; mostly long ago, some of today.
        let hour = match random.below(20) {
            0 => 22,
            _ => -(random.below(HOURS) as i64) - 10,
        };
        let time = T0 + hour * HOUR + random.below(5) as i64 * 60_000;
        samples.push((series, time, (round * 1000 + i) as f64));
    }
    samples
}

#[test]
fn any_order_of_backfills_flushes_folds_and_crashes_reads_the_same() {
    for seed in 1..=3 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let world = World::new();
        let mut process = world.start();
        let mut written: Vec<(String, i64, f64)> = Vec::new();
        let mut large = 0;
        for round in 0..12 {
            let samples = some(&mut random, round);
            written.extend(samples.clone());
            process.run(write_patiently(&process.db, samples));
            match (round, random.below(3)) {
                // Once, because it waits for the store to come to rest.
                (7, _) => {
                    process.run(process.db.run_maintenance()).unwrap();
                }
                (_, 0) => {}
                (_, 1) => process.run(process.db.flush_buckets()).unwrap(),
                _ => {
                    process.crash();
                    process = world.start();
                }
            }
            let all: Vec<(&str, i64, f64)> = written
                .iter()
                .map(|(series, time, value)| (series.as_str(), *time, *value))
                .collect();
            let found = process.run(read(&process.db, everything()));
            assert!(found == expected(&all), "seed {seed}, round {round}");
            let listed = process.db.listed();
            let hour = BucketSize::HOUR;
            large = large.max(listed.iter().filter(|bucket| bucket.size > hour).count());
            // Buckets do not overlap.
            for bucket in &listed {
                let inside = |other: &&icecore_records::Bucket| {
                    other.size > bucket.size && other.contains(bucket.start_ms())
                };
                assert_eq!(listed.iter().find(inside), None, "{bucket} is covered");
            }
        }
        assert!(large > 5, "seed {seed}: nothing was flushed as a window");
        process.close();
        world.check();
    }
}

#[test]
fn what_is_long_over_becomes_windows_and_what_is_of_today_hours() {
    let world = World::new();
    let process = world.start();
    let hours = |from: i64, count: i64| -> Vec<(String, i64, f64)> {
        let hours = (from..from + count).map(|i| ("a".to_owned(), T0 + i * HOUR, i as f64));
        hours.collect()
    };
    let sizes = || {
        let listed = process.db.listed();
        let of = |large: bool| {
            let sized = listed.iter();
            sized
                .filter(|bucket| (bucket.size > BucketSize::HOUR) == large)
                .count()
        };
        (of(false), of(true))
    };
    process.run(write_patiently(&process.db, hours(-6000, 10)));
    process.run(process.db.flush_buckets()).unwrap();
    let (small, large) = sizes();
    assert!(small == 0 && (1..=2).contains(&large), "{large} windows");
    process.run(write_patiently(&process.db, hours(-500, 160)));
    process.run(write_patiently(&process.db, hours(20, 4)));
    process.run(process.db.flush_buckets()).unwrap();
    let (small, more) = sizes();
    assert_eq!(small, 4, "the hours of today are hours");
    assert!((10..=11).contains(&(more - large)), "{more} windows");
    let dirty = process.db.maintenance_status().dirty;
    assert_eq!(dirty, 0, "what is new has nothing to be folded");
    // What comes later joins them.
    process.run(write_patiently(&process.db, hours(-500, 10)));
    process.run(process.db.flush_buckets()).unwrap();
    assert_eq!(sizes(), (small, more));
    let dirty = process.db.maintenance_status().dirty;
    assert!((1..=2).contains(&dirty), "{dirty}");
    let report = process.run(process.db.run_maintenance()).unwrap();
    assert_eq!(report.folded, dirty, "{report:?}");
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found["a"].len(), 10 + 160 + 4);
    process.close();
    world.check();
}

/// A new coarse bucket beside what was rolled up: each of its hours is out of date.
#[test]
fn windows_around_what_is_backfilled_are_out_of_date() {
    let mut world = World::new();
    world.options.store.gc_min_age = Duration::from_millis(200);
    // The start of a window of 32 hours, and of one of 16 hours in the middle of it.
    let start = T0 / (32 * HOUR) * (32 * HOUR);
    world.clock.advance(5 * 24 * HOUR);
    let process = world.start();
    let db = &process.db;
    let level = |resolution| Level {
        resolution,
        retain: Retention::Forever,
        columns: icecore_model::retention::ColumnSet::default_of(resolution),
    };
    let levels = vec![
        level(Resolution::RAW),
        level(Resolution::FIVE_MINUTES),
        level(Resolution::HOUR),
    ];
    let policy = RetentionPolicy::new(levels, 2 * HOUR, LateData::Reject, Vec::new());
    db.set_retention(Some(policy.unwrap()));
    let hours = |hours: std::ops::Range<i64>| -> Vec<(String, i64, f64)> {
        let sample = |hour: i64| ("a".to_owned(), start + hour * HOUR + 1, hour as f64);
        hours.map(sample).collect()
    };
    process.run(write_patiently(db, hours(0..10)));
    process.run(db.run_maintenance()).unwrap();
    let rolled = db.rolled();
    let around = rolled.iter().find(|b| b.contains(start)).copied();
    let around = around.expect("the hours are rolled up");
    assert!(around.contains(start + 20 * HOUR));
    let listed = db.listed();
    process.run(write_patiently(db, hours(17..20)));
    process.run(db.flush_buckets()).unwrap();
    assert_eq!(db.listed().len(), listed.len() + 1);
    assert_eq!(db.maintenance_status().dirty, 0);
    let meta = process.run(db.records(&key::bucket_meta(around))).unwrap();
    let meta = bucket_meta::decode(&meta[0].1).unwrap();
    let dirty: Vec<i64> = meta
        .dirty_hours
        .iter()
        .map(|hour| (BucketStart(*hour).start_ms() - start) / HOUR)
        .collect();
    assert_eq!(dirty, [17, 18, 19]);
    let report = process.run(db.run_maintenance()).unwrap();
    assert!(report.rolled_up >= 1, "{report:?}");
    let found = process.run(read(db, everything()));
    assert_eq!(found["a"].len(), 13);
    process.close();
    world.check();
}
