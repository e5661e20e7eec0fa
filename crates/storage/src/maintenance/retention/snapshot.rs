//! What plans of retention are made from, copied.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::BucketStart;
use icecore_model::retention::{ColumnSet, RetentionPolicy};
use icecore_model::rollup::Resolution;
use icecore_records::Bucket;

use super::plan::{self, CullPlan, KeptBack, LevelRule, RetentionInput, RollUpPlan};
use crate::buckets::Retired;
use crate::buckets::levels::Listed;
use crate::maintenance::Maintenance;

/// What a plan is made from, at one moment.
pub(crate) struct RetentionSnapshot {
    rules: Vec<LevelRule>,
    listed: Listed,
    retired: Retired,
    watermarks_ms: BTreeMap<Resolution, i64>,
    written_ms: BTreeMap<Bucket, i64>,
    busy_hours: BTreeSet<BucketStart>,
    now_ms: i64,
    delay_ms: i64,
}

impl RetentionSnapshot {
    /// `frozen` are hours that a flush has not finished with. `None` without a policy, and when it
    /// is too early for any plan. The caller holds the flush lock, or does not mind a flush that is
    /// half done.
    pub(crate) fn of(
        maintenance: &Maintenance,
        frozen: BTreeSet<BucketStart>,
        everything: bool,
    ) -> Option<Self> {
        let policy = maintenance.retention.policy()?;
        let now_ms = maintenance.context.clock.now_ms();
        let delay_ms = if everything {
            0
        } else {
            policy.rollup_delay_ms()
        };
        let mut busy_hours = frozen;
        busy_hours.extend(maintenance.ingest.head().open_hours());
        let retired = maintenance.buckets.retired().clone();
        let listed = maintenance.buckets.levels().clone();
        let since_ms = now_ms.saturating_sub(delay_ms);
        let recent = maintenance.buckets.recent().of(listed.raw(), since_ms);
        Some(Self {
            rules: rules(&policy),
            listed,
            retired,
            watermarks_ms: maintenance.retention.watermarks_ms(),
            written_ms: recent.written_ms,
            busy_hours,
            now_ms,
            delay_ms,
        })
    }

    fn input(&self) -> RetentionInput<'_> {
        RetentionInput {
            rules: &self.rules,
            listed: &self.listed,
            retired: &self.retired,
            watermarks_ms: &self.watermarks_ms,
            written_ms: &self.written_ms,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
            delay_ms: self.delay_ms,
        }
    }

    /// What could be rolled up now.
    pub(crate) fn roll_ups(&self) -> Vec<RollUpPlan> {
        plan::roll_ups(&self.input())
    }

    /// Buckets of windows to be made again.
    pub(crate) fn outdated(&self) -> Vec<Bucket> {
        plan::outdated(&self.input())
    }

    /// What levels can do without now, and what is kept for longer than the policy says.
    pub(crate) fn culls(&self) -> (Vec<CullPlan>, Vec<KeptBack>) {
        plan::culls(&self.input())
    }
}

/// The level that windows of a resolution are made of. Windows that no policy speaks of are taken
/// to be made of samples.
pub(crate) fn source_of(policy: Option<&RetentionPolicy>, resolution: Resolution) -> Resolution {
    let rules = policy.map(rules).unwrap_or_default();
    let level = rules.iter().position(|rule| rule.resolution == resolution);
    let source = level.and_then(|level| plan::source_of(&rules, level));
    source.map_or(Resolution::RAW, |source| rules[source].resolution)
}

/// A level is kept for as long as any class of series needs it.
fn rules(policy: &RetentionPolicy) -> Vec<LevelRule> {
    let levels = policy.levels().iter();
    let rule = |level: &icecore_model::retention::Level| LevelRule {
        resolution: level.resolution,
        retain_ms: policy.longest(level.resolution).ms(),
        lean: level.columns == ColumnSet::Lean,
    };
    levels.map(rule).collect()
}
