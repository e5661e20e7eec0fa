//! A process under test, on a port of its own.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_server::{Config, Inputs, Process, ServeError};
use icecore_storage::{Environment, ManualClock};
use tokio::sync::{mpsc, oneshot};

use crate::client::{Answer, Connection, encoded};
use crate::payload::Payload;

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// Longest wait for anything. Only what never happens takes as long, on a busy machine, too.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Pause between two questions of a poll.
const POLL: Duration = Duration::from_millis(10);

/// Asks until the answer is as wanted.
pub(crate) async fn until<T: Debug>(
    mut ask: impl AsyncFnMut() -> T,
    wanted: impl Fn(&T) -> bool,
    what: &str,
) -> T {
    let began = Instant::now();
    loop {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        assert!(
            began.elapsed() < DEADLINE,
            "waited in vain for {what}; the last answer was {answer:?}"
        );
        tokio::time::sleep(POLL).await;
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    /// Where OTLP over gRPC is taken, if it is.
    pub(crate) grpc_address: Option<SocketAddr>,
    /// Where OpenTSDB is spoken, if it is.
    pub(crate) opentsdb_address: Option<SocketAddr>,
    stop: mpsc::Sender<&'static str>,
    process: Ended,
}

/// A configuration for tests: memory, any port, quick commits, and what is given.
pub(crate) fn config(settings: &[(&str, &str)]) -> Config {
    config_with_file(None, settings)
}

/// The same with a configuration file.
pub(crate) fn config_with_file(file: Option<PathBuf>, settings: &[(&str, &str)]) -> Config {
    let mut flags = vec![
        ("storage.location", "memory://"),
        ("server.listen", "127.0.0.1:0"),
        ("journal.commit_interval", "1ms"),
        // Most tests count what is stored.
        ("scrape.self", "false"),
    ];
    flags.retain(|(key, _)| settings.iter().all(|(given, _)| given != key));
    flags.extend(settings);
    let flags = flags.into_iter().map(|(k, v)| (k.into(), v.into()));
    Config::load(&Inputs {
        file,
        flags: flags.collect(),
        ..Inputs::default()
    })
    .expect("the settings of the test are valid")
}

/// Runs a process beside the test. On a thread of its own, because the compiler cannot see that the
/// future of an opening database may be sent between threads; not one of the runtime's, which would
/// wait for it when a test has failed.
pub(crate) fn running(process: Process, stop: mpsc::Receiver<&'static str>) -> Ended {
    let runtime = tokio::runtime::Handle::current();
    let (sender, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let result = runtime.block_on(process.run_until(stop));
        // A test that has failed does not listen any more.
        let _ = sender.send(result);
    });
    ended
}

/// How a process ended.
pub(crate) type Ended = oneshot::Receiver<Result<(), ServeError>>;

impl TestServer {
    /// Starts and waits until it is ready.
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let served = Self::starting(config(settings), Environment::default()).await;
        served.until_ready().await;
        served
    }

    /// Starts with a clock that stands still, and waits until it is ready.
    pub(crate) async fn start_at(config: Config, now_ms: i64) -> Self {
        let environment = Environment {
            clock: Some(Arc::new(ManualClock::at(now_ms))),
            ..Environment::default()
        };
        let served = Self::starting(config, environment).await;
        served.until_ready().await;
        served
    }

    /// Starts and does not wait.
    pub(crate) async fn starting(config: Config, environment: Environment) -> Self {
        let process = Process::start(config, environment)
            .await
            .expect("it listens");
        let address = process.address().expect("it listens");
        let grpc_address = process.grpc_address();
        let opentsdb_address = process.opentsdb_address();
        let (stop, stopped) = mpsc::channel(1);
        let process = running(process, stopped);
        Self {
            address,
            grpc_address,
            opentsdb_address,
            stop,
            process,
        }
    }

    pub(crate) async fn until_ready(&self) {
        let status = || async { self.get("/-/ready", &[]).await.status };
        until(status, |status| *status == 200, "a server that is ready").await;
    }

    /// Polls `/metrics` until one answer has all of these lines.
    pub(crate) async fn until_metrics(&self, lines: &[&str]) {
        let page = || async { self.get("/metrics", &[]).await.text().to_owned() };
        let has_all = |page: &String| {
            lines
                .iter()
                .all(|line| page.lines().any(|has| has == *line))
        };
        until(page, has_all, &lines.join(" and ")).await;
    }

    /// Stops as a signal does and waits for the end.
    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        let _ = self.stop.send("test").await;
        self.ended().await
    }

    /// For whoever wants to stop it in their own way.
    pub(crate) fn parts(self) -> (mpsc::Sender<&'static str>, Ended) {
        (self.stop, self.process)
    }

    /// Waits for the end without asking for it.
    pub(crate) async fn ended(self) -> Result<(), ServeError> {
        let ended = tokio::time::timeout(DEADLINE, self.process).await;
        ended.expect("the process ends").expect("without a panic")
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut connection = Connection::open(self.address).await;
        connection.request(method, path, headers, body).await
    }

    pub(crate) async fn get(&self, path: &str, params: &[(&str, &str)]) -> Answer {
        let path = match params {
            [] => path.to_owned(),
            _ => format!("{path}?{}", encoded(params)),
        };
        self.request("GET", &path, &[], b"").await
    }

    pub(crate) async fn post_form(&self, path: &str, params: &[(&str, &str)]) -> Answer {
        self.request("POST", path, &[FORM], encoded(params).as_bytes())
            .await
    }

    /// The answer to a GET, after making sure that a POST with a form says the same.
    pub(crate) async fn read(&self, path: &str, params: &[(&str, &str)]) -> Answer {
        let got = self.get(path, params).await;
        let posted = self.post_form(path, params).await;
        assert_eq!(got.status, posted.status);
        assert_eq!(got.text(), posted.text());
        got
    }

    pub(crate) async fn write(&self, payload: &Payload) -> Answer {
        let headers = payload.headers();
        self.request("POST", "/api/v1/write", &headers, &payload.body())
            .await
    }

    /// Lines of an export as JSON.
    pub(crate) async fn export(&self, params: &[(&str, &str)]) -> Vec<serde_json::Value> {
        lines_of_export(&self.read("/api/v1/export", params).await)
    }

    /// Lines of an export by one request, for tests in which samples come between two.
    pub(crate) async fn export_once(&self, params: &[(&str, &str)]) -> Vec<serde_json::Value> {
        lines_of_export(&self.get("/api/v1/export", params).await)
    }

    /// Everything that is stored.
    pub(crate) async fn export_all(&self) -> Vec<serde_json::Value> {
        self.export(&[("match[]", "{__name__!=\"\"}")]).await
    }
}

fn lines_of_export(answer: &Answer) -> Vec<serde_json::Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.complete);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let lines = answer.text().lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}
