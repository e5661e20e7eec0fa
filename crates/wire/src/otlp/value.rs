//! Attribute values as text.
//!
//! ```text
//! AnyValue { string = 1; bool = 2; int64 = 3; double = 4; ArrayValue = 5; KeyValueList = 6;
//!            bytes = 7; }
//! ```
//!
//! Holds always: a value nested deeper than [`DEPTH_MAX`] is reported, not walked.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::attributes::read_attribute;
use crate::prometheus::api_json::write_string;
use crate::prometheus::number::{push_json_number, push_signed, push_text_number};
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};

const STRING: u32 = bytes_tag(1);
const BOOL: u32 = varint_tag(2);
const INT: u32 = varint_tag(3);
const DOUBLE: u32 = fixed64_tag(4);
const ARRAY: u32 = bytes_tag(5);
const MAP: u32 = bytes_tag(6);
const BYTES: u32 = bytes_tag(7);
const FIELDS: u32 = known(&[1, 2, 3, 4, 5, 6, 7]);

/// Nesting of arrays and maps. Attributes in practice have one or two levels.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Copy)]
enum Value<'a> {
    Empty,
    String(&'a [u8]),
    Bool(bool),
    Int(i64),
    Double(f64),
    /// The messages of both are repeated values in field 1.
    Array(&'a [u8]),
    Map(&'a [u8]),
    Bytes(&'a [u8]),
}

/// The text of a value that is a string of the usual encoding.
#[inline]
pub(super) fn common_string(message: &[u8]) -> Option<&[u8]> {
    match message {
        [0x0a, length, text @ ..] if *length < 0x80 && text.len() == usize::from(*length) => {
            Some(text)
        }
        _ => None,
    }
}

/// Appends a value as text. False when it is nested too deep; what was appended is incomplete then.
pub(super) fn push_text(message: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    if let Some(text) = common_string(message) {
        out.extend_from_slice(text);
        return Ok(true);
    }
    match read_value(message)? {
        Value::Empty => {}
        Value::String(text) => out.extend_from_slice(text),
        Value::Double(value) => push_text_number(out, value),
        Value::Bytes(bytes) => out.extend_from_slice(STANDARD.encode(bytes).as_bytes()),
        Value::Bool(_) | Value::Int(_) | Value::Array(_) | Value::Map(_) => {
            return push_json(message, out, DEPTH_MAX);
        }
    }
    Ok(true)
}

fn read_value(message: &[u8]) -> Result<Value<'_>> {
    let mut value = Value::Empty;
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        value = match reader.tag()? {
            STRING => Value::String(reader.bytes()?),
            BOOL => Value::Bool(reader.varint()? != 0),
            INT => Value::Int(reader.varint()? as i64),
            DOUBLE => Value::Double(reader.double()?),
            ARRAY => Value::Array(reader.bytes()?),
            MAP => Value::Map(reader.bytes()?),
            BYTES => Value::Bytes(reader.bytes()?),
            other => {
                reader.skip_unknown(other, FIELDS)?;
                value
            }
        };
    }
    Ok(value)
}

/// Appends a value as JSON. False when it is nested too deep; what was appended is incomplete then.
pub(super) fn push_any_json(message: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    push_json(message, out, DEPTH_MAX)
}

fn push_json(message: &[u8], out: &mut Vec<u8>, depth_left: usize) -> Result<bool> {
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Ok(false);
    };
    match read_value(message)? {
        Value::Empty => out.extend_from_slice(b"null"),
        Value::String(text) => write_string(out, &String::from_utf8_lossy(text)),
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Int(value) => push_signed(out, value),
        Value::Double(value) if value.is_finite() => push_json_number(out, value),
        Value::Double(value) => {
            out.push(b'"');
            push_text_number(out, value);
            out.push(b'"');
        }
        Value::Bytes(bytes) => {
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
        }
        Value::Array(list) => return push_array(list, out, depth_left),
        Value::Map(list) => return push_map(list, out, depth_left),
    }
    Ok(true)
}

fn push_array(list: &[u8], out: &mut Vec<u8>, depth_left: usize) -> Result<bool> {
    out.push(b'[');
    let mut separator: &[u8] = b"";
    let mut reader = Reader::new(list);
    while !reader.is_empty() {
        match reader.tag()? {
            STRING => {
                out.extend_from_slice(separator);
                separator = b",";
                if !push_json(reader.bytes()?, out, depth_left)? {
                    return Ok(false);
                }
            }
            other => reader.skip_unknown(other, known(&[1]))?,
        }
    }
    out.push(b']');
    Ok(true)
}

/// Keys in order, each once: the last value counts. The same map is always the same text.
fn push_map(list: &[u8], out: &mut Vec<u8>, depth_left: usize) -> Result<bool> {
    let mut entries = BTreeMap::new();
    let mut reader = Reader::new(list);
    while !reader.is_empty() {
        match reader.tag()? {
            STRING => {
                let attribute = read_attribute(reader.bytes()?)?;
                entries.insert(attribute.key, attribute.value);
            }
            other => reader.skip_unknown(other, known(&[1]))?,
        }
    }
    out.push(b'{');
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(out, &String::from_utf8_lossy(key));
        out.push(b':');
        if !push_json(value, out, depth_left)? {
            return Ok(false);
        }
    }
    out.push(b'}');
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::message::{put_bytes, put_double, put_number};

    fn value(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut message = Vec::new();
        write(&mut message);
        message
    }

    fn text(message: &[u8]) -> String {
        let mut out = Vec::new();
        assert!(push_text(message, &mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    fn list(field: u32, entries: &[Vec<u8>]) -> Vec<u8> {
        value(|out| {
            let content = value(|out| entries.iter().for_each(|entry| put_bytes(out, 1, entry)));
            put_bytes(out, field, &content);
        })
    }

    #[test]
    fn every_kind_has_a_text() {
        let string = value(|out| put_bytes(out, 1, "größe \"x\"".as_bytes()));
        assert_eq!(text(&string), "größe \"x\"");
        assert_eq!(
            text(&value(|out| put_bytes(out, 1, &[b'x'; 200]))),
            "x".repeat(200)
        );
        assert_eq!(text(&value(|out| put_number(out, 2, 1))), "true");
        assert_eq!(text(&[0x10, 0]), "false");
        assert_eq!(text(&value(|out| put_number(out, 3, -7i64 as u64))), "-7");
        assert_eq!(text(&value(|out| put_double(out, 4, 2.5))), "2.5");
        assert_eq!(text(&value(|out| put_double(out, 4, f64::NAN))), "NaN");
        assert_eq!(
            text(&value(|out| put_bytes(out, 7, b"\x00\xffab"))),
            "AP9hYg=="
        );
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn lists_and_maps_are_json() {
        let string = value(|out| put_bytes(out, 1, b"a\"b"));
        let number = value(|out| put_number(out, 3, 5));
        let infinite = value(|out| put_double(out, 4, f64::INFINITY));
        let array = list(5, &[string, number.clone(), infinite, vec![]]);
        assert_eq!(text(&array), r#"["a\"b",5,"+Inf",null]"#);
        let entry = |key: &[u8], content: &[u8]| {
            value(|out| {
                put_bytes(out, 1, key);
                put_bytes(out, 2, content);
            })
        };
        let map = list(
            6,
            &[entry(b"z", &number), entry(b"a", &array), entry(b"z", &[])],
        );
        assert_eq!(text(&map), r#"{"a":["a\"b",5,"+Inf",null],"z":null}"#);
    }

    #[test]
    fn values_that_are_too_deep_are_reported() {
        let mut nested = value(|out| put_number(out, 3, 5));
        for _ in 0..DEPTH_MAX - 1 {
            nested = list(5, &[nested]);
        }
        assert!(push_text(&nested, &mut Vec::new()).unwrap());
        assert!(!push_text(&list(5, &[nested]), &mut Vec::new()).unwrap());
    }
}
