//! Attributes against what their type declares.
//!
//! Text is never turned into a number. What is declared is made of one form, so that equal values
//! have equal text: whole numbers of an integer become integers, times become nanoseconds, and
//! integers that no double holds exactly become doubles where numbers are declared.

use std::time::Duration;

use crate::time_text::parse_time;
use crate::{Attributes, EventType, Field, FieldType, Problem, Scalar, Value};

/// Integers up to this one have one double each.
const MAX_EXACT: u64 = 1 << 53;

/// 2^63: the first double above all integers.
const INTEGER_END: f64 = 9_223_372_036_854_775_808.0;

/// Checks that required attributes are there and that declared ones are of their types.
pub(crate) fn check_attributes(
    event_type: &EventType,
    attributes: &mut Attributes<'_>,
) -> Result<(), Problem> {
    let mut fields = event_type.fields.iter().peekable();
    let mut missing = None;
    let mut absent = |field: &'_ Field| {
        if field.required && missing.is_none() {
            missing = Some(field.path.clone());
        }
    };
    for (path, value) in attributes.leaves_mut() {
        while let Some(field) = fields.next_if(|field| *field.path < *path) {
            absent(field);
        }
        match fields.next_if(|field| field.path == path) {
            Some(field) if *value == Value::Null => absent(field),
            Some(field) if convert(field.kind, value) => {}
            Some(field) => return Err(wrong_type(path, field.kind.name())),
            None if *value == Value::Null => {}
            None => check_undeclared(&event_type.fields, path)?,
        }
    }
    fields.for_each(absent);
    match missing {
        Some(path) => Err(Problem::new(
            400,
            "ingest.attribute-missing",
            format!("attribute {path} is required"),
        )),
        None => Ok(()),
    }
}

/// An attribute that is not declared is fine, unless it is an object where a value is declared, or
/// a value where an object is.
fn check_undeclared(fields: &[Field], path: &str) -> Result<(), Problem> {
    let dots = path.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
    for (dot, _) in dots {
        let outer = &path[..dot];
        if let Ok(at) = fields.binary_search_by(|field| (*field.path).cmp(outer)) {
            return Err(wrong_type(outer, fields[at].kind.name()));
        }
    }
    // Fields below the path follow on all that is less than the path with a dot.
    let below = fields.partition_point(|field| match field.path.strip_prefix(path) {
        Some(rest) => rest.as_bytes().first().is_none_or(|byte| *byte < b'.'),
        None => *field.path < *path,
    });
    let rest = fields
        .get(below)
        .and_then(|field| field.path.strip_prefix(path));
    if rest.is_some_and(|rest| rest.starts_with('.')) {
        return Err(wrong_type(path, "object"));
    }
    Ok(())
}

fn wrong_type(path: &str, kind: &str) -> Problem {
    let detail = format!("attribute {path} must be {kind}");
    Problem::new(400, "ingest.attribute-type", detail)
}

/// Whether a value is of a type; brings it into the form of that type.
fn convert(kind: FieldType, value: &mut Value<'_>) -> bool {
    match value {
        Value::Scalar(scalar) if !kind.is_list() => convert_scalar(kind, scalar),
        Value::List(list) if kind.is_list() => list
            .iter_mut()
            .all(|scalar| convert_scalar(kind.element(), scalar)),
        _ => false,
    }
}

fn convert_scalar(kind: FieldType, scalar: &mut Scalar<'_>) -> bool {
    match (kind, &*scalar) {
        (FieldType::Integer | FieldType::Timestamp, Scalar::Number(number)) => {
            let is_integer = number.fract() == 0.0 && (-INTEGER_END..INTEGER_END).contains(number);
            if is_integer {
                *scalar = Scalar::Integer(*number as i64);
            }
            is_integer
        }
        (FieldType::Timestamp, Scalar::Text(text)) => match parse_time(text) {
            Some(ns) => {
                *scalar = Scalar::Integer(ns);
                true
            }
            None => false,
        },
        (FieldType::Number, Scalar::Integer(integer)) => {
            if integer.unsigned_abs() > MAX_EXACT {
                *scalar = Scalar::Number(*integer as f64);
            }
            true
        }
        (FieldType::Integer | FieldType::Timestamp, Scalar::Integer(_))
        | (FieldType::Number, Scalar::Number(_))
        | (FieldType::String, Scalar::Text(_))
        | (FieldType::Boolean, Scalar::Boolean(_)) => true,
        _ => false,
    }
}

/// Checks that an event lies within what is kept of its type.
pub(crate) fn check_retention(
    event_type: &EventType,
    now_ns: i64,
    started_ns: i64,
    ended_ns: Option<i64>,
) -> Result<(), Problem> {
    let oldest_ns = now_ns
        .saturating_sub(duration_ns(event_type.retention))
        .max(0);
    let first_ns = ended_ns.map_or(started_ns, |ended_ns| ended_ns.min(started_ns));
    if first_ns < oldest_ns {
        let name = &event_type.name;
        return Err(Problem::new(
            400,
            "ingest.outside-retention",
            format!("the event is older than events of type {name} are kept"),
        ));
    }
    Ok(())
}

/// Nanoseconds, as many as there can be.
pub(crate) fn duration_ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl FieldType {
    /// As problems have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Timestamp => "timestamp",
            Self::ArrayOfString => "array of string",
            Self::ArrayOfInteger => "array of integer",
            Self::ArrayOfNumber => "array of number",
            Self::ArrayOfBoolean => "array of boolean",
            Self::ArrayOfTimestamp => "array of timestamp",
        }
    }
}
