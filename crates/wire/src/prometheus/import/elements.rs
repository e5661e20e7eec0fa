//! The parts of a line that are read as a whole: labels, histograms, exemplars, metadata.

use icecore_model::{
    CounterResetHint, Exemplar, Histogram, HistogramCounts, Labels, MAX_HISTOGRAM_BUCKETS,
    Metadata, MetricType, Span, Temporality, push_raw_label,
};

use super::json::{Json, Problem, not_a};

type Result<T> = std::result::Result<T, Problem>;

/// The labels of a series, as [`RawLabels`](icecore_model::RawLabels).
pub(super) fn read_metric(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut json = Json::new(value);
    out.clear();
    json.object(|json, name| {
        push_raw_label(out, name, &json.string()?);
        Ok(())
    })?;
    json.end()
}

pub(super) fn read_exemplar(value: &[u8]) -> Result<Exemplar> {
    let (mut labels, mut timestamp_ms, mut number) = (Labels::empty(), None, None);
    let mut json = Json::new(value);
    json.object(|json, key| {
        match key {
            "labels" => {
                let mut pairs = Vec::new();
                json.object(|json, name| {
                    pairs.push((name.to_owned(), json.string()?));
                    Ok(())
                })?;
                labels = Labels::from_pairs(pairs);
            }
            "timestamp" => timestamp_ms = Some(json.signed()?),
            "value" => number = Some(json.float()?),
            _ => json.skip()?,
        }
        Ok(())
    })?;
    json.end()?;
    Ok(Exemplar {
        labels,
        timestamp_ms: timestamp_ms.ok_or("an exemplar without a timestamp")?,
        value: number.ok_or("an exemplar without a value")?,
    })
}

pub(super) fn read_metadata(value: &[u8]) -> Result<(String, Metadata)> {
    let mut family = String::new();
    let mut metadata = Metadata::default();
    let mut json = Json::new(value);
    json.object(|json, key| {
        match key {
            "family" => family = json.string()?.into_owned(),
            "type" => {
                let name = json.string()?;
                let known = MetricType::ALL.into_iter().find(|t| t.name() == name);
                metadata.metric_type = known.ok_or_else(|| not_a("metric type", &name))?;
            }
            "unit" => metadata.unit = json.string()?.into_owned(),
            "help" => metadata.help = json.string()?.into_owned(),
            "temporality" => {
                let name = json.string()?;
                metadata.temporality = match &*name {
                    "cumulative" => Temporality::Cumulative,
                    "delta" => Temporality::Delta,
                    _ => return Err(not_a("temporality", &name)),
                };
            }
            "monotonic" => {
                json.skip()?;
                metadata.monotonic = true;
            }
            _ => json.skip()?,
        }
        Ok(())
    })?;
    json.end()?;
    match family.is_empty() {
        true => Err("metadata without a family".into()),
        false => Ok((family, metadata)),
    }
}

/// A pair of whole numbers.
pub(super) fn read_pair(json: &mut Json<'_>) -> Result<(i64, i64)> {
    json.expect(b'[')?;
    let first = json.signed()?;
    json.expect(b',')?;
    let second = json.signed()?;
    json.expect(b']')?;
    Ok((first, second))
}

/// A histogram with its timestamp. It may still contradict itself.
pub(super) fn read_histogram(value: &[u8]) -> Result<(i64, Histogram)> {
    let mut read = ReadHistogram::default();
    let mut json = Json::new(value);
    json.object(|json, key| read.member(json, key))?;
    json.end()?;
    read.finish()
}

/// A histogram whose kind is known when its last member is.
#[derive(Default)]
struct ReadHistogram {
    timestamp_ms: Option<i64>,
    schema: i64,
    reset_hint: CounterResetHint,
    sum: f64,
    zero_threshold: f64,
    count: Count,
    zero_count: Count,
    positive: Side,
    negative: Side,
    custom_bounds: Vec<f64>,
}

/// A count as it stands there: whole numbers that a float does not hold must not become one.
#[derive(Clone, Copy, Default)]
struct Count {
    whole: Option<u64>,
    float: f64,
}

#[derive(Default)]
struct Side {
    spans: Vec<Span>,
    deltas: Option<Vec<i64>>,
    counts: Option<Vec<f64>>,
}

impl ReadHistogram {
    fn member(&mut self, json: &mut Json<'_>, key: &str) -> Result<()> {
        match key {
            "timestamp" => self.timestamp_ms = Some(json.signed()?),
            "schema" => self.schema = json.signed()?,
            "reset_hint" => self.reset_hint = reset_hint(&json.string()?)?,
            "sum" => self.sum = json.float()?,
            "zero_threshold" => self.zero_threshold = json.float()?,
            "count" => self.count = count(json)?,
            "zero_count" => self.zero_count = count(json)?,
            "positive_spans" => self.positive.spans = bounded(json, span)?,
            "negative_spans" => self.negative.spans = bounded(json, span)?,
            "positive_deltas" => self.positive.deltas = Some(bounded(json, Json::signed)?),
            "negative_deltas" => self.negative.deltas = Some(bounded(json, Json::signed)?),
            "positive_counts" => self.positive.counts = Some(bounded(json, Json::float)?),
            "negative_counts" => self.negative.counts = Some(bounded(json, Json::float)?),
            "custom_bounds" => self.custom_bounds = bounded(json, Json::float)?,
            _ => json.skip()?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(i64, Histogram)> {
        let (positive, negative) = (self.positive, self.negative);
        let is_float = positive.counts.is_some() || negative.counts.is_some();
        if is_float && (positive.deltas.is_some() || negative.deltas.is_some()) {
            return Err("a histogram with deltas and with counts".into());
        }
        let whole = |count: Count| count.whole.ok_or("a count that is not a whole number");
        let counts = match is_float {
            true => HistogramCounts::Float {
                count: self.count.float,
                zero_count: self.zero_count.float,
                positive: positive.counts.unwrap_or_default(),
                negative: negative.counts.unwrap_or_default(),
            },
            false => HistogramCounts::Integer {
                count: whole(self.count)?,
                zero_count: self.zero_count.whole.unwrap_or_default(),
                positive_deltas: positive.deltas.unwrap_or_default(),
                negative_deltas: negative.deltas.unwrap_or_default(),
            },
        };
        let histogram = Histogram {
            schema: i8::try_from(self.schema).map_err(|_| "a schema that is out of range")?,
            reset_hint: self.reset_hint,
            zero_threshold: self.zero_threshold,
            sum: self.sum,
            counts,
            positive_spans: positive.spans,
            negative_spans: negative.spans,
            custom_bounds: self.custom_bounds.into(),
        };
        let timestamp_ms = self.timestamp_ms.ok_or("a histogram without a timestamp")?;
        Ok((timestamp_ms, histogram))
    }
}

fn reset_hint(name: &str) -> Result<CounterResetHint> {
    Ok(match name {
        "unknown" => CounterResetHint::Unknown,
        "reset" => CounterResetHint::Reset,
        "not_reset" => CounterResetHint::NotReset,
        "gauge" => CounterResetHint::Gauge,
        _ => return Err(not_a("reset hint", name)),
    })
}

fn count(json: &mut Json<'_>) -> Result<Count> {
    let (float, text) = json.float_with_text()?;
    Ok(Count {
        whole: std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()),
        float,
    })
}

fn span(json: &mut Json<'_>) -> Result<Span> {
    let (offset, length) = read_pair(json)?;
    match (i32::try_from(offset), u32::try_from(length)) {
        (Ok(offset), Ok(length)) => Ok(Span { offset, length }),
        _ => Err("a span that is out of range".into()),
    }
}

fn bounded<'a, T>(
    json: &mut Json<'a>,
    mut each: impl FnMut(&mut Json<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut list = Vec::new();
    json.list(|json| {
        if list.len() >= MAX_HISTOGRAM_BUCKETS {
            return Err("a histogram with too many buckets".into());
        }
        list.push(each(json)?);
        Ok(())
    })?;
    Ok(list)
}
