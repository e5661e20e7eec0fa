//! The process is killed again and again while events come in. Every event that was acknowledged is
//! counted exactly once in all five windows, and is found exactly once by search, SQL and its id.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::{
    WINDOWS, counted, flush, get, has_sql, id, now_ms, order, post, register, serve, time_text,
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
    // Of merging, too.
    "--events.retention-interval",
    "1s",
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
    verify_each(&mut client, &acknowledged);
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

/// Each event by its id.
fn verify_each(client: &mut Client, acknowledged: &BTreeSet<u64>) {
    for number in acknowledged {
        let one = get(client, &format!("/api/events/shop/{}", id(*number)), 200);
        assert_eq!(one["event_id"], id(*number));
        assert_eq!(one["attributes"]["stock"]["level"], *number);
    }
}
