//! JSON values as YAML that people read and change.
//!
//! Holds always: what is written reads back as the same value, text as text and numbers as numbers.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// A map as a document, with a line end behind it.
pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0, false),
        other => {
            write_flow(&mut out, other);
            out.push('\n');
        }
    }
    out
}

fn write_map(out: &mut String, map: &Map<String, Value>, indent: usize, first_is_placed: bool) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 || !first_is_placed {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        write_text(out, key);
        out.push(':');
        match value {
            Value::Object(map) if !is_short(value) => {
                out.push('\n');
                write_map(out, map, indent + 2, false);
            }
            Value::Array(list) if list.iter().any(Value::is_object) => {
                out.push('\n');
                for element in list {
                    write_element(out, element, indent + 2);
                }
            }
            other => {
                out.push(' ');
                write_flow(out, other);
                out.push('\n');
            }
        }
    }
}

fn write_element(out: &mut String, element: &Value, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
    out.push_str("- ");
    match element {
        Value::Object(map) if !is_short(element) => write_map(out, map, indent + 2, true),
        other => {
            write_flow(out, other);
            out.push('\n');
        }
    }
}

/// Whether a map is read best in one line: a few words and numbers.
fn is_short(value: &Value) -> bool {
    let is_word = |value: &Value| match value {
        Value::String(text) => text.len() < 30,
        Value::Array(list) => list.len() < 4 && list.iter().all(|element| !element.is_object()),
        other => !other.is_object(),
    };
    match value {
        Value::Object(map) => map.len() < 4 && map.values().all(is_word),
        _ => false,
    }
}

fn write_flow(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        Value::Array(list) => {
            out.push('[');
            for (index, element) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_flow(out, element);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, value)) in map.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_text(out, key);
                out.push_str(": ");
                write_flow(out, value);
            }
            out.push('}');
        }
        plain => {
            let _ = write!(out, "{plain}");
        }
    }
}

fn write_text(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push('"');
}

/// Whether nothing in a text could be taken for something else.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_word = WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
        && text.parse::<f64>().is_err()
        && !is_word
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_that_looks_like_something_else_is_quoted() {
        for (text, written) in [
            ("order.placed", "order.placed"),
            ("30d", "30d"),
            ("5xx", "5xx"),
            ("5", "\"5\""),
            ("1e3", "\"1e3\""),
            ("Infinity", "\"Infinity\""),
            ("No", "\"No\""),
            ("null", "\"null\""),
            ("", "\"\""),
            ("-", "\"-\""),
            ("a: b", "\"a: b\""),
            ("a\n\"é", "\"a\\U0000000a\\\"\\U000000e9\""),
        ] {
            let mut out = String::new();
            write_text(&mut out, text);
            assert_eq!(out, written);
        }
    }

    #[test]
    fn maps_are_written_in_lines() {
        let value = json!({"a": {"b": {"c": 1, "d": {}}}, "e": [{"f": "g"}], "h": [1.5, "x"]});
        let expected = "a:\n  b:\n    c: 1\n    d: {}\ne:\n  - {f: g}\nh: [1.5, x]\n";
        assert_eq!(document(&value), expected);
        assert_eq!(document(&json!({})), "{}\n");
    }
}
