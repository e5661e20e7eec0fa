//! The symbol table of a 2.0 request, and label bytes made from it.

use icecore_model::METRIC_NAME;
use icecore_model::varint::{push_varint, varint_length};

use crate::WireError;
use crate::prometheus::protobuf::{ProtobufError, Reader, Result, bytes_tag, known};

const SYMBOLS: u32 = bytes_tag(4);
const TIMESERIES: u32 = bytes_tag(5);
const REQUEST_FIELDS: u32 = known(&[4, 5]);
/// Fields of the 1.0 request: reserved in 2.0, which distinguishes the two.
const V1_FIELDS: std::ops::RangeInclusive<u32> = 1..=3;

/// How many bytes [`Symbols::push_short_label`] copies for a name or a value.
const WINDOW: usize = 32;

/// The strings of a request, as ranges of its body. They are checked for UTF-8 where they are used:
/// a bad one affects only what refers to it.
pub(super) struct Symbols<'a> {
    body: &'a [u8],
    /// Eight bytes each: a hostile body has a symbol in every two.
    ranges: Vec<SymbolRange>,
}

#[derive(Clone, Copy)]
struct SymbolRange {
    start: u32,
    length: u32,
}

impl<'a> Symbols<'a> {
    /// Walks the request for its symbols, which may follow the series that use them, and checks
    /// that it is a 2.0 request.
    pub(super) fn collect(body: &'a [u8]) -> std::result::Result<Self, WireError> {
        let mut symbols = Self {
            body,
            ranges: Vec::new(),
        };
        let mut request = Reader::new(body);
        while !request.is_empty() {
            let offset = body.len() - request.len();
            let is_v2 = symbols
                .collect_field(&mut request)
                .map_err(|error| WireError::Protobuf { offset, error })?;
            if !is_v2 {
                return Err(WireError::VersionMismatch {
                    declared: "2.0",
                    found: "1.0",
                });
            }
        }
        match symbols.text(0) {
            None | Some([]) => Ok(symbols),
            Some(_) => Err(WireError::FirstSymbol),
        }
    }

    /// Keeps the field if it is a symbol. False when it is one that only 1.0 has.
    fn collect_field(&mut self, request: &mut Reader<'a>) -> Result<bool> {
        match request.tag()? {
            SYMBOLS => {
                let text = request.bytes()?;
                let start = self.body.len() - request.len() - text.len();
                let (Ok(start), Ok(length)) = (start.try_into(), text.len().try_into()) else {
                    return Err(ProtobufError::TooLong);
                };
                self.ranges.push(SymbolRange { start, length });
            }
            TIMESERIES => request.skip(TIMESERIES)?,
            tag if V1_FIELDS.contains(&(tag >> 3)) => return Ok(false),
            other => request.skip_unknown(other, REQUEST_FIELDS)?,
        }
        Ok(true)
    }

    pub(super) fn text(&self, reference: u32) -> Option<&'a [u8]> {
        self.ranges
            .get(reference as usize)
            .map(|range| self.text_at(*range))
    }

    fn text_at(&self, range: SymbolRange) -> &'a [u8] {
        let start = range.start as usize;
        self.body
            .get(start..start + range.length as usize)
            .unwrap_or_default()
    }

    /// Appends the labels that pairs of references name, encoded as `model::RawLabels`. The
    /// errors are Prometheus'.
    pub(super) fn push_labels(
        &self,
        refs: &[u32],
        labels: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        let (pairs, odd) = refs.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(format!("invalid labelRefs length {}", refs.len()));
        }
        for &[name_ref, value_ref] in pairs {
            let name = self.ranges.get(name_ref as usize);
            let value = self.ranges.get(value_ref as usize);
            let (Some(name), Some(value)) = (name, value) else {
                return Err(format!(
                    "labelRefs {name_ref} (name) = {value_ref} (value) outside of symbols table (size {})",
                    self.ranges.len()
                ));
            };
            if self.push_short_label(labels, *name, *value).is_none() {
                push_label(labels, self.text_at(*name), self.text_at(*value));
            }
        }
        Ok(())
    }

    /// Appends a label whose name and value are short. Each is copied as 32 bytes, beginning two
    /// bytes before its text, and the rest is cut off: a copy of known size is a few moves, and one
    /// of unknown size is a call, of which a series would need twenty. Tag and length take the
    /// place of the two bytes.
    #[inline]
    fn push_short_label(
        &self,
        labels: &mut Vec<u8>,
        name: SymbolRange,
        value: SymbolRange,
    ) -> Option<()> {
        let name_window = self.window(name)?;
        let value_window = self.window(value)?;
        let name_end = 2 + name.length as u8;
        let entry = name_end + 2 + value.length as u8;
        let start = labels.len();
        labels.extend_from_slice(&[0x0a, entry]);
        labels.extend_from_slice(name_window);
        labels.truncate(start + 2 + usize::from(name_end));
        labels.extend_from_slice(value_window);
        let label = labels.get_mut(start + 2..start + 2 + usize::from(entry))?;
        let (name_head, value_head) = label.split_at_mut_checked(usize::from(name_end))?;
        name_head
            .first_chunk_mut::<2>()?
            .copy_from_slice(&[0x0a, name.length as u8]);
        value_head
            .first_chunk_mut::<2>()?
            .copy_from_slice(&[0x12, value.length as u8]);
        labels.truncate(start + 2 + usize::from(entry));
        Some(())
    }

    /// The text of a short symbol with two bytes before it and whatever follows. Before each text
    /// there are its tag and its length, so there are two bytes.
    #[inline]
    fn window(&self, range: SymbolRange) -> Option<&'a [u8; WINDOW]> {
        if range.length as usize > WINDOW - 2 {
            return None;
        }
        self.body
            .get((range.start as usize).checked_sub(2)?..)?
            .first_chunk()
    }

    /// The metric name of a series, empty where it has none.
    pub(super) fn metric_name(&self, refs: &[u32]) -> &'a [u8] {
        let (pairs, _) = refs.as_chunks::<2>();
        pairs
            .iter()
            .find(|[name, _]| self.text(*name) == Some(METRIC_NAME.as_bytes()))
            .and_then(|[_, value]| self.text(*value))
            .unwrap_or_default()
    }
}

/// `model::push_raw_label` for text that is not known to be UTF-8.
#[inline]
fn push_label(labels: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let name_length = varint_length(name.len() as u64) + name.len();
    let value_length = varint_length(value.len() as u64) + value.len();
    labels.push(0x0a);
    push_varint(labels, (2 + name_length + value_length) as u64);
    labels.push(0x0a);
    push_varint(labels, name.len() as u64);
    labels.extend_from_slice(name);
    labels.push(0x12);
    push_varint(labels, value.len() as u64);
    labels.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_model::push_raw_label;
    use proptest::prelude::*;

    /// A request with nothing but symbols.
    fn body_of(symbols: &[&str]) -> Vec<u8> {
        let mut body = Vec::new();
        for symbol in symbols {
            body.push(0x22);
            push_varint(&mut body, symbol.len() as u64);
            body.extend_from_slice(symbol.as_bytes());
        }
        body
    }

    proptest! {
        #[test]
        fn label_bytes_are_those_of_the_model(
            name in prop_oneof![".{0,12}", ".{0,200}"],
            value in prop_oneof![".{0,12}", ".{0,20000}"],
            padding in 0..40usize,
        ) {
            let mut expected = vec![7];
            push_raw_label(&mut expected, &name, &value);
            push_raw_label(&mut expected, &value, &name);
            let body = body_of(&["", &name, &value, &"x".repeat(padding)]);
            let symbols = Symbols::collect(&body).unwrap();
            let mut built = vec![7];
            symbols.push_labels(&[1, 2, 2, 1], &mut built).unwrap();
            prop_assert_eq!(built, expected);
        }
    }

    #[test]
    fn names_at_the_edge_of_the_window() {
        for length in [0, 1, 29, 30, 31, 127, 128] {
            let text = "n".repeat(length);
            for tail in ["", "a tail that is longer than the window of a short label"] {
                let body = body_of(&["", &text, tail]);
                let symbols = Symbols::collect(&body).unwrap();
                let (mut built, mut expected) = (Vec::new(), Vec::new());
                symbols.push_labels(&[1, 0, 0, 1], &mut built).unwrap();
                push_raw_label(&mut expected, &text, "");
                push_raw_label(&mut expected, "", &text);
                assert_eq!(built, expected, "{length}");
            }
        }
    }
}
