//! Jobs that are interrupted, or that others come in between of; damaged windows.

use super::*;

#[test]
fn an_interrupted_roll_up_goes_on_or_starts_over() {
    let direct = world(START + 40 * HOUR);
    let samples = samples(0..40);
    let write = |process: &Process| process.run(write_all(&process.db, &samples));
    let expected = rolled_up_after(&direct, write, &[]);
    assert!(expected.len() > 10);
    for writes in [vec![0], vec![1], vec![2], vec![1, 2, 3], vec![3, 0]] {
        let interrupted = world(START + 40 * HOUR);
        let content = rolled_up_after(&interrupted, write, &writes);
        assert_eq!(content, expected, "{writes:?}");
    }
}

/// A run plans, and then looks again.
#[test]
fn what_is_flushed_after_a_plan_is_rolled_up_too() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let mut samples = samples(0..10);
    samples.extend(crate::rollup::samples(20..40));
    process.run(write_all(&process.db, &samples));
    let db = process.db.clone();
    process.run(async {
        let pause = db.pause_at("roll_up.planned");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.roll_up_now(None).await }
        });
        pause.reached().await;
        let between = crate::rollup::samples(17..18);
        write_all(&db, &between).await;
        samples.extend(between);
        drop(pause);
        let cause = job.await.unwrap().unwrap_err().to_string();
        assert!(cause.contains("was listed since"), "{cause}");
    });
    samples.sort_by_key(|sample| sample.1);
    assert_eq!(maintain(&process).rolled_up, 1);
    let range = (START, START + 32 * HOUR - 1);
    let choice = RollupChoice {
        step_ms: HOUR / 2,
        range_ms: HOUR / 2,
        ..hourly()
    };
    check_windows(&process.run(select(&process.db, range, choice)), &samples);
}

/// A level of windows that is made of windows, while late samples and a deletion come in.
#[test]
fn a_job_of_windows_holds_back_what_would_change_them() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let full = |level, days| (level, days, ColumnSet::Full);
    process.db.set_retention(Some(policy_of([
        full(RAW, 21),
        full(FIVE, 90),
        full(HOURLY, 365),
    ])));
    let mut samples = samples(0..140);
    process.run(write_all(&process.db, &samples));
    let db = process.db.clone();
    let late = ("gauge", START + 50 * HOUR + 90_500, 77.0);
    let (from, to) = (START + 70 * HOUR, START + 71 * HOUR - 1);
    process.run(async {
        for _ in 0..4 {
            db.roll_up_now(None).await.unwrap();
        }
        let pause = db.pause_at("roll_up.held");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.roll_up_now(None).await }
        });
        pause.reached().await;
        write(&db, &[late]).await;
        let changes = tokio::spawn({
            let db = db.clone();
            async move {
                db.flush_buckets().await.unwrap();
                let deletion = Deletion {
                    selectors: vec![vec![Matcher::equal("series", "counter")]],
                    start_ms: from,
                    end_ms: to,
                };
                db.delete_series(deletion).await.unwrap();
                db.flush_buckets().await.unwrap();
            }
        });
        until("the flush waits for the job", || db.flush_waits()).await;
        drop(pause);
        job.await.unwrap().unwrap();
        changes.await.unwrap();
    });
    samples.push(late);
    samples.retain(|(series, time, _)| *series != "counter" || !(from..=to).contains(time));
    samples.sort_by_key(|sample| sample.1);
    let range = (START, START + 128 * HOUR - 1);
    for made_again in [false, true] {
        if made_again {
            maintain(&process);
        }
        let selected = process.run(select(&process.db, range, hourly()));
        check_windows_of(&selected, |series, resolution| {
            let five = expected(&samples, series, FIVE);
            roll_up_windows(resolution, &five)
        });
        let levels = &selected[0].rolled.as_ref().unwrap().levels;
        let all = segments(levels)[1..] == [(0, 128, HOURLY)];
        assert_eq!(all, made_again);
        let raw = segments(levels).contains(&(50, 51, RAW));
        assert_eq!(raw, !made_again, "the late sample is seen");
    }
    drop(process);
    world.check();
}

#[test]
fn a_damaged_bucket_of_windows_fails_its_queries_alone() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write_all(&process.db, &samples(0..140)));
    maintain(&process);
    set_clock(&world, START + 60 * DAY);
    maintain(&process);
    let damaged = process
        .db
        .rolled()
        .into_iter()
        .find(|b| b.size.exponent() == 8);
    let key = key::bucket_meta(damaged.unwrap());
    let damage = vec![(key.clone(), Some("damaged".into()))];
    process.run(process.db.replace_records(damage)).unwrap();
    process.close();
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let first = selection(everything().matchers, START, START + HOUR);
    let of_five = process.run(process.db.select(first));
    assert!(of_five.is_ok(), "another level has it");
    let choice = RolledTime::Windows(hourly(), WindowFields::SUM);
    let wanted = |start, end| Selection {
        hints: SelectHints {
            rolled: choice,
            ..SelectHints::default()
        },
        ..selection(everything().matchers, start, end)
    };
    let failed = process
        .run(process.db.select(wanted(START, START + HOUR)))
        .err();
    assert!(
        failed.is_some_and(|cause| cause.to_string().contains("damaged")
            || cause.to_string().contains("BucketMeta"))
    );
    let rest = wanted(START + 132 * HOUR, START + 140 * HOUR);
    assert!(process.run(process.db.select(rest)).is_ok());
    let refused = process.run(write(&process.db, &[("gauge", START + HOUR, 1.0)]));
    assert_eq!(refused.samples, 0);
}

/// A large bucket of samples reaches into windows that have none.
#[test]
fn windows_without_samples_have_no_series() {
    let world = world(START + 200 * DAY);
    let process = world.start();
    let mut all = samples(0..8);
    all.extend(samples(200..256));
    process.run(write_all(&process.db, &all));
    let exponents: Vec<u8> = process
        .db
        .listed()
        .iter()
        .map(|b| b.size.exponent())
        .collect();
    assert_eq!(exponents, [9], "one bucket of 256 h");
    process.db.set_retention(Some(policy([250, 300, 365])));
    maintain(&process);
    let five = process.db.rolled_levels().into_iter();
    let five = five.filter(|(level, _)| *level == FIVE);
    let empty: Vec<Bucket> = five
        .map(|(_, bucket)| bucket)
        .filter(|bucket| records_of(&process, *bucket).len() == 1)
        .collect();
    let starts: Vec<i64> = empty
        .iter()
        .map(|b| (b.start_ms() - START) / HOUR)
        .collect();
    assert_eq!(
        starts,
        [32, 64, 96, 128, 160],
        "only what says that they are there"
    );
    let range = (START, START + 256 * HOUR - 1);
    check_windows(&process.run(select(&process.db, range, hourly())), &all);
    process.close();
    world.check();
}
