//! Hours that cannot be flushed: they are set aside, so that everything else goes on.
//!
//! ```text
//! an hour fails for a reason of its own ─► quarantined ─(10 s … 15 min, or on request)─► retried
//!                                               └─ flushed: no longer here
//! ```
//!
//! Holds always:
//! - Nothing acknowledged is lost: its samples stay in the head, and in the journal the epochs that
//!   have them. Other hours are flushed, other epochs drained, totals saved, idle series forgotten;
//!   who asks for a flush, a run of maintenance or the end of the process gets it and is told which
//!   hours were left.
//! - Only a reason of its own brings an hour here: damage in its bucket, or a bug. What the store
//!   as a whole cannot do fails the flush, which is tried again at the next tick.
//! - What it adds is bounded. Samples for it are taken for [`OPEN_FOR`], and for all such hours
//!   together at most about [`SAMPLES_MAX`]; then they are refused with the reason, and the rest of
//!   their requests is not. So the journal keeps the epochs of that time and no later ones. What
//!   the hour had before stays in the head. If that fills the head, writes get 503 with the reason,
//!   until the bucket is repaired.
//! - A restart finds the samples in the journal again, and the hour here again when its flush
//!   fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use icecore_model::BucketStart;
use parking_lot::RwLock;
use slatedb::ErrorKind;
use tracing::{info, warn};

use crate::error::Error;
use crate::ingest::Ingest;

/// How long after the first failure it is tried again; twice as long after each further one.
const TRY_AGAIN: Duration = Duration::from_secs(10);
const TRY_AGAIN_MAX: Duration = Duration::from_secs(15 * 60);

/// How long such an hour takes further samples.
const OPEN_FOR: Duration = Duration::from_secs(3600);

/// How many samples all such hours take.
const SAMPLES_MAX: u64 = 1_000_000;

/// The hours that cannot be flushed. Changes under the flush lock only.
#[derive(Default)]
pub(crate) struct Quarantine(RwLock<BTreeMap<BucketStart, Entry>>);

struct Entry {
    cause: String,
    since_ms: i64,
    attempts: u32,
    next_try_ms: i64,
}

/// An hour that cannot be flushed. Its samples are in the journal, and queries see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedHour {
    pub start_ms: i64,
    /// Why.
    pub cause: String,
    /// Since when, and how often it was tried.
    pub since_ms: i64,
    pub attempts: u32,
    /// When it is tried again, unless somebody asks before.
    pub next_try_ms: i64,
}

/// Which of the hours that could not be flushed are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Those whose time has come.
    Due,
    All,
}

impl Quarantine {
    pub(crate) fn contains(&self, hour: BucketStart) -> bool {
        self.0.read().contains_key(&hour)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.read().len()
    }

    pub(crate) fn hours(&self) -> BTreeSet<BucketStart> {
        self.0.read().keys().copied().collect()
    }

    pub(crate) fn list(&self) -> Vec<QuarantinedHour> {
        let hours = self.0.read();
        let listed = hours.iter().map(|(hour, entry)| QuarantinedHour {
            start_ms: hour.start_ms(),
            cause: entry.cause.clone(),
            since_ms: entry.since_ms,
            attempts: entry.attempts,
            next_try_ms: entry.next_try_ms,
        });
        listed.collect()
    }

    /// Whether an hour is to be tried.
    pub(super) fn is_due(&self, hour: BucketStart, retry: Retry, now_ms: i64) -> bool {
        let hours = self.0.read();
        let waits = |entry: &Entry| retry == Retry::Due && now_ms < entry.next_try_ms;
        !hours.get(&hour).is_some_and(waits)
    }

    /// Sets hours aside that were written together, if they failed for a reason of their own;
    /// otherwise gives the cause back.
    pub(super) fn take(
        &self,
        hours: &[BucketStart],
        cause: Error,
        now_ms: i64,
    ) -> Result<(), Error> {
        if !is_its_own(&cause) {
            return Err(cause);
        }
        let mut entries = self.0.write();
        for hour in hours {
            let entry = entries.entry(*hour).or_insert(Entry {
                cause: String::new(),
                since_ms: now_ms,
                attempts: 0,
                next_try_ms: now_ms,
            });
            let wait = TRY_AGAIN.saturating_mul(1 << entry.attempts.min(16));
            let wait = wait.min(TRY_AGAIN_MAX);
            entry.attempts += 1;
            entry.next_try_ms = now_ms + wait.as_millis() as i64;
            entry.cause = cause.to_string();
            let (start, attempts) = (time_of(*hour), entry.attempts);
            warn!(hour = start, attempts, wait_s = wait.as_secs(), %cause, "cannot flush hour: quarantined");
        }
        Ok(())
    }

    /// An hour was flushed after all.
    pub(super) fn release(&self, hour: BucketStart) {
        if let Some(entry) = self.0.write().remove(&hour) {
            let attempts = entry.attempts;
            info!(
                hour = time_of(hour),
                attempts, "hour is no longer quarantined"
            );
        }
    }

    /// Lets hours take no more samples whose time or room is used up.
    pub(super) fn limit(&self, ingest: &Ingest) {
        let hours = self.0.read();
        let samples = ingest.head.open_samples(hours.keys().copied());
        let now_ms = ingest.context.clock.now_ms();
        let is_closed = |entry: &Entry| {
            samples > SAMPLES_MAX || now_ms - entry.since_ms >= OPEN_FOR.as_millis() as i64
        };
        let closed = hours.iter().filter(|(_, entry)| is_closed(entry));
        ingest
            .head
            .close_hours(closed.map(|(hour, _)| *hour).collect());
    }
}

/// Whether a flush of the next hour has a chance.
fn is_its_own(cause: &Error) -> bool {
    match cause {
        // Work on the CPU pool that ended in a panic is the only thing a flush calls unavailable.
        Error::Corrupt(_) | Error::Unavailable(_) => true,
        Error::Store { source, .. } => source.kind() == ErrorKind::Data,
        Error::Invalid(_) | Error::LimitReached(_) | Error::Closed(_) => false,
    }
}

/// The begin of an hour, for people.
pub(crate) fn time_of(hour: BucketStart) -> String {
    let time = chrono::DateTime::from_timestamp_millis(hour.start_ms());
    time.map_or_else(
        || hour.to_string(),
        |time| time.format("%FT%TZ").to_string(),
    )
}
