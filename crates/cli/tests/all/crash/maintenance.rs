//! The process dies inside maintenance: at each single write of each job, and where anything else
//! leads from one state to the next.
//!
//! ```text
//! start, armed for pass N ─► read everything, compare ─► late samples ─► run ─┬─► dies at pass N
//!   ▲                                                                          │          │
//!   │                                                    gets past: SIGKILL ◄──┘          │
//!   └──── the same directory; N + 1, or the next point ◄─── icecore check ◄───┴───────────┘
//! ```
//!
//! What an interrupted job has written may be durable or not, so the next life goes on with it or
//! does it again. Late samples into the hours that it copies make it start over. A window of new
//! hours comes with each point, so that there is something to coarsen, to retire and to fold.
//!
//! `CRASH_ROUNDS=50` passes all points more often, with other numbers of hours and sizes of
//! batches.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use icecore_server::CLOCK_VARIABLE;
use serde_json::{Value as Json, json};

use super::{SIGABRT, SIGKILL, is_of_maintenance, number_from, say, seed};
use crate::http::{Client, Response};
use crate::load::{Load, Outcome, Writer, verify};
use crate::random::Random;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean};
use icecore_storage::FAIL_POINTS;

pub(super) const HOUR_MS: i64 = 3_600_000;

/// The windows that buckets end up in, and the begin of the first one.
pub(super) const WINDOW_MS: i64 = 16 * HOUR_MS;
pub(super) const FIRST_WINDOW_MS: i64 = 1_699_948_800_000;

const WRITERS: usize = 2;
const SERIES_PER_WRITER: usize = 100;
const SCRAPES_PER_HOUR: usize = 4;

/// A job of so many writes would be far larger than what this test makes.
const PASSES_MAX: u64 = 300;

/// How long a run may take on a busy machine: it waits for SlateDB's compactor more than once.
const RUN_PATIENCE: Duration = Duration::from_secs(300);

/// What the process says when a run has done all that it does itself.
const WAITS_FOR_SLATEDB: &str = "compacting and collecting garbage";

const TRY_AGAIN: Duration = Duration::from_millis(50);

#[test]
fn acknowledged_samples_survive_each_step_of_coarsening() {
    survive_each_step(|name| name.starts_with("coarsen."));
}

#[test]
fn acknowledged_samples_survive_each_step_of_folding() {
    survive_each_step(|name| name.starts_with("fold."));
}

#[test]
fn acknowledged_samples_survive_each_other_step_of_maintenance() {
    survive_each_step(|name| {
        ["coarsen.", "fold."]
            .iter()
            .all(|area| !name.starts_with(area))
    });
}

fn survive_each_step(is_chosen: impl Fn(&str) -> bool) {
    let cycles = number_from("CRASH_ROUNDS").map_or(1, |rounds| 1 + rounds / 10);
    let mut test = MaintenanceTest::new(seed());
    let points = FAIL_POINTS.iter().filter(|name| is_of_maintenance(name));
    let mut points: Vec<&'static str> = points.copied().collect();
    points.retain(|name| is_chosen(name));
    assert!(!points.is_empty());
    // So that there is a window with what comes late.
    points.insert(0, "coarsen.committed");
    points.dedup();
    for cycle in 0..cycles {
        for name in &points {
            test.settings = test.some_settings(cycle);
            test.pass_each(name);
        }
    }
    test.finish();
}

struct MaintenanceTest {
    random: Random,
    workplace: Workplace,
    writers: Vec<Writer>,
    settings: Vec<String>,
    /// Hours that were written to; all lie in windows of their own kind.
    hours: Vec<i64>,
    windows: i64,
    began: Instant,
    starts: u64,
    deaths: BTreeMap<&'static str, u64>,
}

impl MaintenanceTest {
    fn new(seed: u64) -> Self {
        say(&format!("CRASH_SEED={seed}"));
        let mut random = Random::new(seed);
        let writer = |number| Writer::new(number, SERIES_PER_WRITER, random.split());
        Self {
            writers: (0..WRITERS).map(writer).collect(),
            random,
            workplace: Workplace::new(),
            settings: Vec::new(),
            hours: Vec::new(),
            windows: 0,
            began: Instant::now(),
            starts: 0,
            deaths: BTreeMap::new(),
        }
    }

    /// In the first cycle a job takes about a dozen writes; later chance decides.
    fn some_settings(&mut self, cycle: u64) -> Vec<String> {
        let mut flags = vec!["--maintenance.enabled=false".to_owned()];
        let mut choose = |name: &str, from: &[&str]| {
            let value = match cycle {
                0 => from[0],
                _ => self.random.pick(from),
            };
            flags.extend([format!("--{name}"), value.to_owned()]);
        };
        choose("head.flush-batch-records", &["150", "40", "4096"]);
        choose("storage.l0-sst-bytes", &["16MiB", "64KiB", "256KiB"]);
        choose("storage.compression", &["lz4", "none", "zstd"]);
        choose("storage.block-bytes", &["4KiB", "16KiB"]);
        choose("journal.epoch-bytes-max", &["64MiB", "64KiB"]);
        flags
    }

    /// One life after the other, each of which ends at a later pass of the point, until a run comes
    /// to its end.
    fn pass_each(&mut self, name: &'static str) {
        for passes in 1..PASSES_MAX {
            let mut served = self.start(&format!("{name}:{passes}"));
            self.look(&mut served);
            match passes {
                1 => self.add_window(&served),
                _ if self.random.one_in(3) => self.send_late(&served),
                _ => {}
            }
            if self.run_gets_past(&mut served) {
                assert!(passes > 1, "{name} was never passed");
                return;
            }
            *self.deaths.entry(name).or_default() += 1;
        }
        panic!("{name} was passed {PASSES_MAX} times");
    }

    fn start(&mut self, fail_point: &str) -> TestServer {
        self.starts += 1;
        let log = self.workplace.path(&format!("log-{}", self.starts));
        let serve = Serve::new(self.workplace.path("data"), log).flags(&self.settings);
        // Soon after the next window: what is long over becomes a coarse bucket at once.
        let now_ms = FIRST_WINDOW_MS + (self.windows + 1) * WINDOW_MS + HOUR_MS;
        let serve = serve.env(CLOCK_VARIABLE, &now_ms.to_string());
        serve.env("ICECORE_FAILPOINT", fail_point).start()
    }

    fn look(&mut self, served: &mut TestServer) {
        let read = verify(&mut served.client(), &mut self.writers, true);
        assert!(read.is_some(), "{}", served.log());
    }

    /// A window with a few hours, and late samples for all that were there before.
    fn add_window(&mut self, served: &TestServer) {
        let late = self.windows > 0;
        let start = FIRST_WINDOW_MS + self.windows * WINDOW_MS;
        self.windows += 1;
        let hours = (0..16).filter(|_| self.random.one_in(5));
        let mut fresh: Vec<i64> = hours.map(|hour| start + hour * HOUR_MS).collect();
        fresh.extend([start + 2 * HOUR_MS, start + 3 * HOUR_MS]);
        fresh.sort_unstable();
        fresh.dedup();
        for writer in &mut self.writers {
            writer.write_into(&fresh);
            let filled = writer.fill(&mut served.client(), SCRAPES_PER_HOUR);
            assert_eq!(filled, Outcome::Acknowledged, "{}", served.log());
        }
        let flushed = served.client().post("/-/flush", &[], b"").unwrap();
        assert!(flushed.is_success(), "{}", flushed.text());
        self.hours.append(&mut fresh);
        self.writers
            .iter_mut()
            .for_each(|writer| writer.write_into(&self.hours));
        if late {
            self.send_late(served);
        }
    }

    fn send_late(&mut self, served: &TestServer) {
        for writer in &mut self.writers {
            writer.add_series(1);
            for _ in 0..4 {
                let sent = writer.send_next(&mut served.client());
                assert_eq!(sent, Outcome::Acknowledged, "{}", served.log());
            }
        }
    }

    /// Asks for a run, now and then while samples come in. False when the process died at its
    /// point; else it is killed while the run waits for SlateDB, which takes longest.
    fn run_gets_past(&mut self, served: &mut TestServer) -> bool {
        let has_load = self.random.one_in(2);
        let load = &Load::default();
        let moment = self.random.within(0..300) as u64;
        let writer = self.writers.first_mut();
        let status = std::thread::scope(|scope| {
            let _stopping = load.stopping();
            if has_load && let Some(writer) = writer {
                let mut client = served.client();
                scope.spawn(move || writer.run(&mut client, load, 300));
            }
            let mut client = patient(served);
            let run = scope.spawn(move || run(&mut client).is_some());
            while !run.is_finished() && !served.log().contains(WAITS_FOR_SLATEDB) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if served.exited().is_none() {
                std::thread::sleep(Duration::from_millis(moment));
            }
            served.kill()
        });
        check_is_clean(self.workplace.path("data"), &[]);
        match status.signal() {
            Some(SIGKILL) => true,
            Some(SIGABRT) if served.log().contains("fail point reached") => false,
            _ => panic!("{status}\n{}", served.log()),
        }
    }

    fn stop(&mut self, mut served: TestServer) -> Json {
        self.look(&mut served);
        served.terminate();
        let status = served.wait_exit(PATIENCE);
        assert!(status.success(), "{status}\n{}", served.log());
        check_is_clean(self.workplace.path("data"), &[])
    }

    /// In the end everything is coarse and nothing else is left.
    fn finish(mut self) {
        self.settings = vec!["--maintenance.grace=0s".to_owned()];
        let mut served = self.start("none");
        self.look(&mut served);
        let status = come_to_rest(&served);
        let all = json!([{"hours": 16, "count": self.windows}]);
        assert_eq!(status["buckets"], all, "{status}");
        nothing_is_left_over(&self.stop(served));
        let times: usize = self.writers.iter().map(Writer::acknowledged_times).sum();
        say(&format!(
            "maintenance: {} starts, died at {:?}; {} windows with {} hours, {times} samples; {:.0?} in all",
            self.starts,
            self.deaths,
            self.windows,
            self.hours.len(),
            self.began.elapsed()
        ));
    }
}

/// A client for requests that wait for a run.
pub(super) fn patient(served: &TestServer) -> Client {
    served.client().with_patience(RUN_PATIENCE)
}

pub(super) fn ask_for_run(client: &mut Client) -> std::io::Result<Response> {
    client.post("/api/v1/admin/maintenance/run", &[], b"")
}

/// Asks for a run of maintenance, again while it is told to try again. `None` when the process is
/// gone.
fn run(client: &mut Client) -> Option<Json> {
    let give_up = Instant::now() + RUN_PATIENCE;
    loop {
        let answer = ask_for_run(client).ok()?;
        if answer.is_success() {
            return Some(data_of(&answer.text()));
        }
        let text = answer.text();
        let try_again = answer.status == 503 && Instant::now() < give_up;
        assert!(try_again, "{}: {text}", answer.status);
        std::thread::sleep(TRY_AGAIN);
    }
}

/// Runs maintenance until there is nothing left to do; the status then.
pub(super) fn come_to_rest(served: &TestServer) -> Json {
    let client = &mut patient(served);
    let give_up = Instant::now() + RUN_PATIENCE;
    loop {
        let report = run(client).expect("the process lives");
        let answer = client.get("/api/v1/status/maintenance").expect("it lives");
        let status = data_of(&answer.text());
        let left = ["waiting", "retired", "dirty"];
        if left.iter().all(|what| status[what] == 0) {
            return status;
        }
        assert!(Instant::now() < give_up, "{report} {status}");
        std::thread::sleep(TRY_AGAIN);
    }
}

/// No record belongs to a bucket that is not listed.
#[track_caller]
pub(super) fn nothing_is_left_over(report: &Json) {
    let counts = &report["counts"];
    for records in ["retiredRecords", "unfinishedRecords", "unknownRecords"] {
        assert_eq!(counts[records], 0, "{records} in {report:#}");
    }
}

fn data_of(answer: &str) -> Json {
    let mut answer: Json = serde_json::from_str(answer).expect("an answer is JSON");
    answer["data"].take()
}
