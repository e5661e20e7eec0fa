//! Writes objects of JSON.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use crate::json::push_text;

/// An object that is being written; it ends when it is dropped.
pub(crate) struct ObjectWriter<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn new(out: &'a mut String) -> Self {
        out.push('{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Begins a member; its value has to follow.
    pub(crate) fn member(&mut self, name: &str) -> &mut String {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        push_text(self.out, name);
        self.out.push(':');
        self.out
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        push_text(self.member(name), value);
        self
    }

    /// A number, bool or `null`.
    pub(crate) fn plain(&mut self, name: &str, value: impl Display) -> &mut Self {
        let _ = write!(self.member(name), "{value}");
        self
    }

    /// A map of texts, or `null`.
    pub(crate) fn map(&mut self, name: &str, map: Option<&BTreeMap<String, String>>) -> &mut Self {
        let out = self.member(name);
        match map {
            None => out.push_str("null"),
            Some(map) => push_map(out, map),
        }
        self
    }
}

impl Drop for ObjectWriter<'_> {
    fn drop(&mut self) {
        self.out.push('}');
    }
}

/// Appends a map of texts.
pub(crate) fn push_map(out: &mut String, map: &BTreeMap<String, String>) {
    let mut object = ObjectWriter::new(out);
    for (key, value) in map {
        object.text(key, value);
    }
}

/// Appends `[…]`, each element by `push`.
pub(crate) fn push_array<T>(
    out: &mut String,
    elements: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (i, element) in elements.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push(out, element);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_written_member_by_member() {
        let mut out = String::new();
        let custom = BTreeMap::from([("a".into(), "\"".into())]);
        let mut object = ObjectWriter::new(&mut out);
        object.text("t", "x").plain("n", 5).map("no", None);
        object.map("m", Some(&custom));
        push_array(object.member("list"), [1, 2], |out, n| {
            out.push_str(&n.to_string())
        });
        drop(object);
        assert_eq!(
            out,
            r#"{"t":"x","n":5,"no":null,"m":{"a":"\""},"list":[1,2]}"#
        );
    }
}
