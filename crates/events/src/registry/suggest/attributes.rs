//! What the samples show of one attribute.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::registry::FieldType;

/// Beyond this, values are many, however many there are.
const DISTINCT_MAX: usize = 50;

#[derive(Default)]
pub(super) struct AttributeStats {
    /// Samples that have it.
    pub(super) present: usize,
    kinds: BTreeSet<Kind>,
    /// In their JSON text.
    values: BTreeSet<String>,
    has_list: bool,
    has_single: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Boolean,
    Integer,
    Number,
    Text,
    Timestamp,
    /// Nothing that a schema could say: lists of lists, or of objects.
    Other,
}

impl AttributeStats {
    pub(super) fn add(&mut self, value: &Value) {
        self.present += 1;
        match value {
            Value::Array(elements) => {
                self.has_list = true;
                elements.iter().for_each(|element| self.add_scalar(element));
            }
            scalar => {
                self.has_single = true;
                self.add_scalar(scalar);
            }
        }
    }

    fn add_scalar(&mut self, value: &Value) {
        let kind = match value {
            Value::Bool(_) => Kind::Boolean,
            Value::Number(number) if number.is_i64() => Kind::Integer,
            Value::Number(_) => Kind::Number,
            Value::String(text) if is_timestamp(text) => Kind::Timestamp,
            Value::String(_) => Kind::Text,
            Value::Null | Value::Array(_) | Value::Object(_) => Kind::Other,
        };
        self.kinds.insert(kind);
        if self.values.len() <= DISTINCT_MAX {
            self.values.insert(value.to_string());
        }
    }

    /// How many values were seen; there may be more if there are many.
    pub(super) fn distinct(&self) -> usize {
        self.values.len()
    }

    /// The one type that all values have.
    pub(super) fn field_type(&self) -> Option<FieldType> {
        let kinds: Vec<Kind> = self.kinds.iter().copied().collect();
        let scalar = match kinds[..] {
            [Kind::Boolean] => FieldType::Boolean,
            [Kind::Integer] => FieldType::Integer,
            [Kind::Number] | [Kind::Integer, Kind::Number] => FieldType::Number,
            [Kind::Text] | [Kind::Text, Kind::Timestamp] => FieldType::String,
            [Kind::Timestamp] => FieldType::Timestamp,
            _ => return None,
        };
        match (self.has_list, self.has_single) {
            (true, false) => Some(scalar.list()),
            (false, true) => Some(scalar),
            _ => None,
        }
    }

    /// Whether few values come again and again.
    pub(super) fn is_dimension(&self, kind: FieldType) -> bool {
        let distinct = self.distinct();
        let comes_again = distinct <= DISTINCT_MAX && distinct * 2 <= self.present;
        match kind {
            FieldType::Boolean => true,
            FieldType::String | FieldType::Integer => comes_again,
            _ => false,
        }
    }
}

/// `2026-11-09T10:00:01.25Z` and the like.
fn is_timestamp(text: &str) -> bool {
    let shape = "dddd-dd-ddtdd:dd:dd";
    let is_like = |(c, shape): (char, char)| match shape {
        'd' => c.is_ascii_digit(),
        't' => matches!(c, 'T' | 't' | ' '),
        other => c == other,
    };
    let Some((start, rest)) = text.split_at_checked(shape.len()) else {
        return false;
    };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let is_zone = match rest.strip_prefix(['+', '-']) {
        Some(offset) => {
            let offset = offset.as_bytes();
            matches!(offset, [a, b, b':', c, d] if [a, b, c, d].iter().all(|c| c.is_ascii_digit()))
        }
        None => matches!(rest, "Z" | "z"),
    };
    is_zone && start.chars().zip(shape.chars()).all(is_like)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_told_from_other_text() {
        for text in [
            "2026-11-09T10:00:01Z",
            "2026-11-09T10:00:01.250Z",
            "2026-11-09t10:00:01+02:00",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "2026-11-09",
            "2026-11-09T10:00:01",
            "",
            "2026-11-09T10:00:01+2",
            "ä",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
