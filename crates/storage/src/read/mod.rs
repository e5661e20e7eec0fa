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
mod catalog;
mod chunks;
mod coarse;
mod columns;
mod exemplars;
mod gather;
mod labels;
mod late;
mod left_samples;
pub(crate) mod levels;
mod postings;
mod presence;
mod resolve;
mod samples;
mod select;
mod statistics;
mod unite;
mod windows;

pub(crate) use catalog::catalog_records;
pub use exemplars::ExemplarQuery;
pub(crate) use exemplars::exemplars;
pub use labels::{LabelQuery, SeriesList};
pub(crate) use labels::{label_names, label_values, series};
pub(crate) use postings::{BucketView, resolve};
pub(crate) use resolve::{bucket_meta_of, views_of};
pub(crate) use select::SelectStream;
pub use statistics::{Cardinality, NamedCount};
pub(crate) use statistics::{cardinality, head_cardinality};

use std::collections::BTreeSet;
use std::sync::Arc;

use icecore_model::rollup::{RollupChoice, WindowFields};
use icecore_model::{BucketStart, Labels, Levels, RolledTime};
use icecore_records::Bucket;

use crate::buckets::kept_since::KeptClasses;
use crate::buckets::{Buckets, LeasedBuckets};
use crate::context::Context;
use crate::ingest::head::Head;
use levels::{LateTime, LevelPlan};

/// Reads head and buckets. Without a head, as in a process that does not write, the buckets alone.
pub(crate) struct Reader {
    context: Arc<Context>,
    buckets: Arc<Buckets>,
    head: Option<Arc<Head>>,
}

/// Buckets to read, and which level answers which part of the time.
pub(crate) struct LeasedLevels {
    pub(crate) leased: LeasedBuckets,
    pub(crate) levels: ClassLevels,
}

/// Which level answers which part of the time, for each class of series.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassLevels {
    kept_since: Arc<KeptClasses>,
    of: Vec<Arc<Levels>>,
    late: Vec<LateTime>,
}

/// How a series is read.
struct SeriesLevels<'c> {
    levels: &'c Arc<Levels>,
    /// Nothing older is kept of it.
    since_ms: i64,
    late: &'c LateTime,
}

impl ClassLevels {
    pub(crate) fn all(&self) -> &[Arc<Levels>] {
        &self.of
    }

    fn of(&self, labels: &Labels) -> SeriesLevels<'_> {
        let class = self.kept_since.class_of(labels);
        SeriesLevels {
            levels: &self.of[class],
            since_ms: self.kept_since.all()[class].all_ms,
            late: &self.late[class],
        }
    }

    /// Whether series are answered by raw samples alone, all that there are.
    fn are_raw(&self, start_ms: i64) -> bool {
        let mut classes = self.kept_since.all().iter();
        self.of.iter().all(|levels| levels.segments.is_empty())
            && self.late.iter().all(|late| late.gone.is_empty())
            && classes.all(|class| class.all_ms <= start_ms)
    }
}

impl Reader {
    /// The hours that the head has something of. Asked before buckets are leased: an hour that is
    /// flushed in between is then known twice, not never.
    fn head_hours(&self) -> BTreeSet<BucketStart> {
        let head = self.head.as_ref();
        head.map_or_else(BTreeSet::new, |head| head.held_hours())
    }

    /// The range that has to be read so that windows that begin before it are whole, and so are
    /// those that an evaluation between two windows is rounded down to.
    fn widened(&self, (start_ms, end_ms): (i64, i64), rolled: RolledTime) -> (i64, i64) {
        let levels = self.buckets.levels();
        match (rolled, levels.rolled().keys().next_back()) {
            (RolledTime::Windows(..), Some(coarsest)) => {
                (start_ms.saturating_sub(2 * coarsest.ms()), end_ms)
            }
            _ => (start_ms, end_ms),
        }
    }

    /// Leaves out what is older than anything that is kept.
    fn kept(&self, (start_ms, end_ms): (i64, i64)) -> (i64, i64) {
        (start_ms.max(self.buckets.kept_since().since_ms()), end_ms)
    }

    /// Leases what answers a range, both ends included.
    fn lease(
        &self,
        head_hours: &BTreeSet<BucketStart>,
        range_ms: (i64, i64),
        wanted: (&RollupChoice, WindowFields),
    ) -> LeasedLevels {
        let kept_since = self.buckets.kept_since();
        let (leased, plans) = self.buckets.lease_chosen(|listed| {
            let plans = kept_since.all().iter().map(|class| {
                let range_ms = (range_ms.0.max(class.all_ms), range_ms.1);
                levels::plan(listed, class, head_hours, range_ms, wanted)
            });
            let plans: Vec<LevelPlan> = plans.collect();
            let buckets = plans.iter().flat_map(|plan| &plan.buckets);
            let buckets: BTreeSet<(BucketStart, Bucket)> =
                buckets.map(|bucket| (bucket.start, *bucket)).collect();
            let buckets = buckets.into_iter().map(|(_, bucket)| bucket);
            (buckets.collect(), plans)
        });
        let plans = plans.into_iter();
        let (of, late) = plans.map(|plan| (Arc::new(plan.levels), plan.late)).unzip();
        let levels = ClassLevels {
            kept_since,
            of,
            late,
        };
        LeasedLevels { leased, levels }
    }

    /// The same for the finest level that there is.
    fn lease_finest(&self, range_ms: (i64, i64)) -> LeasedLevels {
        let wanted = (&RollupChoice::default(), WindowFields::NONE);
        self.lease(&self.head_hours(), range_ms, wanted)
    }

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
