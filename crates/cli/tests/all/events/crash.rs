//! The process is killed again and again while events come in. Every event that was acknowledged is
//! counted exactly once in all five windows, and is found exactly once by search, SQL and its id.
//!
//! ```text
//! a life: some batches ─► files are sealed, batches come in ─► SIGKILL at the answer to the nth
//! ```
//!
//! `CRASH_ROUNDS=200` makes more lives, and asks for each event by its id; otherwise for those
//! around the kills, the first, the last, and some of the others.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::{
    WINDOWS, counted, files_in, flush, get, has_sql, id, now_ms, order, post, register, serve,
    time_text,
};
use crate::crash::{number_from, say, seed};
use crate::http::Client;
use crate::load::Load;
use crate::random::Random;
use crate::served::{PATIENCE, TestServer, Workplace, check_is_clean};

const LIVES: u64 = 4;
const WRITERS: u64 = 3;
const BATCH: u64 = 20;

/// Batches of a life: the first ones, the most while each file is waited for, and those around the
/// kill, which comes with the answer to one of them.
const FIRST_BATCHES: u64 = 20;
const WAITING_BATCHES: u64 = 40;
const LAST_BATCHES: u64 = 30;

/// Files that are sealed in a life before its process is killed.
const FILES: usize = 2;

/// Between two batches while files are waited for, and between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks after which a life asks for a flush again, since only what is flushed is sealed.
const LOOKS_PER_FLUSH: u64 = 10;

/// In one of so many lives flushes come by themselves, every five seconds.
const LIVES_PER_PATIENT_ONE: u64 = 4;

/// Events to both sides of a kill that are asked for by their ids: all that were under way.
const NEAR: u64 = WRITERS * BATCH;

/// Of the others, one in so many.
const STRIDE: u64 = 17;

/// Events go into files, and files into others, while the process is killed.
const BUSY: &[&str] = &[
    "--events.seal-interval",
    "1s",
    "--events.merge-files",
    "3",
    // Of merging, too.
    "--events.retention-interval",
    "1s",
    "--events.max-keys",
    "64",
];

/// The events that were sent, by outcome.
#[derive(Default)]
struct Sent {
    next: AtomicU64,
    acknowledged: BTreeSet<u64>,
    /// Events whose request has no answer yet.
    open: BTreeSet<u64>,
    /// The number that came next when a process was killed.
    kills: Vec<u64>,
}

#[test]
fn acknowledged_events_are_counted_once_whatever_happens() {
    let (lives, all_by_id) = match number_from("CRASH_ROUNDS") {
        Some(rounds) => (LIVES + rounds / 10, true),
        None => (LIVES, false),
    };
    let seed = seed();
    say(&format!("CRASH_SEED={seed}"));
    let mut random = Random::new(seed);
    let workplace = Workplace::new();
    let mut sent = Sent::default();
    let began_ms = now_ms();
    for life in 0..lives {
        let mut served = serve(&workplace, BUSY);
        if life == 0 {
            register(&workplace, &served);
        }
        // Whoever has no answer sends again, with the same identities.
        resend(&served, &mut sent, began_ms);
        let flushes = life % LIVES_PER_PATIENT_ONE != 1;
        let data = workplace.path("data");
        let kill_at = 1 + random.bits() % (LAST_BATCHES - 2 * WRITERS);
        load(&mut served, &mut sent, began_ms, data, flushes, kill_at);
    }
    let served = serve(&workplace, BUSY);
    resend(&served, &mut sent, began_ms);
    let mut client = served.client();
    let acknowledged = &sent.acknowledged;
    let least = lives * FIRST_BATCHES * BATCH;
    assert!(acknowledged.len() as u64 >= least, "{}", acknowledged.len());
    verify(&mut client, acknowledged, began_ms);
    flush(&mut client);
    verify(&mut client, acknowledged, began_ms);
    let (first, last) = (acknowledged.first(), acknowledged.last());
    let is_near = |number: &u64| sent.kills.iter().any(|kill| kill.abs_diff(*number) <= NEAR);
    let is_asked_for = |number: &&u64| {
        let at_an_end = [first, last].contains(&Some(*number));
        all_by_id || at_an_end || number.is_multiple_of(STRIDE) || is_near(number)
    };
    verify_each(&mut client, acknowledged.iter().filter(is_asked_for));
    drop(served);
    check_is_clean(workplace.path("data"), &[]);
}

/// When an event of a number began: some seconds apart, so that many intervals have some.
fn at_ms(number: u64, began_ms: i64) -> i64 {
    began_ms - 600_000 + i64::try_from(number % 120).expect("small") * 5_000
}

fn batch(numbers: impl Iterator<Item = u64>, began_ms: i64) -> String {
    let events: Vec<_> = numbers
        .map(|number| order(number, at_ms(number, began_ms)))
        .collect();
    json!(events).to_string()
}

/// Turns of writers: each batch is one, and there are as many as were granted.
#[derive(Default)]
struct Turns {
    taken: AtomicU64,
    granted: AtomicU64,
}

impl Turns {
    fn grant(&self, batches: u64) {
        self.granted.fetch_add(batches, SeqCst);
    }

    /// Waits for a turn. False when the load is over.
    fn take(&self, load: &Load) -> bool {
        let turn = self.taken.fetch_add(1, SeqCst);
        while turn >= self.granted.load(SeqCst) && load.goes_on() {
            thread::sleep(Duration::from_millis(1));
        }
        load.goes_on()
    }
}

/// The outcomes that one writer has seen in one life.
#[derive(Default)]
struct Learnt {
    stored: Vec<u64>,
    unknown: Vec<u64>,
}

/// Sends batches until the process is gone. Each answer is told.
fn write(
    client: &mut Client,
    (load, turns, next): (&Load, &Turns, &AtomicU64),
    answered: &mpsc::Sender<()>,
    began_ms: i64,
) -> Learnt {
    let mut learnt = Learnt::default();
    while turns.take(load) {
        let first = next.fetch_add(BATCH, SeqCst);
        let numbers = first..first + BATCH;
        let body = batch(numbers.clone(), began_ms);
        let headers = [super::JSON];
        match client.post("/events/publish/batch", &headers, body.as_bytes()) {
            Ok(response) if response.status == 202 => learnt.stored.extend(numbers),
            Ok(_) => learnt.unknown.extend(numbers),
            Err(_) => {
                learnt.unknown.extend(numbers);
                break;
            }
        }
        // The load may be over.
        let _ = answered.send(());
    }
    learnt
}

/// Writers send batches until the process is killed, with the answer to one of the last of them.
fn load(
    served: &mut TestServer,
    sent: &mut Sent,
    began_ms: i64,
    data: PathBuf,
    flushes: bool,
    kill_at: u64,
) {
    let (load, turns) = (Load::default(), Turns::default());
    let (answered, answers) = mpsc::channel();
    let address = served.address().expect("it listens");
    let next = &sent.next;
    let all = thread::scope(|scope| {
        let stopping = load.stopping();
        let (load, turns) = (&load, &turns);
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let answered = answered.clone();
                let mut client = Client::new(address);
                scope.spawn(move || write(&mut client, (load, turns, next), &answered, began_ms))
            })
            .collect();
        let wait_for = |count: u64| {
            for _ in 0..count {
                answers.recv_timeout(PATIENCE).expect("an answer");
            }
        };
        turns.grant(FIRST_BATCHES);
        wait_for(FIRST_BATCHES);
        let batches = wait_for_files(served, turns, data, flushes);
        wait_for(batches);
        turns.grant(LAST_BATCHES);
        wait_for(kill_at);
        served.kill();
        drop(stopping);
        let ended = writers.into_iter().map(|writer| writer.join());
        let ended = ended.map(|learnt| learnt.expect("a writer does not panic"));
        ended.collect::<Vec<Learnt>>()
    });
    for Learnt { stored, unknown } in all {
        sent.acknowledged.extend(stored);
        sent.open.extend(unknown);
    }
    sent.kills.push(sent.next.load(SeqCst));
}

/// Waits until some files were sealed, while batches come in. How many were granted.
fn wait_for_files(served: &TestServer, turns: &Turns, data: PathBuf, flushes: bool) -> u64 {
    let mut client = served.client();
    let mut seen: BTreeSet<PathBuf> = files_in(&data).into_iter().collect();
    let before = seen.len();
    let deadline = Instant::now() + PATIENCE;
    let mut granted = 0;
    for look in 0.. {
        // Those that were merged are gone.
        seen.extend(files_in(&data));
        let files = seen.len() - before;
        if files >= FILES {
            break;
        }
        assert!(Instant::now() < deadline, "no files:\n{}", served.log());
        // All that came before a file may be in it: the next one needs more.
        if granted < WAITING_BATCHES * (1 + files as u64) {
            turns.grant(1);
            granted += 1;
        }
        if flushes && look % LOOKS_PER_FLUSH == 0 {
            flush(&mut client);
        }
        thread::sleep(PAUSE);
    }
    granted
}

/// Sends what has no answer yet until it has one.
fn resend(served: &TestServer, sent: &mut Sent, began_ms: i64) {
    let numbers: Vec<u64> = std::mem::take(&mut sent.open).into_iter().collect();
    let mut client = served.client();
    for numbers in numbers.chunks(100) {
        let body = batch(numbers.iter().copied(), began_ms);
        served.wait_until("not taken", || {
            let response = client.post("/events/publish/batch", &[super::JSON], body.as_bytes());
            response.expect("an answer").status == 202
        });
        sent.acknowledged.extend(numbers);
    }
}

fn verify(client: &mut Client, acknowledged: &BTreeSet<u64>, began_ms: i64) {
    let expected = i64::try_from(acknowledged.len()).expect("a count");
    let range = (began_ms - 3_600_000, began_ms + 60_000);
    for window in WINDOWS {
        let (count, read) = counted(client, window, range.0, range.1);
        assert_eq!((count, read.as_str()), (expected, window));
        check_histogram(client, window, range, acknowledged);
        check_gauge(client, window, range, acknowledged, began_ms);
    }
    let ids: BTreeSet<String> = acknowledged.iter().map(|number| id(*number)).collect();
    check_ids("search", &searched(client, range), &ids);
    if has_sql() {
        let query = json!({
            "q": "SELECT event_id FROM events", "limit": 100_000, "format": "columnar",
            "allowFullScan": true,
        });
        let answer = post(client, "/events/sql", &query, 200);
        let found = answer["data"]["data"]["event_id"].as_array();
        check_ids("SQL", found.expect("a column"), &ids);
    }
}

/// Each of these ids is there once, and no other.
#[track_caller]
fn check_ids(what: &str, found: &[Json], expected: &BTreeSet<String>) {
    let texts = found.iter().map(|id| id.as_str().expect("a text"));
    let once: BTreeSet<String> = texts.map(str::to_owned).collect();
    assert_eq!(once.len(), found.len(), "{what} has an event twice");
    let lost: Vec<&String> = expected.difference(&once).collect();
    let more: Vec<&String> = once.difference(expected).collect();
    assert!(
        lost.is_empty() && more.is_empty(),
        "{what}: -{lost:?} +{more:?}"
    );
}

/// The ids of all pages of a search.
fn searched(client: &mut Client, (start_ms, end_ms): (i64, i64)) -> Vec<Json> {
    let mut body = json!({
        "service": "shop", "period": {"between": [time_text(start_ms), time_text(end_ms)]},
        "limit": 300, "includeTotal": true,
    });
    let mut ids = Vec::new();
    loop {
        let answer = post(client, "/api/search/events", &body, 200);
        let page = answer["data"]["events"].as_array().expect("events");
        ids.extend(page.iter().map(|event| event["event_id"].clone()));
        let next = &answer["links"]["next"]["body"];
        if next.is_null() {
            assert_eq!(answer["total"], ids.len());
            return ids;
        }
        body = next.clone();
    }
}

/// The intervals of an answer about a metric, with their beginnings and ends.
fn intervals(
    client: &mut Client,
    (path, name): (&str, (&str, &str)),
    window: &str,
    (start_ms, end_ms): (i64, i64),
) -> Vec<(i64, i64, Json)> {
    let mut question = json!({
        "serviceKey": "shop", "eventType": "order.placed", "interval": window,
        "start": time_text(start_ms), "end": time_text(end_ms),
        "limits": {"offset": 0, "limit": 11_000},
    });
    question[name.0] = json!(name.1);
    let answer = post(client, path, &question, 200);
    assert_eq!(answer["window"], window);
    let ms = |time: &Json| {
        let time = chrono::DateTime::parse_from_rfc3339(time.as_str().expect("a time"));
        time.expect("RFC 3339").timestamp_millis()
    };
    let intervals = answer["data"]["intervals"].as_array().expect("intervals");
    let found = intervals
        .iter()
        .map(|one| (ms(&one["from"]), ms(&one["to"]), one.clone()));
    found.collect()
}

fn check_histogram(
    client: &mut Client,
    window: &str,
    range: (i64, i64),
    acknowledged: &BTreeSet<u64>,
) {
    let asked = (
        "/api/query/histograms",
        ("histogramName", "order_latency_ms"),
    );
    let (mut samples, mut sum) = (0, 0.0);
    for (_, _, interval) in intervals(client, asked, window, range) {
        for series in interval["series"].as_array().expect("series") {
            samples += series["samples"].as_u64().expect("a count");
            sum += series["sum"].as_f64().unwrap_or_default();
        }
    }
    // As `order` has it; whole numbers add up exactly.
    let latencies = acknowledged.iter().map(|number| number % 60);
    let expected = (acknowledged.len() as u64, latencies.sum::<u64>() as f64);
    assert_eq!((samples, sum), expected, "{window}");
}

/// The gauge has the stock that the latest event of an interval speaks of.
fn check_gauge(
    client: &mut Client,
    window: &str,
    range: (i64, i64),
    acknowledged: &BTreeSet<u64>,
    began_ms: i64,
) {
    let asked = ("/api/query/gauges", ("gaugeName", "stock_level"));
    let mut seen = 0;
    for (from_ms, to_ms, interval) in intervals(client, asked, window, range) {
        let of_interval = acknowledged.iter().filter(|number| {
            let at_ms = at_ms(**number, began_ms);
            (from_ms..to_ms).contains(&at_ms)
        });
        // Of equal times the greater id counts, which is that of the greater number.
        let latest = of_interval.max_by_key(|number| (at_ms(**number, began_ms), **number));
        let value = interval["values"][0]["value"].as_f64();
        assert_eq!(
            value,
            latest.map(|number| *number as f64),
            "{window}: {interval}"
        );
        seen += usize::from(value.is_some());
    }
    assert!(seen > 0, "{window} has no value");
}

/// Each of these events by its id.
fn verify_each<'a>(client: &mut Client, numbers: impl Iterator<Item = &'a u64>) {
    for number in numbers {
        let one = get(client, &format!("/api/events/shop/{}", id(*number)), 200);
        assert_eq!(one["event_id"], id(*number));
        assert_eq!(one["attributes"]["stock"]["level"], *number);
    }
}
