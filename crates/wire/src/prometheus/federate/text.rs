//! The text form: a `# TYPE` line per family, a line with a timestamp per sample.

use std::borrow::Cow;

use super::Kind;
use crate::prometheus::escaping::is_legacy_name;
use crate::prometheus::number::{push_signed, push_text_number};

pub(super) fn push_type(out: &mut Vec<u8>, name: &str, kind: Kind) {
    out.extend_from_slice(b"# TYPE ");
    if is_legacy_name(name) {
        out.extend_from_slice(name.as_bytes());
    } else {
        push_quoted(out, name);
    }
    let kind: &[u8] = match kind {
        Kind::Counter => b" counter\n",
        Kind::Gauge => b" gauge\n",
        // Histograms do not come here.
        Kind::Untyped | Kind::Histogram | Kind::GaugeHistogram => b" untyped\n",
    };
    out.extend_from_slice(kind);
}

pub(super) fn push_sample<'a>(
    out: &mut Vec<u8>,
    name: &str,
    labels: impl Iterator<Item = (Cow<'a, str>, &'a str)>,
    value: f64,
    timestamp_ms: i64,
) {
    let mut separator = b'{';
    if is_legacy_name(name) {
        out.extend_from_slice(name.as_bytes());
    } else {
        // A name with other characters is quoted among the labels.
        out.push(b'{');
        push_quoted(out, name);
        separator = b',';
    }
    for (name, value) in labels {
        out.push(separator);
        separator = b',';
        if is_legacy_name(&name) && !name.contains(':') {
            out.extend_from_slice(name.as_bytes());
        } else {
            push_quoted(out, &name);
        }
        out.push(b'=');
        push_quoted(out, value);
    }
    if separator == b',' {
        out.push(b'}');
    }
    out.push(b' ');
    push_text_number(out, value);
    out.push(b' ');
    push_signed(out, timestamp_ms);
    out.push(b'\n');
}

fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'"' => out.extend_from_slice(b"\\\""),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
