//! Buckets of windows that become one larger bucket with the same windows.
//!
//! Holds always: they are all that is left of their time, so nothing is made of them again, and
//! what is known of one is known of all ([`Listed::coarsened`](crate::buckets::levels::Listed)).

use icecore_model::rollup::Resolution;
use icecore_records::Bucket;

use super::super::super::plan::hours_in;
use super::{RetentionInput, windows_of};

/// A larger bucket to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LargerPlan {
    pub(crate) target: Bucket,
    pub(crate) resolution: Resolution,
    pub(crate) lean: bool,
    /// In time order.
    pub(crate) sources: Vec<Bucket>,
}

/// Everything that could be built now, finer levels first, of one level the oldest.
pub(crate) fn larger_buckets(input: &RetentionInput<'_>) -> Vec<LargerPlan> {
    let mut plans: Vec<LargerPlan> = Vec::new();
    for rule in input.rules.iter().filter(|rule| rule.is_wanted) {
        let resolution = rule.resolution;
        let wanted = input.rules.iter().filter(|rule| rule.is_wanted);
        let wanted = wanted.map(|rule| rule.resolution);
        let Some(larger) = input.listed.sizes().larger(resolution, wanted) else {
            continue;
        };
        if rule.retain_ms.is_some_and(|ms| ms < larger.retain_min_ms) {
            continue;
        }
        let listed = input.listed.level(resolution).into_iter().flatten();
        let smaller = listed.filter(|bucket| bucket.size < larger.size);
        let targets = smaller.flat_map(|bucket| windows_of(*bucket, larger.size));
        let mut targets: Vec<Bucket> = targets.collect();
        targets.dedup();
        let now_ms = input.now_ms.min(input.retention_now_ms);
        let closed_ms = now_ms.saturating_sub(larger.closed_ms);
        let closed = targets.into_iter().filter(|t| t.end_ms() <= closed_ms);
        plans.extend(closed.filter_map(|target| input.larger_of(resolution, target)));
    }
    plans
}

impl RetentionInput<'_> {
    fn larger_of(&self, resolution: Resolution, target: Bucket) -> Option<LargerPlan> {
        let sources = self.listed.level_in(resolution, target);
        let is_free = !self.listed.contains(target) && !self.retired.contains_key(&target);
        let is_busy = hours_in(self.busy_hours, target).next().is_some();
        let facts = self.listed.coarsened(target, &sources).ok();
        // Late samples are merged into the smaller ones first.
        let is_late = !self.listed.overlays_in(target).is_empty();
        let facts = facts.filter(|_| is_free && !is_busy && !is_late)?;
        Some(LargerPlan {
            target,
            resolution,
            lean: facts.is_lean,
            sources,
        })
    }
}
