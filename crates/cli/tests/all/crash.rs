//! The process is killed again and again under load; nothing acknowledged is lost, nothing
//! invented.
//!
//! ```text
//! start ─► ready ─► read everything, compare ─► load ─► end (SIGKILL, fail point, SIGTERM)
//!   ▲                                                      │
//!   └───────────── the same directory ◄─── icecore check ◄─┘
//! ```
//!
//! Elsewhere: each step of maintenance (`maintenance`) and of deletion (`deletion`).
//!
//! `CRASH_ROUNDS=200` is the long form, `CRASH_SEED=…` repeats a plan (not its timing).

mod deletion;
mod maintenance;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use icecore_storage::FAIL_POINTS;

use self::maintenance::{
    FIRST_WINDOW_MS, HOUR_MS, WINDOW_MS, ask_for_run, come_to_rest, nothing_is_left_over, patient,
};
use crate::load::{Load, Writer, verify};
use crate::random::Random;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean};

const WRITERS: usize = 4;
const SERIES_PER_WRITER: usize = 40;
const NEW_SERIES_PER_ROUND: usize = 2;

/// Enough to pass a million in 200 rounds, few enough that reading all of it back stays quick.
const SAMPLES_PER_WRITER_AND_ROUND: u64 = 4_000;

/// Requests of all writers that a life acknowledges at most before it ends.
const REQUESTS_MAX: i64 = 100;

/// How long it goes on then at most, so that it also ends amidst what happens once a second. The
/// long form has more time for that.
const LINGER_MS_MAX: i64 = 1_000;
const LONG_LINGER_MS_MAX: i64 = 4_000;

/// A fail point that so many flushes have not reached since the writers have sent all that they
/// send in a life gives way to SIGKILL.
const FLUSHES_MAX: u64 = 6;

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// Lives in which a fail point must be reached at least once.
const ATTEMPTS_PER_FAIL_POINT: usize = 6;

/// Areas whose fail points plain load never passes.
const OF_MAINTENANCE: &[&str] = &["coarsen.", "fold.", "retire.", "sweep."];

/// Hours of a window that get samples while maintenance works on it.
const HOURS_PER_WINDOW: i64 = 3;

/// What the process says when it has done something of maintenance.
const JOBS: &[&str] = &[
    "buckets coarsened",
    "late samples folded in",
    "retired buckets dropped",
];

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    FailPoint(&'static str, u64),
    Terminate,
    /// SIGTERM, and SIGKILL before the last flush may be done.
    KillWhileStopping,
}

#[test]
fn acknowledged_samples_survive_every_end() {
    let rounds = number_from("CRASH_ROUNDS").unwrap_or(10);
    let mut test = CrashTest::new(seed());
    let mut points: Vec<&'static str> = Vec::new();
    for round in 0..rounds {
        let end = match round % 6 {
            2 | 5 => End::Terminate,
            1 if test.random.one_in(2) => End::KillWhileStopping,
            1 => End::Kill,
            _ => {
                if points.is_empty() {
                    points = fail_points_of_load();
                    test.random.shuffle(&mut points);
                }
                let name = points.pop().expect("was just filled");
                End::FailPoint(name, test.random_passes(name))
            }
        };
        test.round(end);
    }
    test.finish("crash");
}

/// The random test meets each fail point in its long form; these always do.
#[test]
fn acknowledged_samples_survive_each_fail_point_of_a_flush() {
    survive_each_fail_point(|name| name.starts_with("flush."));
}

#[test]
fn acknowledged_samples_survive_each_fail_point_of_a_drain() {
    survive_each_fail_point(|name| name.starts_with("drain."));
}

#[test]
fn acknowledged_samples_survive_each_other_fail_point() {
    let others = ["flush.", "drain."];
    survive_each_fail_point(|name| others.iter().all(|area| !name.starts_with(area)));
}

fn survive_each_fail_point(is_chosen: impl Fn(&str) -> bool) {
    let mut test = CrashTest::new(seed());
    let mut points = fail_points_of_load();
    points.retain(|name| is_chosen(name));
    assert!(!points.is_empty());
    for name in &points {
        // A short life may not come that far a second time.
        let mut passes = 1 + test.random.bits() % 2;
        for _ in 0..ATTEMPTS_PER_FAIL_POINT {
            test.round(End::FailPoint(name, passes));
            if test.ends.contains_key(name) {
                break;
            }
            passes = 1;
        }
    }
    let missed = points.iter().filter(|name| !test.ends.contains_key(*name));
    let missed: Vec<&str> = missed.copied().collect();
    test.finish("fail points");
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

/// Buckets are coarsened, folded and dropped all the time, by itself and because somebody asks for
/// it, while samples come in for the very same hours.
#[test]
fn acknowledged_samples_survive_kills_inside_maintenance() {
    let rounds = number_from("CRASH_ROUNDS").unwrap_or(6);
    let mut test = CrashTest::new(seed());
    test.busy = true;
    for round in 0..rounds {
        test.round(match round % 5 {
            2 => End::Terminate,
            4 => End::KillWhileStopping,
            _ => End::Kill,
        });
    }
    test.finish("kills inside maintenance");
}

/// The fail points that writes and flushes pass.
fn fail_points_of_load() -> Vec<&'static str> {
    let points = FAIL_POINTS.iter().copied();
    // Running totals are kept of deltas only, which remote write does not have; nobody deletes or
    // publishes events, and there is no policy of retention.
    let of_others = |name: &str| {
        let areas = [
            "totals.", "delete.", "clean.", "cull.", "remnant.", "merge.", "events.",
        ];
        areas.iter().any(|area| name.starts_with(area))
    };
    let of_load = |name: &&str| !is_of_maintenance(name) && !of_others(name);
    points.filter(of_load).collect()
}

fn is_of_maintenance(fail_point: &str) -> bool {
    OF_MAINTENANCE
        .iter()
        .any(|area| fail_point.starts_with(area))
}

struct CrashTest {
    seed: u64,
    random: Random,
    workplace: Workplace,
    writers: Vec<Writer>,
    /// Whether maintenance has as much to do as it can get.
    busy: bool,
    linger_ms_max: i64,
    began: Instant,
    starts: u64,
    rounds: u64,
    ends: BTreeMap<&'static str, u64>,
    until_ready: Vec<Duration>,
    jobs: BTreeMap<&'static str, usize>,
    checks: u64,
}

impl CrashTest {
    fn new(seed: u64) -> Self {
        say(&format!("CRASH_SEED={seed}"));
        let mut random = Random::new(seed);
        let writers =
            (0..WRITERS).map(|number| Writer::new(number, SERIES_PER_WRITER, random.split()));
        let writers = writers.collect();
        Self {
            seed,
            random,
            workplace: Workplace::new(),
            writers,
            busy: false,
            linger_ms_max: match number_from("CRASH_ROUNDS") {
                Some(_) => LONG_LINGER_MS_MAX,
                None => LINGER_MS_MAX,
            },
            began: Instant::now(),
            starts: 0,
            rounds: 0,
            ends: BTreeMap::new(),
            until_ready: Vec::new(),
            jobs: BTreeMap::new(),
            checks: 0,
        }
    }

    fn database(&self) -> PathBuf {
        self.workplace.path("data")
    }

    /// One life of the process, and a look at what it left.
    fn round(&mut self, end: End) {
        self.rounds += 1;
        if self.random.one_in(4) {
            self.kill_at_start();
        }
        let mut served = self.start(end);
        // A fail point may be reached before the load begins: then it ends here.
        let alive =
            served.wait_ready() && verify(&mut served.client(), &mut self.writers, true).is_some();
        if alive {
            self.until_ready.push(served.since_start());
            for writer in &mut self.writers {
                writer.add_series(NEW_SERIES_PER_ROUND);
            }
            if self.busy {
                self.choose_hours();
            }
            self.load(&mut served, end);
        }
        let status = self.end(&mut served, end);
        self.note_end(&served, end, status);
        check_is_clean(self.database(), &[]);
        self.checks += 1;
    }

    /// All writers but one go on with a window that may be coarse by now, or with a new one.
    fn choose_hours(&mut self) {
        let windows = self.rounds as i64 + 1;
        for writer in self.writers.iter_mut().skip(1) {
            let window = FIRST_WINDOW_MS + self.random.within(0..windows) * WINDOW_MS;
            let hours = (0..HOURS_PER_WINDOW).map(|hour| window + hour * HOUR_MS);
            writer.write_into(&hours.collect::<Vec<i64>>());
        }
    }

    /// A start that is cut off: recovery, too, must leave everything as it was.
    fn kill_at_start(&mut self) {
        let mut served = self.start(End::Kill);
        let moment = self.random.within(0..400) as u64;
        std::thread::sleep(Duration::from_millis(moment));
        served.kill();
        *self.ends.entry("SIGKILL at start").or_default() += 1;
    }

    fn start(&mut self, end: End) -> TestServer {
        self.starts += 1;
        let log = self.workplace.path(&format!("log-{}", self.starts));
        let serve = Serve::new(self.database(), log).flags(self.settings(end));
        match end {
            End::FailPoint(name, passes) => {
                serve.env("ICECORE_FAILPOINT", &format!("{name}:{passes}"))
            }
            _ => serve,
        }
        .spawn()
    }

    /// Settings under which hours, epochs and files turn over in seconds. Where a fail point is to
    /// be reached they all do; otherwise chance decides, the real defaults included.
    fn settings(&mut self, end: End) -> Vec<String> {
        let quick = matches!(end, End::FailPoint(..));
        let mut flags = Vec::new();
        let mut choose = |name: &str, from: &[&str]| {
            let value = if quick {
                from[0]
            } else {
                self.random.pick(from)
            };
            flags.extend([format!("--{name}"), value.to_owned()]);
        };
        choose("head.flush-grace", &["0s", "1s", "2m"]);
        choose("journal.epoch-bytes-max", &["64KiB", "256KiB", "64MiB"]);
        choose("journal.epoch-age-max", &["1s", "1h"]);
        choose("journal.epoch-keep-max", &["1s", "3h"]);
        choose("journal.commit-interval", &["auto", "1ms", "20ms"]);
        choose("head.flush-batch-records", &["50", "7", "4096"]);
        choose("head.flush-bytes", &["512MiB", "1MiB"]);
        choose("storage.l0-sst-bytes", &["256KiB", "64KiB", "16MiB"]);
        choose("storage.unflushed-bytes-max", &["64MiB"]);
        choose("storage.compression", &["lz4", "none", "zstd"]);
        choose("storage.block-bytes", &["4KiB", "16KiB"]);
        choose("storage.gc-interval", &["1s", "1m"]);
        choose("storage.gc-min-age", &["30s", "5m"]);
        choose("read.batch-series", &["1024", "3"]);
        choose("maintenance.delay", &["30m", "0s"]);
        choose("maintenance.grace", &["5m", "0s"]);
        if self.busy {
            let busy = ["delay", "grace"].map(|name| format!("--maintenance.{name}=0s"));
            flags.truncate(flags.len() - 2 * busy.len());
            flags.extend(busy);
        }
        flags
    }

    /// Between the batches of a flush one fail point is passed many times.
    fn random_passes(&mut self, name: &str) -> u64 {
        let most = match name {
            "flush.series" | "flush.index" | "flush.samples" => 40,
            "journal.written" | "journal.durable" => 60,
            "flush.before_commit" | "flush.committed" | "flush.dropped" => 8,
            _ => 3,
        };
        1 + self.random.bits() % most
    }

    /// Writes, flushes, coarsens and looks on until the round's end has come or is due.
    fn load(&mut self, served: &mut TestServer, end: End) {
        let requests = self.random.within(1..REQUESTS_MAX) as u64;
        let linger = Duration::from_millis(self.random.within(0..self.linger_ms_max) as u64);
        let flushes = end != End::Terminate || self.random.one_in(2);
        let check_beside = self.random.one_in(4);
        let times = if self.busy { 2 } else { 4 };
        let asks_for_runs = !matches!(end, End::FailPoint(..)) && self.random.one_in(times);
        let mut random = self.random.split();
        let longest_pause_ms = match end {
            End::FailPoint(..) => 300,
            _ => 1500,
        };
        let database = self.database();
        let (writers, checks) = (&mut self.writers, &mut self.checks);
        let load = &Load::default();
        std::thread::scope(|scope| {
            let _stopping = load.stopping();
            for writer in writers {
                let mut client = served.client();
                scope.spawn(move || writer.run(&mut client, load, SAMPLES_PER_WRITER_AND_ROUND));
            }
            if check_beside {
                scope.spawn(move || {
                    check_is_clean(&database, &[]);
                    *checks += 1;
                });
            }
            if asks_for_runs {
                let mut client = patient(served);
                scope.spawn(move || {
                    // Ends with the process at the latest; a process that stops refuses.
                    while load.goes_on()
                        && let Ok(answer) = ask_for_run(&mut client)
                    {
                        let fine = answer.is_success() || answer.status == 503;
                        assert!(fine, "{}: {}", answer.status, answer.text());
                    }
                });
            }
            let mut client = served.client();
            let give_up = Instant::now() + PATIENCE;
            let mut flush_at = Instant::now() + Duration::from_millis(300);
            let mut end_at = None;
            let mut flushes_at_rest = 0;
            while served.exited().is_none() {
                let now = Instant::now();
                assert!(now < give_up, "no end of a load:\n{}", served.log());
                let is_at_rest = load.ended() == WRITERS;
                let is_over = match end {
                    End::FailPoint(..) => flushes_at_rest >= FLUSHES_MAX,
                    _ if is_at_rest || load.acknowledged() >= requests => {
                        now >= *end_at.get_or_insert(now + linger)
                    }
                    _ => false,
                };
                if is_over {
                    break;
                }
                if flushes && now >= flush_at {
                    // Fails when the process ends meanwhile, which is the point.
                    if let Ok(answer) = client.post("/-/flush", &[], b"") {
                        assert!(answer.is_success(), "{}", answer.text());
                        flushes_at_rest += u64::from(is_at_rest);
                    }
                    let pause = random.within(50..longest_pause_ms) as u64;
                    flush_at = Instant::now() + Duration::from_millis(pause);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            match end {
                End::Kill => drop(served.kill()),
                End::Terminate | End::KillWhileStopping => served.terminate(),
                End::FailPoint(..) => {}
            }
        });
    }

    fn end(&mut self, served: &mut TestServer, end: End) -> ExitStatus {
        match end {
            End::Terminate => served.wait_exit(PATIENCE),
            End::KillWhileStopping => {
                let moment = self.random.within(0..200) as u64;
                std::thread::sleep(Duration::from_millis(moment));
                served.kill()
            }
            _ => match served.exited() {
                Some(status) => status,
                None => served.kill(),
            },
        }
    }

    /// Only the end that was meant may happen.
    fn note_end(&mut self, served: &TestServer, end: End, status: ExitStatus) {
        let what = match end {
            End::Terminate => {
                assert!(status.success(), "SIGTERM: {status}\n{}", served.log());
                "SIGTERM"
            }
            End::KillWhileStopping if status.success() => "SIGTERM",
            End::KillWhileStopping if status.signal() == Some(SIGKILL) => "SIGKILL while stopping",
            End::FailPoint(name, _) if status.signal() == Some(SIGABRT) => {
                let log = served.log();
                assert!(log.contains("fail point reached"), "{log}");
                name
            }
            _ => {
                assert_eq!(status.signal(), Some(SIGKILL), "{status}\n{}", served.log());
                "SIGKILL"
            }
        };
        *self.ends.entry(what).or_default() += 1;
        let log = served.log();
        for job in JOBS {
            *self.jobs.entry(job).or_default() += log.matches(job).count();
        }
    }

    /// A last start, a last look, and the numbers.
    fn finish(mut self, title: &str) {
        let mut served = self.start(End::Terminate);
        assert!(served.wait_ready(), "{}", served.log());
        let read = verify(&mut served.client(), &mut self.writers, true);
        assert!(read.is_some(), "{}", served.log());
        self.until_ready.push(served.since_start());
        if self.busy {
            come_to_rest(&served);
            let read = verify(&mut served.client(), &mut self.writers, false);
            assert!(read.is_some(), "{}", served.log());
        }
        served.terminate();
        let status = served.wait_exit(PATIENCE);
        assert!(status.success(), "{status}\n{}", served.log());
        let report = check_is_clean(self.database(), &[]);
        if self.busy {
            nothing_is_left_over(&report);
        }
        let total = |of: fn(&Writer) -> u64| self.writers.iter().map(of).sum::<u64>();
        let times: usize = self.writers.iter().map(Writer::acknowledged_times).sum();
        self.until_ready.sort_unstable();
        let median = self.until_ready[self.until_ready.len() / 2];
        let slowest = self.until_ready.last().copied().unwrap_or_default();
        say(&format!(
            "{title}: seed {}, {} rounds, {} starts, ends {:?}; {} samples acknowledged in {} requests \
             ({times} distinct), {} requests unanswered, {} series read back under load, {} checks clean, {:?}; \
             start to read-back median {median:.1?}, slowest {slowest:.1?}; {:.0?} in all",
            self.seed,
            self.rounds,
            self.starts,
            self.ends,
            total(|w| w.acknowledged_samples),
            total(|w| w.acknowledged_requests),
            total(|w| w.unanswered_requests),
            total(|w| w.read_backs),
            self.checks + 1,
            self.jobs,
            self.began.elapsed()
        ));
    }
}

pub(crate) fn seed() -> u64 {
    number_from("CRASH_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64 % 1_000_000_007)
    })
}

pub(crate) fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a whole number"))
}

/// Past the test harness, which keeps what passing tests print to itself.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
