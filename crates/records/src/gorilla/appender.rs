//! The encoder, which is also the head's open chunk: 64 bytes per series plus the stream itself.

use icecore_model::varint::{push_varint, push_zigzag};
use thiserror::Error;

use super::classes::{CLASS_OF_WIDTH, PAYLOAD_BITS, WIDE_CLASS, payload, width};

/// No sample lies so far before its neighbours that a window of this many leading zeros exists, so
/// the first XOR always opens a window.
const NO_WINDOW: u8 = u8::MAX;

/// The leading zeros of a window have five bits.
const MAX_LEADING: u32 = 31;

/// Bits of a code that opens a window, and of one that uses the last.
const NEW_WINDOW_BITS: u32 = 13;
const SAME_WINDOW_BITS: u32 = 2;

/// A sample that is not after the last one.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("sample is not after the last one")]
pub struct NotIncreasing;

/// A stream that grows. It takes no heap before its second sample.
#[derive(Clone, Debug)]
pub struct Appender {
    /// First timestamp and value, then the full words of the bit stream.
    bytes: Vec<u8>,
    /// The bits that do not fill a word yet, from the top.
    pending: u64,
    timestamp: i64,
    delta: i64,
    value: u64,
    count: u32,
    pending_bits: u8,
    leading: u8,
    significant: u8,
}

impl Default for Appender {
    fn default() -> Self {
        Self::new()
    }
}

impl Appender {
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            pending: 0,
            timestamp: 0,
            delta: 0,
            value: 0,
            count: 0,
            pending_bits: 0,
            leading: NO_WINDOW,
            significant: 0,
        }
    }

    /// With room for about so many samples of two bytes.
    pub(super) fn with_capacity(samples: usize) -> Self {
        let mut appender = Self::new();
        if samples > 1 {
            appender.bytes.reserve(18 + 2 * samples);
        }
        appender
    }

    #[inline]
    pub fn push(&mut self, timestamp_ms: i64, value: f64) -> Result<(), NotIncreasing> {
        if self.count < 2 {
            if self.count == 0 {
                self.timestamp = timestamp_ms;
                self.value = value.to_bits();
                self.count = 1;
                return Ok(());
            }
            if timestamp_ms > self.timestamp {
                push_zigzag(&mut self.bytes, self.timestamp);
                self.bytes.extend_from_slice(&self.value.to_le_bytes());
            }
        }
        if timestamp_ms <= self.timestamp {
            return Err(NotIncreasing);
        }
        let (time_code, time_bits) = self.timestamp_code(timestamp_ms);
        let (head, head_bits, tail, tail_bits) = self.value_code(value.to_bits());
        // The opening of the value code rides along with the timestamp: at most 22 + 13 bits.
        self.write((time_code << head_bits) | head, time_bits + head_bits);
        if tail_bits > 0 {
            self.write(tail, tail_bits);
        }
        self.count += 1;
        Ok(())
    }

    /// Number of samples.
    pub fn len(&self) -> u32 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn last_timestamp(&self) -> Option<i64> {
        (self.count > 0).then_some(self.timestamp)
    }

    pub fn last_value(&self) -> Option<f64> {
        (self.count > 0).then_some(f64::from_bits(self.value))
    }

    /// The stored value for the samples so far; appending may continue.
    pub fn finish(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.bytes.len() + 5 + 18);
        push_varint(&mut value, self.count.into());
        match self.count {
            0 => {}
            1 => {
                push_zigzag(&mut value, self.timestamp);
                value.extend_from_slice(&self.value.to_le_bytes());
            }
            _ => {
                value.extend_from_slice(&self.bytes);
                let pending_bytes = usize::from(self.pending_bits).div_ceil(8);
                value.extend_from_slice(&self.pending.to_be_bytes()[..pending_bytes]);
            }
        }
        value
    }

    /// Heap memory of the appender.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets all samples and frees the memory.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    #[inline(always)]
    fn timestamp_code(&mut self, timestamp: i64) -> (u64, u32) {
        let delta = timestamp.wrapping_sub(self.timestamp);
        let delta_of_delta = delta.wrapping_sub(self.delta);
        self.timestamp = timestamp;
        self.delta = delta;
        let payload = payload(delta_of_delta);
        let width = if delta_of_delta == 0 {
            0
        } else {
            width(payload)
        };
        let class = u32::from(CLASS_OF_WIDTH[width]);
        if class == WIDE_CLASS {
            return self.wide_timestamp_code(payload);
        }
        // All ones but the last bit: class + 1 bits of prefix.
        let bits = PAYLOAD_BITS[class as usize];
        let prefix = (2u64 << class) - 2;
        (
            (prefix << bits) | (payload as u64 & ((1 << bits) - 1)),
            class + 1 + bits,
        )
    }

    /// Writes all but the last bits of the widest class, which does not fit a word.
    #[cold]
    fn wide_timestamp_code(&mut self, payload: i64) -> (u64, u32) {
        self.write((1 << WIDE_CLASS) - 1, WIDE_CLASS);
        self.write(payload as u64 >> 32, 32);
        (payload as u64 & 0xffff_ffff, 32)
    }

    /// The opening of the code with its length, and the significant bits with theirs.
    #[inline(always)]
    fn value_code(&mut self, value: u64) -> (u64, u32, u64, u32) {
        let xor = value ^ self.value;
        self.value = value;
        if xor == 0 {
            return (0, 1, 0, 0);
        }
        let leading = xor.leading_zeros().min(MAX_LEADING);
        let trailing = xor.trailing_zeros();
        let bits = 64 - leading - trailing;
        let window_leading = u32::from(self.leading);
        let window = u32::from(self.significant);
        let window_trailing = 64u32.wrapping_sub(window_leading + window);
        let fits = leading >= window_leading && trailing >= window_trailing;
        if fits && NEW_WINDOW_BITS + bits >= SAME_WINDOW_BITS + window {
            return (0b10, SAME_WINDOW_BITS, xor >> window_trailing, window);
        }
        self.leading = leading as u8;
        self.significant = bits as u8;
        let head = (0b11 << 11) | (u64::from(leading) << 6) | u64::from(bits - 1);
        (head, NEW_WINDOW_BITS, xor >> trailing, bits)
    }

    /// Appends the low `len` bits (1 to 64); the others must be zero.
    #[inline(always)]
    fn write(&mut self, bits: u64, len: u32) {
        let free = 64 - u32::from(self.pending_bits);
        if len < free {
            self.pending |= bits << (free - len);
            self.pending_bits += len as u8;
            return;
        }
        let over = len - free;
        self.bytes
            .extend_from_slice(&(self.pending | (bits >> over)).to_be_bytes());
        self.pending = if over == 0 { 0 } else { bits << (64 - over) };
        self.pending_bits = over as u8;
    }
}
