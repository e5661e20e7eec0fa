//! Scrapes of one target that are appended and wait for the store.
//!
//! ```text
//! fetch ─► append ─► visible, the next tick is waited for
//!                └─► unfinished ─► durable: counted
//! ```
//!
//! Holds always:
//! - A store that takes longer than an interval delays no tick: a commit is waited for beside the ticks.
//! - There are at most [`UNFINISHED_MAX`] of them. A tick that finds so many is left out and counted: the
//!   store has not answered for as many intervals, and what is appended must fit into memory.

use std::time::Instant;

use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use icecore_model::{BoxFuture, Commit, StoreError};

/// Scrapes of a target that may wait for the store: a quarter of an hour of the usual interval. Each is
/// small here; the bytes that wait are bounded by `journal.queue_bytes_max`.
pub(super) const UNFINISHED_MAX: usize = 64;

/// In the order of their appends, which is the order in which they become durable. They go on to the loop
/// that takes over the series.
#[derive(Default)]
pub(super) struct Unfinished(FuturesOrdered<BoxFuture<'static, Finished>>);

/// How a commit ended.
pub(super) struct Finished {
    /// From the request of the scrape on.
    pub(super) seconds: f64,
    pub(super) result: Result<(), StoreError>,
}

impl Unfinished {
    /// A scrape that began then is appended.
    pub(super) fn add(&mut self, began: Instant, commit: Commit) {
        let finish = async move {
            let result = commit.await;
            Finished {
                seconds: began.elapsed().as_secs_f64(),
                result,
            }
        };
        self.0.push_back(Box::pin(finish));
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= UNFINISHED_MAX
    }

    /// Waits for the next one to end; `None` when there is none.
    pub(super) async fn next(&mut self) -> Option<Finished> {
        self.0.next().await
    }
}
