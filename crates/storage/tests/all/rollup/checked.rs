//! A check makes windows once more and compares them.

use icecore_records::{SeriesId, rollup_series};
use icecore_storage::inspect::{CheckReport, ProblemKind};

use super::*;

/// A bucket of each level, the first of it.
fn first_of(process: &Process, resolution: Resolution) -> Bucket {
    let mut levels = process.db.rolled_levels().into_iter();
    levels.find(|(level, _)| *level == resolution).unwrap().1
}

#[test]
fn wrong_windows_are_found_while_their_samples_are_there() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write_all(&process.db, &samples(0..140)));
    maintain(&process);
    let (five, hourly) = (first_of(&process, FIVE), first_of(&process, HOURLY));
    let mut damage = Vec::new();
    for (bucket, resolution, lean) in [(five, FIVE, true), (hourly, HOURLY, false)] {
        let key = key::rollup_series(bucket, SeriesId(1));
        let (_, value) = process.run(process.db.records(&key)).unwrap().remove(0);
        let mut windows = rollup_series::decode_windows(bucket, &value).unwrap();
        windows[7].interior.as_mut().unwrap().sum += 1.0;
        windows.remove(9);
        let mut fields = WindowFields::ALL;
        if lean {
            fields = fields.without(WindowFields::M2 | WindowFields::CHANGES);
        }
        let wrong = rollup_series::encode(bucket, resolution, fields, &windows);
        damage.push((key, Some(wrong.into())));
    }
    drop(process);
    let report = world.checked();
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.counts.windows_compared > 3 * 128 * 12);

    let process = world.start();
    process
        .run(process.db.replace_records(damage.clone()))
        .unwrap();
    drop(process);
    let report = world.checked();
    let wrong = report
        .problems
        .iter()
        .filter(|p| p.kind == ProblemKind::Windows);
    let wrong: Vec<_> = wrong.map(|p| (p.key.clone(), p.reason.clone())).collect();
    assert_eq!(wrong.len(), 2, "{report:#?}");
    for ((key, reason), (damaged, _)) in wrong.iter().zip(&damage) {
        assert_eq!(key, damaged);
        assert!(
            reason.contains("gauge") && reason.contains("sum "),
            "{reason}"
        );
        assert!(reason.ends_with("2 windows are wrong"), "{reason}");
    }
    assert!(
        wrong[0]
            .1
            .contains(&format!("window {}", START + 7 * 300_000))
    );
    assert!(wrong[1].1.contains(&format!("window {}", START + 7 * HOUR)));

    // What is out of date is not compared, nor what is all that is left.
    let process = world.start();
    let late = [
        ("gauge", START + 7 * HOUR + 1, 3.0),
        ("gauge", START + 9 * HOUR + 1, 3.0),
    ];
    process.run(write(&process.db, &late));
    let early = [("gauge", START + 1, 3.0)];
    process.run(write(&process.db, &early));
    process.run(process.db.flush_buckets()).unwrap();
    drop(process);
    let report = world.checked();
    let of_windows =
        |report: &CheckReport| report.problems_by_kind.get(&ProblemKind::Windows).copied();
    assert_eq!(of_windows(&report), None, "{report:#?}");
}
