//! Dimensions: the values that split a metric, as text and as a hash.
//!
//! ```text
//! (path bytes | 0x1F | text of the value | 0x1E)* ─► SHA-256 ─► first 16 bytes
//! ```
//!
//! Values are in the order in which their paths are declared; one that is absent is left out. The
//! bytes 0x1B, 0x1E and 0x1F of a value have 0x1B before them, so that no value can look like two.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use icecore_model::event::DimensionHash;

use crate::{Attributes, Value};

const ESCAPE: u8 = 0x1b;
const END_OF_VALUE: u8 = 0x1e;
const END_OF_PATH: u8 = 0x1f;

/// The value of a dimension as text; nothing for what is as good as absent. A list is its JSON
/// text: the elements joined would make one of `["a,b"]` and `["a","b"]`.
pub fn dimension_text<'v>(value: &'v Value<'_>) -> Option<Cow<'v, str>> {
    match value {
        Value::Null | Value::Json(_) => None,
        Value::Scalar(scalar) => Some(scalar.to_text()),
        Value::List(list) => {
            let mut text = String::new();
            crate::json_text::push_list(&mut text, list);
            Some(Cow::Owned(text))
        }
    }
}

/// Gathers values and hashes them. Reused, it keeps its buffer.
#[derive(Debug, Default)]
pub struct DimensionHasher {
    canonical: Vec<u8>,
}

impl DimensionHasher {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next value in declared order.
    pub fn push(&mut self, path: &str, text: &str) {
        self.canonical.extend_from_slice(path.as_bytes());
        self.canonical.push(END_OF_PATH);
        let is_special = |byte: &u8| matches!(*byte, ESCAPE | END_OF_VALUE | END_OF_PATH);
        if text.as_bytes().iter().any(is_special) {
            for byte in text.as_bytes() {
                if is_special(byte) {
                    self.canonical.push(ESCAPE);
                }
                self.canonical.push(*byte);
            }
        } else {
            self.canonical.extend_from_slice(text.as_bytes());
        }
        self.canonical.push(END_OF_VALUE);
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.canonical.clear();
    }

    /// What was gathered, which names a set of values as exactly as its hash does.
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The hash of what was gathered; begins anew.
    pub fn finish(&mut self) -> DimensionHash {
        let mut hash = DimensionHash::default();
        let all = digest(&SHA256, &self.canonical);
        let length = hash.0.len();
        hash.0.copy_from_slice(&all.as_ref()[..length]);
        self.canonical.clear();
        hash
    }

    /// The hash of the attributes at some paths, in the order of the paths.
    pub fn hash_attributes<'p>(
        &mut self,
        attributes: &Attributes<'_>,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> DimensionHash {
        self.canonical.clear();
        for path in paths {
            if let Some(text) = attributes.get(path).and_then(dimension_text) {
                self.push(path, &text);
            }
        }
        self.finish()
    }
}

/// The hash of values that are known as text, in declared order.
pub fn dimension_hash<'t>(values: impl IntoIterator<Item = (&'t str, &'t str)>) -> DimensionHash {
    let mut hasher = DimensionHasher::new();
    for (path, text) in values {
        hasher.push(path, text);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scalar;

    #[test]
    fn known_hashes() {
        let hex = |hash: DimensionHash| hash.0.map(|byte| format!("{byte:02x}")).concat();
        // The beginning of SHA-256 of nothing.
        assert_eq!(hex(dimension_hash([])), "e3b0c44298fc1c149afbf4c8996fb924");
        let mut hasher = DimensionHasher::new();
        hasher.push("order.channel", "we\u{1e}b");
        assert_eq!(hasher.canonical(), b"order.channel\x1fwe\x1b\x1eb\x1e");
        assert_eq!(
            hasher.finish(),
            dimension_hash([("order.channel", "we\u{1e}b")])
        );
        assert!(hasher.canonical().is_empty());
        let split = dimension_hash([("a", "b"), ("c", "d")]);
        assert_ne!(split, dimension_hash([("a", "b\u{1e}c\u{1f}d")]));
        assert_ne!(split, dimension_hash([("c", "d"), ("a", "b")]));
    }

    #[test]
    fn absent_values_are_left_out() {
        let leaves = vec![
            ("a".into(), Value::Null),
            ("b".into(), Value::Scalar(Scalar::Number(200.0))),
            (
                "c".into(),
                Value::List(vec![Scalar::Text("x".into()), Scalar::Integer(2)]),
            ),
        ];
        let attributes = Attributes::from_leaves(leaves).unwrap();
        let found = DimensionHasher::new().hash_attributes(&attributes, ["c", "none", "a", "b"]);
        assert_eq!(found, dimension_hash([("c", "[\"x\",2]"), ("b", "200")]));
    }
}
