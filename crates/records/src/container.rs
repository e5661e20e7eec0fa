//! What the merge operator keeps when it cannot read an operand: all of them, verbatim, in order.
//!
//! ```text
//! 0xff × 8 | (varint length | bytes)*        oldest first
//! ```
//!
//! No valid value begins with eight 0xff bytes: a bucket size is at most 15, a dictionary never
//! repeats an id, a Gorilla count ends within five bytes, a bitmap begins with its cookie, and
//! version bytes are small. Decoders of merged types report such a value as unmerged.

use bytes::Bytes;
use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::Reader;

const MAGIC: [u8; 8] = [0xff; 8];

pub(crate) fn has_magic(value: &[u8]) -> bool {
    value.starts_with(&MAGIC)
}

/// An error for a container, which callers cannot read.
#[inline]
pub(crate) fn refuse(record: &'static str, value: &[u8]) -> Result<(), DecodeError> {
    if has_magic(value) {
        Err(DecodeError::unmerged(record))
    } else {
        Ok(())
    }
}

pub(crate) fn encode(parts: &[Bytes]) -> Bytes {
    let len = parts.iter().map(|part| part.len() + 10).sum::<usize>();
    let mut value = Vec::with_capacity(MAGIC.len() + len);
    value.extend_from_slice(&MAGIC);
    for part in parts {
        push_varint(&mut value, part.len() as u64);
        value.extend_from_slice(part);
    }
    value.into()
}

/// The parts of a container; `None` where the value is none (or a damaged one, which then is itself
/// an operand that cannot be read).
pub(crate) fn decode(value: &Bytes) -> Option<Vec<Bytes>> {
    let body = value.strip_prefix(&MAGIC)?;
    let mut reader = Reader::new("container", body);
    let mut parts = Vec::new();
    while !reader.is_empty() {
        let len = reader.count(1).ok()?;
        parts.push(value.slice_ref(reader.bytes(len).ok()?));
    }
    (!parts.is_empty()).then_some(parts)
}
