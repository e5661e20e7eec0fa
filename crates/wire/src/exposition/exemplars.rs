//! The exemplars of a sample, decoded on demand.

use icecore_model::{Exemplar, Labels};

use super::labels::{BraceItem, Cursor};
use super::protobuf::exemplar::{decode_exemplar, next_of_histogram};
use crate::prometheus::exemplar::ExemplarBuilder;
use crate::prometheus::protobuf::Reader;

/// An exemplar as it was exposed.
#[derive(Clone, Debug, PartialEq)]
pub struct ExposedExemplar {
    pub labels: Labels,
    pub value: f64,
    /// Prometheus gives one without a timestamp that of its sample.
    pub timestamp_ms: Option<i64>,
}

/// Where exemplars are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum ExemplarSource<'p> {
    #[default]
    None,
    Text(TextExemplar<'p>),
    /// Those of the buckets that became one histogram.
    TextList(&'p [TextExemplar<'p>]),
    /// An `Exemplar` message.
    Message(&'p [u8]),
    /// A `Histogram` message with native buckets.
    NativeHistogram(&'p [u8]),
    /// A `Histogram` message whose classic buckets became a native one.
    ClassicHistogram(&'p [u8]),
}

/// A checked exemplar of a text format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TextExemplar<'p> {
    /// From the opening brace on, without it.
    pub(super) labels: &'p str,
    pub(super) value: f64,
    pub(super) timestamp_ms: Option<i64>,
}

/// The exemplars of one sample. One that cannot be kept is an error with the reason; the others
/// follow.
pub struct Exemplars<'p> {
    rest: Remaining<'p>,
}

enum Remaining<'p> {
    One(Option<ExemplarSource<'p>>),
    TextList(std::slice::Iter<'p, TextExemplar<'p>>),
    Histogram(Reader<'p>, HistogramExemplars),
}

/// Which exemplars of a histogram message to read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum HistogramExemplars {
    Native,
    /// In the classic buckets: those of a native histogram that has none of its own need a
    /// timestamp, as in Prometheus.
    BucketsWithTimestamp,
    Buckets,
}

impl<'p> Exemplars<'p> {
    pub(super) fn new(source: ExemplarSource<'p>) -> Self {
        let rest = match source {
            ExemplarSource::TextList(exemplars) => Remaining::TextList(exemplars.iter()),
            ExemplarSource::NativeHistogram(message) => {
                let own = next_of_histogram(&mut Reader::new(message), HistogramExemplars::Native);
                let part = match own {
                    Some(_) => HistogramExemplars::Native,
                    None => HistogramExemplars::BucketsWithTimestamp,
                };
                Remaining::Histogram(Reader::new(message), part)
            }
            ExemplarSource::ClassicHistogram(message) => {
                Remaining::Histogram(Reader::new(message), HistogramExemplars::Buckets)
            }
            other => Remaining::One(Some(other)),
        };
        Self { rest }
    }
}

impl Iterator for Exemplars<'_> {
    type Item = Result<ExposedExemplar, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.rest {
            Remaining::One(source) => match source.take()? {
                ExemplarSource::Text(exemplar) => Some(read_text(&exemplar)),
                ExemplarSource::Message(message) => Some(decode_exemplar(message)),
                _ => None,
            },
            Remaining::TextList(exemplars) => exemplars.next().map(read_text),
            Remaining::Histogram(reader, part) => loop {
                let exemplar = decode_exemplar(next_of_histogram(reader, *part)?);
                let dropped = *part != HistogramExemplars::Buckets
                    && exemplar.as_ref().is_ok_and(|e| e.timestamp_ms.is_none());
                if !dropped {
                    return Some(exemplar);
                }
            },
        }
    }
}

fn read_text(exemplar: &TextExemplar<'_>) -> Result<ExposedExemplar, &'static str> {
    let mut builder = ExemplarBuilder::default();
    let mut cursor = Cursor {
        rest: exemplar.labels,
        blanks: false,
    };
    while let Ok(Some(BraceItem::Label(name, value))) = cursor.next_item() {
        builder.push_label(name.as_bytes(), value.as_bytes());
    }
    builder.value = exemplar.value;
    finish_exemplar(builder, exemplar.timestamp_ms)
}

/// Finishes an exemplar of any format.
pub(super) fn finish_exemplar(
    builder: ExemplarBuilder,
    timestamp_ms: Option<i64>,
) -> Result<ExposedExemplar, &'static str> {
    let Exemplar { labels, value, .. } = builder.finish()?;
    Ok(ExposedExemplar {
        labels,
        value,
        timestamp_ms,
    })
}
