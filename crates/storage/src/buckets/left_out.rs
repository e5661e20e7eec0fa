//! Which series levels leave out, because an override keeps them for no time there.
//!
//! ```text
//! overrides ─► groups of series, by level ─► meta of every bucket of windows that is made
//!                    └─ compared with what a bucket has left out ─► what it lacks
//! ```
//!
//! Holds always:
//! - A group is what an override matches and none before it does that keeps the level. Two groups
//!   with one hash have the same series, whatever else the policies say. So an override that is
//!   added, or dropped, behind the others changes no group but its own.
//! - A bucket that was left without a group that the policy in effect does not leave out lacks
//!   series, perhaps. It may as well lack none: nobody looks at labels for this.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;
use xxhash_rust::xxh3::xxh3_64;

/// Groups of series, as hashes.
pub(crate) type Groups = BTreeSet<u64>;

/// Nothing is left out.
pub(crate) const NOTHING: &Groups = &Groups::new();

/// What each level of a policy leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The levels of the policy in effect.
    levels: BTreeMap<Resolution, Groups>,
    /// The same of the first policy of this process, which made the buckets that do not say what
    /// they have left out. They are older than the note of it.
    first: Option<BTreeMap<Resolution, Groups>>,
}

impl LeftOut {
    /// Another policy is in effect.
    pub(crate) fn set_policy(&mut self, policy: Option<&RetentionPolicy>) {
        self.levels = policy.map(groups).unwrap_or_default();
        if policy.is_some() && self.first.is_none() {
            self.first = Some(self.levels.clone());
        }
    }

    /// Whether the policy has a level.
    pub(crate) fn is_named(&self, resolution: Resolution) -> bool {
        self.levels.contains_key(&resolution)
    }

    /// What a level leaves out. One that the policy does not name is made for the sake of others.
    pub(crate) fn of(&self, resolution: Resolution) -> &Groups {
        self.levels.get(&resolution).unwrap_or(NOTHING)
    }

    /// What a bucket of a level has left out that does not say it.
    pub(crate) fn assumed(&self, resolution: Resolution) -> &Groups {
        let first = self.first.as_ref();
        first
            .and_then(|first| first.get(&resolution))
            .unwrap_or(NOTHING)
    }
}

/// What the levels of a policy leave out.
fn groups(policy: &RetentionPolicy) -> BTreeMap<Resolution, Groups> {
    let levels = policy.levels().iter().map(|level| level.resolution);
    levels
        .map(|level| (level, groups_of(policy, level)))
        .collect()
}

fn groups_of(policy: &RetentionPolicy, resolution: Resolution) -> Groups {
    let (mut groups, mut kept) = (Groups::new(), String::new());
    let classes = policy.classes().skip(1);
    for (series, class) in policy.overrides().iter().zip(classes) {
        if policy.reaches(class, resolution) {
            kept.push_str(&format!("{series}\n"));
        } else {
            groups.insert(xxh3_64(format!("{series}\n{kept}").as_bytes()));
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use icecore_model::retention::{LateData, Override, Retention};
    use icecore_model::{HOUR_MS, Matcher};

    use super::*;

    const FIVE: Resolution = Resolution::FIVE_MINUTES;
    const HOURLY: Resolution = Resolution::HOUR;

    fn policy(overrides: &[(&str, &[Resolution])]) -> RetentionPolicy {
        let levels = RetentionPolicy::default_levels().levels().to_vec();
        let of = |(team, without): &(&str, &[Resolution])| Override {
            matchers: vec![Matcher::equal("team", *team)],
            retain: match without {
                [] => vec![(Resolution::RAW, Retention::For(48 * HOUR_MS))],
                without => without.iter().map(|r| (*r, Retention::NOT_KEPT)).collect(),
            },
        };
        let overrides = overrides.iter().map(of).collect();
        RetentionPolicy::new(levels, 2 * HOUR_MS, LateData::Reject, overrides).unwrap()
    }

    fn left_out(overrides: &[(&str, &[Resolution])]) -> LeftOut {
        let mut left_out = LeftOut::default();
        left_out.set_policy(Some(&policy(overrides)));
        left_out
    }

    #[test]
    fn a_group_depends_on_what_can_change_its_series() {
        let (both, none): (&[Resolution], &[Resolution]) = (&[FIVE, HOURLY], &[]);
        let one = left_out(&[("a", both)]);
        assert_eq!((one.of(FIVE).len(), one.of(HOURLY).len()), (1, 1));
        assert_eq!(one.of(Resolution::RAW), NOTHING);
        let behind = left_out(&[("a", both), ("b", none), ("c", both)]);
        assert!(one.of(FIVE).is_subset(behind.of(FIVE)));
        assert_eq!(behind.of(FIVE).len(), 2);
        // Those that are left out as well change nothing, wherever they are.
        let before = left_out(&[("c", both), ("a", both)]);
        assert!(one.of(FIVE).is_subset(before.of(FIVE)));
        // One that keeps the level takes series out of the group.
        let kept = left_out(&[("c", none), ("a", both)]);
        assert!(one.of(FIVE).is_disjoint(kept.of(FIVE)));
        // A level that is not kept, and is needed for one that is.
        let needed = left_out(&[("a", &[FIVE])]);
        assert_eq!((needed.of(FIVE), needed.of(HOURLY)), (NOTHING, NOTHING));
    }

    #[test]
    fn buckets_that_say_nothing_are_of_the_first_policy() {
        let mut left_out = LeftOut::default();
        left_out.set_policy(None);
        assert!(!left_out.is_named(FIVE));
        left_out.set_policy(Some(&policy(&[("a", &[FIVE, HOURLY])])));
        let first = left_out.of(FIVE).clone();
        left_out.set_policy(Some(&policy(&[])));
        assert!(left_out.is_named(FIVE) && left_out.of(FIVE).is_empty());
        assert_eq!(*left_out.assumed(FIVE), first);
        left_out.set_policy(None);
        assert_eq!(*left_out.assumed(FIVE), first);
    }
}
