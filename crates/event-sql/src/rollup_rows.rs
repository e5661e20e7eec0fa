//! Cells as rows, page by page.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Builder, Int64Builder, RecordBatch, StringArray, StringBuilder,
    TimestampNanosecondArray,
};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use icecore_model::event::{Cell, CellScan, DimensionHash, EventWindow, StoredCell};

use crate::source::Source;
use crate::statement::external;

/// Cells that are read at once.
const PAGE: usize = 8_192;

/// A metric whose cells are rows.
#[derive(Clone, Debug)]
pub(crate) struct MetricRows {
    pub(crate) service: String,
    pub(crate) event_type: String,
    pub(crate) metric: String,
    pub(crate) number: u32,
}

#[derive(Debug)]
pub(crate) struct RollupRows {
    pub(crate) source: Source,
    pub(crate) window: EventWindow,
    pub(crate) metrics: Vec<MetricRows>,
    pub(crate) starts_s: Range<i64>,
    pub(crate) schema: SchemaRef,
}

impl PartitionStream for RollupRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let reading = Reading {
            source: self.source.clone(),
            window: self.window,
            metrics: self.metrics.iter().cloned().collect(),
            starts_s: self.starts_s.clone(),
            schema: self.schema.clone(),
            after: None,
        };
        let batches = stream::try_unfold(reading, |mut reading| async move {
            let next = reading.next().await?;
            Ok(next.map(|batch| (batch, reading)))
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches))
    }
}

/// Where reading has got to.
struct Reading {
    source: Source,
    window: EventWindow,
    /// The current one, and those that follow.
    metrics: VecDeque<MetricRows>,
    starts_s: Range<i64>,
    schema: SchemaRef,
    after: Option<(i64, DimensionHash)>,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(metric) = self.metrics.front().cloned() {
            let scan = CellScan {
                window: self.window,
                metric: metric.number,
                starts_s: self.starts_s.clone(),
                after: self.after,
                limit: PAGE,
            };
            let cells = self.source.cells(scan).await.map_err(external)?;
            self.after = cells.last().map(|cell| (cell.start_s, cell.dimensions));
            if cells.len() < PAGE {
                self.metrics.pop_front();
                self.after = None;
            }
            if !cells.is_empty() {
                return self.batch(&metric, &cells).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn batch(&self, metric: &MetricRows, cells: &[StoredCell]) -> Result<RecordBatch> {
        let hashes: BTreeSet<_> = cells.iter().map(|cell| cell.dimensions).collect();
        let hashes: Vec<DimensionHash> = hashes.into_iter().collect();
        let sets = self
            .source
            .dimension_sets(metric.number, hashes.clone())
            .await;
        let sets = sets.map_err(external)?.into_iter().map(|values| {
            let object = values?
                .into_iter()
                .map(|(path, value)| (path, value.into()));
            Some(serde_json::Value::Object(object.collect()).to_string())
        });
        let sets: HashMap<DimensionHash, Option<String>> = hashes.into_iter().zip(sets).collect();
        let mut dims = StringBuilder::new();
        let mut counts = Int64Builder::new();
        let mut numbers: [Float64Builder; 4] = Default::default();
        for cell in cells {
            dims.append_option(sets.get(&cell.dimensions).and_then(Option::as_deref));
            let (count, values) = values_of(&cell.cell);
            counts.append_option(count);
            for (column, value) in numbers.iter_mut().zip(values) {
                column.append_option(value);
            }
        }
        let name = |name: &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(cells.iter().map(|_| name)))
        };
        let starts = cells
            .iter()
            .map(|cell| cell.start_s.saturating_mul(1_000_000_000));
        let starts = TimestampNanosecondArray::from_iter_values(starts).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![
            name(&metric.metric),
            name(&metric.service),
            name(&metric.event_type),
            Arc::new(starts),
            Arc::new(dims.finish()),
            Arc::new(counts.finish()),
        ];
        let numbers = numbers.iter_mut();
        columns.extend(numbers.map(|column| Arc::new(column.finish()) as ArrayRef));
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

/// Count, and sum, min, max and value.
fn values_of(cell: &Cell) -> (Option<i64>, [Option<f64>; 4]) {
    match cell {
        Cell::Counter(cell) => (
            Some(cell.count),
            [Some(cell.sum), None, None, Some(cell.count as f64)],
        ),
        Cell::Histogram(cell) => {
            let has = cell.samples > 0;
            let (min, max) = (has.then_some(cell.min), has.then_some(cell.max));
            let count = i64::try_from(cell.samples).unwrap_or(i64::MAX);
            (Some(count), [Some(cell.sum), min, max, None])
        }
        Cell::Gauge(cell) => (None, [None, None, None, Some(cell.value)]),
    }
}
