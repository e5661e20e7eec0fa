//! The same promises on a real S3 interface: `moto_server` (PyPI), started here where it is
//! installed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::failing_store::{Line, an_unreachable_store_is_waited_for};
use crate::http::Client;
use crate::load::{Outcome, Writer, verify};
use crate::random::Random;
use crate::served::{Serve, Workplace, check_is_clean, free_address};

/// How soon a wrong setting must be an error: the default of `storage.open_timeout` and a little.
const ERROR_PATIENCE: Duration = Duration::from_secs(20);

const END_PATIENCE: Duration = Duration::from_secs(20);

/// An S3 server with everything in memory, which ends with this value.
struct Moto {
    child: Child,
    address: SocketAddr,
}

impl Moto {
    /// `None`, and said so, where it is not installed.
    fn start() -> Option<Self> {
        if !installed() {
            skipped_tests::skip("the server on S3", "pip install 'moto[server]'");
            return None;
        }
        let address = free_address();
        let child = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto_server is installed");
        let moto = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !moto.create_bucket("metrics") {
            assert!(Instant::now() < deadline, "moto_server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(moto)
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
    let Some(moto) = Moto::start() else { return };
    let workplace = Workplace::new();
    let mut writers = writers(2, &mut Random::new(1));
    for round in 0..3 {
        let log = workplace.path(&format!("log-{round}"));
        let quick = ["--head.flush-grace", "0s", "--journal.epoch-age-max", "1s"];
        let mut served = moto.serve("metrics/kills", log).flags(quick).start();
        let read = verify(&mut served.client(), &mut writers, true);
        assert!(read.is_some(), "{}", served.log());
        let until = Instant::now() + Duration::from_secs(3);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let mut client = served.client();
                scope.spawn(move || writer.run(&mut client, until, u64::MAX / 2));
            }
            std::thread::sleep(Duration::from_millis(2500));
            served.kill();
        });
    }
    let mut last = moto
        .serve("metrics/kills", workplace.path("log-last"))
        .start();
    let read = verify(&mut last.client(), &mut writers, true);
    assert!(read.is_some(), "{}", last.log());
    let acknowledged: u64 = writers.iter().map(|w| w.acknowledged_samples).sum();
    assert!(acknowledged > 0, "nothing was acknowledged");
    last.terminate();
    assert!(last.wait_exit(END_PATIENCE).success(), "{}", last.log());
    let endpoint = format!("http://{}", moto.address);
    let settings = [
        ("ICECORE_STORAGE_ENDPOINT", endpoint.as_str()),
        ("ICECORE_STORAGE_ACCESS_KEY_ID", "test"),
        ("ICECORE_STORAGE_SECRET_ACCESS_KEY", "test"),
    ];
    check_is_clean("s3://metrics/kills", &settings);
}

#[test]
fn of_two_racing_writers_on_s3_one_survives() {
    let Some(moto) = Moto::start() else { return };
    let workplace = Workplace::new();
    let mut random = Random::new(2);
    let mut writers = writers(2, &mut random);
    for race in 0..3 {
        let mut contenders = [0, 1].map(|number| {
            let log = workplace.path(&format!("log-{race}-{number}"));
            moto.serve("metrics/race", log).spawn()
        });
        // Each writer sends to its own contender, as soon as and for as long as that one answers.
        std::thread::scope(|scope| {
            for (writer, served) in writers.iter_mut().zip(&mut contenders) {
                scope.spawn(move || {
                    let until = Instant::now() + Duration::from_secs(6);
                    if served.wait_ready() {
                        writer.run(&mut served.client(), until, 20_000);
                    }
                });
            }
        });
        let deadline = Instant::now() + END_PATIENCE;
        while contenders
            .iter_mut()
            .all(|served| served.exited().is_none())
        {
            assert!(Instant::now() < deadline, "both still run");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Whoever is left must stay: a look at it later than the other's end.
        std::thread::sleep(Duration::from_secs(1));
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
            assert!(served.wait_exit(END_PATIENCE).success(), "{}", served.log());
        }
    }
}

#[test]
fn s3_that_cannot_be_reached_is_waited_for() {
    let Some(moto) = Moto::start() else { return };
    let workplace = Workplace::new();
    an_unreachable_store_is_waited_for(Line::to(moto.address), |address, log| {
        Moto::serve_at(address, "metrics/cut", workplace.path(log))
    });
}

#[test]
fn wrong_s3_settings_are_told_within_seconds() {
    let Some(moto) = Moto::start() else { return };
    let workplace = Workplace::new();
    let log = |name: &str| workplace.path(name);
    let fails = |serve: Serve, causes: &[&str]| {
        let mut served = serve.spawn();
        let status = served.wait_exit(ERROR_PATIENCE);
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
    fails(
        moto.serve("no-such-bucket/x", log("bucket")),
        &["s3://no-such-bucket/x", "bucket", "create it"],
    );
    let closed = free_address();
    fails(
        serve("metrics/x", closed, log("endpoint"))
            .flags(["--storage.access-key-id", "test"])
            .env("ICECORE_STORAGE_SECRET_ACCESS_KEY", "test"),
        &[&closed.to_string(), "check endpoint"],
    );
    fails(
        serve("metrics/x", moto.address, log("credentials")),
        &["s3://metrics/x", "credentials"],
    );
}
