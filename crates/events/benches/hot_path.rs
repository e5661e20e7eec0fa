//! What an event of 550 bytes costs on its way in: three counters, a histogram and a gauge, in
//! batches of 500, as the aims of events have it.
//!
//! ```text
//! cargo bench -p icecore-events --features testing
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use icecore_events::testing::OpenGeneration;
use icecore_events::{
    Documents, EventIdSource, PrepareContext, Prepared, Registry, StoredEvent, UpdateOptions,
    decode_events, encode_events, parse_batch, parse_envelope, prepare,
};

const BATCH: usize = 500;

/// 2026-11-09T10:00:00Z.
const NOW_NS: i64 = 1_794_218_400_000_000_000;

const DOCUMENTS: &str = r#"
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: http.request }
spec:
  schema:
    type: object
    required: [http.method]
    properties:
      http:
        type: object
        properties:
          method: { type: string, index: true }
          route: { type: string, index: true }
          status: { type: integer, index: true }
          bytes: { type: integer }
      latency_ms: { type: number }
      pool: { type: object, properties: { free: { type: integer } } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: http.request, name: requests }
spec: { key: { dimensions: [http.method, http.route, http.status] } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: http.request, name: errors }
spec:
  key: { dimensions: [http.route] }
  filters: [ { path: http.status, op: gte, value: 500 } ]
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: http.request, name: sent_bytes }
spec:
  key: { dimensions: [http.route] }
  value: http.bytes
  rollup: { operation: sum }
---
apiVersion: obsinity/v1
kind: MetricHistogram
metadata: { service: shop, event: http.request, name: latency }
spec: { value: latency_ms, key: { dimensions: [http.route] } }
---
apiVersion: obsinity/v1
kind: MetricGauge
metadata: { service: shop, event: http.request, name: pool_free }
spec: { value: pool.free, reducer: min }
"#;

fn registry() -> Arc<Registry> {
    let documents = Documents::parse_yaml(DOCUMENTS).expect("the documents are right");
    let registry = Registry::default().with(&documents, UpdateOptions::default());
    Arc::new(registry.expect("the documents fit together"))
}

/// The n-th event: forty routes, a few outcomes, a second for ten of them.
fn event(n: usize) -> String {
    let (route, status) = (n * 7 % 40, [200, 200, 201, 404, 500][n % 5]);
    let (second, ms) = (n / 10 % 60, n * 97 % 1000);
    format!(
        r#"{{"eventId":"0199a1c0-7d11-7a3e-9b44-{n:012x}","event":{{"name":"http.request","kind":"SERVER"}},"resource":{{"service":{{"id":"shop","version":"3.1.0"}},"host":{{"name":"node-{}"}}}},"trace":{{"traceId":"5b8aa5a2d2c872e8321cf373{n:08x}","spanId":"051581bf{n:08x}"}},"time":{{"startedAt":"2026-11-09T09:59:{second:02}.{ms:03}Z"}},"status":{{"code":"OK"}},"attributes":{{"http":{{"method":"GET","route":"/api/v1/items/{route}","status":{status},"bytes":{}}},"latency_ms":{}.5,"pool":{{"free":{}}},"user":{{"agent":"Mozilla/5.0 (X11; Linux x86_64)"}}}}}}"#,
        n % 7,
        n * 31 % 20_000,
        n * 13 % 900,
        n % 64,
    )
}

fn stored(
    body: &[u8],
    registry: &Registry,
    context: &PrepareContext<'_>,
) -> Vec<StoredEvent<'static>> {
    let items = parse_batch(body).expect("the batch is JSON");
    let events = items.into_iter().map(|item| {
        let envelope = item.envelope.expect("each is an envelope");
        match prepare(envelope, registry, context) {
            Ok(Prepared::Stored(mut family)) => family.events.remove(0).event.into_owned(),
            other => panic!("not stored: {other:?}"),
        }
    });
    events.collect()
}

fn hot_path(c: &mut Criterion) {
    let registry = registry();
    let ids = EventIdSource::random().expect("there is randomness");
    let context = PrepareContext {
        now_ns: NOW_NS,
        guarded_ns: NOW_NS,
        max_future_skew: Duration::from_secs(600),
        masking_key: None,
        ids: &ids,
    };
    let one = event(3);
    let mut group = c.benchmark_group("event");
    group.throughput(Throughput::Bytes(one.len() as u64));
    group.bench_function("parse", |b| {
        b.iter(|| parse_envelope(black_box(one.as_bytes())))
    });
    group.bench_function("parse_and_prepare", |b| {
        b.iter(|| {
            prepare(
                parse_envelope(black_box(one.as_bytes()))?,
                &registry,
                &context,
            )
        })
    });
    group.finish();

    let texts: Vec<String> = (0..BATCH).map(event).collect();
    let body = format!("[{}]", texts.join(","));
    let events = stored(body.as_bytes(), &registry, &context);
    let block = Bytes::from(encode_events(registry.version, events.iter()));
    let mut group = c.benchmark_group("batch_of_500");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("encode_block", |b| {
        b.iter(|| encode_events(registry.version, black_box(&events).iter()))
    });
    group.bench_function("decode_block", |b| {
        b.iter(|| decode_events(black_box(&block)).map(|(_, events)| events.len()))
    });
    group.bench_function("fold_into_a_generation", |b| {
        b.iter_batched(
            || OpenGeneration::new(&registry),
            |mut generation| {
                generation.add(block.clone(), black_box(&events));
                generation
            },
            BatchSize::LargeInput,
        )
    });
    group.finish();
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
