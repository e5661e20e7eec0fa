//! What imports of long histories cost, for a machine with time: `ICECORE_LONG_TESTS=1`, one test
//! at a time, `--nocapture` for the figures.

use std::path::Path;

use icecore_model::{Matcher, RawLabels, Sample, SampleSink, SeriesStream};
use icecore_storage::testing::Hooks;
use icecore_storage::{Clock, Options};

use super::*;
use crate::process::World;

const DAY: i64 = 24 * HOUR;
const NOW: i64 = T0 + 24 * HOUR;

/// Samples of one request.
const AT_ONCE: usize = 5_000;

/// What the process has used so far.
#[derive(Clone, Copy)]
struct Usage {
    began: Instant,
    cpu_s: f64,
}

impl Usage {
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("a process has figures");
        let behind_name = stat.rsplit(')').next().expect("fields behind the name");
        let field = |at: usize| -> f64 {
            let field = behind_name.split_whitespace().nth(at).expect("a field");
            field.parse().expect("a number")
        };
        // User and system time, in hundredths of a second.
        let cpu_s = (field(11) + field(12)) / 100.0;
        Self {
            began: Instant::now(),
            cpu_s,
        }
    }

    fn report(self, what: &str) -> (f64, f64) {
        let (seconds, cpu_s) = (
            self.began.elapsed().as_secs_f64(),
            Self::now().cpu_s - self.cpu_s,
        );
        let status = std::fs::read_to_string("/proc/self/status").expect("a process has figures");
        let of = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name));
            let kib = line.and_then(|line| line.split_whitespace().nth(1));
            kib.and_then(|kib| kib.parse().ok()).unwrap_or(0) / 1024
        };
        let (now, peak) = (of("VmRSS"), of("VmHWM"));
        eprintln!(
            "{what}: {seconds:.3} s, {cpu_s:.2} CPU s, {now} MiB resident, {peak} MiB at most"
        );
        (seconds, cpu_s)
    }
}

/// Files below a directory, and their bytes.
fn files(directory: &Path) -> (usize, u64) {
    let (mut count, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            let (more, their_bytes) = files(&entry.path());
            count += more;
            bytes += their_bytes;
        } else {
            count += 1;
            bytes += meta.len();
        }
    }
    (count, bytes)
}

/// Bytes of the newest manifest below a directory.
fn newest_manifest(directory: &Path) -> u64 {
    let mut below = vec![directory.to_owned()];
    let mut newest: Option<(std::ffi::OsString, u64)> = None;
    while let Some(directory) = below.pop() {
        let of_manifests = directory.ends_with("manifest");
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                below.push(entry.path());
            } else if of_manifests {
                newest = newest.max(Some((entry.file_name(), meta.len())));
            }
        }
    }
    newest.map_or(0, |(_, bytes)| bytes)
}

async fn write_series(db: &Database, series: &str, samples: Vec<(i64, f64)>) -> usize {
    let give_up = Instant::now() + Duration::from_secs(120);
    let labels = Arc::new(raw("m", series));
    let samples = Arc::new(samples);
    let mut refusals = 0;
    loop {
        let (labels, samples) = (Arc::clone(&labels), Arc::clone(&samples));
        let written = db
            .write(move |batch| {
                batch.series(RawLabels(&labels));
                for (timestamp_ms, value) in samples.iter() {
                    batch.sample(Sample {
                        timestamp_ms: *timestamp_ms,
                        value: *value,
                        start_timestamp_ms: 0,
                    });
                }
                Ok::<(), ()>(())
            })
            .await;
        match written {
            Ok(_) => return refusals,
            Err(WriteError::Storage(Error::Unavailable(reason))) => {
                assert!(Instant::now() < give_up, "still refused: {reason}");
                refusals += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Reads a range of one series, or of all: samples and their sum.
async fn sum(db: &Database, series: Option<&str>, start_ms: i64, end_ms: i64) -> (usize, f64) {
    let mut matchers = vec![Matcher::equal("__name__", "m")];
    matchers.extend(series.map(|series| Matcher::equal("series", series)));
    let mut stream = db
        .select(selection(matchers, start_ms, end_ms))
        .await
        .unwrap();
    let (mut count, mut sum) = (0, 0.0);
    while let Some(batch) = stream.next_batch().await.unwrap() {
        for series in batch {
            count += series.floats.values.len();
            sum += series.floats.values.iter().sum::<f64>();
        }
    }
    (count, sum)
}

fn world(directory: &Path) -> World {
    let mut world = World::in_directory(directory);
    world.options = Options::default();
    world.options.store.location = directory.to_string_lossy().into();
    world
}

/// What half, 90, 99 and all of 100 writes took at most.
fn spread(took: &[Duration]) -> String {
    let at = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)];
    format!("{:?}", [50, 90, 99, 100].map(at))
}

/// The value at a time: a decimal that moves slowly, as gauges do.
fn value_at(time: i64) -> f64 {
    let minute = time / 60_000;
    ((minute % 1440) as f64 / 100.0 + (minute * 7919 % 13) as f64).round() / 10.0
}

/// One series, once a minute, for some years up to a day ago.
fn years_of_minutes(years: i64) {
    let directory = tempfile::tempdir().unwrap();
    let world = world(directory.path());
    let process = world.start();
    let db = process.db.clone();
    let began = T0 - years * 365 * DAY;
    let quiet = process.run(async {
        let live = Live::start(&db, NOW);
        tokio::time::sleep(Duration::from_secs(5)).await;
        live.stop().await.took
    });
    let usage = Usage::now();
    let (refusals, live) = process.run(async {
        let live = Live::start(&db, NOW + HOUR / 2);
        let mut refusals = 0;
        let times: Vec<i64> = (began..T0).step_by(60_000).collect();
        for times in times.chunks(AT_ONCE) {
            let samples = times.iter().map(|t| (*t, value_at(*t))).collect();
            refusals += write_series(&db, "a", samples).await;
        }
        (refusals, live.stop().await.took)
    });
    usage.report("import");
    eprintln!("{refusals} refusals");
    eprintln!("live writes, p50, p90, p99, most: {} quiet", spread(&quiet));
    eprintln!("{} meanwhile", spread(&live));
    process.run(db.flush()).unwrap();
    usage.report("import and flush");
    figures(&process.db, directory.path());
    read_back(&world, process, began, years * 365 * 1440);
    let process = world.start();
    let usage = Usage::now();
    let report = process.run(process.db.run_maintenance()).unwrap();
    usage.report("a run of maintenance");
    eprintln!("{report:?}");
    figures(&process.db, directory.path());
    read_back(&world, process, began, years * 365 * 1440);
}

fn figures(db: &Database, directory: &Path) {
    let listed = db.listed();
    let mut sizes = std::collections::BTreeMap::<i64, usize>::new();
    for bucket in &listed {
        *sizes.entry(bucket.size.duration_ms() / HOUR).or_default() += 1;
    }
    let (count, bytes) = files(directory);
    let manifest = newest_manifest(directory);
    eprintln!(
        "{} buckets (by hours: {sizes:?}), {count} files of {bytes} bytes, manifest of {manifest} bytes",
        listed.len()
    );
}

/// Closes, opens and reads: everything, and a single hour.
fn read_back(world: &World, process: crate::process::Process, began: i64, all: i64) {
    process.close();
    let usage = Usage::now();
    let process = world.start();
    usage.report("reopened");
    let db = &process.db;
    for round in ["cold", "warm"] {
        let usage = Usage::now();
        let (count, _) = process.run(sum(db, Some("a"), began, T0));
        usage.report(&format!("all of it, {round}"));
        assert_eq!(count as i64, all);
    }
    process.close();
    let process = world.start();
    for at in [3, 2] {
        let middle = began + (T0 - began) / at;
        let usage = Usage::now();
        let (count, _) = process.run(sum(&process.db, Some("a"), middle, middle + HOUR - 1));
        usage.report("an hour of long ago, cold");
        assert!(count > 0);
    }
    process.close();
}

fn skip_short(what: &str) -> bool {
    let short = std::env::var_os("ICECORE_LONG_TESTS").is_none();
    if short {
        skipped_tests::skip(what, "ICECORE_LONG_TESTS=1 runs them");
    }
    short
}

#[test]
fn ten_years_of_minutes() {
    if !skip_short("ten years of minutes") {
        years_of_minutes(10);
    }
}

/// A thousand series with a sample a day, day by day and series by series.
fn years_of_days(by_series: bool) {
    let directory = tempfile::tempdir().unwrap();
    let world = world(directory.path());
    let process = world.start();
    let db = process.db.clone();
    let (days, series) = (5 * 365, 1000);
    let began = T0 - days * DAY;
    let usage = Usage::now();
    process.run(async {
        let mut refusals = 0;
        if by_series {
            for i in 0..series {
                let times: Vec<i64> = (0..days).map(|day| began + day * DAY).collect();
                for times in times.chunks(900) {
                    let samples = times.iter().map(|t| (*t, value_at(*t + i))).collect();
                    refusals += write_series(&db, &format!("s{i:04}"), samples).await;
                }
            }
        } else {
            for day in 0..days {
                let time = began + day * DAY;
                let samples = (0..series)
                    .map(|i| (format!("s{i:04}"), time, value_at(time + i)))
                    .collect();
                refusals += write_patiently(&db, samples).await;
            }
        }
        eprintln!("{refusals} refusals");
    });
    usage.report("import");
    process.run(db.flush()).unwrap();
    usage.report("import and flush");
    figures(&db, directory.path());
    process.close();
    let process = world.start();
    let usage = Usage::now();
    let (count, _) = process.run(sum(&process.db, None, began, NOW));
    usage.report("all of it, cold");
    assert_eq!(count as i64, days * series);
    let usage = Usage::now();
    let report = process.run(process.db.run_maintenance()).unwrap();
    usage.report("a run of maintenance");
    eprintln!("{report:?}");
    figures(&process.db, directory.path());
    process.close();
}

#[test]
fn five_years_of_days_by_day() {
    if !skip_short("five years of days by day") {
        years_of_days(false);
    }
}

#[test]
fn five_years_of_days_by_series() {
    if !skip_short("five years of days by series") {
        years_of_days(true);
    }
}

/// What a read of one hour costs in buckets of each size: 256 h of some series at 15 s.
#[test]
fn an_hour_out_of_buckets_of_each_size() {
    if skip_short("an hour out of buckets of each size") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let world = world(directory.path());
    let (series, hours) = (100, 256);
    let began = T0 / (hours * HOUR) * (hours * HOUR) - hours * HOUR;
    let end = began + hours * HOUR;
    let set_clock = |now_ms: i64| world.clock.advance(now_ms - world.clock.now_ms());
    set_clock(end + 30 * HOUR);
    let process = world.start();
    let usage = Usage::now();
    process.run(async {
        for hour in 0..hours {
            let start = began + hour * HOUR;
            for i in 0..series {
                let times = (0..240).map(|at| start + at * 15_000);
                // Ten bits of noise: more than most gauges have.
                let noise = |t: i64| (t / 15_000 * 7919 + i * 977).wrapping_pow(3) % 1009;
                let samples = times.map(|t| (t, noise(t) as f64 / 10.0));
                write_series(&process.db, &format!("s{i:04}"), samples.collect()).await;
            }
        }
        process.db.flush().await.unwrap();
    });
    usage.report("written");
    let mut process = process;
    for days in [2, 40, 200] {
        set_clock(end + days * DAY);
        process.run(process.db.run_maintenance()).unwrap();
        figures(&process.db, directory.path());
        process.close();
        process = world.start();
        for (what, series, length) in [
            ("an hour of a series", Some("s0050"), HOUR),
            ("the same hour of all series", None, HOUR),
            ("all of one series", Some("s0051"), hours * HOUR),
            ("all of all series", None, hours * HOUR),
        ] {
            let middle = if length == HOUR {
                began + 100 * HOUR
            } else {
                began
            };
            let usage = Usage::now();
            let (count, _) = process.run(sum(&process.db, series, middle, middle + length - 1));
            usage.report(what);
            assert!(count > 0);
        }
    }
    process.close();
}
