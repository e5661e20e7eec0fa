//! Databases that earlier versions wrote: they open, answer, and are gone on with.

mod rolled;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use icecore_model::Matcher;
use icecore_storage::testing::Hooks;

use crate::process::World;
use crate::rollup::{START, policy, set_clock};
use crate::support::*;

const DAY: i64 = 24 * HOUR;

/// Copies a database, because it is written to.
fn copied(name: &str) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    copy(&databases().join(name), to.path());
    to
}

fn databases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/databases")
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// What was imported into `before-rollup`: 40 hours of a counter, a gauge and a native histogram,
/// by the last version without rollup, coarsened.
fn floats_before_rollup() -> BTreeMap<&'static str, Vec<(i64, f64)>> {
    let counter = (0..480).map(|i| (START + 7 + i * 300_000, (i % 111) as f64));
    let gauge = (0..480).map(|i| {
        let value = (i as f64 / 20.0).sin() * 10.0;
        (START + i * 300_000, (value * 100.0).round() / 100.0)
    });
    BTreeMap::from([
        ("requests_total", counter.collect()),
        ("temperature", gauge.collect()),
    ])
}

#[test]
fn a_database_without_windows_is_rolled_up() {
    let directory = copied("before-rollup");
    let mut world = World::in_directory(directory.path());
    world.options.store.gc_min_age = std::time::Duration::from_millis(200);
    set_clock(&world, START + 60 * HOUR);
    let process = world.start();
    let all = |name: &str| selection(vec![Matcher::equal("__name__", name)], 0, i64::MAX);
    let samples_of = |name: &str| {
        let found = process.run(async {
            let mut stream = process.db.select(all(name)).await.unwrap();
            icecore_model::SeriesStream::next_batch(&mut stream)
                .await
                .unwrap()
                .unwrap()
        });
        let [series] = &found[..] else {
            panic!("{} series", found.len());
        };
        let times = series.floats.timestamps.iter().copied();
        let floats: Vec<(i64, f64)> = times.zip(series.floats.values.iter().copied()).collect();
        (floats, series.histograms.clone())
    };
    for (name, expected) in floats_before_rollup() {
        assert_eq!(samples_of(name).0, expected, "{name}");
    }
    let histograms = samples_of("latency").1;
    assert_eq!(histograms.len(), 40);
    process.db.set_retention(Some(policy([21, 90, 365])));
    let report = process.run(process.db.run_maintenance()).unwrap();
    assert_eq!(
        (report.rolled_up, report.culled, report.skipped.len()),
        (1, 0, 0)
    );
    for (name, expected) in floats_before_rollup() {
        assert_eq!(samples_of(name).0, expected, "{name}");
    }
    set_clock(&world, START + 60 * DAY);
    let report = process.run(process.db.run_maintenance()).unwrap();
    assert!(report.culled > 0 && report.skipped.is_empty(), "{report:?}");
    // There was one sample in each window of 5 minutes: all are left.
    for (name, expected) in floats_before_rollup() {
        assert_eq!(samples_of(name).0, expected, "{name}");
    }
    assert_eq!(samples_of("latency").1, histograms);
    assert!(process.db.listed().is_empty());
}
