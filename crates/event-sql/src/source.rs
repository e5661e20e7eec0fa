//! Where a query reads, and on which threads.

use std::ops::Range;
use std::sync::Arc;

use icecore_events::query::DimensionValues;
use icecore_events::search::{EventRows, RowFile};
use icecore_events::{EventSource, FileBytes, Problem, Registry};
use icecore_model::event::{CellScan, DimensionHash, StoredCell, Week};
use icecore_model::{BoxFuture, StoreError};
use tokio::runtime::Handle;

/// Reads of the store run where the store's connections live, and not on the threads of queries.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) view: Arc<dyn EventSource>,
    store: Handle,
}

impl Source {
    /// To be called on the runtime of the store.
    pub(crate) fn new(view: Arc<dyn EventSource>) -> Self {
        Self {
            view,
            store: Handle::current(),
        }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        EventRows::registry(&*self.view)
    }

    pub(crate) async fn files(
        &self,
        service: u32,
        weeks: Range<Week>,
        event_type: Option<u32>,
    ) -> Result<Vec<RowFile>, Problem> {
        let view = self.view.clone();
        let work = async move { view.files(service, weeks, event_type).await };
        let mut files = self.on_store(work).await?;
        for file in &mut files {
            file.bytes = self.file_bytes(&file.bytes);
        }
        Ok(files)
    }

    fn file_bytes(&self, file: &FileBytes) -> FileBytes {
        let (store, read) = (self.store.clone(), file.read.clone());
        FileBytes {
            size: file.size,
            read: Arc::new(move |range| {
                let reading = AbortOnDrop(store.spawn(read(range)));
                let done = async move {
                    let mut reading = reading;
                    let done = (&mut reading.0).await;
                    done.map_err(|error| StoreError(format!("reading a file: {error}")))?
                };
                Box::pin(done) as BoxFuture<'static, _>
            }),
        }
    }

    pub(crate) async fn cells(&self, scan: CellScan) -> Result<Vec<StoredCell>, Problem> {
        let view = self.view.clone();
        self.on_store(async move { view.cells(scan).await }).await
    }

    pub(crate) async fn dimension_sets(
        &self,
        metric: u32,
        hashes: Vec<DimensionHash>,
    ) -> Result<Vec<Option<DimensionValues>>, Problem> {
        let view = self.view.clone();
        let work = async move { view.dimension_sets(metric, &hashes).await };
        self.on_store(work).await
    }

    async fn on_store<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let mut working = AbortOnDrop(self.store.spawn(work));
        let done = (&mut working.0).await;
        done.map_err(|error| Problem::new(500, "sql.failed", error.to_string()))?
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

/// A task that ends when nobody waits for it any more.
pub(crate) struct AbortOnDrop<T>(pub(crate) tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
