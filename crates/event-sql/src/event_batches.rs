//! Events of files and of the tail as batches of columns.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use icecore_event_files::{ColumnBatches, events_to_batch};
use icecore_events::search::TailPart;
use icecore_events::{EventType, FileBytes, FileScan, Problem, StoredEvent};
use icecore_model::StoreError;

use crate::source::Source;
use crate::statement::external;

/// A file, and what is read of it.
#[derive(Clone)]
pub(crate) struct FileRead {
    pub(crate) file: FileBytes,
    pub(crate) scan: FileScan,
}

/// Which events of the tail are wanted.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) event_type: Option<Arc<EventType>>,
    pub(crate) started_ns: Range<i64>,
}

/// A part of the events of a table.
pub(crate) struct EventBatches {
    pub(crate) source: Source,
    pub(crate) schema: SchemaRef,
    pub(crate) files: Vec<FileRead>,
    pub(crate) tail: Vec<TailPart>,
    pub(crate) selection: Arc<Selection>,
}

impl std::fmt::Debug for EventBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} files, {} blocks", self.files.len(), self.tail.len())
    }
}

impl PartitionStream for EventBatches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (source, schema) = (self.source.clone(), self.schema.clone());
        let selection = self.selection.clone();
        let tail = stream::iter(self.tail.clone())
            .then(move |part| tail_batch(source.clone(), schema.clone(), selection.clone(), part));
        let schema = self.schema.clone();
        let files = stream::iter(self.files.clone());
        let files = files
            .then(move |read| file_batches(read, schema.clone()))
            .try_flatten();
        let batches = tail.chain(files);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches))
    }
}

/// The wanted events of a block of the tail.
async fn tail_batch(
    source: Source,
    schema: SchemaRef,
    selection: Arc<Selection>,
    part: TailPart,
) -> Result<RecordBatch> {
    let work = move || {
        let view = &source.view;
        let events = view.tail_events(&part).map_err(external)?;
        let is_wanted = |event: &&StoredEvent<'_>| {
            selection.started_ns.contains(&event.started_ns)
                && selection.event_type.as_ref().is_none_or(|wanted| {
                    *event.service == wanted.service && *event.event_type == wanted.name
                })
                && event.started_ns >= view.kept_from_ns(&event.service, &event.event_type)
        };
        let wanted: Vec<&StoredEvent<'_>> = events.iter().filter(is_wanted).collect();
        Ok(events_to_batch(&schema, &wanted)?)
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

/// The batches of a file.
async fn file_batches(
    read: FileRead,
    schema: SchemaRef,
) -> Result<impl stream::Stream<Item = Result<RecordBatch>>> {
    let opened = ColumnBatches::open(read.file, read.scan, schema).await;
    let batches = opened.map_err(unreadable)?;
    Ok(stream::try_unfold(batches, |mut batches| async move {
        let next = batches.next_batch().await.map_err(unreadable)?;
        Ok(next.map(|batch| (batch, batches)))
    }))
}

fn unreadable(error: StoreError) -> DataFusionError {
    external(Problem::new(500, "sql.unreadable", error.to_string()))
}
