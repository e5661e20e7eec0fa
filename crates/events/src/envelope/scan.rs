//! Values of JSON text, with the first fault of an envelope noted instead of returned: whatever is
//! wrong with one envelope, the text behind it is still read.
//!
//! Holds always: only text that is no JSON is an error here.

use std::borrow::Cow;

use icecore_wire::json::{JsonReader, SyntaxError};

use super::{invalid_field, limit, limits};
use crate::{Problem, Scalar};

pub(super) type Result<T> = std::result::Result<T, SyntaxError>;

/// What is wrong with an envelope.
#[derive(Debug, Default)]
pub(super) struct Faults {
    first: Option<Problem>,
}

impl Faults {
    pub(super) fn note(&mut self, problem: impl FnOnce() -> Problem) {
        if self.first.is_none() {
            self.first = Some(problem());
        }
    }

    pub(super) fn take(&mut self) -> Option<Problem> {
        self.first.take()
    }
}

/// The text of a field; nothing for null, and a fault for anything else.
pub(super) fn text<'a>(
    json: &mut JsonReader<'a>,
    field: &str,
    faults: &mut Faults,
) -> Result<Option<Cow<'a, str>>> {
    if json.peek()? == b'"' {
        return string(json, field, faults).map(Some);
    }
    if !json.null()? {
        faults.note(|| invalid_field(format!("{field} must be text")));
        skip(json, faults)?;
    }
    Ok(None)
}

/// A string that is next, within its limit.
pub(super) fn string<'a>(
    json: &mut JsonReader<'a>,
    field: &str,
    faults: &mut Faults,
) -> Result<Cow<'a, str>> {
    let text = json.string()?;
    if text.len() > limits::MAX_STRING_BYTES {
        let bytes_max = limits::MAX_STRING_BYTES;
        faults.note(|| limit(format!("{field} is longer than {bytes_max} bytes")));
    }
    Ok(text)
}

/// Each member of an object; nothing for null, and a fault for anything else.
pub(super) fn object<'a>(
    json: &mut JsonReader<'a>,
    field: &str,
    faults: &mut Faults,
    mut each: impl FnMut(&mut JsonReader<'a>, &str, &mut Faults) -> Result<()>,
) -> Result<()> {
    if json.peek()? == b'{' {
        return json.object(|json, key| each(json, key, faults));
    }
    if !json.null()? {
        faults.note(|| invalid_field(format!("{field} must be an object")));
        skip(json, faults)?;
    }
    Ok(())
}

pub(super) fn boolean(json: &mut JsonReader<'_>, field: &str, faults: &mut Faults) -> Result<bool> {
    if matches!(json.peek()?, b't' | b'f') {
        return json.boolean();
    }
    if !json.null()? {
        faults.note(|| invalid_field(format!("{field} must be true or false")));
        skip(json, faults)?;
    }
    Ok(false)
}

/// A number that is next.
pub(super) fn number(json: &mut JsonReader<'_>, faults: &mut Faults) -> Result<Scalar<'static>> {
    let text = number_text(json)?;
    if let Ok(integer) = text.parse() {
        return Ok(Scalar::Integer(integer));
    }
    let number: f64 = text.parse().map_err(|_| json.error("expected a number"))?;
    if !number.is_finite() {
        faults.note(|| limit(format!("{text} is too large for a number")));
    }
    Ok(Scalar::Number(number))
}

/// The text of a number as JSON has them: the reader takes anything made of their characters.
pub(super) fn number_text<'a>(json: &mut JsonReader<'a>) -> Result<&'a str> {
    let text = json.number()?;
    if is_number(text.as_bytes()) {
        Ok(text)
    } else {
        Err(json.error("expected a number"))
    }
}

fn is_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, rest) = leading_digits(text);
    let leading_zero = whole.len() > 1 && whole.starts_with(b"0");
    if whole.is_empty() || leading_zero {
        return false;
    }
    let rest = match rest.strip_prefix(b".") {
        None => rest,
        Some(fraction) => match leading_digits(fraction) {
            ([], _) => return false,
            (_, rest) => rest,
        },
    };
    match rest {
        [] => true,
        [b'e' | b'E', exponent @ ..] => {
            let digits = match exponent {
                [b'+' | b'-', digits @ ..] => digits,
                digits => digits,
            };
            let (digits, rest) = leading_digits(digits);
            !digits.is_empty() && rest.is_empty()
        }
        _ => false,
    }
}

fn leading_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(count)
}

/// Steps over any value.
pub(super) fn skip(json: &mut JsonReader<'_>, faults: &mut Faults) -> Result<()> {
    match json.peek()? {
        b'{' => json.object(|json, _| skip(json, faults)),
        b'[' => json.array(|json| skip(json, faults)),
        b'"' => json.string().map(drop),
        b't' | b'f' => json.boolean().map(drop),
        b'n' if json.null()? => Ok(()),
        _ => number(json, faults).map(drop),
    }
}

/// The text of a value that is kept as it is, if it is of the kind that begins with `opening`.
pub(super) fn kept<'a>(
    json: &mut JsonReader<'a>,
    field: &str,
    opening: u8,
    faults: &mut Faults,
    read: impl FnOnce(&mut JsonReader<'a>, &mut Faults) -> Result<()>,
) -> Result<Cow<'a, str>> {
    if json.peek()? == opening {
        let text = json.span(|json| read(json, faults))?;
        let bytes_max = limits::MAX_KEPT_BYTES;
        if text.len() > bytes_max {
            faults.note(|| limit(format!("{field} is longer than {bytes_max} bytes")));
        }
        return Ok(Cow::Borrowed(text));
    }
    if !json.null()? {
        let kind = if opening == b'{' {
            "an object"
        } else {
            "an array"
        };
        faults.note(|| invalid_field(format!("{field} must be {kind}")));
        skip(json, faults)?;
    }
    Ok(Cow::Borrowed(""))
}
