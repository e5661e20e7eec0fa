//! Attributes from the JSON text that they were written as, exactly.
//!
//! A double always has a point or an exponent there, and an integer never: that is how they are
//! told apart.

use std::borrow::Cow;

use icecore_events::{Attributes, Scalar, Value};
use icecore_wire::json::{JsonReader, SyntaxError};

/// Attributes nest no deeper than intake lets them, with some room.
const DEPTH_MAX: usize = 64;

pub(crate) fn from_json(json: &str) -> Result<Attributes<'static>, SyntaxError> {
    let mut leaves = Vec::new();
    let mut reader = JsonReader::new(json, DEPTH_MAX);
    read_object(&mut reader, None, &mut leaves)?;
    if !reader.is_at_end() {
        return Err(reader.error("text after the end"));
    }
    Attributes::from_leaves(leaves).map_err(|_| reader.error("a value that is also an object"))
}

type Leaves = Vec<(Cow<'static, str>, Value<'static>)>;

fn read_object(
    json: &mut JsonReader<'_>,
    parent: Option<&str>,
    leaves: &mut Leaves,
) -> Result<(), SyntaxError> {
    json.object(|json, key| {
        let path = match parent {
            None => key.to_owned(),
            Some(parent) => format!("{parent}.{key}"),
        };
        match json.peek()? {
            b'{' => read_object(json, Some(&path), leaves)?,
            b'[' => {
                let value = read_list(json)?;
                leaves.push((path.into(), value));
            }
            b'n' => {
                let is_null = json.null()?;
                if !is_null {
                    return Err(json.error("expected a value"));
                }
                leaves.push((path.into(), Value::Null));
            }
            _ => leaves.push((path.into(), Value::Scalar(read_scalar(json)?))),
        }
        Ok(())
    })
}

/// A list of single values, or the text of any other list.
fn read_list(json: &mut JsonReader<'_>) -> Result<Value<'static>, SyntaxError> {
    let mut list = Some(Vec::new());
    let text = json.span::<SyntaxError>(|json| {
        json.array(|json| match (json.peek()?, &mut list) {
            (b'{' | b'[' | b'n', _) | (_, None) => {
                list = None;
                json.skip()
            }
            (_, Some(list)) => {
                list.push(read_scalar(json)?);
                Ok(())
            }
        })
    })?;
    Ok(match list {
        Some(list) => Value::List(list),
        None => Value::Json(text.to_owned().into()),
    })
}

fn read_scalar(json: &mut JsonReader<'_>) -> Result<Scalar<'static>, SyntaxError> {
    Ok(match json.peek()? {
        b'"' => Scalar::Text(json.string()?.into_owned().into()),
        b't' | b'f' => Scalar::Boolean(json.boolean()?),
        _ => {
            let text = json.number()?;
            let bad = json.error("expected a number");
            if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
                Scalar::Number(text.parse().map_err(|_| bad)?)
            } else {
                Scalar::Integer(text.parse().map_err(|_| bad)?)
            }
        }
    })
}
