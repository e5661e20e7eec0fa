//! The process is killed again and again while OpenTSDB's clients write points, names, meta data,
//! annotations and trees; what was acknowledged is there, once.
//!
//! ```text
//! start ─► read everything, compare ─► load ─► SIGKILL ─► icecore check ─► start …
//! ```
//!
//! Holds always: a UID names one thing, and a name has one UID, in all lives together.
//!
//! `CRASH_ROUNDS=100` is the long form, `CRASH_SEED=…` repeats a plan (not its timing).

mod edits;
mod names;
mod points;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use self::edits::Editor;
use self::names::{Assigner, Names};
use self::points::{PointSender, Protocol};
use super::{META, serve};
use crate::crash::{number_from, say, seed};
use crate::http::Client;
use crate::load::Load;
use crate::random::Random;
use crate::served::{PATIENCE, TestServer, Workplace, check_is_clean};

/// Requests with points that a life acknowledges at most before it is killed; of the others a few
/// are enough.
const REQUESTS_MAX: i64 = 120;
const OTHER_REQUESTS: u64 = 6;

/// What all clients of a life look at.
struct Life {
    address: SocketAddr,
    points: Load,
    names: Load,
    edits: Load,
    /// Set before the process is killed: what looks like an orderly end afterwards is none.
    is_ending: AtomicBool,
}

impl Life {
    fn goes_on(&self) -> bool {
        !self.is_ending.load(SeqCst)
    }

    /// Returns `true` once so many requests with points were acknowledged, or all points were sent.
    fn has_points(&self, requests: u64, senders: usize) -> bool {
        self.points.acknowledged() >= requests || self.points.ended() == senders
    }

    fn has_others(&self) -> bool {
        let others = [&self.names, &self.edits];
        others
            .iter()
            .all(|load| load.acknowledged() >= OTHER_REQUESTS)
    }

    fn client(&self) -> Client {
        Client::new(self.address)
    }
}

/// Ends a life when it is dropped, also by a panic, which would wait for its clients otherwise.
struct Ending<'a>(&'a Life);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_ending.store(true, SeqCst);
    }
}

struct Clients {
    points: Vec<PointSender>,
    assigners: Vec<Assigner>,
    editor: Editor,
    names: Names,
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let seed = seed();
    say(&format!("CRASH_SEED={seed}"));
    let mut random = Random::new(seed);
    let rounds = number_from("CRASH_ROUNDS").unwrap_or(5);
    let workplace = Workplace::new();
    let protocols = [
        Protocol::Http,
        Protocol::Telnet,
        Protocol::Http,
        Protocol::Telnet,
    ];
    let senders = protocols.into_iter().enumerate();
    let mut clients = Clients {
        points: senders
            .map(|(number, protocol)| PointSender::new(number, protocol, random.split()))
            .collect(),
        // Both ask for the same names.
        assigners: vec![Assigner::default(), Assigner::default()],
        editor: Editor::default(),
        names: Names::default(),
    };
    {
        let served = start(&workplace, &mut random);
        clients
            .editor
            .prepare(&mut Client::new(served.opentsdb_address()));
    }
    for _ in 0..rounds {
        let mut served = start(&workplace, &mut random);
        clients.verify(served.opentsdb_address());
        clients.load(&mut served, &mut random);
        drop(served);
        check_is_clean(workplace.path("data"), &[]);
    }
    let mut served = start(&workplace, &mut random);
    clients.verify(served.opentsdb_address());
    served.terminate();
    let status = served.wait_exit(PATIENCE);
    assert!(status.success(), "{status}\n{}", served.log());
    let served = start(&workplace, &mut random);
    clients.verify(served.opentsdb_address());
    let points: usize = clients.points.iter().map(PointSender::acknowledged).sum();
    let (names, edits) = (clients.names.count(), clients.editor.acknowledged());
    say(&format!(
        "opentsdb crash: {rounds} kills, {points} points, {names} names and {edits} edits acknowledged"
    ));
    assert!(points > 0 && names > 0 && edits > 0);
}

/// Hours, epochs and files turn over in seconds, or as they do by default.
fn start(workplace: &Workplace, random: &mut Random) -> TestServer {
    let mut flags = Vec::new();
    let mut choose = |name: &str, from: &[&str]| {
        flags.extend([format!("--{name}"), random.pick(from).to_owned()]);
    };
    choose("head.flush-grace", &["0s", "2m"]);
    choose("journal.epoch-bytes-max", &["64KiB", "64MiB"]);
    choose("journal.epoch-age-max", &["1s", "1h"]);
    choose("journal.epoch-keep-max", &["1s", "3h"]);
    choose("journal.commit-interval", &["auto", "1ms", "20ms"]);
    choose("storage.l0-sst-bytes", &["64KiB", "16MiB"]);
    serve(workplace, "data", META).flags(flags).start()
}

impl Clients {
    /// Everything acknowledged is there, once; what became of the rest is known from now on.
    fn verify(&mut self, address: SocketAddr) {
        let mut client = Client::new(address);
        for sender in &mut self.points {
            sender.verify(&mut client);
        }
        points::verify_leaves(&mut client, &self.points);
        self.editor.verify(&mut client);
        let assigned = self.assigners.iter_mut().flat_map(Assigner::take);
        self.names.verify(&mut client, assigned.collect());
    }

    /// All at once until the process is killed.
    fn load(&mut self, served: &mut TestServer, random: &mut Random) {
        let requests = random.within(2..REQUESTS_MAX) as u64;
        let life = &Life {
            address: served.opentsdb_address(),
            points: Load::default(),
            names: Load::default(),
            edits: Load::default(),
            is_ending: AtomicBool::new(false),
        };
        let flushes = random.one_in(2);
        let senders = self.points.len();
        std::thread::scope(|scope| {
            let _ending = Ending(life);
            for sender in &mut self.points {
                scope.spawn(|| sender.run(life));
            }
            for assigner in &mut self.assigners {
                scope.spawn(|| assigner.run(life));
            }
            let editor = &mut self.editor;
            scope.spawn(|| editor.run(life));
            served.wait_until("points", || life.has_points(requests / 2, senders));
            if flushes {
                let flushed = served.client().post("/-/flush", &[], b"");
                assert!(
                    flushed.is_ok_and(|answer| answer.is_success()),
                    "{}",
                    served.log()
                );
            }
            served.wait_until("more points", || life.has_points(requests, senders));
            served.wait_until("names and edits", || life.has_others());
            life.is_ending.store(true, SeqCst);
            served.kill();
        });
    }
}
