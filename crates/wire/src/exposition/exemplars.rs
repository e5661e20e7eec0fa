//! The exemplars of a sample, read when somebody wants them.

use icecore_model::{Exemplar, Labels};

use super::labels::{Cursor, Part};
use super::protobuf::exemplar::{decode_exemplar, next_of_histogram};
use crate::prometheus::exemplar::ExemplarBuilder;
use crate::prometheus::protobuf::Reader;

/// One observation beside a sample.
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
    Gathered(&'p [TextExemplar<'p>]),
    /// An `Exemplar` message.
    Message(&'p [u8]),
    /// A `Histogram` message with native buckets.
    NativeHistogram(&'p [u8]),
    /// A `Histogram` message whose classic buckets became a native one.
    ClassicHistogram(&'p [u8]),
}

/// An exemplar of a text format, found correct.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TextExemplar<'p> {
    /// From the opening brace on, without it.
    pub(super) labels: &'p str,
    pub(super) value: f64,
    pub(super) timestamp_ms: Option<i64>,
}

/// The exemplars of one sample. One that cannot be kept is an error with the reason; the others follow.
pub struct Exemplars<'p> {
    rest: Rest<'p>,
}

enum Rest<'p> {
    One(Option<ExemplarSource<'p>>),
    Gathered(std::slice::Iter<'p, TextExemplar<'p>>),
    Histogram(Reader<'p>, HistogramPart),
}

/// Which exemplars of a histogram message are meant.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum HistogramPart {
    Native,
    /// In the classic buckets: those of a native histogram that has none of its own need a timestamp,
    /// as in Prometheus.
    BucketsWithTimestamp,
    Buckets,
}

impl<'p> Exemplars<'p> {
    pub(super) fn new(source: ExemplarSource<'p>) -> Self {
        let rest = match source {
            ExemplarSource::Gathered(exemplars) => Rest::Gathered(exemplars.iter()),
            ExemplarSource::NativeHistogram(message) => {
                let own = next_of_histogram(&mut Reader::new(message), HistogramPart::Native);
                let part = match own {
                    Some(_) => HistogramPart::Native,
                    None => HistogramPart::BucketsWithTimestamp,
                };
                Rest::Histogram(Reader::new(message), part)
            }
            ExemplarSource::ClassicHistogram(message) => {
                Rest::Histogram(Reader::new(message), HistogramPart::Buckets)
            }
            other => Rest::One(Some(other)),
        };
        Self { rest }
    }
}

impl Iterator for Exemplars<'_> {
    type Item = Result<ExposedExemplar, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.rest {
            Rest::One(source) => match source.take()? {
                ExemplarSource::Text(exemplar) => Some(read_text(&exemplar)),
                ExemplarSource::Message(message) => Some(decode_exemplar(message)),
                _ => None,
            },
            Rest::Gathered(exemplars) => exemplars.next().map(read_text),
            Rest::Histogram(reader, part) => loop {
                let exemplar = decode_exemplar(next_of_histogram(reader, *part)?);
                let dropped = *part != HistogramPart::Buckets
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
    while let Ok(Some(Part::Label(name, value))) = cursor.part() {
        builder.push_label(name.as_bytes(), value.as_bytes());
    }
    builder.value = exemplar.value;
    exposed(builder, exemplar.timestamp_ms)
}

/// Finishes an exemplar of any format.
pub(super) fn exposed(
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
