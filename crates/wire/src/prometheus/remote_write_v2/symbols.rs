//! The symbol table of a 2.0 request, and label bytes made from it.

use icecore_model::METRIC_NAME;

use crate::WireError;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, known, push_varint, varint_length};

const SYMBOLS: u32 = bytes_tag(4);
const TIMESERIES: u32 = bytes_tag(5);
const REQUEST_FIELDS: u32 = known(&[4, 5]);
/// Fields of the 1.0 request: reserved in 2.0 so that the two can be told apart.
const V1_FIELDS: std::ops::RangeInclusive<u32> = 1..=3;

/// The strings of a request, as they lie in its body. Whether they are UTF-8 is checked where they
/// are used: a bad one spoils only what refers to it.
pub(super) struct Symbols<'a>(Vec<&'a [u8]>);

impl<'a> Symbols<'a> {
    /// Walks the request for its symbols, which may lie behind the series that use them, and checks
    /// that it is a 2.0 request.
    pub(super) fn collect(body: &'a [u8]) -> std::result::Result<Self, WireError> {
        let mut symbols = Vec::new();
        let mut request = Reader::new(body);
        while !request.is_empty() {
            let offset = body.len() - request.len();
            let is_v2 = collect_field(&mut request, &mut symbols)
                .map_err(|error| WireError::Protobuf { offset, error })?;
            if !is_v2 {
                return Err(WireError::VersionMismatch {
                    declared: "2.0",
                    found: "1.0",
                });
            }
        }
        match symbols.first() {
            None | Some([]) => Ok(Self(symbols)),
            Some(_) => Err(WireError::FirstSymbol),
        }
    }

    #[inline]
    pub(super) fn text(&self, reference: u32) -> Option<&'a [u8]> {
        self.0.get(reference as usize).copied()
    }

    /// Appends the labels that pairs of references name, encoded as `model::RawLabels`, or says why
    /// they name none. The words are Prometheus'.
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
            let (Some(name), Some(value)) = (self.text(name_ref), self.text(value_ref)) else {
                return Err(format!(
                    "labelRefs {name_ref} (name) = {value_ref} (value) outside of symbols table (size {})",
                    self.0.len()
                ));
            };
            push_label(labels, name, value);
        }
        Ok(())
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

/// Keeps the field if it is a symbol. False when it is one that only 1.0 has.
fn collect_field<'a>(request: &mut Reader<'a>, symbols: &mut Vec<&'a [u8]>) -> Result<bool> {
    match request.tag()? {
        SYMBOLS => symbols.push(request.bytes()?),
        TIMESERIES => request.skip(TIMESERIES)?,
        tag if V1_FIELDS.contains(&(tag >> 3)) => return Ok(false),
        other => request.skip_unknown(other, REQUEST_FIELDS)?,
    }
    Ok(true)
}

/// `model::push_raw_label` for text that is not known to be UTF-8.
#[inline]
fn push_label(labels: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let name_length = varint_length(name.len()) + name.len();
    let value_length = varint_length(value.len()) + value.len();
    labels.push(0x0a);
    push_varint(labels, 2 + name_length + value_length);
    labels.push(0x0a);
    push_varint(labels, name.len());
    labels.extend_from_slice(name);
    labels.push(0x12);
    push_varint(labels, value.len());
    labels.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_model::push_raw_label;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn label_bytes_are_those_of_the_model(name in ".{0,200}", value in ".{0,20000}") {
            let (mut expected, mut built) = (Vec::new(), Vec::new());
            push_raw_label(&mut expected, &name, &value);
            push_label(&mut built, name.as_bytes(), value.as_bytes());
            prop_assert_eq!(built, expected);
        }
    }
}
