//! The store goes away under a running process: nothing is acknowledged that would be lost, the log
//! and `/-/ready` say why, and where it can come back, it does without a restart.

use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::http::Client;
use crate::load::{Load, Outcome, Writer, verify};
use crate::random::Random;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean, free_address};

/// Requests of another client before the directory goes.
const OTHER_REQUESTS: u64 = 20;

fn writer() -> Vec<Writer> {
    vec![Writer::new(0, 20, Random::new(11).split())]
}

fn serve(workplace: &Workplace, data: &Path, log: &str) -> TestServer {
    patient(Serve::new(data, workplace.path(log))).start()
}

fn patient(serve: Serve) -> Serve {
    serve.flags(["--journal.commit-timeout", "1s"])
}

#[track_caller]
fn acknowledged(writers: &mut [Writer], served: &TestServer) {
    let outcome = writers[0].send_next(&mut served.client());
    assert_eq!(outcome, Outcome::Acknowledged, "{}", served.log());
}

/// Sends until it is refused, and waits until the process says why, everywhere. The store fails for
/// as long as this takes: a request that waited for it would never end.
#[track_caller]
fn fails_and_says(writers: &mut [Writer], served: &TestServer, reason: &str) {
    let mut client = served.client();
    let mut send = || writers[0].send_next(&mut client);
    served.wait_until("a refusal", || send() != Outcome::Acknowledged);
    served.wait_for_words("commits fail");
    let log = served.log();
    assert!(log.contains(reason), "{reason:?} is not in:\n{log}");
    // A failure counts when it has lasted a second.
    served.wait_until("not ready", || {
        client.get("/-/ready").unwrap().status == 503
    });
    let metrics = client.get("/metrics").unwrap();
    let metrics = metrics.text();
    assert!(metrics.contains("\nicecore_store_failing 1\n"), "{metrics}");
}

#[track_caller]
fn recovers(writers: &mut [Writer], served: &TestServer) {
    let mut client = served.client();
    let mut send = || writers[0].send_next(&mut client);
    served.wait_until("writes go on", || send() == Outcome::Acknowledged);
    let ready = client.get("/-/ready").unwrap();
    assert_eq!(ready.status, 200, "{}", ready.text());
    let read = verify(&mut client, writers, false);
    assert!(read.is_some(), "{}", served.log());
}

#[test]
fn a_removed_directory_ends_the_process() {
    let workplace = Workplace::new();
    let data = workplace.path("data");
    let mut writers = writer();
    let mut served = serve(&workplace, &data, "log");
    acknowledged(&mut writers, &served);
    // While it is written to, so that a part of it may be back before the rest is gone.
    let load = Load::default();
    std::thread::scope(|scope| {
        let (mut client, load) = (served.client(), &load);
        let _stopping = load.stopping();
        scope.spawn(move || {
            while load.goes_on() {
                let mut other = Writer::new(1, 5, Random::new(3).split());
                match other.send_next(&mut client) {
                    Outcome::Acknowledged => load.note_acknowledged(),
                    Outcome::Refused => {}
                    Outcome::Unanswered => return,
                }
            }
        });
        served.wait_until("requests", || load.acknowledged() >= OTHER_REQUESTS);
        while std::fs::remove_dir_all(&data).is_err() && data.exists() {}
    });
    if let Some(address) = served.address() {
        let outcome = writers[0].send_next(&mut Client::new(address));
        assert_ne!(outcome, Outcome::Acknowledged, "{}", served.log());
    }
    let status = served.wait_exit(PATIENCE);
    let log = served.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("while the database was in use"), "{log}");
    assert!(!data.join("db").exists(), "it was made again");
}

#[test]
fn a_renamed_directory_is_waited_for() {
    let workplace = Workplace::new();
    let (data, away) = (workplace.path("data"), workplace.path("away"));
    let mut writers = writer();
    let mut served = serve(&workplace, &data, "log-1");
    acknowledged(&mut writers, &served);
    std::fs::rename(&data, &away).unwrap();
    fails_and_says(&mut writers, &served, "moved or unmounted");
    assert!(!data.exists(), "it was made again");
    std::fs::rename(&away, &data).unwrap();
    recovers(&mut writers, &served);
    served.kill();
    let mut served = serve(&workplace, &data, "log-2");
    assert!(verify(&mut served.client(), &mut writers, true).is_some());
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    check_is_clean(&data, &[]);
}

#[test]
fn a_database_without_its_manifest_is_not_opened() {
    let workplace = Workplace::new();
    let data = workplace.path("data");
    let mut writers = writer();
    let mut served = serve(&workplace, &data, "log-1");
    acknowledged(&mut writers, &served);
    served.kill();
    std::fs::remove_dir_all(data.join("db/manifest")).unwrap();
    let mut served = Serve::new(&data, workplace.path("log-2")).spawn();
    let status = served.wait_exit(PATIENCE);
    let log = served.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("no manifest"), "{log}");
    assert!(!data.join("db/manifest").exists());
}

/// A file system of few bytes, which goes with this value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, and said so, where this process may not mount any.
    fn mount(at: PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let mount = &mut Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"]);
        let mounted = mount.arg(&at).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|mounted| mounted.success()) {
            skipped_tests::skip("a full disk", "run as root, to mount a small file system");
            return None;
        }
        Some(Self(at))
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut filler = std::fs::File::create(self.filler()).unwrap();
        while filler.write_all(&[0; 512]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whoever still uses it keeps it until then.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_waited_for() {
    let workplace = Workplace::new();
    let Some(disk) = SmallDisk::mount(workplace.path("disk")) else {
        return;
    };
    let data = disk.0.join("data");
    let mut writers = writer();
    let mut served = serve(&workplace, &data, "log-1");
    acknowledged(&mut writers, &served);
    disk.fill();
    fails_and_says(&mut writers, &served, "No space left");
    disk.make_room();
    recovers(&mut writers, &served);
    // Nobody sends anything: it finds out by itself.
    disk.fill();
    fails_and_says(&mut writers, &served, "No space left");
    disk.make_room();
    let mut client = served.client();
    served.wait_until("it is ready", || {
        client.get("/-/ready").unwrap().status == 200
    });
    served.wait_for_words("accepts writes again");
    recovers(&mut writers, &served);
    served.kill();
    let mut served = serve(&workplace, &data, "log-2");
    assert!(verify(&mut served.client(), &mut writers, true).is_some());
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
}

/// A stop does not wait for ever for a store that fails, and says what it is about.
#[test]
fn a_process_stops_on_a_full_disk_and_loses_nothing() {
    let workplace = Workplace::new();
    let Some(disk) = SmallDisk::mount(workplace.path("disk")) else {
        return;
    };
    let data = disk.0.join("data");
    let mut writers = writer();
    let mut served = serve(&workplace, &data, "log-1");
    acknowledged(&mut writers, &served);
    disk.fill();
    fails_and_says(&mut writers, &served, "No space left");
    served.terminate();
    let status = served.wait_exit(PATIENCE);
    let log = served.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("stopping: waiting for"), "{log}");
    assert!(
        log.contains("what was acknowledged is in the journal"),
        "{log}"
    );
    disk.make_room();
    let served = serve(&workplace, &data, "log-2");
    assert!(verify(&mut served.client(), &mut writers, true).is_some());
}

/// What lies between a process and its object store, and can be cut.
pub(crate) struct Line {
    address: SocketAddr,
    to: SocketAddr,
    listening: Option<(Arc<AtomicBool>, std::thread::JoinHandle<()>)>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    pub(crate) fn to(to: SocketAddr) -> Self {
        let mut line = Self {
            address: free_address(),
            to,
            listening: None,
            streams: Arc::default(),
        };
        line.repair();
        line
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn repair(&mut self) {
        let listener = TcpListener::bind(self.address).expect("the port was free");
        let (to, streams) = (self.to, Arc::clone(&self.streams));
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let accepting = std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if stop.load(SeqCst) {
                    return;
                }
                let Ok(far) = TcpStream::connect(to) else {
                    continue;
                };
                let mut streams = streams.lock().unwrap();
                for (from, into) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut into) =
                        (from.try_clone().unwrap(), into.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Both);
                    });
                }
                streams.extend([near, far]);
            }
        });
        self.listening = Some((stopped, accepting));
    }

    /// Nobody answers any more, and nobody listens.
    pub(crate) fn cut(&mut self) {
        let Some((stopped, accepting)) = self.listening.take() else {
            return;
        };
        stopped.store(true, SeqCst);
        // So that it looks.
        let _ = TcpStream::connect(self.address);
        accepting.join().unwrap();
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.cut();
    }
}

/// The same for an object store that cannot be reached for a while.
pub(crate) fn an_unreachable_store_is_waited_for(
    mut line: Line,
    serve: impl Fn(SocketAddr, &str) -> Serve,
) {
    let mut writers = writer();
    let mut served = patient(serve(line.address(), "log-1")).start();
    acknowledged(&mut writers, &served);
    line.cut();
    fails_and_says(&mut writers, &served, "error sending request");
    line.repair();
    recovers(&mut writers, &served);
    served.kill();
    let mut served = patient(serve(line.address(), "log-2")).start();
    assert!(verify(&mut served.client(), &mut writers, true).is_some());
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
}
