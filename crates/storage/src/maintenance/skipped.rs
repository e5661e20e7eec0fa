//! Jobs that failed: each is left alone for a while, so that the rest goes on.
//!
//! ```text
//! fails ─► 15 s ─► fails ─► 30 s ─► … ─► an hour      succeeds, or its bucket is gone: forgotten
//! ```
//!
//! Holds always:
//! - It is memory only: a new process tries everything once.
//! - What is remembered is bounded by the list of buckets: what is not listed is forgotten before
//!   each job.
//! - Only what lies in one bucket or window is skipped. When the store itself fails, all jobs wait.

use std::collections::BTreeMap;

use icecore_records::Bucket;
use parking_lot::Mutex;
use slatedb::ErrorKind;

use super::status::SkippedJob;
use crate::buckets::levels::Listed;
use crate::buckets::{ladder, list};
use crate::error::Error;
use crate::slate::reader::has_vanished;

/// How long a job waits after its first failure; twice as long after each further one, up to the
/// second figure.
const FIRST_WAIT_MS: i64 = 15_000;
const WAIT_MAX_MS: i64 = 3_600_000;

/// Kinds of jobs, as they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Repair,
    Coarsen,
    RollUp,
    Merge,
    Outdated,
    Remnant,
    Cull,
    Fold,
    Clean,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::Coarsen => "coarsen",
            Self::RollUp => "roll_up",
            Self::Merge => "merge_late",
            Self::Outdated => "retire_outdated",
            Self::Remnant => "remnant",
            Self::Cull => "cull",
            Self::Fold => "fold",
            Self::Clean => "clean",
        }
    }
}

#[derive(Default)]
pub(crate) struct SkippedJobs(Mutex<BTreeMap<(Kind, Bucket), SkippedJob>>);

impl SkippedJobs {
    /// A job has failed. Returns it as it is shown.
    pub(crate) fn failed(
        &self,
        kind: Kind,
        bucket: Bucket,
        cause: &Error,
        now_ms: i64,
    ) -> SkippedJob {
        let mut all = self.0.lock();
        let before = all.get(&(kind, bucket)).map_or(0, |job| job.failures);
        let wait_ms = FIRST_WAIT_MS << before.min(16);
        let job = SkippedJob {
            kind: kind.name(),
            start_ms: bucket.start_ms(),
            end_ms: bucket.end_ms(),
            cause: cause.to_string(),
            failures: before.saturating_add(1),
            next_try_ms: now_ms.saturating_add(wait_ms.min(WAIT_MAX_MS)),
        };
        all.insert((kind, bucket), job.clone());
        job
    }

    pub(crate) fn succeeded(&self, kind: Kind, bucket: Bucket) {
        self.0.lock().remove(&(kind, bucket));
    }

    /// Whether a job may be tried. Also where the clock was set back.
    pub(crate) fn may_run(&self, kind: Kind, bucket: Bucket, now_ms: i64) -> bool {
        let all = self.0.lock();
        all.get(&(kind, bucket)).is_none_or(|job| {
            let wait_ms = job.next_try_ms.saturating_sub(now_ms);
            wait_ms <= 0 || wait_ms > WAIT_MAX_MS
        })
    }

    /// Forgets what there is nothing left to do of.
    pub(crate) fn forget_gone(&self, listed: &Listed) {
        self.0.lock().retain(|(kind, bucket), _| match kind {
            Kind::Coarsen if ladder::is_raw(bucket.size) => {
                list::covering(listed.raw(), *bucket).is_none()
            }
            Kind::Coarsen | Kind::RollUp | Kind::Remnant => !listed.contains(*bucket),
            Kind::Merge => !listed.overlays_in(*bucket).is_empty(),
            Kind::Repair | Kind::Outdated | Kind::Cull | Kind::Fold | Kind::Clean => {
                listed.contains(*bucket)
            }
        });
    }

    /// All of them, those that are tried next first.
    pub(crate) fn list(&self) -> Vec<SkippedJob> {
        let mut all: Vec<SkippedJob> = self.0.lock().values().cloned().collect();
        all.sort_by_key(|job| job.next_try_ms);
        all
    }
}

/// Whether a failure lies in what a job reads or writes, and not in the store as a whole.
pub(crate) fn is_of_the_job(cause: &Error) -> bool {
    match cause {
        Error::Invalid(_) | Error::LimitReached(_) | Error::Unavailable(_) | Error::Corrupt(_) => {
            true
        }
        Error::Closed(_) => false,
        Error::Store { source, .. } => {
            let damaged = matches!(source.kind(), ErrorKind::Data | ErrorKind::Invalid);
            damaged || has_vanished(cause)
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::BucketStart;

    use super::*;

    fn hour(number: u32) -> Bucket {
        Bucket::hour(BucketStart(number * 60))
    }

    #[test]
    fn each_failure_waits_twice_as_long() {
        let skipped = SkippedJobs::default();
        let cause = Error::Corrupt("damaged".into());
        let mut now_ms = 0;
        let mut waits = Vec::new();
        for failures in 1..=10 {
            assert!(skipped.may_run(Kind::Fold, hour(1), now_ms));
            let job = skipped.failed(Kind::Fold, hour(1), &cause, now_ms);
            assert_eq!((job.failures, job.cause.as_str()), (failures, "damaged"));
            assert!(!skipped.may_run(Kind::Fold, hour(1), now_ms));
            assert!(!skipped.may_run(Kind::Fold, hour(1), job.next_try_ms - 1));
            waits.push((job.next_try_ms - now_ms) / 1000);
            now_ms = job.next_try_ms;
        }
        assert_eq!(waits, [15, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert!(skipped.may_run(Kind::Clean, hour(1), 0), "another job");
        assert!(
            skipped.may_run(Kind::Fold, hour(1), -7_200_000),
            "the clock was set back"
        );
        skipped.succeeded(Kind::Fold, hour(1));
        assert!(skipped.may_run(Kind::Fold, hour(1), 0));
        assert_eq!(skipped.list(), []);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let skipped = SkippedJobs::default();
        let cause = Error::Corrupt("damaged".into());
        for number in 0..2000 {
            skipped.failed(Kind::Coarsen, hour(number), &cause, i64::from(number));
        }
        assert_eq!(skipped.list().len(), 2000);
        skipped.failed(Kind::Clean, hour(5000), &cause, 0);
        let hours = (0..5000).map(hour);
        let listed = Listed::new(hours, []);
        skipped.forget_gone(&listed);
        assert_eq!(skipped.list(), [], "built, or not listed");
    }
}
