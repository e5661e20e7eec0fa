//! Names of metrics in the store, those whose series memory has forgotten included.
//!
//! ```text
//! first request ─► waits for the names      later ones ─► those that are known, at once
//!                                                 └─ older than a minute: read anew meanwhile
//! ```
//!
//! Holds always: one read at a time, and at most [`NAMES_MAX`] names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_model::{MAX_TIMESTAMP_MS, METRIC_NAME, MemoryBudget};
use icecore_storage::{Database, LabelQuery};
use parking_lot::RwLock;
use tracing::debug;

/// Names that are kept: the first ones in order. More are found by a search in PromQL.
const NAMES_MAX: usize = 200_000;

/// A name that is new is in memory, so that the store need not be asked often.
const FRESH_FOR: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct StoredNames {
    known: RwLock<Option<Known>>,
    reading: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Known {
    names: Arc<[String]>,
    read: Instant,
}

impl StoredNames {
    /// The names, sorted; why they could not be read, where they never were.
    pub(crate) async fn get(
        self: &Arc<Self>,
        database: &Database,
        memory: Arc<MemoryBudget>,
    ) -> Result<Arc<[String]>, icecore_storage::Error> {
        let known = self.known.read().clone();
        match known {
            Some(known) if known.read.elapsed() < FRESH_FOR => Ok(known.names),
            Some(known) => {
                if self.reading.try_lock().is_ok() {
                    let (names, database) = (Arc::clone(self), database.clone());
                    tokio::spawn(async move {
                        if let Err(cause) = names.read(&database, memory).await {
                            debug!(%cause, "cannot read the names of metrics: the old ones go on");
                        }
                    });
                }
                Ok(known.names)
            }
            None => self.read(database, memory).await,
        }
    }

    async fn read(
        &self,
        database: &Database,
        memory: Arc<MemoryBudget>,
    ) -> Result<Arc<[String]>, icecore_storage::Error> {
        let _one_at_a_time = self.reading.lock().await;
        if let Some(known) = self.known.read().clone()
            && known.read.elapsed() < FRESH_FOR
        {
            return Ok(known.names);
        }
        let query = LabelQuery {
            selectors: Vec::new(),
            start_ms: 0,
            end_ms: MAX_TIMESTAMP_MS,
            limit: Some(NAMES_MAX),
            memory: Some(memory),
        };
        let names: Arc<[String]> = database.label_values(METRIC_NAME, &query).await?.into();
        *self.known.write() = Some(Known {
            names: Arc::clone(&names),
            read: Instant::now(),
        });
        Ok(names)
    }
}
