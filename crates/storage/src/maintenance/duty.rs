//! How much of the time a job works while clients write, so that they keep most of their speed.
//!
//! ```text
//! work ─► rest ─► work ─► rest        writes are timed in both; their difference is what the
//!  └ slow writes   └ quick writes    job costs clients, and says how long it has to rest
//! ```
//!
//! Holds always:
//! - While nobody writes, a job does not rest.
//! - A job works for at least [`DUTY_MIN`] of the time, however slow writes are: it must end.
//!
//! Memory and queues are no measure for this: a job that takes one of two cores away from clients
//! makes them slower long before anything fills up. A write is timed from its arrival until it is
//! durable: most of what a job costs it is time on a core, and little of that is in the commit.
//! Writes that wait for others on purpose, as those of scrapes do, are not timed: nobody waits for
//! them, and who sends much does not write so.

use std::time::Duration;

use tokio::time::Instant;

use crate::ingest::journal::WriteTime;

/// The part of their speed that clients may lose to a job, as far as it is measured. What the job
/// writes is flushed and compacted while it rests, and slows writes then as well: they lose two to
/// three times as much.
const LOSS_MAX: f64 = 0.03;

/// The part of the time that a job works at least. Coarsening takes a quarter to a third of the CPU
/// that taking in the same samples takes, so less than this could not keep up with clients that
/// never pause.
const DUTY_MIN: f64 = 0.2;

/// The part of the time that a job works at most while clients write: without a rest now and then
/// nobody knows how quick writes could be.
const DUTY_MAX: f64 = 0.95;

/// Rests shorter than this are saved up: timers are not finer, and writes take milliseconds.
const REST_MIN: Duration = Duration::from_millis(20);

/// Rests longer than this are cut, so that what the job saves up while a batch takes long does not
/// let it stand still.
const REST_MAX: Duration = Duration::from_secs(2);

/// Without a write for so long nobody writes. One that takes longer than a stretch of work does
/// not end in it, so that a stretch without any says nothing.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Writes that a mean is taken of before it is believed.
const WRITES_MIN: f64 = 8.0;

/// Writes after which older ones count for half, so that means follow the machine.
const WRITES_MAX: f64 = 200.0;

/// Writes while the job worked, and while it rested.
pub(super) struct DutyCycle {
    working: MeanTime,
    resting: MeanTime,
    /// When this stretch of work or rest began, and what had been written until then.
    began: Instant,
    written: WriteTime,
    /// When a write was seen last.
    last_write: Option<Instant>,
    /// Rest that is due and was too short to be taken.
    due: Duration,
}

impl DutyCycle {
    pub(super) fn new(written: WriteTime, now: Instant) -> Self {
        Self {
            working: MeanTime::default(),
            resting: MeanTime::default(),
            began: now,
            written,
            last_write: None,
            due: Duration::ZERO,
        }
    }

    /// A stretch of work has ended: how long to rest now.
    pub(super) fn worked(&mut self, written: WriteTime, now: Instant) -> Duration {
        let worked = now - self.began;
        let writes = self.writes_since(written, now);
        self.working.add(writes);
        if self.last_write.is_none_or(|at| now - at > IDLE_AFTER) {
            return Duration::ZERO;
        }
        let duty = self.duty();
        self.due = (self.due + worked.mul_f64(1.0 / duty - 1.0)).min(REST_MAX);
        if self.due < REST_MIN {
            return Duration::ZERO;
        }
        std::mem::take(&mut self.due)
    }

    /// A rest has ended, and work begins.
    pub(super) fn rested(&mut self, written: WriteTime, now: Instant) {
        let writes = self.writes_since(written, now);
        self.resting.add(writes);
    }

    /// The part of the time that the job may work.
    fn duty(&self) -> f64 {
        let (Some(working), Some(resting)) = (self.working.mean(), self.resting.mean()) else {
            // Half of the time, until both are known.
            return 0.5;
        };
        let loss = (1.0 - resting / working).max(LOSS_MAX);
        (LOSS_MAX / loss).clamp(DUTY_MIN, DUTY_MAX)
    }

    fn writes_since(&mut self, written: WriteTime, now: Instant) -> WriteTime {
        let since = WriteTime {
            writes: written.writes.saturating_sub(self.written.writes),
            nanos: written.nanos.saturating_sub(self.written.nanos),
        };
        (self.began, self.written) = (now, written);
        if since.writes > 0 {
            self.last_write = Some(now);
        }
        since
    }
}

/// A mean in which what is long ago counts for less.
#[derive(Default)]
struct MeanTime {
    writes: f64,
    nanos: f64,
}

impl MeanTime {
    fn add(&mut self, more: WriteTime) {
        self.writes += more.writes as f64;
        self.nanos += more.nanos as f64;
        if self.writes > WRITES_MAX {
            self.writes /= 2.0;
            self.nanos /= 2.0;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.writes >= WRITES_MIN).then(|| self.nanos / self.writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that write one after the other, and a job beside them.
    struct Clients {
        now: Instant,
        written: WriteTime,
        /// What has passed of the write that is under way.
        under_way: f64,
        working_nanos: u64,
        resting_nanos: u64,
    }

    impl Clients {
        fn pass(&mut self, time: Duration, write_nanos: u64) {
            self.now += time;
            self.under_way += time.as_nanos() as f64 / write_nanos as f64;
            let writes = self.under_way as u64;
            self.under_way -= writes as f64;
            self.written.writes += writes;
            self.written.nanos += writes * write_nanos;
        }

        /// The part of the time that the job worked.
        fn run(&mut self) -> f64 {
            let mut cycle = DutyCycle::new(self.written, self.now);
            let (mut worked, mut rested) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..2_000 {
                let work = Duration::from_millis(30);
                self.pass(work, self.working_nanos);
                worked += work;
                let rest = cycle.worked(self.written, self.now);
                if !rest.is_zero() {
                    self.pass(rest, self.resting_nanos);
                    rested += rest;
                    cycle.rested(self.written, self.now);
                }
            }
            worked.as_secs_f64() / (worked + rested).as_secs_f64()
        }
    }

    fn duty(working_nanos: u64, resting_nanos: u64) -> f64 {
        let mut clients = Clients {
            now: Instant::now(),
            written: WriteTime::default(),
            under_way: 0.0,
            working_nanos,
            resting_nanos,
        };
        clients.run()
    }

    #[test]
    fn clients_keep_their_speed() {
        // A tenth slower while the job works: it works for about a third of the time.
        let share = duty(2_200_000, 2_000_000);
        assert!((0.28..0.38).contains(&share), "{share}");
        let loss = share * (1.0 - 2.0 / 2.2);
        assert!(loss < 0.035, "{loss}");
    }

    #[test]
    fn a_job_that_costs_nothing_hardly_rests() {
        let share = duty(2_000_000, 2_000_000);
        assert!(share > 0.9, "{share}");
    }

    #[test]
    fn a_job_ends_however_slow_it_makes_others() {
        let share = duty(40_000_000, 1_000_000);
        assert!((0.19..0.3).contains(&share), "{share}");
    }

    #[test]
    fn nobody_writes_and_nobody_rests() {
        let mut cycle = DutyCycle::new(WriteTime::default(), Instant::now());
        let later = Instant::now() + Duration::from_secs(1);
        assert!(cycle.worked(WriteTime::default(), later).is_zero());
    }
}
