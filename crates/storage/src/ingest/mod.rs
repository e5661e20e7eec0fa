//! Ingest: from a request to samples that are durable, visible and, later, in buckets.
//!
//! ```text
//! request ─► head ─► journal ─► acknowledged
//!              └─ due ─► flush ─► buckets ─► journal drained
//! ```
//!
//! Holds always:
//! - [`Ingest`] owns head, journal and flushes. Others see the head through reads, and flushes
//!   through the flush lock, holds and the quarantine.
//! - What was acknowledged is in the journal or in a bucket.
//!
//! Elsewhere: what buckets there are (`crate::buckets`), what becomes of them
//! (`crate::maintenance`).

mod append;
mod due;
mod events;
pub(crate) mod flush;
pub(crate) mod head;
mod idle;
pub(crate) mod journal;
mod task;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify};
use tracing::info;

pub(crate) use due::{flush_all, flush_and_drain, flush_at_stop, flush_due, flush_for_memory};
pub(crate) use events::EVENT_RECORD_KINDS;
#[cfg(feature = "testing")]
pub(crate) use idle::forget_idle;
pub(crate) use task::run;

use crate::buckets::Buckets;
use crate::context::Context;
use crate::error::Result;
use crate::memory::HeadBudget;
use append::Scratch;
use flush::{FlushHold, FlushLog, FrozenHours, Quarantine, load_metadata, load_totals};
use head::{Head, Sequencer};
use journal::{Journal, ReplayProgress, forget_unreadable, recover};

/// Time between commits where each is a PUT that costs money, and where it is a local file.
const REMOTE_COMMIT_INTERVAL: Duration = Duration::from_millis(200);
const LOCAL_COMMIT_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) struct Ingest {
    context: Arc<Context>,
    buckets: Arc<Buckets>,
    budget: HeadBudget,
    head: Arc<Head>,
    journal: Journal,
    /// Buffers of finished requests, for the next ones.
    scratch: Mutex<Vec<Scratch>>,
    /// Held by the one flush that is under way.
    flushing: tokio::sync::Mutex<FrozenHours>,
    flush_log: FlushLog,
    /// Hours that cannot be flushed.
    quarantine: Quarantine,
    /// Which hours flushes leave alone, because a job copies their buckets.
    hold: FlushHold,
    /// Wakes the flushes before their next tick.
    nudge: Notify,
    /// Blocks of events that the journal held and no file does, until somebody takes them.
    replayed_events: Mutex<Vec<(u64, Bytes)>>,
}

impl Ingest {
    /// Recovers what the journal holds.
    pub(crate) async fn open(
        context: &Arc<Context>,
        buckets: &Arc<Buckets>,
        progress: &Arc<ReplayProgress>,
    ) -> Result<Self> {
        let options = &context.options;
        let (engine, now_ms) = (&context.engine, context.clock.now_ms());
        let view = engine.live_view();
        let budget = HeadBudget::choose(&options.head);
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), now_ms);
        let sequencer = Sequencer::new(1, 1, now_ms);
        let head = Head::new(options.limits.clone(), budget.series_max, seed, sequencer);
        let head = Arc::new(head);
        *head.metadata.write() = load_metadata(&view, now_ms).await?;
        let started = std::time::Instant::now();
        load_totals(&view, &head).await?;
        let flushed = buckets.tombstones().flushed_hours();
        let recovered = recover(context, &view, &head, &flushed, progress).await?;
        forget_unreadable(engine.db(), &head).await?;
        head.continue_at(recovered.next_seq, recovered.next_epoch);
        info!(
            records = recovered.records,
            samples = recovered.samples,
            unreadable = recovered.unreadable,
            event_blocks = recovered.events.len(),
            epochs_skipped = recovered.passed_over,
            series = head.series.load(Relaxed),
            buckets = buckets.listed().len(),
            seconds = started.elapsed().as_secs_f64(),
            "journal replayed"
        );
        let metrics = &context.metrics;
        metrics.replayed_records.add(recovered.records);
        metrics.replayed_samples.add(recovered.samples);
        metrics.replay_unreadable.add(recovered.unreadable);
        let default_interval = if engine.location().is_local() {
            LOCAL_COMMIT_INTERVAL
        } else {
            REMOTE_COMMIT_INTERVAL
        };
        let interval = options.journal.commit_interval.unwrap_or(default_interval);
        // From here on there is something in memory that is worth waiting for the store.
        engine.repeat_writes(true);
        let journal = Journal::start(
            engine.db().clone(),
            interval,
            recovered.next_seq,
            Arc::clone(metrics),
            Arc::clone(engine.health()),
        );
        Ok(Self {
            budget,
            head,
            journal,
            scratch: Mutex::default(),
            flushing: tokio::sync::Mutex::default(),
            flush_log: FlushLog::default(),
            quarantine: Quarantine::default(),
            hold: FlushHold::new(Arc::clone(metrics)),
            nudge: Notify::new(),
            replayed_events: Mutex::new(recovered.events),
            buckets: Arc::clone(buckets),
            context: Arc::clone(context),
        })
    }

    pub(crate) fn head(&self) -> &Arc<Head> {
        &self.head
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn budget(&self) -> &HeadBudget {
        &self.budget
    }

    pub(crate) fn hold(&self) -> &FlushHold {
        &self.hold
    }

    pub(crate) fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    pub(crate) fn flush_log(&self) -> &FlushLog {
        &self.flush_log
    }

    /// Waits for the flush that is under way, and keeps others from beginning. The content says
    /// which hours are frozen and not yet in their buckets.
    pub(crate) async fn lock_flushes(&self) -> MutexGuard<'_, FrozenHours> {
        self.flushing.lock().await
    }

    /// The same, if no flush is under way.
    pub(crate) fn try_lock_flushes(&self) -> Option<MutexGuard<'_, FrozenHours>> {
        self.flushing.try_lock().ok()
    }
}
