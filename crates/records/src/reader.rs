//! A checked walk over the bytes of one value.
//!
//! Holds always:
//! - No read goes past the end, no length is used before it is checked against the bytes that
//!   follow.
//! - An integer has one accepted length limit: a varint of more than 10 bytes, or one that does not
//!   fit its type, is an error.

use icecore_model::varint::{push_varint, read_varint, unzigzag};

use crate::DecodeError;

pub(crate) struct Reader<'a> {
    record: &'static str,
    all: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(record: &'static str, all: &'a [u8]) -> Self {
        Self {
            record,
            all,
            position: 0,
        }
    }

    pub(crate) fn error(&self, reason: &'static str) -> DecodeError {
        DecodeError::new(self.record, self.position, reason)
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn remaining(&self) -> usize {
        self.all.len() - self.position
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Everything not yet read.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.all[self.position..];
        self.position = self.all.len();
        rest
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.error("bytes after the end"))
        }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let end = self
            .position
            .checked_add(len)
            .filter(|&end| end <= self.all.len());
        let end = end.ok_or_else(|| self.error("truncated"))?;
        let taken = &self.all[self.position..end];
        self.position = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.bytes(N)?;
        Ok(taken
            .try_into()
            .expect("bytes() returns exactly what was asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// The version byte that most values begin with.
    pub(crate) fn version(&mut self, expected: u8) -> Result<(), DecodeError> {
        if self.u8()? == expected {
            Ok(())
        } else {
            Err(self.error("unknown version"))
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        match read_varint(self.all, self.position) {
            Ok((value, next)) => {
                self.position = next;
                Ok(value)
            }
            Err(_) => Err(self.error("truncated or oversized varint")),
        }
    }

    pub(crate) fn varint32(&mut self) -> Result<u32, DecodeError> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.error("number does not fit 32 bits"))
    }

    pub(crate) fn zigzag(&mut self) -> Result<i64, DecodeError> {
        Ok(unzigzag(self.varint()?))
    }

    /// A number of elements that follow, each of at least `min_bytes`, so that a false count cannot
    /// reserve memory.
    pub(crate) fn count(&mut self, min_bytes: usize) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() / min_bytes => Ok(count),
            _ => Err(self.error("more elements than bytes")),
        }
    }

    /// Text after a varint length.
    /// Bytes behind their number.
    pub(crate) fn counted_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.count(1)?;
        self.bytes(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let len = self.count(1)?;
        self.utf8(len)
    }

    /// Text after a u16 length: `Utf8` in `docs/storage-format.md`.
    pub(crate) fn text16(&mut self) -> Result<&'a str, DecodeError> {
        let len = self.u16()?;
        self.utf8(len.into())
    }

    fn utf8(&mut self, len: usize) -> Result<&'a str, DecodeError> {
        let bytes = self.bytes(len)?;
        std::str::from_utf8(bytes).map_err(|_| self.error("text is not UTF-8"))
    }
}

pub(crate) fn push_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(buffer, bytes.len() as u64);
    buffer.extend_from_slice(bytes);
}

pub(crate) fn push_text(buffer: &mut Vec<u8>, text: &str) {
    push_bytes(buffer, text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_false_count_is_refused_before_memory_is_taken() {
        let mut reader = Reader::new("test", &[200, 1, 0, 0]);
        assert_eq!(
            reader.count(1).unwrap_err().reason,
            "more elements than bytes"
        );
    }
}
