//! How long jobs take, from those that were done.
//!
//! Holds always:
//! - A job counts by the hours of the buckets that it reads: how much lies in an hour changes
//!   little from one bucket to the next, and is known before anything is read.
//! - Newer jobs count for more. It is memory only, and what was never done is not guessed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use icecore_model::HOUR_MS;
use icecore_model::rollup::Resolution;
use icecore_records::Bucket;
use parking_lot::Mutex;

use super::skipped::Kind;
use super::status::JobStatus;
use crate::buckets::levels::LevelSizes;

/// What a job still counts for when the next one of its sort is done.
const KEPT: f64 = 0.8;

/// The part of a job that must be done before it tells how long the rest takes.
const PROGRESS_MIN: f64 = 0.02;

/// What takes about the same time per hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Work {
    kind: Kind,
    /// What is read.
    source: Resolution,
}

/// A job that is to be done, or is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Workload {
    work: Work,
    hours: f64,
}

impl Workload {
    pub(crate) fn new(kind: Kind, sources: &[Bucket], sizes: &LevelSizes) -> Self {
        let source = sources.first().and_then(|b| sizes.resolution(b.size));
        let source = source.unwrap_or_default();
        let ms: i64 = sources.iter().map(|b| b.size.duration_ms()).sum();
        Self {
            work: Work { kind, source },
            hours: ms as f64 / HOUR_MS as f64,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    hours: f64,
    seconds: f64,
}

#[derive(Default)]
pub(crate) struct Throughput {
    measured: Mutex<BTreeMap<Work, Measured>>,
    running: Mutex<Option<(Workload, Instant)>>,
}

impl Throughput {
    /// A job begins.
    pub(crate) fn begin(&self, workload: Workload) {
        *self.running.lock() = Some((workload, Instant::now()));
    }

    /// The job has ended; `is_whole` where all of it was done, from its start.
    pub(crate) fn end(&self, is_whole: bool) {
        let Some((workload, started)) = self.running.lock().take() else {
            return;
        };
        if is_whole {
            self.note(workload, started.elapsed());
        }
    }

    fn note(&self, workload: Workload, took: Duration) {
        let mut measured = self.measured.lock();
        let known = measured.entry(workload.work).or_default();
        known.hours = known.hours * KEPT + workload.hours;
        known.seconds = known.seconds * KEPT + took.as_secs_f64();
    }

    /// How long jobs will take; `None` where there was none like one of them.
    pub(crate) fn seconds(&self, jobs: impl IntoIterator<Item = Workload>) -> Option<f64> {
        let measured = self.measured.lock();
        let seconds = jobs.into_iter().map(|job| {
            let known = measured.get(&job.work).filter(|known| known.hours > 0.0)?;
            Some(job.hours * known.seconds / known.hours)
        });
        seconds.sum()
    }

    /// How long the job that is under way will still take.
    pub(crate) fn remaining(&self, job: &JobStatus) -> Option<f64> {
        let (workload, started) = (*self.running.lock())?;
        let elapsed = started.elapsed().as_secs_f64();
        match self.seconds([workload]) {
            Some(all) => Some((all - elapsed).max(0.0)),
            None => progress(job).map(|done| elapsed * (1.0 - done) / done),
        }
    }
}

/// The part of a job that is done, if that can be told: most of the time goes into samples.
fn progress(job: &JobStatus) -> Option<f64> {
    let done = job.series_done as f64 / job.series_total.max(1) as f64;
    let is_told = job.phase == "samples" && done >= PROGRESS_MIN;
    is_told.then_some(done.min(1.0))
}

#[cfg(test)]
mod tests {
    use icecore_model::{BucketSize, BucketStart};

    use super::*;

    fn workload(kind: Kind, hours: u32) -> Workload {
        let hour = |hour: u32| Bucket {
            size: BucketSize::HOUR,
            start: BucketStart(hour * 60),
        };
        let sources: Vec<Bucket> = (0..hours).map(hour).collect();
        Workload::new(kind, &sources, &LevelSizes::default())
    }

    #[test]
    fn what_was_done_tells_how_long_the_rest_takes() {
        let throughput = Throughput::default();
        let coarsen = |hours| workload(Kind::Coarsen, hours);
        let near = |seconds: Option<f64>, expected: f64| {
            let seconds = seconds.expect("something to base it on");
            assert!((seconds - expected).abs() < 1e-9, "{seconds}");
        };
        assert_eq!(throughput.seconds([coarsen(4)]), None);
        throughput.note(coarsen(4), Duration::from_secs(8));
        near(throughput.seconds([coarsen(16)]), 32.0);
        near(throughput.seconds([coarsen(16), coarsen(4)]), 40.0);
        near(throughput.seconds([]), 0.0);
        let unknown = workload(Kind::RollUp, 4);
        assert_eq!(throughput.seconds([coarsen(16), unknown]), None);
        // Later ones count for more.
        for _ in 0..40 {
            throughput.note(coarsen(4), Duration::from_secs(4));
        }
        let seconds = throughput.seconds([coarsen(16)]).unwrap();
        assert!((16.0..16.1).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_first_job_tells_by_how_far_it_is() {
        let throughput = Throughput::default();
        let mut job = JobStatus {
            phase: "series",
            series_done: 25,
            series_total: 100,
            ..JobStatus::default()
        };
        assert_eq!(throughput.remaining(&job), None, "nothing runs");
        throughput.begin(workload(Kind::RollUp, 4));
        assert_eq!(throughput.remaining(&job), None);
        job.phase = "samples";
        std::thread::sleep(Duration::from_millis(20));
        let seconds = throughput.remaining(&job).unwrap();
        assert!(seconds >= 3.0 * 0.02, "{seconds}");
        throughput.end(false);
        assert_eq!(throughput.remaining(&job), None);
        assert_eq!(
            throughput.seconds([workload(Kind::RollUp, 4)]),
            None,
            "it was not whole"
        );
        throughput.begin(workload(Kind::RollUp, 4));
        throughput.end(true);
        assert!(throughput.seconds([workload(Kind::RollUp, 4)]).is_some());
    }
}
