//! Functions of dates and times: floats are seconds since 1970, in UTC.

use super::math::each_float;
use super::{CallContext, MapFunction};
use crate::calendar::{CivilTime, Date};
use crate::exec::{ABSENT, Row};

pub(super) fn function(name: &str) -> Option<MapFunction> {
    let function: MapFunction = match name {
        "day_of_month" => |_, row| each_date(row, |date| date.day),
        "day_of_week" => |_, row| each_float(row, |v| civil(v).weekday() as f64),
        "day_of_year" => |_, row| each_date(row, Date::day_of_year),
        "days_in_month" => |_, row| each_date(row, Date::days_in_month),
        "hour" => |_, row| each_float(row, |v| civil(v).hour() as f64),
        "minute" => |_, row| each_float(row, |v| civil(v).minute() as f64),
        "month" => |_, row| each_date(row, |date| date.month),
        "start_timestamp" => |_, row| start_timestamp(row),
        "timestamp" => timestamp,
        "year" => |_, row| each_float(row, |v| civil(v).date().year as f64),
        _ => return None,
    };
    Some(function)
}

/// The time of each step that has a value. For selectors the planner takes the times of samples
/// instead.
fn timestamp(ctx: &CallContext<'_>, mut row: Row) -> Row {
    let times: Vec<f64> = (0..row.values.floats.len())
        .map(|step| {
            if row.values.is_present(step) {
                ctx.grid.time(step) as f64 / 1000.0
            } else {
                ABSENT
            }
        })
        .collect();
    row.drop_name = true;
    row.values.floats = times;
    row.values.histograms = Vec::new();
    row
}

/// Only samples have a start time; for selectors the planner reads it.
fn start_timestamp(mut row: Row) -> Row {
    row.drop_name = true;
    row.values.floats.fill(ABSENT);
    row.values.histograms = Vec::new();
    row
}

fn each_date(row: Row, field: impl Fn(Date) -> u64) -> Row {
    each_float(row, |value| field(civil(value).date()) as f64)
}

/// Rounds towards zero. What does not fit 64 bits becomes the smallest integer, as in Go on amd64.
fn civil(seconds: f64) -> CivilTime {
    let limit = i64::MAX as f64;
    let fits = seconds > -limit && seconds < limit;
    CivilTime::of_unix_seconds(if fits { seconds as i64 } else { i64::MIN })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Setup, check_floats};
    use super::*;

    fn at(name: &str, seconds: f64) -> f64 {
        let row = Setup::new(1)
            .series()
            .map(name, Setup::row("m", &[seconds]));
        assert!(row.drop_name);
        row.values.floats[0]
    }

    #[test]
    fn values_of_the_scripts() {
        for (name, seconds, expected) in [
            ("year", 0.0, 1970.0),
            ("year", 1136239445.0, 2006.0),
            ("month", 1136239445.0, 1.0),
            ("day_of_month", 1136239445.0, 2.0),
            ("day_of_year", 0.0, 1.0),
            ("day_of_year", 1136239445.0, 2.0),
            ("day_of_week", 0.0, 4.0),
            ("day_of_week", 1136239445.0, 1.0),
            ("hour", 1136239445.0, 22.0),
            ("minute", 1136239445.0, 4.0),
            ("year", 1230767999.0, 2008.0),
            ("year", 1230768000.0, 2009.0),
            ("month", 1456790399.0, 2.0),
            ("day_of_month", 1456790399.0, 29.0),
            ("month", 1456790400.0, 3.0),
            ("day_of_year", 1483191420.0, 366.0),
            ("day_of_year", 1672493820.0, 365.0),
            ("days_in_month", 1454284800.0, 29.0),
            ("days_in_month", 1485907200.0, 28.0),
            // Fractions are cut off, not rounded down.
            ("minute", -0.5, 0.0),
            ("minute", -1.0, 59.0),
            ("year", -1.0, 1969.0),
        ] {
            assert_eq!(at(name, seconds), expected, "{name} {seconds}");
        }
    }

    #[test]
    fn every_float_has_a_date() {
        for seconds in [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, 9.3e18, -9.3e18] {
            // The least i64 lies before the first year that can be counted, and wraps around.
            assert_eq!(at("year", seconds), 292_277_026_596.0, "{seconds}");
        }
        for (name, from, to) in [
            ("month", 1.0, 12.0),
            ("day_of_month", 1.0, 31.0),
            ("day_of_year", 1.0, 366.0),
            ("days_in_month", 28.0, 31.0),
            ("day_of_week", 0.0, 6.0),
            ("hour", 0.0, 23.0),
            ("minute", 0.0, 59.0),
        ] {
            for seconds in [f64::NAN, 9.2e18, -9.2e18, 0.0] {
                assert!((from..=to).contains(&at(name, seconds)), "{name}");
            }
        }
    }

    #[test]
    fn timestamps_are_those_of_the_steps() {
        let mut row = Setup::row("m", &[7.0, ABSENT, ABSENT]);
        row.values.set_histogram(2, Default::default());
        let row = Setup::new(3).series().map("timestamp", row);
        check_floats(&row.values.floats, &[0.0, ABSENT, 120.0]);
        assert!(row.drop_name && !row.values.has_histograms());
        let row = Setup::new(2)
            .series()
            .map("start_timestamp", Setup::row("m", &[1.0, 2.0]));
        assert!(row.values.is_empty());
    }
}
