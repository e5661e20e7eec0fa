//! The engine on a store in memory that fails as tests want it to.

mod accepting;
mod counting;
mod faults;
mod files;
mod limits;
mod model;
mod random;
mod states;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::ManualClock;
use icecore_model::event::{CellScan, EventId, EventWindow};
use serde_json::{Value as Json, json};

use super::{EventOptions, Events, EventsView, PublishStatus};
use crate::testing::{JsonLines, MemoryStore};
use crate::{Documents, FileScan, StoredEvent};
use model::{ModelCells, dimension_texts};

/// Monday, 2026-11-09T10:00:00Z.
pub(super) const BASE_S: i64 = 1_794_218_400;

/// What the server's clock shows when a test begins.
pub(super) const NOW_MS: i64 = (BASE_S + 3_600) * 1_000;

pub(super) const DOCUMENTS: &str = r#"
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  retention: { ttl: 30d }
  schema:
    type: object
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          items: { type: integer, index: true }
          total: { type: number }
---
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: orders }
spec: { key: { dimensions: [order.channel] } }
---
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: all_orders }
spec: {}
---
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: large_orders }
spec:
  key: { dimensions: [order.channel] }
  onMissing: empty
  filters: [ { path: order.items, op: gte, value: 3 } ]
---
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: revenue }
spec:
  key: { dimensions: [order.channel] }
  value: order.total
  rollup: { operation: sum }
---
kind: MetricHistogram
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: order_total }
spec:
  value: order.total
  key: { dimensions: [order.channel] }
  buckets: { strategy: custom, bounds: [0, 10, 20] }
  sketch: { kind: ddsketch, relativeAccuracy: 0.01 }
---
kind: MetricGauge
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: stock }
spec:
  value: order.items
  reducer: latest
  key: { dimensions: [order.channel] }
---
kind: MetricGauge
apiVersion: obsinity/v1
metadata: { service: shop, event: order.placed, name: least_stock }
spec:
  value: order.items
  reducer: min
"#;

pub(super) struct Bench {
    pub(super) store: MemoryStore,
    pub(super) clock: Arc<ManualClock>,
    pub(super) options: EventOptions,
    pub(super) events: Events,
}

impl Bench {
    /// An engine with the documents of the shop.
    pub(super) async fn new() -> Self {
        Self::with(EventOptions::default(), DOCUMENTS).await
    }

    pub(super) async fn with(options: EventOptions, documents: &str) -> Self {
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let store = MemoryStore::new(clock.clone());
        store.memory_files().set_now_ms(NOW_MS);
        let events = open(&store, &clock, &options).await;
        let bench = Self {
            store,
            clock,
            options,
            events,
        };
        bench.apply(documents).await;
        bench
    }

    pub(super) async fn apply(&self, documents: &str) {
        let documents = Documents::parse_yaml(documents).unwrap();
        self.events.apply(documents, false).await.unwrap();
    }

    /// The engine is gone with everything in memory; another one opens what is durable.
    pub(super) async fn crash(&mut self, late_commits: usize) {
        self.store = self.store.reopen(late_commits);
        self.events = open(&self.store, &self.clock, &self.options).await;
    }

    /// Publishes one event and expects an answer.
    pub(super) async fn publish(&self, event: &Json) -> PublishStatus {
        let published = self.events.publish(Bytes::from(event.to_string())).await;
        published.unwrap().status
    }

    pub(super) async fn publish_all(&self, events: &[Json]) -> super::BatchOutcome {
        let body = Bytes::from(Json::from(events.to_vec()).to_string());
        self.events.publish_batch(body, false).await.unwrap()
    }

    /// The sum of a counter's cells of a window, by dimension values.
    pub(super) async fn counts(&self, metric: &str, window: EventWindow) -> BTreeMap<String, i64> {
        let view = self.events.view().await.unwrap();
        let mut counts = BTreeMap::new();
        for ((of, _, dimensions), cell) in shown_cells(&view, window).await {
            if let icecore_model::event::Cell::Counter(cell) = cell
                && of == metric
            {
                *counts.entry(dimensions).or_default() += cell.count;
            }
        }
        counts
    }

    /// All five windows have these counts.
    pub(super) async fn check_counts(&self, metric: &str, expected: &[(&str, i64)]) {
        let expected = expected
            .iter()
            .map(|(key, count)| (key.to_string(), *count));
        let expected: BTreeMap<String, i64> = expected.collect();
        for window in EventWindow::ALL {
            assert_eq!(self.counts(metric, window).await, expected, "{window:?}");
        }
    }

    /// All five windows of a histogram have so many samples.
    pub(super) async fn check_samples(&self, metric: &str, expected: &[(&str, u64)]) {
        let view = self.events.view().await.unwrap();
        for window in EventWindow::ALL {
            let mut samples: BTreeMap<String, u64> = BTreeMap::new();
            for ((of, _, dimensions), cell) in shown_cells(&view, window).await {
                if let icecore_model::event::Cell::Histogram(cell) = cell
                    && of == metric
                {
                    assert_eq!(cell.counts.iter().sum::<u64>(), cell.samples);
                    *samples.entry(dimensions).or_default() += cell.samples;
                }
            }
            let expected = expected.iter().map(|(key, n)| (key.to_string(), *n));
            assert_eq!(samples, expected.collect(), "{metric}, {window:?}");
        }
    }

    /// Every event that can be read, and that each is there once.
    pub(super) async fn raw_ids(&self) -> Vec<EventId> {
        let view = self.events.view().await.unwrap();
        let mut ids: Vec<_> = raw_events(&view)
            .await
            .iter()
            .map(|event| event.id)
            .collect();
        ids.sort();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all, "an event is found twice");
        ids
    }
}

async fn open(store: &MemoryStore, clock: &Arc<ManualClock>, options: &EventOptions) -> Events {
    let store = Arc::new(store.clone());
    let opened = Events::open(store, Arc::new(JsonLines), clock.clone(), options.clone()).await;
    opened.unwrap()
}

pub(super) fn id(number: u32) -> EventId {
    let mut id = [0; 16];
    id[0] = 1;
    id[12..].copy_from_slice(&number.to_be_bytes());
    EventId(id)
}

/// An order, so many seconds after the base time.
pub(super) fn order(number: u32, at_s: i64, channel: &str, items: i64, total: f64) -> Json {
    json!({
        "eventId": crate::event_id_text(id(number)),
        "resource": { "service": { "id": "shop" } },
        "event": { "name": "order.placed" },
        "startUnixNano": (BASE_S + at_s) * 1_000_000_000,
        "attributes": { "order": { "channel": channel, "items": items, "total": total } },
    })
}

/// Events of files and of the tail.
pub(super) async fn raw_events(view: &EventsView) -> Vec<StoredEvent<'static>> {
    let all = i64::MIN..i64::MAX;
    let tail = view.tail_events(None, None, &all).unwrap();
    let mut events: Vec<_> = tail.into_iter().map(StoredEvent::into_owned).collect();
    for file in view.all_files().await.unwrap() {
        let scan = FileScan {
            started_ns: all.clone(),
            newest_first: false,
            event: None,
            condition: None,
        };
        let mut rows = view.open_file(&file, scan).await.unwrap();
        let before = events.len();
        while let Some(batch) = rows.next_batch().await.unwrap() {
            events.extend(batch);
        }
        assert_eq!(events.len() - before, file.events as usize);
    }
    events
}

/// All cells of a window, read a few at a time.
pub(super) async fn shown_cells(view: &EventsView, window: EventWindow) -> ModelCells {
    let mut shown = ModelCells::new();
    for metric in view.registry().metrics() {
        let sets = view.all_dimension_sets(metric.number).await.unwrap();
        let mut after = None;
        loop {
            let scan = CellScan {
                window,
                metric: metric.number,
                starts_s: i64::MIN..i64::MAX,
                after,
                limit: 3,
            };
            let page = view.cells(scan).await.unwrap();
            let Some(last) = page.last() else {
                break;
            };
            after = Some((last.start_s, last.dimensions));
            for cell in page {
                let set = sets.iter().find(|set| set.hash == cell.dimensions);
                let dimensions = dimension_texts(&set.expect("cells have a set").values);
                let key = (metric.name.clone(), cell.start_s, dimensions);
                match shown.get_mut(&key) {
                    // Every type has one of these.
                    Some(sum) if metric.built_in => sum.merge(&cell.cell).unwrap(),
                    Some(_) => panic!("a cell is shown twice"),
                    None => {
                        shown.insert(key, cell.cell);
                    }
                }
            }
        }
    }
    shown
}
