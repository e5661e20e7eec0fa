//! One `Metric` message, returned as the samples it has in text.

use icecore_model::MetricType;

use super::histogram::HistogramMessage;
use super::value::{CounterMessage, SummaryMessage, read_value};
use super::{ExemplarSource, ParserOptions, broken};
use crate::exposition::float::format_float;
use crate::exposition::labels::SEPARATOR;
use crate::exposition::{SeriesValue, excerpt};
use crate::prometheus::protobuf::{Reader, bytes_tag, known, varint_tag};

const LABEL: u32 = bytes_tag(1);
const GAUGE: u32 = bytes_tag(2);
const COUNTER: u32 = bytes_tag(3);
const SUMMARY: u32 = bytes_tag(4);
const UNTYPED: u32 = bytes_tag(5);
const TIMESTAMP: u32 = varint_tag(6);
const HISTOGRAM: u32 = bytes_tag(7);
const FIELDS: u32 = known(&[1, 2, 3, 4, 5, 6, 7]);

const PAIR_NAME: u32 = bytes_tag(1);
const PAIR_VALUE: u32 = bytes_tag(2);
const PAIR_FIELDS: u32 = known(&[1, 2]);

/// What the metrics of a family have in common.
#[derive(Clone, Copy, Default)]
pub(super) struct Family<'a> {
    pub(super) name: &'a str,
    pub(super) help: &'a str,
    pub(super) unit: &'a str,
    pub(super) metric_type: MetricType,
}

/// A metric, and which of its samples come next.
pub(super) struct Metric<'a> {
    message: &'a [u8],
    pub(super) timestamp_ms: Option<i64>,
    pub(super) created_ms: Option<i64>,
    next: Next<'a>,
}

enum Next<'a> {
    /// A gauge, a counter or neither.
    Plain(f64, ExemplarSource<'a>),
    Native(HistogramMessage<'a>, NativeSource, bool),
    SummaryCount(SummaryMessage<'a>),
    SummarySum(SummaryMessage<'a>),
    Quantiles(Reader<'a>),
    HistogramCount(HistogramMessage<'a>),
    HistogramSum(HistogramMessage<'a>),
    /// Until a bucket reaches to infinity.
    Buckets(HistogramMessage<'a>, Reader<'a>),
    Nothing,
}

/// Where a native histogram comes from.
#[derive(Clone, Copy)]
enum NativeSource {
    Sent,
    FromClassic,
}

/// The value of a series.
pub(super) struct Sample<'a> {
    pub(super) value: SeriesValue,
    pub(super) exemplars: ExemplarSource<'a>,
}

impl<'a> Metric<'a> {
    pub(super) fn read(
        message: &'a [u8],
        family: &Family<'_>,
        options: ParserOptions,
    ) -> Result<Self, String> {
        let mut timestamp_ms = 0;
        let wanted = match family.metric_type {
            MetricType::Counter => COUNTER,
            MetricType::Gauge => GAUGE,
            MetricType::Summary => SUMMARY,
            MetricType::Histogram | MetricType::GaugeHistogram => HISTOGRAM,
            _ => UNTYPED,
        };
        let mut content = &[][..];
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag().map_err(broken)? {
                TIMESTAMP => timestamp_ms = reader.varint().map_err(broken)? as i64,
                tag if tag == wanted => content = reader.bytes().map_err(broken)?,
                // Labels are read when the text is written, values of other types are ignored.
                tag @ (LABEL | GAUGE | COUNTER | SUMMARY | UNTYPED | HISTOGRAM) => {
                    reader.skip(tag).map_err(broken)?;
                }
                other => reader.skip_unknown(other, FIELDS).map_err(broken)?,
            }
        }
        let (created_ms, next) = match wanted {
            COUNTER => {
                let counter = CounterMessage::read(content).map_err(broken)?;
                let exemplar = counter
                    .exemplar
                    .map_or(ExemplarSource::None, ExemplarSource::Message);
                (counter.created_ms, Next::Plain(counter.value, exemplar))
            }
            SUMMARY => {
                let summary = SummaryMessage::read(content).map_err(broken)?;
                (summary.created_ms, Next::SummaryCount(summary))
            }
            HISTOGRAM => {
                let histogram = HistogramMessage::read(content).map_err(broken)?;
                (histogram.created_ms, first_of_histogram(histogram, options))
            }
            _ => {
                let value = read_value(content).map_err(broken)?;
                (None, Next::Plain(value, ExemplarSource::None))
            }
        };
        Ok(Self {
            message,
            timestamp_ms: (timestamp_ms != 0).then_some(timestamp_ms),
            created_ms,
            next,
        })
    }

    /// The next sample, whose series is written to `text`.
    pub(super) fn next_sample(
        &mut self,
        family: &Family<'_>,
        text: &mut Vec<u8>,
    ) -> Result<Option<Sample<'a>>, String> {
        let float = |value| Sample {
            value: SeriesValue::Float(value),
            exemplars: ExemplarSource::None,
        };
        let mut suffix = "";
        let mut number_label = None;
        let sample = loop {
            match std::mem::replace(&mut self.next, Next::Nothing) {
                Next::Nothing => return Ok(None),
                Next::Plain(value, exemplars) => {
                    break Sample {
                        exemplars,
                        ..float(value)
                    };
                }
                Next::Native(histogram, kind, with_classic) => {
                    let gauge = family.metric_type == MetricType::GaugeHistogram;
                    let (value, exemplars) = match kind {
                        NativeSource::Sent => (
                            Some(histogram.native(gauge)?),
                            ExemplarSource::NativeHistogram(histogram.message),
                        ),
                        NativeSource::FromClassic => (
                            histogram.custom_bounds(gauge).map_err(broken)?,
                            ExemplarSource::ClassicHistogram(histogram.message),
                        ),
                    };
                    // Classic series also where they contradict each other: nothing is lost.
                    if with_classic || value.is_none() {
                        self.next = Next::HistogramCount(histogram);
                    }
                    if let Some(value) = value {
                        break Sample {
                            value: SeriesValue::Histogram(value),
                            exemplars,
                        };
                    }
                }
                Next::SummaryCount(summary) => {
                    suffix = "_count";
                    self.next = Next::SummarySum(summary);
                    break float(summary.count as f64);
                }
                Next::SummarySum(summary) => {
                    suffix = "_sum";
                    self.next = Next::Quantiles(Reader::new(summary.message));
                    break float(summary.sum);
                }
                Next::Quantiles(mut rest) => {
                    if let Some((quantile, value)) =
                        SummaryMessage::next_quantile(&mut rest).map_err(broken)?
                    {
                        number_label = Some(("quantile", quantile));
                        self.next = Next::Quantiles(rest);
                        break float(value);
                    }
                }
                Next::HistogramCount(histogram) => {
                    suffix = "_count";
                    let count = histogram.count;
                    self.next = Next::HistogramSum(histogram);
                    break float(count);
                }
                Next::HistogramSum(histogram) => {
                    suffix = "_sum";
                    let (sum, buckets) = (histogram.sum, Reader::new(histogram.message));
                    self.next = Next::Buckets(histogram, buckets);
                    break float(sum);
                }
                Next::Buckets(histogram, mut rest) => {
                    suffix = "_bucket";
                    let bucket = HistogramMessage::next_bucket(&mut rest).map_err(broken)?;
                    let Some(bucket) = bucket else {
                        // Clients leave out the last bucket where it equals the count.
                        number_label = Some(("le", f64::INFINITY));
                        break float(histogram.count);
                    };
                    number_label = Some(("le", bucket.upper_bound));
                    if bucket.upper_bound != f64::INFINITY {
                        self.next = Next::Buckets(histogram, rest);
                    }
                    break Sample {
                        exemplars: bucket
                            .exemplar
                            .map_or(ExemplarSource::None, ExemplarSource::Message),
                        ..float(bucket.cumulative_count)
                    };
                }
            }
        };
        self.write_text(text, family.name, suffix, number_label)?;
        Ok(Some(sample))
    }

    fn write_text(
        &self,
        text: &mut Vec<u8>,
        name: &str,
        suffix: &str,
        number_label: Option<(&str, f64)>,
    ) -> Result<(), String> {
        text.clear();
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(suffix.as_bytes());
        let mut reader = Reader::new(self.message);
        while !reader.is_empty() {
            match reader.tag().map_err(broken)? {
                LABEL => write_label(text, reader.bytes().map_err(broken)?)?,
                other => reader.skip(other).map_err(broken)?,
            }
        }
        if let Some((name, number)) = number_label {
            text.push(SEPARATOR);
            text.extend_from_slice(name.as_bytes());
            text.push(SEPARATOR);
            text.extend_from_slice(format_float(number).as_bytes());
        }
        Ok(())
    }
}

fn first_of_histogram(histogram: HistogramMessage<'_>, options: ParserOptions) -> Next<'_> {
    if histogram.is_native && !options.ignore_native {
        let with_classic = options.classic_beside_native && histogram.has_buckets;
        Next::Native(histogram, NativeSource::Sent, with_classic)
    } else if options.classic_to_custom_bounds {
        Next::Native(
            histogram,
            NativeSource::FromClassic,
            options.classic_beside_native,
        )
    } else {
        Next::HistogramCount(histogram)
    }
}

fn write_label(text: &mut Vec<u8>, pair: &[u8]) -> Result<(), String> {
    let (mut name, mut value) = (&[][..], &[][..]);
    let mut reader = Reader::new(pair);
    while !reader.is_empty() {
        match reader.tag().map_err(broken)? {
            PAIR_NAME => name = reader.bytes().map_err(broken)?,
            PAIR_VALUE => value = reader.bytes().map_err(broken)?,
            other => reader.skip_unknown(other, PAIR_FIELDS).map_err(broken)?,
        }
    }
    for piece in [name, value] {
        // What is not UTF-8 otherwise is found when the text is parsed; this would be parsed
        // wrongly.
        if memchr::memchr(SEPARATOR, piece).is_some() {
            return Err(format!("label is not valid UTF-8: {}", excerpt(piece)));
        }
        text.push(SEPARATOR);
        text.extend_from_slice(piece);
    }
    Ok(())
}
