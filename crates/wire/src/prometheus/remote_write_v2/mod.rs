//! Remote write 2.0: `io.prometheus.write.v2.Request`, straight into a sink.
//!
//! ```text
//! Request    { string symbols = 4;  TimeSeries timeseries = 5; }             1 to 3 are reserved
//! TimeSeries { uint32 labels_refs = 1; Sample samples = 2; Histogram histograms = 3;
//!              Exemplar exemplars = 4; Metadata metadata = 5; int64 created_timestamp = 6; }
//! ```
//!
//! Labels are references into the symbol table. From them the label bytes of 1.0 are built, so that
//! the storage finds a series by the same key whichever version sent it.
//!
//! Start timestamps: the specification has them per sample and histogram since 2.0-rc.4; drafts
//! before had one per series (field 6, reserved since). The one of the series counts for what has
//! none of its own.
//!
//! Holds always:
//! - References are checked. One outside the symbol table rejects its series or exemplar, not the
//!   request.
//! - Metadata reaches the sink when it differs from that of the series before, not once per series.

mod metadata;
mod symbols;

use icecore_model::{RawLabels, SampleSink};

use super::exemplar::ExemplarBuilder;
use super::histogram::decode_histogram;
use super::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};
use super::sample::decode_sample;
use crate::WireError;
use metadata::{LastMetadata, MetadataRefs, decode_metadata};
use symbols::Symbols;

const REQUEST_TIMESERIES: u32 = bytes_tag(5);

const SERIES_LABELS_REFS: u32 = bytes_tag(1);
const SERIES_LABELS_REFS_UNPACKED: u32 = varint_tag(1);
const SERIES_SAMPLES: u32 = bytes_tag(2);
const SERIES_HISTOGRAMS: u32 = bytes_tag(3);
const SERIES_EXEMPLARS: u32 = bytes_tag(4);
const SERIES_METADATA: u32 = bytes_tag(5);
const SERIES_CREATED_TIMESTAMP: u32 = varint_tag(6);
const SERIES_FIELDS: u32 = known(&[1, 2, 3, 4, 5, 6]);

/// Decodes a decompressed request. On an error the sink has seen a part of the request, which must
/// not be kept.
pub fn decode_v2(body: &[u8], sink: &mut impl SampleSink) -> std::result::Result<(), WireError> {
    let mut decoder = Decoder {
        symbols: Symbols::collect(body)?,
        refs: Vec::new(),
        labels: Vec::new(),
        last_metadata: LastMetadata::default(),
        sink,
    };
    let mut request = Reader::new(body);
    while !request.is_empty() {
        let offset = body.len() - request.len();
        decoder
            .decode_request_field(&mut request)
            .map_err(|error| WireError::Protobuf { offset, error })?;
    }
    Ok(())
}

struct Decoder<'a, 's, S> {
    symbols: Symbols<'a>,
    /// Label references of one series.
    refs: Vec<u32>,
    /// Label bytes of one series.
    labels: Vec<u8>,
    last_metadata: LastMetadata<'a>,
    sink: &'s mut S,
}

/// What must be known of a series before its samples are decoded.
#[derive(Default)]
struct SeriesHeader {
    created_timestamp_ms: i64,
    metadata: MetadataRefs,
    has_samples: bool,
    has_histograms: bool,
}

impl<S: SampleSink> Decoder<'_, '_, S> {
    fn decode_request_field(&mut self, request: &mut Reader<'_>) -> Result<()> {
        match request.tag()? {
            REQUEST_TIMESERIES => self.decode_series(request.bytes()?),
            // The symbol table was read before.
            other => request.skip(other),
        }
    }

    fn decode_series(&mut self, message: &[u8]) -> Result<()> {
        let header = self.read_header(message)?;
        self.labels.clear();
        if let Err(reason) = self.symbols.push_labels(&self.refs, &mut self.labels) {
            self.sink.reject(reason);
            return Ok(());
        }
        if !header.has_samples && !header.has_histograms {
            let name = self.symbols.metric_name(&self.refs);
            self.sink.reject(format!(
                "TimeSeries must contain at least one sample or histogram for series {:?}",
                String::from_utf8_lossy(name)
            ));
            return Ok(());
        }
        if self.sink.guess_series(&self.labels) != Some(self.labels.len()) {
            self.sink.series(RawLabels(&self.labels));
        }
        self.decode_content(message, header.created_timestamp_ms)?;
        if !header.metadata.is_empty() {
            let name = self.symbols.metric_name(&self.refs);
            let family = metadata::family_of(name, &header.metadata, header.has_histograms);
            self.last_metadata
                .emit(family, header.metadata, &self.symbols, self.sink);
        }
        Ok(())
    }

    fn read_header(&mut self, message: &[u8]) -> Result<SeriesHeader> {
        let mut header = SeriesHeader::default();
        self.refs.clear();
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                SERIES_LABELS_REFS => push_refs(reader.bytes()?, &mut self.refs)?,
                SERIES_LABELS_REFS_UNPACKED => self.refs.push(reference(reader.varint()?)),
                SERIES_CREATED_TIMESTAMP => header.created_timestamp_ms = reader.varint()? as i64,
                SERIES_METADATA => decode_metadata(reader.bytes()?, &mut header.metadata)?,
                other => {
                    header.has_samples |= other == SERIES_SAMPLES;
                    header.has_histograms |= other == SERIES_HISTOGRAMS;
                    reader.skip(other)?;
                }
            }
        }
        Ok(header)
    }

    fn decode_content(&mut self, message: &[u8], created_timestamp_ms: i64) -> Result<()> {
        let start_or_created = |start| {
            if start == 0 {
                created_timestamp_ms
            } else {
                start
            }
        };
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                SERIES_SAMPLES => {
                    let mut sample = decode_sample(reader.bytes()?)?;
                    sample.start_timestamp_ms = start_or_created(sample.start_timestamp_ms);
                    self.sink.sample(sample);
                }
                SERIES_HISTOGRAMS => {
                    let sent = decode_histogram(reader.bytes()?)?;
                    let timestamp_ms = sent.timestamp_ms;
                    let start_ms = start_or_created(sent.start_timestamp_ms);
                    match sent.into_histogram() {
                        Ok(histogram) => self.sink.histogram(timestamp_ms, start_ms, histogram),
                        Err(reason) => self.sink.reject(reason),
                    }
                }
                SERIES_EXEMPLARS => self.decode_exemplar(reader.bytes()?)?,
                tag @ (SERIES_LABELS_REFS
                | SERIES_LABELS_REFS_UNPACKED
                | SERIES_METADATA
                | SERIES_CREATED_TIMESTAMP) => reader.skip(tag)?,
                other => reader.skip_unknown(other, SERIES_FIELDS)?,
            }
        }
        Ok(())
    }

    fn decode_exemplar(&mut self, message: &[u8]) -> Result<()> {
        const LABELS_REFS: u32 = bytes_tag(1);
        const LABELS_REFS_UNPACKED: u32 = varint_tag(1);
        const VALUE: u32 = fixed64_tag(2);
        const TIMESTAMP: u32 = varint_tag(3);
        let mut exemplar = ExemplarBuilder::default();
        let mut refs = Vec::new();
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                LABELS_REFS => push_refs(reader.bytes()?, &mut refs)?,
                LABELS_REFS_UNPACKED => refs.push(reference(reader.varint()?)),
                VALUE => exemplar.value = reader.double()?,
                TIMESTAMP => exemplar.timestamp_ms = reader.varint()? as i64,
                other => reader.skip_unknown(other, known(&[1, 2, 3]))?,
            }
        }
        let (pairs, odd) = refs.as_chunks::<2>();
        if !odd.is_empty() {
            exemplar.refuse("exemplar has an odd number of label references");
        }
        for [name, value] in pairs {
            match (self.symbols.text(*name), self.symbols.text(*value)) {
                (Some(name), Some(value)) => exemplar.push_label(name, value),
                _ => exemplar.refuse("label reference of an exemplar is outside the symbol table"),
            }
        }
        match exemplar.finish() {
            Ok(exemplar) => self.sink.exemplar(exemplar),
            Err(reason) => self.sink.reject(reason.into()),
        }
        Ok(())
    }
}

/// Appends packed references. Whether one takes one byte or two is unpredictable, so these two are
/// read without a branch between them: a misprediction costs more than both.
fn push_refs(packed: &[u8], refs: &mut Vec<u32>) -> Result<()> {
    let mut rest = packed;
    while let [low, high, ..] = *rest {
        let is_long = low >> 7;
        if is_long & (high >> 7) != 0 {
            break;
        }
        refs.push(u32::from(low & 0x7f) | u32::from(high * is_long) << 7);
        rest = rest.get(1 + usize::from(is_long)..).unwrap_or_default();
    }
    let mut reader = Reader::new(rest);
    while !reader.is_empty() {
        refs.push(reference(reader.varint()?));
    }
    Ok(())
}

/// A number too large for a reference becomes one that no symbol table reaches.
fn reference(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_model::varint::push_varint;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn references_of_every_length(bits in proptest::collection::vec((0u32..33, any::<u32>()), 0..20)) {
            let numbers: Vec<u32> =
                bits.iter().map(|(bits, number)| number.checked_shr(*bits).unwrap_or(0)).collect();
            let mut packed = Vec::new();
            for number in &numbers {
                push_varint(&mut packed, u64::from(*number));
            }
            let mut refs = Vec::new();
            push_refs(&packed, &mut refs).unwrap();
            prop_assert_eq!(refs, numbers);
        }
    }
}
