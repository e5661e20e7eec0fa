//! Resolutions: the widths of windows.

use std::fmt;

use crate::{HOUR_MS, MINUTE_MS};

/// The width of a window. Every width divides an hour, or is a power of two of hours, so that
/// windows never cross the border of a bucket that is large enough to hold one.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resolution(u8);

/// By code, which is what is stored; 0 stands for raw samples.
const WIDTHS: [(i64, &str); 11] = [
    (0, "raw"),
    (10_000, "10s"),
    (MINUTE_MS, "1m"),
    (5 * MINUTE_MS, "5m"),
    (15 * MINUTE_MS, "15m"),
    (30 * MINUTE_MS, "30m"),
    (HOUR_MS, "1h"),
    (2 * HOUR_MS, "2h"),
    (4 * HOUR_MS, "4h"),
    (8 * HOUR_MS, "8h"),
    (16 * HOUR_MS, "16h"),
];

impl Resolution {
    /// Samples as they came.
    pub const RAW: Self = Self(0);
    pub const FIVE_MINUTES: Self = Self(3);
    pub const HOUR: Self = Self(6);

    pub fn all() -> impl Iterator<Item = Self> {
        (0..WIDTHS.len() as u8).map(Self)
    }

    pub fn from_code(code: u8) -> Option<Self> {
        (usize::from(code) < WIDTHS.len()).then_some(Self(code))
    }

    pub fn from_ms(ms: i64) -> Option<Self> {
        Self::all().find(|resolution| resolution.ms() == ms)
    }

    /// `raw`, `5m`, `1h`, …
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|resolution| resolution.name() == name)
    }

    pub fn code(self) -> u8 {
        self.0
    }

    /// The width of a window; 0 for raw samples.
    pub fn ms(self) -> i64 {
        WIDTHS[usize::from(self.0)].0
    }

    pub fn name(self) -> &'static str {
        WIDTHS[usize::from(self.0)].1
    }

    pub fn is_raw(self) -> bool {
        self == Self::RAW
    }

    /// The start of the window that holds a time; the time itself for raw samples.
    pub fn floor(self, timestamp_ms: i64) -> i64 {
        if self.is_raw() {
            return timestamp_ms;
        }
        timestamp_ms.saturating_sub(timestamp_ms.rem_euclid(self.ms()))
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which resolutions a selection takes where there is a choice. None of this changes what raw
/// samples give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollupChoice {
    /// The first evaluation, after offset and `@`.
    pub start_ms: i64,
    /// From one evaluation to the next; 0 for one evaluation.
    pub step_ms: i64,
    /// 0 for an instant selector.
    pub range_ms: i64,
    /// Whether the function can be answered from windows without an estimate.
    pub is_exact: bool,
    /// No level coarser than this is read, whatever there is.
    pub max_ms: Option<i64>,
    pub off_grid: OffGrid,
}

/// When levels are read on whose grid start, step or range of a selection do not lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffGrid {
    /// Also where there are finer ones, if windows are short enough for it not to matter much.
    #[default]
    Short,
    /// Where nothing finer is left.
    Fallback,
    /// Where nothing finer is left, and only if no level lies on the grid of the selection.
    LastResort,
}

impl RollupChoice {
    /// Whether a level may be preferred to a finer one.
    pub fn prefers(&self, resolution: Resolution) -> bool {
        let width = resolution.ms();
        if width == 0 {
            return true;
        }
        if !self.is_exact || !self.permits(resolution) {
            return false;
        }
        // One value at one moment: only raw samples have it.
        if self.step_ms == 0 && self.range_ms == 0 {
            return false;
        }
        if self.max_ms.is_some() {
            return true;
        }
        if self.is_on_grid(resolution) {
            return self.is_as_wide_as(width);
        }
        self.off_grid == OffGrid::Short && self.is_as_wide_as(5 * width)
    }

    /// Whether the selection begins and ends where windows do.
    pub fn is_on_grid(&self, resolution: Resolution) -> bool {
        let width = resolution.ms().max(1);
        let times = [self.start_ms, self.step_ms, self.range_ms];
        times.iter().all(|time| time.rem_euclid(width) == 0)
    }

    fn is_as_wide_as(&self, width: i64) -> bool {
        let spacing = if self.step_ms == 0 {
            self.range_ms
        } else {
            self.step_ms
        };
        width <= spacing && (self.range_ms == 0 || width <= self.range_ms)
    }

    /// The same choice among these levels, the rolled ones that a store has: what is a last resort
    /// is decided by all of them.
    pub fn among(&self, levels: impl IntoIterator<Item = Resolution>) -> Permission {
        let mut levels = levels.into_iter().filter(|level| !level.is_raw());
        Permission {
            choice: *self,
            on_grid_only: self.off_grid == OffGrid::LastResort
                && levels.any(|level| self.is_on_grid(level)),
        }
    }

    /// Whether every level that another choice prefers is preferred by this one, too.
    pub fn prefers_all_of(&self, other: &Self) -> bool {
        self.max_ms == other.max_ms
            && self.off_grid == other.off_grid
            && Resolution::all().all(|level| self.prefers(level) || !other.prefers(level))
    }

    /// Whether evaluations are rounded down to the grid of their level, so that ranges begin up to
    /// a window earlier. Who reads levels off the grid at need only, takes windows where they are.
    pub fn rounds_down(&self) -> bool {
        self.off_grid == OffGrid::Short
    }

    /// Where to begin to read for a selection from `start_ms`; `level_at` is the level of a moment.
    pub fn read_start(&self, start_ms: i64, level_at: impl Fn(i64) -> Resolution) -> i64 {
        if !self.rounds_down() {
            return level_at(start_ms).floor(start_ms);
        }
        // Selectors with different times may share a selection, so the first evaluation may lie
        // later than the one that reads from the start.
        let width = level_at(start_ms).ms().max(level_at(self.start_ms).ms());
        start_ms.saturating_sub((width - 1).max(0))
    }

    /// Whether a level is not too coarse to be read.
    fn permits(&self, resolution: Resolution) -> bool {
        self.max_ms.is_none_or(|max| resolution.ms() <= max)
    }
}

/// Which of the levels of a store may be read at all.
#[derive(Clone, Copy, Debug)]
pub struct Permission {
    choice: RollupChoice,
    on_grid_only: bool,
}

impl Permission {
    pub fn permits(&self, resolution: Resolution) -> bool {
        let on_grid = !self.on_grid_only || self.choice.is_on_grid(resolution);
        self.choice.permits(resolution) && (resolution.is_raw() || on_grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes() {
        for resolution in Resolution::all() {
            assert_eq!(Resolution::from_code(resolution.code()), Some(resolution));
            assert_eq!(Resolution::from_name(resolution.name()), Some(resolution));
            assert_eq!(Resolution::from_ms(resolution.ms()), Some(resolution));
        }
        assert_eq!(Resolution::from_code(11), None);
        assert_eq!(Resolution::FIVE_MINUTES.name(), "5m");
        assert_eq!(Resolution::HOUR.floor(HOUR_MS + 1), HOUR_MS);
        assert_eq!(Resolution::HOUR.floor(-1), -HOUR_MS);
        assert_eq!(Resolution::RAW.floor(-1), -1);
    }

    #[test]
    fn the_grid_decides_what_is_preferred() {
        let choice = |start_ms, step_ms, range_ms| RollupChoice {
            start_ms,
            step_ms,
            range_ms,
            is_exact: true,
            ..RollupChoice::default()
        };
        let hour = Resolution::HOUR;
        // On the grid: as wide as step and range.
        assert!(choice(0, HOUR_MS, HOUR_MS).prefers(hour));
        assert!(choice(0, HOUR_MS, 0).prefers(hour));
        assert!(choice(0, 0, HOUR_MS).prefers(hour));
        assert!(!choice(0, HOUR_MS, HOUR_MS / 2).prefers(hour));
        // Off the grid: a fifth of them.
        assert!(!choice(1, HOUR_MS, HOUR_MS).prefers(hour));
        assert!(choice(1, 5 * HOUR_MS, 5 * HOUR_MS).prefers(hour));
        // An instant query for one value, or an estimate.
        assert!(!choice(0, 0, 0).prefers(hour));
        assert!(choice(0, 0, 0).prefers(Resolution::RAW));
        let estimate = RollupChoice {
            is_exact: false,
            ..choice(0, HOUR_MS, HOUR_MS)
        };
        assert!(!estimate.prefers(hour) && estimate.permits(hour));
        let raw_only = RollupChoice {
            max_ms: Some(0),
            ..choice(0, HOUR_MS, HOUR_MS)
        };
        assert!(!raw_only.permits(hour) && raw_only.permits(Resolution::RAW));
        let hours = choice(0, HOUR_MS, HOUR_MS);
        let minutes = choice(0, HOUR_MS, HOUR_MS / 2);
        assert!(hours.prefers_all_of(&minutes) && !minutes.prefers_all_of(&hours));
        assert!(hours.prefers_all_of(&hours) && minutes.prefers_all_of(&estimate));
        assert!(!hours.prefers_all_of(&raw_only));
    }

    #[test]
    fn what_is_off_the_grid_is_read_where_nothing_else_is() {
        let choice = |off_grid| RollupChoice {
            step_ms: 6 * HOUR_MS + 1,
            range_ms: 6 * HOUR_MS + 1,
            is_exact: true,
            off_grid,
            ..RollupChoice::default()
        };
        let hour = Resolution::HOUR;
        assert!(choice(OffGrid::Short).prefers(hour));
        for off_grid in [OffGrid::Fallback, OffGrid::LastResort] {
            let choice = choice(off_grid);
            assert!(!choice.prefers(hour) && choice.prefers(Resolution::RAW));
            assert!(choice.among([hour]).permits(hour));
        }
        let half_hours = |off_grid| RollupChoice {
            step_ms: HOUR_MS / 2,
            range_ms: HOUR_MS / 2,
            ..choice(off_grid)
        };
        let five = Resolution::FIVE_MINUTES;
        assert!(
            half_hours(OffGrid::Fallback)
                .among([five, hour])
                .permits(hour)
        );
        let last = half_hours(OffGrid::LastResort);
        assert!(last.prefers(five) && !last.among([five, hour]).permits(hour));
        assert!(last.among([five, hour]).permits(five));
        assert!(last.among([hour]).permits(hour));
        assert!(last.among([five]).permits(Resolution::RAW));
    }

    #[test]
    fn rounding_reads_a_window_more() {
        let choice = RollupChoice {
            start_ms: 10 * HOUR_MS + 7,
            ..RollupChoice::default()
        };
        let level_at = |time: i64| {
            if time < 10 * HOUR_MS {
                Resolution::HOUR
            } else {
                Resolution::RAW
            }
        };
        let start = 9 * HOUR_MS + 8;
        assert_eq!(choice.read_start(start, level_at), 8 * HOUR_MS + 9);
        assert_eq!(choice.read_start(10 * HOUR_MS, level_at), 10 * HOUR_MS);
        let whole_windows = RollupChoice {
            off_grid: OffGrid::Fallback,
            ..choice
        };
        assert_eq!(whole_windows.read_start(start, level_at), 9 * HOUR_MS);
    }

    #[test]
    fn a_finer_step_never_prefers_a_coarser_level() {
        let choice = |step_ms, range_ms| RollupChoice {
            step_ms,
            range_ms,
            is_exact: true,
            ..RollupChoice::default()
        };
        for step in [1, 2, 3, 4, 6, 12, 24].map(|hours| hours * HOUR_MS) {
            for range in [0, HOUR_MS, 24 * HOUR_MS] {
                for parts in 1..=60 {
                    let (wide, fine) = (choice(step, range), choice(step / parts, range));
                    assert!(wide.prefers_all_of(&fine), "{step} {range} {parts}");
                }
            }
        }
    }
}
