//! `rate_limit` of the web configuration file: a token bucket.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::file::RateLimit;

pub(crate) struct RateLimiter {
    interval: Duration,
    burst: f64,
    /// Tokens left, and when that was.
    tokens: Mutex<(f64, Instant)>,
}

impl RateLimiter {
    pub(crate) fn new(limit: RateLimit) -> Self {
        // Without a burst nothing would ever pass.
        let burst = f64::from(limit.burst.max(1));
        Self {
            interval: limit.interval,
            burst,
            tokens: Mutex::new((burst, Instant::now())),
        }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&self) -> bool {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> bool {
        let mut state = self.tokens.lock();
        let (tokens, since) = *state;
        let passed = now.saturating_duration_since(since).as_secs_f64();
        let tokens = (tokens + passed / self.interval.as_secs_f64()).min(self.burst);
        let taken = tokens >= 1.0;
        *state = (tokens - f64::from(u8::from(taken)), now.max(since));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_per_interval() {
        let interval = Duration::from_secs(10);
        let rate = RateLimiter::new(RateLimit { interval, burst: 3 });
        let began = Instant::now();
        let taken: Vec<_> = (0..5).map(|_| rate.take_at(began)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert!(!rate.take_at(began + interval / 2));
        assert!(rate.take_at(began + 2 * interval));
        let later = began + 100 * interval;
        let taken: Vec<_> = (0..4).map(|_| rate.take_at(later)).collect();
        assert_eq!(taken, [true, true, true, false]);
    }
}
