//! A change of the registry happens between two generations.
//!
//! ```text
//! accepting pauses ─► open generation is flushed ─► documents are stored ─► accepting goes on
//! ```
//!
//! So whatever a replay finds beyond the mark was accepted under the registry that is stored.
//!
//! Holds always: nothing is accepted or flushed while it is not known which registry is stored. If
//! the store cannot be read for long, requests are answered with 503 until it can.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use icecore_model::StoreError;
use icecore_model::event::{EventBatch, EventStore, FlushMark};
use tokio::sync::watch;

use super::accept::unavailable;
use super::file_list::all_records;
use super::flush::Flusher;
use super::fold_plan::FoldPlan;
use super::{Engine, Events};
use crate::{Documents, Problem, Registry, UpdateOptions, registry_keys};

/// Interval between looks at the store, whether a change was stored that ended with an error.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Looks after which requests are refused instead of waiting for the outcome. It is looked on for
/// as long as it takes: going on under the wrong registry would drop cells.
const LOOKS_WAITED: usize = 25;

/// The outcome of a change.
#[derive(Clone, Debug)]
pub struct Applied {
    pub registry: Arc<Registry>,
    /// False if the documents said what was known.
    pub is_changed: bool,
}

impl Events {
    /// Puts documents into the registry: all of them, or none. An error of the kind "unavailable"
    /// leaves open which.
    pub async fn apply(&self, documents: Documents, force: bool) -> Result<Applied, Problem> {
        let engine = self.engine.clone();
        let applying = tokio::spawn(async move { engine.apply(&documents, force).await });
        tokio::select! {
            biased;
            applied = applying => applied.map_err(super::stopped)?,
            problem = self.engine.undecided.raised() => Err(problem),
        }
    }
}

/// Whether the outcome of a change is not known, for so long that nobody is to wait for it.
pub(super) struct Undecided(watch::Sender<bool>);

impl Default for Undecided {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Undecided {
    /// Waits until it is so, and says what is answered then.
    pub(super) async fn raised(&self) -> Problem {
        // The sender is here, so the channel is open.
        let _ = self.0.subscribe().wait_for(|is_raised| *is_raised).await;
        let detail = "it is not known yet whether a change of the registry was stored";
        let problem = Problem::new(503, "ingest.unavailable", detail);
        problem.with_hint("send the request again in a few seconds")
    }

    /// What is waited for, or the answer that it takes too long.
    pub(super) async fn or<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Problem> {
        tokio::select! {
            biased;
            problem = self.raised() => Err(problem),
            done = waiting => Ok(done),
        }
    }
}

impl Engine {
    async fn apply(&self, documents: &Documents, force: bool) -> Result<Applied, Problem> {
        // Whoever is being accepted ends first, whoever comes waits.
        let _paused = self.undecided.or(self.accepting.write()).await?;
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
        let written = self.write_marked(&mut flusher, batch, mark).await;
        let written = self.decided(&mut flusher, mark, written).await;
        written.map_err(unavailable)?;
        let registry = Arc::new(registry);
        let plan = Arc::new(FoldPlan::new(&registry));
        let mut memory = self.memory.lock();
        memory.registry = registry.clone();
        memory.plan = plan;
        memory.flushed(mark);
        self.replay_wanted.notify_one();
        Ok(Applied {
            registry,
            is_changed: true,
        })
    }
}

impl Engine {
    /// Waits until it is known what became of a change.
    async fn decided(
        &self,
        flusher: &mut Flusher,
        mark: FlushMark,
        mut written: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut looks = 0;
        // At the end of the process nothing more is accepted: the next start reads what is stored.
        while written.is_err() && flusher.is_uncertain && !self.is_closed.load(Relaxed) {
            looks += 1;
            if looks == LOOKS_WAITED {
                tracing::error!("cannot read the store after a change of the registry failed");
                self.undecided.0.send_replace(true);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
            if let Ok(true) = self.is_marked(flusher, mark).await {
                written = Ok(());
            }
        }
        self.undecided.0.send_replace(false);
        written
    }
}

/// The registry that is stored.
pub(super) async fn stored_registry(store: &dyn EventStore) -> Result<Registry, Problem> {
    let snapshot = store.snapshot().await.map_err(Problem::from_store)?;
    let records = all_records(&*snapshot, registry_keys()).await;
    let registry = records.and_then(Registry::from_records);
    registry.map_err(Problem::from_store)
}
