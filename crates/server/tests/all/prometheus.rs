//! A real Prometheus beside the process under test, where there is one on this machine.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::net::TcpStream;

use crate::client::{Answer, Connection, encoded, request};
use crate::served::until;

/// A running Prometheus.
pub(crate) struct Prometheus {
    started: Started,
    _directory: tempfile::TempDir,
}

/// The process, ended with this value.
struct Started {
    child: Child,
    address: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Starts,
    Ready,
    Ended,
}

/// Ports that are tried.
const PROMETHEUS_STARTS: usize = 10;

impl Prometheus {
    /// Starts with a configuration; `None`, with a note of what is not tested, when there is no
    /// Prometheus on this machine.
    pub(crate) async fn start(tested: &'static str, text: &str) -> Option<Self> {
        if Command::new("prometheus")
            .arg("--version")
            .output()
            .is_err()
        {
            skipped_tests::skip(tested, "apt install prometheus");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("prometheus.yml");
        std::fs::write(&config, text).unwrap();
        // Another process may take the port first; then this one ends, and the next gets another.
        for _ in 0..PROMETHEUS_STARTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let data = directory.path().join("data");
            let child = Command::new("prometheus")
                .arg(format!("--config.file={}", config.display()))
                .arg(format!("--storage.tsdb.path={}", data.display()))
                .arg(format!("--web.listen-address={address}"))
                .arg("--enable-feature=native-histograms")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut started = Started {
                child: child.unwrap(),
                address,
            };
            let state = async || started.state().await;
            let state = until(state, |state| *state != State::Starts, "Prometheus").await;
            if state == State::Ready {
                return Some(Self {
                    started,
                    _directory: directory,
                });
            }
        }
        panic!("Prometheus ended {PROMETHEUS_STARTS} times");
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let mut connection = Connection::open(self.started.address).await;
        connection.request("GET", path, &[], b"").await
    }

    pub(crate) async fn query(&self, path: &str, params: &[(&str, &str)]) -> Value {
        let answer = self.get(&format!("{path}?{}", encoded(params))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let json: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(json["warnings"], Value::Null, "{json}");
        json["data"]["result"].clone()
    }
}

impl Started {
    async fn state(&mut self) -> State {
        let answer = match TcpStream::connect(self.address).await {
            Ok(stream) => {
                let mut connection = Connection::over(stream);
                let request = request("GET", "/-/ready", &[], b"");
                connection.send(&request).await;
                connection.answer_if_any("GET").await
            }
            Err(_) => None,
        };
        // Asked last: whatever has answered, this process had the port.
        match self.child.try_wait().unwrap() {
            Some(_) => State::Ended,
            None if answer.is_some_and(|answer| answer.status == 200) => State::Ready,
            None => State::Starts,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
