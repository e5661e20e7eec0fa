//! The functions.

use icecore_wire::opentsdb::number::Number;

use super::moving_average::{AverageWindow, moving_average};
use super::series_arithmetic::combine;
use crate::error::Error;
use crate::exp::Cells;
use crate::query::ResultSeries;
use crate::uid::Uids;

/// What is done with sets of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Absolute,
    Alias,
    Divide,
    Difference,
    HighestCurrent,
    HighestMax,
    MovingAverage,
    Multiply,
    Scale,
    Sum,
    TimeShift,
}

/// Sets of series.
pub(super) type Sets = Vec<Vec<ResultSeries>>;

impl Function {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "absolute" => Self::Absolute,
            "alias" => Self::Alias,
            "divide" | "divideSeries" => Self::Divide,
            "diffSeries" | "difference" => Self::Difference,
            "highestCurrent" => Self::HighestCurrent,
            "highestMax" => Self::HighestMax,
            "movingAverage" => Self::MovingAverage,
            "multiply" | "multiplySeries" => Self::Multiply,
            "scale" => Self::Scale,
            "sum" | "sumSeries" => Self::Sum,
            "shift" | "timeShift" => Self::TimeShift,
            _ => return None,
        })
    }

    pub(super) fn apply(
        self,
        uids: &Uids,
        sets: Sets,
        params: &[String],
        cells: &mut Cells,
    ) -> Result<Vec<ResultSeries>, Error> {
        let all = |sets: Sets| sets.into_iter().flatten().collect::<Vec<ResultSeries>>();
        let param = params.first().map(String::as_str);
        match self {
            Self::Sum => combine(uids, &sets, '+', cells),
            Self::Difference => combine(uids, &sets, '-', cells),
            Self::Multiply => combine(uids, &sets, '*', cells),
            Self::Divide => combine(uids, &sets, '/', cells),
            Self::Absolute => Ok(mapped(all(sets), absolute)),
            Self::Scale => {
                let factor = scale_factor(param)?;
                Ok(mapped(all(sets), |value| scale(value, factor)))
            }
            Self::Alias => {
                if params.is_empty() {
                    return Err(refused("Missing the alias"));
                }
                let template = params.join(",");
                // The original makes values positive here, and so do we.
                let series = mapped(all(sets), absolute).into_iter();
                series.map(|series| alias(series, &template)).collect()
            }
            Self::HighestCurrent | Self::HighestMax => {
                let count = top_n(param)?;
                Ok(highest(all(sets), count, self == Self::HighestCurrent))
            }
            Self::MovingAverage => {
                let window = AverageWindow::parse(param)?;
                let mut series = all(sets);
                for series in &mut series {
                    moving_average(&mut series.points, window);
                }
                Ok(series)
            }
            Self::TimeShift => {
                let shift_ms = shift_ms(params)?;
                let mut series = sets.into_iter().next().unwrap_or_default();
                for time in series.iter_mut().flat_map(|s| &mut s.points.times) {
                    *time = time.saturating_add(shift_ms);
                }
                Ok(series)
            }
        }
    }
}

/// An argument that cannot be used.
pub(super) fn refused(message: impl Into<String>) -> Error {
    let message = message.into();
    Error::bad_request(message.clone()).with_details(message)
}

fn mapped(mut series: Vec<ResultSeries>, function: impl Fn(Number) -> Number) -> Vec<ResultSeries> {
    for value in series.iter_mut().flat_map(|s| &mut s.points.values) {
        *value = function(*value);
    }
    series
}

fn absolute(value: Number) -> Number {
    match value {
        Number::Integer(value) => Number::Integer(value.wrapping_abs()),
        Number::Float(value) => Number::Float(value.abs()),
    }
}

pub(crate) fn scale_factor(param: Option<&str>) -> Result<f64, Error> {
    let text = param.ok_or_else(|| refused("Missing scaling factor"))?;
    if !text
        .chars()
        .all(|c| c.is_ascii_digit() || c == '-' || c == '.')
    {
        return Err(refused("Unparseable scale factor value: 0.0"));
    }
    let factor = text.parse();
    factor.map_err(|_| refused("Invalid parameter, must be an integer or floating point"))
}

/// Integers stay integers where the factor is one.
fn scale(value: Number, factor: f64) -> Number {
    match value {
        Number::Integer(value) if factor.fract() == 0.0 => {
            Number::Integer(value.wrapping_mul(factor as i64))
        }
        Number::Integer(value) => Number::Float(value as f64 * factor),
        Number::Float(value) => Number::Float(value * factor),
    }
}

/// Most bytes of a name that a query makes. A template may repeat tags, and values of tags that
/// others have written may name further ones, so that a short one could have no end.
const ALIAS_BYTES_MAX: usize = 4 << 10;

/// A name for a series, in which `@key` is the value of a tag.
fn alias(mut series: ResultSeries, template: &str) -> Result<ResultSeries, Error> {
    let mut tags = std::mem::take(&mut series.tags);
    // Longer keys first, because they may begin with shorter ones.
    tags.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    series.metric = template.to_owned();
    for (key, value) in tags {
        let key = format!("@{key}");
        let more = series
            .metric
            .matches(&key)
            .count()
            .saturating_mul(value.len());
        if series.metric.len().saturating_add(more) > ALIAS_BYTES_MAX {
            return Err(refused(format!(
                "An alias has more than {ALIAS_BYTES_MAX} bytes"
            )));
        }
        series.metric = series.metric.replace(&key, &value);
    }
    series.aggregate_tags.clear();
    Ok(series)
}

pub(crate) fn top_n(param: Option<&str>) -> Result<usize, Error> {
    let text = param.ok_or_else(|| refused("Missing top n value (number of series to return)"))?;
    if !text.chars().all(|c| c.is_ascii_digit()) {
        return Err(refused(format!("Unparseable top n value: {text}")));
    }
    let count: i32 = text
        .parse()
        .map_err(|_| refused("Invalid parameter, must be an integer"))?;
    usize::try_from(count)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| refused(format!("Top n value must be greater than zero: {count}")))
}

/// The series with the greatest latest value, or maximum; the greatest first.
fn highest(series: Vec<ResultSeries>, count: usize, is_current: bool) -> Vec<ResultSeries> {
    let rank = |series: &ResultSeries| {
        let mut values = series
            .points
            .values
            .iter()
            .map(|value| value.to_f64())
            .filter(|v| !v.is_nan());
        if is_current {
            values.next_back().unwrap_or(f64::NEG_INFINITY)
        } else {
            values.fold(f64::NEG_INFINITY, f64::max)
        }
    };
    let mut ranked: Vec<(f64, ResultSeries)> = series
        .into_iter()
        .map(|series| (rank(&series), series))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(count);
    ranked.into_iter().map(|(_, series)| series).collect()
}

/// By how much points are moved: `'10min'`.
pub(crate) fn shift_ms(params: &[String]) -> Result<i64, Error> {
    let missing = "Need amount of timeshift to perform timeshift";
    let text = params.first().ok_or_else(|| refused(missing))?;
    let Some(quoted) = quoted(text) else {
        return Err(refused("Invalid timeshift parameter: eg '10min'"));
    };
    match parse_span(quoted) {
        Some((0, _)) => Err(refused("timeshift <= 0")),
        Some((count, Some(unit_ms))) => Ok(i64::from(count).saturating_mul(unit_ms)),
        Some((_, None)) => {
            let unit = quoted.trim_start_matches(|c: char| c.is_ascii_digit());
            Err(refused(format!("unknown time unit={unit}")))
        }
        None => Err(refused(format!("Invalid Parameter: {text}"))),
    }
}

/// What lies between single quotes.
pub(super) fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.strip_suffix('\'')
}

/// A count, and the milliseconds of its unit where that is known.
pub(super) fn parse_span(text: &str) -> Option<(i32, Option<i64>)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (count, unit) = text.split_at(end);
    let unit_ms = match unit {
        "s" | "sec" => Some(1000),
        "m" | "min" => Some(60_000),
        "h" | "hr" | "hour" => Some(3_600_000),
        "d" | "day" | "days" => Some(86_400_000),
        "week" | "weeks" => Some(7 * 86_400_000),
        _ => None,
    };
    Some((count.parse().ok()?, unit_ms))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::query::ResultPoints;

    pub(crate) fn series(metric: &str, host: &str, points: &[(i64, Number)]) -> ResultSeries {
        ResultSeries {
            metric: metric.into(),
            tags: vec![("host".into(), host.into())],
            aggregate_tags: vec!["dc".into()],
            members: Vec::new(),
            points: ResultPoints {
                times: points.iter().map(|p| p.0).collect(),
                values: points.iter().map(|p| p.1).collect(),
            },
            annotations: None,
            rollup: None,
            levels: None,
        }
    }

    fn applied(name: &str, values: &[Number], params: &[&str]) -> Result<ResultSeries, String> {
        let points: Vec<_> = (1..)
            .map(|i| i * 60_000)
            .zip(values.iter().copied())
            .collect();
        let params: Vec<String> = params.iter().map(|p| (*p).to_owned()).collect();
        let uids = Uids::new([3, 3, 3], false);
        let sets = vec![vec![series("m", "web01", &points)]];
        let function = Function::find(name).unwrap();
        let results = function.apply(&uids, sets, &params, &mut Cells::default());
        let mut results = results.map_err(|error| error.message)?;
        Ok(results.remove(0))
    }

    fn values(name: &str, values: &[Number], params: &[&str]) -> Vec<Number> {
        applied(name, values, params).unwrap().points.values
    }

    #[test]
    fn integers_stay_integers_where_factors_are() {
        use Number::{Float, Integer};
        let given = [Integer(1), Float(2.5)];
        assert_eq!(values("scale", &given, &["3"]), [Integer(3), Float(7.5)]);
        assert_eq!(values("scale", &given, &["1.5"]), [Float(1.5), Float(3.75)]);
        assert_eq!(values("scale", &given, &["-2"]), [Integer(-2), Float(-5.0)]);
        let given = [Integer(-1), Float(-2.5), Integer(i64::MIN)];
        assert_eq!(
            values("absolute", &given, &[]),
            [Integer(1), Float(2.5), Integer(i64::MIN)]
        );
        for (params, message) in [
            (&[][..], "Missing scaling factor"),
            (&["x"], "Unparseable scale factor value: 0.0"),
            (&["1e2"], "Unparseable scale factor value: 0.0"),
            (
                &["1-2"],
                "Invalid parameter, must be an integer or floating point",
            ),
        ] {
            assert_eq!(applied("scale", &given, params).unwrap_err(), message);
        }
    }

    #[test]
    fn points_are_moved_in_time() {
        let given = [Number::Integer(1), Number::Float(2.5)];
        let found = applied("timeShift", &given, &["'2min'"]).unwrap();
        assert_eq!(found.points.times, [180_000, 240_000]);
        assert_eq!(found.points.values, given);
        assert_eq!(shift_ms(&["'1week'".into()]).unwrap(), 604_800_000);
        for (param, message) in [
            ("10min", "Invalid timeshift parameter: eg '10min'"),
            ("'0min'", "timeshift <= 0"),
            ("'1x'", "unknown time unit=x"),
            ("'x'", "Invalid Parameter: 'x'"),
            ("'99999999999s'", "Invalid Parameter: '99999999999s'"),
            ("'", "Invalid timeshift parameter: eg '10min'"),
        ] {
            assert_eq!(shift_ms(&[param.into()]).unwrap_err().message, message);
        }
    }

    #[test]
    fn names_take_the_values_of_tags() {
        let found = applied("alias", &[Number::Integer(-1)], &["@host-@nokey", "x"]).unwrap();
        assert_eq!(found.metric, "web01-@nokey,x");
        assert!(found.tags.is_empty() && found.aggregate_tags.is_empty());
        assert_eq!(found.points.values, [Number::Integer(1)]);
    }

    #[test]
    fn names_do_not_grow_without_end() {
        let many = "@host".repeat(1000);
        let refused = applied("alias", &[Number::Integer(1)], &[&many]).err();
        assert_eq!(
            refused.as_deref(),
            Some("An alias has more than 4096 bytes")
        );
    }

    #[test]
    fn the_highest_come_first() {
        let of = |host: &str, values: &[i64]| {
            let points = values.iter().map(|v| Number::Integer(*v));
            series("m", host, &(1..).zip(points).collect::<Vec<_>>())
        };
        let all = || {
            vec![
                of("a", &[1, 2, 5]),
                of("b", &[9, 3, 1]),
                of("c", &[2, 2, 2]),
                of("empty", &[]),
            ]
        };
        let hosts = |found: Vec<ResultSeries>| {
            let hosts = found.into_iter().map(|s| s.tags[0].1.clone());
            hosts.collect::<Vec<_>>()
        };
        assert_eq!(hosts(highest(all(), 2, true)), ["a", "c"]);
        assert_eq!(hosts(highest(all(), 2, false)), ["b", "a"]);
        assert_eq!(hosts(highest(all(), 9, false)), ["b", "a", "c", "empty"]);
        assert_eq!(
            top_n(Some("0")).unwrap_err().message,
            "Top n value must be greater than zero: 0"
        );
        assert!(top_n(Some("-1")).is_err() && top_n(None).is_err());
    }
}
