//! Composite values: a histogram or a summary as one value.
//!
//! ```text
//! {count:12,sum:5.5,bucket:[0.1:2,+Inf:12]}
//! {count:5,sum:12.1,schema:0,zero_threshold:0.001,zero_count:2,positive_spans:[0:3],
//!  positive_buckets:[1,1,1]}                       gauges have gcount and gsum
//! {count:100,sum:1.5,quantile:[0.5:0.2,0.9:0.3]}
//! ```
//!
//! Holds always: a field is known and comes once; a histogram is valid.

use std::sync::Arc;

use icecore_model::{CounterResetHint, Histogram, HistogramCounts, Span};

use super::shown;
use crate::exposition::classic::ClassicHistogram;
use crate::exposition::float::parse_float;

const HISTOGRAM_FIELDS: [&str; 12] = [
    "count",
    "sum",
    "gcount",
    "gsum",
    "bucket",
    "schema",
    "zero_threshold",
    "zero_count",
    "positive_spans",
    "positive_buckets",
    "negative_spans",
    "negative_buckets",
];

const SUMMARY_FIELDS: [&str; 3] = ["count", "sum", "quantile"];

/// A histogram: native, classic or both.
pub(super) struct HistogramValue {
    pub(super) native: Option<Histogram>,
    pub(super) classic: Option<ClassicValue>,
}

/// Count, sum and cumulative buckets with their upper bounds, which increase.
pub(super) struct ClassicValue {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) buckets: Vec<(f64, f64)>,
}

/// Count, sum and quantiles, which increase.
pub(super) struct SummaryValue {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) quantiles: Vec<(f64, f64)>,
}

impl HistogramValue {
    pub(super) fn read(value: &str, gauge: bool) -> Result<Self, String> {
        let fields = Fields::read(value, &HISTOGRAM_FIELDS)?;
        let (count_field, sum_field) = if gauge {
            ("gcount", "gsum")
        } else {
            ("count", "sum")
        };
        let (count, sum) = (fields.number(count_field)?, fields.number(sum_field)?);
        let native = match fields.get("schema") {
            Some(schema) => {
                let whole_count = fields.whole(count_field, count);
                Some(native(&fields, schema, (count, whole_count, sum), gauge)?)
            }
            None => None,
        };
        let classic = match fields.get("bucket") {
            Some(buckets) => Some(ClassicValue {
                count,
                sum,
                buckets: bounded(buckets)?,
            }),
            None if native.is_some() => None,
            None => return Err("missing required field: bucket".into()),
        };
        Ok(Self { native, classic })
    }
}

impl ClassicValue {
    /// A native histogram with these bounds; `None` where the counts contradict each other.
    pub(super) fn converted(&self) -> Option<Histogram> {
        let mut classic = ClassicHistogram::default();
        classic.set_count(self.count);
        classic.set_sum(self.sum);
        for (bound, count) in &self.buckets {
            classic.add_bucket(*bound, *count);
        }
        classic.convert()
    }
}

impl SummaryValue {
    pub(super) fn read(value: &str) -> Result<Self, String> {
        let fields = Fields::read(value, &SUMMARY_FIELDS)?;
        let quantiles = fields.get("quantile");
        Ok(Self {
            count: fields.number("count")?,
            sum: fields.number("sum")?,
            quantiles: increasing(quantiles.ok_or("missing required field: quantile")?)?,
        })
    }
}

/// The fields of a composite value.
struct Fields<'v>(Vec<(&'v str, &'v str)>);

impl<'v> Fields<'v> {
    fn read(value: &'v str, known: &[&str]) -> Result<Self, String> {
        let inner = value.strip_prefix('{').and_then(|v| v.strip_suffix('}'));
        let Some(inner) = inner else {
            let value = shown(value);
            return Err(format!("composite value must be wrapped in {{}}: {value}"));
        };
        let mut fields = Self(Vec::with_capacity(known.len()));
        let mut depth = 0_i64;
        let parts = inner.split(|c: char| {
            match c {
                '[' | '(' => depth += 1,
                ']' | ')' => depth -= 1,
                _ => {}
            }
            c == ',' && depth == 0
        });
        for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once(':') else {
                let part = shown(part);
                return Err(format!("invalid composite field (missing ':'): {part}"));
            };
            let (name, value) = (name.trim(), value.trim());
            if !known.contains(&name) {
                return Err(format!("unknown composite field {}", shown(name)));
            }
            if fields.get(name).is_some() {
                return Err(format!("duplicate composite field {name:?}"));
            }
            fields.0.push((name, value));
        }
        Ok(fields)
    }

    fn get(&self, name: &str) -> Option<&'v str> {
        let mut fields = self.0.iter();
        fields.find(|(of, _)| *of == name).map(|(_, value)| *value)
    }

    /// The number in a field that has to be there.
    fn number(&self, name: &str) -> Result<f64, String> {
        let value = self.get(name);
        let value = value.ok_or_else(|| format!("missing required field: {name}"))?;
        let number = parse_float(value.as_bytes());
        number.ok_or_else(|| format!("invalid {name}: {}", shown(value)))
    }

    /// Returns the whole number in a field, whose nearest float is `number`. Floats have gaps above
    /// 2^53 and buckets have none, so digits alone are read as an integer. Prometheus rounds them,
    /// and refuses a count that then differs from the sum of its buckets.
    fn whole(&self, name: &str, number: f64) -> u64 {
        let digits = self.get(name).and_then(|value| value.parse::<u64>().ok());
        digits.unwrap_or(number as u64)
    }

    /// The list in a field; an empty one if there is none.
    fn list<T>(&self, name: &str, read: impl Fn(&'v str) -> Option<T>) -> Result<Vec<T>, String> {
        let items = items(self.get(name).unwrap_or_default())?;
        items
            .map(|item| read(item).ok_or_else(|| format!("invalid {name}: {}", shown(item))))
            .collect()
    }
}

fn native(
    fields: &Fields<'_>,
    schema: &str,
    (count, whole_count, sum): (f64, u64, f64),
    gauge: bool,
) -> Result<Histogram, String> {
    // Those with custom bounds cannot be exposed.
    let schema = schema.parse::<i8>().ok().filter(|s| (-4..=8).contains(s));
    let schema = schema.ok_or("schema must be between -4 and 8")?;
    let zero_threshold = fields.number("zero_threshold")?;
    if !zero_threshold.is_finite() || zero_threshold < 0.0 {
        return Err("zero_threshold must be a non-negative, finite number".into());
    }
    let zero_count = fields.number("zero_count")?;
    let is_whole = |number: f64| number.is_finite() && number >= 0.0 && number.trunc() == number;
    let has_decimals = |name: &str| {
        let list = fields.get(name).unwrap_or_default();
        list.contains(['.', 'e', 'E'])
    };
    let is_float = !is_whole(count)
        || !is_whole(zero_count)
        || has_decimals("positive_buckets")
        || has_decimals("negative_buckets");
    let counts = if is_float {
        let counts = |name| fields.list(name, |item| parse_float(item.as_bytes()));
        HistogramCounts::Float {
            count,
            zero_count,
            positive: counts("positive_buckets")?,
            negative: counts("negative_buckets")?,
        }
    } else {
        HistogramCounts::Integer {
            count: whole_count,
            zero_count: fields.whole("zero_count", zero_count),
            positive_deltas: deltas(fields, "positive_buckets")?,
            negative_deltas: deltas(fields, "negative_buckets")?,
        }
    };
    let histogram = Histogram {
        schema,
        reset_hint: if gauge {
            CounterResetHint::Gauge
        } else {
            CounterResetHint::Unknown
        },
        zero_threshold,
        sum,
        counts,
        positive_spans: fields.list("positive_spans", span)?,
        negative_spans: fields.list("negative_spans", span)?,
        custom_bounds: Arc::default(),
    };
    histogram.validate().map_err(|error| error.to_string())?;
    Ok(histogram)
}

/// Whole counts as differences.
fn deltas(fields: &Fields<'_>, name: &str) -> Result<Vec<i64>, String> {
    let counts = fields.list(name, |item| item.parse::<i64>().ok())?;
    let mut before = 0_i64;
    let deltas = counts.into_iter().map(|count| {
        let delta = count.checked_sub(before);
        before = count;
        delta.ok_or_else(|| format!("invalid {name}: counts are too far apart"))
    });
    deltas.collect()
}

fn span(item: &str) -> Option<Span> {
    let (offset, length) = item.split_once(':')?;
    Some(Span {
        offset: offset.trim().parse().ok()?,
        length: length.trim().parse().ok()?,
    })
}

/// Buckets, of which the last reaches to infinity.
fn bounded(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let buckets = increasing(text)?;
    if buckets
        .last()
        .is_none_or(|(bound, _)| *bound != f64::INFINITY)
    {
        return Err("classic histogram buckets must include a +Inf threshold".into());
    }
    Ok(buckets)
}

/// Pairs of numbers `[a:b,c:d]`, the first ones increasing.
fn increasing(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for item in items(text)? {
        let numbers = item.split_once(':').and_then(|(key, value)| {
            let number = |text: &str| parse_float(text.trim().as_bytes());
            Some((number(key)?, number(value)?))
        });
        let Some((key, value)) = numbers.filter(|(key, _)| !key.is_nan()) else {
            return Err(format!("expected two numbers, got {}", shown(item)));
        };
        if pairs.last().is_some_and(|(before, _)| key <= *before) {
            let item = shown(item);
            return Err(format!("must be sorted in increasing order: {item}"));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// The items of a list in brackets, which may be missing altogether.
fn items(text: &str) -> Result<impl Iterator<Item = &str>, String> {
    let text = text.trim();
    let inner = match text {
        "" => "",
        text => text
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .ok_or_else(|| format!("a list must be wrapped in []: {}", shown(text)))?,
    };
    Ok(inner
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty()))
}
