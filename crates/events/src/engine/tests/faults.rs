//! Faults of the store, one at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use icecore_model::event::EventWindow;
use serde_json::json;
use tokio::sync::Notify;

use super::{BASE_S, Bench, id, order, raw_events};
use crate::engine::{EventOptions, PublishStatus};
use crate::testing::{Fault, Operation};

const WEB: &str = "order.channel=web";

#[tokio::test]
async fn a_flush_that_is_applied_and_fails_is_not_written_again() {
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.store.fail(Operation::Write, Fault::AppliedWithError);
    let mark = bench.events.flush().await.unwrap();
    assert_eq!(mark, bench.store.mark());
    bench.events.flush().await.unwrap();
    bench.check_counts("orders", &[(WEB, 1)]).await;
    bench.check_counts("order_total", &[]).await;
}

#[tokio::test]
async fn a_flush_that_is_lost_is_written_later() {
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 5.0)).await;
    bench.store.fail(Operation::Write, Fault::Lost);
    assert_eq!(bench.events.flush().await.unwrap_err().status, 503);
    // Until then it is shown from memory, histograms, too.
    bench.check_counts("orders", &[(WEB, 1)]).await;
    bench.publish(&order(2, 0, "web", 1, 5.0)).await;
    bench.events.flush().await.unwrap();
    bench.check_counts("orders", &[(WEB, 2)]).await;
    let samples = bench.store.cells();
    let samples = samples.values().filter_map(|cell| match cell {
        icecore_model::event::Cell::Histogram(cell) => Some(cell.samples),
        _ => None,
    });
    assert_eq!(samples.collect::<Vec<_>>(), [2; 5]);
}

#[tokio::test]
async fn a_flush_with_an_unknown_outcome_waits_until_the_mark_can_be_read() {
    for fault in [Fault::AppliedWithError, Fault::Lost] {
        let bench = Bench::new().await;
        bench.publish(&order(1, 0, "web", 1, 1.0)).await;
        bench.store.fail(Operation::Write, fault);
        bench.store.fail(Operation::Snapshot, Fault::Lost);
        assert!(bench.events.flush().await.is_err());
        bench.events.flush().await.unwrap();
        bench.check_counts("orders", &[(WEB, 1)]).await;
    }
}

const MORE: &str = "
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: more_orders }
spec: {}
";

/// A change of the registry that has failed while the store cannot be read.
async fn undecided(bench: &Bench, fault: Fault) {
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    bench.store.fail(Operation::Write, fault);
    for _ in 0..1_000 {
        bench.store.fail(Operation::Snapshot, Fault::Lost);
    }
    let documents = crate::Documents::parse_yaml(MORE).unwrap();
    let problem = bench.events.apply(documents, false).await.unwrap_err();
    assert_eq!((problem.status, problem.code), (503, "ingest.unavailable"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_accepted_before_it_is_known_which_registry_is_stored() {
    for (fault, version) in [(Fault::AppliedWithError, 2), (Fault::Lost, 1)] {
        let mut bench = Bench::new().await;
        undecided(&bench, fault).await;
        let event = order(2, 0, "web", 1, 1.0);
        let body = Bytes::from(event.to_string());
        // For as long as it takes.
        for _ in 0..10 {
            let problem = bench.events.publish(body.clone()).await.unwrap_err();
            assert_eq!((problem.status, problem.code), (503, "ingest.unavailable"));
            assert_eq!(bench.events.flush().await.unwrap_err().status, 503);
            tokio::time::sleep(Duration::from_secs(15)).await;
        }
        let documents = crate::Documents::parse_yaml(MORE).unwrap();
        assert_eq!(
            bench
                .events
                .apply(documents, false)
                .await
                .unwrap_err()
                .status,
            503
        );
        bench.store.heal(Operation::Snapshot);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.publish(&event).await, PublishStatus::Stored);
        assert_eq!(bench.events.registry().version, version);
        for _ in 0..2 {
            bench.check_counts("orders", &[(WEB, 2)]).await;
            assert_eq!(bench.raw_ids().await, [id(1), id(2)]);
            bench.events.flush().await.unwrap();
            bench.crash(0).await;
            assert_eq!(bench.events.registry().version, version);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_process_does_not_wait_for_a_store_that_cannot_be_read() {
    let mut bench = Bench::new().await;
    undecided(&bench, Fault::AppliedWithError).await;
    bench.events.close().await.unwrap();
    bench.crash(0).await;
    assert_eq!(bench.events.registry().version, 2);
    bench.check_counts("orders", &[(WEB, 1)]).await;
}

#[tokio::test]
async fn a_slow_flush_is_neither_repeated_nor_in_the_way() {
    let bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    let until = Arc::new(Notify::new());
    bench
        .store
        .fail(Operation::Write, Fault::Held(until.clone()));
    let flush = |events: crate::Events| tokio::spawn(async move { events.flush().await });
    let slow = flush(bench.events.clone());
    tokio::task::yield_now().await;
    let ticks: Vec<_> = (0..3).map(|_| flush(bench.events.clone())).collect();
    // Accepting goes on.
    let status = bench.publish(&order(2, 0, "web", 1, 1.0)).await;
    assert_eq!(status, PublishStatus::Stored);
    bench.check_counts("orders", &[(WEB, 2)]).await;
    until.notify_one();
    slow.await.unwrap().unwrap();
    for tick in ticks {
        tick.await.unwrap().unwrap();
    }
    bench.check_counts("orders", &[(WEB, 2)]).await;
    // The registry and two generations.
    assert_eq!(bench.store.writes(), 3);
}

#[tokio::test]
async fn a_crash_before_the_flush_loses_nothing() {
    let mut bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    bench.publish(&order(2, 0, "web", 1, 1.0)).await;
    bench.crash(0).await;
    bench.check_counts("orders", &[(WEB, 2)]).await;
    assert_eq!(bench.raw_ids().await, [id(1), id(2)]);
    let status = bench.publish(&order(2, 0, "web", 1, 1.0)).await;
    assert_eq!(status, PublishStatus::Duplicate);
    bench.events.flush().await.unwrap();
    bench.crash(0).await;
    bench.check_counts("orders", &[(WEB, 2)]).await;
}

#[tokio::test]
async fn an_event_whose_commit_failed_is_stored_once_when_it_is_sent_again() {
    for fault in [Fault::AppliedWithError, Fault::Lost] {
        for flush_first in [true, false] {
            let mut bench = Bench::new().await;
            let event = order(1, 0, "web", 1, 1.0);
            bench.store.fail(Operation::Commit, fault.clone());
            let body = Bytes::from(event.to_string());
            assert_eq!(bench.events.publish(body).await.unwrap_err().status, 503);
            assert!(bench.raw_ids().await.is_empty());
            assert_eq!(bench.publish(&event).await, PublishStatus::Stored);
            if flush_first {
                bench.events.flush().await.unwrap();
            }
            for _ in 0..2 {
                bench.crash(0).await;
                bench.check_counts("orders", &[(WEB, 1)]).await;
                assert_eq!(bench.raw_ids().await, [id(1)]);
                bench.events.flush().await.unwrap();
            }
            bench.events.seal().await.unwrap();
            bench.crash(0).await;
            assert_eq!(bench.raw_ids().await, [id(1)]);
        }
    }
}

/// The client was told that the first body is not stored, and that the second one is.
#[tokio::test]
async fn a_retry_with_another_body_is_what_counts_after_a_crash() {
    for flush_first in [true, false] {
        let mut bench = Bench::with(EventOptions::default(), &with_items()).await;
        let nested =
            |name: &str| json!([{ "name": name, "startUnixNano": BASE_S * 1_000_000_000 }]);
        let mut first = order(1, 0, "app", 1, 1.0);
        first["events"] = nested("item.reserved");
        let mut second = order(1, 0, "web", 1, 1.0);
        second["events"] = nested("item.sold");
        let beside = order(2, 0, "web", 1, 1.0);
        bench.store.fail(Operation::Commit, Fault::AppliedWithError);
        let body = Bytes::from(json!([first, beside]).to_string());
        let refused = bench.events.publish_batch(body, false).await;
        assert_eq!(refused.unwrap_err().status, 503);
        assert_eq!(bench.publish(&second).await, PublishStatus::Stored);
        if flush_first {
            bench.events.flush().await.unwrap();
        }
        for _ in 0..2 {
            bench.crash(0).await;
            let view = bench.events.view().await.unwrap();
            let mut found = raw_events(&view).await;
            // What nothing was sent again for may be there or not.
            found.retain(|event| event.id != id(2));
            let types = found.iter().map(|event| event.event_type.to_string());
            let types: BTreeSet<String> = types.collect();
            let expected = ["item.sold", "order.placed"].map(str::to_owned);
            assert_eq!(types, BTreeSet::from(expected));
            assert_eq!(found.len(), 2);
            let counts = bench.counts("orders", EventWindow::FiveSeconds).await;
            assert!(!counts.contains_key("order.channel=app"), "{counts:?}");
            bench.events.flush().await.unwrap();
        }
        assert_eq!(bench.publish(&second).await, PublishStatus::Duplicate);
    }
}

/// The documents of the shop with two types of nested events.
fn with_items() -> String {
    let event = |name: &str| {
        format!(
            "---\nkind: Event\napiVersion: obsinity/v1\nmetadata: {{ service: shop, name: {name} }}\n\
             spec: {{}}\n"
        )
    };
    format!(
        "{}{}{}",
        super::DOCUMENTS,
        event("item.reserved"),
        event("item.sold")
    )
}

#[tokio::test]
async fn whoever_waits_for_a_write_that_fails_stores_the_event() {
    let bench = Bench::new().await;
    let event = order(1, 0, "web", 1, 1.0);
    bench.store.fail(Operation::Commit, Fault::Lost);
    let body = Bytes::from(event.to_string());
    let (a, b) = tokio::join!(
        bench.events.publish(body.clone()),
        bench.events.publish(body.clone()),
    );
    let stored = [a, b].into_iter().flatten();
    let statuses: Vec<_> = stored.map(|published| published.status).collect();
    assert_eq!(statuses, [PublishStatus::Stored]);
    bench.check_counts("orders", &[(WEB, 1)]).await;
}

#[tokio::test]
async fn a_seal_that_is_applied_and_fails_is_not_made_again() {
    for fault in [Fault::AppliedWithError, Fault::Lost] {
        for also_snapshot in [true, false] {
            let bench = Bench::new().await;
            bench.publish(&order(1, 0, "web", 1, 1.0)).await;
            bench.events.flush().await.unwrap();
            bench.store.fail(Operation::Write, fault.clone());
            if also_snapshot {
                bench.store.fail(Operation::Snapshot, Fault::Lost);
            }
            let _ = bench.events.seal_flushed().await;
            assert_eq!(bench.raw_ids().await, [id(1)]);
            bench.publish(&order(2, 0, "web", 1, 1.0)).await;
            bench.events.seal().await.unwrap();
            assert_eq!(bench.raw_ids().await, [id(1), id(2)]);
            assert_eq!(bench.store.journal_blocks(), 0);
        }
    }
}

#[tokio::test]
async fn the_registry_changes_between_generations() {
    let mut bench = Bench::new().await;
    bench.publish(&order(1, 0, "web", 1, 1.0)).await;
    bench.store.fail(Operation::Write, Fault::Lost);
    let more = "
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: later }
spec: {}
";
    let documents = || crate::Documents::parse_yaml(more).unwrap();
    // What is open could not be flushed, so nothing has changed.
    assert!(bench.events.apply(documents(), false).await.is_err());
    assert_eq!(bench.events.registry().version, 1);
    let applied = bench.events.apply(documents(), false).await.unwrap();
    assert!(applied.is_changed);
    assert!(
        !bench
            .events
            .apply(documents(), false)
            .await
            .unwrap()
            .is_changed
    );
    bench.publish(&order(2, 0, "web", 1, 1.0)).await;
    bench.crash(0).await;
    assert_eq!(*bench.events.registry(), *applied.registry);
    bench.check_counts("later", &[("", 1)]).await;
    bench.check_counts("all_orders", &[("", 2)]).await;
    let day = bench.counts("later", EventWindow::Day).await;
    assert_eq!(day.values().sum::<i64>(), 1);
}
