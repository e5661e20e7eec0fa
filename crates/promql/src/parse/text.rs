//! Quoted strings, read and written as in Go.

use std::fmt::{self, Write};

/// The value of a string token. Escapes can give invalid UTF-8 (`"\xff"`), so the result is bytes.
/// The lexer has checked the escapes; an invalid one stands for itself.
pub(super) fn unquote(token: &str) -> Vec<u8> {
    let inner = token.get(1..token.len().saturating_sub(1)).unwrap_or("");
    if token.starts_with('`') {
        return inner.as_bytes().to_vec();
    }
    let mut value = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        value.extend_from_slice(before.as_bytes());
        let length = push_escaped(escape, &mut value);
        rest = escape.get(length..).unwrap_or("");
    }
    value.extend_from_slice(rest.as_bytes());
    value
}

/// Appends the value of the escape at the start of `text` and returns its length in bytes.
fn push_escaped(text: &str, value: &mut Vec<u8>) -> usize {
    let Some(letter) = text.chars().nth(1) else {
        value.push(b'\\');
        return 1;
    };
    let numeric = |digits: std::ops::Range<usize>, radix| {
        let number = text.get(digits)?;
        u32::from_str_radix(number, radix).ok()
    };
    let single = match letter {
        'a' => b'\x07',
        'b' => b'\x08',
        'f' => b'\x0c',
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => b'\x0b',
        'x' => {
            value.push(numeric(2..4, 16).map_or(b'?', |code| code.to_le_bytes()[0]));
            return 4;
        }
        '0'..='7' => {
            value.push(numeric(1..4, 8).map_or(b'?', |code| code.to_le_bytes()[0]));
            return 4;
        }
        'u' | 'U' => {
            let length = if letter == 'u' { 6 } else { 10 };
            let code = numeric(2..length, 16).and_then(char::from_u32);
            let c = code.unwrap_or(char::REPLACEMENT_CHARACTER);
            value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return length;
        }
        other => {
            value.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
            return 1 + other.len_utf8();
        }
    };
    value.push(single);
    2
}

/// The text in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    // Writing to a string cannot fail.
    let _ = write_quoted(&mut out, text.as_bytes());
    out
}

/// Writes bytes in double quotes; those that are not UTF-8 as `\x…`.
pub(super) fn write_quoted(out: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    out.write_char('"')?;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            write_char(out, c)?;
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    out.write_char('"')
}

fn write_char(out: &mut impl Write, c: char) -> fmt::Result {
    match c {
        '"' => out.write_str("\\\""),
        '\\' => out.write_str("\\\\"),
        '\x07' => out.write_str("\\a"),
        '\x08' => out.write_str("\\b"),
        '\x0c' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\x0b' => out.write_str("\\v"),
        // As in Prometheus, the lexer rejects this character but not its escape.
        char::REPLACEMENT_CHARACTER => out.write_str("\\ufffd"),
        c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)),
        c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)),
        c => out.write_char(c),
    }
}

/// A label name, quoted if necessary.
pub(super) fn write_label_name(out: &mut impl Write, name: &str) -> fmt::Result {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if plain {
        out.write_str(name)
    } else {
        write_quoted(out, name.as_bytes())
    }
}

/// A character as Go's `%q` writes it; the end of the text as Go's replacement for no character.
pub(super) fn quoted_char(c: Option<char>) -> String {
    match c.unwrap_or(char::REPLACEMENT_CHARACTER) {
        '\'' => "'\\''".to_string(),
        '"' => "'\"'".to_string(),
        char::REPLACEMENT_CHARACTER => "'\u{fffd}'".to_string(),
        c => {
            let mut out = String::from("'");
            let _ = write_char(&mut out, c);
            out.push('\'');
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_mean_what_they_mean_in_go() {
        let cases: [(&str, &[u8]); 7] = [
            (r#""a\n\t\\\"b""#, b"a\n\t\\\"b"),
            (r"'it\'s'", b"it's"),
            (r"`raw \n`", b"raw \\n"),
            (r#""\x41\101\u00e9\U0001F600""#, "AAé😀".as_bytes()),
            (r#""a\xc5z""#, b"a\xc5z"),
            (r#""\a\b\f\v\r""#, b"\x07\x08\x0c\x0b\r"),
            (r#""""#, b""),
        ];
        for (token, expected) in cases {
            assert_eq!(unquote(token), expected, "{token}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["", "a\"b\\c", "\n\u{7f}\u{85}\u{fffd}", "größe"] {
            assert_eq!(unquote(&quoted(text)), text.as_bytes());
        }
        let mut out = String::new();
        write_quoted(&mut out, b"a\xc5z").unwrap();
        assert_eq!(out, r#""a\xc5z""#);
    }
}
