use icecore_model::retention::{ColumnSet, Level, Override, Retention};
use icecore_model::rollup::Resolution;
use icecore_model::{BucketSize, HOUR_MS, Matcher};

use super::*;
use crate::buckets::levels::RolledBucket;

const RAW: Resolution = Resolution::RAW;
const FIVE: Resolution = Resolution::FIVE_MINUTES;
const HOURLY: Resolution = Resolution::HOUR;
const DAY_MS: i64 = 24 * HOUR_MS;

fn hour(hour: u32) -> BucketStart {
    BucketStart(hour * 60)
}

fn bucket(exponent: u8, hour: i64) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    let start = size.bucket_of(hour * HOUR_MS).unwrap();
    Bucket { size, start }
}

/// Raw samples for 6 days, windows for 20 and 60, and series `a` in other ways.
fn policy(late_data: LateData, retain: &[(Resolution, i64)]) -> Arc<RetentionPolicy> {
    let levels = [(RAW, 6), (FIVE, 20), (HOURLY, 60)].map(|(resolution, days)| Level {
        resolution,
        retain: Retention::For(days * DAY_MS),
        columns: ColumnSet::Full,
    });
    let retain = retain.iter().map(|(r, days)| (*r, days * DAY_MS));
    let overrides = vec![Override {
        matchers: vec![Matcher::equal("series", "a")],
        retain: retain.map(|(r, ms)| (r, Retention::For(ms))).collect(),
    }];
    Arc::new(RetentionPolicy::new(levels.to_vec(), HOUR_MS, late_data, overrides).unwrap())
}

/// Windows whose samples are gone.
fn gone(windows: &[(Resolution, Bucket)]) -> Listed {
    let facts = |(resolution, bucket): &(Resolution, Bucket)| {
        let facts = RolledBucket {
            resolution: *resolution,
            source: RAW,
            sources_gone: true,
            is_lean: false,
            dirty: BTreeSet::new(),
            left_out: Some(BTreeSet::new()),
            stands_in: false,
        };
        (*bucket, facts)
    };
    Listed::new([], windows.iter().map(facts))
}

fn floor(policy: &Arc<RetentionPolicy>, days: i64, listed: &Listed) -> TimeFloor {
    let kept_since = KeptClasses::new(Some(policy), days * DAY_MS);
    TimeFloor::new(Some(policy), &kept_since, listed, &[])
}

/// Whether the default class and series `a` are refused.
fn refused(floor: &TimeFloor, at: u32) -> (bool, bool) {
    let class = |name: &str| floor.class_of(&Labels::from_pairs([("series", name)]));
    let refused = ["b", "a"].map(|name| floor.refuses(hour(at), class(name)));
    assert_eq!(floor.refuses_some(hour(at)), refused[0] || refused[1]);
    (refused[0], refused[1])
}

#[test]
fn history_may_be_imported_where_nothing_is_left() {
    let policy = Arc::new(RetentionPolicy::default_levels());
    let listed = gone(&[(FIVE, bucket(6, 32)), (FIVE, bucket(6, 128))]);
    // The policy keeps what is newer than the tenth hour.
    let kept_since = KeptClasses::new(Some(&policy), 365 * DAY_MS + 10 * HOUR_MS);
    let closing = [bucket(3, 200)];
    let floor = TimeFloor::new(Some(&policy), &kept_since, &listed, &closing);
    for (at, is_refused) in [
        (9, true),
        (10, false),
        (31, false),
        (32, true),
        (63, true),
        (64, false),
        (128, true),
        (159, true),
        (160, false),
        (200, true),
        (204, false),
    ] {
        assert_eq!(floor.refuses(hour(at), 0), is_refused, "hour {at}");
        assert_eq!(floor.refuses_some(hour(at)), is_refused, "hour {at}");
    }
    let nothing = TimeFloor::default();
    assert!(!nothing.refuses(hour(0), 0) && !nothing.refuses_some(hour(0)));
    let kept_since = KeptClasses::default();
    let nothing = TimeFloor::new(None, &kept_since, &Listed::default(), &[]);
    assert!(!nothing.refuses(hour(0), 0) && !nothing.refuses_some(hour(0)));
    let closed = TimeFloor::new(None, &kept_since, &listed, &[]);
    assert!(
        closed.refuses(hour(32), 0),
        "without a policy nothing is merged"
    );
}

#[test]
fn what_a_class_keeps_nowhere_is_too_old() {
    let short = policy(LateData::Reject, &[(RAW, 3), (FIVE, 0), (HOURLY, 0)]);
    let windows = gone(&[(FIVE, bucket(6, 32))]);
    let short = floor(&short, 10, &windows);
    assert_eq!(refused(&short, 7 * 24), (false, false));
    assert_eq!(refused(&short, 7 * 24 - 1), (false, true));
    assert_eq!(refused(&short, 40), (true, true));
    // Nobody is told off for what is never kept.
    let nowhere = policy(LateData::Reject, &[(RAW, 0), (FIVE, 0), (HOURLY, 0)]);
    let nowhere = floor(&nowhere, 70, &Listed::default());
    assert_eq!(refused(&nowhere, 240), (false, false));
    assert_eq!(refused(&nowhere, 239), (true, true));
    // Where late samples are merged, windows stand in for what a class keeps for longer.
    let long = policy(LateData::Merge, &[(RAW, 35), (FIVE, 0), (HOURLY, 0)]);
    let long = floor(&long, 10, &windows);
    assert_eq!(refused(&long, 40), (false, false));
}

#[test]
fn a_request_is_told_when_something_of_it_became_too_old() {
    let short = policy(LateData::Reject, &[(RAW, 3), (FIVE, 0), (HOURLY, 0)]);
    let before = floor(&short, 10, &Listed::default());
    let of_classes = BTreeSet::from([(hour(130), 0)]);
    let rose = |floor: &TimeFloor, hours: &[u32]| {
        let hours = hours.iter().map(|at| hour(*at));
        floor.rose(&before, hours, &of_classes)
    };
    assert!(!rose(&before, &[130, 200]));
    let later = floor(&short, 12, &Listed::default());
    assert!(!rose(&later, &[130]), "known to be of another class");
    assert!(
        rose(&later, &[130, 200]),
        "it may be of one that is refused now"
    );
    assert!(!rose(&later, &[130, 220]));
    let closed = floor(&short, 10, &gone(&[(FIVE, bucket(6, 128))]));
    assert!(rose(&closed, &[130]) && !rose(&closed, &[220]));
    let other = floor(
        &policy(LateData::Reject, &[(RAW, 4), (FIVE, 0), (HOURLY, 0)]),
        10,
        &gone(&[]),
    );
    assert!(rose(&other, &[130]), "classes may be others");
}
