//! The model: points in maps, one function for each rule.

use std::collections::{BTreeMap, BTreeSet};

const HOUR_MS: i64 = 3_600_000;

/// A value of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

pub(super) type Points = BTreeMap<i64, Number>;

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) dc: usize,
    pub(super) points: Points,
}

#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) aggregator: &'static str,
    pub(super) downsample: Option<(i64, &'static str, &'static str)>,
    pub(super) rate: Option<(bool, i64, i64, bool)>,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) group_by_dc: bool,
}

impl Query {
    /// As `m=` has it.
    pub(super) fn text(&self) -> String {
        let mut text = self.aggregator.to_owned();
        if let Some((interval, function, fill)) = self.downsample {
            text += &format!(":{interval}ms-{function}-{fill}");
        }
        if let Some((counter, max, reset, drop)) = self.rate {
            let kind = match (counter, drop) {
                (false, _) => "x",
                (true, false) => "counter",
                (true, true) => "dropcounter",
            };
            text += &format!(":rate{{{kind},{max},{reset}}}");
        }
        let group = if self.group_by_dc { "dc=*" } else { "" };
        format!("{text}:m{{{group}}}{{host=*}}")
    }
}

/// Whole intervals, then whole hours, around the window.
fn scan(query: &Query) -> (i64, i64) {
    let start = query.start_ms / 1000 * 1000;
    let end = (query.end_ms / 1000 + 1) * 1000;
    let (start, end) = match query.downsample {
        None => (start, (end / HOUR_MS + 1) * HOUR_MS),
        Some((interval, ..)) => {
            let seconds = |ms: i64| ms / 1000 * 1000;
            let end = end + seconds(interval - end % interval);
            (
                start - seconds(start % interval),
                (end + HOUR_MS - 1) / HOUR_MS * HOUR_MS,
            )
        }
    };
    (start / HOUR_MS * HOUR_MS, end)
}

fn downsampled(points: &Points, query: &Query) -> Points {
    let Some((interval, function, fill)) = query.downsample else {
        return points.clone();
    };
    let (scan_start, scan_end) = scan(query);
    let mut buckets: BTreeMap<i64, Vec<Number>> = BTreeMap::new();
    for (time, value) in points {
        // An interval that the scan cuts is left out.
        let start = time / interval * interval;
        if start >= scan_start {
            let float = Number::Float(value.to_f64());
            buckets.entry(start).or_default().push(float);
        }
    }
    let values = buckets
        .into_iter()
        .map(|(t, values)| (t, aggregate(function, &values)));
    let mut values: Points = values.collect();
    if fill != "none" {
        let filled = if fill == "zero" { 0.0 } else { f64::NAN };
        let mut time = scan_start / interval * interval;
        while time < scan_end / interval * interval {
            values.entry(time).or_insert(Number::Float(filled));
            time += interval;
        }
        values.retain(|time, _| *time < scan_end / interval * interval);
    }
    values
}

/// Rates; the first is one since time zero.
fn rated(points: &Points, (counter, max, reset, drop): (bool, i64, i64, bool)) -> Points {
    let mut rates = Points::new();
    let mut previous = (0, Number::Integer(0));
    for (time, value) in points {
        let seconds = (time - previous.0) as f64 / 1000.0;
        let mut change = match (previous.1, *value) {
            (Number::Integer(from), Number::Integer(to)) => to.wrapping_sub(from) as f64,
            (from, to) => to.to_f64() - from.to_f64(),
        };
        let is_reset = counter && change < 0.0;
        if is_reset {
            change = max as f64 - previous.1.to_f64() + value.to_f64();
        }
        previous = (*time, *value);
        if is_reset && drop {
            continue;
        }
        let mut rate = change / seconds;
        if is_reset && reset > 0 && rate > reset as f64 {
            rate = 0.0;
        }
        rates.insert(*time, Number::Float(rate));
    }
    rates
}

fn interpolation(aggregator: &str) -> &'static str {
    match aggregator {
        "zimsum" | "count" | "squareSum" | "first" | "last" | "none" => "zero",
        "mimmin" => "max",
        "mimmax" => "min",
        "pfsum" => "previous",
        _ => "linear",
    }
}

/// What a series counts as at a time; `None` where it takes no part.
fn value_at(points: &Points, time: i64, how: &str, as_integer: bool) -> Option<Number> {
    if let Some(value) = points.get(&time) {
        return Some(*value);
    }
    let (x0, y0) = points.range(..time).next_back()?;
    let (x1, y1) = points.range(time..).next()?;
    Some(match (how, as_integer) {
        ("zero", true) => Number::Integer(0),
        ("zero", false) => Number::Float(0.0),
        ("max", true) => Number::Integer(i64::MAX),
        ("max", false) => Number::Float(f64::MAX),
        ("min", true) => Number::Integer(i64::MIN),
        ("min", false) => Number::Float(-f64::MAX),
        ("previous", _) => *y0,
        (_, true) => {
            let (Number::Integer(y0), Number::Integer(y1)) = (*y0, *y1) else {
                panic!("integers")
            };
            Number::Integer(y0 + (time - x0) * (y1 - y0) / (x1 - x0))
        }
        (_, false) => {
            let (y0, y1) = (y0.to_f64(), y1.to_f64());
            Number::Float(y0 + (time - x0) as f64 * (y1 - y0) / (x1 - x0) as f64)
        }
    })
}

/// Integers all, or the whole is computed with floats.
fn aggregate(name: &str, values: &[Number]) -> Number {
    let integers: Option<Vec<i64>> = values
        .iter()
        .map(|value| match value {
            Number::Integer(value) => Some(*value),
            Number::Float(_) => None,
        })
        .collect();
    match integers {
        Some(integers) => Number::Integer(aggregate_integers(name, &integers)),
        None => {
            let floats: Vec<f64> = values.iter().map(|value| value.to_f64()).collect();
            Number::Float(aggregate_floats(name, &floats))
        }
    }
}

fn aggregate_integers(name: &str, values: &[i64]) -> i64 {
    let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    match name {
        "sum" | "zimsum" | "pfsum" => values.iter().sum(),
        "min" | "mimmin" => sorted[0],
        "max" | "mimmax" => sorted[sorted.len() - 1],
        "avg" => values.iter().sum::<i64>() / values.len() as i64,
        "median" => sorted[sorted.len() / 2],
        "mult" => values.iter().product(),
        "dev" => deviation(&floats) as i64,
        "diff" => values[values.len() - 1] - values[0],
        "count" => values.len() as i64,
        "first" | "none" => values[0],
        "last" => values[values.len() - 1],
        "squareSum" => values.iter().map(|value| value * value).sum(),
        percentile => {
            let mut sorted = floats;
            sorted.sort_unstable_by(f64::total_cmp);
            let (p, estimation) = percentile_of(percentile);
            estimate(&sorted, p, estimation) as i64
        }
    }
}

fn aggregate_floats(name: &str, values: &[f64]) -> f64 {
    match name {
        "mult" => return values.iter().product(),
        "first" | "none" => return values[0],
        "last" => return values[values.len() - 1],
        "diff" => {
            let first = values.iter().position(|value| !value.is_nan());
            return first.map_or(f64::NAN, |i| values[values.len() - 1] - values[i]);
        }
        _ => {}
    }
    let mut known: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    let n = known.len() as f64;
    if name == "count" {
        return n;
    }
    if known.is_empty() {
        return f64::NAN;
    }
    let sum: f64 = known.iter().sum();
    known.sort_unstable_by(f64::total_cmp);
    match name {
        "sum" | "zimsum" | "pfsum" => sum,
        "min" | "mimmin" => known[0],
        "max" | "mimmax" => known[known.len() - 1],
        "avg" => sum / n,
        "median" => known[known.len() / 2],
        "dev" => deviation(&known),
        "squareSum" => known.iter().map(|value| value * value).sum(),
        percentile => estimate(&known, percentile_of(percentile).0, "legacy"),
    }
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (squares.sum::<f64>() / n).sqrt()
}

fn percentile_of(name: &str) -> (f64, &str) {
    let name = name.trim_start_matches(['e', 'p']);
    let (digits, estimation) = name.split_once('r').unwrap_or((name, "legacy"));
    let p: f64 = digits.parse().unwrap();
    (if p > 100.0 { p / 10.0 } else { p }, estimation)
}

fn estimate(sorted: &[f64], p: f64, estimation: &str) -> f64 {
    let (n, q) = (sorted.len() as f64, p / 100.0);
    let position = match estimation {
        "legacy" => q * (n + 1.0),
        "3" if q <= 0.5 / n => 0.0,
        "3" => (n * q).round_ties_even(),
        _ => 1.0 + (n - 1.0) * q,
    };
    if position < 1.0 {
        return sorted[0];
    }
    if position >= n {
        return sorted[sorted.len() - 1];
    }
    let below = sorted[position as usize - 1];
    below + position.fract() * (sorted[position as usize] - below)
}

/// The points of one result.
fn result_of(members: &[&Series], query: &Query) -> Points {
    let (scan_start, scan_end) = scan(query);
    let mut firsts = Vec::new();
    let mut series = Vec::new();
    for member in members {
        let read = member.points.range(scan_start..scan_end);
        let mut points = downsampled(&read.map(|(t, v)| (*t, *v)).collect(), query);
        if let Some(options) = query.rate {
            points = rated(&points, options);
        }
        points.retain(|time, _| *time >= scan_start);
        // The first rate is no point.
        firsts.push(query.rate.and_then(|_| points.pop_first()));
        series.push(points);
    }
    let times: BTreeSet<i64> = series
        .iter()
        .flat_map(|points| points.keys().copied())
        .collect();
    let mut result = Points::new();
    for time in times {
        if !(query.start_ms..=query.end_ms).contains(&time) {
            continue;
        }
        let is_integer = |points: &Points| {
            let ended = points.keys().next_back().is_none_or(|last| *last < time);
            let latest = points.range(..=time).next_back();
            let next = points.range(time + 1..).next();
            let mut relevant = latest.into_iter().chain(next);
            ended || relevant.all(|(_, value)| matches!(value, Number::Integer(_)))
        };
        let as_integer = query.rate.is_none() && series.iter().all(is_integer);
        let mut values = Vec::new();
        for (points, first) in series.iter().zip(&firsts) {
            let how = if query.rate.is_some() {
                "previous"
            } else {
                interpolation(query.aggregator)
            };
            let mut value = value_at(points, time, how, as_integer);
            if let (None, Some((_, rate))) = (value, first)
                && points.keys().next_back().is_some_and(|last| *last >= time)
            {
                value = Some(*rate);
            }
            values.extend(value.map(|v| {
                if as_integer {
                    v
                } else {
                    Number::Float(v.to_f64())
                }
            }));
        }
        result.insert(time, aggregate(query.aggregator, &values));
    }
    result
}

/// All results, in their order.
pub(super) fn results_of(series: &[Series], query: &Query) -> Vec<Points> {
    let (scan_start, scan_end) = scan(query);
    let has_points = |s: &&Series| s.points.range(scan_start..scan_end).next().is_some();
    let series: Vec<&Series> = series.iter().filter(has_points).collect();
    let groups: Vec<Vec<&Series>> = if query.aggregator == "none" {
        series.iter().map(|series| vec![*series]).collect()
    } else if query.group_by_dc {
        let of_dc = |dc| series.iter().copied().filter(move |s| s.dc == dc).collect();
        (0..2).map(of_dc).collect()
    } else {
        vec![series]
    };
    let groups = groups.iter().filter(|members| !members.is_empty());
    groups.map(|members| result_of(members, query)).collect()
}
