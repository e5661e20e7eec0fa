//! Text of times, selectors and joins.

use std::fmt;

use icecore_model::rollup::{Resolution, RollupChoice};
use icecore_model::{Levels, METRIC_NAME, MatchOp, Matcher};

use crate::calendar::rfc3339;
use crate::exec::{Cost, Grid};
use crate::functions::window::{WindowMode, Windows};
use crate::parse::{Cardinality, VectorMatching, format_duration, go_float};
use crate::plan::ScanUse;

pub(super) struct GridText(pub(super) Grid);

impl fmt::Display for GridText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grid = self.0;
        match grid.steps {
            0 => f.write_str("no steps"),
            1 => write!(f, "at {}", TimeText(grid.start_ms)),
            steps => write!(
                f,
                "{steps} steps every {} from {} to {}",
                format_duration(grid.step_ms),
                TimeText(grid.start_ms),
                TimeText(grid.end_ms())
            ),
        }
    }
}

/// A time in UTC.
pub(super) struct TimeText(pub(super) i64);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        f.write_str(&rfc3339(seconds).replace('T', " ").replace('Z', ""))?;
        match millis {
            0 => Ok(()),
            _ => write!(f, ".{millis:03}"),
        }
    }
}

pub(super) struct OffsetText(pub(super) i64);

impl fmt::Display for OffsetText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            offset => write!(f, ", offset {}", format_duration(offset)),
        }
    }
}

pub(super) struct WindowText<'p>(pub(super) &'p Windows);

impl fmt::Display for WindowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let windows = self.0;
        let mode = match windows.mode {
            WindowMode::Plain => "",
            WindowMode::Anchored => " anchored",
            WindowMode::Smoothed => " smoothed",
        };
        let range = format_duration(windows.range_ms);
        write!(f, " over {range}{mode}{}", OffsetText(windows.offset_ms))?;
        match windows.at_ms {
            Some(at_ms) => write!(f, ", at {}", TimeText(at_ms)),
            None => Ok(()),
        }
    }
}

/// A leaf's use of a scan.
pub(super) struct ScanText<'p>(pub(super) &'p ScanUse);

impl fmt::Display for ScanText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan {}", self.0.scan)?;
        if self.0.filter.is_empty() {
            Ok(())
        } else {
            write!(f, " where {}", SelectorText(&self.0.filter))
        }
    }
}

/// The widest windows that a scan prefers to finer ones, and those that it never reads.
pub(super) struct LevelsText<'p>(pub(super) &'p RollupChoice);

impl fmt::Display for LevelsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Most queries would take narrower ones, which are hardly ever kept: saying so helps
        // nobody.
        let preferred =
            |level: &Resolution| *level >= Resolution::FIVE_MINUTES && self.0.prefers(*level);
        if let Some(level) = Resolution::all().filter(preferred).last() {
            write!(f, ", windows of up to {level}")?;
        }
        match self.0.max_ms {
            Some(0) => f.write_str(", samples only"),
            Some(max_ms) => write!(f, ", never above {}", format_duration(max_ms)),
            None => Ok(()),
        }
    }
}

/// ` [1.25 ms, 20 rows]`, or nothing of a part that has not run.
pub(super) struct CostText<'p>(pub(super) &'p Option<Cost>);

impl fmt::Display for CostText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cost) => write!(f, " [{cost}]"),
            None => Ok(()),
        }
    }
}

/// Which level answers which part of a time: `1h before 2026-01-01 00:00:00, then samples`.
pub(super) struct SegmentsText(Vec<(Resolution, i64)>);

impl SegmentsText {
    /// `None` if samples answer all of it.
    pub(super) fn new(levels: &Levels, after_ms: i64, until_ms: i64) -> Option<Self> {
        if !levels.is_rolled(after_ms, until_ms) {
            return None;
        }
        let mut parts: Vec<(Resolution, i64)> = Vec::new();
        for segment in &levels.segments {
            if !segment.overlaps(after_ms, until_ms) {
                continue;
            }
            match parts.last_mut() {
                Some((level, end_ms)) if *level == segment.resolution => *end_ms = segment.end_ms,
                _ => parts.push((segment.resolution, segment.end_ms)),
            }
        }
        Some(Self(parts))
    }
}

impl fmt::Display for SegmentsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (level, end_ms)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", then ")?;
            }
            if level.is_raw() {
                f.write_str("samples")?;
            } else {
                write!(f, "windows of {level}")?;
            }
            if index + 1 < self.0.len() {
                write!(f, " before {}", TimeText(*end_ms))?;
            }
        }
        Ok(())
    }
}

/// Matchers as a selector, the metric name in front.
pub(super) struct SelectorText<'p>(pub(super) &'p [Matcher]);

impl fmt::Display for SelectorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let is_name = |m: &Matcher| {
            m.name() == METRIC_NAME && m.op() == MatchOp::Equal && m.value().chars().all(is_plain)
        };
        let name = self.0.iter().position(is_name);
        if let Some(index) = name {
            f.write_str(self.0[index].value())?;
        }
        let others = self.0.iter().enumerate().filter(|(i, _)| Some(*i) != name);
        let others: Vec<String> = others.map(|(_, m)| m.to_string()).collect();
        match (name, others.is_empty()) {
            (Some(_), true) => Ok(()),
            _ => write!(f, "{{{}}}", others.join(", ")),
        }
    }
}

pub(super) struct MatchingText<'p>(pub(super) &'p VectorMatching);

impl fmt::Display for MatchingText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matching = self.0;
        if matching.on || !matching.labels.is_empty() {
            let how = if matching.on { "on" } else { "ignoring" };
            write!(f, " {how} ({})", matching.labels.join(", "))?;
        }
        let include = || matching.include.join(", ");
        match matching.cardinality {
            Cardinality::ManyToOne => write!(f, " group_left ({})", include())?,
            Cardinality::OneToMany => write!(f, " group_right ({})", include())?,
            Cardinality::OneToOne | Cardinality::ManyToMany => {}
        }
        if let Some(value) = matching.fill_left {
            write!(f, " fill_left ({})", go_float(value))?;
        }
        match matching.fill_right {
            Some(value) => write!(f, " fill_right ({})", go_float(value)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let text = |ms| TimeText(ms).to_string();
        assert_eq!(text(0), "1970-01-01 00:00:00");
        assert_eq!(text(1_700_000_000_000), "2023-11-14 22:13:20");
        assert_eq!(text(951_782_399_999), "2000-02-28 23:59:59.999");
        assert_eq!(text(951_868_799_000), "2000-02-29 23:59:59");
        assert_eq!(text(-1), "1969-12-31 23:59:59.999");
        assert_eq!(text(4_102_444_800_000), "2100-01-01 00:00:00");
        // Times of hostile queries have some text, too.
        assert!(text(i64::MAX).starts_with("292278994-08-17"));
        assert!(!text(i64::MIN).is_empty());
    }
}
