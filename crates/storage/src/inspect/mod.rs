//! Looks into a database beside its writer, for `icecore inspect` and `icecore check`.
//!
//! ```text
//! reader ─► one state that stands still ─► overview, records, statistics, check
//!    ▲                     │ a file has vanished
//!    └───── fresh reader ◄─┘
//! ```
//!
//! Holds always:
//! - Nothing is written to the store, and the writer is not disturbed.
//! - Each piece of work (all that is global, one bucket) is done on one state of the database. When
//!   the writer's garbage collector has deleted a file of that state, the piece is started over
//!   with a fresh reader, a bounded number of times.
//! - Memory is bounded by the largest bucket, not by the database.
//!
//! Elsewhere: how results are printed (`cli`), what records mean (`records`).

mod check;
mod describe;
mod overview;
mod progress;
mod records;
mod statistics;
mod still;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::LocalBoxFuture;
use slatedb::object_store::ObjectStore;

pub use check::{
    CheckCounts, CheckOptions, CheckReport, Note, PROBLEM_KINDS, Problem, ProblemKind, check,
};
pub use describe::{Fact, RecordView};
pub use icecore_records::{Bucket, RecordType};
pub use overview::{
    BucketOverview, EpochOverview, JobOverview, Overview, RetiredOverview, TombstonesOverview,
};
pub use progress::Progress;
pub use records::RecordSelection;
pub use statistics::{LabelStatistics, MetricStatistics, Statistics, StatisticsQuery};

use crate::error::Result;
use crate::options::StoreOptions;
use crate::slate::reader::{Reader, has_vanished, open_reader};
use progress::Meter;
use still::StillView;

/// How often one piece of work is begun before a file that is missing counts as lost. The writer
/// keeps files for minutes after they were replaced, so that even the second time is rare.
const ATTEMPTS_MAX: u32 = 6;

/// Age from which a state is given up before something new is begun: its files are kept for a few
/// minutes, and opening costs little beside what is read.
const STATE_AGE_MAX: Duration = Duration::from_secs(60);

/// Time for the writer to finish what it is doing, before looking again.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);

/// A database, opened for looking.
pub struct Inspector {
    options: StoreOptions,
    object_store: Option<Arc<dyn ObjectStore>>,
    reader: Reader,
    opened: Instant,
    meter: Arc<Meter>,
    restarts: u64,
}

impl Inspector {
    /// Opens the database at `options.location`, which must exist.
    pub async fn open(options: &StoreOptions) -> Result<Self> {
        Self::open_on(options, None).await
    }

    /// Opens the database on a given object store, as [`crate::Environment`] can name one.
    pub fn open_on(
        options: &StoreOptions,
        object_store: Option<Arc<dyn ObjectStore>>,
    ) -> LocalBoxFuture<'_, Result<Self>> {
        Box::pin(async move {
            let mut attempts = 1;
            let reader = loop {
                match open_reader(options, object_store.clone()).await {
                    Err(error) if has_vanished(&error) && attempts < ATTEMPTS_MAX => {
                        attempts += 1;
                        tokio::time::sleep(ATTEMPT_PAUSE).await;
                    }
                    opened => break opened?,
                }
            };
            Ok(Self {
                options: options.clone(),
                object_store,
                reader,
                opened: Instant::now(),
                meter: Arc::default(),
                restarts: 0,
            })
        })
    }

    /// Calls `tell` every few thousand records while something long is under way.
    pub fn on_progress(&mut self, tell: impl Fn(&Progress) + Send + Sync + 'static) {
        self.meter = Arc::new(Meter::telling(tell));
    }

    /// Where the data lies, for people.
    pub fn location(&self) -> String {
        self.reader.location().to_string()
    }

    pub async fn close(self) -> Result<()> {
        self.reader.close().await
    }

    /// Does one piece of work on one state, from the start again when that state has vanished.
    async fn attempt<T>(&mut self, work: impl AsyncFn(&StillView) -> Result<T>) -> Result<T> {
        if self.opened.elapsed() > STATE_AGE_MAX {
            self.reopen().await?;
        }
        let mut attempts = 1;
        loop {
            match work(&StillView::new(&self.reader, &self.meter)).await {
                Err(error) if has_vanished(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    self.restarts += 1;
                    tokio::time::sleep(ATTEMPT_PAUSE).await;
                    self.reopen().await?;
                }
                done => return done,
            }
        }
    }

    async fn reopen(&mut self) -> Result<()> {
        match open_reader(&self.options, self.object_store.clone()).await {
            Ok(fresh) => {
                self.opened = Instant::now();
                let old = std::mem::replace(&mut self.reader, fresh);
                old.close().await
            }
            // The files that it needs go as it opens: the next attempt tries again.
            Err(error) if has_vanished(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The first key behind all that begin with `prefix`; `None` when there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=kept].to_vec();
    after[kept] += 1;
    Some(after)
}
