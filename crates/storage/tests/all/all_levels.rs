//! A database with everything that growing old can leave behind: windows at two levels, of floats
//! and of histograms, a remnant, late samples in overlays, hours that are out of date, windows that
//! were deleted, metadata, and something that is only in the journal.

use icecore_model::retention::{LateData, Override, Retention, RetentionPolicy};
use icecore_model::rollup::{Resolution, RollupChoice, Window, roll_up};
use icecore_model::{Matcher, SeriesSamples};
use icecore_records::Bucket;
use icecore_storage::testing::Hooks;

use crate::process::{Process, World};
use crate::requests::{Entry, request};
use crate::rollup::*;
use crate::support::{HOUR, everything, expected, read, write};

const HOURS: i64 = 530;
const REMNANT_END: i64 = START + 512 * HOUR;

/// When all of it has happened.
pub(crate) const NOW: i64 = REMNANT_END + 6 * DAY + HOUR;

const ALL: (i64, i64) = (START, NOW);

/// Raw samples for six days, of one series for 40; late ones are merged into windows.
pub(crate) fn keeping() -> RetentionPolicy {
    let levels = policy([6, 60, 120]).levels().to_vec();
    let billing = Override {
        matchers: vec![Matcher::equal("series", "billing")],
        retain: vec![(RAW, Retention::For(40 * DAY))],
    };
    RetentionPolicy::new(levels, 2 * HOUR, LateData::Merge, vec![billing]).unwrap()
}

/// Two samples an hour.
fn floats() -> Vec<(&'static str, i64, f64)> {
    let times = (0..HOURS * 2).map(|half| (half, START + half * HOUR / 2));
    let of = |(half, time): (i64, i64)| {
        [
            ("billing", time + 5, half as f64),
            ("counter", time + 7, (half % 111) as f64),
            ("gauge", time, (half % 7) as f64 - 3.5),
        ]
    };
    times.flat_map(of).collect()
}

/// What came after the samples of its time had gone.
const LATE: [(&str, i64, f64); 3] = [
    ("billing", START + 66 * 60_000, 9.0),
    ("counter", START + 65 * 60_000, 3.0),
    ("fresh", START + 20 * 60_000, 1.0),
];

/// What came after the windows of its time were made, and what is in the journal alone.
const CHANGED: (&str, i64, f64) = ("gauge", START + 520 * HOUR + 90_500, 77.0);
const LAST: (&str, i64, f64) = ("gauge", NOW - 60_000, 5.0);

/// Makes it. The process is the one that did.
pub(crate) fn made(world: &World) -> Process {
    set_clock(world, START + HOURS * HOUR);
    let process = world.start();
    process.run(async {
        crate::rollup::write_all(&process.db, &floats()).await;
        let histogram =
            |i: i64| Entry::histogram("latency", START + i * 4 * HOUR + 9, i.unsigned_abs() + 1);
        let mut entries: Vec<Entry> = (0..HOURS / 4).map(histogram).collect();
        entries.push(Entry::metadata("m", "What is measured."));
        request(&process.db, entries).await.unwrap();
        process.db.flush_buckets().await.unwrap();
    });
    process.db.set_retention(Some(keeping()));
    maintain(&process);
    set_clock(world, NOW);
    let report = maintain(&process);
    assert_eq!(report.remnants, 1);
    process.run(write(&process.db, &LATE));
    process.run(write(&process.db, &[CHANGED]));
    process.run(process.db.flush_buckets()).unwrap();
    let report = delete(&process, "gauge", 100 * HOUR, 102 * HOUR - 1);
    assert_eq!(report.beyond, []);
    process.run(write(&process.db, &[LAST]));
    check(&process);
    process
}

/// What a query gets at each level, and what whoever knows nothing of levels gets, as text.
pub(crate) fn answers(process: &Process) -> Vec<String> {
    let choice = |step_ms: i64| RollupChoice {
        step_ms,
        range_ms: step_ms,
        ..hourly()
    };
    let mut answers: Vec<String> = [HOUR, HOUR / 2, 0]
        .map(|step_ms| {
            let found = process.run(select(&process.db, ALL, choice(step_ms)));
            format!("{found:?}")
        })
        .into();
    let samples = process.run(read(&process.db, everything()));
    answers.push(format!("{samples:?}"));
    answers
}

/// The buckets of each kind.
pub(crate) fn layout(process: &Process) -> [Vec<Bucket>; 4] {
    let db = &process.db;
    [db.listed(), db.rolled(), db.remnants(), db.overlays()]
}

/// Checks what is there against what was written, while nothing has been merged or made again.
pub(crate) fn check(process: &Process) {
    let [raw, rolled, remnants, overlays] = layout(process);
    for (what, buckets) in [("raw", &raw), ("rolled", &rolled), ("late", &overlays)] {
        assert!(!buckets.is_empty(), "{what}");
    }
    assert_eq!(remnants.len(), 1);
    let levels: Vec<Resolution> = process.db.rolled_levels().iter().map(|l| l.0).collect();
    assert!(levels.contains(&FIVE) && levels.contains(&HOURLY));
    let status = process.db.maintenance_status();
    assert_eq!(status.levels[1].out_of_date_hours, 1);
    assert!(status.tombstones > 0);
    check_samples(process);
}

/// The same for what does not depend on where it lies.
pub(crate) fn check_samples(process: &Process) {
    let all: Vec<(&str, i64, f64)> = floats()
        .into_iter()
        .chain(LATE)
        .chain([CHANGED, LAST])
        .collect();
    // Raw in the remnant, with what came late.
    let found = process.run(read(&process.db, everything()));
    let billing = expected(&all).remove("billing");
    assert_eq!(found.get("billing"), billing.as_ref());
    assert_eq!(process.db.metadata(Some("m")).len(), 1);
    // The windows of the gauge: nothing came late in culled time, and two hours were deleted.
    let deleted = START + 100 * HOUR..START + 102 * HOUR;
    let gauge: Vec<(i64, f64)> = of(&all, "gauge")
        .filter(|(time, _)| !deleted.contains(time))
        .collect();
    let selected = process.run(select(&process.db, (START, REMNANT_END - 1), hourly()));
    let names: Vec<&str> = selected
        .iter()
        .filter_map(|s| s.labels.get("series"))
        .collect();
    assert_eq!(names, ["billing", "counter", "fresh", "gauge", "latency"]);
    check_windows_of(&selected[3..4], |_, resolution| -> Vec<Window> {
        roll_up(resolution, gauge.iter().copied())
    });
    // Each sample counts once, however late it came.
    let culled = |series: &str| {
        let times = of(&all, series);
        times.filter(|(time, _)| *time < REMNANT_END).count() as u64
    };
    for series in ["counter", "fresh"] {
        let of_series = selected
            .iter()
            .find(|s| s.labels.get("series") == Some(series));
        assert_eq!(counted(of_series.unwrap()), culled(series), "{series}");
    }
    let histograms = &selected[4].rolled.as_ref().unwrap().histograms;
    let histograms = histograms.iter().flatten().map(|window| window.samples());
    assert_eq!(histograms.sum::<u64>(), 512 / 4);
}

/// How many floats the windows of a series stand for.
fn counted(series: &SeriesSamples) -> u64 {
    let rolled = series.rolled.as_ref().unwrap();
    let windows = rolled.windows.iter().flat_map(|columns| columns.windows());
    let windows = windows.filter_map(|window| window.all());
    windows.map(|all| all.samples()).sum()
}
