//! `Exemplar { fixed64 time = 2; double as_double = 3; bytes span_id = 4; bytes trace_id = 5;
//! sfixed64 as_int = 6; KeyValue filtered_attributes = 7; }`

use icecore_model::{Exemplar, LabelsBuilder};

use super::attributes::read_attribute;
use super::point::to_ms;
use super::value::push_text;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known};

const TIME: u32 = fixed64_tag(2);
const AS_DOUBLE: u32 = fixed64_tag(3);
const SPAN_ID: u32 = bytes_tag(4);
const TRACE_ID: u32 = bytes_tag(5);
const AS_INT: u32 = fixed64_tag(6);
const ATTRIBUTES: u32 = bytes_tag(7);
const FIELDS: u32 = known(&[2, 3, 4, 5, 6, 7]);

/// Characters that the labels of one exemplar may have together: OpenMetrics' limit. As in
/// Prometheus, attributes that do not fit are left out and the ids stay.
const LABEL_CHARS_MAX: usize = 128;

/// Bytes of the longest id: a trace id has 16.
const ID_BYTES_MAX: usize = 16;

/// The inner error is why the exemplar is refused. `otherwise_ms` is the time of one without.
pub(super) fn decode_exemplar(
    message: &[u8],
    otherwise_ms: i64,
) -> Result<std::result::Result<Exemplar, &'static str>> {
    let (mut time_ns, mut value) = (0, None);
    let (mut trace_id, mut span_id) = (&[][..], &[][..]);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            TIME => time_ns = reader.fixed64()?,
            AS_DOUBLE => value = Some(reader.double()?),
            AS_INT => value = Some(reader.fixed64()? as i64 as f64),
            SPAN_ID => span_id = reader.bytes()?,
            TRACE_ID => trace_id = reader.bytes()?,
            ATTRIBUTES => reader.skip(ATTRIBUTES)?,
            other => reader.skip_unknown(other, FIELDS)?,
        }
    }
    let Some(value) = value else {
        return Ok(Err("exemplar without a value"));
    };
    let mut labels = LabelsBuilder::default();
    let mut chars_left = LABEL_CHARS_MAX;
    for (name, id) in [("trace_id", trace_id), ("span_id", span_id)] {
        if id.len() > ID_BYTES_MAX {
            return Ok(Err("trace or span id of an exemplar is too long"));
        }
        if id.iter().any(|byte| *byte != 0) {
            let hex = hex::encode(id);
            chars_left = chars_left.saturating_sub(name.len() + hex.len());
            labels.set(name, &hex);
        }
    }
    for (name, text) in attributes_that_fit(message, chars_left)? {
        labels.set(&name, &text);
    }
    Ok(Ok(Exemplar {
        labels: labels.build(),
        timestamp_ms: if time_ns == 0 {
            otherwise_ms
        } else {
            to_ms(time_ns)
        },
        value,
    }))
}

/// The attributes as text, or none when they are too long together or not text.
fn attributes_that_fit(message: &[u8], chars_max: usize) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut chars_left = chars_max;
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        if tag != ATTRIBUTES {
            reader.skip(tag)?;
            continue;
        }
        let attribute = read_attribute(reader.bytes()?)?;
        // A character has at most four bytes, so what is longer cannot fit and is not turned into
        // text.
        if attribute.key.len().saturating_add(attribute.value.len()) > 8 * LABEL_CHARS_MAX {
            return Ok(Vec::new());
        }
        let mut text = Vec::new();
        let is_text = push_text(attribute.value, &mut text)?;
        let (Ok(name), Ok(text), true) = (
            str::from_utf8(attribute.key),
            String::from_utf8(text),
            is_text,
        ) else {
            return Ok(Vec::new());
        };
        match chars_left.checked_sub(name.chars().count() + text.chars().count()) {
            Some(left) => chars_left = left,
            None => return Ok(Vec::new()),
        }
        pairs.push((name.to_owned(), text));
    }
    Ok(pairs)
}
