//! What is older than a policy keeps it, while it is still there.

use std::collections::BTreeMap;

use icecore_model::HOUR_MS;
use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;

/// Since when levels are kept. What is older waits to be culled, which happens by large units, and
/// is left out of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptSince {
    /// The levels of the policy. What is older is left out where a coarser level has it.
    pub(crate) levels: BTreeMap<Resolution, i64>,
    /// What is older is kept nowhere.
    pub(crate) all_ms: i64,
}

impl Default for KeptSince {
    fn default() -> Self {
        Self {
            levels: BTreeMap::new(),
            all_ms: i64::MIN,
        }
    }
}

impl KeptSince {
    pub(crate) fn new(policy: Option<&RetentionPolicy>, now_ms: i64) -> Self {
        let this_hour_ms = now_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let mut kept_since = Self::default();
        let Some(policy) = policy else {
            return kept_since;
        };
        for level in policy.levels() {
            let retain_ms = policy.longest(level.resolution).ms();
            let since_ms = retain_ms.map(|retain_ms| this_hour_ms.saturating_sub(retain_ms));
            // The coarsest is the last.
            kept_since.all_ms = since_ms.unwrap_or(i64::MIN);
            let since_ms = kept_since.all_ms;
            kept_since.levels.insert(level.resolution, since_ms);
        }
        kept_since
    }

    /// Whether all of the time up to `end_ms` is older than a level is kept.
    pub(crate) fn is_older(&self, resolution: Resolution, end_ms: i64) -> bool {
        self.levels
            .get(&resolution)
            .is_some_and(|since_ms| end_ms <= *since_ms)
    }

    /// Whether a level that lies between two others is kept for some of the time up to `end_ms`.
    pub(crate) fn is_kept_between(
        &self,
        (finer, coarser): (Resolution, Resolution),
        end_ms: i64,
    ) -> bool {
        let mut between = self.levels.range(finer..coarser);
        between.any(|(level, since_ms)| *level > finer && end_ms > *since_ms)
    }
}
