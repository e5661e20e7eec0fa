//! A clock that tells the time and never ticks: a reader that is given it does not poll.
//!
//! SlateDB's reader moves to the latest manifest with its first tick, right after it was opened,
//! and then again with each poll. Two scans of one reader would show two states of the database,
//! and what a check compares must come from one.

use std::future;
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use slatedb_common::clock::{DefaultSystemClock, SystemClock, SystemClockTicker};

#[derive(Debug, Default)]
pub(super) struct StillClock {
    clock: DefaultSystemClock,
    never: Never,
}

impl SystemClock for StillClock {
    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Retries wait as long as they should.
    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.clock.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(&self.never, duration)
    }
}

/// A clock whose sleepers do not wake.
#[derive(Debug, Default)]
struct Never(DefaultSystemClock);

impl SystemClock for Never {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }

    fn sleep<'a>(&'a self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(future::pending())
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
