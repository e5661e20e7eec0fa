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
mod bucket_figures;
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
mod remnants;
mod resolve;
mod samples;
mod select;
mod statistics;
mod unite;
mod windows;

pub(crate) use bucket_figures::bucket_figures;
pub use bucket_figures::{BucketFigures, BucketRole};
pub(crate) use catalog::catalog_records;
pub(crate) use exemplars::exemplars;
pub use exemplars::{ExemplarList, ExemplarQuery};
pub use labels::{LabelQuery, SeriesList};
pub(crate) use labels::{label_names, label_values, series};
pub(crate) use postings::{BucketView, resolve};
pub(crate) use resolve::{bucket_meta_of, views_of};
pub(crate) use select::SelectStream;
pub use statistics::{Cardinality, FocusCounts, NamedCount, Ranking};
pub(crate) use statistics::{cardinality, head_cardinality, head_metrics};

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use icecore_model::rollup::{RollupChoice, WindowFields};
use icecore_model::{BucketStart, Labels, Levels, RolledTime};
use icecore_records::Bucket;
use parking_lot::Mutex;

use crate::buckets::kept_since::KeptClasses;
use crate::buckets::{Buckets, LeasedBuckets};
use crate::context::Context;
use crate::ingest::head::Head;
use levels::{LevelPlan, SeriesPlan};

/// Ways to read series that remnants have which are remembered for a selection. Most series that a
/// remnant has, the others have as well.
const REMNANT_PLANS_MAX: usize = 1024;

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
#[derive(Clone, Debug)]
pub(crate) struct ClassLevels {
    kept_since: Arc<KeptClasses>,
    of: Arc<[ClassPlan]>,
}

impl Default for ClassLevels {
    fn default() -> Self {
        Self {
            kept_since: Arc::default(),
            of: Arc::from([]),
        }
    }
}

/// How the series of a class are read.
#[derive(Debug)]
struct ClassPlan {
    plan: LevelPlan,
    /// Those that no remnant has.
    others: SeriesPlan,
    /// Those that remnants have, by these.
    with_remnants: Mutex<HashMap<Vec<Bucket>, SeriesPlan>>,
}

/// How a series is read.
struct SeriesLevels {
    plan: SeriesPlan,
    /// Nothing older is kept of it.
    since_ms: i64,
}

impl ClassPlan {
    fn new(plan: LevelPlan) -> Self {
        Self {
            others: plan.of_series(|_| false),
            plan,
            with_remnants: Mutex::default(),
        }
    }

    /// For a series that is in these buckets.
    fn of(&self, buckets: impl Iterator<Item = Bucket>) -> SeriesPlan {
        if self.plan.remnants.is_empty() {
            return self.others.clone();
        }
        let read = |bucket: &Bucket| self.plan.remnants.iter().any(|r| r.bucket == *bucket);
        let mut remnants: Vec<Bucket> = buckets.filter(read).collect();
        remnants.sort_unstable();
        if remnants.is_empty() {
            return self.others.clone();
        }
        let mut known = self.with_remnants.lock();
        if let Some(plan) = known.get(&remnants) {
            return plan.clone();
        }
        let plan = self.plan.of_series(|bucket| remnants.contains(&bucket));
        if known.len() < REMNANT_PLANS_MAX {
            known.insert(remnants, plan.clone());
        }
        plan
    }
}

impl ClassLevels {
    /// Of all classes, and of those series of a class that all remnants have.
    pub(crate) fn all(&self) -> Vec<Arc<Levels>> {
        let plans = self.of.iter().flat_map(|class| {
            let remnants = class.plan.remnants.iter().map(|remnant| remnant.bucket);
            let has_some = !class.plan.remnants.is_empty();
            let with_all = has_some.then(|| class.of(remnants));
            std::iter::once(class.others.clone()).chain(with_all)
        });
        plans.map(|plan| plan.levels).collect()
    }

    /// How a series is read that is in these buckets.
    fn of(&self, labels: &Labels, buckets: impl Iterator<Item = Bucket>) -> SeriesLevels {
        let class = self.kept_since.class_of(labels);
        SeriesLevels {
            plan: self.of[class].of(buckets),
            since_ms: self.kept_since.all()[class].all_ms,
        }
    }

    /// Whether series are answered by raw samples alone, all that there are.
    fn are_raw(&self, start_ms: i64) -> bool {
        let mut classes = self.kept_since.all().iter();
        let is_raw = |class: &ClassPlan| {
            let SeriesPlan { levels, late } = &class.others;
            levels.segments.is_empty() && late.gone.is_empty()
        };
        self.of.iter().all(is_raw) && classes.all(|class| class.all_ms <= start_ms)
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
            (RolledTime::Windows(choice, _), Some(coarsest)) if choice.rounds_down() => {
                (start_ms.saturating_sub(2 * coarsest.ms()), end_ms)
            }
            (RolledTime::Windows(..), Some(coarsest)) => (coarsest.floor(start_ms), end_ms),
            _ => (start_ms, end_ms),
        }
    }

    /// Leaves out what is older than anything that is kept.
    fn kept(&self, (start_ms, end_ms): (i64, i64)) -> (i64, i64) {
        (start_ms.max(self.kept_since_ms()), end_ms)
    }

    /// Returns the time before which nothing is kept of any series.
    fn kept_since_ms(&self) -> i64 {
        self.buckets.kept_since().since_ms()
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
        let levels = ClassLevels {
            kept_since,
            of: plans.into_iter().map(ClassPlan::new).collect(),
        };
        LeasedLevels { leased, levels }
    }

    /// The same for the finest level that there is.
    fn lease_finest(&self, range_ms: (i64, i64)) -> LeasedLevels {
        let wanted = (&RollupChoice::default(), WindowFields::NONE);
        self.lease(&self.head_hours(), range_ms, wanted)
    }

    /// The levels that are read of a range, both ends included, by whoever wants samples.
    pub(crate) fn finest_levels(&self, range_ms: (i64, i64)) -> Vec<Arc<Levels>> {
        self.lease_finest(self.kept(range_ms)).levels.all()
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
