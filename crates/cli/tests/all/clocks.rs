//! A server on a machine whose clock is wrong, and the ones after it.

use std::time::{Duration, Instant};

use icecore_server::CLOCK_VARIABLE;

use crate::retention::now_s;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean, icecore};

const DAY_S: i64 = 86_400;

/// A server whose clock is so far off.
fn serve(workplace: &Workplace, log: &str, off_s: i64) -> Serve {
    let clock_ms = (now_s() + off_s) * 1000;
    Serve::new(workplace.path("data"), workplace.path(log))
        .flags(["--storage.gc-min-age", "10s"])
        .env(CLOCK_VARIABLE, &clock_ms.to_string())
}

/// Writes a sample of now, and says how long that took.
fn write(served: &TestServer, value: usize) -> Duration {
    let began = Instant::now();
    let body = format!("clocks {value} {}\n", now_s() * 1000 + value as i64 % 1000);
    let path = "/api/v1/import/prometheus";
    let answer = served.client().post(path, &[], body.as_bytes());
    let answer = answer.unwrap_or_else(|error| panic!("{error}\n{}", served.log()));
    assert!(answer.is_success(), "{}\n{}", answer.text(), served.log());
    began.elapsed()
}

fn post(served: &TestServer, path: &str) {
    let answer = served.client().post(path, &[], b"");
    let answer = answer.unwrap_or_else(|error| panic!("{path}: {error}\n{}", served.log()));
    assert!(
        answer.is_success(),
        "{path}: {}\n{}",
        answer.text(),
        served.log()
    );
}

fn stop(mut served: TestServer) {
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
}

fn snapshots(served: &TestServer) -> String {
    let url = format!("http://{}", served.address().expect("it listens"));
    let listed = icecore()
        .args(["snapshot", "list", "--server", &url])
        .output();
    String::from_utf8(listed.unwrap().stdout).unwrap()
}

/// Seconds of writes after a start with a clock that is a year ahead.
fn length() -> Duration {
    let seconds = std::env::var("CLOCK_SECONDS").ok();
    let seconds = seconds.map_or(5, |s| s.parse().expect("CLOCK_SECONDS: seconds"));
    Duration::from_secs(seconds)
}

#[test]
fn after_a_start_with_the_clock_a_year_ahead_everything_goes_on() {
    let workplace = Workplace::new();
    let right = serve(&workplace, "log-1", 0).start();
    write(&right, 1);
    post(&right, "/api/v1/admin/tsdb/snapshot?name=week&ttl=7d");
    stop(right);
    let ahead = serve(&workplace, "log-2", 365 * DAY_S).start();
    write(&ahead, 2);
    post(&ahead, "/-/flush");
    // Garbage is collected with this at the latest.
    post(&ahead, "/api/v1/admin/maintenance/run");
    assert!(snapshots(&ahead).contains("week"), "{}", ahead.log());
    stop(ahead);

    let right = serve(&workplace, "log-3", 0).start();
    assert!(snapshots(&right).contains("week"), "{}", right.log());
    let began = Instant::now();
    let mut written = 3;
    while began.elapsed() < length() {
        write(&right, written);
        written += 1;
        if written % 50 == 0 {
            post(&right, "/-/flush");
        }
    }
    post(&right, "/api/v1/admin/maintenance/run");
    let database = workplace.path("data").join("db");
    let files = |part: &str| std::fs::read_dir(database.join(part)).unwrap().count();
    // What was replaced is deleted: after ten minutes, too, there is little.
    let give_up = Instant::now() + PATIENCE;
    while files("compacted") > 100 || files("wal") > 500 || files("manifest") > 200 {
        let left = (files("compacted"), files("wal"), files("manifest"));
        assert!(
            Instant::now() < give_up,
            "{left:?} are left\n{}",
            right.log()
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    let log = right.log();
    assert!(!log.contains("InvalidClockTick"), "{log}");
    stop(right);
    check_is_clean(workplace.path("data"), &[]);
}

#[test]
fn a_machine_that_is_an_hour_behind_takes_over() {
    let workplace = Workplace::new();
    let mut first = serve(&workplace, "log-1", 0).start();
    write(&first, 1);
    let second = serve(&workplace, "log-2", -3600);
    let second = second.flags(["--take-over"]).start();
    write(&second, 2);
    assert_eq!(first.wait_exit(PATIENCE).code(), Some(1), "{}", first.log());
    post(&second, "/-/flush");
    write(&second, 3);
    stop(second);
    check_is_clean(workplace.path("data"), &[]);
}
