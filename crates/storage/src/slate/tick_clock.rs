//! The clock that SlateDB is given.
//!
//! ```text
//! machine's clock ─┐
//! last tick ───────┼─► the latest, once ─► goes on evenly, whatever the machine's clock does
//! newest names ────┘
//! ```
//!
//! SlateDB stores the time of its last write and names files and compactions by time. It refuses
//! writes, files and compactions that are older than what it has, and closes. So a database that
//! was opened once by a machine whose clock was ahead would refuse writes for as long, and one that
//! is taken over by a machine whose clock is behind, too. What these times are good for is order:
//! they need not be right.
//!
//! Holds always:
//! - The clock is never behind what the store had when it was last looked at
//!   ([`TickClock::follow`]).
//! - It never goes back, and between two looks goes as fast as time passes.
//!
//! Elsewhere: what becomes of files that the store dates by its own clock (`collector`), and by
//! which clock data is deleted for its age (`GuardedClock` in `model`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use slatedb::admin::AdminBuilder;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{ErrorKind, VersionedManifest, WalReader};
use slatedb_common::clock::{SystemClock, SystemClockTicker};
use slatedb_common::retry::NonRetryable;
use tokio::time::Instant;
use tracing::warn;

use super::reader::is_vanished;
use crate::error::{Error, Result};

/// The last time that it tells: the end of the year 9999. Names have 48 bits for it, which is more.
const LAST_MS: i64 = 253_402_300_799_999;

/// Pauses between attempts at reading the times: the first, then twice as long each time, up to the
/// last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// A clock that is this far ahead of the machine's is told of.
const NOTABLE_LEAD_MS: i64 = 60_000;

/// A time that never goes back.
#[derive(Debug)]
pub(crate) struct TickClock {
    started: Instant,
    /// The time at `started`.
    base_ms: AtomicI64,
}

impl TickClock {
    /// Begins at a time of the machine's clock.
    pub(crate) fn starting(machine_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            base_ms: AtomicI64::new(machine_ms.clamp(0, LAST_MS)),
        })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        let base_ms = self.base_ms.load(Relaxed);
        base_ms.saturating_add(self.passed_ms()).min(LAST_MS)
    }

    /// The time in the form that names of files give theirs in.
    pub(super) fn system_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.now_ms().unsigned_abs())
    }

    /// Goes ahead to a time, unless it is there already.
    fn raise(&self, to_ms: i64) {
        let base_ms = to_ms.min(LAST_MS).saturating_sub(self.passed_ms());
        self.base_ms.fetch_max(base_ms, Relaxed);
    }

    fn passed_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(LAST_MS)
    }

    /// Goes ahead to the latest time that the database at a place has, if there is one. Called
    /// again whenever another process may have written meanwhile.
    pub(crate) async fn follow(
        &self,
        path: &Path,
        store: &Arc<dyn ObjectStore>,
        retries_max: usize,
    ) -> Result<()> {
        let mut retries = 0;
        let mut pause = FIRST_PAUSE;
        let latest_ms = loop {
            let latest = latest_ms(path, store).await;
            match latest {
                Err(cause) if is_worth_repeating(&cause) && retries < retries_max => {
                    tokio::time::sleep(pause).await;
                    pause = LAST_PAUSE.min(pause * 2);
                    retries += 1;
                }
                latest => {
                    break latest.map_err(Error::store("reading the times of the database"))?;
                }
            }
        };
        let ahead_ms = latest_ms.saturating_sub(self.now_ms());
        if ahead_ms > NOTABLE_LEAD_MS {
            let ahead = format!("{:?}", Duration::from_secs(ahead_ms.unsigned_abs() / 1000));
            warn!(
                ahead,
                "the last writer's clock was ahead of this machine's: files are named by its time, which harms nothing"
            );
        }
        self.raise(latest_ms);
        Ok(())
    }
}

/// Returns `true` if the store may answer the next time, or if the writer has put the log into
/// files and deleted it.
fn is_worth_repeating(cause: &slatedb::Error) -> bool {
    is_vanished(cause)
        || cause.kind() == ErrorKind::Unavailable && NonRetryable::find(cause).is_none()
}

/// The latest time that a database has in ticks or in names: `i64::MIN` where there is none.
async fn latest_ms(path: &Path, store: &Arc<dyn ObjectStore>) -> Result<i64, slatedb::Error> {
    let admin = AdminBuilder::new(path.clone(), Arc::clone(store)).build();
    let Some(manifest) = admin.read_manifest(None).await? else {
        return Ok(i64::MIN);
    };
    let compactions = admin.read_compactions(None).await?;
    let begun = compactions.iter().flat_map(|c| c.recent_compactions());
    let begun = begun.flat_map(|compaction| {
        // A worker whose clock was ahead would be taken for one that is still at it.
        let alive_ms = compaction.worker().map(|worker| worker.last_heartbeat_ms);
        [Some(compaction.id().timestamp_ms()), alive_ms]
    });
    let begun = begun.flatten().map(named_ms).max();
    let logged = log_tick(path, store, manifest.replay_after_wal_id()).await?;
    let stored = names_ms(&manifest).max(manifest.last_l0_clock_tick());
    Ok(begun.unwrap_or(i64::MIN).max(stored).max(logged))
}

/// The latest name of a file that the manifest has, or had.
fn names_ms(manifest: &VersionedManifest) -> i64 {
    let files = manifest.all_sst_views();
    let files = files.flat_map(|view| [view.id, view.sst.id.value()]);
    let compacted = manifest.segments().iter();
    let compacted = compacted.flat_map(|segment| {
        let ids = [
            segment.last_compacted_l0_sst_view_id(),
            segment.last_compacted_l0_sst_id(),
        ];
        ids.into_iter().flatten()
    });
    let names = files.chain(compacted).map(|id| named_ms(id.timestamp_ms()));
    names.max().unwrap_or(i64::MIN)
}

fn named_ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The tick of the last write that is in the log alone. Ticks never go back in it.
async fn log_tick(
    path: &Path,
    store: &Arc<dyn ObjectStore>,
    replayed: u64,
) -> Result<i64, slatedb::Error> {
    let log = WalReader::new(path.clone(), Arc::clone(store));
    let files = log.list(replayed + 1..).await?;
    for file in files.iter().rev() {
        let mut rows = file.iterator().await?;
        let mut latest = None;
        while let Some(row) = rows.next().await? {
            latest = latest.max(row.create_ts);
        }
        // One without rows is of a writer that took over and wrote nothing.
        if let Some(latest) = latest {
            return Ok(latest);
        }
    }
    Ok(i64::MIN)
}

impl SystemClock for TickClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.now_ms()).unwrap_or_default()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
