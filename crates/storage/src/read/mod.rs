//! Reading: one consistent view over head and buckets.
//!
//! ```text
//! matchers ─► head: postings ─► parts, copied        ┐
//!         └─► per bucket: postings ─► ids ─► labels  ┴► series in label order
//! series ─ batch by batch ─► records (scan or gets) ─► decode, newest wins ─► columns
//! ```
//!
//! Holds always:
//! - The head is copied before the list of buckets is read, and that before the snapshot is taken:
//!   a flush in between shows a sample twice, never not at all.
//! - Of one timestamp the newest write counts: bucket, then frozen part, then growing part. Where
//!   buckets overlap, which none should, the larger one is the newer.
//! - What is read is leased together with the list of buckets, until the reader is dropped.
//! - Label sets are resolved once per selection and shared across buckets.

mod assemble;
mod chunks;
mod coarse;
mod columns;
mod exemplars;
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
pub use labels::{LabelQuery, SeriesList};
pub(crate) use labels::{label_names, label_values, series};
pub(crate) use postings::{BucketView, resolve};
pub(crate) use resolve::{bucket_meta_of, views_of};
pub(crate) use select::SelectStream;
pub use statistics::{Cardinality, NamedCount};
pub(crate) use statistics::{cardinality, head_cardinality};

use std::sync::Arc;

use crate::buckets::Buckets;
use crate::context::Context;
use crate::ingest::head::Head;

/// Reads head and buckets. Without a head, as in a process that does not write, the buckets alone.
pub(crate) struct Reader {
    context: Arc<Context>,
    buckets: Arc<Buckets>,
    head: Option<Arc<Head>>,
}

impl Reader {
    pub(crate) fn new(
        context: &Arc<Context>,
        buckets: &Arc<Buckets>,
        head: Option<&Arc<Head>>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            buckets: Arc::clone(buckets),
            head: head.cloned(),
        }
    }
}
