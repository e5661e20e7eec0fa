//! Attributes of an envelope: objects are taken apart as they are read.

use std::borrow::Cow;

use icecore_wire::json::{JsonReader, SyntaxError};

use super::scan::{Faults, Result, boolean, number, skip, string};
use super::{invalid_field, limit, limits};
use crate::{Attributes, Leaf, Problem, Scalar, Value};

/// Reads attributes from a JSON object, for example from what [`crate::json_text`] writes.
pub fn parse_attributes(text: &str) -> std::result::Result<Attributes<'_>, Problem> {
    let mut faults = Faults::default();
    let mut json = JsonReader::new(text, limits::MAX_JSON_DEPTH);
    let attributes = read_attributes(&mut json, &mut faults).and_then(|attributes| {
        if json.is_at_end() {
            Ok(attributes)
        } else {
            Err(json.error("expected the end"))
        }
    });
    match (attributes, faults.take()) {
        (Err(error), _) => Err(super::parse::invalid_json(&error)),
        (Ok(_), Some(problem)) => Err(problem),
        (Ok(attributes), None) => Ok(attributes),
    }
}

pub(super) fn read_attributes<'a>(
    json: &mut JsonReader<'a>,
    faults: &mut Faults,
) -> Result<Attributes<'a>> {
    if json.peek()? != b'{' {
        if !json.null()? {
            faults.note(|| invalid_field("attributes must be an object"));
            skip(json, faults)?;
        }
        return Ok(Attributes::default());
    }
    let mut leaves = Leaves {
        path: String::new(),
        found: Vec::with_capacity(16),
        faults,
    };
    leaves.object(json, 0)?;
    let found = leaves.found;
    Ok(Attributes::from_leaves(found).unwrap_or_else(|problem| {
        faults.note(|| problem);
        Attributes::default()
    }))
}

struct Leaves<'a, 'f> {
    /// Where the object that is read lies.
    path: String,
    found: Vec<Leaf<'a>>,
    faults: &'f mut Faults,
}

impl<'a> Leaves<'a, '_> {
    /// Reads an object that has `depth` keys above it.
    fn object(&mut self, json: &mut JsonReader<'a>, depth: usize) -> Result<()> {
        json.members(|json, key| {
            let depth_here = depth + 1 + key.bytes().filter(|byte| *byte == b'.').count();
            let length = self.path.len() + 1 + key.len();
            if !self.is_within_limits(depth_here, length) {
                return skip(json, self.faults);
            }
            if json.peek()? == b'{' {
                let outer = self.path.len();
                if depth > 0 {
                    self.path.push('.');
                }
                self.path.push_str(&key);
                self.object(json, depth_here)?;
                self.path.truncate(outer);
                return Ok(());
            }
            let path = if depth == 0 {
                key
            } else {
                let mut path = String::with_capacity(length);
                path.push_str(&self.path);
                path.push('.');
                path.push_str(&key);
                Cow::Owned(path)
            };
            let value = self.value(json, &path, depth_here)?;
            self.found.push((path, value));
            Ok(())
        })
    }

    fn is_within_limits(&mut self, depth: usize, path_bytes: usize) -> bool {
        let (what, max) = if depth > limits::MAX_ATTRIBUTE_DEPTH {
            (
                "keys on the way to an attribute",
                limits::MAX_ATTRIBUTE_DEPTH,
            )
        } else if path_bytes > limits::MAX_PATH_BYTES {
            ("bytes in the path of an attribute", limits::MAX_PATH_BYTES)
        } else if self.found.len() >= limits::MAX_LEAVES {
            ("attributes", limits::MAX_LEAVES)
        } else {
            return true;
        };
        self.faults
            .note(|| limit(format!("more than {max} {what}")));
        false
    }

    fn value(&mut self, json: &mut JsonReader<'a>, path: &str, depth: usize) -> Result<Value<'a>> {
        Ok(match json.peek()? {
            b'[' => self.list(json, path, depth)?,
            b'n' if json.null()? => Value::Null,
            _ => Value::Scalar(self.scalar(json, path)?),
        })
    }

    fn scalar(&mut self, json: &mut JsonReader<'a>, path: &str) -> Result<Scalar<'a>> {
        Ok(match json.peek()? {
            b'"' => Scalar::Text(string(json, path, self.faults)?),
            b't' | b'f' => Scalar::Boolean(boolean(json, path, self.faults)?),
            _ => number(json, self.faults)?,
        })
    }

    /// A list of scalars, or the text of any other one.
    fn list(&mut self, json: &mut JsonReader<'a>, path: &str, depth: usize) -> Result<Value<'a>> {
        let mut list = Vec::new();
        let mut is_plain = true;
        let mut elements_left = limits::MAX_LIST_ELEMENTS;
        let text = json.span(|json| {
            json.array(|json| {
                if self.is_full(path, &mut elements_left) {
                    return skip(json, self.faults);
                }
                match json.peek()? {
                    b'{' | b'[' | b'n' => {
                        is_plain = false;
                        self.element(json, path, depth + 1, &mut elements_left)
                    }
                    _ => {
                        let scalar = self.scalar(json, path)?;
                        list.push(scalar);
                        Ok(())
                    }
                }
            })
        })?;
        Ok(if is_plain {
            Value::List(list)
        } else {
            Value::Json(Cow::Borrowed(text))
        })
    }

    /// Steps over an element that is no scalar.
    fn element(
        &mut self,
        json: &mut JsonReader<'a>,
        path: &str,
        depth: usize,
        elements_left: &mut usize,
    ) -> Result<()> {
        if !self.is_within_limits(depth, path.len()) || self.is_full(path, elements_left) {
            return skip(json, self.faults);
        }
        match json.peek()? {
            b'{' => json.object::<SyntaxError>(|json, _| {
                self.element(json, path, depth + 1, elements_left)
            }),
            b'[' => {
                json.array::<SyntaxError>(|json| self.element(json, path, depth + 1, elements_left))
            }
            b'n' if json.null()? => Ok(()),
            _ => self.scalar(json, path).map(drop),
        }
    }

    fn is_full(&mut self, path: &str, elements_left: &mut usize) -> bool {
        match elements_left.checked_sub(1) {
            Some(left) => {
                *elements_left = left;
                false
            }
            None => {
                let max = limits::MAX_LIST_ELEMENTS;
                self.faults
                    .note(|| limit(format!("attribute {path} has more than {max} elements")));
                true
            }
        }
    }
}
