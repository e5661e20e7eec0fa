use std::time::{Duration, Instant};

use icecore_model::{BucketSize, BucketStart};
use proptest::prelude::*;

use super::*;
use crate::ingest::flush::holds;

/// Minutes of an hour; the tests' time begins at a 16 h window.
const HOUR: u32 = 60;
const HOUR_MS: i64 = 3_600_000;

fn bucket(hours: u32, start_hour: u32) -> Bucket {
    let exponent = hours.trailing_zeros() as u8 + 1;
    Bucket {
        size: BucketSize::from_exponent(exponent).unwrap(),
        start: BucketStart(start_hour * HOUR),
    }
}

fn hours(range: std::ops::Range<u32>) -> BTreeSet<Bucket> {
    range.map(|hour| bucket(1, hour)).collect()
}

/// Whether a bucket is, or lies in, another one.
fn covers(larger: Bucket, smaller: Bucket) -> bool {
    larger.size >= smaller.size && larger.contains(smaller.start_ms())
}

/// What is done next.
fn next(situation: &PlanInput<'_>) -> Option<CoarsenPlan> {
    waiting(situation).into_iter().next()
}

/// A situation over owned parts.
#[derive(Clone, Debug)]
struct World {
    buckets: BTreeSet<Bucket>,
    written_ms: BTreeMap<Bucket, i64>,
    samples: BTreeMap<Bucket, u64>,
    busy_hours: BTreeSet<BucketStart>,
    now_ms: i64,
    delay_ms: i64,
    everything: bool,
}

impl World {
    fn at(now_hours: f64, buckets: BTreeSet<Bucket>) -> Self {
        Self {
            buckets,
            written_ms: BTreeMap::new(),
            samples: BTreeMap::new(),
            busy_hours: BTreeSet::new(),
            now_ms: (now_hours * HOUR_MS as f64) as i64,
            delay_ms: HOUR_MS / 2,
            everything: false,
        }
    }

    fn everything(mut self) -> Self {
        self.everything = true;
        self
    }

    fn situation(&self) -> PlanInput<'_> {
        PlanInput {
            gone: &[],
            buckets: &self.buckets,
            written_ms: &self.written_ms,
            samples: &self.samples,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
            elapsed_ms: self.now_ms,
            delay_ms: self.delay_ms,
            everything: self.everything,
        }
    }

    /// Does what is planned until nothing is left; returns the targets in order.
    fn work_off(&mut self) -> Vec<Bucket> {
        let mut targets = Vec::new();
        while let Some(piece) = next(&self.situation()) {
            assert!(targets.len() < 10_000, "plans do not end");
            assert!(!self.buckets.contains(&piece.target), "built twice");
            let samples = piece.sources.iter().filter_map(|s| self.samples.get(s));
            let samples = samples.sum();
            self.samples.insert(piece.target, samples);
            for source in &piece.sources {
                assert!(self.buckets.remove(source), "{source} is not listed");
                assert!(covers(piece.target, *source) && source.size < piece.target.size);
            }
            self.buckets.insert(piece.target);
            targets.push(piece.target);
        }
        targets
    }
}

#[test]
fn hours_become_four_and_then_sixteen() {
    let planned = |now_hours: f64, buckets: &BTreeSet<Bucket>| {
        next(&World::at(now_hours, buckets.clone()).situation())
    };
    let three = hours(0..3);
    assert_eq!(planned(4.4, &three), None, "not closed for long enough");
    let piece = planned(4.5, &three).unwrap();
    assert_eq!(piece.target, bucket(4, 0));
    assert_eq!(piece.sources, Vec::from_iter(three));
    let mixed: BTreeSet<Bucket> = [bucket(4, 0), bucket(4, 8), bucket(1, 15), bucket(1, 16)].into();
    assert_eq!(planned(16.4, &mixed), None);
    let piece = planned(16.5, &mixed).unwrap();
    assert_eq!(piece.target, bucket(16, 0));
    assert_eq!(piece.sources, [bucket(4, 0), bucket(4, 8), bucket(1, 15)]);
    assert_eq!(planned(99.0, &[bucket(16, 0)].into()), None);
}

#[test]
fn a_long_backfill_goes_to_sixteen_hours_directly() {
    let mut world = World::at(100.0, hours(0..40));
    let targets = world.work_off();
    assert_eq!(targets, [bucket(16, 0), bucket(16, 16), bucket(16, 32)]);
}

#[test]
fn a_window_that_is_written_to_waits() {
    let mut world = World::at(20.0, hours(0..16));
    world.busy_hours = [BucketStart(3 * HOUR)].into();
    assert_eq!(next(&world.situation()).unwrap().target, bucket(4, 4));
    let targets = world.work_off();
    assert_eq!(targets, [bucket(4, 4), bucket(4, 8), bucket(4, 12)]);

    let mut world = World::at(20.0, hours(0..16));
    world.written_ms = [(bucket(1, 3), world.now_ms - world.delay_ms + 1)].into();
    assert_eq!(next(&world.situation()).unwrap().target, bucket(4, 4));
    world.now_ms += 1;
    assert_eq!(next(&world.situation()).unwrap().target, bucket(16, 0));
}

#[test]
fn asked_for_everything_that_has_ended_becomes_coarse() {
    let check = |now_hours: f64, listed: BTreeSet<Bucket>, expected: &[Bucket]| {
        let mut world = World::at(now_hours, listed).everything();
        world.work_off();
        assert_eq!(Vec::from_iter(world.buckets), expected);
    };
    check(16.0, hours(10..16), &[bucket(16, 0)]);
    // The hour that has not ended stays, and the one that is alone in its window.
    check(
        30.99,
        hours(16..31),
        &[bucket(1, 30), bucket(2, 28), bucket(4, 24), bucket(8, 16)],
    );
    check(19.0, hours(16..19), &[bucket(1, 18), bucket(2, 16)]);
    // A bucket alone is not made larger for nothing.
    check(28.0, hours(20..21), &[bucket(4, 20)]);
    check(28.0, [bucket(8, 16)].into(), &[bucket(8, 16)]);
    // A hour whose flush failed is left out, and its windows with it.
    let mut world = World::at(16.0, hours(0..16)).everything();
    world.busy_hours = [BucketStart(0)].into();
    world.work_off();
    let expected = [
        bucket(1, 0),
        bucket(1, 1),
        bucket(2, 2),
        bucket(4, 4),
        bucket(8, 8),
    ];
    assert_eq!(Vec::from_iter(world.buckets), expected);
}

#[test]
fn what_waits_is_counted_once() {
    let world = World::at(39.0, hours(0..39));
    let targets: Vec<Bucket> = waiting(&world.situation())
        .into_iter()
        .map(|piece| piece.target)
        .collect();
    assert_eq!(targets, [bucket(16, 0), bucket(16, 16), bucket(4, 32)]);
}

#[test]
fn buckets_that_overlap_wait_until_they_are_repaired() {
    let mut listed = hours(16..32);
    listed.extend([bucket(4, 0), bucket(1, 2), bucket(1, 9)]);
    let world = World::at(99.0, listed).everything();
    let targets = waiting(&world.situation());
    let targets: Vec<Bucket> = targets.into_iter().map(|piece| piece.target).collect();
    assert_eq!(targets, [bucket(16, 16), bucket(4, 8)]);
}

/// Plans by looking at every bucket for every window.
fn looking_at_everything(situation: &PlanInput<'_>) -> Vec<CoarsenPlan> {
    let mut all: Vec<CoarsenPlan> = Vec::new();
    for rung in ladder::windows(situation.everything) {
        let size = rung.size;
        let mut windows: BTreeMap<Bucket, Vec<Bucket>> = BTreeMap::new();
        for source in situation.buckets.iter().filter(|b| b.size < size) {
            let start = size.bucket_of(source.start_ms()).unwrap();
            let sources = windows.entry(Bucket { size, start }).or_default();
            sources.push(*source);
        }
        let busy = |target: &Bucket| situation.busy_hours.iter().any(|h| holds(*target, *h));
        let quiet_since = if situation.everything {
            situation.now_ms
        } else {
            situation.now_ms - situation.delay_ms
        };
        let written = |b: &Bucket| {
            situation
                .written_ms
                .get(b)
                .is_some_and(|at| *at > quiet_since)
        };
        for (target, mut sources) in windows {
            sources.sort_by_key(|source| source.start);
            let samples = |b: &Bucket| situation.samples.get(b).copied().unwrap_or(0);
            let samples: u64 = sources.iter().map(samples).sum();
            let ready = sources.len() >= rung.sources_min
                && target.end_ms() <= quiet_since
                && target.end_ms() + rung.closed_ms <= situation.now_ms
                && (size <= bucket(16, 0).size || samples <= ladder::RECORD_SAMPLES_MAX)
                && !busy(&target)
                && (situation.everything || !sources.iter().any(written))
                && !situation.buckets.iter().any(|b| covers(*b, target))
                && !all.iter().any(|larger| covers(larger.target, target));
            if ready {
                all.push(CoarsenPlan { target, sources });
            }
        }
    }
    all
}

/// Calls a function until one call was quick enough, and returns the result of that call. Other
/// work on the machine slows some of 20 calls down, not all by more than ten times.
fn quickly<T>(at_most: Duration, work: impl Fn() -> T) -> T {
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let started = Instant::now();
        let done = work();
        fastest = fastest.min(started.elapsed());
        if fastest < at_most {
            return done;
        }
    }
    panic!("the fastest of 20 took {fastest:?}");
}

/// Ten years of hours, all of them waiting: what an import leaves. Looking at every bucket for
/// every window takes a thousand times as long.
#[test]
fn ten_years_of_hours_are_planned_in_no_time() {
    let world = World::at(87_700.0, hours(0..87_600));
    let pieces = quickly(Duration::from_secs(3), || waiting(&world.situation()));
    // Half a year ago ends what becomes 256 h, a month ago what becomes 64 h.
    let of_size = |hours: u32| {
        let size = bucket(hours, 0).size;
        pieces
            .iter()
            .filter(|piece| piece.target.size == size)
            .count()
    };
    let sizes = [256, 64, 16, 4].map(of_size);
    assert_eq!(sizes, [325, 59, 39, 0]);
    // The same when all of it is done and some hours were written again.
    let mut world = World::at(87_700.0, hours(87_584..87_600));
    world.buckets.extend((0..5474).map(|n| bucket(16, n * 16)));
    let (pieces, overlaps) = quickly(Duration::from_secs(1), || {
        (
            waiting(&world.situation()).len(),
            list::overlaps(&world.buckets),
        )
    });
    assert_eq!(pieces, 325 + 59 + 1);
    assert!(overlaps.is_empty());
}

#[test]
fn old_windows_become_larger_where_records_stay_narrow() {
    let listed: BTreeSet<Bucket> = (0..16).map(|n| bucket(16, n * 16)).collect();
    let check = |days: f64, samples: u64, expected: &[u32]| {
        let mut world = World::at(256.0 + days * 24.0, listed.clone());
        world.samples = listed.iter().map(|bucket| (*bucket, samples)).collect();
        world.work_off();
        let hours = |b: &Bucket| (b.size.duration_ms() / HOUR_MS) as u32;
        assert_eq!(
            world.buckets.iter().map(hours).collect::<Vec<_>>(),
            expected
        );
    };
    // At 15 s, at 5 s and at 1 s.
    check(30.0, 3840, &[64; 4]);
    check(29.9, 3840, &[16, 16, 16, 16, 64, 64, 64]);
    check(180.0, 3840, &[256]);
    check(180.0, 11_520, &[64; 4]);
    check(180.0, 57_600, &[16; 16]);
    // One bucket alone stays what it is.
    let mut world = World::at(100_000.0, [bucket(16, 32)].into());
    assert_eq!(world.work_off(), []);
}

/// Any list of buckets that do not overlap: each 16 h window is split at random.
fn lists() -> impl Strategy<Value = BTreeSet<Bucket>> {
    let window = prop::collection::vec(any::<bool>(), 31 + 16);
    prop::collection::vec(window, 1..4).prop_map(|windows| {
        let mut listed = BTreeSet::new();
        for (i, choices) in windows.iter().enumerate() {
            split(i as u32 * 16, 16, &mut choices.iter().copied(), &mut listed);
        }
        listed
    })
}

fn split(
    start: u32,
    hours: u32,
    choices: &mut impl Iterator<Item = bool>,
    listed: &mut BTreeSet<Bucket>,
) {
    let chosen = choices.next().unwrap_or(false);
    match (hours, chosen) {
        (1, false) => {}
        (1, true) => listed.extend([bucket(1, start)]),
        (_, true) if choices.next() == Some(true) => listed.extend([bucket(hours, start)]),
        _ => {
            split(start, hours / 2, choices, listed);
            split(start + hours / 2, hours / 2, choices, listed);
        }
    }
}

/// The same for windows of 256 h.
fn wide_lists() -> impl Strategy<Value = BTreeSet<Bucket>> {
    let window = prop::collection::vec(prop::bool::weighted(0.3), 600);
    prop::collection::vec(window, 1..3).prop_map(|windows| {
        let mut listed = BTreeSet::new();
        for (i, choices) in windows.iter().enumerate() {
            split(
                i as u32 * 256,
                256,
                &mut choices.iter().copied(),
                &mut listed,
            );
        }
        // These sizes are for windows of rolled-up samples.
        listed.retain(|bucket| ladder::is_raw(bucket.size));
        listed
    })
}

fn covered(buckets: &BTreeSet<Bucket>) -> BTreeSet<i64> {
    let hours = |bucket: &Bucket| (bucket.start_ms()..bucket.end_ms()).step_by(HOUR_MS as usize);
    buckets.iter().flat_map(hours).collect()
}

proptest! {
    #[test]
    fn plans_end_never_overlap_and_cover_every_hour(
        buckets in lists(),
        now_hours in 0.0..70.0f64,
        busy in prop::collection::btree_set(0u32..48, 0..3),
        written in prop::collection::btree_set(0u32..48, 0..3),
        everything: bool,
    ) {
        let mut world = World::at(now_hours, buckets.clone());
        world.everything = everything;
        world.busy_hours = busy.iter().map(|hour| BucketStart(hour * HOUR)).collect();
        let written = written.iter().map(|hour| (bucket(1, *hour), world.now_ms));
        world.written_ms = written.collect();
        let expected = waiting(&world.situation());
        prop_assert_eq!(&expected, &looking_at_everything(&world.situation()));
        let targets = world.work_off();
        prop_assert!(covered(&world.buckets).is_superset(&covered(&buckets)));
        let hours: usize = world
            .buckets
            .iter()
            .map(|bucket| (bucket.size.duration_ms() / HOUR_MS) as usize)
            .sum();
        prop_assert_eq!(hours, covered(&world.buckets).len(), "buckets overlap");
        prop_assert!(next(&world.situation()).is_none(), "a second time there is nothing to do");
        let unique: BTreeSet<&Bucket> = targets.iter().collect();
        prop_assert_eq!(unique.len(), targets.len());
        prop_assert_eq!(expected.is_empty(), targets.is_empty());
        for target in &targets {
            prop_assert!(target.end_ms() <= world.now_ms);
            prop_assert!(!world.busy_hours.iter().any(|hour| holds(*target, *hour)));
        }
        // Time only adds to what can be done.
        world.now_ms += 100 * HOUR_MS;
        world.busy_hours.clear();
        world.written_ms.clear();
        world.work_off();
        prop_assert!(world.buckets.iter().all(|b| b.size.exponent() == 5));
    }

    #[test]
    fn old_data_is_in_few_buckets_that_never_overlap(
        buckets in wide_lists(),
        now_hours in 0.0..9000.0f64,
        busy in prop::collection::btree_set(0u32..512, 0..2),
        dense in prop::collection::btree_set(0u32..512, 0..20),
        everything: bool,
    ) {
        let mut world = World::at(now_hours, buckets.clone());
        world.everything = everything;
        world.busy_hours = busy.iter().map(|hour| BucketStart(hour * HOUR)).collect();
        let dense = dense.iter().map(|hour| (bucket(16, hour / 16 * 16), 40_000));
        world.samples = dense.collect();
        let expected = waiting(&world.situation());
        prop_assert_eq!(&expected, &looking_at_everything(&world.situation()));
        let targets = world.work_off();
        prop_assert!(covered(&world.buckets).is_superset(&covered(&buckets)));
        let hours: usize = world
            .buckets
            .iter()
            .map(|bucket| (bucket.size.duration_ms() / HOUR_MS) as usize)
            .sum();
        prop_assert_eq!(hours, covered(&world.buckets).len(), "buckets overlap");
        for target in &targets {
            prop_assert!(ladder::is_raw(target.size));
            prop_assert!(!world.busy_hours.iter().any(|hour| holds(*target, *hour)));
            let age_hours = (world.now_ms - target.end_ms()) / HOUR_MS;
            prop_assert!(target.size.exponent() < 7 || age_hours >= 30 * 24);
            prop_assert!(target.size.exponent() < 9 || age_hours >= 180 * 24);
        }
        world.now_ms += 9000 * HOUR_MS;
        world.busy_hours.clear();
        world.samples.clear();
        world.work_off();
        for window in 0..2 {
            let of_window = |b: &&Bucket| covers(bucket(256, window * 256), **b);
            prop_assert!(world.buckets.iter().filter(of_window).count() <= 1);
        }
    }
}
