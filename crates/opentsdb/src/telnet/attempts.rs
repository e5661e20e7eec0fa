//! How lines are tried again that the store did not take.
//!
//! A store says that it refuses a request, and not for how long. Most refusals end: memory is
//! flushed, the queue gets shorter. The others are about the size of a request, so that half of it
//! is tried next: a single point is never too much.
//!
//! Where the store takes a request and leaves some of its points out for now, because there are as
//! many series as may be, nobody knows whether that ends. The other series of the client must not
//! wait for it for long.

use std::time::Duration;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause: each is twice as long as the one before.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How often points are tried again that were left out of a request: some seconds.
const IN_PART_MAX: u32 = 8;

#[derive(Debug)]
pub(super) struct Attempts {
    /// Lines that are tried together.
    lines_max: u64,
    pause: Duration,
    /// How often points were left out.
    in_part: u32,
    /// Lines with different commands are not stored together: see [`Attempts::separate`].
    separates: bool,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            lines_max: u64::MAX,
            pause: PAUSE_MIN,
            in_part: 0,
            separates: false,
        }
    }
}

impl Attempts {
    pub(super) fn lines_max(&self) -> u64 {
        self.lines_max
    }

    pub(super) fn separates(&self) -> bool {
        self.separates
    }

    /// So many lines were refused; how long to wait before they are tried again.
    pub(super) fn refused(&mut self, lines: u64) -> Duration {
        self.split(lines);
        self.next_pause()
    }

    /// So many lines are more than the store takes together: half of them are tried next.
    pub(super) fn split(&mut self, lines: u64) {
        self.lines_max = (lines / 2).max(1);
    }

    /// Some points were left out of what was stored; how long to wait, if there is hope.
    pub(super) fn refused_in_part(&mut self) -> Option<Duration> {
        self.in_part += 1;
        (self.in_part <= IN_PART_MAX).then(|| self.next_pause())
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        pause
    }

    /// Points were refused for good, and it is not known of which command: from now on, the lines
    /// at hand are stored by runs of one command.
    pub(super) fn separate(&mut self) {
        self.separates = true;
    }

    /// The last lines were stored; whether there are more of those that were read with them.
    pub(super) fn succeeded(&mut self, has_more: bool) {
        if has_more {
            self.lines_max = self.lines_max.saturating_mul(2);
            self.pause = PAUSE_MIN;
        } else {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_parts_shrink_until_something_is_stored() {
        let mut attempts = Attempts::default();
        let (mut lines, mut waited) = (1000, Duration::ZERO);
        for _ in 0..20 {
            let pause = attempts.refused(lines);
            assert!((PAUSE_MIN..=PAUSE_MAX).contains(&pause));
            waited += pause;
            lines = attempts.lines_max();
        }
        assert_eq!((lines, waited.as_secs()), (1, 16));
        attempts.succeeded(true);
        assert_eq!((attempts.lines_max(), attempts.pause), (2, PAUSE_MIN));
        attempts.separate();
        for _ in 0..IN_PART_MAX {
            assert!(attempts.refused_in_part().is_some());
        }
        assert_eq!(attempts.refused_in_part(), None);
        attempts.split(9);
        assert_eq!(attempts.lines_max(), 4);
        attempts.succeeded(false);
        assert_eq!(attempts.lines_max(), u64::MAX);
        assert!(!attempts.separates());
    }
}
