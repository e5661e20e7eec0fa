use std::time::Instant;

use icecore_model::BucketStart;
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
            buckets: &self.buckets,
            written_ms: &self.written_ms,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
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
fn buckets_that_overlap_wait_until_they_are_mended() {
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
    for (size, sources_min) in ladder::windows(situation.everything) {
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
            let ready = sources.len() >= sources_min
                && target.end_ms() <= quiet_since
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

/// Ten years of hours, all of them waiting: what an import leaves. Looking at every bucket for
/// every window takes a thousand times as long.
#[test]
fn ten_years_of_hours_are_planned_in_no_time() {
    let world = World::at(87_700.0, hours(0..87_600));
    let started = Instant::now();
    let pieces = waiting(&world.situation());
    let took = started.elapsed();
    assert_eq!(pieces.len(), 87_600 / 16);
    assert!(took.as_millis() < 500, "{took:?}");
    // The same when most of it is done and some hours were written again.
    let mut world = World::at(87_700.0, hours(87_584..87_600));
    world.buckets.extend((0..5474).map(|n| bucket(16, n * 16)));
    let started = Instant::now();
    assert_eq!(waiting(&world.situation()).len(), 1);
    assert!(list::overlaps(&world.buckets).is_empty());
    let took = started.elapsed();
    assert!(took.as_millis() < 100, "{took:?}");
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
}
