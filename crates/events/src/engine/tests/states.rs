//! States of objects.

use icecore_model::event::{Cell, EventWindow};
use serde_json::{Value as Json, json};

use super::{BASE_S, Bench, id};
use crate::engine::{EventOptions, SkipReason, StateCount};
use crate::event_id_text;
use crate::testing::{Fault, Operation};

const STATES: &str = r#"
kind: Event
apiVersion: obsinity/v1
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
kind: StateExtractors
apiVersion: obsinity/v1
metadata: { service: shop }
spec:
  stateExtractors:
    - rawType: order.updated
      objectType: Order
      objectIdField: order.id
      stateAttributes: [order.status]
      transitionPolicy: { additional: [NEW] }
"#;

fn update(number: u32, at_s: i64, order: &str, status: &str) -> Json {
    json!({
        "eventId": event_id_text(id(number)),
        "resource": { "service": { "id": "shop" } },
        "event": { "name": "order.updated" },
        "startUnixNano": (BASE_S + at_s) * 1_000_000_000,
        "attributes": { "order": { "id": order, "status": status } },
    })
}

async fn check_states(bench: &Bench, expected: &[(&str, i64)]) {
    let view = bench.events.view().await.unwrap();
    let service = view.registry().services["shop"].number;
    let counts = view.state_counts(service, "Order", "order.status").await;
    let expected = expected.iter().map(|(state, count)| StateCount {
        state: state.to_string(),
        count: *count,
    });
    assert_eq!(counts.unwrap(), expected.collect::<Vec<_>>());
}

fn transition(from: &str, to: &str) -> String {
    format!("object_type=Order,attribute=order.status,from={from},to={to}")
}

#[tokio::test]
async fn states_are_counted_and_followed_through_flushes_and_crashes() {
    let mut bench = Bench::with(EventOptions::default(), STATES).await;
    bench.publish(&update(1, 0, "a", "NEW")).await;
    bench.publish(&update(2, 0, "b", "NEW")).await;
    check_states(&bench, &[("NEW", 2)]).await;
    bench.events.flush().await.unwrap();
    bench.publish(&update(3, 10, "a", "PAID")).await;
    check_states(&bench, &[("NEW", 1), ("PAID", 1)]).await;
    bench.crash(0).await;
    check_states(&bench, &[("NEW", 1), ("PAID", 1)]).await;
    // Neither an older event nor a repeat changes anything.
    bench.publish(&update(4, 5, "a", "LOST")).await;
    bench.publish(&update(3, 10, "a", "PAID")).await;
    bench.publish(&update(5, 11, "a", "PAID")).await;
    bench.publish(&update(6, 11, "a", " ")).await;
    check_states(&bench, &[("NEW", 1), ("PAID", 1)]).await;
    bench.events.flush().await.unwrap();
    bench.publish(&update(3, 10, "a", "PAID")).await;
    bench.publish(&update(7, 20, "a", "SENT")).await;
    bench.events.flush().await.unwrap();
    bench.crash(0).await;
    check_states(&bench, &[("NEW", 1), ("SENT", 1)]).await;
    let metric = "state_transitions_total";
    let counts = bench.counts(metric, EventWindow::Minute).await;
    let expected = [
        (transition("(none)", "NEW"), 2),
        (transition("NEW", "PAID"), 1),
        (transition("NEW", "SENT"), 1),
        (transition("PAID", "SENT"), 1),
    ];
    assert_eq!(counts, expected.into_iter().collect());
}

/// They are parts of keys: a store refuses long ones, and nothing could be flushed any more.
#[tokio::test]
async fn long_names_of_objects_and_states_are_not_followed() {
    let bench = Bench::with(EventOptions::default(), STATES).await;
    let long = "x".repeat(30 << 10);
    bench.publish(&update(1, 0, &long, "NEW")).await;
    bench.publish(&update(2, 0, "a", &long)).await;
    bench.publish(&update(3, 0, "b", "NEW")).await;
    check_states(&bench, &[("NEW", 1)]).await;
    bench.events.flush().await.unwrap();
    check_states(&bench, &[("NEW", 1)]).await;
    // Nothing is left out silently. A blank or missing one is no state at all.
    bench.publish(&update(4, 0, "", &long)).await;
    let skipped = bench.events.metrics().skipped();
    let transitions = "state_transitions_total".to_owned();
    assert_eq!(skipped, [(transitions, SkipReason::TooLong, 2)]);
}

/// The counts of all states, minute by minute after the clock's beginning.
async fn counts_by_minute(bench: &Bench) -> Vec<(i64, String, f64)> {
    let view = bench.events.view().await.unwrap();
    let cells = super::shown_cells(&view, EventWindow::Minute).await;
    let gauges = cells
        .into_iter()
        .filter_map(|((_, start_s, set), cell)| match cell {
            Cell::Gauge(cell) => {
                let state = set.rsplit('=').next().unwrap_or_default().to_owned();
                Some((start_s - BASE_S - 3_600, state, cell.value))
            }
            _ => None,
        });
    gauges.collect()
}

#[tokio::test]
async fn counts_of_states_are_written_while_no_events_come() {
    let mut bench = Bench::with(EventOptions::default(), STATES).await;
    bench.publish(&update(1, 0, "a", "NEW")).await;
    bench.events.flush().await.unwrap();
    let writes = bench.store.writes();
    // Once in a minute, not with each tick.
    bench.events.flush().await.unwrap();
    assert_eq!(bench.store.writes(), writes);
    for _ in 0..3 {
        bench.clock.advance(60_000);
        bench.events.flush().await.unwrap();
        bench.events.flush().await.unwrap();
    }
    assert_eq!(bench.store.writes(), writes + 3);
    bench.clock.advance(60_000);
    bench.crash(0).await;
    // What may have been written is written again.
    bench.store.fail(Operation::Write, Fault::AppliedWithError);
    assert!(bench.events.flush().await.is_err());
    bench.events.flush().await.unwrap();
    let new = |minute: i64| (minute * 60, "NEW".to_owned(), 1.0);
    let expected: Vec<_> = (0..5).map(new).collect();
    assert_eq!(counts_by_minute(&bench).await, expected);
}

#[tokio::test]
async fn of_counts_at_one_moment_the_last_one_is_right() {
    let bench = Bench::with(EventOptions::default(), STATES).await;
    for (number, status) in [(1, "NEW"), (2, "PAID"), (3, "NEW")] {
        let at_s = i64::from(number);
        bench.publish(&update(number, at_s, "a", status)).await;
        bench.events.flush().await.unwrap();
    }
    let expected = [(0, "NEW".to_owned(), 1.0), (0, "PAID".to_owned(), 0.0)];
    assert_eq!(counts_by_minute(&bench).await, expected);
}

#[tokio::test]
async fn counts_of_states_are_a_gauge_of_minutes() {
    let bench = Bench::with(EventOptions::default(), STATES).await;
    bench.publish(&update(1, 0, "a", "NEW")).await;
    bench.events.flush().await.unwrap();
    bench.clock.advance(60_000);
    bench.publish(&update(2, 1, "a", "PAID")).await;
    bench.events.flush().await.unwrap();
    let expected = [
        (0, "NEW".to_owned(), 1.0),
        (60, "NEW".to_owned(), 0.0),
        (60, "PAID".to_owned(), 1.0),
    ];
    assert_eq!(counts_by_minute(&bench).await, expected);
}

#[tokio::test]
async fn values_of_indexed_attributes_are_catalogued() {
    let options = EventOptions {
        max_catalog_values: 2,
        ..EventOptions::default()
    };
    let mut bench = Bench::with(options, STATES).await;
    bench.publish(&update(1, 0, "a", "NEW")).await;
    bench.publish(&update(2, 9, "b", "NEW")).await;
    bench.publish(&update(3, 5, "a", "PAID")).await;
    bench.events.flush().await.unwrap();
    bench.crash(0).await;
    bench.publish(&update(4, 7, "a", "NEW")).await;
    bench.publish(&update(5, 8, "a", "ONE TOO MANY")).await;
    bench.events.flush().await.unwrap();
    let view = bench.events.view().await.unwrap();
    let service = view.registry().services["shop"].number;
    let values = view
        .attribute_values(service, "order.status")
        .await
        .unwrap();
    let values = values.iter();
    let values = values.map(|value| (&*value.value, value.events, value.last_ns - value.first_ns));
    let expected = [("NEW", 3, 9_000_000_000), ("PAID", 1, 0)];
    assert_eq!(values.collect::<Vec<_>>(), expected);
}
