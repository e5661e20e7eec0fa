//! The `Exemplar` message, and where a histogram keeps its exemplars.
//!
//! ```text
//! Exemplar { LabelPair label = 1; double value = 2; Timestamp timestamp = 3; }
//! ```

use super::histogram::HistogramMessage;
use super::value::read_timestamp;
use crate::exposition::exemplars::{ExposedExemplar, HistogramExemplars, finish_exemplar};
use crate::prometheus::exemplar::ExemplarBuilder;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known};

const LABEL: u32 = bytes_tag(1);
const VALUE: u32 = fixed64_tag(2);
const TIMESTAMP: u32 = bytes_tag(3);
const FIELDS: u32 = known(&[1, 2, 3]);

const PAIR_NAME: u32 = bytes_tag(1);
const PAIR_VALUE: u32 = bytes_tag(2);

/// The next exemplar in what is left of a histogram, which was read before and is not broken.
pub(in crate::exposition) fn next_of_histogram<'a>(
    rest: &mut Reader<'a>,
    part: HistogramExemplars,
) -> Option<&'a [u8]> {
    HistogramMessage::next_exemplar(rest, part).ok().flatten()
}

pub(in crate::exposition) fn decode_exemplar(
    message: &[u8],
) -> std::result::Result<ExposedExemplar, &'static str> {
    let (builder, timestamp_ms) =
        read(message).map_err(|_| "exemplar is not a protobuf message")?;
    finish_exemplar(builder, timestamp_ms)
}

fn read(message: &[u8]) -> Result<(ExemplarBuilder, Option<i64>)> {
    let mut builder = ExemplarBuilder::default();
    let mut timestamp_ms = None;
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            LABEL => {
                let (mut name, mut value) = (&[][..], &[][..]);
                let mut pair = Reader::new(reader.bytes()?);
                while !pair.is_empty() {
                    match pair.tag()? {
                        PAIR_NAME => name = pair.bytes()?,
                        PAIR_VALUE => value = pair.bytes()?,
                        other => pair.skip_unknown(other, known(&[1, 2]))?,
                    }
                }
                builder.push_label(name, value);
            }
            VALUE => builder.value = reader.double()?,
            TIMESTAMP => timestamp_ms = read_timestamp(reader.bytes()?)?,
            other => reader.skip_unknown(other, FIELDS)?,
        }
    }
    Ok((builder, timestamp_ms))
}
