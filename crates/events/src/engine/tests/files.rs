//! Files: sealing, merging, retention, and what a view has of them.

use std::time::Duration;

use icecore_model::event::EventWindow;

use super::{BASE_S, Bench, DOCUMENTS, NOW_MS, id, open, order, raw_events};
use crate::engine::{EventOptions, PublishStatus};
use crate::testing::{Fault, Operation};

const DAY_S: i64 = 86_400;

/// Longest wait for something that has to happen. Only a test that fails reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn events_are_sealed_by_service_week_and_type() {
    let bench = Bench::new().await;
    let mut orders = vec![order(1, 0, "web", 1, 1.0), order(2, -5, "app", 1, 1.0)];
    orders.push(order(3, -8 * DAY_S, "web", 1, 1.0));
    bench.publish_all(&orders).await;
    bench.events.seal().await.unwrap();
    let paths = bench.store.memory_files().paths();
    let expected = ["2026w44", "2026w46"];
    let expected = expected
        .map(|week| format!("events/service=shop/week={week}/type=order.placed/1-1-0.jsonl"));
    // 2026-11-01 is a Sunday of week 44.
    assert_eq!(paths, expected);
    assert_eq!(bench.raw_ids().await, [id(1), id(2), id(3)]);
    assert_eq!(bench.events.gauges().tail_events, 0);
    assert_eq!(bench.store.journal_blocks(), 0);
    let view = bench.events.view().await.unwrap();
    let file = &view.all_files().await.unwrap()[1];
    let starts = (file.min_started_ns, file.max_started_ns);
    assert_eq!(
        starts,
        ((BASE_S - 5) * 1_000_000_000, BASE_S * 1_000_000_000)
    );
    let wanted = file.week..file.week.next();
    let files = view
        .files(file.service, wanted, Some(file.event_type))
        .await;
    assert_eq!(files.unwrap(), std::slice::from_ref(file));
}

#[tokio::test]
async fn only_flushed_blocks_are_sealed() {
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    bench.publish(&order(2, 0, "web", 1, 1.0)).await;
    bench.events.seal_flushed().await.unwrap();
    assert_eq!(bench.events.gauges().tail_events, 1);
    assert_eq!(bench.store.journal_blocks(), 1);
    assert_eq!(bench.raw_ids().await, [id(1), id(2)]);
}

#[tokio::test]
async fn a_failed_put_leaves_everything_in_the_tail() {
    let mut bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.store.memory_files().fail_puts(1);
    assert!(bench.events.seal().await.is_err());
    assert_eq!(bench.raw_ids().await, [id(1)]);
    bench.crash(0).await;
    bench.events.seal().await.unwrap();
    assert_eq!(bench.raw_ids().await, [id(1)]);
}

#[tokio::test]
async fn small_files_are_merged_while_they_are_read() {
    let options = EventOptions {
        merge_files: 3,
        merge_up_to_events: 3,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    for number in 1..=5 {
        bench.publish(&order(number, 0, "web", 1, 1.0)).await;
        bench.events.seal().await.unwrap();
    }
    let before = bench.events.view().await.unwrap();
    assert_eq!(bench.events.merge_files().await.unwrap(), 5);
    let view = bench.events.view().await.unwrap();
    let files = view.all_files().await.unwrap();
    let events: Vec<u64> = files.iter().map(|file| file.events).collect();
    // Two are few, and yet more than half of what a file may have.
    assert_eq!(events, [3, 2]);
    let all = [1, 2, 3, 4, 5].map(id);
    assert_eq!(bench.raw_ids().await, all);
    // Whoever began before still finds the files of that time.
    bench.events.clean_up().await.unwrap();
    assert_eq!(raw_events(&before).await.len(), 5);
    assert_eq!(bench.store.memory_files().paths().len(), 7);
    bench.clock.advance(601_000);
    bench.events.clean_up().await.unwrap();
    assert_eq!(bench.store.memory_files().paths().len(), 2);
    assert_eq!(bench.raw_ids().await, all);
}

/// Whatever times files and snapshots have.
#[tokio::test]
async fn files_that_a_snapshot_lists_stay_as_long_as_it_does() {
    let options = EventOptions {
        merge_files: 2,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    let files = bench.store.memory_files();
    files.set_now_ms(NOW_MS + 366 * DAY_S * 1_000);
    for number in 1..=2 {
        bench.publish(&order(number, 0, "web", 1, 1.0)).await;
        bench.events.seal().await.unwrap();
    }
    files.set_now_ms(NOW_MS);
    bench.store.keep("first");
    let first = files.paths();
    assert_eq!(bench.events.merge_files().await.unwrap(), 2);
    bench.store.keep("second");
    let clean_up = async || {
        bench.events.clean_up().await.unwrap();
        bench.clock.advance(601_000);
        bench.events.clean_up().await.unwrap();
        files.paths()
    };
    let all = clean_up().await;
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(first.iter().all(|path| all.contains(path)), "{all:?}");
    assert_eq!(clean_up().await, all);
    assert_eq!(bench.store.kept_reads(), 2, "each is read once");
    bench.store.forget("first");
    assert_eq!(clean_up().await.len(), 1);
    assert_eq!(bench.raw_ids().await, [id(1), id(2)]);
}

#[tokio::test]
async fn sealing_does_not_wait_for_the_lists_of_snapshots() {
    let options = EventOptions {
        merge_files: 2,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    for number in 1..=2 {
        bench.publish(&order(number, 0, "web", 1, 1.0)).await;
        bench.events.seal().await.unwrap();
    }
    bench.store.keep("first");
    assert_eq!(bench.events.merge_files().await.unwrap(), 2);
    // As a seal has it.
    let work = bench.events.engine.files.lock().await;
    let mut cleaning = std::pin::pin!(bench.events.clean_up());
    let read = async {
        while bench.store.kept_reads() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = &mut cleaning => panic!("files are dropped while others work on them"),
        read = tokio::time::timeout(PATIENCE, read) => read.expect("the lists are read"),
    }
    drop(work);
    cleaning.await.unwrap();
}

/// Events of files that overlap come in the order of their starts: the format asserts it.
#[tokio::test]
async fn merged_files_are_sorted_and_never_merged_again_once_they_are_large() {
    let options = EventOptions {
        merge_files: 3,
        merge_up_to_events: 40,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    let mut number = 0;
    let mut seal = async |events: u32| {
        let orders: Vec<_> = (0..events)
            .map(|n| order(number + n, i64::from(n * 7 % 20), "web", 1, 1.0))
            .collect();
        number += events;
        bench.publish_all(&orders).await;
        bench.events.seal().await.unwrap();
        bench.events.merge_files().await.unwrap();
        let files = bench
            .events
            .view()
            .await
            .unwrap()
            .all_files()
            .await
            .unwrap();
        files.iter().map(|file| file.events).collect::<Vec<u64>>()
    };
    assert_eq!(seal(5).await, [5]);
    assert_eq!(seal(5).await, [5, 5]);
    // Three are enough.
    assert_eq!(seal(5).await, [15]);
    // Two are half of what a file may have: it is as large as it gets.
    assert_eq!(seal(10).await, [25]);
    assert_eq!(seal(15).await, [25, 15]);
    assert_eq!(seal(15).await, [25, 30]);
    let view = bench.events.view().await.unwrap();
    let files = view.all_files().await.unwrap();
    let of_file = |file: &crate::EventFile| (file.min_started_ns, file.max_started_ns);
    let second_ns = |second: i64| (BASE_S + second) * 1_000_000_000;
    assert_eq!(of_file(&files[0]), (second_ns(0), second_ns(16)));
    let expected: Vec<_> = (0..55).map(id).collect();
    assert_eq!(bench.raw_ids().await, expected);
}

/// What takes long is done beside sealing.
#[tokio::test]
async fn sealing_goes_on_while_files_are_merged() {
    let options = EventOptions {
        merge_files: 2,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    for number in 1..=2 {
        bench.publish(&order(number, 0, "web", 1, 1.0)).await;
        bench.events.seal().await.unwrap();
    }
    let _merging = bench.events.engine.merging.lock().await;
    bench.publish(&order(3, 0, "web", 1, 1.0)).await;
    bench.events.seal().await.unwrap();
    assert_eq!(bench.events.gauges().tail_events, 0);
}

#[tokio::test]
async fn what_a_crash_left_behind_is_dropped_after_an_hour() {
    use icecore_model::event::EventFileStore as _;
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.seal().await.unwrap();
    let files = bench.store.memory_files();
    files.put("events/orphan.jsonl", "x".into()).await.unwrap();
    bench.events.clean_up().await.unwrap();
    // What time the machine has says nothing about files.
    bench.clock.jump(366 * DAY_S * 1_000);
    bench.clock.advance(3_599_000);
    bench.events.clean_up().await.unwrap();
    assert_eq!(files.paths().len(), 2);
    bench.clock.advance(1_000);
    bench.events.clean_up().await.unwrap();
    assert_eq!(files.paths().len(), 1);
    assert_eq!(bench.raw_ids().await, [id(1)]);
}

#[tokio::test]
async fn what_is_an_hour_older_than_the_newest_file_is_not_waited_for_as_long() {
    use icecore_model::event::EventFileStore as _;
    let bench = Bench::new().await;
    let files = bench.store.memory_files();
    files.put("events/orphan.jsonl", "x".into()).await.unwrap();
    files.set_now_ms(NOW_MS + 3_600_000);
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.seal().await.unwrap();
    // It was seen for the first time a moment ago: somebody may be reading it.
    bench.events.clean_up().await.unwrap();
    assert_eq!(files.paths().len(), 2);
    bench.clock.advance(600_000);
    bench.events.clean_up().await.unwrap();
    assert_eq!(files.paths().len(), 1);
    assert_eq!(bench.raw_ids().await, [id(1)]);
}

#[tokio::test]
async fn files_of_a_merge_with_an_unknown_outcome_stay_while_they_are_read() {
    let options = EventOptions {
        merge_files: 2,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    for number in 1..=2 {
        bench.publish(&order(number, 0, "web", 1, 1.0)).await;
        bench.events.seal().await.unwrap();
    }
    // Older than what a crash may have left behind.
    bench.clock.advance(7_200_000);
    bench.store.memory_files().set_now_ms(NOW_MS + 7_200_000);
    let before = bench.events.view().await.unwrap();
    bench.store.fail(Operation::Write, Fault::AppliedWithError);
    let merging = bench.events.merge_files();
    let fail_the_look = async {
        while bench.store.memory_files().paths().len() < 3 {
            tokio::task::yield_now().await;
        }
        bench.store.fail(Operation::Snapshot, Fault::Lost);
    };
    let (merged, ()) = tokio::join!(merging, fail_the_look);
    assert!(merged.is_err());
    bench.events.clean_up().await.unwrap();
    assert_eq!(raw_events(&before).await.len(), 2);
    bench.clock.advance(600_000);
    bench.events.clean_up().await.unwrap();
    assert_eq!(bench.store.memory_files().paths().len(), 1);
    assert_eq!(bench.raw_ids().await, [id(1), id(2)]);
}

#[tokio::test]
async fn files_of_a_retention_with_an_unknown_outcome_stay_while_they_are_read() {
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.seal().await.unwrap();
    bench.clock.advance(7_200_000);
    let before = bench.events.view().await.unwrap();
    bench.store.fail(Operation::Write, Fault::AppliedWithError);
    bench.clock.advance(60 * DAY_S * 1_000);
    let later_ms = NOW_MS + 60 * DAY_S * 1_000;
    assert!(bench.events.run_retention(later_ms).await.is_err());
    bench.events.clean_up().await.unwrap();
    assert_eq!(raw_events(&before).await.len(), 1);
    // No file is newer, by which its age would be known.
    bench.clock.advance(3_600_000);
    bench.events.clean_up().await.unwrap();
    assert!(bench.store.memory_files().paths().is_empty());
}

#[tokio::test]
async fn sets_without_cells_leave_the_dictionary() {
    let mut bench = Bench::new().await;
    let sets = async |bench: &Bench| {
        let view = bench.events.view().await.unwrap();
        let (_, orders) = view.registry().services["shop"].metric("orders").unwrap();
        let sets = view.all_dimension_sets(orders.number).await.unwrap();
        let texts = sets.into_iter().map(|set| set.values[0].1.clone());
        let mut texts: Vec<String> = texts.collect();
        texts.sort();
        texts
    };
    for (number, channel) in [(1, "gone"), (2, "late"), (3, "web")] {
        bench.publish(&order(number, 0, channel, 1, 1.0)).await;
    }
    bench.events.flush().await.unwrap();
    // Cells of a day are kept for 1830 days, and go by whole weeks.
    bench.clock.advance(1_800 * DAY_S * 1_000);
    bench.publish(&order(4, 1_800 * DAY_S, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    let now_ms = |bench: &Bench| icecore_model::Clock::now_ms(&*bench.clock);
    let run = async |bench: &Bench, at_ms: i64| {
        let report = bench.events.run_retention(at_ms).await.unwrap();
        report.dimension_sets
    };
    // A time that has not come takes no set away.
    assert_eq!(run(&bench, now_ms(&bench) + 90 * DAY_S * 1_000).await, 0);
    assert_eq!(sets(&bench).await, ["gone", "late", "web"]);
    bench.clock.advance(60 * DAY_S * 1_000);
    // It came again, and is not flushed yet.
    bench
        .publish(&order(5, 1_860 * DAY_S, "late", 1, 1.0))
        .await;
    let culled = run(&bench, now_ms(&bench)).await;
    assert!(culled > 0);
    assert_eq!(sets(&bench).await, ["late", "web"]);
    bench.events.flush().await.unwrap();
    assert_eq!(sets(&bench).await, ["late", "web"]);
    bench.crash(0).await;
    assert_eq!(sets(&bench).await, ["late", "web"]);
    // Once a day, and at the first look.
    assert_eq!(run(&bench, now_ms(&bench)).await, 0);
}

/// After a pause the guarded clock is behind, and events are of the machine's time.
#[tokio::test]
async fn a_set_that_came_while_the_clock_caught_up_stays_as_long_as_its_cells() {
    let bench = Bench::new().await;
    bench.clock.jump(60 * DAY_S * 1_000);
    bench.publish(&order(1, 60 * DAY_S, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    bench.clock.advance(1_800 * DAY_S * 1_000);
    let now_ms = icecore_model::Clock::now_ms(&*bench.clock);
    let report = bench.events.run_retention(now_ms).await.unwrap();
    assert_eq!(report.dimension_sets, 0);
    bench.clock.advance(60 * DAY_S * 1_000);
    let now_ms = icecore_model::Clock::now_ms(&*bench.clock);
    let report = bench.events.run_retention(now_ms).await.unwrap();
    assert!(report.dimension_sets > 0);
}

#[tokio::test]
async fn what_is_too_old_is_not_shown_and_then_dropped() {
    let mut bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.publish(&order(2, -29 * DAY_S, "web", 1, 1.0)).await;
    bench.events.seal().await.unwrap();
    bench.publish(&order(3, -28 * DAY_S, "web", 1, 1.0)).await;
    // A day and a half later the second is not kept, the third is still in the tail.
    let later_ms = NOW_MS + 36 * 3_600_000;
    bench.clock.advance(36 * 3_600_000);
    let view = bench.events.view().await.unwrap();
    let events = raw_events(&view).await;
    let kept: Vec<_> = events.iter().filter(|event| view.is_kept(event)).collect();
    assert_eq!(kept.len(), 2);
    let report = bench.events.run_retention(later_ms).await.unwrap();
    // Its week is not over for long enough: 30 days after the end of the week.
    assert_eq!(report.files, 0);
    // A time that has not come drops nothing more.
    let week_later_ms = later_ms + 7 * DAY_S * 1000;
    let report = bench.events.run_retention(week_later_ms).await.unwrap();
    assert_eq!((report.files, report.identity_weeks), (0, 0));
    bench.clock.advance(7 * DAY_S * 1000);
    let report = bench.events.run_retention(week_later_ms).await.unwrap();
    assert_eq!((report.files, report.events), (1, 1));
    assert!(report.cell_weeks > 0);
    assert_eq!(report.identity_weeks, 1);
    let all = bench.counts("all_orders", EventWindow::FiveSeconds).await;
    assert_eq!(all.values().sum::<i64>(), 1);
    // Cells of an hour are kept for longer.
    let all = bench.counts("all_orders", EventWindow::Hour).await;
    assert_eq!(all.values().sum::<i64>(), 3);
    bench.crash(0).await;
    let repeat = bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    assert_eq!(repeat, PublishStatus::Duplicate);
}

/// Sealing may be far off: what lies in the journal goes all the same, and gets no file.
#[tokio::test]
async fn what_is_too_old_leaves_the_journal() {
    let mut bench = Bench::new().await;
    let files = async |bench: &Bench| {
        let view = bench.events.view().await.unwrap();
        view.all_files().await.unwrap().len()
    };
    bench.publish(&order(1, -29 * DAY_S, "web", 1, 1.0)).await;
    bench.publish(&order(2, 0, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    // The week of the first one ends up to 7 days after it, and is kept for 30 days.
    bench.clock.advance(9 * DAY_S * 1_000);
    bench.crash(0).await;
    let now_ms = icecore_model::Clock::now_ms(&*bench.clock);
    let report = bench.events.run_retention(now_ms).await.unwrap();
    assert_eq!((report.files, report.events), (0, 1));
    assert_eq!(bench.store.journal_blocks(), 0);
    assert_eq!(bench.raw_ids().await, [id(2)]);
    assert_eq!(files(&bench).await, 1);
    // Sealing does the same.
    bench.publish(&order(3, -20 * DAY_S, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    bench.clock.advance(18 * DAY_S * 1_000);
    bench.events.seal_flushed().await.unwrap();
    assert_eq!(bench.raw_ids().await, [id(2)]);
    assert_eq!(files(&bench).await, 1);
    // A later run finds nothing to do.
    let now_ms = icecore_model::Clock::now_ms(&*bench.clock);
    let report = bench.events.run_retention(now_ms).await.unwrap();
    assert_eq!((report.files, report.events), (0, 0));
}

/// A clock that is a year ahead for a while deletes nothing, hides nothing and forgets no event.
#[tokio::test]
async fn a_clock_that_is_ahead_drops_nothing() {
    let mut bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    bench.events.seal().await.unwrap();
    let ahead_ms = 366 * DAY_S * 1_000;
    bench.clock.jump(ahead_ms);
    bench.clock.advance(8_000);
    // What comes meanwhile has cells of all windows, too.
    bench.publish(&order(2, 60, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    bench.events.seal().await.unwrap();
    let now_ms = icecore_model::Clock::now_ms(&*bench.clock);
    let report = bench.events.run_retention(now_ms).await.unwrap();
    assert_eq!((report.files, report.identity_weeks), (0, 0));
    assert_eq!((report.cell_weeks, report.dimension_sets), (0, 0));
    bench.events.clean_up().await.unwrap();
    let view = bench.events.view().await.unwrap();
    let events = raw_events(&view).await;
    assert_eq!(events.iter().filter(|event| view.is_kept(event)).count(), 2);
    let counts = bench.counts("orders", EventWindow::FiveSeconds).await;
    assert_eq!(counts.values().sum::<i64>(), 2);
    bench.clock.jump(-ahead_ms);
    bench.crash(0).await;
    for (number, after_s) in [(1, 0), (2, 60)] {
        let repeat = bench.publish(&order(number, after_s, "web", 1, 1.0)).await;
        assert_eq!(repeat, PublishStatus::Duplicate);
    }
}

/// Of a clock that is at 1970 for a while nothing is left.
#[tokio::test]
async fn a_clock_at_1970_stops_nothing() {
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.seal().await.unwrap();
    let behind_ms = icecore_model::Clock::now_ms(&*bench.clock);
    bench.clock.jump(-behind_ms);
    bench.clock.advance(8_000);
    assert_eq!(bench.events.run_retention(0).await.unwrap().files, 0);
    bench.clock.jump(behind_ms);
    bench.clock.advance(60 * DAY_S * 1_000);
    let now_ms = icecore_model::Clock::now_ms(&*bench.clock);
    assert_eq!(bench.events.run_retention(now_ms).await.unwrap().files, 1);
}

#[tokio::test]
async fn cells_that_come_after_the_clock_went_back_are_dropped_in_their_turn() {
    let day_ms = DAY_S * 1_000;
    let bench = Bench::new().await;
    let retention = async || {
        let now_ms = icecore_model::Clock::now_ms(&*bench.clock);
        let report = bench.events.run_retention(now_ms).await.unwrap();
        report.cell_weeks
    };
    let mut dropped = Vec::new();
    for number in 1..=2 {
        bench.publish(&order(number, 0, "web", 1, 1.0)).await;
        bench.events.flush().await.unwrap();
        assert_eq!(retention().await, 0);
        // Years ahead, until the guarded clock is there as well, and back.
        bench.clock.jump(9_000 * day_ms);
        bench.clock.advance(1_000 * day_ms);
        dropped.push(retention().await);
        bench.clock.jump(-11_000 * day_ms);
        bench.clock.advance(1_000 * day_ms);
    }
    assert!(dropped[0] > 0, "{dropped:?}");
    assert_eq!(dropped[0], dropped[1]);
}

/// A writer that another one has taken over from ends what it has begun.
#[tokio::test]
async fn a_writer_that_was_replaced_changes_no_listed_file() {
    use icecore_model::event::EventFileStore as _;
    let mut old = Bench::new().await;
    old.publish(&order(1, 0, "web", 1, 1.0)).await;
    old.events.flush().await.unwrap();
    let taken_over = old.store.reopen(0);
    let events = open(&taken_over, &old.clock, &old.options).await;
    events.seal().await.unwrap();
    let files = taken_over.memory_files();
    let listed = files.paths();
    let content = async |path: &str| {
        let all = files.list().await.unwrap().into_iter();
        let bytes = all.filter(|file| file.path == path).map(|file| file.bytes);
        files.read(path, 0..bytes.sum()).await.unwrap()
    };
    let before = content(&listed[0]).await;
    // It learns that all of it is sealed, or nothing, where the store does not talk to it any more.
    let _ = old.events.seal().await;
    let left = files.paths();
    assert_eq!((listed.len(), left.len()), (1, 2), "{left:?}");
    assert_eq!(content(&listed[0]).await, before);
    old.events = events;
    old.store = taken_over;
    assert_eq!(old.raw_ids().await, [id(1)]);
}
