//! Numbers and texts of frames.

use icecore_model::varint::{VarintError, push_varint, take_varint, unzigzag};

use super::FrameError;

type Result<T> = std::result::Result<T, FrameError>;

pub(super) fn push_float(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// What is left of a payload.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.0.split_first().ok_or(FrameError::Short)?;
        self.0 = rest;
        Ok(*byte)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64> {
        take_varint(&mut self.0).map_err(|error| match error {
            VarintError::Truncated => FrameError::Short,
            VarintError::Overflow => FrameError::Malformed("oversized varint"),
        })
    }

    #[inline]
    pub(super) fn zigzag(&mut self) -> Result<i64> {
        self.varint().map(unzigzag)
    }

    pub(super) fn float(&mut self) -> Result<f64> {
        let (bits, rest) = self.0.split_first_chunk().ok_or(FrameError::Short)?;
        self.0 = rest;
        Ok(f64::from_bits(u64::from_le_bytes(*bits)))
    }

    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let length = usize::try_from(length).map_err(|_| FrameError::Short)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(FrameError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn text(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        self.take(length)
    }

    /// A count of elements that take at least `each` bytes: checked against what follows.
    pub(super) fn count(&mut self, each: usize) -> Result<usize> {
        let count = self.varint()?;
        let most = (self.0.len() / each.max(1)) as u64;
        if count > most {
            return Err(FrameError::Short);
        }
        Ok(count as usize)
    }
}
