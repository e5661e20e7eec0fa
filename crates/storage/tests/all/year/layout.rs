//! What lies in the store: as old as the policy allows, and nothing besides.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;
use icecore_records::Bucket;
use icecore_storage::Database;
use icecore_storage::inspect::Inspector;
use icecore_storage::testing::{Hooks, JobHooks};
use slatedb::object_store::ObjectStore;

use super::model::Model;
use crate::process::{Process, World};
use crate::rollup::{FIVE, HOURLY, RAW};
use crate::support::HOUR;

/// The listed buckets with their levels.
fn listed(db: &Database) -> Vec<(Resolution, Bucket)> {
    let raw = db.listed().into_iter().map(|bucket| (RAW, bucket));
    raw.chain(db.rolled_levels()).collect()
}

/// After a run no bucket is older than the policy keeps its level, by more than the unit that it
/// goes with, unless the status says why.
pub(super) fn check(db: &Database, policy: Option<&RetentionPolicy>, now_ms: i64) {
    let Some(policy) = policy else {
        return;
    };
    let listed = listed(db);
    // A third level of windows gets buckets of 1 024 hours, and raw samples wait for them. The
    // other two keep the sizes that they got beside it.
    let is_usual = |(resolution, bucket): &(Resolution, Bucket)| {
        let usual = [(FIVE, 6), (HOURLY, 8), (HOURLY, 11)];
        resolution.is_raw() || usual.contains(&(*resolution, bucket.size.exponent()))
    };
    let are_two = policy.levels().len() <= 3 && listed.iter().all(is_usual);
    let third_ms = if are_two { 128 } else { 1024 } * HOUR;
    let status = db.maintenance_status();
    for (resolution, bucket) in listed.iter().copied() {
        let same = listed.iter().filter(|(level, _)| *level == resolution);
        let largest = same.map(|(_, bucket)| bucket.size.duration_ms()).max();
        let unit_ms = largest.unwrap_or(0).max(third_ms);
        // A level that is not named goes with the next finer one.
        let levels = policy.levels().iter();
        let rule = levels.rev().find(|level| level.resolution <= resolution);
        let retain = rule.map(|rule| policy.longest(rule.resolution));
        let Some(retain_ms) = retain.and_then(|retain| retain.ms()) else {
            continue;
        };
        let kept_ms = now_ms.div_euclid(HOUR) * HOUR - retain_ms - unit_ms;
        let unit = |time: i64| time.div_euclid(unit_ms);
        let mut reasons = status.kept_back.iter();
        let is_kept_back = reasons.any(|kept| {
            kept.resolution == resolution.name() && unit(kept.start_ms) == unit(bucket.start_ms())
        });
        assert!(
            bucket.end_ms() > kept_ms || is_kept_back,
            "{resolution} {bucket} ended {} h ago and is kept for {} h: {:?} {policy:?}",
            (now_ms - bucket.end_ms()) / HOUR,
            retain_ms / HOUR,
            status.kept_back
        );
    }
}

/// No record and no file that nothing refers to is left by a run.
pub(super) fn no_orphans(world: &World, process: &Process) {
    let mut files = (0, 0);
    for _ in 0..6 {
        process.run(process.db.collect_garbage_now()).unwrap();
        let all = world.memory().list(None).try_collect::<Vec<_>>();
        let all = process.run(all).unwrap();
        let is_of_records = |name: &str| name.contains("/compacted/") && name.ends_with(".sst");
        let names = all.iter().map(|file| file.location.to_string());
        files = (
            names.filter(|name| is_of_records(name)).count(),
            process.db.referenced_files(),
        );
        if files.0 == files.1 {
            break;
        }
    }
    assert_eq!(files.0, files.1, "files, and those that are referred to");
    let overview = process.run(async {
        let store = Arc::new(world.memory().fork()) as Arc<dyn ObjectStore>;
        let opened = Inspector::open_on(&world.options.store, Some(store)).await;
        let mut inspector = opened.unwrap();
        let overview = inspector.overview().await.unwrap();
        inspector.close().await.unwrap();
        overview
    });
    assert_eq!(
        overview.unlisted,
        [],
        "records of buckets that are not listed"
    );
    assert_eq!(overview.retired, [], "retired buckets");
    assert_eq!(overview.tombstones, [], "deleted and not cleaned");
    assert_eq!(overview.job, None);
    assert_eq!(overview.problems, Vec::<String>::new());
}

/// What the levels cost at rest.
pub(super) fn report(world: &World, db: &Database, model: &Model) {
    let levels: BTreeMap<Bucket, Resolution> = listed(db)
        .into_iter()
        .map(|(resolution, bucket)| (bucket, resolution))
        .collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let overview = runtime.block_on(async {
        let store = Arc::new(world.memory().fork()) as Arc<dyn ObjectStore>;
        let opened = Inspector::open_on(&world.options.store, Some(store)).await;
        let mut inspector = opened.unwrap();
        let overview = inspector.overview().await.unwrap();
        inspector.close().await.unwrap();
        overview
    });
    let mut sums: BTreeMap<Resolution, (usize, u64, f64)> = BTreeMap::new();
    for bucket in &overview.buckets {
        let level = levels.get(&bucket.bucket).copied().unwrap_or(RAW);
        let (buckets, bytes, hours) = sums.entry(level).or_default();
        *buckets += 1;
        *bytes += bucket.file_bytes.values().sum::<u64>();
        *hours += (bucket.bucket.size.duration_ms() / HOUR) as f64;
    }
    let series = model.series.len() as f64;
    for (level, (buckets, bytes, hours)) in sums {
        let each = bytes as f64 / (hours * series);
        eprintln!("{level}: {buckets} buckets, {bytes} bytes, {each:.1} per series and hour");
    }
}
