//! From what is published to what is asked: queries and PromQL over the engine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use icecore_model::ManualClock;
use icecore_promql::{Engine, MemorySource, QueryTime, QueryValue, Request, SampleValue};
use serde_json::{Value, json};

use crate::query::{
    CellSource, query_counters, query_gauges, query_histograms, query_state_count_timeseries,
    query_state_counts, query_state_transitions,
};
use crate::series::EventSeries;
use crate::testing::{JsonLines, MemoryStore};
use crate::{Documents, EventOptions, Events};

/// 2026-11-09T10:00:20Z.
const NOW_MS: i64 = 1_794_218_420_000;

const DOCUMENTS: &str = "
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  schema:
    type: object
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          latency: { type: number }
          status: { type: string }
          id: { type: string }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec:
  key: { dimensions: [order.channel] }
---
apiVersion: obsinity/v1
kind: MetricHistogram
metadata: { service: shop, event: order.placed, name: latency }
spec:
  value: order.latency
  buckets: { strategy: custom, bounds: [10, 20, 50] }
---
apiVersion: obsinity/v1
kind: MetricGauge
metadata: { service: shop, event: order.placed, name: last_latency }
spec: { value: order.latency, reducer: latest }
---
apiVersion: obsinity/v1
kind: StateExtractors
metadata: { service: shop }
spec:
  stateExtractors:
    - rawType: order.placed
      objectType: Order
      objectIdField: order.id
      stateAttributes: [order.status]
";

async fn opened() -> (Events, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let (store, format) = (
        Arc::new(MemoryStore::new(clock.clone())),
        Arc::new(JsonLines),
    );
    let events = Events::open(store, format, clock.clone(), EventOptions::default());
    let events = events.await.unwrap();
    let documents = Documents::parse_yaml(DOCUMENTS).unwrap();
    events.apply(documents, false).await.unwrap();
    (events, clock)
}

async fn publish(events: &Events, at: &str, channel: &str, latency: f64, order: (&str, &str)) {
    let event = json!({
        "event": { "name": "order.placed" }, "resource": { "service": { "id": "shop" } },
        "time": { "startedAt": at },
        "attributes": { "order": {
            "channel": channel, "latency": latency, "id": order.0, "status": order.1,
        } },
    });
    let published = events
        .publish(Bytes::from(event.to_string()))
        .await
        .unwrap();
    assert_eq!(published.status.word(), "stored");
}

async fn value(events: &Events, query: &str, time_ms: i64) -> Option<f64> {
    let view = events.view().await.unwrap();
    let source = EventSeries::new(Arc::new(view), Arc::new(MemorySource::default()));
    let request = Request {
        query: query.to_owned(),
        time: QueryTime::Instant { time_ms },
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    let (engine, canceled) = (Engine::default(), AtomicBool::new(false));
    let answer = engine.execute(&source, &request, &canceled).await.unwrap();
    let QueryValue::Vector(vector) = answer.value else {
        panic!("no vector");
    };
    assert!(vector.len() <= 1, "{vector:?}");
    match vector.first()?.value {
        SampleValue::Float(value) => Some(value),
        SampleValue::Histogram(_) => panic!("no float"),
    }
}

/// All answers over what was published.
async fn answers(events: &Events) -> Vec<Value> {
    let view = events.view().await.unwrap();
    let source: &dyn CellSource = &view;
    let body = json!({
        "serviceKey": "shop", "eventType": "order.placed", "counterName": "orders",
        "histogramName": "latency", "gaugeName": "last_latency", "interval": "1m",
        "objectType": "Order", "attribute": "order.status",
        "start": "2026-11-09T10:00:00Z", "end": "2026-11-09T10:01:00Z",
        "groupBy": [],
    });
    let mut by_channel = body.clone();
    by_channel["groupBy"] = json!(["order.channel"]);
    let (body, by_channel) = (body.to_string(), by_channel.to_string());
    let (body, by_channel) = (body.as_bytes(), by_channel.as_bytes());
    let answers = [
        query_counters(source, by_channel).await,
        query_histograms(source, body).await,
        query_gauges(source, body).await,
        query_state_counts(source, body).await,
        query_state_transitions(source, body).await,
    ];
    let parse = |answer: Result<String, crate::Problem>| -> Value {
        serde_json::from_str(&answer.unwrap()).unwrap()
    };
    answers.map(parse).into()
}

#[tokio::test]
async fn what_is_published_is_answered_before_and_after_a_flush() {
    let (events, clock) = opened().await;
    publish(&events, "2026-11-09T10:00:01Z", "web", 5.0, ("o-1", "NEW")).await;
    publish(&events, "2026-11-09T10:00:02Z", "web", 15.0, ("o-2", "NEW")).await;
    publish(
        &events,
        "2026-11-09T10:00:12Z",
        "app",
        15.0,
        ("o-1", "PAID"),
    )
    .await;
    let before = answers(&events).await;
    let counts = json!([
        { "key": { "order.channel": "app" }, "count": 1 },
        { "key": { "order.channel": "web" }, "count": 2 },
    ]);
    assert_eq!(before[0]["data"]["intervals"][0]["counts"], counts);
    let histogram = &before[1]["data"]["intervals"][0]["series"][0];
    assert_eq!(
        (&histogram["samples"], &histogram["sum"]),
        (&json!(3), &json!(35))
    );
    let gauge = &before[2]["data"]["intervals"][0]["values"][0];
    assert_eq!(gauge["observedAt"], "2026-11-09T10:00:12Z");
    let states = json!([{ "state": "NEW", "count": 1 }, { "state": "PAID", "count": 1 }]);
    assert_eq!(before[3]["data"]["states"], states);
    let transitions = json!([
        { "fromState": "(none)", "toState": "NEW", "count": 2 },
        { "fromState": "NEW", "toState": "PAID", "count": 1 },
    ]);
    assert_eq!(
        before[4]["data"]["intervals"][0]["transitions"],
        transitions
    );
    events.flush().await.unwrap();
    assert_eq!(answers(&events).await, before);

    publish(
        &events,
        "2026-11-09T10:00:20Z",
        "app",
        15.0,
        ("o-2", "PAID"),
    )
    .await;
    clock.advance(100);
    // Some of it is flushed, some is not.
    for (query, expected) in [
        ("sum(orders_total)", Some(4.0)),
        (r#"orders_total{order_channel="app"}"#, Some(2.0)),
        ("sum(events_stored_total)", Some(4.0)),
        (r#"latency_bucket{le="10"}"#, Some(1.0)),
        ("latency_count", Some(4.0)),
        ("last_latency", Some(15.0)),
        (
            r#"state_transitions_total{from="NEW", to="PAID"}"#,
            Some(2.0),
        ),
        ("orders_total{order_channel=\"tv\"}", None),
    ] {
        assert_eq!(
            value(&events, query, NOW_MS + 100).await,
            expected,
            "{query}"
        );
    }
    events.flush().await.unwrap();
    assert_eq!(
        value(&events, "sum(orders_total)", NOW_MS + 100).await,
        Some(4.0)
    );
    clock.advance(3_600_000);
    let at_ms = NOW_MS + 3_600_000;
    assert_eq!(
        value(&events, "sum(sum_over_time(orders:1h[1d]))", at_ms).await,
        Some(4.0)
    );
    let view = events.view().await.unwrap();
    let series = json!({
        "serviceKey": "shop", "objectType": "Order", "attribute": "order.status",
        "interval": "1m", "start": "2026-11-09T10:00:00Z", "end": "2026-11-09T10:02:00Z",
    });
    let series = series.to_string();
    let series = query_state_count_timeseries(&view, series.as_bytes());
    let series: Value = serde_json::from_str(&series.await.unwrap()).unwrap();
    let states = json!([{ "state": "NEW", "count": 0 }, { "state": "PAID", "count": 2 }]);
    assert_eq!(series["data"]["intervals"][0]["states"], states);
    assert_eq!(series["data"]["intervals"][1]["states"], states);
    events.close().await.unwrap();
}
