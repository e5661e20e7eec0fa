//! A second writer on the same directory is refused, or takes over when it is told to: the first
//! one says why and ends, and nothing that either acknowledged is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::load::{Load, Outcome, Writer, verify};
use crate::random::Random;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean, icecore};

const TAKEOVERS: usize = 4;
const WRITERS: usize = 3;

/// Requests that the first one acknowledges before the second one starts.
const REQUESTS: u64 = 90;

#[test]
fn a_second_writer_takes_over_and_nothing_is_lost() {
    let workplace = Workplace::new();
    let mut random = Random::new(7);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer::new(number, 30, random.split()))
        .collect();
    let start = |number: usize| {
        let log = workplace.path(&format!("log-{number}"));
        Serve::new(workplace.path("data"), log)
            .flags(["--head.flush-grace", "0s"])
            .flags(["--journal.epoch-bytes-max", "64KiB"])
            .flags(["--journal.epoch-age-max", "1s"])
            .flags(["--head.flush-batch-records", "50"])
            .flags(["--take-over"])
            .start()
    };
    let mut first = start(0);
    for takeover in 1..=TAKEOVERS {
        let second = take_over(&first, &mut writers, || start(takeover));
        let status = first.wait_exit(PATIENCE);
        assert!(!status.success(), "{status}\n{}", first.log());
        assert_eq!(status.code(), Some(1), "{status}\n{}", first.log());
        let log = first.log();
        assert!(
            log.contains("another process"),
            "it does not say why:\n{log}"
        );
        let read = verify(&mut second.client(), &mut writers, true);
        assert!(read.is_some(), "{}", second.log());
        first = second;
    }
    let acknowledged: u64 = writers.iter().map(|w| w.acknowledged_samples).sum();
    assert!(acknowledged > 0, "nothing was acknowledged");
    first.terminate();
    assert!(first.wait_exit(PATIENCE).success(), "{}", first.log());
    check_is_clean(workplace.path("data"), &[]);
}

/// Two processes on one directory are a mistake, unless somebody says otherwise.
#[test]
fn a_second_writer_is_refused_and_the_first_goes_on() {
    let workplace = Workplace::new();
    let data = workplace.path("data");
    let serve = |log| Serve::new(&data, workplace.path(log));
    let mut writers = [Writer::new(0, 10, Random::new(5))];
    let mut first = serve("log-1").start();
    let mut client = first.client();
    assert_eq!(writers[0].send_next(&mut client), Outcome::Acknowledged);
    let mut second = serve("log-2").spawn();
    let status = second.wait_exit(PATIENCE);
    let log = second.log();
    assert_eq!(status.code(), Some(1), "{log}");
    let held = format!("in use by process {}", first.id());
    assert!(log.contains(&held) && log.contains("--take-over"), "{log}");
    // So are commands that would write.
    let mut run = icecore();
    run.args(["maintenance", "run", "--storage"]).arg(&data);
    let run = run.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success() && said.contains(&held), "{said}");
    // Those that only read are not.
    check_is_clean(&data, &[]);
    assert_eq!(writers[0].send_next(&mut client), Outcome::Acknowledged);
    // The lock of a process that was killed is no obstacle, nor is that of one that ended well.
    first.kill();
    let mut third = serve("log-3").start();
    assert!(verify(&mut third.client(), &mut writers, true).is_some());
    third.terminate();
    assert!(third.wait_exit(PATIENCE).success(), "{}", third.log());
    serve("log-4").start();
}

/// Nobody has to write for a writer to learn that it has a successor.
#[test]
fn an_idle_writer_ends_when_another_takes_over() {
    let workplace = Workplace::new();
    let serve = |log| Serve::new(workplace.path("data"), workplace.path(log));
    let mut first = serve("log-1").start();
    let _second = serve("log-2").flags(["--take-over"]).start();
    let status = first.wait_exit(PATIENCE);
    let log = first.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        log.contains("another process"),
        "it does not say why:\n{log}"
    );
}

/// Writers send to the first until it answers no more, then to the second, as clients do behind an
/// address that moves.
fn take_over(
    first: &TestServer,
    writers: &mut [Writer],
    start: impl FnOnce() -> TestServer + Send,
) -> TestServer {
    let started = AtomicBool::new(false);
    let refused = AtomicUsize::new(0);
    let load = Load::default();
    let second = std::thread::scope(|scope| {
        for writer in &mut *writers {
            let mut client = first.client();
            let (started, refused, load) = (&started, &refused, &load);
            scope.spawn(move || {
                let _ended = load.ending();
                while load.goes_on() {
                    match writer.send_next(&mut client) {
                        Outcome::Acknowledged => load.note_acknowledged(),
                        Outcome::Refused if !started.load(SeqCst) => {}
                        // Gone, or fenced and about to go.
                        Outcome::Refused | Outcome::Unanswered => {
                            refused.fetch_add(1, SeqCst);
                            return;
                        }
                    }
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
        }
        let _stopping = load.stopping();
        first.wait_until("requests", || load.acknowledged() >= REQUESTS);
        started.store(true, SeqCst);
        let second = start();
        // Each of them learns that the first one is none any more.
        second.wait_until("an end", || load.ended() == WRITERS);
        second
    });
    assert_eq!(refused.into_inner(), writers.len());
    // Requests whose outcome is unknown are sent again, and new ones follow.
    let mut client = second.client();
    for _ in 0..10 {
        for writer in &mut *writers {
            let outcome = writer.send_next(&mut client);
            assert_eq!(outcome, Outcome::Acknowledged, "{}", second.log());
        }
    }
    second
}
