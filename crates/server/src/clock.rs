//! The clock of the process.

use std::sync::Arc;

use icecore_model::Clock;
use icecore_storage::SystemClock;

/// The environment variable that says what time it is when the process begins, in milliseconds. It
/// is for tests of the real process, not a setting.
pub const CLOCK_VARIABLE: &str = "ICECORE_CLOCK_MS";

/// The machine's clock, or what the environment makes of it.
pub fn process_clock() -> Arc<dyn Clock> {
    let began_ms = std::env::var(CLOCK_VARIABLE).ok();
    match began_ms.and_then(|ms| ms.parse::<i64>().ok()) {
        Some(began_ms) => Arc::new(MovedClock {
            ahead_ms: began_ms - SystemClock.now_ms(),
        }),
        None => Arc::new(SystemClock),
    }
}

/// A clock that goes as the machine's does, at another time of day.
struct MovedClock {
    ahead_ms: i64,
}

impl Clock for MovedClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.ahead_ms
    }

    fn elapsed_ms(&self) -> i64 {
        SystemClock.elapsed_ms()
    }
}
