//! The time by which data is deleted, hidden or refused for its age.
//!
//! ```text
//! machine's clock ─► no faster than ten times the time that passes ─► not before the release
//! ```
//!
//! Holds always:
//! - Between two looks the guarded time moves by at most [`PACE`] times the time that has passed,
//!   ahead and back. A clock that is a year ahead for an hour moves it by ten hours, one at 1970
//!   for eight seconds by 80 seconds; a database that was stopped for a month catches up in 80
//!   hours.
//! - It is never before the release of the program: no right clock is.
//! - It does not move while no time passes.

use crate::Clock;

/// The largest speed of the guarded time: that of time passing, times this.
const PACE: i64 = 10;

/// A time that follows the machine's clock and does not jump with it.
#[derive(Clone, Debug)]
pub struct GuardedClock {
    now_ms: i64,
    /// The monotonic time of the last look.
    elapsed_ms: i64,
}

impl GuardedClock {
    /// Goes on from a stored time; without one, from the machine's.
    pub fn starting(stored_ms: Option<i64>, machine: &dyn Clock) -> Self {
        let now_ms = stored_ms.unwrap_or_else(|| machine.now_ms());
        Self {
            now_ms: now_ms.max(machine.earliest_ms()),
            elapsed_ms: machine.elapsed_ms(),
        }
    }

    /// Follows the machine's clock and returns the guarded time in milliseconds.
    pub fn advance(&mut self, machine: &dyn Clock) -> i64 {
        let elapsed_ms = machine.elapsed_ms();
        let passed_ms = elapsed_ms.saturating_sub(self.elapsed_ms).max(0);
        let most_ms = passed_ms.saturating_mul(PACE);
        let (least, greatest) = (
            self.now_ms.saturating_sub(most_ms),
            self.now_ms.saturating_add(most_ms),
        );
        let now_ms = machine.now_ms().clamp(least, greatest);
        self.now_ms = now_ms.max(machine.earliest_ms());
        self.elapsed_ms = self.elapsed_ms.max(elapsed_ms);
        self.now_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{HOUR_MS, ManualClock, SystemClock};

    const DAY_MS: i64 = 24 * HOUR_MS;
    const RELEASED_MS: i64 = 500 * DAY_MS;

    fn machine_at(now_ms: i64) -> ManualClock {
        ManualClock::at(now_ms).released(RELEASED_MS)
    }

    #[test]
    fn a_wrong_clock_moves_it_little() {
        let machine = machine_at(1000 * DAY_MS);
        let mut clock = GuardedClock::starting(None, &machine);
        assert_eq!(clock.advance(&machine), 1000 * DAY_MS);
        machine.advance(DAY_MS);
        assert_eq!(clock.advance(&machine), 1001 * DAY_MS);
        // A year ahead for an hour.
        machine.jump(365 * DAY_MS);
        machine.advance(HOUR_MS);
        assert_eq!(clock.advance(&machine), 1001 * DAY_MS + 10 * HOUR_MS);
        machine.jump(-365 * DAY_MS);
        assert_eq!(clock.advance(&machine), 1001 * DAY_MS + 10 * HOUR_MS);
        machine.advance(HOUR_MS);
        assert_eq!(clock.advance(&machine), machine.now_ms());
        // At 1970 for eight seconds.
        let right_ms = machine.now_ms();
        machine.jump(-right_ms);
        machine.advance(8_000);
        assert_eq!(clock.advance(&machine), right_ms - 80_000);
    }

    #[test]
    fn after_a_pause_it_catches_up() {
        let machine = machine_at(1030 * DAY_MS);
        let stored = Some(1000 * DAY_MS);
        let mut clock = GuardedClock::starting(stored, &machine);
        assert_eq!(clock.advance(&machine), 1000 * DAY_MS);
        machine.advance(80 * HOUR_MS);
        assert_eq!(clock.advance(&machine), 1000 * DAY_MS + 800 * HOUR_MS);
        machine.advance(HOUR_MS);
        assert_eq!(clock.advance(&machine), machine.now_ms());
    }

    #[test]
    fn it_is_never_before_the_release() {
        let machine = machine_at(0);
        let mut clock = GuardedClock::starting(Some(0), &machine);
        assert_eq!(clock.advance(&machine), RELEASED_MS);
        machine.advance(1000 * DAY_MS);
        machine.jump(-900 * DAY_MS);
        assert_eq!(clock.advance(&machine), RELEASED_MS);
        // The clock of a real machine has a release: this was written 56 years after 1970.
        let mut clock = GuardedClock::starting(Some(0), &SystemClock);
        assert!(clock.advance(&SystemClock) > 56 * 365 * DAY_MS);
    }

    proptest! {
        #[test]
        fn it_moves_no_faster_than_its_pace_and_reaches_the_machines_clock(
            stored in prop::option::of(any::<i64>()),
            start_ms in any::<i64>(),
            steps in prop::collection::vec((0i64..=100 * DAY_MS, any::<i64>()), 1..40),
        ) {
            let machine = machine_at(start_ms);
            let mut clock = GuardedClock::starting(stored, &machine);
            let mut before = clock.advance(&machine);
            prop_assert!(before >= RELEASED_MS);
            for (passed_ms, set_to_ms) in steps {
                machine.advance(passed_ms);
                machine.set(set_to_ms);
                let now = clock.advance(&machine);
                let moved = i128::from(now) - i128::from(before);
                prop_assert!(moved.abs() <= i128::from(passed_ms) * 10 || now == RELEASED_MS);
                prop_assert!(now >= RELEASED_MS);
                let right = set_to_ms.max(RELEASED_MS);
                prop_assert!(now.abs_diff(right) <= before.abs_diff(right), "it moves away");
                prop_assert_eq!(clock.advance(&machine), now, "no time has passed");
                before = now;
            }
        }
    }
}
