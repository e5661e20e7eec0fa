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
}

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
}

/// A clock that moves only by [`ManualClock::advance`] and [`ManualClock::jump`].
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicI64,
    elapsed_ms: AtomicI64,
}

impl ManualClock {
    pub fn at(now_ms: i64) -> Self {
        Self {
            now_ms: AtomicI64::new(now_ms),
            elapsed_ms: AtomicI64::new(0),
        }
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
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Relaxed)
    }

    fn elapsed_ms(&self) -> i64 {
        self.elapsed_ms.load(Relaxed)
    }
}
