//! What is older than a policy keeps it, while it is still there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::retention::{RetentionClass, RetentionPolicy};
use icecore_model::rollup::Resolution;
use icecore_model::{HOUR_MS, Labels};

/// Since when levels of a class of series are kept. What is older waits to be culled, which happens
/// by large units, and is left out of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptSince {
    /// The levels of the policy. What is older is left out where a coarser level has it.
    pub(crate) levels: BTreeMap<Resolution, i64>,
    /// Levels that do not have these series at all.
    pub(crate) not_kept: BTreeSet<Resolution>,
    /// What is older is kept nowhere.
    pub(crate) all_ms: i64,
}

impl Default for KeptSince {
    fn default() -> Self {
        Self {
            levels: BTreeMap::new(),
            not_kept: BTreeSet::new(),
            all_ms: i64::MIN,
        }
    }
}

impl KeptSince {
    fn new(policy: &RetentionPolicy, class: RetentionClass, this_hour_ms: i64) -> Self {
        let mut kept_since = Self::default();
        for level in policy.levels() {
            let resolution = level.resolution;
            let retain = policy.retain(class, resolution);
            if retain.is_not_kept() {
                kept_since.not_kept.insert(resolution);
                continue;
            }
            let since_ms = retain
                .ms()
                .map(|retain_ms| this_hour_ms.saturating_sub(retain_ms));
            // The coarsest is the last.
            kept_since.all_ms = since_ms.unwrap_or(i64::MIN);
            kept_since.levels.insert(resolution, kept_since.all_ms);
        }
        if policy
            .levels()
            .iter()
            .all(|l| kept_since.not_kept.contains(&l.resolution))
        {
            kept_since.all_ms = i64::MAX;
        }
        kept_since
    }

    /// Older raw samples are not kept.
    fn raw_ms(&self) -> i64 {
        match self.levels.get(&Resolution::RAW) {
            Some(since_ms) => *since_ms,
            None if self.not_kept.contains(&Resolution::RAW) => i64::MAX,
            None => i64::MIN,
        }
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

/// The same for every class of a policy.
#[derive(Clone, Debug)]
pub(crate) struct KeptClasses {
    /// `None`: there is one class.
    policy: Option<Arc<RetentionPolicy>>,
    /// The default first.
    of: Vec<KeptSince>,
}

impl Default for KeptClasses {
    fn default() -> Self {
        Self {
            policy: None,
            of: vec![KeptSince::default()],
        }
    }
}

impl KeptClasses {
    pub(crate) fn new(policy: Option<&Arc<RetentionPolicy>>, now_ms: i64) -> Self {
        let Some(policy) = policy else {
            return Self::default();
        };
        let this_hour_ms = now_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let classes = policy.classes();
        Self {
            policy: (!policy.overrides().is_empty()).then(|| Arc::clone(policy)),
            of: classes
                .map(|class| KeptSince::new(policy, class, this_hour_ms))
                .collect(),
        }
    }

    pub(crate) fn all(&self) -> &[KeptSince] {
        &self.of
    }

    /// The place of the class of a series among [`Self::all`].
    pub(crate) fn class_of(&self, labels: &Labels) -> usize {
        let policy = self.policy.as_ref();
        policy.map_or(0, |policy| policy.class_of(labels).index())
    }

    /// What is older is kept of no series.
    pub(crate) fn since_ms(&self) -> i64 {
        let since = self.of.iter().map(|class| class.all_ms);
        since.min().unwrap_or(i64::MIN)
    }

    /// The same of raw samples.
    pub(crate) fn raw_since_ms(&self) -> i64 {
        let raw = self.of.iter().map(KeptSince::raw_ms);
        raw.min().unwrap_or(i64::MIN)
    }

    /// Raw samples of a series that are older are not kept.
    pub(crate) fn raw_since_ms_of(&self, labels: &Labels) -> i64 {
        self.of[self.class_of(labels)].raw_ms()
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::Matcher;
    use icecore_model::retention::{LateData, Override, Retention};

    use super::*;

    const DAY_MS: i64 = 24 * HOUR_MS;

    #[test]
    fn each_class_has_its_times() {
        let levels = RetentionPolicy::default_levels().levels().to_vec();
        let of = |name: &str, retain: &[(Resolution, Retention)]| Override {
            matchers: vec![Matcher::equal("team", name)],
            retain: retain.to_vec(),
        };
        let (raw, five) = (Resolution::RAW, Resolution::FIVE_MINUTES);
        let hour = Resolution::HOUR;
        let none = Retention::NOT_KEPT;
        let debug = of(
            "debug",
            &[
                (raw, Retention::For(3 * DAY_MS)),
                (five, none),
                (hour, none),
            ],
        );
        let billing = of("billing", &[(hour, Retention::Forever)]);
        let policy =
            RetentionPolicy::new(levels, 2 * HOUR_MS, LateData::Reject, vec![debug, billing]);
        let policy = Arc::new(policy.unwrap());
        let now_ms = 1000 * DAY_MS + 5;
        let classes = KeptClasses::new(Some(&policy), now_ms);
        let since: Vec<i64> = classes.all().iter().map(|class| class.all_ms).collect();
        assert_eq!(since, [635 * DAY_MS, 997 * DAY_MS, i64::MIN]);
        assert_eq!(
            (classes.since_ms(), classes.raw_since_ms()),
            (i64::MIN, 979 * DAY_MS)
        );
        assert_eq!(classes.all()[1].not_kept, BTreeSet::from([five, hour]));
        let labels = |team: &str| Labels::from_pairs([("team", team)]);
        let classes_of = ["debug", "billing", "other"].map(|team| classes.class_of(&labels(team)));
        assert_eq!(classes_of, [1, 2, 0]);
        let raw_since =
            ["debug", "billing", "other"].map(|team| classes.raw_since_ms_of(&labels(team)));
        assert_eq!(raw_since, [997, 979, 979].map(|day| day * DAY_MS));
        let class = &classes.all()[0];
        assert!(class.is_older(raw, 979 * DAY_MS) && !class.is_older(raw, 979 * DAY_MS + 1));
        assert_eq!(KeptClasses::new(None, now_ms).all(), [KeptSince::default()]);
    }
}
