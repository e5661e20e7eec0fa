//! How long data is kept: the levels of a policy, and the series for which other times hold.
//!
//! ```text
//! labels ─► class: the first override that matches, or the default
//!                    │
//!                    └─► raw 21d ─► 5m 90d ─► 1h 365d ─► gone
//! ```
//!
//! Holds always, because a policy with a problem is not made:
//! - The first level is raw, each further one is coarser, and each is kept for at least as long as
//!   the finer ones, or not at all.
//! - What a level keeps is long enough for the bucket of the next level to be made of it.
//!
//! Elsewhere: the text of a policy (`server`), what is done about it (`storage`).

mod retain;
mod validate;

use std::fmt;

use crate::rollup::Resolution;
use crate::{HOUR_MS, Labels, Matcher};
pub use retain::Retention;
pub use validate::{OVERRIDES_MAX, PolicyPlace, PolicyProblem, ROLLED_LEVELS_MAX};

const DAY_MS: i64 = 24 * HOUR_MS;

/// How long to wait after the last hour of a bucket has closed before it is rolled up, unless a
/// policy says otherwise: most of what comes late has come by then, and needs no second rollup.
pub const DEFAULT_ROLLUP_DELAY_MS: i64 = 2 * HOUR_MS;

/// What is kept how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    levels: Vec<Level>,
    rollup_delay_ms: i64,
    late_data: LateData,
    overrides: Vec<Override>,
}

/// Samples as they came, or windows of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub resolution: Resolution,
    pub retain: Retention,
    /// Of windows; raw samples have no columns.
    pub columns: ColumnSet,
}

/// Which fields of windows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnSet {
    /// All of them.
    Full,
    /// Without what only deviations and `changes` need.
    Lean,
}

impl ColumnSet {
    /// What is stored unless a policy says otherwise: fine windows are many, and coarse ones are
    /// what is left in the end.
    pub fn default_of(resolution: Resolution) -> Self {
        if !resolution.is_raw() && resolution < Resolution::HOUR {
            Self::Lean
        } else {
            Self::Full
        }
    }
}

/// What happens to samples of hours whose raw samples are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LateData {
    /// They are refused as too old.
    #[default]
    Reject,
    /// They are added to the windows; one that is sent again is counted twice.
    Merge,
}

/// Other times for the series that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub matchers: Vec<Matcher>,
    /// A level that is not named here is kept as the policy says.
    pub retain: Vec<(Resolution, Retention)>,
}

impl Override {
    pub fn matches(&self, labels: &Labels) -> bool {
        let matches = |matcher: &Matcher| {
            let value = labels.get(matcher.name()).unwrap_or_default();
            matcher.matches(value)
        };
        self.matchers.iter().all(matches)
    }

    fn retain(&self, resolution: Resolution) -> Option<Retention> {
        let mut named = self.retain.iter();
        named.find_map(|(level, retain)| (*level == resolution).then_some(*retain))
    }
}

/// Series for which the same times hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetentionClass(usize);

impl RetentionClass {
    /// Series that no override matches.
    pub const DEFAULT: Self = Self(0);

    /// Its place among the classes of a policy.
    pub fn index(self) -> usize {
        self.0
    }

    /// Which override it is, in the order of the policy.
    fn override_index(self) -> Option<usize> {
        self.0.checked_sub(1)
    }
}

impl RetentionPolicy {
    /// Levels from fine to coarse. All problems are found at once.
    pub fn new(
        levels: Vec<Level>,
        rollup_delay_ms: i64,
        late_data: LateData,
        overrides: Vec<Override>,
    ) -> Result<Self, Vec<PolicyProblem>> {
        let policy = Self {
            levels,
            rollup_delay_ms,
            late_data,
            overrides,
        };
        match validate::problems(&policy) {
            problems if problems.is_empty() => Ok(policy),
            problems => Err(problems),
        }
    }

    /// Raw samples for three weeks, windows of 5 minutes for a quarter and of an hour for a year.
    pub fn default_levels() -> Self {
        let level = |resolution, days| Level {
            resolution,
            retain: Retention::For(days * DAY_MS),
            columns: ColumnSet::default_of(resolution),
        };
        Self {
            levels: vec![
                level(Resolution::RAW, 21),
                level(Resolution::FIVE_MINUTES, 90),
                level(Resolution::HOUR, 365),
            ],
            rollup_delay_ms: DEFAULT_ROLLUP_DELAY_MS,
            late_data: LateData::default(),
            overrides: Vec::new(),
        }
    }

    /// Raw samples for some time, and nothing afterwards.
    pub fn raw_for(ms: i64) -> Result<Self, Vec<PolicyProblem>> {
        let raw = Level {
            resolution: Resolution::RAW,
            retain: Retention::For(ms),
            columns: ColumnSet::Full,
        };
        let late_data = LateData::default();
        Self::new(vec![raw], DEFAULT_ROLLUP_DELAY_MS, late_data, Vec::new())
    }

    /// From fine to coarse; the first is raw.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    pub fn level(&self, resolution: Resolution) -> Option<&Level> {
        let mut levels = self.levels.iter();
        levels.find(|level| level.resolution == resolution)
    }

    /// The level that is made of this one.
    pub fn next_coarser(&self, resolution: Resolution) -> Option<&Level> {
        let mut levels = self.levels.iter();
        levels.find(|level| level.resolution > resolution)
    }

    /// How long the last hour of a bucket must have been closed before it is rolled up.
    pub fn rollup_delay_ms(&self) -> i64 {
        self.rollup_delay_ms
    }

    pub fn late_data(&self) -> LateData {
        self.late_data
    }

    /// The first that matches counts.
    pub fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    pub fn class_of(&self, labels: &Labels) -> RetentionClass {
        let mut overrides = self.overrides.iter();
        let found = overrides.position(|exception| exception.matches(labels));
        found.map_or(RetentionClass::DEFAULT, |index| RetentionClass(index + 1))
    }

    /// The default, and one for each override in their order.
    pub fn classes(&self) -> impl Iterator<Item = RetentionClass> + use<> {
        (0..=self.overrides.len()).map(RetentionClass)
    }

    /// How long a level is kept; not at all if it is no level of this policy.
    pub fn retain(&self, class: RetentionClass, resolution: Resolution) -> Retention {
        let Some(level) = self.level(resolution) else {
            return Retention::NOT_KEPT;
        };
        let exception = class
            .override_index()
            .and_then(|index| self.overrides.get(index));
        exception
            .and_then(|exception| exception.retain(resolution))
            .unwrap_or(level.retain)
    }

    /// Whether a level must have the series of a class: because it is kept, or because a coarser
    /// level that is kept is made of it.
    pub fn reaches(&self, class: RetentionClass, resolution: Resolution) -> bool {
        let is_kept = |level: &Level| !self.retain(class, level.resolution).is_not_kept();
        self.level(resolution).is_some()
            && (self.levels.iter()).any(|level| level.resolution >= resolution && is_kept(level))
    }

    /// Whether a class keeps a level for longer than the series do that no override matches.
    pub fn outlives(&self, class: RetentionClass, resolution: Resolution) -> bool {
        self.retain(class, resolution) > self.retain(RetentionClass::DEFAULT, resolution)
    }

    /// The longest that any class keeps a level.
    pub fn longest(&self, resolution: Resolution) -> Retention {
        let retained = self.classes().map(|class| self.retain(class, resolution));
        retained.max().unwrap_or(Retention::NOT_KEPT)
    }
}

/// `raw 21d, 5m 90d, 1h 365d, 2 overrides`.
impl fmt::Display for RetentionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, level) in self.levels.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{} {}", level.resolution, level.retain)?;
        }
        match self.overrides.len() {
            0 => Ok(()),
            1 => f.write_str(", 1 override"),
            count => write!(f, ", {count} overrides"),
        }
    }
}

/// `{a="b", c=~"d.*"}`: the selector that it was made of.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, matcher) in self.matchers.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{matcher}")?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests;
