//! The process is killed again and again while events come in. Every event that was acknowledged is
//! counted exactly once in all five windows, and is found exactly once by search, SQL and its id.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    WINDOWS, counted, flush, get, id, now_ms, order, post, register, serve, sql, time_text,
};
use crate::http::Client;
use crate::served::{TestServer, Workplace, check_is_clean};

const ROUNDS: usize = 4;
const WRITERS: u64 = 3;
const BATCH: u64 = 20;
const LIFE: Duration = Duration::from_millis(2_500);

/// Events go into files, and files into others, while the process is killed.
const BUSY: &[&str] = &[
    "--events.seal-interval",
    "1s",
    "--events.merge-files",
    "3",
    "--events.max-keys",
    "64",
];

#[test]
fn acknowledged_events_are_counted_once_whatever_happens() {
    let workplace = Workplace::new();
    let next = AtomicU64::new(0);
    let mut acknowledged = BTreeSet::new();
    let mut open = BTreeSet::new();
    let began_ms = now_ms();
    for round in 0..ROUNDS {
        let mut served = serve(&workplace, BUSY);
        if round == 0 {
            register(&workplace, &served);
        }
        // Whoever has no answer sends again, with the same identities.
        resend(&served, &mut open, &mut acknowledged, began_ms);
        let (stored, unknown) = load(&mut served, &next, began_ms);
        acknowledged.extend(stored);
        open.extend(unknown);
    }
    let served = serve(&workplace, BUSY);
    resend(&served, &mut open, &mut acknowledged, began_ms);
    let mut client = served.client();
    let found = u64::try_from(acknowledged.len()).expect("a count");
    assert!(found > 200, "only {found} events in {ROUNDS} rounds");
    verify(&mut client, &acknowledged, began_ms);
    flush(&mut client);
    verify(&mut client, &acknowledged, began_ms);
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

/// Writers send batches until the process is killed. The numbers of events that were acknowledged,
/// and of those whose outcome is not known.
fn load(served: &mut TestServer, next: &AtomicU64, began_ms: i64) -> (Vec<u64>, Vec<u64>) {
    let stopped = AtomicBool::new(false);
    let address = served.address().expect("it listens");
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let stopped = &stopped;
                scope.spawn(move || {
                    let mut client = Client::new(address);
                    let (mut stored, mut unknown) = (Vec::new(), Vec::new());
                    while !stopped.load(Ordering::Relaxed) {
                        let first = next.fetch_add(BATCH, Ordering::Relaxed);
                        let numbers = first..first + BATCH;
                        let body = batch(numbers.clone(), began_ms);
                        let headers = [super::JSON];
                        match client.post("/events/publish/batch", &headers, body.as_bytes()) {
                            Ok(response) if response.status == 202 => stored.extend(numbers),
                            _ => unknown.extend(numbers),
                        }
                    }
                    (stored, unknown)
                })
            })
            .collect();
        thread::sleep(LIFE);
        served.kill();
        stopped.store(true, Ordering::Relaxed);
        let mut all = (Vec::new(), Vec::new());
        for writer in writers {
            let (stored, unknown) = writer.join().expect("a writer does not panic");
            all.0.extend(stored);
            all.1.extend(unknown);
        }
        all
    })
}

/// Sends what has no answer yet until it has one.
fn resend(
    served: &TestServer,
    open: &mut BTreeSet<u64>,
    acknowledged: &mut BTreeSet<u64>,
    began_ms: i64,
) {
    let numbers: Vec<u64> = std::mem::take(open).into_iter().collect();
    let mut client = served.client();
    for numbers in numbers.chunks(100) {
        let body = batch(numbers.iter().copied(), began_ms);
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let response = client.post("/events/publish/batch", &[super::JSON], body.as_bytes());
            if response.expect("an answer").status == 202 {
                break;
            }
            assert!(Instant::now() < deadline, "not taken for a long time");
            thread::sleep(Duration::from_millis(100));
        }
        acknowledged.extend(numbers);
    }
}

fn verify(client: &mut Client, acknowledged: &BTreeSet<u64>, began_ms: i64) {
    let expected = i64::try_from(acknowledged.len()).expect("a count");
    let (start_ms, end_ms) = (began_ms - 3_600_000, began_ms + 60_000);
    for window in WINDOWS {
        let (count, read) = counted(client, window, start_ms, end_ms);
        assert_eq!((count, read.as_str()), (expected, window));
    }
    let search = json!({
        "service": "shop", "period": {"between": [time_text(start_ms), time_text(end_ms)]},
        "limit": 1, "includeTotal": true,
    });
    let answer = post(client, "/api/search/events", &search, 200);
    assert_eq!(answer["total"], expected);
    let query = "SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM events";
    assert_eq!(
        sql(client, query),
        [json!({"n": expected, "ids": expected})]
    );
    for number in acknowledged.iter().step_by(17) {
        let one = get(client, &format!("/api/events/shop/{}", id(*number)), 200);
        assert_eq!(one["event_id"], id(*number));
    }
}
