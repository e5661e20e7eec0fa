//! What requests are answered, and that a repeat changes nothing.

use std::time::Duration;

use bytes::Bytes;
use icecore_model::Clock;
use icecore_model::event::EventWindow;
use serde_json::{Value as Json, json};

use super::{BASE_S, Bench, DOCUMENTS, id, order, raw_events};
use crate::engine::{EventOptions, NotRegistered, PublishStatus, Unconfigured};
use crate::event_id_text;
use crate::testing::{Fault, Operation};

#[tokio::test]
async fn a_repeat_changes_nothing() {
    let bench = Bench::new().await;
    let event = order(1, 0, "web", 3, 41.5);
    assert_eq!(bench.publish(&event).await, PublishStatus::Stored);
    assert_eq!(bench.publish(&event).await, PublishStatus::Duplicate);
    bench.events.flush().await.unwrap();
    assert_eq!(bench.publish(&event).await, PublishStatus::Duplicate);
    // Another start in the same week, and other values.
    let other = order(1, 60, "app", 7, 1.0);
    assert_eq!(bench.publish(&other).await, PublishStatus::Duplicate);
    bench.events.seal().await.unwrap();
    assert_eq!(bench.publish(&event).await, PublishStatus::Duplicate);
    bench
        .check_counts("orders", &[("order.channel=web", 1)])
        .await;
    bench.check_counts("all_orders", &[("", 1)]).await;
    bench
        .check_samples("order_total", &[("order.channel=web", 1)])
        .await;
    assert_eq!(bench.raw_ids().await, [id(1)]);
    assert_eq!(bench.events.metrics().duplicates.get(), 4);
}

#[tokio::test]
async fn the_first_of_equal_ids_in_a_batch_is_stored() {
    let bench = Bench::new().await;
    let batch = [
        order(1, 0, "web", 1, 1.0),
        order(1, 1, "app", 1, 1.0),
        order(2, 2, "web", 1, 1.0),
    ];
    let outcome = bench.publish_all(&batch).await;
    let counts = (outcome.received, outcome.stored, outcome.duplicates);
    assert_eq!(counts, (3, 2, 1));
    bench
        .check_counts("orders", &[("order.channel=web", 2)])
        .await;
}

#[tokio::test]
async fn of_two_requests_at_once_one_stores_the_event() {
    let bench = Bench::new().await;
    let event = order(1, 0, "web", 1, 1.0);
    let (a, b, c) = tokio::join!(
        bench.publish(&event),
        bench.publish(&event),
        bench.publish(&event),
    );
    let stored = [a, b, c];
    let stored = stored
        .iter()
        .filter(|status| **status == PublishStatus::Stored);
    assert_eq!(stored.count(), 1);
    bench.check_counts("all_orders", &[("", 1)]).await;
}

#[tokio::test]
async fn items_are_judged_one_by_one_unless_they_are_atomic() {
    let bench = Bench::new().await;
    let mut bad = order(2, 0, "web", 1, 1.0);
    bad["attributes"]["order"]["items"] = json!("three");
    let body = Bytes::from(json!([order(1, 0, "web", 1, 1.0), bad]).to_string());
    let refused = bench
        .events
        .publish_batch(body.clone(), true)
        .await
        .unwrap();
    assert!(refused.is_refused);
    assert_eq!((refused.stored, refused.rejected.len()), (0, 1));
    assert_eq!(refused.rejected[0].index, 1);
    assert_eq!(refused.rejected[0].problem.code, "ingest.attribute-type");
    assert_eq!(refused.rejected[0].event_id, Some(event_id_text(id(2))));
    assert!(bench.raw_ids().await.is_empty());
    let outcome = bench.events.publish_batch(body, false).await.unwrap();
    assert!(!outcome.is_refused);
    assert_eq!((outcome.stored, outcome.rejected.len()), (1, 1));
    assert_eq!(bench.raw_ids().await, [id(1)]);
    let empty = bench.publish_all(&[]).await;
    assert_eq!(empty, crate::BatchOutcome::default());
}

fn with_nested(number: u32, nested: Json) -> Json {
    let mut event = order(number, 0, "web", 1, 1.0);
    event["events"] = nested;
    event
}

const NESTED: &str = "
kind: Event
apiVersion: obsinity/v1
metadata: { service: shop, name: payment }
spec: {}
---
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: payment, name: payments }
spec: {}
";

#[tokio::test]
async fn nested_events_count_by_their_own_type_and_go_with_their_parent() {
    let bench = Bench::new().await;
    bench.apply(NESTED).await;
    let event = with_nested(1, json!([{ "name": "payment" }, { "name": "payment" }]));
    assert_eq!(bench.publish(&event).await, PublishStatus::Stored);
    bench.check_counts("payments", &[("", 2)]).await;
    assert_eq!(bench.raw_ids().await.len(), 3);
    // Nested otherwise, but of a parent that is known.
    let event = with_nested(1, json!([{ "name": "payment" }, {}, { "name": "payment" }]));
    assert_eq!(bench.publish(&event).await, PublishStatus::Duplicate);
    bench.check_counts("payments", &[("", 2)]).await;
    assert_eq!(bench.raw_ids().await.len(), 3);
}

#[tokio::test]
async fn unknown_types_are_put_into_quarantine_without_their_payload() {
    let bench = Bench::new().await;
    let mut event = order(1, 0, "web", 1, 1.0);
    event["event"]["name"] = json!("order.cancelled");
    assert_eq!(bench.publish(&event).await, PublishStatus::Unconfigured);
    assert!(bench.raw_ids().await.is_empty());
    let entries = bench.events.quarantine(None, 100).await.unwrap().items;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].event_type, "order.cancelled");
    assert_eq!(entries[0].reason, "UNCONFIGURED_EVENT_TYPE");
    assert_eq!(entries[0].payload, None);
    assert_eq!(entries[0].bytes, event.to_string().len() as u64);
    assert!(bench.events.publish(Bytes::from("{no")).await.is_err());
    let letters = bench.events.dead_letters(None, 100).await.unwrap().items;
    let shown = (
        &*letters[0].source,
        &*letters[0].reason,
        &letters[0].payload,
    );
    assert_eq!(shown, ("REST_PUBLISH_ONE", "JSON_PARSE_ERROR", &None));
}

#[tokio::test]
async fn what_is_in_quarantine_is_stored_once_its_type_is_known() {
    let options = EventOptions {
        keep_payload: true,
        max_quarantine: 2,
        ..EventOptions::default()
    };
    let mut bench = Bench::with(options, DOCUMENTS).await;
    for number in 1..=3 {
        let event = json!({
            "eventId": event_id_text(id(number)),
            "resource": { "service": { "id": "shop" } },
            "event": { "name": "payment" },
            "startUnixNano": BASE_S * 1_000_000_000,
        });
        assert_eq!(bench.publish(&event).await, PublishStatus::Unconfigured);
    }
    bench.crash(0).await;
    let report = bench.events.replay_quarantine().await.unwrap();
    assert_eq!((report.stored, report.remaining), (0, 2));
    bench.apply(NESTED).await;
    let report = bench.events.replay_quarantine().await.unwrap();
    assert_eq!((report.stored, report.remaining), (2, 0));
    // The oldest was beyond the limit.
    assert_eq!(bench.raw_ids().await, [id(2), id(3)]);
    bench.check_counts("payments", &[("", 2)]).await;
    assert!(
        bench
            .events
            .quarantine(None, 100)
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

/// With everything that its parent gives it, as if its type had been known at once.
#[tokio::test]
async fn a_nested_event_from_the_quarantine_is_what_it_would_have_been() {
    let options = EventOptions {
        keep_payload: true,
        ..EventOptions::default()
    };
    let at = |ms: i64| json!((BASE_S * 1_000 + ms) * 1_000_000);
    let mut event = with_nested(
        1,
        json!([
            // End and duration of the parent.
            { "name": "payment", "attributes": { "try": 1 }, "status": { "code": "ERROR" } },
            { "name": "payment", "time": { "startUnixNano": at(10), "endUnixNano": at(25) },
              "kind": "CLIENT" },
            { "name": "payment", "startUnixNano": at(20),
              "events": [{ "name": "payment" }, { "name": "order.placed" }, { "name": "never" }] },
        ]),
    );
    event["endUnixNano"] = at(40);
    event["synthetic"] = json!(true);
    event["trace"] = json!({
        "traceId": "5b8aa5a2d2c872e8321cf37308d69df2", "spanId": "051581bf3cb55c13",
        "parentSpanId": "051581bf3cb55c14", "correlationId": "cart-778",
    });
    let known = Bench::with(options.clone(), DOCUMENTS).await;
    known.apply(NESTED).await;
    known.publish(&event).await;
    let mut later = Bench::with(options, DOCUMENTS).await;
    later.publish(&event).await;
    assert_eq!(later.raw_ids().await.len(), 2);
    later.crash(0).await;
    later.apply(NESTED).await;
    let report = later.events.replay_quarantine().await.unwrap();
    assert_eq!((report.stored, report.remaining), (4, 1));
    // Again and again: what stays is listed once.
    let report = later.events.replay_quarantine().await.unwrap();
    assert_eq!((report.stored, report.remaining), (0, 1));
    let stored = async |bench: &Bench| {
        let mut events = raw_events(&bench.events.view().await.unwrap()).await;
        events.sort_by_key(|event| event.id);
        events
    };
    let (expected, found) = (stored(&known).await, stored(&later).await);
    assert_eq!(expected.len(), 6);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_repeat_adds_nothing_to_the_quarantine() {
    let mut bench = Bench::new().await;
    let event = with_nested(1, json!([{ "name": "unknown" }]));
    assert_eq!(bench.publish(&event).await, PublishStatus::Stored);
    assert_eq!(bench.publish(&event).await, PublishStatus::Duplicate);
    bench.crash(0).await;
    let again = [
        event.clone(),
        with_nested(2, json!([{ "name": "unknown" }])),
        event,
    ];
    let outcome = bench.publish_all(&again).await;
    assert_eq!((outcome.stored, outcome.duplicates), (1, 2));
    let listed = bench.events.quarantine(None, 100).await.unwrap().items;
    assert_eq!(listed.len(), 2);
}

/// The parent would be a repeat from then on, and its nested event would be nowhere.
#[tokio::test]
async fn a_parent_is_not_stored_before_what_is_nested_in_it_is_listed() {
    let bench = Bench::new().await;
    let event = with_nested(1, json!([{ "name": "unknown" }]));
    bench.store.fail(Operation::Write, Fault::Lost);
    let body = Bytes::from(event.to_string());
    assert_eq!(bench.events.publish(body).await.unwrap_err().status, 503);
    assert_eq!(bench.publish(&event).await, PublishStatus::Stored);
    let listed = bench.events.quarantine(None, 100).await.unwrap().items;
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn unknown_types_can_be_rejected_or_registered() {
    let mut event = order(1, 0, "web", 1, 1.0);
    event["resource"]["service"]["id"] = json!("new shop");
    let options = EventOptions {
        unconfigured: Unconfigured::Reject,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    let body = Bytes::from(event.to_string());
    let problem = bench.events.publish(body).await.unwrap_err();
    assert_eq!(problem.code, "ingest.event-type-missing");
    let options = EventOptions {
        unconfigured: Unconfigured::Accept,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    assert_eq!(bench.publish(&event).await, PublishStatus::Stored);
    assert_eq!(bench.publish(&event).await, PublishStatus::Duplicate);
    // The same id of another service is another event.
    assert_eq!(
        bench.publish(&order(1, 0, "web", 1, 1.0)).await,
        PublishStatus::Stored
    );
    let counts = bench.counts("events_stored_total", EventWindow::Day).await;
    assert_eq!(counts.values().sum::<i64>(), 2);
}

fn of_type(number: u32, service: &str, event_type: &str) -> Json {
    let mut event = order(number, 0, "web", 1, 1.0);
    event["resource"]["service"]["id"] = json!(service);
    event["event"]["name"] = json!(event_type);
    event
}

#[tokio::test]
async fn unknown_types_are_registered_in_one_change() {
    let options = EventOptions {
        unconfigured: Unconfigured::Accept,
        max_accepted_types: 8,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    let before = bench.events.registry().version;
    // A name that no type can have does not keep the others out.
    let batch = [
        of_type(1, "shop", "a"),
        of_type(2, "shop", "b"),
        of_type(3, "other", "a"),
        of_type(4, "shop", " bad\u{7f}"),
    ];
    let outcome = bench.publish_all(&batch).await;
    assert_eq!((outcome.stored, outcome.unconfigured), (3, 1));
    assert_eq!(bench.events.registry().version, before + 1);
    // What comes while a change is under way is gathered for the next one.
    let types = &bench.events.engine.unregistered;
    let under_way = types.hold().await;
    let requests = (0..4).map(|at| {
        let (events, event) = (
            bench.events.clone(),
            of_type(10 + at, "shop", &format!("c{at}")),
        );
        tokio::spawn(async move { events.publish(Bytes::from(event.to_string())).await })
    });
    let requests: Vec<_> = requests.collect();
    while types.wanted() < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(under_way);
    for request in requests {
        let status = request.await.unwrap().unwrap().status;
        assert_eq!(status, PublishStatus::Stored);
    }
    assert_eq!(bench.events.registry().version, before + 2);
    // There are eight types now.
    let beyond = bench.publish(&of_type(20, "shop", "d")).await;
    assert_eq!(beyond, PublishStatus::Unconfigured);
    assert_eq!(
        bench
            .events
            .quarantine(None, 100)
            .await
            .unwrap()
            .items
            .len(),
        2
    );
}

#[tokio::test]
async fn payloads_of_the_quarantine_are_read_page_by_page() {
    let options = EventOptions {
        keep_payload: true,
        max_quarantine: 150,
        ..EventOptions::default()
    };
    let mut bench = Bench::with(options, DOCUMENTS).await;
    // 200 KB each: a page has less than a hundred of them.
    let long = "x".repeat(30_000);
    let batch = |from: u32| -> Vec<Json> {
        let event = |number| {
            let mut event = of_type(number, "shop", "unknown");
            for name in ["a", "b", "c", "d", "e", "f", "g"] {
                event["attributes"][name] = json!(long);
            }
            event
        };
        (from..from + 20).map(event).collect()
    };
    for from in 0..8 {
        bench.publish_all(&batch(from * 20)).await;
    }
    bench.crash(0).await;
    let (mut below, mut numbers, mut pages) = (None, Vec::new(), 0);
    loop {
        let page = bench.events.quarantine(below, 1_000).await.unwrap();
        let bytes = page.items.iter().map(|entry| entry.bytes).sum::<u64>();
        assert!(bytes < 17 << 20, "{bytes}");
        numbers.extend(page.items.iter().map(|entry| entry.number));
        (below, pages) = (numbers.last().copied(), pages + 1);
        if !page.has_more {
            break;
        }
    }
    // The newest 150 of 160, newest first.
    assert_eq!(numbers, (11..=160).rev().collect::<Vec<u64>>());
    assert_eq!(pages, 2);
    let few = bench.events.quarantine(Some(15), 3).await.unwrap();
    let few_numbers: Vec<u64> = few.items.iter().map(|entry| entry.number).collect();
    assert_eq!((few_numbers, few.has_more), (vec![14, 13, 12], true));
    let document = json!({
        "apiVersion": "obsinity/v1",
        "kind": "Event",
        "metadata": { "service": "shop", "name": "unknown" },
    });
    bench.apply(&document.to_string()).await;
    let report = bench.events.replay_quarantine().await.unwrap();
    assert_eq!((report.stored, report.remaining), (150, 0));
}

/// What a write of unknown outcome may have added or removed is looked for, and nothing else is
/// forgotten.
#[tokio::test]
async fn a_list_forgets_nothing_when_a_write_fails() {
    for (fault, expected) in [
        (Fault::Lost, vec![2, 1]),
        (Fault::AppliedWithError, vec![3, 2]),
    ] {
        let options = EventOptions {
            keep_payload: true,
            max_quarantine: 2,
            ..EventOptions::default()
        };
        let mut bench = Bench::with(options, DOCUMENTS).await;
        let unknown = |number| of_type(number, "shop", "unknown");
        bench.publish_all(&[unknown(1), unknown(2)]).await;
        bench.store.fail(Operation::Write, fault.clone());
        let body = Bytes::from(unknown(3).to_string());
        assert_eq!(bench.events.publish(body).await.unwrap_err().status, 503);
        let numbers = async |bench: &Bench| {
            let listed = bench.events.quarantine(None, 100).await.unwrap().items;
            listed.iter().map(|entry| entry.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&bench).await, expected, "{fault:?}");
        // No number is given twice, and what is too much goes with the next write.
        bench.publish(&unknown(4)).await;
        let listed = numbers(&bench).await;
        assert_eq!(listed[0], 4);
        assert!(listed.len() <= 2, "{listed:?}");
        bench.crash(0).await;
        assert_eq!(numbers(&bench).await, listed, "what is stored is listed");
        // An entry stays until it is known that its record is gone.
        let document = json!({
            "apiVersion": "obsinity/v1",
            "kind": "Event",
            "metadata": { "service": "shop", "name": "unknown" },
        });
        bench.apply(&document.to_string()).await;
        bench.store.fail(Operation::Write, Fault::Lost);
        assert!(bench.events.replay_quarantine().await.is_err());
        assert_eq!(numbers(&bench).await, listed);
        let report = bench.events.replay_quarantine().await.unwrap();
        assert_eq!((report.stored, report.remaining), (listed.len(), 0));
        assert!(numbers(&bench).await.is_empty());
    }
}

#[tokio::test]
async fn answers_say_what_was_not_kept() {
    for keep_payload in [false, true] {
        let options = EventOptions {
            keep_payload,
            ..EventOptions::default()
        };
        let bench = Bench::with(options, DOCUMENTS).await;
        let unknown = of_type(1, "shop", "unknown");
        let published = bench.events.publish(Bytes::from(unknown.to_string())).await;
        let published = published.unwrap();
        assert_eq!(published.status, PublishStatus::Unconfigured);
        let expected = NotRegistered {
            service: "shop".into(),
            event_type: "unknown".into(),
            is_content_kept: keep_payload,
        };
        assert_eq!(published.not_registered, std::slice::from_ref(&expected));
        // An event that is stored may have others in it.
        let mut with_unknown = of_type(2, "shop", "order.placed");
        with_unknown["events"] = json!([{ "name": "unknown" }]);
        let published = bench.events.publish(Bytes::from(with_unknown.to_string()));
        let published = published.await.unwrap();
        assert_eq!(published.status, PublishStatus::Stored);
        assert_eq!(published.not_registered, std::slice::from_ref(&expected));
        let batch = [unknown, of_type(3, "shop", "order.placed")];
        let outcome = bench.publish_all(&batch).await;
        assert_eq!((outcome.stored, outcome.unconfigured), (1, 1));
        assert_eq!(outcome.not_registered, [expected]);
    }
}

#[tokio::test]
async fn quarantine_and_dead_letters_have_limits_of_bytes_and_age() {
    let day_ms = 86_400_000;
    let options = EventOptions {
        keep_payload: true,
        max_quarantine_bytes: 100_000,
        quarantine_ttl: Duration::from_secs(3 * 86_400),
        ..EventOptions::default()
    };
    let mut bench = Bench::with(options, DOCUMENTS).await;
    let numbers = async |bench: &Bench| {
        let listed = bench.events.quarantine(None, 100).await.unwrap().items;
        listed.iter().map(|entry| entry.number).collect::<Vec<_>>()
    };
    let retention = async |bench: &Bench| {
        let now_ms = Clock::now_ms(&*bench.clock);
        bench
            .events
            .run_retention(now_ms)
            .await
            .unwrap()
            .quarantined
    };
    for number in 1..=4 {
        let mut event = of_type(number, "shop", "unknown");
        event["attributes"]["text"] = json!("x".repeat(30_000));
        bench.publish(&event).await;
    }
    assert_eq!(numbers(&bench).await, [4, 3, 2]);
    bench.crash(0).await;
    bench.publish(&of_type(5, "shop", "unknown")).await;
    assert_eq!(numbers(&bench).await, [5, 4, 3, 2]);
    let bad = Bytes::from_static(b"{");
    assert!(bench.events.publish(bad).await.is_err());
    bench.clock.advance(2 * day_ms);
    bench.publish(&of_type(6, "shop", "unknown")).await;
    // A clock that is ahead takes nothing away.
    bench.clock.jump(300 * day_ms);
    assert_eq!(retention(&bench).await, 0);
    bench.clock.jump(-300 * day_ms);
    bench.clock.advance(2 * day_ms);
    bench.crash(0).await;
    // Four events and the letter.
    assert_eq!(retention(&bench).await, 5);
    for _ in 0..2 {
        assert_eq!(numbers(&bench).await, [6]);
        let letters = bench.events.dead_letters(None, 100).await.unwrap();
        assert!(letters.items.is_empty());
        bench.crash(0).await;
    }
    // More than the limit at once: what came last stays.
    let mut large = of_type(7, "shop", "unknown");
    for name in ["a", "b", "c", "d"] {
        large["attributes"][name] = json!("x".repeat(30_000));
    }
    bench.publish(&large).await;
    assert_eq!(numbers(&bench).await, [7]);
}

#[tokio::test]
async fn what_is_in_quarantine_is_masked_by_the_document_that_comes_later() {
    let options = EventOptions {
        keep_payload: true,
        ..EventOptions::default()
    };
    let bench = Bench::with(options, DOCUMENTS).await;
    let mut event = of_type(1, "shop", "signup");
    event["attributes"] = json!({ "customer": { "email": "a@example.org", "plan": "free" } });
    bench.publish(&event).await;
    // Types that are registered while the server runs are looked for by themselves.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(bench.events.clone().run(async {
        let _ = stopped.await;
    }));
    let document = json!({
        "apiVersion": "obsinity/v1",
        "kind": "Event",
        "metadata": { "service": "shop", "name": "signup" },
        "spec": { "masking": [{ "path": "customer.email", "action": "drop" }] },
    });
    bench.apply(&document.to_string()).await;
    while bench.events.has_quarantined().await {
        tokio::task::yield_now().await;
    }
    let events = raw_events(&bench.events.view().await.unwrap()).await;
    let attributes = format!("{:?}", events[0].attributes);
    assert!(attributes.contains("free"), "{attributes}");
    assert!(!attributes.contains("a@example.org"), "{attributes}");
    let _ = stop.send(());
    running.await.unwrap();
}

/// The process that registered the type may have ended before it had replayed.
#[tokio::test]
async fn what_became_known_is_replayed_by_the_next_process() {
    let options = EventOptions {
        keep_payload: true,
        ..EventOptions::default()
    };
    let mut bench = Bench::with(options, DOCUMENTS).await;
    bench.publish(&of_type(1, "shop", "payment")).await;
    bench.apply(NESTED).await;
    bench.crash(0).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(bench.events.clone().run(async {
        let _ = stopped.await;
    }));
    while bench.events.has_quarantined().await {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.raw_ids().await, [id(1)]);
    let _ = stop.send(());
    running.await.unwrap();
}
