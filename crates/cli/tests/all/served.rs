//! A running `icecore serve`, which ends with the value that stands for it.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::http::Client;

/// A deadline for anything that has to happen, however busy the machine is: what takes longer
/// hangs. Tests say with numbers, and with the order of events, what must be quick.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// How often something is looked at while it is waited for.
const POLL: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(40);

/// A directory of one test. It is kept and named when the test fails.
pub(crate) struct Workplace {
    directory: Option<tempfile::TempDir>,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        Self {
            directory: Some(tempfile::tempdir().expect("a directory for this test")),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let directory = self.directory.as_ref().expect("is there until the end");
        directory.path().join(name)
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(directory) = self.directory.take()
        {
            eprintln!(
                "database and logs are kept in {}",
                directory.keep().display()
            );
        }
    }
}

/// How to start the process.
pub(crate) struct Serve {
    command: Command,
    log: PathBuf,
}

pub(crate) struct TestServer {
    child: Child,
    log: PathBuf,
    started: Instant,
}

impl Serve {
    /// On a free port of this machine; nothing of the environment gets through.
    pub(crate) fn new(storage: impl AsRef<OsStr>, log: PathBuf) -> Self {
        Self::on_default_port(storage, log).flags(["--listen", "127.0.0.1:0"])
    }

    /// Without a word about where to listen.
    pub(crate) fn on_default_port(storage: impl AsRef<OsStr>, log: PathBuf) -> Self {
        let mut command = icecore();
        command.arg("serve").arg("--storage").arg(storage);
        // Most tests count what is stored; a flag wins over the environment.
        command.env("ICECORE_SCRAPE_SELF", "false");
        Self { command, log }
    }

    pub(crate) fn flags(mut self, flags: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(flags);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// As from a shell that takes these rights away from what is created.
    pub(crate) fn under_umask(mut self, mask: &str) -> Self {
        self.command = under_umask(mask, &self.command);
        self
    }

    /// Starts it and does not wait.
    pub(crate) fn spawn(mut self) -> TestServer {
        let log = File::create(&self.log).expect("the log file can be created");
        let both = log.try_clone().expect("a file can be opened twice");
        let child = self.command.stdout(both).stderr(log).stdin(Stdio::null());
        TestServer {
            child: child.spawn().expect("the binary was built for this test"),
            log: self.log,
            started: Instant::now(),
        }
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(self) -> TestServer {
        let mut served = self.spawn();
        assert!(served.wait_ready(), "ended at the start:\n{}", served.log());
        served
    }
}

impl TestServer {
    /// A new connection. The process must listen.
    pub(crate) fn client(&self) -> Client {
        let address = self.address();
        Client::new(address.unwrap_or_else(|| panic!("it does not listen:\n{}", self.log())))
    }

    /// Where it answers, as it says when it listens.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let log = self.log();
        let (_, after) = log.split_once("ready  http")?;
        let after = after.strip_prefix("s://").or(after.strip_prefix("://"))?;
        after.split_once("/-/ready")?.0.parse().ok()
    }

    /// Where OpenTSDB is spoken, as it says when it listens.
    pub(crate) fn opentsdb_address(&self) -> SocketAddr {
        let log = self.log();
        let said = log.split_once("(OpenTSDB; telnet ").map(|(_, after)| after);
        let said = said.and_then(|after| after.split(',').next()?.parse().ok());
        said.unwrap_or_else(|| panic!("it does not listen for OpenTSDB:\n{log}"))
    }

    /// Waits until it says that it is ready. False when it ended before.
    pub(crate) fn wait_ready(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.exited().is_some() {
                return false;
            }
            let asked = self.address().map(|at| Client::new(at).get("/-/ready"));
            if let Some(Ok(answer)) = asked
                && answer.is_success()
            {
                return true;
            }
            assert!(
                Instant::now() < deadline,
                "not ready after {PATIENCE:?}:\n{}",
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn since_start(&self) -> Duration {
        self.started.elapsed()
    }

    /// SIGKILL, and gone.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        // It may have ended by itself, which is no failure here.
        let _ = self.child.kill();
        self.child.wait().expect("a child can be waited for")
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// SIGHUP.
    pub(crate) fn hang_up(&self) {
        self.signal("HUP");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let kill = &mut Command::new("sh");
        let sent = kill.args(["-c", &format!("kill -{name} {id}")]).status();
        assert!(
            sent.is_ok_and(|sent| sent.success()),
            "process {id} is gone:\n{}",
            self.log()
        );
    }

    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self, patience: Duration) -> ExitStatus {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "still running after {patience:?}:\n{}",
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Waits until something holds, which is named where it never does.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl FnMut() -> bool) {
        assert!(comes_true(holds), "{what}:\n{}", self.log());
    }

    /// Waits until it has said this.
    #[track_caller]
    pub(crate) fn wait_for_words(&self, words: &str) {
        self.wait_until(words, || self.log().contains(words));
    }

    /// All it said so far, on both channels.
    pub(crate) fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(30)..];
            eprintln!("end of {}:\n{}", self.log.display(), tail.join("\n"));
        }
    }
}

/// The binary, without this process' environment. `ICECORE_BINARY` names another one, for long runs
/// of a release build.
pub(crate) fn icecore() -> Command {
    let other = std::env::var_os("ICECORE_BINARY");
    let mut command = Command::new(other.unwrap_or_else(|| env!("CARGO_BIN_EXE_icecore").into()));
    command.env_clear();
    command
}

/// Returns the command as a shell with this mask of permissions runs it. Only the variables that
/// the command sets are in its environment.
pub(crate) fn under_umask(mask: &str, command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    let script = format!("umask {mask}; exec \"$0\" \"$@\"");
    shell.arg("-c").arg(script).arg(command.get_program());
    let set = command.get_envs();
    let set = set.filter_map(|(name, value)| Some((name, value?)));
    shell.args(command.get_args()).env_clear().envs(set);
    shell
}

/// `icecore check`, which must find nothing wrong; its report.
#[track_caller]
pub(crate) fn check_is_clean(storage: impl AsRef<OsStr>, settings: &[(&str, &str)]) -> Json {
    let check = &mut icecore();
    let check = check.args(["check", "--json", "--storage"]).arg(storage);
    let check = check.envs(settings.iter().copied());
    let output = check.output().expect("the binary was built for this test");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "icecore check: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&said).expect("one JSON object")
}

/// Waits until something holds. False when it never does.
pub(crate) fn comes_true(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = POLL;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(pause);
        // A look may be a question to a server that has enough to do.
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// Returns a port without a listener that no other test gets. The port lies below those that
/// systems give to connections, so that no connection takes it before the caller listens.
pub(crate) fn free_address() -> SocketAddr {
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 20_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Two runs of the tests at a time begin at different ones.
    let begin = std::process::id().wrapping_mul(101);
    let mut addresses = (0..PORTS).map(|_| {
        let number = begin.wrapping_add(TAKEN.fetch_add(1, Relaxed));
        let port = u16::try_from(FIRST + number % PORTS).expect("below 65536");
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    });
    let free = addresses.find(|address| TcpListener::bind(address).is_ok());
    free.expect("a port is free")
}
