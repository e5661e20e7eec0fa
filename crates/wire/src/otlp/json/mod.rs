//! OTLP/JSON to protobuf, so that what a request means is decided in one place.
//!
//! The schema maps keys to fields; the text is read once, and the message is written without a tree
//! in between.
//!
//! Holds always:
//! - Keys may be in camel case or as in the `.proto` files; keys that are not known are skipped.
//! - Numbers of 64 bits may be strings, enumerations may be words, ids are hexadecimal, other bytes
//!   are base64, and `NaN`, `Infinity` and `-Infinity` are strings.
//! - What is nested deeper than [`DEPTH_MAX`] and what becomes longer than allowed is refused.

mod schema;

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use thiserror::Error;

use icecore_model::varint::zigzag;

use self::schema::{Field, Kind, LOGS_REQUEST, METRICS_REQUEST, find};
use crate::WireError;
use crate::json::{JsonReader, SyntaxError, is_number_byte};
use crate::prometheus::message::{put_bytes, put_message, put_present_double, put_present_number};

/// Nesting of objects and arrays. A request has nine levels, an attribute value four per level.
const DEPTH_MAX: usize = 80;

/// Why a text is not OTLP/JSON.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum JsonError {
    #[error("{reason} (at byte {offset})")]
    Malformed { offset: usize, reason: String },
    #[error("longer than {max} bytes as protobuf")]
    TooLarge { max: usize },
}

impl From<SyntaxError> for JsonError {
    fn from(error: SyntaxError) -> Self {
        Self::Malformed {
            offset: error.offset,
            reason: error.reason.into(),
        }
    }
}

type Result<T> = std::result::Result<T, JsonError>;

/// Rewrites an `ExportMetricsServiceRequest` of at most `max_bytes` as protobuf.
pub fn json_to_protobuf(body: &[u8], max_bytes: usize) -> std::result::Result<Vec<u8>, WireError> {
    transcode(body, METRICS_REQUEST, max_bytes).map_err(WireError::Json)
}

/// The same for an `ExportLogsServiceRequest`.
pub fn logs_json_to_protobuf(
    body: &[u8],
    max_bytes: usize,
) -> std::result::Result<Vec<u8>, WireError> {
    transcode(body, LOGS_REQUEST, max_bytes).map_err(WireError::Json)
}

fn transcode(body: &[u8], request: &'static [Field], max_bytes: usize) -> Result<Vec<u8>> {
    let body = str::from_utf8(body).map_err(|error| JsonError::Malformed {
        offset: error.valid_up_to(),
        reason: "not valid UTF-8".into(),
    })?;
    let mut json = JsonReader::new(body, DEPTH_MAX);
    let mut out = Vec::new();
    Transcoder { max_bytes }.message(&mut json, request, &mut out)?;
    if !json.is_at_end() {
        return Err(json.error("text after the request").into());
    }
    Ok(out)
}

struct Transcoder {
    max_bytes: usize,
}

impl Transcoder {
    /// Writes the fields of an object.
    fn message(
        &self,
        json: &mut JsonReader<'_>,
        fields: &'static [Field],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if json.null()? {
            return Ok(());
        }
        json.object(|json, key| match find(fields, key) {
            Some(field) => self.field(json, field, out),
            None => Ok(json.skip()?),
        })
    }

    fn field(
        &self,
        json: &mut JsonReader<'_>,
        field: &'static Field,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if json.null()? {
            Ok(())
        } else if field.repeated {
            json.array(|json| self.value(json, field, out))
        } else {
            self.value(json, field, out)
        }
    }

    fn value(
        &self,
        json: &mut JsonReader<'_>,
        field: &'static Field,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let number = field.number;
        match field.kind {
            Kind::Message(fields) => {
                let mut written = Ok(());
                put_message(out, number, |out| {
                    written = self.message(json, fields(), out)
                });
                written?;
            }
            Kind::Text => put_bytes(out, number, json.string()?.as_bytes()),
            Kind::Base64 => {
                let bytes = base64(&json.string()?);
                put_bytes(out, number, &bytes.ok_or_else(|| json.error("not base64"))?);
            }
            Kind::Hex => {
                let bytes = hex::decode(&*json.string()?);
                let bytes = bytes.map_err(|_| json.error("not hexadecimal"))?;
                put_bytes(out, number, &bytes);
            }
            Kind::Bool => put_present_number(out, number, u64::from(json.boolean()?)),
            Kind::Double => put_present_double(out, number, double(json)?),
            Kind::Fixed64 => {
                let value = integer(json, 0, u64::MAX.into())? as u64;
                put_present_double(out, number, f64::from_bits(value));
            }
            Kind::Sfixed64 => {
                let value = integer(json, i64::MIN.into(), i64::MAX.into())? as i64;
                put_present_double(out, number, f64::from_bits(value as u64));
            }
            Kind::Int64 => {
                let value = integer(json, i64::MIN.into(), i64::MAX.into())? as i64;
                put_present_number(out, number, value as u64);
            }
            Kind::Uint64 => {
                let value = integer(json, 0, u64::MAX.into())? as u64;
                put_present_number(out, number, value);
            }
            Kind::Uint32 => {
                let value = integer(json, 0, u32::MAX.into())? as u64;
                put_present_number(out, number, value);
            }
            Kind::Sint32 => {
                let value = integer(json, i32::MIN.into(), i32::MAX.into())? as i64;
                put_present_number(out, number, zigzag(value));
            }
            Kind::Enum(words) => put_present_number(out, number, enumeration(json, words)?),
        }
        if out.len() > self.max_bytes {
            return Err(JsonError::TooLarge {
                max: self.max_bytes,
            });
        }
        Ok(())
    }
}

/// A number, or one in a string.
fn number<'a>(json: &mut JsonReader<'a>) -> Result<Cow<'a, str>> {
    Ok(match json.peek()? {
        b'"' => json.string()?,
        _ => Cow::Borrowed(json.number()?),
    })
}

fn double(json: &mut JsonReader<'_>) -> Result<f64> {
    let value = match &*number(json)? {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        number if number.bytes().all(is_number_byte) => number.parse().ok(),
        _ => None,
    };
    Ok(value.ok_or_else(|| json.error("expected a number"))?)
}

fn integer(json: &mut JsonReader<'_>, least: i128, most: i128) -> Result<i128> {
    let text = number(json)?;
    let whole = |value: f64| (value.fract() == 0.0 && value.abs() < 1e30).then_some(value as i128);
    let value = if text.bytes().all(is_number_byte) {
        let exact = text.parse::<i128>().ok();
        exact.or_else(|| text.parse().ok().and_then(whole))
    } else {
        None
    };
    match value {
        Some(value) if (least..=most).contains(&value) => Ok(value),
        Some(_) => Err(json.error("number out of range").into()),
        None => Err(json.error("expected a whole number").into()),
    }
}

fn enumeration(json: &mut JsonReader<'_>, words: &[&str]) -> Result<u64> {
    if json.peek()? != b'"' {
        return Ok(integer(json, 0, i32::MAX.into())? as u64);
    }
    let word = json.string()?;
    let known = words.iter().position(|known| *known == word);
    match known.or_else(|| word.parse().ok()) {
        Some(number) => Ok(number as u64),
        None => Err(json.error("unknown enumeration value").into()),
    }
}

/// With or without padding, in the ordinary alphabet or in that for URLs.
fn base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::RequireNone)
            .with_decode_allow_trailing_bits(true),
    );
    let digits = text.trim_end_matches('=');
    LENIENT
        .decode(digits.replace('-', "+").replace('_', "/"))
        .ok()
}

#[cfg(test)]
mod tests;
