//! Raw samples that most series can do without, and some cannot.
//!
//! Holds always:
//! - The raw level is whole in the time of a remnant that is made, and all of it goes: a series has
//!   all of its samples in the remnant, or none.
//! - It goes for the same reasons, and is kept for the same reasons, as any level that is culled.

use icecore_model::rollup::Resolution;
use icecore_records::Bucket;

use std::collections::BTreeMap;

use super::{CullPlan, KeptBack, RetentionInput, windows_of};
use crate::buckets::ladder;

/// A remnant to be built in place of raw buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemnantPlan {
    pub(crate) target: Bucket,
    /// In time order; never empty.
    pub(crate) sources: Vec<Bucket>,
    /// Nothing older is left of the raw level then.
    pub(crate) watermark_ms: i64,
}

impl RemnantPlan {
    /// What goes with it.
    pub(crate) fn cull(&self) -> CullPlan {
        CullPlan {
            resolution: Resolution::RAW,
            buckets: self.sources.clone(),
            units: vec![self.target],
            watermark_ms: self.watermark_ms,
        }
    }
}

/// Everything that could be built now, the oldest first, and what stands in the way of the rest.
pub(crate) fn remnants(input: &RetentionInput<'_>) -> (Vec<RemnantPlan>, Vec<KeptBack>) {
    let (mut plans, mut kept_back) = (Vec::new(), Vec::new());
    let raw = input.rules.iter().position(|rule| rule.resolution.is_raw());
    let general = raw.and_then(|raw| Some((raw, input.rules[raw].general_ms?)));
    let Some((raw, general_ms)) = general else {
        return (plans, kept_back);
    };
    let size = ladder::remnant();
    // What was made of a bucket is all there, or all gone, so that larger windows keep the level.
    if input.cull_unit(raw) > size {
        return (plans, kept_back);
    }
    let expired_ms = input.this_hour_ms().saturating_sub(general_ms);
    let mut windows: BTreeMap<Bucket, Vec<Bucket>> = BTreeMap::new();
    for bucket in input.listed.raw() {
        let window = windows_of(*bucket, size).next();
        let window = window.filter(|w| w.end_ms() <= expired_ms && input.may_become(*w));
        if let Some(window) = window {
            windows.entry(window).or_default().push(*bucket);
        }
    }
    for (target, mut sources) in windows {
        sources.sort_unstable_by_key(|bucket| (bucket.start, bucket.size));
        let reason = input.reason_to_keep(raw, target, &sources);
        if let Some(reason) = reason.or_else(|| input.lacking_above(raw, &sources)) {
            kept_back.push(KeptBack {
                resolution: Resolution::RAW,
                bucket: sources[0],
                reason,
            });
            continue;
        }
        let watermark_ms = input.watermark_ms(Resolution::RAW, &sources, &[target]);
        plans.push(RemnantPlan {
            target,
            sources,
            watermark_ms,
        });
    }
    (plans, kept_back)
}

impl RetentionInput<'_> {
    /// Whether a window can have a remnant. Where something of the raw level has gone before, it
    /// would lack samples of its series.
    fn may_become(&self, window: Bucket) -> bool {
        !self.listed.contains(window)
            && !self.retired.contains_key(&window)
            && self.listed.is_whole(Resolution::RAW, window)
    }
}
