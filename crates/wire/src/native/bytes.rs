//! Numbers of frames: varints, zigzag, and floats as bytes.

use super::FrameError;

type Result<T> = std::result::Result<T, FrameError>;

#[inline]
pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(super) fn push_zigzag(out: &mut Vec<u8>, value: i64) {
    push_varint(out, (value << 1 ^ value >> 63) as u64);
}

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
        if let Some((byte, rest)) = self.0.split_first()
            && *byte < 0x80
        {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FrameError::Malformed("a number is too long"))
    }

    #[inline]
    pub(super) fn zigzag(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
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

    /// A count of things of which each takes at least `each` bytes: more cannot follow.
    pub(super) fn count(&mut self, each: usize) -> Result<usize> {
        let count = self.varint()?;
        let most = (self.0.len() / each.max(1)) as u64;
        if count > most {
            return Err(FrameError::Short);
        }
        Ok(count as usize)
    }
}
