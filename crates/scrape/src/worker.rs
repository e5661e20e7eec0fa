//! The loop of one target: wait for the tick, fetch, store, report.
//!
//! ```text
//! tick ─► fetch (timeout, body) ─► one append: parse, resolve, append, report (up = 1)
//!             └── failed ────────────┴── failed ─► another one: markers, report (up = 0)
//! ```
//!
//! Holds always:
//! - One scrape at a time: the next tick is computed when the last scrape is appended. Commits are
//!   awaited concurrently (`pending_commits`).
//! - What is appended is stored or the process ends, so that what is remembered about series is
//!   right from the append on.
//! - Parsing happens on storage's threads, inside of the write, and for a bounded number of bodies
//!   at once.
//! - A target that goes away ends its series; a process that stops does not.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_model::{
    AppendError, Clock, PendingWrite, SampleSink, SampleStore, StoreError, WriteOutcome,
};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::append::{BodyError, Page, append};
use super::body::{self, Buffers};
use super::fetch::{self, Body, FetchError};
use super::job::{CurrentJob, Job};
use super::metrics::{Failure, ScrapeMetrics};
use super::pending_commits::{CommitResult, PENDING_COMMITS_MAX, PendingCommits};
use super::report::{Counts, Extra, Report};
use super::schedule::Schedule;
use super::target::Target;

/// Bodies that are parsed at once. Storage has as many threads as there are cores; a few more keep
/// them busy, and the rest waits as bytes.
const PARSED_AT_ONCE_MAX: usize = 16;

/// How long a scrape may wait for others to share its commit with: nobody waits for its
/// acknowledgement, and targets are spread over their interval, so that nearly every scrape would
/// be a commit of its own.
const PATIENCE_MAX: Duration = Duration::from_millis(250);

/// The part of an interval that this may take, so that samples are not late by more.
const PATIENCE_OF_INTERVAL: u32 = 8;

/// Interval between log lines about the same kind of problem.
const LOG_PAUSE_MS: i64 = 60_000;

/// What the loops of all targets share.
pub(super) struct Context {
    pub(super) store: Arc<dyn SampleStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: ScrapeMetrics,
    pub(super) buffers: Buffers,
    parsing: Arc<Semaphore>,
}

impl Context {
    pub(super) fn new(store: Arc<dyn SampleStore>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            clock,
            metrics: ScrapeMetrics::default(),
            buffers: Buffers::default(),
            parsing: Arc::new(Semaphore::new(PARSED_AT_ONCE_MAX)),
        }
    }
}

/// What a loop should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopCommand {
    Run,
    /// Another loop continues the same series, or the process stops.
    Stop,
    /// The target is gone: its series end with staleness markers.
    StopAndMarkStale,
}

pub(super) struct Worker {
    pub(super) context: Arc<Context>,
    pub(super) job: Arc<CurrentJob>,
    pub(super) target: Arc<Target>,
    /// Scraped at once and then on schedule.
    pub(super) at_once: bool,
}

impl Worker {
    /// Starts the loop; `before` is the loop whose series it takes over. It ends with what is not
    /// durable yet.
    pub(super) fn start(
        self,
        command: watch::Receiver<LoopCommand>,
        before: Option<JoinHandle<PendingCommits>>,
    ) -> JoinHandle<PendingCommits> {
        tokio::spawn(async move {
            let pending_commits = match before {
                // However it ended, it is over.
                Some(before) => before.await.unwrap_or_default(),
                None => PendingCommits::default(),
            };
            self.run(command, pending_commits).await
        })
    }

    async fn run(
        self,
        mut command: watch::Receiver<LoopCommand>,
        mut pending_commits: PendingCommits,
    ) -> PendingCommits {
        let schedule = Schedule::new(self.target.spec.interval, self.target.hash);
        let now = || self.context.clock.now_ms();
        let mut tick_ms = if self.at_once {
            now()
        } else {
            schedule.next(now(), None)
        };
        loop {
            tokio::select! {
                biased;
                command = next_command(&mut command) => return self.end(command, pending_commits).await,
                Some(finished) = pending_commits.next() => {
                    self.finished(&finished);
                    continue;
                }
                () = wait_until(tick_ms, &*self.context.clock) => {}
            }
            if pending_commits.is_full() {
                self.leave_out();
            } else {
                let times = (tick_ms, now());
                let scraped = self.scrape(&schedule, times, &mut command, &mut pending_commits);
                if let Some(command) = scraped.await {
                    return self.end(command, pending_commits).await;
                }
            }
            let next_ms = schedule.next(now(), Some(tick_ms));
            let missed = schedule.missed(tick_ms, next_ms);
            self.context.metrics.missed_by_scrape.add(missed);
            tick_ms = next_ms;
        }
    }

    /// One scrape; a command that arrives meanwhile ends it.
    async fn scrape(
        &self,
        schedule: &Schedule,
        (tick_ms, began_ms): (i64, i64),
        command: &mut watch::Receiver<LoopCommand>,
        pending_commits: &mut PendingCommits,
    ) -> Option<LoopCommand> {
        let began = Instant::now();
        let job = self.job.get();
        let fetched = match self.job.refused() {
            Some(reason) => Err(FetchError {
                failure: Failure::Refused,
                reason: reason.to_string(),
            }),
            None => tokio::select! {
                biased;
                command = next_command(command) => return Some(command),
                fetched = fetch::fetch(&job, &self.target, &self.context.buffers) => fetched,
            },
        };
        let scrape = Scrape {
            context: &self.context,
            target: &self.target,
            job,
            timestamp_ms: schedule.timestamp(tick_ms, began_ms),
            began,
        };
        let (is_down, error) = match fetched {
            Ok(body) => scrape.store(body, pending_commits).await,
            Err(FetchError { failure, reason }) => {
                let body_bytes = if reason == body::TOO_LARGE { -1 } else { 0 };
                let counted = (Counts::default(), body_bytes);
                scrape
                    .store_failure(failure, &reason, counted, pending_commits)
                    .await;
                (true, Some(reason))
            }
        };
        let mut health = self.target.health.lock();
        health.scraped_ms = Some(began_ms);
        health.seconds = began.elapsed().as_secs_f64();
        health.is_down = is_down;
        health.error = error;
        None
    }

    /// Skips a tick, because the store has not committed earlier scrapes.
    fn leave_out(&self) {
        let metrics = &self.context.metrics;
        metrics.missed_by_commit.add(1);
        let now_ms = self.context.clock.now_ms();
        if metrics.may_log(&metrics.left_out_logged_ms, now_ms, LOG_PAUSE_MS) {
            let url = &self.target.spec.url.shown;
            warn!(
                url,
                pending_commits = PENDING_COMMITS_MAX,
                "skipping scrapes: the store has not committed previous ones"
            );
        }
        self.target.health.lock().error = Some(format!(
            "the scrape was left out: {PENDING_COMMITS_MAX} scrapes before it wait for the store"
        ));
    }

    fn finished(&self, finished: &CommitResult) {
        self.context.metrics.seconds.observe(finished.seconds);
        if let Err(error) = &finished.result {
            not_stored(&self.context, &self.target, error);
            self.target.health.lock().error = Some(not_stored_reason(error));
        }
    }

    async fn end(
        &self,
        command: LoopCommand,
        mut pending_commits: PendingCommits,
    ) -> PendingCommits {
        if command != LoopCommand::StopAndMarkStale {
            return pending_commits;
        }
        let series = Arc::clone(&self.target.series);
        let now_ms = self.context.clock.now_ms();
        let began = Instant::now();
        let appended = self
            .context
            .store
            .append(Duration::ZERO, move |sink| {
                series.lock().end_all(now_ms, sink);
                Ok::<_, Infallible>(())
            })
            .await;
        match appended {
            Ok(PendingWrite { commit, .. }) => {
                self.target.series.lock().commit();
                pending_commits.add(began, commit);
            }
            Err(error) => {
                let url = &self.target.spec.url.shown;
                warn!(url, %error, "cannot write staleness markers for a removed target");
            }
        }
        // No other loop continues the series, so they must end here.
        while let Some(finished) = pending_commits.next().await {
            self.finished(&finished);
        }
        pending_commits
    }
}

/// Waits for a command other than to run. A loop whose sender is gone stops.
async fn next_command(command: &mut watch::Receiver<LoopCommand>) -> LoopCommand {
    match command
        .wait_for(|command| *command != LoopCommand::Run)
        .await
    {
        Ok(command) => *command,
        Err(_) => LoopCommand::Stop,
    }
}

async fn wait_until(tick_ms: i64, clock: &dyn Clock) {
    // Again, because a clock may be set back, and timers count another time than clocks.
    loop {
        let left = tick_ms.saturating_sub(clock.now_ms());
        match u64::try_from(left) {
            Ok(left) if left > 0 => tokio::time::sleep(Duration::from_millis(left)).await,
            _ => return,
        }
    }
}

/// A scrape that has been fetched, or could not be.
struct Scrape<'w> {
    context: &'w Arc<Context>,
    target: &'w Arc<Target>,
    job: Arc<Job>,
    timestamp_ms: i64,
    began: Instant,
}

/// Why nothing of a body is stored, and what was counted until then.
struct RejectedBody {
    error: BodyError,
    counts: Counts,
    body_bytes: i64,
}

impl Scrape<'_> {
    fn patience(&self) -> Duration {
        PATIENCE_MAX.min(self.target.spec.interval / PATIENCE_OF_INTERVAL)
    }

    /// Appends a body; returns whether the target is down, and what was rejected and why.
    async fn store(
        &self,
        body: Body,
        pending_commits: &mut PendingCommits,
    ) -> (bool, Option<String>) {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.context.parsing).acquire_owned().await.ok();
        let (context, target, job) = (
            Arc::clone(self.context),
            Arc::clone(self.target),
            Arc::clone(&self.job),
        );
        let (timestamp_ms, began) = (self.timestamp_ms, self.began);
        let fill = move |sink: &mut dyn SampleSink| {
            let mut series = target.series.lock();
            series.begin(job.rules_number, timestamp_ms);
            let mut counts = Counts::default();
            let limit = body::limit_of(job.config().body_size_limit);
            let written = body.decompressed(limit, |bytes| {
                let page = Page {
                    bytes,
                    format: body.format,
                    histograms: target.spec.histograms,
                };
                let counts = &mut counts;
                append(&job.rules, &mut series, &page, timestamp_ms, counts, sink)
            });
            context.metrics.count(&counts);
            let result = match written {
                (body_bytes, Ok(())) => {
                    let report = Report {
                        up: true,
                        seconds: began.elapsed().as_secs_f64(),
                        counts,
                        extra: extra(&job, &target, body_bytes),
                    };
                    series.report(&report, timestamp_ms, sink);
                    Ok(())
                }
                (body_bytes, Err(error)) => Err(RejectedBody {
                    error,
                    counts,
                    body_bytes,
                }),
            };
            context.buffers.recycle(body.bytes);
            drop(permit);
            result
        };
        match self.context.store.append(self.patience(), fill).await {
            Ok(PendingWrite { outcome, commit }) => {
                pending_commits.add(self.began, commit);
                self.context.metrics.succeeded.add(1);
                (false, self.appended(&outcome))
            }
            Err(AppendError::Store(error) | AppendError::Refused(error)) => {
                self.refused(&error);
                // The target did what it should.
                self.context.metrics.succeeded.add(1);
                (false, Some(not_stored_reason(&error)))
            }
            Err(AppendError::Fill(refused)) => {
                let reason = refused.error.to_string();
                let failure = match refused.error {
                    BodyError::Malformed(_) => Failure::Malformed,
                    BodyError::Limit(_) => Failure::Limit,
                };
                let counted = (refused.counts, refused.body_bytes);
                self.store_failure(failure, &reason, counted, pending_commits)
                    .await;
                (true, Some(reason))
            }
        }
    }

    /// The target is down: its series end, and the report says so.
    async fn store_failure(
        &self,
        failure: Failure,
        reason: &str,
        (counts, body_bytes): (Counts, i64),
        pending_commits: &mut PendingCommits,
    ) {
        self.context.metrics.failed(failure);
        let url = &self.target.spec.url.shown;
        debug!(url, reason, "scrape failed");
        let (target, job) = (Arc::clone(self.target), Arc::clone(&self.job));
        let (timestamp_ms, began) = (self.timestamp_ms, self.began);
        let fill = move |sink: &mut dyn SampleSink| {
            let mut series = target.series.lock();
            series.begin(job.rules_number, timestamp_ms);
            series.end_others(timestamp_ms, sink);
            let report = Report {
                up: false,
                seconds: began.elapsed().as_secs_f64(),
                counts,
                extra: extra(&job, &target, body_bytes),
            };
            series.report(&report, timestamp_ms, sink);
            Ok::<_, Infallible>(())
        };
        match self.context.store.append(self.patience(), fill).await {
            Ok(PendingWrite { outcome, commit }) => {
                pending_commits.add(self.began, commit);
                self.appended(&outcome);
            }
            Err(AppendError::Store(error) | AppendError::Refused(error)) => self.refused(&error),
        }
    }

    /// Counts and logs what storage rejected, and returns it as text.
    fn appended(&self, outcome: &WriteOutcome) -> Option<String> {
        self.target.series.lock().commit();
        let first = outcome.rejected.first()?;
        let count = outcome.rejected_count();
        let metrics = &self.context.metrics;
        metrics.rejected.add(count);
        if metrics.may_log(
            &metrics.rejections_logged_ms,
            self.context.clock.now_ms(),
            LOG_PAUSE_MS,
        ) {
            let (url, reason) = (&self.target.spec.url.shown, &first.reason);
            warn!(url, count, reason, "samples rejected");
        }
        let reasons = outcome.rejection_reasons();
        Some(format!("{count} samples refused: {reasons}"))
    }

    /// Nothing of the scrape was appended.
    fn refused(&self, error: &StoreError) {
        self.target.series.lock().failed();
        not_stored(self.context, self.target, error);
    }
}

fn not_stored(context: &Context, target: &Target, error: &StoreError) {
    let metrics = &context.metrics;
    metrics.not_stored.add(1);
    let now_ms = context.clock.now_ms();
    if metrics.may_log(&metrics.failures_logged_ms, now_ms, LOG_PAUSE_MS) {
        let url = &target.spec.url.shown;
        warn!(url, %error, "cannot store scrape");
    }
}

fn not_stored_reason(error: &StoreError) -> String {
    format!("the scrape could not be stored: {error}")
}

fn extra(job: &Job, target: &Target, body_bytes: i64) -> Option<Extra> {
    let config = job.config();
    config.extra_scrape_metrics.then_some(Extra {
        timeout_seconds: target.spec.timeout.as_secs_f64(),
        sample_limit: config.sample_limit,
        body_bytes,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    use super::*;

    /// Goes with the runtime's time, which tests stop and move, and can be set.
    struct TestClock {
        began: tokio::time::Instant,
        offset_ms: AtomicI64,
    }

    impl TestClock {
        fn at(ms: i64) -> Self {
            Self {
                began: tokio::time::Instant::now(),
                offset_ms: AtomicI64::new(ms),
            }
        }
    }

    impl Clock for TestClock {
        fn now_ms(&self) -> i64 {
            self.elapsed_ms() + self.offset_ms.load(Relaxed)
        }

        fn elapsed_ms(&self) -> i64 {
            self.began.elapsed().as_millis() as i64
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ticks_are_served_in_time_and_one_that_passed_meanwhile_at_once() {
        let clock = TestClock::at(1_000_123);
        let schedule = Schedule::new(Duration::from_secs(10), 4_000);
        let mut tick_ms = schedule.next(clock.now_ms(), None);
        let (mut served, mut missed) = (Vec::new(), 0);
        // How long the scrapes take.
        for seconds in [1, 9, 25, 10] {
            wait_until(tick_ms, &clock).await;
            served.push(schedule.timestamp(tick_ms, clock.now_ms()));
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let next_ms = schedule.next(clock.now_ms(), Some(tick_ms));
            missed += schedule.missed(tick_ms, next_ms);
            tick_ms = next_ms;
        }
        // Two passed during the long one: the newer is served late.
        assert_eq!(served, [1_004_000, 1_014_000, 1_024_000, 1_049_000]);
        assert_eq!(missed, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_is_waited_for() {
        let clock = TestClock::at(0);
        let wait = wait_until(1_000, &clock);
        let set_back = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            clock.offset_ms.fetch_sub(300, Relaxed);
        };
        tokio::join!(wait, set_back);
        assert!(clock.now_ms() >= 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_nobody_can_tell_anything_leaves() {
        let (sender, mut command) = watch::channel(LoopCommand::Run);
        sender.send(LoopCommand::StopAndMarkStale).unwrap();
        assert_eq!(
            next_command(&mut command).await,
            LoopCommand::StopAndMarkStale
        );
        let (sender, mut command) = watch::channel(LoopCommand::Run);
        drop(sender);
        assert_eq!(next_command(&mut command).await, LoopCommand::Stop);
    }
}
