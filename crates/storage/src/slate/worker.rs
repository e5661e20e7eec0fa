//! Runs compaction beside the database: SlateDB's coordinator, which asks the scheduler, and its
//! worker, which rewrites.
//!
//! SlateDB can run both by itself inside the database, but then writes what is compacted as it
//! writes memtables: with the same codec. What is compacted is read often and rewritten seldom, so
//! it deserves a better one. A compactor of its own has its own settings; nothing else differs, but
//! that it does not fill the block cache.
//!
//! Holds always:
//! - It ends with the database, whether that is closed, fenced or has failed.
//! - When it fails it is started again: without it files pile up.
//! - Coordinator and worker share one view of manifests, which the coordinator keeps fresh. SlateDB
//!   finds the latest manifest by asking for the successor of the last one that it saw. A worker
//!   alone looks only when there is work: in a pause the successor can be deleted, and on a
//!   directory, which has no boundary files, it would take its old manifest for the latest for ever
//!   and give back every job.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use slatedb::compactor::{Compactor, CompactorBuilder};
use slatedb::config::CompactorOptions;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{Db, SstBlockSize};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::warn;

use super::merge_operator::RecordMergeOperator;
use super::scheduler::SchedulerSupplier;
use super::slate_metrics::SlateMetrics;
use super::tick_clock::TickClock;

/// How long after a failure compaction is started again. Longer than the database needs to see that
/// another process has taken over (a poll of the manifest, 5 s on a remote store): a compactor that
/// is started takes compaction away from whoever has it.
const PAUSE: Duration = Duration::from_secs(15);

/// Repeats of reading the times of the database before compaction is tried without.
const FOLLOW_RETRIES_MAX: usize = 8;

/// How long a stop waits for the store, which may be what failed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// What a worker is made of.
pub(super) struct WorkerSetup {
    pub(super) path: Path,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) options: CompactorOptions,
    pub(super) scheduler: Arc<SchedulerSupplier>,
    pub(super) block_size: SstBlockSize,
    pub(super) metrics: SlateMetrics,
    pub(super) clock: Arc<TickClock>,
}

/// The worker of an open database.
pub(super) struct Worker {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(setup: WorkerSetup, db: &Db) -> Self {
        let (stop, stopped) = oneshot::channel();
        let status = db.subscribe();
        let task = tokio::spawn(async move {
            let mut end = pin!(end(stopped, status));
            loop {
                let Some(failure) = run(&setup, &mut end).await else {
                    return;
                };
                warn!(%failure, "compaction stopped: restarting it");
                tokio::select! {
                    () = &mut end => return,
                    () = tokio::time::sleep(PAUSE) => {}
                }
                // Compactions of another process may have been the reason.
                let followed = setup
                    .clock
                    .follow(&setup.path, &setup.store, FOLLOW_RETRIES_MAX);
                if let Err(cause) = followed.await {
                    warn!(%cause, "compaction may be refused once more");
                }
            }
        });
        Self { stop, task }
    }

    /// Gives jobs that are under way back and ends.
    pub(super) async fn stop(self) {
        let Self { stop, mut task } = self;
        // It may have ended with the database.
        let _ = stop.send(());
        // A job that is not given back is taken over after a while.
        match tokio::time::timeout(STOP_PATIENCE, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => warn!("the compaction worker ended abnormally"),
            Err(_) => task.abort(),
        }
    }
}

/// Resolves when the worker is to end.
async fn end(stopped: oneshot::Receiver<()>, mut status: watch::Receiver<slatedb::DbStatus>) {
    tokio::select! {
        _ = stopped => {}
        _ = status.wait_for(|status| status.close_reason.is_some()) => {}
    }
}

/// Runs a compactor until `end`; before that only with the reason.
async fn run(setup: &WorkerSetup, end: &mut (impl Future<Output = ()> + Unpin)) -> Option<String> {
    let compactor = build(setup);
    let ended = tokio::select! {
        ended = compactor.run() => ended,
        () = end => {
            if let Err(cause) = compactor.stop().await {
                warn!(%cause, "compaction did not stop cleanly");
            }
            return None;
        }
    };
    Some(ended.map_or_else(|cause| cause.to_string(), |()| "it ended".to_owned()))
}

fn build(setup: &WorkerSetup) -> Compactor {
    let scheduler = Arc::clone(&setup.scheduler);
    CompactorBuilder::new(setup.path.clone(), Arc::clone(&setup.store))
        .with_options(setup.options.clone())
        .with_scheduler_supplier(scheduler)
        .with_sst_block_size(setup.block_size)
        .with_merge_operator(Arc::new(RecordMergeOperator))
        .with_metrics_recorder(setup.metrics.recorder())
        .with_system_clock(Arc::clone(&setup.clock) as _)
        .build()
}
