//! The interval that becomes one value, as a range of PromQL.

use icecore_model::{MAX_DURATION_MS, format_duration_ms};

use super::promql::{Vector, offset};
use super::refusal::Refusal;
use crate::query::Interval;
use crate::time::CalendarUnit;

const SECOND_MS: i64 = 1000;

const HOUR_MS: i64 = 3_600_000;

/// What becomes one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bucket {
    /// So many milliseconds, aligned to the epoch.
    Fixed(i64),
    /// The whole time of the query, in milliseconds: one step at its start.
    Whole(i64),
    /// As long as a variable of a dashboard says, aligned to the epoch.
    Variable(String),
    /// The whole time of a dashboard: one step at its end.
    WholeDashboard,
}

impl Bucket {
    /// The bucket of an interval; `length_ms` is that of the whole query.
    pub(super) fn of(interval: &Interval, length_ms: Option<i64>) -> Result<Self, Refusal> {
        match interval {
            Interval::All => match length_ms {
                Some(length_ms) => Ok(Self::Whole(length_ms)),
                None => Err(Refusal::new(
                    "0all needs the time of the query: give --start and --end",
                )),
            },
            Interval::Fixed(ms) => Self::fixed(*ms),
            Interval::Calendar(calendar, ms) => {
                let is_utc = calendar.zone == jiff::tz::TimeZone::UTC;
                let parent = match calendar.unit {
                    CalendarUnit::Millisecond => 1000,
                    CalendarUnit::Second | CalendarUnit::Minute => 60,
                    CalendarUnit::Hour => 24,
                    CalendarUnit::Day => 1,
                    _ => 0,
                };
                if is_utc && parent > 0 && parent % calendar.count == 0 {
                    return Self::fixed(*ms);
                }
                Err(Refusal::new(
                    "intervals of the calendar are not equally long, or not aligned to the epoch: \
                     a range of PromQL cannot follow them",
                ))
            }
        }
    }

    fn fixed(ms: i64) -> Result<Self, Refusal> {
        if ms > MAX_DURATION_MS {
            return Err(Refusal::new(
                "the interval is longer than a duration of PromQL can be",
            ));
        }
        // OpenTSDB reads whole hours; of other intervals it may cut the last one.
        if ms % SECOND_MS != 0 && HOUR_MS % ms != 0 {
            return Err(Refusal::new(
                "an interval must be a number of seconds, or divide an hour: OpenTSDB cuts others \
                 at the end of an hour",
            ));
        }
        Ok(Self::Fixed(ms))
    }

    /// A function over the points of a bucket: the one that begins at the step, or so many before
    /// it. `shift_ms` is how much earlier the points are.
    pub(super) fn over(
        &self,
        function: &str,
        parameter: &str,
        selector: &str,
        (back, shift_ms): (i64, i64),
    ) -> Vector {
        let call = |range: &str, offset: &str| {
            format!("{function}({parameter}{selector}[{range}]{offset})")
        };
        Vector::atom(match self {
            Self::Fixed(ms) | Self::Whole(ms) => {
                // One millisecond less, because a range ends with its last moment.
                let earlier = (back - 1) * ms + 1 + shift_ms;
                call(&format_duration_ms(*ms), &offset(earlier))
            }
            Self::WholeDashboard => call("$__range", &offset(1 + shift_ms)),
            Self::Variable(name) if back == 0 => {
                // Its length is not known here: what is subtracted has to be said.
                let later = match shift_ms {
                    0 => format!("{name} - 1ms"),
                    ms => format!("{name} - 1ms - {}", format_duration_ms(ms)),
                };
                call(name, &format!(" offset -({later})"))
            }
            Self::Variable(name) => call(name, &offset(1 + shift_ms)),
        })
    }

    /// How long a bucket is in seconds, as text of PromQL.
    pub(super) fn seconds(&self) -> Option<String> {
        match self {
            Self::Fixed(ms) => Some(super::promql::seconds(*ms)),
            Self::Whole(_) | Self::WholeDashboard => None,
            // A duration is a number of seconds.
            Self::Variable(name) => Some(name.clone()),
        }
    }

    /// Whether there may be several of them in a query.
    pub(super) fn is_repeated(&self) -> bool {
        matches!(self, Self::Fixed(_) | Self::Variable(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_intervals_hold() {
        let text = |bucket: Bucket, back, shift| {
            bucket
                .over("sum_over_time", "", "{\"m\"}", (back, shift))
                .text
        };
        let minute = || Bucket::Fixed(60_000);
        assert_eq!(
            text(minute(), 0, 0),
            r#"sum_over_time({"m"}[1m] offset -59s999ms)"#
        );
        assert_eq!(
            text(minute(), 1, 0),
            r#"sum_over_time({"m"}[1m] offset 1ms)"#
        );
        assert_eq!(text(minute(), 0, 59_999), r#"sum_over_time({"m"}[1m])"#);
        assert_eq!(
            text(Bucket::Variable("$i".into()), 0, 0),
            r#"sum_over_time({"m"}[$i] offset -($i - 1ms))"#
        );
        assert_eq!(
            text(Bucket::Variable("$i".into()), 1, 60_000),
            r#"sum_over_time({"m"}[$i] offset 1m1ms)"#
        );
        assert_eq!(
            text(Bucket::WholeDashboard, 0, 0),
            r#"sum_over_time({"m"}[$__range] offset 1ms)"#
        );
    }

    #[test]
    fn lengths_that_cannot_be_followed_are_refused() {
        assert_eq!(
            Bucket::of(&Interval::Fixed(500), None),
            Ok(Bucket::Fixed(500))
        );
        assert_eq!(
            Bucket::of(&Interval::Fixed(7000), None),
            Ok(Bucket::Fixed(7000))
        );
        assert!(Bucket::of(&Interval::Fixed(7), None).is_err());
        assert!(Bucket::of(&Interval::All, None).is_err());
        assert_eq!(Bucket::of(&Interval::All, Some(5)), Ok(Bucket::Whole(5)));
    }
}
