//! Documents, put into registries.

mod documents;
mod faults;
mod round_trip;
mod updates;

use super::*;

/// The documents of the specification, in the words of its readers.
pub(super) const ORDER_PLACED: &str = "\
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed, displayName: Order placed, labels: { category: sales } }
spec:
  retention: { ttl: 30d }            # raw events
  schema:
    type: object
    required: [order.channel]        # dotted paths
    properties:
      order:
        type: object
        properties:
          channel: { type: string,  index: true }
          items:   { type: integer, index: true }
          total:   { type: number }
      customer:
        type: object
        properties:
          id:    { type: string, index: true }
          email: { type: string }
  dimensions: [order.channel, order.items, customer.id]   # order for the event-level dim_hash
  masking:
    - { path: customer.email, action: drop }
    - { path: customer.id,    action: hash }
";

pub(super) const ORDERS: &str = "\
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec:
  key: { dimensions: [order.channel] }
  filters: [ { path: order.items, op: gte, value: 1 } ]
  rollup: { operation: count, windowing: { granularities: [5s, 1m, 1h, 1d, 7d] } }
  retention: { ttl: 90d }
";

pub(super) const ORDER_LATENCY: &str = "\
kind: MetricHistogram
metadata: { service: shop, event: order.placed, name: order_latency_ms }
spec:
  value: order.latency_ms          # absent: event duration in milliseconds
  key: { dimensions: [order.channel] }
  buckets: { strategy: custom, bounds: [10, 20, 50, 100, 250, 1000] }
  rollup: { percentiles: [0.5, 0.9, 0.95, 0.99] }
";

pub(super) const STOCK_LEVEL: &str = "\
kind: MetricGauge
metadata: { service: shop, event: order.placed, name: stock_level }
spec:
  value: stock.level
  reducer: latest                  # latest | min | max
  observedAt: stock.seen_at        # optional path, default startedAt
  key: { dimensions: [order.channel] }
";

pub(super) const STATES: &str = "\
service: shop
stateExtractors:
  - rawType: order.updated
    objectType: Order
    objectIdField: order.id
    stateAttributes: [order.status]
    transitionPolicy: { additional: [NEW] }      # or only: [...]
";

pub(super) const OPTIONS: UpdateOptions = UpdateOptions {
    force: false,
    has_masking_key: true,
};

pub(super) fn stream(documents: &[&str]) -> String {
    documents.join("---\n")
}

pub(super) fn spec_stream() -> String {
    stream(&[ORDER_PLACED, ORDERS, ORDER_LATENCY, STOCK_LEVEL, STATES])
}

pub(super) fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

#[track_caller]
pub(super) fn parse(text: &str) -> Documents {
    Documents::parse_yaml(text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"))
}

#[track_caller]
pub(super) fn registry(text: &str) -> Registry {
    with(&Registry::default(), text)
}

#[track_caller]
pub(super) fn with(registry: &Registry, text: &str) -> Registry {
    let changed = registry.with(&parse(text), OPTIONS);
    changed.unwrap_or_else(|problem| panic!("{text}\n{problem}"))
}
