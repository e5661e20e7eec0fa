//! Points of histograms with explicit bounds: classic `_bucket`, `_sum` and `_count` series, or by
//! option native histograms with custom buckets.
//!
//! ```text
//! HistogramDataPoint
//!     { fixed64 start = 2; fixed64 time = 3; fixed64 count = 4; optional double sum = 5;
//!       fixed64 bucket_counts = 6; double explicit_bounds = 7; Exemplar exemplars = 8;
//!       KeyValue attributes = 9; uint32 flags = 10; optional double min = 11, max = 12; }
//! ```
//!
//! Holds always: labels `le` are made when bounds change, not per point. Minimum and maximum have
//! no place in Prometheus and are not kept.

use std::sync::Arc;

use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Exemplar, Histogram, HistogramCounts,
    MAX_HISTOGRAM_BUCKETS, SampleSink, Span, Temporality,
};

use super::exemplar::decode_exemplar;
use super::labels::{ExtraLabel, push_label};
use super::metric::Metric;
use super::point::PointTime;
use super::request::Decoder;
use crate::prometheus::number::push_formatted;
use crate::prometheus::protobuf::{
    ProtobufError, Reader, Result, bytes_tag, fixed64_tag, known, varint_tag,
};

const START: u32 = fixed64_tag(2);
const TIME: u32 = fixed64_tag(3);
const COUNT: u32 = fixed64_tag(4);
const SUM: u32 = fixed64_tag(5);
const COUNT_OF_BUCKET: u32 = fixed64_tag(6);
const BUCKET_COUNTS: u32 = bytes_tag(6);
const BOUND: u32 = fixed64_tag(7);
const BOUNDS: u32 = bytes_tag(7);
const EXEMPLARS: u32 = bytes_tag(8);
const ATTRIBUTES: u32 = bytes_tag(9);
const FLAGS: u32 = varint_tag(10);
const MIN: u32 = fixed64_tag(11);
const MAX: u32 = fixed64_tag(12);
const FIELDS: u32 = known(&[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);

/// Buckets of the current point, and what is cached for its bounds.
#[derive(Default)]
pub(super) struct HistogramBuffers {
    /// Upper bounds without +Inf.
    pub(super) bounds: Vec<f64>,
    /// Observations of each bucket alone, with one more for those above the last bound.
    pub(super) counts: Vec<u64>,
    /// Whether there were more than can be.
    pub(super) too_many: bool,
    known: BoundsCache,
    pub(super) positive: Vec<u64>,
    pub(super) negative: Vec<u64>,
}

/// What was derived from bounds, for as long as points repeat them.
#[derive(Default)]
struct BoundsCache {
    bounds: Vec<f64>,
    /// Labels `le` one after the other, +Inf last, and where each ends.
    labels: Vec<u8>,
    ends: Vec<usize>,
    shared: Option<Arc<[f64]>>,
    problem: Option<&'static str>,
}

impl HistogramBuffers {
    fn clear(&mut self) {
        self.bounds.clear();
        self.counts.clear();
        self.too_many = false;
    }

    fn push_packed(&mut self, tag: u32, bytes: &[u8]) -> Result<()> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(ProtobufError::PackedLength);
        }
        for number in numbers {
            self.push(tag, u64::from_le_bytes(*number));
        }
        Ok(())
    }

    fn push(&mut self, tag: u32, bits: u64) {
        if self.bounds.len().max(self.counts.len()) > MAX_HISTOGRAM_BUCKETS {
            self.too_many = true;
        } else if matches!(tag, BOUND | BOUNDS) {
            self.bounds.push(f64::from_bits(bits));
        } else {
            self.counts.push(bits);
        }
    }

    /// Checks that bounds and counts fit together.
    fn check(&mut self) -> std::result::Result<(), String> {
        if self.too_many {
            return Err(format!(
                "histogram has more than {MAX_HISTOGRAM_BUCKETS} buckets"
            ));
        }
        let (bounds, counts) = (self.bounds.len(), self.counts.len());
        if counts != 0 && counts != bounds + 1 {
            return Err(format!(
                "histogram has {counts} buckets and {bounds} bounds"
            ));
        }
        self.known.set(&self.bounds);
        self.known
            .problem
            .map_or(Ok(()), |problem| Err(problem.into()))
    }
}

impl BoundsCache {
    fn set(&mut self, bounds: &[f64]) {
        let same = self.bounds.len() == bounds.len()
            && std::iter::zip(&self.bounds, bounds).all(|(a, b)| a.to_bits() == b.to_bits());
        if same && !self.ends.is_empty() {
            return;
        }
        self.bounds.clear();
        self.bounds.extend_from_slice(bounds);
        self.labels.clear();
        self.ends.clear();
        self.shared = None;
        let ordered = bounds.is_sorted_by(|a, b| a < b) && !bounds.iter().any(|b| b.is_nan());
        self.problem =
            (!ordered).then_some("histogram bounds must be numbers in strictly increasing order");
        let mut text = Vec::new();
        for bound in bounds.iter().copied().chain([f64::INFINITY]) {
            text.clear();
            match bound {
                f64::INFINITY => text.extend_from_slice(b"+Inf"),
                f64::NEG_INFINITY => text.extend_from_slice(b"-Inf"),
                // Prometheus writes all digits and never an exponent here.
                bound => push_formatted(&mut text, format_args!("{bound}")),
            }
            push_label(&mut self.labels, ExtraLabel::Le.name().as_bytes(), &text);
            self.ends.push(self.labels.len());
        }
    }

    fn label(&self, bucket: usize) -> &[u8] {
        let start = bucket
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or(0);
        let end = self.ends.get(bucket).copied().unwrap_or(start);
        self.labels.get(start..end).unwrap_or_default()
    }
}

impl<'a, S: SampleSink> Decoder<'a, '_, S> {
    pub(super) fn histogram_point(&mut self, message: &'a [u8], metric: &Metric<'a>) -> Result<()> {
        let point = &mut self.point;
        point.clear();
        self.histogram.clear();
        let (mut count, mut sum) = (0, None);
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                ATTRIBUTES => point.push_attribute(reader.bytes()?)?,
                START => point.start_ns = reader.fixed64()?,
                TIME => point.time_ns = reader.fixed64()?,
                COUNT => count = reader.fixed64()?,
                SUM => sum = Some(reader.double()?),
                tag @ (BUCKET_COUNTS | BOUNDS) => {
                    self.histogram.push_packed(tag, reader.bytes()?)?;
                }
                tag @ (COUNT_OF_BUCKET | BOUND) => self.histogram.push(tag, reader.fixed64()?),
                EXEMPLARS => point.exemplars.push(reader.bytes()?),
                FLAGS => point.flags = reader.varint()?,
                tag @ (MIN | MAX) => reader.skip(tag)?,
                other => reader.skip_unknown(other, FIELDS)?,
            }
        }
        let Some(when) = self.begin_point(metric)? else {
            return Ok(());
        };
        if self.translation.convert_histograms_to_nhcb {
            let histogram = self
                .histogram
                .check()
                .and_then(|()| self.custom(count, sum));
            return self.put_native(metric, when, histogram);
        }
        self.put_classic(metric, when, count, sum)
    }

    /// Writes the point as `_bucket`, `_sum` and `_count` series.
    pub(super) fn put_classic(
        &mut self,
        metric: &Metric<'_>,
        when: PointTime,
        count: u64,
        sum: Option<f64>,
    ) -> Result<()> {
        let exemplars = match self.histogram.check() {
            Ok(()) => self.exemplars_by_bucket(when)?,
            Err(reason) => {
                self.sink.reject(format!("{}: {reason}", metric.family));
                return Ok(());
            }
        };
        if let Err(reason) = self.put_components(metric, when, count, sum, &exemplars) {
            self.sink.reject(reason);
        }
        Ok(())
    }

    fn put_components(
        &mut self,
        metric: &Metric<'_>,
        when: PointTime,
        count: u64,
        sum: Option<f64>,
        exemplars: &[(usize, Exemplar)],
    ) -> std::result::Result<(), String> {
        let mut cumulative = 0u64;
        let last = self.histogram.bounds.len();
        for bucket in 0..=last {
            let own = self.histogram.counts.get(bucket).copied();
            cumulative = cumulative.saturating_add(own.unwrap_or(0));
            let bound = self.histogram.bounds.get(bucket);
            // A bound at infinity is the bucket that comes last anyway. Without counts of buckets
            // only that one is known, except that the end of the series is the end of all of them.
            if bound == Some(&f64::INFINITY) || (bucket < last && own.is_none() && !when.stale) {
                continue;
            }
            let extra = Some((ExtraLabel::Le, self.histogram.known.label(bucket)));
            self.labels
                .announce(self.sink, &metric.labels.bucket, extra)?;
            let value = if bucket == last { count } else { cumulative };
            self.put(metric.temporality, when, value as f64);
            for (_, exemplar) in exemplars.iter().filter(|(of, _)| *of == bucket) {
                self.sink.exemplar(exemplar.clone());
            }
        }
        if sum.is_some() || when.stale {
            self.labels.announce(self.sink, &metric.labels.sum, None)?;
            self.put(metric.temporality, when, sum.unwrap_or(0.0));
        }
        self.labels
            .announce(self.sink, &metric.labels.count, None)?;
        self.put(metric.temporality, when, count as f64);
        Ok(())
    }

    /// The exemplars of the point with the bucket that each falls into.
    fn exemplars_by_bucket(&mut self, when: PointTime) -> Result<Vec<(usize, Exemplar)>> {
        let mut exemplars = Vec::new();
        let bounds = &self.histogram.bounds;
        let counted = !self.histogram.counts.is_empty();
        for message in &self.point.exemplars {
            match decode_exemplar(message, when.timestamp_ms)? {
                Ok(exemplar) => {
                    let value = exemplar.value;
                    let bucket = if value.is_nan() || !counted {
                        bounds.len()
                    } else {
                        bounds.partition_point(|bound| *bound < value)
                    };
                    let at_infinity = bounds.get(bucket) == Some(&f64::INFINITY);
                    let bucket = if at_infinity { bounds.len() } else { bucket };
                    exemplars.push((bucket, exemplar));
                }
                Err(reason) => self.sink.reject(reason.into()),
            }
        }
        Ok(exemplars)
    }

    /// Writes a native histogram of the current point, or rejects the point.
    pub(super) fn put_native(
        &mut self,
        metric: &Metric<'_>,
        when: PointTime,
        histogram: std::result::Result<Histogram, String>,
    ) -> Result<()> {
        let histogram = if when.stale {
            Ok(Histogram::stale())
        } else {
            histogram
        };
        let checked = histogram.and_then(|histogram| {
            histogram.validate().map_err(|error| error.to_string())?;
            self.labels
                .announce(self.sink, &metric.labels.plain, None)?;
            Ok(histogram)
        });
        let histogram = match checked {
            Ok(histogram) => histogram,
            Err(reason) => {
                self.sink.reject(format!("{}: {reason}", metric.family));
                return Ok(());
            }
        };
        let (timestamp_ms, start_ms) = (when.timestamp_ms, when.start_timestamp_ms);
        if when.stale {
            self.sink.histogram(timestamp_ms, 0, histogram);
        } else if metric.temporality == Temporality::Delta {
            self.sink.delta_histogram(timestamp_ms, start_ms, histogram);
        } else {
            self.sink.histogram(timestamp_ms, start_ms, histogram);
        }
        self.put_exemplars(when)
    }

    /// The native histogram with the bounds of the point.
    fn custom(&mut self, count: u64, sum: Option<f64>) -> std::result::Result<Histogram, String> {
        let HistogramBuffers {
            bounds,
            counts,
            known,
            ..
        } = &mut self.histogram;
        // A bound at infinity is the bucket that comes last anyway.
        if bounds.last() == Some(&f64::INFINITY) {
            bounds.pop();
            if let Some(above) = counts.pop()
                && let Some(last) = counts.last_mut()
            {
                *last = last.saturating_add(above);
            }
            known.set(bounds);
        }
        if counts.is_empty() {
            // All that is known is how many there were.
            bounds.clear();
            known.set(bounds);
            counts.push(count);
        }
        let shared = known.shared.get_or_insert_with(|| bounds.as_slice().into());
        let (spans, deltas) = sparse(0, counts.iter().copied())?;
        Ok(Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            reset_hint: CounterResetHint::Unknown,
            zero_threshold: 0.0,
            sum: sum.unwrap_or(0.0),
            counts: HistogramCounts::Integer {
                count,
                zero_count: 0,
                positive_deltas: deltas,
                negative_deltas: Vec::new(),
            },
            positive_spans: spans,
            negative_spans: Vec::new(),
            custom_bounds: Arc::clone(shared),
        })
    }
}

/// Empty buckets in a row that are written out rather than skipped: a span costs as much as two.
const GAP_MAX: i64 = 2;

/// Spans and deltas of consecutive buckets, the first of which has this index.
pub(super) fn sparse(
    first: i64,
    counts: impl Iterator<Item = u64>,
) -> std::result::Result<(Vec<Span>, Vec<i64>), String> {
    let mut spans: Vec<Span> = Vec::new();
    let mut deltas = Vec::new();
    let (mut next, mut before) = (0i64, 0i64);
    for (index, count) in (first..).zip(counts) {
        if count == 0 {
            continue;
        }
        let count = i64::try_from(count)
            .map_err(|_| "histogram has a bucket count that is too large".to_owned())?;
        let gap = index - next;
        match spans.last_mut() {
            Some(span) if gap <= GAP_MAX => {
                for _ in 0..gap {
                    deltas.push(-before);
                    before = 0;
                }
                span.length += gap as u32 + 1;
            }
            _ => {
                let offset = i32::try_from(gap)
                    .map_err(|_| "histogram has a bucket index out of range".to_owned())?;
                spans.push(Span { offset, length: 1 });
            }
        }
        deltas.push(count - before);
        before = count;
        next = index + 1;
    }
    Ok((spans, deltas))
}
