//! Every question, asked of two instances and of one that has everything.

use std::sync::atomic::AtomicBool;

use icecore_model::BoxFuture;
use icecore_model::event::{CellScan, EventWindow};
use icecore_promql::{Engine, MemorySource, QueryTime, QueryValue, Request};

use super::*;
use crate::query::{
    CellSource, query_counters, query_gauges, query_histograms, query_state_count_timeseries,
    query_state_counts, query_state_transitions,
};
use crate::search::{CataloguePage, attribute_names, attribute_values, find_event};
use crate::series::EventSeries;

/// An instance with all events, and two that share them.
struct Bench {
    clock: Arc<ManualClock>,
    alone: Instance,
    own: Instance,
    other: Instance,
}

impl Bench {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::at(NOW_MS));
        Self {
            alone: Instance::open(&clock, &[DOCUMENTS]).await,
            own: Instance::open(&clock, &[DOCUMENTS]).await,
            other: Instance::open(&clock, &[ANOTHER, DOCUMENTS]).await,
            clock,
        }
    }

    async fn publish(&self, to_other: bool, event: Value) {
        self.alone.publish(&event).await;
        let to = if to_other { &self.other } else { &self.own };
        to.publish(&event).await;
    }

    async fn flush(&self) {
        for instance in [&self.alone, &self.own, &self.other] {
            instance.events.flush().await.unwrap();
        }
    }

    async fn check(&self, what: &str) {
        let alone = reading(&self.alone, &[]);
        let both = reading(&self.own, &[&self.other.shard("other")]);
        let expected = answers(&alone).await;
        assert_eq!(answers(&both).await, expected, "{what}");
        // From the other side it looks the same, as far as this side has flushed.
        let mirrored = reading(&self.other, &[&self.own.shard("own")]);
        assert_eq!(answers(&mirrored).await, expected, "{what}, mirrored");
    }
}

/// What is asked of metrics, states, events and values, as JSON.
async fn answers(all: &AllEvents) -> Vec<Value> {
    let body = json!({
        "serviceKey": "shop", "eventType": "order.placed", "counterName": "orders",
        "histogramName": "latency", "gaugeName": "last_latency", "interval": "1m",
        "objectType": "Order", "attribute": "order.status", "includeBuckets": true,
        "start": "2026-11-09T09:58:00Z", "end": "2026-11-09T10:04:00Z",
    });
    let mut grouped = body.clone();
    grouped["groupBy"] = json!(["order.channel"]);
    let mut least = body.clone();
    least["gaugeName"] = json!("least_latency");
    let cells = all.cells().await.unwrap();
    let source: &dyn CellSource = &*cells;
    let [body, grouped, least] = [body, grouped, least].map(|body| body.to_string().into_bytes());
    let asked: Vec<BoxFuture<'_, Result<String, Problem>>> = vec![
        Box::pin(query_counters(source, &body)),
        Box::pin(query_counters(source, &grouped)),
        Box::pin(query_histograms(source, &body)),
        Box::pin(query_gauges(source, &body)),
        Box::pin(query_gauges(source, &least)),
        Box::pin(query_state_counts(source, &body)),
        Box::pin(query_state_transitions(source, &body)),
        Box::pin(query_state_count_timeseries(source, &body)),
    ];
    let mut answers = Vec::new();
    for question in asked {
        answers.push(serde_json::from_str(&question.await.unwrap()).unwrap());
    }
    for query in [
        "orders_total",
        "increase(orders_total[1m])",
        "orders:1m",
        "latency_bucket",
        "histogram_quantile(0.5, latency_bucket)",
        "last_latency",
        "least_latency:1h",
        "state_transitions_total",
        "state_count",
        "events_stored_total",
    ] {
        answers.push(promql(Arc::clone(&cells) as _, query).await);
    }
    let view = all.view().await.unwrap();
    let events = json!({
        "service": "shop", "includeTotal": true, "limit": 3,
        "period": { "between": ["2026-11-09T10:00:00Z", "2026-11-09T11:00:00Z"] },
        "match": { "attribute": "order.channel", "op": "=", "value": "web" },
    });
    answers.push(search(Arc::clone(&view), &events).await.unwrap());
    for number in 1..=6 {
        let found = find_event(Arc::clone(&view) as _, "shop", &event_id(number)).await;
        answers.push(match found {
            Ok(event) => serde_json::from_str(&event).unwrap(),
            Err(problem) => json!(problem.code),
        });
    }
    let page = CataloguePage::default();
    let names = attribute_names(&*view, "shop", &page).unwrap();
    let values = attribute_values(&*view, "shop", "order.channel", &page).await;
    for listed in [names, values.unwrap()] {
        answers.push(serde_json::from_str(&listed).unwrap());
    }
    answers
}

async fn promql(cells: Arc<dyn CellSource>, query: &str) -> Value {
    let time_ms = cells.now_ms();
    let source = EventSeries::new(cells, Arc::new(MemorySource::default()));
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
    let mut shown: Vec<String> = vector
        .iter()
        .map(|sample| format!("{:?} {:?}", sample.labels, sample.value))
        .collect();
    shown.sort();
    json!(shown)
}

#[tokio::test]
async fn two_instances_answer_as_one() {
    let bench = Bench::new().await;
    bench.check("nothing").await;
    // Events of an object reach one instance.
    let orders = [
        (false, order(1, 1, "web", 4.0, ("o-1", "NEW"))),
        (true, order(2, 1, "web", 16.0, ("o-2", "NEW"))),
        (true, order(3, 3, "app", 8.0, ("o-4", "NEW"))),
        (false, order(4, 7, "tv", 64.0, ("o-1", "PAID"))),
        (true, order(5, 12, "web", 32.0, ("o-2", "PAID"))),
    ];
    for (to_other, event) in orders {
        bench.publish(to_other, event).await;
    }
    bench.flush().await;
    bench.check("in cells and in the journal").await;
    bench.clock.advance(60_000);
    bench
        .publish(false, order(6, 30, "web", 2.0, ("o-3", "NEW")))
        .await;
    bench.flush().await;
    bench.clock.advance(60_000);
    bench.check("one has changed, the other has not").await;
    for instance in [&bench.alone, &bench.own, &bench.other] {
        instance.events.seal().await.unwrap();
    }
    bench.check("in files").await;
}

#[tokio::test]
async fn what_the_own_instance_has_not_flushed_is_seen_at_once() {
    let bench = Bench::new().await;
    bench
        .publish(true, order(1, 1, "web", 4.0, ("o-1", "NEW")))
        .await;
    bench.other.events.flush().await.unwrap();
    bench
        .publish(false, order(2, 2, "web", 4.0, ("o-2", "NEW")))
        .await;
    let both = reading(&bench.own, &[&bench.other.shard("other")]);
    let cells = both.cells().await.unwrap();
    let counted = promql(cells as _, "sum(orders_total)").await;
    assert!(counted[0].as_str().unwrap().contains("2.0"), "{counted}");
    assert_eq!(found_ids(&both).await, [event_id(2), event_id(1)]);
}

#[tokio::test]
async fn pages_of_cells_are_those_of_one_instance() {
    let bench = Bench::new().await;
    let channels = ["web", "app", "tv", "kiosk"];
    for number in 0..24u8 {
        let channel = channels[usize::from(number % 4)];
        let event = order(number, number * 2, channel, 1.0, ("o-1", "NEW"));
        bench.publish(number % 3 == 0, event).await;
    }
    bench.flush().await;
    bench.clock.advance(60_000);
    let alone = reading(&bench.alone, &[]).cells().await.unwrap();
    let both = reading(&bench.own, &[&bench.other.shard("other")]);
    let both = both.cells().await.unwrap();
    let registry = Arc::clone(CellSource::registry(&*both));
    let metrics = ["orders", "latency"].map(|name| {
        let event_type = registry.event_type("shop", "order.placed").unwrap();
        event_type.metric(name).unwrap().number
    });
    let limits = [1, 2, 3, 7, 100];
    for (metric, limit) in metrics.iter().flat_map(|m| limits.map(|limit| (*m, limit))) {
        for window in EventWindow::ALL {
            let scan = |after, limit| CellScan {
                window,
                metric,
                starts_s: 0..2_000_000_000,
                after,
                limit,
            };
            // The own instance keeps its numbers, which are those of the one that is alone.
            let expected = alone.cells(scan(None, 1_000)).await.unwrap();
            let mut found = Vec::new();
            let mut after = None;
            loop {
                let page = both.cells(scan(after, limit)).await.unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                after = Some((last.start_s, last.dimensions));
                found.extend(page);
            }
            assert!(!expected.is_empty());
            assert_eq!(found, expected, "{window:?}, {limit} at a time");
        }
    }
}

/// Counts are carried from page to page, wherever a page ends.
#[tokio::test]
async fn pages_of_state_counts_are_those_of_one_instance() {
    let bench = Bench::new().await;
    for number in 0..12u8 {
        let object = format!("o-{number}");
        let status = ["NEW", "PAID", "SENT"][usize::from(number % 3)];
        let event = order(number, number, "web", 1.0, (&object, status));
        bench.publish(number % 2 == 0, event).await;
        // One of them flushes: the other's last count is of an earlier minute.
        let flushed = if number % 2 == 0 {
            &bench.other
        } else {
            &bench.own
        };
        flushed.events.flush().await.unwrap();
        bench.alone.events.flush().await.unwrap();
        bench.clock.advance(60_000);
    }
    let alone = reading(&bench.alone, &[]).cells().await.unwrap();
    let both = reading(&bench.own, &[&bench.other.shard("other")]);
    let both = both.cells().await.unwrap();
    let registry = Arc::clone(CellSource::registry(&*both));
    let states = registry.service("shop").unwrap().state_metrics.clone();
    let metric = states.unwrap().counts.number;
    for limit in [1, 2, 3, 100] {
        let scan = |after, limit| CellScan {
            window: EventWindow::Minute,
            metric,
            starts_s: 0..2_000_000_000,
            after,
            limit,
        };
        let values = |cells: Vec<icecore_model::event::StoredCell>| {
            let value = |cell: icecore_model::event::StoredCell| match cell.cell {
                icecore_model::event::Cell::Gauge(gauge) => {
                    (cell.start_s, cell.dimensions, gauge.value)
                }
                other => panic!("{other:?} is no gauge"),
            };
            cells.into_iter().map(value).collect::<Vec<_>>()
        };
        let expected = values(alone.cells(scan(None, 1_000)).await.unwrap());
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = both.cells(scan(after, limit)).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.start_s, last.dimensions));
            found.extend(values(page));
        }
        // An instance that does not flush in a minute has no cell of it, so there may be fewer.
        assert!(found.len() > 12, "{}", found.len());
        for cell in &found {
            assert!(expected.contains(cell), "{cell:?}, {limit} at a time");
        }
    }
}
