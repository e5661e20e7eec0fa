//! Histograms: `/api/histogram` and the telnet command.

use http::StatusCode;

use super::append::append_document;
use super::document::write_points;
use super::endpoint::document_text;
use super::error::PutError;
use super::point::milliseconds;
use super::report::Answer;
use super::series::SeriesText;
use super::writer::{PointWriter, announce};
use crate::config::Config;
use crate::error::Error;
use crate::histogram::{Bucket, PayloadError, SIMPLE_CODEC, SimpleHistogram};
use crate::java::bytes_text;
use crate::json::push_text;
use crate::refusals::RefusalReason;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;

pub(crate) const NOT_ENABLED: &str = "Histogram storage has not been enabled. Check the \
                                      'tsd.core.histograms.config' configuration.";

const NOT_KEPT: &str = "Histogram buckets are missing, overlap, end before they begin or have \
                        negative counts";

pub(crate) async fn endpoint(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    if tsd.config.histogram_codecs.is_none() {
        let error = Error::new(StatusCode::SERVICE_UNAVAILABLE, NOT_ENABLED);
        return Err(error.with_refusal(RefusalReason::HistogramNotConfigured));
    }
    let answer = Answer::of(request)?;
    let body = request.body.clone();
    let write = move |writer: &mut PointWriter<'_>| {
        write_points(
            writer,
            document_text(&body)?,
            answer.details,
            |point| {
                let buckets = point.integers("buckets")?.map(|buckets| {
                    let owned = |(bounds, count): (&str, i64)| (bounds.to_owned(), count);
                    buckets.into_iter().map(owned).collect()
                });
                Ok(Counts {
                    id: point.integer("id")?.unwrap_or(0),
                    underflow: point.integer("underflow")?.unwrap_or(0),
                    overflow: point.integer("overflow")?.unwrap_or(0),
                    buckets,
                })
            },
            |writer, point, counts| {
                writer.sink.point();
                let value = point.value.unwrap_or_default();
                let series = point.series(false)?;
                let histogram = if value.is_empty() {
                    counts.histogram()?
                } else {
                    decode(writer.naming.config, counts.id, value)?
                };
                writer.write_histogram(series, point.timestamp, &histogram)
            },
            |counts, fields| counts.show(fields),
        )
    };
    append_document(tsd, answer, write).await
}

/// The counts of a document.
struct Counts {
    id: i64,
    underflow: i64,
    overflow: i64,
    buckets: Option<Vec<(String, i64)>>,
}

impl Counts {
    fn histogram(&self) -> Result<SimpleHistogram, PutError> {
        let buckets = self.buckets.as_deref().unwrap_or_default();
        if buckets.is_empty() {
            let message = "Histogram buckets cannot be null or empty if 'value' is empty.";
            return Err(PutError::argument(message));
        }
        let bucket = |(bounds, count): &(String, i64)| parse_bucket(bounds, *count);
        let buckets = buckets.iter().map(bucket).collect::<Result<_, _>>()?;
        let counts = self.underflow.try_into().ok();
        let counts = counts.zip(self.overflow.try_into().ok());
        let histogram = counts
            .and_then(|(underflow, overflow)| SimpleHistogram::new(buckets, underflow, overflow));
        histogram.ok_or_else(|| PutError::argument(NOT_KEPT))
    }

    fn show(&self, fields: &mut Vec<(&'static str, String)>) {
        fields.push(("id", self.id.to_string()));
        if let Some(buckets) = &self.buckets {
            let members = buckets.iter().map(|(bounds, count)| {
                let mut json = String::new();
                push_text(&mut json, bounds);
                format!("{json}:{count}")
            });
            let members: Vec<String> = members.collect();
            fields.push(("buckets", format!("{{{}}}", members.join(","))));
        }
        fields.push(("underflow", self.underflow.to_string()));
        fields.push(("overflow", self.overflow.to_string()));
    }
}

/// `low,high`.
fn parse_bucket(bounds: &str, count: i64) -> Result<Bucket, PutError> {
    let unparsable = || PutError::Argument(format!("Unable to parse bucket bounds: {bounds}"));
    let (low, high) = bounds.split_once(',').ok_or_else(unparsable)?;
    if high.contains(',') {
        return Err(unparsable());
    }
    let bound = |text: &str| {
        let text = text.trim();
        let value = text.parse::<f32>().ok();
        value.ok_or_else(|| {
            use icecore_wire::opentsdb::number::NumberError;
            PutError::Number(NumberError::NotANumber(text.to_owned()))
        })
    };
    let count = count.try_into();
    Ok(Bucket {
        low: bound(low)?,
        high: bound(high)?,
        count: count.map_err(|_| PutError::argument(NOT_KEPT))?,
    })
}

/// A histogram in base 64, in the format of a codec.
fn decode(config: &Config, id: i64, text: &str) -> Result<SimpleHistogram, PutError> {
    let Ok(short_id) = u8::try_from(id) else {
        let message = "Invalid type. Must be from 0 to 255.";
        return Err(PutError::argument(message));
    };
    let codecs = config.histogram_codecs.iter().flatten();
    let mut simple = codecs.filter(|(class, _)| class.as_str() == SIMPLE_CODEC);
    if !simple.any(|(_, known)| *known == short_id) {
        return Err(PutError::UnknownCodec(id));
    }
    let bytes = decode_base64(text);
    SimpleHistogram::from_payload(&bytes).map_err(|error| {
        PutError::Argument(match error {
            PayloadError::TooShort => {
                let bytes = match std::str::from_utf8(&bytes) {
                    Ok(text) if text.bytes().all(|b| b.is_ascii_graphic()) => format!("{text:?}"),
                    _ => bytes_text(&bytes),
                };
                format!("Byte array shorter than 6 bytes detected: {bytes}")
            }
            PayloadError::Truncated => "Buffer underflow.".into(),
            PayloadError::Buckets => NOT_KEPT.into(),
        })
    })
}

/// As Java does it: what is no letter of the alphabet is skipped, and what is no group of four.
fn decode_base64(text: &str) -> Vec<u8> {
    let sextet = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        // Padding: there is no byte for it.
        b'=' => Some(64),
        _ => None,
    };
    let sextets: Vec<u8> = text.bytes().filter_map(sextet).collect();
    let mut bytes = Vec::with_capacity(sextets.len() / 4 * 3);
    for group in sextets.chunks_exact(4) {
        let bits = group
            .iter()
            .fold(0u32, |bits, s| bits << 6 | u32::from(*s & 63));
        let [_, first, second, third] = bits.to_be_bytes();
        let length = group.iter().filter(|s| **s < 64).count().saturating_sub(1);
        bytes.extend_from_slice(&[first, second, third][..length.min(3)]);
    }
    bytes
}

impl PointWriter<'_> {
    pub(crate) fn write_histogram(
        &mut self,
        series: SeriesText<'_>,
        timestamp: i64,
        histogram: &SimpleHistogram,
    ) -> Result<(), PutError> {
        self.tally.histograms += 1;
        let tags = series.tags()?;
        let changes = &mut self.learned.changes;
        let metric = series.metric();
        let identified = self.naming.identify(metric, &tags, None, None, changes)?;
        announce(self.sink, &identified.labels);
        let timestamp_ms = milliseconds(timestamp);
        self.sink.histogram(timestamp_ms, 0, histogram.to_native());
        self.learned.tsuids.push(identified.tsuid);
        Ok(())
    }

    /// What stands in a line behind metric and time: counts as text, or an id and base 64.
    pub(crate) fn write_line_histogram(
        &mut self,
        metric: &str,
        timestamp: i64,
        rest: &str,
    ) -> Result<(), PutError> {
        let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        let (histogram, tags) = match first.parse::<i64>() {
            Ok(id) => {
                let (text, tags) = behind.split_once(' ').unwrap_or((behind, ""));
                (decode(self.naming.config, id, text), tags)
            }
            Err(_) => (parse_line(first), behind),
        };
        let series = SeriesText::Line { metric, tags };
        series.tags()?;
        self.write_histogram(series, timestamp, &histogram?)
    }
}

/// `u=0:o=1:0,1.75=12:1.75,3.5=16`.
fn parse_line(text: &str) -> Result<SimpleHistogram, PutError> {
    let (mut underflow, mut overflow) = (0, 0);
    let mut buckets = Vec::new();
    for part in text.split(':') {
        let (name, count) = part.split_once('=').ok_or(PutError::Unreadable)?;
        let count: i64 = count.parse().map_err(|_| PutError::Unreadable)?;
        match name {
            "u" => underflow = count,
            "o" => overflow = count,
            bounds => {
                let bucket = parse_bucket(bounds, count);
                buckets.push(bucket.map_err(|_| PutError::Unreadable)?);
            }
        }
    }
    let counts = u64::try_from(underflow).ok();
    let counts = counts.zip(u64::try_from(overflow).ok());
    let histogram =
        counts.and_then(|(underflow, overflow)| SimpleHistogram::new(buckets, underflow, overflow));
    histogram.ok_or(PutError::Unreadable)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_list_their_buckets() {
        let histogram = parse_line("u=0:o=1:0,1.75=12:1.75,3.5=160").unwrap();
        assert_eq!((histogram.underflow, histogram.overflow), (0, 1));
        let text = "AAIAAAAAP+AAAAw/4AAAQGAAAKABAAE=";
        assert_eq!(
            SimpleHistogram::from_payload(&decode_base64(text)),
            Ok(histogram)
        );
        for text in ["x=1", "0,1", "0,1=x", "u=1:o=1", ""] {
            assert_eq!(parse_line(text), Err(PutError::Unreadable), "{text}");
        }
    }

    #[test]
    fn base_64_is_read_as_java_does() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("!!", b""),
            ("5", b""),
            ("TWFu", b"Man"),
            ("TW Fu\n", b"Man"),
            ("TWE=", b"Ma"),
            ("TQ==", b"M"),
            ("TWFuTQ", b"Man"),
        ] {
            assert_eq!(decode_base64(text), bytes, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = decode_base64(&text);
            let _ = parse_line(&text);
            let _ = parse_bucket(&text, 1);
        }
    }
}
