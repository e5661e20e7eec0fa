//! What has to be true of data so that a translation gives the same numbers.

use std::fmt;

use icecore_model::format_duration_ms;

/// What has to be true of data so that a translation gives the same numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Every series has a point in every interval.
    NoGaps,
    /// The same, where rates are computed.
    NoGapsOfRates,
    /// The same, where intervals without points count as 0.
    NoGapsOfZeros,
    /// No gap is longer than this many milliseconds, and none lies at an end of the query's time.
    GapsUpTo(i64),
    /// The first value of a rate is not looked at.
    NotTheFirstRate,
    /// No counter starts again.
    NoResets,
    /// No value of a counter is negative.
    NoNegatives,
    /// Values never fall.
    NeverFalls,
    /// An odd number of points in an interval, or of series in a group.
    OddCount(Counted),
    /// At most so many points in an interval, or series in a group.
    AtMost(u64, Counted),
    /// Steps are the times of points, and every series has points at all of them.
    PointsAtSteps,
    /// No values are integers.
    NoIntegers,
    /// The series of the query are those with points between its start and its end.
    SeriesOfTheRange,
    /// No series has tags besides those that are named.
    NoOtherTags(Vec<String>),
    /// Series that belong together have the same tags, also those that are not grouped by.
    SameTags,
    /// Every series has a value at every time at which another has one.
    ValuesAtAllTimes,
    /// Only values from the n-th on are looked at.
    FromPoint(u64),
    /// No two series are equally high.
    NoTies,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Points,
    Series,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Points => "points of a series in an interval",
            Self::Series => "series of a group",
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGaps => f.write_str(
                "every series has a point in every interval; where one has none, OpenTSDB \
                 interpolates it, and it is left out here (bridging gaps avoids that)",
            ),
            Self::NoGapsOfRates => f.write_str(
                "every series has a point in every interval; after one without points OpenTSDB \
                 takes the change since the last that has some, and there is no value here",
            ),
            Self::NoGapsOfZeros => f.write_str(
                "every series has a point in every interval; where one has none, it counts as 0 \
                 for OpenTSDB, and is left out here (with start and end it is filled)",
            ),
            Self::GapsUpTo(ms) => write!(
                f,
                "no series has a gap of more than {}, or one at the start or end of the query",
                format_duration_ms(*ms)
            ),
            Self::NotTheFirstRate => f.write_str(
                "the first value is not looked at: OpenTSDB has a rate there only if the interval \
                 before lies in the same hour",
            ),
            Self::NoResets => f.write_str(
                "no counter starts again; where one does, OpenTSDB repeats its last rate, and it \
                 is left out here",
            ),
            Self::NoNegatives => f.write_str(
                "no value is negative; where the first is, OpenTSDB takes that for a counter that \
                 started again, and drops the rate behind it",
            ),
            Self::NeverFalls => f.write_str(
                "values never fall; where they do, PromQL takes that for a counter that started \
                 again",
            ),
            Self::OddCount(counted) => write!(
                f,
                "the number of {counted} is odd; otherwise OpenTSDB takes the upper of the two in \
                 the middle, and PromQL their mean"
            ),
            Self::AtMost(count, counted) => write!(
                f,
                "the number of {counted} is at most {count}: then the percentile is the maximum; \
                 beyond, OpenTSDB and PromQL interpolate between different values"
            ),
            Self::PointsAtSteps => f.write_str(
                "steps are times at which every series has a point; without a downsampler \
                 OpenTSDB answers at the times of points and interpolates, PromQL takes the last \
                 value before a step",
            ),
            Self::NoIntegers => f.write_str(
                "values are not integers: of those OpenTSDB cuts off the fraction of the result",
            ),
            Self::SeriesOfTheRange => f.write_str(
                "series that are filled with 0 have points between start and end; OpenTSDB looks \
                 at whole hours around them",
            ),
            Self::NoOtherTags(keys) => write!(
                f,
                "no series has tags besides {}: PromQL has no explicitTags",
                keys.join(", ")
            ),
            Self::SameTags => f.write_str(
                "series that belong together have the same tags, also those that are not grouped \
                 by: OpenTSDB compares all of them",
            ),
            Self::ValuesAtAllTimes => f.write_str(
                "every series has a value at every time at which another has one; otherwise \
                 OpenTSDB fills it in, and it is left out here",
            ),
            Self::FromPoint(n) => write!(
                f,
                "values before point {n} are not looked at: OpenTSDB has 0 there, because it \
                 knows no points before the start"
            ),
            Self::NoTies => f.write_str("no two series are equally high"),
        }
    }
}

/// Adds conditions that are not there.
pub(super) fn add(conditions: &mut Vec<Condition>, others: impl IntoIterator<Item = Condition>) {
    for condition in others {
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
}
