//! Questions while events come in and files are sealed, merged and dropped: each event that was
//! acknowledged before a question is in its answer, once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{id, order, post, with_documents};
use crate::served::{DEADLINE, TestServer};

/// Files that are sealed while events come and questions are asked; `SEALED_FILES` sets another
/// number.
const SEALED_FILES: f64 = 4.0;

/// Files that are merged meanwhile.
const MERGED_FILES: f64 = 2.0;

const BATCH: u64 = 20;

/// Between batches: questions are to be asked while there is load, not after it.
const PAUSE: Duration = Duration::from_millis(10);

/// What the ids of an answer say about those that were acknowledged before it was asked for.
#[track_caller]
fn check(ids: &[Value], acknowledged: u64, what: &str) -> BTreeSet<String> {
    let found: BTreeSet<String> = ids
        .iter()
        .map(|id| id.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(found.len(), ids.len(), "{what}: an event is there twice");
    let missing = (0..acknowledged).find(|number| !found.contains(&id(*number)));
    assert_eq!(missing, None, "{what}: of {acknowledged} events");
    found
}

async fn by_sql(served: &TestServer) -> Vec<Value> {
    let query = json!({
        "q": "SELECT event_id FROM shop.\"order.placed\"", "allowFullScan": true,
        "limit": 100_000, "format": "columnar",
    });
    let answer = post(served, "/events/sql", &query).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let ids = answer["data"]["data"]["event_id"].as_array();
    ids.unwrap_or_else(|| panic!("{answer}")).clone()
}

/// Page by page, each beginning where the one before has ended.
async fn by_search(served: &TestServer) -> Vec<Value> {
    let mut ids = Vec::new();
    let mut body = json!({
        "service": "shop", "event": "order.placed", "period": {"previous": "1h"}, "limit": 1_000,
        "order": [{"field": "received_at", "dir": "asc"}],
    });
    loop {
        let answer = post(served, "/api/search/events", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        let page = answer["data"]["events"].as_array().unwrap();
        ids.extend(page.iter().map(|event| event["event_id"].clone()));
        let next = &answer["links"]["next"]["body"];
        if next.is_null() {
            return ids;
        }
        body = next.clone();
    }
}

fn figure(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.unwrap_or_else(|| panic!("{name}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_each_acknowledged_event_once() {
    let served = with_documents(&[
        ("events.seal_interval", "1s"),
        ("events.seal_bytes", "64KiB"),
        ("events.merge_files", "2"),
        ("events.merge_up_to_events", "2000"),
        ("events.retention_interval", "1s"),
        ("events.file_grace", "10m"),
        ("events.max_keys", "4"),
    ])
    .await;
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let sealed_files = std::env::var("SEALED_FILES");
    let sealed_files = sealed_files.map_or(SEALED_FILES, |number| number.parse().unwrap());
    let deadline = Instant::now() + DEADLINE.mul_f64(sealed_files);
    let publish = async {
        while !is_over.load(SeqCst) {
            let first = acknowledged.load(SeqCst);
            let batch: Vec<Value> = (first..first + BATCH).map(order).collect();
            let answer = post(&served, "/events/publish/batch", &json!(batch)).await;
            assert_eq!(answer.status, 202, "{}", answer.text());
            acknowledged.store(first + BATCH, SeqCst);
            tokio::time::sleep(PAUSE).await;
        }
    };
    let ask = async {
        let mut questions = 0;
        loop {
            if cfg!(feature = "sql") {
                let before = acknowledged.load(SeqCst);
                check(&by_sql(&served).await, before, "SQL");
            }
            let before = acknowledged.load(SeqCst);
            check(&by_search(&served).await, before, "search");
            questions += 1;
            let page = served.get("/metrics", &[]).await;
            let sealed = figure(page.text(), "icecore_events_seals_total");
            let merged = figure(page.text(), "icecore_events_merged_files_total");
            if questions >= 2 && sealed >= sealed_files && merged >= MERGED_FILES {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{sealed} files sealed, {merged} merged"
            );
        }
        is_over.store(true, SeqCst);
    };
    tokio::join!(publish, ask);
    let all = acknowledged.load(SeqCst);
    if cfg!(feature = "sql") {
        assert_eq!(check(&by_sql(&served).await, all, "SQL").len() as u64, all);
    } else {
        skipped_tests::skip(
            "SQL while events are sealed",
            "cargo test -p icecore-server --features sql --test all while_sealing (builds DataFusion: minutes)",
        );
    }
    let found = check(&by_search(&served).await, all, "search");
    assert_eq!(found.len() as u64, all);
    served.stop().await.unwrap();
}
