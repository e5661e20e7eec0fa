//! Quoted strings as PromQL (and Go) writes them, so that what is printed can be parsed again.

use std::fmt::{self, Write};

/// Writes `text` in double quotes. Rust's own `{:?}` would not do: its `\u{7f}` is not PromQL.
pub(crate) fn write_quoted(f: &mut impl Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\x07' => f.write_str("\\a")?,
            '\x08' => f.write_str("\\b")?,
            '\x0c' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\x0b' => f.write_str("\\v")?,
            c if c.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(c))?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Writes a label name, in quotes where PromQL needs them.
pub(crate) fn write_label_name(f: &mut impl Write, name: &str) -> fmt::Result {
    if is_plain_label_name(name) {
        f.write_str(name)
    } else {
        write_quoted(f, name)
    }
}

fn is_plain_label_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> String {
        let mut out = String::new();
        write_quoted(&mut out, text).unwrap();
        out
    }

    #[test]
    fn escapes_are_those_of_promql() {
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(quoted("\n\t\r\x07\x08\x0b\x0c"), r#""\n\t\r\a\b\v\f""#);
        assert_eq!(quoted("\0\x7f\u{85}"), r#""\x00\x7f\u0085""#);
        assert_eq!(quoted("größe 'x' 日本"), "\"größe 'x' 日本\"");
    }

    #[test]
    fn plain_label_names() {
        for name in ["a", "_", "__name__", "A9"] {
            assert!(is_plain_label_name(name), "{name}");
        }
        for name in ["", "9a", "a.b", "ключ", "a b", "a:b"] {
            assert!(!is_plain_label_name(name), "{name}");
        }
    }
}
