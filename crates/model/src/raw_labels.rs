//! Label bytes as remote write sends them, the key under which the head looks a series up.
//!
//! ```text
//! ( 0x0a  varint(entry length)  0x0a varint(len) name  0x12 varint(len) value )*
//! ```
//!
//! Remote write 1.0 requests carry exactly these bytes, so that they are passed on as they arrived
//! and a known series is found without parsing a label. Other protocols build the same bytes.
//! Nothing about them is trusted: [`RawLabels::parse`] checks everything when a series is new.

use thiserror::Error;

use crate::varint::{push_varint, take_varint, varint_length};

/// The labels of one series, encoded as above, in the order the client sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawLabels<'a>(pub &'a [u8]);

/// Why label bytes are not labels.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RawLabelsError {
    #[error("label bytes are malformed")]
    Malformed,
    #[error("label name or value is not valid UTF-8")]
    NotUtf8,
}

impl<'a> RawLabels<'a> {
    /// Appends the pairs, as sent, to `pairs`. The buffer is the caller's so that it can be reused.
    pub fn parse(self, pairs: &mut Vec<(&'a str, &'a str)>) -> Result<(), RawLabelsError> {
        let mut rest = self.0;
        while !rest.is_empty() {
            rest = rest
                .strip_prefix(&[0x0a])
                .ok_or(RawLabelsError::Malformed)?;
            let mut entry = take_bytes(&mut rest)?;
            let (mut name, mut value) = (&[][..], &[][..]);
            while let Some((tag, tail)) = entry.split_first() {
                entry = tail;
                match tag {
                    0x0a => name = take_bytes(&mut entry)?,
                    0x12 => value = take_bytes(&mut entry)?,
                    _ => return Err(RawLabelsError::Malformed),
                }
            }
            let text =
                |bytes: &'a [u8]| std::str::from_utf8(bytes).map_err(|_| RawLabelsError::NotUtf8);
            pairs.push((text(name)?, text(value)?));
        }
        Ok(())
    }
}

/// Appends one label in the encoding of [`RawLabels`].
pub fn push_raw_label(buffer: &mut Vec<u8>, name: &str, value: &str) {
    let length = |text: &str| varint_length(text.len() as u64) + text.len();
    buffer.push(0x0a);
    push_varint(buffer, (2 + length(name) + length(value)) as u64);
    for (tag, text) in [(0x0a, name), (0x12, value)] {
        buffer.push(tag);
        push_varint(buffer, text.len() as u64);
        buffer.extend_from_slice(text.as_bytes());
    }
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], RawLabelsError> {
    let before = rest.len();
    let length = take_varint(rest).map_err(|_| RawLabelsError::Malformed)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    match rest.split_at_checked(length) {
        // A length takes at most five bytes, as protobuf's 32-bit numbers do.
        Some((taken, tail)) if before - rest.len() <= 5 => {
            *rest = tail;
            Ok(taken)
        }
        _ => Err(RawLabelsError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_pushed_is_parsed() {
        let long = "x".repeat(300);
        let pairs = [("__name__", "up"), ("", ""), ("ключ", long.as_str())];
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            push_raw_label(&mut bytes, name, value);
        }
        let mut parsed = Vec::new();
        RawLabels(&bytes).parse(&mut parsed).unwrap();
        assert_eq!(parsed, pairs);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let mut bytes = Vec::new();
        push_raw_label(&mut bytes, "name", "value");
        for end in 1..bytes.len() {
            let result = RawLabels(&bytes[..end]).parse(&mut Vec::new());
            assert_eq!(result, Err(RawLabelsError::Malformed), "cut at {end}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_an_error() {
        let bytes = [0x0a, 6, 0x0a, 1, 0xff, 0x12, 1, b'v'];
        assert_eq!(
            RawLabels(&bytes).parse(&mut Vec::new()),
            Err(RawLabelsError::NotUtf8)
        );
    }

    #[test]
    fn unknown_fields_and_long_varints_are_errors() {
        let malformed = |bytes: &[u8]| {
            assert_eq!(
                RawLabels(bytes).parse(&mut Vec::new()),
                Err(RawLabelsError::Malformed),
                "{bytes:?}"
            );
        };
        malformed(&[0x12, 0]);
        malformed(&[0x0a, 2, 0x1a, 0]);
        malformed(&[0x0a, 3, 0x0a, 2, b'n']);
        malformed(&[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0]);
        malformed(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    }

    #[test]
    fn lengths_around_each_varint_byte() {
        for length in [0, 1, 127, 128, 16_383, 16_384] {
            let value = "v".repeat(length);
            let mut bytes = Vec::new();
            push_raw_label(&mut bytes, "n", &value);
            let mut parsed = Vec::new();
            RawLabels(&bytes).parse(&mut parsed).unwrap();
            assert_eq!(parsed, [("n", value.as_str())], "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_pairs_survive(pairs in prop::collection::vec((any::<String>(), any::<String>()), 0..8)) {
            let mut bytes = Vec::new();
            for (name, value) in &pairs {
                push_raw_label(&mut bytes, name, value);
            }
            let mut parsed = Vec::new();
            RawLabels(&bytes).parse(&mut parsed).unwrap();
            let expected: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            prop_assert_eq!(parsed, expected);
        }

        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..40), seed in any::<bool>()) {
            if seed {
                // Bytes that begin like labels get further.
                bytes.iter_mut().step_by(2).for_each(|byte| *byte = 0x0a);
            }
            let _ = RawLabels(&bytes).parse(&mut Vec::new());
        }
    }
}
