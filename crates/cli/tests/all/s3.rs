//! The same promises on a real S3 interface: `moto_server` (PyPI), started here where it is
//! installed. Tests of other object stores (`azure`) share what is promised of all of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::failing_store::{Line, an_unreachable_store_is_waited_for};
use crate::http::Client;
use crate::load::{Load, Outcome, Writer, verify};
use crate::random::Random;
use crate::served::{PATIENCE, Serve, Workplace, check_is_clean, comes_true, free_address};

/// Requests of a life before it is killed, and of a race before it is over.
const REQUESTS: u64 = 30;

/// An S3 server with everything in memory, which ends with this value.
struct Moto {
    child: Child,
    address: SocketAddr,
}

/// Returns the one value of all tests that run now, and starts it for the first of them.
pub(crate) fn shared_by_tests<T>(shared: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    // A test that failed to start it leaves it to the next one.
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let started = Arc::new(start());
        *shared = Arc::downgrade(&started);
        started
    })
}

impl Moto {
    /// The one of all tests that run now. `None`, and said so, where it is not installed.
    fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Moto>> = Mutex::new(Weak::new());
        if !installed() {
            skipped_tests::skip("the server on S3", "pip install 'moto[server]'");
            return None;
        }
        Some(shared_by_tests(&SHARED, Self::start))
    }

    fn start() -> Self {
        let address = free_address();
        let child = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto_server is installed");
        let moto = Self { child, address };
        let answers = comes_true(|| moto.create_bucket("metrics"));
        assert!(answers, "moto_server does not answer");
        moto
    }

    fn create_bucket(&self, name: &str) -> bool {
        let mut client = Client::new(self.address);
        // moto looks for a signature only to learn which service is meant.
        let signed = "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request, \
                      SignedHeaders=host, Signature=0";
        let headers = &[("Authorization", signed)];
        let answer = client.request("PUT", &format!("/{name}"), headers, b"");
        answer.is_ok_and(|answer| answer.is_success())
    }

    fn serve(&self, bucket_and_prefix: &str, log: PathBuf) -> Serve {
        Self::serve_at(self.address, bucket_and_prefix, log)
    }

    /// The same through another address.
    fn serve_at(address: SocketAddr, bucket_and_prefix: &str, log: PathBuf) -> Serve {
        serve(bucket_and_prefix, address, log)
            .flags(["--storage.access-key-id", "test"])
            .env("ICECORE_STORAGE_SECRET_ACCESS_KEY", "test")
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let help = Command::new("moto_server")
            .arg("--help")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        help.is_ok_and(|status| status.success())
    })
}

/// Without credentials. The address where a cloud machine finds those of its role is one of this
/// machine that nobody listens on, so that the test asks nobody else.
fn serve(bucket_and_prefix: &str, endpoint: SocketAddr, log: PathBuf) -> Serve {
    Serve::new(format!("s3://{bucket_and_prefix}"), log)
        .flags(["--storage.endpoint", &format!("http://{endpoint}")])
        .flags(["--storage.region", "us-east-1"])
        .env(
            "AWS_METADATA_ENDPOINT",
            &format!("http://{}", free_address()),
        )
}

fn writers(count: usize, random: &mut Random) -> Vec<Writer> {
    (0..count)
        .map(|number| Writer::new(number, 20, random.split()))
        .collect()
}

#[test]
fn what_s3_acknowledged_survives_kills() {
    let Some(moto) = Moto::shared() else { return };
    acknowledged_survives_kills(|log| moto.serve("metrics/kills", log));
    let endpoint = format!("http://{}", moto.address);
    let settings = [
        ("ICECORE_STORAGE_ENDPOINT", endpoint.as_str()),
        ("ICECORE_STORAGE_ACCESS_KEY_ID", "test"),
        ("ICECORE_STORAGE_SECRET_ACCESS_KEY", "test"),
    ];
    check_is_clean("s3://metrics/kills", &settings);
}

/// Kills processes on one database under load; `serve` has the database and gets the log.
pub(crate) fn acknowledged_survives_kills(serve: impl Fn(PathBuf) -> Serve) {
    let workplace = Workplace::new();
    let mut writers = writers(2, &mut Random::new(1));
    for round in 0..3 {
        let log = workplace.path(&format!("log-{round}"));
        let quick = ["--head.flush-grace", "0s", "--journal.epoch-age-max", "1s"];
        let served = serve(log).flags(quick);
        let commits = ["--journal.commit-interval", "20ms"];
        let mut served = served.flags(commits).start();
        let read = verify(&mut served.client(), &mut writers, true);
        assert!(read.is_some(), "{}", served.log());
        let load = &Load::default();
        std::thread::scope(|scope| {
            let _stopping = load.stopping();
            for writer in &mut writers {
                let mut client = served.client();
                scope.spawn(move || writer.run(&mut client, load, u64::MAX / 2));
            }
            served.wait_until("some requests", || load.acknowledged() >= REQUESTS / 2);
            // The second life has no explicit flush.
            if round != 1 {
                let flushed = served.client().post("/-/flush", &[], b"");
                assert!(flushed.is_ok_and(|answer| answer.is_success()));
            }
            let more = load.acknowledged() + REQUESTS / 2;
            served.wait_until("more requests", || load.acknowledged() >= more);
            served.kill();
        });
    }
    let mut last = serve(workplace.path("log-last")).start();
    let read = verify(&mut last.client(), &mut writers, true);
    assert!(read.is_some(), "{}", last.log());
    let acknowledged: u64 = writers.iter().map(|w| w.acknowledged_samples).sum();
    assert!(acknowledged > 0, "nothing was acknowledged");
    last.terminate();
    assert!(last.wait_exit(PATIENCE).success(), "{}", last.log());
}

#[test]
fn of_two_racing_writers_on_s3_one_survives() {
    let Some(moto) = Moto::shared() else { return };
    one_of_two_racing_writers_survives(|log| moto.serve("metrics/race", log));
}

/// Starts two processes on one database at once, a few times; `serve` as above.
pub(crate) fn one_of_two_racing_writers_survives(serve: impl Fn(PathBuf) -> Serve) {
    let workplace = Workplace::new();
    let mut random = Random::new(2);
    let mut writers = writers(2, &mut random);
    for race in 0..3 {
        let mut contenders = [0, 1].map(|number| {
            let log = workplace.path(&format!("log-{race}-{number}"));
            serve(log).spawn()
        });
        // Each writer sends to its own contender, as soon as and for as long as that one answers.
        let load = &Load::default();
        std::thread::scope(|scope| {
            let _stopping = load.stopping();
            for (writer, served) in writers.iter_mut().zip(&mut contenders) {
                scope.spawn(move || {
                    if served.wait_ready() {
                        writer.run(&mut served.client(), load, 20_000);
                    } else {
                        drop(load.ending());
                    }
                });
            }
            // Until one of them answers no more, and the other one has answered for a while.
            let is_over = || load.acknowledged() >= REQUESTS && load.ended() > 0;
            assert!(comes_true(is_over), "both still run");
        });
        let has_ended = comes_true(|| contenders.iter_mut().any(|c| c.exited().is_some()));
        assert!(has_ended, "both still run");
        let ended = contenders.iter_mut().map(|served| served.exited());
        let ended: Vec<_> = ended.collect();
        let [status] = ended.iter().flatten().collect::<Vec<_>>()[..] else {
            panic!("not one survivor: {ended:?}");
        };
        assert_eq!(status.code(), Some(1));
        for served in &mut contenders {
            if served.exited().is_some() {
                let log = served.log();
                assert!(
                    log.contains("another process"),
                    "it does not say why:\n{log}"
                );
                continue;
            }
            let read = verify(&mut served.client(), &mut writers, true);
            assert!(read.is_some(), "{}", served.log());
            for writer in &mut writers {
                let outcome = writer.send_next(&mut served.client());
                assert_eq!(outcome, Outcome::Acknowledged, "{}", served.log());
            }
            served.terminate();
            assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
        }
    }
}

#[test]
fn s3_that_cannot_be_reached_is_waited_for() {
    let Some(moto) = Moto::shared() else { return };
    let workplace = Workplace::new();
    an_unreachable_store_is_waited_for(Line::to(moto.address), |address, log| {
        Moto::serve_at(address, "metrics/cut", workplace.path(log))
    });
}

#[test]
fn wrong_s3_settings_are_told() {
    let Some(moto) = Moto::shared() else { return };
    let workplace = Workplace::new();
    let log = |name: &str| workplace.path(name);
    let fails = |serve: Serve, open_timeout: &str, causes: &[&str]| {
        let mut served = serve
            .flags(["--storage.open-timeout", open_timeout])
            .spawn();
        let status = served.wait_exit(PATIENCE);
        let log = served.log();
        assert_eq!(status.code(), Some(1), "{log}");
        let said = log
            .lines()
            .find(|line| line.starts_with("icecore: error: "));
        let said = said.unwrap_or_else(|| panic!("no error in:\n{log}"));
        for cause in causes {
            assert!(said.contains(cause), "{cause:?} is not in: {said}");
        }
    };
    // An answer ends it, and not the time.
    fails(
        moto.serve("no-such-bucket/x", log("bucket")),
        "120s",
        &["s3://no-such-bucket/x", "bucket", "create it"],
    );
    // Without a limit attempts would go on for minutes.
    let closed = free_address();
    fails(
        serve("metrics/x", closed, log("endpoint"))
            .flags(["--storage.access-key-id", "test"])
            .env("ICECORE_STORAGE_SECRET_ACCESS_KEY", "test"),
        "3s",
        &[&closed.to_string(), "check endpoint"],
    );
    fails(
        serve("metrics/x", moto.address, log("credentials")),
        "3s",
        &["s3://metrics/x", "credentials"],
    );
}
