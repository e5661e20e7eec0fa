use icecore_model::MINUTE_MS;
use icecore_model::rollup::Resolution;
use proptest::prelude::*;

use super::*;
use crate::buckets::levels::RolledBucket;

const DAY_MS: i64 = 24 * HOUR_MS;

/// A time at which all windows begin, in minutes, with room before it.
const T0: u32 = 60 * 256 * 100;

/// Now is a long time after the hours of most tests.
const NOW_MS: i64 = (T0 as i64) * MINUTE_MS + 2000 * DAY_MS;

fn bucket(exponent: u8, start: u32) -> Bucket {
    Bucket {
        size: BucketSize::from_exponent(exponent).unwrap(),
        start: BucketStart(start),
    }
}

/// Hours with a sample each.
fn hours(starts: impl IntoIterator<Item = u32>) -> BTreeMap<BucketStart, HourWeight> {
    let weight = HourWeight {
        series: 1,
        samples: 1,
    };
    let hours = starts.into_iter();
    hours.map(|start| (BucketStart(start), weight)).collect()
}

fn place(
    listed: &BTreeSet<Bucket>,
    hours: &BTreeMap<BucketStart, HourWeight>,
    now_ms: i64,
) -> Vec<Portion> {
    let placement = Placement {
        listed,
        taken: &BTreeSet::new(),
        levels: &Listed::default(),
        now_ms,
    };
    placement.portions(hours)
}

fn made(bucket: Bucket, hours: &[u32]) -> Portion {
    portion(bucket, false, hours)
}

fn portion(bucket: Bucket, listed: bool, hours: &[u32]) -> Portion {
    Portion {
        target: Some(FlushTarget {
            bucket,
            listed,
            is_overlay: false,
        }),
        hours: hours.iter().copied().map(BucketStart).collect(),
    }
}

#[test]
fn the_list_decides() {
    let listed = BTreeSet::from([bucket(1, T0), bucket(3, T0 + 240), bucket(5, T0 + 960)]);
    let minutes = [0, 60, 240, 420, 480, 960, 1860, 1920];
    let found = place(&listed, &hours(minutes.map(|at| T0 + at)), NOW_MS);
    let expected = [
        portion(bucket(1, T0), true, &[T0]),
        made(bucket(1, T0 + 60), &[T0 + 60]),
        portion(bucket(3, T0 + 240), true, &[T0 + 240, T0 + 420]),
        made(bucket(1, T0 + 480), &[T0 + 480]),
        portion(bucket(5, T0 + 960), true, &[T0 + 960, T0 + 1860]),
        // Nothing is listed in its 16 h, and something in the larger windows around it.
        made(bucket(5, T0 + 1920), &[T0 + 1920]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_older_the_larger() {
    let check = |closed_ms: i64, expected: u8| {
        // The hour is the last one of its windows.
        let hour = T0 + 256 * 60 - 60;
        let now_ms = i64::from(hour + 60) * MINUTE_MS + closed_ms;
        let found = place(&BTreeSet::new(), &hours([hour]), now_ms);
        let target = found[0].target.unwrap();
        assert_eq!(target.bucket.size.exponent(), expected, "{closed_ms}");
        assert_eq!(window_of(BucketStart(hour), now_ms), target.bucket);
    };
    check(0, 1);
    check(DAY_MS - 1, 1);
    check(DAY_MS, 5);
    check(30 * DAY_MS - 1, 5);
    check(30 * DAY_MS, 7);
    check(180 * DAY_MS - 1, 7);
    check(180 * DAY_MS, 9);
}

#[test]
fn dense_series_get_smaller_buckets() {
    let check = |samples: u64, expected: u8| {
        let weight = HourWeight {
            series: 10,
            samples: samples * 10,
        };
        let hours: BTreeMap<_, _> = (0..4).map(|i| (BucketStart(T0 + i * 60), weight)).collect();
        let found = place(&BTreeSet::new(), &hours, NOW_MS);
        assert_eq!(found.len(), 1);
        let target = found[0].target.unwrap();
        assert_eq!(target.bucket, bucket(expected, T0), "{samples} per hour");
    };
    // Every minute, 15 s, 10 s, 5 s, 1 s, 0.1 s.
    check(60, 9);
    check(240, 9);
    check(360, 9);
    check(720, 7);
    check(3600, 5);
    check(36_000, 5);
}

#[test]
fn what_is_retired_or_being_built_is_not_written_to() {
    let all = [bucket(9, T0), bucket(7, T0), bucket(5, T0), bucket(1, T0)];
    for (taken, next) in (0..=all.len()).map(|n| (&all[..n], all.get(n))) {
        let placement = Placement {
            listed: &BTreeSet::new(),
            taken: &taken.iter().copied().collect(),
            levels: &Listed::default(),
            now_ms: NOW_MS,
        };
        let found = placement.portions(&hours([T0]));
        assert_eq!(found[0].target.map(|target| target.bucket), next.copied());
    }
}

#[test]
fn late_hours_are_noted_once_and_in_order() {
    let mut meta = BucketMeta::default();
    let target = |exponent, listed| FlushTarget {
        bucket: bucket(exponent, T0),
        listed,
        is_overlay: false,
    };
    let late = [BucketStart(T0), BucketStart(T0 + 120)];
    target(1, true).note_late(&late[..1], &mut meta);
    target(5, false).note_late(&late, &mut meta);
    assert!(meta.dirty_hours.is_empty(), "an hour, and a new bucket");
    target(5, true).note_late(&late[1..], &mut meta);
    target(5, true).note_late(&late, &mut meta);
    assert_eq!(meta.dirty_hours, [T0, T0 + 120]);
}

/// Windows whose sources are gone, of 5 minutes in 32 hours.
fn gone() -> RolledBucket {
    RolledBucket {
        resolution: Resolution::FIVE_MINUTES,
        source: Resolution::RAW,
        sources_gone: true,
        is_lean: true,
        dirty: BTreeSet::new(),
        left_out: None,
        stands_in: false,
    }
}

#[test]
fn late_samples_of_gone_time_are_kept_apart() {
    let rolled = bucket(6, T0 + 32 * 60);
    let levels = Listed::new([], [(rolled, gone())]);
    let find = |levels: &Listed, listed: &BTreeSet<Bucket>, hour: u32| {
        let placement = Placement {
            listed,
            taken: &BTreeSet::new(),
            levels,
            now_ms: NOW_MS,
        };
        let portions = placement.portions(&hours([T0 + hour * 60]));
        portions[0].target.map(|t| (t.bucket, t.is_overlay))
    };
    // As large as fits in, and beside it.
    let none = BTreeSet::new();
    let late = bucket(5, T0 + 48 * 60);
    assert_eq!(find(&levels, &none, 50), Some((late, true)));
    assert_eq!(find(&levels, &none, 5), Some((bucket(5, T0), false)));
    assert_eq!(
        find(&levels, &none, 70),
        Some((bucket(7, T0 + 64 * 60), false))
    );
    let beyond = bucket(9, T0 + 256 * 60);
    assert_eq!(find(&levels, &none, 300), Some((beyond, false)));
    // Where the name of one is taken there is another.
    let taken = BTreeSet::from([late, bucket(1, T0 + 50 * 60)]);
    let placement = Placement {
        listed: &none,
        taken: &taken,
        levels: &levels,
        now_ms: NOW_MS,
    };
    let target = placement.portions(&hours([T0 + 50 * 60]))[0].target;
    assert_eq!(target.map(|t| t.bucket), Some(bucket(2, T0 + 50 * 60)));
    // Behind the back of the process, too.
    let listed = BTreeSet::from([late]);
    assert_eq!(find(&levels, &listed, 50), Some((late, true)));
    // Never among samples that windows were made of.
    let levels = Listed::new([late], [(rolled, gone())]);
    assert_eq!(find(&levels, &listed, 50), None);
}

/// Raw buckets that do not overlap, of any sizes, in the first 1024 hours.
fn lists() -> impl Strategy<Value = BTreeSet<Bucket>> {
    let one = (
        prop::sample::select(vec![1u8, 2, 3, 4, 5, 7, 9, 10]),
        0u32..1024,
    );
    prop::collection::vec(one, 0..24).prop_map(|some| {
        let mut listed: BTreeSet<Bucket> = BTreeSet::new();
        for (exponent, hour) in some {
            let size = BucketSize::from_exponent(exponent).unwrap();
            let start_ms = i64::from(T0 + hour * 60) * MINUTE_MS;
            let start = size.bucket_of(start_ms).unwrap();
            let fresh = Bucket { size, start };
            if !listed.iter().any(|other| overlap(*other, fresh)) {
                listed.insert(fresh);
            }
        }
        listed
    })
}

fn overlap(a: Bucket, b: Bucket) -> bool {
    a.start_ms() < b.end_ms() && b.start_ms() < a.end_ms()
}

proptest! {
    /// Flush after flush, at any age: every hour goes to one bucket that holds it, what is new
    /// overlaps with nothing, is raw, is not taken and is over.
    #[test]
    fn targets_never_overlap(
        listed in lists(),
        taken in lists(),
        flushes in prop::collection::vec(
            (prop::collection::btree_set(0u32..1024, 1..40), 0u64..2000, 0i64..300),
            1..4,
        ),
    ) {
        let mut listed = listed;
        let taken: BTreeSet<Bucket> = taken.difference(&listed).copied().collect();
        for (starts, samples, days) in flushes {
            let now_ms = i64::from(T0 + 600 * 60) * MINUTE_MS + days * DAY_MS;
            let mut hours = hours(starts.iter().map(|hour| T0 + hour * 60));
            hours.values_mut().for_each(|weight| weight.samples = samples);
            let levels = &Listed::default();
            let placement = Placement { listed: &listed, taken: &taken, levels, now_ms };
            let portions = placement.portions(&hours);
            let placed: Vec<BucketStart> = portions.iter().flat_map(|p| p.hours.clone()).collect();
            prop_assert_eq!(placed, hours.keys().copied().collect::<Vec<_>>());
            let mut after = listed.clone();
            for Portion { target, hours } in &portions {
                let Some(target) = target else {
                    prop_assert!(taken.contains(&Bucket::hour(hours[0])));
                    continue;
                };
                let bucket = target.bucket;
                prop_assert!(hours.iter().all(|hour| bucket.contains(hour.start_ms())));
                prop_assert_eq!(target.listed, listed.contains(&bucket));
                prop_assert!(ladder::is_raw(bucket.size));
                if !target.listed {
                    prop_assert!(!taken.contains(&bucket));
                    prop_assert!(!after.iter().any(|other| overlap(*other, bucket)));
                    prop_assert!(bucket.size == BucketSize::HOUR || bucket.end_ms() <= now_ms - DAY_MS);
                    after.insert(bucket);
                }
            }
            listed = after;
        }
    }
}
