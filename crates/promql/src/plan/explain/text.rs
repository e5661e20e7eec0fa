//! Times, selectors and joins as people write them.

use std::fmt;

use icecore_model::{METRIC_NAME, MatchOp, Matcher};

use crate::exec::Grid;
use crate::functions::window::{WindowMode, Windows};
use crate::parse::{Cardinality, VectorMatching, format_duration, go_float};
use crate::plan::ScanUse;

pub(super) struct GridText(pub(super) Grid);

impl fmt::Display for GridText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grid = self.0;
        match grid.steps {
            0 => f.write_str("no steps"),
            1 => write!(f, "at {}", Moment(grid.start_ms)),
            steps => write!(
                f,
                "{steps} steps every {} from {} to {}",
                format_duration(grid.step_ms),
                Moment(grid.start_ms),
                Moment(grid.end_ms())
            ),
        }
    }
}

/// A moment in UTC.
pub(super) struct Moment(pub(super) i64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
        )?;
        match millis {
            0 => Ok(()),
            _ => write!(f, ".{millis:03}"),
        }
    }
}

/// The date of a day since 1970-01-01. Years begin in March here, so that the leap day is the last one.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (
        days.div_euclid(DAYS_OF_400_YEARS),
        days.rem_euclid(DAYS_OF_400_YEARS),
    );
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

pub(super) struct Offset(pub(super) i64);

impl fmt::Display for Offset {
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
        write!(f, " over {range}{mode}{}", Offset(windows.offset_ms))?;
        match windows.at_ms {
            Some(at_ms) => write!(f, ", at {}", Moment(at_ms)),
            None => Ok(()),
        }
    }
}

/// A leaf's part of a scan.
pub(super) struct Use<'p>(pub(super) &'p ScanUse);

impl fmt::Display for Use<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan {}", self.0.scan)?;
        if self.0.filter.is_empty() {
            Ok(())
        } else {
            write!(f, " where {}", Selector(&self.0.filter))
        }
    }
}

/// Matchers as a selector, the metric name in front.
pub(super) struct Selector<'p>(pub(super) &'p [Matcher]);

impl fmt::Display for Selector<'_> {
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

pub(super) struct Match<'p>(pub(super) &'p VectorMatching);

impl fmt::Display for Match<'_> {
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
    fn moments() {
        let text = |ms| Moment(ms).to_string();
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
