//! Events and cells for queries.

use std::sync::Arc;

use icecore_event_files::Parquet;
use icecore_event_sql::{SqlAnswer, SqlEngine, SqlLimits, SqlRequest};
use icecore_events::query::{CellSource, DimensionValues};
use icecore_events::search::{EventRows, RowFile, SeenValue, TailPart};
use icecore_events::testing::MemoryRows;
use icecore_events::{
    Attributes, Documents, FileFormat, Problem, Registry, Scalar, StoredEvent, UpdateOptions, Value,
};
use icecore_model::BoxFuture;
use icecore_model::event::{Cell, CellScan, CounterCell, DimensionHash, EventId, StoredCell, Week};
use serde_json::{Value as Json, json};

/// 2026-11-09T10:00:00Z.
pub(crate) const START_NS: i64 = 1_794_218_400_000_000_000;
pub(crate) const START_S: i64 = 1_794_218_400;

const DOCUMENTS: &str = "
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
          total: { type: number, index: true }
---
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: cart.seen }
spec: { retention: { ttl: 30m } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec: { key: { dimensions: [order.channel] } }
";

pub(crate) fn registry() -> Arc<Registry> {
    let documents = Documents::parse_yaml(DOCUMENTS).unwrap();
    Arc::new(
        Registry::default()
            .with(&documents, UpdateOptions::default())
            .unwrap(),
    )
}

/// The n-th event, one each second.
pub(crate) fn event(n: u32) -> StoredEvent<'static> {
    let channel = if n.is_multiple_of(2) { "web" } else { "app" };
    let leaves = vec![
        (
            "order.channel".into(),
            Value::Scalar(Scalar::Text(channel.into())),
        ),
        (
            "order.items".into(),
            Value::Scalar(Scalar::Integer(n.into())),
        ),
        (
            "order.total".into(),
            Value::Scalar(Scalar::Number(f64::from(n) / 2.0)),
        ),
        (
            "note.by".into(),
            Value::Scalar(Scalar::Text(format!("n{n}").into())),
        ),
    ];
    let mut id = [0; 16];
    id[12..].copy_from_slice(&n.to_be_bytes());
    let started_ns = START_NS + i64::from(n) * 1_000_000_000;
    StoredEvent {
        service: "shop".into(),
        event_type: "order.placed".into(),
        name: "order.placed".into(),
        id: EventId(id),
        parent: None,
        started_ns,
        ended_ns: None,
        received_ns: started_ns,
        duration_ns: None,
        kind: None,
        outcome: "SUCCESS".into(),
        error_code: None,
        error_message: None,
        trace_id: None,
        span_id: None,
        parent_span_id: None,
        correlation_id: None,
        dimensions: DimensionHash::default(),
        synthetic: false,
        attributes: Attributes::from_leaves(leaves).unwrap(),
        rest: "".into(),
    }
}

pub(crate) struct View {
    pub(crate) rows: MemoryRows,
}

/// A hundred events of orders in two files and two blocks, and some that are too old.
pub(crate) fn view() -> View {
    let format: Arc<dyn FileFormat> = Arc::new(Parquet);
    let mut rows = MemoryRows::new(registry(), (START_S + 3_600) * 1_000, format);
    rows.push_file((0..40).map(event).collect());
    rows.push_file((40..70).map(event).collect());
    rows.push_tail((70..90).map(event).collect());
    rows.push_tail((90..100).map(event).collect());
    let seen = |n: u32| StoredEvent {
        event_type: "cart.seen".into(),
        started_ns: START_NS + i64::from(n) * 60_000_000_000,
        ..event(n)
    };
    // Kept for half an hour: from the thirtieth minute on.
    rows.push_file((25..35).map(seen).collect());
    rows.push_tail((20..40).map(seen).collect());
    View { rows }
}

impl EventRows for View {
    fn registry(&self) -> &Arc<Registry> {
        self.rows.registry()
    }

    fn now_ms(&self) -> i64 {
        self.rows.now_ms()
    }

    fn guarded_ms(&self) -> i64 {
        self.rows.guarded_ms()
    }

    fn tail_parts(&self, service: Option<&str>, event_type: Option<&str>) -> Vec<TailPart> {
        self.rows.tail_parts(service, event_type)
    }

    fn tail_events(&self, part: &TailPart) -> Result<Vec<StoredEvent<'_>>, Problem> {
        self.rows.tail_events(part)
    }

    fn files(
        &self,
        service: u32,
        weeks: std::ops::Range<Week>,
        event_type: Option<u32>,
    ) -> BoxFuture<'_, Result<Vec<RowFile>, Problem>> {
        self.rows.files(service, weeks, event_type)
    }

    fn format(&self) -> &Arc<dyn FileFormat> {
        self.rows.format()
    }

    fn blocks_of<'a>(
        &'a self,
        service: u32,
        weeks: &'a [Week],
        event: EventId,
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, Problem>> {
        self.rows.blocks_of(service, weeks, event)
    }

    fn values_of<'a>(
        &'a self,
        service: u32,
        attribute: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SeenValue>, Problem>> {
        self.rows.values_of(service, attribute)
    }
}

/// Twenty thousand cells of the counter in each window, two for each interval.
impl CellSource for View {
    fn registry(&self) -> &Arc<Registry> {
        self.rows.registry()
    }

    fn now_ms(&self) -> i64 {
        self.rows.now_ms()
    }

    fn guarded_ms(&self) -> i64 {
        self.rows.guarded_ms()
    }

    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, Problem>> {
        let service = &self.rows.registry.services["shop"];
        let metric = service.types["order.placed"]
            .metric("orders")
            .unwrap()
            .number;
        let cell = |n: i64| StoredCell {
            start_s: START_S + n / 2 * scan.window.seconds(),
            dimensions: DimensionHash([(n % 2) as u8; 16]),
            cell: Cell::Counter(CounterCell {
                first_s: START_S,
                count: n,
                sum: 0.0,
            }),
        };
        let cells = (0..20_000).map(cell).filter(|cell| {
            scan.metric == metric
                && scan.starts_s.contains(&cell.start_s)
                && scan
                    .after
                    .is_none_or(|after| (cell.start_s, cell.dimensions) > after)
        });
        let cells: Vec<StoredCell> = cells.take(scan.limit).collect();
        Box::pin(async move { Ok(cells) })
    }

    fn dimension_sets<'a>(
        &'a self,
        _: u32,
        hashes: &'a [DimensionHash],
    ) -> BoxFuture<'a, Result<Vec<Option<DimensionValues>>, Problem>> {
        let values = hashes.iter().map(|hash| {
            let channel = if hash.0[0] == 0 { "web" } else { "app" };
            Some(vec![("order.channel".to_owned(), channel.to_owned())])
        });
        let values = values.collect();
        Box::pin(async move { Ok(values) })
    }

    fn state_counts<'a>(
        &'a self,
        _: u32,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(String, i64)>, Problem>> {
        Box::pin(async move { Ok(Vec::new()) })
    }
}

pub(crate) async fn answer(body: Json, limits: SqlLimits) -> Result<SqlAnswer, Problem> {
    answer_of(view(), body, limits).await
}

async fn answer_of(view: View, body: Json, limits: SqlLimits) -> Result<SqlAnswer, Problem> {
    let engine = SqlEngine::new(limits).unwrap();
    let request = SqlRequest::parse(body.to_string().as_bytes())?;
    engine.query(Arc::new(view), request).await
}

/// The rows of a query, each as a list of its values.
pub(crate) async fn rows(query: &str) -> Result<Vec<Json>, Problem> {
    rows_of(view(), query).await
}

pub(crate) async fn rows_of(view: View, query: &str) -> Result<Vec<Json>, Problem> {
    let body = json!({ "q": query, "format": "columnar" });
    let answer = answer_of(view, body, SqlLimits::default()).await?;
    assert_eq!(answer.content_type, "application/json");
    let answer: Json = serde_json::from_slice(&answer.body).unwrap();
    let fields = answer["data"]["schema"]["fields"].as_array().unwrap();
    let count = answer["count"].as_u64().unwrap() as usize;
    let value = |row: usize, field: &Json| {
        answer["data"]["data"][field["name"].as_str().unwrap()][row].clone()
    };
    let row = |row: usize| fields.iter().map(|field| value(row, field)).collect();
    Ok((0..count).map(row).collect())
}
