//! `KeyValue { string key = 1; AnyValue value = 2; }`, read without copying.

use crate::prometheus::protobuf::{Reader, Result, bytes_tag, known};

const KEY: u32 = bytes_tag(1);
const VALUE: u32 = bytes_tag(2);

#[derive(Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub(super) key: &'a [u8],
    /// An `AnyValue` message; empty where there is none.
    pub(super) value: &'a [u8],
}

#[inline]
pub(super) fn read_attribute(message: &[u8]) -> Result<Attribute<'_>> {
    let mut attribute = Attribute {
        key: &[],
        value: &[],
    };
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            KEY => attribute.key = reader.bytes()?,
            VALUE => attribute.value = reader.bytes()?,
            other => reader.skip_unknown(other, known(&[1, 2]))?,
        }
    }
    Ok(attribute)
}
