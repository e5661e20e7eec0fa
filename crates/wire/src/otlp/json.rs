//! OTLP/JSON to protobuf, so that what a request means is decided in one place.
//!
//! The schema says which key is which field; the text is walked once and the message is written as it
//! goes, without a tree in between.
//!
//! Holds always:
//! - Keys may be in camel case or as in the `.proto` files; keys that are not known are skipped.
//! - Numbers of 64 bits may be strings, enumerations may be words, ids are hexadecimal, other bytes are
//!   base64, and `NaN`, `Infinity` and `-Infinity` are strings.
//! - What is nested deeper than [`DEPTH_MAX`] and what becomes longer than allowed is refused.

mod schema;
mod text;

use std::borrow::Cow;

use thiserror::Error;

use self::schema::{Field, Kind, REQUEST, find};
use self::text::Text;
use crate::WireError;
use crate::prometheus::message::{
    put_bytes, put_message, put_present_double, put_present_number, zigzag,
};

/// Objects and arrays within one another. A request has nine, an attribute value four per level.
const DEPTH_MAX: usize = 80;

/// Why a text is not OTLP/JSON.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum JsonError {
    #[error("{reason} (at byte {offset})")]
    Malformed { offset: usize, reason: String },
    #[error("as protobuf it is longer than {max} bytes")]
    TooLarge { max: usize },
}

type Result<T> = std::result::Result<T, JsonError>;

/// Rewrites an `ExportMetricsServiceRequest` of at most `max_bytes` as protobuf.
pub fn json_to_protobuf(body: &[u8], max_bytes: usize) -> std::result::Result<Vec<u8>, WireError> {
    transcode(body, max_bytes).map_err(WireError::Json)
}

fn transcode(body: &[u8], max_bytes: usize) -> Result<Vec<u8>> {
    let body = str::from_utf8(body).map_err(|error| JsonError::Malformed {
        offset: error.valid_up_to(),
        reason: "not valid UTF-8".into(),
    })?;
    let mut transcoder = Transcoder {
        text: Text::new(body, DEPTH_MAX),
        max_bytes,
    };
    let mut out = Vec::new();
    transcoder.message(REQUEST, &mut out)?;
    transcoder.text.end()?;
    Ok(out)
}

struct Transcoder<'a> {
    text: Text<'a>,
    max_bytes: usize,
}

impl Transcoder<'_> {
    /// Writes the fields of an object.
    fn message(&mut self, fields: &'static [Field], out: &mut Vec<u8>) -> Result<()> {
        if self.text.null()? {
            return Ok(());
        }
        let mut more = self.text.open(b'{', b'}')?;
        while more {
            let key = self.text.key()?;
            match find(fields, &key) {
                Some(field) => self.field(field, out)?,
                None => self.text.skip()?,
            }
            more = self.text.more(b'}')?;
        }
        Ok(())
    }

    fn field(&mut self, field: &'static Field, out: &mut Vec<u8>) -> Result<()> {
        if self.text.null()? {
            return Ok(());
        }
        if !field.repeated {
            return self.value(field, out);
        }
        let mut more = self.text.open(b'[', b']')?;
        while more {
            self.value(field, out)?;
            more = self.text.more(b']')?;
        }
        Ok(())
    }

    fn value(&mut self, field: &'static Field, out: &mut Vec<u8>) -> Result<()> {
        let number = field.number;
        match field.kind {
            Kind::Message(fields) => {
                let mut written = Ok(());
                put_message(out, number, |out| written = self.message(fields(), out));
                written?;
            }
            Kind::Text => put_bytes(out, number, self.text.string()?.as_bytes()),
            Kind::Base64 => {
                let text = self.text.string()?;
                let bytes = base64(text.as_bytes());
                put_bytes(
                    out,
                    number,
                    &bytes.ok_or_else(|| self.text.error("not base64"))?,
                );
            }
            Kind::Hex => {
                let text = self.text.string()?;
                let bytes = hex(text.as_bytes());
                put_bytes(
                    out,
                    number,
                    &bytes.ok_or_else(|| self.text.error("not hexadecimal"))?,
                );
            }
            Kind::Bool => put_present_number(out, number, u64::from(self.text.boolean()?)),
            Kind::Double => put_present_double(out, number, self.double()?),
            Kind::Fixed64 => {
                let value = self.integer(0, u64::MAX.into())? as u64;
                put_present_double(out, number, f64::from_bits(value));
            }
            Kind::Sfixed64 => {
                let value = self.integer(i64::MIN.into(), i64::MAX.into())? as i64;
                put_present_double(out, number, f64::from_bits(value as u64));
            }
            Kind::Int64 => {
                let value = self.integer(i64::MIN.into(), i64::MAX.into())? as i64;
                put_present_number(out, number, value as u64);
            }
            Kind::Uint64 => {
                let value = self.integer(0, u64::MAX.into())? as u64;
                put_present_number(out, number, value);
            }
            Kind::Uint32 => {
                let value = self.integer(0, u32::MAX.into())? as u64;
                put_present_number(out, number, value);
            }
            Kind::Sint32 => {
                let value = self.integer(i32::MIN.into(), i32::MAX.into())? as i64;
                put_present_number(out, number, zigzag(value));
            }
            Kind::Enum(words) => {
                let value = self.enumeration(words)?;
                put_present_number(out, number, value);
            }
        }
        if out.len() > self.max_bytes {
            return Err(JsonError::TooLarge {
                max: self.max_bytes,
            });
        }
        Ok(())
    }

    /// A number, or one in a string.
    fn number(&mut self) -> Result<Cow<'_, str>> {
        match self.text.peek()? {
            b'"' => self.text.string(),
            _ => Ok(Cow::Borrowed(self.text.number()?)),
        }
    }

    fn double(&mut self) -> Result<f64> {
        let text = self.number()?;
        let value = match &*text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            number if number.bytes().all(is_number_byte) => number.parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| self.text.error("expected a number"))
    }

    fn integer(&mut self, least: i128, most: i128) -> Result<i128> {
        let text = self.number()?;
        let whole =
            |value: f64| (value.fract() == 0.0 && value.abs() < 1e30).then_some(value as i128);
        let value = match text.bytes().all(is_number_byte) {
            true => text
                .parse::<i128>()
                .ok()
                .or_else(|| text.parse().ok().and_then(whole)),
            false => None,
        };
        match value {
            Some(value) if (least..=most).contains(&value) => Ok(value),
            Some(_) => Err(self.text.error("number out of range")),
            None => Err(self.text.error("expected a whole number")),
        }
    }

    fn enumeration(&mut self, words: &[&str]) -> Result<u64> {
        if self.text.peek()? != b'"' {
            return Ok(self.integer(0, i32::MAX.into())? as u64);
        }
        let word = self.text.string()?;
        let known = words.iter().position(|known| *known == word);
        match known.or_else(|| word.parse().ok()) {
            Some(number) => Ok(number as u64),
            None => Err(self.text.error("not a word for this enumeration")),
        }
    }
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')
}

/// With or without padding, in the ordinary alphabet or in that for URLs.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text
        .iter()
        .rposition(|byte| *byte != b'=')
        .map_or(0, |i| i + 1);
    let mut bytes = Vec::with_capacity(end / 4 * 3 + 2);
    let (mut group, mut bits) = (0u32, 0);
    for byte in text.get(..end)? {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        group = (group << 6 | u32::from(digit)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits) as u8);
        }
    }
    // One digit alone is no byte.
    (end % 4 != 1).then_some(bytes)
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests;
