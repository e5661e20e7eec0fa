//! How much of the time a job works while clients write, so that they keep most of their speed.
//!
//! ```text
//! work ─► rest ─► work ─► rest        commits are timed in both; their difference is what the
//!  └ slow commits   └ quick commits    job costs clients, and says how long it has to rest
//! ```
//!
//! Holds always:
//! - While nobody writes, a job does not rest.
//! - A job works for at least [`DUTY_MIN`] of the time, however slow commits are: it must end.
//!
//! Memory and queues are no measure for this: a job that takes one of two cores away from clients
//! makes them slower long before anything fills up.

use std::time::Duration;

use tokio::time::Instant;

use crate::ingest::journal::CommitTime;

/// The part of their speed that clients may lose to a job.
const LOSS_MAX: f64 = 0.07;

/// The part of the time that a job works at least. Coarsening takes a quarter to a third of the CPU
/// that taking in the same samples takes, so less than this could not keep up with clients that
/// never pause.
const DUTY_MIN: f64 = 0.2;

/// The part of the time that a job works at most while clients write: without a rest now and then
/// nobody knows how quick commits could be.
const DUTY_MAX: f64 = 0.95;

/// Rests shorter than this are saved up: timers are not finer, and commits take milliseconds.
const REST_MIN: Duration = Duration::from_millis(20);

/// Rests longer than this are cut, so that what the job saves up while a batch takes long does not
/// let it stand still.
const REST_MAX: Duration = Duration::from_millis(500);

/// Without a commit for so long nobody writes. One that takes longer than a stretch of work does
/// not end in it, so that a stretch without any says nothing.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Commits that a mean is taken of before it is believed.
const COMMITS_MIN: f64 = 8.0;

/// Commits after which older ones count for half, so that means follow the machine.
const COMMITS_MAX: f64 = 200.0;

/// Commits while the job worked, and while it rested.
pub(super) struct DutyCycle {
    working: MeanTime,
    resting: MeanTime,
    /// When this stretch of work or rest began, and what had been committed until then.
    began: Instant,
    committed: CommitTime,
    /// When a commit was seen last.
    last_commit: Option<Instant>,
    /// Rest that is due and was too short to be taken.
    due: Duration,
}

impl DutyCycle {
    pub(super) fn new(committed: CommitTime, now: Instant) -> Self {
        Self {
            working: MeanTime::default(),
            resting: MeanTime::default(),
            began: now,
            committed,
            last_commit: None,
            due: Duration::ZERO,
        }
    }

    /// A stretch of work has ended: how long to rest now.
    pub(super) fn worked(&mut self, committed: CommitTime, now: Instant) -> Duration {
        let worked = now - self.began;
        let commits = self.commits_since(committed, now);
        self.working.add(commits);
        if self.last_commit.is_none_or(|at| now - at > IDLE_AFTER) {
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
    pub(super) fn rested(&mut self, committed: CommitTime, now: Instant) {
        let commits = self.commits_since(committed, now);
        self.resting.add(commits);
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

    fn commits_since(&mut self, committed: CommitTime, now: Instant) -> CommitTime {
        let since = CommitTime {
            commits: committed.commits.saturating_sub(self.committed.commits),
            nanos: committed.nanos.saturating_sub(self.committed.nanos),
        };
        (self.began, self.committed) = (now, committed);
        if since.commits > 0 {
            self.last_commit = Some(now);
        }
        since
    }
}

/// A mean in which what is long ago counts for less.
#[derive(Default)]
struct MeanTime {
    commits: f64,
    nanos: f64,
}

impl MeanTime {
    fn add(&mut self, more: CommitTime) {
        self.commits += more.commits as f64;
        self.nanos += more.nanos as f64;
        if self.commits > COMMITS_MAX {
            self.commits /= 2.0;
            self.nanos /= 2.0;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.commits >= COMMITS_MIN).then(|| self.nanos / self.commits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that commit one after the other, and a job beside them.
    struct Clients {
        now: Instant,
        committed: CommitTime,
        /// What has passed of the commit that is under way.
        under_way: f64,
        working_nanos: u64,
        resting_nanos: u64,
    }

    impl Clients {
        fn pass(&mut self, time: Duration, commit_nanos: u64) {
            self.now += time;
            self.under_way += time.as_nanos() as f64 / commit_nanos as f64;
            let commits = self.under_way as u64;
            self.under_way -= commits as f64;
            self.committed.commits += commits;
            self.committed.nanos += commits * commit_nanos;
        }

        /// The part of the time that the job worked.
        fn run(&mut self) -> f64 {
            let mut cycle = DutyCycle::new(self.committed, self.now);
            let (mut worked, mut rested) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..2_000 {
                let work = Duration::from_millis(30);
                self.pass(work, self.working_nanos);
                worked += work;
                let rest = cycle.worked(self.committed, self.now);
                if !rest.is_zero() {
                    self.pass(rest, self.resting_nanos);
                    rested += rest;
                    cycle.rested(self.committed, self.now);
                }
            }
            worked.as_secs_f64() / (worked + rested).as_secs_f64()
        }
    }

    fn duty(working_nanos: u64, resting_nanos: u64) -> f64 {
        let mut clients = Clients {
            now: Instant::now(),
            committed: CommitTime::default(),
            under_way: 0.0,
            working_nanos,
            resting_nanos,
        };
        clients.run()
    }

    #[test]
    fn clients_keep_their_speed() {
        // A fifth slower while the job works: it works for about two fifths of the time.
        let share = duty(2_500_000, 2_000_000);
        assert!((0.3..0.4).contains(&share), "{share}");
        let loss = share * (1.0 - 2.0 / 2.5);
        assert!(loss < 0.08, "{loss}");
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
        let mut cycle = DutyCycle::new(CommitTime::default(), Instant::now());
        let later = Instant::now() + Duration::from_secs(1);
        assert!(cycle.worked(CommitTime::default(), later).is_zero());
    }
}
