//! A change of the registry happens between two generations.
//!
//! ```text
//! accepting pauses ─► open generation is flushed ─► documents are stored ─► accepting goes on
//! ```
//!
//! So whatever a replay finds beyond the mark was accepted under the registry that is stored.

use std::sync::Arc;
use std::time::Duration;

use icecore_model::event::{EventBatch, EventStore, FlushMark};

use super::accept::unavailable;
use super::file_list::all_records;
use super::fold_plan::FoldPlan;
use super::{Engine, Events};
use crate::{Documents, Problem, Registry, UpdateOptions, registry_keys};

/// How often it is looked whether a change was stored, and how many times. A store that cannot be
/// read for so long has failed, and the process ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const LOOKS_MAX: usize = 300;

/// The outcome of a change.
#[derive(Clone, Debug)]
pub struct Applied {
    pub registry: Arc<Registry>,
    /// False if the documents said what was known.
    pub is_changed: bool,
}

impl Events {
    /// Puts documents into the registry: all of them, or none.
    pub async fn apply(&self, documents: Documents, force: bool) -> Result<Applied, Problem> {
        self.to_its_end(move |engine| async move { engine.apply(&documents, force).await })
            .await
    }
}

impl Engine {
    async fn apply(&self, documents: &Documents, force: bool) -> Result<Applied, Problem> {
        // Whoever is being accepted ends first, whoever comes waits.
        let _paused = self.accepting.write().await;
        let mut flusher = self.flusher.lock().await;
        let current = self.memory.lock().registry.clone();
        let options = UpdateOptions {
            force,
            has_masking_key: self.options.masking_key.is_some(),
        };
        let registry = current.with(documents, options)?;
        if registry.version == current.version {
            return Ok(Applied {
                registry: current,
                is_changed: false,
            });
        }
        self.memory.lock().close_generation();
        let mark = self.flush_closed(&mut flusher).await?;
        let mark = FlushMark {
            generation: mark.generation + 1,
            registry_version: registry.version,
            ..mark
        };
        let batch = EventBatch {
            records: registry.changes_from(&current),
            flushed: Some(mark),
            ..EventBatch::default()
        };
        let mut written = self.write_marked(&mut flusher, batch, mark).await;
        // Which registry is stored has to be known before anything more is accepted.
        for _ in 0..LOOKS_MAX {
            if written.is_ok() || !flusher.is_uncertain {
                break;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
            if let Ok(true) = self.is_marked(&mut flusher, mark).await {
                written = Ok(());
            }
        }
        written.map_err(unavailable)?;
        let registry = Arc::new(registry);
        let plan = Arc::new(FoldPlan::new(&registry));
        let mut memory = self.memory.lock();
        memory.registry = registry.clone();
        memory.plan = plan;
        memory.flushed(mark);
        Ok(Applied {
            registry,
            is_changed: true,
        })
    }
}

/// The registry that is stored.
pub(super) async fn stored_registry(store: &dyn EventStore) -> Result<Registry, Problem> {
    let snapshot = store.snapshot().await.map_err(Problem::from_store)?;
    let records = all_records(&*snapshot, registry_keys()).await;
    let registry = records.and_then(Registry::from_records);
    registry.map_err(Problem::from_store)
}
