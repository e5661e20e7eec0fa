//! What the store has answered of late, for whoever has to be told.
//!
//! ```text
//! ObservedStore ─ errors, writes ─► StoreHealth ◄─ commits ─ Journal
//!                                       ├─► watch: log lines, a write to see whether it is back
//!                                       ├─► /-/ready, refusals of writes
//!                                       └─► metrics
//! ```
//!
//! Holds always:
//! - An error that SlateDB expects (a file that is absent, or present where it was to be created)
//!   is no error here.
//! - Trouble ends with the first write that succeeds.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A lone failure that is repeated successfully is no trouble; one that lasts is.
const FAILING_AFTER: Duration = Duration::from_secs(1);

/// How long a commit may be under way before that is trouble, whatever the store says. Commits take
/// milliseconds, and a second on a slow line.
const STALLED_AFTER: Duration = Duration::from_secs(4);

/// What a store is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOperation {
    Put,
    Get,
    List,
    Delete,
}

impl StoreOperation {
    pub const ALL: [Self; 4] = [Self::Put, Self::Get, Self::List, Self::Delete];

    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// The numbers that are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreFigures {
    /// Errors so far, in the order of [`StoreOperation::ALL`].
    pub errors: [u64; 4],
    /// Since the last write that succeeded, or since the start.
    pub since_write: Duration,
    /// Whether commits fail.
    pub failing: bool,
}

/// Why nothing can be acknowledged for the moment, and for how long that has been so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) lasts: Duration,
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(crate) struct StoreHealth {
    errors: [AtomicU64; 4],
    /// Failures of each operation without a success in between.
    in_a_row: [AtomicUsize; 4],
    writes_under_way: AtomicUsize,
    /// Whether failed writes are repeated for as long as the process runs.
    endless: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last_write: Instant,
    /// When a write began last, successful or not.
    last_attempt: Instant,
    /// Since when writes fail, with none that succeeded.
    failing_since: Option<Instant>,
    /// Since when the commit lasts that is under way.
    commit_since: Option<Instant>,
    /// The latest error, as it is told.
    latest: Option<String>,
    /// Errors that the log does not know of.
    unreported: u64,
    /// Why nothing may be written any more.
    ended: Option<String>,
}

/// What the log has to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreported {
    pub(crate) errors: u64,
    pub(crate) latest: Option<String>,
}

impl Default for StoreHealth {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            errors: Default::default(),
            in_a_row: Default::default(),
            writes_under_way: AtomicUsize::new(0),
            endless: AtomicBool::new(false),
            state: Mutex::new(State {
                last_write: now,
                last_attempt: now,
                failing_since: None,
                commit_since: None,
                latest: None,
                unreported: 0,
                ended: None,
            }),
        }
    }
}

impl StoreHealth {
    /// From now on, failed writes are repeated until they succeed.
    pub(crate) fn repeat_writes(&self, endless: bool) {
        self.endless.store(endless, Relaxed);
    }

    pub(crate) fn repeats_writes(&self) -> bool {
        self.endless.load(Relaxed)
    }

    pub(super) fn write_began(&self) {
        self.writes_under_way.fetch_add(1, Relaxed);
        self.state.lock().last_attempt = Instant::now();
    }

    pub(super) fn write_ended(&self) {
        self.writes_under_way.fetch_sub(1, Relaxed);
    }

    pub(super) fn succeeded(&self, operation: StoreOperation) {
        self.in_a_row[operation as usize].store(0, Relaxed);
        if operation == StoreOperation::Put {
            let mut state = self.state.lock();
            state.last_write = Instant::now();
            state.failing_since = None;
        }
    }

    /// Counts a failure. Returns how many of its kind there were in a row.
    pub(super) fn failed(&self, operation: StoreOperation, told: String) -> usize {
        self.errors[operation as usize].fetch_add(1, Relaxed);
        let in_a_row = self.in_a_row[operation as usize].fetch_add(1, Relaxed) + 1;
        let mut state = self.state.lock();
        if operation == StoreOperation::Put && state.failing_since.is_none() {
            state.failing_since = Some(Instant::now());
        }
        state.latest = Some(told);
        state.unreported += 1;
        in_a_row
    }

    pub(crate) fn commit_began(&self) {
        self.state.lock().commit_since = Some(Instant::now());
    }

    pub(crate) fn commit_ended(&self) {
        self.state.lock().commit_since = None;
    }

    /// Nothing is written from now on, because it could not be read again.
    pub(super) fn end(&self, reason: String) {
        self.state.lock().ended.get_or_insert(reason);
    }

    pub(super) fn ended(&self) -> Option<String> {
        self.state.lock().ended.clone()
    }

    /// Whether commits fail, or take so long that it comes to the same.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let state = self.state.lock();
        let failing = state.failing_since.map(|since| since.elapsed());
        let failing = failing.filter(|lasts| *lasts >= FAILING_AFTER);
        let stalled = state.commit_since.map(|since| since.elapsed());
        let stalled = stalled.filter(|lasts| *lasts >= STALLED_AFTER);
        let lasts = failing.max(stalled)?;
        let cause = match &state.latest {
            Some(latest) if failing.is_some() => latest.clone(),
            _ => "it does not answer, or too slowly".to_owned(),
        };
        Some(Trouble {
            lasts,
            reason: format!(
                "the storage has not taken a write for {} s: {cause}",
                lasts.as_secs()
            ),
        })
    }

    /// Whether writes fail and nobody has tried for so long.
    pub(super) fn wants_a_try(&self, after: Duration) -> bool {
        let state = self.state.lock();
        state.failing_since.is_some()
            && self.writes_under_way.load(Relaxed) == 0
            && state.last_attempt.elapsed() >= after
    }

    /// Errors since the last call.
    pub(super) fn take_unreported(&self) -> Unreported {
        let mut state = self.state.lock();
        Unreported {
            errors: std::mem::take(&mut state.unreported),
            latest: state.latest.clone(),
        }
    }

    pub(super) fn has_unreported(&self) -> bool {
        self.state.lock().unreported > 0
    }

    pub(crate) fn figures(&self) -> StoreFigures {
        let since_write = self.state.lock().last_write.elapsed();
        StoreFigures {
            errors: std::array::from_fn(|at| self.errors[at].load(Relaxed)),
            since_write,
            failing: self.trouble().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn trouble_begins_when_it_lasts_and_ends_with_a_write() {
        let health = StoreHealth::default();
        assert_eq!(health.failed(StoreOperation::Put, "disk full".into()), 1);
        assert_eq!(health.trouble(), None, "it may be a lone one");
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(health.failed(StoreOperation::Put, "disk full".into()), 2);
        let trouble = health.trouble().unwrap();
        assert_eq!(trouble.lasts, Duration::from_secs(3));
        assert!(trouble.reason.contains("disk full"), "{}", trouble.reason);
        assert!(health.figures().failing);
        assert!(health.wants_a_try(Duration::ZERO));
        assert!(!health.wants_a_try(Duration::from_secs(60)));
        health.succeeded(StoreOperation::Get);
        assert!(health.trouble().is_some(), "reading is not writing");
        health.succeeded(StoreOperation::Put);
        assert_eq!(health.trouble(), None);
        assert_eq!(health.figures().errors, [2, 0, 0, 0]);
        assert_eq!(health.figures().since_write, Duration::ZERO);
        assert_eq!(health.failed(StoreOperation::Put, "again".into()), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_without_an_end_is_trouble_too() {
        let health = StoreHealth::default();
        health.commit_began();
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(health.trouble(), None);
        tokio::time::advance(Duration::from_secs(3)).await;
        let trouble = health.trouble().unwrap();
        assert!(trouble.reason.contains("answer"), "{}", trouble.reason);
        health.commit_ended();
        assert_eq!(health.trouble(), None);
    }
}
