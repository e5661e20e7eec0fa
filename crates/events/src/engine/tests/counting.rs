//! What events add to cells.

use icecore_model::event::{Cell, EventWindow};
use serde_json::json;

use super::model::{check_cells, model};
use super::{Bench, order, raw_events, shown_cells};
use crate::engine::{EventOptions, SkipReason};

async fn check_model(bench: &Bench) {
    let view = bench.events.view().await.unwrap();
    let events = raw_events(&view).await;
    for window in EventWindow::ALL {
        check_cells(&shown_cells(&view, window).await, &model(&events, window));
    }
}

#[tokio::test]
async fn cells_are_those_of_the_events_in_any_order() {
    let orders = [
        order(1, 0, "web", 3, 10.0),
        order(2, 4, "web", 1, -5.0),
        order(3, 5, "app", 0, 0.0),
        order(4, -3_600, "web", 9, 1e6),
        order(5, -10 * 86_400, "web", 4, 20.000_1),
        order(6, 4, "web", 1, 10.000_000_1),
    ];
    let bench = Bench::new().await;
    bench.publish_all(&orders).await;
    check_model(&bench).await;
    bench.events.flush().await.unwrap();
    check_model(&bench).await;
    let reversed = Bench::new().await;
    for order in orders.iter().rev() {
        reversed.publish(order).await;
        reversed.events.flush().await.unwrap();
    }
    check_model(&reversed).await;
}

#[tokio::test]
async fn finer_cells_are_not_made_again_once_they_are_too_old() {
    let bench = Bench::new().await;
    bench.publish(&order(1, -20 * 86_400, "web", 1, 1.0)).await;
    bench.events.flush().await.unwrap();
    assert!(
        bench
            .counts("orders", EventWindow::FiveSeconds)
            .await
            .is_empty()
    );
    for window in &EventWindow::ALL[1..] {
        let counts = bench.counts("orders", *window).await;
        assert_eq!(counts.values().sum::<i64>(), 1, "{window:?}");
    }
}

#[tokio::test]
async fn a_missing_dimension_or_a_bad_value_is_skipped_and_counted() {
    let bench = Bench::new().await;
    let mut event = order(1, 0, "web", 5, 1.0);
    event["attributes"]["order"] = json!({ "items": 5 });
    bench.publish(&event).await;
    bench.check_counts("orders", &[]).await;
    // `onMissing: empty`.
    bench.check_counts("large_orders", &[("", 1)]).await;
    bench.check_counts("all_orders", &[("", 1)]).await;
    let skipped = bench.events.metrics().skipped();
    let find = |metric: &str| skipped.iter().find(|(name, _, _)| name == metric).cloned();
    let missing = SkipReason::MissingDimension;
    assert_eq!(find("orders"), Some(("orders".into(), missing, 1)));
    let mut event = order(2, 0, "web", 1, 1.0);
    event["attributes"]["order"]
        .as_object_mut()
        .unwrap()
        .remove("total");
    bench.publish(&event).await;
    let skipped = bench.events.metrics().skipped();
    let revenue = ("revenue".to_owned(), SkipReason::BadValue, 1);
    assert!(skipped.contains(&revenue), "{skipped:?}");
    bench
        .check_counts("orders", &[("order.channel=web", 1)])
        .await;
}

const EVERY_KIND: &str = r#"
kind: Event
apiVersion: obsinity/v1
metadata: { service: shop, name: order.placed }
spec:
  schema:
    type: object
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          items: { type: integer }
"#;

/// A histogram and a gauge, without a dimension, and with one that may be missing.
#[tokio::test]
async fn every_kind_counts_without_dimensions_and_skips_missing_ones_alike() {
    let metric = |kind: &str, name: &str, spec: &str| {
        let buckets = if kind == "MetricHistogram" {
            "buckets: { strategy: custom, bounds: [10] }, "
        } else {
            ""
        };
        format!(
            "---\napiVersion: obsinity/v1\nkind: {kind}\nmetadata: {{ service: shop, event: \
             order.placed, name: {name} }}\nspec: {{ {buckets}value: order.items, {spec} }}\n"
        )
    };
    let by_channel = "key: { dimensions: [order.channel] }";
    let or_empty = "key: { dimensions: [order.channel] }, onMissing: empty";
    let mut documents = EVERY_KIND.to_owned();
    for (kind, prefix) in [("MetricHistogram", "h"), ("MetricGauge", "g")] {
        documents += &metric(kind, &format!("{prefix}_all"), "onMissing: skip");
        documents += &metric(kind, &format!("{prefix}_skip"), by_channel);
        documents += &metric(kind, &format!("{prefix}_empty"), or_empty);
    }
    let bench = Bench::with(EventOptions::default(), &documents).await;
    let mut without = order(2, 1, "web", 7, 1.0);
    without["attributes"]["order"] = json!({ "items": 7 });
    bench
        .publish_all(&[order(1, 0, "web", 3, 1.0), without])
        .await;
    let web = "order.channel=web";
    bench.check_samples("h_all", &[("", 2)]).await;
    bench.check_samples("h_skip", &[(web, 1)]).await;
    bench.check_samples("h_empty", &[("", 1), (web, 1)]).await;
    let view = bench.events.view().await.unwrap();
    for window in EventWindow::ALL {
        let gauges = |metric: &str, cells: &super::ModelCells| -> Vec<(String, f64)> {
            let of_metric = cells.iter().filter(|((name, _, _), _)| name == metric);
            let values = of_metric.map(|((_, _, set), cell)| match cell {
                Cell::Gauge(cell) => (set.clone(), cell.value),
                other => panic!("{other:?} is no gauge"),
            });
            values.collect()
        };
        let cells = shown_cells(&view, window).await;
        let (empty, web) = ((String::new(), 7.0), (web.to_owned(), 3.0));
        assert_eq!(
            gauges("g_all", &cells),
            std::slice::from_ref(&empty),
            "{window:?}"
        );
        assert_eq!(
            gauges("g_skip", &cells),
            std::slice::from_ref(&web),
            "{window:?}"
        );
        assert_eq!(gauges("g_empty", &cells), [empty, web], "{window:?}");
    }
    let mut skipped = bench.events.metrics().skipped();
    skipped.retain(|(_, _, events)| *events > 0);
    let missing = |name: &str| (name.to_owned(), SkipReason::MissingDimension, 1);
    assert_eq!(skipped, [missing("g_skip"), missing("h_skip")]);
}

const OTHERS: &str = r#"
kind: Event
apiVersion: obsinity/v1
metadata: { service: shop, name: request }
spec:
  schema:
    type: object
    properties:
      status: { type: integer, index: true }
---
kind: MetricCounter
apiVersion: obsinity/v1
metadata: { service: shop, event: request, name: by_class }
spec:
  key: { dimensions: [class] }
  fold:
    sourceAttribute: status
    foldedAttribute: class
    rules:
      - { when: { gte: 200, lt: 300 }, output: 2xx }
      - { when: { gte: 500 }, output: 5xx }
---
kind: MetricHistogram
apiVersion: obsinity/v1
metadata: { service: shop, event: request, name: duration_ms }
spec:
  buckets: { strategy: custom, bounds: [10, 20] }
---
kind: MetricHistogram
apiVersion: obsinity/v1
metadata: { service: shop, event: request, name: text_value }
spec:
  value: took
  buckets: { strategy: custom, bounds: [10, 20] }
---
kind: MetricGauge
apiVersion: obsinity/v1
metadata: { service: shop, event: request, name: seen }
spec: { value: took, reducer: max, observedAt: seen_at }
"#;

#[tokio::test]
async fn folds_durations_texts_and_observed_times() {
    let bench = Bench::with(EventOptions::default(), OTHERS).await;
    let request = |number: u32, status: i64, attributes: serde_json::Value| {
        let mut event = order(number, 0, "", 0, 0.0);
        event["event"]["name"] = json!("request");
        event["endUnixNano"] = json!((super::BASE_S * 1_000 + 15) * 1_000_000);
        event["attributes"] = attributes;
        event["attributes"]["status"] = json!(status);
        event
    };
    let hour_ago = (super::BASE_S - 3_600) * 1_000_000_000;
    bench
        .publish_all(&[
            request(1, 200, json!({ "took": " 12.5 ", "seen_at": hour_ago })),
            request(2, 204, json!({ "took": "NaN" })),
            request(3, 503, json!({ "took": "slow" })),
            request(4, 404, json!({ "took": 3, "seen_at": "no time" })),
        ])
        .await;
    bench
        .check_counts("by_class", &[("class=2xx", 2), ("class=5xx", 1)])
        .await;
    let view = bench.events.view().await.unwrap();
    let cells = shown_cells(&view, EventWindow::Minute).await;
    let histogram = |metric: &str| {
        let mut cells = cells.iter().filter(|((name, _, _), _)| name == metric);
        let Some((_, Cell::Histogram(cell))) = cells.next() else {
            panic!("{metric} has no cell");
        };
        (cell.counts.clone(), cell.sum)
    };
    assert_eq!(histogram("duration_ms"), (vec![0, 4, 0], 60.0));
    assert_eq!(histogram("text_value"), (vec![1, 1, 0], 15.5));
    let gauges: Vec<_> = cells
        .iter()
        .filter_map(|((name, start_s, _), cell)| match cell {
            Cell::Gauge(cell) if name == "seen" => Some((*start_s, cell.value)),
            _ => None,
        })
        .collect();
    assert_eq!(gauges, [(super::BASE_S - 3_600, 12.5)]);
}
