use icecore_model::BucketSize;
use icecore_model::rollup::OffGrid;
use proptest::prelude::*;

use super::*;

fn bucket(exponent: u8, hour: i64) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    let start = size.bucket_of(hour * HOUR_MS).unwrap();
    Bucket { size, start }
}

fn hour(hour: i64) -> BucketStart {
    BucketStart((hour * 60) as u32)
}

fn listed(buckets: &[Bucket], dirty: &[(Bucket, i64)]) -> Listed {
    let (raw, rolled): (Vec<Bucket>, Vec<Bucket>) = buckets
        .iter()
        .partition(|bucket| bucket.size.exponent() < 6);
    let facts = |bucket: Bucket| RolledBucket {
        resolution: match bucket.size.exponent() {
            6 => FIVE,
            _ => HOURLY,
        },
        source: RAW,
        sources_gone: false,
        is_lean: false,
        dirty: (dirty.iter().filter(|(of, _)| *of == bucket))
            .map(|(_, at)| hour(*at))
            .collect(),
        left_out: None,
        stands_in: false,
    };
    let rolled = rolled.into_iter().map(|bucket| (bucket, facts(bucket)));
    Listed::new(raw, rolled)
}

/// Without a policy.
fn plan(
    listed: &Listed,
    head: &BTreeSet<BucketStart>,
    range_ms: (i64, i64),
    wanted: (&RollupChoice, WindowFields),
) -> LevelPlan {
    super::plan(listed, &KeptSince::default(), head, range_ms, wanted)
}

fn choice(step_hours: i64) -> RollupChoice {
    RollupChoice {
        start_ms: 0,
        step_ms: step_hours * HOUR_MS,
        range_ms: step_hours * HOUR_MS,
        is_exact: true,
        max_ms: None,
        off_grid: Default::default(),
    }
}

fn segments(plan: &LevelPlan) -> Vec<(i64, i64, Resolution)> {
    let hours = |ms: i64| ms / HOUR_MS;
    let segments = plan.levels.segments.iter();
    segments
        .map(|s| (hours(s.start_ms), hours(s.end_ms), s.resolution))
        .collect()
}

const RAW: Resolution = Resolution::RAW;
const FIVE: Resolution = Resolution::FIVE_MINUTES;
const HOURLY: Resolution = Resolution::HOUR;

#[test]
fn without_windows_everything_is_raw() {
    let listed = listed(&[bucket(5, 0), bucket(1, 20)], &[]);
    let plan = plan(
        &listed,
        &BTreeSet::new(),
        (0, 30 * HOUR_MS),
        (&choice(1), WindowFields::ALL),
    );
    assert_eq!(plan.levels, Levels::default());
    assert_eq!(plan.buckets, [bucket(5, 0), bucket(1, 20)]);
}

#[test]
fn the_coarsest_that_is_preferred_or_else_the_finest() {
    let all = [bucket(8, 0), bucket(6, 96), bucket(6, 128), bucket(5, 144)];
    let listed = listed(&all, &[]);
    let range = (0, 170 * HOUR_MS - 1);
    let none = BTreeSet::new();
    let hourly = plan(&listed, &none, range, (&choice(1), WindowFields::ALL));
    let expected = [(0, 128, HOURLY), (128, 160, FIVE), (160, 170, RAW)];
    assert_eq!(segments(&hourly), expected);
    assert_eq!(hourly.buckets, [bucket(8, 0), bucket(6, 128)]);
    // Not exact: the finest that there is.
    let estimate = RollupChoice {
        is_exact: false,
        ..choice(1)
    };
    let finest = plan(&listed, &none, range, (&estimate, WindowFields::ALL));
    let expected = [(0, 96, HOURLY), (96, 144, FIVE), (144, 170, RAW)];
    assert_eq!(segments(&finest), expected);
    let raw_only = RollupChoice {
        max_ms: Some(0),
        ..choice(1)
    };
    let raw = plan(&listed, &none, range, (&raw_only, WindowFields::ALL));
    assert_eq!(segments(&raw), []);
    assert_eq!(raw.buckets, [bucket(5, 144)]);
    assert_eq!(raw.levels.excluded, Some((FIVE, 144 * HOUR_MS)));
}

/// Windows that were made when a policy left series out.
#[test]
fn windows_that_lack_series_do_not_count_beside_others() {
    let (raw, five, hourly) = (bucket(5, 0), bucket(6, 0), bucket(8, 0));
    let lacking = |five_lacks: &[u64], gone: bool| {
        let mut listed = listed(&[raw, five, hourly], &[]);
        for (rolled, left_out) in [(five, five_lacks), (hourly, &[7])] {
            let facts = listed.facts_mut(rolled).unwrap();
            facts.left_out = Some(left_out.iter().copied().collect());
            facts.sources_gone = gone;
        }
        listed
    };
    let read = |listed: &Listed| {
        let range = (0, 128 * HOUR_MS - 1);
        let plan = plan(
            listed,
            &BTreeSet::new(),
            range,
            (&choice(1), WindowFields::SUM),
        );
        segments(&plan)
    };
    let (hours, fives) = ((32, 128, HOURLY), (0, 32, FIVE));
    assert_eq!(
        read(&lacking(&[7], false)),
        [(0, 16, RAW), (16, 128, HOURLY)]
    );
    assert_eq!(read(&lacking(&[], false)), [fives, hours]);
    assert_eq!(read(&lacking(&[], true)), [fives, hours]);
    assert_eq!(read(&lacking(&[7], true)), [(0, 128, HOURLY)], "both do");
    assert_eq!(read(&lacking(&[8], true)), [fives, hours], "not the same");
    // A level that is not wanted any more, beside a coarser one that has all.
    let mut finer = lacking(&[7], true);
    finer.facts_mut(hourly).unwrap().left_out = Some(BTreeSet::new());
    let estimate = RollupChoice {
        is_exact: false,
        ..choice(1)
    };
    let wanted = (&estimate, WindowFields::SUM);
    let of_hours = plan(&finer, &BTreeSet::new(), (0, 128 * HOUR_MS - 1), wanted);
    assert_eq!(segments(&of_hours), [(0, 128, HOURLY)]);
    // What a remnant has is read from it.
    let mut listed = lacking(&[7], true);
    listed.remove(raw);
    listed.insert(bucket(10, 0));
    let wanted = (&choice(1), WindowFields::SUM);
    let plan = plan(&listed, &BTreeSet::new(), (0, 128 * HOUR_MS - 1), wanted);
    assert_eq!(segments(&plan), [(0, 128, HOURLY)]);
    assert_eq!(plan.of_series(|_| true).levels.segments, []);
}

/// A remnant is read for the series that it has, where raw samples are gone.
#[test]
fn series_of_a_remnant_are_raw_in_its_time() {
    let (five, hourly) = (bucket(6, 0), bucket(8, 0));
    let remnant = bucket(10, 0);
    let mut listed = listed(&[five, hourly, bucket(1, 600)], &[]);
    for rolled in [five, hourly] {
        listed.facts_mut(rolled).unwrap().sources_gone = true;
    }
    listed.insert(remnant);
    listed.insert_overlay(bucket(1, 5));
    let range = (0, 601 * HOUR_MS - 1);
    let finest = RollupChoice {
        is_exact: false,
        ..choice(1)
    };
    let raw_only = RollupChoice {
        max_ms: Some(0),
        ..choice(1)
    };
    let read = |wanted: &RollupChoice, kept_since: &KeptSince| {
        let none = BTreeSet::new();
        let wanted = (wanted, WindowFields::ALL);
        let plan = super::plan(&listed, kept_since, &none, range, wanted);
        let [others, its_own] = [false, true].map(|has| plan.of_series(|_| has));
        (plan, others, its_own)
    };
    let hours = |segments: &[Segment]| -> Vec<(i64, i64, Resolution)> {
        let hours = |ms: i64| ms / HOUR_MS;
        let of = |s: &Segment| (hours(s.start_ms), hours(s.end_ms), s.resolution);
        segments.iter().map(of).collect()
    };
    let gone = Range {
        start: 0,
        end: 128 * HOUR_MS,
    };
    let (plan, others, its_own) = read(&finest, &KeptSince::default());
    assert!(plan.buckets.contains(&remnant) && plan.buckets.contains(&bucket(1, 5)));
    let expected = [(0, 32, FIVE), (32, 128, HOURLY), (128, 601, RAW)];
    assert_eq!(hours(&others.levels.segments), expected);
    assert_eq!(others.late.gone, std::slice::from_ref(&gone));
    assert_eq!(others.late.merged, [gone]);
    assert_eq!(its_own.levels.segments, [], "all of it is raw");
    assert_eq!(
        (&its_own.late.gone[..], &its_own.late.merged[..]),
        (&[][..], &[][..])
    );
    // Windows of an hour are preferred by both.
    let (plan, others, its_own) = read(&choice(1), &KeptSince::default());
    assert_eq!((plan.remnants.len(), others == its_own), (0, true));
    // Nothing else is permitted.
    let (_, others, its_own) = read(&raw_only, &KeptSince::default());
    assert_eq!(others.late.gone.len(), 1);
    assert!(its_own.late.gone.is_empty() && its_own.levels.excluded.is_none());
    assert!(others.levels.excluded.is_some());
    // A part of it is older than raw samples are kept.
    let kept_since = KeptSince {
        levels: [(RAW, 64 * HOUR_MS), (HOURLY, i64::MIN)].into(),
        ..KeptSince::default()
    };
    let (_, _, its_own) = read(&finest, &kept_since);
    let expected = [(0, 32, FIVE), (32, 64, HOURLY), (64, 601, RAW)];
    assert_eq!(hours(&its_own.levels.segments), expected);
    assert_eq!(its_own.late.gone[0].end, 64 * HOUR_MS);
}

#[test]
fn coarser_windows_stand_in_where_that_is_wanted() {
    let listed = listed(&[bucket(8, 0), bucket(6, 96), bucket(5, 144)], &[]);
    let range = (0, 150 * HOUR_MS - 1);
    let none = BTreeSet::new();
    let quarters = |off_grid| RollupChoice {
        step_ms: HOUR_MS / 4,
        range_ms: HOUR_MS / 4,
        off_grid,
        ..choice(1)
    };
    let of = |choice: RollupChoice| plan(&listed, &none, range, (&choice, WindowFields::SUM));
    let all = [(0, 96, HOURLY), (96, 128, FIVE), (128, 150, RAW)];
    assert_eq!(segments(&of(quarters(OffGrid::Fallback))), all);
    let on_grid = of(quarters(OffGrid::LastResort));
    let expected = [(0, 96, RAW), (96, 128, FIVE), (128, 150, RAW)];
    assert_eq!(segments(&on_grid), expected);
    assert_eq!(on_grid.buckets, [bucket(6, 96), bucket(5, 144)]);
    assert_eq!(on_grid.levels.excluded, Some((HOURLY, 96 * HOUR_MS)));
    // Nothing lies on this grid.
    let minutes = RollupChoice {
        step_ms: 7 * 60_000,
        range_ms: 7 * 60_000,
        ..quarters(OffGrid::LastResort)
    };
    assert_eq!(segments(&of(minutes)), all);
    // Five times as long as windows, but off their grid.
    let odd = RollupChoice {
        step_ms: 6 * HOUR_MS + 1,
        range_ms: 6 * HOUR_MS + 1,
        ..quarters(OffGrid::Fallback)
    };
    assert_eq!(segments(&of(odd)), all);
    assert_eq!(
        segments(&of(RollupChoice {
            off_grid: OffGrid::Short,
            ..odd
        }))[0],
        (0, 128, HOURLY)
    );
}

#[test]
fn lean_windows_are_not_preferred_where_deviations_are_needed() {
    let rolled = bucket(6, 0);
    let mut listed = listed(&[rolled, bucket(5, 0)], &[]);
    listed.facts_mut(rolled).unwrap().is_lean = true;
    let range = (0, 32 * HOUR_MS - 1);
    let none = BTreeSet::new();
    let sums = plan(&listed, &none, range, (&choice(1), WindowFields::SUM));
    assert_eq!(segments(&sums), [(0, 32, FIVE)]);
    let deviations = plan(&listed, &none, range, (&choice(1), WindowFields::M2));
    let expected = [(0, 16, RAW), (16, 32, FIVE)];
    assert_eq!(
        segments(&deviations),
        expected,
        "where there is nothing else they are read"
    );
}

#[test]
fn hours_that_were_written_to_are_read_raw() {
    let rolled = bucket(6, 0);
    let listed = listed(&[rolled, bucket(5, 0), bucket(5, 16)], &[(rolled, 3)]);
    let head = BTreeSet::from([hour(20)]);
    let range = (0, 32 * HOUR_MS - 1);
    let plan = plan(&listed, &head, range, (&choice(1), WindowFields::ALL));
    let expected = [
        (0, 3, FIVE),
        (3, 4, RAW),
        (4, 20, FIVE),
        (20, 21, RAW),
        (21, 32, FIVE),
    ];
    assert_eq!(segments(&plan), expected);
    let mut buckets = plan.buckets.clone();
    buckets.sort();
    assert_eq!(buckets, [bucket(5, 0), bucket(5, 16), rolled]);
}

#[test]
fn what_is_left_of_a_level_does_not_count() {
    let (five, hourly) = (bucket(6, 0), bucket(8, 0));
    let range = (0, 32 * HOUR_MS - 1);
    let none = BTreeSet::new();
    let finest = (&choice(0), WindowFields::ALL);
    let mut listed = listed(&[bucket(1, 3), five, hourly], &[]);
    let expected = [(0, 3, FIVE), (3, 4, RAW), (4, 32, FIVE)];
    assert_eq!(segments(&plan(&listed, &none, range, finest)), expected);
    // A raw hour that came late, or stayed: it is not all there was. Nor is the head's.
    listed.facts_mut(five).unwrap().sources_gone = true;
    let head = BTreeSet::from([hour(7)]);
    assert_eq!(
        segments(&plan(&listed, &head, range, finest)),
        [(0, 32, FIVE)]
    );
    // The same for windows.
    let facts = listed.facts_mut(hourly).unwrap();
    (facts.source, facts.sources_gone) = (FIVE, true);
    assert_eq!(
        segments(&plan(&listed, &none, range, finest)),
        [(0, 32, HOURLY)]
    );
}

#[test]
fn what_is_older_than_it_is_kept_is_left_out() {
    let listed = listed(&[bucket(5, 0), bucket(5, 16), bucket(6, 0)], &[]);
    let range = (0, 48 * HOUR_MS - 1);
    let none = BTreeSet::new();
    let finest = (&choice(0), WindowFields::ALL);
    let since = |raw: i64, five: i64| KeptSince {
        levels: [(RAW, raw * HOUR_MS), (FIVE, five * HOUR_MS)].into(),
        all_ms: five * HOUR_MS,
        ..KeptSince::default()
    };
    let of = |since: &KeptSince| segments(&super::plan(&listed, since, &none, range, finest));
    assert_eq!(of(&since(20, 0)), [(0, 20, FIVE), (20, 48, RAW)]);
    // Where there is nothing coarser it is read; whoever asks leaves out what is kept nowhere.
    assert_eq!(of(&since(48, 30)), [(0, 32, FIVE), (32, 48, RAW)]);
    // Series that a level has not got.
    let only_raw = KeptSince {
        not_kept: [FIVE].into(),
        ..since(20, 0)
    };
    assert_eq!(of(&only_raw), []);
}

proptest! {
    /// Against asking for each hour.
    #[test]
    fn segments_are_what_each_hour_would_get(
        raw in prop::collection::btree_set(0i64..300, 0..40),
        five in prop::collection::btree_set(0i64..9, 0..9),
        hourly in prop::collection::btree_set(0i64..3, 0..3),
        dirty in prop::collection::btree_set(0i64..300, 0..6),
        head in prop::collection::btree_set(0i64..300, 0..6),
        step in prop::sample::select(vec![0i64, 1, 5]),
        cap in prop::sample::select(vec![None, Some(0i64), Some(300_000)]),
        range in (0i64..290, 1i64..300),
    ) {
        let five: Vec<Bucket> = five.iter().map(|at| bucket(6, at * 32)).collect();
        let hourly: Vec<Bucket> = hourly.iter().map(|at| bucket(8, at * 128)).collect();
        let all: Vec<Bucket> = raw.iter().map(|at| bucket(1, *at)).chain(five.clone())
            .chain(hourly.clone()).collect();
        let holds = |b: &Bucket, at: i64| b.start_ms() <= at * HOUR_MS && at * HOUR_MS < b.end_ms();
        let marks: Vec<(Bucket, i64)> = five.iter().chain(&hourly)
            .flat_map(|b| dirty.iter().filter(|at| holds(b, **at)).map(|at| (*b, *at)))
            .collect();
        let listed = listed(&all, &marks);
        let head_hours: BTreeSet<BucketStart> = head.iter().map(|at| hour(*at)).collect();
        let choice = RollupChoice { max_ms: cap, ..choice(step) };
        let range_ms = (range.0 * HOUR_MS + 5, (range.0 + range.1) * HOUR_MS - 1);
        let plan = plan(&listed, &head_hours, range_ms, (&choice, WindowFields::ALL));
        let mut planned = segments(&plan);
        if planned.is_empty() {
            planned.push((range.0, range.0 + range.1, RAW));
        }
        prop_assert_eq!(planned[0].0, range.0);
        prop_assert_eq!(planned[planned.len() - 1].1, range.0 + range.1);
        for pair in planned.windows(2) {
            prop_assert_eq!(pair[0].1, pair[1].0);
            prop_assert_ne!(pair[0].2, pair[1].2);
        }
        for at in range.0..range.0 + range.1 {
            let clean = !dirty.contains(&at) && !head.contains(&at);
            let mut existing = Vec::new();
            if raw.contains(&at) || head.contains(&at) { existing.push(RAW); }
            if clean && five.iter().any(|b| holds(b, at)) { existing.push(FIVE); }
            if clean && hourly.iter().any(|b| holds(b, at)) { existing.push(HOURLY); }
            let preferred = existing.iter().rev().find(|r| choice.prefers(**r));
            let expected = preferred.or(existing.iter().find(|r| choice.among([]).permits(**r)));
            let got = planned.iter().find(|s| s.0 <= at && at < s.1).unwrap().2;
            prop_assert_eq!(got, expected.copied().unwrap_or(RAW), "hour {}", at);
        }
    }
}
