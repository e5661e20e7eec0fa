//! Reading and changing a document that keeps its order.

use std::borrow::Cow;

use crate::json::{Json, push_text};

/// An object of a document.
pub(super) struct Object<'a, 'd>(pub(super) &'a mut Vec<(Cow<'d, str>, Json<'d>)>);

/// The members of a value that is an object.
pub(super) fn object<'a, 'd>(value: &'a mut Json<'d>) -> Option<Object<'a, 'd>> {
    match value {
        Json::Object(members) => Some(Object(members)),
        _ => None,
    }
}

impl<'d> Object<'_, 'd> {
    pub(super) fn get(&self, name: &str) -> Option<&Json<'d>> {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Json<'d>> {
        let found = self.0.iter_mut().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    /// The elements of a list; none where there is no list.
    pub(super) fn elements(&mut self, name: &str) -> &mut [Json<'d>] {
        match self.get_mut(name) {
            Some(Json::Array(elements)) => elements,
            _ => &mut [],
        }
    }

    /// A text that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Json::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Json::Bool(true)))
    }

    pub(super) fn set(&mut self, name: &'static str, value: Json<'d>) {
        match self.get_mut(name) {
            Some(known) => *known = value,
            None => self.0.push((name.into(), value)),
        }
    }

    pub(super) fn set_text(&mut self, name: &'static str, text: impl Into<String>) {
        self.set(name, Json::Text(Cow::Owned(text.into())));
    }

    /// Whether its data source says that it is one of OpenTSDB's kind.
    pub(super) fn is_of_opentsdb(&self) -> bool {
        self.datasource_type() == Some("opentsdb")
    }

    /// The kind of its data source, where it says that.
    pub(super) fn datasource_type(&self) -> Option<&str> {
        self.get("datasource")?.get("type")?.text()
    }
}

/// The data source of Prometheus' kind.
pub(super) fn datasource<'d>(kind: &str, uid: &str) -> Json<'d> {
    let text = |text: &str| Json::Text(Cow::Owned(text.to_owned()));
    Json::Object(vec![("type".into(), text(kind)), ("uid".into(), text(uid))])
}

/// The document with two blanks for each level, as Grafana writes it.
pub(super) fn pretty(value: &Json<'_>) -> String {
    let mut out = String::new();
    push_value(&mut out, value, 0);
    out.push('\n');
    out
}

fn push_value(out: &mut String, value: &Json<'_>, level: usize) {
    let new_line = |out: &mut String, level: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(level));
    };
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(text) => out.push_str(text),
        Json::Text(text) => push_text(out, text),
        Json::Array(elements) if elements.is_empty() => out.push_str("[]"),
        Json::Array(elements) => {
            for (i, element) in elements.iter().enumerate() {
                out.push(if i == 0 { '[' } else { ',' });
                new_line(out, level + 1);
                push_value(out, element, level + 1);
            }
            new_line(out, level);
            out.push(']');
        }
        Json::Object(members) if members.is_empty() => out.push_str("{}"),
        Json::Object(members) => {
            for (i, (name, member)) in members.iter().enumerate() {
                out.push(if i == 0 { '{' } else { ',' });
                new_line(out, level + 1);
                push_text(out, name);
                out.push_str(": ");
                push_value(out, member, level + 1);
            }
            new_line(out, level);
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_keep_their_order_and_numbers() {
        let text = r#"{"b":[1.50,{"x":null}],"a":{},"c":[],"d":"ü\""}"#;
        let mut document = Json::parse(text).unwrap();
        let mut root = object(&mut document).unwrap();
        root.set_text("e", "new");
        root.set("a", Json::Bool(true));
        let expected = "{\n  \"b\": [\n    1.50,\n    {\n      \"x\": null\n    }\n  ],\n  \
                        \"a\": true,\n  \"c\": [],\n  \"d\": \"ü\\\"\",\n  \"e\": \"new\"\n}\n";
        assert_eq!(pretty(&document), expected);
    }
}
