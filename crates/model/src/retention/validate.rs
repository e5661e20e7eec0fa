//! What is wrong with a policy, and where in it.

use super::{Level, Override, Retention, RetentionPolicy};
use crate::rollup::{Resolution, rolled_size};
use crate::{BucketSize, HOUR_MS, format_duration_ms};

/// Most levels beside raw: each needs a size of buckets of its own, and a policy that changes needs
/// one more until the old buckets are gone.
pub const ROLLED_LEVELS_MAX: usize = 4;

/// Most overrides: each may be compared with every series.
pub const OVERRIDES_MAX: usize = 256;

/// A part of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyPlace {
    Levels,
    /// The resolution of a level, by its index.
    Resolution(usize),
    /// How long a level is kept.
    Retain(usize),
    RollupDelay,
    Overrides,
    /// An override, by its index.
    Override(usize),
    /// How long an override keeps a level.
    OverrideRetain(usize, Resolution),
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    pub place: PolicyPlace,
    pub reason: String,
}

pub(super) fn problems(policy: &RetentionPolicy) -> Vec<PolicyProblem> {
    let mut problems = Problems(Vec::new());
    if policy.rollup_delay_ms < 0 {
        problems.report(PolicyPlace::RollupDelay, "must not be negative");
    }
    check_resolutions(&policy.levels, &mut problems);
    // Times are only compared between levels that are in order.
    if problems.0.is_empty() {
        check_levels(policy, &mut problems);
        check_overrides(policy, &mut problems);
    }
    problems.0
}

struct Problems(Vec<PolicyProblem>);

impl Problems {
    fn report(&mut self, place: PolicyPlace, reason: impl Into<String>) {
        let reason = reason.into();
        self.0.push(PolicyProblem { place, reason });
    }
}

fn check_resolutions(levels: &[Level], problems: &mut Problems) {
    match levels.first() {
        None => {
            let reason = "expected levels, the first of them raw";
            problems.report(PolicyPlace::Levels, reason);
        }
        Some(first) if !first.resolution.is_raw() => {
            let reason = "the first level must be raw: the others are made of it";
            problems.report(PolicyPlace::Resolution(0), reason);
        }
        Some(_) => {}
    }
    for (index, pair) in levels.windows(2).enumerate() {
        let [finer, level] = [pair[0].resolution, pair[1].resolution];
        // A coarser resolution is always a multiple of a finer one.
        if level <= finer {
            let reason = format!("must be coarser than {finer}, the level before it");
            problems.report(PolicyPlace::Resolution(index + 1), reason);
        }
    }
    if levels.len() > ROLLED_LEVELS_MAX + 1 {
        let reason = format!("expected at most {ROLLED_LEVELS_MAX} levels beside raw");
        problems.report(PolicyPlace::Levels, reason);
    }
}

fn check_levels(policy: &RetentionPolicy, problems: &mut Problems) {
    let sizes = target_sizes(&policy.levels);
    for (index, level) in policy.levels.iter().enumerate() {
        let place = PolicyPlace::Retain(index);
        let target = sizes.get(index + 1).copied().flatten();
        if level.retain.is_not_kept() {
            problems.report(
                place,
                "must not be 0: leave the level out, or use overrides",
            );
        } else if let Some(reason) = unfit(level.retain, target, policy.rollup_delay_ms) {
            problems.report(place, reason);
        }
        let finer = index.checked_sub(1).map(|finer| policy.levels[finer]);
        if let Some(finer) = finer.filter(|finer| finer.retain > level.retain) {
            problems.report(place, shorter(finer.resolution, finer.retain));
        }
    }
}

fn check_overrides(policy: &RetentionPolicy, problems: &mut Problems) {
    if policy.overrides.len() > OVERRIDES_MAX {
        let reason = format!("expected at most {OVERRIDES_MAX} overrides");
        problems.report(PolicyPlace::Overrides, reason);
    }
    for (index, exception) in policy.overrides.iter().enumerate() {
        if exception.matchers.is_empty() {
            let reason = "must match some series and not all";
            problems.report(PolicyPlace::Override(index), reason);
        }
        if exception.retain.is_empty() {
            let reason = "expected how long a level is kept, as in raw: 3d";
            problems.report(PolicyPlace::Override(index), reason);
        }
        for (position, (resolution, _)) in exception.retain.iter().enumerate() {
            let place = PolicyPlace::OverrideRetain(index, *resolution);
            if policy.level(*resolution).is_none() {
                problems.report(place, format!("{resolution} is no level of this policy"));
            }
            let before = exception.retain.iter().take(position);
            if before.clone().any(|(other, _)| other == resolution) {
                problems.report(place, "is given twice");
            }
        }
        check_override(policy, index, exception, problems);
    }
}

/// Checks the times that hold for the series of an override, its own and those of the policy.
fn check_override(
    policy: &RetentionPolicy,
    index: usize,
    exception: &Override,
    problems: &mut Problems,
) {
    let place = |resolution| PolicyPlace::OverrideRetain(index, resolution);
    let sizes = target_sizes(&policy.levels);
    let kept: Vec<(usize, Resolution, Retention)> = (policy.levels.iter().enumerate())
        .map(|(at, level)| {
            let own = exception.retain(level.resolution);
            (at, level.resolution, own.unwrap_or(level.retain))
        })
        .filter(|(_, _, retain)| !retain.is_not_kept())
        .collect();
    for (position, (at, resolution, retain)) in kept.iter().copied().enumerate() {
        // Without a coarser level that is kept, no bucket has to be made of it.
        let is_last = position + 1 == kept.len();
        let target = sizes.get(at + 1).copied().flatten();
        let target = target.filter(|_| !is_last);
        if exception.retain(resolution).is_some()
            && let Some(reason) = unfit(retain, target, policy.rollup_delay_ms)
        {
            problems.report(place(resolution), reason);
        }
    }
    for pair in kept.windows(2) {
        let [(_, finer, longer), (_, coarser, retain)] = [pair[0], pair[1]];
        if longer <= retain {
            continue;
        }
        if exception.retain(coarser).is_some() {
            problems.report(place(coarser), shorter(finer, longer));
        } else {
            let reason = format!(
                "must not be longer than {coarser} is kept, which is {retain} unless given here"
            );
            problems.report(place(finer), reason);
        }
    }
}

fn shorter(finer: Resolution, longer: Retention) -> String {
    format!("must not be shorter than {finer} is kept, which is {longer}")
}

/// Why a level cannot be kept for this long. `target` is the bucket that is made of it.
fn unfit(retain: Retention, target: Option<BucketSize>, rollup_delay_ms: i64) -> Option<String> {
    let ms = retain.ms()?;
    if ms <= 0 || ms % HOUR_MS != 0 {
        return Some("expected a whole number of hours, or inf".into());
    }
    let size_ms = target?.duration_ms();
    let least_ms = size_ms.saturating_add(rollup_delay_ms);
    (ms < least_ms).then(|| {
        let [size, delay] = [size_ms, rollup_delay_ms].map(format_duration_ms);
        let hours = least_ms.div_euclid(HOUR_MS) + i64::from(least_ms % HOUR_MS != 0);
        let least = format_duration_ms(hours.saturating_mul(HOUR_MS));
        format!(
            "must be at least {least}: the next level is made of {size} at a time, after a \
             rollup_delay of {delay}"
        )
    })
}

/// By level, the buckets that are made first: the smallest size that is free and has enough
/// windows. `None` for raw.
fn target_sizes(levels: &[Level]) -> Vec<Option<BucketSize>> {
    let mut taken: Vec<BucketSize> = Vec::new();
    let size = |level: &Level| {
        let size = rolled_size(level.resolution, |size| !taken.contains(&size));
        taken.extend(size);
        size
    };
    levels.iter().map(size).collect()
}
