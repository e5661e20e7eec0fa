//! What a real OpenTSDB 2.4.1 answered, replayed at the real process over HTTP and telnet: a
//! process with an empty store for each group of requests.
//!
//! Elsewhere: the recordings, the comparison and the list of deviations (`opentsdb-recordings`).

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use icecore_server::CLOCK_VARIABLE;
use opentsdb_recordings::{
    Answer, Group, HttpAnswer, HttpRequest, Place, Request, Tally, recorded_groups, replay,
    settings,
};

use super::{serve, telnet};
use crate::http::Client;
use crate::served::{TestServer, Workplace};

/// Some answers depend on where in its hour a request comes: at minute 40 the recordings hold.
const NOW_S: i64 = 1_700_000_000 / 3600 * 3600 + 2400;

/// Processes at once: each waits for its disk now and then.
const PROCESSES: usize = 4;

#[test]
fn a_process_answers_as_recorded() {
    let groups = recorded_groups();
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                while let Some(group) = groups.get(next.fetch_add(1, Relaxed)) {
                    let tally = replayed(group);
                    all.lock().unwrap().add(tally);
                }
            });
        }
    });
    let Tally {
        agree,
        deviate,
        differ,
    } = all.into_inner().unwrap();
    let took = began.elapsed();
    println!("{agree} answers as recorded, {deviate} deviate on purpose; {took:.1?}");
    assert!(
        differ.is_empty(),
        "{} of {} answers differ from the recorded ones:\n{}",
        differ.len(),
        agree + deviate + differ.len(),
        differ.join("\n")
    );
}

/// All steps of a group at a process of its own.
pub(super) fn replayed(group: &Group) -> Tally {
    let workplace = Workplace::new();
    let served = start(&workplace, &group.settings);
    replayed_at(served.opentsdb_address(), group)
}

/// Starts a process with the settings that a group wants, at the time that it wants.
pub(super) fn start(workplace: &Workplace, name: &str) -> TestServer {
    serve(workplace, "data", &settings(name))
        .flags(["--journal.commit-interval", "1ms"])
        // The original has both, and no way to turn them off.
        .flags([
            "--opentsdb.get-overrides",
            "true",
            "--opentsdb.jsonp",
            "true",
        ])
        // Some points lie as far in the future as seconds of 32 bits reach.
        .flags(["--limits.future-max", "36500d"])
        .env(CLOCK_VARIABLE, &(NOW_S * 1000).to_string())
        .start()
}

pub(super) fn replayed_at(address: SocketAddr, group: &Group) -> Tally {
    replay(group, Place::Process, NOW_S, |request| match request {
        Request::Http(request) => Answer::Http(http(address, request)),
        Request::Telnet { bytes, closed, .. } => {
            let (reply, closed) = telnet(address, bytes.as_bytes(), *closed);
            Answer::Telnet { reply, closed }
        }
    })
}

/// On a connection of its own, as they were recorded.
fn http(address: SocketAddr, request: &HttpRequest) -> HttpAnswer {
    let headers = request.headers.iter();
    let headers: Vec<(&str, &str)> = headers.map(|h| (h.0.as_str(), h.1.as_str())).collect();
    let body = request.body.as_bytes();
    let body = if request.gzip {
        gzip(body)
    } else {
        body.to_vec()
    };
    let mut client = Client::new(address);
    let answer = client.request(&request.method, &request.path, &headers, &body);
    let answer = answer.unwrap_or_else(|e| panic!("{} {}: {e}", request.method, request.path));
    let is_compressed = answer.header("content-encoding") == Some("gzip");
    HttpAnswer {
        status: answer.status,
        content_type: answer.header("content-type").unwrap_or_default().to_owned(),
        body: if is_compressed {
            gunzip(&answer.body)
        } else {
            answer.body
        },
        headers: answer.headers,
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut decoder = GzDecoder::new(bytes);
    decoder.read_to_end(&mut plain).expect("gzip, as it says");
    plain
}
