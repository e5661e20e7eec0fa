//! `tsd.rollups.config`: which intervals and functions are written.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::json::Json;

/// Intervals within a row.
const ROW_INTERVALS_MIN: u64 = 12;
const ROW_INTERVALS_MAX: u64 = 7774;

const FUNCTION_ID_MAX: u8 = 127;

/// What is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RollupConfig {
    /// Functions in lower case with their ids.
    functions: Vec<(String, u8)>,
    intervals: Vec<RollupInterval>,
}

/// An interval for which points are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RollupInterval {
    /// As configured: points name it so.
    pub(crate) text: String,
    pub(crate) seconds: u64,
    /// What a row of its table spans.
    pub(crate) row_span: RowSpan,
    /// Its table is that of points.
    pub(crate) is_default: bool,
    /// The tables of its points, and of those that are aggregated over tags; empty where there is
    /// none.
    pub(crate) table: String,
    pub(crate) pre_aggregation_table: String,
    /// How late its points may come (`delaySla`), in seconds.
    pub(crate) delay_s: u64,
}

/// The time that a row spans; rows of days, months and years begin with those of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSpan {
    Hours(u32),
    Day,
    Month,
    Year,
}

impl RowSpan {
    fn parse(text: &str) -> Option<Self> {
        let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let count: u32 = count.parse().ok()?;
        match (count, unit) {
            (1, "d") => Some(Self::Day),
            (1, "n") => Some(Self::Month),
            (1, "y") => Some(Self::Year),
            (1, "h") => Some(Self::Hours(1)),
            (2.., "h") if count.is_multiple_of(2) => Some(Self::Hours(count)),
            _ => None,
        }
    }

    /// The start of the row that holds a time, in seconds.
    pub(crate) fn start_s(self, timestamp_s: i64) -> i64 {
        let date = || {
            let timestamp = Timestamp::from_second(timestamp_s).ok()?;
            Some(timestamp.to_zoned(TimeZone::UTC).date())
        };
        let second = |date: Date| {
            let zoned = date.to_zoned(TimeZone::UTC).ok()?;
            Some(zoned.timestamp().as_second())
        };
        let start = match self {
            Self::Hours(count) => Some(timestamp_s - timestamp_s % (i64::from(count) * 3600)),
            Self::Day => Some(timestamp_s - timestamp_s % 86_400),
            Self::Month => date().map(Date::first_of_month).and_then(second),
            Self::Year => date().map(Date::first_of_year).and_then(second),
        };
        start.unwrap_or(timestamp_s)
    }

    /// The end of the row that begins at a time, in seconds.
    pub(crate) fn end_s(self, start_s: i64) -> i64 {
        self.start_s(start_s.saturating_add(self.seconds_max() as i64))
    }

    /// At most this many seconds.
    fn seconds_max(self) -> u64 {
        match self {
            Self::Hours(count) => u64::from(count) * 3600,
            Self::Day => 86_400,
            Self::Month => 32 * 86_400,
            Self::Year => 366 * 86_400,
        }
    }
}

impl RollupConfig {
    /// Reads the document; what is wrong with it is said in one sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document = Json::parse(text).map_err(|error| error.reason.to_owned())?;
        let functions = document.get("aggregationIds").and_then(Json::as_object);
        let functions = functions.ok_or("it has no aggregationIds")?;
        let functions = functions.iter().map(|(name, id)| {
            let id = id.text().and_then(|id| id.parse().ok());
            let id = id.filter(|id| *id <= FUNCTION_ID_MAX);
            let id = id.ok_or_else(|| format!("the id of {name:?} is not from 0 to 127"))?;
            Ok::<_, String>((name.to_lowercase(), id))
        });
        let functions: Vec<(String, u8)> = functions.collect::<Result<_, _>>()?;
        let intervals = document.get("intervals").and_then(Json::as_array);
        let intervals = intervals.ok_or("it has no intervals")?;
        let intervals = intervals.iter().map(RollupInterval::parse);
        let config = Self {
            functions,
            intervals: intervals.collect::<Result<_, _>>()?,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        for (i, (name, id)) in self.functions.iter().enumerate() {
            if self.functions[..i].iter().any(|other| other.1 == *id) {
                return Err(format!("{name:?} has the id of another function"));
            }
        }
        for (i, interval) in self.intervals.iter().enumerate() {
            let before = &self.intervals[..i];
            if before.iter().any(|other| other.seconds == interval.seconds) {
                return Err(format!("the interval {:?} is there twice", interval.text));
            }
            if interval.is_default && before.iter().any(|other| other.is_default) {
                return Err("two intervals are the default".into());
            }
        }
        Ok(())
    }

    /// An interval by its text.
    pub(crate) fn interval(&self, text: &str) -> Option<&RollupInterval> {
        self.intervals.iter().find(|interval| interval.text == text)
    }

    pub(crate) fn intervals(&self) -> &[RollupInterval] {
        &self.intervals
    }

    /// The function of an id, in lower case.
    pub(crate) fn function(&self, id: u8) -> Option<&str> {
        let found = |(_, known): &&(String, u8)| *known == id;
        let found = self.functions.iter().find(found);
        found.map(|(name, _)| name.as_str())
    }

    /// The id of a function, whose name may be in either case.
    pub(crate) fn function_id(&self, name: &str) -> Option<u8> {
        let found = |(known, _): &&(String, u8)| known.eq_ignore_ascii_case(name);
        self.functions.iter().find(found).map(|(_, id)| *id)
    }
}

impl RollupInterval {
    /// The start of the interval that holds a time, in seconds: they are counted from the row's.
    pub(crate) fn start_s(&self, timestamp_s: i64) -> i64 {
        let offset = timestamp_s - self.row_span.start_s(timestamp_s);
        timestamp_s - offset % self.seconds as i64
    }

    /// The rows that the original reads for the time from `start_s` to `end_s`, as the start of the
    /// first and the end of the last. With `has_rate` one more row is read, for the value before
    /// the first.
    pub(crate) fn rows_s(&self, start_s: i64, end_s: i64, has_rate: bool) -> (i64, i64) {
        let mut first_s = self.row_span.start_s(start_s);
        if has_rate {
            first_s = self.row_span.start_s(first_s - 1);
        }
        let length = self.row_span.seconds_max() / self.seconds * self.seconds;
        let end_s = self.row_span.start_s(end_s.saturating_add(length as i64));
        (first_s.max(0), end_s)
    }

    fn parse(json: &Json<'_>) -> Result<Self, String> {
        let field = |name: &str| json.get(name).and_then(Json::text);
        let text = field("interval").ok_or("an interval has no length")?;
        let seconds = seconds_of(text).ok_or_else(|| format!("{text:?} is no interval"))?;
        let span = field("rowSpan").unwrap_or_default();
        let row_span = RowSpan::parse(span).ok_or_else(|| format!("{span:?} is no row span"))?;
        let count = row_span.seconds_max() / seconds;
        if !(ROW_INTERVALS_MIN..=ROW_INTERVALS_MAX).contains(&count) {
            return Err(format!(
                "{count} intervals of {text} in {span}: from {ROW_INTERVALS_MIN} to \
                 {ROW_INTERVALS_MAX} can be"
            ));
        }
        let delay = field("delaySla").filter(|delay| !delay.is_empty());
        let delay_s = match delay {
            None => 0,
            Some(delay) => seconds_of(delay).ok_or_else(|| format!("{delay:?} is no delay"))?,
        };
        Ok(Self {
            text: text.to_owned(),
            seconds,
            row_span,
            is_default: field("defaultInterval") == Some("true"),
            table: field("table").unwrap_or_default().to_owned(),
            pre_aggregation_table: field("preAggregationTable").unwrap_or_default().to_owned(),
            delay_s,
        })
    }
}

/// `10m` and the like.
fn seconds_of(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at_checked(digits)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "n" => 30 * 86_400,
        "y" => 365 * 86_400,
        _ => return None,
    };
    let seconds = count.parse::<u64>().ok()?.checked_mul(unit)?;
    (seconds > 0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"aggregationIds":{"sum":0,"COUNT":1},
        "intervals":[{"table":"tsdb","interval":"1m","rowSpan":"1h","defaultInterval":true},
                     {"interval":"1h","rowSpan":"1n","delaySla":"2d"}]}"#;

    #[test]
    fn intervals_and_functions_are_read() {
        let config = RollupConfig::parse(GOOD).unwrap();
        assert_eq!(config.function_id("Sum"), Some(0));
        assert_eq!(config.function_id("count"), Some(1));
        assert_eq!(config.function_id("avg"), None);
        assert_eq!(
            (config.function(1), config.function(2)),
            (Some("count"), None)
        );
        let minute = config.interval("1m").unwrap();
        assert!(minute.is_default);
        assert_eq!(
            (minute.table.as_str(), minute.pre_aggregation_table.as_str()),
            ("tsdb", "")
        );
        assert_eq!(minute.row_span, RowSpan::Hours(1));
        let hour = config.interval("1h").unwrap();
        assert_eq!((hour.seconds, hour.delay_s), (3600, 2 * 86_400));
        assert_eq!(config.intervals().len(), 2);
        assert_eq!(config.interval("60m"), None);
    }

    #[test]
    fn rows_begin_with_the_calendar() {
        // 2020-01-26T05:30:07Z
        let time = 1_580_016_607;
        for (span, start) in [
            (RowSpan::Hours(1), 1_580_014_800),
            (RowSpan::Hours(6), 1_579_996_800),
            (RowSpan::Day, 1_579_996_800),
            (RowSpan::Month, 1_577_836_800),
            (RowSpan::Year, 1_577_836_800),
        ] {
            assert_eq!(span.start_s(time), start, "{span:?}");
        }
        let hour = RollupConfig::parse(GOOD).unwrap();
        assert_eq!(hour.interval("1h").unwrap().start_s(time), 1_580_014_800);
    }

    #[test]
    fn whole_rows_are_read() {
        let config = RollupConfig::parse(
            r#"{"aggregationIds":{},"intervals":[{"interval":"10m","rowSpan":"1d"},
                {"interval":"1h","rowSpan":"1n"},{"interval":"1m","rowSpan":"6h"}]}"#,
        );
        let config = config.unwrap();
        let rows = |interval: &str, start, end, has_rate| {
            let interval = config.interval(interval).unwrap();
            interval.rows_s(start, end, has_rate)
        };
        // 2020-01-26T05:30:07Z
        let time = 1_580_016_607;
        let day = 1_579_996_800;
        assert_eq!(rows("10m", time, time + 1, false), (day, day + 86_400));
        let of_a_rate = (day - 86_400, day + 86_400);
        assert_eq!(rows("10m", time, time + 1, true), of_a_rate);
        assert_eq!(rows("1m", time, time, false), (day, day + 21_600));
        let (december, january) = (1_575_158_400, 1_577_836_800);
        let (february, march) = (1_580_515_200, 1_583_020_800);
        assert_eq!(rows("1h", time, time, false), (january, february));
        assert_eq!(rows("1h", time, time, true), (december, february));
        // The original adds 32 days to the end.
        assert_eq!(rows("1h", time, february - 1, false), (january, march));
        assert_eq!(rows("1h", 0, 0, true).0, 0);
        for (span, start, end) in [
            (RowSpan::Hours(6), day, day + 21_600),
            (RowSpan::Day, day, day + 86_400),
            (RowSpan::Month, january, february),
            (RowSpan::Month, february, march),
            (RowSpan::Year, january, january + 366 * 86_400),
        ] {
            assert_eq!(span.end_s(start), end, "{span:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (from, to) in [
            ("\"COUNT\":1", "\"COUNT\":0"),
            ("\"COUNT\":1", "\"COUNT\":128"),
            ("\"1h\",\"rowSpan\":\"1n\"", "\"60s\",\"rowSpan\":\"1h\""),
            ("\"rowSpan\":\"1n\"", "\"rowSpan\":\"3h\""),
            ("\"rowSpan\":\"1n\"", "\"rowSpan\":\"2h\""),
            ("\"2d\"", "\"2x\""),
            ("aggregationIds", "ids"),
            ("]}", "]"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            assert!(RollupConfig::parse(&text).is_err(), "{text}");
        }
    }
}
