//! Reading: one consistent view over head and buckets.
//!
//! ```text
//! matchers ─► head: postings ─► parts, copied        ┐
//!         └─► per bucket: postings ─► ids ─► labels  ┴► series in label order
//! series ─ batch by batch ─► records (scan or gets) ─► decode, newest wins ─► columns
//! ```
//!
//! Holds always:
//! - The head is copied before the list of buckets is read, and that before the snapshot is taken: a
//!   flush in between shows a sample twice, never not at all.
//! - Of one timestamp the newest write counts: bucket, then frozen part, then growing part. Where
//!   buckets overlap, which none should, the larger one is the newer.
//! - What is read is leased together with the list of buckets, until the reader is dropped.
//! - Label sets are resolved once per selection and shared across buckets.

mod assemble;
mod chunks;
mod coarse;
mod columns;
mod exemplars;
mod fetch;
mod gather;
mod labels;
mod postings;
mod presence;
mod resolve;
mod samples;
mod select;
mod statistics;
mod unite;

pub use exemplars::ExemplarQuery;
pub(crate) use exemplars::exemplars;
pub(crate) use fetch::{Fetched, fetch};
pub use labels::{LabelQuery, SeriesList};
pub(crate) use labels::{label_names, label_values, series};
pub(crate) use postings::{BucketView, resolve, successor};
pub(crate) use resolve::{bucket_meta_of, views_of};
pub(crate) use select::SelectStream;
pub use statistics::{Cardinality, NamedCount};
pub(crate) use statistics::{cardinality, head_cardinality};

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use icecore_records::Bucket;

use crate::error::Result;
use crate::inner::Inner;
use crate::lease::Lease;
use crate::listed;

/// Runs futures with at most `concurrent` of them under way; results are in order.
pub(crate) async fn join_bounded<T, F: Future<Output = Result<T>>>(
    futures: Vec<F>,
    concurrent: usize,
) -> Result<Vec<T>> {
    stream::iter(futures)
        .buffered(concurrent.max(1))
        .try_collect()
        .await
}

/// Buckets to read, with the lease that keeps them.
pub(crate) struct Leased {
    /// Oldest first, of one start the smallest first.
    buckets: Vec<Bucket>,
    lease: Arc<Lease>,
}

/// Buckets that have something of a time range, of whatever sizes.
pub(crate) fn buckets_in(inner: &Inner, start_ms: i64, end_ms: i64) -> Leased {
    let listed = inner.buckets.read();
    let found = listed::in_range(&listed, start_ms, end_ms);
    // While the list is locked: a commit in between could retire and drain what was found.
    let lease = Arc::new(inner.leases.take(&found));
    Leased {
        buckets: found,
        lease,
    }
}
