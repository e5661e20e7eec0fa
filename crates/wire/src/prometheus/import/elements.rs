//! The parts of a line that are read as a whole: labels, histograms, exemplars, metadata.

use icecore_model::{
    CounterResetHint, Exemplar, Histogram, HistogramCounts, Labels, MAX_HISTOGRAM_BUCKETS,
    Metadata, MetricType, Span, Temporality, push_raw_label,
};

use super::value::{parse_number, parse_whole, parse_word};
use super::{DEPTH_MAX, Problem, not_a};
use crate::json::JsonReader;
use crate::prometheus::export::NORMAL_NAN_BITS;

type Result<T> = std::result::Result<T, Problem>;

/// The labels of a series, as [`RawLabels`](icecore_model::RawLabels).
pub(super) fn read_metric(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut json = json_of(value)?;
    out.clear();
    json.object(|json, name| {
        push_raw_label(out, name, &json.string()?);
        Ok::<_, Problem>(())
    })?;
    end(&mut json)
}

pub(super) fn read_exemplar(value: &[u8]) -> Result<Exemplar> {
    let (mut labels, mut timestamp_ms, mut number) = (Labels::empty(), None, None);
    let mut json = json_of(value)?;
    json.object(|json, key| {
        match key {
            "labels" => {
                let mut pairs = Vec::new();
                json.object(|json, name| {
                    pairs.push((name.to_owned(), json.string()?));
                    Ok::<_, Problem>(())
                })?;
                labels = Labels::from_pairs(pairs);
            }
            "timestamp" => timestamp_ms = Some(read_whole(json)?),
            "value" => number = Some(read_value(json)?),
            _ => json.skip()?,
        }
        Ok::<_, Problem>(())
    })?;
    end(&mut json)?;
    Ok(Exemplar {
        labels,
        timestamp_ms: timestamp_ms.ok_or("exemplar without a timestamp")?,
        value: number.ok_or("exemplar without a value")?,
    })
}

pub(super) fn read_metadata(value: &[u8]) -> Result<(String, Metadata)> {
    let mut family = String::new();
    let mut metadata = Metadata::default();
    let mut json = json_of(value)?;
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
            "monotonic" => metadata.monotonic = json.boolean()?,
            _ => json.skip()?,
        }
        Ok::<_, Problem>(())
    })?;
    end(&mut json)?;
    if family.is_empty() {
        return Err("metadata without a family".into());
    }
    Ok((family, metadata))
}

/// A pair of whole numbers.
pub(super) fn read_pair(json: &mut JsonReader<'_>) -> Result<(i64, i64)> {
    let (mut pair, mut count) = ([0; 2], 0);
    json.array(|json| {
        let number = pair.get_mut(count).ok_or("expected a pair of numbers")?;
        *number = read_whole(json)?;
        count += 1;
        Ok::<_, Problem>(())
    })?;
    match (pair, count) {
        ([first, second], 2) => Ok((first, second)),
        _ => Err("expected a pair of numbers".into()),
    }
}

pub(super) fn json_of(value: &[u8]) -> Result<JsonReader<'_>> {
    let text = std::str::from_utf8(value).map_err(|_| "text is not UTF-8")?;
    Ok(JsonReader::new(text, DEPTH_MAX))
}

fn end(json: &mut JsonReader<'_>) -> Result<()> {
    if json.is_at_end() {
        Ok(())
    } else {
        Err("unexpected text after a value".into())
    }
}

/// Any float: a number, a string as exports write them, or `null` for NaN as VictoriaMetrics does.
pub(super) fn read_value(json: &mut JsonReader<'_>) -> Result<f64> {
    match json.peek()? {
        b'"' => {
            let word = json.string()?;
            parse_word(&word).ok_or_else(|| not_a("value", &word))
        }
        b'n' if json.null()? => Ok(f64::from_bits(NORMAL_NAN_BITS)),
        _ => {
            let token = json.number()?;
            parse_number(token.as_bytes()).ok_or_else(|| not_a("value", token))
        }
    }
}

fn read_whole(json: &mut JsonReader<'_>) -> Result<i64> {
    let token = json.number()?;
    parse_whole(token.as_bytes()).ok_or_else(|| not_a("whole number", token))
}

/// A histogram with its timestamp. It may still contradict itself.
pub(super) fn read_histogram(value: &[u8]) -> Result<(i64, Histogram)> {
    let mut read = HistogramBuilder::default();
    let mut json = json_of(value)?;
    json.object(|json, key| read.member(json, key))?;
    end(&mut json)?;
    read.finish()
}

/// A histogram whose kind is known when its last member is.
#[derive(Default)]
struct HistogramBuilder {
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

/// A count in both forms: large whole numbers would lose digits as a float.
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

impl HistogramBuilder {
    fn member(&mut self, json: &mut JsonReader<'_>, key: &str) -> Result<()> {
        match key {
            "timestamp" => self.timestamp_ms = Some(read_whole(json)?),
            "schema" => self.schema = read_whole(json)?,
            "reset_hint" => self.reset_hint = reset_hint(&json.string()?)?,
            "sum" => self.sum = read_value(json)?,
            "zero_threshold" => self.zero_threshold = read_value(json)?,
            "count" => self.count = count(json)?,
            "zero_count" => self.zero_count = count(json)?,
            "positive_spans" => self.positive.spans = bounded(json, span)?,
            "negative_spans" => self.negative.spans = bounded(json, span)?,
            "positive_deltas" => self.positive.deltas = Some(bounded(json, read_whole)?),
            "negative_deltas" => self.negative.deltas = Some(bounded(json, read_whole)?),
            "positive_counts" => self.positive.counts = Some(bounded(json, read_value)?),
            "negative_counts" => self.negative.counts = Some(bounded(json, read_value)?),
            "custom_bounds" => self.custom_bounds = bounded(json, read_value)?,
            _ => json.skip()?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(i64, Histogram)> {
        let (positive, negative) = (self.positive, self.negative);
        let is_float = positive.counts.is_some() || negative.counts.is_some();
        if is_float && (positive.deltas.is_some() || negative.deltas.is_some()) {
            return Err("histogram with deltas and with counts".into());
        }
        let whole = |count: Count| count.whole.ok_or("the count is not a whole number");
        let counts = if is_float {
            HistogramCounts::Float {
                count: self.count.float,
                zero_count: self.zero_count.float,
                positive: positive.counts.unwrap_or_default(),
                negative: negative.counts.unwrap_or_default(),
            }
        } else {
            HistogramCounts::Integer {
                count: whole(self.count)?,
                zero_count: self.zero_count.whole.unwrap_or_default(),
                positive_deltas: positive.deltas.unwrap_or_default(),
                negative_deltas: negative.deltas.unwrap_or_default(),
            }
        };
        let histogram = Histogram {
            schema: i8::try_from(self.schema).map_err(|_| "schema out of range")?,
            reset_hint: self.reset_hint,
            zero_threshold: self.zero_threshold,
            sum: self.sum,
            counts,
            positive_spans: positive.spans,
            negative_spans: negative.spans,
            custom_bounds: self.custom_bounds.into(),
        };
        let timestamp_ms = self.timestamp_ms.ok_or("histogram without a timestamp")?;
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

fn count(json: &mut JsonReader<'_>) -> Result<Count> {
    if json.peek()? == b'"' {
        let float = read_value(json)?;
        return Ok(Count { whole: None, float });
    }
    let token = json.number()?;
    let float = parse_number(token.as_bytes()).ok_or_else(|| not_a("value", token))?;
    let whole = token.parse().ok();
    Ok(Count { whole, float })
}

fn span(json: &mut JsonReader<'_>) -> Result<Span> {
    let (offset, length) = read_pair(json)?;
    match (i32::try_from(offset), u32::try_from(length)) {
        (Ok(offset), Ok(length)) => Ok(Span { offset, length }),
        _ => Err("span out of range".into()),
    }
}

fn bounded<'a, T>(
    json: &mut JsonReader<'a>,
    mut each: impl FnMut(&mut JsonReader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut list = Vec::new();
    json.array(|json| {
        if list.len() >= MAX_HISTOGRAM_BUCKETS {
            return Err("histogram with too many buckets".into());
        }
        list.push(each(json)?);
        Ok::<_, Problem>(())
    })?;
    Ok(list)
}
