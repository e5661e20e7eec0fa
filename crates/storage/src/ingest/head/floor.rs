//! Time that is too old: its samples have been culled, and what comes late would stand alone there.
//!
//! Holds always:
//! - Once it is raised, no request that was decoded before is appended below it: an append looks at
//!   it again, and raising it waits for appends that are under way.
//! - What is taken is kept: a sample that is older than everything which the policy keeps of its
//!   class of series is refused, although others of its time may be taken.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use icecore_model::retention::{LateData, RetentionPolicy};
use icecore_model::{BucketStart, Labels};
use icecore_records::Bucket;

use super::Head;
use crate::buckets::kept_since::KeptClasses;
use crate::buckets::levels::Listed;
use crate::buckets::ranges::{contain, joined};

/// Which hours take no samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeFloor {
    /// Says which class a series is of; `None` where there is one.
    policy: Option<Arc<RetentionPolicy>>,
    /// By class, the default first: what is older is not kept.
    kept_since_ms: Vec<i64>,
    /// The latest of them.
    all_kept_since_ms: i64,
    /// Time whose samples are culled, and windows of them are left, joined. What is as old and of
    /// which nothing is left is open to imports of history.
    closed: Vec<Range<i64>>,
}

impl TimeFloor {
    /// Of what is listed under a policy; buckets in `closing` are about to be culled.
    pub(crate) fn new(
        policy: Option<&Arc<RetentionPolicy>>,
        kept_since: &KeptClasses,
        listed: &Listed,
        closing: &[Bucket],
    ) -> Self {
        let merges = policy.is_some_and(|policy| policy.late_data() == LateData::Merge);
        let mut closed = listed.closed_time(merges);
        closed.extend(closing.iter().map(|b| b.start_ms()..b.end_ms()));
        // That a class is kept nowhere is no fault of who sends its samples: they are dropped.
        let kept_since_ms = kept_since.all().iter().map(|class| match class.all_ms {
            i64::MAX => kept_since.since_ms(),
            all_ms => all_ms,
        });
        Self {
            policy: policy.filter(|p| !p.overrides().is_empty()).cloned(),
            kept_since_ms: kept_since_ms.clone().collect(),
            all_kept_since_ms: kept_since_ms.max().unwrap_or(i64::MIN),
            closed: joined(closed),
        }
    }

    /// Whether samples of an hour are refused of some series, perhaps of all.
    pub(crate) fn refuses_some(&self, hour: BucketStart) -> bool {
        let time_ms = hour.start_ms();
        time_ms < self.all_kept_since_ms || contain(&self.closed, time_ms)
    }

    /// Whether samples of an hour are refused of a class.
    pub(crate) fn refuses(&self, hour: BucketStart, class: usize) -> bool {
        let time_ms = hour.start_ms();
        let since_ms = self.kept_since_ms.get(class);
        since_ms.is_some_and(|since_ms| time_ms < *since_ms) || contain(&self.closed, time_ms)
    }

    pub(crate) fn class_of(&self, labels: &Labels) -> usize {
        let policy = self.policy.as_ref();
        policy.map_or(0, |policy| policy.class_of(labels).index())
    }

    /// Whether there are classes to tell apart.
    pub(super) fn has_classes(&self) -> bool {
        self.policy.is_some()
    }

    /// Whether hours are refused that a request was told it may have samples of: some of all
    /// series, others of classes as `before` has them.
    pub(super) fn rose(
        &self,
        before: &Self,
        mut hours: impl Iterator<Item = BucketStart>,
        of_classes: &BTreeSet<(BucketStart, usize)>,
    ) -> bool {
        let is_same_policy = self.policy == before.policy;
        hours.any(|hour| {
            let mut classes = of_classes.range((hour, 0)..=(hour, usize::MAX));
            let is_taken = before.refuses_some(hour)
                && is_same_policy
                && classes.all(|(hour, class)| !self.refuses(*hour, *class));
            self.refuses_some(hour) && !is_taken
        })
    }
}

impl Head {
    pub(super) fn floor(&self) -> Arc<TimeFloor> {
        Arc::clone(&self.floor.read())
    }

    /// Sets the floor, and waits for appends that are under way.
    pub(crate) fn set_floor(&self, floor: TimeFloor) {
        if **self.floor.read() == floor {
            return;
        }
        let _no_append = self.sequencer.lock();
        *self.floor.write() = Arc::new(floor);
    }
}

#[cfg(test)]
mod tests;
