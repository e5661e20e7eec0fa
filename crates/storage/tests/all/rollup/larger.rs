//! Windows that are all that is left of their time lie in larger buckets.

use super::*;

/// A counter and a gauge, three times an hour.
fn sparse(hours: std::ops::Range<i64>) -> Vec<(&'static str, i64, f64)> {
    let thirds = (hours.start * 3..hours.end * 3).map(|third| (third, START + third * 1_200_000));
    thirds
        .flat_map(|(third, time)| {
            let counter = ("counter", time + 7, (third % 111) as f64);
            [counter, ("gauge", time, (third as f64 / 10.0).sin())]
        })
        .collect()
}

fn two_levels() -> RetentionPolicy {
    let full = ColumnSet::Full;
    policy_of([(RAW, 6, full), (HOURLY, 200, full)])
}

/// A store with nine buckets of 128 hours, which are all that is left of what was written.
fn aged() -> (World, Process, Vec<(&'static str, i64, f64)>) {
    let world = world(START + 1100 * HOUR);
    let process = world.start();
    let samples = sparse(0..1100);
    // A request may touch so many hours only.
    let (first, last) = samples.split_at(samples.len() / 2);
    process.run(write_all(&process.db, first));
    process.run(write_all(&process.db, last));
    process.db.set_retention(Some(two_levels()));
    set_clock(&world, START + 1024 * HOUR + 20 * DAY);
    maintain(&process);
    assert_eq!(process.db.listed(), []);
    set_clock(&world, START + 1024 * HOUR + 31 * DAY);
    (world, process, samples)
}

fn sizes(process: &Process) -> Vec<u8> {
    let rolled = process.db.rolled().into_iter();
    rolled.map(|bucket| bucket.size.exponent()).collect()
}

/// All of the time of the larger bucket.
const WHOLE: (i64, i64) = (START, START + 1024 * HOUR - 1);

#[test]
fn larger_buckets_take_the_place_of_smaller_ones() {
    let (world, process, samples) = aged();
    assert_eq!(sizes(&process), [8; 9]);
    let before = process.run(read(&process.db, everything()));
    let report = maintain(&process);
    assert_eq!((report.coarsened, report.retired), (1, 8), "{report:?}");
    assert_eq!(sizes(&process), [8, 11]);
    let selected = process.run(select(&process.db, WHOLE, hourly()));
    check_windows(&selected, &samples);
    let left = process.run(read(&process.db, everything()));
    assert_eq!(left, before, "first and last samples");
    let again = maintain(&process);
    assert_eq!((again.coarsened, again.rolled_up), (0, 0));
    let refused = process.run(write(&process.db, &[("gauge", START + 1, 1.0)]));
    assert_eq!(refused.samples, 0);
    process.close();
    world.check();

    // As after a restart; a deletion takes whole windows.
    let process = world.start();
    process.db.set_retention(Some(two_levels()));
    let (from, to) = (START + 500 * HOUR, START + 510 * HOUR - 1);
    delete(&process, "counter", from - START, to - START);
    let mut left = samples;
    left.retain(|(series, time, _)| *series != "counter" || !(from..=to).contains(time));
    check_windows(&process.run(select(&process.db, WHOLE, hourly())), &left);
    maintain(&process);
    check_windows(&process.run(select(&process.db, WHOLE, hourly())), &left);
    assert_eq!(sizes(&process), [8, 11]);
    process.close();
    world.check();

    // It goes when all of it is too old.
    let process = world.start();
    process.db.set_retention(Some(two_levels()));
    set_clock(&world, START + 1024 * HOUR + 200 * DAY - HOUR);
    maintain(&process);
    assert_eq!(sizes(&process), [8, 11]);
    set_clock(&world, START + 1024 * HOUR + 200 * DAY);
    maintain(&process);
    assert_eq!(sizes(&process), [8]);
    process.close();
    world.check();
}

#[test]
fn an_interrupted_larger_bucket_goes_on() {
    let (world, process, samples) = aged();
    // What was deleted before does not come along.
    let (from, to) = (START + 300 * HOUR, START + 301 * HOUR - 1);
    delete(&process, "gauge", from - START, to - START);
    let mut left = samples;
    left.retain(|(series, time, _)| *series != "gauge" || !(from..=to).contains(time));
    process.close();
    let mut writes = 0;
    let mut resumed = 0;
    loop {
        let process = world.start();
        process.db.set_retention(Some(two_levels()));
        // The clock of retention goes on from what it was.
        world.clock.advance(2 * DAY);
        let built = process.run(process.db.coarsen_windows_now(Some(writes)));
        check_windows(&process.run(select(&process.db, WHOLE, hourly())), &left);
        if let Ok(built) = built {
            resumed += usize::from(built.resumed);
            assert_eq!((built.sources, built.series), (8, 2));
            process.crash();
            break;
        }
        writes += 1;
        assert!(writes < 50, "{built:?}");
        if writes % 2 == 0 {
            process.close();
        } else {
            process.crash();
        }
        world.check();
    }
    // How much a crash takes along depends on when the WAL is written out.
    assert!(writes > 2 && resumed == 1, "{writes} writes");
    let process = world.start();
    process.db.set_retention(Some(two_levels()));
    assert_eq!(sizes(&process), [8, 11]);
    check_windows(&process.run(select(&process.db, WHOLE, hourly())), &left);
    maintain(&process);
    check_windows(&process.run(select(&process.db, WHOLE, hourly())), &left);
    process.close();
    world.check();
}

#[test]
fn windows_stay_in_small_buckets_while_something_finer_is_left() {
    let world = world(START + 1100 * HOUR);
    let process = world.start();
    process.run(write_all(&process.db, &sparse(0..600)));
    process.run(write_all(&process.db, &sparse(600..1100)));
    process.db.set_retention(Some(policy([6, 90, 365])));
    maintain(&process);
    set_clock(&world, START + 1024 * HOUR + 60 * DAY);
    maintain(&process);
    let nothing = process.run(process.db.coarsen_windows_now(None));
    assert!(nothing.is_err_and(|cause| cause.to_string().contains("nothing")));
    let hourly = process.db.rolled_levels().into_iter();
    let hourly = hourly.filter(|(level, _)| *level == HOURLY);
    assert!(
        hourly
            .map(|(_, bucket)| bucket.size.exponent())
            .all(|e| e == 8)
    );
    set_clock(&world, START + 1024 * HOUR + 100 * DAY);
    maintain(&process);
    assert_eq!(sizes(&process), [8, 11]);
    process.close();
    world.check();
}
