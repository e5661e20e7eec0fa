//! Wide backfills end, leave few files behind, and leave live writes alone.

use futures::TryStreamExt;
use icecore_model::Matcher;
use icecore_storage::testing::Hooks;
use slatedb::object_store::ObjectStore;

use super::*;
use crate::process::{Process, World};

const NOW: i64 = T0 + 24 * HOUR;

/// Samples that each hour gets.
const PER_HOUR: i64 = 4;

/// Fewer hours than this are flushed while a live write waits: for half of the writes, and for all.
const HALF_WAITS: u64 = 256;
const ALL_WAIT: u64 = 2048;

/// Hours of one request.
const AT_ONCE: i64 = 200;

/// Backfills `hours` hours of one series up to `T0`, oldest first.
async fn backfill(db: &Database, hours: i64) -> usize {
    let mut refusals = 0;
    for first in (0..hours).step_by(AT_ONCE as usize) {
        let of_hour = |hour: i64| {
            let start = T0 - (hours - hour) * HOUR;
            (0..PER_HOUR).map(move |i| ("a".to_owned(), start + i * HOUR / PER_HOUR, hour as f64))
        };
        let last = (first + AT_ONCE).min(hours);
        let samples = (first..last).flat_map(of_hour).collect();
        refusals += write_patiently(db, samples).await;
    }
    refusals
}

/// Files of tables, and bytes of the newest manifest.
fn files(world: &World, process: &Process) -> (usize, u64) {
    process.run(async {
        let listed = world.memory().list(None);
        let listed: Vec<_> = listed.try_collect().await.unwrap();
        let under = |directory: &str| {
            let directory = format!("/{directory}/");
            let all = listed.iter();
            all.filter(move |object| format!("/{}", object.location).contains(&directory))
        };
        let manifest = under("manifest").max_by_key(|object| object.location.clone());
        (
            under("compacted").count(),
            manifest.map_or(0, |object| object.size),
        )
    })
}

async fn samples_of(db: &Database, series: &str) -> usize {
    let matchers = vec![
        Matcher::equal("__name__", "m"),
        Matcher::equal("series", series),
    ];
    let found = read(db, selection(matchers, 0, i64::MAX)).await;
    found.get(series).map_or(0, |samples| samples.len())
}

/// How many buckets hours up to `T0` become, but for those of the last days: 256 h for what is
/// older than half a year, 64 h for what is older than a month.
fn windows_of(hours: i64) -> usize {
    let old = (hours - 180 * 24).max(0);
    let months = (hours - old - 30 * 24).max(0);
    let rest = hours - old - months;
    (old / 256 + months / 64 + rest / 16) as usize
}

/// Backfills hours with live writes all the while, ends the process in the middle of things, and
/// looks at what is left.
fn check_hours(hours: i64) {
    let world = World::new();
    let process = world.start();
    let began = Instant::now();
    let writes = process.run(async {
        let live = Live::start(&process.db, NOW);
        backfill(&process.db, hours).await;
        live.stop().await
    });
    let live = writes.took.len();
    let (half, slowest) = (writes.took[live / 2], writes.took[live - 1]);
    let (half_flushed, most_flushed) = (writes.flushed[live / 2], writes.flushed[live - 1]);
    let seconds = began.elapsed().as_secs_f64();
    let (files_then, manifest_then) = files(&world, &process);
    eprintln!(
        "{hours} hours in {seconds:.1} s; {live} live writes: half within {half:?} and {half_flushed} hours flushed, all within {slowest:?} and {most_flushed}; {files_then} files, manifest of {manifest_then} bytes"
    );
    assert!(half_flushed < HALF_WAITS, "{:?}", writes.flushed);
    assert!(most_flushed < ALL_WAIT, "{:?}", writes.flushed);
    process.crash();

    // It starts, catches up, reads, stops.
    let process = world.start();
    let all = (hours * PER_HOUR) as usize;
    assert_eq!(process.run(samples_of(&process.db, "a")), all);
    assert_eq!(process.run(samples_of(&process.db, "live")), live);
    process.run(process.db.flush_buckets()).unwrap();
    assert_eq!(process.db.gauges().open_hours, 0);
    assert_eq!(process.run(samples_of(&process.db, "a")), all);
    let windows = windows_of(hours);
    let listed = process.db.listed().len();
    assert!(
        (windows..=windows + 40).contains(&listed),
        "{listed} buckets for {windows} windows"
    );
    process.run(process.db.write_memtables()).unwrap();
    let (files, manifest) = files(&world, &process);
    eprintln!("{listed} buckets, {files} files, manifest of {manifest} bytes");
    // Five segments each, some of them in two files, and what compaction replaces.
    assert!(files < windows * 12 + 2000, "{files} files");
    assert!(
        manifest < windows as u64 * 2000 + 100_000,
        "{manifest} bytes"
    );
    let closed = process.run(ending("it closes", process.db.close()));
    closed.expect("the database closes");
    process.crash();
    world.check();
}

#[test]
fn a_year_of_hours_goes_by_while_others_write() {
    check_hours(365 * 24);
}

/// The long form, for a machine with time: `ICECORE_LONG_TESTS=1`.
#[test]
fn ten_years_of_hours_go_by_while_others_write() {
    match std::env::var_os("ICECORE_LONG_TESTS") {
        Some(_) => check_hours(10 * 365 * 24),
        None => skipped_tests::skip("ten years of hours", "ICECORE_LONG_TESTS=1 runs them"),
    }
}

#[test]
fn a_request_of_a_thousand_hours_is_taken_while_others_write() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    process.run(async {
        let live = Live::start(db, NOW);
        for round in 0..3 {
            let hours = (1..=1000).map(|i| T0 - (round * 1000 + i) * HOUR);
            let samples = hours.map(|time| ("a".to_owned(), time, 1.0)).collect();
            write_patiently(db, samples).await;
        }
        live.stop().await;
        assert_eq!(samples_of(db, "a").await, 3000);
    });
}

#[test]
fn a_process_starts_and_stops_with_any_number_of_open_hours() {
    let mut world = World::new();
    // Nothing is flushed before it is asked for.
    world.options.limits.open_buckets_max = 100_000;
    world.options.head.flush_grace = Duration::from_secs(1_000_000);
    world.options.journal.epoch_keep_max = Duration::from_secs(1_000_000);
    let process = world.start();
    process.run(backfill(&process.db, 3000));
    assert_eq!(process.db.gauges().open_hours, 3000);
    process.crash();

    // Far more are open than may be.
    world.options.limits.open_buckets_max = 10;
    let process = world.start();
    let db = &process.db;
    process.run(async {
        let live = Live::start(db, NOW);
        write_patiently(db, vec![("b".to_owned(), T0 - 5000 * HOUR, 1.0)]).await;
        live.stop().await;
        assert_eq!(samples_of(db, "a").await, 3000 * PER_HOUR as usize);
    });
    process.close();
    let process = world.start();
    let samples = process.run(samples_of(&process.db, "a"));
    assert_eq!(samples, 3000 * PER_HOUR as usize);
    assert_eq!(process.db.gauges().open_hours, 0, "all was flushed");
}
