//! JSON as the original reads it: numbers keep their text, members their order, and bare `NaN` is
//! a number.

use std::borrow::Cow;
use std::fmt::Write as _;

use icecore_wire::json::{JsonReader, SyntaxError};

/// Objects and arrays within each other.
const DEPTH_MAX: usize = 64;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// As written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// As written; of members with one name the last counts.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// The whole text as one value.
    pub(crate) fn parse(text: &'a str) -> Result<Self, SyntaxError> {
        let mut reader = JsonReader::new(text, DEPTH_MAX);
        let value = read(&mut reader)?;
        if reader.is_at_end() {
            Ok(value)
        } else {
            Err(reader.error("something follows the value"))
        }
    }

    /// A member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        let found = members.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    /// A text, or a number or bool as written: what a field of type `String` is given.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text),
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    pub(crate) fn as_object(&self) -> Option<&[(Cow<'a, str>, Self)]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

fn read<'a>(reader: &mut JsonReader<'a>) -> Result<Json<'a>, SyntaxError> {
    Ok(match reader.peek()? {
        b'{' => {
            let mut members = Vec::new();
            reader.object(|reader, name| {
                members.push((name.to_owned().into(), read(reader)?));
                Ok::<_, SyntaxError>(())
            })?;
            Json::Object(members)
        }
        b'[' => {
            let mut elements = Vec::new();
            reader.array(|reader| {
                elements.push(read(reader)?);
                Ok::<_, SyntaxError>(())
            })?;
            Json::Array(elements)
        }
        b'"' => Json::Text(reader.string()?),
        b't' | b'f' => Json::Bool(reader.boolean()?),
        b'n' if reader.null()? => Json::Null,
        b'N' if reader.word("NaN")? => Json::Number("NaN".into()),
        _ => Json::Number(reader.number()?.into()),
    })
}

/// Appends a text in quotes.
pub(crate) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_text_and_members_their_order() {
        let text = r#" {"b": 1.50, "a": [true, null, NaN, "x\n"], "b": -7e3} "#;
        let value = Json::parse(text).unwrap();
        assert_eq!(value.get("b").and_then(Json::text), Some("-7e3"));
        let Some([one, two, three, four]) = value.get("a").and_then(Json::as_array) else {
            panic!("four elements")
        };
        assert_eq!(one.text(), Some("true"));
        assert!(two.is_null());
        assert_eq!(three, &Json::Number("NaN".into()));
        assert_eq!(four.text(), Some("x\n"));
        assert_eq!(value.as_object().unwrap().len(), 3);
        for broken in ["", "{", "[1,]", "{} x", "nul", "tru"] {
            assert!(Json::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn texts_are_escaped() {
        let mut out = String::new();
        push_text(&mut out, "a\"\\\n\u{1}ü");
        assert_eq!(out, r#""a\"\\\n\u0001ü""#);
    }
}
