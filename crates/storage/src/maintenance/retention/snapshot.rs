//! What plans of retention are made from, copied.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::BucketStart;
use icecore_model::retention::{ColumnSet, RetentionClass, RetentionPolicy};
use icecore_model::rollup::Resolution;
use icecore_records::Bucket;

use super::plan::{
    self, CullPlan, KeptBack, LargerPlan, LevelRule, MergePlan, RemnantPlan, RetentionInput,
    RollUpPlan,
};
use crate::buckets::Retired;
use crate::buckets::levels::Listed;
use crate::maintenance::Maintenance;

/// What a plan is made from, at one moment.
pub(crate) struct RetentionSnapshot {
    rules: Vec<LevelRule>,
    listed: Listed,
    retired: Retired,
    written_ms: BTreeMap<Bucket, i64>,
    busy_hours: BTreeSet<BucketStart>,
    now_ms: i64,
    elapsed_ms: i64,
    retention_now_ms: i64,
    delay_ms: i64,
    /// When buckets were written before this process began is not known to it.
    knows_writes: bool,
}

impl RetentionSnapshot {
    /// `frozen` are hours that a flush has not finished with. `None` without a policy. The caller
    /// holds the flush lock, or does not mind a flush that is half done.
    pub(crate) fn of(
        maintenance: &Maintenance,
        frozen: BTreeSet<BucketStart>,
        everything: bool,
    ) -> Option<Self> {
        let policy = maintenance.retention.policy()?;
        let clock = &maintenance.context.clock;
        let (now_ms, elapsed_ms) = (clock.now_ms(), clock.elapsed_ms());
        let delay_ms = if everything {
            0
        } else {
            policy.rollup_delay_ms()
        };
        let mut busy_hours = frozen;
        busy_hours.extend(maintenance.ingest.head().open_hours());
        let retired = maintenance.buckets.retired().clone();
        let mut listed = maintenance.buckets.levels().clone();
        listed.set_policy(Some(&policy));
        let since_ms = elapsed_ms.saturating_sub(delay_ms);
        let recent = maintenance.buckets.recent().of(&listed, since_ms);
        Some(Self {
            rules: rules(&policy, &listed),
            listed,
            retired,
            written_ms: recent.written_ms,
            busy_hours,
            now_ms,
            elapsed_ms,
            retention_now_ms: maintenance.retention.now_ms(),
            delay_ms,
            knows_writes: maintenance.context.open_for_ms() >= delay_ms,
        })
    }

    fn input(&self) -> RetentionInput<'_> {
        RetentionInput {
            rules: &self.rules,
            listed: &self.listed,
            retired: &self.retired,
            written_ms: &self.written_ms,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
            elapsed_ms: self.elapsed_ms,
            retention_now_ms: self.retention_now_ms,
            delay_ms: self.delay_ms,
        }
    }

    /// What could be rolled up now.
    pub(crate) fn roll_ups(&self) -> Vec<RollUpPlan> {
        if self.knows_writes {
            plan::roll_ups(&self.input())
        } else {
            Vec::new()
        }
    }

    /// Buckets of windows to be made again.
    pub(crate) fn outdated(&self) -> Vec<Bucket> {
        if self.knows_writes {
            plan::outdated(&self.input())
        } else {
            Vec::new()
        }
    }

    /// Overlays to be merged into windows.
    pub(crate) fn merges(&self) -> Vec<MergePlan> {
        if self.knows_writes {
            plan::merges(&self.input())
        } else {
            Vec::new()
        }
    }

    /// Buckets of windows that could become larger ones now.
    pub(crate) fn larger_buckets(&self) -> Vec<LargerPlan> {
        plan::larger_buckets(&self.input())
    }

    /// Remnants that could be built now, and raw buckets that most series could do without.
    pub(crate) fn remnants(&self) -> (Vec<RemnantPlan>, Vec<KeptBack>) {
        plan::remnants(&self.input())
    }

    /// What levels can do without now, and what is kept for longer than the policy says.
    pub(crate) fn culls(&self) -> (Vec<CullPlan>, Vec<KeptBack>) {
        plan::culls(&self.input())
    }
}

/// A level is kept for as long as any class of series needs it, though raw samples of some classes
/// can be kept without the others; one that the policy does not name for as long as the finer ones.
pub(super) fn rules(policy: &RetentionPolicy, listed: &Listed) -> Vec<LevelRule> {
    let named = policy.levels().iter().map(|level| level.resolution);
    let all: BTreeSet<Resolution> = named.chain(listed.resolutions()).collect();
    let mut rules: Vec<LevelRule> = Vec::new();
    for resolution in all {
        let finer = rules.last().and_then(|finer| finer.retain_ms);
        let level = policy.level(resolution);
        rules.push(LevelRule {
            resolution,
            retain_ms: level.map_or(finer, |_| policy.longest(resolution).ms()),
            general_ms: general_ms(policy, resolution),
            lean: level.is_some_and(|level| level.columns == ColumnSet::Lean),
            is_wanted: level.is_some(),
        });
    }
    rules
}

/// When the series that no override matches can do without raw samples, if others cannot.
fn general_ms(policy: &RetentionPolicy, resolution: Resolution) -> Option<i64> {
    let general = policy.retain(RetentionClass::DEFAULT, resolution);
    let outlives = |class| policy.outlives(class, resolution);
    let has_longer = resolution.is_raw() && policy.classes().any(outlives);
    general.ms().filter(|_| has_longer)
}
