//! Tables of cells, one for each window: `rollup_5s`, `rollup_1m`, `rollup_1h`, `rollup_1d`,
//! `rollup_7d`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use icecore_model::event::EventWindow;

use crate::pushdown::{texts, time_range};
use crate::rollup_rows::{MetricRows, RollupRows};
use crate::scanned::Scanned;
use crate::source::Source;

/// Cells of all metrics in one window.
#[derive(Debug)]
pub(crate) struct RollupTable {
    source: Source,
    window: EventWindow,
    schema: SchemaRef,
}

impl RollupTable {
    pub(crate) fn new(source: Source, window: EventWindow) -> Self {
        Self {
            source,
            window,
            schema: schema(),
        }
    }

    /// The metrics that filters leave.
    fn metrics(&self, filters: &[Expr]) -> Vec<MetricRows> {
        let wanted = ["service", "event_type", "metric"].map(|name| texts(filters, name));
        let mut metrics = Vec::new();
        for event_type in self.source.registry().event_types() {
            for metric in event_type.all_metrics() {
                let names = [&event_type.service, &event_type.name, &metric.name];
                let mut pairs = wanted.iter().zip(names);
                let is_wanted = pairs.all(|(wanted, name)| {
                    wanted
                        .as_ref()
                        .is_none_or(|list| list.contains(&name.as_str()))
                });
                if is_wanted {
                    metrics.push(MetricRows {
                        service: event_type.service.clone(),
                        event_type: event_type.name.clone(),
                        metric: metric.name.clone(),
                        number: metric.number,
                    });
                }
            }
        }
        metrics
    }
}

pub(crate) fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("metric", DataType::Utf8, false),
        Field::new("service", DataType::Utf8, false),
        Field::new("event_type", DataType::Utf8, false),
        Field::new("interval_start", time, false),
        Field::new("dims", DataType::Utf8, true),
        Field::new("count", DataType::Int64, true),
        Field::new("sum", DataType::Float64, true),
        Field::new("min", DataType::Float64, true),
        Field::new("max", DataType::Float64, true),
        Field::new("value", DataType::Float64, true),
    ]))
}

#[async_trait]
impl Scanned for RollupTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let range = time_range(filters, "interval_start").unwrap_or(i64::MIN..i64::MAX);
        // Cells begin at whole seconds. What lies before the epoch or far ahead has none.
        let second = |at_ns: i64| at_ns.max(0).div_euclid(1_000_000_000);
        let rows = RollupRows {
            source: self.source.clone(),
            window: self.window,
            metrics: self.metrics(filters),
            starts_s: second(range.start)..second(range.end).saturating_add(1),
            schema: self.schema.clone(),
        };
        let plan = StreamingTableExec::try_new(
            self.schema.clone(),
            vec![Arc::new(rows)],
            projection,
            [],
            false,
            limit,
        )?;
        Ok(Arc::new(plan))
    }
}
