//! Attributes as nested JSON.
//!
//! Holds always: what is written here is read back as the same attributes, types included. A whole
//! number that is no integer keeps its fraction for that (`200.0`).

use serde_json::{Map, Number, Value as Json};

use crate::{Attributes, Scalar, Value};

/// Appends attributes as a JSON object. All paths of an object follow one another, so objects are
/// opened and closed on the way.
pub fn push_attributes(out: &mut String, attributes: &Attributes<'_>) {
    out.push('{');
    // The objects that are open, as the beginning of the last path that they have in common.
    let mut open = "";
    let mut is_first = true;
    for (path, value) in attributes.iter() {
        let common = common_objects(open, path);
        let closed = object_count(open) - object_count(&path[..common]);
        (0..closed).for_each(|_| out.push('}'));
        if !is_first {
            out.push(',');
        }
        let rest = &path[common..];
        let mut keys = rest.split('.').peekable();
        while let Some(key) = keys.next() {
            push_string(out, key);
            out.push(':');
            if keys.peek().is_some() {
                out.push('{');
            }
        }
        push_value(out, value);
        open = path.rfind('.').map_or("", |dot| &path[..=dot]);
        is_first = false;
    }
    (0..object_count(open)).for_each(|_| out.push('}'));
    out.push('}');
}

/// Attributes as a JSON object.
pub fn attributes_text(attributes: &Attributes<'_>) -> String {
    let mut text = String::with_capacity(32 * attributes.len() + 2);
    push_attributes(&mut text, attributes);
    text
}

/// How much of a path lies in objects that are open.
fn common_objects(open: &str, path: &str) -> usize {
    let same = open
        .bytes()
        .zip(path.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let dot = open.as_bytes()[..same]
        .iter()
        .rposition(|byte| *byte == b'.');
    dot.map_or(0, |dot| dot + 1)
}

/// How many objects the beginning of a path opens.
fn object_count(open: &str) -> usize {
    open.bytes().filter(|byte| *byte == b'.').count()
}

pub fn push_value(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Scalar(scalar) => push_scalar(out, scalar),
        Value::List(list) => push_list(out, list),
        Value::Json(text) => out.push_str(text),
    }
}

pub(crate) fn push_list(out: &mut String, list: &[Scalar<'_>]) {
    out.push('[');
    for (at, scalar) in list.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_scalar(out, scalar);
    }
    out.push(']');
}

pub fn push_scalar(out: &mut String, scalar: &Scalar<'_>) {
    match scalar {
        Scalar::Text(text) => push_string(out, text),
        Scalar::Number(number) if number.is_finite() => {
            out.push_str(zmij::Buffer::new().format_finite(*number));
        }
        // JSON has no other numbers, and none is read.
        Scalar::Number(_) => out.push_str("null"),
        Scalar::Integer(_) | Scalar::Boolean(_) => out.push_str(&scalar.to_text()),
    }
}

/// Appends a text in quotes.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        out.push_str(escape);
        if escape.is_empty() {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.push_str("\\u00");
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// Attributes as a tree of JSON values, for answers.
pub fn attributes_json(attributes: &Attributes<'_>) -> Json {
    let mut root = Map::new();
    for (path, value) in attributes.iter() {
        let (objects, key) = path
            .rsplit_once('.')
            .map_or((None, path), |(objects, key)| (Some(objects), key));
        let mut object = Some(&mut root);
        for name in objects.iter().flat_map(|objects| objects.split('.')) {
            let entry = object.map(|object| {
                object
                    .entry(name)
                    .or_insert_with(|| Json::Object(Map::new()))
            });
            object = entry.and_then(Json::as_object_mut);
        }
        if let Some(object) = object {
            object.insert(key.into(), value_json(value));
        }
    }
    Json::Object(root)
}

pub fn value_json(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Scalar(scalar) => scalar_json(scalar),
        Value::List(list) => Json::Array(list.iter().map(scalar_json).collect()),
        Value::Json(text) => serde_json::from_str(text).unwrap_or_default(),
    }
}

pub fn scalar_json(scalar: &Scalar<'_>) -> Json {
    match scalar {
        Scalar::Text(text) => Json::String(text.to_string()),
        Scalar::Integer(integer) => Json::Number((*integer).into()),
        Scalar::Number(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Scalar::Boolean(boolean) => Json::Bool(*boolean),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::envelope::parse_attributes;

    #[test]
    fn texts_are_escaped() {
        let mut out = String::new();
        push_string(&mut out, "a\"b\\c\n\r\t\u{1}\u{1f}é\u{7f}");
        assert_eq!(out, "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u001fé\u{7f}\"");
        assert_eq!(attributes_text(&Attributes::default()), "{}");
    }

    fn scalar() -> impl Strategy<Value = Scalar<'static>> {
        prop_oneof![
            any::<String>().prop_map(|text| Scalar::Text(text.into())),
            any::<i64>().prop_map(Scalar::Integer),
            prop::num::f64::NORMAL.prop_map(Scalar::Number),
            (-9..9_i32).prop_map(|whole| Scalar::Number(whole.into())),
            any::<bool>().prop_map(Scalar::Boolean),
        ]
    }

    fn value() -> impl Strategy<Value = Value<'static>> {
        prop_oneof![
            Just(Value::Null),
            scalar().prop_map(Value::Scalar),
            prop::collection::vec(scalar(), 0..3).prop_map(Value::List),
            Just(Value::Json("[{\"a\":1},null]".into())),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            leaves in prop::collection::vec(("[ab.\"-]{0,6}", value()), 0..8),
        ) {
            let leaves = leaves.into_iter().map(|(path, value)| (path.into(), value)).collect();
            if let Ok(attributes) = Attributes::from_leaves(leaves) {
                let text = attributes_text(&attributes);
                prop_assert_eq!(&parse_attributes(&text).unwrap(), &attributes);
                let text = attributes_json(&attributes).to_string();
                prop_assert_eq!(&parse_attributes(&text).unwrap(), &attributes);
            }
        }
    }
}
