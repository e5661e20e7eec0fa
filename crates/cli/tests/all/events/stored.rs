//! A database with events that the first version with events wrote: it opens, answers, and is gone
//! on with.
//!
//! `testdata/databases/events` has a registry, cells of all windows and kinds of metrics, states of
//! objects, an event in quarantine and a sealed file, of a process that was stopped in order, and
//! behind them a journal, of one that was killed.
//! `ICECORE_WRITE_DATABASES=1 cargo test -p icecore --test all events::stored` writes it anew; only
//! a version that cannot read it any more needs another one.

use std::path::{Path, PathBuf};

use icecore_server::CLOCK_VARIABLE;
use serde_json::{Value as Json, json};

use super::{
    DOCUMENTS, WINDOWS, counted, events, files_in, flush, get, id, order, path_text, post,
    time_text,
};
use crate::http::{Client, escape};
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean};

/// The time of the first process, and of the events.
const NOW_MS: i64 = 1_794_218_400_000;
const MINUTE_MS: i64 = 60_000;

/// Orders in files, and those that the journal has alone.
const SEALED: u64 = 20;
const JOURNALLED: u64 = 10;

/// Orders that change.
const STATES: &str = r#"---
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.updated }
spec:
  schema:
    type: object
    properties:
      order:
        type: object
        properties:
          id: { type: string }
          status: { type: string, index: true }
---
apiVersion: obsinity/v1
kind: StateExtractors
metadata: { service: shop }
spec:
  stateExtractors:
    - { rawType: order.updated, objectType: Order, objectIdField: order.id, stateAttributes: [order.status] }
"#;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn serve(workplace: &Workplace, after_minutes: i64, flags: &[&str]) -> TestServer {
    let now_ms = NOW_MS + after_minutes * MINUTE_MS;
    Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(flags)
        .env(CLOCK_VARIABLE, &now_ms.to_string())
        .start()
}

/// When an order was placed: in two intervals of 5 s.
fn placed_ms(number: u64) -> i64 {
    let is_late = number >= SEALED;
    NOW_MS - 10 * MINUTE_MS + if is_late { 5_000 } else { 0 }
}

fn orders(numbers: std::ops::Range<u64>) -> Json {
    let orders = numbers.map(|number| order(number, placed_ms(number)));
    orders.collect()
}

/// An order comes into a state.
fn updated(number: u64, order: &str, status: &str) -> Json {
    let at_ms = NOW_MS - 9 * MINUTE_MS + number as i64 * 1_000;
    json!({
        "eventId": id(1_000 + number),
        "event": {"name": "order.updated"},
        "resource": {"service": {"id": "shop"}},
        "time": {"startUnixNano": at_ms * 1_000_000},
        "attributes": {"order": {"id": order, "status": status}},
    })
}

fn unknown() -> Json {
    let mut unknown = order(500, placed_ms(0));
    unknown["event"]["name"] = json!("order.lost");
    unknown
}

/// Lets two processes write the database.
fn write_database() {
    let workplace = Workplace::new();
    let served = &mut serve(&workplace, 0, &["--events.seal-interval", "1s"]);
    let documents = workplace.path("shop.yaml");
    std::fs::write(&documents, format!("{DOCUMENTS}{STATES}")).expect("a file can be written");
    events(served, &["apply", path_text(&documents)]);
    let client = &mut served.client();
    let batch = "/events/publish/batch";
    let stored = post(client, batch, &orders(0..SEALED), 202);
    assert_eq!(stored["stored"], SEALED);
    let updates = json!([updated(0, "a", "NEW"), updated(1, "b", "NEW"), unknown()]);
    let stored = post(client, batch, &updates, 202);
    assert_eq!(
        (&stored["stored"], &stored["unconfigured"]),
        (&json!(2), &json!(1))
    );
    flush(client);
    served.wait_until("no file of events", || has_file(&workplace.path("data")));
    served.terminate();
    served.wait_exit(PATIENCE);
    let served = &mut serve(&workplace, 10, &[]);
    let client = &mut served.client();
    let stored = post(client, batch, &orders(SEALED..SEALED + JOURNALLED), 202);
    assert_eq!(stored["stored"], JOURNALLED);
    post(client, batch, &json!([updated(2, "a", "PAID")]), 202);
    served.kill();
    let target = repository("testdata/databases/events");
    let _ = std::fs::remove_dir_all(&target);
    copy(&workplace.path("data"), &target);
}

fn has_file(directory: &Path) -> bool {
    !files_in(directory).is_empty()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory can be made");
    let entries = std::fs::read_dir(from).expect("it is there");
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a file can be copied");
        }
    }
}

/// Checks what the database answers.
fn check(client: &mut Client, when: &str) {
    let range = (NOW_MS - 60 * MINUTE_MS, NOW_MS);
    let all = i64::try_from(SEALED + JOURNALLED).expect("a count");
    for window in WINDOWS {
        let found = counted(client, window, range.0, range.1);
        assert_eq!(found, (all, window.to_owned()), "{when}");
    }
    for (query, expected) in [
        ("sum(orders_total)", "30"),
        (r#"orders_total{order_channel="web"}"#, "15"),
        ("sum(order_latency_ms_count)", "30"),
        (r#"sum(order_latency_ms_bucket{le="10"})"#, "11"),
        ("sum(order_latency_ms_sum)", "435"),
        ("stock_level", "29"),
    ] {
        assert_eq!(value(client, query), expected, "{query} {when}");
    }
    let search = json!({
        "service": "shop", "event": "order.placed",
        "period": {"between": [time_text(range.0), time_text(range.1)]},
        "match": {"attribute": "order.items", "op": "=", "value": 3},
        "limit": 50, "includeTotal": true,
    });
    // 3, 10, 17 and 24.
    let found = post(client, "/api/search/events", &search, 200);
    assert_eq!(found["total"], 4, "{when}: {found}");
    for number in [7, SEALED + 5] {
        let one = get(client, &format!("/api/events/shop/{}", id(number)), 200);
        assert_eq!(one["attributes"]["order"]["items"], number % 7, "{when}");
        assert_eq!(one["attributes"].get("customer"), None, "masked");
    }
    let states = json!({"serviceKey": "shop", "objectType": "Order", "attribute": "order.status"});
    let found = post(client, "/api/query/state-counts", &states, 200);
    let expected = json!([{"state": "NEW", "count": 1}, {"state": "PAID", "count": 1}]);
    assert_eq!(found["data"]["states"], expected, "{when}");
    let quarantined = get(client, "/api/admin/quarantine", 200);
    let items = quarantined["items"].as_array().expect("a list");
    assert_eq!(items.len(), 1, "{when}: {quarantined}");
    assert_eq!(items[0]["eventType"], "order.lost");
    assert_eq!(items[0]["eventId"], id(500));
}

fn value(client: &mut Client, query: &str) -> String {
    let time = (NOW_MS - 9 * MINUTE_MS) / 1_000;
    let path = format!("/api/v1/query?query={}&time={time}", escape(query));
    let answer = get(client, &path, 200);
    match answer["data"]["result"].as_array().map(Vec::as_slice) {
        Some([one]) => one["value"][1].as_str().unwrap_or_default().to_owned(),
        _ => panic!("{query}: {answer}"),
    }
}

#[test]
fn a_database_of_events_answers_and_is_gone_on_with() {
    if std::env::var_os("ICECORE_WRITE_DATABASES").is_some() {
        write_database();
    }
    let workplace = Workplace::new();
    copy(
        &repository("testdata/databases/events"),
        &workplace.path("data"),
    );
    assert!(has_file(&workplace.path("data")));
    check_is_clean(workplace.path("data"), &[]);
    let served = &mut serve(&workplace, 20, &["--events.seal-interval", "1s"]);
    let client = &mut served.client();
    check(client, "opened");
    // What was there is known: neither is counted again.
    let batch = json!([
        order(3, placed_ms(3)),
        order(SEALED + 3, placed_ms(SEALED + 3))
    ]);
    let again = post(client, "/events/publish/batch", &batch, 202);
    assert_eq!(
        (&again["duplicates"], &again["stored"]),
        (&json!(2), &json!(0))
    );
    flush(client);
    let run = client.post("/api/v1/admin/maintenance/run", &[], b"");
    assert_eq!(run.expect("an answer").status, 200);
    check(client, "maintained");
    served.terminate();
    served.wait_exit(PATIENCE);
    check_is_clean(workplace.path("data"), &[]);
    let served = &mut serve(&workplace, 30, &[]);
    let client = &mut served.client();
    check(client, "started again");
    let more = post(client, "/events/publish/batch", &orders(30..32), 202);
    assert_eq!(more["stored"], 2, "{more}");
}
