//! Scrapes of one target that are appended and wait for their commit.
//!
//! ```text
//! fetch ─► append ─► visible, the next tick is waited for
//!                └─► pending_commits ─► durable: counted
//! ```
//!
//! Holds always:
//! - A store that takes longer than an interval delays no tick: commits are awaited concurrently.
//! - There are at most [`PENDING_COMMITS_MAX`] of them. A tick that finds so many is skipped and
//!   counted: the store has not answered for as many intervals, and what is appended must fit into
//!   memory.

use std::time::Instant;

use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use icecore_model::{BoxFuture, Commit, StoreError};

/// Scrapes of a target that may wait for the store: a quarter of an hour of the usual interval.
/// Each is small here; the bytes that wait are bounded by `journal.queue_bytes_max`.
pub(super) const PENDING_COMMITS_MAX: usize = 64;

/// In the order of their appends, which is the order in which they become durable. They are passed
/// to the loop that takes over the series.
#[derive(Default)]
pub(super) struct PendingCommits(FuturesOrdered<BoxFuture<'static, CommitResult>>);

/// The outcome of a commit.
pub(super) struct CommitResult {
    /// From the request of the scrape on.
    pub(super) seconds: f64,
    pub(super) result: Result<(), StoreError>,
}

impl PendingCommits {
    /// A scrape that began then is appended.
    pub(super) fn add(&mut self, began: Instant, commit: Commit) {
        let finish = async move {
            let result = commit.await;
            CommitResult {
                seconds: began.elapsed().as_secs_f64(),
                result,
            }
        };
        self.0.push_back(Box::pin(finish));
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= PENDING_COMMITS_MAX
    }

    /// Waits for the next one to end; `None` when there is none.
    pub(super) async fn next(&mut self) -> Option<CommitResult> {
        self.0.next().await
    }
}
