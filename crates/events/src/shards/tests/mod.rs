//! Two instances on stores in memory. What they answer together is what one instance answers that
//! has all of their events.

mod answers;
mod differences;
mod tails;

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::ManualClock;
use serde_json::{Value, json};

use super::{AllEvents, EventSource};
use crate::search::search_events;
use crate::testing::{JsonLines, MemoryShard, MemoryStore};
use crate::{Documents, EventOptions, Events, Problem};

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
          id: { type: string, index: true }
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
kind: MetricGauge
metadata: { service: shop, event: order.placed, name: least_latency }
spec: { value: order.latency, reducer: min }
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

/// Registered before the others, so that these have other numbers.
const ANOTHER: &str = "
apiVersion: obsinity/v1
kind: Event
metadata: { service: bank, name: paid }
spec: {}
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: bank, event: paid, name: payments }
spec: {}
";

/// An instance and its store.
struct Instance {
    store: MemoryStore,
    events: Events,
}

impl Instance {
    async fn open(clock: &Arc<ManualClock>, documents: &[&str]) -> Self {
        let store = MemoryStore::new(clock.clone());
        let opened = (Arc::new(store.clone()), Arc::new(JsonLines));
        let options = EventOptions::default();
        let events = Events::open(opened.0, opened.1, clock.clone(), options).await;
        let instance = Self {
            store,
            events: events.unwrap(),
        };
        for documents in documents {
            instance.apply(documents).await;
        }
        instance
    }

    async fn apply(&self, documents: &str) {
        let documents = Documents::parse_yaml(documents).unwrap();
        self.events.apply(documents, false).await.unwrap();
    }

    async fn publish(&self, event: &Value) {
        let published = self.events.publish(Bytes::from(event.to_string())).await;
        assert_eq!(published.unwrap().status.word(), "stored");
    }

    fn shard(&self, name: &str) -> MemoryShard {
        MemoryShard::new(name, &self.store)
    }
}

/// What an instance reads beside its own events.
fn reading(own: &Instance, shards: &[&MemoryShard]) -> AllEvents {
    reading_partly(own, shards, false)
}

fn reading_partly(own: &Instance, shards: &[&MemoryShard], allows_partial: bool) -> AllEvents {
    let shards = shards.iter().map(|shard| Arc::new((*shard).clone()) as _);
    AllEvents::new(own.events.clone(), shards.collect(), allows_partial).unwrap()
}

/// An order so many seconds after ten o'clock.
fn order(number: u8, at_s: u8, channel: &str, latency: f64, (id, status): (&str, &str)) -> Value {
    json!({
        "eventId": event_id(number),
        "event": { "name": "order.placed" }, "resource": { "service": { "id": "shop" } },
        "time": { "startedAt": format!("2026-11-09T10:00:{at_s:02}Z") },
        "attributes": { "order": {
            "channel": channel, "latency": latency, "id": id, "status": status,
        } },
    })
}

fn event_id(number: u8) -> String {
    format!("0199a1c0-7d11-7a3e-9b44-0000000000{number:02x}")
}

async fn search(source: Arc<dyn EventSource>, body: &Value) -> Result<Value, Problem> {
    let body = body.to_string();
    let answer = search_events(source, body.as_bytes()).await?;
    Ok(serde_json::from_str(&answer).unwrap())
}

/// The ids of all orders, newest first.
async fn found_ids(all: &AllEvents) -> Vec<String> {
    let body = json!({
        "service": "shop", "event": "order.placed", "includeTotal": true,
        "period": { "between": ["2026-11-09T10:00:00Z", "2026-11-09T11:00:00Z"] },
    });
    let found = search(all.view().await.unwrap(), &body).await.unwrap();
    let events = found["data"]["events"].as_array().unwrap();
    assert_eq!(found["total"], events.len());
    let id = |event: &Value| event["event_id"].as_str().unwrap().to_owned();
    events.iter().map(id).collect()
}
