//! The JSON of the Prometheus HTTP API, written straight into a buffer.
//!
//! ```text
//! {"status":"success","data":…,"warnings":["…"]}
//! {"status":"error","errorType":"bad_data","error":"…"}
//! ```
//!
//! Strings are escaped as Go's encoder does with HTML escaping off, so that answers can be compared
//! byte for byte with those of Prometheus.

use icecore_model::Labels;

/// The `errorType` of an error answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    BadData,
    Canceled,
    Execution,
    Forbidden,
    Internal,
    NotAcceptable,
    NotFound,
    Timeout,
    Unauthorized,
    Unavailable,
}

impl ErrorType {
    pub fn name(self) -> &'static str {
        match self {
            Self::BadData => "bad_data",
            Self::Canceled => "canceled",
            Self::Execution => "execution",
            Self::Forbidden => "forbidden",
            Self::Internal => "internal",
            Self::NotAcceptable => "not_acceptable",
            Self::NotFound => "not_found",
            Self::Timeout => "timeout",
            Self::Unauthorized => "unauthorized",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Writes a success answer around what `data` writes. Warnings are left out when there are none.
pub fn write_success(out: &mut Vec<u8>, warnings: &[String], data: impl FnOnce(&mut Vec<u8>)) {
    write_success_start(out);
    data(out);
    write_success_end(out, warnings);
}

/// Writes a success answer that has warnings and no data.
pub fn write_success_without_data(out: &mut Vec<u8>, warnings: &[String]) {
    out.extend_from_slice(b"{\"status\":\"success\"");
    write_success_end(out, warnings);
}

/// What comes before the data of a success answer.
pub fn write_success_start(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"status\":\"success\",\"data\":");
}

/// What follows the data.
pub fn write_success_end(out: &mut Vec<u8>, warnings: &[String]) {
    if !warnings.is_empty() {
        out.extend_from_slice(b",\"warnings\":");
        write_string_list(out, warnings);
    }
    out.push(b'}');
}

/// Writes an error answer.
pub fn write_error(out: &mut Vec<u8>, error_type: ErrorType, message: &str) {
    out.extend_from_slice(b"{\"status\":\"error\",\"errorType\":\"");
    out.extend_from_slice(error_type.name().as_bytes());
    out.extend_from_slice(b"\",\"error\":");
    write_string(out, message);
    out.push(b'}');
}

/// Writes a list of strings.
pub fn write_string_list<T: AsRef<str>>(out: &mut Vec<u8>, strings: impl IntoIterator<Item = T>) {
    write_list(out, strings, |out, text| write_string(out, text.as_ref()));
}

/// Writes a list of label sets, the data of `/api/v1/series`.
pub fn write_series_list<'a>(out: &mut Vec<u8>, series: impl IntoIterator<Item = &'a Labels>) {
    write_list(out, series, write_labels);
}

/// Writes a label set as an object.
pub fn write_labels(out: &mut Vec<u8>, labels: &Labels) {
    out.push(b'{');
    for (i, (name, value)) in labels.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write_string(out, value);
    }
    out.push(b'}');
}

/// Writes a list, item by item.
pub fn write_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write_item: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_item(out, item);
    }
    out.push(b']');
}

/// Writes a string with its quotes.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    while let Some(position) = rest.bytes().position(may_need_escape) {
        let (plain, tail) = rest.split_at(position);
        out.extend_from_slice(plain.as_bytes());
        let mut chars = tail.chars();
        if let Some(c) = chars.next() {
            write_char(out, c);
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Whether a character that begins with this byte is possibly written as an escape. 0xe2 begins
/// U+2028 and U+2029, which are line ends to JavaScript.
fn may_need_escape(byte: u8) -> bool {
    matches!(byte, 0..0x20 | b'"' | b'\\' | 0xe2)
}

fn write_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\x08' => out.extend_from_slice(b"\\b"),
        '\x0c' => out.extend_from_slice(b"\\f"),
        '\0'..'\x20' | '\u{2028}' | '\u{2029}' => {
            super::number::push_formatted(out, format_args!("\\u{:04x}", u32::from(c)));
        }
        _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn parsed(write: impl FnOnce(&mut Vec<u8>)) -> Value {
        serde_json::from_str(&written(write)).unwrap()
    }

    proptest! {
        #[test]
        fn every_string_reads_back(text: String) {
            prop_assert_eq!(parsed(|out| write_string(out, &text)), Value::String(text));
        }

        #[test]
        fn every_label_set_reads_back(pairs: Vec<(String, String)>) {
            let labels = Labels::from_pairs(pairs);
            let expected: serde_json::Map<_, _> =
                labels.iter().map(|(n, v)| (n.into(), json!(v))).collect();
            prop_assert_eq!(parsed(|out| write_labels(out, &labels)), Value::Object(expected));
        }
    }

    #[test]
    fn escapes_are_those_of_go() {
        let text = "a\"b\\c\n\r\t\x08\x0c\0\x1f\x7f<&>\u{2028}\u{2029}…é😱";
        let expected = "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0000\\u001f\x7f<&>\\u2028\\u2029…é😱\"";
        assert_eq!(written(|out| write_string(out, text)), expected);
    }

    #[test]
    fn envelopes() {
        assert_eq!(
            written(|out| write_success(out, &[], |out| write_string_list(out, ["a", "b"]))),
            r#"{"status":"success","data":["a","b"]}"#
        );
        let warnings = ["results truncated due to limit".to_string()];
        assert_eq!(
            written(|out| write_success(out, &warnings, |out| write_series_list(out, []))),
            r#"{"status":"success","data":[],"warnings":["results truncated due to limit"]}"#
        );
        assert_eq!(
            written(|out| write_error(out, ErrorType::BadData, "no \"x\"")),
            r#"{"status":"error","errorType":"bad_data","error":"no \"x\""}"#
        );
    }

    #[test]
    fn series_lists() {
        let series = [
            Labels::from_pairs([("__name__", "up"), ("job", "a")]),
            Labels::from_pairs([("__name__", "up")]),
        ];
        assert_eq!(
            written(|out| write_series_list(out, &series)),
            r#"[{"__name__":"up","job":"a"},{"__name__":"up"}]"#
        );
    }
}
