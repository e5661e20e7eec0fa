//! Remote write 1.0: one walk over a `prometheus.WriteRequest`, straight into a sink.
//!
//! ```text
//! WriteRequest { TimeSeries timeseries = 1;  MetricMetadata metadata = 3; }
//! TimeSeries   { Label labels = 1; Sample samples = 2; Exemplar exemplars = 3;
//!                Histogram histograms = 4; }
//! ```
//!
//! This is the hottest code in front of the storage: most requests carry one sample per series,
//! with the labels of the previous request in the same order. So the sink is asked first whether it
//! knows the bytes, and a message of the usual shape is not walked at all.
//!
//! Holds always:
//! - Nothing is copied and nothing is allocated per series or sample, except for labels that do not
//!   lie at the front of their message, for exemplars and for histograms.
//! - A series is announced before anything of it, with all its labels, wherever they lie.

use icecore_model::varint::push_varint;
use icecore_model::{Metadata, MetricType, RawLabels, SampleSink};

use super::exemplar::ExemplarBuilder;
use super::histogram::decode_histogram;
use super::protobuf::{ProtobufError, Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};
use super::sample::{common_sample, decode_sample};
use crate::WireError;

const REQUEST_TIMESERIES: u32 = bytes_tag(1);
const REQUEST_METADATA: u32 = bytes_tag(3);
const REQUEST_FIELDS: u32 = known(&[1, 3]);
/// Fields of the 2.0 request, which 1.0 never had.
const V2_SYMBOLS: u32 = bytes_tag(4);
const V2_TIMESERIES: u32 = bytes_tag(5);

const SERIES_LABELS: u32 = bytes_tag(1);
const SERIES_SAMPLES: u32 = bytes_tag(2);
const SERIES_EXEMPLARS: u32 = bytes_tag(3);
const SERIES_HISTOGRAMS: u32 = bytes_tag(4);
const SERIES_FIELDS: u32 = known(&[1, 2, 3, 4]);

const LABEL_BYTE: u8 = SERIES_LABELS as u8;
const SAMPLE_BYTE: u8 = SERIES_SAMPLES as u8;

/// Decodes a decompressed request. On an error the sink has seen a part of the request, which must
/// not be kept.
pub fn decode_v1(body: &[u8], sink: &mut impl SampleSink) -> std::result::Result<(), WireError> {
    let mut scattered_labels = Vec::new();
    let mut request = Reader::new(body);
    while !request.is_empty() {
        let offset = body.len() - request.len();
        let is_v1 = decode_request_field(&mut request, &mut scattered_labels, sink)
            .map_err(|error| WireError::Protobuf { offset, error })?;
        if !is_v1 {
            return Err(WireError::VersionMismatch {
                declared: "1.0",
                found: "2.0",
            });
        }
    }
    Ok(())
}

/// Decodes one top-level field. False when it is one that only 2.0 has: skipping it would
/// acknowledge samples that were not stored.
#[inline]
fn decode_request_field(
    request: &mut Reader<'_>,
    scattered_labels: &mut Vec<u8>,
    sink: &mut impl SampleSink,
) -> Result<bool> {
    match request.tag()? {
        REQUEST_TIMESERIES => decode_series(request.bytes()?, scattered_labels, sink)?,
        REQUEST_METADATA => decode_metadata(request.bytes()?, sink)?,
        V2_SYMBOLS | V2_TIMESERIES => return Ok(false),
        other => request.skip_unknown(other, REQUEST_FIELDS)?,
    }
    Ok(true)
}

#[inline]
fn decode_series(
    message: &[u8],
    scattered_labels: &mut Vec<u8>,
    sink: &mut impl SampleSink,
) -> Result<()> {
    // The guess may be a series whose labels are a prefix of these.
    let guessed = sink
        .guess_series(message)
        .filter(|length| message.get(*length) != Some(&LABEL_BYTE));
    let labels_length = match guessed {
        Some(length) => length,
        None => leading_labels_length(message)?,
    };
    let (labels, content) = message
        .split_at_checked(labels_length)
        .ok_or(ProtobufError::Truncated)?;

    if let [SAMPLE_BYTE, length, sample @ ..] = content
        && usize::from(*length) == sample.len()
        && let Some(sample) = common_sample(sample)
    {
        if guessed.is_none() {
            sink.series(RawLabels(labels));
        }
        sink.sample(sample);
        return Ok(());
    }

    if has_labels(content)? {
        scattered_labels.clear();
        collect_labels(message, scattered_labels)?;
        sink.series(RawLabels(scattered_labels));
    } else if guessed.is_none() {
        sink.series(RawLabels(labels));
    }
    decode_content(content, sink)
}

/// How many bytes at the front of a series are labels.
#[inline]
fn leading_labels_length(message: &[u8]) -> Result<usize> {
    let mut length = 0;
    while let Some((&LABEL_BYTE, tail)) = message.get(length..).and_then(<[u8]>::split_first) {
        let mut reader = Reader::new(tail);
        reader.bytes()?;
        length = message.len() - reader.len();
    }
    Ok(length)
}

/// Whether labels follow other fields. Checked before anything of the series reaches the sink,
/// which must know all labels by then.
fn has_labels(content: &[u8]) -> Result<bool> {
    let mut found = false;
    let mut reader = Reader::new(content);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        found |= tag == SERIES_LABELS;
        reader.skip(tag)?;
    }
    Ok(found)
}

/// Collects all labels of a series, encoded as if they were contiguous.
fn collect_labels(message: &[u8], labels: &mut Vec<u8>) -> Result<()> {
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            SERIES_LABELS => {
                let label = reader.bytes()?;
                labels.push(LABEL_BYTE);
                push_varint(labels, label.len() as u64);
                labels.extend_from_slice(label);
            }
            other => reader.skip(other)?,
        }
    }
    Ok(())
}

/// Decodes everything of a series but its labels.
fn decode_content(content: &[u8], sink: &mut impl SampleSink) -> Result<()> {
    let mut reader = Reader::new(content);
    while !reader.is_empty() {
        match reader.tag()? {
            SERIES_SAMPLES => sink.sample(decode_sample(reader.bytes()?)?),
            SERIES_EXEMPLARS => decode_exemplar(reader.bytes()?, sink)?,
            SERIES_HISTOGRAMS => {
                let sent = decode_histogram(reader.bytes()?)?;
                let timestamp_ms = sent.timestamp_ms;
                match sent.into_histogram() {
                    Ok(histogram) => sink.histogram(timestamp_ms, 0, histogram),
                    Err(reason) => sink.reject(reason),
                }
            }
            SERIES_LABELS => reader.skip(SERIES_LABELS)?,
            other => reader.skip_unknown(other, SERIES_FIELDS)?,
        }
    }
    Ok(())
}

const EXEMPLAR_LABELS: u32 = bytes_tag(1);
const EXEMPLAR_VALUE: u32 = fixed64_tag(2);
const EXEMPLAR_TIMESTAMP: u32 = varint_tag(3);

fn decode_exemplar(message: &[u8], sink: &mut impl SampleSink) -> Result<()> {
    let mut exemplar = ExemplarBuilder::default();
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            EXEMPLAR_LABELS => {
                let (name, value) = decode_label(reader.bytes()?)?;
                exemplar.push_label(name, value);
            }
            EXEMPLAR_VALUE => exemplar.value = reader.double()?,
            EXEMPLAR_TIMESTAMP => exemplar.timestamp_ms = reader.varint()? as i64,
            other => reader.skip_unknown(other, known(&[1, 2, 3]))?,
        }
    }
    match exemplar.finish() {
        Ok(exemplar) => sink.exemplar(exemplar),
        Err(reason) => sink.reject(reason.into()),
    }
    Ok(())
}

fn decode_label(message: &[u8]) -> Result<(&[u8], &[u8])> {
    const NAME: u32 = bytes_tag(1);
    const VALUE: u32 = bytes_tag(2);
    let (mut name, mut value) = (&[][..], &[][..]);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            NAME => name = reader.bytes()?,
            VALUE => value = reader.bytes()?,
            other => reader.skip_unknown(other, known(&[1, 2]))?,
        }
    }
    Ok((name, value))
}

const METADATA_TYPE: u32 = varint_tag(1);
const METADATA_FAMILY: u32 = bytes_tag(2);
const METADATA_HELP: u32 = bytes_tag(4);
const METADATA_UNIT: u32 = bytes_tag(5);

fn decode_metadata(message: &[u8], sink: &mut impl SampleSink) -> Result<()> {
    let mut metric_type = MetricType::Unknown;
    let (mut family, mut help, mut unit) = (&[][..], &[][..], &[][..]);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            METADATA_TYPE => {
                metric_type = MetricType::from_number(reader.varint()?).unwrap_or_default();
            }
            METADATA_FAMILY => family = reader.bytes()?,
            METADATA_HELP => help = reader.bytes()?,
            METADATA_UNIT => unit = reader.bytes()?,
            other => reader.skip_unknown(other, known(&[1, 2, 4, 5]))?,
        }
    }
    match (
        str::from_utf8(family),
        str::from_utf8(help),
        str::from_utf8(unit),
    ) {
        (Ok(""), _, _) => sink.reject("metadata has no metric family name".into()),
        (Ok(family), Ok(help), Ok(unit)) => {
            let metadata = Metadata {
                metric_type,
                unit: unit.into(),
                help: help.into(),
                ..Metadata::default()
            };
            sink.metadata(family, metadata);
        }
        _ => sink.reject("metadata is not valid UTF-8".into()),
    }
    Ok(())
}
