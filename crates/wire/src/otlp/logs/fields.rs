//! Attributes as keys and JSON texts, in buffers that are reused.

use std::borrow::Cow;
use std::ops::Range;

use crate::otlp::attributes::read_attribute;
use crate::otlp::value::push_any_json;
use crate::prometheus::protobuf::Result;

/// Attributes in the order in which they came, each key once.
#[derive(Default)]
pub struct LogFields<'a> {
    entries: Vec<(Cow<'a, str>, Range<usize>)>,
    text: Vec<u8>,
    too_deep: bool,
}

impl<'a> LogFields<'a> {
    /// Keys with their values as JSON texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let text = |range: &Range<usize>| &self.text[range.clone()];
        self.entries
            .iter()
            .map(move |(key, range)| (&**key, text(range)))
    }

    /// The JSON text of a value.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.iter().find(|(of, _)| *of == key).map(|(_, text)| text)
    }

    /// The value, if it is a JSON string.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        let value = self.get(key)?;
        let inner = str::from_utf8(value.strip_prefix(b"\"")?.strip_suffix(b"\"")?).ok()?;
        if !inner.contains('\\') {
            return Some(Cow::Borrowed(inner));
        }
        let whole = str::from_utf8(value).ok()?;
        let text = crate::json::JsonReader::new(whole, 1).string().ok()?;
        Some(Cow::Owned(text.into_owned()))
    }

    /// Whether a value is nested deeper than is read.
    pub(super) fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.text.clear();
        self.too_deep = false;
    }

    /// Adds a `KeyValue`.
    pub(super) fn read(&mut self, message: &'a [u8]) -> Result<()> {
        let attribute = read_attribute(message)?;
        let from = self.text.len();
        if !push_any_json(attribute.value, &mut self.text)? {
            self.too_deep = true;
            self.text.truncate(from);
            return Ok(());
        }
        let range = from..self.text.len();
        let key = String::from_utf8_lossy(attribute.key);
        self.entries.push((key, range));
        Ok(())
    }

    /// Leaves each key once, with its last value.
    pub(super) fn keep_last(&mut self) {
        let keys: std::collections::HashSet<&str> =
            self.entries.iter().map(|(key, _)| &**key).collect();
        if keys.len() == self.entries.len() {
            return;
        }
        let mut seen = std::collections::HashSet::new();
        let mut kept = std::mem::take(&mut self.entries);
        kept.reverse();
        kept.retain(|(key, _)| seen.insert(key.clone()));
        kept.reverse();
        self.entries = kept;
    }
}
