//! The clock is passed in, so that tests can let hours pass.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time of day.
pub trait Clock: Send + Sync {
    /// Milliseconds since the UNIX epoch.
    fn now_ms(&self) -> i64;

    /// Milliseconds since some moment. Goes on evenly when the time of day is set.
    fn elapsed_ms(&self) -> i64;

    /// The earliest time that it can be.
    fn earliest_ms(&self) -> i64 {
        i64::MIN
    }
}

/// The release of this program, 2026-11-19: no machine that runs it has an earlier time. To be set
/// anew with each release.
const RELEASED_MS: i64 = 1_795_046_400_000;

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
        elapsed.map_or(0, |d| d.as_millis() as i64)
    }

    fn elapsed_ms(&self) -> i64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_millis() as i64
    }

    fn earliest_ms(&self) -> i64 {
        RELEASED_MS
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicI64,
    elapsed_ms: AtomicI64,
    earliest_ms: AtomicI64,
}

impl ManualClock {
    pub fn at(now_ms: i64) -> Self {
        Self {
            now_ms: AtomicI64::new(now_ms),
            elapsed_ms: AtomicI64::new(0),
            earliest_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// As of a program that was released then.
    #[must_use]
    pub fn released(self, earliest_ms: i64) -> Self {
        self.earliest_ms.store(earliest_ms, Relaxed);
        self
    }

    /// Time passes.
    pub fn advance(&self, by_ms: i64) {
        self.now_ms.fetch_add(by_ms, Relaxed);
        self.elapsed_ms.fetch_add(by_ms, Relaxed);
    }

    /// Somebody sets the clock.
    pub fn jump(&self, by_ms: i64) {
        self.now_ms.fetch_add(by_ms, Relaxed);
    }

    /// [`Self::jump`], to a time.
    pub fn set(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Relaxed)
    }

    fn elapsed_ms(&self) -> i64 {
        self.elapsed_ms.load(Relaxed)
    }

    fn earliest_ms(&self) -> i64 {
        self.earliest_ms.load(Relaxed)
    }
}
