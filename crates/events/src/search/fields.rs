//! The fields of a body, with errors that name them.

use serde_json::{Map, Value};

use crate::Problem;

/// An object of a request.
pub(super) type Fields = Map<String, Value>;

pub(super) fn parse(body: &[u8]) -> Result<Fields, Problem> {
    let value = serde_json::from_slice(body)
        .map_err(|cause| Problem::new(400, "query.invalid-json", cause.to_string()))?;
    match value {
        Value::Object(fields) => Ok(fields),
        _ => {
            let detail = "the body must be a JSON object";
            Err(Problem::new(400, "query.invalid-body", detail))
        }
    }
}

/// A field that is there and not null.
pub(super) fn get<'f>(fields: &'f Fields, name: &str) -> Option<&'f Value> {
    fields.get(name).filter(|value| !value.is_null())
}

pub(super) fn text<'f>(fields: &'f Fields, name: &str) -> Result<Option<&'f str>, Problem> {
    match get(fields, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(name, "must be a string")),
    }
}

pub(super) fn required<'f>(fields: &'f Fields, name: &str) -> Result<&'f str, Problem> {
    let text = text(fields, name)?.filter(|text| !text.is_empty());
    text.ok_or_else(|| missing(name))
}

pub(super) fn flag(fields: &Fields, name: &str) -> Result<bool, Problem> {
    match get(fields, name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(invalid(name, "must be true or false")),
    }
}

pub(super) fn count(fields: &Fields, name: &str) -> Result<Option<usize>, Problem> {
    let Some(value) = get(fields, name) else {
        return Ok(None);
    };
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| invalid(name, "must be a whole number, not negative"))?;
    Ok(Some(count))
}

pub(super) fn object<'f>(fields: &'f Fields, name: &str) -> Result<Option<&'f Fields>, Problem> {
    match get(fields, name) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(invalid(name, "must be an object")),
    }
}

pub(super) fn invalid(name: &str, reason: &str) -> Problem {
    Problem::new(400, "query.invalid-field", format!("{name} {reason}"))
}

pub(super) fn missing(name: &str) -> Problem {
    let detail = format!("{name} is required");
    Problem::new(400, "query.required-field-missing", detail)
}
