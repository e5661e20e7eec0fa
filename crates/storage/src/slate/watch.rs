//! Says when the store fails and when it is back, and finds out by itself.
//!
//! Holds always:
//! - What lasts is in the log within 5 s, with the store's own words, and once a minute after that.
//! - While writes fail and nobody writes, one is tried every few seconds: somebody who sends
//!   nothing to a process that is not ready would otherwise wait for ever.
//! - The manifest of a database on an object store is looked for once a minute. A directory is
//!   looked after at every write (`kept_directory`).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{info, warn};

use super::first_contact::PROBE;
use super::health::StoreHealth;
use super::lock_file::DirectoryLock;
use super::object_store::OpenedStore;

const TICK: Duration = Duration::from_secs(1);

/// Time between two warnings about the same trouble.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Time between two warnings when trouble comes and goes.
const RENEWED_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// How long nobody may have tried to write before it is tried here.
const TRY_AFTER: Duration = Duration::from_secs(3);

const MANIFEST_INTERVAL: Duration = Duration::from_secs(60);

/// A task that ends with this value, and with it the lock on the directory.
pub(super) struct StoreWatch {
    task: JoinHandle<()>,
    lock: Option<Arc<DirectoryLock>>,
}

impl StoreWatch {
    pub(super) fn start(
        opened: &OpenedStore,
        health: Arc<StoreHealth>,
        lock: Option<Arc<DirectoryLock>>,
    ) -> Self {
        let task = Task {
            path: opened.path.clone(),
            store: Arc::clone(&opened.store),
            remote: !opened.location.is_local(),
            health,
            lock: lock.clone(),
            reported: None,
            in_trouble: None,
        };
        Self {
            task: tokio::spawn(task.run()),
            lock,
        }
    }
}

impl Drop for StoreWatch {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(lock) = &self.lock {
            lock.release();
        }
    }
}

struct Task {
    path: Path,
    store: Arc<dyn ObjectStore>,
    remote: bool,
    health: Arc<StoreHealth>,
    lock: Option<Arc<DirectoryLock>>,
    /// When the log was told last.
    reported: Option<Instant>,
    /// Since when there is trouble that the log was told of.
    in_trouble: Option<Instant>,
}

impl Task {
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut manifest_looked_for = Instant::now();
        loop {
            ticks.tick().await;
            self.report();
            if let Some(lock) = &self.lock {
                lock.retry();
            }
            if self.health.wants_a_try(TRY_AFTER) {
                self.try_to_write().await;
            }
            if self.remote && manifest_looked_for.elapsed() >= MANIFEST_INTERVAL {
                manifest_looked_for = Instant::now();
                if is_manifest_gone(&self.store, &self.path).await {
                    end_without_manifest(&self.health, &self.path);
                }
            }
        }
    }

    fn report(&mut self) {
        let trouble = self.health.trouble();
        let due = |interval| self.reported.is_none_or(|at| at.elapsed() >= interval);
        match (&trouble, self.in_trouble) {
            (Some(trouble), begun) => {
                let interval = match begun {
                    Some(_) => REPORT_INTERVAL,
                    None => RENEWED_REPORT_INTERVAL,
                };
                if due(interval) {
                    let errors = self.health.take_unreported().errors;
                    let reason = &trouble.reason;
                    warn!(
                        reason,
                        errors, "commits fail and are retried; nothing is lost"
                    );
                    self.reported = Some(Instant::now());
                    self.in_trouble = begun.or_else(|| Instant::now().checked_sub(trouble.lasts));
                }
            }
            (None, Some(begun)) => {
                let seconds = begun.elapsed().as_secs();
                info!(seconds, "the object store accepts writes again");
                self.in_trouble = None;
            }
            (None, None) if self.health.has_unreported() && due(REPORT_INTERVAL) => {
                let unreported = self.health.take_unreported();
                let latest = unreported.latest.unwrap_or_default();
                let errors = unreported.errors;
                warn!(
                    latest,
                    errors, "requests to the object store failed and were retried"
                );
                self.reported = Some(Instant::now());
            }
            (None, None) => {}
        }
    }

    /// The same bytes as they are written before each start, so that it does not matter who wins.
    async fn try_to_write(&self) {
        let probe = Path::from(format!("{}-create-probe", self.path));
        // What came of it is counted where it is observed.
        let _ = self.store.put(&probe, PutPayload::from_static(PROBE)).await;
    }
}

/// Whether the store answers that there is no manifest, twice.
pub(super) async fn is_manifest_gone(store: &Arc<dyn ObjectStore>, path: &Path) -> bool {
    let manifests = Path::from(format!("{path}/manifest"));
    for _ in 0..2 {
        match store.list(Some(&manifests)).next().await {
            None => {}
            Some(_) => return false,
        }
    }
    true
}

pub(super) fn end_without_manifest(health: &StoreHealth, path: &Path) {
    health.end(format!(
        "the manifest of the database is gone from {path}/manifest while the database was in use: what is written now could not be found again"
    ));
}
