//! A store that fails for a while: who waits is told, and what was sent is stored once.

use std::time::{Duration, Instant};

use icecore_storage::testing::{Fault, FaultPlan, Operation};
use icecore_storage::{Error, WriteError, WriteOutcome};

use crate::deltas::{delta, only_series, try_send};
use crate::process::{Process, World};
use crate::support::*;

/// Until a write that is not committed is told so. Short, because tests wait for it; a write that
/// succeeds may take longer on a loaded machine and is sent again then.
const COMMIT_TIMEOUT: Duration = Duration::from_millis(300);

fn world() -> World {
    let mut world = World::new();
    world.options.journal.commit_timeout = COMMIT_TIMEOUT;
    world
}

/// From the next start on every write has time to be committed.
fn be_patient(world: &mut World) {
    world.options.journal.commit_timeout = PATIENCE;
}

/// Sends something until it is committed in time.
fn stored(mut send: impl FnMut() -> Result<WriteOutcome, WriteError<()>>) -> WriteOutcome {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match send() {
            Ok(outcome) => return outcome,
            Err(cause) => {
                assert!(Instant::now() < give_up, "{cause:?}");
                told_to_come_back(Err(cause));
            }
        }
    }
}

/// Nothing can be written until [`Process::recovers`].
fn fails(process: &Process) {
    let faults = &process.faults;
    faults.script(Operation::Put, "", Fault::NotApplied, usize::MAX);
}

fn recovers(process: &Process) {
    process.faults.end_script();
    process.run(until("all is committed", || {
        process.db.gauges().journal_lag == 0 && process.db.unready().is_none()
    }));
}

#[track_caller]
fn told_to_come_back(answer: Result<WriteOutcome, WriteError<()>>) -> String {
    match answer {
        Err(WriteError::Storage(Error::Unavailable(reason))) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

fn one(t: i64, value: f64) -> Vec<(String, i64, f64)> {
    vec![("a".to_owned(), T0 + t, value)]
}

#[test]
fn a_write_that_was_not_committed_in_time_is_stored_once() {
    let world = world();
    let process = world.start();
    let db = &process.db;
    stored(|| process.run(try_write(db, one(0, 1.0))));
    assert_eq!(db.unready(), None);
    fails(&process);
    let reason = told_to_come_back(process.run(try_write(db, one(1, 2.0))));
    assert!(
        reason.contains("journal.commit_timeout = 300ms"),
        "{reason}"
    );
    process.run(until("the failure lasts", || {
        db.unready().is_some() && db.store_figures().since_write >= Duration::from_secs(1)
    }));
    let unready = db.unready().expect("commits fail");
    assert!(unready.contains("injected fault"), "{unready}");
    let figures = db.store_figures();
    assert!(figures.failing && figures.errors[0] > 0, "{figures:?}");
    // Told to come back at once, and not queued again and again.
    let queued = db.gauges().journal_queued_bytes;
    let reason = told_to_come_back(process.run(try_write(db, one(1, 2.0))));
    assert!(reason.contains("injected fault"), "{reason}");
    assert_eq!(db.gauges().journal_queued_bytes, queued);
    recovers(&process);
    assert!(!db.store_figures().failing);
    let content = expected(&[("a", T0, 1.0), ("a", T0 + 1, 2.0)]);
    assert_eq!(process.run(read(db, everything())), content);
    stored(|| process.run(try_write(db, one(1, 2.0))));
    assert_eq!(process.run(read(db, everything())), content);
    process.crash();
    let process = world.start();
    assert_eq!(process.run(read(&process.db, everything())), content);
}

#[test]
fn a_delta_that_was_not_committed_in_time_is_added_once() {
    let mut world = world();
    let process = world.start();
    let send = |process: &Process, end: i64| {
        let point = delta("a", T0 + end - 10, T0 + end, 5.0);
        process.run(try_send(&process.db, vec![point]))
    };
    stored(|| send(&process, 10));
    fails(&process);
    told_to_come_back(send(&process, 20));
    recovers(&process);
    let again = stored(|| send(&process, 20));
    assert_eq!((again.samples, again.duplicates), (0, 1));
    let totals = |process: &Process| only_series(process).floats.values;
    assert_eq!(totals(&process), [5.0, 10.0]);
    // The same when the process ends before the store is back.
    fails(&process);
    told_to_come_back(send(&process, 30));
    process.crash();
    be_patient(&mut world);
    let process = world.start();
    assert_eq!(totals(&process), [5.0, 10.0]);
    assert_eq!(send(&process, 30).expect("sent again").duplicates, 0);
    assert_eq!(totals(&process), [5.0, 10.0, 15.0]);
    process.crash();
    let process = world.start();
    assert_eq!(totals(&process), [5.0, 10.0, 15.0]);
}

/// A resend that holds nothing new is acknowledged only when what it repeats is durable.
#[test]
fn a_resend_is_not_acknowledged_before_what_it_repeats() {
    let mut world = world();
    let process = world.start();
    fails(&process);
    let point = || vec![delta("a", T0, T0 + 10, 5.0)];
    told_to_come_back(process.run(try_send(&process.db, point())));
    told_to_come_back(process.run(try_send(&process.db, point())));
    process.crash();
    be_patient(&mut world);
    let process = world.start();
    let outcome = process.run(try_send(&process.db, point())).expect("stored");
    assert_eq!(outcome.duplicates, 0, "neither was acknowledged");
}

/// A store that is slow, not broken: nobody is kept for longer than the limit.
#[test]
fn a_slow_commit_is_not_waited_for_for_ever() {
    let world = world();
    let plan = FaultPlan {
        delay: 1.0,
        delay_max: Duration::from_secs(3600),
        ..FaultPlan::quiet(3)
    };
    let process = world.start_quietly(plan);
    stored(|| process.run(try_write(&process.db, one(0, 1.0))));
    process.faults.set_enabled(true);
    told_to_come_back(process.run(try_write(&process.db, one(1, 2.0))));
    process.run(until("a commit does not end", || {
        process.db.unready().is_some()
    }));
    let unready = process.db.unready().expect("a commit does not end");
    assert!(unready.contains("does not answer"), "{unready}");
    process.faults.set_enabled(false);
    recovers(&process);
    let content = expected(&[("a", T0, 1.0), ("a", T0 + 1, 2.0)]);
    assert_eq!(process.run(read(&process.db, everything())), content);
}
