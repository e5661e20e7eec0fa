//! A clock that tells the time and ticks only when it is told to: a reader that is given it polls
//! then, and at no other time.
//!
//! SlateDB's reader moves to the latest manifest with its first tick, right after it was opened,
//! and then again with each poll. Two scans of one reader would show two states of the database,
//! and what belongs together must come from one.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use slatedb_common::clock::{DefaultSystemClock, SystemClock, SystemClockTicker};
use tokio::sync::watch;

#[derive(Debug, Default)]
pub(super) struct SteppedClock {
    clock: DefaultSystemClock,
    gate: Gate,
}

impl SteppedClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lets one tick pass, and waits until what it has started is done. One at a time.
    pub(super) async fn step(&self) {
        let turn = *self.gate.allowed.borrow() + 1;
        let mut waits = self.gate.waits.subscribe();
        self.gate.allowed.send_replace(turn);
        // The sender is a part of this.
        let _ = waits.wait_for(|waits| *waits > turn).await;
    }
}

impl SystemClock for SteppedClock {
    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Retries wait as long as they should.
    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.clock.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(&self.gate, duration)
    }
}

/// A clock whose sleeper wakes when it is allowed to. There is one: what polls.
#[derive(Debug)]
struct Gate {
    clock: DefaultSystemClock,
    /// How often the sleeper has gone to sleep: it does so when its work is done.
    waits: watch::Sender<u64>,
    /// How often it may wake.
    allowed: watch::Sender<u64>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            clock: DefaultSystemClock::default(),
            waits: watch::Sender::new(0),
            allowed: watch::Sender::new(0),
        }
    }
}

impl SystemClock for Gate {
    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    fn sleep<'a>(&'a self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {
            let mut turn = 0;
            self.waits.send_modify(|waits| {
                *waits += 1;
                turn = *waits;
            });
            let mut allowed = self.allowed.subscribe();
            // The sender is a part of this.
            let _ = allowed.wait_for(|allowed| *allowed >= turn).await;
        })
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
